"""Two texts as a unified diff: whole, for ``patch -p0`` and ``git apply -p0``, or as people like to read it."""

from __future__ import annotations

from difflib import SequenceMatcher, unified_diff
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from autotune_rewrite.rewriting.results import Rewrite

_MANY = 12
"""More lines than these that only move to another indentation hide what really changes."""
_CONTEXT = 3
"""Unchanged lines that are shown around a change."""


def texts(rewrite: Rewrite) -> Iterator[tuple[int | None, str, str]]:
    """The text before and after; of a notebook, each changed cell's number and its source before and after."""
    if rewrite.cells is None:
        yield None, rewrite.before, rewrite.after
        return
    after = rewrite.cells.sources(rewrite.after)
    for cell, source in rewrite.cells.sources(rewrite.before).items():
        # The last line of a cell has no newline, which is not worth a mark.
        if source != after[cell]:
            yield cell, f"{source}\n", f"{after[cell]}\n"


def unified(path: str, before: str, after: str) -> list[str]:
    """The lines of the diff, without the newline that ends each; none where the texts are equal.

    A carriage return before the newline belongs to the line, and a missing last newline is marked.
    """
    # A path with blanks ends where a tab begins.
    name = f"{path}\t" if any(each.isspace() for each in path) else path
    return _shown(unified_diff(_lines(before), _lines(after), name, name))


def preview(path: str, before: str, after: str) -> list[str]:
    """The lines of a diff for people: where a whole block moves to another indentation, that is no change.

    Its lines are shown as they are afterwards, where they stand near a change; one line says how many there are. With
    few such lines it is the whole diff.
    """
    old, new = _lines(before), _lines(after)
    matcher = SequenceMatcher(None, [line.lstrip() for line in old], [line.lstrip() for line in new])
    pairs = ((block.a + at, block.b + at) for block in matcher.get_matching_blocks() for at in range(block.size))
    moved = sum(old[a] != new[b] for a, b in pairs)
    if moved <= _MANY:
        return unified(path, before, after)
    lines = [f"--- {path}", f"+++ {path}", f"({moved} lines only change their indentation: --diff shows them all)"]
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        (_, first, _, new_first, _), (_, _, end, _, new_end) = group[0], group[-1]
        lines.append(f"@@ -{first + 1},{end - first} +{new_first + 1},{new_end - new_first} @@")
        for kind, a, a_end, b, b_end in group:
            removed = [] if kind == "equal" else [f"-{line}" for line in old[a:a_end]]
            mark = " " if kind == "equal" else "+"
            lines += _shown(chain(removed, (f"{mark}{line}" for line in new[b:b_end])))
    return lines


def _shown(lines: Iterable[str]) -> list[str]:
    """The lines without their newlines; a missing last newline is marked."""
    shown = []
    for line in lines:
        shown.append(line.removesuffix("\n"))
        if not line.endswith("\n"):
            shown.append("\\ No newline at end of file")
    return shown


def _lines(text: str) -> list[str]:
    """The lines with their newlines; only a line feed ends one, as for ``patch``."""
    return [line + "\n" for line in text.split("\n")[:-1]] + [last for last in text.split("\n")[-1:] if last]
