"""Changes that do harm, taken back after real runs of a real script."""

from __future__ import annotations

import ast
import json
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from autotune_rewrite.rewriting import batch
from autotune_rewrite.rewriting.rewrite import rewrite_project
from autotune_rewrite.verify.judgement import LEANS
from codemods.catalogue import RULES
from codemods.codemod import Codemod, Promise
from codemods.editing.values import Replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from codemods.codemod import Finding
    from tests.conftest import Answer

SCRIPT = """\
import torch

torch.set_num_threads(1)
rate = 0.1
weight = torch.zeros(2, requires_grad=True)
seen = []
for row in torch.randn(6, 2):
    loss = (weight @ row - 1) ** 2
    loss.backward()
    seen.append(row)
    with torch.no_grad():
        weight -= rate * weight.grad
        weight.grad.zero_()
"""
"""Six iterations without torch.optim, whose import takes longer than all the rest."""


class Swap(Codemod):
    """Writes one expression where another stands, and promises the same bits."""

    promise = Promise.BITWISE
    gain = ""
    needs_cuda = False
    old: str
    new: str

    def find(self, script: Any) -> Iterator[Finding]:
        module = script.module
        for node in ast.walk(module.tree):
            if isinstance(node, ast.expr) and module.code(node) == self.old:
                yield self.rewrites(module, node, "it is slow", Replace(module, node, self.new))


class Harmless(Swap):
    old, new = "0.1", "1e-1"


class Crashing(Swap):
    """Fails in the third iteration, with words that point to no rule."""

    old, new = "weight @ row - 1", "weight @ row - 1 if len(seen) < 2 else seen.missing"


class Differing(Swap):
    """Computes something else from the third iteration on."""

    old, new = "weight @ row - 1", "weight @ row - (1 if len(seen) < 2 else 1.001)"


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("harmful", "words"),
    [
        pytest.param(Crashing, "AttributeError: 'list' object has no attribute 'missing'", id="crash"),
        pytest.param(Differing, "osses differ from iteration 3 on", id="other bits"),
    ],
)
def test_a_harmful_change_is_found_and_taken_back(
    torchfast: Callable[..., Answer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harmful: type[Swap],
    words: str,
) -> None:
    made = ((Harmless, harmful),)
    monkeypatch.setattr(batch, "rewrite_project", partial(rewrite_project, rounds=made))
    for rule in made[0]:
        monkeypatch.setitem(cast("dict[str, type[Codemod]]", RULES), rule.name(), rule)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    chosen = ("--select", f"harmless,{harmful.name()}", "--format", "json")

    answer = torchfast("rewrite", "train.py", "--verify", "--apply", "--pairs", "1", "--device", "cpu", *chosen)

    said = json.loads(answer.out)["verification"]
    ((rule, why),) = said["left_out"]
    assert rule == harmful.name()
    assert words in why
    assert (said["run"], said["equality"]) == ("ok", "equal")
    assert path.read_text() == (SCRIPT.replace("0.1", "1e-1") if answer.code == 0 else SCRIPT)
    leans = said["speed"] == "inconclusive" and said["ratios"]["run"]["estimate"] < LEANS
    assert (answer.code == 0) == (said["speed"] != "slower" and not leans)
