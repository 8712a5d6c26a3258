"""Does a sampler draw all of an epoch's indices at once, before the first batch is read?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.values import Literal, Made, without_none
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


def _draws_in_chunks(flow: Flow, sampler: Value) -> bool:
    """Whether torch's sampler draws while it is read, of a generator that others may draw of, too.

    With replacement it draws 32 indices at a time; it has a generator of its own where it is given none.
    """
    if sampler.name != "torch.utils.data.RandomSampler" or not isinstance(sampler.site, ast.Call):
        return False
    replaces = argument(flow, sampler.site, 1, "replacement")
    shared = without_none(argument(flow, sampler.site, 3, "generator"))
    return bool(shared) and any(not isinstance(each, Literal) or bool(each.value) for each in replaces)
