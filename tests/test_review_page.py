"""The page of `torchfast review`: what it shows, and what patch is downloaded from it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite.report.page import from_markdown
from tests.chromium import PROGRAM, Browser
from tests.conftest import NAIVE
from tests.markup import Checked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from tests.conftest import Answer

    Torchfast = Callable[..., Answer]

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
HOSTILE = NAIVE.replace(
    "optimizer = torch.optim",
    "end = '</script><script>document.title = 1</script><!-- {{ end }} é'\noptimizer = torch.optim",
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that is empty but for a readme, and all that a test adds is new on its branch."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "README").touch()
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-b", "main"), ("add", "."), ("commit", "-m", "first")):
        subprocess.run(["git", *who, *arguments], check=True, capture_output=True)
    return folder


def page_of(torchfast: Torchfast, *arguments: str) -> str:
    answer = torchfast("review", ".", "--base", "main", "--format", "html", *arguments)
    assert (answer.code, answer.err) == (0, "")
    return answer.out


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def numbers(data: dict[str, Any]) -> set[int]:
    return {number for file in data["files"] for piece in file["pieces"] for number in piece["changes"]}


def text_with(file: dict[str, Any], on: Collection[int]) -> str:
    """A file with those pieces that some changes have, as the page makes it."""
    lines = list(file["lines"])
    for piece in reversed(file["pieces"]):
        if not set(piece["changes"]).isdisjoint(on):
            lines[piece["line"] - 1 : piece["end_line"]] = [piece["text"]]
    return "".join(lines)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(NAIVE, id="as usual"),
        pytest.param(HOSTILE, id="HTML in the code"),
        pytest.param(NAIVE.replace("\n", "\r\n"), id="returns before newlines"),
        pytest.param(NAIVE.removesuffix("\n"), id="no newline at the end"),
    ],
)
def test_all_changes_make_the_rewritten_file(torchfast: Torchfast, project: Path, script: str) -> None:
    (project / "train.py").write_bytes(script.encode())

    page = page_of(torchfast)
    (file,) = data_of(page)["files"]

    assert text_with(file, ()) == script
    torchfast("rewrite", "train.py", "--apply", "--quiet")
    assert text_with(file, numbers(data_of(page))).encode() == (project / "train.py").read_bytes()


@pytest.mark.parametrize("script", [NAIVE, HOSTILE], ids=["as usual", "HTML in the code"])
def test_the_page_is_html_that_loads_nothing(torchfast: Torchfast, project: Path, script: str) -> None:
    (project / "train.py").write_text(script)

    page = page_of(torchfast)
    checked = Checked(page)

    assert (checked.scripts, checked.loaded) == (2, [])
    assert "@import" not in page
    assert "url(" not in page
    assert checked.text.count(script.splitlines()[8]) >= 1
    assert "batches are copied from pageable memory" in checked.text
    assert 'id="rule-loader-pin"' in page
    if script is HOSTILE:
        assert "</script><script>document.title = 1</script><!-- {{ end }} é" in checked.text


def test_each_line_of_a_string_keeps_its_colour(torchfast: Torchfast, project: Path) -> None:
    (project / "train.py").write_text(NAIVE.replace("model = nn", 'end = """\ntwo\n"""\nmodel = nn'))

    page = page_of(torchfast, "--select", "loader-pin")

    assert page.count('<span class="row" data-line="10"><span class="s">two</span></span>') == 2


def test_a_rule_s_page_stands_below_the_headings_of_this_one() -> None:
    text = (
        "# rule\n\n## Seen\n\n[here](docs/a.md#b), [there](https://example.org/c) <b>\n\n```python\n# a comment\n```\n"
    )

    html = from_markdown(text, below=2)

    Checked(html)
    assert re.findall(r"<h\d>.*?</h\d>", html) == ["<h3>rule</h3>", "<h4>Seen</h4>"]
    assert '<p>here, <a href="https://example.org/c">there</a> &lt;b&gt;</p>' in html
    assert "# a comment\n</code>" in html


def test_a_notebook_is_shown_and_not_in_the_patch(torchfast: Torchfast, project: Path) -> None:
    cell: dict[str, Any] = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": NAIVE,
    }
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (project / "nb.ipynb").write_text(json.dumps(book))

    page = page_of(torchfast)

    assert "A notebook: no patch changes its cells" in page
    assert 'id="data"' not in page
    assert Checked(page).scripts == 0


def test_a_file_in_another_encoding_is_not_in_the_patch(torchfast: Torchfast, project: Path) -> None:
    (project / "train.py").write_bytes(f"# coding: latin-1\n# caf\u00e9\n{NAIVE}".encode("latin-1"))

    page = page_of(torchfast)

    assert "The file is not in UTF-8" in page
    assert 'id="data"' not in page


def test_where_nothing_is_found_there_is_a_page(torchfast: Torchfast, project: Path) -> None:
    (project / "train.py").write_text("import torch\n")

    checked = Checked(page_of(torchfast))

    assert (checked.scripts, "nothing found" in checked.text) == (0, True)


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("there is no Chromium")
    folder = tmp_path / "browser"
    folder.mkdir()
    browser = Browser(folder)
    yield browser
    browser.close()


def applied_by(command: tuple[str, ...], patch: str, project: Path, folder: Path) -> dict[str, bytes]:
    """The scripts of a project after a program has applied a patch to a copy of it."""
    shutil.copytree(project, folder)
    if patch:
        subprocess.run([*command], cwd=folder, input=patch.encode(), check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in folder.glob("*.py")}


def subsets(of: Collection[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(sorted(of), number) for number in range(len(of) + 1))


def test_what_is_downloaded_is_what_is_on(
    torchfast: Torchfast, project: Path, browser: Browser, tmp_path: Path
) -> None:
    (project / "train.py").write_text(HOSTILE)
    (project / "with blanks.py").write_bytes(NAIVE.removesuffix("\n").replace("\n", "\r\n").encode())
    (project / "logits.py").write_text("\ufeff" + PROBABILITIES)
    page = tmp_path / "page.html"
    page.write_text(page_of(torchfast))
    data = data_of(page.read_text())
    browser.open(page)
    assert browser.value("document.title").startswith("torchfast: ")

    tried = 0
    for on in subsets(numbers(data)):
        if len(on) not in (0, 1, len(numbers(data)) - 1, len(numbers(data))):
            continue
        for box in numbers(data):
            browser.value(f"turn({box}, {json.dumps(box in on)})")
        chosen = set(browser.value("[...chosen()]"))
        patch = browser.value("patch()")
        expected = {file["path"]: text_with(file, chosen).encode() for file in data["files"]}
        tried += 1
        assert applied_by(("git", "apply", "-p0"), patch, project, tmp_path / f"git{tried}") == expected
        assert applied_by(("patch", "-p0", "--binary"), patch, project, tmp_path / f"patch{tried}") == expected
    assert tried >= 8


def test_clicks_leave_changes_out(torchfast: Torchfast, project: Path, browser: Browser, tmp_path: Path) -> None:
    (project / "train.py").write_text(NAIVE)
    page = tmp_path / "page.html"
    page.write_text(page_of(torchfast))
    data = data_of(page.read_text())
    browser.open(page)
    everything = numbers(data)
    pin = browser.value(
        "Number([...document.querySelectorAll('input[data-change]')]"
        ".find((each) => each.closest('.card').textContent.includes('loader-pin')).dataset.change)"
    )

    browser.value(f"document.querySelector('input[data-change=\"{pin}\"]').click()")
    browser.value("document.getElementById('download').click()")
    while browser.wait("Browser.downloadProgress")["params"]["state"] != "completed":
        pass

    downloaded = (tmp_path / "browser" / "torchfast.patch").read_bytes().decode()
    (file,) = data["files"]
    expected = text_with(file, everything - {pin})
    assert "pin_memory" not in expected
    assert applied_by(("git", "apply", "-p0"), downloaded, project, tmp_path / "applied") == {
        "train.py": expected.encode()
    }
    assert browser.value("document.getElementById('count').textContent") == (
        f"{len(everything) - 1} of {len(everything)} are on"
    )
    assert browser.value("document.getElementById('patch').textContent") == downloaded
    browser.value("document.getElementById('none').click()")
    assert browser.value("[patch(), document.getElementById('download').disabled]") == ["", True]
    browser.value("document.getElementById('all').click()")
    assert browser.value("chosen().size") == len(everything)


def test_what_needs_a_change_goes_with_it(
    torchfast: Torchfast, project: Path, browser: Browser, tmp_path: Path
) -> None:
    lines = PROBABILITIES.splitlines(keepends=True)
    (project / "pyproject.toml").touch()
    (project / "net.py").write_text("".join([*lines[:3], lines[3].replace(".cuda()", "")]))
    (project / "train.py").write_text("".join(["import net\n", *lines[:3], "model = net.model.cuda()\n", *lines[4:]]))
    page = tmp_path / "page.html"
    page.write_text(page_of(torchfast, "--select", "bce-logits,amp,zero-grad-none"))
    needs = {int(number): needed for number, needed in data_of(page.read_text())["needs"].items()}
    browser.open(page)

    for number, needed in needs.items():
        for each in needed:
            browser.value(f"document.getElementById('all').click(), turn({each}, false), show()")
            assert number not in browser.value("[...chosen()]")
            browser.value(f"document.getElementById('none').click(), turn({number}, true), show()")
            assert each in browser.value("[...chosen()]")
    browser.value("document.getElementById('all').click()")
    assert set(browser.value("[...chosen()]")) == numbers(data_of(page.read_text()))


@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_is_wider_than_the_window(torchfast: Torchfast, project: Path, tmp_path: Path, width: int) -> None:
    if PROGRAM is None:
        pytest.skip("there is no Chromium")
    (project / f"train_{'x' * 90}.py").write_text(HOSTILE.replace("lr=0.1)", f"lr=0.1)  # {'x' * 300}"))
    page = tmp_path / "page.html"
    page.write_text(page_of(torchfast))
    folder = tmp_path / "browser"
    folder.mkdir()
    browser = Browser(folder, width)
    try:
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        browser.open(page)
        browser.value("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        assert browser.value("document.documentElement.scrollWidth") <= width
        logged = [
            each["params"] for each in browser.events if each["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")
        ]
        assert logged == []
        requests = [
            each["params"]["request"]["url"] for each in browser.events if each["method"] == "Network.requestWillBeSent"
        ]
        assert {url.partition(":")[0] for url in requests} <= {"file", "data"}
    finally:
        browser.close()
