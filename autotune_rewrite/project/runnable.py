"""A notebook as a script that can be run: its cells in order, without what only installs, shows or times.

What IPython alone does and a later cell may need (``!wget``, ``%cd``, ``files = !ls``) is named and refused.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import notebooks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from autotune_rewrite.project.notebooks import Cells

_INSTALLING = frozenset({"apt", "apt-get", "brew", "conda", "mamba", "pip", "pip3", "uv"})
_SHOWING = frozenset(
    {"cat", "date", "df", "du", "echo", "free", "head", "ls", "lscpu", "nvcc", "nvidia-smi", "pwd", "tail", "tree"}
    | {"uname", "wc", "which"}
)
"""Commands of a shell that leave everything as it is, unless their output goes to a file."""
_LINE_MAGICS = {
    *("aimport", "autoreload", "config", "load_ext", "reload_ext", "unload_ext"),
    *("colors", "hist", "history", "lsmagic", "magic", "matplotlib", "page", "pdb", "precision", "quickref", "xmode"),
    *("pdoc", "pfile", "pinfo", "pinfo2", "psearch", "psource", "who", "who_ls", "whos"),
    *(
        "flake8_off",
        "flake8_on",
        "pycodestyle_off",
        "pycodestyle_on",
        "tensorboard",
        "version_information",
        "watermark",
    ),
    *("ls", "pwd"),
}
"""Line magics that install, show, or are about the notebook itself."""
_TIMING = frozenset({"memit", "prun", "time", "timeit"})
"""Their statement is a part of the program."""
_SHOWN = frozenset({"HTML", "SVG", "html", "javascript", "js", "latex", "markdown", "svg"})
"""Cell magics whose cells only show something."""
_SHELLS = frozenset({"!", "bash", "sh", "system", "sx"})
_DONE = frozenset(
    {
        "absolute_import",
        "division",
        "generator_stop",
        "generators",
        "nested_scopes",
        "print_function",
        "unicode_literals",
    }
    | {"with_statement"}
)
"""What ``from __future__`` no longer changes."""

_COMMANDS = re.compile(r"&&|\|\||[;|]")
_TO_FILE = re.compile(r"(?<![0-9&])[12]?>(?!\s*/dev/null|&[12])")
_BEFORE = re.compile(r"(?:sudo|time|\w+=\S*|python3?\s+-m(?=\s+pip))\s+")
_WORD = re.compile(r"%{0,2}[!\w.-]+|[!?,;/]")


@dataclass(frozen=True, slots=True)
class Runnable:
    """The script."""

    text: str
    """Line by line where the notebook's program is."""
    cells: Cells
    left_out: tuple[str, ...]
    """What was left out, each once: ``%matplotlib``, ``!pip``."""

    def in_cells(self, line: str, path: str) -> str:
        """A line of output that names lines of the script, such as one of a traceback, with cells and their lines.

        Args:
            line: What was written.
            path: How the script is called there.
        """
        traced = rf'(File "{re.escape(path)}"), line (\d+)'
        line = re.sub(traced, lambda found: "{}, cell {}, line {}".format(found[1], *self._place(found[2])), line)
        warned = rf"({re.escape(path)}):(\d+)(?=:)"
        return re.sub(warned, lambda found: "{}:cell {}:{}".format(found[1], *self._place(found[2])), line)

    def _place(self, line: str) -> tuple[int, int]:
        return self.cells.place(int(line))


def is_notebook(path: Path) -> bool:
    """Whether a file is one, by its name."""
    return path.suffix == ".ipynb"


def runnable(path: str, data: bytes) -> Runnable:
    """The script that a notebook is.

    Args:
        path: The notebook's name in messages.
        data: The notebook.

    Raises:
        FileError: It is no notebook in Python, or does what IPython alone does.
    """
    program, cells = notebooks.program(path, data, as_text=True)
    left_out = dict.fromkeys(_of_other_cells(path, data))
    left_out |= dict.fromkeys(_of_heads(cells))
    left_out |= dict.fromkeys(_of_lines(path, program, cells))
    if not cells.numbers:
        raise FileError(path, "has no cell of Python: nothing can be run")
    text = _with_future(program)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if _asks_ipython(node):
            cell, line = cells.place(node.lineno)  # type: ignore[attr-defined]  # it is an expression
            raise _refused(path, f"get_ipython().{node.attr}", line, cell)  # type: ignore[attr-defined]  # likewise
    return Runnable(text, cells, tuple(left_out))


