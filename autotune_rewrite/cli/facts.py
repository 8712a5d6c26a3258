"""``torchfast facts``: what is understood of a script."""

from __future__ import annotations

import click

from autotune_rewrite.cli.completing import files
from autotune_rewrite.cli.faults import Fault, not_empty
from autotune_rewrite.cli.findings import say
from autotune_rewrite.errors import FileError


@click.command()
@click.argument("script", callback=not_empty, shell_complete=files)
def facts(script: str) -> None:
    """Print what is understood of a script, line by line."""
    from autotune_rewrite.rewriting import batch

    try:
        found = list(batch.facts(script))
        for place, fact in found:
            click.echo(f"{place}: {fact}")
        others = [] if found else batch.imported(script)
    except FileError as error:
        raise Fault(str(error)) from error
    if not found:
        where = f"; name one of the modules that it imports: {', '.join(others)}" if others else ""
        say(f"note: {script} has nothing of its own that a rule asks about{where}")
