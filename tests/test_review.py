"""`torchfast review`: what could be faster of what a branch changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from markdown_it import MarkdownIt

from autotune_rewrite.project.git import shown_lines
from autotune_rewrite.report import judgement as told
from autotune_rewrite.report.review import LONGEST
from autotune_rewrite.report.verified import from_json, per_run
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.statistics.measurement import Figures
from autotune_rewrite.verify.statistics.ratio import Ratio
from autotune_rewrite.verify.statistics.seeds import Summary
from tests.conftest import NAIVE, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Answer

    Torchfast = Callable[..., Answer]
    Git = Callable[..., str]

RULES = ("--select", "loader-pin,zero-grad-none,h2d-non-blocking")
BASE = NAIVE.replace("batch_size=64", "batch_size=32").replace("    images, labels =", "    images,  labels =")


@pytest.fixture
def git(naive: Path) -> Git:
    """Runs git in a repository whose branch `work` changes the loader and the copies of a script of `main`."""

    def run(*arguments: str) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *who, *arguments], cwd=naive.parent, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    run("init", "-b", "main")
    naive.write_text(BASE)
    run("add", ".")
    run("commit", "-m", "first")
    run("checkout", "-b", "work")
    naive.write_text(NAIVE)
    run("commit", "-am", "second")
    return run


def review(torchfast: Torchfast, *arguments: str) -> str:
    answer = torchfast("review", "train.py", "--base", "main", *RULES, *arguments)
    assert (answer.code, answer.err) == (0, "")
    return answer.out


# --- what is reviewed -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("git")
def test_what_the_branch_touches_is_told(torchfast: Torchfast) -> None:
    said = review(torchfast)

    assert said.startswith("### torchfast: 3 changes: 3 bitwise, on lines changed since main\n")
    assert re.findall(r"<code>([\w-]+)</code>: (.*)</summary>", said) == [
        ("loader-pin", "1 change, bitwise"),
        ("h2d-non-blocking", "2 changes, bitwise"),
    ]
    assert "zero-grad-none" not in said
    assert "+loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2, pin_memory=True)\n" in said
    assert "Gain to expect: copies of 0.2-64 MiB 1.7-7x as fast (H100)." in said


@pytest.mark.usefixtures("git")
def test_where_nothing_was_touched_nothing_is_found(torchfast: Torchfast) -> None:
    answer = torchfast("review", "train.py", "--base", "work")

    assert (answer.code, answer.out) == (0, "### torchfast: nothing found, on lines changed since work\n")


def test_the_remote_says_what_is_compared_with(
    torchfast: Torchfast,
    git: Git,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clone = tmp_path_factory.mktemp("clones") / "clone"
    git("checkout", "main")
    git("clone", ".", str(clone))
    git("-C", str(clone), "checkout", "-b", "mine", git("rev-parse", "work"))
    monkeypatch.chdir(clone)

    assert "on lines changed since origin/main" in torchfast("review", *RULES).out

    git("-C", str(clone), "remote", "set-head", "origin", "--delete")
    answer = torchfast("review", *RULES)

    how = "--base REV names one, or `git remote set-head origin --auto` asks origin"
    assert (answer.code, answer.err) == (2, f"Error: .: git does not know the default branch of origin: {how}\n")


@pytest.mark.usefixtures("git")
def test_without_a_remote_the_user_has_to_say(torchfast: Torchfast) -> None:
    answer = torchfast("review", "train.py")

    said = "train.py: git knows no remote there, and so no branch to compare with: --base REV names one"
    assert (answer.code, answer.err) == (2, f"Error: {said}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ("train.py", "--base", "nowhere"), "train.py: git knows no revision 'nowhere' there", id="revision"
        ),
        pytest.param(("-", "--base", "main"), "review needs files, not standard input", id="standard input"),
        pytest.param(
            ("train.py", "--base", "main", "--verified", "train.py"), "train.py: not JSON: .*", id="no record of runs"
        ),
        pytest.param(
            ("train.py", "--base", "main", "--verified", "other.json"),
            r"other.json: not what `verify --format json` of this torchfast prints \(version \d\)",
            id="other JSON",
        ),
        pytest.param(
            ("train.py", "--base", "main", "--output-file", "no/where.md"), "no/where.md: .*", id="cannot be written"
        ),
        pytest.param(
            (".", "other", "--base", "main"),
            r"\. and other are not in one repository, and a review is of one",
            id="two repositories",
        ),
    ],
)
@pytest.mark.usefixtures("git")
def test_a_fault_is_one_line(torchfast: Torchfast, naive: Path, arguments: tuple[str, ...], said: str) -> None:
    (naive.parent / "other.json").write_text("[]")
    subprocess.run(["git", "init", "other"], cwd=naive.parent, check=True, capture_output=True)

    answer = torchfast("review", *arguments)

    assert answer.code == 2
    assert re.fullmatch(f"Error: {said}\n", answer.err)


@pytest.mark.parametrize("content", [b"import torch\ndef f(:\n", b"import torch\n\0\n"], ids=["no Python", "no text"])
@pytest.mark.parametrize("before", [None, b"import torch\n"], ids=["new", "changed"])
def test_a_file_of_the_branch_that_cannot_be_read_is_told(
    torchfast: Torchfast, git: Git, naive: Path, *, before: bytes | None, content: bytes
) -> None:
    broken = naive.parent / "broken.py"
    if before is not None:
        broken.write_bytes(before)
        git("add", ".")
        git("commit", "-m", "third")
    broken.write_bytes(content)

    answer = torchfast("review", ".", "--base", "HEAD" if before else "main", *RULES)

    assert answer.code == 2
    assert answer.err.startswith("broken.py:2: not ")
    assert re.search(r"^- broken\.py:2: not ", answer.out, re.MULTILINE)


def test_what_the_branch_did_not_touch_fails_nothing(torchfast: Torchfast, git: Git, naive: Path) -> None:
    git("checkout", "main")
    (naive.parent / "old.py").write_text("import torch\nprint 1\n")
    git("add", ".")
    git("commit", "-m", "third")
    git("checkout", "-b", "more")
    naive.write_text(NAIVE)
    git("mv", "old.py", "older.py")
    git("commit", "-am", "fourth")

    answer = torchfast("review", "--base", "main", *RULES)

    assert (answer.code, answer.err) == (0, "note: not changed since main, and cannot be read: older.py\n")
    assert "3 changes" in answer.out
    assert "older.py" not in answer.out
    assert torchfast("review", "--base", "main", *RULES, "--quiet").err == ""


def test_a_configuration_that_cannot_be_read_fails_whoever_wrote_it(
    torchfast: Torchfast, git: Git, naive: Path
) -> None:
    (naive.parent / "pyproject.toml").write_text("[tool.torchfast")
    git("add", ".")
    git("commit", "-m", "third")

    answer = torchfast("review", "--base", "HEAD")

    assert answer.code == 2
    assert answer.err.startswith(f"{naive.parent / 'pyproject.toml'}: is not TOML")


@pytest.mark.parametrize("path", [".", "train.py", "src"])
def test_what_the_branch_took_away_fails_nothing(torchfast: Torchfast, git: Git, naive: Path, path: str) -> None:
    git("checkout", "main")
    (naive.parent / "src").mkdir()
    (naive.parent / "src" / "a.py").write_text(NAIVE)
    git("add", ".")
    git("commit", "-m", "third")
    git("checkout", "-b", "less")
    git("rm", "-r", "train.py", "src")
    git("commit", "-m", "fourth")

    answer = torchfast("review", path, "--base", "main")

    why = "no Python files in this directory" if path == "." else "no such file or directory"
    nothing = "### torchfast: nothing found, on lines changed since main\n"
    assert (answer.code, answer.out, answer.err) == (0, nothing, f"note: {path}: {why}\n")


@pytest.mark.usefixtures("git")
def test_what_was_never_there_is_told(torchfast: Torchfast) -> None:
    answer = torchfast("review", "gone.py", "--base", "main")

    assert (answer.code, answer.err) == (2, "gone.py: no such file or directory\n")


def test_a_repository_that_lies_in_another_is_not_reviewed(torchfast: Torchfast, git: Git, naive: Path) -> None:
    git("init", "-b", "trunk", "other")
    (naive.parent / "other" / "train.py").write_text(NAIVE)
    (naive.parent / "other" / "broken.py").write_text("import torch\nprint 1\n")

    answer = torchfast("review", "--base", "main", *RULES, "--quiet")

    assert (answer.code, answer.err) == (0, "")
    assert answer.out == review(torchfast)


# --- where the branch comes from --------------------------------------------------------------------------------------


@pytest.fixture
def shallow(git: Git, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with the last commits of `work` and of `origin/main`, and nothing of what was before."""
    clone = tmp_path_factory.mktemp("clones") / "clone"
    url = f"file://{git('rev-parse', '--show-toplevel')}"
    git("clone", "--depth", "1", "--branch", "work", "--no-single-branch", url, str(clone))
    return clone


