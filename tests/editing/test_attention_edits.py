from __future__ import annotations

import pytest

from codemods.dataflow.source import Module
from codemods.editing.attention_edits import fused
from codemods.editing.values import ImportName, Remove, Replace
from codemods.facts.models.attention import Attention
from codemods.facts.models.attention_sites import attentions
from codemods.facts.reason import Reason
from codemods.facts.script import Script


def edits(code: str, width: int = 120) -> list[object] | Reason:
    script = Script.of(Module("train.py", code, widest=width))
    (site,) = attentions(script.flow, script.module)
    assert isinstance(site.attention, Attention)
    found = fused(script, site.attention)
    return found if isinstance(found, Reason) else [*found]


def template(code: str, width: int = 120) -> str:
    found = edits(code, width)
    assert isinstance(found, list)
    (replaced,) = [each for each in found if isinstance(each, Replace)]
    return replaced.template


BODY = "def attend(query, key, value, mask):\n    s = query @ key.mT\n    return (s.masked_fill({}, float('-inf'))).softmax(-1) @ value\n"
F = "import torch.nn.functional as F\n"


def test_the_steps_go_and_the_product_becomes_the_call() -> None:
    found = edits(F + BODY.format("mask"))

    assert isinstance(found, list)
    assert [type(each) for each in found] == [Remove, Replace]


@pytest.mark.parametrize(
    ("start", "name", "imported"),
    [
        pytest.param("import torch\n", "scaled_dot_product_attention", True, id="a long name is imported"),
        pytest.param(
            "import torch.nn.functional as F\n", "F.scaled_dot_product_attention", False, id="a short one is there"
        ),
    ],
)
def test_its_name_is_written_as_the_module_does(start: str, name: str, imported: bool) -> None:  # noqa: FBT001 - expected
    found = edits(start + BODY.format("mask"))

    assert isinstance(found, list)
    assert any(isinstance(each, ImportName) for each in found) is imported
    assert template(start + BODY.format("mask")).startswith(f"{name}(")


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        pytest.param(120, 1, id="it fits"),
        pytest.param(80, 3, id="its arguments fit into one line"),
        pytest.param(50, 7, id="each argument needs a line"),
    ],
)
def test_lines_are_no_wider_than_the_files(width: int, lines: int) -> None:
    found = template(F + BODY.format("mask"), width)

    assert len(found.splitlines()) == lines
    assert max(map(len, found.splitlines())) + 4 <= width


def test_braces_are_kept() -> None:
    assert "{{0: mask}}[0]" in template(F + BODY.format("{0: mask}[0]"))


def test_a_condition_about_something_else_is_left() -> None:
    code = (
        F
        + "def attend(q, k, v, mask, flag):\n    s = q @ k.mT\n    if flag:\n        s += mask / 2\n    return s.softmax(-1) @ v\n"
    )

    found = edits(code)

    assert isinstance(found, Reason)
    assert found.code == "other-attention"


@pytest.mark.parametrize(
    "test",
    [
        "def exists(x, y=1):\n    return x is not None\n",
        "def exists(x):\n    return bool(x)\n",
        "from lib import exists\n",
    ],
)
def test_a_function_that_may_ask_for_more_than_none_is_left(test: str) -> None:
    code = (
        F
        + test
        + "def attend(q, k, v, mask):\n    s = q @ k.mT\n    if exists(mask):\n        s += mask / 2\n    return s.softmax(-1) @ v\n"
    )

    assert isinstance(edits(code), Reason)
