"""Which data sets of images could be read and transformed once for all epochs, and what stands against it?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.source import LOOPS, walk
from codemods.dataflow.values import (
    NONE,
    Class,
    Container,
    Function,
    Instance,
    Literal,
    Made,
    Method,
    class_of,
    library_names,
    without_none,
)
from codemods.facts.cost.worth import worth
from codemods.facts.data.datasets import Dataset, given_label_transform, is_concatenated
from codemods.facts.data.loader_use import why_reading_is_unknown
from codemods.facts.data.looking import is_only_looked_at
from codemods.facts.data.own_classes import holder
from codemods.facts.data.reads import How
from codemods.facts.data.tall_images import as_tall_image
from codemods.facts.loops import loop_around, module_of, place
from codemods.facts.overwritten import why_overwritten
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.workers.ingredients import changes_of_lists
from codemods.facts.workers.payload import worker_code
from codemods.facts.workers.shared_state import changes_of_what_is_sent
from codemods.library.datasets import largest
from codemods.library.kinds import argument, described
from codemods.library.transforms import is_repeatable, makes_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import FunctionNode, Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.data.loaders import Loader
    from codemods.facts.data.reads import Pass
    from codemods.facts.script import Script

MOST_BYTES = 2**30
"""What the images of a data set may take in memory, as numbers of 32 bits; twice as much while they are stacked."""
_BYTES = 4
_TENSORS = "torch.utils.data.TensorDataset"
_COLLATE = "torch.utils.data.default_collate"
_SPLIT = "torch.utils.data.random_split"
_PARTS = frozenset(f"torch.utils.data.{name}" for name in ("random_split", "Subset", "ConcatDataset"))
"""What makes data sets of others, of which is asked where a loader reads them."""
_CLASSES = frozenset({"classes", "class_to_idx"})
"""Attributes of data sets that say which labels there are: no item is read by them."""
_ITEMS = frozenset({"data", "targets", "labels", "train_data", "test_data", "train_labels", "test_labels"})
"""Attributes of data sets that items are read from."""
_SAMPLERS = frozenset(f"torch.utils.data.{name}" for name in ("RandomSampler", "SequentialSampler"))
_SHOWING = frozenset({"builtins.print", "builtins.str", "builtins.repr", "builtins.isinstance", "builtins.type"})
"""Functions that change nothing of a data set, and say of which class it is."""
_HANDING_ON = (ast.Assign, ast.AnnAssign, ast.Return, ast.Tuple, ast.List, ast.Dict, ast.IfExp, ast.Starred, ast.Expr)


def image_sets(script: Script) -> Iterator[tuple[Module, ast.Call, Value]]:
    """The data sets of images of known number and size that the module makes and a loader reads, in their order."""
    for call in script.module.nodes(ast.Call):
        for value in script.flow.values(call):
            if value.site is not call or not is_image_set(_made_of(script, value)):
                continue
            if any(True for _ in _readers(script, value)) or holder(script, value) is not None:
                yield script.module, call, value


def is_image_set(name: str) -> bool:
    """Whether the library's data set of that qualified name has images of known number and size."""
    known = largest(name)
    return known is not None and known.side is not None


def _made_of(script: Script, value: Value) -> str:
    """The qualified name of a library's data set, also of that by which a class of the project decodes its items."""
    class_ = class_of(value) if isinstance(value, Instance) else None
    if class_ is None:
        return value.name if isinstance(value, Made) else ""
    bases = [each for each in script.flow.bases(class_) if isinstance(each, str) and largest(each) is not None]
    return bases[0] if bases and _may_decode(script.flow.method(class_, "__getitem__")) else ""


def _may_decode(item: FunctionNode | None) -> bool:
    """Whether what makes the items of a class is its base's method, calls that, or applies a transform itself."""
    if item is None:
        return True
    attributes = {each.attr for each in walk(item) if isinstance(each, ast.Attribute)}
    return not attributes.isdisjoint({"transform", "transforms", "__getitem__"})


class ReadOnce(NamedTuple):
    """A data set that can be read once before the first epoch."""

    node: ast.expr
    """The call that makes it or, where something else of it is used than its items, what its only loader is given."""
    why_not_singly: Reason | None
    """Why that gains nothing where its images are transformed one by one."""


