"""The formats of `check`, by name: those that are written at the end, each made by a module of its own."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.errors import FileError
    from autotune_rewrite.rewriting.results import Rewrite

Format = Literal[
    "text",
    "concise",
    "full",
    "json",
    "json-lines",
    "sarif",
    "github",
    "gitlab",
    "rdjson",
    "junit",
    "markdown",
]
NAMES: tuple[str, ...] = get_args(Format)
STREAMED = frozenset({"text", "concise", "full"})
"""What is told as it comes."""
WITH_FIXES = frozenset({"json", "json-lines", "sarif", "rdjson"})
"""What holds the text that is to stand in the place of another: for that, the script is rewritten."""
_MAKERS = {
    "json-lines": ("jsons", "as_json_lines"),
    "sarif": ("sarif", "as_sarif"),
    "github": ("github", "as_github"),
    "gitlab": ("gitlab", "as_gitlab"),
    "rdjson": ("rdjson", "as_rdjson"),
    "junit": ("junit", "as_junit"),
    "markdown": ("table", "as_table"),
}
"""The module and the function of each; JSON holds more than findings, and is made by who has that."""


def rendered(form: str, rewrites: Sequence[Rewrite], errors: Sequence[FileError]) -> str:
    """The findings in a format that is written at the end, without a final newline."""
    module, name = _MAKERS[form]
    make: Any = getattr(import_module(f"autotune_rewrite.report.{module}"), name)
    return str(make(rewrites, errors))
