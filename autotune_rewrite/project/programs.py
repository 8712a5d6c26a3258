"""Which files are one program: scripts, the modules of their project that they import, and who else imports these.

Hardly anything is parsed here: the import statements are found by their text, so that a whole tree takes no longer than
to read it. What is found in too many places, in a string, say, only makes a project larger.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict, deque
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from autotune_rewrite.project import search_paths
from autotune_rewrite.project.files import ENVIRONMENT_MARKS, SKIPPED, is_command
from autotune_rewrite.project.imports import ALL, imports
from codemods.library.kinds import FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from autotune_rewrite.project.imports import Import

_MARKS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")
"""What the top directory of a project holds."""
_ENTRIES = 20_000
"""Files and directories that are looked at in a project, at most; the nearer ones first."""
_ENTRIES_OF_CODE = 1_000
"""A directory with more entries holds data."""
_FILES_OF_A_LIBRARY = 250
"""A package with more files is a library that the project uses, though it lies beside it, and is not followed."""
_LIBRARIES = {each.partition(".")[0] for each in FRAMEWORKS} | {
    *("torch", "torchvision", "torchaudio", "torchtext", "timm", "transformers", "numpy", "scipy", "sklearn"),
    *("pandas", "tqdm", "PIL", "yaml", "hydra", "omegaconf", "tensorboard", "wandb", "apex", "torch_geometric"),
}
_GUARD = re.compile(rb"^if[ \t(]+__name__[ \t]*==", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Search:
    """Where imports are searched."""

    directory: str
    """From here"""
    top: str
    """up to here."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """What scripts add to ``sys.path``."""

    def adding(self, before: Collection[str], after: Collection[str]) -> _Search:
        """The same with more directories; they, too, lie in the project."""
        if not before and not after:
            return self
        return replace(
            self,
            before=tuple(dict.fromkeys((*self.before, *(each for each in before if self._holds(each))))),
            after=tuple(dict.fromkeys((*self.after, *(each for each in after if self._holds(each))))),
        )

    def _holds(self, directory: str) -> bool:
        return directory.startswith(self.top + os.sep)


class _Imported(NamedTuple):
    """What a file imports, where it is searched in some directories."""

    files: tuple[str, ...]
    local: tuple[tuple[str, str], ...]
    """First parts of dotted names, and the paths, without suffix, that they lead to."""


class Part(NamedTuple):
    """A file of a project."""

    path: str
    """As the user wrote it, or would."""
    asked: bool = True
    """Whether its sites are sought; of other files it is only read how they use what stands here."""
    name: str = "__main__"
    """The dotted name that stands for it in the project."""
    is_package: bool = False
    is_entry: bool = True
    """Whether it is run itself."""
    local: tuple[tuple[str, str], ...] = ()
    """First parts of dotted names in its imports, and the names in the project that they stand for."""
    unread: tuple[tuple[str, int], ...] = ()
    """Packages of the project that it imports and that are too large to be followed, each with its number of files."""


class Project(NamedTuple):
    """Files that are understood together."""

    parts: tuple[Part, ...]
    has_torch: bool
    """Whether torch is mentioned in one of them."""


def projects(
    named: Iterable[str],
    tops: Iterable[str] = (),
    *,
    follow: bool = True,
    opened: Mapping[str, bytes] = MappingProxyType({}),
) -> list[Project]:
    """The projects of some Python files, in the order of their first files; each file is in one of them.

    Args:
        named: Files whose sites are sought.
        tops: Directories in which they were found.
        follow: Whether the sites of the modules that they import are sought, too.
        opened: What files hold, by their real paths, whatever there is on disk.
    """
    return _Tree(tuple(named), tuple(tops), opened).projects(follow=follow)


def outline(path: str, data: bytes) -> tuple[object, ...]:
    """All that ``projects`` reads of a file's text: as long as that stays, the projects do."""
    return tuple(imports(data)), _GUARD.search(data) is not None, search_paths.added(data, path), b"torch" in data


def project_top(directory: str, tops: Iterable[str]) -> str:
    """The top directory of the project that a directory belongs to, both without symbolic links.

    Args:
        directory: Where a file is.
        tops: Directories in which files were asked for.
    """
    here = Path(directory)
    marked = next((each for each in (here, *here.parents) if _is_marked(each)), None)
    if marked is not None:
        return str(marked)
    given = [each for each in tops if here.is_relative_to(each)]
    start = Path(min(given, key=len)) if given else here
    # Who imports a package lies outside of it.
    return str(next(each for each in (start, *start.parents) if not (each / "__init__.py").exists()))


