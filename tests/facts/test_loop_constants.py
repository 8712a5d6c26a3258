"""Constants of training loops: which statements make them; what is done with them is tested with the rule."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.training.loop_constants import loop_constants

HEAD = """\
import torch
from torch import nn
net = nn.Linear(4, 1)
sizes = {"n": 2}
class Options:
    size = 2
options = Options()
def train():
    for x in torch.randn(5, 8, 4):
        net(x).mean().backward()
"""


def found(body: str) -> list[tuple[int, list[int], str]]:
    """Of each constant: its line within the loop, the lines that go with it, and why it stays."""
    start = len(HEAD.splitlines())
    text = HEAD + "".join(f"        {each}\n" for each in body.splitlines()) + "train()\n"
    return [
        (
            each.statement.lineno - start,
            [one.lineno - start for one in each.statements],
            each.why_not.code if each.why_not else "",
        )
        for each in loop_constants(script(text))
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("a = torch.ones(2)", [(1, [1], "")], id="a tensor"),
        pytest.param("n = 2\na = torch.ones(n)", [(2, [1, 2], "")], id="of a number of the loop"),
        pytest.param("a = torch.ones(2)\nb = torch.triu(a)", [(1, [1], ""), (2, [1, 2], "")], id="of a constant"),
        pytest.param("a = torch.ones(options.size)", [(1, [1], "")], id="of an attribute"),
        pytest.param("a = torch.ones(options.size)\noptions.size = 3", [], id="of an attribute that is written"),
        pytest.param("a = torch.ones(2, out=net.bias)", [], id="into other memory"),
        pytest.param("a = torch.LongTensor(range(2))", [(1, [1], "")], id="of a range"),
        pytest.param("n = 2\na = torch.LongTensor(range(n))\nn += 1", [], id="of a range that changes"),
        pytest.param("a = torch.FloatTensor([1, 2])", [(1, [1], "")], id="of numbers in an old constructor"),
        pytest.param("a = torch.FloatTensor([x[0, 0], 2])", [], id="of elements of the batch"),
        pytest.param("a = torch.FloatTensor(2)", [], id="of what is in memory"),
        pytest.param("a = torch.FloatTensor(many)", [], id="of what may be a size"),
        pytest.param("a = torch.FloatTensor(2).fill_(1)", [(1, [1], "")], id="of one number"),
        pytest.param("a = torch.FloatTensor(2).fill_(net.bias)", [], id="filled with what is trained"),
        pytest.param("a = torch.zeros(2).fill_(net.bias)", [], id="zeros filled with what is trained"),
        pytest.param("a = torch.full((2,), net.bias)", [], id="full of what is trained"),
        pytest.param("a = torch.full((2,), fill_value=net.bias)", [], id="full of what is trained, by name"),
        pytest.param("a = torch.full((2,), 3)", [(1, [1], "")], id="full of a number"),
        pytest.param("a = b = torch.ones(2)", [], id="of two names"),
        pytest.param("net.scale = torch.ones(2)", [], id="of no name"),
        pytest.param("for _ in range(2):\n    a = torch.ones(2)", [], id="in a loop within"),
        pytest.param("a = torch.ones(2)\nprint(a.shape, len(a), a > 0)", [(1, [1], "")], id="only looked at"),
        pytest.param("a = torch.ones(2)\nx += a", [(1, [1], "")], id="added to something"),
        pytest.param("a = torch.ones(2)\nx[0] = a", [(1, [1], "may-be-written")], id="stored"),
        pytest.param("a = torch.ones(2)\nb = [a]", [(1, [1], "may-be-written")], id="in a list"),
        pytest.param("a = torch.ones(2)\nx.relu(a, inplace=True)", [(1, [1], "may-be-written")], id="in place"),
        pytest.param("a = torch.ones(2)\nreturn a", [(1, [1], "may-be-written")], id="returned"),
        pytest.param(
            "a = torch.ones(2)\ndef f(): return unknown(a)", [(1, [1], "may-be-written")], id="read by a function"
        ),
        pytest.param("if len(x) > 2:\n    a = torch.ones(2)", [(2, [2], "made-in-loop")], id="under an if"),
    ],
)
def test_which_constants_there_are(body: str, expected: list[tuple[int, list[int], str]]) -> None:
    assert found(body) == expected
