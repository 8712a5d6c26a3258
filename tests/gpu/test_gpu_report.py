"""Tables, README's part, the page and its pictures, from results of which the truth is known."""

from __future__ import annotations

import math
import re
import shutil
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from autotune_rewrite.verify.records import Gpu, Run
from tests.gpu import page as pages
from tests.gpu import plots, stages, tables, truths
from tests.gpu.crashes import summary
from tests.gpu.judging import compared
from tests.gpu.plots import Bar, Bars, Curves, Group, Line, Row
from tests.gpu.report import README, current, write
from tests.gpu.results import ROOT
from tests.gpu.running import as_line
from tests.gpu.scripts import Length, Script, Seconds
from tests.gpu.tables import answers, measured
from tests.gpu.tasks import Ledger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from autotune_rewrite.verify.plan import Kind
    from tests.gpu.tasks import Values

SCRIPTS = ("quick_cnn", "gpt")
"""Of the results; README shows a third, which was not measured."""
EMPTY = "# Tool\n\n<!-- gpu -->\n<!-- end of gpu -->\n\nThe end.\n"
OWN_LENGTH, ITERATIONS = 1000, 100
DEVICE = "h200-torch2.11"
DASH = tables.MISSING
ENVIRONMENT: dict[str, str | int | bool] = {"torch": "2.11.0", "gpu": "NVIDIA H200"}
CLAIMS = {"rules": ["amp", "compile"], "promise": "precision", "tolerance": 0.01, "redraws": False}
MACHINE: Values = {
    "key": "machine 1",
    "commit": "0123456789ab",
    "device": "cuda",
    "time": "2026-11-22T10:00:00Z",
    "python": "3.12.1",
    "system": "Linux 6.1 x86_64",
    "processor": "A processor",
    "packages": {"torch": "2.11.0", "triton": None},
    "gpu": {
        "name": "NVIDIA H200",
        "driver": "570.1",
        "sm_clock_mhz": 1980,
        "sm_clock_most_mhz": 1980,
        "temperature_celsius": 31,
        "power_limit_milliwatt": 700000,
        "compute_processes": 0,
    },
}


def run(label: str = "naive", number: int = 0, *, start: float = 1.0, each: float = 0.1, **others: Any) -> Run:
    """A run of 100 iterations after a second of imports: start, iterations, and nothing behind them."""
    times = tuple(start + at * each for at in range(ITERATIONS))
    script = start + ITERATIONS * each
    known: dict[str, Any] = {
        "side": "original" if label in ("naive", "tf32") else "rewritten",
        "offset": number,
        "outcome": "ok",
        "problem": "",
        "output": (),
        "wall_seconds": script + 1.0,
        "ended": "finished",
        "times": times,
        "losses": tuple(4.0 - 0.03 * at for at in range(ITERATIONS)),
        "import_seconds": 1.0,
        "script_seconds": script,
        "device_allocated": 2**30,
        "device_reserved": 2**31,
        "gpu": Gpu(utilization=40.0, energy=5000.0),
        "environment": ENVIRONMENT,
    }
    return Run(**{**known, **others})


NAIVE = run()
FAST = run(
    "default", start=3.0, each=0.04, device_allocated=2**29, gpu=Gpu(utilization=90.0, energy=2000.0), compiles=(2.5,)
)
"""Three seconds to the first iteration, and then 2.5 times as fast: 8 seconds in all, and naive takes 12."""
TF32 = run("tf32", each=0.08, kind="tf32")
"""10 seconds in all."""
COLD = run("default", start=8.0, each=0.04, compiles=(7.0,))
"""It ends five seconds later than where compiled kernels were at hand."""
CRASHED = run(
    "expert",
    outcome="crashed",
    problem="ended with exit status 1",
    output=("Traceback (most recent call last):", "\x1b[31mRuntimeError\x1b[0m: no kernel | image"),
    environment={},
)


def run_of(label: str, number: int, made: Run) -> Run:
    return replace(made, offset=number, side="original" if label in ("naive", "tf32") else "rewritten")


def line(script: str, label: str, number: int, made: Run, *, prefix: str = "") -> Values:
    return {
        "key": f"{prefix}{script}/{label}/{number}",
        "script": script,
        "label": label,
        "variant": "naive" if label in ("naive", "tf32") else label,
        "round": number,
        "claims": None if label in ("naive", "tf32", "expert") else CLAIMS,
        "run": as_line(run_of(label, number, made)),
    }


def cold(script: str, label: str, machine: str, made: Run) -> Values:
    values = line(script, f"{label}, cold", 0, replace(made, side="rewritten"))
    values.pop("round")
    return {**values, "key": f"{script}/{label}, cold/{machine}", "variant": label, "claims": CLAIMS}


