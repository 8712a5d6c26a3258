"""Where a module fails on current torch or Python before anything is changed, as far as that is certain.

Only code that surely runs counts: none in a ``try`` that handles errors, under a condition (a version check, an
option), or in a function that nothing here calls.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.flow import class_of
from codemods.dataflow.names import words
from codemods.dataflow.source import FUNCTIONS, is_main_guard, lasting
from codemods.dataflow.values import NONE, Sort, Value
from codemods.library.kinds import Kind, always, kind
from codemods.library.removed import (
    BUILTINS_OF_PYTHON_2,
    NO_ITEM,
    NO_NEXT,
    PYTHON,
    STATIC,
    removed,
    removed_modules,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.target import Target
    from codemods.library.removed import Version

_DEEPEST = 6
"""Calls are followed back, and names to what they were computed from, so far."""
_LOSSES = re.compile(r"^torch\.nn\.functional\.(\w*_loss|\w*cross_entropy\w*|kl_div)$")
_REDUCING = words("torch.mean torch.sum")
_KEEPS_DIMENSIONS = words("abs clone contiguous cpu cuda detach exp log neg sqrt")
_KEPT_ON_THE_WAY = words("cpu cuda detach numpy")


@dataclass(frozen=True, eq=False)
class Failure:
    """The first place of a module that surely fails."""

    node: ast.AST
    because: str
    """What fails there, and what to write instead."""


def failure(flow: Flow, module: Module, entries: Collection[Module], target: Target) -> Failure | None:
    """The first place, in the order of the text, where the module fails whatever is chosen when it is started.

    Args:
        flow: What is known of the module's project.
        module: The module.
        entries: The modules of the project that are run as ``__main__``.
        target: The torch that it is known to be run on: what failed later does not fail there.
    """
    course = _Course(flow, entries)
    for node in module.nodes(ast.Import, ast.ImportFrom, ast.Call, ast.Subscript, ast.Name):
        for since, because in _failures(flow, module, node):
            if target.may_be(since) and course.surely_runs(module, node):
                return Failure(node, because)
    unimportable = _unimportable(flow, target)
    for node in module.nodes(ast.Import, ast.ImportFrom) if unimportable else ():
        found = next((each for each in flow.loaded(module, node) if each in unimportable), None)
        if found is not None and found is not module and course.surely_runs(module, node):
            return Failure(node, f"{found.path} cannot be imported: {unimportable[found]}")
    return None


@lasting
def _unimportable(flow: Flow, target: Target) -> Mapping[Module, str]:
    """The modules that import what is gone, or a module that does, and what that is."""
    course = _Course(flow, ())
    imports = [
        (module, node)
        for module in flow.modules
        for node in module.nodes(ast.Import, ast.ImportFrom)
        if module.function(node) is None and course.surely_runs(module, node)
    ]
    found: dict[Module, str] = {}
    for module, node in imports:
        for since, because in _failing_import(flow, node):
            if target.may_be(since):
                found.setdefault(module, because)
    before = -1 if found else 0
    while before != len(found):
        before = len(found)
        for module, node in imports:
            reasons = [found[each] for each in flow.loaded(module, node) if each in found]
            if reasons:
                found.setdefault(module, reasons[0])
    return found


def why_unreadable(line: str) -> str | None:
    """What a line that cannot be read was written for, where it is old PyTorch: ``x.cuda(async=True)``."""
    if re.search(r"\basync\s*=[^=]", line):
        return "async is a keyword since Python 3.7; write non_blocking=… instead of async=…"
    return None


def _failures(flow: Flow, module: Module, node: ast.AST) -> Iterator[tuple[Version, str]]:
    """What is wrong with a node, and the torch since which it is."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from _failing_import(flow, node)
    elif isinstance(node, ast.Call):
        yield from _failing_call(flow, node)
        yield from _failing_method(flow, node)
    elif isinstance(node, ast.Subscript) and _is_item_of_a_number(flow, module, node):
        yield NO_ITEM, f"{ast.unparse(node)}: a loss has no dimensions, write .item() instead of .data[0]"
    elif isinstance(node, ast.Name) and node.id in BUILTINS_OF_PYTHON_2 and _is_bound_nowhere(flow, module, node):
        yield PYTHON, f"Python 3 has no {node.id}"


