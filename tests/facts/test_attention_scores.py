from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.attention_scores import ScoreReader, Scores, Trail, factors_of, in_order, why_not_masked
from codemods.facts.reason import Reason

START = "import math\nimport torch\n\ndef attend(q, k, given, mask=None):\n    d = q.size(-1)\n"


def read(code: str) -> tuple[Scores | Reason, Trail, Reason | None]:
    """What is read of the expression that is returned."""
    found = script(START + "".join(f"    {line}\n" for line in code.splitlines()))
    (last,) = found.module.nodes(ast.Return)
    assert last.value is not None
    trail = Trail()
    scores = ScoreReader(found.flow, found.module, found.module.suite(last), trail).read(last.value, last)
    why = why_not_masked(found.flow, found.module, scores) if isinstance(scores, Scores) else None
    return scores, trail, why


def shown(code: str) -> tuple[list[tuple[str, bool, bool]], list[tuple[str, str, bool]], list[int]]:
    scores, trail, _ = read(code)
    assert isinstance(scores, Scores)
    scales = [(ast.unparse(each.node), each.divides, each.is_before_masks) for each in scores.scales]
    masks = [
        (each.text, "" if each.filled_with is None else ast.unparse(each.filled_with), each.condition is not None)
        for each in scores.masks
    ]
    return scales, masks, sorted(each.lineno - 5 for each in trail.statements)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("return q @ k.mT", ([], [], [])),
        ("s = q @ k.mT\ns = s / math.sqrt(d)\nreturn s", ([("math.sqrt(d)", True, True)], [], [1, 2])),
        ("s = 0.5 * (q @ k.mT)\nreturn s", ([("0.5", False, True)], [], [1])),
        (
            "s = q @ k.mT\ns *= 0.5\ns.masked_fill_(mask == 0, -1e9)\nreturn s",
            ([("0.5", False, True)], [("mask != 0", "-1000000000.0", False)], [1, 2, 3]),
        ),
        (
            "s = q @ k.mT\nif mask is not None:\n    s = s + mask\nreturn s.mul(2)",
            ([("2", False, False)], [("mask", "", True)], [1, 2]),
        ),
        ("return torch.where(mask, q @ k.mT, -1e9)", ([], [("mask", "-1000000000.0", False)], [])),
        ("s = q @ k.mT\nreturn torch.where(mask == 0, -1e9, s)", ([], [("mask != 0", "-1000000000.0", False)], [1])),
        ("return mask + (q * 2) @ k.mT", ([("2", False, True)], [("mask", "", False)], [])),
        ("return torch.add(torch.bmm(q, k.transpose(1, 2)), mask)", ([], [("mask", "", False)], [])),
    ],
)
def test_steps_in_their_order(code: str, expected: object) -> None:
    assert shown(code) == expected


@pytest.mark.parametrize(
    ("code", "query", "key", "is_turned"),
    [
        ("return q @ k.transpose(-1, -2)", "q", "k", True),
        ("return torch.matmul(q, k.permute(0, 1, 3, 2))", "q", "k", True),
        ("return q @ k", "q", "k.transpose(-2, -1)", False),
        ("return q @ k.transpose(1, 2)", "q", "k.transpose(1, 2).transpose(-2, -1)", False),
        ("return torch.bmm(q, k.transpose(1, 2))", "q", "k", True),
        ("return q.mm(k.t())", "q", "k", True),
        ("return q @ k.T", "q", "k", True),
        ("return torch.einsum('nqhd,nkhd->nhqk', [q, k])", "q.transpose(1, 2)", "k.transpose(1, 2)", True),
    ],
)
def test_queries_and_keys(code: str, query: str, key: str, is_turned: bool) -> None:  # noqa: FBT001 - expected
    scores, _, _ = read(code)

    assert isinstance(scores, Scores)
    assert [ast.unparse(each.node) + each.suffix for each in (scores.query, scores.key)] == [query, key]
    assert scores.is_turned is is_turned


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("return given", id="a parameter"),
        pytest.param("return torch.tanh(q @ k.mT)", id="a function of scores"),
        pytest.param("return (q @ k.mT) * given", id="a factor that may be a tensor"),
        pytest.param("return 2 / (q @ k.mT)", id="a number divided by scores"),
        pytest.param("s = q @ k.mT\ns -= given\nreturn s", id="something subtracted in place"),
        pytest.param("s = q @ k.mT\nif given:\n    s = s / 2\nreturn s", id="a scale under a condition"),
        pytest.param("s = q @ k.mT\nif given:\n    s = given + 1\nreturn s", id="something else under a condition"),
        pytest.param("s, t = q @ k.mT, 1\nreturn s", id="one of several"),
        pytest.param("return torch.einsum('bhid,bjd->bhij', q, k)", id="heads that share keys"),
        pytest.param("return torch.einsum(given, q, k)", id="an einsum that is given"),
    ],
)
def test_what_are_other_scores(code: str) -> None:
    scores, _, _ = read(code)

    assert isinstance(scores, Reason)
    assert scores.code == "other-attention"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("return (q @ k.mT).masked_fill(mask, -1e9) / d ** 0.5", None),
        ("return (q @ k.mT).masked_fill(mask, -1e9) / (d - 9)", "other-attention"),
        ("return (q @ k.mT + mask / 2) * 0.5", "other-attention"),
        ("return q @ k.mT + mask", "unknown-mask"),
        ("return q @ k.mT + mask / 2", None),
        ("return (q @ k.mT).masked_fill(mask, -1e9).masked_fill(given, -1e9)", "other-attention"),
    ],
)
def test_masks_that_the_fused_function_applies_alike(code: str, expected: str | None) -> None:
    _, _, why = read(code)

    assert (why and why.code) == expected


def test_the_operands_of_an_einsum_may_stand_in_a_list() -> None:
    one, listed = (ast.parse(each, mode="eval").body for each in ("f(q, k)", "f([q, k])"))

    assert isinstance(one, ast.Call)
    assert isinstance(listed, ast.Call)
    assert [ast.unparse(each) for each in factors_of(one.args)] == ["q", "k"]
    assert [ast.unparse(each) for each in factors_of(listed.args)] == ["q", "k"]


@pytest.mark.parametrize(
    ("order", "text"), [(None, ""), ((0, 2, 1, 3), ".transpose(1, 2)"), ((1, 2, 0), ".permute(1, 2, 0)")]
)
def test_dimensions_are_put_in_order(order: tuple[int, ...] | None, text: str) -> None:
    assert in_order(order) == text