def rounds(script: str, runs: Mapping[str, Run], count: int = 2, prefix: str = "") -> list[Values]:
    return [line(script, label, at, made, prefix=prefix) for at in range(count) for label, made in runs.items()]


def failing(made: Run) -> Run:
    return replace(CRASHED, side=made.side)


def table(lines: Sequence[str], head: str) -> dict[tuple[str, str], dict[str, str]]:
    """The cells of the table whose head begins so, by script and text."""
    start = next(at for at, text in enumerate(lines) if text.startswith(head))
    columns = re.split(" {2,}", lines[start])
    found = {}
    for text in lines[start + 1 :]:
        cells = re.split(" {2,}", text)
        if len(cells) != len(columns):
            break
        found[cells[0], cells[1]] = dict(zip(columns, cells, strict=True))
    return found


SPEED = [
    *rounds("quick_cnn", {"naive": NAIVE, "default": FAST, "tf32": TF32}),
    cold("quick_cnn", "default", "1a2b3c4d", COLD),
    cold("quick_cnn", "default", "another-machine", run("default", start=9.0, each=0.04, compiles=(8.0,))),
    *rounds("gpt", {"naive": NAIVE, "default": run("default", each=0.05), "expert": CRASHED}, count=1),
]


class TestCompiling:
    @pytest.mark.parametrize(
        ("made", "seconds"),
        [
            pytest.param(COLD, 5.0, id="its end comes later"),
            pytest.param(run("default", start=2.0, each=0.04), 0.0, id="its end comes sooner: by chance"),
            pytest.param(replace(COLD, ended="cut"), None, id="it has no end"),
            pytest.param(
                replace(COLD, times=COLD.times[:50], losses=COLD.losses[:50]), None, id="it is another length"
            ),
            pytest.param(CRASHED, None, id="it failed"),
        ],
    )
    def test_it_takes_as_much_longer_as_a_whole_run_does(self, made: Run, seconds: float | None) -> None:
        lines = [cold("gpt", "default", "1a2b3c4d", made), *rounds("gpt", {"naive": NAIVE, "default": FAST}, count=3)]
        (one,) = compared(lines)
        assert one.compiling == (None if seconds is None else pytest.approx(seconds))

    def test_a_cold_run_is_the_texts_pair_until_there_is_a_warm_one(self) -> None:
        naive, first = line("gpt", "naive", 0, NAIVE), cold("gpt", "default", "0", COLD)
        (one,) = compared([naive, first])
        assert (one.label, len(one.comparison.pairs), tables.NAMES[one.label]) == (
            "default, cold",
            1,
            "rewritten, compiling anew",
        )
        assert one.judgement.whole is not None
        assert one.judgement.whole.estimate == pytest.approx(12 / 13)
        warm = [line("gpt", label, 1, made) for label, made in (("naive", NAIVE), ("default", FAST))]
        assert [each.label for each in compared([naive, first, *warm])] == ["default"]

    def test_a_cold_run_that_failed_is_told_by_its_key(self) -> None:
        lines = [cold("gpt", "default", "1a2b3c4d", CRASHED), *rounds("gpt", {"naive": NAIVE, "default": FAST})]
        assert next(iter(measured(lines))) == "FAILED gpt/default, cold/1a2b3c4d: the script ended with exit status 1"


UNFINISHED: Values = {"key": "gpt/fp16", "began": 1, "took": 0.1, "unfinished": "OSError: no space"}


def with_claims(lines: Sequence[Values]) -> list[Values]:
    return [{**each, "claims": {**CLAIMS, "redraws_at_once": False}} for each in lines]


def test_what_has_no_result_is_passed_over_everywhere(readme: Path, results: Path) -> None:
    before = readme.read_text(encoding="utf-8")
    for number in range(1, 6):
        append(results / DEVICE / f"stage-{number}.jsonl", UNFINISHED)
    assert current(results, readme) == []
    assert readme.read_text(encoding="utf-8") == before
    runs = with_claims(crashes())
    assert list(summary([*runs, UNFINISHED])) == list(summary(runs))
    assert list(measured([*SPEED, UNFINISHED])) == list(measured(SPEED))
    assert list(answers([*FACTS, UNFINISHED])) == list(answers(FACTS))
    assert truths.summary([UNFINISHED])[0].endswith("0 tasks failed.")


def test_what_is_to_be_tried_again_is_said_until_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "stage-1.jsonl"
    runs = with_claims(crashes())
    append(path, MACHINE, *runs, UNFINISHED)
    assert next(stages.said(1, tmp_path)) == "TO BE TRIED AGAIN gpt/fp16: OSError: no space"
    append(path, {**runs[1], "key": "gpt/fp16"})
    assert next(stages.said(1, tmp_path)) == "8 runs, 1 failed."


