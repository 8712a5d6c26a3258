from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import run
from census import Program
from run import Broken, Repository, Sight

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = """\
import torch
from torch import nn

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad(set_to_none=False)
    net(x).mean().backward()
    optimizer.step()
"""


def finding(
    rule: str, line: int, message: str = "", *, status: str = "left", path: str = "train.py", code: str = ""
) -> dict[str, Any]:
    return {
        "rule": rule,
        "path": path,
        "line": line,
        "column": 1,
        "end_line": line,
        "status": status,
        "message": message,
        "code": code,
        "edits": [],
    }


def repository(*findings: dict[str, Any], name: str = "a/b", **texts: str) -> Repository:
    """What is made of findings in programs that are given as ``name="text"``; one training script by itself."""
    found = Repository(name, "")
    programs = {
        f"{each}.py": Program(f"{each}.py", [(None, text)]) for each, text in (texts or {"train": TRAIN}).items()
    }
    run.take_in(findings, programs, found)
    return found


# --- what the tool said, and what it did not ------------------------------------------------------------------------


def test_sites_are_rewritten_left_or_silent() -> None:
    found = repository(finding("zero-grad-none", 7, status="rewrites"), finding("amp", 8, "no", code="no-cuda"))

    figures = run.figures([found], counted=True)

    assert (figures["zero-grad-none"].rewritten, figures["zero-grad-none"].silent) == (1, 0)
    assert figures["amp"].left == {"no-cuda": 1}
    assert (figures["amp"].accounted, figures["amp"].share) == (1, 0.0)


def test_what_nothing_was_said_of_is_silent() -> None:
    found = repository()

    assert list(run.silent_sites([found])) == ["* amp  a/b  train.py:8", "* zero-grad-none  a/b  train.py:7"]
    assert run.figures([found], counted=True)["amp"].share == 1.0


@pytest.mark.parametrize(
    ("imported", "line", "silent"),
    [
        pytest.param("nets", 3, [], id="in the function that makes the model"),
        pytest.param("nets", 6, ["* compile  a/b  train.py:2"], id="in another function of that file"),
        pytest.param("others", 3, ["* compile  a/b  train.py:2"], id="in another file"),
    ],
)
def test_what_is_said_where_a_model_is_made(imported: str, line: int, silent: list[str]) -> None:
    train = (
        f"from {imported} import create_net\nnet = create_net('cuda')\noptimizer = torch.optim.SGD(net.parameters())\n"
        "import torch\nnet(1).backward()\ntorch.device('cuda')\n"
    )
    nets = "import torch\ndef create_net(device):\n    return torch.nn.Linear(1, 1)\n\ndef other():\n    return 1\n"
    said = finding("compile", line, path="nets.py"), finding("amp", 5), finding("fused-optimizer", 3)
    found = repository(*said, train=train, nets=nets)

    assert list(run.silent_sites([found])) == silent


def test_a_script_that_fails_is_accounted_for_as_a_whole() -> None:
    found = repository(finding("amp", 1, "it fails; fix first: print x", code="fails-today"))
    assert list(run.silent_sites([found])) == []


def test_of_many_scripts_a_few_count_always_the_same_and_those_that_train_first() -> None:
    scripts = {f"s{index}": TRAIN + "#" * index for index in range(7)}
    others = {f"o{index}": f"import torch\noptimizer.zero_grad(set_to_none=False)\n{'#' * index}" for index in range(7)}

    found = repository(**others, **scripts)

    assert len(found.counted) == run.COUNTED
    assert {f"{name}.py" for name in scripts} < set(found.counted)
    assert found.counted == repository(**scripts, **others).counted
    assert run.figures([found], counted=True)["zero-grad-none"].silent == run.COUNTED
    assert run.figures([found], counted=False)["zero-grad-none"].silent == 14


def test_the_same_text_counts_once() -> None:
    assert len(repository(one=TRAIN, other=TRAIN).counted) == 1


def test_frameworks_are_told_apart() -> None:
    text = "\n".join(run.summary([repository(), repository(name=run.APART[0])], reasons=1))

    assert "Averages: 1 scripts of 1 repositories" in text
    assert f"Apart: {run.APART[0]}" in text


def test_reasons_are_counted_by_their_cause() -> None:
    found = repository(finding("amp", 8, "of one", code="no-cuda"), finding("amp", 20, "of the other", code="no-cuda"))

    assert list(run.table(run.figures([found], counted=False), reasons=1))[2].split() == ["2", "no-cuda"]


