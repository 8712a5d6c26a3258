"""The formats of `check` that programs read, each held against what its specification requires."""

from __future__ import annotations

import json
import os
import re
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from autotune_rewrite.report.formats import NAMES
from codemods.catalogue import RULES
from tests.conftest import NAIVE, ROOT, Answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., Answer]

BITWISE = ("--level", "bitwise")
ACCENTED = NAIVE.replace("set_to_none=False)", 'set_to_none=False); print("é𐐀")').replace(
    "        optimizer.zero_grad", '        "é"; optimizer.zero_grad'
)
"""Characters that take several bytes stand before a site and behind it."""


def formatted(torchfast: Run, form: str, *arguments: str) -> str:
    answer = torchfast("check", *(arguments or ("train.py",)), "--format", form, *BITWISE)
    assert answer.code == 1, answer.err
    return answer.out


def is_of(schema: str, said: object) -> None:
    """What is said is as a schema of ``tests/schemas`` asks for."""
    if not os.environ.get("CI"):
        pytest.importorskip("jsonschema", reason="pip install -e '.[dev]' installs it")
    jsonschema: Any = import_module("jsonschema")
    asked = json.loads((ROOT / "tests" / "schemas" / schema).read_text())
    jsonschema.validators.validator_for(asked)(asked).validate(said)


def with_lines(text: str, line: int, end_line: int, content: str) -> str:
    """The text with other lines in the place of some, whose last newline stays."""
    lines = text.split("\n")
    end = "\r" if lines[end_line - 1].endswith("\r") else ""
    lines[line - 1 : end_line] = [content + end]
    return "\n".join(lines)


@pytest.mark.parametrize("form", [name for name in NAMES if name not in ("text", "concise", "full")])
def test_what_programs_read_has_no_other_words(torchfast: Run, naive: Path, form: str) -> None:
    (naive.parent / "broken.py").write_text("import torch\nx = (\n")

    answer = torchfast("check", "train.py", "broken.py", "--format", form, *BITWISE)

    assert answer.code == 2
    assert "changes: " not in answer.out or form == "markdown"
    assert answer.err == "broken.py:2: not Python 3: '(' was never closed\n"


# --- SARIF ----------------------------------------------------------------------------------------------------------


def sarif(torchfast: Run, *arguments: str) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(formatted(torchfast, "sarif", *arguments))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert run["tool"]["driver"]["name"] == "torchfast"
    return dict(run)


