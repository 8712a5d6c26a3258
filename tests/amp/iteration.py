"""What the parts of ``amp`` are made with, for a script that trains."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.amp.grouping import groups
from codemods.amp.scaler import Scaling
from codemods.dataflow.source import Module
from codemods.facts.script import Script
from codemods.facts.training.loss_regions import Phases

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

model = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).cuda()
other = nn.Linear(8, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
"""
"""Two models with an optimizer each, of which most scripts below use the first."""


def script(text: str, head: str = HEAD, **others: str) -> Script:
    """The script below its head, and other modules by their names."""
    modules = [Module(f"{name}.py", other, name) for name, other in others.items()]
    return Script.of(Module("train.py", head + text, "train"), others=modules)


def scaling(text: str, **others: str) -> Scaling:
    """The scaler's part of the only training iteration of the script."""
    known = script(text, **others)
    phases = Phases(known)
    ((group, iteration),) = groups(known, phases)
    return Scaling(known, phases, group, iteration.events)


def looped(*lines: str) -> str:
    """A loop over batches with these lines in it."""
    return "for x in torch.randn(6, 16, 8).cuda():\n" + "".join(f"    {line}\n" for line in lines)


def texts(nodes: Iterable[ast.AST]) -> list[str]:
    """How nodes are written."""
    return [ast.unparse(each) for each in nodes]
