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
_START = rb"""(?:[fF]["']([\w.]*)\.\w*\{|["']([\w.]+)\.\w*(?:["'][ \t]*\+|%s|\{\w*\}))"""
"""How a name of a module begins that is put together: `f"models.{name}"`, `"models." + name`, `"models.%s" % name`."""
_DYNAMIC_BELOW = re.compile(
    # also `"pkg.models" f".{kind}.{name}"`
    rb"""(?:import_module|__import__)\(\s*(?:["']([\w.]*)["']\s*(?=[fF]))?""" + _START
)
_DYNAMIC_CHOSEN = re.compile(rb"""(?:import_module|__import__)\(\s*([\w.]+)\s*[),[(+]""")
_FROM_HERE = re.compile(rb"""(?:import_module|__import__)\(\s*[fF]?["'](?:\{__\w+__\})?\.""")
_PUT_TOGETHER = re.compile(rb"""(\w+)[ \t]*=[ \t]*""" + _START)
_OWN_FOLDER = re.compile(rb"(?:listdir|scandir|iter_modules|glob)\([^\n]*\b__(?:file|path)__")
_FOLDER = re.compile(rb"""(?:listdir|scandir|iter_modules)\(\s*\[?\s*(?:["']([\w./]+)["']|(\w+))\s*\]?\s*\)""")
_TEXT_OF_NAME = re.compile(rb"""(?m)^[ \t]*(\w+)[ \t]*=[ \t]*["'](?:\./)?([\w./]+)["'][ \t]*(?:#.*)?$""")
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
    if b"import_module" in data or b"__import__" in data:
        yield from _computed(data)


def _computed(data: bytes) -> Iterator[Import]:
    """The modules that may be imported by names that are computed, or that the user gives."""
    below = [(first, b"".join(rest)) for first, *rest in _DYNAMIC_BELOW.findall(data)]
    chosen = {each.rpartition(b".")[2] for each in _DYNAMIC_CHOSEN.findall(data)}
    if chosen:
        for option in _OPTION.findall(data):
            yield from ((0, tuple(text.decode().split(".")), ()) for text in _TEXT.findall(option))
        below += [(b"", b"".join(rest)) for name, *rest in _PUT_TOGETHER.findall(data) if name in chosen]
        texts = dict(_TEXT_OF_NAME.findall(data))
        below += [(b"", (text or texts.get(name, b"")).replace(b"/", b".")) for text, name in _FOLDER.findall(data)]
    if (chosen or below or _FROM_HERE.search(data)) and _OWN_FOLDER.search(data):
        yield 1, (), (ALL,)
    for start, rest in below:
        parts = [*start.decode().split("."), *rest.decode().split(".")]
        package = tuple(part for part in parts if part)
        if package:
            yield 0, package, (ALL,)


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
