"""``torchfast undo``: what was written last is taken back."""

from __future__ import annotations

import os

import click

from autotune_rewrite.cli.faults import Fault, as_fault
from autotune_rewrite.cli.findings import say


@click.command()
def undo() -> None:
    """Take back what was written last from this directory, if nobody changed it since."""
    from autotune_rewrite.project import journal

    written = journal.kept()
    if not written:
        raise Fault("nothing to take back: nothing was written from this directory, or it was taken back before")
    with as_fault():
        journal.take_back(written)
    for each in written:
        say(f"{os.path.relpath(each.path)}: taken back")
