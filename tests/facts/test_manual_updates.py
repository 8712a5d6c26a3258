"""Loops over parameters: which ones are found, of which models, and what is against them."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.manual_updates import manual_updates

HEAD = """\
import torch
from torch import nn
class Hash(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(8, 8))
net, other = nn.Linear(4, 4), nn.Linear(4, 4)
nothing, hashing = nn.Sequential(nn.ReLU()), Hash()
while True:
    net(torch.randn(2, 4)).sum().backward()
"""


def found(body: str) -> list[tuple[list[str], str]]:
    """The models that each loop goes through, and why it is left."""
    text = HEAD + "".join(f"    {each}\n" for each in body.splitlines())
    return [
        ([ast.unparse(owner) for owner in each.owners.values()], each.why_not.code if each.why_not else "")
        for each in manual_updates(script(text))
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("for p in net.parameters(): p.data += 1", [(["net"], "")], id="one model"),
        pytest.param(
            "for (m, p), (n, q) in zip(net.named_parameters(), list(other.named_parameters())): q.data += p.data",
            [(["net", "other"], "")],
            id="two models, with names",
        ),
        pytest.param(
            "for n, p in net.named_parameters(): p.data += len(n)", [([], "not-elementwise")], id="the name is used"
        ),
        pytest.param("for p in nothing.parameters(): p.data += 1", [(["nothing"], "nothing-to-gain")], id="of none"),
        pytest.param(
            "for p, q in zip(net.parameters(), hashing.parameters()): p.data += q.data",
            [(["net", "hashing"], "nothing-to-gain")],
            id="of one that has buffers alone",
        ),
        pytest.param("for p in net.parameters(recurse=False): p.data += 1", [([], "unknown-model")], id="only some"),
        pytest.param("for p in net.buffers(): p += 1", [([], "integer-buffers")], id="buffers"),
        pytest.param("for p in net.parameters(): p.data += 1\nelse: pass", [([], "not-elementwise")], id="an else"),
        pytest.param(
            "for p in net.parameters(): p.data += 1\nprint([p for p in [1]])", [(["net"], "")], id="a name anew"
        ),
        pytest.param(
            "for p in net.parameters(): p.data += 1\nprint(p)", [(["net"], "used-outside")], id="a name later"
        ),
        pytest.param(
            "for p in net.parameters(): p.data += 1\ndef f(): return p\nf()",
            [(["net"], "used-outside")],
            id="in a function",
        ),
        pytest.param("for p in net.parameters(): print(p)", [], id="nothing is changed"),
        pytest.param("for p in [1, 2]: p += 1", [], id="no parameters"),
    ],
)
def test_which_loops_there_are(body: str, expected: list[tuple[list[str], str]]) -> None:
    assert found(body) == expected


def test_a_loop_that_runs_once_is_none() -> None:
    text = HEAD.replace("while True:", "if True:") + "    for p in net.parameters(): p.data += 1\n"

    assert list(manual_updates(script(text))) == []
