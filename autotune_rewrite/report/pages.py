"""The rules as documentation: a page for each, and the table of all, from what they declare."""

from __future__ import annotations

import inspect
import textwrap
from functools import partial
from posixpath import relpath
from typing import TYPE_CHECKING

from autotune_rewrite.report.diff import unified
from codemods.codemod import Advises, Default, Phase, Rewrites
from codemods.facts.causes import CAUSES, OF_ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codemods.codemod import Codemod, Leaves

PAGES = "docs/rules"
"""Where the pages lie in the repository."""

_INDENTATION = " " * 4
"""Of a section's text under its heading."""

_WIDTH = 120
"""Of lines that are not docstrings'."""

_HEADER = ("Rule", "Farthest promise", "Default", "From torch", "What it does", "Typical gain", "Seen in")


def page(rule: type[Codemod], folder: str = ".") -> str:
    """The rule's page in Markdown: what it declares, its docstring, its examples.

    Args:
        rule: Whose page.
        folder: Where the page lies in the repository, to which its links lead.
    """
    first, _, body = _docstring(rule).partition("\n")
    shortened = ", ".join(str(phase) for phase in Phase if phase in rule.phases)
    declared = (
        f"- Farthest promise: {rule.promise}",
        f"- Default: {rule.default}",
        f"- From torch: {_version(rule)}",
        f"- Typical gain: {rule.gain}",
        f"- Seen in: {_sources(rule, partial(_linked, folder))}",
        f"- Shortens: {shortened or 'nothing'}",
    )
    examples = (_example(each) for each in rule.examples)
    parts = (f"# {rule.name()}", first, "\n".join(declared), _sections(body), "## Codes", *_codes(rule), "## Examples")
    return "\n\n".join((*parts, *examples))


def _codes(rule: type[Codemod]) -> Iterator[str]:
    """The causes for which the rule leaves sites, and those for which any rule does."""
    yield "A finding that is left has one of these as its `code` in `--format json`."
    yield "\n".join(map(_cause, sorted(rule.causes)))
    yield "Of any rule:"
    yield "\n".join(map(_cause, sorted(OF_ALL)))


def _cause(code: str) -> str:
    text = f"- `{code}`: {CAUSES[code]}"
    return textwrap.fill(text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def summary(rule: type[Codemod]) -> str:
    """The first line of the rule's page."""
    return _docstring(rule).partition("\n")[0]


def markdown_table(rules: Iterable[type[Codemod]]) -> str:
    """The rules as a Markdown table, for README.md."""
    rows = []
    for rule in rules:
        name, *cells = _row(rule)
        rows.append((f"[{name}]({PAGES}/{name}.md)", *cells, _sources(rule, partial(_linked, "."))))
    return _as_table(_HEADER, rows)


def index(rules: Iterable[type[Codemod]]) -> str:
    """The rules as a Markdown table beside their pages: what decides which page to read."""
    rows = []
    for rule in rules:
        default = "" if rule.default is Default.ON else f", {rule.default}"
        rows.append((f"[{rule.name()}]({rule.name()}.md)", summary(rule), f"{rule.promise}{default}", rule.gain))
    return _as_table(("Rule", "What it does", "Farthest promise", "Typical gain"), rows)


def _as_table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def text_table(rules: Iterable[type[Codemod]]) -> Iterator[str]:
    """The rules in columns, one line each."""
    rows = [_HEADER, *((*_row(rule), _sources(rule, str)) for rule in rules)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(rule: type[Codemod]) -> tuple[str, ...]:
    return rule.name(), str(rule.promise), str(rule.default), _version(rule), summary(rule), rule.gain


def _sources(rule: type[Codemod], written: Callable[[str], str]) -> str:
    """Where the figures of the gain stand."""
    return ", ".join(map(written, rule.gain_sources)) or "nowhere yet"


def _linked(folder: str, source: str) -> str:
    """A source as a link of Markdown's, from a folder of the repository."""
    return f"<{source}>" if "://" in source else f"[{source.partition('#')[2]}]({relpath(source, folder)})"


def _version(rule: type[Codemod]) -> str:
    return ".".join(map(str, rule.min_torch))


def _docstring(rule: type[Codemod]) -> str:
    """The rule's docstring, its code marked as in Markdown."""
    return inspect.cleandoc(rule.__doc__ or "").replace("``", "`")


def _sections(body: str) -> str:
    """The sections of a Google style docstring as those of a Markdown page."""
    lines = body.strip().splitlines()
    return "\n".join(line.removeprefix(_INDENTATION) if line[:1].isspace() else _heading(line) for line in lines)


def _heading(line: str) -> str:
    return f"## {line.removesuffix(':')}\n" if line.endswith(":") else line


def _example(example: Rewrites | Leaves | Advises) -> str:
    """An example as a diff, or as code with the reason why it is left, or with what is said of it."""
    since = "" if example.target is None else f" With torch {'.'.join(map(str, example.target))} or later known:"
    if isinstance(example, Rewrites):
        lines = unified("example.py", f"{example.before.strip()}\n", f"{example.after.strip()}\n")[2:]
        changed = "\n".join(line for line in lines if not line.startswith("@@"))
        return f"Rewritten.{since}\n\n```diff\n{changed}\n```"
    if isinstance(example, Advises):
        return f"Advice: {example.says}.{since}\n\n```python\n{example.code.strip()}\n```"
    return f"Left: {example.because}.{since}\n\n```python\n{example.code.strip()}\n```"
