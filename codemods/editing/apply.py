"""Carries edits out: the one place where a tree is changed, in one LibCST pass over a module."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from codemods.editing.placing import import_place
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from libcst._nodes.whitespace import BaseParenthesizableWhitespace
    from typing_extensions import Self

    from codemods.dataflow.source import Module

_Span: TypeAlias = "tuple[int, int]"
_Statement: TypeAlias = "cst.SimpleStatementLine | cst.BaseCompoundStatement"
_Lines: TypeAlias = "list[cst.EmptyLine | _Statement]"
_Item = TypeVar("_Item", bound="_Listed")

_NOTHING = cst.SimpleWhitespace("")
_SPACE = cst.SimpleWhitespace(" ")
# In UTF-8, every byte of a letter outside ASCII is above 127.
_WORD_BYTE = re.compile(rb"[A-Za-z0-9_\x80-\xff]")
_CONTINUATION = re.compile(r"\\(?:\r\n|\r|\n)")

# What binds at least as tightly as a call, whatever stands around it.
_ATOMS = (
    cst.Attribute,
    cst.Call,
    cst.Dict,
    cst.DictComp,
    cst.Ellipsis,
    cst.FormattedString,
    cst.List,
    cst.ListComp,
    cst.Name,
    cst.Set,
    cst.SetComp,
    cst.SimpleString,
    cst.Subscript,
)
# What needs parentheses of its own wherever it is put.
_LOOSE = (cst.GeneratorExp, cst.NamedExpr, cst.Tuple, cst.Yield)
# Where any other expression may stand without parentheses.
_ROOMY = (
    ast.AnnAssign,
    ast.Assert,
    ast.Assign,
    ast.AugAssign,
    ast.Expr,
    ast.If,
    ast.List,
    ast.Raise,
    ast.Return,
    ast.Set,
    ast.Tuple,
    ast.While,
)


_BEFORE_COMMENT = "  "


class _Listed(Protocol):
    """An argument, a parameter or an item of a dictionary, with the comma after it."""

    @property
    def comma(self) -> cst.Comma | cst.MaybeSentinel: ...

    def with_changes(self, **changes: object) -> Self: ...


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
        tree = cst.parse_module(module.text)
        if tree.code != module.text:
            msg = f"{module.path}: LibCST does not keep this file's text"
            raise NotEditableError(msg)
        return tree.visit(_Editor(module, tree, tuple(dict.fromkeys(edits)))).code
    except cst.ParserSyntaxError as error:
        msg = f"{module.path}: LibCST cannot read the file or an edit of it: {error}"
        raise NotEditableError(msg) from error
    except RecursionError as error:
        msg = f"{module.path}: nested too deeply"
        raise NotEditableError(msg) from error


class _Editor(cst.CSTTransformer):
    """Finds the nodes of the edits by their byte spans and changes them on the way out of the tree."""

    def __init__(self, module: Module, tree: cst.Module, edits: Sequence[Edit]) -> None:
        super().__init__()
        self.module = module
        self.encoded = module.text.encode()
        self.tree = tree
        self.indent = _indent(module) or tree.default_indent
        self.imports = [edit for edit in edits if isinstance(edit, Import)]
        by_expression: dict[_Span, list[Edit]] = defaultdict(list)
        by_statement: dict[int, list[Edit]] = defaultdict(list)
        for edit in edits:
            match edit:
                case AddArgument(_, node) | RemoveArgument(_, node) | AddItem(_, node) | Surround(_, node):
                    by_expression[module.span(node)].append(edit)
                case Replace(_, ast.expr() as node):
                    by_expression[module.span(node)].append(edit)
                case AddParameter(_, node) | Decorate(_, node) | Insert(_, node) | Replace(_, ast.stmt() as node):
                    by_statement[module.span(node)[0]].append(edit)
                case Unwrap(_, node) | Remove(_, node):
                    by_statement[module.span(node)[0]].append(edit)
                case Wrap(_, (node, *_)):
                    by_statement[module.span(node)[0]].append(edit)
                case Import():
                    pass
            for _, hole in edit.holes if isinstance(edit, Replace) else ():
                by_expression.setdefault(module.span(hole), [])
        self._find(by_expression, by_statement)
        self.filled: dict[_Span, cst.BaseExpression] = {}
        """What the expressions that stand in holes have become."""

    def _find(self, by_expression: dict[_Span, list[Edit]], by_statement: dict[int, list[Edit]]) -> None:
        spans = MetadataWrapper(self.tree, unsafe_skip_copy=True).resolve(ByteSpanPositionProvider)
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
            case cst.SimpleStatementLine() if updated_node is not original_node:
                return _with_less_space(updated_node, self._growth(original_node, updated_node))
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
            node = _edit_call(self.module, cast("cst.Call", node), edits, self._moved_by(span[0]))
        for edit in edits:
            if isinstance(edit, AddItem):
                keys = [self.module.code(each) for each in edit.dictionary.keys if each is not None]
                node = _add_item(cast("cst.Dict", node), _quoted(edit.key, keys), _value(edit.value))
        for edit in edits:
            match edit:
                case Replace(_, ast.expr() as place, template, holes):
                    node = self._put(place, node, template, {name: self._hole(hole) for name, hole in holes})
                case Surround(_, place, before, after):
                    template = f"{_braced(before)}{{it}}{_braced(after)}"
                    node = self._put(place, node, template, {"it": _without_parentheses(node)})
        self.filled[span] = node
        return node

    def _moved_by(self, offset: int) -> int:
        """By how many columns the code at a byte offset moves right."""
        wraps = (edit for edits in self.statements.values() for edit in edits if isinstance(edit, Wrap))
        spans = ((self.module.span(each.statements[0])[0], self.module.span(each.statements[-1])[1]) for each in wraps)
        return len(self.indent) * sum(start <= offset < end for start, end in spans)

    def _hole(self, node: ast.expr) -> cst.BaseExpression:
        return self.filled[self.module.span(node)]

    def _put(
        self, place: ast.expr, old: cst.BaseExpression, template: str, holes: Mapping[str, cst.BaseExpression]
    ) -> cst.BaseExpression:
        """The filled template, with the parentheses it needs where the old expression stands."""
        new = cst.parse_expression(_with_placeholders(template, holes))
        new = cast("cst.BaseExpression", new.visit(_Fill(holes)))
        # The innermost parentheses of a tuple or a generator belong to the node itself.
        own = isinstance(old, (cst.Tuple, cst.GeneratorExp)) and bool(old.lpar)
        left, right = (old.lpar[:-1], old.rpar[1:]) if own else (old.lpar, old.rpar)
        parent = self.module.parent(place)
        if left:
            if isinstance(parent, ast.Attribute) and isinstance(new, _ATOMS) and self._is_plain(place, left, right):
                return new
            return new.with_changes(lpar=[*left, *new.lpar], rpar=[*new.rpar, *right])
        fits = isinstance(new, _ATOMS) or _is_roomy(parent, place)
        if isinstance(new, _LOOSE):
            fits = type(new) is type(old) and not own
        return new if new.lpar or (fits and not self._touches_a_word(place)) else _parenthesized(new)

    def _is_plain(self, place: ast.expr, left: Sequence[cst.LeftParen], right: Sequence[cst.RightParen]) -> bool:
        """Whether ``(expression)`` may become ``atom``: ``(a + b).sum()`` → ``f(a + b).sum()``."""
        start, end = self.module.span(place)
        idle = len(left) == 1 and all(
            blank.deep_equals(_NOTHING) for blank in (left[0].whitespace_after, right[0].whitespace_before)
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
                case AddParameter(_, _, name, default):
                    node = _add_parameter(node, name, default)
                case Decorate(_, _, decorator):
                    new = cst.Decorator(cst.parse_expression(decorator))
                    node = node.with_changes(decorators=[*node.decorators, new])
        return node

    def _growth(self, original: cst.CSTNode, updated: cst.SimpleStatementLine) -> int:
        """By how many columns the code of a line got wider."""
        old, new = (self.tree.code_for_node(part) for part in (_bare(original), _bare(updated)))
        return 0 if "\n" in old.strip() or "\n" in new.strip() else len(new) - len(old)

    def _block(self, original: cst.IndentedBlock, updated: cst.IndentedBlock) -> cst.IndentedBlock:
        if not any(statement in self.statements for statement in original.body):
            return updated
        # Of blocks that are indented otherwise than most, what is put into them follows them.
        indent = self.tree.default_indent if original.indent is None else original.indent
        suite = self._suite(original.body, cast("Sequence[_Statement]", updated.body), indent)
        if not any(suite.parts) and not any(suite.slots.values()):
            suite.parts[-1] = [cst.SimpleStatementLine([cst.Pass()])]
        return _filled(updated, [*suite.lines(), *updated.footer])

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
        top = self._code("\n".join(first) + "\n" * (1 + _blank_lines_before(self.module))) if first else []
        statements, left = _fold([*top, *suite.lines()])
        footer = [*left, *updated.footer]
        # A final newline is kept, or missing, as it was; a module without lines has none.
        newline = bool(statements or footer or updated.header) and (updated.has_trailing_newline or not original.body)
        return updated.with_changes(body=statements, footer=footer, has_trailing_newline=newline)

    def _suite(self, original: Sequence[cst.CSTNode], updated: Sequence[_Statement], indent: str) -> _Suite:
        suite = _Suite(updated, indent, self.tree.default_indent)
        at_start = {self.starts[node]: index for index, node in enumerate(original)}
        for index, node in enumerate(original):
            for edit in self.statements.get(node, ()):
                match edit:
                    case Insert(_, _, code, where, outside):
                        suite.slots[index, where, outside] += self._code(code, indent=indent)
                    case Wrap(module, statements, header, takes_along):
                        last = at_start[module.span(statements[-1])[0]]
                        suite.wraps.insert(0, _Around(index, last, header, takes_along))
                    case Remove():
                        suite.parts[index] = []
                    case Unwrap():
                        suite.unwrap(index)
                    case Replace(_, _, template, holes):
                        filled = {name: self._hole(hole) for name, hole in holes}
                        suite.replace(index, self._code(_with_placeholders(template, filled), filled, indent=indent))
        return suite

    def _code(
        self, code: str, holes: Mapping[str, cst.BaseExpression] | None = None, *, indent: str | None = None
    ) -> _Lines:
        """The statements and comment lines of some code, in the file's own newlines."""
        lines = code.removesuffix("\n").replace("\n", self.tree.default_newline) + self.tree.default_newline
        # Blocks without an indentation of their own get that of the tree they come into, which may not be the file's.
        parsed = cst.parse_module(lines).visit(_Indented(indent or self.indent))
        if holes:
            parsed = parsed.visit(_Fill(holes))
        return _Moved().lines([*parsed.header, *_lines_of(parsed.body), *parsed.footer])


