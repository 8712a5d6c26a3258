from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import score
from score import Label, Script

if TYPE_CHECKING:
    from pathlib import Path

CODE = """\
import torch
loaders = [
    DataLoader(train, batch_size=64),
    DataLoader(test),
]
first = DataLoader(train)
second = DataLoader(test)
net, critic = Net().cuda(), Net().cuda()
critic = Net().cuda()
for epoch in range(9):
    for x, y in first:
        x = x.cuda()
        output = net(x)

        loss = criterion(output, y)
        loss.backward()
    print(epoch)
"""


def finding(
    rule: str, line: int, message: str = "", *, status: str = "rewrites", end: int = 0, code: str = ""
) -> dict[str, Any]:
    return {
        "rule": rule,
        "path": "train.py",
        "line": line,
        "end_line": end or line,
        "status": status,
        "message": message,
        "code": code,
    }


def answers(tmp_path: Path, labels: list[tuple[str, int]], *findings: dict[str, Any]) -> list[tuple[str, str]]:
    (tmp_path / "train.py").write_text(CODE, encoding="utf-8")
    given = tuple(Label("train.py", line, rule, "rewrite", "") for rule, line in labels)
    outcome = score.judge(Script("a/b", "", "train.py", given), tmp_path, findings)
    return [(each.done, each.reason) for each in outcome.answers]


@pytest.mark.parametrize(
    ("rule", "line", "found", "done"),
    [
        pytest.param("loader-pin", 6, finding("loader-pin", 6), "rewritten", id="the same line"),
        pytest.param("loader-pin", 6, finding("loader-pin", 8), "rewritten", id="two lines off"),
        pytest.param("loader-pin", 6, finding("loader-pin", 9), "silent", id="three lines off"),
        pytest.param("loader-pin", 2, finding("loader-pin", 5), "rewritten", id="in the same statement"),
        pytest.param("loader-pin", 6, finding("loader-workers", 6), "silent", id="another rule"),
        pytest.param("amp", 13, finding("amp", 16), "rewritten", id="forward and backward of one iteration"),
        pytest.param("amp", 1, finding("amp", 16), "silent", id="outside of the iteration"),
        pytest.param("amp", 1, finding("amp", 16, "no CUDA", status="left"), "left", id="a reason for all"),
        pytest.param(
            "loader-pin", 6, finding("amp", 1, "it fails", status="left", code="fails-today"), "left", id="fails"
        ),
        pytest.param("cudnn-benchmark", 0, finding("cudnn-benchmark", 9), "rewritten", id="anywhere"),
        pytest.param("compile", 9, finding("compile", 1, "net and critic run so"), "rewritten", id="by its name"),
    ],
)
def test_a_label_and_a_finding_meet(tmp_path: Path, rule: str, line: int, found: dict[str, Any], done: str) -> None:
    assert [each for each, _ in answers(tmp_path, [(rule, line)], found)] == [done]


def test_neighbours_are_not_mistaken_for_each_other(tmp_path: Path) -> None:
    labels = [("loader-pin", 6), ("loader-pin", 7)]
    found = answers(tmp_path, labels, finding("loader-pin", 6), finding("loader-pin", 7, "never read", status="left"))
    assert found == [("rewritten", ""), ("left", "never read")]


def test_a_neighbour_with_a_label_of_its_own_does_not_stand_in(tmp_path: Path) -> None:
    assert answers(tmp_path, [("loader-pin", 6), ("loader-pin", 7)], finding("loader-pin", 6)) == [
        ("rewritten", ""),
        ("silent", ""),
    ]


@pytest.mark.parametrize(
    ("line", "done"),
    [
        pytest.param(13, ["rewritten", "silent"], id="at the other label"),
        pytest.param(11, ["rewritten", "rewritten"], id="at the head of the loop"),
        pytest.param(12, ["rewritten", "rewritten"], id="at neither"),
    ],
)
def test_a_loop_that_evaluates_in_two_places_has_two_labels(tmp_path: Path, line: int, done: list[str]) -> None:
    labels = [("no-grad-eval", 13), ("no-grad-eval", 15)]

    assert [each for each, _ in answers(tmp_path, labels, finding("no-grad-eval", line))] == done


