"""``torchfast rules`` and ``torchfast explain``: which rules there are, and what each one does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

import click

from autotune_rewrite.cli.completing import one_rule
from autotune_rewrite.cli.faults import Fault

if TYPE_CHECKING:
    from codemods.codemod import Codemod


@click.command()
@click.option("--format", "form", type=click.Choice(["text", "markdown"]), default="text", show_default=True)
def rules(form: Literal["text", "markdown"]) -> None:
    """List the rules."""
    from autotune_rewrite.report import pages
    from codemods.catalogue import RULES

    if form == "markdown":
        click.echo(pages.markdown_table(RULES.values()))
    else:
        for line in pages.text_table(RULES.values()):
            click.echo(line)


@click.command()
@click.argument("rule", shell_complete=one_rule)
def explain(rule: str) -> None:
    """Print the page of a rule."""
    from autotune_rewrite.report.pages import page

    text = page(_rule(rule))
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        click.echo(text)


def _rule(name: str) -> type[Codemod]:
    from autotune_rewrite.suggestions import unknown
    from codemods.catalogue import RULES

    if name not in RULES:
        raise Fault(unknown("rule", name, RULES))
    return RULES[name]
