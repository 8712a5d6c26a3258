r"""Notebooks: their code cells as one program, and the program's text put back into the cells.

The program is Python line by line where the cells are, and has a line of its own above each cell, which keeps them
apart: ``pass  # notebook cell 3``. What IPython alone understands is masked by Python that ends in a comment of ours:

    %matplotlib inline          pass  # notebook magic 0
    files = !ls                 files = get_ipython()  # notebook magic 1
    %time train(model)          train(model)  # notebook magic 2

These lines are statements, since edits keep statements, but may take a comment along. Cells in other languages are no
part of the program, and so cannot be edited. Magics are those of IPython 9:
https://ipython.readthedocs.io/en/stable/interactive/reference.html
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from autotune_rewrite.errors import FileError
from codemods.dataflow.source import Module
from codemods.facts import failures
from codemods.facts.reason import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.reason import Said

_FORMAT = 4
"""The major version of the format that has cells in one list; older notebooks have worksheets."""

_PYTHON_BODIES = frozenset(
    {"capture", "debug", "heat", "lprun", "memit", "mprun", "prun", "scalene", "snakeviz", "time", "timeit", "wandb"}
)
"""Cell magics that run the rest of the cell as Python, in the notebook's own process."""
_CELL_MAGIC = re.compile(r"\s*%%(\w*)[^\n]*(?:\n|\Z)")
_AUTOMAGIC = re.compile(r"\s*(?:cd|conda|ls|mamba|mkdir|pip|rm|uv)\b[^\n]*\s*")
"""A cell of one line that IPython takes for a magic without its percent sign, where it is not Python."""

_PERHAPS = re.compile(r"^[ \t]*[!%?,;/]|=[ \t]*[!%]|\?[ \t]*\r?$", re.MULTILINE)
"""Where there is no match, there is no magic; where there is one, it may stand in a string."""
_ASSIGNED = re.compile(r"([^=#'\"\n]+=)[ \t]*[!%]")
_TIMED = re.compile(r"%(?:time|timeit|prun|memit)[ \t]+(.+)")
_HELP = re.compile(r"[^#'\"\n]*[\w\]*]\?\??[ \t]*")
_TO_LINE_END = re.compile(r"(?:[^\n\\]|\\\r?\n|\\)*")
"""A magic reaches to the end of its line, or on where a backslash ends the line."""
_PIECE = re.compile(
    r"""
    \#[^\n]*
    | \"{3} (?: \\. | [^\\] )*? (?: \"{3} | \Z )  |  '{3} (?: \\. | [^\\] )*? (?: '{3} | \Z )
    | \" (?: \\. | [^\\"\n] )* \"?  |  ' (?: \\. | [^\\'\n] )* '?
    | \\\r?\n | [()\[\]{}\n]
    """,
    re.DOTALL | re.VERBOSE,
)
"""What decides where a logical line of Python ends; letters before a string's quotes change nothing about that."""

_NEWLINE = re.compile(r"\r\n|\r|\n")
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class _Cell(TypedDict):
    """What is asked of a cell; what else it holds stays as it is."""

    cell_type: str
    source: str
    """In the file, it may be a list of lines."""


class _Notebook(TypedDict):
    """What is asked of a notebook; what else it holds stays as it is."""

    cells: list[_Cell]
    metadata: dict[str, Any]


class Magic(NamedTuple):
    """What IPython alone understands, without the first line's indentation."""

    shown: str
    """The Python that stands for it in the program."""
    text: str


