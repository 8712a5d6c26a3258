"""Which directories does a script add to where its imports are searched: ``sys.path.insert(0, …)``?"""

from __future__ import annotations

import ast
import os.path
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature

if TYPE_CHECKING:
    from collections.abc import Iterator

_SAME = frozenset({"abspath", "realpath", "normpath", "expanduser", "str", "resolve", "absolute", "as_posix", "Path"})
"""Functions and methods that return the same path, written otherwise."""
_DEEPEST = 20


def added(data: bytes, path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The directories that a file adds before, and after, those that are searched, as far as they can be told.

    They are computed from ``__file__`` and literals. What is relative is taken to be so from the script's directory.

    Args:
        data: The text of the file.
        path: Where it lies, absolute.
    """
    if b"sys.path" not in data:
        return (), ()
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return (), ()
    return _Adder(tree, path).found()


class _Adder:
    """Computes the paths of one file."""

    def __init__(self, tree: ast.Module, path: str) -> None:
        self._path = path
        self._nodes = list(ast.walk(tree))
        self._given: dict[str, list[ast.expr]] = {}
        """What each name is given, wherever that is; a parameter, by the calls of its function."""
        for node in self._nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._given.setdefault(target.id, []).append(node.value)
        calls: dict[str, list[ast.Call]] = {}
        for node in self._nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                calls.setdefault(node.func.id, []).append(node)
        for function in (each for each in self._nodes if isinstance(each, ast.FunctionDef)):
            for call in calls.get(function.name, ()):
                for name, argument in signature(function).bind(call).given.items():
                    self._given.setdefault(name, []).append(argument)

    def found(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The directories before, and after, those that are searched."""
        before: dict[str, None] = {}
        after: dict[str, None] = {}
        for node in self._nodes:
            match node:
                case ast.Call(ast.Attribute(ast.Attribute(ast.Name("sys"), "path"), "insert"), [_, path]):
                    before.update(dict.fromkeys(self._directories(path)))
                case ast.Call(ast.Attribute(ast.Attribute(ast.Name("sys"), "path"), "append"), [path]):
                    after.update(dict.fromkeys(self._directories(path)))
        return tuple(before), tuple(after)

    def _directories(self, node: ast.expr) -> Iterator[str]:
        for each in self._paths(node):
            yield os.path.normpath(os.path.join(os.path.dirname(self._path), each))  # noqa: PTH118, PTH120 - texts

    def _paths(self, node: ast.expr, depth: int = _DEEPEST) -> list[str]:
        """The paths that an expression may be; none where that cannot be told."""
        if not depth:
            return []
        match node:
            case ast.Constant(str(text)):
                return [text]
            case ast.Name("__file__"):
                return [self._path]
            case ast.Name(name):
                return [path for each in self._given.get(name, ()) for path in self._paths(each, depth - 1)]
            case ast.BinOp(left, ast.Div() | ast.Add() as operator, right):
                return self._joined([left, right], "/" if isinstance(operator, ast.Div) else "", depth)
            case ast.Attribute(inner, "parent"):
                return self._above(inner, 1, depth)
            case ast.Subscript(ast.Attribute(inner, "parents"), ast.Constant(int(index))):
                return self._above(inner, index + 1, depth)
            case ast.Call(ast.Attribute(attr=name) | ast.Name(name) as function, arguments):
                return self._called(name, function, arguments, depth)
        return []

    def _called(self, name: str, function: ast.expr, arguments: list[ast.expr], depth: int) -> list[str]:
        """The paths that a call of a function or method returns."""
        if name in {"getcwd", "cwd"}:
            return ["."]
        if name in _SAME:
            owner = [function.value] if isinstance(function, ast.Attribute) and not arguments else arguments
            return self._paths(owner[0], depth - 1) if owner else []
        if name == "dirname" and arguments:
            return self._above(arguments[0], 1, depth)
        if name == "join" and arguments:
            return self._joined(arguments, "/", depth)
        return self._joined([function.value, *arguments], "/", depth) if name == "joinpath" else []  # type: ignore[attr-defined]

    def _above(self, node: ast.expr, levels: int, depth: int) -> list[str]:
        """The directories so many levels above the paths."""
        found = self._paths(node, depth - 1)
        for _ in range(levels):
            found = [os.path.dirname(each) for each in found]  # noqa: PTH120 - texts
        return found

    def _joined(self, parts: list[ast.expr], between: str, depth: int) -> list[str]:
        """The paths that the parts make together."""
        found = self._paths(parts[0], depth - 1)
        for part in parts[1:]:
            ends = self._paths(part, depth - 1)
            found = [
                os.path.join(start, end) if between else start + end  # noqa: PTH118 - texts
                for start in found
                for end in ends
            ]
        return found
