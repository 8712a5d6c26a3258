"""Which dictionaries are given to loaders alone."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.loader_dictionaries import merged, own_sites, taken_at, users_of

HEAD = """\
import torch
from torch.utils.data import DataLoader
data = list(range(9))
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("given = {'num_workers': 1}\nfirst = DataLoader(data, **given)\n", [4], id="written out"),
        pytest.param("given = dict(num_workers=1)\nfirst = DataLoader(data, **given)\n", [4], id="a call"),
        pytest.param(
            "given = {'num_workers': 1} if torch.cuda.is_available() else {}\nfirst = DataLoader(data, **given)\n",
            [4, 4],
            id="one of two",
        ),
        pytest.param("first = DataLoader(data, num_workers=1)\n", [], id="none"),
        pytest.param(
            "given = {'num_workers': 1}\nfirst = DataLoader(data, **given)\nprint(given)\n", [], id="printed, too"
        ),
        pytest.param(
            "given = {'num_workers': 1}\nfirst = DataLoader(data, **given)\nsecond = DataLoader(data, **given)\n",
            [4],
            id="of two loaders",
        ),
    ],
)
def test_where_they_are_written_out(text: str, lines: list[int]) -> None:
    known = script(HEAD + text)
    found = own_sites(known, known.loaders[0])

    assert [each.lineno for each in found] == lines  # type: ignore[attr-defined]


def test_the_loaders_that_share_one() -> None:
    text = "given = {'num_workers': 1}\nfirst = DataLoader(data, **given)\nsecond = DataLoader(data, **given)\n"
    known = script(f"{HEAD}{text}third = DataLoader(data)\n")

    assert [each.call.lineno for each in users_of(known, known.loaders[0])] == [5, 6]
    assert users_of(known, known.loaders[2]) == []


UPDATED = """\
one = {"batch_size": 4}
other = {"batch_size": 8}
if torch.cuda.is_available():
    extra = {"num_workers": 1}
    one.update(extra)
    other.update(extra)
first = DataLoader(data, **one)
second = DataLoader(data, **other)
"""


def test_what_is_merged_into_them() -> None:
    known = script(HEAD + UPDATED)
    ((site, loaders),) = merged(known, known.loaders[0])

    assert (site.lineno, [each.call.lineno for each in loaders]) == (7, [10, 11])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(UPDATED + "print(extra)\n", id="printed, too"),
        pytest.param(UPDATED.replace("**other", "**dict(num_workers=2)"), id="merged into a dictionary of nobody"),
    ],
)
def test_what_is_not_theirs_alone(text: str) -> None:
    known = script(HEAD + text)

    assert list(merged(known, known.loaders[0])) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("other = {**given}\n", 5, id="a dictionary around it"),
        pytest.param("other = {**given, 'batch_size': 1} | {}\n", 5, id="and in a union"),
        pytest.param("other = {'batch_size': 1} | given\n", 5, id="a union"),
        pytest.param("other = {}\nother |= given\n", 6, id="a union in place"),
        pytest.param("other = dict(given)\n", 5, id="dict() of it"),
        pytest.param("other = dict(batch_size=1, **given)\n", 5, id="dict() of its items"),
        pytest.param("other = given.copy()\n", 5, id="a copy"),
        pytest.param("given.pop('num_workers')\n", 5, id="popped"),
        pytest.param("del given['num_workers']\n", 5, id="deleted"),
        pytest.param("first = DataLoader(data, **given)\n", None, id="given to a loader"),
        pytest.param("given['batch_size'] = 8\nprint(given['num_workers'])\n", None, id="an item is set, and read"),
        pytest.param("other = {'batch_size': 1}\nother |= {}\nprint({**other})\n", None, id="another one is copied"),
        pytest.param("given |= {'batch_size': 1}\n", None, id="it takes from another one"),
    ],
)
def test_where_its_items_are_copied_or_taken_out(text: str, line: int | None) -> None:
    known = script(HEAD + "given = {'num_workers': 1}\n" + text)
    (site,) = [each for each in known.module.nodes(ast.Dict) if each.lineno == 4]
    found = taken_at(known, [site])

    assert (found[1].lineno if found is not None else None) == line