def read_once(script: Script, module: Module, value: Value) -> ReadOnce | Reason:
    """How a data set can be read once before the first epoch; why it cannot, or should not."""
    call = value.site
    assert isinstance(call, ast.Call)  # noqa: S101 - for mypy: it is one of ``image_sets``
    reason = _why_own_class(script, value) or _why_replaced(script, module, value)
    reason = reason or _why_items_differ(script, call, value) or _why_too_large(script, value)
    otherwise = _why_used_otherwise(script, value) if reason is None else None
    node = call if otherwise is None else _only_given(script, module, value)
    reason = (
        reason
        or (otherwise if node is None else None)
        or next((reason for each in _readers(script, value) if (reason := _why_reader(script, each, value))), None)
        or next((reason for each in _readers(script, value) if (reason := _why_changed(script, call, each))), None)
    )
    return reason or _if_worth_it(script, module, node or call, value)


def _readers(script: Script, value: Value) -> Iterator[Loader]:
    return (each for each in script.loaders if value in each.dataset.parts)


# Its items.


def _why_own_class(script: Script, value: Value) -> Reason | None:
    """Why its items are not known: a class of the project makes them."""
    class_ = class_of(value)
    if class_ is None and not any(True for _ in _readers(script, value)):
        class_ = holder(script, value)
    if class_ is None:
        return None
    text = f"class {class_.name} is the script's own ({HERE}), and may make other items in each epoch:"
    remedy = "give the loader a TensorDataset of its items where it does not"
    return Reason("own-dataset-class", text, (place(script.flow, class_),), remedy)


def _why_replaced(script: Script, module: Module, value: Value) -> Reason | None:
    """Why what reads it, or reads it once, may do something else: the script replaces a part of it."""
    own = Dataset(script.flow, frozenset({value})).why_replaced
    return own or why_overwritten(script.flow, module, {_TENSORS, _COLLATE})


def _why_items_differ(script: Script, call: ast.Call, value: Value) -> Reason | None:
    """Why reading an item again may give another one, or no tensors."""
    labels = given_label_transform(value.name, call)
    is_transformed = labels is not None and script.flow.values(labels) != {NONE}
    if is_transformed or script.default_device is not None:
        text = "its labels are transformed" if script.default_device is None else "the script sets a default device"
        return Reason("other-arguments", f"{text}, and may be other numbers once they are stacked")
    if script.default_format is not None:
        text = f"the script says in which format its images become tensors ({HERE})"
        return Reason("other-arguments", text, (place(script.flow, script.default_format),))
    steps = Dataset(script.flow, frozenset({value})).transforms
    if steps is None:
        return Reason("unknown-transform", "its transform is not known: it may draw random numbers")
    for step in steps:
        if not isinstance(step, Made) or not is_repeatable(step.name):
            return _why_transformed_anew(script, step)
    if not any(makes_tensors(each.name) for each in steps):
        return Reason("unknown-transform", "its transform is not seen to make tensors of its images")
    return None


def _why_changed(script: Script, call: ast.Call, loader: Loader) -> Reason | None:
    """Where something changes that its images are made with, such as ``transform.transforms.append(crop)``."""
    code = worker_code(script.flow, loader)
    lists = frozenset(each for each in code.objects if isinstance(each, Container))
    changed = (each for each in changes_of_lists(script.flow, lists) if not _is_before(script, each[1], call))
    for module, node in (*changes_of_what_is_sent(code), *changed):
        text = f"what its images are made with is changed ({HERE}), and images made before would not follow"
        return Reason("dataset-changes", text, (at(module, node),))
    return None


def _is_before(script: Script, node: ast.expr, call: ast.Call) -> bool:
    """Whether the node runs before the call does, as it stands above it in the same function and in no loop."""
    module = module_of(script.flow, call)
    if not module.holds(node) or module.function(node) is not module.function(call):
        return False
    return node.lineno < call.lineno and loop_around(script.flow, module, call) is None


def _why_transformed_anew(script: Script, step: Value) -> Reason:
    name = step.name.rpartition(".")[2] if isinstance(step, Made) else described(step)
    places = (at(module_of(script.flow, step.site), step.site),) if step.site is not None else ()
    where = f" ({HERE})" if places else ""
    if isinstance(step, Made) and is_repeatable(step.name) is False:
        return Reason("draws-anew", f"{name} draws random numbers for each image in each epoch{where}", places)
    text = f"what {name} does to an image is not known{where}: it may draw random numbers"
    return Reason("unknown-transform", text, places)


