"""The statements of a block, as lines that may be wrapped, moved and removed with their comments."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.source import Module


Statement: TypeAlias = "cst.SimpleStatementLine | cst.BaseCompoundStatement"
Lines: TypeAlias = "list[cst.EmptyLine | Statement]"
_CONTINUATION = re.compile(r"\\(?:\r\n|\r|\n)")
_BEFORE_COMMENT = "  "
_TO_TOOLS = re.compile(
    r"#\s*(?:%%|In\s*\[|(?:end)?region\b|(?:noqa|noinspection|pragma|pylint|type)\b"
    r"|[a-z]+:\s*(?:off|on|skip|ignore|disable|enable|start|end|noqa|split)\b)"
)
"""Comments that switch tools on or off, or part the file for an editor: ``# fmt: off``, ``# region``, ``# %%``."""
_SIDES = [(where, outside) for where in ("before", "after") for outside in (True, False)]


@dataclass(frozen=True, slots=True)
class Around:
    """A wrap, by the indices of its first and last statement."""

    first: int
    last: int
    header: str
    takes_along: bool


class Suite:
    """The statements of one suite, and what goes before, after, around and in the place of each."""

    def __init__(self, statements: Sequence[Statement], indent: str, default: str) -> None:
        self.indent = indent
        """The unit of indentation of what is put into it."""
        self.default = default
        """That of blocks that say nothing of theirs."""
        self.above = [list(statement.leading_lines) for statement in statements]
        self.parts: list[Lines] = [[statement.with_changes(leading_lines=())] for statement in statements]
        self.slots: defaultdict[tuple[int, str, bool], Lines] = defaultdict(list)
        """By the statement's index, ``before`` or ``after``, and outside or inside a wrap that starts or ends here."""
        self.wraps: list[Around] = []
        """Of wraps of the same statements the first one is outside."""
        self.removed: list[int] = []
        self.headed: list[int] = []
        """Of these the statements whose comments above may go with them."""

    def unwrap(self, index: int) -> None:
        """Takes the block out of its header."""
        (statement,) = self.parts[index]
        block = cast("cst.IndentedBlock", cast("cst.With | cst.If", statement).body)
        lines: Lines = [*lines_of(cast("Sequence[Statement]", block.body)), *block.footer]
        self.parts[index] = Moved(drop=self.default if block.indent is None else block.indent).lines(lines)

    def remove(self, index: int, *, with_heading: bool = False) -> None:
        """Takes a statement out; the comments above it stay, or go where they head nothing else."""
        self.parts[index] = []
        self.removed.append(index)
        if with_heading:
            self.headed.append(index)

    def _drop_headings(self) -> None:
        """Takes out the comments that stand above nothing but removed statements, up to the next comment or gap."""
        for index in sorted(self.headed):
            below = index + 1
            while below in self.removed and not self.above[below]:
                below += 1
            heads_others = below < len(self.parts) and not self.above[below]
            is_put_there = any(self.slots[index, where, outside] for where, outside in _SIDES)
            speaks = any(line.comment is not None and _TO_TOOLS.match(line.comment.value) for line in self.above[index])
            if not (heads_others or is_put_there or speaks):
                self._comments_next_to(index)

    def _close_gaps(self) -> None:
        """Leaves no more blank lines where statements were removed than one of them had above it."""
        for index in sorted(self.removed):
            if index + 1 == len(self.parts) or any(self.slots[index, where, out] for where, out in _SIDES):
                continue
            above, below = self.above[index], self.above[index + 1]
            is_first = not above and not any(self.parts[:index])
            while below and below[0].comment is None and (is_first or (above and above[-1].comment is None)):
                del below[0]
            below[:0], self.above[index] = above, []

    def cut(self, index: int) -> Lines:
        """Takes a statement out, with the comments next to it, and leaves no gap where it stood."""
        lines: Lines = [*self._comments_next_to(index), *self.parts[index]]
        self.parts[index] = []
        below = self.above[index + 1] if index + 1 < len(self.above) else []
        while below and below[0].comment is None and self._is_gap_above(index):
            del below[0]
        return lines

    def _is_gap_above(self, index: int) -> bool:
        """Whether lines without statements stand above one that was taken out, or nothing does."""
        while not self.above[index] and index and not self.parts[index - 1]:
            index -= 1  # was taken out, too
        return bool(self.above[index]) or not any(self.parts[:index])

    def put_above(self, index: int, lines: Lines) -> None:
        """Puts lines above a statement and the comments next to it, below what was put there before."""
        self.slots[index, "before", False] += self._comments_next_to(index)
        self.slots[index, "before", True] += lines

    def replace(self, index: int, lines: Lines) -> None:
        """Puts lines in the place of a statement, with its comment."""
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

    def lines(self) -> Lines:
        """All lines of the suite, as they are now."""
        self._drop_headings()
        if not self.wraps:
            self._close_gaps()
        wraps = sorted(self.wraps, key=lambda wrap: wrap.first - wrap.last)
        return list(self._lines(0, len(self.parts) - 1, wraps))

    def _lines(self, first: int, last: int, wraps: Sequence[Around]) -> Iterator[cst.EmptyLine | Statement]:
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
    def _once(lines: list[cst.EmptyLine] | Lines) -> Iterator[cst.EmptyLine | Statement]:
        """The lines, which are gone then: an outer wrap takes them before an inner one asks."""
        taken = list(lines)
        lines.clear()
        yield from taken

    def _wrapped(self, header: str, lines: Lines) -> Statement:
        wrapper = cast("cst.BaseCompoundStatement", cst.parse_statement(f"{header}\n    pass\n"))
        block = cst.IndentedBlock(body=(), indent=self.indent)
        return wrapper.with_changes(body=filled(block, Moved(add=self.indent).lines(lines)))


