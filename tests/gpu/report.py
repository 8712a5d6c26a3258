"""Writes README's figures and the page with plots, from what the stages left behind, and tells whether they are current."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.gpu.page import page, section
from tests.gpu.plots import mark, pictures, svg
from tests.gpu.results import ROOT, devices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.gpu.plots import Picture

README = ROOT / "README.md"
MARKERS = "<!-- gpu -->", "<!-- end of gpu -->"
PAGE = "README.md"
"""Beside the results; the pictures lie beside the results of their device."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """README, the page and its pictures as they should be."""

    texts: Mapping[Path, str]
    pictures: Mapping[Path, Picture]
    stale: tuple[Path, ...]
    """Those that are not, and pictures of nothing."""

    @classmethod
    def of(cls, results: Path, readme: Path) -> Wanted:
        """By what a folder of results holds.

        Raises:
            ValueError: README has no markers.
        """
        found = devices(results)
        place = Path(os.path.relpath(results / PAGE, readme.parent)).as_posix()
        texts = {readme: _with_section(readme, section(found, place)), results / PAGE: f"{page(found)}\n"}
        shown = {one.folder / f"{name}.svg": each for one in found for name, each in pictures(one).items()}
        written = {path: path.read_text(encoding="utf-8") for path in (*texts, *shown) if path.exists()}
        stale = [path for path, text in texts.items() if written.get(path) != text]
        stale += [path for path, picture in shown.items() if mark(picture) not in written.get(path, "")]
        stale += sorted(path for path in results.glob("*/*.svg") if path not in shown)
        return cls(texts, shown, tuple(stale))


def _with_section(readme: Path, text: str) -> str:
    """What is in README, with this between its markers."""
    before = readme.read_text(encoding="utf-8")
    start, end = map(re.escape, MARKERS)
    pattern = re.compile(f"(?<=^{start}$).*?(?=^{end}$)", re.DOTALL | re.MULTILINE)
    if len(pattern.findall(before)) != 1:
        raise ValueError(f"{readme}: {' and '.join(MARKERS)} have to be there once, each on a line of its own")
    return pattern.sub(lambda _: f"\n{text}\n", before)


def write(results: Path, readme: Path = README) -> list[Path]:
    """Writes README's part, the page and its pictures, where they are not current.

    Args:
        results: The folder of the results, and of the page.
        readme: The file with the markers.

    Returns:
        What was written or, of pictures of results that are gone, removed.

    Raises:
        ValueError: README has no markers.
    """
    wanted = Wanted.of(results, readme)
    results.mkdir(parents=True, exist_ok=True)
    for path in wanted.stale:
        if path in wanted.texts:
            path.write_text(wanted.texts[path], encoding="utf-8")
        elif path in wanted.pictures:
            path.write_bytes(svg(wanted.pictures[path]))
        else:
            path.unlink()
    return list(wanted.stale)


def current(results: Path, readme: Path = README) -> list[Path]:
    """What ``write`` would change.

    Args:
        results: The folder of the results, and of the page.
        readme: The file with the markers.

    Raises:
        ValueError: README has no markers.
    """
    return list(Wanted.of(results, readme).stale)
