"""``torchfast facts``: what is understood of a script."""

from __future__ import annotations

import click

from autotune_rewrite.cli.faults import Fault, not_empty
from autotune_rewrite.errors import FileError


@click.command()
@click.argument("script", callback=not_empty)
def facts(script: str) -> None:
    """Print what is understood of a script, line by line."""
    from autotune_rewrite.rewriting import batch

    try:
        for place, fact in batch.facts(script):
            click.echo(f"{place}: {fact}")
    except FileError as error:
        raise Fault(str(error)) from error
