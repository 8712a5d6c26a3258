"""``torchfast mcp``: what coding assistants start."""

from __future__ import annotations

import click

from autotune_rewrite.cli.faults import Fault


@click.command()
def mcp() -> None:
    """Offer check, preview, explain and, if allowed, apply and verify to coding assistants, over MCP."""
    try:
        from autotune_rewrite.server.assistant import assistant_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"anyio", "mcp", "mcp_types", "pydantic"}:
            raise
        raise Fault("the server needs the MCP SDK: pip install 'autotune-rewrite[mcp]'") from error
    assistant_server().run("stdio")
