from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite.checking import cache
from autotune_rewrite.checking.cache import Cache, is_unchanged, key, snapshot
from autotune_rewrite.errors import FileError
from autotune_rewrite.project import target
from autotune_rewrite.rewriting import batch, config
from autotune_rewrite.rewriting.results import Rewrite, Site, Span, as_json, from_json
from codemods.codemod import Promise
from codemods.facts.reason import Spot
from tests.test_notebooks import notebook

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Answer

    Run = Callable[..., Answer]


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache" / "results.sqlite")


@pytest.fixture
def cached(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a test; files that are as new as a test's are trusted not to change within a tick of the clock."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("caches")))
    monkeypatch.setattr(cache, "_TICK", -(10**12))
    return cache.path()


@pytest.fixture(params=["stamps", "content"])
def known_by(request: pytest.FixtureRequest, cached: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with and without snapshots."""
    if request.param == "content":
        monkeypatch.setattr("autotune_rewrite.checking.checked.snapshot", lambda *_: None)
    return cached


# The store.


def test_what_was_put_is_found_again(store: Cache) -> None:
    store.put({"a": [1, "two", None], "b": {}})
    assert Cache(store.place).get(["b", "c", "a"]) == {"a": [1, "two", None], "b": {}}


def test_an_empty_cache_holds_nothing(store: Cache) -> None:
    assert store.get(["a"]) == {}


def test_keys_tell_where_one_part_ends() -> None:
    assert len({key("ab", "c"), key("a", "bc"), key("abc"), key(b"abc", "")}) == 4
    assert key("ab", "c") == key(b"ab", b"c")


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 100], ids=["emptied", "written over"])
def test_a_damaged_cache_holds_nothing_and_is_made_anew(store: Cache, damage: bytes) -> None:
    store.put({"a": 1})
    store.place.write_bytes(damage)
    assert store.get(["a"]) == {}
    store.put({"b": 2})
    assert store.get(["a", "b"]) == {"b": 2}


def test_a_cache_with_torn_pages_is_made_anew(store: Cache) -> None:
    store.put({str(number): "x" * 500 for number in range(200)})
    data = store.place.read_bytes()
    store.place.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    assert store.get(["7"]) == {}
    store.put({"b": 2})
    assert store.get(["b"]) == {"b": 2}


def test_a_value_that_is_no_json_is_not_told(store: Cache) -> None:
    store.put({"a": 1})
    with sqlite3.connect(store.place) as connection:
        connection.execute("UPDATE results SET value = 'no json'")
    connection.close()
    assert store.get(["a"]) == {}


def test_a_cache_that_cannot_be_written_is_not_missed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    blocked = Cache(tmp_path / "file" / "results.sqlite")
    blocked.put({"a": 1})
    assert blocked.get(["a"]) == {}


def test_another_torchfast_that_writes_is_not_waited_for(store: Cache) -> None:
    store.put({"a": 1})
    other = sqlite3.connect(store.place)
    other.execute("BEGIN EXCLUSIVE")
    start = time.monotonic()
    assert store.get(["a"]) == {}
    store.put({"b": 2})
    assert time.monotonic() - start < 5
    other.rollback()
    other.close()
    assert store.get(["a", "b"]) == {"a": 1}


def test_what_was_not_asked_for_longest_goes_first(store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES", 25)
    for day, name in enumerate("abc"):
        monkeypatch.setattr(time, "time", lambda day=day: 1e9 + 2 * day * 86400.0)
        store.put({name: "x" * 8})
        if name == "b":
            monkeypatch.setattr(time, "time", lambda day=day: 1e9 + (2 * day + 1) * 86400.0)
            store.get(["a"])
    assert set(store.get(["a", "b", "c"])) == {"a", "c"}


def test_what_is_said_of_a_file_comes_back_as_it_was() -> None:
    site = Site("amp", 3, 1, 4, 9, "slow", Promise.RANDOM, "twice", fails=True, edits=(Span(3, 4), Span(9, 8)))
    spots = (Spot(5, 11, (3,)), Spot(13, 26, (3, 4), " and "))
    left = site._replace(message="left (line 3, lines 3 and 4)", fails=False, edits=(), spots=spots)
    left = left._replace(code="no-cuda", remedy="move it")
    rewrite = Rewrite("train.py", "", "", (site, left))
    errors = [FileError("a.py", "is gone"), FileError("b.ipynb", "not Python", 3, 2)]
    assert from_json(json.loads(json.dumps(as_json(rewrite)))) == rewrite
    for error in errors:
        again = from_json(json.loads(json.dumps(as_json(error))))
        assert isinstance(again, FileError)
        assert again.args == error.args


# Snapshots.


def test_a_snapshot_that_is_too_fresh_is_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert snapshot([str(tmp_path)], time.time_ns()) is None
    assert snapshot([str(tmp_path)], time.time_ns() + 10 * 10**9) is not None


def test_a_snapshot_of_too_much_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MOST_ENTRIES", 3)
    for name in "abcd":
        (tmp_path / f"{name}.py").touch()
    assert snapshot([str(tmp_path)], time.time_ns() + 10 * 10**9) is None


def test_a_file_with_the_same_size_and_time_was_touched_all_the_same(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("a = 1\n")
    before = snapshot([str(tmp_path)], time.time_ns() + 10 * 10**9)
    assert before is not None
    assert is_unchanged(before)
    times = script.stat()
    time.sleep(0.02)
    script.write_text("a = 2\n")
    os.utime(script, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not is_unchanged(before)


# check.


def test_a_check_of_what_did_not_change_looks_at_no_file(
    torchfast: Run, naive: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = torchfast("check", str(naive))
    assert "train.py:8" in first.out
    assert cached.exists()

    def found(*_: Any, **__: Any) -> Any:
        pytest.fail("files are looked for")

    monkeypatch.setattr(batch, "found", found)
    assert torchfast("check", str(naive)) == first


def test_files_that_were_touched_but_not_changed_are_not_looked_at_again(
    torchfast: Run, naive: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = torchfast("check", ".")
    assert cached.exists()
    os.utime(naive)
    monkeypatch.setattr(batch, "process", lambda *_, **__: pytest.fail("a file is put through the rules"))
    assert torchfast("check", ".") == first


def test_a_check_of_what_did_not_change_needs_no_rules(naive: Path, cached: Path) -> None:
    code = f"""
import sys
from autotune_rewrite.checking import cache
cache._TICK = {cache._TICK}
from autotune_rewrite.cli import cli
try:
    cli(["check", {str(naive)!r}])
finally:
    heavy = {{"codemods.rules.amp", "codemods.dataflow.flow", "autotune_rewrite.project.programs", "libcst"}} & set(sys.modules)
    print(sorted(heavy))
"""
    outs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False) for _ in range(2)]
    assert cached.exists()
    first, second = (each.stdout.splitlines() for each in outs)
    assert "codemods.rules.amp" in first[-1]
    assert second[-1] == "[]"
    assert first[:-1] == second[:-1] != []


def _forget() -> None:
    """What one process reads once, it would read again in the next."""
    config._configured.cache_clear()
    target.found_from.cache_clear()


def _edit(folder: Path) -> None:
    script = folder / "project" / "train.py"
    script.write_text(script.read_text().replace("shuffle=True", "shuffle=True, pin_memory=True"))


def _helper(folder: Path) -> None:
    helper = folder / "project" / "helper.py"
    helper.write_text(helper.read_text().replace("return 2", "return 0"))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file is edited": _edit,
    "another file of the project is edited": _helper,
    "a file comes": lambda folder: (folder / "project" / "new.py").write_text(
        (folder / "project/train.py").read_text()
    ),
    "a file comes in a directory without any": lambda folder: (folder / "project" / "empty" / "new.py").write_text(
        (folder / "project" / "train.py").read_text()
    ),
    "a file goes": lambda folder: (folder / "project" / "train.py").unlink(),
    "a configuration comes": lambda folder: (folder / "project" / "pyproject.toml").write_text(
        "[tool.torchfast]\nselect = ['loader-pin']\n"
    ),
    "a configuration comes above": lambda folder: (folder / "pyproject.toml").write_text(
        "[tool.torchfast]\nignore = ['loader-pin']\n"
    ),
    "a configuration of its own comes": lambda folder: (folder / "project" / "torchfast.toml").write_text(
        "select = ['loader-pin']\n"
    ),
    "requirements come": lambda folder: (folder / "project" / "requirements-old.txt").write_text("torch<1.6\n"),
    "a file is ignored": lambda folder: (folder / "project" / ".gitignore").write_text("train.py\n"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changed_is_noticed(
    torchfast: Run, tmp_path: Path, known_by: Path, change: Callable[[Path], object]
) -> None:
    from tests.conftest import NAIVE

    project = tmp_path / "project"
    (project / "empty").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / "helper.py").write_text("import torch\n\n\ndef workers():\n    return 2\n")
    (project / "train.py").write_text(
        f"from helper import workers\n{NAIVE}".replace("num_workers=2", "num_workers=workers()")
    )
    first = torchfast("check", "project", "--format", "json")
    assert known_by.exists()
    assert torchfast("check", "project", "--format", "json") == first
    change(tmp_path)
    _forget()
    again = torchfast("check", "project", "--format", "json")
    assert again == torchfast("check", "project", "--format", "json", "--no-cache")
    assert again != first
    _forget()


def test_other_choices_are_another_question(torchfast: Run, naive: Path, cached: Path) -> None:
    everything = torchfast("check", str(naive))
    one = torchfast("check", str(naive), "--select", "loader-pin")
    assert cached.exists()
    assert len(one.out.splitlines()) < len(everything.out.splitlines())
    assert torchfast("check", str(naive), "--select", "loader-pin") == one
    assert torchfast("check", str(naive)) == everything


def test_an_unknown_rule_is_refused_before_anything_is_remembered(torchfast: Run, naive: Path, cached: Path) -> None:
    answer = torchfast("check", str(naive), "--select", "loader-pinn")
    assert not cached.exists()
    assert answer.code == 2
    assert "loader-pin" in answer.err
    assert torchfast("check", str(naive), "--select", "loader-pinn") == answer


def test_what_is_wrong_with_a_file_is_remembered_too(torchfast: Run, tmp_path: Path, cached: Path) -> None:
    (tmp_path / "old.py").write_text("import torch\nprint 'x'\n")
    answer = torchfast("check", "old.py")
    assert answer.code == 2
    assert cached.exists()
    assert torchfast("check", "old.py") == answer


def test_in_a_notebook_the_cells_are_found_again(torchfast: Run, tmp_path: Path, cached: Path) -> None:
    from tests.conftest import NAIVE

    (tmp_path / "train.ipynb").write_text(json.dumps(notebook("x = 1\n", NAIVE)))
    answer = torchfast("check", "train.ipynb")
    assert "cell" in answer.out
    assert cached.exists()
    assert torchfast("check", "train.ipynb") == answer


@pytest.mark.parametrize(
    "value", ["[]", '[{"train.py": [1]}, []]', "[{}, [[]]]", "[{}, 7]", "null", '[{}, [["a", [[1]]]]]']
)
def test_what_another_torchfast_might_have_written_is_not_trusted(
    torchfast: Run, naive: Path, cached: Path, value: str
) -> None:
    first = torchfast("check", str(naive))
    with sqlite3.connect(cached) as connection:
        connection.execute("UPDATE results SET value = ?", (value,))
    connection.close()
    assert torchfast("check", str(naive)) == first


def test_without_the_cache_nothing_is_written(torchfast: Run, naive: Path, cached: Path) -> None:
    torchfast("check", str(naive), "--no-cache")
    assert not cached.exists()


def test_clean_removes_the_cache(torchfast: Run, naive: Path, cached: Path) -> None:
    torchfast("check", str(naive))
    assert cached.exists()
    answer = torchfast("clean")
    assert (answer.code, answer.out) == (0, "0.0 MiB removed\n")
    assert not cached.exists()
    assert torchfast("clean").out == "nothing to remove\n"
