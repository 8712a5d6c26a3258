from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.codemod import Promise
from codemods.rules.sdpa import Sdpa

if TYPE_CHECKING:
    from pathlib import Path

IMPORTS = """\
import math
import torch
import torch.nn.functional as F
from torch import nn

"""
HEAD = """\
class Attention(nn.Module):
    def __init__(self, dim=32, heads=4, length=16, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.scale = self.head_dim ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.share = dropout
        self.drop = nn.Dropout(dropout)
        self.attend = nn.Softmax(dim=-1)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))
        self.register_buffer("hidden", torch.triu(torch.ones(length, length), diagonal=1).bool())

    def forward(self, x, mask=None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
"""
TAIL = """\
        return y.transpose(1, 2).reshape(B, T, C)

Attention()(torch.randn(2, 16, 32), torch.ones(2, 1, 16, 16) > 0)
"""
KEPT = "torch.randn(2, 1, 16, 16) > 0"
FORMS = {
    "scaled by the root of the depth": (
        "att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))\natt = F.softmax(att, dim=-1)\ny = att @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v)\n",
    ),
    "the root of a number of the layer that is the depth": (
        "att = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim)\ny = torch.matmul(att.softmax(-1), v)\n",
        "y = F.scaled_dot_product_attention(q, k, v)\n",
    ),
    "a scale of the layer": (
        "att = (q @ k.transpose(-1, -2)) * self.scale\n\natt = self.attend(att)\natt = self.drop(att)\n\ny = torch.matmul(att, v)\n",
        "\ny = F.scaled_dot_product_attention(\n    q, k, v, dropout_p=self.drop.p if self.training else 0.0, scale=self.scale\n)\n",
    ),
    "queries are scaled in the product": (
        "y = F.softmax((q * self.scale) @ k.mT, dim=-1) @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)\n",
    ),
    "queries are scaled before": (
        "q = q * self.scale\ny = F.softmax(q @ k.transpose(-2, -1), dim=3) @ v\n",
        "q = q * self.scale\ny = F.scaled_dot_product_attention(q, k, v, scale=1.0)\n",
    ),
    "a scale that is not that of the depth": (
        "att = q @ k.transpose(-2, -1) / 3.0\ny = torch.softmax(att, -1) @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, scale=1 / 3.0)\n",
    ),
    "in place": (
        "att = q @ k.transpose(-2, -1)\natt /= math.sqrt(q.shape[-1])\natt.masked_fill_(self.hidden[:T, :T], -math.inf)\ny = att.softmax(dim=-1) @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
    ),
    "a triangle of ones": (
        "att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))\natt = att.masked_fill(self.mask[:, :, :T, :T] == 0, float('-inf'))\natt = F.softmax(att, dim=-1)\natt = self.drop(att)\ny = att @ v\n",
        "y = F.scaled_dot_product_attention(\n    q, k, v, dropout_p=self.drop.p if self.training else 0.0, is_causal=True\n)\n",
    ),
    "a triangle that fills with a finite number": (
        "att = (q @ k.transpose(-2, -1)) * k.shape[-1] ** -0.5\natt = att.masked_fill(self.hidden[:T, :T], -1e9)\ny = F.softmax(att, dim=-1) @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
    ),
    "a triangle that is made there": (
        "att = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)\natt = att + torch.triu(torch.full((T, T), float('-inf')), diagonal=1)\ny = F.softmax(att, dim=-1) @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
    ),
    "a mask that is given": (
        "att = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))\natt = att.masked_fill(mask == 0, float('-inf'))\ny = F.softmax(att, dim=-1) @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask != 0)\n",
    ),
    "a mask that may be missing": (
        "att = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))\nif mask is not None:\n    att = att.masked_fill(~mask, float('-inf'))\ny = F.softmax(att, dim=-1) @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)\n",
    ),
    "where": (
        "att = torch.matmul(q, k.permute(0, 1, 3, 2)).div(math.sqrt(q.size(-1)))\natt = torch.where(mask, att, float('-inf'))\ny = att.softmax(-1).matmul(v)\n",
        "y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)\n",
    ),
    "padding": (
        "kept = mask[:, 0, 0]\natt = q @ k.transpose(-2, -1) * self.scale\natt = att.masked_fill(~kept[:, None, None, :], float('-inf'))\ny = att.softmax(dim=-1) @ v\n",
        "kept = mask[:, 0, 0]\ny = F.scaled_dot_product_attention(q, k, v, attn_mask=kept[:, None, None, :], scale=self.scale)\n",
    ),
    "a mask that gets the dimension of heads": (
        "if mask is not None:\n    mask = mask[:, 0].unsqueeze(1)\natt = q @ k.transpose(-2, -1) * self.scale\nif mask is not None:\n    att = att.masked_fill(mask == 0, float('-inf'))\ny = att.softmax(dim=-1) @ v\n",
        "if mask is not None:\n    mask = mask[:, 0].unsqueeze(1)\ny = F.scaled_dot_product_attention(\n    q, k, v, attn_mask=None if mask is None else mask != 0, scale=self.scale\n)\n",
    ),
    "a row of the mask as a matrix": (
        "att = q @ k.transpose(-2, -1) * self.scale + (mask[0, 0, 0].float() - 1.0)[None] * 4.0\ny = att.softmax(dim=-1) @ v\n",
        "y = F.scaled_dot_product_attention(\n    q, k, v, attn_mask=(mask[0, 0, 0].float() - 1.0)[None] * 4.0, scale=self.scale\n)\n",
    ),
    "einsum": (
        "att = torch.einsum('bhid,bhjd->bhij', q, k) * self.scale\ny = torch.einsum('b h i j, b h j d -> b h i d', att.softmax(dim=-1), v)\n",
        "y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)\n",
    ),
    "einsum with heads behind": (
        "q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)\natt = torch.einsum('nqhd,nkhd->nhqk', [q, k]) / self.head_dim ** 0.5\ny = torch.einsum('nhql,nlhd->nqhd', [torch.softmax(att, dim=3), v]).transpose(1, 2)\n",
        "q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)\ny = F.scaled_dot_product_attention(\n    q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)\n).transpose(1, 2).transpose(1, 2)\n",
    ),
    "the softmax is computed in 32 bits": (
        "att = F.softmax((q @ k.mT * self.scale).float(), dim=-1).type_as(q)\ny = att @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)\n",
    ),
    "the softmax is told 32 bits": (
        "att = q @ k.mT * self.scale\natt = F.softmax(att, dim=-1, dtype=torch.float32).to(k.dtype)\ny = self.drop(att) @ v\n",
        "y = F.scaled_dot_product_attention(\n    q, k, v, dropout_p=self.drop.p if self.training else 0.0, scale=self.scale\n)\n",
    ),
    "the format of the scores": (
        "att = q @ k.mT * self.scale\natt = torch.softmax(att.to(torch.float32), dim=-1).type(dtype=att.dtype)\ny = att @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)\n",
    ),
    "queries and keys are scaled by the root of the root": (
        "scale = 1 / math.sqrt(math.sqrt(self.head_dim))\natt = torch.einsum('bhtd,bhsd->bhts', q * scale, k * scale)\ny = att.softmax(-1) @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v)\n",
    ),
    "a scale of queries and keys that is read elsewhere": (
        "scale = self.head_dim ** -0.25\natt = (scale * q) @ (k * scale).mT\ny = att.softmax(-1) @ v * scale\n",
        "scale = self.head_dim ** -0.25\ny = F.scaled_dot_product_attention(q, k, v) * scale\n",
    ),
    "a scale of the layer for queries and keys": (
        "y = ((q * self.scale) @ (k * self.scale).mT).softmax(-1) @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, scale=self.scale ** 2)\n",
    ),
    "keys are divided twice": (
        "y = ((q / self.head_dim) @ (k / self.head_dim).mT).softmax(-1) @ v\n",
        "y = F.scaled_dot_product_attention(q, k, v, scale=self.head_dim ** -2)\n",
    ),
    "several scales": (
        "y = ((q * 2) @ k.mT / self.head_dim ** 0.5 * self.scale / (1 + 1)).softmax(-1) @ v\n",
        "y = F.scaled_dot_product_attention(\n    q, k, v, scale=2 * self.scale / self.head_dim ** 0.5 / (1 + 1)\n)\n",
    ),
    "the width in front of the tokens": (
        "q, k = q.transpose(2, 3), k.transpose(2, 3)\natt = torch.einsum('bhct,bhcs->bhts', q, k) / math.sqrt(q.shape[2])\ny = torch.einsum('bhts,bhsc->bhtc', att.softmax(-1), v)\n",
        "q, k = q.transpose(2, 3), k.transpose(2, 3)\ny = F.scaled_dot_product_attention(q.transpose(2, 3), k.transpose(2, 3), v)\n",
    ),
    "keys that were turned": (
        "k = k.transpose(-2, -1)\ny = (q @ k * self.scale).softmax(-1) @ v\n",
        "k = k.transpose(-2, -1)\ny = F.scaled_dot_product_attention(q, k.transpose(-2, -1), v, scale=self.scale)\n",
    ),
    "queries whose width is not innermost": (
        "q = q.permute(0, 1, 3, 2).contiguous().transpose(-2, -1)\ny = (q @ k.mT * self.scale).softmax(-1) @ v\n",
        "q = q.permute(0, 1, 3, 2).contiguous().transpose(-2, -1)\ny = F.scaled_dot_product_attention(q.contiguous(), k, v, scale=self.scale)\n",
    ),
    "the sizes of scores and weights are asserted": (
        "q, k = q.reshape(B, 4, T, 8), k.reshape(B, 4, T, 8)\natt = q @ k.mT\nassert att.shape == (B, 4, T, T), att.shape\natt = att.softmax(-1)\nif list(att.size()) != [B, 4, T, T]:\n    raise ValueError(f'{att.size()}')\ny = att @ v\n",
        "q, k = q.reshape(B, 4, T, 8), k.reshape(B, 4, T, 8)\ny = F.scaled_dot_product_attention(q, k, v, scale=1.0)\n",
    ),
    "a function that drops": (
        "att = F.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1)\natt = F.dropout(att, p=self.share, training=self.training)\ny = att @ v\n",
        "y = F.scaled_dot_product_attention(\n    q, k, v, dropout_p=self.share if self.training else 0.0, scale=self.scale\n)\n",
    ),
    "comments head what goes, or what stays": (
        "# scores\natt = q @ k.transpose(-2, -1) * self.scale\natt = att.softmax(-1)  # of each row\n# values\nv = v * 2\n# means\ny = att @ v  # (B, H, T, D)\n",
        "# values\nv = v * 2\n# means\ny = F.scaled_dot_product_attention(q, k, v, scale=self.scale)  # (B, H, T, D)\n",
    ),
    "code between": (
        "att = F.softmax(q @ k.transpose(-2, -1) * self.scale, dim=-1)\nv = v * 2  # twice\ny = att @ v\n",
        "v = v * 2  # twice\ny = F.scaled_dot_product_attention(q, k, v, scale=self.scale)\n",
    ),
}


