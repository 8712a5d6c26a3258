"""What the user asked for and cannot be done."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Fault(click.ClickException):
    """What the user asked for cannot be done; said in one line."""

    exit_code = 2


@contextmanager
def as_fault() -> Iterator[None]:
    """Says what is wrong with a file as what cannot be done.

    Raises:
        Fault: in the place of a ``FileError``.
    """
    try:
        yield
    except FileError as error:
        raise Fault(str(error)) from error


def not_empty(_: click.Context, __: click.Parameter, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """Refuse an empty path, which a shell makes of a variable that is not set: it would be the current directory."""
    if "" in (value if isinstance(value, tuple) else (value,)):
        raise Fault("a path is empty: name a file or a directory ('.' is the current one)")
    return value
