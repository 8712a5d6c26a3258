"""Which lines an edit changes, and which edits conflict.

The contract with ``apply.py``: what ``problem`` lets pass, and ``Accepted`` accepts, is carried out there.
"""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.signatures import signature
from codemods.editing.imports import Place, import_place, joining
from codemods.editing.positions import Span, before, end_line, first_line, first_node, inside, whole
from codemods.editing.values import (
    AddArgument,
    AddElse,
    AddItem,
    AddParameter,
    Decorate,
    Edit,
    Import,
    ImportName,
    Insert,
    Move,
    Remove,
    RemoveArgument,
    RemoveItem,
    Rename,
    Replace,
    Surround,
    Unwrap,
    Wrap,
)
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codemods.dataflow.source import FunctionNode, Module


_COMMENT = re.compile(r"#[^\r\n]*")
_LINE_BREAK = re.compile(r"[ \t\f]*[\r\n]")
_OVERLAPPING = "overlapping-change"


def touched_lines(edit: Edit) -> tuple[int, int]:  # noqa: C901 - one case for each kind of edit
    """The first and the last line of the original that the edit changes, from 1.

    An insertion before line n, which changes no line, is ``(n, n - 1)``.
    """
    match edit:
        case AddArgument(module, call):
            arguments = sorted((*call.args, *call.keywords), key=module.span)
            spread = (at for at, each in enumerate(arguments) if isinstance(each, ast.keyword) and each.arg is None)
            opening, closing = module.span(call.func)[1], module.span(call)[1] - 1
            spans = [module.span(argument) for argument in arguments]
            return _added(module, spans, next(spread, len(arguments)), opening, closing)
        case AddItem(module, dictionary):
            start, end = module.span(dictionary)
            pairs = zip(dictionary.keys, dictionary.values, strict=True)
            spans = [(module.span(key or value)[0], module.span(value)[1]) for key, value in pairs]
            return _added(module, spans, len(spans), start, end - 1)
        case AddParameter(module, function):
            return _parameter_lines(module, function)
        case RemoveArgument(module, call, argument):
            return _removed_argument(module, call, argument)
        case RemoveItem(module, display, item):
            start, end = module.span(display)
            return _removed(module, display.elts, item, start, end - 1)
        case Replace(module, node):
            if isinstance(node, ast.stmt):
                return first_line(node), _last_line_with_comments(module, node)
            return node.lineno, end_line(node)
        case Surround(_, node):
            return node.lineno, end_line(node)
        case Insert(module, anchor, _, where):
            return _insertion(module, (where, anchor))
        case AddElse(module, statement):
            return _insertion(module, ("after", statement))
        case Wrap(module, statements):
            return first_line(statements[0]), _last_line_with_comments(module, statements[-1])
        case Unwrap(module, statement) | Remove(module, statement) | Move(module, statement):
            return first_line(statement), _last_line_with_comments(module, statement)
        case Decorate(_, function):
            line = end_line(function.decorator_list[-1]) + 1 if function.decorator_list else function.lineno
            return line, line - 1
        case Rename(_, function):
            return function.lineno, function.lineno
        case Import(module, code):
            return _insertion(module, import_place(module, code))
        case ImportName(module, package, name):
            joined = joining(module, package, [name])
            if joined is not None:
                return joined.lineno, end_line(joined)
            return _insertion(module, import_place(module, f"from {package} import {name}"))


def places(edit: Edit) -> list[tuple[int, int]]:
    """All places of the original that the edit changes, as ``touched_lines`` gives them: a move has two."""
    leaves = touched_lines(edit)
    if isinstance(edit, Move):
        return [leaves, _insertion(edit.module, ("before", edit.anchor))]
    return [leaves]


def _insertion(module: Module, place: Place) -> tuple[int, int]:
    if place is None:
        line = len(module.lines) + (module.lines[-1] != "")
    else:
        where, anchor = place
        line = first_line(anchor) if where == "before" else _last_line_with_comments(module, anchor) + 1
    return line, line - 1


def _last_line_with_comments(module: Module, statement: ast.stmt) -> int:
    """The statement's last line; comments and blanks below it, at its suite's indentation, are a part of it."""
    last = end_line(statement)
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not isinstance(body, list) or end_line(statement) == statement.lineno:
        return last
    child = next(each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt | ast.match_case))
    child = child.body[0] if isinstance(child, ast.match_case) else child
    indentation = before(module, child).rstrip("@")
    for number, line in enumerate(module.lines[last:], last + 1):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if line.startswith(indentation):
            last = number
    return last


