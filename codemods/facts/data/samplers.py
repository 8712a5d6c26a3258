"""Does a sampler draw all of an epoch's indices at once, before the first batch is read? Are they numbers?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.values import Literal, Made, MovedTensor, SomeTensor, without_none
from codemods.library.kinds import argument

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value
    from codemods.facts.data.loaders import Loader


def is_drawn_at_once(loader: Loader, name: str) -> bool:
    """Whether the sampler is none, or torch's, and draws all of an epoch's indices at once."""
    given = loader.arguments.get(name)
    values = without_none(given.values) if given is not None else ()
    return all(
        isinstance(each, Made) and each.name.startswith("torch.") and not _draws_in_chunks(loader.flow, each)
        for each in values
    )


def device_indices(flow: Flow, sampler: Value) -> ast.Call | None:
    """The sampler whose indices are, or may be, items of a tensor on a device: workers cannot be sent these."""
    if not isinstance(sampler, Made) or not isinstance(sampler.site, ast.Call):
        return None
    if sampler.name == "torch.utils.data.BatchSampler":
        inner = (device_indices(flow, each) for each in argument(flow, sampler.site, 0, "sampler"))
        return next((each for each in inner if each is not None), None)
    if sampler.name != "torch.utils.data.SubsetRandomSampler":
        return None
    indices = argument(flow, sampler.site, 0, "indices")
    return sampler.site if any(isinstance(each, (MovedTensor, SomeTensor)) for each in indices) else None


def _draws_in_chunks(flow: Flow, sampler: Value) -> bool:
    """Whether torch's sampler draws while it is read, of a generator that others may draw of, too.

    With replacement it draws 32 indices at a time; it has a generator of its own where it is given none.
    """
    if sampler.name != "torch.utils.data.RandomSampler" or not isinstance(sampler.site, ast.Call):
        return False
    replaces = argument(flow, sampler.site, 1, "replacement")
    shared = without_none(argument(flow, sampler.site, 3, "generator"))
    return bool(shared) and any(not isinstance(each, Literal) or bool(each.value) for each in replaces)
