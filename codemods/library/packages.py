"""What the things of packages around PyTorch are to a training loop."""

from __future__ import annotations

import re

_SCHEDULES = (
    *("torch.optim.lr_scheduler.", "timm.scheduler.", "ignite.handlers.param_scheduler.", "pytorch_warmup."),
    *("warmup_scheduler.", "cosine_annealing_warmup.", "torch.optim.swa_utils.SWALR"),
)
_MAKES_SCHEDULE = re.compile(r"(transformers|diffusers)\.(optimization\.)?get_\w*schedule\w*$")
_STEPS_NO_PARAMETERS = (
    *("gym.", "gymnasium.", "pettingzoo.", "envpool.", "procgen.", "retro.", "dm_control.", "ale_py.", "minigrid."),
    *("torch.profiler.", "torch.autograd.profiler.", "torch.cuda.profiler."),
)


def is_scheduler(name: str) -> bool:
    """Whether what the class or function of that qualified name makes schedules learning rates."""
    return name.startswith(_SCHEDULES) or _MAKES_SCHEDULE.match(name) is not None


def steps_no_parameters(name: str) -> bool:
    """Whether what the class or function of that qualified name makes has a ``step`` that updates no parameters.

    Environments, profilers and schedulers have one.
    """
    return is_scheduler(name) or name.startswith(_STEPS_NO_PARAMETERS)