def indented(code: str) -> str:
    return "".join(f"        {line}" if line.strip() else line for line in code.splitlines(keepends=True))


def module(code: str) -> str:
    return IMPORTS + HEAD + indented(code) + TAIL


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
def test_a_form_becomes_one_call(before: str, after: str) -> None:
    check_rewrites(Sdpa, module(before), module(after))


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
def test_outputs_and_gradients_stay(before: str, after: str) -> None:
    torch.manual_seed(0)
    layers: list[Any] = []
    for code in (before, after):
        names: dict[str, Any] = {}
        exec(compile(module(code), "layer.py", "exec"), names)  # noqa: S102 - the texts are the test's own
        layers.append(names["Attention"]())
    layers[1].load_state_dict(layers[0].state_dict())
    kept = (torch.rand(2, 1, 16, 16) > 0.5) | torch.eye(16, dtype=torch.bool)
    inputs = torch.randn(2, 16, 32)

    for is_training in (True, False):
        one, other = (computed(each.train(is_training), inputs, kept) for each in layers)
        for found, expected in zip(other, one, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def computed(layer: Any, inputs: torch.Tensor, kept: torch.Tensor) -> list[torch.Tensor]:
    x = inputs.clone().requires_grad_()
    y = layer(x, kept)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])]


@pytest.mark.parametrize("mask", [torch.ones(8).bool(), torch.zeros(8), torch.zeros([])])
def test_the_fused_function_takes_no_mask_with_fewer_than_two_dimensions(mask: torch.Tensor) -> None:
    x = torch.randn(2, 4, 8, 16)

    with pytest.raises(IndexError):
        torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def test_evaluation_drops_nothing_and_training_does() -> None:
    names: dict[str, Any] = {}
    exec(compile(module(FORMS["a triangle of ones"][1]), "layer.py", "exec"), names)  # noqa: S102
    layer, x = names["Attention"](dropout=0.5), torch.randn(2, 16, 32)

    assert torch.equal(layer.eval()(x), layer(x))
    assert not torch.equal(layer.train()(x), layer(x))


def test_a_mask_that_nothing_reads_any_more_stays_in_checkpoints() -> None:
    names: dict[str, Any] = {}
    exec(compile(module(FORMS["a triangle of ones"][1]), "layer.py", "exec"), names)  # noqa: S102

    assert "mask" in names["Attention"]().state_dict()


