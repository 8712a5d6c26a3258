"""A script and its project as they were at a git revision: what the run of then finds, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.errors import FileError
from autotune_rewrite.project.revisions import at_revision
from autotune_rewrite.verify import scratch as scratches
from autotune_rewrite.verify.plan import Plan, Turn, VerifyError
from autotune_rewrite.verify.records import load, save
from autotune_rewrite.verify.run import run_script
from autotune_rewrite.verify.scratch import copied
from tests.test_notebooks import notebook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from autotune_rewrite.project.revisions import Revision
    from tests.conftest import Answer

    Run = Callable[..., Answer]
    Git = Callable[..., str]

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 4\n"


def git(*arguments: str, at: Path | None = None) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
    return subprocess.run(["git", *who, *arguments], cwd=at, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of a script, a module and data, committed; git ignores ``*.bin``."""
    top = tmp_path / "work" / "project"
    (top / "lib").mkdir(parents=True)
    (top / "train.py").write_text("import lib.data\n# a line that stays, so that a renamed script is known again\n")
    (top / "lib" / "data.py").write_text("SIZE = 1\n")
    (top / "rows.csv").write_text("1,2\n")
    (top / ".gitignore").write_text("*.bin\n")
    (top / "images.bin").write_text("now\n")
    git("init", "-b", "main", at=top)
    commit(top)
    monkeypatch.chdir(top)
    return top


def commit(top: Path) -> None:
    git("add", ".", at=top)
    git("commit", "-m", "a step", at=top)


@pytest.fixture
def then(tmp_path: Path) -> Callable[..., Revision]:
    """The project of a script as it was at a revision."""

    def found(script: str, *, now: str | None = None, name: str = "HEAD") -> Revision:
        folder = tmp_path / "then"
        folder.mkdir()
        return at_revision(Path(script), name, folder, now=Path(now or script))

    return found


@contextmanager
def gone_back(revision: Revision, started: Path) -> Iterator[Path]:
    """The top directory of the project in the copy that a run of then gets."""
    with copied(revision.script, started, top=revision.top) as scratch:
        scratch.go_back(revision)
        yield scratch.place(revision.script).parents[len(revision.script.relative_to(revision.top).parts) - 1]
        # Beside this test's directory are those of others, which may be cleared away at any time.
        assert not [each for each in scratch.written() if Path(each).is_relative_to(revision.top.parent)]


def contents(top: Path) -> dict[str, str]:
    """What lies below a directory, links followed, without what is git's own."""
    found = {}
    for directory, names, files in os.walk(top, followlinks=True):
        names[:] = [name for name in names if name != ".git"]
        for name in files:
            path = Path(directory, name)
            found[path.relative_to(top).as_posix()] = path.read_text(encoding="latin-1")
    return found


def edit(top: Path) -> None:
    """Changes what is tracked in all ways, and what is not."""
    (top / "train.py").write_text("import lib.fast\n")
    git("rm", "lib/data.py", at=top)
    (top / "lib").mkdir(exist_ok=True)
    (top / "lib" / "fast.py").write_text("SIZE = 2\n")
    git("add", "lib/fast.py", at=top)
    (top / "rows.csv").write_text("3,4\n")
    (top / "notes.txt").write_text("untracked\n")


@pytest.mark.parametrize("place", ["work/project", "work", "work/project/lib", "elsewhere"])
def test_the_run_of_then_finds_the_project_of_then_wherever_it_is_started(
    repository: Path, tmp_path: Path, then: Callable[..., Revision], place: str
) -> None:
    before = contents(repository)
    edit(repository)
    started = tmp_path / place
    started.mkdir(exist_ok=True)
    now = contents(repository)
    revision = then(str(repository / "train.py"))

    with gone_back(revision, started) as top:
        assert contents(top) == {**before, "notes.txt": "untracked\n"}

    assert contents(repository) == now


def test_paths_that_lead_upwards_lead_to_what_was_there_then(repository: Path, then: Callable[..., Revision]) -> None:
    (repository / "deep" / "er").mkdir(parents=True)
    (repository / "deep" / "er" / "train.py").write_text("x = 1\n")
    commit(repository)
    (repository / "lib" / "data.py").write_text("SIZE = 2\n")
    revision = then("train.py")

    with copied(revision.script, repository / "deep" / "er", top=revision.top) as scratch:
        scratch.go_back(revision)
        started = scratch.place(repository / "deep" / "er")
        assert (started / ".." / ".." / "lib" / "data.py").read_text() == "SIZE = 1\n"