def _indent(module: Module) -> str:
    """The unit of indentation of most blocks; LibCST goes by the lines, and takes a visual indent for a block's."""
    units: Counter[str] = Counter()
    for node in module.nodes(ast.stmt):
        for block in (getattr(node, name, ()) for name in ("body", "orelse", "finalbody")):
            outer, inner = (_leading(module, each) for each in (node, block[0])) if block else ("", "")
            if inner.startswith(outer) and len(inner) > len(outer):
                units[inner.removeprefix(outer)] += 1
    return units.most_common(1)[0][0] if units else ""


def _leading(module: Module, node: ast.stmt) -> str:
    """The blanks before a statement that is the first in its line."""
    line = module.lines[node.lineno - 1]
    return line[: len(line) - len(line.lstrip())]


def _any_within(offsets: Sequence[int], start: int, end: int) -> bool:
    at = bisect_left(offsets, start)
    return at < len(offsets) and offsets[at] < end


# --- suites ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Around:
    """A wrap, by the indices of its first and last statement."""

    first: int
    last: int
    header: str
    takes_along: bool


class _Suite:
    """The statements of one suite, and what goes before, after, around and in the place of each."""

    def __init__(self, statements: Sequence[_Statement], indent: str, default: str) -> None:
        self.indent = indent
        """The unit of indentation of what is put into it."""
        self.default = default
        """That of blocks that say nothing of theirs."""
        self.above = [list(statement.leading_lines) for statement in statements]
        self.parts: list[_Lines] = [[statement.with_changes(leading_lines=())] for statement in statements]
        self.slots: defaultdict[tuple[int, str, bool], _Lines] = defaultdict(list)
        """By the statement's index, ``before`` or ``after``, and outside or inside a wrap that starts or ends here."""
        self.wraps: list[_Around] = []
        """Of wraps of the same statements the first one is outside."""

    def unwrap(self, index: int) -> None:
        (statement,) = self.parts[index]
        block = cast("cst.IndentedBlock", cast("cst.With | cst.If", statement).body)
        lines: _Lines = [*_lines_of(cast("Sequence[_Statement]", block.body)), *block.footer]
        self.parts[index] = _Moved(drop=self.default if block.indent is None else block.indent).lines(lines)

    def replace(self, index: int, lines: _Lines) -> None:
        (old,) = self.parts[index]
        comment = old.trailing_whitespace if isinstance(old, cst.SimpleStatementLine) else None
        first = next(at for at, line in enumerate(lines) if not isinstance(line, cst.EmptyLine))
        if comment is not None and comment.comment is not None:
            new = lines[first]
            if isinstance(new, cst.SimpleStatementLine):
                lines[first] = new.with_changes(trailing_whitespace=comment)
            else:
                lines.insert(first, cst.EmptyLine(comment=comment.comment))
        self.parts[index] = lines

    def lines(self) -> _Lines:
        wraps = sorted(self.wraps, key=lambda wrap: wrap.first - wrap.last)
        return list(self._lines(0, len(self.parts) - 1, wraps))

    def _lines(self, first: int, last: int, wraps: Sequence[_Around]) -> Iterator[cst.EmptyLine | _Statement]:
        at = first
        while at <= last:
            wrap = next((each for each in wraps if each.first == at), None)
            takes_along = wrap is not None and wrap.takes_along
            inside = self._comments_next_to(at) if takes_along else []
            yield from self._once(self.above[at])
            if not takes_along:
                yield from self._once(self.slots[at, "before", True])
            self.above[at] = inside
            if wrap is None:
                yield from self.slots[at, "before", False]
                yield from self.parts[at]
                yield from self.slots[at, "after", False]
                yield from self._once(self.slots[at, "after", True])
                at += 1
            else:
                after = [] if takes_along else list(self._once(self.slots[wrap.last, "after", True]))
                lines = list(self._lines(at, wrap.last, wraps[wraps.index(wrap) + 1 :]))
                yield self._wrapped(wrap.header, lines if takes_along else _kept_in_column(lines, len(self.indent)))
                yield from after
                at = wrap.last + 1

    def _comments_next_to(self, index: int) -> list[cst.EmptyLine]:
        """Takes the comments off that stand above a statement with no blank line between."""
        above = self.above[index]
        start = next((at + 1 for at in reversed(range(len(above))) if above[at].comment is None), 0)
        comments = above[start:]
        del above[start:]
        return comments

    @staticmethod
    def _once(lines: list[cst.EmptyLine] | _Lines) -> Iterator[cst.EmptyLine | _Statement]:
        """The lines, which are gone then: an outer wrap takes them before an inner one asks."""
        taken = list(lines)
        lines.clear()
        yield from taken

    def _wrapped(self, header: str, lines: _Lines) -> _Statement:
        wrapper = cast("cst.BaseCompoundStatement", cst.parse_statement(f"{header}\n    pass\n"))
        block = cst.IndentedBlock(body=(), indent=self.indent)
        return wrapper.with_changes(body=_filled(block, _Moved(add=self.indent).lines(lines)))


