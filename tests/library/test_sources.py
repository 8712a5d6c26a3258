"""Where figures stand that were measured on a GPU."""

from __future__ import annotations

from codemods.library.sources import measured
from tests.conftest import ROOT


def test_a_fact_is_a_line_of_a_file_that_is_there() -> None:
    file, _, fact = measured("worker-start").partition("#")

    assert f'{{"key": "{fact}"' in (ROOT / file).read_text(encoding="utf-8")
