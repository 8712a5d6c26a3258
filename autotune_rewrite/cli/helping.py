"""What ``--help`` says of a command: examples first, then its options, by what they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS: dict[str, tuple[str, ...]] = {
    "What is written": ("apply", "interactive", "patch", "output", "fix", "add-ignores"),
    "What is said": ("diff", "format", "output-file", "statistics", "profile", "verified", "gpu-hourly", "quiet"),
    "Which rules": ("level", "select", "ignore", "target-torch"),
    "What rules write": ("workers", "prefetch", "amp", "compile-mode", "no-main-guard"),
    "Which files": ("exclude", "extend-exclude", "force-exclude"),
    "Which findings": ("diff-base", "baseline", "write-baseline"),
    "What fails": ("fail-on", "exit-zero", "evidence"),
    "Runs": (
        "verify",
        "unmeasured",
        "base",
        "budget",
        "values",
        "fresh",
        "pairs",
        "time-budget",
        "warm-up",
        "iterations",
        "full",
        "timeout",
        "seed",
    ),
    "Where scripts run": (
        "device",
        "capability",
        "threads",
        "executor",
        "address",
        "gpus",
        "accelerator-type",
        "module",
        "launcher",
        "keep",
    ),
    "How results are judged": ("promise", "margin", "metric", "higher"),
    "What is kept": ("records", "from", "tensorboard", "markdown", "html", "trace", "memory"),
    "Others": ("no-cache", "help"),
}
"""Options, by their long names."""

WIDTH = 100
"""Of help, at most: the terminal may be narrower."""

_EXAMPLE = 46
"""The widest command line beside which there is room to say what it does; below a wider one."""


class Explained(click.Command):
    """A command whose help has examples, and its options in groups."""

    def __init__(self, *given: Any, examples: Sequence[tuple[str, str]] = (), **named: Any) -> None:  # noqa: ANN401 - click's interface
        """As click does; an example is what to type, and what it does."""
        super().__init__(*given, **named)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, and each group that has options of this command."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl(self.examples, col_max=_EXAMPLE)
        of_group: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            if isinstance(each, click.Option) and (written := each.get_help_record(ctx)) is not None:
                of_group.setdefault(group(each), []).append(written)
        for title in GROUPS:
            if title in of_group:
                with formatter.section(title):
                    formatter.write_dl(of_group[title])


def group(option: click.Option) -> str:
    """The group of an option; the last one where none names it."""
    names = {name.removeprefix("--") for name in option.opts}
    return next((title for title, options in GROUPS.items() if names & {*options}), list(GROUPS)[-1])
