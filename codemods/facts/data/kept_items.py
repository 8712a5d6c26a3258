"""Which data sets of the script's own read the same items again in each epoch, and what stands against keeping them?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import decorators, words
from codemods.dataflow.signatures import argument_of, arguments_of, signature
from codemods.dataflow.source import LOOPS, is_name, walk
from codemods.dataflow.values import (
    NONE,
    Class,
    Container,
    External,
    Function,
    Instance,
    Literal,
    Made,
    Method,
    Plain,
    Tensor,
    Unknown,
    library_names,
    without_none,
)
from codemods.facts.data.collation import is_changed
from codemods.facts.data.joined_items import hands_on_items
from codemods.facts.data.loader_use import is_prepared, why_reading_is_unknown
from codemods.facts.data.looking import is_only_looked_at
from codemods.facts.data.materializing import is_only_read, parts_of
from codemods.facts.data.reads import How
from codemods.facts.data.repeated_items import why_items_differ
from codemods.facts.data.row_classes import is_replaced
from codemods.facts.loops import around, loop_around, makings, module_of, place, places_that_run, repeats
from codemods.facts.reach import Reach
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.workers.changes import why_changed
from codemods.facts.workers.ingredients import changes_of_what_is_read
from codemods.facts.workers.payload import WorkerCode
from codemods.facts.workers.shared_state import changes_of_what_is_sent
from codemods.library.kinds import argument
from codemods.library.repeating import method_writes_files, position_of_mode, writes_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script

_ITERABLE = "torch.utils.data.IterableDataset"
_BASES = words("torch.utils.data.Dataset typing.Generic builtins.object object abc.ABC")
_SPLIT = "torch.utils.data.random_split"
_SUBSET = "torch.utils.data.Subset"
_BY_NUMBER = frozenset(
    f"torch.utils.data.{name}" for name in ("RandomSampler", "SequentialSampler", "WeightedRandomSampler")
)
"""Samplers that ask for items by plain numbers."""
_SUBSET_SAMPLER = "torch.utils.data.SubsetRandomSampler"
_OF_NUMBERS = ("numpy.", "sklearn.")
_LOOKING = words("builtins.len builtins.print builtins.isinstance builtins.type builtins.id builtins.hasattr")
_ONE_BY_ONE = words("builtins.enumerate builtins.zip tqdm.tqdm tqdm.auto.tqdm")
_HOOKS = words("__getattr__ __getattribute__ __setattr__ __getitems__ __slots__ __getstate__ __reduce__ __del__")
"""What makes an attribute, or the method that reads an item, something else than it looks."""


@dataclass(frozen=True, eq=False)
class OwnDataset:
    """A class of the module whose objects loaders read."""

    script: Script
    module: Module
    class_: ast.ClassDef
    item: ast.FunctionDef
    """Its method that makes an item."""

    @cached_property
    def objects(self) -> tuple[Value, ...]:
        """The objects of the class that the script makes."""
        flow = self.script.flow
        made = (each for call in makings(flow, self.class_) for each in flow.values(call))
        return tuple(dict.fromkeys(each for each in made if isinstance(each, Instance) and each.site is not None))

    @cached_property
    def readers(self) -> tuple[Loader, ...]:
        """The loaders that read them."""
        return tuple(each for each in self.script.loaders if set(self.objects) & set(each.dataset.parts))

    @cached_property
    def code(self) -> WorkerCode:
        """What runs where one of its items is read."""
        loader = self.readers[0]
        read = next(each for each in loader.dataset.parts if each in self.objects)
        return WorkerCode(self.script.flow, loader, read)

    @cached_property
    def constructor(self) -> ast.FunctionDef | None:
        """The ``__init__`` in the class itself."""
        found = self.script.flow.defines(self.class_, "__init__")
        return found if isinstance(found, ast.FunctionDef) else None


def own_datasets(script: Script) -> Iterator[OwnDataset]:
    """The module's own map-style data sets that read files, decode or tokenize for each item, and keep none of them."""
    flow = script.flow
    for class_ in script.module.nodes(ast.ClassDef):
        item = flow.defines(class_, "__getitem__")
        if not isinstance(item, ast.FunctionDef) or _ITERABLE in flow.bases(class_):
            continue
        found = OwnDataset(script, script.module, class_, item)
        if found.readers and found.code.does_work and not _keeps_items(found.code):
            yield found


def _keeps_items(code: WorkerCode) -> bool:
    """Whether reading an item changes nothing but what the data set keeps by the item's number."""
    return why_changed(code) is not None and why_changed(code, stay=True) is None


