from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.repeatability import unless_asked, why_runs_differ

HEAD = """
    import argparse, torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", action="store_true")
    args = parser.parse_args()
"""
ASKS = "torch.backends.cudnn.deterministic = True"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("", None, id="not asked for"),
        pytest.param(ASKS, None, id="asked for without an option"),
        pytest.param(f"if args.repeat: {ASKS}", "not args.repeat", id="under an option"),
        pytest.param(f"if not args.repeat: {ASKS}", None, id="unless there is an option"),
        pytest.param(f"if args.repeat and args.other: {ASKS}", None, id="under more than can be said"),
        pytest.param(
            f"if args.repeat: {ASKS}; torch.use_deterministic_algorithms(True)", None, id="where all keep to it"
        ),
        pytest.param(
            f"if args.repeat: {ASKS}; torch.use_deterministic_algorithms(False)",
            "not args.repeat",
            id="where that is switched off",
        ),
    ],
)
def test_what_holds_where_no_option_asks_for_runs_that_repeat_each_other(body: str, expected: str | None) -> None:
    known = script(f"{HEAD}    {body}\n    PLACE\n")
    (place,) = [each for each in known.module.nodes(ast.Expr) if ast.unparse(each) == "PLACE"]
    assert unless_asked(known, known.module, place) == expected


def test_without_a_place_an_option_cannot_be_asked() -> None:
    known = script(f"{HEAD}    if args.repeat: {ASKS}\n")
    reason = why_runs_differ(known, known.module, None)
    assert reason is not None
    assert reason.code == "determinism"


def test_nothing_differs_where_no_runs_are_to_repeat() -> None:
    known = script(HEAD)
    assert why_runs_differ(known, known.module, None) is None