# --- what broke -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "spans", "line"),
    [
        pytest.param("a\nB\nc\nd\n", [(2, 2)], None, id="what an edit touches"),
        pytest.param("a\nnew\nb\nc\nd\n", [(2, 1)], None, id="what an edit inserts"),
        pytest.param("a\nb\nc\nd\nnew\n", [(5, 4)], None, id="at the end"),
        pytest.param("a\nB\nc\nD\n", [(2, 2)], 3, id="another line below"),
        pytest.param("A\nb\nc\nd\n", [(2, 2)], 1, id="another line above"),
        pytest.param("a\nB\nC\nD\n", [(2, 2), (4, 4)], 3, id="a line between"),
        pytest.param("a\nb\nc\nd\n\n", [], 4, id="without any edit"),
        pytest.param("a\r\nb\nc\nd\n", [(3, 3)], 1, id="a newline"),
    ],
)
def test_bytes_outside_the_edits(after: str, spans: list[tuple[int, int]], line: int | None) -> None:
    assert run.outside(b"a\nb\nc\nd\n", after.encode(), spans) == line


@pytest.mark.parametrize(
    ("after", "line"),
    [
        pytest.param("a\n\nd\n\n\ne\n", None, id="next to an edit"),
        pytest.param("a\n\nd\n\ne\n", 4, id="elsewhere"),
    ],
)
def test_a_blank_line_that_goes_with_a_statement(after: str, line: int | None) -> None:
    assert run.outside(b"a\n\nb\n\nd\n\n\ne\n", after.encode(), [(3, 3)]) == line


GUARD = 'if __name__ == "__main__":\n    net = 1\n'


@pytest.mark.parametrize(
    ("code", "names"),
    [
        pytest.param(f"{GUARD}net.compile()\n", ["net"], id="read at import"),
        pytest.param(f"{GUARD}class A:\n    a = net\n", ["net"], id="read in a class"),
        pytest.param(f"{GUARD}def f():\n    return net\n", [], id="read when it is called"),
        pytest.param(f"net = 0\n{GUARD}print(net)\n", [], id="made elsewhere, too"),
        pytest.param(f"import net\n{GUARD}print(net)\n", [], id="imported"),
        pytest.param("if x:\n    net = 1\nprint(net)\n", [], id="another condition"),
    ],
)
def test_what_only_the_main_guard_makes(code: str, names: list[str]) -> None:
    assert run.left_behind(code.encode()) == names


@pytest.mark.parametrize(
    ("after", "line"),
    [
        pytest.param("if x:\n    # why\n    a\n", None, id="moves with it"),
        pytest.param("if x:\n    a\n", 1, id="is lost"),
        pytest.param("if x:\n    # how\n    a\n", 1, id="says something else"),
    ],
)
def test_a_comment_above_an_edit(after: str, line: int | None) -> None:
    assert run.outside(b"# why\na\n", after.encode(), [(2, 2)]) == line


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        pytest.param({"cells": [{"cell_type": "code", "source": "b", "outputs": [1]}]}, "", id="code"),
        pytest.param(
            {"cells": [{"cell_type": "code", "source": "b", "outputs": []}]},
            "outputs, metadata or other cells differ",
            id="outputs",
        ),
    ],
)
def test_notebooks_may_change_in_their_code(after: dict[str, Any], problem: str) -> None:
    before = {"cells": [{"cell_type": "code", "source": "a", "outputs": [1]}]}
    written = [json.dumps(each, indent=1).encode() for each in (before, after)]
    assert run.notebook_problem(*written) == problem


def test_the_form_of_a_notebook_stays() -> None:
    before = {"metadata": {"a": 1}, "cells": [{"cell_type": "code", "source": ["a\n", "b"]}]}
    after = {"metadata": {"a": 1}, "cells": [{"cell_type": "code", "source": ["a\n", "new\n", "b"]}]}
    written = [json.dumps(each, indent=1).encode() for each in (before, after)]

    assert run.notebook_problem(*written) == ""
    assert "its form" in run.notebook_problem(written[0], written[1].replace(b'"a": 1', b'"a":  1'))


def test_a_notebook_has_to_stay_one() -> None:
    assert run.notebook_problem(b"{}", b"{").startswith("no notebook any more")


