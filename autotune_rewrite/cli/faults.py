"""What the user asked for and cannot be done."""

from __future__ import annotations

import click


class Fault(click.ClickException):
    """What the user asked for cannot be done; said in one line."""

    exit_code = 2
