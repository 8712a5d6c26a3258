"""PyTorch's losses: the functions, and the classes that call them."""

from __future__ import annotations

from codemods.dataflow.names import words

_FUNCTIONS = frozenset(
    f"torch.nn.functional.{name}"
    for name in words(
        """
        binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss
        gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss linear_cross_entropy margin_ranking_loss
        mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss
        smooth_l1_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss
        """
    )
)
_REGRESSIONS = frozenset(
    {f"torch.nn.functional.{name}" for name in words("huber_loss l1_loss mse_loss smooth_l1_loss")}
    | {f"torch.nn.{name}" for name in words("HuberLoss L1Loss MSELoss SmoothL1Loss")}
)
_WITH_WEIGHTS = frozenset({"torch.nn.AdaptiveLogSoftmaxWithLoss", "torch.nn.LinearCrossEntropyLoss"})
"""Losses that are layers, too."""


def is_loss_function(name: str) -> bool:
    """Whether the function of that qualified name computes a loss."""
    return name in _FUNCTIONS


def is_loss_class(name: str) -> bool:
    """Whether objects of the class of that qualified name compute losses: ``NLLLoss2d`` is the old name of one."""
    package, _, last = name.rpartition(".")
    return package == "torch.nn" and last.removesuffix("2d").endswith("Loss")


def is_stateless_loss(name: str) -> bool:
    """Whether objects of the class of that qualified name keep what they are made of, and draw no weights."""
    return is_loss_class(name) and name not in _WITH_WEIGHTS


def is_regression(name: str) -> bool:
    """Whether the function or class of that qualified name compares numbers with targets that are numbers too."""
    return name in _REGRESSIONS


def losses() -> frozenset[str]:
    """The qualified names of all the functions."""
    return _FUNCTIONS


_BINARY = words(
    """
    torch.nn.BCELoss torch.nn.BCEWithLogitsLoss torch.nn.functional.binary_cross_entropy
    torch.nn.functional.binary_cross_entropy_with_logits
    """
)


def takes_floats_alone(name: str) -> bool:
    """Whether the loss, or the function, of that name takes floats alone as targets."""
    return name in _BINARY