class TestTerminal:
    def test_each_cell_says_what_is_known_of_the_runs(self) -> None:
        cells = table(list(measured(SPEED)), "script  ")
        assert cells["quick_cnn", "default"] == {
            "script": "quick_cnn",
            "text": "default",
            "run": "1.50 (1.50-1.50)",
            "iteration": "2.50 (2.50-2.50)",
            "start, s": "2.0 → 4.0",
            "end, s": "0.0 → 0.0",
            "paid back": "34",  # 2 seconds, at 0.06 seconds each
            "GiB": "1.00 → 0.50",
            "GPU, %": "40 → 90",
            "J": "5000 → 2000",
            "result": "equal",
        }
        assert cells["quick_cnn", "tf32"]["run"] == "1.20 (1.20-1.20)"
        assert cells["gpt", "default"]["run"] == "1.71 (-)"  # 12 by 7 seconds
        assert ("quick_cnn", "default, cold") not in cells

    def test_a_text_that_failed_has_its_problem_first_and_no_figures(self) -> None:
        lines = list(measured(SPEED))
        assert lines[:3] == [
            "FAILED gpt/expert: the script ended with exit status 1",
            "    Traceback (most recent call last):",
            "    RuntimeError: no kernel | image",
        ]
        cells = table(lines, "script  ")["gpt", "expert"]
        assert cells.pop("result") == "crashed"
        assert set(list(cells.values())[2:]) == {"-"}

    def test_the_same_failure_in_several_rounds_is_told_once(self) -> None:
        lines = list(measured(rounds("gpt", {"naive": NAIVE, "expert": CRASHED}, count=3)))
        assert [each for each in lines if "FAILED" in each] == [
            "FAILED gpt/expert in 3 rounds: the script ended with exit status 1"
        ]

    def test_where_the_naive_script_fails_it_is_said_whose_failure_it_is(self) -> None:
        lines = list(measured(rounds("gpt", {"naive": failing(NAIVE), "default": FAST})))
        assert table(lines, "script  ")["gpt", "default"]["result"] == "crashed (naive)"

    def test_a_text_without_a_naive_run_in_its_round_has_no_figures(self) -> None:
        cells = table(list(measured([line("gpt", "default", 0, FAST)])), "script  ")["gpt", "default"]
        assert (cells["run"], cells["result"]) == ("-", "no pair")

    def test_nothing_yet_is_said_in_a_sentence(self) -> None:
        assert list(measured([])) == ["Nothing was measured beside the naive scripts yet."]

    def test_no_times_of_the_simulated_device_are_shown(self) -> None:
        environment = {**ENVIRONMENT, "simulated": "9.0"}
        runs = {"naive": replace(NAIVE, environment=environment), "default": replace(FAST, environment=environment)}
        lines = list(measured(rounds("gpt", runs)))
        assert lines == [
            "Speed was not checked: the CUDA device was simulated on the CPU.",
            "script  text     result",
            "gpt     default  equal",
        ]

    def test_what_is_slower_or_was_disturbed_is_explained(self) -> None:
        held = Gpu(throttled=("thermal",))
        runs = {"naive": replace(NAIVE, gpu=held), "default": replace(run("default", each=0.2), gpu=held)}
        note = list(measured(rounds("gpt", runs)))[-1]
        assert note.startswith("gpt/default: ")
        assert note.endswith("The GPU's clock was held back: thermal.")

    def test_a_text_that_is_slower_in_the_only_round_is_explained(self) -> None:
        late = run("default", each=0.05, wall_seconds=49.0)
        note = list(measured(rounds("gpt", {"naive": NAIVE, "default": late}, count=1)))[-1]
        assert note.startswith("gpt/default: ")
        assert "In the only pair of runs the rewritten script took 4.08 times as long" in note
        assert "The rewritten script's process took 42.0 s longer to end than the script itself" in note


RULES = [
    *rounds(
        "gpt",
        {
            "naive": NAIVE,
            "default": FAST,
            "only-amp": run("only-amp", each=0.08),
            "without-amp": run("without-amp", each=0.05),
            "only-compile": run("only-compile", each=0.05, start=3.0),
            "without-compile": run("without-compile", each=0.08),
            "only-loader-pin": CRASHED,
        },
    ),
    *rounds("gpt", {"naive": NAIVE, "workers-16": run(each=0.02), "workers-4": run(each=0.05)}),
    *rounds("gpt", {"naive": NAIVE, "default": FAST}, prefix="batch 64/"),
]


