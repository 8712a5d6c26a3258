"""Edits that give a thing its new name: in an import, and in calls that now have a first argument more."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.editing.values import Replace
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit

_OPENING = re.compile(r"\s*\([ \t]*(?:#[^\r\n]*)?(?P<gap>\r?\n[ \t]*)?")
"""What stands between a function and the first argument of its call."""
_LEFT, _RIGHT = re.compile(r"\([\s(]*$"), re.compile(r"[\s)]*\)")


def called_with(
    module: Module, call: ast.Call, function: str, first: str, names: tuple[str, ...] = ()
) -> Edit | Reason:
    """``f(a, b=c)`` → ``g(first, x=a, b=c)``, in its lines and with its comments.

    Args:
        module: The module.
        call: The call. None of its positional arguments has a star.
        function: What is called instead.
        first: What is given before all else.
        names: What the positional arguments are called, all of them; without names they stay positional.
    """
    end, indented = module.span(call)[1], _indentation(module, call)
    behind = module.span(call.func)[1]
    arguments: list[ast.expr | ast.keyword] = sorted((*call.args, *call.keywords), key=module.span)
    at_ = module.span(arguments[0])[0] if arguments else end - 1
    before = module.between(behind, at_)
    opening = _OPENING.fullmatch(before)
    if opening is None or (not arguments and opening["gap"]):
        text = f"the call is written so that no place is left for another argument ({HERE})"
        return Reason("not-editable", text, (at(module, call),))
    between = f",{opening['gap'] or ' '}" if arguments else ""
    template, holes = _escaped(f"{function}{before}{first}{between}"), list[tuple[str, ast.expr]]()
    for index, argument in enumerate(arguments):
        value = argument.value if isinstance(argument, ast.keyword) else argument
        place = _with_parentheses(module, at_, value, end)
        name = f"{names[index]}=" if names and not isinstance(argument, ast.keyword) else ""
        template += f"{_escaped(module.between(at_, place[0]))}{name}{{a{index}}}"
        holes.append((f"a{index}", value))
        at_ = place[1]
    template += _escaped(module.between(at_, end))
    # An edit indents its lines as the block is in which it stands.
    lines = re.sub(rf"(\n){indented}", r"\1", template)
    return Replace(module, call, lines, tuple(holes), comments_go_along=True)


def _indentation(module: Module, node: ast.expr) -> str:
    """By what the block is indented in which an expression stands."""
    line = module.lines[module.statement(node).lineno - 1]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _with_parentheses(module: Module, start: int, value: ast.expr, end: int) -> tuple[int, int]:
    """From where to where an argument stands, with parentheses of its own, which go along with it.

    Args:
        module: The module.
        start: Where what stands before the argument begins.
        value: The argument.
        end: Where the call ends.
    """
    first, last = module.span(value)
    left = _LEFT.search(module.between(start, first))
    right = _RIGHT.match(module.between(last, end - 1))
    if left is None or right is None or left[0].count("(") != right[0].count(")"):
        return first, last
    return first - len(left[0].encode()), last + len(right[0].encode())


def imported_from(module: Module, start: ast.Import | ast.ImportFrom, renamed: dict[str, str]) -> Edit | Reason:
    """``from a.b import c, d`` → ``from a.x import c, d``, ``import a.b as c`` → ``import a.x as c``.

    Where some of its names have to stay, they do, in a statement of their own before the new one.

    Args:
        module: The module.
        start: The statement.
        renamed: The dotted names of what it imports and what they become; the last part of both is the same, but for
            that of a package.
    """
    code = module.code(start)
    if isinstance(start, ast.Import):
        for old, new in renamed.items():
            code = re.sub(rf"\b{re.escape(old)}(?=\s+as\b)", new, code)
        return Replace(module, start, _escaped(code))
    source = start.module or ""
    moved = {alias: renamed[f"{source}.{alias.name}"] for alias in start.names if f"{source}.{alias.name}" in renamed}
    package = next(iter(moved.values())).rpartition(".")[0]
    if len(moved) == len(start.names):
        return Replace(module, start, _escaped(re.sub(rf"^from\s+{re.escape(source)}\b", f"from {package}", code)))
    if start.lineno != start.end_lineno:
        text = f"the import in {HERE} brings other names, too, which stay where they are:"
        return Reason("not-editable", text, (at(module, start),), "import them in a statement of their own")
    stays = ", ".join(ast.unparse(alias) for alias in start.names if alias not in moved)
    goes = ", ".join(ast.unparse(alias) for alias in moved)
    return Replace(module, start, _escaped(f"from {source} import {stays}\nfrom {package} import {goes}"))


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
