"""Rule ``sdpa``: attention that is written out is computed by torch's fused function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.attention_edits import fused
from codemods.facts.models.attention_dimensions import why_not_taken
from codemods.facts.models.attention_obstacles import why_not_fused
from codemods.facts.models.attention_sites import attentions
from codemods.facts.reason import Reason
from codemods.library.attention import FUSED_SINCE

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.facts.models.attention import Attention
    from codemods.facts.script import Script

_MESSAGE = "attention writes all scores to memory and reads them back, several times"


class Sdpa(Codemod):
    """Computes attention by ``F.scaled_dot_product_attention`` where scores, softmax and mean are written out.

    Why it is faster:
        Written out, attention makes a matrix of scores for each head, with a row for each token and a column for each
        token: it is written, scaled, masked, exponentiated and dropped from, each time as a whole. The fused kernels go
        through it in pieces that stay on the chip, and skip what a causal mask hides. They take no memory that grows
        with the square of the length.

    When it is left:
        The weights are returned, kept, plotted or read by a hook. Between the products stands more than a scale, one
        mask and a dropout: another softmax, heads that are mixed, a learnt temperature. The softmax is computed in 32
        bits, and weights are not seen to get the format of the queries again. A mask fills with a finite number, and
        may hide all keys of a query. A mask that is added is not known to hold floats. A mask is not seen to have two
        dimensions or more: of one with a single dimension the function raises an error. Gradients are differentiated
        again. The result is viewed. Queries are not seen to have four dimensions, as the kernels take them, nor three,
        of which four can be made. On CUDA results are to repeat, and no ``torch.use_deterministic_algorithms(True)``
        asks the kernels for it.

        A mask that nothing reads any more stays a buffer of its module, as checkpoints hold it. One that is loaded is
        taken to hold the triangle that the class makes, as checkpoints of the class do: it is not read any more.

    Results:
        Rounded otherwise, to 1e-6. Dropout draws another mask. A query whose keys are all hidden by ``-inf`` has zeros
        in the place of NaN.

        The fused kernels take no tensors whose width is not innermost in memory, as where the channels stand in front
        of the tokens: such are copied.

    References:
        ``torch.nn.functional.scaled_dot_product_attention``; "FlashAttention" (arXiv 2205.14135).
    """

    promise = Promise.PRECISION
    gain = "attention over 256-1,024 tokens 1.3-1.9x as fast, over 64 as fast (CPU)"
    gain_sources = ("docs/measured.md#sdpa",)
    min_torch = FUSED_SINCE
    needs_cuda = False
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD, Phase.EVALUATION})
    causes = words(
        """
        determinism double-backward masked-rows no-name nothing-to-gain other-attention other-dimensions other-result
        unknown-mask weights-used
        """
    )
    examples = (
        Rewrites(
            before="""\
import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads, length, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(self.mask[:T, :T] == 0, float("-inf"))
        weights = self.drop(F.softmax(scores, dim=-1))
        return (weights @ v).transpose(1, 2).reshape(B, T, C)
""",
            after="""\
import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads, length, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.drop.p if self.training else 0.0, is_causal=True
        ).transpose(1, 2).reshape(B, T, C)
""",
        ),
        Rewrites(
            before="""\
import torch.nn.functional as F


def attend(q, k, v, mask=None):
    batch, heads, length, depth = q.shape
    scores = q @ k.transpose(-2, -1) * depth ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
    return F.softmax(scores, dim=-1) @ v
""",
            after="""\
import torch.nn.functional as F


def attend(q, k, v, mask=None):
    batch, heads, length, depth = q.shape
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=None if mask is None else mask[:, None, None, :] != 0
    )
""",
        ),
        Rewrites(
            before="""\
import torch
import torch.nn.functional as F
from torch import nn


class Head(nn.Module):
    def __init__(self, dim, size, length):
        super().__init__()
        self.query = nn.Linear(dim, size, bias=False)
        self.key = nn.Linear(dim, size, bias=False)
        self.value = nn.Linear(dim, size, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(self.mask[:T, :T] == 0, float("-inf"))
        return F.softmax(scores, dim=-1) @ v
""",
            after="""\
import torch
import torch.nn.functional as F
from torch import nn


class Head(nn.Module):
    def __init__(self, dim, size, length):
        super().__init__()
        self.query = nn.Linear(dim, size, bias=False)
        self.key = nn.Linear(dim, size, bias=False)
        self.value = nn.Linear(dim, size, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.query(x), self.key(x), self.value(x)
        return F.scaled_dot_product_attention(
            q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), is_causal=True
        ).squeeze(1)
""",
        ),
        Leaves(
            code="""\
import torch


def attend(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1)
    return weights @ v, weights
""",
            because="the weights are used elsewhere, and the fused function does not return them (line 6)",
        ),
        Leaves(
            code="""\
import torch


def attend(q, k, v, mask):
    batch, heads, length, depth = q.shape
    scores = q @ k.transpose(-2, -1) / depth ** 0.5
    return torch.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=-1) @ v
""",
            because="the mask is not seen to have two dimensions or more (line 7), and the fused function takes no"
            " fewer: write assert mask.dim() > 1 above the scores if it has",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every softmax between two products."""
        module = script.module
        for site in attentions(script.flow, module):
            if script.may_run(module, site.softmax):
                yield self._site(script, site.softmax, site.attention)

    def _site(self, script: Script, node: ast.Call, attention: Attention | Reason) -> Finding:
        if isinstance(attention, Reason):
            return self.left(script.module, node, attention)
        reason = why_not_fused(script, attention)
        if reason is not None:
            return self.left(script.module, node, reason)
        edits = fused(script, attention)
        if isinstance(edits, Reason):
            return self.left(script.module, node, edits)
        reason = why_not_taken(script.flow, attention)
        if reason is not None:
            return self.left(script.module, node, reason)
        redraws = attention.dropped is not None
        return self.rewrites(script.module, node, _MESSAGE, *edits, redraws=redraws)
