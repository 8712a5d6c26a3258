"""Two texts as a unified diff that ``patch -p0`` and ``git apply -p0`` carry out."""

from __future__ import annotations

from difflib import unified_diff


def unified(path: str, before: str, after: str) -> list[str]:
    """The lines of the diff, without the newline that ends each; none where the texts are equal.

    A carriage return before the newline belongs to the line, and a missing last newline is marked.
    """
    # A path with blanks ends where a tab begins.
    name = f"{path}\t" if any(each.isspace() for each in path) else path
    lines: list[str] = []
    for line in unified_diff(_lines(before), _lines(after), name, name):
        lines.append(line.removesuffix("\n"))
        if not line.endswith("\n"):
            lines.append("\\ No newline at end of file")
    return lines


def _lines(text: str) -> list[str]:
    """The lines with their newlines; only a line feed ends one, as for ``patch``."""
    return [line + "\n" for line in text.split("\n")[:-1]] + [last for last in text.split("\n")[-1:] if last]
