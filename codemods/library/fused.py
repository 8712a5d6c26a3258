"""Which of torch's optimizers step in one kernel on CUDA, since when, and with the same rounding?"""

from __future__ import annotations

from typing import NamedTuple


class Fused(NamedTuple):
    """The fused step of an optimizer on CUDA."""

    since: tuple[int, int]
    """The first torch that has it, together with a gradient scaler."""
    is_exact: bool
    """Whether it gives the bits of the plain step, as measured: ``fixtures/results/h100-torch2.11``, stage 4."""


FUSED = {
    "torch.optim.Adam": Fused((2, 0), is_exact=False),
    "torch.optim.AdamW": Fused((2, 0), is_exact=False),
    "torch.optim.SGD": Fused((2, 3), is_exact=True),
    "torch.optim.Adagrad": Fused((2, 15), is_exact=False),
}
"""Adagrad's was one for the CPU alone in torch 2.11, and is there for CUDA in 2.15; the others have none."""
ON_CPU = {
    "torch.optim.Adam": (2, 4),
    "torch.optim.AdamW": (2, 4),
    "torch.optim.SGD": (2, 4),
    "torch.optim.Adagrad": (2, 4),
}
"""Those that have a fused step on the CPU, and the first torch that has it: pytorch/pytorch 123074, 123629, 124905."""
TAKES_A_RATE = frozenset({"torch.optim.Adam", "torch.optim.AdamW", "torch.optim.SGD"})
"""Those whose fused step has taken tensors for the learning rate from the first (Adagrad: pytorch/pytorch 153038)."""
LEAVES_MOMENTUM_UNSET = frozenset({"torch.optim.SGD"})
"""Those whose fused step makes buffers of momentum for its kernel to fill, and says so of all of them or of none:
``_fused_sgd`` of torch 2.3 to 2.14."""
TAKES_THE_HOST = (2, 4)
"""The first torch whose fused forms take parameters that are on the host: ``torch.utils._foreach_utils`` of 2.4.0."""
MOVES_COUNTS = (2, 1)
"""The first torch whose ``load_state_dict`` takes the counts of steps to where a fused form reads them: pytorch/pytorch
103256."""
FORMS = frozenset({"fused", "foreach"})
"""The arguments that choose how an optimizer steps."""
NOT_FUSED = frozenset({"differentiable", "capturable"})
"""Those that choose a step for another purpose."""
SPARSE = {
    "torch.nn.Embedding": 6,
    "torch.nn.Embedding.from_pretrained": 6,
    "torch.nn.EmbeddingBag": 6,
    "torch.nn.EmbeddingBag.from_pretrained": 6,
    "torch.nn.functional.embedding": 6,
    "torch.nn.functional.embedding_bag": 7,
}
"""What of torch's makes sparse gradients where its argument ``sparse`` says so, and the place of that, from 0."""