@pytest.mark.parametrize(
    ("form", "redraws"),
    [
        pytest.param("a triangle of ones", True, id="a dropout draws another mask"),
        pytest.param("a mask that is given", False, id="nothing is drawn"),
    ],
)
def test_only_what_drops_draws_anew(form: str, redraws: bool) -> None:  # noqa: FBT001 - what is expected
    (site,) = run(Sdpa, module(FORMS[form][0])).sites

    assert (site.redraws, site.promise) == (redraws, Promise.PRECISION)


# Functions, and layers of other kinds.

SCORES = "    s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))\n"
START = IMPORTS + "def attend(q, k, v, mask=None, flag=False):\n"
CALL = "F.scaled_dot_product_attention"
LAYER = (
    IMPORTS
    + """\
class Attention(nn.Module):
    def __init__(self, dim, other):
        super().__init__()
        self.drop = nn.Dropout(0.1)
        self.other = nn.Dropout2d(0.1)
        self.heat = nn.Parameter(torch.ones(1))
        self.scale = torch.sqrt(torch.FloatTensor([dim]))
        self.bias = nn.Parameter(torch.zeros(4, 8, 8))
        self.causal = other
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)))

    def forward(self, q, k, v):
"""
)


CAUSAL = (
    IMPORTS
    + """\
class Attention(nn.Module):
    def __init__(self, length):
        super().__init__()
        mask = torch.tril(torch.ones(length, length))
{}        self.register_buffer("mask", mask)
{}
    def forward(self, x):
        B, H, T, C = x.shape
        s = (x @ x.mT).masked_fill(self.mask[:T, :T] == 0, float("-inf"))
        return s.softmax(-1) @ x
"""
)
_SCORED = """\
        s = (x @ x.mT).masked_fill(self.mask[:T, :T] == 0, float("-inf"))
        return s.softmax(-1) @ x
"""
NO_TRIANGLE = CAUSAL.replace(
    _SCORED,
    f"        return {CALL}(\n            x, x, x, attn_mask=self.mask[:T, :T] != 0, scale=1.0\n        )\n",
)
FUSED_TRIANGLE = CAUSAL.replace(_SCORED, f"        return {CALL}(x, x, x, is_causal=True, scale=1.0)\n")


def function(body: str) -> str:
    return START + SCORES + body


def of_three(body: str) -> str:
    return f"{START}    s = torch.bmm(q, k.transpose(1, 2))\n{body}"


def of_sizes(body: str, end: str = "    return s.softmax(-1) @ v\n") -> str:
    laid_out = "    B, H, T, D = q.shape\n    q, k = q.reshape(B, 4, T, D), k.reshape(B, 4, T, D)\n"
    return START + laid_out + SCORES + body + end


NAMED = "    B, H, T, D = q.shape\n"
FOUR = START + NAMED
LAYER_OF_FOUR = LAYER + f"    {NAMED}"
ROW = '        self.register_buffer("row", torch.tensor([False] * 7 + [True]))\n'
LAYER_WITH_ROW = LAYER_OF_FOUR.replace("\n    def forward", f"{ROW}\n    def forward")


def of_four(body: str) -> str:
    return FOUR + SCORES + body


