"""Which code needs a loader's batches on the host: would it meet other numbers, or fail, were they on a device already?

A batch that is moved at once is the same wherever it was before. What else may be done with it is what makes no other
numbers there: asking for its sizes, views, parts of it, and other number formats.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import walk
from codemods.dataflow.values import Batch, Function, HostTensor, Value, library_names
from codemods.facts.devices.writes import writes
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.data.loaders import Loader

DESCRIBING = words("shape size ndim dim dtype numel nelement")
"""Attributes and methods of a tensor that are the same wherever it is."""
REGROUPING = words(
    "view reshape flatten squeeze unsqueeze transpose permute t contiguous float double long int half bool detach"
)
"""Methods that move elements, or give them another number format, in the same way everywhere."""
_SELF = words("data T")
"""Attributes that are a tensor with the same elements."""
_VARIABLE = "torch.autograd.Variable"


def why_needed_on_host(flow: Flow, loader: Loader) -> Reason | None:
    """Where a batch of the loader is used before it is moved in a way that a device might do otherwise."""
    moves = {each.call for each in (*loader.transfers, *loader.converted)}
    search = _Search(flow, loader.value, moves)
    return search.why(Batch(of=loader.value))


class _Search:
    """Looks at each place of the batches, and of what is made of them on the host."""

    def __init__(self, flow: Flow, loader: Value, moves: Iterable[ast.Call]) -> None:
        self._flow = flow
        self._loader = loader
        self._moves = frozenset(moves)
        self._todo: list[Value] = []
        self._seen: set[Value] = set()

    def why(self, batch: Value) -> Reason | None:
        self._todo = [batch]
        while self._todo:
            value = self._todo.pop()
            if value in self._seen:
                continue
            self._seen.add(value)
            for module, node in self._flow.places(value):
                if not self._is_alike(module, node):
                    where = module.parent(node)
                    text = f"a batch of it is used before it is moved ({HERE}), in a way that needs it on the host"
                    return Reason("used-on-host", text, (at(module, where if isinstance(where, ast.expr) else node),))
        return None

    def _is_alike(self, module: Module, node: ast.expr) -> bool:
        """Whether what stands around the batch does the same with one that is on a device."""
        above = module.parent(node)
        match above:
            case ast.AugAssign():
                return False
            case ast.Expr() | ast.Delete():
                return True
            case _ if isinstance(getattr(node, "ctx", None), ast.Store):
                return True
            case ast.Attribute():
                return self._is_read(module, above)
            case ast.Subscript():
                return above.value is node and isinstance(above.ctx, ast.Load) and self._is_followed(above)
            case ast.Call():
                return self._is_given(above)
            case ast.Assign():
                return all(isinstance(each, (ast.Name, ast.Tuple, ast.List)) for each in above.targets)
            case ast.comprehension() | ast.For():
                return above.iter is node and self._is_followed(above.target)
            case ast.Tuple():
                return self._is_unpacked(module, above)
        return False

    def _is_read(self, module: Module, function: ast.Attribute) -> bool:
        """``x.shape``, ``x.to(device)``, and ``x.view(-1, 784)``, whose result is looked at, too."""
        if function.attr in DESCRIBING:
            return True
        if function.attr in _SELF:
            return self._is_followed(function)
        call = module.parent(function)
        if not isinstance(call, ast.Call) or call.func is not function:
            return False
        return call in self._moves or (function.attr in REGROUPING and self._is_followed(call))

    def _is_given(self, call: ast.Call) -> bool:
        """``len(x)``, ``Variable(x)``, and functions of the project, whose parameters are looked at, too."""
        callees = self._flow.values(call.func)
        names = library_names(callees)
        if names:
            return names == {"builtins.len"} or (names == {_VARIABLE} and self._is_followed(call))
        return bool(callees) and all(isinstance(each, Function) for each in callees)

    def _is_unpacked(self, module: Module, display: ast.Tuple) -> bool:
        """``a, b = x, y.to(device)``: each name is looked at, too."""
        statement = module.parent(display)
        targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is display else []
        return len(targets) == 1 and isinstance(targets[0], ast.Tuple) and len(targets[0].elts) == len(display.elts)

    def _is_followed(self, node: ast.expr) -> bool:
        """Whether all that the expression may be is a batch or made of one; that is looked at, too."""
        if isinstance(node, ast.Tuple):
            return all(self._is_followed(each) for each in node.elts)
        found = self._flow.values(node)
        self._todo.extend(found)
        return bool(found) and all(isinstance(each, (Batch, HostTensor)) and each.of == self._loader for each in found)


def why_written(module: Module, node: ast.AST, tensors: Iterable[ast.expr]) -> Reason | None:
    """Where what tensors are made of may be written in place after the node: copies of it would not change.

    Arrays count, too: ``torch.from_numpy(a)`` shares the memory of ``a``.
    """
    statement, function = module.statement(node), module.function(node)
    sharing = _names_behind(module, tensors)
    for place, written in writes(module):
        root = next((each for each in ast.walk(written) if isinstance(each, ast.Name)), None)
        if root is None or root.id not in sharing:
            continue
        if module.function(place) is not function or module.span(place) > module.span(statement):
            text = f"'{root.id}' is written on the host afterwards ({HERE}), which a copy on the device would not see"
            return Reason("used-on-host", text, (at(module, place),))
    return None


def _names_behind(module: Module, tensors: Iterable[ast.expr]) -> frozenset[str]:
    """The names of what the tensors are made of, and of what these were made of: any of them may share memory."""
    found: set[str] = set()
    todo = {each.id for given in tensors for each in walk(given) if isinstance(each, ast.Name)}
    while todo:
        name = todo.pop()
        found.add(name)
        for store in module.stores.get(name, ()):
            statement = module.statement(store)
            source = statement.iter if isinstance(statement, ast.For) else getattr(statement, "value", None)
            if source is not None:
                todo |= {each.id for each in walk(source) if isinstance(each, ast.Name)} - found
    return frozenset(found)
