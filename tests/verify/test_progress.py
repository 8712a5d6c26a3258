"""The line that says how far a verification has come."""

from __future__ import annotations

import sys
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from autotune_rewrite.report.progress import live, words
from autotune_rewrite.verify import Progress


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        pytest.param(Progress(1, 16, "original"), "run 1 of 16 · original", id="a run that starts"),
        pytest.param(
            Progress(3, 16, "rewritten", 812, 140.4, 118.0),
            "run 3 of 16 · rewritten · 812 iterations · 140/s · about 2 min left",
            id="all is known",
        ),
        pytest.param(Progress(1, 2, "original", 1), "run 1 of 2 · original · 1 iteration", id="one iteration"),
        pytest.param(
            Progress(1, 2, "original", 5, 0.25), "run 1 of 2 · original · 5 iterations · 0.250/s", id="slow ones"
        ),
    ],
)
def test_words(progress: Progress, said: str) -> None:
    assert words(progress) == said


@pytest.mark.parametrize(
    ("seconds", "left"),
    [
        pytest.param(0.0, "10 s", id="never none"),
        pytest.param(41.0, "50 s", id="tens of seconds"),
        pytest.param(60.0, "60 s", id="a minute"),
        pytest.param(61.0, "2 min", id="more than a minute"),
        pytest.param(5940.0, "99 min", id="minutes"),
        pytest.param(9000.0, "2.5 h", id="hours"),
    ],
)
def test_time_left_is_as_coarse_as_it_is_uncertain(seconds: float, left: str) -> None:
    assert words(Progress(1, 2, "original", seconds_left=seconds)) == f"run 1 of 2 · original · about {left} left"


@pytest.mark.parametrize(
    ("times", "lines"),
    [
        pytest.param((1.0, 30.0, 59.0), "", id="of less than a minute nothing"),
        pytest.param((1.0, 61.0, 62.0, 125.0), "run 2 of 16 · original\nrun 4 of 16 · original\n", id="each minute"),
    ],
)
def test_a_plain_line_a_minute_is_written_where_standard_error_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, times: tuple[float, ...], lines: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    clock = iter((0.0, *times))
    monkeypatch.setattr("autotune_rewrite.report.progress.time.monotonic", lambda: next(clock))
    with live() as progress:
        for number, _ in enumerate(times, 1):
            progress(Progress(number, 16, "original"))
        assert sys.stderr.write("kept\n")
    monkeypatch.undo()
    assert capsys.readouterr() == ("", f"{lines}kept\n")


def terminal(columns: int = 80) -> Console:
    return Console(file=StringIO(), force_terminal=True, width=columns, legacy_windows=False, _environ={})


def written(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_line_is_shown_and_taken_away() -> None:
    console = terminal()
    with live(console) as progress:
        progress(Progress(1, 16, "original"))
        progress(Progress(2, 16, "rewritten", 5, 2.0))
        console.file.flush()
    text = written(console)
    assert "run 2 of 16 · rewritten · 5 iterations · 2.00/s" in Text.from_ansi(text).plain
    assert text.endswith("\x1b[1A\x1b[2K")  # one line up, and empty


def test_ctrl_c_leaves_the_terminal_clean() -> None:
    console = terminal()

    def interrupted() -> None:
        with live(console) as progress:
            progress(Progress(1, 16, "original"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    text = written(console)
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor was hidden and is shown again
    assert text.endswith("\x1b[1A\x1b[2K")


def test_the_line_never_takes_two() -> None:
    console = terminal(columns=20)
    with live(console) as progress:
        progress(Progress(3, 16, "rewritten", 812, 140.4, 118.0))
    assert "run 3 of 16 · rewri…" in Text.from_ansi(written(console)).plain
    assert "min" not in written(console)