MASKED_CALL = "x = torch.randn(2, 4, 8, 16)\nattend(x, x, x, torch.ones(8, 8) > 0)\n"
MASKED = "    return s.masked_fill(mask == 0, -math.inf).softmax(-1) @ v\n"
ASSERTED = "    assert mask.dim() > 1\n"
OPTIONAL = "    assert mask is None or mask.dim() > 1\n"
MADE_BY_MODEL = (
    IMPORTS
    + """\
class Attention(nn.Module):
    def forward(self, q, mask):
        B, H, T, D = q.shape
{}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def masked(self, tokens):
        seen = (tokens != 0).unsqueeze(1).unsqueeze(2)
        later = torch.tril(torch.ones(tokens.shape[1], tokens.shape[1])).bool()
        return seen & later

    def forward(self, tokens):
        mask = self.masked(tokens)
        x = torch.randn(2, 4, 8, 16)
        for layer in self.layers:
            x = layer(x, mask)
        return x

Model()(torch.ones(2, 8))
"""
)
OF_MEANS = "    assert s.shape == (B, 4, T, T)\n    return s\n"
REWRITTEN = {
    "sizes of the means are asserted under their name": (
        of_sizes("    s = s.softmax(-1)\n    s = s @ v\n", OF_MEANS),
        of_sizes("", f"    s = {CALL}(q, k, v)\n{OF_MEANS}").replace(SCORES, ""),
    ),
    "a dropout that drops in evaluation as well": (
        of_four("    return F.dropout(s.softmax(-1), 0.1) @ v\n"),
        FOUR + f"    return {CALL}(q, k, v, dropout_p=0.1)\n",
    ),
    "a parameter says whether it trains": (
        of_four("    return F.dropout(s.softmax(-1), 0.1, flag) @ v\n"),
        FOUR + f"    return {CALL}(q, k, v, dropout_p=0.1 if flag else 0.0)\n",
    ),
    "a mask of floats is added": (
        of_four("    far = (1.0 - mask[:, None]) * -10000.0\n    s = s + far\n    return s.softmax(-1) @ v\n"),
        FOUR + f"    far = (1.0 - mask[:, None]) * -10000.0\n    return {CALL}(q, k, v, attn_mask=far)\n",
    ),
    "a bias that is learnt": (
        LAYER_OF_FOUR + "        return (q @ k.transpose(-2, -1) * 0.5 + self.bias).softmax(-1) @ v\n",
        LAYER_OF_FOUR + f"        return {CALL}(q, k, v, attn_mask=self.bias, scale=0.5)\n",
    ),
    "keys from a cache are not as many as queries": (
        LAYER.replace("q, k, v", "x, past")
        + "        B, T, C = x.shape\n"
        + "        q = x.view(B, T, 2, C // 2).transpose(1, 2)\n"
        + "        k = torch.cat([past, q], dim=2)\n"
        + "        s = q @ k.transpose(-2, -1) * 0.5\n"
        + "        s = s.masked_fill(self.mask[:T, :T] == 0, float('-inf'))\n"
        + "        return s.softmax(-1) @ k\n",
        LAYER.replace("q, k, v", "x, past")
        + "        B, T, C = x.shape\n"
        + "        q = x.view(B, T, 2, C // 2).transpose(1, 2)\n"
        + "        k = torch.cat([past, q], dim=2)\n"
        + f"        return {CALL}(\n            q, k, k, attn_mask=self.mask[:T, :T] != 0, scale=0.5\n        )\n",
    ),
    "the last rows of a triangle": (
        LAYER_OF_FOUR
        + "        n, t = q.size(-2), k.size(-2)\n"
        + "        s = q @ k.transpose(-2, -1) * 0.5\n"
        + "        s = s.masked_fill(self.mask[t - n:t, :t] == 0, float('-inf'))\n"
        + "        return s.softmax(-1) @ v\n",
        LAYER_OF_FOUR
        + "        n, t = q.size(-2), k.size(-2)\n"
        + f"        return {CALL}(\n            q, k, v, attn_mask=self.mask[t - n:t, :t] != 0, scale=0.5\n        )\n",
    ),
    "each pass of a loop": (
        IMPORTS
        + "def attend(q, ks, v):\n    B, H, T, D = q.shape\n    for k in ks:\n        w = (q @ k.mT).softmax(-1)\n        v = w @ v\n    return v\n",
        IMPORTS
        + f"def attend(q, ks, v):\n    B, H, T, D = q.shape\n    for k in ks:\n        v = {CALL}(q, k, v, scale=1.0)\n    return v\n",
    ),
    "scores under the name of queries": (
        FOUR + "    q = q @ k.transpose(-2, -1)\n    q = q.softmax(-1)\n    return q @ v\n",
        FOUR + f"    return {CALL}(q, k, v, scale=1.0)\n",
    ),
    "dropouts are switched alone": (
        LAYER_OF_FOUR
        + "        return self.drop((q @ k.mT).softmax(-1)) @ v\n\nfor part in Attention(8, 0).modules():\n    if isinstance(part, nn.Dropout):\n        part.train()\n",
        LAYER_OF_FOUR
        + f"        return {CALL}(\n            q, k, v, dropout_p=self.drop.p if self.drop.training else 0.0, scale=1.0\n        )\n\nfor part in Attention(8, 0).modules():\n    if isinstance(part, nn.Dropout):\n        part.train()\n",
    ),
    "one dropout is switched alone": (
        LAYER_OF_FOUR
        + "        return self.drop((q @ k.mT).softmax(-1)) @ v\n\nlayer = Attention(8, 0).eval()\nlayer.drop.train()\n",
        LAYER_OF_FOUR
        + f"        return {CALL}(\n            q, k, v, dropout_p=self.drop.p if self.drop.training else 0.0, scale=1.0\n        )\n\nlayer = Attention(8, 0).eval()\nlayer.drop.train()\n",
    ),
    "a triangle of which the first columns are written anew": (
        CAUSAL.replace("{}", "        mask[:3, :3] = 1\n", 1).replace("{}", ""),
        NO_TRIANGLE.replace("{}", "        mask[:3, :3] = 1\n", 1).replace("{}", ""),
    ),
    "a triangle of the layer into which it writes": (
        CAUSAL.replace("{}", "", 1).replace("{}", "        self.mask[..., :3] = 1\n"),
        NO_TRIANGLE.replace("{}", "", 1).replace("{}", "        self.mask[..., :3] = 1\n"),
    ),
    "a triangle that other code changes": (
        CAUSAL.replace("{}", "") + "\nlayer = Attention(8)\nlayer.mask.fill_(1)\n",
        NO_TRIANGLE.replace("{}", "") + "\nlayer = Attention(8)\nlayer.mask.fill_(1)\n",
    ),
    "a triangle in the place of which other code puts a mask": (
        CAUSAL.replace("{}", "") + "\nlayer = Attention(8)\nlayer.mask = torch.ones(8, 8)\n",
        NO_TRIANGLE.replace("{}", "") + "\nlayer = Attention(8)\nlayer.mask = torch.ones(8, 8)\n",
    ),
    "a triangle under the name of what other layers are given": (
        CAUSAL.replace("{}", "") + "\nother = nn.Linear(8, 8)\nother.mask = torch.ones(8, 8)\nother.mask[0] = 0\n",
        FUSED_TRIANGLE.replace("{}", "")
        + "\nother = nn.Linear(8, 8)\nother.mask = torch.ones(8, 8)\nother.mask[0] = 0\n",
    ),
    "a mask of which the script says how many dimensions it has": (
        FOUR + ASSERTED + SCORES + MASKED,
        FOUR + ASSERTED + f"    return {CALL}(q, k, v, attn_mask=mask != 0)\n",
    ),
    "an optional mask of which the script says it": (
        FOUR
        + OPTIONAL
        + SCORES
        + "    if mask is not None:\n        s = s.masked_fill(~mask, -math.inf)\n    return s.softmax(-1) @ v\n",
        FOUR + OPTIONAL + f"    return {CALL}(q, k, v, attn_mask=mask)\n",
    ),
    "a buffer under a name of which the script says it": (
        LAYER_WITH_ROW
        + "        mask = self.row\n        assert mask.dim() > 1\n        return (q @ k.mT).masked_fill(mask, -math.inf).softmax(-1) @ v\n",
        LAYER_WITH_ROW
        + f"        mask = self.row\n        assert mask.dim() > 1\n        return {CALL}(q, k, v, attn_mask=~mask, scale=1.0)\n",
    ),
    "a mask that is made by a method of the model": (
        MADE_BY_MODEL.format(
            "        s = (q @ q.mT).masked_fill(mask == 0, -math.inf)\n        return s.softmax(-1) @ q\n"
        ),
        MADE_BY_MODEL.format(f"        return {CALL}(q, q, q, attn_mask=mask != 0, scale=1.0)\n"),
    ),
    "a function of the project asks whether there is a mask": (
        IMPORTS
        + "def exists(val):\n    return val is not None\n\ndef attend(q, k, v, mask):\n    B, H, T, D = q.shape\n    s = q @ k.mT\n    if exists(mask):\n        s.masked_fill_(~mask, float('-inf'))\n    return s.softmax(-1) @ v\n\n"
        + MASKED_CALL,
        IMPORTS
        + f"def exists(val):\n    return val is not None\n\ndef attend(q, k, v, mask):\n    B, H, T, D = q.shape\n    return {CALL}(q, k, v, attn_mask=mask, scale=1.0)\n\n"
        + MASKED_CALL,
    ),
}


@pytest.mark.parametrize(("before", "after"), REWRITTEN.values(), ids=REWRITTEN)
def test_what_else_is_rewritten(before: str, after: str) -> None:
    check_rewrites(Sdpa, before, after)


