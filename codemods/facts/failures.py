"""Where a module fails on current torch or Python before anything is changed, as far as that is certain.

Only code that surely runs counts: none in a ``try`` that handles errors, under a condition (a version check, an
option), or in a function that nothing here calls.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow import names
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import FUNCTIONS, is_main_guard, lasting
from codemods.dataflow.values import (
    NONE,
    Batch,
    Container,
    External,
    Instance,
    Made,
    Tensor,
    Value,
    class_of,
    library_names,
    without_none,
)
from codemods.facts.complex_numbers import may_be_computed
from codemods.facts.data.surely_read import surely_read
from codemods.facts.failing_views import failing_views
from codemods.facts.loops import module_of
from codemods.facts.numbers import is_item_of_number
from codemods.facts.reach import own
from codemods.facts.reaching import reaching
from codemods.facts.reason import Place, at
from codemods.facts.target import ASSUMED
from codemods.facts.training.sole_training import is_sole_training
from codemods.facts.training.step_loops import is_remainder
from codemods.facts.unbound import is_bound_nowhere, is_whole
from codemods.facts.whole_targets import whole_target
from codemods.library.kinds import RANKS, Kind, always, is_loss, is_parameter, kind
from codemods.library.removed import (
    BUILTINS_OF_PYTHON_2,
    COUNTED,
    METHODS_OF_PYTHON_2,
    NO_ITEM,
    NO_NEXT,
    ONE_KERNEL,
    PYTHON,
    ROWS_AS_COMPARED,
    STATIC,
    WHOLE_FILLS,
    demanded_argument,
    may_be_removed,
    removed,
    removed_argument,
    removed_from_frames,
    removed_from_modules,
    removed_method,
    removed_modules,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.target import Target
    from codemods.library.removed import Version


@dataclass(frozen=True, eq=False)
class Failure:
    """What surely fails when a module is run."""

    node: ast.AST | None
    """The first place in the module, or the import of the module in which that is; None where no such import is."""
    because: str
    """What fails, and what to write instead."""
    places: tuple[Place, ...]
    """Where, over all modules."""


class _Broken(NamedTuple):
    """A node that fails whenever it is evaluated."""

    node: ast.AST
    subject: str
    """What fails, if others may fail in the same way."""
    what: str
    since: Version = PYTHON
    """The torch since which it fails."""


def failure(
    flow: Flow,
    module: Module,
    entries: Collection[Module],
    target: Target,
    unreadable: Mapping[str, str] = MappingProxyType({}),
) -> Failure | None:
    """All places where the module fails whatever is chosen when it is started; of a script, those of what it runs, too.

    Of a module that fails nowhere itself, those of the first script that imports it, where all such scripts fail.

    Args:
        flow: What is known of the module's project.
        module: The module.
        entries: The modules of the project that are run as ``__main__``.
        target: The torch that it is known to be run on: what failed later does not fail there. Where none is known,
            something has to fail on the one that is assumed; what fails later is then told with it.
        unreadable: Why modules of the project, by their names, are not Python.
    """
    return _failure(flow, module, tuple(entries), target, tuple(unreadable.items()))


@lasting  # each round asks
def _failure(
    flow: Flow,
    module: Module,
    entries: tuple[Module, ...],
    target: Target,
    unreadable: tuple[tuple[str, str], ...],
) -> Failure | None:
    loaded = _surely_loaded(flow, module, target) if module in entries else {module: None}
    course = _Course(flow, (module,), target, loaded) if module in entries else _Course(flow, entries, target)
    found = [(module, each) for each in _unimportable_here(flow, module, course, unreadable)]
    found += [
        (where, each)
        for where in loaded
        for each in _broken(flow, where, target)
        if course.surely_runs(where, each.node) and (where is module or not _is_import(where, each.node))
    ]
    if not found or (target.known is None and all(each.since > ASSUMED for _, each in found)):
        return _failure_of_all(flow, module, entries, target, unreadable)
    scripts = _importing(flow, module, entries)
    if any(_is_spared(each, [node for _, node in found], flow, module, target) for each in scripts):
        return _failure_of_all(flow, module, entries, target, unreadable)
    subjects: dict[str, dict[str, None]] = {}
    for _, each in found:
        subjects.setdefault(each.what, {})[each.subject] = None
    places = [(where, [each.node for other, each in found if other is where]) for where in loaded]
    first = next((each.node for where, each in found if where is module), None) or loaded[found[0][0]]
    return Failure(
        first,
        "; ".join(_told(list(some), what) for what, some in subjects.items()),
        tuple(at(where, *_by_line(nodes)) for where, nodes in places if nodes),
    )


def _failure_of_all(
    flow: Flow,
    module: Module,
    entries: tuple[Module, ...],
    target: Target,
    unreadable: tuple[tuple[str, str], ...],
) -> Failure | None:
    """How the first script fails that imports the module, where all of them do: what is changed in it helps none."""
    scripts = _importing(flow, module, entries)
    found = [_failure(flow, each, entries, target, unreadable) for each in scripts]
    first = next(iter(found), None)
    return None if first is None or None in found else replace(first, node=None)


def _importing(flow: Flow, module: Module, entries: Collection[Module]) -> list[Module]:
    """The scripts that import the module; none of a script."""
    return [] if module in entries else [each for each in entries if each in flow.together(module, (each,))]


def _is_spared(script: Module, broken: Iterable[_Broken], flow: Flow, module: Module, target: Target) -> bool:
    """Whether the script may run without what fails in a module: another one calls it."""
    course = _Course(flow, (script,), target, flow.together(script, (script,)), is_by_choice=True)
    return not any(course.surely_runs(module, each.node) for each in broken)


def _told(subjects: list[str], what: str) -> str:
    """What is said of several things that fail alike: ``A(), B() fail: they are gone``."""
    if len(subjects) > 1:
        what = what.replace(" fails: ", " fail: ", 1).replace(": it is gone", ": they are gone", 1)
    return ", ".join(subjects) + what


def _is_import(module: Module, node: ast.AST) -> bool:
    """Whether it is an import that makes the module itself unimportable."""
    return isinstance(node, (ast.Import, ast.ImportFrom)) and module.function(node) is None


def _by_line(nodes: Iterable[ast.AST]) -> list[ast.AST]:
    """One node of each line, in the order of the text."""
    found = {getattr(each, "lineno", 1): each for each in nodes}
    return [found[line] for line in sorted(found)]


def _unimportable_here(
    flow: Flow, module: Module, course: _Course, unreadable: tuple[tuple[str, str], ...]
) -> Iterator[_Broken]:
    """The module's imports of modules of the project that cannot be imported."""
    unimportable = _unimportable(flow, course.target, unreadable)
    told: set[str] = set()
    for node in module.nodes(ast.Import, ast.ImportFrom) if unimportable else ():
        others = (each for each in flow.imported_names(module, node) if each != module.name)
        reasons = [unimportable[each] for each in others if each in unimportable]
        # What is imported with each of several modules is named once.
        if reasons and reasons[0] not in told and course.surely_runs(module, node):
            told.add(reasons[0])
            yield _Broken(node, "", reasons[0])


