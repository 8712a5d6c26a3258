"""Comments that leave a site or a file alone: ``# torchfast: ignore[rule] reason``, ``# torchfast: skip-file``."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import TYPE_CHECKING, NamedTuple

from autotune_rewrite.errors import FileError
from autotune_rewrite.suggestions import unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from codemods.dataflow.source import Module

_COMMENT = re.compile(r"(?:^|(?<=\s))#\s*torchfast:\s*(?P<word>[\w-]*)\s*(?:\[(?P<rules>[^\]]*)\])?\s*(?P<reason>.*)")
"""Comments for others may stand before it: ``# noqa  # torchfast: ignore``."""


class Ignore(NamedTuple):
    """One ``ignore`` comment: its line, the rules it names (none: all rules) and the reason given."""

    line: int
    rules: frozenset[str]
    reason: str

    def __str__(self) -> str:
        """The comment as it may be written."""
        names = ", ".join(sorted(self.rules))
        return f"# torchfast: ignore[{names}]" if names else "# torchfast: ignore"

    def covers(self, rule: str) -> bool:
        """Whether the comment speaks of this rule."""
        return not self.rules or rule in self.rules


class Suppressions(NamedTuple):
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
        found = _COMMENT.search(comment)
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


def with_ignores(module: Module, wanted: Mapping[int, Collection[str]]) -> tuple[str, int]:
    """The module's text with comments that leave sites alone.

    Args:
        module: The module.
        wanted: Lines at which sites begin, from 1, each with the rules.

    Returns:
        The text, and for how many lines no comment could be written.
    """
    lines, missed = module.text.split("\n"), 0
    for line, rules in wanted.items():
        changed = next(
            (each for each in _with_ignore(module, lines, line, rules) if _is_same(module, each, rules)), None
        )
        lines, missed = (lines, missed + 1) if changed is None else (changed, missed)
    return "\n".join(lines), missed


def _with_ignore(module: Module, lines: list[str], line: int, rules: Collection[str]) -> Iterator[list[str]]:
    """The lines with a comment at one that counts: with more names in the one that is there, or with a new one."""
    around = [_own_lines(each) for each in ast.walk(module.tree) if isinstance(each, ast.stmt)]
    first, last = min(
        (each for each in around if each[0] <= line <= each[1]),
        key=lambda each: each[1] - each[0],
        default=(line, line),
    )
    places = [line, *(each for each in range(first, last + 1) if each != line)]
    for at in places:
        found = _COMMENT.search(lines[at - 1])
        if found is not None and found["rules"] is not None:
            names = {name.strip() for name in found["rules"].split(",") if name.strip()} | {*rules}
            start, end = found.span("rules")
            named = f"{lines[at - 1][:start]}{', '.join(sorted(names))}{lines[at - 1][end:]}"
            yield [*lines[: at - 1], named, *lines[at:]]
    for at in places:
        text = lines[at - 1].rstrip()
        newline = "\r" * lines[at - 1].endswith("\r")
        yield [*lines[: at - 1], f"{text}  {Ignore(at, frozenset(rules), '')}{newline}", *lines[at:]]


def _is_same(module: Module, lines: list[str], rules: Collection[str]) -> bool:
    """Whether the lines are the same program, and what was written into them is a comment."""
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return False
    number = len(list(_naming(module.text, rules)))
    return ast.dump(tree) == ast.dump(ast.parse(module.text)) and len(list(_naming("\n".join(lines), rules))) > number


def _naming(text: str, rules: Collection[str]) -> Iterator[str]:
    """The comments that leave these rules alone."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        found = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if found is not None and {*rules} <= {name.strip() for name in (found["rules"] or "").split(",")}:
            yield token.string


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
