"""``torchfast server``: what editors start."""

from __future__ import annotations

import click

from autotune_rewrite.cli.faults import Fault


@click.command()
@click.option("--stdio", is_flag=True, help="Speak over standard input and output, as is done anyway.")
def server(*, stdio: bool) -> None:  # noqa: ARG001 - some editors give it to each server
    """Tell an editor what could be faster while you type, over the Language Server Protocol."""
    try:
        from autotune_rewrite.server.editor import language_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"lsprotocol", "pygls"}:
            raise
        raise Fault("the server needs pygls: pip install 'autotune-rewrite[server]'") from error
    language_server().start_io()
