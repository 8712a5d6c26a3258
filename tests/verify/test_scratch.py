"""The copy of a project that a run gets: what is in it, where its paths lead, and what is seen of writes past it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from autotune_rewrite.verify import scratch as scratches
from autotune_rewrite.verify.plan import Plan, Turn, VerifyError
from autotune_rewrite.verify.run import run_script
from autotune_rewrite.verify.scratch import copied


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one script, with data beside it and above it."""
    made = tmp_path / "home" / "project"
    (made / "conf").mkdir(parents=True)
    (made / "train.py").write_text("print('training')\n")
    (made / "conf" / "lr.txt").write_text("0.1")
    (made.parent / "data").mkdir()
    (made.parent / "data" / "digits.bin").write_bytes(b"12")
    return made


def test_what_is_written_in_the_copy_stays_there(project: Path) -> None:
    (project / "train.py").chmod(0o750)

    with copied(project / "train.py", project) as scratch:
        copy = scratch.place(project / "train.py")
        assert copy.read_text() == "print('training')\n"
        assert copy.stat().st_mode == (project / "train.py").stat().st_mode
        copy.write_text("changed")
        (copy.parent / "conf" / "lr.txt").write_text("1")
        (copy.parent / "model.pth").write_bytes(b"new")
        assert scratch.written() == ()

    assert not scratch.root.exists()
    assert (project / "train.py").read_text() == "print('training')\n"
    assert (project / "conf" / "lr.txt").read_text() == "0.1"
    assert not (project / "model.pth").exists()


def test_paths_that_lead_out_of_the_project_lead_to_the_same_things(project: Path) -> None:
    with copied(project / "train.py", project) as scratch:
        beside = scratch.place(project / "train.py").parent / ".." / "data" / "digits.bin"
        assert beside.read_bytes() == b"12"


def test_what_others_write_beside_a_project_in_the_temporary_directory_is_not_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(project.parent))

    with copied(project / "train.py", project) as scratch:
        (project.parent / "data" / "new").touch()
        assert scratch.written() == ()


def test_a_script_that_is_started_elsewhere_has_both_directories(project: Path, tmp_path: Path) -> None:
    (tmp_path / "started").mkdir()
    (tmp_path / "started" / "settings.txt").write_text("x")

    with copied(project / "train.py", tmp_path / "started") as scratch:
        assert (scratch.place(tmp_path / "started") / "settings.txt").read_text() == "x"
        assert scratch.place(project / "train.py").read_text() == "print('training')\n"
        assert scratch.place(tmp_path / "other") == tmp_path / "other"


def test_a_home_is_not_copied(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project.parent))

    with copied(project / "train.py", project.parent) as scratch:
        started = scratch.place(project.parent)
        assert sorted(each.name for each in started.iterdir()) == ["data", "project"]
        assert all(each.is_symlink() for each in started.iterdir())
        assert not scratch.place(project / "train.py").is_symlink()
        (started / "new.txt").touch()

    assert not (project.parent / "new.txt").exists()


@pytest.mark.parametrize(
    ("limit", "value", "linked"),
    [
        pytest.param("COPIED_BYTES", 4, "large.bin", id="a large file"),
        pytest.param("COPIED_IN_ALL", 22, "train.py", id="more bytes than a copy may take"),
        pytest.param("COPIED_FILES", 1, "train.py", id="more files than a copy may have"),
        pytest.param("FILES_OF_CODE", 1, "images", id="a directory with many files"),
    ],
)
def test_what_is_large_is_linked_and_writes_through_the_link_are_seen(
    project: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, linked: str
) -> None:
    (project / "large.bin").write_bytes(b"12345")
    (project / "images").mkdir()
    for name in "a", "b":
        (project / "images" / name).touch()
    monkeypatch.setattr(scratches, limit, value)

    with copied(project / "train.py", project) as scratch:
        place = scratch.place(project / linked)
        assert place.is_symlink()
        assert scratch.written() == ()
        if place.is_dir():
            (place / "c").touch()
        else:
            place.write_bytes(b"other bytes")
        assert scratch.written() == (str(project / linked),)


@pytest.mark.parametrize("started", ["home", "home/project"], ids=["a directory above it", "its own directory"])
def test_another_text_of_a_script_is_never_written_into_a_linked_directory(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started: str
) -> None:
    monkeypatch.setattr(scratches, "FILES_OF_CODE", 1)
    monkeypatch.setattr(scratches, "COPIED_FILES", 0)

    with copied(project / "train.py", tmp_path / started) as scratch:
        scratch.put(project / "train.py", b"print('fast')\n")
        copy = scratch.place(project / "train.py")
        assert copy.read_text() == "print('fast')\n"
        assert (copy.parent / "conf" / "lr.txt").read_text() == "0.1"
        assert scratch.written() == ()

    assert (project / "train.py").read_text() == "print('training')\n"


def test_links_and_caches_of_the_project_stay_what_they_are(project: Path) -> None:
    (project / "latest").symlink_to("conf")
    (project / "__pycache__").mkdir()
    (project / ".git").mkdir()
    os.mkfifo(project / "pipe")

    with copied(project / "train.py", project) as scratch:
        copy = scratch.place(project)
        assert (copy / "latest").readlink() == Path("conf")
        assert (copy / ".git").is_symlink()
        assert sorted(each.name for each in copy.iterdir()) == [".git", "conf", "latest", "train.py"]


