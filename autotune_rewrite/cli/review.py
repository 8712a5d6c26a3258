"""``torchfast review``: what could be faster of what a branch changed, for its reviewers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
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
    from autotune_rewrite.project.git import Commits
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
    from autotune_rewrite.report.review import Review

    if STDIN in paths:
        raise Fault("review needs files, not standard input")
    judgement = None if verified is None else _judgement(verified)
    revision, commits = _compared(paths, base)
    with as_fault():
        found = _found(paths, chosen, revision)
    for each in found.errors:
        say(str(each))
    if not quiet:
        _say_what_is_passed_over(found, revision)
        _say_what_is_not_committed(found.rewrites, form)
    text = _rendered(
        Review(found.rewrites, revision, commits, judgement, found.errors, not_utf8=frozenset(found.not_utf8)), form
    )
    if output_file is None:
        click.echo(text)
    else:
        from autotune_rewrite.project.files import write

        with as_fault():
            write(output_file, f"{text}\n".encode(errors="surrogateescape"))
    sys.exit(2 if found.errors else 0)


def _compared(paths: tuple[str, ...], base: str | None) -> tuple[str, Commits]:
    """Since when the branch was changed, and the commits that this is between."""
    from autotune_rewrite.project import git

    first = paths[0]
    with as_fault():
        revision = git.default_revision(first) if base is None else base
        commits = git.commits(first, revision)
    other = next((each for each in paths if git.root(each) != git.root(first)), None)
    if other is not None:
        raise Fault(f"{first} and {other} are not in one repository, and a review is of one")
    return revision, commits


def _judgement(path: Path) -> Judgement:
    from autotune_rewrite.report.verified import load
    from autotune_rewrite.verify.plan import VerifyError

    try:
        with as_fault():
            return load(path)
    except VerifyError as error:
        raise Fault(str(error)) from error


@dataclass(frozen=True, slots=True)
class Found:
    """What there is below some paths."""

    rewrites: list[Rewrite] = field(default_factory=list)
    """What becomes of the lines that were changed."""
    errors: list[FileError] = field(default_factory=list)
    """What is wrong with files that were changed."""
    passed: list[FileError] = field(default_factory=list)
    """What is wrong that the branch is not to blame for."""
    not_utf8: set[str] = field(default_factory=set)


def _found(paths: tuple[str, ...], chosen: Chosen, revision: str) -> Found:
    from autotune_rewrite.checking.touched import Touched, only_touched
    from autotune_rewrite.project import git
    from autotune_rewrite.rewriting import batch

    found = Found()
    touched = Touched(revision, git.root(paths[0]))
    for result in batch.run_in_units(paths, chosen.options(), touched):
        if isinstance(result, FileError):
            (found.errors if touched.is_to_blame(result) else found.passed).append(result)
        elif touched.may_have(result.source.path):
            found.rewrites.append(only_touched(result.rewrite, revision))
            if result.source.text.encode() != result.source.data:
                found.not_utf8.add(result.source.path)
    return found


def _say_what_is_passed_over(found: Found, revision: str) -> None:
    """What is wrong with files as they were is no matter of the branch's, and yet nothing is known of them."""
    as_before = [each.path for each in found.passed if Path(each.path).is_file()]
    if as_before:
        say(f"note: not changed since {revision}, and cannot be read: {', '.join(as_before)}")
    for each in found.passed:
        if each.path not in as_before:
            say(f"note: {each}")


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
