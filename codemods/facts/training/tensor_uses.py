"""Whether what is given a tensor may write to it, keep it, or see that it is the same one as before."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, words
from codemods.dataflow.source import last_name
from codemods.dataflow.values import External, Made, library_names, without_none
from codemods.facts.data.arrays import Arrays
from codemods.library.hooks import hooks
from codemods.library.kinds import Kind, kind
from codemods.library.layers import is_recurrent
from codemods.library.losses import is_loss_function, is_stateless_loss
from codemods.library.operations import operation
from codemods.library.operators import Memory, may_be_view
from codemods.library.writing import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module

DESCRIBES = words("shape size ndim dim dtype device numel is_cuda")
_LOOKS = words("builtins.print builtins.len builtins.float builtins.int builtins.bool builtins.str builtins.isinstance")
_IDENTITY = (ast.Is, ast.IsNot)
_SAMPLES = (ast.Compare, ast.BinOp, ast.UnaryOp, ast.FormattedValue, ast.Expr, ast.If, ast.While)
"""What computes something new of what it is given."""
_SHARING = words("numpy data_ptr untyped_storage storage new")
"""Methods whose result is no tensor, and in the same memory; ``x.new(y)`` is in that of ``y``."""
_KEEPING_SHAPE = words("requires_grad_ detach_")
"""What ends in an underscore and changes neither numbers nor shape."""


def written_by(flow: Flow, call: ast.Call) -> list[ast.expr]:
    """The arguments to which a function of torch that is called there may write, besides ``out``."""
    return [node for name in library_names(flow.values(call.func)) for node in written(name, call)]


class TensorUses:
    """Follows a tensor from where it is read into what that is given to."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._arrays = Arrays(flow)
        self._entered: set[tuple[Callee, str]] = set()

    def unsafe(self, module: Module, node: ast.expr) -> ast.AST | None:
        """A use of the tensor, read there, after which it may be another one, or be seen to be the same as before."""
        above = module.parent(node)
        above = module.parent(above) if isinstance(above, ast.keyword) else above
        match above:
            case ast.Subscript():
                is_read = above.value is not node or isinstance(above.ctx, ast.Load)
                if is_read and above.value is node and self._gathers(module, above.slice):
                    return None
                return (self.unsafe(module, above) if above.value is node else None) if is_read else above
            case ast.Tuple() | ast.List() if isinstance(above.ctx, ast.Load):
                is_joined = isinstance(module.parent(above), (ast.BinOp, ast.AugAssign))
                return above if is_joined else self.unsafe(module, above)
            case ast.Compare(ops=ops) if any(isinstance(each, _IDENTITY) for each in ops):
                return None if any(map(_is_none, [above.left, *above.comparators])) else above
            case ast.UnaryOp(ast.UAdd()):
                return self.unsafe(module, above)
            case ast.IfExp(test):
                return None if test is node else self.unsafe(module, above)
            case ast.Attribute():
                return self._of_attribute(module, above)
            case ast.Call():
                return self._of_call(module, above, node)
        is_added = isinstance(above, ast.AugAssign) and above.value is node
        if is_added or isinstance(above, _SAMPLES):
            return None
        return above if isinstance(above, (ast.expr, ast.stmt)) else node  # parameters and comprehensions have no line

    def _gathers(self, module: Module, index: ast.expr) -> bool:
        """Whether an index is a list, an array or a mask: what is gathered by it is in memory of its own."""
        if isinstance(index, (ast.List, ast.Compare)):
            return True
        array = self._arrays.array(module, index) if isinstance(index, (ast.Name, ast.Call)) else None
        made = library_names(self._flow.values(index.func)) if isinstance(index, ast.Call) else frozenset()
        return (array is not None and array.has_axes) or made == {"torch.randperm"}

    def _of_attribute(self, module: Module, node: ast.Attribute) -> ast.AST | None:
        call = module.parent(node)
        if isinstance(call, ast.Call) and call.func is node:
            return self._of_call(module, call, node.value) if node.attr not in DESCRIBES else None
        return None if node.attr in DESCRIBES else node

    def _of_call(self, module: Module, call: ast.Call, node: ast.expr) -> ast.AST | None:
        """What of a call may write to what it is given, or keep it."""
        if call.func is node or not {each.arg for each in call.keywords}.isdisjoint({"out", "inplace"}):
            is_loss = call.func is node and self._computes_loss(call)
            return None if is_loss else call
        if self._computes_loss(call) or library_names(self._flow.values(call.func)) & _LOOKS:
            return None
        if node in written_by(self._flow, call):
            return call
        row, name = operation(self._flow, call), last_name(call.func) or ""
        if row is None:
            return None if self._is_state_of_layer(call, node) or self._is_used_up(call, node) else call
        # ``x.unsqueeze_(0)`` would add an axis in each pass.
        if row.memory is Memory.SELF or name in _SHARING or (name.endswith("_") and name not in _KEEPING_SHAPE):
            return call
        is_shared = row.memory in {Memory.VIEW, Memory.EITHER} or may_be_view(name, len(call.args))
        return self.unsafe(module, call) if is_shared else None

    def _computes_loss(self, call: ast.Call) -> bool:
        values = without_none(self._flow.values(call.func))
        return bool(values) and all(
            (isinstance(each, Made) and kind(self._flow, each) is Kind.LOSS and is_stateless_loss(each.name))
            or (isinstance(each, External) and is_loss_function(each.name))
            for each in values
        )

    def _is_state_of_layer(self, call: ast.Call, node: ast.expr) -> bool:
        """Whether it is the state that a recurrent layer of torch starts from: ``nn.GRU(4, 4)(x, state)``."""
        values = without_none(self._flow.values(call.func))
        is_layer = bool(values) and all(isinstance(each, Made) and is_recurrent(each.name) for each in values)
        is_given = call.args[1:2] == [node] or any(each.value is node and each.arg == "hx" for each in call.keywords)
        return is_layer and is_given and not self._has_hooks()

    def _is_used_up(self, call: ast.Call, node: ast.expr) -> bool:
        """Whether functions and models of the project alone are given it, and compute with it at most."""
        values = without_none(self._flow.values(call.func))
        run = [self._flow.run_by(each) for each in values]
        return bool(run) and all(
            isinstance(each, ast.FunctionDef) and self._is_used_up_in(each, call, node) for each in run
        )

    def _is_used_up_in(self, function: ast.FunctionDef, call: ast.Call, node: ast.expr) -> bool:
        name = next((name for name, given in self._flow.bind(function, call).filled() if node in given), None)
        if name is None or function.decorator_list or (function.name == "forward" and self._has_hooks()):
            return False
        if (function, name) in self._entered:
            return True
        self._entered.add((function, name))
        module = self._flow.module_of(function)
        return not any(self.unsafe(module, each) for each in _reads(module, function, name)) and not any(
            isinstance(module.parent(each), ast.AugAssign)
            for each in module.nodes(ast.Name)
            if each.id == name and isinstance(each.ctx, ast.Store) and function in module.ancestors(each)
        )

    def _has_hooks(self) -> bool:
        """Whether the project hangs hooks on models, which are given what these are."""
        named = (each.attr for module in self._flow.modules for each in module.nodes(ast.Attribute))
        return not hooks().isdisjoint(named)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _reads(module: Module, function: ast.FunctionDef, name: str) -> Iterator[ast.Name]:
    """Where a function, or one inside of it, reads what its parameter was given, or what it is given later."""
    for each in module.nodes(ast.Name):
        if each.id != name or not isinstance(each.ctx, ast.Load):
            continue
        home: ast.AST | None = module.function(each)
        while home is not None and home is not function and name not in bound_names(home):
            home = module.function(home)
        if home is function:
            yield each
