"""What hooks keep of what modules compute."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.autograd.hooked import kept_by_hooks

HEAD = """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
kept, tensors, last = {{}}, [], None
def keep(module, given, output):
    {body}
model[0].{hang}(keep)
"""


@pytest.mark.parametrize(
    ("body", "hang", "expected"),
    [
        pytest.param("kept[1]['a'] = output", "register_forward_hook", ["kept"], id="an item"),
        pytest.param("module.last = output", "register_forward_hook", ["module.last"], id="an attribute"),
        pytest.param("tensors.append((1, output))", "register_forward_hook", ["tensors"], id="a method"),
        pytest.param("kept.update(a=given)", "register_forward_hook", ["kept"], id="the input"),
        pytest.param("last = output", "register_forward_hook", [], id="a name of its own"),
        pytest.param("tensors.append(output.data)", "register_forward_hook", [], id="without its graph"),
        pytest.param("tensors.append(module)", "register_forward_hook", [], id="the module"),
        pytest.param("tensors.append(output)", "register_forward_pre_hook", ["tensors"], id="the last of a pre-hook"),
        pytest.param("tensors.append(given)", "register_forward_pre_hook", [], id="not the last of a pre-hook"),
        pytest.param("tensors.append(output)", "register_full_backward_hook", [], id="gradients"),
    ],
)
def test_what_is_kept(body: str, hang: str, expected: list[str]) -> None:
    known = script(HEAD.format(body=body, hang=hang))

    assert [ast.unparse(each.place) for each in kept_by_hooks(known.flow, known.module)] == expected
