"""What a docstring says of a function's parameters, with a line for a new one in the docstring's own style."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_LITERAL = re.compile(r"(?P<open>[A-Za-z]*(?:\"\"\"|'''))(?P<text>.*)(?P<close>\"\"\"|''')", re.DOTALL)
_HEADING = re.compile(r"(?P<indent>\s*)(?:Args|Arguments|Parameters|Params):\s*")
_UNDERLINED = re.compile(r"\s*(?:Other )?Parameters\s*")
_UNDERLINE = re.compile(r"\s*-{3,}\s*")
_GOOGLE = re.compile(r"(?P<lead>\s*)\*{0,2}(?P<name>\w+)(?P<type>\s*\([^)]*\))?(?P<colon>\s*:\s+)(?P<text>\S.*?)\s*")
_NUMPY = re.compile(r"(?P<lead>\s*)\*{0,2}(?P<name>\w+)(?P<colon>\s*:\s*)?(?P<type>\S.*?)?\s*")
_SPHINX = re.compile(r"(?P<lead>\s*):param\s+(?P<type>[^:]*\s)?(?P<name>\w+):\s+(?P<text>\S.*?)\s*")


class Described(NamedTuple):
    """What is to be said of a new parameter."""

    name: str
    type: str
    """The dotted name of its type."""
    meaning: str
    """A noun with its article, in small letters and without a full stop."""


def with_parameter(literal: str, new: Described, following: str | None) -> str:
    """The docstring with a line for the parameter; as it was where it describes none, or in a style of its own.

    Args:
        literal: The docstring as it stands in the source, with its quotes.
        new: The parameter.
        following: The parameter before which it stands; None where it is the last.
    """
    found = _LITERAL.fullmatch(literal)
    if found is None:
        return literal
    newline = "\r\n" if "\r\n" in found["text"] else "\n"
    lines = found["text"].split(newline)
    changed = _google(lines, new, following) or _numpy(lines, new, following) or _sphinx(lines, new, following)
    return literal if changed is None else f"{found['open']}{newline.join(changed)}{found['close']}"


def _google(lines: list[str], new: Described, following: str | None) -> list[str] | None:
    start = next((at for at, line in enumerate(lines) if _HEADING.fullmatch(line)), None)
    if start is None:
        return None
    entries = _entries(lines, start + 1, _width(lines[start]) + 1, _GOOGLE)
    if not entries:
        return None
    first = entries[min(entries)]
    kind = f"{'' if first['type'] is None else f' ({new.type})'}"
    line = f"{first['lead']}{new.name}{kind}{first['colon']}{_like(new.meaning, first['text'])}"
    return _put(lines, entries, [line], following)


def _numpy(lines: list[str], new: Described, following: str | None) -> list[str] | None:
    pairs = pairwise(lines)
    start = next((at for at, (one, two) in enumerate(pairs) if _UNDERLINED.fullmatch(one) and _is_rule(two)), None)
    if start is None:
        return None
    entries = _entries(lines, start + 2, _width(lines[start]), _NUMPY)
    if not entries:
        return None
    first, below = entries[min(entries)], lines[min(entries) + 1 : min(entries) + 2]
    kind = f"{first['colon']}{new.type}" if first["colon"] and first["type"] else ""
    text = [
        f"{each[: _width(each)]}{_like(new.meaning, each.strip())}"
        for each in below
        if each.strip() and _width(each) > len(first["lead"])
    ]
    return _put(lines, entries, [f"{first['lead']}{new.name}{kind}", *text], following)


def _sphinx(lines: list[str], new: Described, following: str | None) -> list[str] | None:
    found = {at: each for at, line in enumerate(lines) if (each := _SPHINX.fullmatch(line)) is not None}
    if not found:
        return None
    first = found[min(found)]
    # ``:type`` lines of their own are a style of two lines for each parameter.
    if any(line.strip().startswith(f":type {each['name']}:") for line in lines for each in found.values()):
        after = [f"{first['lead']}:type {new.name}: {new.type}"]
    else:
        after = []
    kind = f"{new.type} " if first["type"] else ""
    line = f"{first['lead']}:param {kind}{new.name}: {_like(new.meaning, first['text'])}"
    return _put(lines, found, [line, *after], following)


def _is_rule(line: str) -> bool:
    return _UNDERLINE.fullmatch(line) is not None


def _entries(lines: Sequence[str], start: int, least: int, form: re.Pattern[str]) -> dict[int, re.Match[str]]:
    """The lines of a section that begin the description of a parameter."""
    found: dict[int, re.Match[str]] = {}
    column: int | None = None
    for at in range(start, len(lines)):
        line = lines[at]
        if not line.strip():
            continue
        column = _width(line) if column is None else column
        is_heading = at + 1 < len(lines) and _is_rule(lines[at + 1])
        if column < least or _width(line) < column or is_heading:
            break
        entry = form.fullmatch(line) if _width(line) == column else None
        if entry is not None:
            found[at] = entry
    return found


def _put(lines: list[str], entries: dict[int, re.Match[str]], new: Sequence[str], following: str | None) -> list[str]:
    """The lines with new ones before the entry of the parameter that follows, else below the last entry."""
    before = next((at for at, each in entries.items() if each["name"] == following), None)
    if before is None:
        last = max(entries)
        depth, before = _width(lines[last]), last + 1
        while before < len(lines) and lines[before].strip() and _belongs(lines[before], depth):
            before += 1
        if before == len(lines):
            # The quotes stand right behind the last line: they go behind the new one.
            return [*lines, *new]
    return [*lines[:before], *new, *lines[before:]]


def _belongs(line: str, depth: int) -> bool:
    """Whether a line goes on with the entry above: it is indented more, or says its type."""
    return _width(line) > depth or line.strip().startswith(":type ")


def _width(line: str) -> int:
    return len(line) - len(line.lstrip())


def _like(meaning: str, model: str) -> str:
    """The meaning with a capital and a full stop where the model has them."""
    start = meaning[:1].upper() if model[:1].isupper() else meaning[:1]
    return f"{start}{meaning[1:]}{'.' if model.endswith('.') else ''}"
