"""The site: what its pages show is what the program says today, and it is built without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from autotune_rewrite.report.judgement import EQUALITY, SPEED
from tests import picture, transcripts
from tests.conftest import ROOT
from tests.test_readme import README, options, rows

DOCS = ROOT / "docs"
ALL = sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in transcripts.PAGES])
def test_a_page_shows_what_its_commands_print_today(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert transcripts.current(text) == text, "python tests/regenerate_docs.py writes the current one"


def test_commands_are_shown_with_what_they_print() -> None:
    shown = [line for page in transcripts.PAGES for line in transcripts.commands(page.read_text(encoding="utf-8"))]

    assert {"facts", "rewrite", "check", "verify"} <= {line.split()[1] for line in shown}


def test_three_dots_stand_for_lines_and_for_no_other_text() -> None:
    page = "```python\n# a.py\nprint(1)\n```\n\n```console\n$ torchfast rules\n{}```\n"
    whole = transcripts.current(page.format(""))
    first, *_, last = whole.partition("torchfast rules\n")[2].removesuffix("```\n").splitlines(keepends=True)

    assert transcripts.current(page.format(f"{first}...\n{last}")) == page.format(f"{first}...\n{last}")
    assert transcripts.current(page.format(f"other\n...\n{last}")) == whole


@pytest.mark.parametrize("page", [pytest.param(page, id=page.relative_to(DOCS).as_posix()) for page in ALL])
def test_every_link_leads_to_a_file_of_the_repository(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_option_that_the_guide_names_is_one() -> None:
    known = {name for command in ("rewrite", "check", "verify", "profile") for name in options(command)}
    others = {"--help", "--nproc", "--epochs", "--samples", "--test-samples"}
    for page in transcripts.PAGES:
        named = set(re.findall(r"`(?:torchfast [^`]*?)?(--[a-z-]+)", page.read_text(encoding="utf-8")))
        assert named <= known | others


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    mkdocs = Path(sys.executable).with_name("mkdocs")
    if not mkdocs.exists() and not os.environ.get("CI"):
        pytest.skip("pip install -e '.[docs]' installs mkdocs")

    ended = subprocess.run(
        [mkdocs, "build", "--strict", "-f", DOCS / "mkdocs.yml", "-d", tmp_path],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "rules" / "loader-pin" / "index.html").is_file()
    loaded = re.findall(r"""<(?:script|link)[^>]*(?:src|href)="(https?:[^"]*)""", home)
    assert [address for address in loaded if not address.startswith("https://example.org/")] == [], (
        "read from elsewhere"
    )


def test_the_pictures_show_the_change_and_the_record_that_there_are() -> None:
    there = {path: path.read_text(encoding="utf-8") for path in picture.PICTURES if path.exists()}

    assert there == picture.pictures(), "python tests/regenerate_docs.py writes the current ones"
    assert all(path.relative_to(ROOT).as_posix() in README for path in there)


def test_the_pictures_load_nothing_from_elsewhere() -> None:
    for text in picture.pictures().values():
        root = ET.fromstring(text)  # noqa: S314 - our own
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_the_picture_has_about_ten_changed_lines() -> None:
    changed = [line for line in picture.changed() if line[0] in "+-"]

    assert 8 <= len(changed) <= 12
    assert {line[0] for line in changed} == {"+", "-"}
    assert max(map(len, changed)) <= picture.WIDTH


def test_the_record_has_no_path_of_the_machine_that_made_it() -> None:
    said = "".join(path.read_text(encoding="utf-8") for path in sorted(picture.RECORDS.glob("*.json")))

    assert said
    assert re.findall(r'"/[\w/.-]*', said) == []


def test_each_answer_of_a_verdict_is_explained() -> None:
    page = (DOCS / "guide" / "verdict.md").read_text(encoding="utf-8")
    words = {cell for cell in rows(page) if cell not in {"Speed", "Results"}}

    for said in (*SPEED.values(), *EQUALITY.values()):
        assert [word for word in words if said.startswith(word)], said


def test_every_page_is_in_the_navigation() -> None:
    text = (DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/]+\.md", text))

    assert yaml.safe_load(text)["docs_dir"] == "guide"
    assert {page.relative_to(DOCS).as_posix() for page in ALL if page.parent.name != "rules"} == named