FUNCTION = """\
import torch
def loss_of(net, other, x, device):
    fake = net(x)

    rest = other(fake).detach()
    noise = torch.randn(4, 4)
    index = torch.arange(4)[:, None].to(device)
    return (fake - rest + noise)[index].sum()
"""


def judged(tmp_path: Path, labels: list[tuple[str, int, str]], *findings: dict[str, Any]) -> list[str]:
    (tmp_path / "train.py").write_text(FUNCTION, encoding="utf-8")
    given = tuple(Label("train.py", line, rule, verdict, "") for rule, line, verdict in labels)  # type: ignore[arg-type]
    return [each.done for each in score.judge(Script("a/b", "", "train.py", given), tmp_path, findings).answers]


@pytest.mark.parametrize(
    ("labels", "line", "done"),
    [
        pytest.param([(2, "must_not"), (5, "optional")], 5, ["silent", "rewritten"], id="a part has its own label"),
        pytest.param([(2, "must_not"), (5, "optional")], 2, ["rewritten", "rewritten"], id="the function itself"),
        pytest.param([(2, "must_not")], 5, ["rewritten"], id="no label speaks of the part"),
        pytest.param([(2, "rewrite"), (5, "optional")], 3, ["rewritten", "rewritten"], id="what is wanted of it all"),
    ],
)
def test_a_function_that_must_not_be_decorated(
    tmp_path: Path, labels: list[tuple[int, str]], line: int, done: list[str]
) -> None:
    given = [("no-grad-eval", at, verdict) for at, verdict in labels]

    assert judged(tmp_path, given, finding("no-grad-eval", line)) == done


@pytest.mark.parametrize(
    ("line", "verdict", "done"),
    [
        pytest.param(6, "must_not", "silent", id="a call that must stay beside one that need not"),
        pytest.param(6, "rewrite", "rewritten", id="a call that is wanted"),
        pytest.param(5, "must_not", "rewritten", id="a label that misses its line"),
        pytest.param(7, "must_not", "rewritten", id="the call itself"),
    ],
)
def test_a_finding_beside_a_call_of_the_same_kind(tmp_path: Path, line: int, verdict: str, done: str) -> None:
    assert judged(tmp_path, [("device-ctor", line, verdict)], finding("device-ctor", 7)) == [done]


def test_a_label_in_a_notebook_means_its_cell(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": "import torch\nfirst = 1"},
        {"cell_type": "code", "source": "x = 1\ny = 2"},
    ]
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    labels = tuple(Label("train.ipynb", 1, "amp", "rewrite", "", cell) for cell in (1, 2))
    found = {**finding("amp", 1), "path": "train.ipynb", "cell": 2}

    outcome = score.judge(Script("a/b", "", "train.ipynb", labels), tmp_path, [found, {**found, "rule": "compile"}])

    assert [each.done for each in outcome.answers] == ["silent", "rewritten"]