def test_a_link_out_of_the_project_is_followed_and_writes_through_it_are_seen(project: Path, tmp_path: Path) -> None:
    far = tmp_path.parent / f"{tmp_path.name}-far"
    far.mkdir()
    (far / "model.pt").write_bytes(b"precious")
    (project / "checkpoints").symlink_to(far)
    (project / "own").symlink_to(project / "conf")
    (project / "lost").symlink_to("nowhere")

    with copied(project / "train.py", project) as scratch:
        copy = scratch.place(project)
        (copy / "own" / "lr.txt").write_text("1")
        assert scratch.written() == ()
        assert (copy / "lost").is_symlink()
        (copy / "checkpoints" / "model.pt").write_bytes(b"overwritten")
        assert scratch.written() == (str(far),)

    assert (project / "conf" / "lr.txt").read_text() == "0.1"


def test_writes_to_the_project_itself_are_seen(project: Path) -> None:
    with copied(project / "train.py", project) as scratch:
        (project / "conf" / "lr.txt").write_text("10.0")
        (project / "new.txt").touch()
        assert scratch.written() == (str(project), str(project / "conf" / "lr.txt"))


def test_what_lies_around_does_not_keep_the_project_from_being_watched(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratches, "SEEN_ENTRIES", 8)
    monkeypatch.setattr(scratches, "FILES_OF_CODE", 1)
    (project.parent / "big").mkdir()
    for number in range(20):
        (project.parent / "big" / f"{number}").touch()
    (project / "images").mkdir()
    for name in "a", "b":
        (project / "images" / name).touch()

    with copied(project / "train.py", project) as scratch:
        (project / "images" / "a").write_bytes(b"other")
        assert str(project / "images") in scratch.written()


def test_where_all_temporary_files_lie_nothing_is_copied(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(project))

    with copied(project / "train.py", project) as scratch:
        assert scratch.root.is_relative_to(project)
        assert scratch.place(project / "train.py").is_symlink()


@pytest.mark.parametrize(
    ("error", "there"),
    [
        pytest.param(PermissionError(13, "Permission denied"), True, id="linked where it may not be read"),
        pytest.param(FileNotFoundError(2, "No such file"), False, id="left out where it is gone meanwhile"),
    ],
)
def test_a_file_that_cannot_be_copied_is(
    project: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, *, there: bool
) -> None:
    def copy(source: Path, _: Path) -> None:
        if source.name == "lr.txt":
            raise error

    monkeypatch.setattr("shutil.copy2", copy)

    with copied(project / "train.py", project) as scratch:
        assert scratch.place(project / "conf" / "lr.txt").is_symlink() == there


def test_of_a_checkpoint_the_tensors_are_what_counts(tmp_path: Path) -> None:
    def digest(name: str, state: object, *, zipped: bool = True) -> str:
        path = tmp_path / name
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
        return scratches.digest(path)

    weight = torch.arange(3.0)
    plain = digest("a.pt", {"model": weight})
    assert plain == digest("b.pth", {"model": weight, "scaler": {"scale": 65536.0}})
    assert plain != digest("c.pt", {"model": weight + 1})
    assert digest("d.pt", {"model": weight}, zipped=False) == ""
    (tmp_path / "plain.txt").write_bytes(b"text")
    assert scratches.digest(tmp_path / "plain.txt") == hashlib.sha256(b"text").hexdigest()
    assert scratches.digest(tmp_path / "gone.txt") == ""


def test_a_full_disk_is_told_and_leaves_nothing(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def copy(_: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr("shutil.copy2", copy)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        pytest.raises(VerifyError, match="No space left on device, when the project was copied"),
        copied(project / "train.py", project),
    ):
        pass
    assert list(tmp_path.glob("torchfast-*")) == []


def test_a_copy_is_kept_where_it_was_asked_for(project: Path) -> None:
    with copied(project / "train.py", project, keep=True) as scratch:
        pass

    assert scratch.place(project / "train.py").exists()


@pytest.mark.usefixtures("forked")
def test_a_run_leaves_the_user_s_files_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = """
        from pathlib import Path

        Path("log.txt").write_text("here")
        Path(__file__).with_name("model.pth").write_bytes(b"there")
        Path("../data/digits.bin").write_bytes(b"changed")
        raise SystemExit(f"wrote beside {__file__}")
    """
    (project / "train.py").write_text(dedent(script))
    monkeypatch.chdir(project)
    plan = Plan(Path("train.py"), Path("train.py"), timeout=60.0)

    seen = run_script(plan, Turn("original", 0))
    kept = run_script(replace(plan, keep=True), Turn("original", 0))

    assert seen.output == (f"wrote beside {project / 'train.py'}",)
    assert sorted(each.name for each in project.iterdir()) == ["conf", "train.py"]
    assert seen.written == (str(project.parent / "data"),)
    assert seen.copy == ""
    assert [path.name for path in Path(kept.copy).rglob("*.pth")] == ["model.pth"]
