"""What a shell offers at the tab key, and ``torchfast completion``, which prints what the shell needs for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from autotune_rewrite.cli.helping import Explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

VARIABLE = "_TORCHFAST_COMPLETE"
"""Set while a shell asks: click's name for it."""

LEVELS = ("bitwise", "random", "precision")

EXAMPLES = (
    ('eval "$(torchfast completion bash)"', "in ~/.bashrc"),
    ('eval "$(torchfast completion zsh)"', "in ~/.zshrc, below compinit"),
    ("torchfast completion fish | source", "in ~/.config/fish/config.fish"),
)


@click.command(cls=Explained, examples=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> None:
    """Print what a shell needs to complete commands, options, rules and levels."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None  # noqa: S101 - the choice above has those that click knows
    click.echo(made(context.find_root().command, {}, "torchfast", VARIABLE).source())


def one_of(names: Iterable[str]) -> Complete:
    """Offers these names."""
    known = tuple(names)
    return lambda _, __, text: [CompletionItem(name) for name in known if name.startswith(text)]


def rules(_: click.Context, __: click.Parameter, text: str) -> list[CompletionItem]:
    """Offers the rules that are not among those before the last comma."""
    from codemods.catalogue import RULES

    before, comma, last = text.rpartition(",")
    there = before.split(",")
    names = [name for name in ("DEFAULT", "ALL", *RULES) if name.startswith(last) and name not in there]
    return [CompletionItem(f"{before}{comma}{name}") for name in names]


def one_rule(_: click.Context, __: click.Parameter, text: str) -> list[CompletionItem]:
    """Offers the rules, with what each does."""
    from autotune_rewrite.report.pages import summary
    from codemods.catalogue import RULES

    return [CompletionItem(name, help=summary(rule)) for name, rule in RULES.items() if name.startswith(text)]


def files(_: click.Context, __: click.Parameter, text: str) -> list[CompletionItem]:
    """Leaves it to the shell to offer files."""
    return [CompletionItem(text, type="file")]