SHALLOW = (
    "git knows no commit that HEAD and origin/main have in common: this clone is shallow "
    "(`git fetch --unshallow`, or `fetch-depth: 0` in a workflow, brings the history)"
)


def test_a_clone_without_history_is_not_reviewed(torchfast: Torchfast, shallow: Path) -> None:
    answer = torchfast("review", shallow, "--base", "origin/main")

    assert (answer.code, answer.out, answer.err) == (2, "", f"Error: {shallow}: {SHALLOW}\n")


def test_a_check_of_a_clone_without_history_says_what_it_compared_with(torchfast: Torchfast, shallow: Path) -> None:
    answer = torchfast("check", shallow, *RULES, "--diff-base", "origin/main")

    note = f"note: {SHALLOW}; lines count as changed that differ from those of origin/main itself\n"
    assert (answer.code, answer.err) == (1, note)
    assert torchfast("check", shallow, *RULES, "--diff-base", "origin/main", "--quiet").err == ""


def test_a_branch_of_its_own_is_not_reviewed(torchfast: Torchfast, git: Git) -> None:
    git("checkout", "--orphan", "alone")
    git("commit", "-m", "first of its own")

    answer = torchfast("review", "--base", "main")

    why = "git knows no commit that HEAD and main have in common: their histories are separate"
    assert (answer.code, answer.out, answer.err) == (2, "", f"Error: .: {why}\n")


