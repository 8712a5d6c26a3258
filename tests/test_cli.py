from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite import __version__
from codemods.catalogue import RULES
from tests.conftest import NAIVE, Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune_rewrite.verify import Judgement, Plan

    Run = Callable[..., Answer]

BLOCKING = NAIVE.replace("num_workers=2)", "num_workers=2, pin_memory=True)").replace(
    "set_to_none=False", "set_to_none=True"
)
FAST = BLOCKING.replace(
    "images, labels = images.to(device), labels.to(device)",
    "images = images.to(device, non_blocking=True)\n        labels = labels.to(device, non_blocking=True)",
)
"""What the tool makes of ``NAIVE`` at level bitwise."""

SITES = [
    "train.py:8:10 loader-pin",
    "train.py:13:26 h2d-non-blocking",
    "train.py:14:9 zero-grad-none",
]
"""What is found in ``NAIVE`` at level bitwise, in order; equal places of one line are told of once."""

BITWISE = ("--level", "bitwise")


def rule_lines(text: str) -> list[str]:
    """``train.py:8:10 loader-pin`` of every line about a site that is rewritten."""
    return [
        line.split("  ")[0] for line in text.splitlines() if line.startswith("train.py:") and "  left: " not in line
    ]


# --- rewrite --------------------------------------------------------------------------------------------------------


def test_by_default_the_change_is_shown_and_nothing_written(torchfast: Run, naive: Path) -> None:
    answer = torchfast("rewrite", "train.py", *BITWISE)

    assert answer.code == 0
    assert answer.out.startswith("--- train.py\n+++ train.py\n@@ ")
    assert "-loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)\n" in answer.out
    assert "+loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2, pin_memory=True)\n" in answer.out
    assert rule_lines(answer.out) == SITES
    rewritten = [line for line in answer.out.splitlines() if line.startswith("train.py:") and "left: " not in line]
    assert all(line.endswith("  [bitwise]") for line in rewritten)
    assert "\x1b" not in answer.out
    assert naive.read_text() == NAIVE


def test_the_diff_is_one_that_patch_carries_out(torchfast: Run, naive: Path) -> None:
    answer = torchfast("rewrite", "train.py", *BITWISE)

    subprocess.run(["patch", "-p0"], input=answer.out.encode(), cwd=naive.parent, check=True, capture_output=True)

    assert naive.read_text() == FAST


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(str, id="plain"),
        pytest.param(lambda text: text.replace("\n", "\r\n"), id="CRLF"),
        pytest.param(str.rstrip, id="no final newline"),
        pytest.param(lambda text: "\ufeff" + text, id="byte order mark"),
        pytest.param(lambda text: text.replace("    ", "\t"), id="tabs"),
        pytest.param(lambda text: text.replace("lr=0.1)", "lr=0.1)  # ≤ \x0b\u2028"), id="other line separators"),
    ],
)
def test_git_carries_out_the_diff_of_any_text(torchfast: Run, naive: Path, change: Callable[[str], str]) -> None:
    naive.write_bytes(change(NAIVE).encode())

    answer = torchfast("rewrite", "train.py", *BITWISE)
    command = ["git", "apply", "-p0", "--whitespace=nowarn"]
    subprocess.run(command, input=answer.out.encode(), cwd=naive.parent, check=True, capture_output=True)

    assert naive.read_bytes() == change(FAST).encode()


MODULE_LEVEL = NAIVE.replace(", num_workers=2", "").replace(
    '"cuda")', '"cuda" if torch.cuda.is_available() else "cpu")'
)
"""A script whose loader needs a ``__main__`` guard to be given workers."""


def test_blocks_that_only_move_are_shown_in_short(torchfast: Run, naive: Path) -> None:
    long = MODULE_LEVEL + "".join(f"print({number})\n" for number in range(30))
    naive.write_text(long)

    shown = torchfast("rewrite", "train.py", "--select", "loader-workers").out
    whole = torchfast("rewrite", "train.py", "--select", "loader-workers", "--diff").out

    assert "\n(41 lines only change their indentation: --diff shows them all)\n" in shown
    assert '+if __name__ == "__main__":\n     device = ' in shown
    assert "print(29)" not in shown
    assert len(shown.splitlines()) < 30
    subprocess.run(["patch", "-p0"], input=whole.encode(), cwd=naive.parent, check=True, capture_output=True)
    assert naive.read_text().endswith("    print(28)\n    print(29)\n")


def test_a_few_lines_that_only_move_are_shown(torchfast: Run, naive: Path) -> None:
    naive.write_text(MODULE_LEVEL)

    shown = torchfast("rewrite", "train.py", "--select", "loader-workers").out

    assert shown == torchfast("rewrite", "train.py", "--select", "loader-workers", "--diff").out
    assert "-        loss.backward()\n" in shown


@pytest.mark.parametrize(
    ("chosen", "line"),
    [
        pytest.param((), 'num_workers=4 if device.type == "cuda" else 0', id="the usual number of workers"),
        pytest.param(
            ("--workers", "7"), 'num_workers=7 if device.type == "cuda" else 0', id="another number of workers"
        ),
        pytest.param((), 'torch.amp.GradScaler("cuda", enabled=use_amp and', id="the GPU chooses the number format"),
        pytest.param(("--amp", "bf16"), "dtype=torch.bfloat16, enabled=", id="bf16 alone"),
        pytest.param(("--amp", "fp16"), "dtype=torch.float16, enabled=", id="fp16 alone"),
        pytest.param((), 'if __name__ == "__main__":', id="the code that reads loaders goes under a guard"),
    ],
)
def test_choices_are_followed(torchfast: Run, naive: Path, chosen: tuple[str, ...], line: str) -> None:
    naive.write_text(MODULE_LEVEL)

    # By name, amp acts on a script that is too small for it to pay.
    assert torchfast("rewrite", "train.py", "--apply", "--select", "DEFAULT,amp", *chosen).code == 0
    assert line in naive.read_text()


def test_without_the_main_guard_workers_are_forked(torchfast: Run, naive: Path) -> None:
    naive.write_text(MODULE_LEVEL)

    answer = torchfast("rewrite", "train.py", "--apply", "--no-main-guard")

    assert "workers only where they are forked: no main guard is wanted around what reads it" in answer.out
    assert "__main__" not in naive.read_text()
    assert 'get_start_method() == "fork" else 0' in naive.read_text()


def test_workers_that_are_not_given_are_not_kept_alive(torchfast: Run, naive: Path) -> None:
    naive.write_text(MODULE_LEVEL.replace("shuffle=True)", "shuffle=True)  # torchfast: ignore[loader-workers]"))

    answer = torchfast("rewrite", "train.py", "--apply", "--target-torch", "2.13")

    assert "train.py:8:10 loader-persistent  left: loader-workers leaves it" in answer.out
    assert "persistent_workers" not in naive.read_text()


def test_what_is_left_is_said_after_the_rest_and_quiet_hides_it(torchfast: Run, naive: Path) -> None:
    naive.write_text(NAIVE.replace("set_to_none=False)", "set_to_none=False)  # torchfast: ignore[zero-grad-none] why"))

    answer = torchfast("rewrite", "train.py", *BITWISE)
    quiet = torchfast("rewrite", "train.py", *BITWISE, "--quiet")

    assert "train.py:14:9 zero-grad-none  left: ignored here: why\n" in answer.out
    assert "left: " not in quiet.out
    assert rule_lines(answer.out) == SITES[:2]
    assert rule_lines(quiet.out) == []


