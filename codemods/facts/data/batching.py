"""Which loaders gather batches item by item from tensors that could be indexed once, and why do they have to?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import words
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import NONE, Choice, Literal, Made, without_none
from codemods.facts.data.decoded import decoded, innermost
from codemods.facts.data.layout import why_not_in_order
from codemods.facts.data.loader_use import why_reading_is_unknown
from codemods.facts.data.loaders import Given
from codemods.facts.data.own_classes import why_own
from codemods.facts.data.row_classes import row_class, why_not_many
from codemods.facts.loops import module_of
from codemods.facts.overwritten import why_overwritten
from codemods.facts.reason import HERE, Reason, at
from codemods.library.kinds import argument

if TYPE_CHECKING:
    from codemods.dataflow.values import Value
    from codemods.facts.data.loaders import Argument, Loader
    from codemods.facts.script import Script

_TENSORS = "torch.utils.data.TensorDataset"
_SUBSET = "torch.utils.data.Subset"
_SAME = words("dataset __iter__ __len__")
"""Attributes of a loader that are what they were where a sampler makes its batches."""
_ASKING = words("builtins.getattr builtins.setattr builtins.hasattr builtins.vars")
_REPLACED = words("dataset batch_size shuffle sampler batch_sampler drop_last")


class Batches(NamedTuple):
    """How a loader's batches are cut now, as it is written."""

    size: ast.expr
    shuffle: ast.expr | None
    """Where it is given."""
    is_shuffled: bool
    drop_last: ast.expr | None
    generator: ast.expr | None
    rows: ast.expr
    """What has as many items as there are rows: the data set, or the first of its tensors."""


def batches(script: Script, loader: Loader) -> Batches | Reason | None:
    """How the loader cuts batches of tensors one item at a time; why it has to; None where it does nothing of that."""
    parts = loader.dataset.parts
    why_own_items = why_own(script.flow, parts, _TENSORS)
    if why_own_items is None and not any(_has_rows(script, each) for each in parts):
        return None
    size = loader.arguments.get("batch_size")
    if size is not None and size.values == {NONE}:
        return None
    own = (row_class(script.flow, each) for each in parts)
    unknown = next((reason for each in own if each is not None and (reason := why_not_many(script, each))), None)
    if unknown is not None:
        # Whether it is in memory is not known either: workers may be right for it.
        return unknown if not _has_workers(loader) else None
    return why_own_items or _why_not(script, loader) or _written(loader)


def _has_rows(script: Script, data: Value) -> bool:
    """Whether its items are rows of tensors or arrays, as those of ``TensorDataset`` and of classes that index some."""
    is_library = isinstance(data, Made) and data.name == _TENSORS
    return is_library or row_class(script.flow, data) is not None


def _why_not(script: Script, loader: Loader) -> Reason | None:
    if loader.passing is not loader.call or loader.own_iteration is not None:
        text = f"class {loader.value.name} makes or reads its batches in a way of its own"
        return Reason("own-loader-class", text)
    return loader.unknown_arguments or _why_not_cut(loader) or _why_not_indexed(script, loader) or _why_seen(
        script, loader
    )  # fmt: skip


def _why_not_cut(loader: Loader) -> Reason | None:
    """Why its batches cannot be cut by a sampler, as they are now."""
    given = loader.arguments
    for name in ("sampler", "batch_sampler", "collate_fn"):
        if name in given and given[name].values != {NONE}:
            return Reason("other-arguments", f"its batches are made by a {name} of its own")
    # Whatever number the user chooses, the batches are the same, and each takes less to make.
    if _has_workers(loader) and not all(isinstance(each, Choice) for each in given["num_workers"].values):
        text = "its batches are made in worker processes, from which each has to be sent:"
        return Reason("script-decides", text, remedy="take num_workers away, as the data set is in memory")
    if "batch_size" not in given or _is(given["batch_size"], 1):
        return Reason("nothing-to-gain", "its batches have one item")
    for name in sorted(given.keys() & _REPLACED - {"dataset"}):
        if given[name].how is Given.SPREAD:
            remedy = f"write {name} in the call"
            return Reason("unknown-arguments", f"its {name} comes through **:", remedy=remedy)
    if NONE in given["batch_size"].values:
        return Reason("unknown-arguments", "its batch_size may be None, which makes no batches")
    undecided = _why_undecided(given["shuffle"]) if "shuffle" in given else None
    if undecided is not None:
        return undecided
    generator = given.get("generator")
    if generator is not None and not isinstance(generator.node, (ast.Name, ast.Attribute)):
        text = "its generator has no name, and its sampler has to draw from the same one:"
        return Reason("no-name", text, remedy="give it a name")
    return None


def _has_workers(loader: Loader) -> bool:
    workers = loader.arguments.get("num_workers")
    return workers is not None and not _is(workers, 0)


