"""Run a training script as ``__main__`` and write down every loss, every final parameter and every worker.

Usage: ``python record_training.py [--start METHOD] RECORD.json SCRIPT [ARGUMENT...]``. It shares nothing with the
project's verifier, so that a fault in one does not hide in the other.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import runpy
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.optim import Optimizer


def digest(tensor: torch.Tensor) -> str:
    """The shape, the type and a hash of the bytes of a tensor: equal exactly where the tensors are, bit for bit."""
    values = tensor.detach().cpu().contiguous()
    return f"{tuple(values.shape)} {values.dtype} {hashlib.sha256(values.numpy().tobytes()).hexdigest()}"


def record(script: Path, arguments: list[str]) -> dict[str, list[str]]:
    """Run the script to its end.

    Returns:
        ``losses``: the digest of each tensor that ``backward`` was called on, in that order; ``parameters``: the digest
        of each final parameter of each optimizer, in the order in which the optimizers first stepped; ``workers``: the
        name of each process that was started.
    """
    losses: list[str] = []
    workers: list[str] = []
    optimizers: dict[int, Optimizer] = {}
    backward: Callable[..., None] = torch.Tensor.backward
    start = BaseProcess.start

    def recording_backward(loss: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        losses.append(digest(loss))
        backward(loss, *args, **kwargs)

    def recording_start(process: BaseProcess) -> None:
        workers.append(process.name)
        start(process)

    def remember(optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        optimizers.setdefault(id(optimizer), optimizer)

    register_optimizer_step_post_hook(remember)
    torch.set_num_threads(1)  # tests run beside each other: threads of several runs would fight over the cores
    with (
        patch.object(torch.Tensor, "backward", recording_backward),
        patch.object(BaseProcess, "start", recording_start),
        patch.object(sys, "argv", [str(script), *arguments]),
    ):
        runpy.run_path(str(script), run_name="__main__")
    parameters = [
        digest(parameter)
        for optimizer in optimizers.values()
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    return {"losses": losses, "parameters": parameters, "workers": workers}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", help="how processes are started: fork, spawn or forkserver")
    parser.add_argument("record", type=Path)
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.start is not None:
        multiprocessing.set_start_method(options.start)
    options.record.write_text(json.dumps(record(options.script, options.arguments)), encoding="utf-8")
