"""Models that DistributedDataParallel wraps, and who may see that their gradients are views."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.training.gradient_buckets import why_no_views, wrapped_models

HEAD = """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
model = torch.nn.Linear(4, 1)
"""


@pytest.mark.parametrize(
    ("made", "says", "looks"),
    [
        pytest.param("DDP(model)", False, False, id="as it is"),
        pytest.param("DDP(model, gradient_as_bucket_view=True)", True, False, id="with views"),
        pytest.param("DDP(model, find_unused_parameters=True)", False, True, id="it looks for parameters"),
        pytest.param("DDP(model, find_unused_parameters=option)", False, False, id="that is not known"),
    ],
)
def test_what_a_wrapper_is_asked(made: str, *, says: bool, looks: bool) -> None:
    (found,) = wrapped_models(script(f"{HEAD}model = {made}\n"))

    assert (found.says, found.unused is not None) == (says, looks)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("torch.optim.Adam(model.parameters())", None, id="torch's optimizer"),
        pytest.param("model.step()", "unknown-optimizer", id="no optimizer"),
        pytest.param("torch.optim.Adam(model.parameters())\nmodel.weight.grad", "gradients-read", id="a gradient"),
        pytest.param("torch.autograd.grad(a, b, create_graph=True)", "double-backward", id="differentiated again"),
    ],
)
def test_who_may_see_it(code: str, expected: str | None) -> None:
    known = script(f"{HEAD}model = DDP(model)\n{code}\n")
    (found,) = wrapped_models(known)
    why_not = why_no_views(known, found.call)

    assert (None if why_not is None else why_not.code) == expected
