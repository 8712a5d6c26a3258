"""Write what the documents say of the code from the code: ``python tests/regenerate_docs.py``.

README.md has the table of the rules, docs/rules a page for each, docs/architecture.md a line for each module: the first of
its docstring. The order of the lines is kept; a new module comes last of its package. What the guide's commands print is
what they print today, and so is the picture on README's first screen.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the documents of this checkout, whichever is installed

from autotune_rewrite.report.pages import PAGES, index, markdown_table, page  # noqa: E402 - see above
from codemods.catalogue import RULES  # noqa: E402
from tests import picture, transcripts  # noqa: E402

README = ROOT / "README.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"


_RULES = """\
# Rules

Each rule has a page: why it is faster, when it is left, how results may differ, and examples. `torchfast explain RULE`
prints the same. Rules are applied in this order. Those that are opt-in run only by name, or with `--select ALL`.

"""
"""What stands above the table in the index of the pages."""
_TABLE_OF_RULES = re.compile(r"(?<=<!-- rules -->\n).*?(?=\n<!-- end of rules -->)", re.DOTALL)
_MODULES = "## The modules"


def readme() -> str:
    """README.md with the rules that there are."""
    table = markdown_table(RULES.values())
    return _TABLE_OF_RULES.sub(lambda _: table, README.read_text(encoding="utf-8"))


def architecture() -> str:
    """docs/architecture.md with the modules that there are.

    Raises:
        ValueError: No table has modules of a new one's package.
    """
    before, heading, tables = ARCHITECTURE.read_text(encoding="utf-8").partition(_MODULES)
    lines = tables.splitlines()
    there = {
        path.relative_to(ROOT).as_posix()
        for package in ("autotune_rewrite", "codemods")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    for new in sorted(there - {module for module in map(_module, lines) if module}):
        lines.insert(_end_of_package(lines, PurePosixPath(new).parent) + 1, f"| `{new}` | |")
    kept = [line for line in lines if _module(line) in there | {None}]
    written = [line if (module := _module(line)) is None else f"| `{module}` | {said_of(module)} |" for line in kept]
    return before + heading + "\n".join(written) + "\n"


def rule_pages() -> dict[Path, str]:
    """The pages of the rules, and their index."""
    table = index(RULES.values())
    pages = {f"{name}.md": page(rule, PAGES) for name, rule in RULES.items()}
    return {ROOT / PAGES / name: f"{text}\n" for name, text in {**pages, "README.md": f"{_RULES}{table}"}.items()}


def stale_pages() -> set[Path]:
    """Pages of rules that are gone."""
    return {*(ROOT / PAGES).glob("*.md")} - {*rule_pages()}


def _module(line: str) -> str | None:
    """The module that a line of a table is about."""
    found = re.match(r"\| `([\w/]+\.py)` \|", line)
    return found and found[1]


def _end_of_package(lines: list[str], package: PurePosixPath) -> int:
    """The last line about a module of a package."""
    modules = ((number, _module(line)) for number, line in enumerate(lines))
    numbers = [number for number, module in modules if module and PurePosixPath(module).parent == package]
    if not numbers:
        raise ValueError(f"docs/architecture.md has no table with modules of {package}: write one with a first line")
    return numbers[-1]


def said_of(module: str) -> str:
    """What the first line of a module's docstring says of it, in Markdown."""
    docstring = ast.get_docstring(ast.parse((ROOT / module).read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    README.write_text(readme(), encoding="utf-8")
    ARCHITECTURE.write_text(architecture(), encoding="utf-8")
    (ROOT / PAGES).mkdir(exist_ok=True)
    for path, text in rule_pages().items():
        path.write_text(text, encoding="utf-8")
    for path in stale_pages():
        path.unlink()
    for path, text in picture.pictures().items():
        path.write_text(text, encoding="utf-8")
    for path in transcripts.PAGES:
        path.write_text(transcripts.current(path.read_text(encoding="utf-8")), encoding="utf-8")
