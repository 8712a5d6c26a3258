"""The ``torchfast`` command, with one module for each of its commands: the only package that prints and exits.

A command is imported when it is called, and everything but click where it is needed: the time to start is a promise.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module

import click

from autotune_rewrite import __version__
from autotune_rewrite.cli.helping import WIDTH

COMMANDS = {
    "rewrite": "rewrite",
    "check": "check",
    "review": "review",
    "undo": "undo",
    "verify": "verify",
    "tune": "tune",
    "profile": "profile",
    "rules": "rules",
    "explain": "rules",
    "facts": "facts",
    "config": "config",
    "clean": "clean",
    "completion": "completing",
    "server": "server",
    "mcp": "mcp",
}
"""The module that holds each command."""

GROUPS = {
    "Change scripts": ("rewrite", "check", "review", "undo"),
    "Run scripts": ("verify", "tune", "profile"),
    "Ask": ("rules", "explain", "facts", "config"),
    "Set up": ("completion", "clean"),
    "Serve programs": ("server", "mcp"),
}
"""The commands, as the help shows them."""


class Commands(click.Group):
    """Commands that are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's interface
        """The command of this name, if there is one."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{COMMANDS[cmd_name]}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant, and what is left for it.

        Raises:
            Fault: There is none of this name.
        """
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            from autotune_rewrite.cli.faults import Fault

            raise Fault(_no_command(args[0]))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Carry out a command; one that is ended by Ctrl-C has no answer, and so not the exit code of one."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\ninterrupted", err=True)
            ctx.exit(130)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does, in groups."""
        for title, names in GROUPS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(name, each.get_short_help_str(WIDTH)) for name, each in commands if each])


def _no_command(name: str) -> str:
    from pathlib import Path

    from autotune_rewrite.suggestions import unknown

    if name.endswith((".py", ".ipynb")) or Path(name).exists():
        return f"{name} is no command: `torchfast rewrite {name}` shows what would change"
    return unknown("command", name, COMMANDS)


def main() -> None:
    """Entry point of ``torchfast`` and ``python -m autotune_rewrite``."""
    cli(prog_name="torchfast")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH})
@click.version_option(__version__, prog_name="torchfast")
def cli() -> None:
    """Rewrite PyTorch training scripts so that they run faster, and run both versions to prove it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A script's text or name may hold what the terminal's encoding does not.
        sys.stdout.reconfigure(errors="backslashreplace")
