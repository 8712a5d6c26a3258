"""Whether one edit can be carried out where it stands, as far as the syntax tree shows.

The contract with ``apply.py``: what ``problem`` lets pass, and ``Accepted`` accepts, is carried out there.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import TYPE_CHECKING, Literal

from codemods.dataflow.signatures import signature
from codemods.editing.imports import is_docstring, is_future
from codemods.editing.positions import REST_OF_LINE, before, end_line, first_line, first_node, index_in, inside, whole
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
    from codemods.dataflow.source import Module


# LibCST loses a form feed that stands in a line's indentation.
_FORM_FEED_BEFORE_CODE = re.compile(r"\f[ \t\f]*[^ \t\f\r\n]")
_ON_ITS_OWN = "put the statement on lines of its own"
# ``TemplateStr`` came with Python 3.14.
_FORMATTED = (ast.JoinedStr, *([ast.TemplateStr] if hasattr(ast, "TemplateStr") else []))


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
        case RemoveItem(module, display, item):
            if isinstance(item, ast.Starred) or not any(item is each for each in display.elts):
                return Reason("not-editable", "the code is no item of the list")
            return _no_expression(module, display)
        case AddParameter():
            return _no_parameter(edit)
        case Replace(module, node):
            here = _no_statement(module, node) if isinstance(node, ast.stmt) else _no_expression(module, node)
            return here or _no_template(edit)
        case Surround(module, node):
            if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                return Reason("not-editable", "the expression is assigned to")
            parent = module.parent(node)
            if isinstance(parent, ast.stmt) and is_docstring(module, parent):
                return Reason("not-editable", "a docstring would be none any more")
            return _no_expression(module, node) or _bare_generator(module, node)
        case Insert(module, anchor, _, where):
            return _no_statement(module, anchor) or _too_early(module, anchor, where)
        case AddElse(module, statement):
            if statement.orelse:
                return Reason("not-editable", f"{HERE} has an else already", (at(module, statement),))
            return _no_statement(module, statement) or _no_statement(module, statement.body[-1])
        case Wrap():
            return _no_wrap(edit)
        case Unwrap(module, statement):
            return _no_unwrap(module, statement)
        case Remove(module, statement):
            return _no_statement(module, statement)
        case Move(module, statement, anchor):
            here = _no_statement(module, statement) or _no_statement(module, anchor)
            return here or _too_early(module, anchor, "before")
        case Decorate(module, function) | Rename(module, function):
            return _no_start(module, function)
        case Import() | ImportName():
            return None


def _no_argument(edit: AddArgument) -> Reason | None:
    if any(keyword.arg == edit.name for keyword in edit.call.keywords):
        return Reason("not-editable", f"the call already passes {edit.name}")
    only = edit.call.args[0] if edit.call.args else None
    return _no_expression(edit.module, edit.call) or (_bare_generator(edit.module, only) if only else None)


def _no_parameter(edit: AddParameter) -> Reason | None:
    if edit.name in signature(edit.function).names:
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
        if not inside(module.span(hole), whole(module, node)):
            return Reason("not-editable", "the template takes code from outside the replaced code")
        if (why := _no_expression(module, hole) or _bare_generator(module, hole)) is not None:
            return why
    if not isinstance(node, ast.expr):
        return None
    if not edit.comments_go_along and _loses_comment(edit):
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
    last = end_line(statement)
    behind = module.lines[last - 1].encode()[statement.end_col_offset :].decode()
    if REST_OF_LINE.fullmatch(behind):
        return None
    # The next one may stand there behind a semicolon, or on a line that a backslash continues.
    return _shares_line(module, next((each for each in module.suite(statement) if each.lineno == last), statement))


def _shares_line(module: Module, node: ast.AST) -> Reason:
    return Reason("not-editable", f"several statements stand in {HERE}", (at(module, node),), _ON_ITS_OWN)


def _no_start(module: Module, statement: ast.stmt) -> Reason | None:
    if isinstance(statement, ast.If) and module.code(statement).startswith("elif"):
        return Reason("not-editable", "an elif cannot be changed without its if")
    first = module.suite(statement)[0]
    if before(module, first).rstrip().endswith(":"):
        return Reason("not-editable", "the suite is written on the header's line", remedy=_ON_ITS_OWN)
    line = first_line(statement)
    if line > 1 and module.lines[line - 2].endswith("\\"):
        return Reason("not-editable", "the statement stands on a line that a backslash continues", remedy=_ON_ITS_OWN)
    if before(module, statement).strip(" \t@"):
        return _shares_line(module, first_node(statement))
    return None


def _too_early(module: Module, anchor: ast.stmt, where: Literal["before", "after"]) -> Reason | None:
    suite = module.suite(anchor)
    index = index_in(suite, anchor)
    if where == "before" and index == 0 and is_docstring(module, anchor):
        return Reason("not-editable", "nothing can stand before a docstring")
    if where == "before" and module.notebook and anchor is module.tree.body[0]:
        return Reason("not-editable", "nothing can stand above a notebook's first cell")
    if any(is_future(each) for each in suite[index + (where == "after") :]):
        return Reason("not-editable", "nothing can stand before a __future__ import")
    return None


def _no_wrap(edit: Wrap) -> Reason | None:
    module, statements = edit.module, edit.statements
    suite = module.suite(statements[0])
    start = index_in(suite, statements[0])
    if [id(each) for each in suite[start : start + len(statements)]] != [id(each) for each in statements]:
        return Reason("not-editable", "the statements are not neighbours in one suite")
    for statement in statements:
        if (why := _no_statement(module, statement)) is not None:
            return why
        if is_future(statement):
            return Reason("not-editable", "nothing can stand before a __future__ import")
        if module.lines[statement.lineno - 1] in module.cell_lines:
            return Reason("not-editable", "its code stands in several cells of the notebook")
    return Reason("not-editable", "a docstring cannot be moved") if is_docstring(module, statements[0]) else None


def _no_unwrap(module: Module, statement: ast.With | ast.If) -> Reason | None:
    if isinstance(statement, ast.If) and statement.orelse:
        return Reason("not-editable", "the if has an else")
    if before(module, statement.body[0]).strip(" \t@"):
        return Reason("not-editable", "the suite is written on the header's line", remedy=_ON_ITS_OWN)
    return _no_statement(module, statement) or _no_start(module, statement.body[0])
