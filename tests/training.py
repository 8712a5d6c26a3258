"""Runs small scripts under torch, to show that a guard stands for something real."""

from __future__ import annotations

import contextlib
import io


def run_script(text: str) -> str:
    """What the script prints.

    Args:
        text: A script that needs no files and no arguments.
    """
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})  # noqa: S102 - the tests' own scripts
    return out.getvalue()
