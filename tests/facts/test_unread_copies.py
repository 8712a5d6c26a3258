"""Which copies to the host nothing reads."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.unread_copies import unread_copies

CODE = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
def f(data, flag):
    kept = []
    for x in data:
        out = model(x.cuda())
{inside}
    return {returned}
f(torch.randn(8, 4, 4), True)
"""
UNREAD = {
    "an array": "out = out.detach().cpu().numpy()",
    "a tensor": "out = out.to('cpu')",
    "a list": "seen = out.cpu().tolist()",
    "its name ends": "out = out.data.cpu().numpy()\ndel out",
    "the names of an object are looked at": "seen = out.cpu()\nprint(vars(model))",
    "it is another's before it is read": "seen = out.cpu()\nseen = 3\nkept.append(seen)",
}
READ = {
    "it is kept": "seen = out.cpu()\nkept.append(seen)",
    "it is computed with": "seen = out.cpu()\nseen = seen + 1\nkept.append(seen)",
    "the next pass reads it": "if len(kept):\n    print(seen)\nkept = [1]\nseen = out.cpu()",
    "a function reads it": "seen = out.cpu()\nkept.append(lambda: seen)",
    "all names are looked at": "seen = out.cpu()\nprint(locals())",
    "something is computed of it": "seen = out.cpu().sum()",
    "it is given to a function": "seen = print(out.cpu())",
    "an attribute": "model.seen = out.cpu()",
    "two names": "seen = same = out.cpu()",
    "not in each pass": "if flag:\n    seen = out.cpu()",
    "what is on the host": "seen = torch.ones(3).cpu()",
    "a copy that does not block": "seen = out.to('cpu', non_blocking=True)",
    "a number": "seen = out.sum().cpu().item()",
}


def found(inside: str, returned: str = "kept") -> list[str]:
    body = "".join(f"        {each}\n" for each in inside.splitlines())
    known = script(CODE.format(inside=body, returned=returned))
    return [f"{name.id} {ast.unparse(copy)}" for name, copy in unread_copies(known.flow, known.module)]


@pytest.mark.parametrize("inside", UNREAD.values(), ids=list(UNREAD))
def test_a_copy_that_nothing_reads(inside: str) -> None:
    ((name, _),) = (each.split(" ", 1) for each in found(inside))

    assert inside.startswith(f"{name} = ")


@pytest.mark.parametrize("inside", READ.values(), ids=list(READ))
def test_what_is_read_or_may_be(inside: str) -> None:
    assert found(inside) == []


def test_what_is_read_after_the_loop() -> None:
    assert found("seen = out.cpu()", returned="seen") == []