@lasting
def _unimportable(flow: Flow, target: Target, unreadable: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """The names of the modules that are not Python, import what is gone, or a module that does, and what that is."""
    course = _Course(flow, (), target)
    imports = [
        (module, node)
        for module in flow.modules
        for node in module.nodes(ast.Import, ast.ImportFrom)
        if module.function(node) is None and course.surely_runs(module, node)
    ]
    found = dict(unreadable)
    for module, node in imports:
        for since, subject, what in _failing_import(flow, node):
            if target.may_be(since):
                found.setdefault(module.name, f"{module.path} cannot be imported: {subject}{what}")
    before = -1 if found else 0
    while before != len(found):
        before = len(found)
        for module, node in imports:
            reasons = [found[each] for each in flow.imported_names(module, node) if each in found]
            if reasons:
                found.setdefault(module.name, reasons[0])
    return found


@lasting
def _broken(flow: Flow, module: Module, target: Target) -> tuple[_Broken, ...]:
    """What fails in the module if it is evaluated, in the order of the text."""
    found = [
        _Broken(node, subject, what, since)
        for node in module.nodes(ast.Import, ast.ImportFrom, ast.Call, ast.Subscript, ast.Attribute, ast.Name)
        for since, subject, what in _failures(flow, module, node)
        if target.may_be(since)
    ]
    unimportable = {f"{each.subject}()" for each in found if isinstance(each.node, ast.ImportFrom)}
    return tuple(each for each in found if each.subject not in unimportable)


@lasting
def _surely_loaded(flow: Flow, entry: Module, target: Target) -> Mapping[Module, ast.AST | None]:
    """The modules whose code runs whenever the script is started, each with the script's import that leads to it."""
    course = _Course(flow, (entry,), target)
    found: dict[Module, ast.AST | None] = {entry: None}
    todo = [entry]
    while todo:
        here = todo.pop(0)
        for node in here.nodes(ast.Import, ast.ImportFrom):
            if here.function(node) is None and course.surely_runs(here, node):
                new = [each for each in flow.loaded(here, node) if each not in found]
                found.update(dict.fromkeys(new, node if here is entry else found[here]))
                todo.extend(new)
    return found


_FRAMES = frozenset({"pandas.DataFrame", "pandas.read_csv", "pandas.read_excel", "pandas.read_table"})
"""What makes a table of pandas."""
_ITERATORS = names.words(
    """
    builtins.enumerate builtins.filter builtins.map builtins.reversed builtins.zip
    itertools.chain itertools.count itertools.cycle itertools.islice itertools.repeat
    """
)
"""What returns iterators of Python, which have no ``next()`` since Python 3."""
_MOVES = frozenset({"cuda", "to", "type", "cpu", "copy_", "_cuda"})
"""Methods of tensors that had an argument ``async``."""


def why_unreadable(line: str) -> str | None:
    """What a line that cannot be read was written for, where it is old PyTorch: ``x.cuda(async=True)``."""
    if re.search(r"\basync\s*=[^=]", line):
        called = re.search(r"(\w+)\([^()]*\basync\s*=", line)
        if called is not None and called[1] not in _MOVES:
            return f"async is a keyword since Python 3.7; give that argument of {called[1]}() another name"
        return "async is a keyword since Python 3.7; write non_blocking=… instead of async=…"
    return None


def _failures(flow: Flow, module: Module, node: ast.AST) -> Iterator[tuple[Version, str, str]]:
    """The torch since which a node fails, what fails in it, and how."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from _failing_import(flow, node)
    elif isinstance(node, ast.Call):
        yield from _failing_call(flow, node)
        yield from _failing_method(flow, node)
        yield from _failing_loss(flow, node)
        yield from _failing_view(flow, node)
        yield from _failing_layer(flow, node)
    elif isinstance(node, ast.Subscript) and is_item_of_number(flow, module, node):
        index = ast.unparse(node.slice)
        old = f".data[{index}]" if ".data" in ast.unparse(node) else f"[{index}]"
        yield NO_ITEM, ast.unparse(node), f": a loss has no dimensions, write .item() instead of {old}"
    elif isinstance(node, ast.Attribute) and may_be_removed(node.attr):
        yield from _failing_attribute(flow, module, node)
    elif isinstance(node, ast.Attribute) and removed_from_modules(node.attr) is not None:
        yield from _failing_attribute_of_module(flow, node)
    elif isinstance(node, ast.Attribute) and removed_from_frames(node.attr) is not None:
        yield from _failing_attribute_of_frame(flow, module, node)
    elif isinstance(node, ast.Name) and is_bound_nowhere(flow, module, node):
        if node.id in BUILTINS_OF_PYTHON_2:
            yield PYTHON, "", f"Python 3 has no {node.id}"
        elif is_whole(flow):
            yield PYTHON, "", f"the name {node.id} is bound nowhere"


def _failing_import(flow: Flow, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[Version, str, str]]:
    own = {part for each in flow.modules for part in (each.name, each.name.rpartition(".")[2])}
    for target in _modules_imported(node):
        for gone, since in removed_modules().items():
            if f"{target}.".startswith(f"{gone}.") and gone not in own:
                yield since, "", f"there is no module {gone} any more"
        name = removed(target) if isinstance(node, ast.ImportFrom) else None
        if name is not None and not name.is_importable and target.partition(".")[0] not in own:
            yield name.since, target, f" cannot be imported: {name.instead}"


def _modules_imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The dotted names of what may be modules: of ``from torchtext import legacy`` it is ``torchtext.legacy``."""
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [] if node.level else [f"{node.module}.{each.name}" for each in node.names]


def _failing_call(flow: Flow, node: ast.Call) -> Iterator[tuple[Version, str, str]]:
    """A call of what is gone, or of an autograd function that keeps its state in itself."""
    callees = flow.values(node.func)
    callee = next(iter(callees)) if len(callees) == 1 else NONE
    gone = removed(callee.name) if isinstance(callee, External) and not _is_put_back(flow, callee.name) else None
    if gone is not None:
        yield gone.since, f"{callee.name}()", f" fails: {gone.instead}"
    yield from _failing_arguments(callee.name, node) if isinstance(callee, External) else ()
    yield from _failing_without(flow, callee.name, node, 0) if isinstance(callee, External) else ()
    yield from _failing_quotients(callee.name, node) if isinstance(callee, External) else ()
    class_ = class_of(callee) if isinstance(callee, Instance) else None
    if class_ is not None and "torch.autograd.Function" in flow.bases(class_):
        forward = flow.method(class_, "forward")
        if forward is not None and "staticmethod" not in names.decorators(forward):
            yield (
                STATIC,
                "",
                f"{class_.name} is an autograd function of the old kind: its methods have to be static",
            )


def _failing_attribute(flow: Flow, module: Module, node: ast.Attribute) -> Iterator[tuple[Version, str, str]]:
    """A name of a module that is gone, where it is not called: ``isinstance(x, collections.Iterable)``."""
    above = module.parent(node)
    values = flow.values(node)
    value = next(iter(values)) if len(values) == 1 else NONE
    gone = removed(value.name) if isinstance(value, External) and not _is_put_back(flow, value.name) else None
    if gone is not None and not gone.is_importable and not (isinstance(above, ast.Call) and above.func is node):
        yield gone.since, value.name, f" fails: {gone.instead}"


@lasting
def _is_put_back(flow: Flow, name: str) -> bool:
    """Whether the project gives a library the name again that it had: ``np.float = float``."""
    package, _, last = name.rpartition(".")
    owners = [each.value for module in flow.modules for each in module.attribute_stores.get(last, ())]
    owners += [
        owner for owner, given in _set_by_name(flow) if not isinstance(given, ast.Constant) or given.value == last
    ]
    return any(package in library_names(flow.values(each)) for each in owners)


@lasting
def _set_by_name(flow: Flow) -> tuple[tuple[ast.expr, ast.expr], ...]:
    """The objects that the project gives attributes by ``setattr``, and the names of these."""
    found = []
    for module in flow.modules:
        for call in module.nodes(ast.Call):
            match call:
                case ast.Call(ast.Name("setattr"), [owner, given, _]):
                    found.append((owner, given))
    return tuple(found)


def _failing_attribute_of_module(flow: Flow, node: ast.Attribute) -> Iterator[tuple[Version, str, str]]:
    """What layers of torch had once: ``embedding._backend``; a class of the project may have its own."""
    gone = removed_from_modules(node.attr)
    owners = without_none(flow.values(node.value))
    is_layer = bool(owners) and all(_is_layer_of_torch(flow, each) for each in owners)
    if gone is not None and is_layer and isinstance(node.ctx, ast.Load):
        yield gone.since, ast.unparse(node), f" fails: {gone.instead}"


def _failing_attribute_of_frame(flow: Flow, module: Module, node: ast.Attribute) -> Iterator[tuple[Version, str, str]]:
    """``frame.ix[row, column]`` of a table of pandas; ``frame.ix[row]`` may be of a column that is called so."""
    gone = removed_from_frames(node.attr)
    above = module.parent(node)
    has_two = isinstance(above, ast.Subscript) and above.value is node and isinstance(above.slice, ast.Tuple)
    owners = without_none(flow.values(node.value))
    is_read = bool(owners) and all(isinstance(each, Made) and each.name in _FRAMES for each in owners)
    if gone is not None and has_two and is_read:
        yield gone.since, ast.unparse(node), f" fails: {gone.instead}"


def _is_layer_of_torch(flow: Flow, value: Value) -> bool:
    return isinstance(value, Made) and value.name.startswith("torch.nn.") and kind(flow, value) is Kind.MODEL


def _failing_arguments(name: str, node: ast.Call) -> Iterator[tuple[Version, str, str]]:
    """Arguments that what is called does not take any more."""
    for each in node.keywords:
        gone = removed_argument(name, each.arg) if each.arg is not None else None
        if gone is not None:
            since = f" since torch {gone.since[0]}.{gone.since[1]}" if name.startswith("torch.") else ""
            yield gone.since, "", f"{name.rpartition('.')[2]}() takes no {each.arg}{since}: {gone.instead}"


def _failing_quotients(name: str, node: ast.Call) -> Iterator[tuple[Version, str, str]]:
    """``range(n / 2)``, ``nn.Linear(size / 2, 10)``: a division gives a float since Python 3."""
    given = [] if any(isinstance(each, ast.Starred) for each in node.args) else node.args[: COUNTED.get(name, 0)]
    for each in filter(_is_quotient, given):
        called = f"{name.removeprefix('builtins.')}()"
        yield (
            PYTHON,
            "",
            f"{called} takes no float: write // in {ast.unparse(each)}, which is an integer in Python 2 alone",
        )


def _is_quotient(node: ast.expr) -> bool:
    """``n / 2``, or ``n / 2 + 1``."""
    match node:
        case ast.BinOp(_, ast.Div(), _):
            return True
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult(), right):
            return _is_quotient(left) or _is_quotient(right)
    return False


