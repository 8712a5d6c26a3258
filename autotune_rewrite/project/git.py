"""What git says of files: which have changes that are not committed, and which lines were changed since when."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Mapping


def has_uncommitted_changes(path: str) -> bool:
    """Whether a file differs from what git has of it; False where git is not there, or does not know."""
    target = Path(os.path.realpath(path))
    said = _git(target.parent, "status", "--porcelain", "--", f"./{target.name}")
    return bool(said)


def changed_lines(path: str, revision: str) -> list[range] | None:
    """The lines of a file, from 1, that were changed since a revision; None where git had no such file then.

    What counts is what was done since the line of work here left that of the revision.

    Raises:
        FileError: when git is not there, does not know the revision, or has no such file.
    """
    target = Path(os.path.realpath(path))
    base = _base(target.parent, revision)
    if base is None:
        raise FileError(path, f"git knows no revision {revision!r} there")
    name = f"./{target.name}"
    if not _git(target.parent, "ls-tree", base, "--", name):
        return None
    # What users configure about diffs is for people.
    plain = ("--no-color", "--no-ext-diff", "--no-textconv", "--unified=0")
    said = _git(target.parent, "diff", *plain, base, "--", name)
    if said is None:
        raise FileError(path, f"git cannot say what was changed since {revision}")
    found = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", said, re.MULTILINE)
    return [_lines(int(first), int(number or 1)) for first, number in found]


@cache
def _base(directory: Path, revision: str) -> str | None:
    """The commit where the line of work in a directory left that of a revision; the revision where they never met."""
    commit = _git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit is None:
        return None
    return (_git(directory, "merge-base", commit.strip(), "HEAD") or commit).strip()


def _lines(first: int, number: int) -> range:
    """The new lines of a hunk; where it only takes lines away, those beside the gap."""
    return range(first, first + number) if number else range(first, first + 2)


def _git(directory: Path, *arguments: str) -> str | None:
    """What git says in a directory; None where it fails."""
    try:
        return said(directory, *arguments)
    except GitError:
        return None


class GitError(Exception):
    """Why git does not do what it was asked for, in a line."""


def said(directory: Path, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None) -> str:
    """What git says in a directory; it changes nothing there, not even what its index knows of files.

    Args:
        directory: Where it is asked.
        arguments: Its command.
        stdin: What it reads.
        environment: Variables that it gets besides.

    Raises:
        GitError: It is not there, or refuses.
    """
    # A hook's git names its own index and repository in the environment, which hold there and nowhere else.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        ended = subprocess.run(  # noqa: S603 - fixed words and a path
            ["git", "-C", str(directory), *arguments],  # noqa: S607 - the user's git
            env={**own, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **(environment or {})},
            input=stdin,
            capture_output=True,
            check=True,
            text=True,
            errors="surrogateescape",
        )
    except OSError as error:
        message = "git is not installed" if shutil.which("git") is None else f"git cannot be run: {error.strerror}"
        raise GitError(message) from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"git {arguments[0]} failed"]
        raise GitError(lines[0].removeprefix("fatal: ").removeprefix("error: ")) from error
    return ended.stdout