def test_apply_writes_the_file_and_a_second_run_changes_nothing(torchfast: Run, naive: Path) -> None:
    naive.chmod(0o750)

    first = torchfast("rewrite", "train.py", "--apply", *BITWISE)
    second = torchfast("rewrite", "train.py", "--apply", *BITWISE)

    assert (first.code, second.code) == (0, 0)
    assert rule_lines(first.out) == SITES
    assert rule_lines(second.out) == []
    assert naive.read_text() == FAST
    assert stat.S_IMODE(naive.stat().st_mode) == 0o750


def test_output_writes_another_file(torchfast: Run, naive: Path) -> None:
    answer = torchfast("rewrite", "train.py", "--output", "fast.py", *BITWISE)

    assert answer.code == 0
    assert naive.read_text() == NAIVE
    assert (naive.parent / "fast.py").read_text() == FAST


def test_output_is_written_also_where_nothing_changes(torchfast: Run, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_bytes(b"# coding: latin-1\r\nprint('h\xe9llo')\r\n")

    assert torchfast("rewrite", "plain.py", "--output", "copy.py").code == 0
    assert (tmp_path / "copy.py").read_bytes() == b"# coding: latin-1\r\nprint('h\xe9llo')\r\n"


def test_output_names_the_other_files_that_could_be_rewritten(torchfast: Run, naive: Path) -> None:
    (naive.parent / "data.py").write_text(NAIVE)
    (naive.parent / "main.py").write_text("import train\nimport data\n")

    answer = torchfast("rewrite", "main.py", "--output", "fast.py", *BITWISE)

    assert answer.code == 0
    assert (naive.parent / "fast.py").read_text() == "import train\nimport data\n"
    assert answer.err == (
        "fast.py: no changes written\n"
        "not rewritten: data.py, train.py, which main.py imports; --apply writes these files, too\n"
    )


def test_standard_input_goes_to_standard_output(torchfast: Run) -> None:
    answer = torchfast("rewrite", "-", *BITWISE, stdin=NAIVE.encode())

    assert answer.code == 0
    assert answer.out == FAST
    assert "<stdin>:8:10 loader-pin" in answer.err


def test_standard_input_without_torch_comes_back_byte_for_byte(torchfast_process: Run) -> None:
    answer = torchfast_process("rewrite", "-", stdin=b"print 'no'\r\n\f\x1a")

    assert (answer.code, answer.out) == (0, "print 'no'\r\n\f\x1a")


def test_many_files_go_through_several_processes_in_order(torchfast_process: Run, tmp_path: Path) -> None:
    names = [f"train_{number:02}.py" for number in range(40)]
    for name in names:
        (tmp_path / name).write_text(NAIVE)
    (tmp_path / "train_20.py").write_text("import torch\nx = (\n")

    answer = torchfast_process("rewrite", ".", "--apply", "--format", "json", *BITWISE)

    assert answer.code == 2
    said = json.loads(answer.out)
    paths = [each["path"] for each in said["diffs"]]
    assert paths == [name for name in names if name != "train_20.py"]
    assert [error["path"] for error in said["errors"]] == ["train_20.py"]
    assert all((tmp_path / name).read_text() == FAST for name in paths)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("train.py", "--apply", "--output", "x.py"),
            "--diff, --apply, --interactive, --patch and --output exclude each other",
        ),
        (
            ("train.py", "--diff", "--patch", "x"),
            "--diff, --apply, --interactive, --patch and --output exclude each other",
        ),
        (("-", "--apply"), "--apply, --interactive, --patch and --verify need a file, not standard input"),
        (("-", "-i"), "--apply, --interactive, --patch and --verify need a file, not standard input"),
        (
            ("train.py", "-i", "--apply"),
            "--interactive asks and writes: --apply, --verify and --format json go without it",
        ),
        (("-", "--patch", "x"), "--apply, --interactive, --patch and --verify need a file, not standard input"),
        (("-", "--verify"), "--apply, --interactive, --patch and --verify need a file, not standard input"),
        ((".", "--verify"), "--verify, --output and standard input take one script"),
        (("train.py", "train.py", "--output", "x.py"), "--verify, --output and standard input take one script"),
        (("train.py", "-"), "--verify, --output and standard input take one script"),
        (("train.py", "--select", "loader-pinn"), "unknown rule 'loader-pinn'; did you mean 'loader-pin'?"),
        (("train.py", "--ignore", "x,loader_pin"), "unknown rule 'x'"),
        (("train.py", "--level", "bitwize"), "unknown level 'bitwize'; did you mean 'bitwise'?"),
        (("train.py", "--level", "training"), "unknown level 'training'"),
        (("train.py", "--workers", "0"), "workers is 0, but at least 1 is needed: see --ignore loader-workers"),
        (("train.py", "--prefetch", "0"), "prefetch is 0, but each worker has at least 1 batch ahead"),
        (("train.py", "--workers", "many"), "'many' is not a valid integer"),
        (("train.py", "--amp", "fp8"), "unknown form of mixed precision 'fp8'"),
        (("train.py", "--compile-mode", "max"), "unknown mode of torch.compile 'max'"),
        (("train.py", "--target-torch", "new"), "'new' is not a torch version such as '2.1'"),
    ],
)
def test_what_cannot_be_followed_is_an_error(
    torchfast: Run, naive: Path, arguments: tuple[str, ...], message: str
) -> None:
    answer = torchfast("rewrite", *arguments, stdin=b"")

    assert answer.code == 2
    assert message in answer.err
    assert answer.out == ""
    assert naive.read_text() == NAIVE


# --- what may be wrong with a file ----------------------------------------------------------------------------------

BROKEN = {
    "syntax.py": (b"import torch\nx = (\n", "syntax.py:2: "),
    "python2.py": (b"import torch\nprint 'x'\n", "python2.py:2: not Python 3"),
    "unknown.py": (b"# coding: klingon\nimport torch\n", "unknown.py:1: unknown encoding"),
    "latin.py": (b"import torch\n# \xe9\n", "latin.py:2: not utf-8"),
    "binary.py": (b"\x7fELF\0\0torch", "binary.py:1: not a text file"),
    "deep.py": (b"import torch\nx = " + b"-" * 100_000 + b"1\n", "deep.py: nested too deeply"),
    "comment.py": (b"import torch  # torchfast: ignore[x]\n", "comment.py:1: unknown rule 'x'"),
}


@pytest.mark.parametrize("command", ["check", "rewrite"])
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_line_and_holds_up_no_other(torchfast: Run, naive: Path, command: str, name: str) -> None:
    data, line = BROKEN[name]
    (naive.parent / name).write_bytes(data)

    answer = torchfast(command, name, "train.py", *BITWISE)

    assert answer.code == 2
    assert answer.err.startswith(line)
    assert answer.err.count("\n") == 1
    assert rule_lines(answer.out) == SITES
    assert (naive.parent / name).read_bytes() == data


NO_TORCH_NO_PYTHON = {
    "syntax.py": (b"def f(:\n    pass\n", "syntax.py:1: not Python 3"),
    "python2.py": (b'x = 1\nprint "hello"\n', "python2.py:2: not Python 3"),
    "cut.ipynb": (b'{"cells": [\n', "cut.ipynb:"),
    "latin.py": (b"x = 1\n# \xe9\n", "latin.py:2: not utf-8"),
}


