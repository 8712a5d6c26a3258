"""``torchfast review``: what could be faster of what a branch changed, for its reviewers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autotune_rewrite.cli.completing import files
from autotune_rewrite.cli.faults import Fault, as_fault
from autotune_rewrite.cli.findings import STDIN, say
from autotune_rewrite.cli.helping import Explained
from autotune_rewrite.cli.selection import Chosen, with_selection
from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from autotune_rewrite.report.review import Review
    from autotune_rewrite.rewriting.results import Rewrite
    from autotune_rewrite.verify.judgement import Judgement

FORMATS = ("markdown", "github", "gitlab", "html")


EXAMPLES = (
    ("torchfast review", "what this branch changed, as a comment"),
    ("torchfast review src/ --base v1.2", "since another revision"),
    ("torchfast review --format github", "as a review with suggestions"),
    ("torchfast review --verified runs.json", "with what was measured"),
)


@click.command(cls=Explained, examples=EXAMPLES)
@with_selection
@click.option(
    "--diff-base",
    "--base",
    "base",
    metavar="REV",
    help="Since when lines count as changed.  [default: the remote's default branch]",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="markdown", show_default=True)
@click.option("--output-file", metavar="FILE", shell_complete=files, help="Write the review to this file.")
@click.option(
    "--verified",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Say what was measured: what `verify --format json` printed, or the directory of `--records`.",
)
def review(  # noqa: PLR0913 - the command line has these options
    *,
    paths: tuple[str, ...],
    base: str | None,
    form: str,
    output_file: str | None,
    verified: Path | None,
    quiet: bool,
    chosen: Chosen,
) -> None:
    """Say what of the lines that a branch changed could be faster, for a pull request."""
    from autotune_rewrite.report.review import Review as Found

    if STDIN in paths:
        raise Fault("review needs files, not standard input")
    judgement = None if verified is None else _judgement(verified)
    revision = _revision(paths[0], base)
    with as_fault():  # a path may lie in no repository, or in another one
        rewrites, errors, not_utf8 = _found(paths, chosen, revision)
    for each in errors:
        say(str(each))
    if not quiet:
        _say_what_is_not_committed(rewrites, form)
    text = _rendered(Found(rewrites, revision, judgement, errors, not_utf8=not_utf8), form)
    if output_file is None:
        click.echo(text)
    else:
        from autotune_rewrite.project.files import write

        with as_fault():
            write(output_file, f"{text}\n".encode(errors="surrogateescape"))
    sys.exit(2 if errors else 0)


def _revision(path: str, base: str | None) -> str:
    """Since when the branch was changed."""
    from autotune_rewrite.project import git

    with as_fault():
        revision = git.default_revision(path) if base is None else base
        git.commits(path, revision)
    return revision


def _judgement(path: Path) -> Judgement:
    from autotune_rewrite.report.verified import load
    from autotune_rewrite.verify.plan import VerifyError

    try:
        with as_fault():
            return load(path)
    except VerifyError as error:
        raise Fault(str(error)) from error


def _found(
    paths: tuple[str, ...], chosen: Chosen, revision: str
) -> tuple[list[Rewrite], list[FileError], frozenset[str]]:
    """What becomes of the lines that were changed, what is wrong with files, and which are not in UTF-8."""
    from autotune_rewrite.checking.touched import Touched, only_touched
    from autotune_rewrite.rewriting import batch

    rewrites, errors, not_utf8 = [], [], set()
    for result in batch.run_in_units(paths, chosen.options(), Touched(revision)):
        if isinstance(result, FileError):
            errors.append(result)
        else:
            rewrites.append(only_touched(result.rewrite, revision))
            if result.source.text.encode() != result.source.data:
                not_utf8.add(result.source.path)
    return rewrites, errors, frozenset(not_utf8)


def _say_what_is_not_committed(rewrites: list[Rewrite], form: str) -> None:
    """Comments are on lines of what was pushed."""
    from autotune_rewrite.project.git import has_uncommitted_changes

    if form in ("github", "gitlab"):
        changed = [each.path for each in rewrites if each.sites and has_uncommitted_changes(each.path)]
        if changed:
            say(f"note: {', '.join(changed)}: not as committed, and comments may be on other lines there")


def _rendered(review: Review, form: str) -> str:
    from autotune_rewrite.report import review_comments
    from autotune_rewrite.report.review import as_markdown

    if form == "github":
        return review_comments.as_github(review)
    if form == "gitlab":
        return review_comments.as_gitlab(review)
    if form == "html":
        from autotune_rewrite.report.review_page import as_html

        return as_html(review)
    return as_markdown(review)
