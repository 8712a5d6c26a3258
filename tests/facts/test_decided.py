from __future__ import annotations

import ast

import pytest

from codemods.facts.decided import agreed, holds

KNOWN = {"yes": True, "no": False}


def said(text: str) -> bool | None:
    test = ast.parse(text, mode="eval").body
    return holds(test, lambda part: KNOWN.get(ast.unparse(part)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("yes", True, id="a part that is known"),
        pytest.param("maybe", None, id="a part that is not"),
        pytest.param("not no", True, id="the opposite of what is known"),
        pytest.param("not maybe", None, id="the opposite of what is not"),
        pytest.param("maybe and no", False, id="one of several that have to hold does not"),
        pytest.param("maybe and yes", None, id="one of several that have to hold may not"),
        pytest.param("yes and yes", True, id="all hold"),
        pytest.param("maybe or yes", True, id="one of several that are enough holds"),
        pytest.param("maybe or no", None, id="one of several that are enough may hold"),
        pytest.param("no or no", False, id="none holds"),
        pytest.param("not (maybe or yes) and maybe", False, id="conditions in conditions"),
    ],
)
def test_a_condition_holds_as_far_as_its_parts_tell(text: str, *, expected: bool | None) -> None:
    assert said(text) is expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [([True, True], True), ([False], False), ([True, False], None), ([None, True], None), ([], None)],
)
def test_answers_agree_where_all_are_one(answers: list[bool | None], *, expected: bool | None) -> None:
    assert agreed(answers) is expected
