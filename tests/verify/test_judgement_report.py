"""The judgement as text and as JSON, exactly."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING, Any, get_args

import pytest

from autotune_rewrite.report.judgement import as_json, as_text, headline, show, significant
from autotune_rewrite.report.markdown import as_markdown
from autotune_rewrite.verify.judgement import Base, Judgement
from autotune_rewrite.verify.records import Gpu, Outcome
from autotune_rewrite.verify.statistics.measurement import Figures
from autotune_rewrite.verify.statistics.ratio import Ratio
from autotune_rewrite.verify.statistics.seeds import Summary

if TYPE_CHECKING:
    from autotune_rewrite.verify.comparison import Basis
    from autotune_rewrite.verify.equality import Equality

PASSED = Judgement(
    run="ok",
    speed="faster",
    equality="equal",
    reason="Every loss is equal. Speed is that of whole runs.",
    promise="bitwise",
    iteration=Ratio(2.0, 1.9, 2.1),
    whole=Ratio(1.5, 1.25, 1.8),
    basis="whole",
    pairs=4,
    losses=96,
    environment={"torch": "2.9.0", "python": "3.12.1", "cpus": 2},
    not_measured=("loader-pin", "h2d-non-blocking"),
)
CRASHED = Judgement(
    run="crashed",
    speed="not-checked",
    equality="not-checked",
    reason="The rewritten script ended with exit status 1.",
    promise="precision",
    side="rewritten",
    output=("Traceback (most recent call last):", "ValueError: no"),
)

FULL = Judgement(
    run="ok",
    speed="faster",
    equality="non-inferior",
    reason=(
        "Results differ no more than by luck: the mean of the last tenth of the losses is +0.00123 (-0.00234 to "
        "+0.00345) against the original's, with a margin of 0.00456, 2 standard deviations of the original over its "
        "seeds. Speed is extrapolated from runs that were cut to the script's 12000 iterations."
    ),
    promise="precision",
    iteration=Ratio(2.0, 1.9, 2.1, 0.9706),
    whole=Ratio(1.5, 1.25, 1.8, 0.9706),
    over_tf32=Ratio(1.2, 1.1, 1.3),
    basis="extrapolated",
    pairs=8,
    losses=960,
    break_even=412.3,
    environment={"torch": "2.9.0", "python": "3.12.1", "cpus": 16, "gpu": "NVIDIA H100 80GB HBM3", "cuda": True},
    original=Figures(
        run_seconds=123.4,
        start_seconds=4.2,
        exit_seconds=0.95,
        iteration_seconds=0.0123,
        epoch_seconds=45.6,
        evaluation_seconds=0.9996,
        waiting=0.4567,
        samples_per_second=12345.0,
        device_allocated=412 * 2**20,
        device_reserved=1300 * 2**20,
        host_bytes=3 * 2**30,
        gpu=Gpu(87.3, 1410.2, (), 0, 12345.0),
    ),
    rewritten=Figures(
        run_seconds=62.4,
        start_seconds=14.2,
        exit_seconds=5.25,
        iteration_seconds=0.000612,
        epoch_seconds=23.4,
        evaluation_seconds=0.4321,
        waiting=0.0,
        samples_per_second=23456.0,
        device_allocated=312 * 2**20,
        device_reserved=1000 * 2**20,
        host_bytes=4 * 2**30,
        gpu=Gpu(97.3, 1410.2, ("power",), 1, 6345.0),
    ),
    summary=Summary(0.00123, -0.00234, 0.00345, 0.00456, original=0.1234, rewritten=0.12467),
    limits="Computing on the GPU takes 97 % of the rewritten script's time.",
)


def test_the_fullest_text_fits_on_one_screen() -> None:
    text = as_text(FULL)
    assert text == (
        """\
The rewritten script is faster; it ends no worse than the original.
  whole run  1.50 times as fast (1.25 to 1.80, 97 % interval), extrapolated to its own length
  over TF32  1.20 times as fast as the original with TF32 (1.10 to 1.30, 95 % interval)
  iteration  2.00 times as fast (1.90 to 2.10, 97 % interval)
  the longer start is paid back after 413 iterations
                                                  original                rewritten
  iteration                                        12.3 ms                 0.612 ms
  run (start)                               123 s (4.20 s)          62.4 s (14.2 s)
  end of the process                                950 ms                   5.25 s
  epoch (evaluation)                       45.6 s (1.00 s)          23.4 s (432 ms)
  waiting for data                                  45.7 %                      0 %
  samples/s                                          12300                    23500
  device memory (reserved)              412 MiB (1.27 GiB)      312 MiB (0.977 GiB)
  host memory                                     3.00 GiB                 4.00 GiB
  GPU busy (energy)                       87.3 % (12.3 kJ)         97.3 % (6.34 kJ)
  mean of the last tenth of the losses              0.1234  0.1247 (margin 0.00456)