def _is_marked(directory: Path) -> bool:
    return any((directory / each).exists() for each in _MARKS)


@dataclass(slots=True)
class _File:
    """A file that may be part of a project, by its absolute path."""

    path: str
    top: str
    """The directory above which its project does not reach."""

    @property
    def directory(self) -> str:
        return os.path.dirname(self.path)  # noqa: PTH120 - thousands of times


class _Tree:
    """The files around those named, and how they import each other."""

    def __init__(self, named: tuple[str, ...], tops: tuple[str, ...], opened: Mapping[str, bytes]) -> None:
        self._named = {os.path.realpath(each): each for each in named}
        self._tops: dict[str, str] = {}
        self._files: dict[str, _File] = {}
        self._given_tops = tuple(os.path.realpath(each) for each in tops)
        for path in self._named:
            self._files[path] = _File(path, self._top(os.path.dirname(path)))  # noqa: PTH120
        for top in dict.fromkeys(each.top for each in [*self._files.values()]):
            for path in _walk(top):
                if path not in self._files:
                    self._files[path] = _File(path, self._top_below(os.path.dirname(path), top))  # noqa: PTH120
        self._data: dict[str, bytes] = dict(opened)
        self._edges: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._local: defaultdict[str, dict[str, str | None]] = defaultdict(dict)
        self._known: dict[tuple[str, _Search], _Imported] = {}
        self._unread: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def _top_below(self, directory: str, top: str) -> str:
        """The top for a directory in a project: that project's, unless a project of its own lies there."""
        own = self._top(directory)
        return own if _is_marked(Path(own)) else top

    def _top(self, directory: str) -> str:
        """The top directory of the project that a directory belongs to."""
        if directory not in self._tops:
            top = project_top(directory, self._given_tops)
            self._tops[directory] = top
        return self._tops[directory]

    def projects(self, *, follow: bool) -> list[Project]:
        """See the function of that name."""
        self._connect()
        asked = self._reached(self._named) if follow else set(self._named)
        groups = self._groups()
        found = []
        done: set[str] = set()
        for path in self._named:
            if path not in done:
                group = groups[path]
                done.update(group)
                found.append(self._project(group, asked))
        return found

    # Reading.

    def _read(self, path: str) -> bytes:
        if path not in self._data:
            try:
                # Opening a pipe would wait for somebody to write.
                self._data[path] = Path(path).read_bytes() if os.path.isfile(path) else b""  # noqa: PTH113
            except OSError:
                self._data[path] = b""  # its sites are sought elsewhere, and that says what is wrong
        return self._data[path]

    @cached_property
    def _imports(self) -> dict[str, tuple[Import, ...]]:
        return {path: tuple(dict.fromkeys(imports(self._read(path)))) for path in self._files}

    @cached_property
    def _added(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """The directories that each file adds to where imports are searched."""
        return {path: search_paths.added(self._read(path), path) for path in self._files}

    def _search(self, file: _File) -> _Search:
        """Where imports are searched if the file is run."""
        return _Search(file.directory, file.top).adding(*self._added[file.path])

    # Finding.

    @cached_property
    def _directories(self) -> dict[str, int]:
        """The directories that hold Python files, themselves or below, with their number."""
        found: defaultdict[str, int] = defaultdict(int)
        for file in self._files.values():
            above = file.directory
            while above.startswith(file.top):
                found[above] += 1
                if above == file.top:
                    break
                above = os.path.dirname(above)  # noqa: PTH120
        return found

    @cached_property
    def _names(self) -> frozenset[str]:
        """The names of modules, packages and directories of the project."""
        packages = (os.path.dirname(each) for each in self._files if each.endswith(f"{os.sep}__init__.py"))  # noqa: PTH120
        modules = (os.path.basename(each).removesuffix(".py") for each in self._files)  # noqa: PTH119
        return frozenset([*modules, *map(os.path.basename, packages), *map(os.path.basename, self._directories)])

    def _module(self, place: str) -> str | None:
        """The file of the module that lies at a path without suffix."""
        package = os.path.join(place, "__init__.py")  # noqa: PTH118
        if package in self._files:
            return package
        return f"{place}.py" if f"{place}.py" in self._files else None

    def _in_library(self, file: _File) -> bool:
        """Whether the file belongs to a package that is too large to be followed."""
        package, top = None, file.directory
        while os.path.join(top, "__init__.py") in self._files and top.startswith(file.top):  # noqa: PTH118
            package, top = top, os.path.dirname(top)  # noqa: PTH120
        return package is not None and self._is_library(package)

    def _is_library(self, place: str) -> bool:
        return os.path.basename(place) in _LIBRARIES or self._directories.get(place, 0) > _FILES_OF_A_LIBRARY  # noqa: PTH119

    def _found(self, head: str, search: _Search, below: tuple[str, ...]) -> str | None:
        """The path, without suffix, of what the first part of a dotted name leads to in the project.

        Args:
            head: The first part.
            search: Where imports are searched.
            below: What is asked for in it.
        """
        top = search.top
        if head in _LIBRARIES or head not in self._names:
            return None
        around = [search.directory]
        if head not in sys.stdlib_module_names:
            while around[-1] != top and len(around[-1]) > len(top):
                around.append(os.path.dirname(around[-1]))  # noqa: PTH120
            around.append(os.path.join(top, "src"))  # noqa: PTH118 - from where packages are installed
            around = [*search.before, *around, *search.after]
        places = [os.path.join(each, head) for each in around]  # noqa: PTH118
        # A directory without `__init__.py` beside the script hides packages farther up, where nobody searches.
        hidden = os.path.join(search.directory, head)  # noqa: PTH118
        is_beside = any(self._module(os.path.join(hidden, each)) is not None for each in below)  # noqa: PTH118
        sure = {os.path.join(each, head) for each in (*search.before, *search.after)}  # noqa: PTH118
        regular = (
            each for each in places if self._module(each) is not None and (not is_beside or each in {hidden, *sure})
        )
        return next(regular, None) or next((each for each in places if each in self._directories), None)

    def _imported(self, path: str, search: _Search) -> _Imported:
        """What a file imports; each script that imports the file itself asks again."""
        key = path, search
        if key not in self._known:
            self._known[key] = self._look_up(path, search)
        return self._known[key]

    def _look_up(self, path: str, search: _Search) -> _Imported:
        modules: list[str | None] = []
        local: dict[tuple[str, str], None] = {}
        for level, parts, names in self._imports[path]:
            if level:
                place = self._files[path].directory
                for _ in range(level - 1):
                    place = os.path.dirname(place)  # noqa: PTH120
                below = parts
            else:
                start = self._found(parts[0], search, parts[1:2] or names)
                if start is None:
                    continue
                if self._is_library(start):
                    self._unread[path][start] = None
                    continue
                place, below = start, parts[1:]
                local[parts[0], place] = None
                modules.append(self._module(place))
            for part in below:
                place = os.path.join(place, part)  # noqa: PTH118
                modules.append(self._module(place))
            for name in names:
                if name == ALL:
                    modules += (each for each in self._files if each.startswith(place + os.sep))
                else:
                    modules.append(self._module(os.path.join(place, name)))  # noqa: PTH118
        return _Imported(tuple(each for each in modules if each is not None), tuple(local))

    def _note(self, path: str, head: str, place: str) -> None:
        """Notes what a name leads to; where that depends on who runs it, it is not known."""
        local = self._local[path]
        local[head] = place if local.get(head, place) == place else None

    def _connect(self) -> None:
        """Finds who imports whom."""
        own = {
            path: [each for each in self._imported(path, self._search(file)).files if each != path]
            for path, file in self._files.items()
            if not self._in_library(file)
        }
        imported = {each for targets in own.values() for each in targets}
        # What stands under the guard of a module is its self-test, unless that file is asked for.
        guarded = {path for path in self._named if path in own and _GUARD.search(self._read(path))}
        scripts = dict.fromkeys(path for path in own if path not in imported or path in guarded)
        seen: set[tuple[_Search, str]] = set()
        reached: set[str] = set()
        # What no script reaches, but for a circle of imports, starts a search of its own.
        for start in (*scripts, *own):
            if start in reached and start not in scripts:
                continue
            search = self._widest(start, own)
            todo = [start]
            while todo:
                here = todo.pop()
                if (search, here) in seen or here not in own:
                    continue
                seen.add((search, here))
                reached.add(here)
                found = self._imported(here, search)
                for head, place in found.local:
                    self._note(here, head, place)
                for target in found.files:
                    if target != here and target in own:
                        self._edges[here][target] = None
                        todo.append(target)
        self._scripts = frozenset(scripts)

    def _widest(self, start: str, own: Collection[str]) -> _Search:
        """Where imports are searched if the file is run, with what the modules add that it imports."""
        search = self._search(self._files[start])
        if not any(any(each) for each in self._added.values()):
            return search
        seen: set[str] = set()
        todo = [start]
        while todo:
            here = todo.pop()
            if here in seen or here not in own:
                continue
            seen.add(here)
            wider = search.adding(*self._added[here])
            if wider != search:
                search, seen, todo = wider, set(), [start]
            else:
                todo += self._imported(here, search).files
        return search

    def _reached(self, starts: Iterable[str]) -> set[str]:
        """The files named, and what they import."""
        found = set()
        todo = [*starts]
        while todo:
            here = todo.pop()
            if here not in found:
                found.add(here)
                todo += self._edges.get(here, ())
        return found

    def _groups(self) -> dict[str, list[str]]:
        """For each file, the files that are connected with it by imports, in the order of the text of their paths."""
        around: defaultdict[str, set[str]] = defaultdict(set)
        for here, targets in self._edges.items():
            for target in targets:
                around[here].add(target)
                around[target].add(here)
        groups: dict[str, list[str]] = {}
        for start in self._files:
            if start not in groups:
                group = {start}
                todo = [start]
                while todo:
                    for other in around.get(todo.pop(), ()):
                        if other not in group:
                            group.add(other)
                            todo.append(other)
                groups.update(dict.fromkeys(group, sorted(group)))
        return groups

    # Saying.

    def _project(self, group: list[str], asked: set[str]) -> Project:
        has_torch = any(b"torch" in self._read(path) for path in group)
        if len(group) == 1:
            return Project((Part(self._shown(group[0]), unread=self._not_followed(group[0])),), has_torch)
        base = os.path.dirname(os.path.commonpath([os.path.dirname(path) for path in group]))  # noqa: PTH120
        entries = self._scripts.intersection(group) or group
        parts = [
            Part(
                self._shown(path),
                asked=path in asked,
                name=_name(_place(path), base),
                is_package=os.path.basename(path) == "__init__.py",  # noqa: PTH119
                is_entry=path in entries,
                local=tuple((head, _name(place, base)) for head, place in self._local[path].items() if place),
                unread=self._not_followed(path),
            )
            for path in group
        ]
        # The scripts first, so that what they import is defined before it is used.
        return Project(tuple(sorted(parts, key=lambda each: not each.is_entry)), has_torch)

    def _not_followed(self, path: str) -> tuple[tuple[str, int], ...]:
        return tuple((self._shown(each), self._directories.get(each, 0)) for each in self._unread[path])

    def _shown(self, path: str) -> str:
        """The path as the user wrote it; of another file, as the user would."""
        if path in self._named:
            return self._named[path]
        here = os.path.realpath(".")
        relative = any(not os.path.isabs(each) for each in self._named.values())  # noqa: PTH117
        return os.path.relpath(path, here) if relative and path.startswith(here + os.sep) else path


def _place(path: str) -> str:
    """The path as imports lead there; a command, a file without a suffix, may lie beside a module of its name."""
    return path.removesuffix(".py").removesuffix("/__init__") if path.endswith(".py") else f"{path}."


def _name(place: str, base: str) -> str:
    """The dotted name of a module, of which no import can be the same by chance."""
    return "/" + ".".join(part.replace(".", "/") for part in Path(os.path.relpath(place, base)).parts)


def _walk(top: str) -> Iterator[str]:
    """The Python files below a directory, the nearer ones first, without what nobody wrote by hand."""
    waiting = deque([top])
    left = _ENTRIES
    while waiting and left > 0:
        try:
            with os.scandir(waiting.popleft()) as entries:
                found = [each for each, _ in zip(entries, range(min(left, _ENTRIES_OF_CODE + 1)), strict=False)]
        except OSError:
            continue
        left -= len(found)
        if len(found) > _ENTRIES_OF_CODE or any(each.name in ENVIRONMENT_MARKS for each in found):
            continue
        for entry in sorted(found, key=lambda each: each.name):
            if entry.name.startswith(".") or entry.name in SKIPPED:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif _is_python(entry):
                yield os.path.realpath(entry.path) if entry.is_symlink() else entry.path


def _is_python(entry: os.DirEntry[str]) -> bool:
    if entry.name.endswith(".py"):
        return os.path.isfile(entry.path)  # noqa: PTH113 - false of links in a circle
    return is_command(os.path.dirname(entry.path), entry.name)  # noqa: PTH120
