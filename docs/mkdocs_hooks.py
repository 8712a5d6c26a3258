# ruff: noqa: INP001 - a file for MkDocs, in no package
"""What MkDocs is told beside mkdocs.yml: which files are pages, and where links lead that leave this folder."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
_KINDS = ("*.md", "*.svg", "*.css")
_LINK = re.compile(r"(?<=\]\()(\.\./[^)\s]*)(?=\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation with the pages of the rules, in the order of their index."""
    index = (DOCS / "rules" / "README.md").read_text(encoding="utf-8")
    pages = re.findall(r"^\| \[[a-z0-9-]+\]\(([a-z0-9-]+\.md)\)", index, re.MULTILINE)
    rules = ["rules/README.md", *(f"rules/{name}" for name in pages)]
    config.nav = [{"Rules": rules} if each == "rules" else each for each in config.nav or ()]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """All that lies in this folder, in the place of what lies in one of its folders; the theme's files stay."""
    theme = [each for each in files if each.src_dir != config.docs_dir]
    return Files([*theme, *_own(config)])


def _own(config: MkDocsConfig) -> Iterable[File]:
    for kind in _KINDS:
        for path in sorted(DOCS.rglob(kind)):
            name = path.relative_to(DOCS).as_posix()
            yield File(name, str(DOCS), config.site_dir, config.use_directory_urls)


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs' interface
    """The page, with links to other parts of the repository leading there."""

    def there(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.file.src_uri), link[1]))
        return link[1] if path.startswith("docs/") else f"{config.repo_url}blob/main/{path}"

    return _LINK.sub(there, markdown)
