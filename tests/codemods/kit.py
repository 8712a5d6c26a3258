"""The two functions with which the tests of a rule are written, and one for what it does not even mention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Promise
from codemods.facts.causes import OF_ALL
from codemods.facts.target import Target

if TYPE_CHECKING:
    from autotune_rewrite.rewriting.results import Rewrite
    from codemods.codemod import Codemod


ACCELERATED = """\
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

accelerator = Accelerator()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), 64, num_workers=2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(10):
    for x, y in loader:
        x = x.to(accelerator.device)
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        optimizer.step()
"""
"""A script whose loop runs inside Accelerate."""


def found_by(text: str) -> object:
    """What the script has under the name ``found`` at its end; random numbers are drawn on as if it had not run."""
    import torch

    names: dict[str, object] = {}
    with torch.random.fork_rng():
        exec(compile(text, "train.py", "exec"), names)  # noqa: S102 - the tests' own scripts
    return names["found"]


def run(rule: type[Codemod], text: str, target: tuple[int, int] | None = None) -> Rewrite:
    """This rule alone, at the farthest level."""
    settings = Settings(frozenset({rule.name()}), Promise.TRAINING, target=Target(target))
    result = rewrite("train.py", text, settings, rounds=((rule,),))

    # Of every site that is left the rule declares the cause.
    assert {site.code for site in result.sites if not site.rewrites} <= rule.causes | OF_ALL.keys()
    return result


def check_rewrites(rule: type[Codemod], before: str, after: str, target: tuple[int, int] | None = None) -> None:
    """The rule makes exactly this of it, which is Python, and makes nothing more of that."""
    result = run(rule, before, target)

    assert result.after == after
    compile(result.after, "train.py", "exec")
    assert run(rule, after, target).after == after


def check_leaves(rule: type[Codemod], code: str, because: str, target: tuple[int, int] | None = None) -> None:
    """The rule changes nothing of it, and says this of each site that it has found."""
    result = run(rule, code, target)

    assert result.after == code
    assert {site.message for site in result.sites} == {because}


def check_silent(rule: type[Codemod], code: str, target: tuple[int, int] | None = None) -> None:
    """The rule finds no site in it."""
    assert run(rule, code, target).sites == ()
