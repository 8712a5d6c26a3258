"""The picture on README's first screen: lines of a real change, and what a real record says of it.

``python tests/regenerate_docs.py`` writes it. The change is that of ``fixtures/mnist_feedforward``, as its golden file has
it; the record in docs/records was left by ``torchfast verify --records``, and is judged anew here.
"""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from autotune_rewrite.report import judgement as report
from autotune_rewrite.report.diff import unified
from autotune_rewrite.verify import judge_again

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
FIXTURE = ROOT / "fixtures" / "mnist_feedforward"
RECORDS = ROOT / "docs" / "records"
WIDTH = 96
"""Of the terminal, in characters."""

LIGHT = TerminalTheme(
    (246, 248, 250),
    (36, 41, 47),
    [
        (36, 41, 47),
        (207, 34, 46),
        (17, 99, 41),
        (125, 78, 0),
        (9, 105, 218),
        (130, 80, 223),
        (27, 124, 131),
        (87, 96, 106),
    ],
)
DARK = TerminalTheme(
    (22, 27, 34),
    (201, 209, 217),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)
PICTURES = {ROOT / "docs" / "picture-light.svg": LIGHT, ROOT / "docs" / "picture-dark.svg": DARK}

FORMAT = """\
<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: {char_height}px; \
line-height: {line_height}px; }}
{styles}
</style>
<defs>{lines}</defs>
<rect fill="BACKGROUND" width="100%" height="100%" rx="8"/>
<g transform="translate(24, 12) scale(0.95)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""
"""rich's own has a window around it, and loads a font from elsewhere."""


def pictures() -> dict[Path, str]:
    """The pictures as they should be."""
    return {path: _drawn(theme) for path, theme in PICTURES.items()}


def _drawn(theme: TerminalTheme) -> str:
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="standard")
    for line in _lines():
        console.print(line, no_wrap=True, overflow="ellipsis")
    drawn = console.export_svg(title="", theme=theme, code_format=FORMAT, unique_id="torchfast")
    return drawn.replace("BACKGROUND", theme.background_color.hex)


def _lines() -> Iterator[Text]:
    yield Text("$ torchfast rewrite naive.py", "bold")
    for line in changed():
        yield Text(line, {"+": "green", "-": "red"}.get(line[:1], ""))
    yield Text("…\n", "dim")
    judged = judge_again(RECORDS)
    yield Text("$ torchfast verify naive.py fast.py", "bold")
    yield Text(report.headline(judged), "bold green" if judged.exit_code == 0 else "bold yellow")
    for name, ratio in report.ratios(judged):
        yield Text(f"  {name}  {ratio}")
    for text in wrap(report.seen(judged), WIDTH):
        yield Text(text, "dim")


def changed() -> list[str]:
    """The lines of the change that are about the training images; those of the test images are alike."""
    before, after = (FIXTURE / name for name in ("naive.py", "fast.py"))
    diff = list(unified("naive.py", before.read_text(encoding="utf-8"), after.read_text(encoding="utf-8")))
    starts = [number for number, line in enumerate(diff) if line.startswith("@@")]
    hunks = [diff[start + 1 : end] for start, end in zip(starts, [*starts[1:], len(diff)], strict=True)]
    (hunk,) = [lines for lines in hunks if any(line.startswith("-train_loader") for line in lines)]
    kept = dict.fromkeys(line for line in hunk if "test" not in line and line.strip("+- "))
    return [line for line in kept if line[0] in "+-" or line.startswith(" train_dataset")]
