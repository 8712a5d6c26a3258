"""Functions of torch that write to what they are given where an argument asks for it, and where these arguments stand.

The names that end in an underscore are not among them, nor is ``out``.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from codemods.dataflow.signatures import argument_of


class Writing(NamedTuple):
    """What a function writes to, and which argument asks for it."""

    asked: str
    position: int
    written: dict[str, int]
    """The arguments that it writes to, each with its position."""
    by_default: bool = False


_INPLACE = """
1 relu relu6 selu silu mish hardswish hardsigmoid
2 elu celu leaky_relu
3 dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout threshold hardtanh
4 rrelu
"""
_STATISTICS, _LATER = {"running_mean": 1, "running_var": 2}, {"running_mean": 3, "running_var": 4}
_WRITING = {
    **{
        f"torch.nn.functional.{name}": Writing("inplace", int(position), {"input": 0})
        for position, *names in map(str.split, _INPLACE.strip().splitlines())
        for name in names
    },
    "torch.nn.functional.batch_norm": Writing("training", 5, _STATISTICS),
    "torch.nn.functional.instance_norm": Writing("use_input_stats", 5, _STATISTICS, by_default=True),
    "torch.nn.functional.embedding": Writing("max_norm", 3, {"weight": 1}),
    # It takes the two in either order.
    "torch.nn.functional.embedding_bag": Writing("max_norm", 3, {"input": 0, "weight": 1}),
    "torch.batch_norm": Writing("training", 5, _LATER),
    "torch.instance_norm": Writing("use_input_stats", 5, _LATER, by_default=True),
}


def writing() -> dict[str, Writing]:
    """The functions that are known to write to arguments, by their qualified names."""
    return dict(_WRITING)


def written(name: str, call: ast.Call) -> list[ast.expr]:
    """The arguments that a call of the function of that qualified name writes to, or may."""
    found = _WRITING.get(name)
    if found is None:
        return []
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return [*call.args, *(each.value for each in call.keywords)]
    asked = argument_of(call, found.asked, found.position)
    asks = found.by_default if asked is None else not (isinstance(asked, ast.Constant) and not asked.value)
    given = (argument_of(call, *each) for each in found.written.items())
    return [each for each in given if each is not None and not _is_none(each)] if asks else []


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