Results differ no more than by luck: the mean of the last tenth of the losses is +0.00123 (-0.00234
to +0.00345) against the original's, with a margin of 0.00456, 2 standard deviations of the original
over its seeds. Speed is extrapolated from runs that were cut to the script's 12000 iterations.
Computing on the GPU takes 97 % of the rewritten script's time.
Seen: 8 pairs of runs with 960 losses each, promise precision, torch 2.9.0, Python 3.12.1, NVIDIA
H100 80GB HBM3.
The GPU's clock was held back for a time (power)."""
    )
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 100


def test_it_is_said_how_many_pairs_ran_in_turns() -> None:
    said = as_text(replace(PASSED, in_turns=3)).splitlines()
    assert (
        "Seen: 4 pairs of runs, 3 of them in turns, with 96 losses each, promise bitwise, torch 2.9.0, Python" in said
    )


def shown_rows(judgement: Judgement) -> list[list[str]]:
    """The cells of the table."""
    lines = as_text(judgement).splitlines()
    start = next((at for at, line in enumerate(lines) if line.split() == ["original", "rewritten"]), len(lines))
    indented = [line for line in lines[start + 1 :] if line.startswith("  ")]
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in indented]


@pytest.mark.parametrize(
    ("original", "rewritten", "rows"),
    [
        pytest.param(Figures(1.0), Figures(2.0), [["run (start)", "1.00 s", "2.00 s"]], id="neither side has it"),
        pytest.param(
            Figures(1.0, waiting=0.5),
            Figures(2.0),
            [["run (start)", "1.00 s", "2.00 s"], ["waiting for data", "50.0 %", "-"]],
            id="one side has it",
        ),
        pytest.param(
            Figures(1.0, gpu=Gpu(energy=50.0)),
            Figures(2.0, gpu=Gpu(utilization=50.0)),
            [["run (start)", "1.00 s", "2.00 s"], ["GPU busy (energy)", "- (0.0500 kJ)", "50.0 %"]],
            id="a driver tells one of two",
        ),
        pytest.param(None, None, [], id="nothing was measured"),
    ],
)
def test_rows_that_neither_side_has_are_left_out(
    original: Figures | None, rewritten: Figures | None, rows: list[list[str]]
) -> None:
    assert shown_rows(replace(PASSED, original=original, rewritten=rewritten, not_measured=())) == rows


def test_times_on_a_simulated_device_are_not_shown() -> None:
    judgement = replace(FULL, simulated=True, speed="not-checked", whole=None, iteration=None, over_tf32=None)
    assert shown_rows(judgement) == [["mean of the last tenth of the losses", "0.1234", "0.1247 (margin 0.00456)"]]


def test_a_summary_without_figures_is_no_row() -> None:
    assert shown_rows(replace(PASSED, summary=Summary(0.1, 0.0, 0.2, 0.3))) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0.0001234, "0.123 ms", id="far below a millisecond"),
        pytest.param(0.01, "10.0 ms", id="milliseconds"),
        pytest.param(0.9994, "999 ms", id="just below a second"),
        pytest.param(0.9996, "1.00 s", id="a second when it is rounded"),
        pytest.param(99.96, "100 s", id="a hundred when it is rounded"),
        pytest.param(12345.0, "12300 s", id="hours"),
        pytest.param(0.0, "0 ms", id="none"),
    ],
)
def test_a_time_is_in_the_unit_of_its_size(seconds: float, text: str) -> None:
    judgement = replace(PASSED, original=Figures(seconds), rewritten=Figures(1.0), not_measured=())
    assert shown_rows(judgement) == [["run (start)", text, "1.00 s"]]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        pytest.param(2**19, "0.500 MiB", id="below a MiB"),
        pytest.param(999 * 2**20, "999 MiB", id="three digits of a MiB"),
        pytest.param(1000 * 2**20, "0.977 GiB", id="four digits of a MiB"),
        pytest.param(2**30, "1.00 GiB", id="a GiB"),
    ],
)
def test_memory_is_in_the_unit_of_its_size(count: int, text: str) -> None:
    judgement = replace(PASSED, original=Figures(1.0, host_bytes=count), rewritten=Figures(1.0), not_measured=())
    assert shown_rows(judgement)[-1] == ["host memory", text, "-"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00012345, "0.000123"), (1.0, "1.00"), (99.94, "99.9"), (99.96, "100"), (123456.0, "123000"), (-2.5, "-2.50")],
)
def test_three_digits_are_shown(value: float, text: str) -> None:
    assert significant(value) == text


