"""Pages of HTML that need nothing else: templates, their styles, and code with colours."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from markdown_it.token import Token
    from pygments.token import _TokenType

_CONTEXT = 3
"""Unchanged lines that are shown around a change."""
_CLASSES = (
    (Keyword, "k"),
    (Operator.Word, "k"),
    (String, "s"),
    (Comment, "c"),
    (Number, "m"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Decorator, "f"),
)
"""Sorts of words in code, and what the styles call them."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of code, in colours."""

    number: int
    text: Markup


@dataclass(frozen=True, slots=True)
class Segment:
    """Lines that stay, or lines and what stands in their place."""

    is_same: bool
    before: tuple[Line, ...]
    after: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Hunk:
    """A stretch of a file with changes in it."""

    title: str
    segments: tuple[Segment, ...]


def rendered(template: str, **values: object) -> str:
    """A page."""
    return _environment().get_template(template).render(**values)


def from_markdown(text: str, *, below: int = 0) -> Markup:
    """Markdown as HTML, in which HTML of its own is text, and links to files, which do not lie beside a page, are text.

    Args:
        text: The Markdown.
        below: How many levels of headings stand above its own.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + below)}"
        token.children = None if token.children is None else list(_with_addresses(token.children))
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704 - it escapes


def _with_addresses(tokens: Iterable[Token]) -> Iterator[Token]:
    """The parts of a paragraph without those links that lead to files."""
    leads = True
    for each in tokens:
        if each.type == "link_open":
            leads = "://" in str(each.attrGet("href"))
        if leads or each.type not in ("link_open", "link_close"):
            yield each
        if each.type == "link_close":
            leads = True


def side_by_side(before: str, after: str, title: str = "") -> list[Hunk]:
    """The hunks of a change, in colours.

    Args:
        before: A text.
        after: The other one.
        title: What stands above each hunk.
    """
    old, new = _coloured(before), _coloured(after)
    matcher = SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    hunks = []
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        segments = tuple(
            Segment(tag == "equal", old[start:end], new[new_start:new_end])
            for tag, start, end, new_start, new_end in group
        )
        if any(not each.is_same for each in segments):
            hunks.append(Hunk(title, segments))
    return hunks


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("autotune_rewrite.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _coloured(text: str) -> tuple[Line, ...]:
    """The lines of a program; a word of several lines has its colour on each."""
    lines = [Markup()]
    for name, word in _words(text):
        first, *others = word.split("\n")
        lines[-1] += _word(name, first)
        lines += (_word(name, each) for each in others)
    return tuple(Line(number, line) for number, line in enumerate(lines, start=1))


def _words(text: str) -> Iterator[tuple[str, str]]:
    """The sort of each word of a program, and the word; the program is all of them together."""
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    # The lexer makes a newline of what stands before one, and its lines would be others.
    for _, sort, word in lexer.get_tokens_unprocessed(text):
        yield _class(sort), word


def _class(sort: _TokenType) -> str:
    return next((name for kind, name in _CLASSES if sort in kind), "")


def _word(name: str, text: str) -> Markup:
    if not text:
        return Markup()
    return Markup('<span class="{}">{}</span>').format(name, text) if name else Markup.escape(text)
