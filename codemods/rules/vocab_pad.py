"""Rule ``vocab-pad``: vocabularies whose size is no multiple of 8 are told of, where the model trains in 16 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Advises, Codemod, Default, Phase, Promise
from codemods.dataflow.names import words
from codemods.facts.models.placement import Home
from codemods.facts.models.vocabularies import vocabularies
from codemods.facts.precision.presence import mixed_precision_present, other_precision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.facts.script import Script

_ALIGNED = 8
"""Numbers of 16 bits that tensor cores load at once."""
_USUAL = 64
_LARGE = 1000
"""Words from which on the output layer has a part in the time of an iteration."""


class VocabPad(Codemod):
    """Says where a vocabulary is no multiple of 8, in a model that trains in 16 bits; it changes nothing.

    Why it is faster:
        Tensor cores want the sides of 16-bit matrices to be multiples of 8. A vocabulary of 50257 words makes both the
        scores of all words and their gradients matrices with an odd side, for which slower kernels are chosen. Make
        the embedding and the output layer as large as the next multiple of 64, here 50304. No input ever has the words
        that are added, and training soon gives them next to no probability.

        It is advice: it fails no check, and no rewrite does it, as it changes what is trained. The first weights are
        other ones, checkpoints from before do not fit, and what samples words has to leave out those that are added.

    When it is left:
        Nothing is said of a vocabulary of fewer than 1,000 words, or whose size is not known; of a model that trains in
        32 bits, where ``amp`` does not put it in 16, or without CUDA; or where no embedding and output layer of one
        size belong to a model that training iterations call.

    Results:
        Nothing is changed. Padded by hand, the model starts from other weights, and has a few more.

    References:
        NVIDIA, "Train With Mixed Precision", on the shapes of matrices for tensor cores; "Matrix Multiplication
        Background User's Guide"; RobertRiachi/nanoPALM 6, where the gain was seen.
    """

    promise = Promise.TRAINING
    default = Default.ADVICE
    gain = "1.04x (RTX 3090, a GPT with 50257 words)"
    gain_sources = ("https://github.com/RobertRiachi/nanoPALM/pull/6",)
    needs_cuda = True
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words("")
    examples = (
        Advises(
            code="""\
import torch
import torch.nn.functional as F
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50257, 768)
        self.head = nn.Linear(768, 50257, bias=False)

    def forward(self, tokens):
        return self.head(self.embedding(tokens))

model = Model().cuda()
for tokens in torch.randint(50257, (100, 16, 128)).cuda():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    loss.backward()
""",
            says="the output layer has 50257 columns, and kernels of 16-bit products want a multiple of 8: a vocabulary"
            " padded to 50304 may train faster, from other first weights, and does not fit checkpoints from before",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every output layer with a column for each word of a large vocabulary whose size is no multiple of 8."""
        if other_precision(script) is not None:
            return
        for each in vocabularies(script):
            is_on_cuda = isinstance(each.model.home, Home) or script.may_use_cuda
            if is_on_cuda and each.size >= _LARGE and each.size % _ALIGNED:
                padded = -(-each.size // _USUAL) * _USUAL
                message = (
                    f"the output layer has {each.size} columns, and kernels of 16-bit products want a multiple of "
                    f"{_ALIGNED}: a vocabulary padded to {padded} may train faster, from other first weights, and does "
                    "not fit checkpoints from before"
                )
                without = "" if mixed_precision_present(script) else "amp"
                yield self.advice(script.module, each.output, message, only_with=without)