WORDS = {
    "crashed": "The rewritten script crashed: speed and results were NOT CHECKED.",
    "exited": "The rewritten script ended with an error status: speed and results were NOT CHECKED.",
    "killed": "The rewritten script was killed: speed and results were NOT CHECKED.",
    "vanished": "The rewritten script ended without a trace: speed and results were NOT CHECKED.",
    "out-of-memory": "The rewritten script ran out of memory: speed and results were NOT CHECKED.",
    "timed-out": "The rewritten script did not end in time: speed and results were NOT CHECKED.",
    "interrupted": "The comparison was interrupted: speed and results were NOT CHECKED.",
}


@pytest.mark.parametrize("outcome", [each for each in get_args(Outcome) if each != "ok"])
def test_each_way_to_fail_has_its_own_words(outcome: Outcome) -> None:
    assert as_text(replace(CRASHED, run=outcome)).splitlines() == [
        WORDS[outcome],
        "The rewritten script ended with exit status 1.",
        "  Traceback (most recent call last):",
        "  ValueError: no",
    ]


def test_only_the_last_lines_of_a_flood_are_shown() -> None:
    lines = as_text(replace(CRASHED, output=tuple(f"line {number}" for number in range(20)))).splitlines()
    assert lines[2:] == [f"  line {number}" for number in range(4, 20)]


def test_output_neither_steers_the_terminal_nor_is_broken() -> None:
    long = "x" * 300
    text = as_text(replace(CRASHED, output=("\x1b[31mred\x1b[0m\x1b[2J", f"[bold]{long}", "tab  kept")))
    assert text.splitlines()[2:] == ["  red", f"  [bold]{long}", "  tab  kept"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            {"interrupted": True},
            "The comparison was interrupted: this is judged by the runs that had ended by then.",
            id="interrupted with something to say",
        ),
        pytest.param({"sized": "Fewer pairs were run."}, "Fewer pairs were run.", id="sized"),
        pytest.param(
            {"left_out": (("amp", "The script crashed."),)}, "amp was left out. The script crashed.", id="left out"
        ),
        pytest.param(
            {"not_measured": ("compile",)},
            "Not measured here, because they cannot act on this device: compile.",
            id="not measured",
        ),
        pytest.param(
            {"captured_only": True},
            "torch.compile captured the graphs here, and ran them as they are (aot_eager): Inductor made no",
            id="Inductor made nothing",
        ),
        pytest.param({"left_running": 1}, "Left running by a script, and ended: 1 process.", id="one left running"),
        pytest.param({"left_running": 2}, "Left running by a script, and ended: 2 processes.", id="two left running"),
        pytest.param(
            {"copies": ("a", "b", "c", "d", "e")}, "Copies of the project: a, b, c and 2 more.", id="many copies"
        ),
        pytest.param({"limits": "It waits for data."}, "It waits for data.", id="what limits it"),
        pytest.param(
            {"original": Figures(1.0, gpu=Gpu(throttled=("power", "thermal"))), "rewritten": Figures(1.0)},
            "The GPU's clock was held back for a time (power, thermal).",
            id="throttled",
        ),
        pytest.param(
            {"break_even": math.inf}, "  the longer start is never paid back", id="a start that is never paid back"
        ),
        pytest.param(
            {"equality": "not-checked"},
            "The rewritten script is faster; it was NOT CHECKED for equal results.",
            id="not checked",
        ),
    ],
)
def test_what_else_matters_is_said_once(change: dict[str, Any], said: str) -> None:
    plain = replace(PASSED, not_measured=())
    before, after = as_text(plain).splitlines(), as_text(replace(plain, **change)).splitlines()
    assert said not in before
    assert after.count(said) == 1


