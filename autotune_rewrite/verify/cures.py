"""What the user can do about a run that fails for what surrounds the script, and not for what it computes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.project.runnable import is_notebook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.verify.plan import Plan

_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_RELATIVE = re.compile(r"ImportError: attempted relative import with no known parent package")
_NO_GPU = re.compile(
    "Found no NVIDIA driver|No CUDA GPUs are available|Torch not compiled with CUDA enabled"
    "|CUDA driver version is insufficient for CUDA runtime version"
)
_ABOVE = 2
"""Directories above the current one in which a package is looked for."""


def cure(plan: Plan, said: Sequence[str]) -> str:
    """A sentence for the user; empty where nothing is known.

    Args:
        plan: How the script was run.
        said: The last lines that it wrote.
    """
    as_script = not plan.module and not is_notebook(plan.original)
    for line in reversed(said):
        missing = _MISSING.search(line)
        if missing is not None:
            name = missing[1].partition(".")[0]
            holder = _holder(name) if as_script else None
            if holder == Path.cwd():
                return f"{name} lies in this directory: -m runs the script as a module from here."
            if holder is not None:
                return f"{name} lies in {holder}: start it there, as a module with -m."
            return f"It was run by {sys.executable}: {name} has to be installed there."
        if as_script and _RELATIVE.search(line):
            return "It is a module of a package: -m runs it as one, from the directory that holds the package."
        if plan.simulated is None and _NO_GPU.search(line):
            return "There is no GPU for it here: --device simulated runs it without one, and says nothing of speed."
    return ""


def _holder(name: str) -> Path | None:
    """The directory, from the current one up, that holds a package or a module of this name."""
    here = Path.cwd()
    for each in (here, *list(here.parents)[:_ABOVE]):
        if (each / name / "__init__.py").is_file() or (each / f"{name}.py").is_file():
            return each
    # A package needs no __init__.py; of directories above, too many have some name.
    return here if (here / name).is_dir() else None