def test_neither_the_working_tree_nor_anything_of_git_s_is_touched(
    repository: Path, then: Callable[..., Revision]
) -> None:
    def state() -> dict[str, tuple[int, str]]:
        files = (path for path in repository.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files}

    (repository / ".git" / "hooks" / "post-index-change").write_text("#!/bin/sh\ntouch .git/was-run\n")
    (repository / ".git" / "hooks" / "post-index-change").chmod(0o755)
    edit(repository)
    os.utime(repository / "lib" / "fast.py", (1, 1))  # the index is to be refreshed for it
    before = state()

    with gone_back(then("train.py"), repository):
        pass

    assert state() == before


def test_of_a_linked_directory_the_files_of_then_are_its_own(
    repository: Path, then: Callable[..., Revision], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratches, "FILES_OF_CODE", 1)
    (repository / "lib" / "other.bin").write_text("ignored\n")
    (repository / "lib" / "data.py").write_text("SIZE = 2\n")

    with gone_back(then("train.py"), repository) as top:
        assert not (top / "lib").is_symlink()
        assert (top / "lib" / "data.py").read_text() == "SIZE = 1\n"
        assert (top / "lib" / "other.bin").is_symlink()

    assert (repository / "lib" / "data.py").read_text() == "SIZE = 2\n"


def test_a_large_file_of_then_is_linked(
    repository: Path, then: Callable[..., Revision], monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "rows.csv").write_text("3\n")
    monkeypatch.setattr(scratches, "COPIED_BYTES", 3)

    with gone_back(then("train.py"), repository) as top:
        assert (top / "rows.csv").is_symlink()
        assert (top / "rows.csv").read_text() == "1,2\n"


def test_a_directory_may_have_been_a_file_and_a_link_a_directory(
    repository: Path, then: Callable[..., Revision], tmp_path: Path
) -> None:
    (repository / "rows.csv").unlink()
    (repository / "rows.csv").mkdir()
    (repository / "rows.csv" / "part.csv").write_text("3,4\n")
    (repository / "lib").rename(tmp_path / "far")
    (repository / "lib").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "data.py").write_text("SIZE = 2\n")

    with gone_back(then("train.py"), repository) as top:
        assert (top / "rows.csv").read_text() == "1,2\n"
        assert (top / "lib" / "data.py").read_text() == "SIZE = 1\n"

    assert (tmp_path / "far" / "data.py").read_text() == "SIZE = 2\n"


def test_an_untracked_package_hides_no_module_of_then(repository: Path, then: Callable[..., Revision]) -> None:
    (repository / "lib" / "data.py").unlink()
    (repository / "lib" / "data").mkdir()
    (repository / "lib" / "data" / "__init__.py").write_text("SIZE = 2\n")

    with gone_back(then("train.py"), repository) as top:
        assert (top / "lib" / "data.py").is_file()
        assert not (top / "lib" / "data").exists()


def test_a_renamed_script_is_found(repository: Path, then: Callable[..., Revision]) -> None:
    git("mv", "train.py", "lib/fit.py", at=repository)

    revision = then("lib/fit.py")

    assert (revision.script, revision.typed) == (repository / "train.py", Path("train.py"))
    assert revision.text.read_text().startswith("import lib.data\n")


def test_another_script_of_then_may_be_named(repository: Path, then: Callable[..., Revision]) -> None:
    (repository / "fast.py").write_text("pass\n")

    revision = then("train.py", now="fast.py")

    assert revision.script == revision.text == repository / "train.py"
    assert revision.uncommitted


def test_a_script_that_was_a_link_is_what_it_led_to(repository: Path, then: Callable[..., Revision]) -> None:
    (repository / "run.py").symlink_to("lib/data.py")
    commit(repository)
    (repository / "run.py").unlink()
    (repository / "run.py").write_text("SIZE = 3\n")

    revision = then("run.py")

    assert revision.script == repository / "lib" / "data.py"


@pytest.mark.parametrize(
    ("name", "shown"),
    [pytest.param("HEAD~1", "{} (HEAD~1)", id="by another name"), pytest.param("commit", "{}", id="by its own")],
)
def test_what_is_compared_is_named(repository: Path, then: Callable[..., Revision], name: str, shown: str) -> None:
    first = git("rev-parse", "HEAD", at=repository)
    (repository / "train.py").write_text("import lib\n")
    commit(repository)

    revision = then("train.py", name=first[:12] if name == "commit" else name)

    assert revision.shown == shown.format(first[:7])
    assert (revision.commit, revision.uncommitted) == (first, False)


# --- contents that lie elsewhere --------------------------------------------------------------------------------------


