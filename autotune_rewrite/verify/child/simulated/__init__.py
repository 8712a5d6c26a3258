"""One CUDA device that is not there: the script believes in it, and every operation on it happens on the CPU.

``install(capability)`` puts it into this process, before a script runs; nothing takes it out again. It is loaded by
``harness.py`` inside the measured child, and again in every process that the script spawns. Like the harness it stands
on torch and the standard library only.

What it is good for: the branch behind ``torch.cuda.is_available()`` is executed, and crashes and computes as it would
on the device, mixed precision included. What it cannot show: speed, memory, races, rounding of the device's kernels.

How it works:

* A ``TorchFunctionMode`` sees every call of torch's Python functions. It puts "cuda" devices on the CPU and remembers
  which tensors would be on the device: these say ``is_cuda``, are copied by ``.cpu()``, cannot be pinned and have no
  ``.numpy()``. Their ``.device`` is the CPU: torch's own code has to find them there.
* Autocast on "cuda" is autocast on the CPU with the same type, and with CUDA's lists of operations instead of the CPU's
  (torch/include/ATen/autocast_mode.h has them): what is cast, what stays in 32 bits, what is forbidden.
* What torch.cuda knows of a device is answered; random numbers are those of the CPU's generator.
"""

from __future__ import annotations

import warnings

from .autocast import mirror_autocast, scale_on_cpu, use_cuda_autocast_lists
from .cuda import answer_for
from .patches import change_torch, follow_processes, run_backward_under
from .presence import SimulatedDevice

KEPT: list[object] = []
"""What must live as long as the process."""


def install(capability: str) -> None:
    """Puts the device into this process.

    Args:
        capability: As "9.0": of 8.0 and above there are 16-bit numbers with the range of 32-bit ones.
    """
    major, minor = map(int, capability.split("."))
    device = SimulatedDevice((major, minor))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kernels that take the place of others
        KEPT.append(use_cuda_autocast_lists())
    mirror_autocast()
    scale_on_cpu()
    answer_for(device)
    change_torch(device)
    run_backward_under(device)
    follow_processes(device)
    KEPT.append(device)
    device.__enter__()  # type: ignore[no-untyped-call] # until the process ends


def follow(function: object, wrapper: object) -> None:
    """Tells the device that a wrapper was put in the place of one of torch's functions."""
    for device in KEPT:
        if isinstance(device, SimulatedDevice):
            device.follow(function, wrapper)
