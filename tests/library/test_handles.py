"""What opens files, databases and locks, and what goes on needing what is open."""

from __future__ import annotations

import importlib
import pickle

import pytest

from codemods.library.handles import OPENERS, WRAPPERS, is_fact, is_view, opener

STANDARD = (
    *("builtins", "bz2", "csv", "dbm", "gzip", "io", "lzma", "mmap", "multiprocessing", "shelve", "socket", "sqlite3"),
    *("tarfile", "threading", "zipfile"),
)


@pytest.mark.parametrize("name", sorted(each for each in OPENERS | WRAPPERS if each.startswith(STANDARD)))
def test_python_has_it(name: str) -> None:
    module, _, last = name.rpartition(".")

    assert callable(getattr(importlib.import_module(module), last))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h5py.File", "h5py.File"),
        ("h5py.File(…)", "h5py.File"),
        ("builtins.open", "builtins.open"),
        ("h5py.special_dtype", None),
        ("numpy.load", None),
    ],
)
def test_the_opener_behind_a_name(name: str, expected: str | None) -> None:
    assert opener(name) == expected


def test_what_goes_on_needing_it() -> None:
    assert [each for each in ("cursor", "keys", "read", "shape") if is_view(each)] == ["cursor", "keys"]
    assert [each for each in ("cursor", "shape", "dtype") if is_fact(each)] == ["shape", "dtype"]


def test_a_lock_cannot_be_sent_to_another_process() -> None:
    assert "threading.Lock" in OPENERS
    with pytest.raises(TypeError):
        pickle.dumps(importlib.import_module("threading").Lock())
