"""What git says of files: which have changes that are not committed, and which lines were changed since when."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONTEXT = 3
"""Lines around a change that the pages of a pull request show, and that can be commented on."""


@dataclass(frozen=True, slots=True)
class Commits:
    """Which commits a change lies between."""

    base: str
    """Where the line of work here left that of the revision."""
    revision: str
    """What the revision names."""
    head: str
    """What is checked out."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of a file that a diff shows: one that was added or, near such lines, one that stayed."""

    hunk: int
    before: int | None
    """Its number before the change; None of one that was added."""


def has_uncommitted_changes(path: str) -> bool:
    """Whether a file differs from what git has of it; False where git is not there, or does not know."""
    target = Path(os.path.realpath(path))
    said = _git(target.parent, "status", "--porcelain", "--", f"./{target.name}")
    return bool(said)


def changed_lines(path: str, revision: str) -> list[range] | None:
    """The lines of a file, from 1, that were changed since a revision; None where git had no such file then.

    What counts is what was done since the line of work here left that of the revision. A file that was renamed, as git
    finds by what is in it, is the file that it was.

    Raises:
        FileError: when git is not there, does not know the revision, or has no such file.
    """
    said = _diff(path, revision, "--unified=0", "--text")  # lines are lines, though none be shown of them
    if said is None:
        return None
    found = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", said, re.MULTILINE)
    return [_lines(int(first), int(number or 1)) for first, number in found]


def shown_lines(path: str, revision: str) -> dict[int, ShownLine] | None:
    """The lines of a file, from 1, that a diff since a revision shows; None where git had no such file then.

    Raises:
        FileError: as ``changed_lines``.
    """
    said = _diff(path, revision, f"--unified={_CONTEXT}")
    if said is None:
        return None
    shown: dict[int, ShownLine] = {}
    hunk = before = after = 0
    for line in said.split("\n"):
        head = re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@", line)
        if head is not None:
            hunk, before, after = hunk + 1, int(head[1]), int(head[2])
        elif hunk and line[:1] in {" ", "+"}:
            is_new = line[0] == "+"
            shown[after] = ShownLine(hunk, None if is_new else before)
            after += 1
            before += not is_new
        elif hunk and line[:1] == "-":
            before += 1
    return shown


def default_revision(path: str) -> str:
    """The default branch of where the branch that is checked out comes from, such as ``origin/main``.

    Args:
        path: A file or a directory of the repository.

    Raises:
        FileError: when git does not know it.
    """
    directory = _directory(path)
    remotes = (_git(directory, "remote") or "").split()
    branch = (_git(directory, "symbolic-ref", "--quiet", "--short", "HEAD") or "").strip()
    own = (_git(directory, "config", f"branch.{branch}.remote") or "").strip()
    likely = [each for each in (own, "origin", *remotes[:1]) if each in remotes]
    if not likely:
        raise FileError(path, "git knows no remote there, and so no branch to compare with: --base REV names one")
    remote = likely[0]
    found = _git(directory, "symbolic-ref", "--quiet", "--short", f"refs/remotes/{remote}/HEAD")
    if not found:
        how = f"--base REV names one, or `git remote set-head {remote} --auto` asks {remote}"
        raise FileError(path, f"git does not know the default branch of {remote}: {how}")
    return found.strip()


def commits(path: str, revision: str) -> Commits:
    """The commits that a change since a revision lies between.

    Raises:
        FileError: when git is not there, does not know the revision, or knows no commit that both come from.
    """
    base, directory = _known_base(path, revision), _directory(path)
    problem = why_apart(path, revision)
    if problem:
        raise FileError(path, problem)
    named = _git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return Commits(base, (named or base).strip(), (_git(directory, "rev-parse", "HEAD") or "").strip())


def why_apart(path: str, revision: str) -> str:
    """Why git knows no commit that a revision and what is checked out come from; empty where it knows one.

    Args:
        path: A file or a directory of the repository.
        revision: One that git knows.
    """
    return _why_apart(_directory(path), revision)


