"""What formats for programs say alike of a finding: its words, its place, and what it is known by."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from autotune_rewrite.rewriting.results import Rewrite, Site


@dataclass(frozen=True, slots=True)
class Entry:
    """A finding that can be rewritten, or that advises."""

    path: str
    """As seen from the current directory, with slashes; absolute where it does not lie below."""
    cell: int | None
    line: int
    """In the cell, of a notebook."""
    end_line: int
    message: str
    """Why the site is slow, and what the rewrite promises."""
    fingerprint: str
    """Stays the same where other lines move this one."""
    site: Site

    @property
    def title(self) -> str:
        """Where it is, for people."""
        cell = "" if self.cell is None else f":cell {self.cell}"
        return f"{self.path}{cell}:{self.line}:{self.site.column}"


def entries(rewrites: Iterable[Rewrite]) -> Iterator[Entry]:
    """The findings that can be rewritten, or that advise: what is left is no problem of the script's."""
    seen: dict[str, int] = {}
    for rewrite in rewrites:
        path = shown_path(rewrite.path)
        for site in rewrite.sites:
            if site.code:
                continue
            cell, line = (None, site.line) if rewrite.cells is None else rewrite.cells.place(site.line)
            end_line = line + site.end_line - site.line
            measured = f", {site.gain}" if site.is_measured else ""
            message = f"{rewrite.message(site)} [{site.mark}]{measured}"
            known = known_by(path, site)
            number = seen[known] = seen.get(known, 0) + 1
            yield Entry(path, cell, line, end_line, message, _digest(known, str(number)), site)


def known_by(path: str, site: Site) -> str:
    """What tells a finding from others, wherever it moves: its file, its rule and the text of its line."""
    return f"{path}\0{site.rule}\0{site.excerpt.strip()}"


def shown_path(path: str) -> str:
    """A path as seen from the current directory, with slashes."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - a link stays what it is
    here = Path.cwd()
    return (absolute.relative_to(here) if absolute.is_relative_to(here) else absolute).as_posix()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]
