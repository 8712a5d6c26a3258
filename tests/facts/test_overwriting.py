"""Tensors that are made to have a size, and written then."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.overwriting import is_read_as_made

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
    made = script(HEAD + body + "\n")
    calls = [each for each in made.module.nodes(ast.Call) if ast.unparse(each.func) == "torch.FloatTensor"]
    (call,) = calls
    return is_read_as_made(made.flow, made.module, call)


@pytest.mark.parametrize("body", READ.values(), ids=READ)
def test_what_is_read_as_it_was_made(body: str) -> None:
    assert is_read(body)


@pytest.mark.parametrize("body", WRITTEN.values(), ids=WRITTEN)
def test_what_is_written_first(body: str) -> None:
    assert not is_read(body)