def why_not_kept(found: OwnDataset) -> Reason | None:
    """Why the objects of a class should not keep their items once they are read; None where they can."""
    return (
        _why_other_form(found)
        or why_items_differ(found.code)
        or next((reason for each in found.readers if (reason := _why_reader(found, each)) is not None), None)
        or _why_changes(found)
        or _why_used_otherwise(found)
        or _why_read_once(found)
    )


# The class.


def _why_other_form(found: OwnDataset) -> Reason | None:
    """Why items cannot be kept in an attribute that ``__init__`` sets."""
    flow, class_ = found.script.flow, found.class_
    here = (place(flow, class_),)
    if any(not isinstance(each, ast.ClassDef) and each not in _BASES for each in flow.bases(class_)):
        return Reason("own-dataset-class", f"what class {class_.name} inherits ({HERE}) is not known", here)
    if flow.family(class_) != (class_,):
        text = f"other classes of the script derive from {class_.name} ({HERE}), or it derives from one of them"
        return Reason("own-dataset-class", text, here)
    named = {getattr(each, "name", getattr(each, "id", "")) for each in walk(class_)}
    if named & _HOOKS or class_.decorator_list or found.item.decorator_list or class_.keywords:
        text = (
            f"class {class_.name} ({HERE}) has attributes that are more than that: __slots__, decorators and the like"
        )
        return Reason("own-dataset-class", text, here)
    if is_replaced(flow):
        return Reason("library-changed", "the script gives some class another method that reads items")
    given = signature(found.item)
    if len(given.positional_names) != 2 or len(given.names) != 2 or given.defaults:  # noqa: PLR2004 - self and index
        return Reason("not-editable", "__getitem__ takes something else than an index")
    init = found.constructor
    if init is None or init.decorator_list or not signature(init).positional_names:
        text = f"class {class_.name} has no __init__ of its own ({HERE}), which would set where items are kept:"
        return Reason("own-dataset-class", text, here, "write one")
    if any(isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom)) for each in walk(init)):
        return Reason("own-dataset-class", f"__init__ may return before its end ({HERE})", (place(flow, init),))
    return None


# Its loaders.


def _why_reader(found: OwnDataset, loader: Loader) -> Reason | None:
    """Why a loader that reads its items stands against it."""
    script = found.script
    reason = loader.unknown_arguments or loader.own_iteration or loader.dataset.why_unknown
    if reason is not None:
        return reason
    here = (loader.at(loader.call),)
    for name in ("sampler", "batch_sampler"):
        given = loader.arguments.get(name)
        if given is not None and not all(_asks_by_number(script, each) for each in given.values):
            text = f"a loader of it has a {name} ({HERE}), which may ask for items by something else than numbers"
            return Reason("other-arguments", text, here)
    size = loader.arguments.get("batch_size")
    if size is not None and NONE in size.values:
        text = (
            f"a loader hands out its items as they are ({HERE}), and whoever writes to one would write to what is kept"
        )
        return Reason("items-handed-on", text, here)
    workers = loader.arguments.get("num_workers")
    if workers is not None and not all(isinstance(each, Literal) and not each.value for each in workers.values):
        text = f"worker processes read it ({HERE}), of which each would keep items of its own:"
        return Reason("script-decides", text, here, remedy="take num_workers away where all items fit into memory")
    handing = hands_on_items(script.flow, loader)
    if handing is not None:
        text = f"collate_fn may hand its items on as they are, or write to them ({HERE})"
        return Reason("items-handed-on", text, (loader.at(handing),))
    return _why_part(found, loader) or _why_reading(script, loader)


def _asks_by_number(script: Script, sampler: Value) -> bool:
    """Whether a sampler, if it is one, asks for items by plain numbers."""
    if sampler.name != _SUBSET_SAMPLER or not isinstance(sampler.site, ast.Call):
        return sampler == NONE or sampler.name in _BY_NUMBER
    indices = argument(script.flow, sampler.site, 0, "indices")
    return bool(indices) and all(_is_numbers(script, each) for each in indices)


def _why_part(found: OwnDataset, loader: Loader) -> Reason | None:
    """Why a part of the data set may ask for items by tensors, of which no two are the same."""
    flow = found.script.flow
    for each in without_none(loader.dataset.values):
        if each.name != _SUBSET or not isinstance(each.site, ast.Call):
            continue
        if {name.name for name in flow.values(each.site.func)} == {_SPLIT}:
            continue
        indices = argument(flow, each.site, 1, "indices")
        if not indices or not all(_is_numbers(found.script, one) for one in indices):
            text = f"a loader reads a part of it ({HERE}), whose indices may be tensors:"
            return Reason("other-arguments", text, (loader.at(each.site),), "make a list of them with tolist()")
    return None


