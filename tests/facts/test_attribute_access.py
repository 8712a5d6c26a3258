"""Which attributes are written and read by their names."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.attribute_access import are_kin, owner_of_self, read_by_name, written_by_name

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


KIN = """\
class A:
    def read(self):
        return self.x
class B:
    @property
    def read(self):
        return self.x
class C(A, B):
    pass
class D:
    def read(self, other):
        return other.x
"""


@pytest.mark.parametrize(
    ("one", "other", "expected"), [("A", "A", True), ("A", "C", True), ("A", "B", True), ("A", "D", False)]
)
def test_which_classes_an_object_may_be_of(one: str, other: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(KIN)
    classes = {each.name: each for each in known.module.nodes(ast.ClassDef)}
    assert are_kin(known.flow, classes[one], classes[other]) is expected


def test_whose_attribute_is_read() -> None:
    known = script(KIN)
    reads = [each for each in known.module.nodes(ast.Attribute) if each.attr == "x"]
    owners = [owner_of_self(known.flow, known.module, each) for each in reads]
    assert [each.name if each else None for each in owners] == ["A", None, None]
