"""Which findings a change in git touches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.errors import NoPythonFilesError
from autotune_rewrite.project import git
from autotune_rewrite.project.files import is_python

if TYPE_CHECKING:
    from autotune_rewrite.errors import FileError
    from autotune_rewrite.rewriting.results import Rewrite, Site


def only_touched(rewrite: Rewrite, revision: str) -> Rewrite:
    """The same with those findings alone that stand, or would be rewritten, on lines changed since a revision.

    Lines of a notebook's cells are not known to git: of one that was changed all findings stay.

    Raises:
        FileError: when git cannot say what was changed.
    """
    if not rewrite.sites:
        return rewrite
    changed = git.changed_lines(rewrite.path, revision)
    if changed is None or (rewrite.cells is not None and changed):
        return rewrite
    return replace(rewrite, sites=tuple(site for site in rewrite.sites if _touches(site, changed)))


@dataclass(frozen=True, slots=True)
class Touched:
    """Which changes of a rewrite stand, or are made, on lines changed since a revision: asked as a user is."""

    revision: str
    root: Path | None
    """The repository that is meant: nothing is touched in others that lie in it."""
    _changed: dict[str, list[range] | None] = field(default_factory=dict)

    def __call__(self, path: str, site: Site, texts: object) -> bool:  # noqa: ARG002 - as one that asks
        """Whether a site is touched.

        Raises:
            FileError: when git cannot say what was changed.
        """
        if not self.may_have(path):
            return False
        if path not in self._changed:
            self._changed[path] = git.changed_lines(path, self.revision)
        changed = self._changed[path]
        if changed is None or path.endswith(".ipynb"):
            return changed is None or bool(changed)
        return _touches(site, changed)

    def may_have(self, path: str) -> bool:
        """Whether a file is of the repository that is meant."""
        return git.root(path) == self.root

    def is_to_blame(self, error: FileError) -> bool:
        """Whether what is wrong is so of a file that the change touches, or of what was asked for.

        Raises:
            FileError: when git cannot say what was changed.
        """
        path = Path(error.path)
        if isinstance(error, NoPythonFilesError):
            return False
        if not path.exists():
            return not git.was_there(error.path, self.revision)
        if not is_python(str(path.parent), path.name):
            return True  # a configuration counts whoever changed it
        return self.may_have(error.path) and git.changed_lines(error.path, self.revision) != []


def _touches(site: Site, changed: list[range]) -> bool:
    spans = [(site.line, site.end_line), *((each.line, each.end_line) for each in site.edits)]
    return any(lines.start <= end and start < lines.stop for start, end in spans if start <= end for lines in changed)