def _failing_without(flow: Flow, name: str, node: ast.Call, shift: int) -> Iterator[tuple[Version, str, str]]:
    """An argument that is left out, and has to be given by now: ``torch.stft(signal, 512)``.

    Args:
        flow: What is known of the project.
        name: The qualified name of the function.
        node: Its call, or that of the method of a tensor.
        shift: By how many places the arguments of the call are before those of the function.
    """
    demanded = demanded_argument(name)
    if demanded is None or any(isinstance(each, ast.Starred) for each in node.args):
        return
    is_given = argument_of(node, demanded.name, demanded.position - shift) is not None
    if not is_given and all(each.arg is not None for each in node.keywords) and not may_be_computed(flow):
        since = f"{demanded.since[0]}.{demanded.since[1]}"
        what = f" fails: {demanded.name} has to be given since torch {since} ({demanded.instead})"
        yield demanded.since, f"{ast.unparse(node.func)}()", what


def _is_tensor(flow: Flow, node: ast.expr) -> bool:
    """Whether the expression is a tensor for certain: a batch may be a list, or an object of the project's."""
    values = flow.values(node)
    return bool(values) and all(
        (isinstance(each, Tensor) and not isinstance(each, Batch)) or is_parameter(flow, each) for each in values
    )


def _failing_method(flow: Flow, node: ast.Call) -> Iterator[tuple[Version, str, str]]:
    """``iterator.next()`` and ``loss.backward(retain_variables=True)``."""
    if not isinstance(node.func, ast.Attribute):
        return
    gone = removed_method(node.func.attr)
    if (gone or demanded_argument(f"torch.{node.func.attr}")) and _is_tensor(flow, node.func.value):
        if gone is not None:
            yield gone.since, f"{ast.unparse(node.func)}()", f" fails: {gone.instead}"
        yield from _failing_without(flow, f"torch.{node.func.attr}", node, 1)
    if node.func.attr == "backward" and any(each.arg == "retain_variables" for each in node.keywords):
        yield NO_ITEM, "", "backward() has no retain_variables: it is called retain_graph now"
    if node.func.attr in METHODS_OF_PYTHON_2:
        owners = without_none(flow.values(node.func.value))
        if owners and all(isinstance(each, Container) and each.name == "dict" for each in owners):
            instead = METHODS_OF_PYTHON_2[node.func.attr]
            yield PYTHON, f"{ast.unparse(node.func)}()", f" fails: dictionaries have {instead} instead in Python 3"
    if node.func.attr == "next":
        iterator = ast.unparse(node.func.value)
        for since in {_no_next_since(flow, each) for each in flow.values(node.func.value)}:
            if since is not None:
                yield since, "", f"{iterator}.next() fails: write next({iterator})"