def _bare(node: cst.CSTNode) -> cst.CSTNode:
    """The line without the comments above it and behind it."""
    return node.with_changes(leading_lines=(), trailing_whitespace=cst.TrailingWhitespace())


def _with_less_space(line: cst.SimpleStatementLine, columns: int) -> cst.SimpleStatementLine:
    """The line, with so much less space before its comment that this keeps its column, if there is enough."""
    behind = line.trailing_whitespace
    left = len(behind.whitespace.value) - columns
    if behind.comment is None or columns <= 0 or left < len(_BEFORE_COMMENT) or behind.whitespace.value.strip(" "):
        return line
    return line.with_changes(trailing_whitespace=behind.with_changes(whitespace=cst.SimpleWhitespace(" " * left)))


def _kept_in_column(lines: _Lines, columns: int) -> _Lines:
    """The lines that move right, with their comments in their column; all of them as they are if one cannot stay."""
    kept = [_with_less_space(line, columns) if isinstance(line, cst.SimpleStatementLine) else line for line in lines]
    commented = [
        (line, new)
        for line, new in zip(lines, kept, strict=True)
        if isinstance(line, cst.SimpleStatementLine) and line.trailing_whitespace.comment is not None
    ]
    return lines if any(line is new for line, new in commented) else kept


def _lines_of(statements: Sequence[_Statement]) -> _Lines:
    return [
        line
        for statement in statements
        for line in (*statement.leading_lines, statement.with_changes(leading_lines=()))
    ]


