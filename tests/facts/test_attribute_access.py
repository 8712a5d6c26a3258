"""Which attributes are written and read by their names."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.attribute_access import read_by_name, written_by_name

HEAD = """\
import operator
import torch


class Net(torch.nn.Module):
    pass


net = Net()
y = torch.ones(2)
key = input()
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("setattr(net, 'last', y)", [("last", "y")]),
        ("setattr(net, key, y)", [(None, "y")]),
        ("setattr(net, 'la' 'st', y)", [("last", "y")]),
        ("object.__setattr__(net, 'last', y)", [("last", "y")]),
        ("net.__setattr__('last', y)", [("last", "y")]),
        ("net.register_buffer('last', y, persistent=False)", [("last", "y")]),
        ("net.__dict__['last'] = y", [("last", "y")]),
        ("vars(net)['last'] = y", [("last", "y")]),
        ("vars(net)['last'] += y", [("last", "y")]),
        ("vars(net)['last']: torch.Tensor = y", [("last", "y")]),
        ("vars(net)['last'], z = y, 4", [("last", None)]),
        ("vars(net).update(last=y, first=4)", [("last", "y"), ("first", "4")]),
        ("vars(net).update(many)", [(None, "many")]),
        ("vars(net).setdefault('last', y)", [("last", "y")]),
        ("vars(net).__setitem__('last', y)", [("last", "y")]),
        ("setattr(torch, 'last', y)", []),
        ("net.last = y", []),
        ("getattr(net, 'last')", []),
        ("numbers['last'] = y", []),
    ],
)
def test_what_is_written_by_its_name(code: str, expected: list[tuple[str | None, str | None]]) -> None:
    known = script(HEAD + code)

    found = written_by_name(known.flow, known.module)

    assert [(each.name, None if each.given is None else ast.unparse(each.given)) for each in found] == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("getattr(net, 'last')", ["last"]),
        ("getattr(net, 'last', None)", ["last"]),
        ("getattr(net, key)", [None]),
        ("getattr(unknown, 'last')", ["last"]),
        ("operator.attrgetter('last', 'first')(net)", ["last", "first"]),
        ("object.__getattribute__(net, 'last')", ["last"]),
        ("net.__getattr__('last')", ["last"]),
        ("net.__dict__['last']", ["last"]),
        ("vars(net)['last']", ["last"]),
        ("vars(net).get('last')", ["last"]),
        ("vars(net).pop('last')", ["last"]),
        ("vars(net).items()", [None]),
        ("print(vars(net))", [None]),
        ("print(net.__dict__)", [None]),
        ("net.last", []),
        ("vars()['net']", []),
        ("getattr(torch, key)", []),
        ("vars(net).keys()", []),
        ("vars(net)['last'] = y", []),
    ],
)
def test_what_is_read_by_its_name(code: str, expected: list[str | None]) -> None:
    known = script(HEAD + code)

    assert [each.name for each in read_by_name(known.flow, known.module)] == expected
