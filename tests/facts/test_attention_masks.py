from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.models.attention_masks import WHOLE, holds_floats, is_lowest, kept, tight, triangle

if TYPE_CHECKING:
    from codemods.facts.script import Script

START = """\
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("lower", torch.tril(torch.ones(n, n)).view(1, 1, n, n))
        self.register_buffer("upper", torch.triu(torch.ones((n, n)), diagonal=1).bool(), persistent=False)
        self.register_buffer("none", None)
        self.twice = torch.tril(torch.ones(n, n))
        self.bias = nn.Parameter(torch.zeros(n, n))
        self.places = nn.Embedding(n, 4)

    def turned(self):
        self.twice = self.twice.t()

    def forward(self, x, given):
        B, T, C = x.shape
        far = torch.full((T, T), float("-inf"))
        answer = """

BELOW, ABOVE = (1.0, 0.0), (0.0, 1.0)
LOW = float("-inf")


def answered(code: str) -> tuple[Script, ast.expr]:
    found = script(START + code + "\n")
    return found, next(
        each.value for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer"
    )


@pytest.mark.parametrize(
    ("code", "halves", "size"),
    [
        ("self.lower[:, :, :T, :T] == 0", ABOVE, "T"),
        ("self.lower[..., :T, :T].bool()", BELOW, "T"),
        ("self.upper", ABOVE, WHOLE),
        ("~self.upper[:T, :T]", BELOW, "T"),
        ("self.upper[:T, :T].logical_not()", BELOW, "T"),
        ("1 - self.lower", ABOVE, WHOLE),
        ("self.lower.eq(0)", ABOVE, WHOLE),
        ("torch.ones(T, T, device=x.device).tril()", BELOW, "T"),
        ("torch.ones(1, 1, T, T).tril() != 0", BELOW, "T"),
        ("torch.triu(torch.full((T, T), LOW), diagonal=1)".replace("LOW", "float('-inf')"), (0.0, LOW), "T"),
        ("nn.Transformer.generate_square_subsequent_mask(T)", (0.0, LOW), "T"),
    ],
)
def test_triangles(code: str, halves: tuple[float, float], size: str) -> None:
    found, node = answered(code)

    assert triangle(found.flow, found.module, node) == (halves, size)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("given", id="what is given"),
        pytest.param("self.none", id="no mask"),
        pytest.param("self.twice", id="given something else in another method"),
        pytest.param("torch.triu(torch.ones(T, T))", id="with the diagonal"),
        pytest.param("torch.tril(torch.ones(T, C))", id="no square"),
        pytest.param("torch.tril(torch.ones(T, T), diagonal=given)", id="a diagonal that is given"),
        pytest.param("self.lower[:, :, 1:T, 1:T]", id="cut elsewhere"),
        pytest.param("self.lower[:, :, :T, :C]", id="cut to no square"),
        pytest.param("self.lower[:, :, :T]", id="cut at one side"),
        pytest.param("torch.tril(torch.ones(2, 3, T, T))", id="several"),
        pytest.param("torch.ones(T, T)", id="all"),
        pytest.param("torch.tril(torch.ones(T + int(given), T + int(given)))", id="sizes that are computed"),
    ],
)
def test_what_is_no_triangle_for_certain(code: str) -> None:
    found, node = answered(code)

    assert triangle(found.flow, found.module, node) is None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("given == 0", "given != 0"),
        ("given[:, None] != 1", "given[:, None] == 1"),
        ("~given", "given"),
        ("~(given & x)", "(given & x)"),
        ("given.eq(0)", "given.ne(0)"),
        ("torch.eq(given, 0)", "given.ne(0)"),
        ("given", "~given"),
        ("given > 2", "~(given > 2)"),
        ("given.bool()", "~given.bool()"),
    ],
)
def test_what_is_kept_is_what_is_not_filled(code: str, text: str) -> None:
    found, node = answered(code)

    assert kept(found.module, found.flow, node) == text


@pytest.mark.parametrize(
    "code",
    [
        "self.bias",
        "self.bias[:T]",
        "self.places(given)",
        "(1.0 - given) * -1e4",
        "given / 2",
        "given.float()",
        "torch.triu(far, diagonal=1)",
        "-self.bias.unsqueeze(0)",
    ],
)
def test_masks_of_floats(code: str) -> None:
    found, node = answered(code)

    assert holds_floats(found.flow, found.module, node)


@pytest.mark.parametrize("code", ["given", "given * 2", "given > 0", "self.lower", "self.turned()", "[1.0]"])
def test_masks_that_may_hold_no_floats(code: str) -> None:
    found, node = answered(code)

    assert not holds_floats(found.flow, found.module, node)


@pytest.mark.parametrize(
    ("code", "expected"), [("float('-inf')", (True, True)), ("-1e9", (True, False)), ("0", (False, False))]
)
def test_numbers_that_masks_fill_with(code: str, expected: tuple[bool, bool]) -> None:
    found, node = answered(code)

    assert is_lowest(found.flow, node) == expected


@pytest.mark.parametrize(
    ("code", "text"),
    [("given", "given"), ("x + given", "(x + given)"), ("(x, given)", "(x, given)"), ("x.mean()", "x.mean()")],
)
def test_parentheses_where_something_follows(code: str, text: str) -> None:
    found, node = answered(code)

    assert tight(found.module, node) == text