def _is_numbers(script: Script, value: Value) -> bool:
    """Whether these are plain numbers, as those of a list or of an array."""
    if isinstance(value, Container):
        return not any(isinstance(each, (Tensor, Unknown)) for each in script.flow.items(value))
    return isinstance(value, Plain) or (isinstance(value, Made) and value.name.startswith(_OF_NUMBERS))


def _why_reading(script: Script, loader: Loader) -> Reason | None:
    if is_prepared(script, loader):
        return Reason("framework", "Accelerate makes a loader of its own of it, which may read it in several processes")
    return why_reading_is_unknown(script, loader)


# What changes.


def _why_changes(found: OwnDataset) -> Reason | None:
    """Where something changes that items are made of, so that those that were kept would not follow."""
    script = found.script
    own = _constructing(found)
    changed = [each for each in changes_of_what_is_read(found.code) if each[0].function(each[1]) not in own]
    changed = [(module, node) for module, node in changed if not _is_before(found, node)]
    for module, node in (*_changes_of_objects(found), *changed):
        text = f"what its items are made of is changed ({HERE}), and items that were kept would not follow"
        return Reason("dataset-changes", text, (at(module, node),))
    written = _files_written(found)
    if written is not None:
        text = f"files that its items are read from may be written ({HERE}), and items that were kept would not follow"
        return Reason("dataset-changes", text, (place(script.flow, written),))
    if is_changed(script, found.class_):
        text = f"something else than its __init__ sets what items of {found.class_.name} are made of ({HERE})"
        return Reason("dataset-changes", text, (place(script.flow, found.class_),))
    return None


def _constructing(found: OwnDataset) -> frozenset[Callee]:
    """The functions that run where an object is made."""
    init = found.constructor
    return frozenset() if init is None else Reach(found.script.flow).functions([init]) | {init}


def _changes_of_objects(found: OwnDataset) -> Iterator[tuple[Module, ast.expr]]:
    """Where the data sets are changed, or what they hold: ``train_set.set_size(3)``, ``transform.size = 3``."""
    own = _constructing(found)
    for loader in found.readers:
        for module, node in changes_of_what_is_sent(WorkerCode(found.script.flow, loader)):
            if module.function(node) not in own:
                yield module, node


