"""What the user asked for and cannot be done."""

from __future__ import annotations

import click


class Fault(click.ClickException):
    """What the user asked for cannot be done; said in one line."""

    exit_code = 2


def not_empty(_: click.Context, __: click.Parameter, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """Refuse an empty path, which a shell makes of a variable that is not set: it would be the current directory."""
    if "" in (value if isinstance(value, tuple) else (value,)):
        raise Fault("a path is empty: name a file or a directory ('.' is the current one)")
    return value