def _why_too_large(script: Script, value: Value) -> Reason | None:
    data = Dataset(script.flow, frozenset({value}))
    lengths = worth(script).lengths
    count, image = lengths.items(data.values), lengths.image(data)
    if count is None or image is None:
        return Reason("too-large", "how many images it has, or how large they are, is not known")
    channels, height, width = image
    total = count * channels * height * width * _BYTES
    if total <= MOST_BYTES:
        return None
    return Reason(
        "too-large", f"{count:,} images of {channels} x {height} x {width} take {total / 2**30:,.0f} GiB of memory"
    )


# Its users.


def _why_used_otherwise(script: Script, value: Value) -> Reason | None:
    """Why somebody would see that its items are rows of tensors: who does more than to read it through loaders."""
    places = [place for each in (value, *parts_of(script, value)) for place in script.flow.places(each)]
    for module, node in places:
        above = module.parent(node)
        if is_only_read(script, module, node):
            continue
        if isinstance(above, ast.Attribute):
            text = f"'.{above.attr}' of it is used ({HERE}), and a TensorDataset has none"
            return Reason("dataset-inspected", text, (at(module, node),))
        text = f"it is used in another way than through a loader ({HERE})"
        return Reason("dataset-inspected", text, (at(module, node),))
    return None


def parts_of(script: Script, value: Value) -> list[Value]:
    """The data sets that are made of it: its ``random_split``, parts of these, and so on."""
    found: list[Value] = []
    todo = [value]
    while todo:
        given = todo.pop()
        for module, node in script.flow.places(given):
            call = module.parent(node)
            call = module.parent(call) if isinstance(call, (ast.keyword, ast.List)) else call
            is_sum = is_concatenated(script.flow, call)
            is_part = isinstance(call, ast.Call) and {each.name for each in script.flow.values(call.func)} & _PARTS
            if call is None or not (is_sum or is_part):
                continue
            result = call.target if isinstance(call, ast.AugAssign) else call
            made = (item for each in script.flow.values(result) for item in _of_container(script, each))
            new = [each for each in made if each.site is call and each not in found]
            found.extend(new)
            todo.extend(new)
    return found


def _of_container(script: Script, value: Value) -> Values:
    return script.flow.items(value) if isinstance(value, Container) else frozenset({value})


def is_only_read(script: Script, module: Module, node: ast.expr) -> bool:
    """Whether what stands around a data set reads no more of it than loaders do."""
    above = module.parent(node)
    if isinstance(above, ast.keyword):
        above = module.parent(above)
    if isinstance(getattr(node, "ctx", None), ast.Store) or isinstance(above, _HANDING_ON):
        return True
    if is_concatenated(script.flow, above):
        return True
    if isinstance(above, ast.Attribute):
        return above.attr in {"__len__", "indices"}
    return isinstance(above, ast.Call) and node is not above.func and _may_be_given(script, above)


def _only_given(script: Script, module: Module, value: Value) -> ast.expr | None:
    """What the only loader of the data set is given, a name, where nobody looks at it through the loader."""
    readers = list(_readers(script, value))
    given = readers[0].arguments["dataset"].node if len(readers) == 1 else None
    if not isinstance(given, ast.Name) or script.flow.values(given) != {value} or not module.holds(given):
        return None
    if not all(_reads_only(script, where, node) for where, node in script.flow.places(value)):
        return None
    for where, node in script.flow.places(readers[0].value):
        above = where.parent(node)
        if isinstance(above, ast.Attribute) and above.attr == "dataset":
            asking = where.parent(above)
            if not (isinstance(asking, ast.Call) and _may_be_given(script, asking)):
                return None
    return given


