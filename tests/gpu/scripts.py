"""The scripts of a GPU's size: how long each is to be for which purpose, and how long that takes.

Seconds are those of an H100 with 16 cores and torch 2.11, of the work alone; what a process takes to start and to end is
added where runs are planned. Those of ``gpt`` and ``unet_segmentation`` are estimates from runs beside others, and
that of ``mnist_cnn`` is one from ``mnist_feedforward``. They tell what fits into a call, and nothing else rests on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.gpu.setting import Setting

WORKERS = (2, 4, 8, 16)
"""Numbers of worker processes that are tried; the machine has 16 cores."""


@dataclass(frozen=True, slots=True)
class Length:
    """How much of a script's work is done."""

    arguments: tuple[str, ...]
    """Of the script, besides ``--data``."""
    data: tuple[str, ...]
    """Of ``make_data.py``, after the directory."""
    backwards: int
    """Calls of ``backward`` in a whole run."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """What a whole measured run takes, compiled kernels at hand, but without the start of its process."""

    naive: float
    default: float
    expert: float
    compiling: float = 0.0
    """More, where what ``default`` compiles is compiled for the first time."""


@dataclass(frozen=True, slots=True)
class Dissected:
    """How a script is taken apart: rules alone and left out, numbers of workers, batch sizes."""

    length: Length
    seconds: float
    """Of the naive script; a rewritten one is taken to need half of it."""
    compiling: float
    """More, where kernels have to be made for the first time."""
    batches: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Other batch sizes that are tried, with the arguments that lead to them."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script in ``fixtures/`` that is large enough for a GPU by its arguments."""

    name: str
    small: Length
    """For a CPU; the fixture that the tests run."""
    smoke: Length
    """For a GPU: the real shapes, and few data."""
    measured: Length
    """For a GPU, some seconds long: what is measured."""
    whole: Length
    """A minute of a GPU or more: the length to which is extrapolated."""
    seconds: Seconds
    """Of the measured length."""
    dissected: Dissected | None = None
    """None where the whole alone is looked at."""
    expert_compiles: bool = False
    """Whether the expert's text compiles at these lengths; where it does not, compiling would not pay back."""

    def length(self, setting: Setting, purpose: Literal["smoke", "measured", "whole"]) -> Length:
        """The length for a purpose; where nothing that is measured counts, the small one."""
        found: Length = self.small if setting.tries_only else getattr(self, purpose)
        return found


def length(arguments: str, data: str, backwards: int) -> Length:
    return Length(tuple(arguments.split()), tuple(data.split()), backwards)


