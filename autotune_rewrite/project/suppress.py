"""Comments that leave a site or a file alone: ``# torchfast: ignore[rule] reason``, ``# torchfast: skip-file``."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune_rewrite.errors import FileError
from autotune_rewrite.suggestions import unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.dataflow.source import Module

_COMMENT = re.compile(r"#\s*torchfast:\s*(?P<word>[\w-]*)\s*(?:\[(?P<rules>[^\]]*)\])?\s*(?P<reason>.*)")


@dataclass(frozen=True, slots=True)
class Ignore:
    """One ``ignore`` comment: its line, the rules it names (none: all rules) and the reason given."""

    line: int
    rules: frozenset[str]
    reason: str

    def covers(self, rule: str) -> bool:
        """Whether the comment speaks of this rule."""
        return not self.rules or rule in self.rules


@dataclass(frozen=True, slots=True)
class Suppressions:
    """What the comments of one module say."""

    skip_file: bool = False
    ignores: tuple[Ignore, ...] = ()

    def ignore(self, module: Module, node: ast.AST, rule: str) -> Ignore | None:
        """The comment that leaves this node's statement alone, if there is one.

        Any line of the statement will do; of a compound statement, any line of its header.
        """
        if not self.ignores:
            return None
        first, last = _own_lines(module.statement(node))
        covering = (each for each in self.ignores if first <= each.line <= last and each.covers(rule))
        return next(covering, None)


def read(module: Module, rules: Collection[str]) -> Suppressions:
    """The torchfast comments of a module; ``rules`` are the names there are.

    Raises:
        FileError: where a comment names no such rule, or asks for no such thing.
    """
    # Most files have none, and tokenizing takes longer than parsing.
    if "torchfast:" not in module.text:
        return Suppressions()
    ignores = []
    skip_file = False
    for line, comment in _comments(module):
        found = _COMMENT.match(comment)
        if found is None:
            continue
        if found["word"] == "skip-file":
            skip_file = True
        elif found["word"] == "ignore":
            names = frozenset(name.strip() for name in (found["rules"] or "").split(",") if name.strip())
            for name in sorted(names - frozenset(rules)):
                raise FileError(module.path, unknown("rule", name, rules), line)
            ignores.append(Ignore(line, names, found["reason"].strip()))
        else:
            raise FileError(module.path, unknown("torchfast comment", found["word"], ("ignore", "skip-file")), line)
    return Suppressions(skip_file, tuple(ignores))


def _comments(module: Module) -> Iterator[tuple[int, str]]:
    """Line and text of every comment; a string that looks like one is none."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError) as error:
        # The module parses, but before Python 3.12 the tokenizer was another one than the parser's.
        raise FileError(module.path, f"the comments cannot be told from strings: {error}", 1) from error


def _own_lines(statement: ast.stmt) -> tuple[int, int]:
    """First and last line of a statement, without the suites of a compound one."""
    first = _first_line(statement)
    suite = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not suite:
        return first, statement.end_lineno or first
    inside = suite[0].pattern if isinstance(suite[0], ast.match_case) else suite[0]
    # In `if x: y = 1` header and suite share their line.
    return first, max(statement.lineno, _first_line(inside) - 1)


def _first_line(node: ast.stmt | ast.pattern) -> int:
    """The line of the node, or of its first decorator."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min((each.lineno for each in decorators), default=node.lineno)
