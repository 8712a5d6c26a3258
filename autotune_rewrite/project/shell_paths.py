"""Which directories do shell scripts, READMEs and makefiles put into ``PYTHONPATH``, where imports are searched?"""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_READMES = ("README", "Readme", "readme")
_NAMES = (*_READMES, "Makefile", "makefile")
"""How the names of such files begin."""
_ENDS = (".sh", ".bash", ".slurm", ".sbatch")
"""How the names of the others end."""
_MOST_BYTES = 2**18
"""A file with more was not written by hand."""
_SET = re.compile(r"(?:^|(?<=[\s;&|`(]))(?:(cd)[ \t]+|([A-Za-z_]\w*)[ \t]*[:?]?=[ \t]*)(?=\S)", re.MULTILINE)
_COMMENT = re.compile(r"(?m)^[ \t]*#.*$|(?<=[ \t])#.*$")
_CONTINUED = re.compile(r"\\\n[ \t]*")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:\[0\]|(:?[-+=?][^}]*))?\})")
_SUBSTITUTED = re.compile(r"\$\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)|`([^`\n]*)`")
_IN_QUOTES = re.compile(r'[^"$`\\]+')
_PLAIN = re.compile(r"[\w./~+@%:,{}-]+")
_TO = re.compile(r"[ \t]*\d?&?>[^;&]*(?:&\d)?")
_AND = re.compile(r"[ \t]*(?:&&|;)[ \t]*pwd(?:[ \t]+-P)?[ \t]*")
_DIRECTORY = re.compile(r"cd[ \t]+(?:-P[ \t]+|--[ \t]+)*")
_HERE = {"pwd", "pwd -P", "CURDIR", "shell pwd", "PWD"}
_SAME = re.compile(r"(?:shell[ \t]+)?(?:readlink[ \t]+-f|realpath|abspath)[ \t]+")
_ABOVE = re.compile(r"(?:shell[ \t]+)?dirname[ \t]+(?:--[ \t]+)?")
_ITSELF = {"0", "BASH_SOURCE"}
_UNKNOWN = "\0"
"""Stands in a text for what cannot be told."""


def may_speak(name: str) -> bool:
    """Whether a file may name such directories, by its name."""
    return name.endswith(_ENDS) or (name.startswith(_NAMES) and not name.endswith(".py"))


def named(data: bytes, path: str, top: str) -> tuple[tuple[str, ...], ...]:
    """The directories that each setting of the variable names, in their order, as far as they can be told.

    They are computed from literals, variables of the file, the place of the file and the directory in which it is run.
    That is the file's own, or the top of its project: each setting is told for both.

    Args:
        data: The text of the file.
        path: Where it lies, absolute.
        top: The top directory of its project.
    """
    if b"PYTHONPATH" not in data or len(data) > _MOST_BYTES:
        return ()
    text = data.decode(errors="replace")
    if not os.path.basename(path).startswith(_READMES):  # noqa: PTH119 - texts
        text = _COMMENT.sub("", text)
    text = _CONTINUED.sub(" ", text)
    found: dict[tuple[str, ...], None] = {}
    for start in dict.fromkeys((os.path.dirname(path), top)):  # noqa: PTH120 - texts
        found.update(dict.fromkeys(each for each in _Shell(text, path, top, start).settings() if each))
    return tuple(found)