class TestRules:
    lines = tuple(measured(RULES))

    def test_each_rule_has_what_it_brings_alone_and_to_the_others(self) -> None:
        cells = table(self.lines, "script  rule")
        assert cells["gpt", "compile"] == {
            "script": "gpt",
            "rule": "compile",
            "alone": "2.00 (2.00-2.00)",
            "all others": "1.25 (1.25-1.25)",
            "brings to them": "2.00 (2.00-2.00)",
            "start alone, s": "2.0 → 4.0",
            "paid back": "40",
            "GiB alone": "1.00 → 1.00",
            "result alone": "equal",
            "result of all others": "equal",
        }

    def test_the_rule_that_brings_most_stands_first_and_one_that_failed_last(self) -> None:
        assert [rule for _, rule in table(self.lines, "script  rule")] == ["compile", "amp", "loader-pin"]
        assert table(self.lines, "script  rule")["gpt", "loader-pin"]["result alone"] == "crashed"

    def test_rules_come_before_workers_and_workers_before_batch_sizes(self) -> None:
        heads = [each for each in self.lines if each.endswith(":") and not each.startswith(" ")]
        assert heads == ["Rules alone and left out: ratios of an iteration:", "Numbers of workers:", "Batch sizes:"]

    def test_workers_are_sorted_by_their_number(self) -> None:
        after = self.lines[self.lines.index("Numbers of workers:") + 1 :]
        assert [text for _, text in table(after, "script  ")] == ["workers-4", "workers-16"]

    def test_another_batch_size_is_no_row_of_the_script_itself(self) -> None:
        after = self.lines[self.lines.index("Batch sizes:") + 1 :]
        assert list(table(after, "script  ")) == [("batch 64: gpt", "default")]

    def test_a_ratio_of_parts_of_runs_is_said_to_be_one(self) -> None:
        cut = {name: replace(made, ended="cut") for name, made in (("naive", NAIVE), ("only-amp", FAST))}
        assert list(measured(rounds("gpt", cut)))[-1].startswith("Runs were cut")
        assert not any(each.startswith("Runs were cut") for each in self.lines)


FACTS: list[Values] = [
    {
        "key": "types",
        "question": "Which types?",
        "seen": {
            "results": {f"op{at}": ["float32", "float32"] if at < 5 else ["float32", "bfloat16"] for at in range(8)},
            "rate": 123.456789,
            "deep": {"inner": {"a": 1, "b": True}},
            "not_here": {"pinned": "no GPU"},
            "failed": {"norms": {"type": "RuntimeError", "text": "no such operator"}},
        },
    },
    {"key": "slow", "question": "Does it end?", "failed": "no answer within 9 seconds"},
    {"key": "broken", "question": "Does it start?", "failed": 1, "output": ["Traceback", "OSError: no"]},
]


def test_facts_that_failed_come_first_and_answers_are_short() -> None:
    assert list(answers(FACTS)) == [
        "FAILED types, norms: type RuntimeError, text no such operator",
        "FAILED slow: Does it end? no answer within 9 seconds",
        "FAILED broken: Does it start? exit status 1",
        "    Traceback",
        "    OSError: no",
        "types: Which types?",
        "    results:",
        "      float32, float32 (5): op0, op1, op2, op3, op4",
        "      float32, bfloat16 (3): op5, op6, op7",
        "    rate: 123.5",
        "    deep.inner: a 1, b True",
        "    not seen here: pinned (no GPU)",
    ]


def test_no_name_is_left_out_of_a_long_list() -> None:
    names = [f"operation_{at}" for at in range(40)]
    lines = list(answers([{"key": "a", "question": "What?", "seen": {"table": dict.fromkeys(names, "float32")}}]))
    assert re.findall(r"operation_\d+", " ".join(lines)) == names
    assert max(map(len, lines)) <= 4 + tables.LONGEST


def test_long_answers_are_cut() -> None:
    (_, said) = answers([{"key": "a", "question": "What?", "seen": {"text": "x" * 500, "failed": {}}}])
    assert len(said) == 4 + tables.LONGEST
    assert said.endswith("…")


def crashes() -> list[Values]:
    """Of stage 1: a script whose bits are the same, and one whose bits are not."""
    made_of: list[tuple[str, str, Kind, Run]] = [
        ("gpt", "naive", "pair", NAIVE),
        ("gpt", "fp16", "pair", CRASHED),
        ("gpt", "naive", "check", NAIVE),
        ("gpt", "bitwise", "check", NAIVE),
        ("quick_cnn", "naive", "pair", NAIVE),
        ("quick_cnn", "fp16", "pair", replace(NAIVE, losses=(4.4, *NAIVE.losses[1:]))),
        ("quick_cnn", "naive", "check", NAIVE),
        ("quick_cnn", "bitwise", "check", replace(NAIVE, losses=(*NAIVE.losses[:7], 9.0, *NAIVE.losses[8:]))),
    ]
    return [
        {
            "key": f"{script}/{variant}/{kind}",
            "script": script,
            "variant": variant,
            "kind": kind,
            "run": as_line(replace(made, kind=kind)),
        }
        for script, variant, kind, made in made_of
    ]