@dataclass(frozen=True, slots=True)
class Cells:
    """Where the cells of a notebook stand in its program, and what is masked there."""

    mark: str
    """How our comments begin: with what occurs in no cell."""
    numbers: tuple[int, ...] = ()
    """Which cells they are, from 1, text cells counted."""
    starts: tuple[int, ...] = ()
    """The program's lines, from 1, that stand above them."""
    heads: tuple[str, ...] = ()
    """The lines at their tops that are left out of the program: ``%%time``."""
    magics: tuple[Magic, ...] = ()

    def place(self, line: int) -> tuple[int, int]:
        """The cell, and the line in it, both from 1, of a line of the program as it was read.

        The line above a cell counts as the one below the last line of the cell before: what is inserted there.
        """
        index = max(bisect_left(self.starts, line) - 1, 0)
        return self.numbers[index], max(line - self.starts[index], 1) + self.heads[index].count("\n")

    def named(self, line: int) -> str:
        """The place of a line of the program, for people: ``cell 3:5``."""
        return "cell {}:{}".format(*self.place(line))

    def words(self, said: Said) -> str:
        """What is said of the program as what is said of the cells: ``(line 12)`` → ``(cell 3:5)``."""
        text = said.text
        for spot in reversed(said.spots):
            places = ["{}:{}".format(*self.place(line)) for line in spot.lines]
            text = text[: spot.start] + listed("cell", places, spot.last) + text[spot.end :]
        return text

    def error(self, error: FileError) -> FileError:
        """What is wrong with a line of the program, as what is wrong with a line of a cell."""
        if error.line is None or error.cell is not None:
            return error
        cell, line = self.place(error.line)
        return FileError(error.path, error.message, line, cell)

    def sources(self, text: str) -> dict[int, str]:
        """The cells' sources, by number, in the program with this text.

        Args:
            text: The program, after edits perhaps, with our line above each cell.
        """
        _, *pieces = re.split(rf"^pass  {self.mark} cell (\d+)\r?\n", text, flags=re.MULTILINE)
        bodies = (re.sub(r"\r?\n\Z", "", each) for each in pieces[1::2])
        return {
            int(number): head + self._unmasked(body)
            for number, head, body in zip(pieces[::2], self.heads, bodies, strict=True)
        }

    def _unmasked(self, body: str) -> str:
        masked = rf"^([ \t]*)(.*?)(?: \\\r?\n[ \t]*)*  {self.mark} magic (\d+)"

        def original(found: re.Match[str]) -> str:
            magic = self.magics[int(found[3])]
            # `%time train(model)` may have been edited.
            edited = magic.text.removesuffix(magic.shown) + found[2]
            return found[1] + (magic.text if found[2] == magic.shown else edited)

        return re.sub(masked, original, body, flags=re.MULTILINE)


# --- reading --------------------------------------------------------------------------------------------------------


def program(path: str, data: bytes, *, as_text: bool = False) -> tuple[str, Cells]:
    """The code cells of a notebook as one program; an empty one where no cell in Python mentions torch.

    Args:
        path: The notebook's name in messages.
        data: The notebook.
        as_text: Whether its text is wanted even where it does not mention torch.

    Raises:
        FileError: It is no notebook of today's format, or a cell is no Python that a script could hold.
    """
    notebook = _notebook(path, _decoded(path, data))
    bodies = dict(_python_cells(notebook)) if _is_python(notebook) else {}
    if not as_text and not any("torch" in body for _, body in bodies.values()):
        return "", Cells("")

    mark = "# notebook"
    while any(mark in body for _, body in bodies.values()):
        mark += "_"
    newline = "\r\n" if any("\r\n" in body for _, body in bodies.values()) else "\n"
    texts: list[str] = []
    magics: list[Magic] = []
    for number, (head, body) in bodies.items():
        masked = _masked(body, mark, magics)
        _refuse(path, masked, number, head.count("\n"))
        texts.append(f"pass  {mark} cell {number}{newline}{masked}{newline}")
    starts = tuple(accumulate((len(_NEWLINE.findall(each)) for each in texts[:-1]), initial=1))
    heads = tuple(head for head, _ in bodies.values())
    return "".join(texts), Cells(mark, tuple(bodies), starts, heads, tuple(magics))