def _why_not_indexed(script: Script, loader: Loader) -> Reason | None:
    """Why its data set cannot be given the indices of a whole batch."""
    flow = script.flow
    todo, seen = list(without_none(loader.dataset.values)), set[object]()
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if row_class(flow, value) is not None:
            continue
        if not isinstance(value, Made) or value.name not in {_TENSORS, _SUBSET} or not isinstance(value.site, ast.Call):
            text = "its data set may be something else than a TensorDataset, which takes many indices at once"
            return Reason("unknown-dataset", text)
        reason = why_overwritten(flow, loader.module, {value.name})
        if reason is not None:
            return reason
        if value.name == _SUBSET:
            reason = _why_not_numbers(script, value.site)
            if reason is not None:
                return reason
            todo.extend(without_none(argument(flow, value.site, 0, "dataset")))
        else:
            reason = _why_in_another_order(script, value)
            if reason is not None:
                return reason
    return None


def _why_not_numbers(script: Script, subset: ast.Call) -> Reason | None:
    """Why the indices of a part may be something else than numbers of Python's: tensors would be axes of an index."""
    flow = script.flow
    made = {each.name for each in flow.values(subset.func)}
    if made == {"torch.utils.data.random_split"}:
        return None
    indices = argument_of(subset, "indices", 1)
    if isinstance(indices, ast.Call) and {each.name for each in flow.values(indices.func)} == {"builtins.range"}:
        return None
    text = f"what the indices of its Subset are is not known ({HERE}), and a list of tensors would select otherwise"
    return Reason("unknown-arguments", text, (at(module_of(flow, subset), subset),))


def _why_in_another_order(script: Script, data: Value) -> Reason | None:
    """Why the items of the tensors may lie in memory otherwise than batches that are stacked."""
    call = data.site
    if not isinstance(call, ast.Call) or decoded(script.flow, data) is not None:
        return None
    module = module_of(script.flow, call)
    return next((reason for each in call.args if (reason := why_not_in_order(script.flow, module, each))), None)


def _why_seen(script: Script, loader: Loader) -> Reason | None:
    """Why somebody would see that the loader has no batch size any more."""
    flow = script.flow
    if script.framework is not None:
        return Reason("framework", f"{script.framework} may make samplers of its own for it")
    unknown = why_reading_is_unknown(script, loader)
    if unknown is not None:
        return unknown
    for module, node in flow.places(loader.value):
        above = module.parent(node)
        is_read = isinstance(above, ast.Attribute) and (above.attr not in _SAME or isinstance(above.ctx, ast.Store))
        asks = isinstance(above, ast.Call) and node in above.args[:1]
        if is_read or (asks and {each.name for each in flow.values(above.func)} & _ASKING):  # type: ignore[union-attr]
            what = f"'.{above.attr}'" if isinstance(above, ast.Attribute) else "an attribute"
            text = f"{what} of it is used ({HERE}), which a sampler of batches would change"
            return Reason("loader-inspected", text, (at(module, node),))
    return None


def _written(loader: Loader) -> Batches | Reason:
    """How its batches are cut, as far as what has to be named has a name."""
    given, data = loader.arguments, loader.arguments["dataset"].node
    rows = innermost(loader.flow, data) or data
    if rows is data and isinstance(data, ast.Call) and data.args:
        made = {each.name for each in loader.flow.values(data.func)}
        # A Subset has fewer items than what it is a part of.
        rows = data.args[0] if made == {_TENSORS} else data
    if rows is None or not _is_name(rows):
        text = "its data set has no name, by which its sampler could ask for its length:"
        return Reason("no-name", text, remedy="give it a name")
    size = given["batch_size"].node
    assert size is not None  # noqa: S101 - for mypy: what comes through ** was refused
    return Batches(size, _node(given.get("shuffle")), "shuffle" in given and _is(given["shuffle"], 1),
                   _node(given.get("drop_last")), _node(given.get("generator")), rows)  # fmt: skip


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_name(node.value))


def _why_undecided(shuffle: Argument) -> Reason | None:
    """Why a sampler cannot take the place of ``shuffle``."""
    if not (_is(shuffle, 0) or _is(shuffle, 1)):
        return Reason("unknown-arguments", "whether it shuffles is decided when the script runs")
    if shuffle.node is not None and not isinstance(shuffle.node, ast.Constant):
        text = f"whether it shuffles is set by '{ast.unparse(shuffle.node)}', which a sampler would not ask:"
        return Reason("unknown-arguments", text, remedy="write True or False there")
    return None


def _node(given: Argument | None) -> ast.expr | None:
    return given.node if given is not None else None


def _is(given: Argument, number: int) -> bool:
    """Whether the argument is surely that number, or the truth value that is as much."""
    return bool(given.values) and all(isinstance(each, Literal) and each.value == number for each in given.values)