# Data sets seldom are multiples of the batch size: the last batch of an epoch is smaller, and compiled once more.
SCRIPTS = (
    # Decoding and cropping a picture takes about 2 ms of a core, training on a batch about 10 ms of the GPU.
    Script(
        "jpeg_resnet",
        small=length(
            "--size 32 --samples 480 --val-samples 80 --batch-size 16 --epochs 2 --lr 0.003",
            "--samples 480 --val-samples 80 --size 32",
            2 * 30,
        ),
        smoke=length(
            "--epochs 1 --samples 1240 --val-samples 240 --batch-size 64 --lr 0.025",
            "--samples 1240 --val-samples 240",
            20,
        ),
        measured=length(
            "--epochs 2 --samples 1512 --val-samples 240 --batch-size 64 --lr 0.025",
            "--samples 1512 --val-samples 240",
            2 * 24,
        ),
        whole=length(
            "--epochs 5 --samples 5096 --val-samples 496 --batch-size 64 --lr 0.025",
            "--samples 5096 --val-samples 496",
            5 * 80,
        ),
        seconds=Seconds(naive=17, default=42, expert=14, compiling=74),
        dissected=Dissected(
            length(
                "--epochs 1 --samples 1512 --val-samples 112 --batch-size 64 --lr 0.025",
                "--samples 1512 --val-samples 112",
                24,
            ),
            seconds=9,
            compiling=60,
            batches={128: ("--batch-size", "128")},
        ),
    ),
    # An image takes 52 µs of a core, and a batch perhaps half a millisecond of launching kernels.
    Script(
        "mnist_feedforward",
        small=length("--samples 1920 --test-samples 320 --epochs 4 --log-interval 10", "1920 320", 4 * 30),
        smoke=length("--samples 1256 --test-samples 232 --epochs 1 --log-interval 10", "1256 232", 20),
        measured=length("--samples 30000 --test-samples 5000 --epochs 2", "30000 5000", 2 * 469),
        whole=length("", "60000 10000", 5 * 938),
        seconds=Seconds(naive=11, default=13, expert=2, compiling=6),
        dissected=Dissected(
            length("--samples 15000 --test-samples 2500 --epochs 2", "15000 2500", 2 * 235),
            seconds=7,
            compiling=15,
            batches={512: ("--batch-size", "512")},
        ),
    ),
    # An image takes 52 µs of a core here, too. A fifth of those to train on is for validation.
    Script(
        "mnist_cnn",
        small=length("--samples 2000 --test-samples 320 --epochs 2 --lr 0.003", "2000 320", 2 * 25),
        smoke=length("--samples 1570 --test-samples 232 --epochs 1", "1570 232", 20),
        measured=length("--samples 37500 --test-samples 5000 --epochs 2", "37500 5000", 2 * 469),
        whole=length("--samples 59990", "59990 10000", 5 * 750),
        seconds=Seconds(naive=12, default=6, expert=3, compiling=13),
    ),
    # 16,384 tokens at 0.86 GFLOP each are 14 TFLOP: about 0.4 s in fp32.
    Script(
        "gpt",
        small=length(
            "--model tiny --tokens 200000 --batch-size 8 --max-iters 100 --warmup-iters 10 --lr 3e-3"
            " --eval-interval 50 --eval-iters 5",
            "512 200000 10000",
            100,
        ),
        smoke=length(
            "--model base --tokens 1000000 --max-iters 20 --warmup-iters 2 --eval-interval 10 --eval-iters 2",
            "50257 1000000 50000",
            20,
        ),
        measured=length(
            "--model base --tokens 1000000 --max-iters 24 --warmup-iters 5 --eval-interval 24 --eval-iters 1",
            "50257 1000000 50000",
            24,
        ),
        whole=length(
            "--model base --max-iters 150 --warmup-iters 10 --eval-interval 50 --eval-iters 5",
            "50257 20000000 1000000",
            150,
        ),
        seconds=Seconds(naive=16, default=25, expert=15, compiling=60),
        dissected=Dissected(  # about 30 million parameters
            length(
                "--model small --tokens 1000000 --batch-size 32 --max-iters 40 --warmup-iters 10 --eval-interval 40"
                " --eval-iters 1",
                "8192 1000000 50000",
                40,
            ),
            seconds=6,
            compiling=40,
            batches={64: ("--batch-size", "64")},
        ),
        expert_compiles=True,
    ),
    # 328 GFLOP an image: perhaps 70 ms of the GPU for a batch, and 45 ms of a core to read it.
    Script(
        "unet_segmentation",
        small=length(
            "--size 32 --train-images 120 --val-images 24 --batch-size 4 --base-channels 4 --epochs 3 -l 0.002",
            "--sizes 120 24 32",
            3 * 30,
        ),
        smoke=length("--epochs 1 --train-images 316 --val-images 28", "--sizes 316 28 256", 20),
        measured=length("--epochs 2 --train-images 380 --val-images 28", "--sizes 380 28 256", 2 * 24),
        whole=length("--epochs 4 --train-images 1596 --val-images 156", "--sizes 1596 156 256", 4 * 100),
        seconds=Seconds(naive=12, default=45, expert=10, compiling=80),
        dissected=Dissected(
            length("--epochs 1 --train-images 380 --val-images 28", "--sizes 380 28 256", 24),
            seconds=8,
            compiling=60,
        ),
    ),
    # A review takes 23 µs of a core; what the LSTM takes, 10 to 15 ms a batch, is a guess.
    Script(
        "text_lstm",
        small=length(
            "--train-lines 800 --test-lines 200 --epochs 2 --embedding-dim 64 --hidden-dim 32 --lr 1e-2 --dropout 0.2"
            " --batch-size 16 --max-len 32",
            "800 200",
            2 * 50,
        ),
        smoke=length("--train-lines 1256 --test-lines 616 --epochs 1", "1256 616", 20),
        measured=length("--train-lines 10000 --test-lines 1256 --epochs 2", "10000 1256", 2 * 157),
        whole=length("--train-lines 39984", "39984 10000", 5 * 625),
        seconds=Seconds(naive=23, default=24, expert=3),
    ),
    # A row takes 10 µs of a core, a batch perhaps a millisecond of launching kernels.
    Script(
        "tabular_mlp",
        small=length("--rows 20000 --epochs 2", "20000", 2 * 63),
        smoke=length("--rows 6300 --epochs 1", "6300", 20),
        measured=length("--rows 100000 --epochs 2", "100000", 2 * 313),
        whole=length("--rows 199900", "199900", 10 * 625),
        seconds=Seconds(naive=9, default=21, expert=2, compiling=20),
    ),
)
BY_NAME = {script.name: script for script in SCRIPTS}
DISSECTED = tuple(script.name for script in SCRIPTS if script.dissected is not None)