def _reads_only(script: Script, module: Module, node: ast.expr) -> bool:
    """Whether what stands around a data set changes nothing of it: an item, its labels, what a loader does."""
    if is_only_read(script, module, node):
        return True
    above = module.parent(node)
    if isinstance(above, (ast.For, ast.comprehension)):
        return above.iter is node
    if isinstance(above, ast.Call):
        names = {each.name for each in script.flow.values(above.func)}
        return bool(names) and names <= _SHOWING
    if not isinstance(above, (ast.Attribute, ast.Subscript)) or not isinstance(above.ctx, ast.Load):
        return isinstance(above, ast.FormattedValue)
    if isinstance(above, ast.Subscript) or above.attr in _CLASSES:
        return True
    return above.attr in _ITEMS and is_only_looked_at(script, module, above)


def _may_be_given(script: Script, call: ast.Call) -> bool:
    """Whether what is called reads no more of a data set than a loader does: one, a split, ``len``, or the project."""
    if any(each.call is call for each in script.loaders):
        return True
    callees = script.flow.values(call.func)
    names = library_names(callees)
    if names:
        return len(names) == len(callees) and names <= _PARTS | _SAMPLERS | {"builtins.len"}
    return bool(callees) and all(isinstance(each, (Function, Method, Class)) for each in callees)


def _why_reader(script: Script, loader: Loader, value: Value) -> Reason | None:
    """Why a loader that reads it stands against it."""
    if loader.unknown_arguments is not None:
        return loader.unknown_arguments
    here = (loader.at(loader.call),)
    for name in ("collate_fn", "sampler", "batch_sampler"):
        if name in loader.arguments and loader.arguments[name].values != {NONE}:
            return Reason("other-arguments", f"a loader of it has a {name} of its own ({HERE})", here)
    if "batch_size" in loader.arguments and NONE in loader.arguments["batch_size"].values:
        text = f"a loader hands out its items as they are ({HERE}), and would hand out rows of tensors"
        return Reason("other-arguments", text, here)
    workers = loader.arguments.get("num_workers")
    if workers is not None and not all(isinstance(each, Literal) and not each.value for each in workers.values):
        text = f"worker processes read it beside the training ({HERE}):"
        return Reason("script-decides", text, here, remedy="take num_workers away where the processors are busy anyway")
    for each in without_none(loader.dataset.values):
        if each == value or value not in Dataset(script.flow, frozenset({each})).parts:
            continue
        inner = each.site if isinstance(each.site, ast.Call) else None
        made = {name.name for name in script.flow.values(inner.func)} if inner is not None else set()
        if inner is None or made != {_SPLIT} or value not in argument(script.flow, inner, 0, "dataset"):
            text = f"a loader reads a part of it, or more than it alone ({HERE})"
            return Reason("other-arguments", text, here)
    return why_reading_is_unknown(script, loader)


# How often it is read.


def _if_worth_it(script: Script, module: Module, node: ast.expr, value: Value) -> ReadOnce | Reason:
    """The data set where it is read from the start to the end more often than the node would, or faster by it."""
    lengths = worth(script).lengths
    loop = loop_around(script.flow, module, node)
    if loop is not None:
        return Reason("made-in-loop", f"it is made anew in each pass of a loop ({HERE})", (place(script.flow, loop),))
    passes = [(loader, each) for loader in _readers(script, value) for each in loader.passes]
    whole = [(loader, each) for loader, each in passes if each.how is How.LOOP and not _is_left_early(each)]
    if not whole:
        text = "it is not seen to be read from the start to the end"
        return Reason("read-once", text)
    total = 0
    for loader, each in whole:
        times = lengths.times(each.module, each.node, given=loader.value)
        repeats = loop_around(script.flow, each.module, each.node, given=loader.value) is not None
        total += times if times is not None else 2 if repeats else 1
    if total > 1:
        return ReadOnce(node, None)
    once = Reason(
        "read-once", f"it is read once ({HERE}), and nothing would read it again", (whole[0][0].at(whole[0][1].node),)
    )
    return ReadOnce(node, once) if total == 1 and as_tall_image(script.flow, value) is not None else once


def _is_left_early(reading: Pass) -> bool:
    """Whether the loop may end before the last batch."""
    if not isinstance(reading.node, (ast.For, ast.AsyncFor)):
        return False
    inner = {
        part
        for each in walk(reading.node)
        if isinstance(each, LOOPS) and each is not reading.node
        for part in walk(each)
    }
    return any(
        isinstance(each, ast.Return) or (isinstance(each, ast.Break) and each not in inner)
        for each in walk(reading.node)
    )
