"""The ``torchfast`` command, with one module for each of its commands: the only package that prints and exits.

A command is imported when it is called, and everything but click where it is needed: the time to start is a promise.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module

import click

from autotune_rewrite import __version__

COMMANDS = {
    "check": "check",
    "clean": "clean",
    "config": "config",
    "explain": "rules",
    "facts": "facts",
    "profile": "profile",
    "rewrite": "rewrite",
    "rules": "rules",
    "undo": "undo",
    "verify": "verify",
}
"""The module that holds each command."""


class Commands(click.Group):
    """Commands that are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        """The names of all commands, as the help lists them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's interface
        """The command of this name, if there is one."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{COMMANDS[cmd_name]}"), cmd_name)
        return command


def main() -> None:
    """Entry point of ``torchfast`` and ``python -m autotune_rewrite``."""
    cli(prog_name="torchfast")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="torchfast")
def cli() -> None:
    """Rewrite PyTorch training scripts so that they run faster, and run both versions to prove it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A script's text or name may hold what the terminal's encoding does not.
        sys.stdout.reconfigure(errors="backslashreplace")
