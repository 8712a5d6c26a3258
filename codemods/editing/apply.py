"""Carries edits out: the one place where a tree is changed, in one LibCST pass over a module."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from codemods.editing.expressions import (
    ATOMS,
    LOOSE,
    Fill,
    braced,
    is_roomy,
    parenthesized,
    value,
    with_placeholders,
    without_parentheses,
)
from codemods.editing.imports import import_place, joining
from codemods.editing.listed import (
    NOTHING,
    add_item,
    add_names,
    add_parameter,
    edit_call,
    item_break,
    place_in_order,
    quoted,
    without_items,
)
from codemods.editing.positions import leading
from codemods.editing.suites import (
    Around,
    Indented,
    Lines,
    Moved,
    Statement,
    Suite,
    bare,
    blank_lines_before,
    filled,
    fold,
    lines_of,
    with_less_space,
)
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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codemods.dataflow.source import Module


_Span: TypeAlias = "tuple[int, int]"
_LINE = "\n"
# In UTF-8, every byte of a letter outside ASCII is above 127.
_WORD_BYTE = re.compile(rb"[A-Za-z0-9_\x80-\xff]")


class NotEditableError(Exception):
    """LibCST cannot read the module, or not all of it, although Python can."""


def apply(module: Module, edits: Sequence[Edit]) -> str:
    """The module's text with all edits carried out; every byte outside the changes stays.

    Args:
        module: The module. Its text starts with no byte order mark.
        edits: Edits of this module that ``placing.problem`` lets pass and ``placing.Accepted`` accepted together.
            Equal edits count once. Arguments, inserted statements and imports come in this order; of two wraps of the
            same statements the later one is outside.

    Raises:
        NotEditableError: LibCST does not read the module as it stands.
    """
    if not edits:
        return module.text
    try:
        tree, spans = _read(module)
        return tree.visit(_Editor(module, tree, spans, tuple(dict.fromkeys(edits)))).code
    except cst.ParserSyntaxError as error:
        msg = f"{module.path}: LibCST cannot read the file or an edit of it: {error}"
        raise NotEditableError(msg) from error
    except RecursionError as error:
        msg = f"{module.path}: nested too deeply"
        raise NotEditableError(msg) from error


@lru_cache(maxsize=1)
def _read(module: Module) -> tuple[cst.Module, Mapping[cst.CSTNode, CodeSpan]]:
    """LibCST's tree, with the byte span of each node; kept for whoever carries out several changes, each by itself."""
    tree = cst.parse_module(module.text)
    if tree.code != module.text:
        msg = f"{module.path}: LibCST does not keep this file's text"
        raise NotEditableError(msg)
    spans = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(ByteSpanPositionProvider)
    return tree, spans


