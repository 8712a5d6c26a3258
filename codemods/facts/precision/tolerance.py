"""Which uses of a tensor give the same answer, or nearly so, where it holds 16-bit floats."""

from __future__ import annotations

import ast
from operator import or_
from typing import TYPE_CHECKING

from codemods.dataflow.names import declared_outer
from codemods.dataflow.recursion import Answers
from codemods.dataflow.source import walk
from codemods.dataflow.values import library_names
from codemods.facts.reach import own, project_functions
from codemods.library.operations import Parts, operands, operation, parts
from codemods.library.operators import Memory, Result, attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module

# What may be done with a 16-bit tensor outside the block, without a second thought.
_HARMLESS_METHODS = frozenset(
    {"item", "tolist", "size", "dim", "numel", "nelement", "backward", "retain_grad", "register_hook"}
    | {"detach_", "zero_", "requires_grad_"}
)
_PASSING_METHODS = frozenset(
    {
        "detach",
        "cpu",
        "cuda",
        "clone",
        "view",
        "reshape",
        "squeeze",
        "unsqueeze",
        "mean",
        "abs",
        "flatten",
        "permute",
        "transpose",
    }
    | {
        "t",
        "contiguous",
        "sigmoid",
        "softmax",
        "log_softmax",
        "exp",
        "to",
        "square",
        "sqrt",
        "expand_as",
        "view_as",
        "sum",
        "norm",
        "round",
        "pow",
        "clamp",
        "log",
    }
)
_HARMLESS_FUNCTIONS = frozenset(
    {"torch.is_tensor", "torch.autograd.backward", "torch.numel", "torch.equal"}
    | {f"math.{name}" for name in ("isnan", "isfinite", "isinf", "exp", "log")}
    | {f"builtins.{name}" for name in ("print", "len", "str", "float", "int", "isinstance", "type", "round", "repr")}
    | {"builtins.bool", "builtins.id"}
)
_PASSING_FUNCTIONS = frozenset(
    {f"torch.{name}" for name in _PASSING_METHODS}
    | {f"torch.nn.functional.{name}" for name in ("sigmoid", "softmax", "log_softmax")}
)