def bare(node: cst.CSTNode) -> cst.CSTNode:
    """The line without the comments above it and behind it."""
    return node.with_changes(leading_lines=(), trailing_whitespace=cst.TrailingWhitespace())


def with_less_space(line: cst.SimpleStatementLine, columns: int) -> cst.SimpleStatementLine:
    """The line, with so much less space before its comment that this keeps its column, if there is enough."""
    behind = line.trailing_whitespace
    left = len(behind.whitespace.value) - columns
    if behind.comment is None or columns <= 0 or left < len(_BEFORE_COMMENT) or behind.whitespace.value.strip(" "):
        return line
    return line.with_changes(trailing_whitespace=behind.with_changes(whitespace=cst.SimpleWhitespace(" " * left)))


def _kept_in_column(lines: Lines, columns: int) -> Lines:
    """The lines that move right, with their comments in their column; all of them as they are if one cannot stay."""
    kept = [with_less_space(line, columns) if isinstance(line, cst.SimpleStatementLine) else line for line in lines]
    commented = [
        (line, new)
        for line, new in zip(lines, kept, strict=True)
        if isinstance(line, cst.SimpleStatementLine) and line.trailing_whitespace.comment is not None
    ]
    return lines if any(line is new for line, new in commented) else kept


def lines_of(statements: Sequence[Statement]) -> Lines:
    """The statements, each below the comments and blank lines above it."""
    return [
        line
        for statement in statements
        for line in (*statement.leading_lines, statement.with_changes(leading_lines=()))
    ]


def fold(lines: Lines) -> tuple[list[Statement], list[cst.EmptyLine]]:
    """Gives each statement the comments and blank lines above it; those below the last one are left."""
    statements: list[Statement] = []
    above: list[cst.EmptyLine] = []
    for line in lines:
        if isinstance(line, cst.EmptyLine):
            above.append(line)
        else:
            statements.append(line.with_changes(leading_lines=[*above, *line.leading_lines]))
            above = []
    return statements, above


def filled(block: cst.IndentedBlock, lines: Lines) -> cst.IndentedBlock:
    """The block with these lines; a wrap whose statements are all removed holds a ``pass``."""
    statements, left = fold(lines)
    if not statements:
        return block.with_changes(body=[cst.SimpleStatementLine([cst.Pass()], leading_lines=left)], footer=())
    return block.with_changes(body=statements, footer=left)


class Indented(cst.CSTTransformer):
    """Gives new blocks their indentation."""

    def __init__(self, indent: str) -> None:
        super().__init__()
        self.indent = indent

    def leave_IndentedBlock(  # noqa: N802 - LibCST's name
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        """Writes the indentation into a block that has none of its own."""
        del original_node
        return updated_node.with_changes(indent=self.indent)


class Moved(cst.CSTTransformer):
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

    def lines(self, lines: Lines) -> Lines:
        """The lines at their new indentation."""
        return [cast("cst.EmptyLine | Statement", line.visit(self)) for line in lines]


def blank_lines_before(module: Module) -> int:
    """How many blank lines part the module's first imports, which are inserted above all else, from what follows."""
    first = module.tree.body[0] if module.tree.body else None
    if first is None or isinstance(first, (ast.Import, ast.ImportFrom, ast.Try)):
        return 0
    return 2 if isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else 1
