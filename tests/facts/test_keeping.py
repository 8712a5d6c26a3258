"""Does the script keep the batches of a loader?"""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.keeping import why_kept

HEAD = """\
import torch
from torch.utils.data import DataLoader
loader = DataLoader(torch.zeros(8, 3))
kept = []
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("for x in loader:\n    kept.append(x)", True, id="in a list"),
        pytest.param("for x in loader:\n    kept.extend([x])", True, id="in a list, several at once"),
        pytest.param("for x in loader:\n    kept += [x]", True, id="in a list, added"),
        pytest.param("named = {}\nfor i, x in enumerate(loader):\n    named[i] = x", True, id="in a dictionary"),
        pytest.param("kept = list(loader)", True, id="all at once"),
        pytest.param("kept = [x for x in loader]", True, id="in a comprehension"),
        pytest.param("for x in loader:\n    kept.append(x.sum().item())", False, id="a number made of it"),
        pytest.param("for x in loader:\n    kept.append(x.cuda())", False, id="a copy on the device"),
        pytest.param("for x in loader:\n    own = []\n    own.append(x)", False, id="in a list of each pass"),
        pytest.param("for x in loader:\n    x[0] = x[1]", False, id="in the batch itself"),
        pytest.param("kept = [x.sum().item() for x in loader]", False, id="numbers in a comprehension"),
        pytest.param("for x in loader:\n    print(x)", False, id="it is only shown"),
    ],
)
def test_what_keeps_a_batch(text: str, *, expected: bool) -> None:
    known = script(HEAD + text)
    (loader,) = known.loaders
    reason = why_kept(known, loader)

    assert (reason is not None) is expected
    assert reason is None or reason.code == "batches-kept"


def test_the_batches_of_another_loader_are_kept() -> None:
    known = script(
        f"{HEAD}other = DataLoader(torch.zeros(8, 3))\nfor x in other:\n    kept.append(x)\nfor x in loader:\n    pass\n"
    )

    assert [why_kept(known, each) is not None for each in known.loaders] == [False, True]