def _failing_loss(flow: Flow, node: ast.Call) -> Iterator[tuple[Version, str, str]]:
    """A loss of all that a forward pass returns: ``criterion(model(x), y)`` of ``return out, cache``.

    Or a binary cross entropy of integers.
    """
    callees = flow.values(node.func)
    # A class of the project that derives from a loss may take what it likes.
    is_torchs = bool(callees) and all(not isinstance(each, Instance) and is_loss(flow, each) for each in callees)
    if not is_torchs or not node.args or isinstance(node.args[0], ast.Starred):
        return
    filled = whole_target(flow, node)
    if filled is not None:
        what = f" fails: {ast.unparse(filled)} makes integers since torch 1.7, fill it with a float"
        yield WHOLE_FILLS, f"{ast.unparse(node.func)}()", what
    given = flow.values(node.args[0])
    if given and all(isinstance(each.site, (ast.Tuple, ast.List, ast.Dict)) for each in given):
        kinds = " or a ".join(sorted({each.name for each in given}))
        yield (
            PYTHON,
            "",
            f"{ast.unparse(node.args[0])} is a {kinds}, of which {ast.unparse(node.func)} computes no loss",
        )


def _failing_layer(flow: Flow, node: ast.Call) -> Iterator[tuple[Version, str, str]]:
    """``nn.Conv1d(8, 8, kernel_size=(1, 3))(x)``: its weights have two axes for the kernel, and no input fits them."""
    layers = without_none(flow.values(node.func))
    kernels = [argument_of(each.site, "kernel_size", 2) for each in layers if isinstance(each.site, ast.Call)]
    is_pair = all(isinstance(each, ast.Tuple) and len(each.elts) > 1 for each in kernels)
    if kernels and len(kernels) == len(layers) and is_pair and all(map(_is_conv1d, layers)):
        yield (
            ONE_KERNEL,
            f"{ast.unparse(node.func)}()",
            " fails: a Conv1d with a kernel of two sizes has to be a Conv2d",
        )


