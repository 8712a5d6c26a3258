"""The options that choose rules, which ``rewrite`` and ``check`` share."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import click

from autotune_rewrite.cli.completing import LEVELS, files, one_of, rules
from autotune_rewrite.cli.faults import Fault, not_empty

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune_rewrite.rewriting.config import Options


def _names(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...] | None:
    """``--select a,b --select c`` as one tuple; None where the option was not given."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip()) if values else None


def _paths(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The paths given, or the current directory."""
    not_empty(context, parameter, values)
    return values or (".",)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen about rules, as it was written: to look at it, all rules are needed."""

    select: tuple[str, ...] | None
    ignore: tuple[str, ...] | None
    level: str | None
    target_torch: str | None
    workers: int | None
    prefetch: int | None
    amp: str | None
    compile_mode: str | None
    main_guard: bool | None
    exclude: tuple[str, ...] | None
    extend_exclude: tuple[str, ...] | None
    force_exclude: bool | None
    fail_on: str | None = None

    def options(self) -> Options:
        """The same, looked at.

        Raises:
            Fault: when something in it is not known.
        """
        from autotune_rewrite.rewriting.config import ConfigError, Options

        try:
            return Options(*(getattr(self, each.name) for each in fields(self)))
        except ConfigError as error:
            raise Fault(str(error)) from error


def with_selection(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments that ``rewrite`` and ``check`` share; the choice of rules reaches them as ``chosen``."""

    @functools.wraps(command)
    def chosen(  # noqa: PLR0913 - the command line has these options
        *,
        select: tuple[str, ...] | None,
        ignore: tuple[str, ...] | None,
        level: str | None,
        target_torch: str | None,
        workers: int | None,
        prefetch: int | None,
        amp: str | None,
        compile_mode: str | None,
        no_main_guard: bool,
        exclude: tuple[str, ...] | None,
        extend_exclude: tuple[str, ...] | None,
        force_exclude: bool,
        **others: object,
    ) -> None:
        main_guard = False if no_main_guard else None
        which = Chosen(
            select,
            ignore,
            level,
            target_torch,
            workers,
            prefetch,
            amp,
            compile_mode,
            main_guard,
            exclude,
            extend_exclude,
            force_exclude or None,
        )
        command(chosen=which, **others)

    selection = (
        click.argument("paths", nargs=-1, metavar="[PATH...]", callback=_paths, shell_complete=files),
        click.option(
            "--level",
            metavar="LEVEL",
            shell_complete=one_of(LEVELS),
            help="The farthest that results may differ: bitwise, random or precision (default).",
        ),
        click.option(
            "--select",
            multiple=True,
            callback=_names,
            metavar="RULE,...",
            shell_complete=rules,
            help="Run these rules only; DEFAULT and ALL are groups.",
        ),
        click.option(
            "--ignore",
            multiple=True,
            callback=_names,
            metavar="RULE,...",
            shell_complete=rules,
            help="Do not run these rules.",
        ),
        click.option("--target-torch", metavar="VERSION", help="The oldest torch that the scripts run on."),
        click.option("--workers", type=int, metavar="N", help="Worker processes of a loader.  [default: 4]"),
        click.option("--prefetch", type=int, metavar="N", help="Batches that each worker has ahead.  [default: 2]"),
        click.option(
            "--amp",
            metavar="FORM",
            shell_complete=one_of(("auto", "bf16", "fp16")),
            help="Form of mixed precision: auto (default), bf16 or fp16.",
        ),
        click.option(
            "--compile-mode",
            metavar="MODE",
            shell_complete=one_of(("default", "reduce-overhead")),
            help="Mode of torch.compile: default, or reduce-overhead (CUDA graphs).",
        ),
        click.option("--no-main-guard", is_flag=True, help="Put no code under `if __name__ == '__main__':`."),
        click.option(
            "--exclude",
            multiple=True,
            callback=_names,
            metavar="PATTERN,...",
            help="Leave these files and directories out, in the place of those that are configured.",
        ),
        click.option(
            "--extend-exclude", multiple=True, callback=_names, metavar="PATTERN,...", help="Leave these out, too."
        ),
        click.option("--force-exclude", is_flag=True, help="Leave them out even where they are named, as by a hook."),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing but what was asked for."),
    )
    for decorate in reversed(selection):
        chosen = decorate(chosen)
    return chosen