@pytest.mark.parametrize("command", ["check", "rewrite", "facts"])
@pytest.mark.parametrize("name", NO_TORCH_NO_PYTHON)
def test_a_broken_file_that_is_named_is_told_of_without_torch(
    torchfast: Run, tmp_path: Path, command: str, name: str
) -> None:
    data, line = NO_TORCH_NO_PYTHON[name]
    (tmp_path / name).write_bytes(data)

    answers = [torchfast(command, name), torchfast(command, name)]

    for answer in answers:  # the second may be remembered
        assert answer.code == 2
        assert answer.err.removeprefix("Error: ").startswith(line)
        assert answer.err.count("\n") == 1
        assert answer.out == ""


def test_below_a_directory_what_is_broken_without_torch_is_nobodys_question(torchfast: Run, naive: Path) -> None:
    for name, (data, _) in NO_TORCH_NO_PYTHON.items():
        (naive.parent / name).write_bytes(data)

    answer = torchfast("check", ".", *BITWISE)

    assert (answer.code, answer.err) == (1, "")
    assert rule_lines(answer.out) == SITES


@pytest.mark.parametrize(
    "arguments",
    [("check", ""), ("rewrite", ""), ("rewrite", "train.py", "", "--apply"), ("verify", "", "train.py"), ("facts", "")],
    ids=" ".join,
)
def test_an_empty_path_is_refused_before_anything_is_read(
    torchfast: Run, naive: Path, arguments: tuple[str, ...]
) -> None:
    answer = torchfast(*arguments)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "Error: a path is empty: name a file or a directory ('.' is the current one)\n"
    assert naive.read_text() == NAIVE


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        pytest.param(lambda _: None, "missing.py", "missing.py: no such file or directory", id="missing"),
        pytest.param(Path.mkdir, "empty", "empty: no Python files in this directory", id="directory without Python"),
        pytest.param(os.mkfifo, "pipe.py", "pipe.py: not a regular file", id="pipe"),
    ],
)
def test_what_is_no_file_is_one_line(
    torchfast: Run, tmp_path: Path, make: Callable[[Path], object], name: str, message: str
) -> None:
    make(tmp_path / name)

    answer = torchfast("check", name)

    assert (answer.code, answer.err) == (2, f"{message}\n")


def test_an_unreadable_file_is_one_line(torchfast: Run, naive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)

    answer = torchfast("check", naive.name)

    assert (answer.code, answer.err) == (2, "train.py: permission denied\n")


def test_a_read_only_file_is_not_written(torchfast: Run, naive: Path) -> None:
    naive.chmod(0o444)

    answer = torchfast("rewrite", "train.py", "--apply", *BITWISE)

    assert (answer.code, answer.err) == (2, "train.py: is read-only: not written\nnothing was written\n")
    assert naive.read_text() == NAIVE