def test_a_notebook_is_told_without_lines(torchfast: Torchfast, git: Git, naive: Path) -> None:
    cell: dict[str, Any] = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": NAIVE,
    }
    (naive.parent / "nb.ipynb").write_text(
        json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    git("add", ".")

    said = torchfast("review", "nb.ipynb", "--base", "main", *RULES).out
    request = json.loads(torchfast("review", "nb.ipynb", "--base", "main", *RULES, "--format", "github").out)

    assert "nb.ipynb:cell 1:8" in said
    assert "+loader = DataLoader(" in said
    assert (request["comments"], "nb.ipynb:cell 1:8" in request["body"]) == ([], True)


# --- Markdown ---------------------------------------------------------------------------------------------------------

HOSTILE = NAIVE.replace("num_workers=2)", "num_workers=2)  # ````` </details>").replace(
    "optimizer = torch.optim",
    'end = """\n```\n</details>\n"""  # ```` <script>alert(1)</script>\noptimizer = torch.optim',
)


def test_no_code_ends_its_block(torchfast: Torchfast, git: Git, naive: Path) -> None:
    naive.write_text(HOSTILE)
    git("commit", "-am", "third")

    tokens = MarkdownIt("commonmark").enable("table").parse(review(torchfast))

    tags = "".join(each.content for each in tokens if each.type == "html_block")
    code = [each.content for each in tokens if each.type == "fence"]
    assert tags.count("<details>") == tags.count("</details>") == 2
    assert set(re.findall(r"<(/?\w+)", tags)) == {"details", "/details", "summary", "/summary", "code", "/code"}
    assert any("````` </details>" in each for each in code)
    assert all(line[:1] in {" ", "+", "-", "@", ""} for each in code for line in each.split("\n"))


def test_a_comment_is_not_too_long(torchfast: Torchfast, git: Git, naive: Path) -> None:
    for number in range(25):
        comment = f"# {'1' * 2500}\n"
        (naive.parent / f"more{number}.py").write_text(NAIVE.replace("model =", f"{comment}model ="))
    git("add", ".")
    git("commit", "-m", "third")

    answer = torchfast("review", ".", "--base", "main", *RULES)

    assert len(answer.out) <= LONGEST + 1
    assert "Diffs are left out here" in answer.out
    assert "more24.py:8 batches are copied" in answer.out


# --- comments on lines ------------------------------------------------------------------------------------------------


def shown(git: Git) -> set[int]:
    """The lines of the script that the pages of a pull request show."""
    hunks = re.findall(r"^@@ -\S+ \+(\d+),(\d+) @@", git("diff", "main", "--", "train.py"), re.MULTILINE)
    return {line for first, number in hunks for line in range(int(first), int(first) + int(number))}


def test_a_review_of_github_has_suggestions_on_lines_of_the_diff(torchfast: Torchfast, git: Git) -> None:
    request = json.loads(review(torchfast, "--format", "github"))

    assert (request["event"], request["commit_id"]) == ("COMMENT", git("rev-parse", "HEAD"))
    assert request["body"].startswith(
        "### torchfast: 3 changes: 3 bitwise, on lines changed since main (2 comments on these)"
    )
    assert [(each["path"], each["line"], each["side"]) for each in request["comments"]] == [
        ("train.py", 8, "RIGHT"),
        ("train.py", 13, "RIGHT"),
    ]
    assert {each["line"] for each in request["comments"]} <= shown(git)
    assert all({*each} == {"path", "line", "side", "body"} for each in request["comments"])
    assert request["comments"][0]["body"].endswith(
        "\n\n```suggestion\nloader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2, pin_memory=True)\n```"
    )


@pytest.mark.usefixtures("git")
def test_suggestions_that_are_taken_over_make_the_rewritten_script(torchfast: Torchfast) -> None:
    request = json.loads(review(torchfast, "--format", "github"))
    lines = NAIVE.splitlines(keepends=True)

    for each in sorted(request["comments"], key=lambda comment: -comment["line"]):
        suggestion = re.search(r"^```suggestion\n(.*)^```$", each["body"], re.MULTILINE | re.DOTALL)
        assert suggestion is not None
        lines[each.get("start_line", each["line"]) - 1 : each["line"]] = [suggestion[1]]

    expected = torchfast("rewrite", "-", "--select", "loader-pin,h2d-non-blocking", stdin=NAIVE.encode()).out
    assert "".join(lines) == expected


def test_what_takes_several_places_is_a_diff_beside_the_site(torchfast: Torchfast, git: Git, naive: Path) -> None:
    loop = "for epoch in range(2):\n    total = 0.0\n"
    naive.write_text(
        NAIVE.replace("for epoch in range(2):\n", loop)
        + "        total += loss.item()\n        print(epoch)\n    print(total)\n"
    )
    git("commit", "-am", "third")

    answer = torchfast("review", "--base", "main", "--select", "defer-sync", "--format", "github")

    (comment,) = json.loads(answer.out)["comments"]
    assert comment["line"] == 19
    assert "```suggestion" not in comment["body"]
    assert "The whole change:\n\n```diff\n" in comment["body"]


LONG = """\
loader = DataLoader(
    data,
    # one
    # two
    # three
    # four
    # five
    # six
    num_workers=2,
)
"""


@pytest.mark.parametrize(
    ("changed", "line", "language"),
    [
        pytest.param("num_workers=2", 16, "suggestion", id="beside its last line"),
        pytest.param("    data,", 8, "diff", id="beside its first line, and all is changed beside the last"),
    ],
)
def test_a_comment_stands_where_the_diff_shows_the_change(
    torchfast: Torchfast, git: Git, naive: Path, *, changed: str, line: int, language: str
) -> None:
    script = NAIVE.replace("loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)\n", LONG)
    naive.write_text(script.replace(changed, f"{changed} "))
    git("commit", "-am", "third")
    naive.write_text(script)
    git("commit", "-am", "fourth")

    answer = torchfast("review", "--base", "HEAD~1", "--select", "loader-pin", "--format", "github")

    (comment,) = json.loads(answer.out)["comments"]
    assert comment["line"] == line
    assert f"```{language}\n" in comment["body"]


def test_threads_of_gitlab_know_both_numbers_of_a_line_that_stayed(torchfast: Torchfast, git: Git) -> None:
    threads = json.loads(review(torchfast, "--format", "gitlab"))

    overview, *others = threads
    assert {*overview} == {"body"}
    base, head = git("rev-parse", "main"), git("rev-parse", "work")
    position = {"base_sha": base, "start_sha": base, "head_sha": head, "position_type": "text"}
    place = {"old_path": "train.py", "new_path": "train.py"}
    assert [each["position"] for each in others] == [
        {**position, **place, "new_line": 8},
        {**position, **place, "new_line": 13},
    ]
    assert all("\n```suggestion:-0+0\n" in each["body"] for each in others)


def test_a_suggestion_of_gitlab_reaches_up(torchfast: Torchfast, git: Git, naive: Path) -> None:
    call = "loader = DataLoader(\n    data, batch_size=64, shuffle=True,\n    num_workers=2)\n"
    naive.write_text(NAIVE.replace("loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)\n", call))
    git("commit", "-am", "third")

    gitlab = json.loads(torchfast("review", "--base", "main", *RULES, "--format", "gitlab").out)[1]
    github = json.loads(torchfast("review", "--base", "main", *RULES, "--format", "github").out)["comments"][0]

    reach = re.search(r"```suggestion:-(\d)\+0\n", gitlab["body"])
    assert reach is not None
    assert github["line"] == gitlab["position"]["new_line"]
    assert github.get("start_line", github["line"]) == github["line"] - int(reach[1])


def test_a_line_that_stayed_is_known_by_both_numbers(git: Git, naive: Path) -> None:
    naive.write_text(NAIVE.replace("model = nn", "print(loader)\nmodel = nn"))
    git("commit", "-am", "third")
    naive.write_text(
        naive.read_text().replace("        optimizer.zero_grad(", "        print(1)\n        optimizer.zero_grad(")
    )
    git("commit", "-am", "fourth")

    lines = shown_lines(str(naive), "HEAD~1")

    assert lines is not None
    assert {line: each.before for line, each in lines.items()} == {
        12: 12,
        13: 13,
        14: 14,
        15: None,
        16: 15,
        17: 16,
        18: 17,
    }


def test_paths_are_those_of_the_repository(
    torchfast: Torchfast, git: Git, naive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (naive.parent / "sub").mkdir()
    git("mv", "train.py", "sub/train.py")
    git("commit", "-m", "third")
    monkeypatch.chdir(naive.parent / "sub")

    request = json.loads(review(torchfast, "--format", "github"))

    assert {each["path"] for each in request["comments"]} == {"sub/train.py"}


def test_where_nothing_is_found_nothing_is_sent(torchfast: Torchfast, git: Git) -> None:
    request = json.loads(torchfast("review", "--base", "work", "--format", "github").out)
    threads = json.loads(torchfast("review", "--base", "work", "--format", "gitlab").out)

    head = git("rev-parse", "HEAD")
    assert request == {"commit_id": head, "event": "COMMENT", "body": "", "comments": []}
    assert threads == []


PAGE = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")
WORKFLOW = re.search(r"^```yaml\n(on: pull_request.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("jq") is None, reason="the runners of GitHub have jq")
@pytest.mark.parametrize(("base", "is_sent"), [("main", True), ("work", False)], ids=["something", "nothing"])
@pytest.mark.usefixtures("git")
def test_the_workflow_sends_what_was_found(torchfast: Torchfast, naive: Path, base: str, *, is_sent: bool) -> None:
    assert WORKFLOW is not None
    send = yaml.safe_load(WORKFLOW[1])["jobs"]["review"]["steps"][-1]["run"]
    (naive.parent / "gh").write_text('#!/bin/sh\necho "$@" > sent.txt\n')
    (naive.parent / "gh").chmod(0o755)
    torchfast("review", "train.py", "--base", base, "--format", "github", "--output-file", "review.json")

    path = f"{naive.parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", send],
        cwd=naive.parent,
        env={**os.environ, "PATH": path, "GITHUB_REPOSITORY": "a/b", "NUMBER": "7"},
        check=True,
    )

    sent = naive.parent / "sent.txt"
    assert sent.exists() == is_sent
    assert not is_sent or sent.read_text() == "api repos/a/b/pulls/7/reviews --input review.json\n"


@pytest.fixture
def renamed(git: Git, naive: Path) -> Git:
    """The same repository, whose branch `work` comes from where it was, and has the script under another name."""
    git("config", "diff.renames", "false")
    git("checkout", "main")
    (naive.parent / "sub").mkdir()
    naive.write_text(NAIVE)
    git("commit", "-am", "third")
    git("checkout", "-b", "renamed")
    git("mv", "train.py", "sub/[t] run.py")
    git("commit", "-m", "fourth")
    return git


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize("command", [("review", "--base"), ("check", "--diff-base")], ids=" ".join)
def test_a_file_that_was_renamed_was_not_changed(torchfast: Torchfast, command: tuple[str, str]) -> None:
    answer = torchfast(command[0], ".", *RULES, command[1], "main")

    nothing = "### torchfast: nothing found, on lines changed since main\n" if command[0] == "review" else ""
    assert (answer.code, answer.out, answer.err) == (0, nothing, "")


def test_of_a_renamed_file_the_changed_lines_count(torchfast: Torchfast, renamed: Git, naive: Path) -> None:
    script = naive.parent / "sub" / "[t] run.py"
    script.write_text("# new\n" + NAIVE.replace("num_workers=2)", "num_workers=2)  # new"))
    renamed("commit", "-am", "fifth")
    arguments = ("review", ".", "--base", "main", "--select", "loader-pin,h2d-non-blocking")

    github = json.loads(torchfast(*arguments, "--format", "github").out)
    _, thread = json.loads(torchfast(*arguments, "--format", "gitlab").out)

    assert [(each["path"], each["line"]) for each in github["comments"]] == [("sub/[t] run.py", 9)]
    position = {name: thread["position"].get(name) for name in ("old_path", "new_path", "old_line", "new_line")}
    assert position == {"old_path": "train.py", "new_path": "sub/[t] run.py", "old_line": None, "new_line": 9}


def test_lines_of_a_renamed_file_that_stayed_have_their_old_numbers(renamed: Git, naive: Path) -> None:
    script = naive.parent / "sub" / "[t] run.py"
    script.write_text(f"# new\n{NAIVE}")
    renamed("commit", "-am", "fifth")

    lines = shown_lines(str(script), "main")

    assert lines is not None
    assert {line: each.before for line, each in lines.items()} == {1: None, 2: 1, 3: 2, 4: 3}


@pytest.mark.usefixtures("git")
def test_what_is_not_committed_is_noted_beside_comments(torchfast: Torchfast, naive: Path) -> None:
    naive.write_text(NAIVE.replace("import torch\n", "import torch\n\n", 1))

    answer = torchfast("review", "train.py", "--base", "main", *RULES, "--format", "github")

    assert answer.err == "note: train.py: not as committed, and comments may be on other lines there\n"


# --- what was measured ------------------------------------------------------------------------------------------------

JUDGEMENT = Judgement(
    run="ok",
    speed="faster",
    equality="equal",
    reason="Every loss is the same.",
    promise="bitwise",
    iteration=Ratio(2.0, 1.9, 2.1),
    whole=Ratio(1.5, 1.4, 1.6),
    basis="whole",
    pairs=8,
    losses=100,
    environment={"torch": "2.4.0", "python": "3.12", "cpus": 2},
    applied=("loader-pin", "h2d-non-blocking"),
    not_measured=("h2d-non-blocking",),
    original=Figures(12.0, start_seconds=1.0, device_allocated=2**30, host_bytes=2**30),
    rewritten=Figures(8.0, start_seconds=3.0, device_allocated=2**31, host_bytes=2**30),
    summary=Summary(0.0, 0.0, 0.0, 0.1),
)


def test_a_judgement_is_read_as_it_was_written() -> None:
    said = json.loads(json.dumps(told.as_json(JUDGEMENT)))

    assert told.as_json(from_json(said)) == told.as_json(JUDGEMENT)
    assert told.as_text(from_json(said)) == told.as_text(JUDGEMENT)


@pytest.mark.usefixtures("git")
@pytest.mark.parametrize("beside", [{}, {"findings": []}], ids=["verify", "rewrite --verify"])
def test_what_was_measured_is_said(torchfast: Torchfast, naive: Path, beside: dict[str, Any]) -> None:
    said = told.as_json(JUDGEMENT)
    (naive.parent / "runs.json").write_text(json.dumps({**beside, "verification": said} if beside else said))

    text = review(torchfast, "--verified", "runs.json")

    assert "**Measured:** The rewritten script is faster; it computes the same, bit for bit." in text
    assert "- whole run: 1.50 times as fast (1.40 to 1.60, 95 % interval)" in text
    assert "- A run takes 4.00 s less: 8.00 s, where it took 12.0 s." in text
    assert "- It costs: its start 2.00 s more, 1.00 GiB more device memory." in text
    assert "1.7-7x as fast (H100); part of what was measured." in text
    assert "cannot act on the device that was measured." in text


def test_of_a_simulated_device_no_time_is_told() -> None:
    assert list(per_run(replace(JUDGEMENT, simulated=True))) == []
