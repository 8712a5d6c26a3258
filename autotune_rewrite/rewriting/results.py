"""What is said of a script: plain values, and the same as JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from autotune_rewrite.errors import FileError
from codemods.codemod import Promise
from codemods.facts.reason import Said as Sentence
from codemods.facts.reason import Spot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotune_rewrite.project.notebooks import Cells
    from autotune_rewrite.rewriting.units import Units
    from codemods.codemod import Need

_OF_NOTEBOOK = "the cells of a notebook are no lines of its file"


class Span(NamedTuple):
    """Lines of the original that an edit touches, from 1, inclusive; an insertion before line n is (n, n - 1)."""

    line: int
    end_line: int


class Replacement(NamedTuple):
    """Lines of the original, from 1, inclusive, and the whole lines that are to stand in their place."""

    line: int
    end_line: int
    text: str

    @property
    def content(self) -> str:
        """The text without the end of its last line."""
        return self.text.removesuffix("\n").removesuffix("\r")


class Site(NamedTuple):
    """One finding at the original's lines and columns (from 1, ends inclusive), as plain values."""

    rule: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    """Why the site is slow, or why it is left."""
    promise: Promise
    gain: str
    fails: bool
    edits: tuple[Span, ...]
    """What the rewrite touches; none where the site is left."""
    redraws: bool = False
    """Whether the rewritten code draws other random numbers."""
    spots: tuple[Spot, ...] = ()
    """Where the message names lines of the script."""
    code: str = ""
    """The cause for which the site is left, one of ``causes.CAUSES``; empty where it is not."""
    remedy: str = ""
    """What the user can do about that, where there is something."""
    needs: Need = ""
    """What there has to be for the rewritten code to act."""
    excerpt: str = ""
    """The original's line at which the site begins, without its newline."""
    fix: tuple[Replacement, ...] = ()
    """Its own change, where that was asked for: all of it belongs together."""
    no_fix: str = ""
    """Why it has none, though it is rewritten."""
    is_measured: bool = False
    """Whether the gain is not what is to be expected, but what was measured of this script."""

    @property
    def rewrites(self) -> bool:
        """Whether the site is rewritten."""
        return bool(self.edits)

    @property
    def advises(self) -> bool:
        """Whether users are told what they may do themselves: it is neither rewritten nor left."""
        return not self.edits and not self.code

    @property
    def mark(self) -> str:
        """What is promised, or that nothing is done."""
        return "advice" if self.advises else str(self.promise)

    @property
    def sentence(self) -> Sentence:
        """The message, and where it names lines of the script."""
        return Sentence(self.message, self.spots)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What became of one script."""

    path: str
    before: str
    after: str
    """The new text; of a mere check, the text that the last round's rules read, or neither."""
    sites: tuple[Site, ...] = ()
    """In the order of the script's lines; those of one place in the order of the rules."""
    notes: tuple[str, ...] = ()
    """What is said once, however many scripts and sites it concerns."""
    cells: Cells | None = None
    """Of a notebook, where its cells stand in the text."""
    unused: tuple[tuple[int, str], ...] = ()
    """Lines of comments that leave nothing alone, and the comments."""
    units: Units | None = None
    """Which of its changes can be left out alone, where that was asked for; of a notebook that is not known."""

    @property
    def rules(self) -> frozenset[str]:
        """The rules that changed something."""
        return frozenset(site.rule for site in self.sites if site.rewrites)

    @property
    def promise(self) -> Promise | None:
        """The farthest promise applied; None where nothing was."""
        return max((site.promise for site in self.sites if site.rewrites), default=None)

    @property
    def redraws(self) -> bool:
        """Whether anything that was applied draws other random numbers."""
        return any(site.rewrites and (site.redraws or site.promise == Promise.RANDOM) for site in self.sites)

    @property
    def fails(self) -> bool:
        """Whether a check of the script fails."""
        return any(site.fails for site in self.sites)

    def in_cells(self, cells: Cells) -> Rewrite:
        """The same of a notebook, in which no site has a change of its own."""
        sites = (each._replace(fix=(), no_fix=_OF_NOTEBOOK) if each.fix else each for each in self.sites)
        return replace(self, cells=cells, sites=tuple(sites), units=None)

    @property
    def remarks(self) -> Iterator[str]:
        """The notes, and what is to be said of comments."""
        yield from self.notes
        for line, comment in self.unused:
            place = line if self.cells is None else self.cells.named(line)
            yield f"{self.path}:{place}: '{comment}' is not needed: nothing is found there"

    def message(self, site: Site) -> str:
        """The message of one of its sites; in a notebook it names cells."""
        return site.message if self.cells is None else self.cells.words(site.sentence)


Said: TypeAlias = "Rewrite | FileError"
"""What a check says of a file."""


def as_json(said: Said) -> list[Any]:
    """What a check said, but for the texts."""
    if isinstance(said, FileError):
        return [said.path, *said.args[1:]]
    return [said.path, [list(site) for site in said.sites], list(said.notes), list(said.unused)]


def from_json(data: list[Any]) -> Said:
    """What a check said; of a notebook it is not known where its cells stand.

    Raises:
        TypeError, ValueError: when the data are something else.
    """
    path, said, *place = data
    if isinstance(said, str):
        return FileError(path, said, *place)
    notes, unused = place
    comments = tuple((line, comment) for line, comment in unused)
    return Rewrite(path, "", "", tuple(map(_site, said)), tuple(notes), unused=comments)


def _site(data: list[Any]) -> Site:
    rule, line, column, end_line, end_column, message, promise, gain, fails, edits, redraws, spots, *rest = data
    code, remedy, needs, excerpt, fix, no_fix, is_measured = rest
    return Site(
        rule,
        line,
        column,
        end_line,
        end_column,
        message,
        Promise(promise),
        gain,
        fails,
        tuple(Span(*each) for each in edits),
        redraws=redraws,
        spots=tuple(Spot(start, end, tuple(lines), last) for start, end, lines, last in spots),
        code=code,
        remedy=remedy,
        needs=needs,
        excerpt=excerpt,
        fix=tuple(Replacement(*each) for each in fix),
        no_fix=no_fix,
        is_measured=is_measured,
    )