FAKE = """\
import json, pathlib, sys
file = pathlib.Path(sys.argv[-1]) / "train.py"
report = {{"findings": [], "errors": [], "diffs": []}}
{body}
print(json.dumps(report))
"""


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param("raise KeyError(1)", "rewrite: traceback", id="an exception"),
        pytest.param("sys.exit(0)", "rewrite: no JSON", id="no answer"),
        pytest.param("report['errors'] = [dict(path='x', message='')]", "rewrite: exit code", id="a wrong exit code"),
        pytest.param("import time; time.sleep(60)", "rewrite: did not end within 0.5 seconds", id="no end"),
        pytest.param("file.write_text('x')", "changed without a word", id="a secret change"),
        pytest.param(
            "file.write_text('1 +'); report['diffs'] = [dict(path=str(file))]", "does not compile", id="no Python"
        ),
        pytest.param(
            "file.write_text('1'); report['diffs'] = [dict(path=str(file))]",
            "bytes changed outside the edits",
            id="more than it says",
        ),
        pytest.param(
            "print(json.dumps({**report, 'errors': [dict(path=str(file), message='no Python')]})); sys.exit(2)",
            "refused, though Python reads it",
            id="a refusal without cause",
        ),
        pytest.param(
            "print(json.dumps({**report, 'errors': [dict(path=str(file), message='please report this')]})); sys.exit(2)",
            "a fault of the tool's own",
            id="a fault that it admits",
        ),
        pytest.param(
            "if 'check' in sys.argv: report['findings'] = [dict(rule='amp', path=str(file), line=1, column=1, end_line=1, "
            "status='rewrites', message='', edits=[])]",
            "a second pass changes something",
            id="work left over",
        ),
    ],
)
def test_what_breaks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, kind: str) -> None:
    tool = tmp_path / "tool" / "autotune_rewrite"
    tool.mkdir(parents=True)
    (tool / "__init__.py").touch()  # else the installed one is found first
    (tool / "__main__.py").write_text(FAKE.format(body=body), encoding="utf-8")
    monkeypatch.setattr(run, "PROJECT", tmp_path / "tool")
    root = tmp_path / "a+b"
    root.mkdir()
    (root / "train.py").write_text("import torch\n", encoding="utf-8")
    (tmp_path / "scratch").mkdir()

    found = run.study(root, tmp_path / "scratch", timeout=0.5 if "sleep" in body else 60)

    assert kind in {each.kind for each in found.broken}


# --- the command ----------------------------------------------------------------------------------------------------


def test_a_directory_is_worked_through_and_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a+b").mkdir()
    (tmp_path / "a+b" / "train.py").write_text(TRAIN, encoding="utf-8")
    results = tmp_path / "results.json"

    status = run.main([str(tmp_path), "--json", str(results), "--answers", str(tmp_path / "answers"), "--silent"])

    assert status == 0
    (found,) = run.load(results)
    assert (found.name, found.files, found.changed, found.broken) == ("a/b", 1, 1, [])
    assert {(each.rule, each.line) for each in found.sights if each.state == "rewritten"} == {("zero-grad-none", 7)}
    assert (tmp_path / "a+b" / "train.py").read_text(encoding="utf-8") == TRAIN
    assert json.loads((tmp_path / "answers" / "a+b.json").read_text(encoding="utf-8"))["diffs"]
    assert "zero-grad-none             1" in capsys.readouterr().out


def test_results_of_other_repositories_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "study", lambda root, *_: Repository(root.name.replace("+", "/"), "new"))
    for name in ("a+b", "c+d"):
        (tmp_path / name).mkdir()
    results = tmp_path / "results.json"
    run.save(results, [Repository("c/d", "old", broken=[Broken("x", "y", "z")])])

    run.main([str(tmp_path), "--repository", "a/b", "--json", str(results)])

    assert [(each.name, each.tool) for each in run.load(results)] == [("c/d", "old"), ("a/b", "new")]


def test_a_repository_that_is_not_there_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main([str(tmp_path), "--repository", "a/b"])
    assert "no such repository" in capsys.readouterr().err


def test_versions_are_compared_site_by_site() -> None:
    def version(*sights: tuple[str, int, str, str]) -> Repository:
        made = [Sight(rule, "train.py", line, 1, None, state, reason) for rule, line, state, reason in sights]
        return Repository("a/b", "", sights=made)

    old = version(
        ("amp", 8, "rewritten", ""), ("amp", 20, "silent", ""), ("compile", 4, "left", "no"), ("x", 1, "left", "")
    )
    new = version(
        ("amp", 8, "left", "no CUDA"),
        ("amp", 20, "rewritten", ""),
        ("compile", 4, "left", "never"),
        ("x", 1, "left", ""),
    )

    assert list(run.compare([old], [new])) == [
        "amp: rewritten → left: 1",
        "    a/b: train.py:8  no CUDA",
        "amp: silent → rewritten: 1",
        "    a/b: train.py:20",
        "compile: left → left: 1",
        "    a/b: train.py:4  no → never",
    ]
    assert list(run.compare([old], [old])) == []


def test_notebooks_are_programs(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "source": TRAIN, "metadata": {}, "outputs": [], "execution_count": None}
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    root = tmp_path / "a+b"
    root.mkdir()
    (root / "train.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    (tmp_path / "scratch").mkdir()

    found = run.study(root, tmp_path / "scratch", 60.0)

    assert (found.files, found.counted, found.broken) == (1, ["train.ipynb"], [])
