"""What a call finds out before its first task, so that it does not end in the middle, or measure something else."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify.plan import Plan, VerifyError
from autotune_rewrite.verify.run import probe
from tests.gpu import machine

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gpu.setting import Setting

ROOT = Path(__file__).parents[2]
LOCK = ".lock"
"""In the folder of the results, as long as a call writes into it."""
SHARED_LEAST = 2 * 2**30
"""Bytes of shared memory: the workers of data loaders hand over their batches in it, several runs at once."""


class CallError(Exception):
    """The call cannot begin; the message says why in one line."""


def check(setting: Setting) -> None:
    """Looks for what was prepared, for the scripts that were asked for, and for the device.

    Raises:
        CallError: Something of it is missing.
    """
    try:
        scripts = _manifest(setting)["scripts"]
    except (OSError, ValueError, KeyError) as error:
        message = f"{setting.prepared}: nothing was prepared there; run `python -m tests.gpu prepare` first ({error})"
        raise CallError(" ".join(message.split())) from error
    if unknown := sorted(setting.only - scripts.keys()):
        raise CallError(f"--only {', '.join(unknown)}: no such script was prepared; there are {', '.join(scripts)}")
    try:
        probe(Plan(Path(__file__), Path(__file__), device=setting.device))
    except VerifyError as error:
        raise CallError(str(error)) from error


def _manifest(setting: Setting) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((setting.prepared / "manifest.json").read_text(encoding="utf-8"))
    return found


def doubts(setting: Setting) -> Iterator[str]:
    """What makes the results worth less than they might be, in sentences."""
    prepared, here = _manifest(setting).get("commit", ""), commit()
    if here and prepared != here:
        yield f"{setting.prepared} was prepared from commit {prepared or 'unknown'}, and the checkout is at {here}"
    shared = machine.shared_memory()
    if shared is not None and shared["bytes"] < SHARED_LEAST:
        size = f"{shared['bytes'] / 2**20:.0f} MiB"
        yield f"{machine.SHARED} holds {size}: workers of data loaders may end for want of shared memory"


def commit() -> str:
    """Of the working tree, with a + where it holds changes; empty outside of a checkout."""

    def git(*arguments: str) -> str:
        try:
            done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False, text=True)
        except OSError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""

    found = git("rev-parse", "--short=12", "HEAD")
    return f"{found}+" if found and git("status", "--porcelain", "--untracked-files=no") else found


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Makes the folder of the results, and keeps other calls out of it until the end of the block.

    Raises:
        CallError: Another call is writing into it, or it cannot be written into.
    """
    path = out / LOCK
    try:
        out.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise CallError(f"--out {out}: {error.strerror}") from error
    try:
        if fcntl is not None:
            _lock(descriptor, path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    """Raises a CallError where another call has the file, or has just removed it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        held = False
    except BlockingIOError:
        held = False
    except OSError as error:
        raise CallError(f"--out {path.parent}: {error.strerror}") from error
    if not held:
        raise CallError(f"--out {path.parent}: another call is writing its results there")
