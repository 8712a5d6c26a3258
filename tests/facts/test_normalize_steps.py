"""Which transforms end in ``ToTensor`` and ``Normalize``, and by which numbers do they normalise."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.dataflow.values import Made
from codemods.facts.data.normalize_steps import COMPOSE, LeftError, Normalized, may_normalize, normalized

SCRIPT = """\
import sys
from torchvision import transforms
from torchvision.transforms import Normalize, RandomCrop, RandomErasing, ToTensor
from mylib import Own
LISTED = [ToTensor(), Normalize(0.5, 0.5)]
HALF = (0.5, 0.5)
steps = transforms.Compose({})
"""


def answer(listed: str) -> Normalized:
    known = script(SCRIPT.format(listed))
    call = next(iter(known.flow.calls_of(known.module, (COMPOSE,))))
    return normalized(known, Made(COMPOSE, call))


@pytest.mark.parametrize(
    ("listed", "means", "deviations"),
    [
        pytest.param("[ToTensor(), Normalize(0.5, 0.25)]", (0.5,), (0.25,), id="numbers"),
        pytest.param("[ToTensor(), Normalize((-0.5, 1), HALF)]", (-0.5, 1.0), (0.5,), id="one for each channel"),
        pytest.param("[RandomCrop(8), ToTensor(), Normalize(std=0.5, mean=0)]", (0.0,), (0.5,), id="more steps"),
    ],
)
def test_by_which_numbers(listed: str, means: tuple[float, ...], deviations: tuple[float, ...]) -> None:
    found = answer(listed)

    assert (found.means, found.deviations) == (means, deviations)
    assert ast.unparse(found.to_tensor) == "ToTensor()"
    assert ast.unparse(found.made).startswith("Normalize(")


@pytest.mark.parametrize(
    ("listed", "code"),
    [
        pytest.param("LISTED", "unknown-transform", id="steps that are not written out"),
        pytest.param("[Own(), ToTensor(), Normalize(0.5, 0.5)]", "unknown-transform", id="a step that is not known"),
        pytest.param("[ToTensor()]", "other-images", id="not normalised"),
        pytest.param("[ToTensor(), Normalize(0.5, 0.5), RandomErasing()]", "not-normalized-last", id="a step after it"),
        pytest.param("[ToTensor(), RandomErasing(), Normalize(0.5, 0.5)]", "not-normalized-last", id="one between"),
        pytest.param("[ToTensor(), Normalize(0.5, 0)]", "unknown-arguments", id="a deviation of zero"),
        pytest.param(
            "[ToTensor(), Normalize(0.5, float(sys.argv[1]))]", "unknown-arguments", id="numbers from outside"
        ),
        pytest.param("[ToTensor(), Normalize(*HALF)]", "unknown-arguments", id="numbers that are unpacked"),
    ],
)
def test_why_it_is_left(listed: str, code: str) -> None:
    with pytest.raises(LeftError) as left:
        answer(listed)
    assert left.value.reason.code == code


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        pytest.param("LISTED", True, id="a list"),
        pytest.param("[ToTensor(), Normalize(0.5, 0.5)]", True, id="written out"),
        pytest.param("[ToTensor()]", False, id="another step alone"),
    ],
)
def test_whether_it_may_normalise(listed: str, *, expected: bool) -> None:
    known = script(SCRIPT.format(listed))
    (call,) = known.flow.calls_of(known.module, (COMPOSE,))

    assert may_normalize(known, call) is expected
