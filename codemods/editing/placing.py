"""Where edits may stand: problems seen on the syntax tree alone, and conflicts between edits.

The contract with ``apply.py``: what ``problem`` lets pass, and ``Accepted`` accepts, is carried out there.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.placement import is_free_for
from codemods.editing.values import (
    AddArgument,
    AddItem,
    AddParameter,
    Decorate,
    Edit,
    Import,
    Insert,
    Remove,
    RemoveArgument,
    Replace,
    Surround,
    Unwrap,
    Wrap,
)
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codemods.dataflow.source import FunctionNode, Module

Span: TypeAlias = "tuple[int, int]"
Place: TypeAlias = 'tuple[Literal["before", "after"], ast.stmt] | None'

# LibCST loses a form feed that stands in a line's indentation.
_FORM_FEED_BEFORE_CODE = re.compile(r"\f[ \t\f]*[^ \t\f\r\n]")
_REST_OF_LINE = re.compile(r"[ \t\f]*(;[ \t\f]*)?(#.*)?")
_COMMENT = re.compile(r"#[^\r\n]*")
_LINE_BREAK = re.compile(r"[ \t\f]*[\r\n]")
_DECORATED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ON_ITS_OWN = "put the statement on lines of its own"
_OVERLAPPING = "overlapping-change"
# ``TemplateStr`` came with Python 3.14.
_FORMATTED = (ast.JoinedStr, *([ast.TemplateStr] if hasattr(ast, "TemplateStr") else []))


# --- problems of one edit -------------------------------------------------------------------------------------------


def problem(edit: Edit) -> Reason | None:  # noqa: C901 - one case for each kind of edit
    """Why this edit cannot be carried out at its place, or None where it can."""
    if "\f" in edit.module.text and _FORM_FEED_BEFORE_CODE.search(edit.module.text):
        return Reason("not-editable", "a form feed stands before code in this file")
    match edit:
        case AddArgument():
            return _no_argument(edit)
        case RemoveArgument(module, call, argument):
            if not (any(argument is each for each in call.keywords) or call.args[-1:] == [argument]):
                return Reason("not-editable", "the argument is not the call's, or not its last positional one")
            return _no_expression(module, call)
        case AddItem(module, dictionary, key):
            if any(isinstance(each, ast.Constant) and each.value == key for each in dictionary.keys):
                return Reason("not-editable", f"the dictionary already has {key}")
            return _no_expression(module, dictionary)
        case AddParameter():
            return _no_parameter(edit)
        case Replace(module, node):
            here = _no_statement(module, node) if isinstance(node, ast.stmt) else _no_expression(module, node)
            return here or _no_template(edit)
        case Surround(module, node):
            if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                return Reason("not-editable", "the expression is assigned to")
            parent = module.parent(node)
            if isinstance(parent, ast.stmt) and _is_docstring(module, parent):
                return Reason("not-editable", "a docstring would be none any more")
            return _no_expression(module, node) or _bare_generator(module, node)
        case Insert(module, anchor, _, where):
            return _no_statement(module, anchor) or _too_early(module, anchor, where)
        case Wrap():
            return _no_wrap(edit)
        case Unwrap(module, statement):
            return _no_unwrap(module, statement)
        case Remove(module, statement):
            return _no_statement(module, statement)
        case Decorate(module, function):
            return _no_start(module, function)
        case Import():
            return None


def _no_argument(edit: AddArgument) -> Reason | None:
    if any(keyword.arg == edit.name for keyword in edit.call.keywords):
        return Reason("not-editable", f"the call already passes {edit.name}")
    only = edit.call.args[0] if edit.call.args else None
    return _no_expression(edit.module, edit.call) or (_bare_generator(edit.module, only) if only else None)


def _no_parameter(edit: AddParameter) -> Reason | None:
    arguments = edit.function.args
    named = (*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg)
    if any(argument.arg == edit.name for argument in named if argument is not None):
        return Reason("not-editable", f"the function already has a parameter {edit.name}")
    return None


def _no_expression(module: Module, node: ast.expr) -> Reason | None:
    """Why LibCST has no node of its own for the expression that could be edited safely."""
    if isinstance(node, (ast.Slice, ast.Starred, ast.FormattedValue)):
        return Reason("not-editable", "the code is only a part of an expression")
    parent = module.parent(node)
    if isinstance(node, ast.Tuple) and isinstance(parent, ast.Subscript) and parent.slice is node:
        return Reason("not-editable", "the code is only a part of an expression")
    for above in module.ancestors(node):
        if isinstance(above, _FORMATTED):
            return Reason("not-editable", "the code stands in an f-string")
        if isinstance(above, ast.pattern):
            return Reason("not-editable", "the code is a pattern of a match statement")
        if isinstance(above, ast.stmt):
            break
    return None


def _no_template(edit: Replace) -> Reason | None:
    module, node = edit.module, edit.node
    for _, hole in edit.holes:
        if not _inside(module.span(hole), _whole(module, node)):
            return Reason("not-editable", "the template takes code from outside the replaced code")
        if (why := _no_expression(module, hole) or _bare_generator(module, hole)) is not None:
            return why
    if not isinstance(node, ast.expr):
        return None
    if _loses_comment(edit):
        return Reason("not-editable", "a comment inside the expression would be lost")
    return _bare_generator(module, node)


def _bare_generator(module: Module, node: ast.expr) -> Reason | None:
    """``f(x for x in y)``: the call's parentheses are the generator's."""
    parent = module.parent(node)
    if (
        isinstance(node, ast.GeneratorExp)
        and isinstance(parent, ast.Call)
        and node is not parent.func
        and module.span(node)[1] == module.span(parent)[1]
    ):
        return Reason("not-editable", "the call's only argument is a generator without parentheses of its own")
    return None


def _loses_comment(edit: Replace) -> bool:
    """Whether a comment stands in the replaced expression outside the holes."""
    code = edit.module.code(edit.node)
    if "#" not in code:
        return False
    start, _ = edit.module.span(edit.node)
    left = code.encode()
    for hole in sorted((edit.module.span(hole) for _, hole in edit.holes), reverse=True):
        left = left[: hole[0] - start] + b"_" + left[hole[1] - start :]
    tokens = tokenize.generate_tokens(io.StringIO(f"({left.decode()}\n)").readline)
    return any(token.type == tokenize.COMMENT for token in tokens)


def _no_statement(module: Module, statement: ast.stmt) -> Reason | None:
    """Why the statement has no whole lines of its own in a suite."""
    if (why := _no_start(module, statement)) is not None:
        return why
    last = _end_line(statement)
    end_line = module.lines[last - 1].encode()[statement.end_col_offset :].decode()
    if _REST_OF_LINE.fullmatch(end_line):
        return None
    # The next one may stand there behind a semicolon, or on a line that a backslash continues.
    return _shares_line(module, next((each for each in module.suite(statement) if each.lineno == last), statement))


def _shares_line(module: Module, node: ast.AST) -> Reason:
    return Reason("not-editable", f"{HERE} holds several statements", (at(module, node),), _ON_ITS_OWN)


def _no_start(module: Module, statement: ast.stmt) -> Reason | None:
    if isinstance(statement, ast.If) and module.code(statement).startswith("elif"):
        return Reason("not-editable", "an elif cannot be changed without its if")
    first = module.suite(statement)[0]
    if _before(module, first).rstrip().endswith(":"):
        return Reason("not-editable", "the suite is written on the header's line", remedy=_ON_ITS_OWN)
    line = _first_line(statement)
    if line > 1 and module.lines[line - 2].endswith("\\"):
        return Reason("not-editable", "the statement stands on a line that a backslash continues", remedy=_ON_ITS_OWN)
    if _before(module, statement).strip(" \t@"):
        return _shares_line(module, _first_node(statement))
    return None


def _too_early(module: Module, anchor: ast.stmt, where: Literal["before", "after"]) -> Reason | None:
    suite = module.suite(anchor)
    index = _index(suite, anchor)
    if where == "before" and index == 0 and _is_docstring(module, anchor):
        return Reason("not-editable", "nothing can stand before a docstring")
    if where == "before" and module.notebook and anchor is module.tree.body[0]:
        return Reason("not-editable", "nothing can stand above a notebook's first cell")
    if any(_is_future(each) for each in suite[index + (where == "after") :]):
        return Reason("not-editable", "nothing can stand before a __future__ import")
    return None


def _no_wrap(edit: Wrap) -> Reason | None:
    module, statements = edit.module, edit.statements
    suite = module.suite(statements[0])
    start = _index(suite, statements[0])
    if [id(each) for each in suite[start : start + len(statements)]] != [id(each) for each in statements]:
        return Reason("not-editable", "the statements are not neighbours in one suite")
    for statement in statements:
        if (why := _no_statement(module, statement)) is not None:
            return why
        if _is_future(statement):
            return Reason("not-editable", "nothing can stand before a __future__ import")
        if module.lines[statement.lineno - 1] in module.cell_lines:
            return Reason("not-editable", "its code stands in several cells of the notebook")
    return Reason("not-editable", "a docstring cannot be moved") if _is_docstring(module, statements[0]) else None


def _no_unwrap(module: Module, statement: ast.With | ast.If) -> Reason | None:
    if isinstance(statement, ast.If) and statement.orelse:
        return Reason("not-editable", "the if has an else")
    if _before(module, statement.body[0]).strip(" \t@"):
        return Reason("not-editable", "the suite is written on the header's line", remedy=_ON_ITS_OWN)
    return _no_statement(module, statement) or _no_start(module, statement.body[0])


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__" and statement.level == 0


def _is_docstring(module: Module, statement: ast.stmt) -> bool:
    owner = module.parent(statement)
    return (
        isinstance(owner, (ast.Module, *_DECORATED))
        and owner.body[0] is statement
        and isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _index(suite: Sequence[ast.stmt], statement: ast.stmt) -> int:
    return next(index for index, each in enumerate(suite) if each is statement)


def _before(module: Module, statement: ast.stmt) -> str:
    """The text on the statement's first line before it; a decorator's ``@`` belongs to it."""
    first = _first_node(statement)
    return module.lines[first.lineno - 1].encode()[: first.col_offset].decode()


def _first_node(statement: ast.stmt) -> ast.expr | ast.stmt:
    if isinstance(statement, _DECORATED) and statement.decorator_list:
        return statement.decorator_list[0]
    return statement


def _first_line(statement: ast.stmt) -> int:
    return _first_node(statement).lineno


def _end_line(node: ast.expr | ast.stmt | ast.keyword) -> int:
    return node.end_lineno or node.lineno


# --- where an import goes -------------------------------------------------------------------------------------------


def import_place(module: Module, code: str) -> Place:
    """Before or after which statement of the module the import goes; None where the module has no statement.

    It goes after the first top-level imports of the same package (a script may set environment variables before it
    imports torch), else after the first imports of all, else after the docstring and the ``__future__`` imports.
    """
    body = module.tree.body
    wanted = _packages(ast.parse(code).body[0])
    runs = (
        [index for index, each in enumerate(body) if _packages(each) & wanted],
        [index for index, each in enumerate(body) if _packages(each)],
        [index for index, each in enumerate(body) if _is_future(each) or _is_docstring(module, each)],
    )
    for run in runs:
        if run:
            last = next(at for at, following in zip(run, [*run[1:], -1], strict=True) if following != at + 1)
            return "after", body[last]
    # A notebook's first statement is the line above its first cell.
    return ("after" if module.notebook else "before", body[0]) if body else None


def can_import(module: Module, name: str, node: ast.AST) -> bool:
    """Whether ``import name``, put beside the other imports, is what is read as ``name`` where the node stands.

    Args:
        module: The module.
        name: Of a top-level package.
        node: An expression or a statement of the module.
    """
    place = import_place(module, f"import {name}")
    holders = (node, *module.ancestors(node))
    top = [each for each in holders if isinstance(each, ast.stmt)][-1]
    functions = [each for each in holders if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
    local = frozenset().union(*(bound_names(each) | declared_outer(each) for each in functions))
    is_before = place is not None and place[1].lineno < top.lineno
    return is_before and name not in local and is_free_for(module, name, name)


def _packages(statement: ast.stmt) -> set[str]:
    """The top-level packages that an import statement names; a relative import names the package ``.``."""
    if isinstance(statement, ast.Import):
        return {alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.ImportFrom) and not _is_future(statement):
        return {"." if statement.level else (statement.module or "").partition(".")[0]}
    return set()


# --- which lines an edit changes ------------------------------------------------------------------------------------


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
            return _removed(module, call, argument)
        case Replace(module, node):
            if isinstance(node, ast.stmt):
                return _first_line(node), _last_line_with_comments(module, node)
            return node.lineno, _end_line(node)
        case Surround(_, node):
            return node.lineno, _end_line(node)
        case Insert(module, anchor, _, where):
            return _insertion(module, (where, anchor))
        case Wrap(module, statements):
            return _first_line(statements[0]), _last_line_with_comments(module, statements[-1])
        case Unwrap(module, statement) | Remove(module, statement):
            return _first_line(statement), _last_line_with_comments(module, statement)
        case Decorate(_, function):
            line = _end_line(function.decorator_list[-1]) + 1 if function.decorator_list else function.lineno
            return line, line - 1
        case Import(module, code):
            return _insertion(module, import_place(module, code))


def _insertion(module: Module, place: Place) -> tuple[int, int]:
    if place is None:
        line = len(module.lines) + (module.lines[-1] != "")
    else:
        where, anchor = place
        line = _first_line(anchor) if where == "before" else _last_line_with_comments(module, anchor) + 1
    return line, line - 1


def _last_line_with_comments(module: Module, statement: ast.stmt) -> int:
    """The statement's last line; comments and blanks below it, at its suite's indentation, are a part of it."""
    last = _end_line(statement)
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not isinstance(body, list) or _end_line(statement) == statement.lineno:
        return last
    child = next(each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt | ast.match_case))
    child = child.body[0] if isinstance(child, ast.match_case) else child
    indentation = _before(module, child).rstrip("@")
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
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: dict[ast.arg, ast.expr | None] = dict(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
    defaults |= zip(reversed(positional), reversed(arguments.defaults), strict=False)
    opening, end = module.span(function)
    spans: list[Span] = []

    def add(*parameters: ast.arg | None) -> None:
        spans.extend(
            (module.span(each)[0], module.span(defaults.get(each) or each)[1])
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


def _removed(module: Module, call: ast.Call, argument: ast.expr | ast.keyword) -> tuple[int, int]:
    """The argument's lines; those of its neighbours too where they come to stand on one line with what was there."""
    start, end = argument.lineno, _end_line(argument)
    arguments: list[ast.expr | ast.keyword] = sorted((*call.args, *call.keywords), key=module.span)
    index = next(at for at, each in enumerate(arguments) if each is argument)
    opening, closing = module.span(call.func)[1], module.span(call)[1] - 1
    if len(arguments) == 1:
        return module.line_of(opening), module.line_of(closing)
    if index == 0:
        first = _plain(module, opening, module.span(argument)[0]).partition("(")[2]
        return start, end if _LINE_BREAK.match(first) else max(end, arguments[1].lineno)
    if index == len(arguments) - 1:
        _, comma, rest = _plain(module, module.span(argument)[1], closing).partition(",")
        return (start if comma and _LINE_BREAK.match(rest) else _end_line(arguments[index - 1])), end
    return start, end


