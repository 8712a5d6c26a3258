"""``torchfast clean``: what is no longer remembered."""

from __future__ import annotations

import click

from autotune_rewrite.cli.faults import Fault


@click.command()
def clean() -> None:
    """Remove what `check` remembers of files that did not change."""
    from autotune_rewrite.checking.cache import Cache

    cache = Cache()
    try:
        size = cache.clean()
    except OSError as error:
        raise Fault(f"{cache.place}: not removed: {error.strerror}") from error
    click.echo(f"{size / 2**20:.1f} MiB removed" if size else "nothing to remove")