def test_an_empty_file_is_left(torchfast: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.py").touch()

    assert torchfast("check", "empty.py") == Answer(0, "", "")


def test_a_symbolic_link_is_followed_and_kept(torchfast: Run, naive: Path) -> None:
    link = naive.parent / "link.py"
    link.symlink_to("train.py")

    assert torchfast("rewrite", "link.py", "--apply", *BITWISE).code == 0
    assert link.is_symlink()
    assert naive.read_text() == FAST


def test_a_long_script_takes_no_minutes(torchfast: Run, tmp_path: Path) -> None:
    body = "".join(
        f"def f{number}(x, y={number}):\n    return [x + y for _ in range(3)]\n\n\n" for number in range(5000)
    )
    (tmp_path / "train.py").write_text(body + NAIVE)
    start = time.monotonic()

    answer = torchfast("rewrite", "train.py", *BITWISE)

    assert len(rule_lines(answer.out)) == len(SITES)
    assert time.monotonic() - start < 120


def test_a_fault_in_the_configuration_is_one_line(torchfast: Run, naive: Path) -> None:
    (naive.parent / "pyproject.toml").write_text("[tool.torchfast]\nselct = []\n")
    (naive.parent / "other.py").write_text(NAIVE)

    answer = torchfast("check", ".")

    path = naive.parent / "pyproject.toml"
    assert (answer.code, answer.err) == (2, f"{path}: [tool.torchfast]: unknown key 'selct'; did you mean 'select'?\n")


def test_no_interrupted_run_leaves_a_traceback(naive: Path) -> None:
    # Tests that run in the background of a shell, or under nohup, ignore interrupts, as what they start would.
    heard = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler);"
    heard += "runpy.run_module('autotune_rewrite', run_name='__main__', alter_sys=True)"
    command = [sys.executable, "-c", heard, "rewrite", "-"]
    for patience in (2, 10, 30):  # while it imports, Python may swallow an interrupt
        process = subprocess.Popen(command, cwd=naive.parent, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(patience)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        if process.returncode != 0:
            break

    assert process.returncode != 0
    assert b"Traceback" not in errors


# --- check ----------------------------------------------------------------------------------------------------------


def test_check_has_one_line_for_each_site_with_its_gain(torchfast: Run, naive: Path) -> None:
    answer = torchfast("check", "train.py", *BITWISE, "--quiet")

    assert answer.code == 1
    lines = answer.out.splitlines()
    assert rule_lines(answer.out) == SITES
    assert lines[0].startswith("train.py:8:10 loader-pin  ")
    assert lines[0].partition("  [bitwise]  ")[2] != ""
    assert naive.read_text() == NAIVE


def test_check_is_content_with_a_rewritten_script(torchfast: Run, naive: Path) -> None:
    naive.write_text(FAST)

    assert torchfast("check", "train.py", *BITWISE).code == 0


def test_check_passes_what_is_not_selected_or_configured_away(torchfast: Run, naive: Path) -> None:
    (naive.parent / "pyproject.toml").write_text('[tool.torchfast]\nignore = ["loader-pin", "zero-grad-none"]\n')

    assert torchfast("check", "train.py", "--select", "cudnn-benchmark", *BITWISE).code == 0
    assert rule_lines(torchfast("check", "train.py", *BITWISE).out) == SITES[1:2]
    assert rule_lines(torchfast("check", "train.py", *BITWISE, "--ignore", "no-grad-eval").out) == SITES


def test_a_missing_set_to_none_is_no_failure_where_torch_may_be_new(torchfast: Run, naive: Path) -> None:
    naive.write_text(NAIVE.replace("set_to_none=False", ""))

    answer = torchfast("check", "train.py", "--select", "zero-grad-none", "--format", "json")

    assert answer.code == 0
    assert [(each["status"], each["fails"]) for each in json.loads(answer.out)["findings"]] == [("rewrites", False)]


@pytest.mark.parametrize("command", ["rewrite", "check"])
def test_which_torch_was_read_where_is_said_once(torchfast: Run, naive: Path, command: str) -> None:
    (naive.parent / "requirements.txt").write_text("numpy\ntorch==1.3.1\ntorch=>2\n")
    (naive.parent / "again.py").write_text(NAIVE)

    by_name = ("--select", "DEFAULT,compile")  # the script is too small for it to pay
    torchfast(command, "train.py", "again.py", *by_name)  # of which check remembers what it said
    answer = torchfast(command, "train.py", "again.py", *by_name)

    assert answer.err.splitlines() == [
        "note: requirements.txt, line 2: torch==1.3.1 says which torch is used, so that what needs a newer one is left. "
        "Where it is out of date, --target-torch VERSION says which",
        "note: requirements.txt, line 3: torch=>2 is not understood, and decides nothing. "
        "--target-torch VERSION says which torch is used",
    ]
    needed = "left: needs torch 2.1, and the script may run on an older one (requirements.txt, line 2: torch==1.3.1)\n"
    assert answer.out.count(f"train.py:9:9 compile  {needed}") == 1
    assert "again.py:9:9 compile  left: for the same reason as train.py:9\n" in answer.out


def test_the_user_knows_the_torch_better_than_the_requirements(torchfast: Run, naive: Path) -> None:
    (naive.parent / "requirements.txt").write_text("torch==1.3.1\n")

    answer = torchfast("rewrite", "train.py", "--target-torch", "2.4")

    assert answer.err == ""
    assert "needs torch" not in answer.out


# --- JSON -----------------------------------------------------------------------------------------------------------


def test_json_of_a_rewrite(torchfast: Run, naive: Path) -> None:
    (naive.parent / "broken.py").write_text("import torch\nx = (\n")

    answer = torchfast("rewrite", "train.py", "broken.py", "--format", "json", *BITWISE)

    said = json.loads(answer.out)
    assert answer.code == 2
    assert list(said) == ["version", "findings", "errors", "notes", "diffs", "written"]
    assert said["version"] == 1
    finding = next(each for each in said["findings"] if each["rule"] == "loader-pin")
    message, gain = finding.pop("message"), finding.pop("gain")
    assert message
    assert gain
    assert finding == {
        "rule": "loader-pin",
        "path": "train.py",
        "line": 8,
        "column": 10,
        "end_line": 8,
        "end_column": 69,
        "status": "rewrites",
        "code": "",
        "remedy": "",
        "promise": "bitwise",
        "fails": True,
        "edits": [{"path": "train.py", "line": 8, "end_line": 8}],
    }
    assert [(error["path"], error["line"]) for error in said["errors"]] == [("broken.py", 2)]
    (diff,) = said["diffs"]
    assert diff["path"] == "train.py"
    assert diff["diff"].startswith("--- train.py\n+++ train.py\n@@ ")


def test_json_of_a_check_has_the_same_findings_and_no_diffs(torchfast: Run, naive: Path) -> None:
    checked = json.loads(torchfast("check", "train.py", "--format", "json").out)
    rewritten = json.loads(torchfast("rewrite", "train.py", "--format", "json").out)

    assert checked["diffs"] == []
    own = ("fix", "no_fix")
    assert [{key: each[key] for key in each if key not in own} for each in checked["findings"]] == rewritten["findings"]
    assert naive.read_text() == NAIVE


def test_json_says_which_sites_are_left(torchfast: Run, naive: Path) -> None:
    naive.write_text(NAIVE.replace("num_workers=2)", "num_workers=2)  # torchfast: ignore[loader-pin]"))

    said = json.loads(torchfast("check", "train.py", "--select", "loader-pin", "--format", "json").out)

    (finding,) = said["findings"]
    assert (finding["status"], finding["message"], finding["edits"]) == ("left", "ignored here", [])
    assert (finding["code"], finding["remedy"]) == ("ignored", "")
    assert finding["fails"] is False


# --- rewrite --verify -----------------------------------------------------------------------------------------------


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Judge every plan as an equal and faster run on a CPU; the plans come here, with the text that would run."""
    from autotune_rewrite import verify

    plans: list[Plan] = []

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        assert plan.rewritten.read_text() == FAST
        assert plan.rewritten.name == plan.original.name
        plans.append(plan)
        return verify.Judgement("ok", "no-difference", "equal", "They compute the same.", plan.promise)

    monkeypatch.setattr(verify, "verify", run)
    return plans


def worse(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    """Judge with other answers from now on."""
    from autotune_rewrite import verify

    better: Callable[..., Judgement] = verify.verify
    monkeypatch.setattr(verify, "verify", lambda plan, *_, **__: replace(better(plan), **answers))


@pytest.mark.parametrize(
    ("option", "path", "said"),
    [
        pytest.param("--html", "no/v.html", "there is no directory no", id="page"),
        pytest.param("--markdown", "no/v.md", "there is no directory no", id="Markdown"),
        pytest.param("--html", "data", "it is a directory", id="a directory in the place of a file"),
        pytest.param("--records", "train.py", "train.py is not a directory", id="a file in the place of records"),
        pytest.param("--records", "train.py/runs", "train.py is not a directory", id="records below a file"),
        pytest.param("--tensorboard", "train.py/runs", "train.py is not a directory", id="curves below a file"),
        pytest.param("--patch", "no/v.patch", "there is no directory no", id="patch"),
        pytest.param("--output", "no/fast.py", "there is no directory no", id="output"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_runs(
    torchfast: Run, naive: Path, judged: list[Plan], *, option: str, path: str, said: str
) -> None:
    (naive.parent / "data").mkdir()
    commands: list[tuple[str, ...]] = [("rewrite", "train.py", "--verify", *BITWISE)]
    if option not in {"--patch", "--output"}:
        commands.append(("verify", "train.py", "train.py"))

    answers = [torchfast(*command, option, path) for command in commands]

    expected = f"Error: {path}: cannot be written: {said}\n"
    assert {(each.code, each.out, each.err) for each in answers} == {(2, "", expected)}
    assert judged == []


def test_a_directory_of_records_need_not_be_there(torchfast: Run, naive: Path, judged: list[Plan]) -> None:
    answer = torchfast("rewrite", "train.py", "--verify", *BITWISE, "--records", "new/runs")

    assert (answer.code, len(judged)) == (0, 1)
    assert [each.name for each in naive.parent.iterdir()] == ["train.py"]


def test_verify_runs_the_result_as_if_it_lay_beside_the_script(torchfast: Run, naive: Path, judged: list[Plan]) -> None:
    answer = torchfast("rewrite", "train.py", "--verify", *BITWISE)

    assert answer.code == 0
    (plan,) = judged
    assert (plan.original, plan.promise, plan.script_directory) == (Path("train.py"), "bitwise", Path())
    assert not plan.rewritten.exists()
    assert "+loader = DataLoader(" in answer.out
    assert "They compute the same." in answer.out
    assert naive.read_text() == NAIVE


def test_what_cannot_act_here_is_said_to_be_not_measured(torchfast: Run, naive: Path, judged: list[Plan]) -> None:
    answer = torchfast("rewrite", "train.py", "--verify", *BITWISE)

    assert len(judged) == 1
    said = "2 of 3 rules cannot act on this CPU: h2d-non-blocking, loader-pin. What follows is about zero-grad-none"
    assert said in " ".join(answer.out.split())
    assert naive.exists()


def test_on_a_cuda_device_everything_is_measured(
    torchfast: Run, naive: Path, judged: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    worse(monkeypatch, environment={"cuda": True})

    assert "cannot act" not in torchfast("rewrite", "train.py", "--verify", *BITWISE).out
    assert len(judged) == 1
    assert naive.exists()


def test_what_is_fit_is_applied(torchfast: Run, naive: Path, judged: list[Plan]) -> None:
    assert torchfast("rewrite", "train.py", "--verify", "--apply", *BITWISE).code == 0
    assert len(judged) == 1
    assert naive.read_text() == FAST


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({"speed": "slower"}, id="slower"),
        pytest.param({"equality": "not-checked"}, id="not checked"),
        pytest.param({"equality": "inconclusive"}, id="inconclusive"),
        pytest.param(
            {"run": "crashed", "side": "original", "speed": "not-checked", "equality": "not-checked"},
            id="an original that crashes",
        ),
    ],
)
def test_what_is_not_fit_is_not_applied(
    torchfast: Run, naive: Path, judged: list[Plan], monkeypatch: pytest.MonkeyPatch, answers: dict[str, str]
) -> None:
    worse(monkeypatch, **answers)

    assert torchfast("rewrite", "train.py", "--verify", "--apply", *BITWISE).code == 1
    assert torchfast("rewrite", "train.py", "--verify", "--output", "fast.py", *BITWISE).code == 1
    assert sum(not plan.speed_only for plan in judged) == 2
    assert naive.read_text() == NAIVE
    assert not (naive.parent / "fast.py").exists()


def test_a_rule_that_a_crash_points_to_is_left_out_and_the_rest_verified_again(
    torchfast: Run, naive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune_rewrite import verify

    plans: list[tuple[Plan, str]] = []

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        plans.append((plan, plan.rewritten.read_text()))
        if "non_blocking" not in plans[-1][1]:
            return verify.Judgement("ok", "faster", "equal", "Fine.", plan.promise)
        blamed = ("h2d-non-blocking",)
        return verify.Judgement(
            "crashed", "not-checked", "not-checked", "Crashed.", plan.promise, "rewritten", blamed=blamed
        )

    monkeypatch.setattr(verify, "verify", run)

    answer = torchfast("rewrite", "train.py", "--verify", "--apply", *BITWISE)

    assert answer.code == 0
    assert dict(plans[0][0].signatures).keys() == {"loader-pin", "h2d-non-blocking", "zero-grad-none"}
    assert dict(plans[0][0].signatures)["loader-pin"] == RULES["loader-pin"].failures
    assert [text for _, text in plans] == [FAST, BLOCKING]
    assert naive.read_text() == plans[1][1]
    assert "h2d-non-blocking left out; what is left is verified again\n" in answer.err
    assert "Fine.\n" in answer.out
    assert "h2d-non-blocking was left out. Crashed.\n" in answer.out
    assert "\n1 of 2 rules cannot act on this CPU: loader-pin. What follows is about zero-grad-none alone" in answer.out


def test_json_has_the_findings_of_what_was_verified_last(
    torchfast: Run, naive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune_rewrite import verify

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        if "set_to_none=True" not in plan.rewritten.read_text():
            return verify.Judgement("ok", "faster", "equal", "Fine.", plan.promise)
        return verify.Judgement("ok", "faster", "different", "No.", plan.promise, blamed=("zero-grad-none",))

    monkeypatch.setattr(verify, "verify", run)

    said = json.loads(torchfast("rewrite", "train.py", "--verify", "--format", "json", *BITWISE).out)

    assert {each["rule"] for each in said["findings"] if each["status"] == "rewrites"} == {
        "loader-pin",
        "h2d-non-blocking",
    }
    assert naive.read_text() == NAIVE


def test_an_inconclusive_speed_is_not_punished(
    torchfast: Run, naive: Path, judged: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    worse(monkeypatch, speed="inconclusive")

    assert torchfast("rewrite", "train.py", "--verify", "--apply", *BITWISE).code == 0
    assert len(judged) == 1
    assert naive.read_text() == FAST


def test_an_inconclusive_speed_whose_ratio_says_slower_is(
    torchfast: Run, naive: Path, judged: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune_rewrite.verify.statistics.ratio import Ratio

    worse(monkeypatch, speed="inconclusive", whole=Ratio(0.34, None, None), basis="whole")

    assert torchfast("rewrite", "train.py", "--verify", "--apply", *BITWISE).code == 1
    assert len(judged) == 1
    assert naive.read_text() == NAIVE


@pytest.mark.parametrize(
    ("options", "files"),
    [
        pytest.param(("--verify", "--apply"), ["train.py"], id="verified and applied"),
        pytest.param(("--verify", "--output", "fast.py"), ["fast.py"], id="verified and written elsewhere"),
        pytest.param(("--verify",), [], id="verified and shown"),
        pytest.param(("--apply",), ["train.py"], id="applied"),
        pytest.param((), [], id="shown"),
    ],
)
@pytest.mark.usefixtures("naive")
def test_json_says_which_files_were_written(
    torchfast: Run, judged: list[Plan], options: tuple[str, ...], files: list[str]
) -> None:
    answer = torchfast("rewrite", "train.py", *options, "--format", "json", *BITWISE)
    assert (answer.code, json.loads(answer.out)["written"]) == (0, files)
    assert len(judged) == ("--verify" in options)


def test_json_has_the_exit_code_of_the_command(
    torchfast: Run, naive: Path, judged: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    worse(monkeypatch, speed="inconclusive")
    answer = torchfast("rewrite", "train.py", "--verify", "--apply", "--format", "json", *BITWISE)
    assert (answer.code, json.loads(answer.out)["verification"]["exit_code"]) == (0, 0)
    worse(monkeypatch, speed="slower")
    naive.write_text(NAIVE)
    answer = torchfast("rewrite", "train.py", "--verify", "--apply", "--format", "json", *BITWISE)
    said = json.loads(answer.out)
    assert (answer.code, said["verification"]["exit_code"], said["written"]) == (1, 1, [])
    assert judged


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judges whatever would run as equal, on a CPU."""
    from autotune_rewrite import verify

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        return verify.Judgement("ok", "no-difference", "equal", "The same.", plan.promise, environment={"cuda": False})

    monkeypatch.setattr(verify, "verify", run)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("options", "held_back"),
    [
        pytest.param(("--apply", "--device", "cpu"), True, id="no GPU"),
        pytest.param(("--apply", "--device", "cpu", "--unmeasured"), False, id="no GPU, but it was asked for"),
        pytest.param(("--apply", "--device", "simulated"), False, id="a simulated one"),
        pytest.param(("--device", "cpu"), False, id="nothing is written"),
    ],
)
def test_changes_of_rounding_that_cannot_act_are_not_applied(
    torchfast: Run, naive: Path, options: tuple[str, ...], *, held_back: bool
) -> None:
    answer = torchfast("rewrite", "train.py", "--verify", *options, "--select", "amp,loader-pin")
    assert answer.code == 0
    assert ("amp held back: --unmeasured writes it all the same\n" in answer.err) is held_back
    assert ("held back, as it changes rounding and cannot act on this device" in answer.out) is held_back
    assert ("autocast" in naive.read_text()) is ("--apply" in options and not held_back)
    assert ("pin_memory=True" in naive.read_text()) is ("--apply" in options)