@pytest.mark.parametrize(
    ("applied", "idle", "environment", "said"),
    [
        pytest.param(
            ("amp", "compile", "loader-pin", "zero-grad-none"),
            ("amp", "compile", "loader-pin"),
            {"cuda": False},
            "3 of 4 rules cannot act on this CPU: amp, compile, loader-pin. What follows is about zero-grad-none alone; "
            "try --device simulated.",
            id="some, without a GPU",
        ),
        pytest.param(
            ("amp", "compile"),
            ("amp", "compile"),
            {"cuda": False},
            "None of the 2 rules can act on this CPU: amp, compile. What follows says nothing of them; "
            "try --device simulated.",
            id="all",
        ),
        pytest.param(
            ("amp",),
            ("amp",),
            {"cuda": True},
            "1 of 1 rule cannot act on this device: amp. What follows says nothing of them.",
            id="on a GPU without bf16",
        ),
    ],
)
def test_how_many_rules_cannot_act_is_said_first(
    applied: tuple[str, ...], idle: tuple[str, ...], environment: dict[str, Any], said: str
) -> None:
    judgement = replace(PASSED, applied=applied, not_measured=idle, environment=environment)
    text = " ".join(as_text(judgement).split())
    assert text.startswith(f"{said} The rewritten script is faster")
    assert "Not measured here" not in text
    assert said in as_markdown(judgement, "a.py", "b.py")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"not_measured": ()}, id="all could"),
        pytest.param({"run": "crashed", "side": "rewritten"}, id="a run that failed"),
    ],
)
def test_nothing_is_said_before_the_verdict(change: dict[str, Any]) -> None:
    judgement = replace(PASSED, applied=("loader-pin",), not_measured=("loader-pin",))
    assert as_text(replace(judgement, **change)).startswith("The rewritten script")


def test_lines_that_cannot_act_while_others_can_are_noted() -> None:
    judgement = replace(PASSED, applied=("loader-persistent",), not_measured=("loader-persistent (line 9)",))
    assert as_text(judgement).startswith("The rewritten script is faster")
    assert as_text(judgement).endswith("because they cannot act on this device: loader-persistent (line 9).")


def test_a_pipe_gets_the_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    show(FULL)
    assert capsys.readouterr() == (f"{as_text(FULL)}\n", "")
    show(FULL, to_stderr=True)
    assert capsys.readouterr() == ("", f"{as_text(FULL)}\n")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_gets_the_same_words_in_colours(monkeypatch: pytest.MonkeyPatch, columns: int, stream: str) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, stream, terminal)
    for name, value in (("TERM", "xterm"), ("COLUMNS", str(columns)), ("LINES", "24")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    judgement = replace(FULL, equality="not-checked")
    show(judgement, to_stderr=stream == "stderr")
    shown = terminal.getvalue()
    assert "\x1b[1" in shown
    from rich.text import Text

    plain = [Text.from_ansi(line).plain for line in shown.splitlines()]
    assert max(len(line.rstrip()) for line in plain) <= min(columns, 100)
    # A narrow terminal breaks cells, too, and so their order.
    assert sorted(" ".join(plain).split()) == sorted(as_text(judgement).split())


def test_text_says_the_judgement_first() -> None:
    assert as_text(PASSED) == (
        "The rewritten script is faster; it computes the same, bit for bit.\n"
        "  whole run  1.50 times as fast (1.25 to 1.80, 95 % interval)\n"
        "  iteration  2.00 times as fast (1.90 to 2.10, 95 % interval)\n"
        "Every loss is equal. Speed is that of whole runs.\n"
        "Seen: 4 pairs of runs with 96 losses each, promise bitwise, torch 2.9.0, Python 3.12.1, 2 CPU cores.\n"
        "Not measured here, because they cannot act on this device: loader-pin, h2d-non-blocking."
    )


def test_text_of_a_crash_shows_its_last_lines() -> None:
    assert as_text(CRASHED) == (
        "The rewritten script crashed: speed and results were NOT CHECKED.\n"
        "The rewritten script ended with exit status 1.\n"
        "  Traceback (most recent call last):\n"
        "  ValueError: no"
    )


def test_json_has_the_three_answers_and_both_ratios() -> None:
    values = as_json(PASSED)
    assert (values["run"], values["speed"], values["equality"], values["side"]) == ("ok", "faster", "equal", None)
    assert values["ratios"] == {
        "iteration": {"estimate": 2.0, "low": 1.9, "high": 2.1},
        "run": {"estimate": 1.5, "low": 1.25, "high": 1.8, "basis": "whole"},
        "over_tf32": {"estimate": None, "low": None, "high": None},
    }
    assert values["confidence"] == 0.95
    assert values["not_measured"] == ["loader-pin", "h2d-non-blocking"]
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_json_of_a_crash_has_nulls_where_nothing_was_measured() -> None:
    values = as_json(CRASHED)
    nothing = {"estimate": None, "low": None, "high": None}
    assert values["ratios"] == {"iteration": nothing, "run": {**nothing, "basis": None}, "over_tf32": nothing}
    assert (values["side"], values["output"][-1]) == ("rewritten", "ValueError: no")


def test_what_was_written_past_the_copy_and_where_copies_are_is_said() -> None:
    judgement = replace(CRASHED, written=("data/big.bin",), copies=("copies/a", "copies/b"))

    assert as_text(judgement).splitlines()[-2:] == [
        "Changed meanwhile outside the copy of the project, perhaps by the scripts: data/big.bin.",
        "Copies of the project: copies/a, copies/b.",
    ]
    assert as_json(judgement)["changed_outside"] == ["data/big.bin"]
    assert as_json(judgement)["copies"] == ["copies/a", "copies/b"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            {}, "3 files differ, none of which a run imported: unless they are data, both", id="none imported"
        ),
        pytest.param({"used": ("lib/data.py",)}, "", id="one imported"),
        pytest.param({"original": "old.py"}, "", id="two scripts"),
    ],
)
def test_what_was_compared_at_a_revision_is_said(change: dict[str, Any], said: str) -> None:
    base = replace(Base("main", "1a2b3c4d", "train.py", "train.py", uncommitted_changes=False, differing=3), **change)

    text = " ".join(as_text(replace(FULL, base=base)).split())

    assert f"{base.original} at 1a2b3c4 (main) beside train.py in the working tree whole run" in text
    assert ("none of which" in text) == bool(said)
    assert said in text


