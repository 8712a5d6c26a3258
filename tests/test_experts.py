"""The comparison with experts on a CPU: what is kept of it, and the table that is written from that."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from tests import experts
from tests.gpu.scripts import SCRIPTS
from tests.gpu.tables import MISSING

if TYPE_CHECKING:
    from pathlib import Path

ANSWER: dict[str, Any] = {
    "exit_code": 0,
    "run": "ok",
    "speed": "faster",
    "equality": "equal",
    "pairs": 8,
    "sized": "",
    "reason": f"See {experts.ROOT}/fixtures/gpt/naive.py",
    "environment": {"torch": "2.15.0", "python": "3.11.7", "cpus": 2},
    "original": {"run_seconds": 8.04},
    "rewritten": {"run_seconds": 4.0},
    "summary": None,
    "changed_outside": [f"{experts.ROOT}/fixtures"],
    "ratios": {
        "run": {"estimate": 2.01, "low": 1.9, "high": 2.1},
        "iteration": {"estimate": 3.0, "low": None, "high": None},
    },
}


def test_nothing_of_the_machine_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        experts, "command", lambda *_: [sys.executable, "-c", f"print({json.dumps(ANSWER)!r})", str(tmp_path)]
    )

    found = experts.measured(SCRIPTS[0], "fast", tmp_path, 60, 60)

    assert found["speed"] == "faster"
    assert found["reason"] == "See fixtures/gpt/naive.py"
    assert str(experts.ROOT) not in json.dumps(found)
    assert str(tmp_path) not in json.dumps(found)


def test_a_comparison_that_gives_no_answer_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(experts, "command", lambda *_: [sys.executable, "-c", "raise SystemExit('no such file')"])

    assert experts.measured(SCRIPTS[0], "fast", tmp_path, 60, 60)["problem"] == "no such file"


def test_a_comparison_that_takes_too_long_is_interrupted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does in the background; what is tested undoes it
    says = 'import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print(\'{"speed": "faster"}\')'
    monkeypatch.setattr(experts, "command", lambda *_: [sys.executable, "-c", says])

    assert experts.measured(SCRIPTS[0], "fast", tmp_path, 60, 3)["speed"] == "faster"


def test_each_text_is_compared_with_an_equal_part_of_the_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shares: list[tuple[str, str, float]] = []

    def measured(script: Any, text: str, _: Path, seconds: float, left: float) -> dict[str, Any]:
        assert seconds <= left
        shares.append((script.name, text, seconds))
        return {"script": script.name, "text": text, "problem": "none"}

    monkeypatch.setattr(experts, "measured", measured)
    monkeypatch.setattr(experts, "commit", lambda: "abc")
    monkeypatch.setattr(experts, "_make", lambda *_: None)
    monkeypatch.setattr(experts, "write_selected", lambda *_: None)
    experts.measure(("gpt", "tabular_mlp"), 500, tmp_path / "experts.json")

    assert [each[:2] for each in shares] == [
        ("tabular_mlp", "fast"),
        ("tabular_mlp", "selected"),
        ("tabular_mlp", "expert"),
        ("gpt", "fast"),
        ("gpt", "expert"),
    ]
    assert shares[0][2] == pytest.approx(100, abs=2)
    assert len(json.loads((tmp_path / "experts.json").read_text())["comparisons"]) == len(shares)


def test_what_there_is_no_time_for_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(experts, "commit", lambda: "abc")
    monkeypatch.setattr(experts, "_make", lambda *_: None)
    monkeypatch.setattr(
        experts, "measured", lambda script, text, *_: {"script": script.name, "text": text, "problem": "busy"}
    )
    experts.measure(("gpt",), experts.SHORTEST, tmp_path / "experts.json")

    kept = json.loads((tmp_path / "experts.json").read_text())["comparisons"]
    assert [each["problem"] for each in kept] == ["busy", "not measured: the time was over"]


def test_a_comparison_that_did_not_end_well_says_why() -> None:
    known = {**ANSWER, "script": "gpt", "text": "fast", "run": "interrupted", "reason": "It was interrupted."}

    assert experts.table({"commit": "", "load": 0.1, "comparisons": [{**known, "seconds": {}}]}).endswith(
        "| It was interrupted. |"
    )


def test_the_table() -> None:
    known = {**ANSWER, "script": "gpt", "text": "fast", "seconds": {"original": 8.04, "rewritten": 4.0}}
    failed = {"script": "gpt", "text": "expert", "problem": "no answer in time"}

    assert experts.table({"commit": "abc", "load": 0.1, "comparisons": [known, failed]}) == (
        "Measured with commit abc, torch 2.15.0, Python 3.11.7, 2 cores, load 0.1 before.\n"
        "\n"
        "| script | text | whole run | iteration | seconds | pairs | of the expert's speed | result |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        f"| `gpt` | rewritten | 2.01 (1.90 to 2.10) | 3.00 | 8.0 → 4.0 | 8 | {MISSING} | faster, results equal |\n"
        f"| `gpt` | expert | {' | '.join(MISSING * 4)} |  | no answer in time |"
    )


def test_the_table_says_how_fast_the_rewritten_text_is_beside_the_experts() -> None:
    sides = [
        {**ANSWER, "script": "gpt", "text": text, "seconds": {"original": 8.0, "rewritten": 4.0}, "ratios": ratios}
        for text, ratios in (
            ("fast", {"run": {"estimate": 1.8, "low": 1.6, "high": 2.025}, "iteration": {"estimate": 3.0}}),
            ("expert", {"run": {"estimate": 2.0, "low": 2.0, "high": 2.0}, "iteration": {"estimate": 4.0}}),
        )
    ]
    for side in sides:
        side["ratios"]["iteration"].update(low=None, high=None)

    rows = experts.table({"commit": "abc", "load": 0.1, "comparisons": sides}).splitlines()[-2:]

    assert rows[0].endswith("| 90 % (80 % to 101 %), iteration 75 % | faster, results equal |")
    assert rows[1].endswith("|  | faster, results equal |")


def test_the_table_says_where_it_was_measured_at_other_sizes() -> None:
    size = " ".join(experts.SIZES["gpt"].arguments)
    for command, is_told in ((f"torchfast verify -- {size}", False), ("torchfast verify -- --model small", True)):
        found = {"script": "gpt", "text": "fast", "problem": "busy", "command": command}

        said = experts.table({"commit": "abc", "load": 0.1, "comparisons": [found]}).splitlines()[0]

        assert ("other sizes" in said) is is_told


def test_a_text_has_rules_that_have_to_be_selected(tmp_path: Path) -> None:
    (script,) = (each for each in SCRIPTS if each.name == "mnist_feedforward")
    experts.write_selected(script, tmp_path / script.name)
    text = experts.selected(script, tmp_path / script.name)

    assert "lr=args.lr, fused=True)" in text.read_text(encoding="utf-8")
    assert str(text) in experts.command(script, "selected", tmp_path / script.name, 60)
    assert "| rewritten, with `fused-cpu` |" in experts.table(
        {"commit": "", "load": 0.1, "comparisons": [{"script": script.name, "text": "selected", "problem": "busy"}]}
    )


def test_each_script_has_a_size() -> None:
    assert experts.SIZES.keys() == {each.name for each in SCRIPTS}


def test_the_document_has_the_table_of_the_record() -> None:
    text = experts.DOCUMENT.read_text(encoding="utf-8")

    assert text == experts.document()
    assert experts.table(experts.kept_record()) in text


def test_the_record_has_no_paths_of_a_machine() -> None:
    record = json.dumps(experts.kept_record())

    assert "/tmp" not in record  # noqa: S108 - that is looked for
    assert str(experts.ROOT) not in record


def test_the_table_is_written_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    document = tmp_path / "measured.md"
    document.write_text("# Measured\n\n<!-- experts -->\nold\n<!-- end of experts -->\n")
    monkeypatch.setattr(experts, "DOCUMENT", document)
    monkeypatch.setattr(experts, "RECORD", tmp_path / "none.json")

    assert CliRunner().invoke(experts.main, ["--table"]).exit_code == 0
    assert "\nNot measured yet.\n<!-- end" in document.read_text()
