"""``torchfast verify``: which two scripts, or which records, are judged."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autotune_rewrite.cli.completing import files
from autotune_rewrite.cli.faults import Fault, not_empty
from autotune_rewrite.cli.running import (
    Running,
    ScriptCommand,
    VerdictFormat,
    Verifier,
    judgement_as_json,
    script_file,
    with_running,
)
from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from autotune_rewrite.verify import Plan

EXAMPLES = (
    ("torchfast verify a.py b.py", "run both in turn, for five minutes"),
    ("torchfast verify a.py b.py -- --epochs 2", "with arguments of the scripts"),
    ("torchfast verify a.py b.py --device simulated", "does the CUDA branch run? No GPU is needed"),
    ("torchfast verify --base main train.py", "a git revision against the working tree"),
    ("torchfast verify a.py b.py --records runs", "keep what the runs left behind"),
    ("torchfast verify --from runs --margin 0.01", "judge that again"),
)


@click.command(cls=ScriptCommand, examples=EXAMPLES)
@click.argument("scripts", nargs=-1, metavar="ORIGINAL REWRITTEN", callback=not_empty, shell_complete=files)
@click.option(
    "--promise",
    type=click.Choice(["bitwise", "random", "precision"]),
    help="How far the results may differ.  [default: precision]",
)
@with_running
@click.option(
    "--base",
    metavar="REV",
    help="Run the script as it was at this git revision, with its project, against that of the working tree.",
)
@click.option(
    "--from", "saved", type=click.Path(path_type=Path), metavar="DIR", help="Run nothing: judge these records again."
)
@click.option("--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
def verify(  # noqa: PLR0913 - the command line has these options
    *,
    scripts: tuple[str, ...],
    promise: str | None,
    base: str | None,
    saved: Path | None,
    form: VerdictFormat,
    running: Running,
) -> None:
    """Run two scripts in pairs of fresh processes: is the second faster, and does it compute the same?

    With --base, one script is enough: it is compared with what it was, as the whole project was, at that revision.
    """
    from autotune_rewrite.verify import VerifyError

    if promise is not None:
        running = replace(running, choices={**running.choices, "promise": promise})
    verifier = Verifier(running)
    try:
        if saved is not None:
            if base is not None:
                raise Fault("--base cannot be followed with --from: nothing is run")
            judgement = verifier.again(scripts, saved)
        else:
            with _plan(scripts, base, running) as plan:
                judgement, _ = verifier(plan, probe=False)
        verifier.show(judgement, form)
    except (VerifyError, FileError) as error:
        raise Fault(str(error)) from error
    if form == "json":
        click.echo(json.dumps(judgement_as_json(judgement), indent=2))
    sys.exit(judgement.exit_code)


def _plan(scripts: tuple[str, ...], base: str | None, running: Running) -> AbstractContextManager[Plan]:
    """What is to be compared."""
    if base is not None and len(scripts) == 1:
        scripts = scripts * 2
    if len(scripts) != 2:  # noqa: PLR2004 - an original and a rewritten one
        raise Fault(f"verify takes two scripts, or one with --base, or --from with records, but got {len(scripts)}")
    before, after = (script_file(each, is_module=bool(running.choices.get("module"))) for each in scripts)
    return nullcontext(running.plan(before, after)) if base is None else running.plan_since(base, before, after)