def _decoded(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FileError(path, f"not UTF-8: {error.reason}", data.count(b"\n", 0, error.start) + 1) from error


def _notebook(path: str, text: str) -> _Notebook:
    """The notebook, in as far as it is one: who lacks an output or has a key too many is not refused.

    Its format: https://nbformat.readthedocs.io/en/latest/format_description.html
    """
    try:
        found = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise FileError(path, f"not a notebook: {error.msg}", error.lineno) from error
    except ValueError as error:
        raise FileError(path, f"not a notebook: {error}") from error
    except RecursionError as error:
        raise FileError(path, "nested too deeply to be understood") from error
    if not isinstance(found, dict):
        raise FileError(path, "not a notebook: it is no object of JSON")
    version = found.get("nbformat", 1)
    if isinstance(version, int) and version < _FORMAT:
        message = f"notebook format {version}: convert it with `jupyter nbconvert --to notebook`"
        raise FileError(path, message)
    cells, metadata = found.get("cells"), found.get("metadata")
    if not isinstance(cells, list):
        raise FileError(path, "not a notebook: it has no list of cells")
    if not isinstance(metadata, dict):
        raise FileError(path, "not a notebook: its metadata is no object of JSON")
    return {**found, "cells": [_cell(path, cell) for cell in cells], "metadata": metadata}


def _cell(path: str, found: object) -> _Cell:
    """A cell, its source as one text."""
    if not isinstance(found, dict):
        raise FileError(path, "not a notebook: a cell is no object of JSON")
    kind, source = found.get("cell_type"), found.get("source")
    if not isinstance(kind, str):
        raise FileError(path, "not a notebook: a cell's type is no text")
    lines = [source] if isinstance(source, str) else source
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise FileError(path, "not a notebook: a cell's source is no text")
    return {**found, "cell_type": kind, "source": "".join(lines)}


def _is_python(notebook: _Notebook) -> bool:
    """Whether its kernel runs Python, as far as the notebook says."""
    for table, key in (("language_info", "name"), ("kernelspec", "language")):
        said = notebook["metadata"].get(table)
        if isinstance(said, dict) and said.get(key):
            return said[key] in ("python", "ipython")
    return True


def other_cells(path: str, data: bytes) -> Iterator[tuple[int, str]]:
    """The number and the source of each cell of code that is no part of the program: another language, or a command.

    Args:
        path: The notebook's name in messages.
        data: The notebook.

    Raises:
        FileError: It is no notebook, or none in Python.
    """
    notebook = _notebook(path, _decoded(path, data))
    if not _is_python(notebook):
        raise FileError(path, "its language is not Python")
    known = {number for number, _ in _python_cells(notebook)}
    for number, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] == "code" and cell["source"].strip() and number not in known:
            yield number, cell["source"]


def _python_cells(notebook: _Notebook) -> Iterator[tuple[int, tuple[str, str]]]:
    """The number of each cell with Python in it, its first lines that are magics, and the rest."""
    for number, cell in enumerate(notebook["cells"], start=1):
        source = cell["source"]
        if cell["cell_type"] != "code" or not source.strip():
            continue
        start = 0
        magic = _CELL_MAGIC.match(source)
        while magic is not None and magic[1] in _PYTHON_BODIES:
            start = magic.end()
            magic = _CELL_MAGIC.match(source, start)
        is_command = _AUTOMAGIC.fullmatch(source) is not None and not _is_python_code(source)
        if magic is None and source[start:].strip() and not is_command:
            yield number, (source[:start], source[start:])


def _refuse(path: str, code: str, cell: int, above: int) -> None:
    """Refuse what cannot stand in a script.

    Args:
        path: The notebook.
        code: The cell's code, masked.
        cell: The cell's number.
        above: How many of its lines stand above the code.
    """
    try:
        module = Module(path, code)
    except SyntaxError as error:
        said = failures.why_unreadable(error.text or "") or error.msg
        raise FileError(path, f"not Python 3: {said}", above + (error.lineno or 1), cell) from error
    except ValueError as error:
        raise FileError(path, f"not Python: {error}", above + 1, cell) from error
    except (RecursionError, MemoryError) as error:
        raise FileError(path, "nested too deeply to be understood", above + 1, cell) from error
    awaiting = (*module.nodes(ast.Await), *module.nodes(ast.AsyncFor, ast.AsyncWith))
    outside = [each.lineno for each in awaiting if module.function(each) is None]
    if outside:
        raise FileError(path, "a notebook that awaits outside a function is not understood", above + min(outside), cell)


