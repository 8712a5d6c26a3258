"""What torch does on a CUDA device: one function for each question, and what was seen as plain values.

``python -m tests.gpu.facts --list`` names the facts, ``python -m tests.gpu.facts NAME`` asks for one. This module and
the list import no torch. With ``--device simulated`` the questions are asked without a GPU, as far as that can go.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FACTS", "Fact"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A question to torch, and how it is asked."""

    name: str
    question: str
    source: str
    """The rules or sections of the rule catalogue that want to know it."""
    seconds: float
    """On an H100, with the start of the process: about six of them."""
    run: Callable[[], dict[str, Any]]
    """Asks, in this process, and returns plain values."""
    alone: bool = False
    """Whether it measures time, and so must not run beside others."""


def asked(*places: str) -> Callable[[], dict[str, Any]]:
    """What asks questions whose modules are imported only then.

    Args:
        places: Each as "module:function". The functions fill one record.
    """

    def run() -> dict[str, Any]:
        seen = import_module(f"{__name__}.recording").Seen()
        for place in places:
            module, _, function = place.partition(":")
            getattr(import_module(f"{__name__}.{module}"), function)(seen)
        report: dict[str, Any] = seen.report()
        return report

    return run


FACTS: tuple[Fact, ...] = (
    Fact(
        "device-and-copies",
        "What are the device, the allocators and the limits; when do copies return, what do they lose, how long do they take?",
        "A1, B4, B5, D1, W12, G, section 5.1",
        10.0,
        asked("device:device_and_limits", "copies:copies_host_device"),
        alone=True,
    ),
    Fact(
        "float32-precision",
        "What do the TF32 switches say and change, in cuBLAS and in cuDNN, and how fast are matrix products?",
        "A1, A2, K19, section 5.1",
        7.0,
        asked("float32:float32_precision"),
        alone=True,
    ),
    Fact(
        "autocast-dtypes",
        "In which type does each operation return under autocast, and what does it refuse, BCELoss first?",
        "D1, V0, V17, V18, V20, V24, V33, section 5.1",
        12.0,
        asked("autocast:autocast_dtypes"),
    ),
    Fact(
        "sixteen-bit-hazards",
        "What fails, overflows or goes stale in bf16 and fp16, and with which text?",
        "V0, V9, V16, V18, V19, V20, V22, V23, V28, V30",
        8.0,
        asked("sixteen:sixteen_bit_hazards"),
    ),
    Fact(
        "recurrent-networks",
        "How do cuDNN's LSTM, GRU and CTC behave under autocast, packed, in eval and differentiated twice?",
        "A1, K9, V20, V24",
        8.0,
        asked("recurrent:recurrent_networks"),
    ),
    Fact(
        "grad-scaler",
        "How many first steps does the scaler skip, how does its scale grow, what does it say to each misuse?",
        "V1, V2, V6, V9, V13, V14, V15, V21, F5, F7",
        18.0,
        asked("scaler:grad_scaler"),
    ),
    Fact(
        "optimizer-forms",
        "Are fused, foreach and single-tensor steps equal bit for bit, what do they refuse, how long do they take?",
        "C8, D6, E3, F1, F2, F3, F9, F10, F12, section 5.2",
        15.0,
        asked("optimizers:optimizer_forms"),
        alone=True,
    ),
    Fact(
        "bits-and-draws",
        "Which operations repeat their bits, what does channels_last change, which random numbers does the device draw?",
        "A2, A3, C3, C5, D5, L2, L3, L8, section 3, section 5.1",
        15.0,
        asked("convolutions:bits_from_run_to_run", "random_draws:random_draws"),
    ),
    Fact(
        "convolution-times",
        "What do cuDNN's search, a new shape, the memory format and bf16 cost and gain for convolutions?",
        "A2, D5, L1, L4, section 5.4",
        14.0,
        asked("convolutions:convolution_times"),
        alone=True,
    ),
    Fact(
        "attention-kernels",
        "Which kernel does scaled_dot_product_attention choose, how far is it from attention by hand, how fast is it?",
        "C2, D9, Q3, Q4, Q5, Q10, Q11, V6",
        24.0,
        asked("attention:attention_kernels"),
        alone=True,
    ),
    Fact(
        "steps-and-syncs",
        "Which calls wait for the device, and what do habits in the training loop cost in each step?",
        "A4, A5, C1, C2, C3, C5, C6, I2, V31",
        23.0,
        asked("syncs:synchronizing_calls", "overheads:step_overheads"),
        alone=True,
    ),
    Fact(
        "loaders-and-device",
        "What is pinned, what may forked workers do, and what do batched indices and data on the device gain?",
        "B4, B6, B7, C3, N1, N4, N6, N7, W2, W3",
        30.0,
        asked("loaders:loader_and_device", "loaders:loader_forms"),
        alone=True,
    ),
    Fact(
        "worker-start",
        "How long do workers take to start by fork, spawn and forkserver once CUDA is in use, and what does pinning gain?",
        "B2, B3, B4, W5",
        19.0,
        asked("loaders:worker_start"),
        alone=True,
    ),
    Fact(
        "compile-again",
        "What makes torch.compile compile again, what does it leave alone, and what do old constructors raise?",
        "K4, K5, K6, K9, K21, K22, K23, D7, section 5.5",
        30.0,
        asked("compiling:compile_again"),
    ),
    Fact(
        "compile-hazards",
        "What becomes of second derivatives, of buffers of CUDA graphs, of dropout and of TF32 in compiled code?",
        "A1, K1, K15, K19, D7, E2, section 5.5",
        35.0,
        asked("compile_hazards:compile_hazards"),
    ),
    Fact(
        "compile-warm-up",
        "How many seconds do the first calls of a compiled network take, with an empty cache and with a filled one?",
        "K2, D7, section 5.4",
        66.0,
        asked("compiling:compile_warm_up"),
        alone=True,
    ),
)
"""All of them; a process takes about six of the seconds to start. Together they take 350 at most."""