def _added(module: Module, spans: Sequence[Span], index: int, opening: int, closing: int) -> tuple[int, int]:
    """The lines that change where an item is added at ``index`` to the items between two brackets.

    ``opening`` is an offset before the opening bracket, the first bracket that opens from there on; ``closing`` is
    the closing bracket's.
    """
    if not spans:
        return module.line_of(opening), module.line_of(closing)
    first = re.split(r"[(\[{]", _plain(module, opening, spans[0][0]), maxsplit=1)[-1]
    gaps = [_plain(module, one[1], next_[0]).partition(",")[2] for one, next_ in pairwise(spans)]
    one_per_line = all(map(_LINE_BREAK.match, gaps)) and bool(gaps or _LINE_BREAK.match(first))
    if index < len(spans):
        line = module.line_of(spans[index][0])
        pure = one_per_line and bool(_LINE_BREAK.match(gaps[index - 1] if index else first))
        return line, line - pure
    tail = _plain(module, spans[-1][1], closing)
    _, comma, rest = tail.partition(",")
    if one_per_line and comma and _LINE_BREAK.match(rest):
        return module.line_of(closing), module.line_of(closing) - 1
    line = module.line_of(spans[-1][1])
    return line, line


def _plain(module: Module, start: int, end: int) -> str:
    """The text between two offsets with its comments blanked out; no string stands there."""
    return _COMMENT.sub(lambda comment: " " * len(comment[0].encode()), module.between(start, end))


def _parameter_lines(module: Module, function: FunctionNode) -> tuple[int, int]:
    arguments = function.args
    defaults = signature(function).defaults
    opening, end = module.span(function)
    spans: list[Span] = []

    def add(*parameters: ast.arg | None) -> None:
        spans.extend(
            (module.span(each)[0], module.span(defaults.get(each.arg, each))[1])
            for each in parameters
            if each is not None
        )

    def offset(sign: str) -> int:
        after = spans[-1][1] if spans else opening
        return after + len(_plain(module, after, end).partition(sign)[0].encode())

    add(*arguments.posonlyargs)
    if arguments.posonlyargs:
        spans.append((offset("/"), offset("/") + 1))
    add(*arguments.args)
    index = len(spans)
    if arguments.vararg is None and arguments.kwonlyargs:
        spans.append((offset("*"), offset("*") + 1))
    add(arguments.vararg, *arguments.kwonlyargs, arguments.kwarg)
    return _added(module, spans, index, opening, offset(")"))


def _removed_argument(module: Module, call: ast.Call, argument: ast.expr | ast.keyword) -> tuple[int, int]:
    arguments: list[ast.expr | ast.keyword] = sorted((*call.args, *call.keywords), key=module.span)
    return _removed(module, arguments, argument, module.span(call.func)[1], module.span(call)[1] - 1)


def _removed(
    module: Module, items: Sequence[ast.expr | ast.keyword], item: ast.expr | ast.keyword, opening: int, closing: int
) -> tuple[int, int]:
    """The item's lines; those of its neighbours too where they come to stand on one line with what was there.

    ``opening`` and ``closing`` are as those of ``_added``.
    """
    start, end = item.lineno, end_line(item)
    index = next(at for at, each in enumerate(items) if each is item)
    if len(items) == 1:
        return module.line_of(opening), module.line_of(closing)
    if index == 0:
        first = re.split(r"[(\[]", _plain(module, opening, module.span(item)[0]), maxsplit=1)[-1]
        return start, end if _LINE_BREAK.match(first) else max(end, items[1].lineno)
    if index == len(items) - 1:
        _, comma, rest = _plain(module, module.span(item)[1], closing).partition(",")
        return (start if comma and _LINE_BREAK.match(rest) else end_line(items[index - 1])), end
    return start, end


class _Footprint(NamedTuple):
    """What an edit needs to find, and what it takes away, as byte spans of its module."""

    edit: Edit
    node: ast.AST
    """The node with which what it needs begins."""
    needs: Span
    takes: Span | None = None
    keeps: tuple[Span, ...] = ()
    """The parts of ``takes`` that survive, in the holes of a template."""

    def takes_from(self, other: _Footprint) -> bool:
        """Whether this edit takes away what the other one needs."""
        if self.takes is None or not inside(other.needs, self.takes):
            return False
        if self.needs == other.needs and (
            isinstance(other.edit, Insert) or (isinstance(self.edit, Replace) and isinstance(other.edit, Wrap))
        ):
            return False
        return not any(inside(other.needs, kept) for kept in self.keeps)


