"""``torchfast verify``: which two scripts, or which records, are judged."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import click

from autotune_rewrite.cli.completing import files
from autotune_rewrite.cli.faults import Fault, not_empty
from autotune_rewrite.cli.running import (
    Running,
    ScriptCommand,
    VerdictFormat,
    Verifier,
    judgement_as_json,
    module_file,
    with_running,
)
from autotune_rewrite.errors import FileError

EXAMPLES = (
    ("torchfast verify a.py b.py", "run both in turn, for five minutes"),
    ("torchfast verify a.py b.py -- --epochs 2", "with arguments of the scripts"),
    ("torchfast verify a.py b.py --device simulated", "does the CUDA branch run? No GPU is needed"),
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
    "--from", "saved", type=click.Path(path_type=Path), metavar="DIR", help="Run nothing: judge these records again."
)
@click.option("--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
def verify(
    *, scripts: tuple[str, ...], promise: str | None, saved: Path | None, form: VerdictFormat, running: Running
) -> None:
    """Run two scripts in pairs of fresh processes: is the second faster, and does it compute the same?"""
    from autotune_rewrite.verify import VerifyError

    if promise is not None:
        running = replace(running, choices={**running.choices, "promise": promise})
    verifier = Verifier(running)
    try:
        if saved is not None:
            judgement = verifier.again(scripts, saved)
        else:
            if len(scripts) != 2:  # noqa: PLR2004 - an original and a rewritten one
                raise Fault(f"verify takes two scripts, or --from with records, but got {len(scripts)}")
            files = [module_file(script) if running.choices.get("module") else Path(script) for script in scripts]
            judgement, _ = verifier(running.plan(*files), probe=False)
        verifier.show(judgement, form)
    except (VerifyError, FileError) as error:
        raise Fault(str(error)) from error
    if form == "json":
        click.echo(json.dumps(judgement_as_json(judgement), indent=2))
    sys.exit(judgement.exit_code)