class _Shell:
    """Computes the words of one file, as if it was run from a directory."""

    def __init__(self, text: str, path: str, top: str, start: str) -> None:
        self._text = text
        self._path = path
        self._top = top
        self._here = start
        self._variables: dict[str, str] = {}

    def settings(self) -> Iterator[tuple[str, ...]]:
        """The directories of each setting."""
        end = 0
        for each in _SET.finditer(self._text):
            if each.start() < end:
                continue  # in a word that was read already
            word, end = self._word(self._text, each.end())
            if each[1]:
                self._go(word)
            elif each[2] == "PYTHONPATH":
                entries = (entry for entry in word.split(":") if entry and _UNKNOWN not in entry)
                yield tuple(dict.fromkeys(self._absolute(entry) for entry in entries))
            else:
                known = self._variables.setdefault(each[2], word)
                if known != word:
                    self._variables[each[2]] = _UNKNOWN  # which of them counts depends on what was run

    def _go(self, word: str) -> None:
        """Goes to a directory, if there is one: a README first enters the project, whatever that is called here."""
        if _UNKNOWN not in word and os.path.isdir(self._absolute(word)):  # noqa: PTH112 - texts
            self._here = self._absolute(word)

    def _absolute(self, word: str) -> str:
        return os.path.normpath(os.path.join(self._here, word))  # noqa: PTH118 - texts

    def _word(self, text: str, at: int) -> tuple[str, int]:
        """The word that begins somewhere, expanded, and where it ends."""
        parts: list[str] = []
        while at < len(text):
            plain = _PLAIN.match(text, at)
            if plain:
                parts.append(plain[0])
                at = plain.end()
            elif text[at] == "'" and (end := text.find("'", at + 1)) > 0:
                parts.append(text[at + 1 : end])
                at = end + 1
            elif text[at] == '"':
                part, at = self._quoted(text, at + 1)
                parts.append(part)
            elif text[at] in "$`":
                part, end = self._expanded(text, at)
                if end == at:
                    break  # a backtick that ends code in a README
                parts.append(part)
                at = end
            else:
                break
        return "".join(parts), at

    def _quoted(self, text: str, at: int) -> tuple[str, int]:
        """The same in double quotes, from behind the first to behind the second."""
        parts: list[str] = []
        while at < len(text) and text[at] != '"':
            plain = _IN_QUOTES.match(text, at)
            if plain:
                parts.append(plain[0])
                at = plain.end()
                continue
            part, end = self._expanded(text, at)
            parts.append(part if end > at else _UNKNOWN)
            at = max(end, at + 1)
        return "".join(parts), at + 1

    def _expanded(self, text: str, at: int) -> tuple[str, int]:
        """What a variable or a command stands for, and where it ends: where it began, if it is none."""
        variable = _VARIABLE.match(text, at)
        if variable:
            name = variable[1] or variable[2]
            is_plain = not variable[3] or name == "PYTHONPATH"
            return self._variable(name) if is_plain else _UNKNOWN, variable.end()
        command = _SUBSTITUTED.match(text, at)
        if command:
            value = self._command((command[1] or command[2] or "").strip())
            is_code = text[at] == "`" and value == _UNKNOWN
            return (value, at) if is_code else (value, command.end())
        return (_UNKNOWN, at + 1) if text[at] == "$" else (_UNKNOWN, at)

    def _variable(self, name: str) -> str:
        if name == "PWD":
            return self._here
        if name in _ITSELF:
            return self._path
        if name == "PYTHONPATH":
            return ""
        return self._variables.get(name, _UNKNOWN)

    def _command(self, text: str) -> str:
        """What a command prints, or a variable of a makefile holds."""
        if text in _HERE:
            return self._here
        if text in self._variables or text == "PYTHONPATH":
            return self._variable(text)
        if text == "git rev-parse --show-toplevel":
            return self._top
        for pattern, levels in ((_SAME, 0), (_ABOVE, 1)):
            start = pattern.match(text)
            if start:
                word, _ = self._word(text, start.end())
                found = _UNKNOWN if _UNKNOWN in word else self._absolute(word)
                return os.path.dirname(found) if levels and found != _UNKNOWN else found  # noqa: PTH120 - texts
        start = _DIRECTORY.match(text)
        if start:
            word, end = self._word(text, start.end())
            silenced = _TO.match(text, end)
            if _AND.fullmatch(text, silenced.end() if silenced else end) and _UNKNOWN not in word:
                return self._absolute(word)
        return _UNKNOWN