def _fold(lines: _Lines) -> tuple[list[_Statement], list[cst.EmptyLine]]:
    """Gives each statement the comments and blank lines above it; those below the last one are left."""
    statements: list[_Statement] = []
    above: list[cst.EmptyLine] = []
    for line in lines:
        if isinstance(line, cst.EmptyLine):
            above.append(line)
        else:
            statements.append(line.with_changes(leading_lines=[*above, *line.leading_lines]))
            above = []
    return statements, above


def _filled(block: cst.IndentedBlock, lines: _Lines) -> cst.IndentedBlock:
    """The block with these lines; a wrap whose statements are all removed holds a ``pass``."""
    statements, left = _fold(lines)
    if not statements:
        return block.with_changes(body=[cst.SimpleStatementLine([cst.Pass()], leading_lines=left)], footer=())
    return block.with_changes(body=statements, footer=left)


class _Indented(cst.CSTTransformer):
    """Gives new blocks their indentation."""

    def __init__(self, indent: str) -> None:
        super().__init__()
        self.indent = indent

    def leave_IndentedBlock(  # noqa: N802 - LibCST's name
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        del original_node
        return updated_node.with_changes(indent=self.indent)


class _Moved(cst.CSTTransformer):
    """Mends what LibCST does not re-indent where statements move to another level."""

    def __init__(self, add: str = "", drop: str = "") -> None:
        super().__init__()
        self.add = add
        self.pattern = re.compile(rf"({_CONTINUATION.pattern})(?:{re.escape(drop)})?")

    def leave_EmptyLine(  # noqa: N802 - LibCST's name
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine:
        """An empty line at module level counts as indented, by nothing: it would get blanks."""
        del original_node
        blank = updated_node.comment is None and not updated_node.whitespace.value
        return updated_node.with_changes(indent=False) if blank else updated_node

    def leave_SimpleWhitespace(  # noqa: N802 - LibCST's name
        self, original_node: cst.SimpleWhitespace, updated_node: cst.SimpleWhitespace
    ) -> cst.SimpleWhitespace:
        """A line that a backslash continues moves along with its statement."""
        del original_node
        if "\\" not in updated_node.value:
            return updated_node
        return updated_node.with_changes(value=self.pattern.sub(rf"\g<1>{self.add}", updated_node.value))

    def lines(self, lines: _Lines) -> _Lines:
        return [cast("cst.EmptyLine | _Statement", line.visit(self)) for line in lines]


# --- templates ------------------------------------------------------------------------------------------------------

_PLACEHOLDER = "_hole_of_torchfast_"


def _blank_lines_before(module: Module) -> int:
    """How many blank lines part the module's first imports, which are inserted above all else, from what follows."""
    first = module.tree.body[0] if module.tree.body else None
    if first is None or isinstance(first, (ast.Import, ast.ImportFrom, ast.Try)):
        return 0
    return 2 if isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else 1


def _with_placeholders(template: str, holes: Mapping[str, object]) -> str:
    return template.format_map({name: _PLACEHOLDER + name for name in holes})


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


class _Fill(cst.CSTTransformer):
    """Puts expressions in the place of the placeholders, with the parentheses they need there."""

    def __init__(self, holes: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.holes = {_PLACEHOLDER + name: node for name, node in holes.items()}
        self.bracketed: set[cst.CSTNode | None] = set()
        """Nodes of the template where a line may break and any expression may stand."""
        self.roomy: set[cst.CSTNode | None] = set()
        """Nodes of the template where any expression may stand."""

    def on_visit(self, node: cst.CSTNode) -> bool:
        match node:
            case cst.Arg(value=value, star="") | cst.Index(value=value):
                self.bracketed.add(value)
            case cst.Assign(value=value) | cst.AnnAssign(value=value) | cst.AugAssign(value=value):
                self.roomy.add(value)
            case cst.Return(value=value) | cst.Expr(value=value) | cst.Element(value=value):
                self.roomy.add(value)
            case cst.If(test=value) | cst.While(test=value):
                self.roomy.add(value)
        return True

    def leave_Name(  # noqa: N802 - LibCST's name
        self, original_node: cst.Name, updated_node: cst.Name
    ) -> cst.BaseExpression:
        node = self.holes.get(updated_node.value)
        if node is None:
            return updated_node
        if node.lpar or updated_node.lpar:
            return node.with_changes(lpar=[*updated_node.lpar, *node.lpar], rpar=[*node.rpar, *updated_node.rpar])
        if original_node in self.bracketed:
            return _parenthesized(node) if isinstance(node, _LOOSE) else node
        fits = isinstance(node, _ATOMS) or (original_node in self.roomy and not isinstance(node, _LOOSE))
        return node if fits and _stands_alone(node) else _parenthesized(node)


def _stands_alone(node: cst.BaseExpression) -> bool:
    """Whether the expression's lines hold together without parentheses around them."""
    code = cst.Module([]).code_for_node(node)
    if "\n" not in code:
        return True
    try:
        ast.parse(code, mode="eval")
    except SyntaxError:
        return False
    return True


def _is_roomy(parent: ast.AST | None, place: ast.expr) -> bool:
    """Whether any expression but the loosest may stand at the place without parentheses."""
    match parent:
        case ast.Call(func=part):
            return part is not place
        case ast.Subscript(slice=part):
            return part is place
        case ast.keyword(arg=name):
            return name is not None
        case ast.For(iter=part) | ast.AsyncFor(iter=part):
            return part is place
        case ast.Dict(keys=keys):
            return None not in keys
    return isinstance(parent, _ROOMY)


def _parenthesized(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()])


def _without_parentheses(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression as ast sees it: only tuples and generators own parentheses."""
    if isinstance(node, (cst.Tuple, cst.GeneratorExp)):
        return node.with_changes(lpar=node.lpar[-1:], rpar=node.rpar[:1])
    return node.with_changes(lpar=(), rpar=())


def _value(text: str) -> cst.BaseExpression:
    """An expression that is to stand between brackets; it may run over several lines."""
    node = cst.parse_expression(f"({text}\n)")
    node = node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[:-1])
    return _parenthesized(node) if isinstance(node, _LOOSE) and not node.lpar else node


# --- arguments, parameters, items -----------------------------------------------------------------------------------


def _edit_call(module: Module, call: cst.Call, edits: Sequence[Edit], moved: int) -> cst.Call:
    opening = call.whitespace_before_args
    arguments, tail = _without_tail(list(call.args), "whitespace_after_arg")
    for edit in edits:
        if isinstance(edit, RemoveArgument):
            nodes: list[ast.expr | ast.keyword] = sorted((*edit.call.args, *edit.call.keywords), key=module.span)
            original = [each for each in nodes if not _is_removed(each, edit, edits)]
            opening, tail = _remove(arguments, original.index(edit.argument), opening, tail)
    added = [edit for edit in edits if isinstance(edit, AddArgument)]
    gaps = _gaps(module, added, moved) if len(added) == len(edits) else [None] * len(added)
    for edit, gap in zip(added, gaps, strict=True):
        new = cst.Arg(
            keyword=cst.Name(edit.name),
            value=_value(edit.value),
            equal=cst.AssignEqual(whitespace_before=_NOTHING, whitespace_after=_NOTHING),
        )
        index = next((at for at, each in enumerate(arguments) if each.star == "**"), len(arguments))
        opening, tail = _add(arguments, index, new, opening, tail)
        if gap is not None and index:
            previous = arguments[index - 1]
            comma = cast("cst.Comma", previous.comma).with_changes(whitespace_after=gap)
            arguments[index - 1] = previous.with_changes(comma=comma)
    return call.with_changes(
        args=_with_tail(arguments, tail, "whitespace_after_arg"),
        whitespace_before_args=opening if arguments else _NOTHING,
    )


def _gaps(module: Module, added: Sequence[AddArgument], moved: int) -> list[BaseParenthesizableWhitespace | None]:
    """For each new argument what stands before it, where the line would get too wide; else None, as the call has it.

    Args:
        module: The module.
        added: The arguments, all of one call.
        moved: By how many columns the call moves right.
    """
    call = added[0].call
    present: list[ast.expr | ast.keyword] = sorted((*call.args, *call.keywords), key=module.span)
    texts = [f"{each.name}={each.value}" for each in added]
    last_row = module.line_of(module.span(present[-1])[1]) if present else 0
    last_line = module.lines[last_row - 1].rstrip()
    width = len(last_line) + moved
    # Of several calls side by side in a line none can be broken well: it stays one.
    holders = (call, *module.ancestors(call))
    beside = (each for each in module.nodes(ast.Call) if each.lineno == last_row and each not in holders)
    alone = all(call in module.ancestors(each) for each in beside)
    # Where each of the last arguments has a line, new ones get lines, too.
    rows = {each.lineno for each in present[-3:]}
    one_per_line = len(present) > 1 and len(rows) == len(present[-3:])
    fits = width + sum(len(f", {text}") for text in texts) <= module.widest
    if not present or not alone or one_per_line or fits or width > module.widest:
        return [None] * len(added)
    # New lines stand below the first argument of the last line that has one.
    first = next(each for each in present if each.lineno == present[-1].lineno)
    column, statement = module.column(first) - 1, module.statement(call)
    before = last_line[:column]
    indent = _leading(module, statement)
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


def _is_removed(argument: ast.expr | ast.keyword, edit: RemoveArgument, edits: Sequence[Edit]) -> bool:
    """Whether an edit that comes before this one removes the argument."""
    earlier = edits[: edits.index(edit)]
    return any(isinstance(each, RemoveArgument) and each.argument is argument for each in earlier)


def _add_parameter(node: cst.FunctionDef, name: str, default: str | None) -> cst.FunctionDef:
    old = node.params
    new = cst.Param(
        name=cst.Name(name),
        default=None if default is None else _value(default),
        equal=cst.MaybeSentinel.DEFAULT
        if default is None
        else cst.AssignEqual(whitespace_before=_NOTHING, whitespace_after=_NOTHING),
    )
    # Without a default it cannot follow one that has a default, unless it is passed by its name alone.
    by_name = default is None and any(each.default is not None for each in (*old.posonly_params, *old.params))
    slash = [old.posonly_ind] if isinstance(old.posonly_ind, cst.ParamSlash) else []
    star = [old.star_arg] if isinstance(old.star_arg, (cst.Param, cst.ParamStar)) else []
    last = [old.star_kwarg] if old.star_kwarg is not None else []
    before: list[cst.Param | cst.ParamSlash | cst.ParamStar] = [*old.posonly_params, *slash, *old.params]
    items, tail = _without_tail([*before, *star, *old.kwonly_params, *last], "whitespace_after_param")
    added: list[cst.Param | cst.ParamStar] = [cst.ParamStar(), new] if by_name and not star else [new]
    at, opening = len(before) + (len(star) + len(old.kwonly_params) if by_name else 0), node.whitespace_before_params
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
    return node.with_changes(params=changed, whitespace_before_params=opening)


def _add_item(node: cst.Dict, key: str, value: cst.BaseExpression) -> cst.Dict:
    items = list(node.elements)
    last = items[-1] if items else None
    dense = isinstance(last, cst.DictElement) and last.whitespace_after_colon.deep_equals(_NOTHING)
    new = cst.DictElement(key=cst.SimpleString(key), value=value, whitespace_after_colon=_NOTHING if dense else _SPACE)
    opening, tail = _add(items, len(items), new, node.lbrace.whitespace_after, node.rbrace.whitespace_before)
    return node.with_changes(
        elements=items,
        lbrace=node.lbrace.with_changes(whitespace_after=opening),
        rbrace=node.rbrace.with_changes(whitespace_before=tail),
    )


def _quoted(key: str, others: Sequence[str]) -> str:
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
        return (opening if _has_comment(opening) else _NOTHING), (tail if _has_comment(tail) else _NOTHING)
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
    items: list[cst.Arg], index: int, opening: BaseParenthesizableWhitespace, tail: BaseParenthesizableWhitespace
) -> tuple[BaseParenthesizableWhitespace, BaseParenthesizableWhitespace]:
    """Takes an item out, with the comment on its line; arguments and result as in ``_add``."""
    removed = items.pop(index)
    if not items:
        return opening, _NOTHING
    if index == len(items):
        last = items[-1]
        gap = cast("cst.Comma", last.comma).whitespace_after
        items[-1] = last.with_changes(comma=removed.comma)
        if _breaks(gap) and not _breaks(tail):
            return opening, gap.with_changes(last_line=_NOTHING) if _has_comment(gap) else tail
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
        return items, _NOTHING
    last = items[-1]
    if isinstance(last.comma, cst.Comma):
        tail = last.comma.whitespace_after
        return [*items[:-1], last.with_changes(comma=last.comma.with_changes(whitespace_after=_NOTHING))], tail
    name = "whitespace_after" if isinstance(last, cst.ParamSlash) else name
    return [*items[:-1], last.with_changes(**{name: _NOTHING})], getattr(last, name)


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
