"""``torchfast config``: what applies to a file or a directory, and where that is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import click

from autotune_rewrite.cli.completing import files
from autotune_rewrite.cli.faults import Fault, as_fault, not_empty


@click.command()
@click.argument("path", default=".", callback=not_empty, shell_complete=files)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def config(*, path: str, form: Literal["text", "json"]) -> None:
    """Show what applies to a file or a directory without options, and where that is said."""
    from autotune_rewrite.rewriting.config import shown

    if not Path(path).exists():
        raise Fault(f"{path}: no such file or directory")
    with as_fault():
        found = shown(Path(path).absolute())
    if form == "json":
        click.echo(json.dumps({each.key: {"value": each.value, "from": each.source} for each in found}, indent=2))
        return
    for each in found:
        click.echo(f"{each.key} = {json.dumps(each.value)}  # {each.source}")
