"""Arguments, parameters and items of dictionaries: added and removed with the commas and line breaks around them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import libcst as cst

from codemods.editing.docstrings import with_parameter
from codemods.editing.expressions import value
from codemods.editing.positions import leading
from codemods.editing.values import (
    AddArgument,
    Edit,
    RemoveArgument,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from libcst._nodes.whitespace import BaseParenthesizableWhitespace
    from typing_extensions import Self

    from codemods.dataflow.source import Module
    from codemods.editing.docstrings import Described
    from codemods.editing.values import AddItem, AddParameter, RemoveItem


_Item = TypeVar("_Item", bound="_Listed")
NOTHING = cst.SimpleWhitespace("")
_SPACE = cst.SimpleWhitespace(" ")


class _Listed(Protocol):
    """An argument, a parameter or an item of a dictionary, with the comma after it."""

    @property
    def comma(self) -> cst.Comma | cst.MaybeSentinel: ...

    def with_changes(self, **changes: object) -> Self: ...


def edit_call(module: Module, call: cst.Call, edits: Sequence[Edit], moved: int, freed: int) -> cst.Call:
    """The call with arguments added and removed.

    Args:
        module: The module.
        call: The call.
        edits: Its edits.
        moved: By how many columns its start has moved already.
        freed: How many columns other edits take away behind it, on its last line.
    """
    opening = call.whitespace_before_args
    arguments, tail = _without_tail(list(call.args), "whitespace_after_arg")
    for edit in edits:
        if isinstance(edit, RemoveArgument):
            nodes: list[ast.expr | ast.keyword] = sorted((*edit.call.args, *edit.call.keywords), key=module.span)
            original = [each for each in nodes if not _is_removed(each, edit, edits)]
            opening, tail = _remove(arguments, original.index(edit.argument), opening, tail)
    added = [edit for edit in edits if isinstance(edit, AddArgument)]
    removed = [edit.argument for edit in edits if isinstance(edit, RemoveArgument)]
    gaps = _gaps(module, added, removed, moved, freed) if added else []
    for edit, gap in zip(added, gaps, strict=True):
        new = cst.Arg(
            keyword=cst.Name(edit.name),
            value=value(edit.value),
            equal=cst.AssignEqual(whitespace_before=NOTHING, whitespace_after=NOTHING),
        )
        index = next((at for at, each in enumerate(arguments) if each.star == "**"), len(arguments))
        opening, tail = _add(arguments, index, new, opening, tail)
        if gap is not None and index:
            previous = arguments[index - 1]
            comma = cast("cst.Comma", previous.comma).with_changes(whitespace_after=gap)
            arguments[index - 1] = previous.with_changes(comma=comma)
    return call.with_changes(
        args=_with_tail(arguments, tail, "whitespace_after_arg"),
        whitespace_before_args=opening if arguments else NOTHING,
    )


def _gaps(
    module: Module, added: Sequence[AddArgument], removed: Sequence[ast.expr | ast.keyword], moved: int, freed: int
) -> list[BaseParenthesizableWhitespace | None]:
    """For each new argument what stands before it, where the line would get too wide; else None, as the call has it.

    Args:
        module: The module.
        added: The arguments, all of one call.
        removed: Those that the call loses.
        moved: By how many columns the call moves right.
        freed: How many columns are taken away behind it.
    """
    call = added[0].call
    present, lost = _left(module, call, removed)
    texts = [f"{each.name}={each.value}" for each in added]
    last_row = module.line_of(module.span(present[-1])[1]) if present else 0
    last_line = module.lines[last_row - 1].rstrip()
    width = len(last_line) + moved - lost - freed
    # Of several calls side by side in a line none can be broken well: it stays one.
    holders = (call, *module.ancestors(call))
    beside = (each for each in module.nodes(ast.Call) if each.lineno == last_row and each not in holders)
    alone = all(call in module.ancestors(each) for each in beside)
    one_per_line = _have_own_lines(present)
    fits = width + sum(len(f", {text}") for text in texts) <= module.widest
    if not present or not alone or one_per_line or fits or width > module.widest:
        return [None] * len(added)
    # New lines stand below the first argument of the last line that has one.
    first = next(each for each in present if each.lineno == present[-1].lineno)
    column, statement = module.column(first) - 1, module.statement(call)
    before = last_line[:column]
    indent = leading(module, statement)
    if first.lineno != last_row or "\t" in before or (before.strip() and first is not present[0]):
        return [None] * len(added)
    line_break = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(" " * (column - len(indent))))
    gaps: list[BaseParenthesizableWhitespace | None] = []
    at = width
    for text in texts:
        fits = bool(gaps) and at + len(f", {text}") <= module.widest
        gaps.append(_SPACE if fits else line_break)
        at = at + len(f", {text}") if fits else column + moved + len(text)
    return gaps


def columns(module: Module, added: AddArgument, removed: Sequence[ast.expr | ast.keyword]) -> int | None:
    """How wide the line is that an argument gets of its own; None where it joins one, within what that may have.

    Args:
        module: The module.
        added: The argument.
        removed: Those that the call loses.
    """
    present, lost = _left(module, added.call, removed)
    if not present:
        return None
    text, last = f"{added.name}={added.value}", present[-1]
    (gap,) = _gaps(module, [added], removed, 0, 0)
    if gap is not None or _have_own_lines(present):
        first = last if gap is None else next(each for each in present if each.lineno == last.lineno)
        return module.column(first) + len(text)
    joined = len(module.lines[module.line_of(module.span(last)[1]) - 1].rstrip()) - lost + len(f", {text}")
    return joined if joined > module.widest else None


def _left(
    module: Module, call: ast.Call, removed: Sequence[ast.expr | ast.keyword]
) -> tuple[list[ast.expr | ast.keyword], int]:
    """The arguments that a call keeps, in their order, and how many columns those take that its last line loses."""
    present: list[ast.expr | ast.keyword] = sorted((*call.args, *call.keywords), key=module.span)
    lost = sum(len(f", {module.code(each)}") for each in removed if each.lineno == present[-1].lineno)
    return [each for each in present if each not in removed], lost


def _have_own_lines(present: Sequence[ast.expr | ast.keyword]) -> bool:
    """Whether each of the last arguments has a line: then new ones get lines, too."""
    rows = {each.lineno for each in present[-3:]}
    return len(present) > 1 and len(rows) == len(present[-3:])


def _is_removed(argument: ast.expr | ast.keyword, edit: RemoveArgument, edits: Sequence[Edit]) -> bool:
    """Whether an edit that comes before this one removes the argument."""
    earlier = edits[: edits.index(edit)]
    return any(isinstance(each, RemoveArgument) and each.argument is argument for each in earlier)


def add_parameter(node: cst.FunctionDef, edit: AddParameter) -> cst.FunctionDef:
    """The function with one more parameter."""
    old, name, default = node.params, edit.name, edit.default
    new = cst.Param(
        name=cst.Name(name),
        default=None if default is None else value(default),
        equal=cst.MaybeSentinel.DEFAULT
        if default is None
        else cst.AssignEqual(whitespace_before=NOTHING, whitespace_after=NOTHING),
    )
    # Without a default it cannot follow one that has a default, unless it is passed by its name alone.
    follows_default = default is None and any(each.default is not None for each in (*old.posonly_params, *old.params))
    is_before = edit.before_defaults and all(each.default is None for each in old.posonly_params)
    by_name = follows_default and not is_before
    slash = [old.posonly_ind] if isinstance(old.posonly_ind, cst.ParamSlash) else []
    star = [old.star_arg] if isinstance(old.star_arg, (cst.Param, cst.ParamStar)) else []
    last = [old.star_kwarg] if old.star_kwarg is not None else []
    before: list[cst.Param | cst.ParamSlash | cst.ParamStar] = [*old.posonly_params, *slash, *old.params]
    items, tail = _without_tail([*before, *star, *old.kwonly_params, *last], "whitespace_after_param")
    added: list[cst.Param | cst.ParamStar] = [cst.ParamStar(), new] if by_name and not star else [new]
    at, opening = len(before) + (len(star) + len(old.kwonly_params) if by_name else 0), node.whitespace_before_params
    if follows_default and is_before:
        at -= sum(each.default is not None for each in old.params)
    following = next((each.name.value for each in items[at:] if isinstance(each, cst.Param)), None)
    for index, each in enumerate(added, at):
        opening, tail = _add(items, index, each, opening, tail)
    items = _with_tail(items, tail, "whitespace_after_param")
    take = iter(items)
    changed = old.with_changes(
        posonly_params=[next(take) for _ in old.posonly_params],
        posonly_ind=next(take) if slash else old.posonly_ind,
        params=[next(take) for _ in (*old.params, *([] if by_name else [new]))],
        star_arg=next(take) if star or by_name else old.star_arg,
        kwonly_params=[next(take) for _ in (*old.kwonly_params, *([new] if by_name else []))],
        star_kwarg=next(take, None),
    )
    node = node.with_changes(params=changed, whitespace_before_params=opening)
    return node if edit.described is None else _describe(node, edit.described, following)


def _describe(node: cst.FunctionDef, new: Described, following: str | None) -> cst.FunctionDef:
    """The function, whose docstring describes the new parameter where it describes others."""
    match node.body:
        case cst.IndentedBlock([cst.SimpleStatementLine([cst.Expr(cst.SimpleString(text) as string)]), *_]):
            changed = string.with_changes(value=with_parameter(text, new, following))
            return cast("cst.FunctionDef", node.deep_replace(string, changed))
    return node


def item_break(module: Module, edit: AddItem, moved: int) -> BaseParenthesizableWhitespace | None:
    """The line break before a new item of a dictionary in one line that would get too wide; else None.

    Args:
        module: The module.
        edit: What is added.
        moved: By how many columns the dictionary moves right.
    """
    dictionary = edit.dictionary
    first = next((key for key in dictionary.keys if key is not None), None)
    if first is None or dictionary.lineno != dictionary.end_lineno:
        return None
    line, column = module.lines[dictionary.lineno - 1].rstrip(), module.column(first) - 1
    width = len(line) + moved + len(f", {edit.key!r}: {edit.value}")
    if width <= module.widest or "\t" in line[:column]:
        return None
    indent = leading(module, module.statement(dictionary))
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(" " * (column - len(indent))))


def add_item(
    node: cst.Dict, key: str, value: cst.BaseExpression, gap: BaseParenthesizableWhitespace | None = None
) -> cst.Dict:
    """The dictionary with one more item, at its end; ``gap`` stands before it where it is not set like the others."""
    items = list(node.elements)
    last = items[-1] if items else None
    dense = isinstance(last, cst.DictElement) and last.whitespace_after_colon.deep_equals(NOTHING)
    new = cst.DictElement(key=cst.SimpleString(key), value=value, whitespace_after_colon=NOTHING if dense else _SPACE)
    opening, tail = _add(items, len(items), new, node.lbrace.whitespace_after, node.rbrace.whitespace_before)
    if gap is not None and last is not None:
        comma = cast("cst.Comma", items[-2].comma).with_changes(whitespace_after=gap)
        items[-2] = items[-2].with_changes(comma=comma)
    return node.with_changes(
        elements=items,
        lbrace=node.lbrace.with_changes(whitespace_after=opening),
        rbrace=node.rbrace.with_changes(whitespace_before=tail),
    )


def without_items(node: cst.List, edits: Sequence[RemoveItem]) -> cst.List:
    """The list without some of its items."""
    items, opening, tail = list(node.elements), node.lbracket.whitespace_after, node.rbracket.whitespace_before
    left = [id(each) for each in edits[0].display.elts]
    for edit in edits:
        index = left.index(id(edit.item))
        left.pop(index)
        opening, tail = _remove(items, index, opening, tail)
    return node.with_changes(
        elements=items,
        lbracket=node.lbracket.with_changes(whitespace_after=opening if items else NOTHING),
        rbracket=node.rbracket.with_changes(whitespace_before=tail),
    )


def place_in_order(name: str) -> tuple[bool, bool, str]:
    """Where a name stands among others that an import statement names: constants first, then classes, in each case."""
    return not name.isupper(), not name[:1].isupper(), name


def add_names(line: cst.SimpleStatementLine, names: Sequence[str]) -> cst.SimpleStatementLine:
    """``from package import a`` with further names: in their order, where those there are in order, at the end else."""
    (statement,) = line.body
    node = cast("cst.ImportFrom", statement)
    opening = node.lpar.whitespace_after if node.lpar is not None else NOTHING
    tail = node.rpar.whitespace_before if node.rpar is not None else NOTHING
    items: list[cst.ImportAlias] = list(cast("Sequence[cst.ImportAlias]", node.names))
    present = [str(each.name.value) for each in items]
    is_ordered = present == sorted(present, key=place_in_order)
    for name in names:
        if name in present:
            continue
        later = (at for at, each in enumerate(present) if place_in_order(each) > place_in_order(name))
        index = next(later, len(items)) if is_ordered else len(items)
        opening, tail = _add(items, index, cst.ImportAlias(name=cst.Name(name)), opening, tail)
        present.insert(index, name)
    lpar = None if node.lpar is None else node.lpar.with_changes(whitespace_after=opening)
    rpar = None if node.rpar is None else node.rpar.with_changes(whitespace_before=tail)
    return line.with_changes(body=[node.with_changes(names=items, lpar=lpar, rpar=rpar)])


def quoted(key: str, others: Sequence[str]) -> str:
    """The key as a string, in the quotes of the first other key that is a string."""
    quotes = next((code[0] for code in others if code[0] in "'\""), '"')
    return repr(key) if quotes == "'" or quotes in key else f'"{repr(key)[1:-1]}"'


def _add(
    items: list[_Item],
    index: int,
    new: _Item,
    opening: BaseParenthesizableWhitespace,
    tail: BaseParenthesizableWhitespace,
) -> tuple[BaseParenthesizableWhitespace, BaseParenthesizableWhitespace]:
    """Puts an item into a bracketed list in the list's own layout: on a line where the last two have lines.

    Args:
        items: The items there, each with its comma; the last one's comma, if any, is followed by ``tail``.
        index: Where the new item goes.
        new: The new item, without a comma.
        opening: What stands between the opening bracket and the first item.
        tail: What stands before the closing bracket.

    Returns:
        The new ``opening`` and ``tail``.
    """
    if not items:
        items.append(new)
        return (opening if _has_comment(opening) else NOTHING), (tail if _has_comment(tail) else NOTHING)
    gaps = [cast("cst.Comma", item.comma).whitespace_after for item in items[:-1]]
    all_own_lines = all(map(_breaks, gaps)) and (bool(gaps) or _breaks(opening))
    last_own_lines = len(gaps) > 1 and all(map(_breaks, gaps[-2:]))
    gap = _line_break((gaps or [opening])[-1]) if all_own_lines or last_own_lines else _SPACE
    if index < len(items):
        items.insert(index, new.with_changes(comma=cst.Comma(whitespace_after=gap)))
        return opening, tail
    last = items[-1]
    comma = last.comma
    if isinstance(gap, cst.ParenthesizedWhitespace) and isinstance(tail, cst.ParenthesizedWhitespace):
        # Comments between the last item and the bracket stay where they are, above the new line.
        gap, tail = tail.with_changes(indent=gap.indent, last_line=gap.last_line), _line_break(tail)
    trailing = comma if isinstance(comma, cst.Comma) else cst.Comma()
    items[-1] = last.with_changes(comma=trailing.with_changes(whitespace_after=gap))
    items.append(new.with_changes(comma=comma))
    return opening, tail


def _remove(
    items: list[_Item], index: int, opening: BaseParenthesizableWhitespace, tail: BaseParenthesizableWhitespace
) -> tuple[BaseParenthesizableWhitespace, BaseParenthesizableWhitespace]:
    """Takes an item out, with the comment on its line; arguments and result as in ``_add``."""
    removed = items.pop(index)
    if not items:
        return opening, NOTHING
    if index == len(items):
        last = items[-1]
        gap = cast("cst.Comma", last.comma).whitespace_after
        items[-1] = last.with_changes(comma=removed.comma)
        if _breaks(gap) and not _breaks(tail):
            return opening, gap.with_changes(last_line=NOTHING) if _has_comment(gap) else tail
        return opening, _merged(gap, tail)
    after = cast("cst.Comma", removed.comma).whitespace_after
    if index == 0:
        return (_merged(opening, after) if _breaks(opening) or _has_comment(after) else opening), tail
    previous = items[index - 1]
    comma = cast("cst.Comma", previous.comma)
    items[index - 1] = previous.with_changes(
        comma=comma.with_changes(whitespace_after=_merged(comma.whitespace_after, after))
    )
    return opening, tail


def _merged(
    before: BaseParenthesizableWhitespace, after: BaseParenthesizableWhitespace
) -> BaseParenthesizableWhitespace:
    """What is left of the whitespace on both sides of an item: the comment on the line above, all comment lines."""
    if isinstance(before, cst.ParenthesizedWhitespace) and isinstance(after, cst.ParenthesizedWhitespace):
        lines = [*before.empty_lines, *after.empty_lines]
        return after.with_changes(first_line=before.first_line, empty_lines=lines)
    return before if _breaks(before) else after


def _without_tail(items: list[_Item], name: str) -> tuple[list[_Item], BaseParenthesizableWhitespace]:
    """Takes the whitespace before the closing bracket off the last item, where LibCST keeps it."""
    if not items:
        return items, NOTHING
    last = items[-1]
    if isinstance(last.comma, cst.Comma):
        tail = last.comma.whitespace_after
        return [*items[:-1], last.with_changes(comma=last.comma.with_changes(whitespace_after=NOTHING))], tail
    name = "whitespace_after" if isinstance(last, cst.ParamSlash) else name
    return [*items[:-1], last.with_changes(**{name: NOTHING})], getattr(last, name)


def _with_tail(items: list[_Item], tail: BaseParenthesizableWhitespace, name: str) -> list[_Item]:
    if not items:
        return items
    last = items[-1]
    if isinstance(last.comma, cst.Comma):
        return [*items[:-1], last.with_changes(comma=last.comma.with_changes(whitespace_after=tail))]
    name = "whitespace_after" if isinstance(last, cst.ParamSlash) else name
    return [*items[:-1], last.with_changes(**{name: tail})]


def _breaks(whitespace: BaseParenthesizableWhitespace) -> bool:
    return isinstance(whitespace, cst.ParenthesizedWhitespace)


def _has_comment(whitespace: BaseParenthesizableWhitespace) -> bool:
    return isinstance(whitespace, cst.ParenthesizedWhitespace) and any(
        comment is not None
        for comment in (whitespace.first_line.comment, *(line.comment for line in whitespace.empty_lines))
    )


def _line_break(like: BaseParenthesizableWhitespace) -> cst.ParenthesizedWhitespace:
    """A line break to the same indentation, without comments and blank lines."""
    model = cast("cst.ParenthesizedWhitespace", like)
    return cst.ParenthesizedWhitespace(indent=model.indent, last_line=model.last_line)