def test_a_finding_speaks_of_the_model_that_is_made_there(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nnet = torch.nn.Linear(1, 1)\nnet = torch.nn.Linear(2, 1)\n")
    labels = tuple(Label("train.py", line, "compile", "optional", "") for line in (2, 3))

    outcome = score.judge(Script("a/b", "", "train.py", labels), tmp_path, [finding("compile", 3, "net runs so")])

    assert [each.done for each in outcome.answers] == ["silent", "rewritten"]


LABELS: dict[str, Any] = {
    "repository": "a/b",
    "commit": "0",
    "script": "train.py",
    "fails": False,
    "sites": [
        {"path": "train.py", "line": 4, "rule": "zero-grad-none", "verdict": "rewrite", "why": "each has a gradient"},
        {"path": "train.py", "line": 5, "rule": "amp", "verdict": "rewrite", "why": "large"},
        {"path": "train.py", "line": 2, "rule": "compile", "verdict": "must_not", "why": "on the CPU"},
        {"path": "train.py", "line": 5, "rule": "no-grad-eval", "verdict": "optional", "why": "", "cell": None},
    ],
}
TRAIN = """\
import torch
net = torch.nn.Linear(4, 1); optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad(set_to_none=False)
    net(x).mean().backward()
    optimizer.step()
"""


def test_labels_are_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a+b").mkdir()
    (tmp_path / "a+b" / "train.py").write_text(TRAIN, encoding="utf-8")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.json").write_text(json.dumps(LABELS), encoding="utf-8")

    status = score.main([str(tmp_path / "labels"), str(tmp_path), "--json", str(tmp_path / "answers.json")])

    (outcome,) = json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))["outcomes"]
    assert status == 0
    assert [each["done"] for each in outcome["answers"]] == ["rewritten", "left", "left", "silent"]
    output = capsys.readouterr().out
    assert "all                        1/2   50.0%       0           0/1         0/1" in output
    assert "amp: no CUDA" in output


def test_what_must_not_be_is_a_violation(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    found = [finding("compile", 2), finding("amp", 5, "why", status="left"), finding("h2d-non-blocking", 3, "moved")]

    outcome = score.judge(Script.of(LABELS), tmp_path, found)

    total = score.scores([outcome])["all"]
    assert (total.violations, total.forbidden, total.rewritten, total.silent) == (1, 1, 0, 1)
    assert outcome.unlabelled == ["train.py:3: h2d-non-blocking: moved"]
    assert "    a/b: train.py:2: compile: rewritten (label: on the CPU)" in score.summary([outcome])


def test_sites_of_scripts_that_fail_as_published_are_counted_apart(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    label = {"path": "train.py", "line": 5, "rule": "no-grad-eval", "verdict": "rewrite", "why": "never differentiated"}
    labels = {**LABELS, "sites": [*LABELS["sites"], label]}
    scripts = [Script.of(labels), Script.of({**labels, "fails": "train.py:3: the loss has no dimensions"})]

    lines = list(score.summary([score.judge(each, tmp_path, [finding("zero-grad-none", 4)]) for each in scripts]))

    wanted = {line[:18].strip(): line[18:].split()[0] for line in lines[1:] if line[18:19] == " "}
    assert wanted["all"] == "2/6"
    assert wanted["all that run"] == "1/3"
    assert wanted["loops and models"] == "0/2"
    assert wanted["that run"] == "0/1"


def test_a_change_of_several_statements_answers_the_labels_of_all(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    edits = [{"path": "train.py", "line": line, "end_line": line} for line in (1, 5)]
    found = {**finding("amp", 1), "edits": edits}

    outcome = score.judge(Script.of(LABELS), tmp_path, [found])

    assert {each.label.rule: each.done for each in outcome.answers}["amp"] == "rewritten"
    assert outcome.unlabelled == []


def test_the_tool_is_told_the_torch_that_the_labels_were_written_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, json.dumps({"findings": [], "errors": []}), "")

    monkeypatch.setattr(subprocess, "run", run)
    score.ask(Script.of(LABELS), tmp_path, 60, "2.13")
    score.ask(Script.of(LABELS), tmp_path, 60)

    assert commands[0][-2:] == ["--target-torch", "2.13"]
    assert "--target-torch" not in commands[1]


def test_a_script_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert score.ask(Script.of(LABELS), tmp_path, 60).problem == "there is no such script in the checkout"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="no JSON"),
        pytest.param("{}", id="nothing in it"),
        pytest.param(json.dumps(LABELS).replace("must_not", "never"), id="a verdict that there is not"),
    ],
)
def test_a_file_that_is_no_label_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad\.json"):
        score.load(tmp_path)
