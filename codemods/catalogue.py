"""The rules and the order in which they run: the only module that names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from codemods.codemod import Default
from codemods.rules.amp import Amp
from codemods.rules.amp_migrate import AmpMigrate
from codemods.rules.as_tensor import AsTensor
from codemods.rules.bce_logits import BceLogits
from codemods.rules.channels_last import ChannelsLast
from codemods.rules.compile import Compile
from codemods.rules.const_hoist import ConstHoist
from codemods.rules.cudnn_benchmark import CudnnBenchmark
from codemods.rules.dataset_cache import DatasetCache
from codemods.rules.dataset_materialize import DatasetMaterialize
from codemods.rules.dataset_on_device import DatasetOnDevice
from codemods.rules.ddp_tuning import DdpTuning
from codemods.rules.debug_off import DebugOff
from codemods.rules.defer_sync import DeferSync
from codemods.rules.device_ctor import DeviceCtor
from codemods.rules.foreach_manual_update import ForeachManualUpdate
from codemods.rules.fused_cpu import FusedCpu
from codemods.rules.fused_optimizer import FusedOptimizer
from codemods.rules.gpu_normalize import GpuNormalize
from codemods.rules.grad_checkpoint import GradCheckpoint
from codemods.rules.h2d_non_blocking import H2dNonBlocking
from codemods.rules.jit_to_compile import JitToCompile
from codemods.rules.loader_batched_index import LoaderBatchedIndex
from codemods.rules.loader_hoist import LoaderHoist
from codemods.rules.loader_persistent import LoaderPersistent
from codemods.rules.loader_pin import LoaderPin
from codemods.rules.loader_workers import LoaderWorkers
from codemods.rules.loss_fuse import LossFuse
from codemods.rules.loss_history_detach import LossHistoryDetach
from codemods.rules.no_grad_eval import NoGradEval
from codemods.rules.retain_graph import RetainGraph
from codemods.rules.sdpa import Sdpa
from codemods.rules.sync_off import SyncOff
from codemods.rules.tf32_matmul import Tf32Matmul
from codemods.rules.vocab_pad import VocabPad
from codemods.rules.zero_grad_none import ZeroGradNone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codemods.codemod import Codemod

Rounds: TypeAlias = "tuple[tuple[type[Codemod], ...], ...]"

ROUNDS: Rounds = (
    # A profiler that goes is no clock any more, for which iterations would have to wait.
    (DebugOff,),
    # What only waits goes before anything is put around it, and names are those of today.
    (SyncOff, RetainGraph, AmpMigrate, JitToCompile, ConstHoist),
    # Of logits, 16 bits leave what probabilities and their logarithms lose.
    (BceLogits, LossFuse),
    # Where loaders are built, and then what they read, is settled before anything else is said of them.
    (LoaderHoist,),
    (DatasetMaterialize, DatasetCache),
    # What is decoded once is normalised once.
    (GpuNormalize,),
    # Of what is on the device as a whole, no rule may say what holds of batches from the host.
    (DatasetOnDevice,),
    # What is computed in 16 bits, or compiled, is what the model computes in the end.
    (Sdpa,),
    (
        LoaderBatchedIndex,
        LoaderWorkers,
        LoaderPersistent,
        LoaderPin,
        H2dNonBlocking,
        ZeroGradNone,
        FusedOptimizer,
        DdpTuning,
        Amp,
        ChannelsLast,
        Compile,
        CudnnBenchmark,
        Tf32Matmul,
        NoGradEval,
        AsTensor,
        DeviceCtor,
        DeferSync,
        LossHistoryDetach,
        ForeachManualUpdate,
        GradCheckpoint,
        VocabPad,
    ),
    # A condition that asks for CUDA is no more needed where an optimizer steps fused on each device.
    (FusedCpu,),
)
"""Rules of one round read the same facts; between rounds facts are computed anew."""

RULES: Mapping[str, type[Codemod]] = {rule.name(): rule for group in ROUNDS for rule in group}

GROUPS: Mapping[str, frozenset[str]] = {
    "ALL": frozenset(RULES),
    "DEFAULT": frozenset(name for name, rule in RULES.items() if rule.default is not Default.OPT_IN),
}
"""What may be selected besides single rules."""
