"""Views that fail since torch 1.7, as accuracies of several ranks make them."""

from __future__ import annotations

import ast

import pytest
import torch
from probe import script

from codemods.facts.failing_views import failing_views

RANKS = """\
def hits(scores, labels, ranks=(1,)):
    with torch.no_grad():
        most = max(ranks)
        _, best = scores.topk(most, 1, True, True)
        best = best.t()
        right = best.eq(labels.view(1, -1).expand_as(best))
        found = []
        for rank in ranks:
            found.append(right[:rank].view(-1).float().sum(0))
        return found
"""
CALL = "hits(scores, labels, ranks=(1, 5))\n"
LITERAL = RANKS.replace("ranks=(1,)", "ranks=(1, 3)").replace("in ranks:", "in (1, 3):").replace("max(ranks)", "3")


def failing(text: str, **others: str) -> list[str]:
    """What fails where it is evaluated."""
    known = script(f"import torch\n{text}", **others)
    return [ast.unparse(each) for each in failing_views(known.flow)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(RANKS + CALL, CALL, id="the ranks are given"),
        pytest.param(RANKS + "top = (1, 5)\nhits(scores, labels, top)\n", "hits(scores, labels, top)", id="by a name"),
        pytest.param(RANKS.replace("(1,)", "(1, 5)") + "hits(a, b)\n", "hits(a, b)", id="they are the default"),
        pytest.param(LITERAL, "right[:rank].view(-1)", id="they are written there"),
        pytest.param(
            RANKS.replace("right[:rank]", "right[0:rank]")
            .replace("best.eq(", "(best == ")
            .replace("most, 1, True, True", "most, dim=1")
            + CALL,
            CALL,
            id="compared by an operator",
        ),
        pytest.param(
            "best = torch.topk(scores, 5, dim=1)[1].t()\nright = best.eq(labels)\nshare = right[:5].view(-1).float().mean()\n",
            "right[:5].view(-1)",
            id="outside of functions",
        ),
        pytest.param(
            "best = torch.topk(scores, 5, dim=1).indices\nbest = best.t()\nright = best.eq(labels)\n"
            "shares = [right[:rank].view(-1).float().mean() for rank in (1, 5)]\n",
            "right[:rank].view(-1)",
            id="in a comprehension",
        ),
    ],
)
def test_a_view_that_fails(text: str, expected: str) -> None:
    assert failing(text) == [expected.strip()]


def test_another_file_gives_the_ranks() -> None:
    assert failing(f"from ranking import hits\n{CALL}", ranking=f"import torch\n{RANKS}") == [CALL.strip()]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(RANKS, id="nothing calls it"),
        pytest.param(RANKS + "hits(scores, labels)\n", id="one rank is a view"),
        pytest.param(RANKS + "hits(scores, labels, ranks=chosen)\n", id="the ranks are not known"),
        pytest.param(RANKS + "hits(scores, labels, *more)\n", id="the ranks may be among others"),
        pytest.param(RANKS.replace(".view(-1)", ".reshape(-1)") + CALL, id="reshape copies"),
        pytest.param(RANKS.replace(".view(-1)", ".contiguous().view(-1)") + CALL, id="it is copied before"),
        pytest.param(RANKS.replace("expand_as(best))", "expand_as(best)).contiguous()") + CALL, id="all is copied"),
        pytest.param(RANKS.replace("best.t()", "best.t().contiguous()") + CALL, id="the transposed is copied"),
        pytest.param(RANKS.replace("        best = best.t()\n", "") + CALL, id="nothing is transposed"),
        pytest.param(
            RANKS.replace("best.eq(labels.view(1, -1).expand_as(best))", "labels.eq(best)") + CALL,
            id="the labels decide",
        ),
        pytest.param(RANKS.replace("topk(most, 1,", "topk(most, 0,") + CALL, id="along another dimension"),
        pytest.param(RANKS.replace("topk(most, 1,", "topk(1, 1,") + CALL, id="one is taken alone"),
        pytest.param(RANKS.replace("max(ranks)", "min(ranks)") + CALL, id="how many are taken is not known"),
        pytest.param(RANKS.replace("scores.topk", "scores.sort") + CALL, id="another order of indices"),
        pytest.param(RANKS.replace(".view(-1)", ".view(rank, -1)") + CALL, id="another view"),
        pytest.param(RANKS.replace("[:rank]", "[rank:]") + CALL, id="other rows"),
        pytest.param(
            RANKS.replace(
                "            found.append",
                "            if rank > 1:\n                continue\n            found.append",
            )
            + CALL,
            id="several ranks are passed over",
        ),
        pytest.param(
            RANKS.replace("            found.append", "            if rank == 1:\n                found.append") + CALL,
            id="under a condition",
        ),
        pytest.param(
            RANKS.replace("        found = []", "        ranks = (1,)\n        found = []") + CALL,
            id="the ranks are bound anew",
        ),
        pytest.param(RANKS.replace("for rank in", "for _, rank in") + CALL, id="the loop gives something else"),
        pytest.param(
            RANKS + CALL + "loader = torch.utils.data.DataLoader(data, batch_size=1)\n", id="a batch has one item"
        ),
        pytest.param(
            RANKS + CALL + "loader = torch.utils.data.DataLoader(data)\n", id="a batch has one item by default"
        ),
        pytest.param(
            RANKS + "count = hits if flag else print\ncount(scores, labels, (1, 5))\n",
            id="another function may be called",
        ),
    ],
)
def test_a_view_that_may_not_fail(text: str) -> None:
    assert failing(text) == []


def test_batches_of_several_items() -> None:
    assert failing(f"{RANKS}{CALL}loader = torch.utils.data.DataLoader(data, batch_size=64)\n") == [CALL.strip()]


def test_torch_refuses_it() -> None:
    scores, labels = torch.arange(12.0).view(3, 4), torch.tensor([0, 3, 1])
    names: dict[str, object] = {"torch": torch}
    exec(RANKS + "def one():\n    hits(scores, labels)\ndef two():\n    hits(scores, labels, (1, 2))\n", names)  # noqa: S102
    names |= {"scores": scores, "labels": labels}

    names["one"]()  # type: ignore[operator]
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        names["two"]()  # type: ignore[operator]
