"""Why something is left as it is: a cause that programs can ask for, and a sentence about it that names places."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from codemods.dataflow.source import Module

HERE = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands in a text for the next one of its places: ``line 4``, ``lines 4, 9``, ``data.py, line 12``."""


class Place(NamedTuple):
    """Nodes of one module that a sentence names together."""

    module: Module
    nodes: tuple[ast.AST, ...]
    last: str = ", "
    """What stands between the last two of them."""

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines, from 1, in which the nodes begin."""
        return tuple(self.module.shown_line(getattr(each, "lineno", 1)) for each in self.nodes)


def at(module: Module, *nodes: ast.AST, last: str = ", ") -> Place:
    """The place of one node or of several."""
    return Place(module, nodes, last)


class Spot(NamedTuple):
    """Where a sentence names lines of the file that it is about."""

    start: int
    end: int
    """In characters of the sentence, the end exclusive."""
    lines: tuple[int, ...]
    last: str = ", "
    """What stands between the last two of them."""


class Said(NamedTuple):
    """A sentence for who reads one module, and where it names lines of that."""

    text: str
    spots: tuple[Spot, ...] = ()


class Words(NamedTuple):
    """A sentence with holes, ``HERE``, for places."""

    text: str
    places: tuple[Place, ...] = ()
    """What fills the holes, in their order."""

    def said(self, reader: Module) -> Said:
        """The sentence for who reads findings in a module: places in other modules are named with these."""
        together = self._joined()
        first, *rest = together.text.split(HERE)
        text, spots = first, []
        for index, after in enumerate(rest):
            if index < len(together.places):
                place = together.places[index]
                shown = listed("line", place.lines, place.last)
                if place.module is reader:
                    spots.append(Spot(len(text), len(text) + len(shown), place.lines, place.last))
                else:
                    shown = f"{place.module.path}, {shown}"
            else:  # the character stands in the user's code, which the text quotes
                shown = HERE
            text += shown + after
        return Said(text, tuple(spots))

    def _joined(self) -> Words:
        """The sentence with one hole where it names places of one module one after the other."""
        parts = self.text.split(HERE)
        texts, places = parts[:1], list[Place]()
        for place, after in zip(self.places, parts[1:], strict=False):
            if places and texts[-1] == ", " and places[-1].module is place.module:
                places[-1] = places[-1]._replace(nodes=(*places[-1].nodes, *place.nodes), last=place.last)
                texts[-1] = after
            else:
                places.append(place)
                texts.append(after)
        return Words(HERE.join([*texts, *parts[1 + len(self.places) :]]), tuple(places))

    def following(self, lead: str, *places: Place) -> Words:
        """The sentence with words before it, which may name places of their own."""
        return Words(lead + self.text, (*places, *self.places))


def listed(word: str, items: Sequence[object], last: str = ", ") -> str:
    """A word in singular or plural, and what it counts: ``line 4``, ``lines 4, 9``."""
    some = ", ".join(map(str, items[:-1]))
    return f"{word} {items[-1]}" if not some else f"{word}s {some}{last}{items[-1]}"


class Reason(NamedTuple):
    """Why a site is left, or why something is not known."""

    code: str
    """The cause, one of ``causes.CAUSES``: what differs between scripts is said in the text."""
    text: str
    """The sentence, with holes for places. Where it ends with a colon or a semicolon, the remedy ends it."""
    places: tuple[Place, ...] = ()
    """What fills the holes, in their order."""
    remedy: str = ""
    """What the user can do about it here, where there is something."""

    @property
    def cause(self) -> Words:
        """The sentence without the remedy that may end it."""
        return Words(self.text.rstrip(":;"), self.places)

    @property
    def words(self) -> Words:
        """The sentence, with the remedy where that belongs to it."""
        text = f"{self.text} {self.remedy}" if self.remedy and self.text.endswith((":", ";")) else self.text
        return Words(text, self.places)

    def following(self, lead: str, *places: Place, code: str = "") -> Reason:
        """The reason with words before it.

        Args:
            lead: The words, with holes for places of their own.
            places: Those places.
            code: Another cause, where the words name one.
        """
        return self._replace(code=code or self.code, text=lead + self.text, places=(*places, *self.places))

    def followed(self, end: str, *places: Place, remedy: str = "") -> Reason:
        """The reason with words after it.

        Args:
            end: The words, with holes for places of their own.
            places: Those places.
            remedy: Another remedy, where the words introduce one with a semicolon.
        """
        text = self.words.text + end
        return self._replace(text=text, places=(*self.places, *places), remedy=remedy or self.remedy)
