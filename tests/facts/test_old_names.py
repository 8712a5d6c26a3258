"""Which places that name mixed precision by old names change together, and what each is."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.old_names import checks_type, is_annotation, is_called, is_decorator, old_names, why_not


def groups(text: str, **others: str) -> list[list[int]]:
    """The lines of the imports and references of each group."""
    found = old_names(script(text, **others))
    return [sorted({each.lineno for each in (*one.starts, *(ref.node for ref in one.references))}) for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("import torch\ntorch.cuda.amp.autocast()\ntorch.cuda.amp.autocast()", [[2], [3]], id="each alone"),
        pytest.param("from torch.cuda.amp import autocast\nautocast()\nautocast()", [[1, 2, 3]], id="with the import"),
        pytest.param(
            "from torch.cuda.amp import autocast\nfrom torch.cuda.amp import GradScaler\nautocast()\nGradScaler()",
            [[1, 3], [2, 4]],
            id="with its own import",
        ),
        pytest.param(
            "import torch\nfrom torch.cuda.amp import GradScaler\ns = torch.cuda.amp.GradScaler()\n"
            "isinstance(s, GradScaler)",
            [[2, 3, 4]],
            id="scalers together, where one is asked for its class",
        ),
        pytest.param("from torch.cuda.amp import autocast", [], id="nothing that is used"),
        pytest.param("import torch\ntorch.amp.autocast('cuda')", [], id="the new name"),
    ],
)
def test_what_changes_together(text: str, expected: list[list[int]]) -> None:
    assert groups(text) == expected


def test_what_an_expression_is_used_for() -> None:
    known = script(
        "import torch\n@torch.cuda.amp.custom_bwd\ndef f(a: torch.cuda.amp.GradScaler | None):\n"
        "    return isinstance(a, (int, torch.cuda.amp.GradScaler))\ntorch.cuda.amp.autocast()\n"
    )
    nodes = [each.references[0].node for each in old_names(known)]
    nodes = sorted((ref.node for each in old_names(known) for ref in each.references), key=lambda each: each.lineno)
    module = known.module

    assert [is_decorator(module, each) for each in nodes] == [True, False, False, False]
    assert [is_annotation(module, each) for each in nodes] == [False, True, False, False]
    assert [checks_type(known, module, each) for each in nodes] == [False, False, True, False]
    assert [is_called(module, each) for each in nodes] == [False, False, False, True]


def test_why_they_are_left() -> None:
    known = script("import torch\nmake = torch.cuda.amp.autocast\ntorch.cuda.amp.autocast()\n")
    reasons = [why_not(known, each) for each in old_names(known)]

    assert [each and each.code for each in reasons] == ["handed-on", None]
    assert all(isinstance(each.node, ast.Attribute) for each in old_names(known))