def _is_conv1d(value: Value) -> bool:
    return isinstance(value, Made) and value.name == "torch.nn.Conv1d"


def _failing_view(flow: Flow, node: ast.Call) -> Iterator[tuple[Version, str, str]]:
    """``correct[:5].view(-1)`` of ``pred.t().eq(target)``, or the call of a function that has it in it."""
    found = failing_views(flow).get(node)
    if found is not None:
        where = f" in {found.module.path}, line {found.view.lineno}," if found.is_elsewhere else ""
        what = "fails: a comparison keeps what t() transposed since torch 1.7, write reshape instead of view"
        yield ROWS_AS_COMPARED, ast.unparse(found.view), f"{where} {what}"


def _no_next_since(flow: Flow, value: Value) -> Version | None:
    """Since which torch the value is an iterator without a ``next()``: a generator, or the iterator of a loader."""
    if not isinstance(value, Container) or value.name != "iterator":
        return None
    match value.site:
        case ast.GeneratorExp() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            return PYTHON
        case ast.Call(ast.Attribute(iterated, "__iter__"), []):
            return NO_NEXT if _is_plain_loader(flow, iterated) else None
        case ast.Call(func, [iterated, *_]):
            called = library_names(flow.values(func))
            if called == {"builtins.iter"}:
                is_builtin = all(isinstance(each, Container) for each in flow.values(iterated) or (NONE,))
                return PYTHON if is_builtin else NO_NEXT if _is_plain_loader(flow, iterated) else None
            is_known = bool(called) and all(isinstance(each, External) for each in flow.values(func))
            return PYTHON if is_known and called <= _ITERATORS else None
    return None


