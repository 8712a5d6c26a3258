"""The rules and the order in which they run: the only module that names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from codemods.amp import Amp
from codemods.as_tensor import AsTensor
from codemods.compile import Compile
from codemods.cudnn_benchmark import CudnnBenchmark
from codemods.declaration import Default
from codemods.h2d_non_blocking import H2dNonBlocking
from codemods.loader_persistent import LoaderPersistent
from codemods.loader_pin import LoaderPin
from codemods.loader_workers import LoaderWorkers
from codemods.no_grad_eval import NoGradEval
from codemods.zero_grad_none import ZeroGradNone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codemods.declaration import Codemod

Rounds: TypeAlias = "tuple[tuple[type[Codemod], ...], ...]"

ROUNDS: Rounds = (
    (
        LoaderWorkers,
        LoaderPersistent,
        LoaderPin,
        H2dNonBlocking,
        ZeroGradNone,
        Amp,
        Compile,
        CudnnBenchmark,
        NoGradEval,
        AsTensor,
    ),
)
"""Rules of one round read the same facts; between rounds facts are computed anew."""

RULES: Mapping[str, type[Codemod]] = {rule.name(): rule for group in ROUNDS for rule in group}

GROUPS: Mapping[str, frozenset[str]] = {
    "ALL": frozenset(RULES),
    "DEFAULT": frozenset(name for name, rule in RULES.items() if rule.default is Default.ON),
}
"""What may be selected besides single rules."""