def test_json_has_every_field_and_the_layouts_version() -> None:
    assert sorted(as_json(FULL)) == [
        "applied",
        "base",
        "blamed",
        "break_even",
        "captured_only",
        "changed_outside",
        "confidence",
        "copies",
        "environment",
        "equality",
        "exit_code",
        "extrapolated",
        "in_turns",
        "interrupted",
        "left_out",
        "left_running",
        "limits",
        "losses",
        "noise",
        "not_measured",
        "of_pairs",
        "original",
        "output",
        "pairs",
        "promise",
        "ratios",
        "reach",
        "reason",
        "rewritten",
        "run",
        "side",
        "simulated",
        "sized",
        "speed",
        "summary",
        "version",
    ]
    assert as_json(FULL)["version"] == 3


def test_json_has_the_figures_of_both_sides_and_the_summary() -> None:
    values = as_json(replace(FULL, left_out=(("amp", "It crashed."),)))
    assert (values["original"]["run_seconds"], values["rewritten"]["gpu"]["throttled"]) == (123.4, ["power"])
    assert (values["summary"]["margin"], values["ratios"]["over_tf32"]["estimate"]) == (0.00456, 1.2)
    assert values["left_out"] == [["amp", "It crashed."]]


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        pytest.param({"summary": Summary(math.inf, 0.0, 1.0, 1.0)}, ("summary", "worse"), None, id="an infinite loss"),
        pytest.param({"summary": Summary(0.0, 0.0, 1.0, 1.0)}, ("summary", "original"), None, id="not a number"),
        pytest.param({"break_even": math.inf}, ("break_even",), "never", id="never paid back"),
        pytest.param({"whole": Ratio(math.inf, None, None)}, ("ratios", "run", "estimate"), None, id="no time at all"),
    ],
)
def test_json_has_no_number_that_json_lacks(change: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    found: Any = as_json(replace(FULL, **change))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    for name in path:
        found = found[name]
    assert found == value


@pytest.mark.parametrize(
    ("basis", "equality", "said"),
    [
        pytest.param(
            "cut",
            "equal",
            "is faster over its first 40 iterations; it computes the same, bit for bit over its first 40 iterations.",
            id="of unknown length",
        ),
        pytest.param(
            "extrapolated",
            "non-inferior",
            "is faster; it ends no worse than the original over its first 40 iterations.",
            id="extrapolated",
        ),
        pytest.param("cut", "different", "40 iterations; it computes something different.", id="a fault is one"),
    ],
)
def test_the_headline_of_cut_runs_says_how_far_they_went(basis: Basis, equality: Equality, said: str) -> None:
    assert headline(replace(PASSED, basis=basis, equality=equality, reach=40)).endswith(said)