def test_json_of_a_verified_rewrite_holds_the_judgement(torchfast: Run, naive: Path, judged: list[Plan]) -> None:
    answer = torchfast("rewrite", "train.py", "--verify", "--format", "json", *BITWISE)

    said = json.loads(answer.out)
    assert len(judged) == 1
    assert said["verification"]["equality"] == "equal"
    assert naive.exists()


def test_nothing_rewritten_is_nothing_to_verify(torchfast: Run, naive: Path, judged: list[Plan]) -> None:
    naive.write_text(FAST)

    answer = torchfast("rewrite", "train.py", "--verify", *BITWISE)

    assert (answer.code, answer.err) == (0, "nothing was rewritten: nothing to verify\n")
    assert judged == []


def test_a_change_that_fails_without_a_signature_is_found_and_left_out(
    torchfast: Run, naive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune_rewrite import verify

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        if "set_to_none=True" not in plan.rewritten.read_text():
            return verify.Judgement("ok", "faster", "equal", "Fine.", plan.promise)
        return verify.Judgement("crashed", "not-checked", "not-checked", "It crashed.", plan.promise, "rewritten")

    monkeypatch.setattr(verify, "verify", run)

    answer = torchfast("rewrite", "train.py", "--verify", "--apply", *BITWISE)

    assert answer.code == 0
    assert naive.read_text() == FAST.replace("set_to_none=True", "set_to_none=False")
    assert answer.err == (
        "looking for the change that does it, for 300 s at most\n"
        "zero-grad-none left out; what is left is verified again\n"
        "train.py: 3 changes written\n"
    )
    assert "train.py:14:9 zero-grad-none  left: taken back, as it did not hold up when it was verified\n" in answer.out
    assert (
        "zero-grad-none was left out. Without the changes of zero-grad-none this does not happen: It crashed."
        in answer.out
    )
    assert "  [bitwise]\n" in answer.out


def test_with_all_changes_taken_back_nothing_is_written(
    torchfast: Run, naive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune_rewrite import verify

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        if plan.rewritten.read_text() == NAIVE:
            return verify.Judgement("ok", "faster", "equal", "Fine.", plan.promise)
        return verify.Judgement("crashed", "not-checked", "not-checked", "It crashed.", plan.promise, "rewritten")

    monkeypatch.setattr(verify, "verify", run)

    answer = torchfast("rewrite", "train.py", "--verify", "--output", "fast.py", "--select", "zero-grad-none")

    assert answer.code == 1
    assert answer.err.endswith("zero-grad-none left out; no change is left\nnothing was written\n")
    assert not (naive.parent / "fast.py").exists()


def test_what_was_interrupted_is_reported_and_not_written(
    torchfast: Run, naive: Path, judged: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    worse(monkeypatch, interrupted=True)

    answer = torchfast("rewrite", "train.py", "--verify", "--apply", *BITWISE)

    assert answer.code == 130
    assert "They compute the same." in answer.out
    assert naive.read_text() == NAIVE
    assert len(judged) == 1


def test_output_to_standard_output_is_the_script_alone(torchfast: Run, naive: Path, judged: list[Plan]) -> None:
    answer = torchfast("rewrite", "train.py", "--verify", "--output", "-", *BITWISE)

    assert (answer.code, answer.out) == (0, FAST)
    assert "They compute the same." in answer.err
    assert naive.read_text() == NAIVE
    assert len(judged) == 1


# --- how scripts are run --------------------------------------------------------------------------------------------

OPTIONS: dict[tuple[str, ...], dict[str, Any]] = {
    ("--pairs", "3"): {"pairs": 3},
    ("--time-budget", "60"): {"time_budget": 60.0},
    ("--iterations", "9"): {"iterations": 9},
    ("--full",): {"full": True},
    ("--seed", "7"): {"seed": 7},
    ("--device", "simulated"): {"device": "simulated"},
    ("--capability", "7.0"): {"capability": "7.0"},
    ("--timeout", "1.5"): {"timeout": 1.5},
    ("--margin", "0.1"): {"margin": 0.1},
    ("--metric", r"acc=(\S+)"): {"metric": r"acc=(\S+)"},
    ("--higher",): {"higher": True},
    ("--lower",): {"higher": False},
    ("--module",): {"module": True},
    ("--launcher", "torchrun '--nproc_per_node=2'"): {"launcher": ("torchrun", "--nproc_per_node=2")},
    ("--keep",): {"keep": True},
    ("--", "--epochs", "2", "--", "-x"): {"arguments": ("--epochs", "2", "--", "-x")},
}
"""What may be said of running scripts, and the fields of the plan that it becomes."""

WRITTEN = (("--records", "runs"), ("--tensorboard", "board"), ("--markdown", "report.md"), ("--html", "report.html"))


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Judge every plan as one that is slower; the plans come here."""
    from autotune_rewrite import verify

    seen: list[Plan] = []

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        seen.append(plan)
        return verify.Judgement("ok", "slower", "equal", "It is slower.", plan.promise)

    monkeypatch.setattr(verify, "verify", run)
    return seen


@pytest.mark.parametrize("option", OPTIONS, ids=" ".join)
def test_verify_runs_scripts_as_was_asked(torchfast: Run, plans: list[Plan], option: tuple[str, ...]) -> None:
    from autotune_rewrite import verify

    answer = torchfast("verify", "a.py", "b.py", *option)

    assert (answer.code, answer.err) == (1, "")
    assert plans == [verify.Plan(Path("a.py"), Path("b.py"), **OPTIONS[option])]


@pytest.mark.parametrize("option", OPTIONS, ids=" ".join)
def test_rewrite_runs_scripts_as_was_asked(
    torchfast: Run, naive: Path, plans: list[Plan], option: tuple[str, ...]
) -> None:
    answer = torchfast("rewrite", "train.py", "--verify", *BITWISE, *option)

    assert answer.code == 1
    plan, *others = plans
    assert all(each.speed_only for each in others)  # which change makes it slower?
    assert {name: getattr(plan, name) for name in OPTIONS[option]} == OPTIONS[option]
    assert naive.read_text() == NAIVE


@pytest.mark.parametrize(
    "option", [*(each for each in OPTIONS if each[0] not in ("--", "--module")), *WRITTEN], ids=" ".join
)
def test_without_verify_nothing_can_be_said_of_running(
    torchfast: Run, naive: Path, plans: list[Plan], option: tuple[str, ...]
) -> None:
    answer = torchfast("rewrite", "train.py", *option)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"Error: {option[0]} is for --verify, which is not given\n"
    assert plans == []
    assert naive.exists()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        pytest.param(("--pairs", "0"), "the number of pairs is 0, but at least 1 is needed", id="no pairs"),
        pytest.param(
            ("--capability", "7.0"),
            "the capability is that of a simulated device, but the device is auto",
            id="no simulated device",
        ),
    ],
)
def test_what_a_verified_rewrite_cannot_follow_is_one_line(
    torchfast: Run, naive: Path, option: tuple[str, ...], message: str
) -> None:
    answer = torchfast("rewrite", "train.py", "--verify", "--apply", *BITWISE, *option)

    assert (answer.code, answer.out, answer.err) == (2, "", f"Error: {message}\n")
    assert naive.read_text() == NAIVE


def test_without_verify_paths_may_follow_two_dashes(torchfast: Run, naive: Path) -> None:
    naive.rename(naive.with_name("-train.py"))

    assert "-train.py:8:10 loader-pin" in torchfast("rewrite", *BITWISE, "--", "-train.py").out


@pytest.mark.parametrize("command", ["verify", "rewrite"])
def test_help_says_where_the_arguments_of_scripts_go(torchfast: Run, command: str) -> None:
    assert "[-- SCRIPT ARGUMENTS...]" in torchfast(command, "--help").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.py",), "verify takes two scripts, or one with --base, or --from with records, but got 1"),
        ((), "verify takes two scripts, or one with --base, or --from with records, but got 0"),
        (("a.py", "b.py", "c.py"), "verify takes two scripts, or one with --base, or --from with records, but got 3"),
        (("a.py", "b.py", "--pairs", "x"), "Invalid value for '--pairs': 'x' is not a valid integer."),
        (("a.py", "b.py", "--device", "tpu"), "Invalid value for '--device': 'tpu' is not one of "),
        (("a.py", "b.py", "--seed"), "Option '--seed' requires an argument."),
        (("a.py", "b.py", "--pears", "3"), "No such option"),
        (("a.py", "b.py", "--metric", "("), "the metric '(' is no regular expression: "),
        (("a.py", "b.py", "--launcher", "torchrun 'x"), "--launcher: no closing quotation: torchrun 'x"),
        (("a.py", "b.py", "--launcher", " "), "--launcher is empty"),
        (("a.py", "b.py", "--from", "runs"), "a script cannot be followed with --from: nothing is run"),
        (("--from", "runs", "--pairs", "3"), "--pairs cannot be followed with --from: nothing is run"),
        (("--from", "runs", "--", "-x"), "-- cannot be followed with --from: nothing is run"),
        (("--from", "runs", "--records", "x"), "--records cannot be followed with --from: nothing is run"),
        (
            ("-m", "package.train", "b.py"),
            "no module package.train here: neither package/train.py nor package/train/__main__.py is a file",
        ),
    ],
)
def test_what_verify_cannot_follow_is_one_line(
    torchfast: Run, plans: list[Plan], arguments: tuple[str, ...], message: str
) -> None:
    answer = torchfast("verify", *arguments)

    assert answer.code == 2
    assert answer.err.startswith(f"Error: {message}")
    assert answer.err.count("\n") == 1
    assert plans == []


def test_modules_are_found_from_here_without_importing_them(torchfast: Run, tmp_path: Path, plans: list[Plan]) -> None:
    for path in ("package/__init__.py", "package/train.py", "package/fast/__main__.py", "other.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("raise SystemExit('imported')\n")

    torchfast("verify", "-m", "package.train", "package.fast")
    torchfast("verify", "-m", "other", "other.py")

    assert [(plan.original, plan.rewritten, plan.module) for plan in plans] == [
        (Path("package/train.py"), Path("package/fast/__main__.py"), True),
        (Path("other.py"), Path("other.py"), True),
    ]


@pytest.mark.parametrize(
    "command", [("verify", "proj.train", "proj.train"), ("rewrite", "proj.train"), ("profile", "proj.train")]
)
def test_a_module_that_is_named_without_m_is_told_of_it(
    torchfast: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj" / "train.py").touch()

    answer = torchfast(*command)

    message = f"Error: proj.train: no such file; -m proj.train names the module {Path('proj', 'train.py')}\n"
    assert (answer.code, answer.out, answer.err) == (2, "", message)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        pytest.param(
            "2", "note: results that differ cannot be judged by fewer than 3 pairs: see --pairs\n", id="too few"
        ),
        pytest.param("3", "", id="enough"),
    ],
)
def test_too_few_pairs_are_said_before_they_are_run(
    torchfast: Run, monkeypatch: pytest.MonkeyPatch, pairs: str, said: str
) -> None:
    from autotune_rewrite import verify

    told: list[str] = []

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        told.append("runs")
        return verify.Judgement("ok", "faster", "equal", "It is.", plan.promise)

    monkeypatch.setattr(verify, "verify", run)
    monkeypatch.setattr("autotune_rewrite.cli.running.say", lambda text: told.append(f"{text}\n"))

    torchfast("verify", "a.py", "b.py", "--pairs", pairs)

    assert told == [*([said] if said else []), "runs"]


# --- verify ---------------------------------------------------------------------------------------------------------


def test_verify_leaves_to_the_plan_what_was_not_asked(torchfast: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from autotune_rewrite import verify

    plans: list[Plan] = []

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        plans.append(plan)
        return verify.Judgement("crashed", "not-checked", "not-checked", "It crashed.", plan.promise, "rewritten")

    monkeypatch.setattr(verify, "verify", run)

    answer = torchfast("verify", "a.py", "b.py")

    assert plans == [verify.Plan(Path("a.py"), Path("b.py"))]
    assert answer.code == 2
    assert "It crashed." in answer.out


def test_verify_holds_the_script_to_the_promise(torchfast: Run, plans: list[Plan]) -> None:
    answer = torchfast("verify", "a.py", "b.py", "--promise", "bitwise", "--format", "json")

    assert [plan.promise for plan in plans] == ["bitwise"]
    assert answer.code == 1
    assert json.loads(answer.out)["speed"] == "slower"


def test_verify_says_in_one_line_what_cannot_be_run(torchfast: Run) -> None:
    answer = torchfast("verify", "missing.py", "missing.py")

    assert answer.code == 2
    assert answer.err.startswith("Error: missing.py: ")
    assert answer.err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["ended by a batch system", "terminal closed"])
def test_a_signal_ends_a_verification_as_an_interrupt_does(
    torchfast: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    from autotune_rewrite import verify

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        return verify.Judgement("ok", "faster", "equal", "So far.", plan.promise, interrupted=True)

    monkeypatch.setattr(verify, "verify", run)
    before = signal.getsignal(number)

    assert torchfast("verify", "train.py", "train.py").code == 130
    assert signal.getsignal(number) == before


def test_an_interrupted_verification_says_what_is_known(torchfast: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from autotune_rewrite import verify

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        return verify.Judgement("ok", "faster", "equal", "So far.", plan.promise, interrupted=True)

    monkeypatch.setattr(verify, "verify", run)

    answer = torchfast("verify", "a.py", "b.py")

    assert answer.code == 130
    assert "So far." in answer.out


def test_a_report_in_markdown_is_printed_or_written(torchfast: Run, tmp_path: Path, plans: list[Plan]) -> None:
    printed = torchfast("verify", "a.py", "b.py", "--format", "markdown")
    written = torchfast("verify", "a.py", "b.py", "--markdown", "report.md")

    assert printed.out.startswith("### The rewritten script is slower")
    assert (tmp_path / "report.md").read_text() == printed.out
    assert written.out.startswith("The rewritten script is slower")
    assert len(plans) == 2


def test_a_rewrite_s_report_in_markdown_names_the_script(torchfast: Run, naive: Path, judged: list[Plan]) -> None:
    assert torchfast("rewrite", "train.py", "--verify", "--markdown", "report.md", *BITWISE).code == 0
    assert "original: train.py, rewritten: train.py, rewritten" in (naive.parent / "report.md").read_text()
    assert len(judged) == 1


def test_a_page_shows_what_was_changed(torchfast: Run, tmp_path: Path, plans: list[Plan]) -> None:
    (tmp_path / "a.py").write_text("before = 1\n")
    (tmp_path / "b.py").write_text("after = 1\n")

    answer = torchfast("verify", "a.py", "b.py", "--html", "report.html")

    page = (tmp_path / "report.html").read_text()
    assert answer.out.startswith("The rewritten script is slower")
    assert "It is slower." in page
    assert all(f"{name} = " in page for name in ("before", "after"))
    assert len(plans) == 1


def test_a_rewrite_s_page_shows_its_change(torchfast: Run, naive: Path, judged: list[Plan]) -> None:
    assert torchfast("rewrite", "train.py", "--verify", "--html", "report.html", *BITWISE).code == 0

    page = (naive.parent / "report.html").read_text()
    assert "original: train.py; rewritten: train.py, rewritten" in page
    assert 'pin_memory=<span class="k">True</span>' in page
    assert len(judged) == 1


def test_records_and_curves_are_those_of_the_last_runs(
    torchfast: Run, naive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune_rewrite import verify
    from autotune_rewrite.report import tensorboard
    from autotune_rewrite.verify.records import Run as Record

    made: list[Path | None] = []
    shown: list[tuple[Path, list[Record]]] = []

    def run(
        plan: Plan, _: object, *, records: Path | None, on_run: Callable[[Record], None], **__: object
    ) -> Judgement:
        made.append(records)
        ends = Record("rewritten", 0, "crashed", "", (), float(len(made)))
        on_run(ends)
        if "set_to_none=True" not in plan.rewritten.read_text():
            return verify.Judgement("ok", "faster", "equal", "Fine.", plan.promise)
        return verify.Judgement("crashed", "not-checked", "not-checked", "It crashed.", plan.promise, "rewritten")

    monkeypatch.setattr(verify, "verify", run)
    monkeypatch.setattr(tensorboard, "write_tensorboard", lambda at, _, runs, __: shown.append((at, runs)))

    answer = torchfast(
        "rewrite",
        "train.py",
        "--verify",
        "--records",
        "runs",
        "--tensorboard",
        "board",
        "--select",
        "zero-grad-none,loader-pin",
    )

    assert answer.code == 0
    assert made == [Path("runs"), *[None] * (len(made) - 2), Path("runs")]
    assert len(made) > 2
    ((place, (last,)),) = shown
    assert (place, last.wall_seconds) == (Path("board"), len(made))
    assert naive.read_text() == NAIVE


def test_records_are_judged_again(torchfast: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from autotune_rewrite import verify
    from autotune_rewrite.verify import records

    asked: list[tuple[Path, dict[str, object]]] = []

    def again(directory: Path, **changes: object) -> Judgement:
        asked.append((directory, changes))
        return verify.Judgement("ok", "faster", "equal", "Judged again.", "random")

    records.save(Path("runs"), verify.Plan(Path("a.py"), Path("b.py")), {}, ())
    monkeypatch.setattr(verify, "judge_again", again)
    options = ("--margin", "0.1", "--metric", "acc", "--lower", "--promise", "random")

    answer = torchfast("verify", "--from", "runs", "--format", "markdown", *options)

    assert answer.code == 0
    assert "Judged again." in answer.out
    assert "original: a.py, rewritten: b.py" in answer.out
    assert asked == [(Path("runs"), {"margin": 0.1, "metric": "acc", "higher": False, "promise": "random"})]


def test_records_that_are_missing_are_one_line(torchfast: Run) -> None:
    answer = torchfast("verify", "--from", "runs")

    assert answer.code == 2
    assert answer.err.startswith("Error: runs/plan.json: ")
    assert answer.err.count("\n") == 1


# --- facts, explain, rules ------------------------------------------------------------------------------------------


def test_facts_are_printed_line_by_line(torchfast: Run, naive: Path) -> None:
    answer = torchfast("facts", naive.name)

    assert answer.code == 0
    assert any(line.startswith("8: ") for line in answer.out.splitlines())


def test_facts_of_a_broken_script_are_an_error(torchfast: Run, naive: Path) -> None:
    naive.write_text("import torch\nx = (\n")

    answer = torchfast("facts", naive.name)

    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert answer.err.startswith("Error: train.py:2: ")


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_explained(torchfast: Run, rule: str) -> None:
    answer = torchfast("explain", rule)

    assert answer.code == 0
    assert answer.out.startswith(f"# {rule}\n")
    for heading in RULES[rule].HEADINGS:
        assert f"\n## {heading}\n" in answer.out


def test_an_unknown_rule_is_not_explained(torchfast: Run) -> None:
    answer = torchfast("explain", "loader-pinn")

    assert (answer.code, answer.err) == (2, "Error: unknown rule 'loader-pinn'; did you mean 'loader-pin'?\n")


def test_rules_are_listed_one_a_line(torchfast: Run) -> None:
    header, *lines = torchfast("rules").out.splitlines()

    assert header.startswith("Rule ")
    assert [line.split()[0] for line in lines] == list(RULES)


# --- the process ----------------------------------------------------------------------------------------------------


def test_the_version_is_the_package_s(torchfast: Run) -> None:
    assert torchfast("--version").out == f"torchfast, version {__version__}\n"


def test_check_imports_nothing_heavy(naive: Path) -> None:
    program = (
        "import sys; from autotune_rewrite.cli import cli\n"
        "try: cli(['check', 'train.py'])\n"
        "except SystemExit as end: assert end.code == 1\n"
        "print(sorted({'torch', 'numpy', 'scipy', 'psutil', 'libcst', 'rich', 'pathspec'} & set(sys.modules)))"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=naive.parent, capture_output=True, text=True, check=True
    )

    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_a_name_that_no_terminal_can_show_is_no_traceback(naive: Path, encoding: str) -> None:
    naive.rename(naive.with_name(os.fsdecode(b"caf\xe9.py")))

    ended = subprocess.run(
        [sys.executable, "-m", "autotune_rewrite", "rewrite", "."],
        cwd=naive.parent,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
    )

    assert b".py:8:10 loader-pin" in ended.stdout
    assert ended.stderr == b""


def shown(folder: Path, *arguments: str, **environment: str) -> str:
    """What a terminal gets."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "wb"):
        process = subprocess.Popen(
            [sys.executable, "-m", "autotune_rewrite", *arguments],
            cwd=folder,
            stdout=theirs,
            env={**os.environ, "TERM": "xterm-256color", **environment},
        )
    said = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        while True:
            try:
                piece = terminal.read(4096)
            except OSError:  # Linux says so where the other end is closed
                break
            if not piece:
                break
            said += piece
    assert process.wait() == 0
    return said.decode()


def test_on_a_terminal_the_diff_is_coloured_and_whole(naive: Path) -> None:
    naive.write_text(NAIVE.replace("num_workers=2)", f"num_workers=2)  # [red]{'long ' * 50}"))

    said = shown(naive.parent, "rewrite", "train.py", *BITWISE, COLUMNS="80")

    assert (
        f"\x1b[31m-loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)  # [red]{'long ' * 50}\x1b[0m\r\n"
        in said
    )
    assert "\x1b[32m+loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2, pin_memory=True)" in said


def test_on_a_terminal_no_color_is_heeded(naive: Path) -> None:
    assert "\x1b[3" not in shown(naive.parent, "rewrite", "train.py", *BITWISE, NO_COLOR="1")


def test_on_a_terminal_a_page_is_rendered(tmp_path: Path) -> None:
    said = shown(tmp_path, "explain", "loader-pin")

    assert "loader-pin" in said
    assert "## Why it is faster" not in said
    assert "Why it is faster" in said


def own_seconds(*command: str, folder: Path) -> float:
    """How long the processor worked for the command: other than time, it is hardly more where others work, too."""
    # As where it is installed: compiled once, by the first run.
    cached = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], cwd=folder, env=cached, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_check_of_a_long_script_takes_less_than_twelve_imports_of_click(naive: Path) -> None:
    function = "\n\ndef report_{0}(epoch, losses):\n    mean = sum(losses) / len(losses)\n    print(epoch, mean)\n"
    naive.write_text(NAIVE + "".join(function.format(number) for number in range(97)))
    assert len(naive.read_text().splitlines()) >= 500

    commands = ("-m", "autotune_rewrite", "check", "train.py"), ("-c", "import click")
    tries = [[own_seconds(*command, folder=naive.parent) for command in commands] for _ in range(5)]
    whole, click = map(min, zip(*tries, strict=True))

    assert whole < 12 * click