MORE = "scores are more than a scaled product of queries and keys with a mask (line {})"
BETWEEN = "between the softmax and the values stands more than a dropout (line {})"
WIDE = "the softmax is computed in 32 bits (line {}), and its result is not seen to get the queries' format"
OTHER_FORMAT = "weights are converted to a number format that is not seen to be the queries' (line {})"
USED = "the weights are used elsewhere, and the fused function does not return them (line {})"
NUMBER = "the scale is not known to be a number of Python, and the fused function takes no tensor (line {})"
CHANGED = "what the scores are made of is changed before they meet the values (line {}): change it before or after"
VIEWED = "the result is viewed, and the fused function lays it out otherwise in memory (line {}): write reshape()"
OTHERWISE = "weights and values are multiplied in another way than the fused function does (line {})"
FLOATS = "whether the mask that is added holds floating-point numbers is not known (line {})"
NO_MATRIX = (
    "the mask is not seen to have two dimensions or more (line {}), and the fused function takes no fewer: {} if it has"
)
WHOLE = (
    "where all keys of a query are masked, scores of one finite number give the mean of all values (line {}), and the"
    ' fused function zeros: fill with float("-inf") if no query is masked so'
)
LEFT = {
    "weights are returned": (function("    w = s.softmax(-1)\n    return w @ v, w\n"), USED.format(9)),
    "scores are printed": (function("    y = s.softmax(-1) @ v\n    print(s.max())\n    return y\n"), USED.format(9)),
    "a function inside reads weights": (
        function("    w = s.softmax(-1)\n    def drawn():\n        return w\n    return w @ v, drawn\n"),
        USED.format(10),
    ),
    "the object keeps weights": (
        LAYER + "        self.kept = (q @ k.mT).softmax(-1)\n        return self.kept @ v\n",
        USED.format(18),
    ),
    "a branch drops weights": (
        function("    w = s.softmax(-1)\n    if flag is not None:\n        w = flag(w)\n    return w @ v\n"),
        "what is done to the weights depends on a condition (line 9)",
    ),
    "a branch drops weights that are returned": (
        function("    w = s.softmax(-1)\n    if flag is not None:\n        w = flag(w)\n    return w @ v, w\n"),
        USED.format(11),
    ),
    "weights have two uses": (function("    w = s.softmax(-1)\n    return w @ v + w @ mask\n"), USED.format(9)),
    "weights are deleted": (
        function("    w = s.softmax(-1)\n    y = w @ v\n    del s, w\n    return y\n"),
        USED.format(10),
    ),
    "the next pass reads weights": (
        IMPORTS
        + "def attend(q, ks, v):\n    for k in ks:\n        if k is ks[1]:\n            print(w)\n        w = (q @ k.mT).softmax(-1)\n        v = w @ v\n    return v\n",
        USED.format(9),
    ),
    "the softmax stays in 32 bits": (
        function("    w = F.softmax(s.float(), dim=-1)\n    return w @ v.float()\n"),
        WIDE.format(8),
    ),
    "the softmax is told 32 bits and stays there": (
        function("    return F.softmax(s, dim=-1, dtype=torch.float32) @ v\n"),
        WIDE.format(8),
    ),
    "the softmax is told another number format": (
        function("    return F.softmax(s, dim=-1, dtype=torch.float64).type_as(q) @ v\n"),
        "the softmax is told a number format (line 8)",
    ),
    "the format of the values": (
        function("    return F.softmax(s.float(), dim=-1).to(v.dtype) @ v\n"),
        OTHER_FORMAT.format(8),
    ),
    "a format that is written out": (
        function("    return F.softmax(s.float(), dim=-1).to(torch.float16) @ v\n"),
        BETWEEN.format(8),
    ),
    "the format of scores in 32 bits": (
        function("    s = s.float()\n    return F.softmax(s, dim=-1).type(s.dtype) @ v\n"),
        OTHER_FORMAT.format(9),
    ),
    "queries get another format": (
        function("    q = q.half()\n    return F.softmax(s.float(), dim=-1).type_as(q) @ v\n"),
        OTHER_FORMAT.format(9),
    ),
    "a mask in 32 bits": (
        function("    s = s.float() + torch.zeros(8, 8)\n    return F.softmax(s, dim=-1).type_as(q) @ v\n"),
        WIDE.format(9),
    ),
    "sizes are asserted that are not known": (
        function("    assert s.shape == (2, 4, 8, 8)\n    return s.softmax(-1) @ v\n"),
        USED.format(8),
    ),
    "other sizes are asserted": (
        of_sizes("    assert s.shape == (B, 4, T, 8)\n"),
        USED.format(10),
    ),
    "a size is bound twice": (
        of_sizes("    assert s.shape == (B, 4, T, T)\n").replace("    q, k =", "    T = T // 2\n    q, k ="),
        USED.format(11),
    ),
    "a condition on the sizes returns": (
        of_sizes("    if s.shape != (B, 4, T, T):\n        return v\n"),
        USED.format(10),
    ),
    "scores are asserted themselves": (
        of_sizes("    assert s == (B, 4, T, T)\n"),
        USED.format(10),
    ),
    "another dimension": (
        function("    return s.softmax(1) @ v\n"),
        "the softmax is not known to be over the last dimension, that of the keys (line 8): write dim=-1 if it is",
    ),
    "a temperature that is learnt": (
        LAYER + "        return (q @ k.mT * self.heat).softmax(-1) @ v\n",
        NUMBER.format(18),
    ),
    "a scale that is a tensor": (LAYER + "        return (q @ k.mT / self.scale).softmax(-1) @ v\n", NUMBER.format(18)),
    "queries change in between": (
        function("    w = s.softmax(-1)\n    q = q + 1\n    return w @ v + q\n"),
        CHANGED.format(9),
    ),
    "queries are written to in between": (
        function("    w = s.softmax(-1)\n    q.add_(1)\n    return w @ v + q\n"),
        CHANGED.format(9),
    ),
    "the result is viewed": (
        function("    y = s.softmax(-1) @ v\n    return y.transpose(1, 2).view(3, -1)\n"),
        VIEWED.format(9),
    ),
    "a caller views the result": (
        function("    return s.softmax(-1) @ v\n\nx = torch.randn(2, 4, 8, 16)\nprint(attend(x, x, x).view(-1))\n"),
        VIEWED.format(11),
    ),
    "a finite number, and perhaps all keys of a query": (
        function("    s = s.masked_fill(mask == 0, -1e9)\n    return s.softmax(-1) @ v\n"),
        WHOLE.format(8),
    ),
    "a number that hides nothing": (
        function("    s = s.masked_fill(mask == 0, 0.0)\n    return s.softmax(-1) @ v\n"),
        'masked scores are not known to count for nothing (line 8): fill them with float("-inf")',
    ),
    "a condition about something else": (
        LAYER
        + "        s = q @ k.mT\n        if self.causal:\n            s = s.masked_fill(self.mask == 0, float('-inf'))\n        return s.softmax(-1) @ v\n",
        "whether scores are masked depends on a condition (line 19)",
    ),
    "a mask of which nothing is known is added": (
        function("    s += mask\n    return s.softmax(-1) @ v\n"),
        FLOATS.format(8),
    ),
    "scaled after a mask was added": (
        START + "    far = (1.0 - mask) * -10000.0\n    return ((q @ k.mT + far) / 8).softmax(-1) @ v\n",
        "scores are scaled after they are masked (line 8): scale them before",
    ),
    "a mask with one dimension": (
        function("    s = s.masked_fill(torch.arange(8) > 3, float('-inf'))\n    return s.softmax(-1) @ v\n"),
        "the mask has one dimension (line 8), and the fused function takes two or more: write mask[None]",
    ),
    "a mask of which nothing tells how many dimensions it has": (
        of_four("    return s.masked_fill(mask == 0, -math.inf).softmax(-1) @ v\n"),
        NO_MATRIX.format(9, "write assert mask.dim() > 1 above the scores"),
    ),
    "an optional mask of which nothing tells it": (
        of_four("    if mask is not None:\n        s += mask.float()\n    return s.softmax(-1) @ v\n"),
        NO_MATRIX.format(10, "write assert mask is None or mask.dim() > 1 above the scores"),
    ),
    "a buffer with one dimension": (
        LAYER_WITH_ROW + "        return (q @ k.mT).masked_fill(self.row, -math.inf).softmax(-1) @ v\n",
        NO_MATRIX.format(20, "give it a name above the scores, and write assert mask.dim() > 1 there"),
    ),
    "a row of a triangle": (
        LAYER_OF_FOUR + "        return (q @ k.mT).masked_fill(self.mask[0] == 0, -math.inf).softmax(-1) @ v\n",
        NO_MATRIX.format(19, "give it a name above the scores, and write assert mask.dim() > 1 there"),
    ),
    "a row that a caller gives": (
        of_four("    return s.masked_fill(~mask, -math.inf).softmax(-1) @ v\n\n")
        + MASKED_CALL.replace("torch.ones(8, 8) > 0", "torch.tensor([True] * 8)"),
        NO_MATRIX.format(9, "write assert mask.dim() > 1 above the scores"),
    ),
    "a row in one of two cases": (
        of_four("    if flag:\n        mask = mask[:, None]\n").replace(SCORES, "") + SCORES + MASKED,
        NO_MATRIX.format(11, "write assert mask.dim() > 1 above the scores"),
    ),
    "several masks": (
        function(
            "    s = s.masked_fill(mask, float('-inf')).masked_fill(flag, float('-inf'))\n    return s.softmax(-1) @ v\n"
        ),
        "several masks are applied one after the other: join them to one",
    ),
    "heads are mixed": (
        function("    w = torch.einsum('bhij,hg->bgij', s.softmax(-1), flag)\n    return w @ v\n"),
        OTHERWISE.format(8),
    ),
    "weights are turned round to the left of the values": (
        of_three("    return torch.bmm(s.softmax(-1).transpose(1, 2), v)\n"),
        OTHERWISE.format(8),
    ),
    "values to the left of weights": (
        of_three("    return torch.bmm(v, s.softmax(-1))\n"),
        OTHERWISE.format(8),
    ),
    "weights are turned round twice": (
        of_three("    return torch.bmm(v, s.softmax(-1).transpose(1, 2).transpose(1, 2))\n"),
        OTHERWISE.format(8),
    ),
    "other dimensions of weights are swapped": (
        of_three("    return torch.bmm(v, s.softmax(-1).transpose(0, 1))\n"),
        BETWEEN.format(8),
    ),
    "weights of four dimensions are turned as three": (
        of_sizes("    s = s.softmax(-1).transpose(1, 2)\n", "    return v @ s\n"),
        OTHERWISE.format(11),
    ),
    "heads share values": (
        START
        + "    s = torch.einsum('bhid,bhjd->bhij', q, k)\n    return torch.einsum('bhij,bjd->bhid', s.softmax(-1), v)\n",
        OTHERWISE.format(8),
    ),
    "scores of a branch": (
        function("    if flag:\n        s = torch.tanh(s)\n    return s.softmax(-1) @ v\n"),
        MORE.format(9),
    ),
    "a mask is subtracted": (function("    s = s - (1 - mask) * 1e9\n    return s.softmax(-1) @ v\n"), MORE.format(8)),
    "a dropout of whole channels": (
        LAYER + "        return self.other((q @ k.mT).softmax(-1)) @ v\n",
        BETWEEN.format(18),
    ),
    "something unknown between": (function("    return mask(s.softmax(-1)) @ v\n"), BETWEEN.format(8)),
    "keys that are not transposed": (
        IMPORTS + "def attend(x, w, support):\n    return F.softmax(x @ w, dim=-1) @ support\n",
        "the keys are not seen to be transposed, nor how many dimensions they have (line 7)",
    ),
    "two dimensions": (
        IMPORTS + "def attend(q, k, v):\n    return torch.mm(torch.mm(q, k.t()).softmax(-1), v)\n",
        "queries have no dimension for batches, and torch has no faster way for such",
    ),
    "a hook": (
        LAYER
        + "        return self.drop((q @ k.mT).softmax(-1)) @ v\n\nfor part in Attention(8, 0).children():\n    part.register_forward_hook(print)\n",
        "a hook may be given the weights (line 21)",
    ),
    "a hook on the softmax": (
        LAYER.replace("self.drop =", "self.soft = nn.Softmax(-1)\n        self.drop =")
        + "        return self.soft(q @ k.mT) @ v\n\nAttention(8, 0).soft.register_forward_hook(print)\n",
        "a hook may be given the weights (line 21)",
    ),
    "gradients of gradients": (
        LAYER
        + "        return (q @ k.mT).softmax(-1) @ v\n\nmodel, x = Attention(8, 0), torch.randn(2, 4, 8, 16, requires_grad=True)\n(g,) = torch.autograd.grad(model(x, x, x).sum(), x, create_graph=True)\ng.sum().backward()\n",
        "gradients are differentiated again (line 21), which fused kernels cannot",
    ),
    "results are to repeat on CUDA": (
        function(
            "    return s.softmax(-1) @ v\n\ntorch.backends.cudnn.deterministic = True\nx = torch.randn(2, 4, 8, 16).cuda()\nattend(x, x, x)\n"
        ),
        "results are to repeat (line 10), and gradients of fused kernels may not on CUDA:"
        " torch.use_deterministic_algorithms(True) makes them",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_what_is_left(code: str, because: str) -> None:
    check_leaves(Sdpa, code, because)


SILENT = {
    "a classification": IMPORTS + "def classified(x, w):\n    return F.softmax(x @ w, dim=-1)\n",
    "scores that are no product": IMPORTS + "def attend(e, x):\n    return F.softmax(torch.tanh(e), dim=-1) @ x\n",
    "a softmax of the project": IMPORTS
    + "def softmax(x):\n    return x\n\ndef attend(q, k, v):\n    return softmax(q @ k.mT) @ v\n",
    "the fused function beside it": (
        LAYER
        + "        if hasattr(F, 'scaled_dot_product_attention'):\n            return F.scaled_dot_product_attention(q, k, v)\n        return (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1) @ v\n"
    ),
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_what_is_no_site(code: str) -> None:
    check_silent(Sdpa, code)


def test_results_that_the_kernels_are_asked_to_repeat() -> None:
    code = function(
        "    return s.softmax(-1) @ v\n\ntorch.use_deterministic_algorithms(True)\nx = torch.randn(2, 4, 8, 16).cuda()\nattend(x, x, x)\n"
    )

    assert [each.rewrites for each in run(Sdpa, code).sites] == [True]


COMPILED = """\
class Attention(nn.Module):
    def __init__(self, dim, scale):
        super().__init__()
        self.root = (dim // 4) ** -0.5
        self.scale = scale
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        B, T, C = x.shape
        q = k = v = x.view(B, T, 4, C // 4).transpose(1, 2)
"""


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script.*:FutureWarning", "ignore:.*torch.jit.script.*:DeprecationWarning"
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("(q @ k.mT * self.root).softmax(-1) @ v", "q, k, v, scale=self.root", id="a root"),
        pytest.param(
            "(q @ k.mT * self.scale).softmax(-1) @ v", "q, k, v, scale=float(self.scale)", id="a scale that is given"
        ),
        pytest.param("(q @ k.mT / self.scale).softmax(-1) @ v", "q, k, v, scale=1 / self.scale", id="a quotient"),
        pytest.param("(q @ k.mT * 2).softmax(-1) @ v", "q, k, v, scale=float(2)", id="a whole number"),
        pytest.param("(q @ k.mT * 2 * 0.5).softmax(-1) @ v", "q, k, v, scale=2 * 0.5", id="a product"),
        pytest.param(
            "self.drop((q @ k.mT).softmax(-1)) @ v",
            "q, k, v, dropout_p=self.drop.p if self.training else 0.0, scale=1.0",
            id="a dropout",
        ),
    ],
)
def test_torchscript_compiles_the_call(before: str, after: str, tmp_path: Path) -> None:
    made = "Attention(32, 1)"
    scripted = f"\nmodel = torch.jit.script({made})\nmodel(torch.randn(2, 8, 32))\n"
    call = f"{CALL}(\n            {after}\n        )" if "dropout" in after else f"{CALL}({after})"
    expected = f"{IMPORTS}{COMPILED}        return {call}\n{scripted}"

    check_rewrites(Sdpa, f"{IMPORTS}{COMPILED}        return {before}\n{scripted}", expected)
    path = tmp_path / "train.py"
    path.write_text(expected)
    runpy.run_path(str(path))


def test_before_torch_2_1_it_takes_no_scale() -> None:
    code = function("    return s.softmax(-1) @ v\n")

    assert [each.code for each in run(Sdpa, code, (2, 0)).sites] == ["older-torch"]


# Dimensions: the fused kernels take four.

HEAD_OF_THREE = """\
class Head(nn.Module):
    def __init__(self, dim=16, size=8, length=6):
        super().__init__()
        self.query = nn.Linear(dim, size)
        self.key = nn.Linear(dim, size)
        self.value = nn.Linear(dim, size)
        self.register_buffer("tril", torch.tril(torch.ones(length, length)))

    def forward(self, x, bias, flag=None):
        B, T, C = x.shape
        N, L, S = bias.shape
        q, k, v = self.query(x), self.key(x), self.value(x)
"""
OF_THREE = "q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)"
EACH = OF_THREE.replace(", ", ",\n    ")
THREE = {
    "without a mask": (
        "y = (q @ k.mT * q.size(-1) ** -0.5).softmax(-1) @ v\n",
        f"y = {CALL}(\n    {OF_THREE}\n).squeeze(1)\n",
    ),
    "a triangle": (
        "s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(self.tril[:T, :T] == 0, float('-inf'))\ny = s.softmax(-1) @ v\n",
        f"y = {CALL}(\n    {OF_THREE}, is_causal=True\n).squeeze(1)\n",
    ),
    "a mask for all": (
        "s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(bias[0] < 0, float('-inf'))\ny = s.softmax(-1) @ v\n",
        f"y = {CALL}(\n    {OF_THREE}, attn_mask=~(bias[0] < 0)\n).squeeze(1)\n",
    ),
    "a mask for each": (
        "s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(bias == 0, float('-inf'))\ny = s.softmax(-1) @ v\n",
        f"y = {CALL}(\n    {EACH},\n    attn_mask=(bias != 0).unsqueeze(1),\n).squeeze(1)\n",
    ),
    "a bias for each": (
        "far = bias * 0.5\ny = (q @ k.mT + far).softmax(-1) @ v\n",
        f"far = bias * 0.5\ny = {CALL}(\n    {EACH},\n    attn_mask=far.unsqueeze(1),\n    scale=1.0,\n).squeeze(1)\n",
    ),
    "a mask that may be missing": (
        "s = q @ k.mT\nif bias is not None:\n    s = s.masked_fill(bias == 0, float('-inf'))\ny = s.softmax(-1) @ v\n",
        f"y = {CALL}(\n    {EACH},\n    attn_mask=None if bias is None else (bias != 0).unsqueeze(1),\n    scale=1.0,\n).squeeze(1)\n",
    ),
    "products of batches": (
        "y = torch.bmm((torch.bmm(q, k.transpose(1, 2)) * 0.5).softmax(-1), v)\n",
        f"y = {CALL}(\n    {OF_THREE}, scale=0.5\n).squeeze(1)\n",
    ),
    "the width in front of the tokens": (
        "q, k, v = (each.transpose(1, 2) for each in (q, k, v))\nw = torch.einsum('bct,bcs->bts', q, k).softmax(-1)\ny = torch.einsum('bts,bcs->bct', w, v)\n",
        f"q, k, v = (each.transpose(1, 2) for each in (q, k, v))\ny = {CALL}(\n    q.transpose(1, 2).contiguous().unsqueeze(1),\n    k.transpose(1, 2).contiguous().unsqueeze(1),\n    v.transpose(1, 2).contiguous().unsqueeze(1),\n    scale=1.0,\n).squeeze(1).transpose(1, 2)\n",
    ),
    "weights are turned round": (
        "v = v.mT\nw = torch.softmax(torch.bmm(q, k.mT), dim=2)\nw = w.permute(0, 2, 1)\ny = torch.bmm(v, w)\n",
        f"v = v.mT\ny = {CALL}(\n    q.unsqueeze(1), k.unsqueeze(1), v.transpose(-2, -1).unsqueeze(1), scale=1.0\n).squeeze(1).transpose(-2, -1)\n",
    ),
    "a view of what copied queries give": (
        "q = q.permute(2, 0, 1).contiguous().permute(1, 2, 0)\ny = torch.bmm(torch.bmm(q, k.mT).softmax(-1), v)\ny = y.view(-1, 8)\n",
        f"q = q.permute(2, 0, 1).contiguous().permute(1, 2, 0)\ny = {CALL}(\n    q.contiguous().unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), scale=1.0\n).squeeze(1)\ny = y.view(-1, 8)\n",
    ),
    "einsum with keys in front": (
        "w = torch.einsum('bid,jbd->bij', q, k.transpose(0, 1)).softmax(-1)\ny = torch.einsum('bij,bjd->ibd', w, v).transpose(0, 1)\n",
        f"y = {CALL}(\n    q.unsqueeze(1),\n    k.transpose(0, 1).transpose(0, 1).unsqueeze(1),\n    v.unsqueeze(1),\n    scale=1.0,\n).squeeze(1).transpose(0, 1).transpose(0, 1)\n",
    ),
}


def head(code: str) -> str:
    return IMPORTS + HEAD_OF_THREE + indented(code) + "        return y\n"


@pytest.mark.parametrize(("before", "after"), THREE.values(), ids=THREE)
def test_three_dimensions_get_one_for_heads(before: str, after: str) -> None:
    check_rewrites(Sdpa, head(before), head(after))


@pytest.mark.parametrize(("before", "after"), THREE.values(), ids=THREE)
def test_three_dimensions_give_what_they_gave(before: str, after: str) -> None:
    torch.manual_seed(0)
    layers: list[Any] = []
    for code in (before, after):
        names: dict[str, Any] = {}
        exec(compile(head(code), "layer.py", "exec"), names)  # noqa: S102 - the texts are the test's own
        layers.append(names["Head"]())
    layers[1].load_state_dict(layers[0].state_dict())
    bias = torch.randn(3, 6, 6) * (1 - torch.eye(6)) + torch.eye(6)

    one, other = (computed(each, torch.randn(3, 6, 16, generator=torch.manual_seed(1)), bias) for each in layers)

    for found, expected in zip(other, one, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


ATTEND = IMPORTS + "def attend(q, k, v):\n{}\n\n{}\n"
PRODUCTS = "    return (q @ k.mT).softmax(-1) @ v"
FOUR_OF_CALLERS = {
    "a function is given four": "x = torch.randn(2, 4, 8, 16)\nattend(x, x, x)",
    "each of several calls gives four": "x = torch.randn(2, 4, 8, 16)\nattend(x, x, x)\nattend(x * 2, x, x)",
    "one of the operands is known": "x = torch.randn(2, 4, 8, 16)\nattend(print, x, print)",
    "heads are split by a method": """\
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(32, 32)

    def split(self, x):
        B, T, C = x.shape
        return x.view(B, T, 4, C // 4).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(self.inner(each)) for each in (x, x, x))
        return attend(q, k, v)

Layer()(torch.randn(2, 8, 32))""",
}


@pytest.mark.parametrize("callers", FOUR_OF_CALLERS.values(), ids=FOUR_OF_CALLERS)
def test_callers_that_give_four_dimensions(callers: str) -> None:
    fused = f"    return {CALL}(q, k, v, scale=1.0)"
    check_rewrites(Sdpa, ATTEND.format(PRODUCTS, callers), ATTEND.format(fused, callers))


TAKEN = "and the fused kernels take four: (batch, heads, length, width)"
UNSEEN = (
    f"how many dimensions the queries have is not known (line 7), {TAKEN}: write B, H, T, D = q.shape before it if"
    " there are four"
)
OTHERS = {
    "nobody calls it": (ATTEND.format(PRODUCTS, ""), UNSEEN),
    "calls differ": (
        ATTEND.format(PRODUCTS, "x = torch.randn(2, 4, 8, 16)\nattend(x, x, x)\nattend(x[0], x[0], x[0])"),
        UNSEEN,
    ),
    "of values it is not known": (
        ATTEND.format(PRODUCTS, "x = torch.randn(2, 8, 16)\nattend(x, x, print)"),
        UNSEEN,
    ),
    "five": (
        ATTEND.format(PRODUCTS, "x = torch.randn(2, 3, 4, 8, 16)\nattend(x, x, x)"),
        f"the queries have 5 dimensions (line 7), {TAKEN}",
    ),
    "of some five": (
        ATTEND.format(PRODUCTS, "x = torch.randn(2, 3, 4, 8, 16)\nattend(x, x, x[0])"),
        f"queries, keys and values do not all have as many dimensions (line 7), {TAKEN}",
    ),
    "of the mask of three it is not known": (
        head("y = (q @ k.mT).masked_fill(flag, float('-inf')).softmax(-1) @ v\n"),
        f"the queries have three dimensions, the mask is not seen to have two or three (line 18), {TAKEN}",
    ),
}


@pytest.mark.parametrize(("code", "because"), OTHERS.values(), ids=OTHERS)
def test_dimensions_that_no_fused_kernel_takes(code: str, because: str) -> None:
    check_leaves(Sdpa, code, because)


CAUSAL = """\
import torch
import torch.nn.functional as F
from torch import nn


def grown(mask):
    print("grown")
    return mask


class Head(nn.Module):
    def __init__(self, dim, length):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.register_buffer("mask", torch.triu(torch.ones(length, length), diagonal=1))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4).unbind(0)
{body}        return y.transpose(1, 2).reshape(b, t, c)
"""
MADE = "        later = self.mask.bool()[:t, :t]\n"
FILLED = """\
        scores = q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5
        scores = scores.masked_fill(later, -torch.inf)
        y = F.softmax(scores, dim=-1) @ v
"""
FUSED_BODY = "        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(MADE + FILLED, FUSED_BODY, id="nothing else reads it"),
        pytest.param(
            MADE + FILLED + "        print(later)\n",
            MADE + FUSED_BODY + "        print(later)\n",
            id="it is read below",
        ),
        pytest.param(
            MADE + FILLED + "        show = lambda: later\n",
            MADE + FUSED_BODY + "        show = lambda: later\n",
            id="a function inside reads it",
        ),
    ],
)
def test_a_triangle_goes_that_nothing_reads_any_more(before: str, after: str) -> None:
    check_rewrites(Sdpa, CAUSAL.format(body=before), CAUSAL.format(body=after))


def test_what_does_more_than_to_make_a_triangle_stays() -> None:
    made = MADE.replace("[:t, :t]", "[:t, :t].to(grown(x).device)")
    result = run(Sdpa, CAUSAL.format(body=made + FILLED)).after

    assert "grown(x).device" in result