def _is_bound_nowhere(flow: Flow, module: Module, node: ast.Name) -> bool:
    return not names.star_imports(module) and any(each.sort is Sort.UNKNOWN for each in flow.values(node))


def _failing_import(flow: Flow, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[Version, str]]:
    own = {each.name for each in flow.modules}
    for target in _modules_imported(node):
        for gone, since in removed_modules().items():
            if f"{target}.".startswith(f"{gone}.") and gone not in own:
                yield since, f"there is no module {gone} any more"


def _modules_imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The dotted names of what may be modules: of ``from torchtext import legacy`` it is ``torchtext.legacy``."""
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [] if node.level else [f"{node.module}.{each.name}" for each in node.names]


def _failing_call(flow: Flow, node: ast.Call) -> Iterator[tuple[Version, str]]:
    """A call of what is gone, or of an autograd function that keeps its state in itself."""
    callees = flow.values(node.func)
    callee = next(iter(callees)) if len(callees) == 1 else NONE
    gone = removed(callee.name) if callee.sort is Sort.EXTERNAL else None
    if gone is not None:
        yield gone.since, f"{callee.name}() fails: {gone.instead}"
    class_ = class_of(callee) if callee.sort is Sort.INSTANCE else None
    if class_ is not None and "torch.autograd.Function" in flow.bases(class_):
        forward = flow.method(class_, "forward")
        if forward is not None and "staticmethod" not in names.decorators(forward):
            yield (
                STATIC,
                f"{class_.name} is an autograd function of the old kind: its methods have to be static",
            )


def _failing_method(flow: Flow, node: ast.Call) -> Iterator[tuple[Version, str]]:
    """``iterator.next()`` and ``loss.backward(retain_variables=True)``."""
    if not isinstance(node.func, ast.Attribute):
        return
    if node.func.attr == "backward" and any(each.arg == "retain_variables" for each in node.keywords):
        yield NO_ITEM, "backward() has no retain_variables: it is called retain_graph now"
    if node.func.attr == "next":
        iterator = ast.unparse(node.func.value)
        for since in {_no_next_since(flow, each) for each in flow.values(node.func.value)}:
            if since is not None:
                yield since, f"{iterator}.next() fails: write next({iterator})"


def _no_next_since(flow: Flow, value: Value) -> Version | None:
    """Since which torch the value is an iterator without a ``next()``: a generator, or the iterator of a loader."""
    if value.sort is not Sort.CONTAINER or value.name != "iterator":
        return None
    if isinstance(value.site, FUNCTIONS):
        return PYTHON
    is_loaders = isinstance(value.site, ast.Call) and _is_iterator_of_a_loader(flow, value.site)
    return NO_NEXT if is_loaders else None


def _is_iterator_of_a_loader(flow: Flow, site: ast.Call) -> bool:
    return (
        any(each.name == "builtins.iter" for each in flow.values(site.func))
        and bool(site.args)
        and always(flow, flow.values(site.args[0]), Kind.LOADER)
    )


# ``loss.data[0]``


def _is_item_of_a_number(flow: Flow, module: Module, node: ast.Subscript) -> bool:
    """Whether it is ``loss.data[0]``, ``loss.data.cpu().numpy()[0]`` and so on of a tensor without dimensions."""
    if not isinstance(node.slice, ast.Constant) or not isinstance(node.ctx, ast.Load):
        return False
    inner: ast.expr = node.value
    has_data = False
    while True:
        if isinstance(inner, ast.Call) and not inner.args and isinstance(inner.func, ast.Attribute):
            if inner.func.attr not in _KEPT_ON_THE_WAY:
                break
            inner = inner.func.value
        elif isinstance(inner, ast.Attribute) and inner.attr == "data":
            has_data, inner = True, inner.value
        else:
            break
    return has_data and _Numbers(flow, module).holds(inner)


class _Numbers:
    """Tells which expressions of a module are surely tensors without dimensions."""

    def __init__(self, flow: Flow, module: Module) -> None:
        self._flow = flow
        self._module = module

    def holds(self, node: ast.expr, depth: int = 0) -> bool:
        """Whether the expression is a tensor without dimensions in every pass."""
        if depth > _DEEPEST:
            return False
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.UnaryOp):
            return self.holds(node.operand, depth + 1)
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            found = [self.holds(each, depth + 1) for each in sides]
            return any(found) and all(
                is_number or self._is_plain(each) for is_number, each in zip(found, sides, strict=True)
            )
        return isinstance(node, ast.Call) and self._call(node, depth)

    def _is_plain(self, node: ast.expr) -> bool:
        values = self._flow.values(node)
        return isinstance(node, ast.Constant) or (
            bool(values) and all(each.sort in {Sort.LITERAL, Sort.CHOICE, Sort.PLAIN} for each in values)
        )

    def _name(self, node: ast.Name, depth: int) -> bool:
        """By every place of its function, or of the module, that gives the name a value."""
        home = self._module.function(node)
        if home is None or node.id not in names.bound_names(home):
            home = None
        if home is not None and any(each.arg == node.id for each in names.parameters(home)):
            return False
        stores = [
            each
            for each in self._module.nodes(ast.Name)
            if each.id == node.id and isinstance(each.ctx, ast.Store) and self._module.function(each) is home
        ]
        given = [self._module.parent(each) for each in stores]
        values = [each.value for each in given if isinstance(each, (ast.Assign, ast.AugAssign))]
        tensors = [each for each in values if not isinstance(each, ast.Constant)]
        return len(values) == len(stores) and bool(tensors) and all(self.holds(each, depth + 1) for each in tensors)

    def _call(self, call: ast.Call, depth: int) -> bool:
        given = {each.arg for each in call.keywords}
        callees = self._flow.values(call.func)
        if len(callees) == 1 and not given & {"reduction", "reduce", None}:
            (callee,) = callees
            if callee.sort is Sort.EXTERNAL:
                reduces = callee.name in _REDUCING and len(call.args) == 1 and not given
                return reduces or _LOSSES.match(callee.name) is not None
            if kind(self._flow, callee) is Kind.LOSS and callee.sort is Sort.MADE and isinstance(callee.site, ast.Call):
                return not {"reduction", "reduce"} & {each.arg for each in callee.site.keywords}
        if not isinstance(call.func, ast.Attribute) or call.args or call.keywords:
            return False
        if call.func.attr in _KEEPS_DIMENSIONS:
            return self.holds(call.func.value, depth + 1)
        return call.func.attr in {"mean", "sum"} and all(
            each.sort in {Sort.TENSOR, Sort.MOVED, Sort.HOST, Sort.BATCH} for each in self._flow.values(call.func.value)
        )


# What surely runs.

_SKIPPABLE = (ast.IfExp, ast.BoolOp, ast.Assert, ast.Match)
"""What may not run all of its parts."""


@dataclass(frozen=True, eq=False)
class _Course:
    """Tells which code runs whenever a script gets that far: every loop runs, logging happens now and then."""

    flow: Flow
    entries: Collection[Module]
    """The modules that are run as ``__main__``."""

    def surely_runs(self, module: Module, node: ast.AST, seen: frozenset[Callee] = frozenset()) -> bool:
        """Whether the node is evaluated, where ``seen`` are the functions that are being followed back already."""
        below = node
        for above in module.ancestors(node):
            if isinstance(above, FUNCTIONS):
                return above not in seen and len(seen) < _DEEPEST and self._is_called(above, seen | {above})
            if isinstance(above, _SKIPPABLE) or _catches_errors(above):
                return False
            if isinstance(above, ast.If) and below is not above.test and not self._is_entered(module, above):
                return False
            below = above
        return True

    def _is_called(self, function: Callee, seen: frozenset[Callee]) -> bool:
        return any(
            self.surely_runs(module, call, seen)
            for call in self.flow.callers(function)
            for module in self.flow.modules
            if module.holds(call)
        )

    def _is_entered(self, module: Module, statement: ast.If) -> bool:
        """``if step % 100 == 0:``, or the guard of what runs when the script is started."""
        if is_main_guard(statement):
            return module in self.entries
        return any(isinstance(each, ast.Mod) for each in ast.walk(statement.test))


def _catches_errors(node: ast.AST) -> bool:
    """Whether what fails in the node may not end the script, for more is caught than the user's ctrl-C."""
    caught = [ast.unparse(each.type) if each.type is not None else "" for each in getattr(node, "handlers", ())]
    return any(each != "KeyboardInterrupt" for each in caught)