# --- conflicts between edits ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Footprint:
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
        if self.takes is None or not _inside(other.needs, self.takes):
            return False
        if self.needs == other.needs and (
            isinstance(other.edit, Insert) or (isinstance(self.edit, Replace) and isinstance(other.edit, Wrap))
        ):
            return False
        return not any(_inside(other.needs, kept) for kept in self.keeps)


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


def _conflict(one: _Footprint, other: _Footprint) -> Reason | None:
    if one.edit.module is not other.edit.module:
        return None
    here = (at(other.edit.module, other.node),)
    if one.takes_from(other) or other.takes_from(one):
        return Reason(_OVERLAPPING, f"it overlaps another change on {HERE}", here)
    match one.edit, other.edit:
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
        case RemoveArgument(_, _, argument):
            return _Footprint(edit, argument, module.span(argument), module.span(argument))
        case Replace(_, node, _, holes):
            span = _whole(module, node)
            first = _first_node(node) if isinstance(node, ast.stmt) else node
            return _Footprint(edit, first, span, span, tuple(module.span(hole) for _, hole in holes))
        case Remove(_, statement):
            span = _whole(module, statement)
            return _Footprint(edit, _first_node(statement), span, span)
        case Unwrap(_, statement):
            span = _whole(module, statement)
            return _Footprint(edit, _first_node(statement), span, (span[0], _whole(module, statement.body[0])[0]))
        case Insert(_, statement) | AddParameter(_, statement) | Decorate(_, statement):
            return _Footprint(edit, _first_node(statement), _whole(module, statement))
        case Wrap(_, statements):
            span = (_whole(module, statements[0])[0], module.span(statements[-1])[1])
            return _Footprint(edit, _first_node(statements[0]), span)
        case Import():
            return _Footprint(edit, module.tree, (-1, -1))


def _whole(module: Module, node: ast.expr | ast.stmt) -> Span:
    """The node's span, decorators included."""
    start, end = module.span(node)
    return (min(start, module.span(_first_node(node))[0]) if isinstance(node, ast.stmt) else start), end


def _inside(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
