"""Pages whose commands are followed by what they print: runs the commands, and puts in what they print today.

A block of Python whose first line is ``# NAME.py`` is a file of the page's project, without that line. In a block
``console`` each line ``$ torchfast …`` is a command there, and what follows it is what it prints; blank lines at its ends
are not kept. A line of three dots stands for any number of lines.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from click.testing import CliRunner

from autotune_rewrite.cli import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "guide").glob("*.md")))

_FILE = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TRANSCRIPT = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
ANY = "...\n"


def commands(page: str) -> list[str]:
    """The command lines of a page's transcripts."""
    return [command for block in _TRANSCRIPT.findall(page) for command, _ in _COMMAND.findall(block)]


def current(page: str) -> str:
    """The page with what its commands print today."""
    with _elsewhere():
        Path("docs").symlink_to(ROOT / "docs")
        for name, text in _FILE.findall(page):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")
        return _TRANSCRIPT.sub(lambda block: _COMMAND.sub(_with_output, block[0]), page)


@contextmanager
def _elsewhere() -> Iterator[None]:
    """In an empty folder."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _with_output(written: re.Match[str]) -> str:
    line, before = written[1], written[2]
    program, *words = shlex.split(line)
    if program != "torchfast":
        raise ValueError(f"not a command of torchfast: {line}")
    result = CliRunner().invoke(cli, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    said = "\n".join(text.rstrip() for text in result.output.strip("\n").splitlines()) + "\n" if result.output else ""
    end = "\n" if before.endswith("\n\n") else ""
    kept = before.removesuffix("\n") if end else before
    return f"$ {line}\n{kept if ANY in kept and _stands_for(kept, said) else said}{end}"


def _stands_for(shortened: str, said: str) -> bool:
    """Whether a text with dots for some of its lines is this one."""
    parts = [re.escape(part) for part in shortened.split(ANY)]
    return re.fullmatch("(?:.*\n)*".join(parts), said) is not None