@cache
def _why_apart(directory: Path, revision: str) -> str:
    if _git(directory, "merge-base", revision, "HEAD"):
        return ""
    apart = f"git knows no commit that HEAD and {revision} have in common"
    is_shallow = (_git(directory, "rev-parse", "--is-shallow-repository") or "").strip() == "true"
    cure = "this clone is shallow (`git fetch --unshallow`, or `fetch-depth: 0` in a workflow, brings the history)"
    return f"{apart}: {cure if is_shallow else 'their histories are separate'}"


def root(path: str) -> Path | None:
    """The root of the repository that a file or a directory lies in; None where there is none."""
    found = _repository(_directory(path))
    return None if found is None else found[0]


def was_there(path: str, revision: str) -> bool:
    """Whether git had a file or a directory before what was done since a revision.

    Raises:
        FileError: when git is not there, or does not know the revision.
    """
    return _name_before(path, _known_base(path, revision)) is not None


def path_in_repository(path: str) -> str:
    """A file as its repository names it; as it is given where there is none."""
    found = _in_repository(path)
    return path if found is None else found[1]


def path_before(path: str, revision: str) -> str:
    """A file as its repository named it before what was done since a revision; as now where git had no such file.

    Raises:
        FileError: when git is not there, or does not know the revision.
    """
    return _name_before(path, _known_base(path, revision)) or path_in_repository(path)


def _directory(path: str | Path) -> Path:
    """A directory, or that of a file; of what is not there, the nearest one above it that is."""
    target = Path(os.path.realpath(path))
    return next(each for each in (target, *target.parents) if each.is_dir())


def _diff(path: str, revision: str, *how: str) -> str | None:
    """What was changed in a file; None where git had no such file then."""
    base = _known_base(path, revision)
    before, found = _name_before(path, base), _in_repository(path)
    if before is None or found is None:
        return None
    top, name = found
    names = (f":(literal){each}" for each in dict.fromkeys((before, name)))
    said = _git(top, "diff", *_PLAIN, "--inter-hunk-context=0", *how, base, "--", *names)
    if said is None:
        raise FileError(path, f"git cannot say what was changed since {revision}")
    return said


_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames")
"""What users configure about diffs is for people."""


def _known_base(path: str, revision: str) -> str:
    base = _base(_directory(path), revision)
    if base is None:
        raise FileError(path, f"git knows no revision {revision!r} there")
    return base


def _name_before(path: str, base: str) -> str | None:
    """A file as its repository named it at a commit; None where that has no such file."""
    found = _in_repository(path)
    if found is None:
        return None
    top, name = found
    is_there = _git(top, "rev-parse", "--verify", "--quiet", f"{base}:{name}")
    return name if is_there else _renamed(top, base).get(name)


@cache
def _renamed(top: Path, base: str) -> dict[str, str]:
    """The files of a repository that were renamed since a commit, with their names at it."""
    said = _git(top, "diff", *_PLAIN, "--diff-filter=R", "--name-status", "-z", base) or ""
    words = said.split("\0")  # how alike they are, the old name and the new one, in turn
    return dict(zip(words[2::3], words[1::3], strict=False))


def _in_repository(path: str) -> tuple[Path, str] | None:
    """The root of a file's repository, and its path from there."""
    target = Path(os.path.realpath(path))
    directory = _directory(target.parent)
    found = _repository(directory)
    return None if found is None else (found[0], f"{found[1]}{target.relative_to(directory).as_posix()}")


@cache
def _repository(directory: Path) -> tuple[Path, str] | None:
    """The root of a directory's repository, and what names begin with that it has in this directory."""
    said = _git(directory, "rev-parse", "--show-toplevel", "--show-prefix")
    if not said:
        return None
    top, prefix, *_ = said.split("\n")
    return Path(top), prefix


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
