"""Which modules a file imports, by its text: it is not parsed, so that a whole tree takes no longer than to read it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

_IMPORT = re.compile(
    # In the text of a notebook each line is in quotes.
    rb'(?m)(?:^|[;:"])[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n;#]*)|import[ \t]+([\w., \t]+))'
)
_DYNAMIC = re.compile(rb"""(?:import_module|__import__)\(\s*["']([\w.]+)["']""")
_DYNAMIC_BELOW = re.compile(
    # `f"models.{name}"`, `"pkg.models" f".{kind}.{name}"`
    rb"""(?:import_module|__import__)\(\s*(?:["']([\w.]*)["']\s*)?[fF]["']([\w.]*)\{"""
)
_DYNAMIC_CHOSEN = re.compile(rb"""(?:import_module|__import__)\(\s*[\w.]+\s*[),]""")
_OPTION = re.compile(rb"add_argument\([^()]*\)")
_TEXT = re.compile(rb"""["']([A-Za-z_][\w.]*)["']""")
ALL = "*"
"""Stands for each module of a package."""
_NAME = re.compile(rb"\w+")

Import: TypeAlias = "tuple[int, tuple[str, ...], tuple[str, ...]]"
"""Dots in front, the parts of the dotted name, and what is imported from there."""


def imports(data: bytes) -> Iterator[Import]:
    """The imports in a file's text."""
    for source, names, modules in _statements(data):
        if modules:
            for module in modules.split(b","):
                dotted = module.split()
                if dotted:
                    yield 0, tuple(dotted[0].decode().split(".")), ()
        else:
            bare = source.lstrip(b".")
            parts = tuple(bare.decode().split(".")) if bare else ()
            if parts or source:
                yield len(source) - len(bare), parts, tuple(each.decode() for each in _NAME.findall(names))
    for first, second in _DYNAMIC_BELOW.findall(data):
        package, dot, _ = (first + second).rpartition(b".")
        if dot and package.strip(b"."):
            yield 0, tuple(package.decode().split(".")), (ALL,)
    if _DYNAMIC_CHOSEN.search(data):
        for option in _OPTION.findall(data):
            yield from ((0, tuple(text.decode().split(".")), ()) for text in _TEXT.findall(option))


def _statements(data: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """What the pattern finds in the lines that hold the word; most of a notebook is pictures."""
    end = 0
    while (at := data.find(b"import", end)) >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        if b"(" in data[at : end if end >= 0 else None]:
            end = data.find(b")", at) + 1
        end = end if end > at else len(data)
        yield from _IMPORT.findall(data, start, end)
        yield from ((b"", b"", name) for name in _DYNAMIC.findall(data, start, end))