def _refused(path: str, what: str, line: int, cell: int) -> FileError:
    shown = what if len(what) <= 40 else f"{what[:40]}…"  # noqa: PLR2004 - the beginning of a line
    return FileError(path, f"`{shown}` is for IPython alone: do it beforehand, and comment it out", line, cell)


def _of_other_cells(path: str, data: bytes) -> Iterator[str]:
    """What cells do that are no Python."""
    for number, source in notebooks.other_cells(path, data):
        first, _, body = source.strip().partition("\n")
        name = first.removeprefix("%%").partition(" ")[0]
        if not first.startswith("%%"):  # `pip install timm`, alone in its cell
            if not _is_idle(first):
                raise _refused(path, first, 1, number)
            yield first.partition(" ")[0]
        elif name not in _SHOWN and not (name in _SHELLS and all(map(_is_idle, body.splitlines()))):
            raise _refused(path, first, 1, number)
        else:
            yield f"%%{name}"


def _of_heads(cells: Cells) -> Iterator[str]:
    """Magics above cells of Python: ``%%time``."""
    for head in cells.heads:
        for line in head.splitlines():
            if line.strip():
                yield _name(line)


def _of_lines(path: str, program: str, cells: Cells) -> Iterator[str]:
    """Magics within cells of Python."""
    for found in re.finditer(rf"{cells.mark} magic (\d+)", program):
        magic = cells.magics[int(found[1])]
        # A masked magic that reaches over several lines ends in the last one.
        above = magic.text.count("\n")
        cell, line = cells.place(program.count("\n", 0, found.start()) + 1 - above)
        if not _is_left_out(magic.text):
            raise _refused(path, magic.text.splitlines()[0], line, cell)
        yield _name(magic.text)


def _is_left_out(magic: str) -> bool:
    if magic.startswith("!"):
        return all(map(_is_idle, magic.lstrip("!").replace("\\\n", " ").splitlines()))
    if magic.startswith("%"):
        name, _, timed = magic.lstrip("%").partition(" ")
        if name in _TIMING and timed.lstrip().startswith(("!", "%")):
            return _is_left_out(timed.lstrip())
        name = name.strip()
        return _is_idle(magic.lstrip("%")) if name in _INSTALLING else name in _LINE_MAGICS | _TIMING
    return magic.startswith("?") or magic.rstrip().endswith("?")


def _is_idle(line: str) -> bool:
    """Whether a line of a shell only installs or shows something."""
    return all(_installs_or_shows(each) for each in _COMMANDS.split(line.partition(" #")[0]))


def _installs_or_shows(command: str) -> bool:
    command = command.strip()
    if not command or command.startswith("#"):
        return True
    while (before := _BEFORE.match(command)) is not None:
        command = command[before.end() :]
    name, *words = command.split()
    installs = name in _INSTALLING and words[:1] != ["run"]  # as in `uv run train.py`
    return installs or (name in _SHOWING and _TO_FILE.search(command) is None)


def _name(magic: str) -> str:
    """What a magic is called: ``!pip``, ``%%time``; of a help, its question mark."""
    stripped = magic.strip()
    if stripped.endswith("?") or stripped.startswith("?"):
        return "?"
    if stripped.startswith("!"):
        words = stripped.lstrip("! ").split(maxsplit=1)
        return f"!{words[0]}" if words else "!"
    found = _WORD.match(stripped)
    return found[0] if found is not None else stripped


def _asks_ipython(node: ast.AST) -> bool:
    """Whether it is something of IPython's own that is asked for: ``get_ipython().system``."""
    if not isinstance(node, ast.Attribute) or node.attr.startswith("__") or not isinstance(node.value, ast.Call):
        return False
    called = node.value.func
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
    return name == "get_ipython"


def _with_future(program: str) -> str:
    """The program with its imports from ``__future__`` where a script may have them: in its first line."""
    found = [
        node
        for node in ast.parse(program).body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__" and node.level == 0
    ]
    if not found:
        return program
    lines = program.splitlines(keepends=True)
    for node in found:
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            ending = lines[number - 1][len(lines[number - 1].rstrip("\r\n")) :]
            lines[number - 1] = f"pass{ending}"
    names = sorted({each.name for node in found for each in node.names} - _DONE)
    if names:
        lines[0] = re.sub("^pass", f"from __future__ import {', '.join(names)}", lines[0])
    return "".join(lines)
