"""Whether what was measured of a script still stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.checking.evidence import NAME, record, verdicts
from autotune_rewrite.errors import FileError
from autotune_rewrite.project import target
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.statistics.ratio import Ratio

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Answer

    Run = Callable[..., Answer]

RATIO = Ratio(2.5, 2.25, 2.75)
JUDGED = Judgement(
    "ok", "faster", "equal", "It is.", "bitwise", whole=RATIO, environment={"torch": "2.15.0", "cpus": 2, "cuda": False}
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("import data\n")
    (tmp_path / "data.py").write_text("import torch\n")
    (tmp_path / "requirements.txt").write_text("torch==2.9\n")
    record(
        str(tmp_path / "train.py"),
        JUDGED,
        {"loader-pin": ("kept", RATIO), "zero-grad-none": ("not-told", None)},
        [str(tmp_path / name) for name in ("train.py", "data.py")],
        ["--epochs", "2"],
    )
    return tmp_path


def why(project: Path, name: str = "train.py") -> tuple[str, ...]:
    (verdict,) = verdicts([str(project / name)])
    return verdict.stale


def test_what_was_not_touched_is_fresh_and_says_what_was_measured(project: Path) -> None:
    (verdict,) = verdicts([str(project / "train.py")])

    assert verdict.is_fresh
    assert verdict.gain == "2.50 times as fast (2.25 to 2.75) on 2 CPU cores with torch 2.15.0"


@pytest.mark.parametrize("name", ["train.py", "data.py"])
def test_code_that_was_changed_makes_it_stale(project: Path, name: str) -> None:
    with (project / name).open("a") as file:
        file.write("x = 1\n")

    assert why(project) == (f"{name} was changed: verify again",)


def test_a_module_that_is_gone_makes_it_stale(project: Path) -> None:
    (project / "data.py").unlink()

    assert why(project) == ("data.py is gone: verify again",)


def test_another_torch_makes_it_stale(project: Path) -> None:
    (project / "requirements.txt").write_text("torch==2.10\n")
    target.found_from.cache_clear()  # as in another process

    assert why(project) == ("torch 2.9 → 2.10: verify again",)


def test_a_torch_that_is_no_longer_asked_for_makes_it_stale(project: Path) -> None:
    (project / "requirements.txt").unlink()
    target.found_from.cache_clear()

    assert why(project) == ("torch 2.9 → of any version: verify again",)


def test_line_ends_of_another_system_are_no_change(project: Path) -> None:
    (project / "train.py").write_bytes(b"import data\r\n")

    assert why(project) == ()


def test_a_script_that_was_never_measured_is_told(project: Path) -> None:
    assert "never measured" in why(project, "data.py")[0]


def test_what_is_known_of_other_scripts_stays(project: Path) -> None:
    (project / "other.py").write_text("import torch\n")
    record(str(project / "other.py"), JUDGED, {}, [str(project / "other.py")])

    assert [(each.script.rpartition("/")[2], each.is_fresh) for each in verdicts([str(project)])] == [
        ("other.py", True),
        ("train.py", True),
    ]


def test_the_record_says_what_was_measured_where(project: Path) -> None:
    known = json.loads((project / NAME).read_text())["scripts"]["train.py"]

    assert known["arguments"] == ["--epochs", "2"]
    assert known["environment"] == JUDGED.environment
    assert known["rules"] == {
        "loader-pin": {
            "answer": "kept",
            "ratio": {"estimate": 2.5, "low": 2.25, "high": 2.75, "confidence": 0.95},
        },
        "zero-grad-none": {"answer": "not-told", "ratio": None},
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="no JSON"),
        pytest.param("[]", id="a list"),
        pytest.param('{"version": 99, "scripts": {}}', id="of a later version"),
        pytest.param('{"version": 1, "scripts": []}', id="no scripts"),
    ],
)
def test_a_damaged_record_is_told_and_not_overwritten(project: Path, text: str) -> None:
    (project / NAME).write_text(text)

    with pytest.raises(FileError, match=NAME):
        list(verdicts([str(project)]))
    with pytest.raises(FileError, match=NAME):
        record(str(project / "train.py"), JUDGED, {}, [])
    assert (project / NAME).read_text() == text


# --- the command ----------------------------------------------------------------------------------------------------


def test_fresh_evidence_passes(torchfast: Run, project: Path) -> None:
    answer = torchfast("check", "--evidence", str(project))

    assert answer.code == 0
    assert "2.50 times as fast" in answer.out


def test_stale_evidence_fails_and_says_why(torchfast: Run, project: Path) -> None:
    (project / "data.py").write_text("import torch, os\n")

    answer = torchfast("check", "--evidence", str(project))

    assert answer.code == 1
    assert "stale: data.py was changed: verify again" in answer.out


def test_no_evidence_fails(torchfast: Run, tmp_path: Path) -> None:
    answer = torchfast("check", "--evidence", str(tmp_path))

    assert answer.code == 1
    assert f"no {NAME}" in answer.out


def test_a_record_of_no_script_fails(torchfast: Run, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"version": 1, "scripts": {}}')

    assert torchfast("check", "--evidence").code == 1


@pytest.mark.parametrize("option", ["--fix", "--diff", "--statistics", "--add-ignores"])
def test_options_about_findings_are_refused(torchfast: Run, project: Path, option: str) -> None:
    answer = torchfast("check", "--evidence", option, str(project))

    assert answer.code == 2
    assert f"{option} is about findings" in answer.err


def test_stale_evidence_passes_where_nothing_is_to_fail(torchfast: Run, project: Path) -> None:
    (project / "data.py").write_text("import torch, os\n")

    assert torchfast("check", "--evidence", "--exit-zero", str(project)).code == 0


def test_evidence_in_a_file(torchfast: Run, project: Path, tmp_path: Path) -> None:
    answer = torchfast("check", "--evidence", "--output-file", "said.txt", str(project))

    assert answer.out == ""
    assert "2.50 times as fast" in (tmp_path / "said.txt").read_text()


def test_evidence_as_json(torchfast: Run, project: Path) -> None:
    told = json.loads(torchfast("check", "--evidence", "--format", "json", str(project)).out)

    assert [(each["fresh"], each["why"]) for each in told["evidence"]] == [(True, [])]


def test_a_script_that_is_not_there_is_a_fault(torchfast: Run, tmp_path: Path) -> None:
    answer = torchfast("check", "--evidence", str(tmp_path / "none.py"))

    assert answer.code == 2
    assert "no such file" in answer.err


# --- findings -------------------------------------------------------------------------------------------------------

GAIN = "2.50 times as fast (2.25 to 2.75) when it was measured (torchfast.lock)"


def test_a_finding_says_what_was_measured_of_its_rule(torchfast: Run, naive: Path) -> None:
    record(str(naive), JUDGED, {"loader-pin": ("dropped", RATIO)}, [str(naive)])

    lines = torchfast("check", str(naive)).out.splitlines()

    assert [("loader-pin" in line) for line in lines if GAIN in line] == [True]


def test_it_does_not_once_the_script_was_changed(torchfast: Run, naive: Path) -> None:
    record(str(naive), JUDGED, {"loader-pin": ("dropped", RATIO)}, [str(naive)])
    naive.write_text(f"{naive.read_text()}print(loss)\n")

    assert GAIN not in torchfast("check", str(naive)).out


def test_programs_are_told_too(torchfast: Run, naive: Path) -> None:
    record(str(naive), JUDGED, {"loader-pin": ("dropped", RATIO)}, [str(naive)])

    assert GAIN in torchfast("check", str(naive), "--format", "sarif").out
