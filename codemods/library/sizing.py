"""Which arguments of which functions and methods say how large a tensor or an array is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import argument_of, arguments_of
from codemods.dataflow.values import library_names
from codemods.library.operations import operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow

_ALL = words(
    """
    torch.randn torch.rand torch.zeros torch.ones torch.empty torch.arange numpy.random.rand numpy.random.randn
    numpy.arange torch.Size
    """
)
"""Functions all of whose arguments are sizes, or bounds of a range."""
_ONE = {
    **dict.fromkeys(words("torch.full numpy.zeros numpy.ones numpy.empty numpy.full"), ((0, "size"), (0, "shape"))),
    **dict.fromkeys(words("torch.randperm numpy.random.permutation"), ((0, "n"), (0, "x"))),
    **dict.fromkeys(words("torch.linspace torch.logspace numpy.linspace numpy.logspace"), ((2, "steps"), (2, "num"))),
    **dict.fromkeys(
        words("numpy.random.randint numpy.random.normal numpy.random.uniform numpy.random.binomial torch.randint"),
        ((2, "size"),),
    ),
    **dict.fromkeys(words("numpy.random.choice numpy.random.poisson"), ((1, "size"),)),
    "random.sample": ((1, "k"),),
    "random.choices": ((3, "k"),),
    "torch.topk": ((1, "k"),),
    "torch.narrow": ((3, "length"),),
    "torch.nn.functional.pad": ((1, "pad"),),
    "torch.nn.functional.interpolate": ((1, "size"), (2, "scale_factor")),
    "torchvision.transforms.functional.resize": ((1, "size"),),
}
_METHODS = words("view reshape expand repeat new_zeros new_ones new_empty unfold")
"""Methods of tensors all of whose arguments are sizes."""
_SAMPLES = frozenset({"sample", "rsample"})
_ONE_OF_METHODS = {"topk": ((0, "k"),), "narrow": ((2, "length"),), "new_full": ((0, "size"),)}


def sizes_given(flow: Flow, call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of the call that say how large what it returns is."""
    names = library_names(flow.values(call.func))
    if names & _ALL:
        yield from arguments_of(call)
    found = [pair for each in names & _ONE.keys() for pair in _ONE[each]]
    if isinstance(call.func, ast.Attribute) and call.func.attr in _SAMPLES and _is_of_distribution(flow, call.func):
        yield from call.args[:1]
    if isinstance(call.func, ast.Attribute) and not names and operation(flow, call) is not None:
        if call.func.attr in _METHODS:
            yield from arguments_of(call)
        found += _ONE_OF_METHODS.get(call.func.attr, ())
    given = (argument_of(call, name, position) for position, name in found)
    yield from dict.fromkeys(each for each in given if each is not None)


def _is_of_distribution(flow: Flow, method: ast.Attribute) -> bool:
    """Whether the method is one of ``torch.distributions``."""
    return any(each.name.startswith("torch.distributions.") for each in flow.values(method.value))


def functions() -> frozenset[str]:
    """The qualified names of the functions that are known."""
    return frozenset(_ALL) | frozenset(_ONE)


def methods() -> frozenset[str]:
    """The names of the methods that are known."""
    return frozenset(_METHODS) | frozenset(_ONE_OF_METHODS)
