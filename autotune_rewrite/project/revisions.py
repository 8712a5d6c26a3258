"""A project as it was at a git revision: what lay there otherwise than now is written to a folder, and nowhere else.

Of what git tracks, that is all: scripts, the modules that they import, data. What git does not track, or ignores, has
no past: it counts as it is now. Neither the working tree nor the index is touched: git reads the revision into an index
of its own, and writes the files from there.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.errors import FileError
from autotune_rewrite.project.git import GitError, said

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.splitIndex=false")
"""Nothing of the user's is run, and nothing written to the repository."""
_DIFF = ("diff", "--raw", "-z", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--no-color")
_LINK, _SUBMODULE, _NOTHING = "120000", "160000", "000000"
_LINKS = 40
"""That are followed, one to the other, as the system does."""
_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\n")
_POINTER_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Revision:
    """A script and its project as they were at a commit."""

    name: str
    """Of the revision, as the user wrote it."""
    commit: str
    top: Path
    """The top directory of the repository, without links."""
    script: Path
    """Where the script lay, without links."""
    typed: Path
    """The same as the user would write it."""
    folder: Path
    """Holds what was otherwise, each file by its path below the top."""
    laid: tuple[str, ...]
    """These paths, with slashes."""
    gone: tuple[str, ...]
    """What is there now and was not then, likewise."""
    uncommitted: bool
    """Whether files that git tracks, or the script, have changes now that are not committed."""

    @property
    def text(self) -> Path:
        """The file with the script's text of then."""
        name = self.script.relative_to(self.top).as_posix()
        return self.folder / name if name in self.laid else self.script

    @property
    def paths(self) -> tuple[Path, ...]:
        """All that was otherwise, or was not there."""
        return tuple(self.top / name for name in (*self.laid, *self.gone))

    @property
    def shown(self) -> str:
        """The commit as people name it: ``1a2b3c4 (main~2)``."""
        return named(self.commit, self.name)


def named(commit: str, name: str) -> str:
    """A commit in short, and what the user called it."""
    short = commit[:7]
    return short if commit.startswith(name.lower()) else f"{short} ({name})"


def at_revision(script: Path, name: str, folder: Path, *, now: Path) -> Revision:
    """The project of a script as it was at a revision.

    Args:
        script: The script, as the user wrote it. One that was renamed since is found by its name of today.
        name: The revision, as git understands it.
        folder: An empty directory, for what was otherwise.
        now: The script that it is compared with, as the user wrote it.

    Raises:
        FileError: There is no such script or revision, or it cannot be told what lay there.
    """
    path = script.parent.resolve() / script.name
    try:
        return _at_revision(script, path, name, folder, now)
    except GitError as error:
        raise FileError(str(script), str(error)) from error


def _at_revision(script: Path, path: Path, name: str, folder: Path, now: Path) -> Revision:
    top = Path(said(_there(path.parent), "rev-parse", "--show-toplevel").rstrip("\n")).resolve()
    try:
        commit = said(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
    except GitError as error:
        raise FileError(str(script), f"git knows no revision {name!r} there") from error
    shown = named(commit, name)
    then = _script(top, commit, path.relative_to(top).as_posix(), renamed=script == now)
    if isinstance(then, _NoScript):
        raise FileError(str(script), f"{then.why} at {shown}{then.remedy}")
    laid, gone = _lay(top, commit, shown, folder, "")
    is_same = top / then == path
    if not laid and not gone and path == now.parent.resolve() / now.name and is_same:
        raise FileError(str(script), f"nothing that git tracks differs from {shown}: there is nothing to compare")
    typed = script if is_same else top / then if script.is_absolute() else Path(os.path.relpath(top / then))
    changed = said(top, *_PLAIN, "status", "--porcelain", "--untracked-files=no")
    of_script = said(_there(now.parent.resolve()), *_PLAIN, "status", "--porcelain", "--", f":(literal){now.resolve()}")
    return Revision(name, commit, top, top / then, typed, folder, laid, gone, bool(changed or of_script))


def _there(directory: Path) -> Path:
    """The directory, or the nearest one above it that is there now."""
    return next(each for each in (directory, *directory.parents) if each.is_dir())


# --- the script -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _NoScript:
    """Why there was no script."""

    why: str
    remedy: str = ""


def _script(top: Path, commit: str, path: str, *, renamed: bool) -> str | _NoScript:
    """Where the script lay: links are followed, and a new name of today, where that is wanted."""
    for _ in range(_LINKS):
        mode = _mode(top, commit, path)
        if mode == _LINK:
            leads = posixpath.normpath(
                posixpath.join(posixpath.dirname(path), said(top, "cat-file", "blob", f"{commit}:{path}"))
            )
            if leads.startswith(("/", "../")):
                return _NoScript("was a link that leads out of the repository")
            path, renamed = leads, False
        elif mode == "":
            before = _name_before(top, commit, path) if renamed else None
            if before is None:
                return _NoScript("was not there", ": name the script of then, too, before the one of now")
            path, renamed = before, False
        elif mode.startswith("100"):
            return path
        else:
            return _NoScript("was no file")
    return _NoScript("was a link that leads to itself")


def _mode(top: Path, commit: str, path: str) -> str:
    """What git has of a path at a commit; empty where it has nothing."""
    return said(top, "ls-tree", "-z", commit, "--", f":(literal){path}").partition(" ")[0]


def _name_before(top: Path, commit: str, path: str) -> str | None:
    """What a file was called that has this name now; None where git sees no such file."""
    names = said(top, *_PLAIN, *_DIFF, "--find-renames", "--diff-filter=R", commit).split("\0")
    return next(
        (before for _, before, after in zip(names[::3], names[1::3], names[2::3], strict=False) if after == path), None
    )


# --- what differs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Difference:
    """A path that was something else at a commit than it is now."""

    path: str
    before: str
    """Its mode then."""
    now: str
    commit: str
    """Of a submodule, which it was at then."""

    @property
    def is_submodule(self) -> bool:
        """Whether it was one, or is."""
        return _SUBMODULE in (self.before, self.now)


def _lay(top: Path, commit: str, shown: str, folder: Path, below: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Writes what was otherwise into the folder.

    Args:
        top: The top directory of a repository.
        commit: The commit in it.
        shown: The user's revision, for messages.
        folder: Where all is written.
        below: Of a submodule, its path with a slash; else empty.

    Returns:
        The paths that were written, and those that were not there then.
    """
    laid: list[str] = []
    gone: list[str] = []
    plain: list[_Difference] = []
    for each in _differences(top, commit):
        if not each.is_submodule:
            plain.append(each)
        elif each.before == _NOTHING:
            gone.append(f"{below}{each.path}")
        else:
            _refuse_submodule(top, each, shown, below)
            inner = _lay(top / each.path, each.commit, shown, folder, f"{below}{each.path}/")
            laid += inner[0]
            gone += inner[1]
    files = [each.path for each in plain if each.before != _NOTHING]
    _write(top, commit, files, folder / below)
    _fetch_contents(top, shown, [(f"{below}{each}", folder / below / each) for each in files])
    gone += (f"{below}{each.path}" for each in plain if each.before == _NOTHING)
    gone += (f"{below}{each}" for each in _hiding(top, commit, plain))
    laid += (f"{below}{each}" for each in files)
    return tuple(laid), tuple(gone)


def _differences(top: Path, commit: str) -> Iterator[_Difference]:
    conflicts = said(top, *_PLAIN, "ls-files", "-z", "--unmerged")
    if conflicts:
        path = conflicts.partition("\0")[0].partition("\t")[2]
        raise FileError(str(top / path), "git has conflicts there that are not resolved yet")
    found = said(top, *_PLAIN, *_DIFF, "--no-renames", "--ignore-submodules=untracked", commit).split("\0")
    for change, path in zip(found[::2], found[1::2], strict=False):
        before, now, commit_then, *_ = change.removeprefix(":").split(" ")
        yield _Difference(path, before, now, commit_then)


def _refuse_submodule(top: Path, each: _Difference, shown: str, below: str) -> None:
    """Refuses a submodule whose files of then cannot be read here."""
    path = f"{below}{each.path}"
    if each.before != each.now:
        was = "was a submodule" if each.before == _SUBMODULE else "is a submodule that was none"
        raise FileError(path, f"{was} at {shown}: what lay there cannot be told")
    try:
        has_it = (top / each.path / ".git").exists()
        has_it = has_it and bool(said(top / each.path, "rev-parse", "--verify", "--quiet", f"{each.commit}^{{commit}}"))
    except GitError:
        has_it = False
    if not has_it:
        fetch = f"git submodule update --init, then git -C {path} fetch"
        raise FileError(path, f"a submodule whose commit {each.commit[:7]} of {shown} is not here: {fetch}")


def _write(top: Path, commit: str, paths: list[str], folder: Path) -> None:
    """Writes files of a commit below a folder, with the line endings and modes that a checkout would give them."""
    if not paths:
        return
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / ".torchfast-index"
    # What git-lfs would fetch from a server is looked for in its store.
    own = {"GIT_INDEX_FILE": str(index), "GIT_LFS_SKIP_SMUDGE": "1"}
    said(top, *_PLAIN, "read-tree", "--no-sparse-checkout", commit, environment=own)
    listed = "".join(f"{path}\0" for path in paths)
    said(top, *_PLAIN, "checkout-index", "-z", "--stdin", f"--prefix={folder}/", stdin=listed, environment=own)
    index.unlink()


def _fetch_contents(top: Path, shown: str, files: list[tuple[str, Path]]) -> None:
    """Gives files that are pointers of Git LFS the contents that they stand for."""
    for name, place in files:
        if place.is_symlink() or place.stat().st_size > _POINTER_BYTES:
            continue
        pointer = _POINTER.match(place.read_bytes())
        if pointer is None:
            continue
        kept = pointer[1].decode()
        store = top / said(top, "rev-parse", "--git-common-dir").rstrip("\n")
        content = store / "lfs" / "objects" / kept[:2] / kept[2:4] / kept
        if not content.is_file():
            fetch = f"git lfs fetch origin {shown.partition(' ')[0]}"
            raise FileError(name, f"its content at {shown} is in Git LFS, and not here: {fetch}")
        shutil.copyfile(content, place)


def _hiding(top: Path, commit: str, differences: list[_Difference]) -> Iterator[str]:
    """Packages that git does not track and that would be imported in the place of a module of then: ``data/``."""
    for each in differences:
        package = each.path.removesuffix(".py")
        came = each.now == _NOTHING and package != each.path and (top / package / "__init__.py").is_file()
        if came and not _mode(top, commit, f"{package}/__init__.py"):
            yield package