LENGTH = Length((), (), OWN_LENGTH)
KNOWN = tuple(Script(name, LENGTH, LENGTH, LENGTH, LENGTH, Seconds(1, 1, 1)) for name in (*SCRIPTS, "unmeasured"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """README, the page and its pictures, written from all stages but the sixth; a last line was cut short."""
    folder = tmp_path_factory.mktemp("written")
    truth = {"expected": {"speed": "faster"}, "seen": {"speed": "slower"}, "wrong": ["speed"], "not_here": []}
    stages = {1: crashes(), 2: SPEED, 3: RULES, 4: FACTS, 5: [{"key": "a sleep", **truth}]}
    for number, lines in stages.items():
        append(folder / "results" / DEVICE / f"stage-{number}.jsonl", MACHINE, *lines)
    with (folder / "results" / DEVICE / "stage-2.jsonl").open("ab") as file:
        file.write(b'{"key": "gpt/default/1", "scr')
    (folder / "README.md").write_text(EMPTY, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "SCRIPTS", KNOWN)
        write(folder / "results", folder / "README.md")
    return folder


@pytest.fixture
def readme(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A README that is current, beside the results."""
    monkeypatch.setattr(pages, "SCRIPTS", KNOWN)
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path / "README.md"


@pytest.fixture
def results(readme: Path) -> Path:
    """The results."""
    return readme.parent / "results"


def append(path: Path, *lines: Values) -> None:
    for each in lines:
        Ledger(path).append(each)


def rows(text: str, first: str) -> list[list[str]]:
    """The rows of the Markdown table whose head begins so."""
    lines = text.partition(f"| {first} |")[2].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", each)[1:-1]] for each in lines[2:]]


class TestReadme:
    def test_without_results_it_says_so_and_there_is_no_picture(self, tmp_path: Path) -> None:
        readme, page = tmp_path / "README.md", tmp_path / "results" / "README.md"
        readme.write_text(EMPTY, encoding="utf-8")
        assert write(tmp_path / "results", readme) == [readme, page]
        text = "# Tool\n\n<!-- gpu -->\nNot measured on a GPU yet.\n<!-- end of gpu -->\n\nThe end.\n"
        assert readme.read_text(encoding="utf-8") == text
        assert page.read_text(encoding="utf-8") == "# Measured on a GPU\n\nNot measured on a GPU yet.\n"
        assert not list(tmp_path.rglob("*.svg"))

    def test_each_figure_is_that_of_the_runs_and_what_was_not_measured_is_a_dash(self, readme: Path) -> None:
        none = [DASH] * 6
        assert rows(readme.read_text(encoding="utf-8"), "Script") == [
            # Whole runs of 1000 iterations: 102 seconds, with TF32 82, and 44 with 5 more for kernels made anew.
            [
                "`quick_cnn`, 100 of 1000 iterations",
                "rewritten",
                "1.50 (1.50-1.50)",
                "1.25 (1.25-1.25)",
                "2.08",
                "1.67",
                "faster",
                "equal",
            ],
            ["", "expert", *none],
            [
                "`gpt`, 100 of 1000 iterations",
                "rewritten",
                "1.71 (one round)",
                DASH,
                "1.96",
                DASH,
                "inconclusive",
                "equal",
            ],
            ["", "expert", DASH, DASH, DASH, DASH, DASH, "crashed"],
            ["`unmeasured`", "rewritten", *none],
            ["", "expert", *none],
        ]

    def test_it_says_what_was_measured_where_when_and_how(self, readme: Path) -> None:
        text = readme.read_text(encoding="utf-8").replace("\n", " ")
        about = (
            "**NVIDIA H200, torch 2.11.0** (commit 0123456789ab, 2026-11-22, rounds: 1 to 2; `python -m tests.gpu run "
        )
        assert f"{about}--stage 2 --out results/{DEVICE}`)" in text
        assert "in random order" in text
        assert "[results/README.md](results/README.md)" in text

    def test_the_commands_are_named_with_the_arguments_of_their_calls(self, results: Path, readme: Path) -> None:
        path = results / DEVICE / "stage-2.jsonl"
        kept = [each for each in Ledger(path).lines() if each["key"] != "machine 1"]
        path.unlink()
        calls = (
            ["run", "--stage", "1", "--stage", "2", "--budget", "540", "--out", "/elsewhere/out"],
            ["run", "--stage", "2", "--out=/elsewhere/out", "--scratch", "my scratch"],
            ["run", "--stage", "2", "--out=/elsewhere/more", "--scratch", "my scratch"],
        )
        for number, arguments in enumerate(calls, 1):
            append(path, {**MACHINE, "key": f"machine {number}", "arguments": arguments})
        append(path, *kept)
        write(results, readme)
        place = f"results/{DEVICE}"
        commands = (
            f"`python -m tests.gpu run --stage 1 --stage 2 --budget 540 --out {place}`, "
            f"`python -m tests.gpu run --stage 2 --out={place} --scratch 'my scratch'`"
        )
        assert f"rounds: 1 to 2; {commands}):" in readme.read_text(encoding="utf-8").replace("\n", " ")
        page = (results / "README.md").read_text(encoding="utf-8")
        assert f"### Is it faster?\n\n{commands} (commit 0123456789ab, 2026-11-22)" in page
        assert f"### Facts\n\n`python -m tests.gpu run --stage 4 --out {place}` (commit" in page

    def test_what_compiles_and_was_never_compiled_anew_is_marked(self, results: Path, readme: Path) -> None:
        path = results / DEVICE / "stage-2.jsonl"
        kept = [each for each in Ledger(path).lines() if each.get("label") != "default, cold"]
        path.unlink()
        append(path, *kept)
        write(results, readme)
        text = readme.read_text(encoding="utf-8")
        assert rows(text, "Script")[0][4:6] == ["2.32 \\*", "1.86 \\*"]  # 102 and 82 by 44 seconds
        assert "\\* Its compiled kernels were at hand" in text

    def test_a_device_whose_speed_was_not_measured_has_no_table(self, results: Path, readme: Path) -> None:
        (results / DEVICE / "stage-2.jsonl").unlink()
        write(results, readme)
        text = readme.read_text(encoding="utf-8")
        assert "**NVIDIA H200, torch 2.11.0**: how fast scripts are was not measured." in text
        assert "| Script |" not in text

    def test_each_device_has_its_table(self, results: Path, readme: Path) -> None:
        append(results / "a100-torch2.9" / "stage-2.jsonl", {**MACHINE, "gpu": {"name": "NVIDIA A100"}}, *SPEED)
        write(results, readme)
        text = readme.read_text(encoding="utf-8")
        assert re.findall(r"^\*\*(.*?)\*\*", text, re.MULTILINE) == [
            "NVIDIA A100, torch 2.11.0",
            "NVIDIA H200, torch 2.11.0",
        ]
        assert text.count("| `gpt`, 100 of 1000 iterations |") == 2

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("# Tool\n", id="none"),
            pytest.param("<!-- gpu -->\n<!-- end of gpu -->\n" * 2, id="twice"),
        ],
    )
    def test_without_its_markers_nothing_is_written(self, text: str, tmp_path: Path) -> None:
        readme = tmp_path / "README.md"
        readme.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match="each on a line of its own"):
            write(tmp_path / "results", readme)
        assert not (tmp_path / "results").exists()


class TestPage:
    @pytest.fixture
    def page(self, results: Path) -> str:
        return (results / "README.md").read_text(encoding="utf-8")

    def test_every_picture_is_there_and_has_a_text(self, page: str, results: Path) -> None:
        shown = {path: alt for alt, path in re.findall(r"^!\[(.*)\]\((.*)\)$", page, re.MULTILINE)}
        assert set(shown) == {f"{DEVICE}/{name}.svg" for name in ("speed", "start", "memory", "rules", "workers")}
        assert all((results / path).exists() for path in shown)
        assert "gpt: rewritten 1.71 (-), expert crashed" in shown[f"{DEVICE}/speed.svg"]
        assert "naive with TF32 1.20" in shown[f"{DEVICE}/speed.svg"]
        assert "rewritten, compiling anew 5.0 s" in shown[f"{DEVICE}/start.svg"]
        assert "rewritten 4.0 s, paid back after 34 iterations" in shown[f"{DEVICE}/start.svg"]
        assert "in tensors 0.50 GiB and taken by torch's allocator 2.00 GiB" in shown[f"{DEVICE}/memory.svg"]
        assert "amp alone, over naive 1.25 (1.25-1.25)" in shown[f"{DEVICE}/rules.svg"]
        assert "gpt: 4 2.00 (2.00-2.00), 16 5.00 (5.00-5.00)" in shown[f"{DEVICE}/workers.svg"]

    def test_crashes_bits_and_losses_of_each_script_are_told(self, page: str) -> None:
        assert "8 runs, 1 failed." in page
        assert "    RuntimeError: no kernel | image" in page
        assert rows(page, "Script | naive") == [
            ["`gpt`", "ok", "equal (100 losses)", "**crashed**"],
            ["`quick_cnn`", "ok", "**DIFFER** from loss 8 on", "9.1e-02, 0.0e+00"],
        ]

    @pytest.mark.parametrize(
        ("first", "claims", "verdict", "distances"),
        [
            pytest.param(
                *(4.4, {"tolerance": 0.01}, "FARTHER APART THAN PROMISED (0.01)", "9.1e-02, 0.0e+00"),
                id="above the tolerance",
            ),
            pytest.param(4.4, {"tolerance": 0.5}, "", "9.1e-02, 0.0e+00", id="within the tolerance"),
            pytest.param(4.4, {"redraws_at_once": True}, "", "9.1e-02, 0.0e+00", id="other draws at once"),
            pytest.param(4.4, None, "", "9.1e-02, 0.0e+00", id="written by hand: nothing is promised"),
            pytest.param(math.nan, {"tolerance": 0.5}, "DIVERGED", "inf, 0.0e+00", id="no number"),
        ],
    )
    def test_it_says_of_losses_what_the_terminal_says(
        self, *, first: float, claims: Values | None, verdict: str, distances: str, results: Path, readme: Path
    ) -> None:
        path = results / DEVICE / "stage-1.jsonl"
        path.unlink()
        known = None if claims is None else {**CLAIMS, "redraws_at_once": False, **claims}
        for variant, made in (("naive", NAIVE), ("fp16", replace(NAIVE, losses=(first, *NAIVE.losses[1:])))):
            about = {"key": f"gpt/{variant}", "script": "gpt", "variant": variant, "kind": "pair"}
            append(path, {**about, "claims": known if variant == "fp16" else None, "run": as_line(made)})
        write(results, readme)
        (row,) = rows((results / "README.md").read_text(encoding="utf-8"), "Script | naive")
        assert row[-1] == (f"**{verdict}**: {distances}" if verdict else distances)
        (said,) = (each for each in summary(list(Ledger(path).lines())) if each.startswith("gpt/fp16: "))
        assert said.startswith(f"gpt/fp16: {verdict}: first loss " if verdict else "gpt/fp16: first loss ")

    def test_facts_verdicts_and_the_machine_are_told(self, page: str) -> None:
        (fact,) = rows(page, "Fact")
        assert fact[:2] == ["`types`", "Which types?"]
        assert "rate: 123.5<br>deep.inner: a 1, b True" in fact[2]
        assert "    FAILED slow: Does it end? no answer within 9 seconds" in page
        assert "    a sleep: speed: expected faster, seen slower: WRONG." in page
        machines = rows(page, "Stage")
        assert [row[0] for row in machines] == ["1", "2", "3", "4", "5"]
        assert machines[0][3:9] == ["NVIDIA H200", "570.1", "1980 of 1980", "31", "700", "0"]

    def test_a_stage_without_results_is_said_to_be_missing(self, page: str) -> None:
        assert "### What would a user pick instead?\n\nStage 6 was not measured." in page

    def test_rivals_stand_beside_the_others(self, results: Path, readme: Path) -> None:
        runs = {"naive": NAIVE, "default": FAST, "with_lightning": run("with_lightning", each=0.06)}
        append(results / DEVICE / "stage-6.jsonl", *rounds("gpt", runs))
        assert results / DEVICE / "speed.svg" in write(results, readme)
        assert "run without `torch.compile` and `cudnn.benchmark`" in (results / "README.md").read_text(
            encoding="utf-8"
        )
        speed = (results / DEVICE / "speed.svg").read_text(encoding="utf-8")
        assert "Lightning, by hand" in speed
        assert "1.71 (-)" in speed  # the second stage's figure of the same text counts

    def test_no_figure_of_the_simulated_device_becomes_a_bar(self, tmp_path: Path, readme: Path) -> None:
        simulated = {**ENVIRONMENT, "simulated": "9.0"}
        runs = {"naive": replace(NAIVE, environment=simulated), "default": replace(FAST, environment=simulated)}
        tried = tmp_path / "tried"
        append(tried / "here" / "stage-2.jsonl", {**MACHINE, "device": "simulated"}, *rounds("gpt", runs))
        write(tried, readme)
        text = readme.read_text(encoding="utf-8")
        assert "**simulated device, torch 2.11.0**" in text
        assert rows(text, "Script")[2] == ["`gpt`, 100 of 1000 iterations", "rewritten", *[DASH] * 5, "equal"]
        assert tables.NOT_CHECKED in text
        assert not list(tried.rglob("*.svg"))


class TestCurrent:
    def test_nothing_is_left_to_do_after_writing(self, results: Path, readme: Path) -> None:
        assert current(results, readme) == []
        assert write(results, readme) == []

    def test_what_was_edited_by_hand_is_named_and_mended(self, results: Path, readme: Path) -> None:
        before = readme.read_text(encoding="utf-8")
        readme.write_text(before.replace("1.50", "15.0"), encoding="utf-8")
        assert current(results, readme) == [readme]
        assert write(results, readme) == [readme]
        assert readme.read_text(encoding="utf-8") == before

    def test_what_stands_around_the_markers_is_the_authors(self, results: Path, readme: Path) -> None:
        readme.write_text(f"{readme.read_text(encoding='utf-8')}More.\n", encoding="utf-8")
        assert current(results, readme) == []

    def test_more_results_make_their_picture_stale(self, results: Path, readme: Path) -> None:
        append(results / DEVICE / "stage-3.jsonl", line("gpt", "workers-8", 0, run(each=0.03)))
        assert current(results, readme) == [results / "README.md", results / DEVICE / "workers.svg"]

    def test_a_picture_of_results_that_are_gone_goes_too(self, results: Path, readme: Path) -> None:
        (results / DEVICE / "stage-3.jsonl").unlink()
        gone = [results / DEVICE / f"{name}.svg" for name in ("rules", "workers")]
        assert write(results, readme) == [results / "README.md", *gone]
        assert not any(path.exists() for path in gone)

    def test_two_writings_give_the_same_bytes(self, results: Path, readme: Path) -> None:
        pictures = sorted(results.glob("*/*.svg"))
        before = [path.read_bytes() for path in pictures]
        for path in pictures:
            path.unlink()
        assert sorted(write(results, readme)) == pictures
        assert [path.read_bytes() for path in pictures] == before
        assert len(pictures) == 5

    def test_the_repositorys_own_are_current(self) -> None:
        assert current(ROOT / "fixtures" / "results", README) == []


BARS = Bars(
    "How fast",
    "ratio",
    tuple(
        Group(
            f"script_{at}",
            (
                Row("rewritten", (Bar("2.00 (0.10-40.00)", 2.0, 0.1, 40.0),), accent=True),
                Row("expert", (Bar("crashed"),)),
            ),
        )
        for at in range(12)
    ),
    ratios=True,
)
CURVES = Curves(
    "Workers", "workers", "ratio", ("0", "4"), (Line("gpt_small", (Bar("1.00", 1.0), None)), Line("cnn", (None, None)))
)


class TestDrawing:
    @pytest.mark.parametrize(
        ("picture", "names"),
        [
            pytest.param(BARS, [f"script_{at}" for at in range(12)], id="bars of twelve scripts"),
            pytest.param(
                replace(BARS, ratios=False, series=("a", "b")),
                ["script_0", "rewritten", "crashed"],
                id="several series",
            ),
            pytest.param(CURVES, ["gpt_small", "Workers"], id="curves with gaps"),
        ],
    )
    def test_a_picture_is_well_formed_and_names_its_scripts(self, picture: plots.Picture, names: list[str]) -> None:
        root = ET.fromstring(plots.svg(picture))  # noqa: S314 - our own
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = {"".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")}
        assert set(names) <= texts

    def test_it_has_a_ground_of_its_own_and_no_date(self) -> None:
        text = plots.svg(BARS).decode()
        assert "fill: #ffffff" in text
        assert "<dc:date>" not in text

    def test_an_interval_without_end_does_not_squeeze_the_bars(self) -> None:
        axes = plots.drawn(BARS).axes[0]
        low, high = axes.get_xlim()
        assert 0.5 < low < 1.0
        assert 2.0 < high < 4.0

    @pytest.mark.parametrize("scripts", [1, 3, 12])
    @pytest.mark.parametrize("series", [("",), ("alone", "in the whole")], ids=["one series", "two series"])
    def test_no_text_lies_over_another(self, scripts: int, series: tuple[str, ...]) -> None:
        groups = tuple(
            replace(group, rows=tuple(replace(row, bars=row.bars * len(series)) for row in group.rows))
            for group in BARS.groups[:scripts]
        )
        figure: Any = plots.drawn(replace(BARS, groups=groups, series=series))
        canvas: Any = FigureCanvasAgg(figure)
        canvas.draw()
        axes = figure.axes[0]
        legend = axes.get_legend()
        texts = [
            *(axes._left_title, axes.xaxis.label),
            *(*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels()),
            *(legend.get_texts() if legend is not None else ()),
        ]
        boxes = [text.get_window_extent(canvas.get_renderer()) for text in texts if text.get_text()]
        assert len(boxes) >= 3 * scripts + 2 * scripts * len(series)
        assert not [(a, b) for a, b in combinations(boxes, 2) if a.overlaps(b)]