def _is_python_code(code: str) -> bool:
    try:
        Module("", code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _masked(code: str, mark: str, magics: list[Magic]) -> str:
    """The code with each magic masked, in as many lines; what was masked is added to ``magics``."""
    if not _PERHAPS.search(code) or _is_python_code(code):
        return code
    parts = []
    at = 0
    while at < len(code):
        start = at + len(code[at:]) - len(code[at:].lstrip(" \t"))
        line = _TO_LINE_END.match(code, start)[0].rstrip("\r")  # type: ignore[index]  # it matches nothing, too
        shown = _shown(line)
        if shown is None:
            end = _logical_end(code, start)
            parts.append(code[at:end])
        else:
            end = start + len(line)
            as_many_lines = " \\\n" * line.count("\n")
            parts.append(f"{code[at:start]}{shown}{as_many_lines}  {mark} magic {len(magics)}")
            magics.append(Magic(shown, line))
        at = end
    return "".join(parts)


def _shown(line: str) -> str | None:
    """The Python that stands for a magic in the program; None where the line is none."""
    if line.startswith(("!", "%", "?", ",", ";", "/")):
        timed = _TIMED.fullmatch(line)
        return timed[1] if timed is not None and _is_python_code(timed[1]) else "pass"
    assigned = _ASSIGNED.match(line)
    if assigned is not None:
        # The one name that is bound nowhere: what it gives is unknown.
        return f"{assigned[1]} get_ipython()"
    return "pass" if _HELP.fullmatch(line) else None


def _logical_end(code: str, start: int) -> int:
    """Where the logical line of Python that starts at an offset ends, behind its newline."""
    depth = 0
    for piece in _PIECE.finditer(code, start):
        depth += (piece[0] in {"(", "[", "{"}) - (piece[0] in {")", "]", "}"})
        if piece[0] == "\n" and depth <= 0:
            return piece.end()
    return len(code)


# --- writing --------------------------------------------------------------------------------------------------------


def with_program(path: str, data: bytes, cells: Cells, text: str) -> bytes:
    """The notebook with another text of its program: of the file's bytes only the sources of changed cells change.

    Args:
        path: The notebook's name in messages.
        data: The notebook that ``program`` read.
        cells: Its cells.
        text: The program, after edits.

    Raises:
        FileError: The text is not that of cells with magics in their places.
    """
    raw = _decoded(path, data)
    notebook = _notebook(path, raw)
    spans = _source_spans(raw)
    for number, source in sorted(cells.sources(text).items(), reverse=True):
        cell = notebook["cells"][number - 1]
        if source != cell["source"]:
            start, end = spans[number - 1]
            raw = raw[:start] + _literal(raw[start:end], source) + raw[end:]
            cell["source"] = source
    changed = raw.encode()
    if _notebook(path, raw) != notebook or program(path, changed, as_text=True)[0] != text:
        raise FileError(path, "the change cannot be put into the cells: not written; please report this")
    return changed


def _source_spans(raw: str) -> list[tuple[int, int]]:
    """Where in the JSON text the value of each cell's source stands."""
    start = _skip_blank(raw, raw.startswith("\ufeff"))
    (cells, _) = _members(raw, start)["cells"]
    return [_members(raw, cell)["source"] for cell, _ in _items(raw, cells)]


def _members(raw: str, at: int) -> dict[str, tuple[int, int]]:
    """The spans of the values in the JSON object at an offset, by their keys."""
    spans = {}
    at = _skip_blank(raw, at + 1)
    while raw[at] != "}":
        key, at = _DECODER.raw_decode(raw, at)
        colon = _skip_blank(raw, at)
        start = _skip_blank(raw, colon + 1)
        _, end = _DECODER.raw_decode(raw, start)
        spans[key] = (start, end)
        at = _skip_comma(raw, end)
    return spans


def _items(raw: str, at: int) -> Iterator[tuple[int, int]]:
    """The spans of the items in the JSON array at an offset."""
    at = _skip_blank(raw, at + 1)
    while raw[at] != "]":
        _, end = _DECODER.raw_decode(raw, at)
        yield at, end
        at = _skip_comma(raw, end)


def _skip_blank(raw: str, at: int) -> int:
    return _BLANK.match(raw, at).end()  # type: ignore[union-attr]  # it matches nothing, too


def _skip_comma(raw: str, at: int) -> int:
    at = _skip_blank(raw, at)
    return _skip_blank(raw, at + 1) if raw[at] == "," else at


def _literal(old: str, source: str) -> str:
    """A cell's source as JSON, in the style of the one that it replaces: a text, or a list of lines."""
    encode = json.JSONEncoder(ensure_ascii=old.isascii()).encode
    if not old.startswith("["):
        return encode(source)
    spans = list(_items(old, 0))
    written = {_DECODER.decode(old[start:end]): old[start:end] for start, end in spans}
    first, last = old[1 : spans[0][0]], old[spans[-1][1] : -1]
    comma = old[spans[0][1] : spans[1][0]] if len(spans) > 1 else f",{first or ' '}"
    lines = (written.get(line) or encode(line) for line in source.splitlines(keepends=True))
    return f"[{first}{comma.join(lines)}{last}]"
