"""Places in a text as the protocol counts them, and the change from one text to another."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pygls.workspace import PositionCodec

    from autotune_rewrite.rewriting.results import Site

_NEWLINE = re.compile(r"\r\n|\r|\n")
"""What ends a line, for the protocol as for Python; a form feed, say, does not."""


class Places:
    """The places of a text: lines and columns count from 0, and columns in the units that the editor speaks of."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        """A text, and how its characters are counted."""
        self._text = text
        self._codec = codec

    @cached_property
    def lines(self) -> list[str]:
        """The lines, each with what ends it."""
        ends = [0, *(each.end() for each in _NEWLINE.finditer(self._text)), len(self._text)]
        lines = [self._text[start:end] for start, end in pairwise(ends)]
        return lines if lines[-1] else lines[:-1]

    def range_of(self, site: Site) -> types.Range:
        """Where a finding stands; of one that goes over several lines, a whole loop perhaps, the first."""
        text = self._shown(site.line)
        start, end = site.column - 1, site.end_column if site.end_line == site.line else len(text)
        if not start < end <= len(text):
            return self.line(site.line)  # what is found only after other changes has the columns of its line then
        return types.Range(self._at(site.line, start), self._at(site.line, end))

    def line(self, number: int) -> types.Range:
        """A line, from 1, without its indentation."""
        text = self._shown(number)
        return types.Range(self._at(number, len(text) - len(text.lstrip())), self._at(number, len(text)))

    def edits_to(self, after: str) -> Iterator[types.TextEdit]:
        """What makes another text of this one: whole lines, and no more of them than are changed."""
        new = Places(after, self._codec).lines
        for tag, start, end, first, last in SequenceMatcher(None, self.lines, new, autojunk=False).get_opcodes():
            if tag != "equal":
                yield types.TextEdit(types.Range(self._start(start), self._start(end)), "".join(new[first:last]))

    def _shown(self, number: int) -> str:
        """A line, from 1, without what ends it; an empty one beyond the text."""
        return self.lines[number - 1].rstrip("\r\n") if 0 < number <= len(self.lines) else ""

    def _at(self, number: int, column: int) -> types.Position:
        """A character, from 0, of a line, from 1."""
        return types.Position(number - 1, self._codec.client_num_units(self._shown(number)[:column]))

    def _start(self, index: int) -> types.Position:
        """The start of a line, from 0; where there is no such line, the end of the text."""
        lines = self.lines
        if index < len(lines) or not lines or lines[-1].endswith(("\n", "\r")):
            return types.Position(index, 0)
        return types.Position(len(lines) - 1, self._codec.client_num_units(lines[-1]))