def _is_plain_loader(flow: Flow, node: ast.expr) -> bool:
    """Whether it is torch's loader, or one of a class that leaves it to torch's what its iterator is."""
    classes = [class_of(each) for each in without_none(flow.values(node)) if isinstance(each, Instance)]
    return always(flow, flow.values(node), Kind.LOADER) and all(
        each is not None and flow.method(each, "__iter__") is None for each in classes
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
    target: Target
    loaded: Collection[Module] | None = None
    """The modules whose own code runs; None where all are taken to."""
    is_by_choice: bool = False
    """Whether a call that may run one of several functions is taken to run each of them."""

    def surely_runs(self, module: Module, node: ast.AST) -> bool:
        """Whether the node is evaluated, whichever arms of conditions are taken."""
        todo: list[tuple[Module, ast.AST]] = [(module, node)]
        followed: set[ast.AST] = set()
        arms: dict[ast.If, set[bool]] = {}
        while todo:
            here, start = todo.pop()
            above, below = self._stopped(here, start)
            if above is None:
                if self.loaded is None or here in self.loaded:
                    return True
            elif isinstance(above, FUNCTIONS) and above not in followed:
                followed.add(above)
                calls = (each for each in self.flow.callers(above) if self._surely_calls_it(each))
                todo += [(module_of(self.flow, call), call) for call in calls]
                todo += surely_read(self.flow).get(above, ())
            elif isinstance(above, ast.If) and below is not above.test:
                # Where the other arm leads to the node, too, the statement does.
                arms.setdefault(above, set()).add(below in above.body)
                if len(arms[above]) == len((True, False)) and above not in followed:
                    followed.add(above)
                    todo.append((here, above))
        return False

    def _surely_calls_it(self, call: ast.Call) -> bool:
        """Whether a call that may call a function does: ``optimizer.step()`` of two optimizers is not sure of either.

        Of a module that is imported, what is asked is whether it is of use to those who choose what is in it.
        """
        is_open = self.is_by_choice or self.loaded is None
        called = () if is_open else without_none(self.flow.values(call.func))
        return len({self.flow.run_by(each) or each for each in called}) <= 1

    def _stopped(self, module: Module, node: ast.AST) -> tuple[ast.AST | None, ast.AST]:
        """What around the node may go on without it, and what stands directly below that; None at the module's end."""
        below = node
        for above in module.ancestors(node):
            if isinstance(above, FUNCTIONS) or self._may_pass_over(module, above, below):
                return above, below
            below = above
        return None, below

    def _may_pass_over(self, module: Module, above: ast.AST, below: ast.AST) -> bool:
        """Whether a node may go on without what stands directly below it."""
        if isinstance(above, ast.BoolOp) and below is above.values[0]:
            return False
        if not isinstance(above, ast.If):
            is_caught = _catches_errors(above) and not self._fails_again(module, above, below)
            return isinstance(above, _SKIPPABLE) or isinstance(below, ast.ExceptHandler) or is_caught
        return (
            below is not above.test
            and not self._is_entered(module, above)
            and not self._fails_else(module, above, below)
            and not is_sole_training(self.flow, self.entries, above, is_body=below in above.body)
        )

    def _fails_else(self, module: Module, statement: ast.If, below: ast.AST) -> bool:
        """Whether the other arm of an ``if`` fails, too."""
        return self._fails_in(module, statement, statement.orelse if below in statement.body else statement.body)

    def _fails_again(self, module: Module, statement: ast.AST, below: ast.AST) -> bool:
        """Whether whatever handles an error fails, too: ``except: it = iter(loader)``, and then ``it.next()`` again."""
        handlers = getattr(statement, "handlers", ()) if below in getattr(statement, "body", ()) else ()
        return bool(handlers) and all(self._fails_in(module, each, each.body) for each in handlers)

    def _fails_in(self, module: Module, statement: ast.If | ast.ExceptHandler, arm: Sequence[ast.stmt]) -> bool:
        """Whether an arm of the statement fails whenever it is taken."""
        return any(
            self._is_sure_below(module, each.node, statement, arm)
            for each in _broken(self.flow, module, self.target)
            if arm and arm[0].lineno <= getattr(each.node, "lineno", 0) <= (arm[-1].end_lineno or 0)
        )

    def _is_sure_below(
        self, module: Module, node: ast.AST, statement: ast.If | ast.ExceptHandler, arm: Sequence[ast.stmt]
    ) -> bool:
        """Whether the node is evaluated whenever the arm of the statement is."""
        below = node
        for above in module.ancestors(node):
            if above is statement:
                return below in arm
            if isinstance(above, FUNCTIONS) or self._may_pass_over(module, above, below):
                return False
            below = above
        return False

    def _is_entered(self, module: Module, statement: ast.If) -> bool:
        """``if step % 100 == 0:``, or the guard of what runs when the script is started."""
        if is_main_guard(statement):
            return module in self.entries
        return self._is_sometimes(module, statement.test)

    def _is_sometimes(self, module: Module, test: ast.expr, *, is_given: bool = False) -> bool:
        """``step % 100 == 0 and step > 0``, or a name that is given that: some iteration of a loop gets there."""
        if isinstance(test, ast.Name) and not is_given:
            given = reaching(module.function(test) or module.tree).given(test) or ()
            return bool(given) and all(self._is_sometimes(module, each, is_given=True) for each in given)
        if not isinstance(test, ast.BoolOp):
            return self._is_first(test) or any(map(is_remainder, ast.walk(test)))
        others = [each for each in test.values if not self._is_sometimes(module, each, is_given=is_given)]
        is_any = len(others) < len(test.values)
        return is_any and (isinstance(test.op, ast.Or) or all(map(_is_of_numbers, others)))

    def _is_first(self, test: ast.expr) -> bool:
        """``get_rank() == 0``, or a function that returns that: one of the processes is the first."""
        for each in _returned(self.flow, test):
            match each:
                case ast.Compare(left, [ast.Eq()], [ast.Constant(0)]):
                    calls = (call for call in _returned(self.flow, left) if isinstance(call, ast.Call))
                    return any(value.name in RANKS for call in calls for value in self.flow.values(call.func))
        return False


def _is_of_numbers(test: ast.expr) -> bool:
    """``step > 0``, ``epoch in (0, 5)``: sooner or later; ``writer is not None``, ``mode == "a"`` are chosen."""
    if not isinstance(test, ast.Compare) or any(isinstance(each, (ast.Is, ast.IsNot)) for each in test.ops):
        return False
    is_text = any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in ast.walk(test))
    lists = [
        right for kind, right in zip(test.ops, test.comparators, strict=True) if isinstance(kind, (ast.In, ast.NotIn))
    ]
    return not is_text and all(isinstance(each, (ast.List, ast.Tuple, ast.Set)) for each in lists)


def _returned(flow: Flow, node: ast.expr) -> Iterator[ast.expr]:
    """The expression, and where it is a call, what the functions of the project return that it runs."""

    def following(here: ast.expr) -> Iterator[ast.expr]:
        for function in flow.called(here) if isinstance(here, ast.Call) else ():
            yield from (each.value for each in own(function, ast.Return) if each.value is not None)

    return closure([node], following)


_OF_OTHERS = names.words(
    """
    AssertionError EOFError FileNotFoundError IOError KeyboardInterrupt KeyError OSError
    StopAsyncIteration StopIteration ZeroDivisionError
    """
)
"""What no failure raises that is looked for here: ``it.next()`` raises an AttributeError and no StopIteration."""


def _catches_errors(node: ast.AST) -> bool:
    """Whether what fails in the node may not end the script, for such errors are caught."""
    for handler in getattr(node, "handlers", ()):
        caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if not all(isinstance(each, ast.Name) and each.id in _OF_OTHERS for each in caught):
            return True
    return False