class Tolerance:
    """Tells the uses that need 32 bits from the others.

    A use that hands the tensor on is harmless where all uses of what it gives are. One that leads back to itself is
    not: a sum over the passes of a loop is rounded in each.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._uses: Answers[tuple[Module, ast.expr, bool], bool] = Answers(
            lambda use: self._of_pair(*use[:2]) if use[2] else self._of_tensor(*use[:2]), bottom=False, join=or_
        )
        """By the module and the expression that is used: of values and indices together, and of one tensor."""

    def is_harmless(self, module: Module, node: ast.expr) -> bool:
        """Whether the use gives the same answer, or nearly so, for a tensor of 16-bit floats."""
        return self._uses.of((module, node, False))

    def _is_harmless_pair(self, module: Module, node: ast.expr) -> bool:
        """Whether of values and indices, the values are not used, or in a way that is harmless in 16 bits."""
        return self._uses.of((module, node, True))

    def _of_tensor(self, module: Module, node: ast.expr) -> bool:  # noqa: C901 - a table of cases
        parent = module.parent(node) if module.holds(node) else None
        match parent:
            case ast.Attribute(_, "dtype"):
                return self._is_harmless_format(module, parent)
            case ast.Attribute(_, name):
                row = attribute(name)
                if row is not None and row.memory is not Memory.VIEW:
                    return True
                call = module.parent(parent)
                if isinstance(call, ast.Call) and call.func is parent:
                    if name == "type":
                        return bool(call.args or call.keywords) or self._is_harmless_format(module, call)
                    passes = name in _PASSING_METHODS
                    return name in _HARMLESS_METHODS or self._is_harmless_operand(module, call, passes=passes)
                return row is not None and self.is_harmless(module, parent)
            case ast.Call():
                return self._is_harmless_argument(module, node, parent)
            case ast.Compare() | ast.FormattedValue() | ast.Expr() | ast.Delete():
                return True
            case ast.If() | ast.While() | ast.Assert() | ast.IfExp():
                return parent.test is node
            case ast.BinOp(left, ast.Mod()) if isinstance(left, ast.Constant) and left is not node:
                return True
            case ast.BinOp(_, operator) if isinstance(operator, ast.MatMult):
                return False
            case ast.BinOp() | ast.UnaryOp():
                return self.is_harmless(module, parent)
            case ast.Subscript(value) if value is node:
                return self.is_harmless(module, parent)
            case ast.Tuple() if isinstance(module.parent(parent), ast.BinOp):
                return self.is_harmless(module, parent)
            case ast.Assign([ast.Name(name) as target]) if not _is_outer(module, target):
                return all(self.is_harmless(module, each) for each in _read(module, target, name))
            case _:
                return False

    def _is_harmless_format(self, module: Module, node: ast.expr) -> bool:
        """Whether nothing that needs 32 bits is made in the format that the expression names: ``y.to(x.dtype)``."""
        parent = module.parent(node)
        if isinstance(parent, ast.keyword):
            parent = module.parent(parent)
        match parent:
            case ast.FormattedValue() | ast.Expr() | ast.Call(ast.Attribute(_, "format")):
                return True
            case ast.Call() if operation(self._flow, parent) is not None:
                return self.is_harmless(module, parent)
            case ast.Call():
                names = {each.name for each in self._flow.values(parent.func)}
                return bool(names) and names <= _HARMLESS_FUNCTIONS
            case _:
                return False

    def _is_harmless_operand(self, module: Module, call: ast.Call, *, passes: bool) -> bool:
        """Whether an operator of torch needs no 32 bits for it.

        Args:
            module: Where it stands.
            call: The operator's call.
            passes: Whether the result may be used as its operand.
        """
        found = operation(self._flow, call)
        if found is not None and found.result in {Result.BOOL, Result.INTEGER, Result.WIDE}:
            return True
        match parts(self._flow, call):
            case Parts.VALUES_FIRST:
                return self._is_harmless_pair(module, call)
            case Parts.ONE_OR_VALUES_FIRST:
                return self._is_harmless_pair(module, call) or self.is_harmless(module, call)
        is_largest = found is not None and found.result is Result.REDUCED
        return (passes or is_largest) and self.is_harmless(module, call)

    def _of_pair(self, module: Module, node: ast.expr) -> bool:
        match module.parent(node):
            case ast.Subscript(_, index) as item if ast.unparse(index) in {"0", "1", "-1"}:
                return ast.unparse(index) != "0" or self.is_harmless(module, item)
            case ast.Attribute(_, name) as attribute:
                return name == "indices" or (name == "values" and self.is_harmless(module, attribute))
            case ast.Assign([ast.Tuple([ast.Name(name), _]) as target]):
                return all(self.is_harmless(module, each) for each in _read(module, target, name))
            case ast.Assign([ast.Name(name) as target]):
                return all(self._is_harmless_pair(module, each) for each in _read(module, target, name))
            case ast.Expr():
                return True
        return False

    def _is_harmless_argument(self, module: Module, node: ast.expr, call: ast.Call) -> bool:
        values = self._flow.values(call.func)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "format":
            return True
        found = operation(self._flow, call)
        if found is not None and operands(self._flow, call)[:1] == [node]:
            called = {each.name for each in values}
            if self._is_harmless_operand(module, call, passes=called <= _PASSING_FUNCTIONS):
                return True
        elif found is not None and found.result is Result.BOOL:
            return True
        names = library_names(values)
        if names and len(names) == len(values):
            return names <= _HARMLESS_FUNCTIONS or (names <= _PASSING_FUNCTIONS and self.is_harmless(module, call))
        functions = list(project_functions(values))
        if not functions or len(functions) != len(values):
            return False
        return all(self._is_harmless_in(each, node, call) for each in functions)

    def _is_harmless_in(self, function: Callee, node: ast.expr, call: ast.Call) -> bool:
        """Whether the function does nothing with its argument that would need 32 bits."""
        if isinstance(function, ast.Lambda):
            return False
        name = next((name for name, each in self._flow.bind(function, call).given.items() if each is node), None)
        reads = [each for each in own(function, ast.Name) if each.id == name and isinstance(each.ctx, ast.Load)]
        module = self._flow.module_of(function)
        return name is not None and all(self.is_harmless(module, each) for each in reads)


def _is_outer(module: Module, target: ast.Name) -> bool:
    """Whether the function that binds the name says that others read it."""
    function = module.function(target)
    return function is not None and target.id in declared_outer(function)


def _read(module: Module, target: ast.expr, name: str) -> Iterator[ast.Name]:
    """Where the name is read in the function that binds it there."""
    scope = module.function(target) or module.tree
    names = (each for each in walk(scope) if isinstance(each, ast.Name))
    return (each for each in names if each.id == name and isinstance(each.ctx, ast.Load))
