"""Which findings a change in git touches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autotune_rewrite.project import git

if TYPE_CHECKING:
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
    _changed: dict[str, list[range] | None] = field(default_factory=dict)

    def __call__(self, path: str, site: Site, texts: object) -> bool:  # noqa: ARG002 - as one that asks
        """Whether a site is touched.

        Raises:
            FileError: when git cannot say what was changed.
        """
        if path not in self._changed:
            self._changed[path] = git.changed_lines(path, self.revision)
        changed = self._changed[path]
        if changed is None or path.endswith(".ipynb"):
            return changed is None or bool(changed)
        return _touches(site, changed)


def _touches(site: Site, changed: list[range]) -> bool:
    spans = [(site.line, site.end_line), *((each.line, each.end_line) for each in site.edits)]
    return any(lines.start <= end and start < lines.stop for start, end in spans if start <= end for lines in changed)