class _Editor(cst.CSTTransformer):
    """Finds the nodes of the edits by their byte spans and changes them on the way out of the tree."""

    def __init__(
        self, module: Module, tree: cst.Module, spans: Mapping[cst.CSTNode, CodeSpan], edits: Sequence[Edit]
    ) -> None:
        super().__init__()
        self.module = module
        self.encoded = module.text.encode()
        self.tree = tree
        self.indent = _indent(module) or tree.default_indent
        self.imports = [edit for edit in edits if isinstance(edit, Import)]
        self.names: dict[int, list[str]] = {}
        """By the offset of the import statement that they join."""
        self._import_names([edit for edit in edits if isinstance(edit, ImportName)])
        by_expression: dict[_Span, list[Edit]] = defaultdict(list)
        by_statement: dict[int, list[Edit]] = defaultdict(list)
        for edit in edits:
            match edit:
                case AddArgument(_, node) | RemoveArgument(_, node) | AddItem(_, node) | RemoveItem(_, node):
                    by_expression[module.span(node)].append(edit)
                case Surround(_, node):
                    by_expression[module.span(node)].append(edit)
                case Replace(_, ast.expr() as node):
                    by_expression[module.span(node)].append(edit)
                case AddParameter(_, node) | Decorate(_, node) | Insert(_, node) | Replace(_, ast.stmt() as node):
                    by_statement[module.span(node)[0]].append(edit)
                case AddElse(_, node) | Unwrap(_, node) | Remove(_, node) | Rename(_, node):
                    by_statement[module.span(node)[0]].append(edit)
                case Move(_, node, anchor):
                    by_statement[module.span(node)[0]].append(edit)
                    by_statement[module.span(anchor)[0]].append(edit)
                case Wrap(_, (node, *_)):
                    by_statement[module.span(node)[0]].append(edit)
            for _, hole in edit.holes if isinstance(edit, Replace) else ():
                by_expression.setdefault(module.span(hole), [])
        by_statement |= {start: [] for start in self.names if start not in by_statement}
        self._find(spans, by_expression, by_statement)
        self.filled: dict[_Span, cst.BaseExpression] = {}
        """What the expressions that stand in holes have become."""
        self.moved: dict[Move, Lines] = {}
        """The lines that go to before a statement around them, which is left after they are."""

    def _import_names(self, edits: Sequence[ImportName]) -> None:
        """Names of one package go together: into the statement that imports from it, or into a new one."""
        for package in dict.fromkeys(edit.package for edit in edits):
            names = sorted((edit.name for edit in edits if edit.package == package), key=place_in_order)
            statement = joining(self.module, package, names)
            if statement is None:
                self.imports.append(Import(self.module, f"from {package} import {', '.join(names)}"))
            else:
                self.names[self.module.span(statement)[0]] = names

    def _find(
        self,
        spans: Mapping[cst.CSTNode, CodeSpan],
        by_expression: dict[_Span, list[Edit]],
        by_statement: dict[int, list[Edit]],
    ) -> None:
        self.expressions: dict[cst.CSTNode, tuple[_Span, list[Edit]]] = {}
        self.statements: dict[cst.CSTNode, list[Edit]] = {}
        self.starts: dict[cst.CSTNode, int] = {}
        self.idle: set[cst.CSTNode] = set()
        """Statements without an edit inside, which need no visit."""
        busy = sorted([start for start, _ in by_expression] + list(by_statement))
        for node, span in spans.items():
            start, end = span.start, span.start + span.length
            if isinstance(node, cst.BaseExpression):
                if isinstance(node, (cst.Tuple, cst.GeneratorExp)) and node.lpar:
                    # In ast the innermost parentheses are a part of these.
                    start = spans[node.lpar[-1]].start
                    end = spans[node.rpar[0]].start + spans[node.rpar[0]].length
                if (start, end) in by_expression:
                    self.expressions[node] = ((start, end), by_expression[start, end])
            elif isinstance(node, cst.BaseStatement):
                self.starts[node] = start
                if start in by_statement:
                    self.statements[node] = by_statement[start]
                if not getattr(node, "decorators", ()) and not _any_within(busy, start, end):
                    self.idle.add(node)
        if len(self.expressions) != len(by_expression) or len(self.statements) != len(by_statement):
            msg = f"{self.module.path}: LibCST reads this file in another way than Python"
            raise NotEditableError(msg)

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.idle

    def on_leave(  # type: ignore[override]  # LibCST's own annotation leaves out what statements may become
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        if original_node in self.expressions:
            return self._expression(cast("cst.BaseExpression", original_node), updated_node)
        match updated_node:
            case cst.FunctionDef() if original_node in self.statements:
                return self._function(updated_node, self.statements[original_node])
            case cst.If() if original_node in self.statements:
                return self._with_else(updated_node, self.statements[original_node])
            case cst.SimpleStatementLine() if (
                original_node in self.statements and self.starts[original_node] in self.names
            ):
                return add_names(updated_node, self.names[self.starts[original_node]])
            case cst.SimpleStatementLine() if updated_node is not original_node:
                return with_less_space(updated_node, self._growth(original_node, updated_node))
            case cst.IndentedBlock():
                return self._block(cast("cst.IndentedBlock", original_node), updated_node)
            case cst.Module():
                return self._module(cast("cst.Module", original_node), updated_node)
        return updated_node

    # --- expressions ---

    def _expression(self, original: cst.BaseExpression, updated: cst.CSTNode) -> cst.BaseExpression:
        span, edits = self.expressions[original]
        node = cast("cst.BaseExpression", updated)
        if any(isinstance(edit, (AddArgument, RemoveArgument)) for edit in edits):
            moved, freed = self._moved_by(span[0]), self._freed_behind(span)
            node = edit_call(self.module, cast("cst.Call", node), edits, moved, freed)
        if any(isinstance(edit, RemoveItem) for edit in edits):
            node = without_items(cast("cst.List", node), [edit for edit in edits if isinstance(edit, RemoveItem)])
        for edit in edits:
            if isinstance(edit, AddItem):
                keys = [self.module.code(each) for each in edit.dictionary.keys if each is not None]
                gap = item_break(self.module, edit, self._moved_by(span[0]))
                node = add_item(cast("cst.Dict", node), quoted(edit.key, keys), value(edit.value), gap)
        for edit in edits:
            match edit:
                case Replace(_, ast.expr() as place, template, holes):
                    node = self._put(place, node, template, {name: self._hole(hole) for name, hole in holes})
                case Surround(_, place, before, after):
                    template = f"{braced(before)}{{it}}{braced(after)}"
                    node = self._put(place, node, template, {"it": without_parentheses(node)})
        self.filled[span] = node
        return node

    def _moved_by(self, offset: int) -> int:
        """By how many columns the code at a byte offset moves right."""
        wraps = (edit for edits in self.statements.values() for edit in edits if isinstance(edit, Wrap))
        spans = ((self.module.span(each.statements[0])[0], self.module.span(each.statements[-1])[1]) for each in wraps)
        return len(self.indent) * sum(start <= offset < end for start, end in spans)

    def _freed_behind(self, span: _Span) -> int:
        """How many columns go behind the code on its line, where a part of an expression takes the place of the whole.

        ``torch.ones(n).type_as(x)`` → ``torch.ones(n)``
        """
        freed = 0
        for edit in (each for _, edits in self.expressions.values() for each in edits if isinstance(each, Replace)):
            holes = [self.module.span(hole) for name, hole in edit.holes if edit.template == f"{{{name}}}"]
            end = self.module.span(edit.node)[1]
            for start, hole_end in holes:
                if start <= span[0] and span[1] <= hole_end:
                    behind = self.module.between(hole_end, end)
                    freed += len(behind) if "\n" not in self.module.between(span[1], end) else 0
        return freed

    def _hole(self, node: ast.expr) -> cst.BaseExpression:
        return self.filled[self.module.span(node)]

    def _put(
        self, place: ast.expr, old: cst.BaseExpression, template: str, holes: Mapping[str, cst.BaseExpression]
    ) -> cst.BaseExpression:
        """The filled template, with the parentheses it needs where the old expression stands."""
        # What is the hole alone needs parentheses as the place asks for them, and around several lines.
        new = next((node for name, node in holes.items() if template == f"{{{name}}}"), None)
        if new is None or "\n" in self.tree.code_for_node(new):
            new = cst.parse_expression(with_placeholders(template, holes))
            new = cast("cst.BaseExpression", new.visit(Fill(holes)))
        # The innermost parentheses of a tuple or a generator belong to the node itself.
        own = isinstance(old, (cst.Tuple, cst.GeneratorExp)) and bool(old.lpar)
        left, right = (old.lpar[:-1], old.rpar[1:]) if own else (old.lpar, old.rpar)
        parent = self.module.parent(place)
        if left:
            if isinstance(parent, ast.Attribute) and isinstance(new, ATOMS) and self._is_plain(place, left, right):
                return new
            return new.with_changes(lpar=[*left, *new.lpar], rpar=[*new.rpar, *right])
        fits = isinstance(new, ATOMS) or is_roomy(parent, place)
        if isinstance(new, LOOSE):
            fits = type(new) is type(old) and not own
        return new if new.lpar or (fits and not self._touches_a_word(place)) else parenthesized(new)

    def _is_plain(self, place: ast.expr, left: Sequence[cst.LeftParen], right: Sequence[cst.RightParen]) -> bool:
        """Whether ``(expression)`` may become ``atom``: ``(a + b).sum()`` → ``f(a + b).sum()``."""
        start, end = self.module.span(place)
        idle = len(left) == 1 and all(
            blank.deep_equals(NOTHING) for blank in (left[0].whitespace_after, right[0].whitespace_before)
        )
        return idle and "\n" not in self.module.between(start, end) and not self._is_word(start - 2)

    def _touches_a_word(self, place: ast.expr) -> bool:
        """``return[1]``, ``1if x else 2``: what stands there now needs no blank, a name would."""
        start, end = self.module.span(place)
        return self._is_word(start - 1) or self._is_word(end)

    def _is_word(self, offset: int) -> bool:
        return _WORD_BYTE.match(self.encoded, max(offset, 0)) is not None and offset >= 0

    # --- statements ---

    def _function(self, node: cst.FunctionDef, edits: Sequence[Edit]) -> cst.FunctionDef:
        for edit in edits:
            match edit:
                case AddParameter():
                    node = add_parameter(node, edit)
                case Decorate(_, _, decorator):
                    new = cst.Decorator(cst.parse_expression(decorator))
                    node = node.with_changes(decorators=[*node.decorators, new])
                case Rename(_, _, name):
                    node = node.with_changes(name=cst.Name(name))
        return node

    def _with_else(self, node: cst.If, edits: Sequence[Edit]) -> cst.If:
        added = [edit for edit in edits if isinstance(edit, AddElse)]
        if not added:
            return node
        like = cast("cst.IndentedBlock", node.body)
        lines = self._code("\n".join(dict.fromkeys(edit.code for edit in added)), indent=like.indent)
        block = filled(cst.IndentedBlock([], indent=like.indent), lines)
        test = added[0].test
        branch = cst.If(cst.parse_expression(test), block) if test else cst.Else(block)
        return node.with_changes(orelse=branch)

    def _growth(self, original: cst.CSTNode, updated: cst.SimpleStatementLine) -> int:
        """By how many columns the code of a line got wider."""
        old, new = (self.tree.code_for_node(part) for part in (bare(original), bare(updated)))
        return 0 if "\n" in old.strip() or "\n" in new.strip() else len(new) - len(old)

    def _block(self, original: cst.IndentedBlock, updated: cst.IndentedBlock) -> cst.IndentedBlock:
        if not any(statement in self.statements for statement in original.body):
            return updated
        # Of blocks that are indented otherwise than most, what is put into them follows them.
        indent = self.tree.default_indent if original.indent is None else original.indent
        suite = self._suite(original.body, cast("Sequence[Statement]", updated.body), indent)
        if not any(suite.parts) and not any(suite.slots.values()):
            suite.parts[-1] = [cst.SimpleStatementLine([cst.Pass()])]
        return filled(updated, [*suite.lines(), *updated.footer])

    def _module(self, original: cst.Module, updated: cst.Module) -> cst.Module:
        if not self.imports and not any(statement in self.statements for statement in original.body):
            return updated
        suite = self._suite(original.body, updated.body, self.indent)
        starts = [self.starts[statement] for statement in original.body]
        first: list[str] = []
        below_docstring: set[int] = set()
        for edit in self.imports:
            match import_place(self.module, edit.code):
                case ("after", anchor):
                    # Next to the statement, so that what is inserted after it can use the import.
                    index = bisect_right(starts, self.module.span(anchor)[0]) - 1
                    apart = isinstance(anchor, ast.Expr) and not self.module.notebook and index not in below_docstring
                    suite.parts[index] += self._code("\n" * apart + edit.code)
                    below_docstring.add(index)
                case _:
                    first.append(edit.code)
        top = self._code("\n".join(first) + "\n" * (1 + blank_lines_before(self.module))) if first else []
        statements, left = fold([*top, *suite.lines()])
        footer = [*left, *updated.footer]
        # A final newline is kept, or missing, as it was; a module without lines has none.
        newline = bool(statements or footer or updated.header) and (updated.has_trailing_newline or not original.body)
        return updated.with_changes(body=statements, footer=footer, has_trailing_newline=newline)

    def _suite(self, original: Sequence[cst.CSTNode], updated: Sequence[Statement], indent: str) -> Suite:
        suite = Suite(updated, indent, self.tree.default_indent)
        at_start = {self.starts[node]: index for index, node in enumerate(original)}
        apart: set[tuple[int, str, bool]] = set()
        for index, node in enumerate(original):
            for edit in _sharing_tests(sorted(self.statements.get(node, ()), key=_place_in_suite)):
                match edit:
                    case Insert(_, _, code, where, outside):
                        # Of several that an empty line sets apart from the statement, the first one has it.
                        slot, is_apart = (index, where, outside), code.startswith("\n")
                        suite.slots[slot] += self._code(code[slot in apart and is_apart :], indent=indent)
                        apart |= {slot} if is_apart else set()
                    case Wrap(module, statements, header, takes_along):
                        last = at_start[module.span(statements[-1])[0]]
                        suite.wraps.insert(0, Around(index, last, header, takes_along))
                    case Remove(_, _, with_heading):
                        suite.remove(index, with_heading=with_heading)
                    case Move(module, statement) if self.starts[node] == module.span(statement)[0]:
                        self.moved[edit] = Moved(drop=indent).lines(suite.cut(index))
                    case Move():
                        suite.put_above(index, self.moved[edit])
                    case Unwrap():
                        suite.unwrap(index)
                    case Replace(_, _, template, holes):
                        filled = {name: self._hole(hole) for name, hole in holes}
                        suite.replace(index, self._code(with_placeholders(template, filled), filled, indent=indent))
        return suite

    def _code(
        self, code: str, holes: Mapping[str, cst.BaseExpression] | None = None, *, indent: str | None = None
    ) -> Lines:
        """The statements and comment lines of some code, in the file's own newlines."""
        lines = code.removesuffix("\n").replace("\n", self.tree.default_newline) + self.tree.default_newline
        # Blocks without an indentation of their own get that of the tree they come into, which may not be the file's.
        parsed = cst.parse_module(lines).visit(Indented(indent or self.indent))
        if holes:
            parsed = parsed.visit(Fill(holes))
        return Moved().lines([*parsed.header, *lines_of(parsed.body), *parsed.footer])


def _indent(module: Module) -> str:
    """The unit of indentation of most blocks; LibCST goes by the lines, and takes a visual indent for a block's."""
    units: Counter[str] = Counter()
    for node in module.nodes(ast.stmt):
        for block in (getattr(node, name, ()) for name in ("body", "orelse", "finalbody")):
            outer, inner = (leading(module, each) for each in (node, block[0])) if block else ("", "")
            if inner.startswith(outer) and len(inner) > len(outer):
                units[inner.removeprefix(outer)] += 1
    return units.most_common(1)[0][0] if units else ""


def _place_in_suite(edit: Edit) -> int:
    """What goes above a statement comes there in the order in which it stood below; all else as it was asked for."""
    return edit.module.span(edit.statement)[0] if isinstance(edit, Move) else -1


def _sharing_tests(edits: Sequence[Edit]) -> Sequence[Edit]:
    """The edits; of insertions that follow each other at one place, those under one test share its ``if``."""
    found: list[Edit] = []
    for edit in edits:
        last = found[-1] if found else None
        if isinstance(edit, Insert) and isinstance(last, Insert) and _is_one_test(last, edit):
            found[-1] = replace(last, code=f"{last.code}\n{edit.code.partition(_LINE)[2]}")
        else:
            found.append(edit)
    return found


def _is_one_test(one: Insert, other: Insert) -> bool:
    """Whether each is a single ``if`` without ``else``, at the same place and with the same test."""
    test, _, rest = one.code.partition(_LINE)
    is_place = (one.anchor, one.where, one.outside) == (other.anchor, other.where, other.outside)
    same, _, others = other.code.partition(_LINE)
    is_test = test.startswith("if ") and test.endswith(":") and test == same
    return is_place and is_test and all(each.startswith(" ") for part in (rest, others) for each in part.split(_LINE))


def _any_within(offsets: Sequence[int], start: int, end: int) -> bool:
    at = bisect_left(offsets, start)
    return at < len(offsets) and offsets[at] < end
