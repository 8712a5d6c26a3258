"""Which models score each word of a vocabulary, and how many there are."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.vocabularies import vocabularies

HEAD = """\
import torch
from torch import nn
from dataclasses import dataclass

@dataclass
class Config:
    words: int = 50257
    width: int = 64

"""
TRAINING = """
for x in data:
    model(x).sum().backward()
"""


def net(embedding: str, output: str, given: str = "", made: str = "Net()") -> str:
    return (
        f"{HEAD}class Net(nn.Module):\n"
        f"    def __init__(self{given}):\n"
        "        super().__init__()\n"
        f"        self.embedding = {embedding}\n"
        f"        self.head = {output}\n"
        "    def forward(self, x):\n"
        "        return self.head(self.embedding(x))\n"
        f"model = {made}.cuda()\n{TRAINING}"
    )


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        pytest.param(net("nn.Embedding(50257, 64)", "nn.Linear(64, 50257)"), [50257], id="numbers"),
        pytest.param(
            net(
                "nn.Embedding(num_embeddings=50257, embedding_dim=64)",
                "nn.Linear(in_features=64, out_features=50257)",
            ),
            [50257],
            id="keywords",
        ),
        pytest.param(
            net("nn.Embedding(words, 64)", "nn.Linear(64, words)", ", words", "Net(30001)"), [30001], id="an argument"
        ),
        pytest.param(
            net("nn.Embedding(c.words, c.width)", "nn.Linear(c.width, c.words)", ", c", "Net(Config())"),
            [50257],
            id="a configuration",
        ),
        pytest.param(net("nn.Embedding(50257, 64)", "nn.Linear(64, 10)"), [], id="scores of classes"),
        pytest.param(net("nn.Linear(8, 64)", "nn.Linear(64, 50257)"), [], id="no embedding"),
        pytest.param(
            net("nn.Embedding(words, 64)", "nn.Linear(64, words)", ", words", "Net(len(open('words').read()))"),
            [],
            id="words of a file",
        ),
    ],
)
def test_vocabularies_by(text: str, sizes: list[int]) -> None:
    assert [each.size for each in vocabularies(script(text))] == sizes


def test_each_layer_is_told_of_in_its_own_module_once() -> None:
    code = net("nn.Embedding(50257, 64)", "nn.Linear(64, 50257)").partition("model = ")[0]
    known = script(f"from net import Net\nmodel, other = Net().cuda(), Net().cuda()\n{TRAINING}", net=code)
    (there,) = (each for each in known.modules if each.name == "net")

    assert list(vocabularies(known)) == []
    assert [each.size for each in vocabularies(known.seen_from(there))] == [50257]
