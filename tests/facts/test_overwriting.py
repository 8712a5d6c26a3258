"""Tensors that are made to have a size, and written then."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.data.overwriting import is_looked_up, is_read_as_made

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

HEAD = "import torch\nfrom torch import nn\n\n\ndef run(n, log):\n"
READ = {
    "returned": "    return torch.FloatTensor(n)",
    "returned beside others": "    return {'x': [torch.FloatTensor(n).unsqueeze(0), n]}",
    "handed out one by one": "    yield torch.FloatTensor(n).cuda()",
    "computed with": "    x = torch.FloatTensor(n)\n    y = (x - 2) * x[0]\n    x -= 1\n    return log(y)",
}
WRITTEN = {
    "at once": "    return torch.FloatTensor(n).normal_()",
    "below": "    x = torch.FloatTensor(n)\n    x.normal_()\n    return x",
    "through its data": "    x = torch.FloatTensor(n)\n    x.data.normal_()\n    return x",
    "part by part": "    x = torch.FloatTensor(n)\n    for i in range(n):\n        x[i] = i\n    return x",
    "by a function": "    x = torch.FloatTensor(n)\n    nn.init.normal_(x)\n    return x",
    "as what is computed": "    x = torch.FloatTensor(n)\n    torch.exp(log(n), out=x)\n    return x",
    "as a parameter, later": "    x = torch.FloatTensor(n)\n    return nn.Parameter(x)",
    "as a parameter of a model, later": "    log.weight = torch.FloatTensor(n)",
    "by what it is given to, perhaps": "    log(torch.FloatTensor(n))",
    "where a function within reads it": "    x = torch.FloatTensor(n)\n    return lambda: x.normal_()",
}


def is_read(body: str) -> bool:
    return is_read_as_made(*made_in(HEAD + body))


def made_in(text: str) -> tuple[Flow, Module, ast.Call]:
    """The values of a script, its module, and its one call of a legacy constructor."""
    made = script(text + "\n")
    legacy = {"torch.FloatTensor", "torch.LongTensor"}
    (call,) = [each for each in made.module.nodes(ast.Call) if ast.unparse(each.func) in legacy]
    return made.flow, made.module, call


@pytest.mark.parametrize("body", READ.values(), ids=READ)
def test_what_is_read_as_it_was_made(body: str) -> None:
    assert is_read(body)


@pytest.mark.parametrize("body", WRITTEN.values(), ids=WRITTEN)
def test_what_is_written_first(body: str) -> None:
    assert not is_read(body)


EMBEDDING = "embed = nn.Embedding(9, 3)\nother = nn.Linear(9, 3)\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("    return embed(torch.LongTensor(n).to(log.device))", True, id="at once"),
        pytest.param("    x = torch.LongTensor(n).cuda()\n    return embed(x)", True, id="by its name"),
        pytest.param("    x = torch.LongTensor(n)\n    x.random_(9)\n    return embed(x)", False, id="written before"),
        pytest.param("    return embed(torch.LongTensor(n).random_(9))", False, id="written at once"),
        pytest.param("    return other(torch.LongTensor(n))", False, id="by another layer"),
        pytest.param("    return log(torch.LongTensor(n))", False, id="by what is not known"),
        pytest.param("    return (embed if log else other)(torch.LongTensor(n))", False, id="perhaps by another layer"),
        pytest.param("    return nn.functional.embedding(torch.LongTensor(n), log)", True, id="in a given table"),
        pytest.param("    return nn.functional.embedding(log, torch.LongTensor(n))", False, id="it is the table"),
    ],
)
def test_what_an_embedding_is_asked_for(body: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert is_looked_up(*made_in(HEAD.replace("\n\n\n", "\n\n" + EMBEDDING + "\n\n", 1) + body)) is expected