class Accepted:
    """The edits that are carried out together: what each finding asks for is taken as a whole or not at all."""

    def __init__(self) -> None:
        self._footprints: dict[Edit, _Footprint] = {}

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The accepted edits, in the order in which they came, each once."""
        return tuple(self._footprints)

    def add(self, transaction: Iterable[Edit]) -> Reason | None:
        """Accept all edits of one finding, or none and say why. Edits that are there already are shared."""
        new: dict[Edit, _Footprint] = {}
        for edit in transaction:
            if edit in self._footprints or edit in new:
                continue
            footprint = _footprint(edit)
            for other in (*self._footprints.values(), *new.values()):
                if (why := _conflict(footprint, other)) is not None:
                    return why
            new[edit] = footprint
        self._footprints |= new
        return None


def conflict(edits: Iterable[Edit], accepted: Iterable[Edit]) -> Reason | None:
    """Why these edits cannot be carried out together with the accepted ones, or with each other."""
    both = Accepted()
    return both.add(accepted) or both.add(edits)


def _conflict(one: _Footprint, other: _Footprint) -> Reason | None:  # noqa: C901 - one case for each pair of kinds
    if one.edit.module is not other.edit.module:
        return None
    here = (at(other.edit.module, other.node),)
    if one.takes_from(other) or other.takes_from(one):
        return Reason(_OVERLAPPING, f"it overlaps another change on {HERE}", here)
    match one.edit, other.edit:
        case AddElse(_, statement, _, test), AddElse(_, same, _, other_test):
            if statement is same and test != other_test:
                return Reason(_OVERLAPPING, f"another change adds another branch on {HERE}", here)
        case (AddElse(_, statement), Unwrap(_, same)) | (Unwrap(_, same), AddElse(_, statement)) if statement is same:
            return Reason(_OVERLAPPING, f"it overlaps another change on {HERE}", here)
        case Wrap() as wrap, Wrap() as round_:
            return Reason(_OVERLAPPING, f"it overlaps another change on {HERE}", here) if _cross(wrap, round_) else None
        case Surround(), Surround() if one.needs == other.needs:
            return Reason(_OVERLAPPING, f"another change surrounds the same expression on {HERE}", here)
        case AddArgument(_, call, name), AddArgument(_, same, other_name) if call is same and name == other_name:
            return Reason(_OVERLAPPING, f"another change passes another {name} on {HERE}", here)
        case AddItem(_, dictionary, key), AddItem(_, same, other_key) if dictionary is same and key == other_key:
            return Reason(_OVERLAPPING, f"another change gives {key} another value on {HERE}", here)
        case AddParameter(_, function, name), AddParameter(_, same, other_name):
            if function is same and name == other_name:
                return Reason(_OVERLAPPING, f"another change gives the function on {HERE} other parameters", here)
        case Rename(_, function), Rename(_, same) if function is same:
            return Reason(_OVERLAPPING, f"another change gives the function on {HERE} another name", here)
        case (AddArgument(_, call, name), RemoveArgument(_, same, argument)) | (
            RemoveArgument(_, same, argument),
            AddArgument(_, call, name),
        ) if call is same and isinstance(argument, ast.keyword) and argument.arg == name:
            return Reason(_OVERLAPPING, f"another change adds or removes {name} on {HERE}", here)
    return None


def _cross(one: Wrap, other: Wrap) -> bool:
    """Whether each of the two wraps holds a statement of the other's and one that is not."""
    ours, theirs = {id(each) for each in one.statements}, {id(each) for each in other.statements}
    return bool(ours & theirs) and not (ours <= theirs or theirs <= ours)


def _footprint(edit: Edit) -> _Footprint:
    module = edit.module
    match edit:
        case AddArgument(_, node) | AddItem(_, node) | Surround(_, node):
            return _Footprint(edit, node, module.span(node))
        case RemoveArgument(_, _, item) | RemoveItem(_, _, item):
            return _Footprint(edit, item, module.span(item), module.span(item))
        case Replace(_, node, _, holes):
            span = whole(module, node)
            first = first_node(node) if isinstance(node, ast.stmt) else node
            return _Footprint(edit, first, span, span, tuple(module.span(hole) for _, hole in holes))
        case Remove(_, statement) | Move(_, statement):
            span = whole(module, statement)
            return _Footprint(edit, first_node(statement), span, span)
        case Unwrap(_, statement):
            span = whole(module, statement)
            return _Footprint(edit, first_node(statement), span, (span[0], whole(module, statement.body[0])[0]))
        case Insert(_, statement) | AddElse(_, statement):
            return _Footprint(edit, first_node(statement), whole(module, statement))
        case AddParameter(_, statement) | Decorate(_, statement) | Rename(_, statement):
            return _Footprint(edit, first_node(statement), whole(module, statement))
        case Wrap(_, statements):
            span = (whole(module, statements[0])[0], module.span(statements[-1])[1])
            return _Footprint(edit, first_node(statements[0]), span)
        case Import() | ImportName():
            return _Footprint(edit, module.tree, (-1, -1))