def _files_written(found: OwnDataset) -> ast.Call | None:
    """Where a file is written, by a path that is made of what the data set is made with, and not before it is made."""
    flow = found.script.flow
    calls = [each.site for each in found.objects if isinstance(each.site, ast.Call)]
    given = {name for call in calls for each in arguments_of(call) for name in _variables(flow, each)}
    for module in flow.modules:
        for call in module.nodes(ast.Call):
            parts = [*arguments_of(call), *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
            is_there = _writes(flow, call) and any(name in given for each in parts for name in _variables(flow, each))
            if is_there and not _is_before(found, call):
                return call
    return None


def _writes(flow: Flow, call: ast.Call) -> bool:
    """Whether the call writes, moves or removes a file."""
    names = library_names(flow.values(call.func))
    for name in names:
        position = position_of_mode(name)
        mode = argument_of(call, "mode", position) if position is not None else None
        is_read = mode is None or (isinstance(mode, ast.Constant) and str(mode.value).startswith("r"))
        if writes_files(name) or not is_read:
            return True
    return not names and isinstance(call.func, ast.Attribute) and method_writes_files(call.func.attr)


def _variables(flow: Flow, node: ast.expr) -> Iterator[str]:
    """The variables and attributes in an expression, as they are written, but for functions and modules."""
    inner = {each.value for each in walk(node) if isinstance(each, ast.Attribute)}
    named = (each for each in walk(node) if isinstance(each, (ast.Name, ast.Attribute)) and each not in inner)
    for each in named:
        if not any(isinstance(value, (External, Function, Class, Method)) for value in flow.values(each)):
            yield ast.unparse(each)


def _is_before(found: OwnDataset, node: ast.AST) -> bool:
    """Whether the node surely runs before each object of the class is made."""
    made = [each.site for each in found.objects if each.site is not None]
    return all(_precedes(found.script, node, each, frozenset()) for each in made)


def _precedes(script: Script, node: ast.AST, made: ast.AST, seen: frozenset[ast.AST]) -> bool:
    """Whether the node runs before an object is made, as it stands above, or as what runs either of them does."""
    flow = script.flow
    module, home = module_of(flow, node), module_of(flow, made)
    function, making = module.function(node), home.function(made)
    if function is None and module is not home and module not in script.entries:
        return True  # when the module is imported
    if module is home and function is making:
        is_above = getattr(node, "lineno", 0) < getattr(made, "lineno", 0)
        return is_above and loop_around(flow, home, made) is None
    for here, is_node in ((making, False), (function, True)):
        runs = list(places_that_run(flow, here)) if here is not None and here not in seen else []
        further = seen | {here} if here is not None else seen
        if runs and all(
            _precedes(script, each if is_node else node, made if is_node else each, further) for each in runs
        ):
            return True
    return False


# Who else uses them.


def _why_used_otherwise(found: OwnDataset) -> Reason | None:
    """Why somebody may write to an item that is kept: who reads items in another way than through loaders."""
    script = found.script
    inside = next(_reads_inside(found), None)
    if inside is not None:
        text = f"its own methods read its items ({HERE}), and may write to them"
        return Reason("items-handed-on", text, (at(found.module, inside),))
    values = [part for each in found.objects for part in (each, *parts_of(script, each))]
    for value in dict.fromkeys(values):
        for module, node in script.flow.places(value):
            if not _is_harmless(found, module, node):
                text = f"it is used in another way than through a loader ({HERE}), and its items may be written to"
                return Reason("items-handed-on", text, (at(module, node),))
    return None


def _reads_inside(found: OwnDataset) -> Iterator[ast.AST]:
    """Where the class does more with its object than to look up an attribute, or its length."""
    for method in found.class_.body:
        names = signature(method).positional_names if isinstance(method, ast.FunctionDef) else ()
        if not names or decorators(method) & {"staticmethod", "classmethod"}:
            continue
        for node in walk(method):
            if not is_name(node, names[0]):
                continue
            above = found.module.parent(node)
            if isinstance(above, ast.Attribute):
                if above.attr in {"__getitem__", "__dict__"}:
                    yield above
                continue
            called = library_names(found.script.flow.values(above.func)) if isinstance(above, ast.Call) else frozenset()
            if not called & {"builtins.len", "builtins.super"}:
                yield node


def _is_harmless(found: OwnDataset, module: Module, node: ast.expr) -> bool:
    """Whether what stands around a data set cannot write to its items."""
    script = found.script
    above = module.parent(node)
    if is_only_read(script, module, node) or isinstance(above, (ast.ListComp, ast.DictComp)):
        return True
    if isinstance(above, ast.Call) and node is not above.func:
        called = library_names(script.flow.values(above.func))
        if called <= _ONE_BY_ONE and called:
            return is_only_looked_at(script, module, node)
        return bool(called) and called <= _LOOKING
    if isinstance(above, ast.Attribute) and isinstance(above.ctx, ast.Load):
        is_read = above.attr in found.code.attributes_read or above.attr == "__getitem__"
        return not is_read or is_only_looked_at(script, module, above)
    if isinstance(above, (ast.Subscript, ast.For, ast.comprehension)):
        return is_only_looked_at(script, module, above if isinstance(above, ast.Subscript) else node)
    return isinstance(above, (ast.FormattedValue, ast.Compare))


# How often they are read.


def _why_read_once(found: OwnDataset) -> Reason | None:
    """Why its items are not read again: no loop reads an object of it that was made before the loop."""
    flow = found.script.flow
    repeated: ast.AST | None = None
    first: tuple[Module, ast.AST] | None = None
    for loader in found.readers:
        made = [each for each in loader.dataset.parts if each in found.objects and each.site is not None]
        for reading in loader.passes:
            if reading.how is How.FIRST:
                continue
            first = first or (reading.module, reading.node)
            for above, below in around(flow, reading.module, reading.node, given=loader.value):
                if not isinstance(above, LOOPS) or not repeats(above, below):
                    continue
                if any(not _stands_in(found, each, above) for each in made):
                    return None
                repeated = repeated or above
    if repeated is not None:
        text = f"it is made anew in each pass of a loop ({HERE})"
        return Reason("made-in-loop", text, (place(flow, repeated),))
    if first is None:
        return Reason("read-once", "it is not seen to be read from the start to the end")
    return Reason("read-once", f"its items are read once ({HERE}), and nothing would read them again", (at(*first),))


def _stands_in(found: OwnDataset, value: Value, loop: ast.AST) -> bool:
    """Whether the loop makes the object, in each pass anew."""
    flow = found.script.flow
    assert value.site is not None  # noqa: S101 - for mypy: such objects alone are asked for
    home = module_of(flow, value.site)
    return any(above is loop and repeats(above, below) for above, below in around(flow, home, value.site))