@pytest.fixture
def pointer(repository: Path) -> str:
    """A file that was a pointer of Git LFS."""
    digest = hashlib.sha256(b"then").hexdigest()
    (repository / "weights.pt").write_text(POINTER.format(digest))
    commit(repository)
    (repository / "weights.pt").write_text("now")
    return digest


def test_a_pointer_of_lfs_is_its_content(repository: Path, then: Callable[..., Revision], pointer: str) -> None:
    store = repository / ".git" / "lfs" / "objects" / pointer[:2] / pointer[2:4]
    store.mkdir(parents=True)
    (store / pointer).write_text("then")

    with gone_back(then("train.py"), repository) as top:
        assert (top / "weights.pt").read_text() == "then"


@pytest.mark.usefixtures("pointer")
def test_a_pointer_of_lfs_without_its_content_is_refused(repository: Path, then: Callable[..., Revision]) -> None:
    short = git("rev-parse", "HEAD", at=repository)[:7]
    with pytest.raises(FileError) as refused:
        then("train.py")
    message = f"weights.pt: its content at {short} (HEAD) is in Git LFS, and not here: git lfs fetch origin {short}"
    assert str(refused.value) == message


@pytest.fixture
def submodule(repository: Path, tmp_path: Path) -> Path:
    """A submodule that is at another commit now than at the last one of the project."""
    ext = tmp_path / "ext"
    ext.mkdir()
    git("init", "-b", "main", at=ext)
    (ext / "model.py").write_text("WIDTH = 1\n")
    commit(ext)
    git("submodule", "add", str(ext), "ext", at=repository)
    commit(repository)
    (repository / "ext" / "model.py").write_text("WIDTH = 2\n")
    commit(repository / "ext")
    return repository / "ext"


@pytest.mark.usefixtures("submodule")
def test_a_submodule_goes_back_too(repository: Path, then: Callable[..., Revision]) -> None:
    with gone_back(then("train.py"), repository) as top:
        assert (top / "ext" / "model.py").read_text() == "WIDTH = 1\n"


def test_a_submodule_without_that_commit_is_refused(
    repository: Path, then: Callable[..., Revision], submodule: Path, tmp_path: Path
) -> None:
    for each in (submodule, repository / ".git" / "modules"):
        each.rename(tmp_path / f"gone-{each.name}")
    submodule.mkdir()
    git("update-index", "--cacheinfo", f"160000,{'1' * 40},ext", at=repository)

    with pytest.raises(FileError, match=r"^ext: a submodule whose commit \w{7} of \w{7} \(HEAD\) is not here: git sub"):
        then("train.py")


# --- what is refused --------------------------------------------------------------------------------------------------