def test_sarif_has_what_the_standard_requires(torchfast: Run, naive: Path) -> None:
    (naive.parent / "broken.py").write_text("import torch\nx = (\n")
    log = json.loads(torchfast("check", naive.name, "broken.py", "--format", "sarif").out)
    is_of("sarif-2.1.0.json", log)
    run = sarif(torchfast, naive.name)

    rules = [each["id"] for each in run["tool"]["driver"]["rules"]]
    assert rules == sorted({"loader-pin", "h2d-non-blocking", "zero-grad-none"})
    assert run["columnKind"] == "unicodeCodePoints"
    assert [each["executionSuccessful"] for each in run["invocations"]] == [True]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in {"warning", "note"}
        assert result["message"]["text"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"] == {"uri": "train.py"}
        for fix in result["fixes"]:
            (change,) = fix["artifactChanges"]
            assert change["artifactLocation"] == {"uri": "train.py"}
            assert [each for each in change["replacements"] if "deletedRegion" not in each] == []
    pin = next(each for each in run["results"] if each["ruleId"] == "loader-pin")
    region = pin["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 8, "startColumn": 10, "endLine": 8, "endColumn": 70}


@pytest.mark.parametrize("text", [NAIVE, ACCENTED, NAIVE.replace("\n", "\r\n")], ids=["plain", "accents", "CRLF"])
def test_fixes_of_sarif_taken_over_one_by_one_end_in_the_rewrite(torchfast: Run, naive: Path, text: str) -> None:
    naive.write_bytes(text.encode())
    after = torchfast("rewrite", "-", *BITWISE, stdin=text.encode()).out

    taken = 0
    while results := json.loads(torchfast("check", naive.name, "--format", "sarif", *BITWISE).out)["runs"][0][
        "results"
    ]:
        ((change,),) = (each["artifactChanges"] for each in results[-1]["fixes"])
        for piece in reversed(change["replacements"]):
            region = piece["deletedRegion"]
            text = with_lines(text, region["startLine"], region["endLine"], piece["insertedContent"]["text"])
        naive.write_bytes(text.encode())
        taken += 1

    assert (taken, text) == (4, after)


def test_sarif_tells_of_files_that_cannot_be_read(torchfast: Run, naive: Path) -> None:
    (naive.parent / "a file.py").write_text("import torch\nx = (\n")

    said = torchfast("check", "a file.py", "--format", "sarif")

    (run,) = json.loads(said.out)["runs"]
    (invocation,) = run["invocations"]
    (told,) = invocation["toolExecutionNotifications"]
    assert (said.code, invocation["executionSuccessful"], run["results"]) == (2, False, [])
    assert told["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "a%20file.py"}
    assert (told["level"], told["message"]["text"]) == ("error", "not Python 3: '(' was never closed")


# --- review ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [NAIVE, ACCENTED], ids=["plain", "accents"])
def test_places_for_review_count_bytes_and_suggestions_lines(torchfast: Run, naive: Path, text: str) -> None:
    naive.write_text(text)

    said = json.loads(formatted(torchfast, "rdjson"))

    is_of("rdjson.json", said)
    for each in said["diagnostics"]:
        assert each["severity"] in {"WARNING", "INFO"}
        assert each["code"]["value"] in RULES
        assert each["location"]["path"] == "train.py"
    grad = next(each for each in said["diagnostics"] if each["code"]["value"] == "zero-grad-none")
    line = text.splitlines()[13]
    begin, stop = (grad["location"]["range"][side]["column"] - 1 for side in ("start", "end"))
    assert line.encode()[begin:stop] == b"optimizer.zero_grad(set_to_none=False)"
    (suggestion,) = grad["suggestions"]
    assert suggestion == {
        "range": {"start": {"line": 14}, "end": {"line": 14}},
        "text": line.replace("set_to_none=False", "set_to_none=True"),
    }


@pytest.mark.usefixtures("naive")
def test_github_annotates_lines(torchfast: Run) -> None:
    lines = formatted(torchfast, "github").splitlines()

    assert lines[0] == (
        "::error file=train.py,line=8,col=10,endColumn=69,title=torchfast (loader-pin)::"
        "train.py:8:10: batches are copied from pageable memory [bitwise]"
    )
    assert all(re.fullmatch(r"::(error|notice) file=train\.py,line=\d+,[^:]+::.+", line) for line in lines)


def test_github_s_own_characters_are_escaped(torchfast: Run, naive: Path) -> None:
    naive.rename(naive.with_name("a,b:100%.py"))

    first, *_ = formatted(torchfast, "github", "a,b:100%.py").splitlines()

    assert first.startswith("::error file=a%2Cb%3A100%25.py,line=8,")
    assert "::a,b:100%25.py:8:10: " in first


def test_gitlab_knows_findings_again_where_lines_moved(torchfast: Run, naive: Path) -> None:
    before = json.loads(formatted(torchfast, "gitlab"))
    naive.write_text(f"# moved\n{NAIVE}")
    after = json.loads(formatted(torchfast, "gitlab"))

    is_of("gitlab-code-quality.json", before)
    for issue in before:
        assert issue.keys() == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in {"info", "minor"}
        assert issue["location"]["path"] == "train.py"
    prints = [each["fingerprint"] for each in before]
    assert len(set(prints)) == len(prints) == 4
    assert [each["fingerprint"] for each in after] == prints
    assert [each["location"]["lines"]["begin"] - 1 for each in after] == [
        each["location"]["lines"]["begin"] for each in before
    ]


# --- lists ----------------------------------------------------------------------------------------------------------


def test_json_lines_are_the_findings_of_json(torchfast: Run, naive: Path) -> None:
    lines = formatted(torchfast, "json-lines").splitlines()

    assert [json.loads(line) for line in lines] == json.loads(formatted(torchfast, "json", naive.name))["findings"]


def test_json_has_the_text_that_stands_in_the_place_of_another(torchfast: Run, naive: Path) -> None:
    findings = json.loads(formatted(torchfast, "json", naive.name))["findings"]

    pin = next(each for each in findings if each["rule"] == "loader-pin")
    line = "loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2, pin_memory=True)\n"
    assert pin["fix"] == [{"path": "train.py", "line": 8, "end_line": 8, "text": line}]
    assert [each["fix"] for each in findings if each["status"] == "left"] == [[]] * sum(
        each["status"] == "left" for each in findings
    )


def test_junit_counts_failures_and_errors(torchfast: Run, naive: Path) -> None:
    (naive.parent / "clean.py").write_text("import torch\n")
    (naive.parent / "broken.py").write_text("import torch\nx = (\n")

    answer = torchfast("check", "train.py", "clean.py", "broken.py", "--format", "junit", *BITWISE)

    root = ET.fromstring(answer.out)  # noqa: S314 - it is torchfast's own
    assert (root.tag, root.attrib) == (
        "testsuites",
        {"name": "torchfast", "tests": "6", "failures": "4", "errors": "1"},
    )
    suites = {suite.attrib["name"]: suite.attrib for suite in root}
    assert {name: (each["tests"], each["failures"], each["errors"]) for name, each in suites.items()} == {
        "train.py": ("4", "4", "0"),
        "clean.py": ("1", "0", "0"),
        "broken.py": ("1", "0", "1"),
    }
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.attrib["message"] == "batches are copied from pageable memory [bitwise]"


@pytest.mark.usefixtures("naive")
def test_markdown_is_a_table_with_a_heading(torchfast: Run) -> None:
    heading, _, table, _, first, *_ = formatted(torchfast, "markdown").splitlines()

    assert heading.startswith("### torchfast: 4 changes: 4 bitwise")
    assert table == "| Place | Rule | Promise | Why |"
    assert first == "| train.py:8:10 | `loader-pin` | bitwise | batches are copied from pageable memory |"


# --- text -----------------------------------------------------------------------------------------------------------


def test_full_shows_the_line_and_marks_the_site(torchfast: Run, naive: Path) -> None:
    naive.write_text(NAIVE.replace("    for images", "\tfor images").replace("        ", "\t\t"))

    lines = formatted(torchfast, "full").splitlines()

    assert lines[1:5] == [
        "   |",
        " 8 | loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)",
        f"   |          {'^' * 60}",
        "",
    ]
    at = next(at for at, line in enumerate(lines) if " h2d-non-blocking " in line)
    assert lines[at + 2 : at + 4] == [
        " 13 | \t\timages, labels = images.to(device), labels.to(device)",
        "    | \t\t                 ^^^^^^^^^^^^^^^^^  ^^^^^^^^^^^^^^^^^",
    ]


@pytest.mark.usefixtures("naive")
def test_text_is_another_name_of_concise(torchfast: Run) -> None:
    assert formatted(torchfast, "concise") == formatted(torchfast, "text")


@pytest.mark.parametrize("form", ["concise", "full", "json", "sarif", "junit"])
def test_a_report_goes_to_a_file(torchfast: Run, naive: Path, form: str) -> None:
    printed = formatted(torchfast, form)

    answer = torchfast("check", naive.name, "--format", form, "--output-file", "report", *BITWISE)

    assert (answer.code, answer.out) == (1, "")
    assert (naive.parent / "report").read_text() == printed


def test_a_report_that_cannot_be_written_is_a_fault(torchfast: Run, naive: Path) -> None:
    answer = torchfast("check", naive.name, "--output-file", "missing/report")

    assert (answer.code, answer.err) == (2, "Error: missing/report: not written: no such file or directory\n")


def test_statistics_count_by_rule(torchfast: Run, naive: Path) -> None:
    lines = torchfast("check", naive.name, "--statistics", *BITWISE).out.splitlines()
    rows = json.loads(torchfast("check", naive.name, "--statistics", "--format", "json", *BITWISE).out)

    assert lines[:4] == ["changes  left  rule", *(f"{number:>7}  {0:>4}  {rule}" for number, rule in COUNTED)]
    assert lines[-1].startswith("4 changes: 4 bitwise")
    assert [(each["rewrites"], each["rule"]) for each in rows if each["rewrites"]] == COUNTED


COUNTED = [(2, "h2d-non-blocking"), (1, "loader-pin"), (1, "zero-grad-none")]


def test_statistics_have_two_formats(torchfast: Run, naive: Path) -> None:
    answer = torchfast("check", naive.name, "--statistics", "--format", "sarif")

    assert (answer.code, answer.err) == (2, "Error: --statistics is text or JSON, not sarif\n")


# --- the change of each finding ----------------------------------------------------------------------------------------


def fixes(torchfast: Run, *arguments: str) -> dict[str, tuple[list[dict[str, Any]], str]]:
    """The change of each rule's finding, and why it has none."""
    said = json.loads(torchfast("check", *arguments, "--format", "json").out)["findings"]
    return {each["rule"]: (each["fix"], each["no_fix"]) for each in said if each["status"] == "rewrites"}


def changed(text: str, fix: list[dict[str, Any]]) -> str:
    from autotune_rewrite.rewriting.fixes import applied
    from autotune_rewrite.rewriting.results import Replacement

    return applied(text, [Replacement(each["line"], each["end_line"], each["text"]) for each in fix])


WORKERS = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = datasets.ImageFolder("data", transform=transforms.ToTensor())
loader = DataLoader(data, batch_size=64)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4096, 9), torch.nn.Flatten(), torch.nn.Linear(4096 * 24 * 24, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for images, labels in loader:
    optimizer.zero_grad(set_to_none=False)
    loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
    loss.backward()
    optimizer.step()
"""
"""Workers need a main guard around the loop."""


def test_a_change_has_all_that_it_needs_and_no_other(torchfast: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORKERS)

    found = fixes(torchfast, "train.py", "--select", "loader-workers,fused-optimizer,zero-grad-none")

    alone = {rule: torchfast("rewrite", "-", "--select", rule, stdin=WORKERS.encode()).out for rule in found}
    assert {rule: changed(WORKERS, fix) for rule, (fix, _) in found.items()} == alone
    assert "if __name__ == " in alone["loader-workers"]
    assert "if __name__ == " not in alone["fused-optimizer"]


def test_what_is_in_several_places_is_no_suggestion(torchfast: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORKERS)

    answer = torchfast("check", "train.py", "--format", "rdjson", "--select", "loader-workers,zero-grad-none")

    workers, grad = json.loads(answer.out)["diagnostics"]
    assert workers["suggestions"] == []
    assert re.search(r"; no suggestion: the change is in \d+ places, which belong together$", workers["message"])
    assert len(grad["suggestions"]) == 1


PROBABILITIES = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1), nn.Sigmoid()).cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters())
for images in torch.randn(4, 256, 1024).cuda():
    optimizer.zero_grad(set_to_none=False)
    loss = criterion(model(images), torch.ones(256, 1).cuda())
    loss.backward()
    optimizer.step()
"""
"""Autocast refuses a loss of probabilities: mixed precision is right only with ``bce-logits`` before it."""


def test_what_follows_from_another_change_says_so(torchfast: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROBABILITIES)

    found = fixes(torchfast, "train.py", "--select", "bce-logits,amp,zero-grad-none")
    sarif_ = json.loads(torchfast("check", "train.py", "--format", "sarif", "--select", "bce-logits,amp").out)

    because = "it is found like this only after other changes (bce-logits)"
    assert found["amp"] == ([], because)
    assert "BCEWithLogitsLoss" in changed(PROBABILITIES, found["bce-logits"][0])
    assert changed(PROBABILITIES, found["zero-grad-none"][0]) == PROBABILITIES.replace(
        "set_to_none=False", "set_to_none=True"
    )
    told = {each["ruleId"]: each["message"]["text"] for each in sarif_["runs"][0]["results"] if "fixes" not in each}
    assert {rule: text.partition("; no fix: ")[2] for rule, text in told.items()} == {"amp": because}


CONVOLUTIONS = """\
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 128, 3), nn.ReLU(), nn.Conv2d(128, 128, 3), nn.ReLU(), nn.Conv2d(128, 8, 3)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10000):
    images = torch.rand(64, 3, 64, 64, device="cuda")
    optimizer.zero_grad()
    loss = model(images).square().mean()
    loss.backward()
    optimizer.step()
"""


def test_what_pays_beside_another_change_only_says_so(torchfast: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CONVOLUTIONS)

    found = fixes(torchfast, "train.py", "--select", "amp,channels-last")

    assert found["channels-last"] == ([], "without amp it may cost more than it gains: apply that first")
    halved = changed(CONVOLUTIONS, found["amp"][0])
    (tmp_path / "train.py").write_text(halved)
    fix, because = fixes(torchfast, "train.py", "--select", "amp,channels-last")["channels-last"]
    assert (because, "memory_format=torch.channels_last" in changed(halved, fix)) == ("", True)


def test_what_follows_from_a_change_of_another_file_says_so(torchfast: Run, tmp_path: Path) -> None:
    lines = PROBABILITIES.splitlines(keepends=True)
    (tmp_path / "net.py").write_text("".join([*lines[:3], lines[3].replace(".cuda()", "")]))
    (tmp_path / "train.py").write_text("".join(["import net\n", *lines[:3], "model = net.model.cuda()\n", *lines[4:]]))

    found = fixes(torchfast, "train.py", "--select", "bce-logits,amp,zero-grad-none")

    assert all(bool(fix) != bool(why) for fix, why in found.values())
    for fix, _ in found.values():
        compile(changed((tmp_path / "train.py").read_text(), fix), "train.py", "exec")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\nb\n", "x\na\nb\n", id="above the first line"),
        pytest.param("a\nb\n", "a\nb\nx\n", id="below the last line"),
        pytest.param("a\nb", "a\nb\nx", id="below a last line without an end"),
        pytest.param("a\nb\n", "b\n", id="the first line goes"),
        pytest.param("a\nb\n", "a\n", id="the last line goes"),
        pytest.param("a\nb\nc\n", "x\na\ny\nb\nc\n", id="twice beside one line"),
    ],
)
def test_each_piece_takes_the_place_of_lines(before: str, after: str) -> None:
    from autotune_rewrite.rewriting.fixes import applied, pieces

    found = list(pieces(before, after))

    assert applied(before, found) == after
    assert all(each.line <= each.end_line and each.text for each in found)
    assert all(one.end_line < other.line for one, other in pairwise(found))


def test_a_notebook_has_findings_and_no_parts(torchfast: Run, tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": text}
        for text in NAIVE.split("for epoch", 1)
    ]
    cells[1]["source"] = f"for epoch{cells[1]['source']}"
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "nb.ipynb").write_text(json.dumps(book))

    said = json.loads(formatted(torchfast, "rdjson", "nb.ipynb"))["diagnostics"]

    assert [each["location"] for each in said] == [{"path": "nb.ipynb"}] * len(said)
    assert [each["suggestions"] for each in said] == [[]] * len(said)
    assert said[0]["message"] == (
        "batches are copied from pageable memory [bitwise] (cell 1); "
        "no suggestion: the cells of a notebook are no lines of its file"
    )
    is_of("sarif-2.1.0.json", json.loads(formatted(torchfast, "sarif", "nb.ipynb")))