def test_what_is_no_script_of_then_is_one_line(
    repository: Path, torchfast: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    (repository / "new.py").write_text("x = 1\n")
    (repository / "out.py").symlink_to("../far.py")
    commit(repository)
    (repository / "later.py").write_text("x = 2\n")
    outside = repository.parent / "outside.py"
    outside.write_text("x = 1\n")
    at = git("rev-parse", "HEAD", at=repository)[:7]
    there = "name the script of then, too, before the one of now"

    for arguments, message in (
        (("--base", "HEAD", "later.py"), f"later.py: was not there at {at} (HEAD): {there}"),
        (("--base", "HEAD", "lib", "new.py"), f"lib: was no file at {at} (HEAD)"),
        (("--base", "HEAD", "out.py"), f"out.py: was a link that leads out of the repository at {at} (HEAD)"),
        (("--base", "v9", "train.py"), "train.py: git knows no revision 'v9' there"),
        (("--base", "", "train.py"), "train.py: git knows no revision '' there"),
        (("--base", "-x", "train.py"), "train.py: git knows no revision '-x' there"),
        (("--base", "HEAD:lib", "train.py"), "train.py: git knows no revision 'HEAD:lib' there"),
        (
            ("--base", "HEAD", "new.py"),
            f"new.py: nothing that git tracks differs from {at} (HEAD): there is nothing to compare",
        ),
        (("--base", "HEAD", str(outside)), f"{outside}: not a git repository (or any of the parent directories): .git"),
        (("--base", "HEAD", "missing.py"), f"missing.py: was not there at {at} (HEAD): {there}"),
        (
            ("--base", "HEAD", "-m", "lib.no"),
            "no module lib.no here: neither lib/no.py nor lib/no/__main__.py is a file",
        ),
        (("--base", "HEAD", "--from", "runs"), "--base cannot be followed with --from: nothing is run"),
    ):
        answer = torchfast("verify", *arguments)
        assert (answer.code, answer.out, answer.err) == (2, "", f"Error: {message}\n")


def test_without_git_it_is_said(
    repository: Path, then: Callable[..., Revision], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(repository))
    with pytest.raises(FileError, match=r"^train\.py: git is not installed$"):
        then("train.py")


def test_conflicts_are_to_be_resolved_first(repository: Path, then: Callable[..., Revision]) -> None:
    git("checkout", "-b", "other", at=repository)
    (repository / "rows.csv").write_text("5\n")
    commit(repository)
    git("checkout", "main", at=repository)
    (repository / "rows.csv").write_text("6\n")
    commit(repository)
    with pytest.raises(subprocess.CalledProcessError):
        git("merge", "other", at=repository)
    with pytest.raises(FileError, match=r"rows\.csv: git has conflicts there that are not resolved yet$"):
        then("train.py")


# --- runs and reports -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("way", ["as a script", "as a module", "as a notebook"])
def test_both_are_run_each_with_its_own_project(repository: Path, then: Callable[..., Revision], way: str) -> None:
    code = "import sys\nfrom lib.data import SIZE\nprint(SIZE, sys.argv[0])\n"
    scripts = {"as a script": Path("fit.py"), "as a module": Path("lib/fit.py"), "as a notebook": Path("fit.ipynb")}
    (repository / "lib" / "__init__.py").touch()
    for each in scripts.values():
        each.write_text(json.dumps(notebook(code)) if each.suffix == ".ipynb" else code)
    commit(repository)
    (repository / "lib" / "data.py").write_text("SIZE = 2\n")
    script, is_module = scripts[way], way == "as a module"
    revision = then(str(script))
    plan = Plan(revision.text, script, base=revision, module=is_module, device="cpu")

    runs = [run_script(plan, Turn(side, 0)) for side in ("original", "rewritten")]

    started = repository / script if is_module else script
    assert [run.lines for run in runs] == [(f"{size} {started}",) for size in (1, 2)]
    assert all(str(repository / "lib" / "data.py") in run.imported for run in runs)


@pytest.mark.usefixtures("forked")
def test_what_is_imported_by_an_absolute_path_is_not_judged(repository: Path, then: Callable[..., Revision]) -> None:
    path = f"import sys\nsys.path.insert(0, {str(repository / 'lib')!r})\n"
    (repository / "train.py").write_text(f"{path}import data\n")
    commit(repository)
    (repository / "lib" / "data.py").write_text("SIZE = 2\n")
    revision = then("train.py")
    plan = Plan(revision.text, Path("train.py"), base=revision, device="cpu")

    with pytest.raises(VerifyError, match=r"lib/data\.py: imported by an absolute path, and not from the copy of"):
        run_script(plan, Turn("original", 0))
    assert run_script(plan, Turn("rewritten", 0)).outcome == "ok"


@pytest.mark.usefixtures("forked")
def test_what_was_compared_is_said_and_kept(
    repository: Path, torchfast: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(repository)
    (repository / "lib" / "data.py").write_text("raise RuntimeError('now')\n")
    at = git("rev-parse", "HEAD", at=repository)
    names = {"--records": "runs", "--markdown": "report.md", "--html": "report.html"}
    told = ("--device", "cpu", *(word for each, name in names.items() for word in (each, str(tmp_path / name))))

    answer = torchfast("verify", "--base", "main", "train.py", *told)

    assert answer.code == 2
    said = f"train.py at {at[:7]} (main) beside train.py in the working tree, with uncommitted changes"
    assert answer.out.splitlines()[:2] == [
        "The rewritten script crashed: speed and results were NOT CHECKED.",
        said,
    ]
    assert f"original: train.py at {at[:7]} (main), rewritten: train.py in the working tree, with" in (
        (tmp_path / "report.md").read_text()
    )
    page = (tmp_path / "report.html").read_text()
    assert f"original: train.py at {at[:7]} (main); rewritten: train.py in the working tree, with" in page
    assert "<strong>lib/data.py</strong>" in page.partition("What was changed")[2]
    plan, environment, runs = load(tmp_path / "runs")
    assert plan.base is not None
    assert (plan.base.commit, plan.base.script) == (at, repository / "train.py")
    save(tmp_path / "again", plan, environment, runs)
    assert load(tmp_path / "again")[0] == plan
    again = json.loads(torchfast("verify", "--from", str(tmp_path / "runs"), "--format", "json").out)
    assert again["base"] == {
        "revision": "main",
        "commit": at,
        "original": "train.py",
        "rewritten": "train.py",
        "uncommitted_changes": True,
        "differing": 1,
        "used": ["lib/data.py"],
    }
