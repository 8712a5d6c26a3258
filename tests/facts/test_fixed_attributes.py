"""Which classes have objects that can be given an attribute more."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.fixed_attributes import why_no_more

SLOTS = "objects of class Trainer have only the attributes of its __slots__ (line {}): name '__dict__' among them"


def why(text: str) -> str | None:
    """Why the trainers of the script take no attribute more."""
    known = script(f"from dataclasses import dataclass\nfrom torch import nn\n{text}")
    (class_,) = (each for each in known.module.nodes(ast.ClassDef) if each.name == "Trainer")
    found = why_no_more(known.flow, class_, "no-place-for-scaler")
    return found.words.said(known.module).text if found is not None else None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("class Trainer:\n    __slots__ = ('net', 'opt')\n", 4, id="its own"),
        pytest.param("class Trainer:\n    __slots__: list[str] = ['net', 'opt']\n", 4, id="annotated"),
        pytest.param("class Trainer:\n    __slots__ = NAMES\n", 4, id="named elsewhere"),
        pytest.param("class Trainer(object):\n    __slots__ = ('net',)\n", 4, id="object has no dictionary"),
        pytest.param(
            "class Base:\n    __slots__ = ('net',)\nclass Trainer(Base):\n    __slots__ = ('opt',)\n",
            6,
            id="and those of its base",
        ),
        pytest.param(
            "import abc\nclass Trainer(abc.ABC):\n    __slots__ = ('net',)\n", 5, id="abc.ABC has no dictionary either"
        ),
        pytest.param("@dataclass(slots=True)\nclass Trainer:\n    net: object\n", 3, id="a dataclass makes them"),
    ],
)
def test_slots_are_all_that_it_has(text: str, line: int) -> None:
    assert why(text) == SLOTS.format(line)


def test_it_may_decide_by_a_method() -> None:
    text = "class Trainer:\n    def __setattr__(self, name, value):\n        raise AttributeError(name)\n"

    assert why(text) == "class Trainer decides by __setattr__ (line 4) which attributes its objects have"


def test_it_may_be_a_class_that_derives_from_it_that_decides() -> None:
    text = "class Trainer:\n    pass\nclass Sealed(Trainer):\n    def __setattr__(self, name, value):\n        print(name)\n"

    assert why(text) == "class Sealed decides by __setattr__ (line 6) which attributes its objects have"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("class Trainer:\n    def __init__(self):\n        self.net = None\n", id="no slots"),
        pytest.param("class Trainer:\n    __slots__ = ('net', '__dict__')\n", id="with a dictionary"),
        pytest.param("class Trainer(nn.Module):\n    __slots__ = ('net',)\n", id="modules have a dictionary"),
        pytest.param(
            "class Base:\n    pass\nclass Trainer(Base):\n    __slots__ = ('opt',)\n", id="its base has a dictionary"
        ),
        pytest.param(
            "class Base:\n    __slots__ = ('net',)\nclass Trainer(Base):\n    pass\n", id="it adds a dictionary itself"
        ),
        pytest.param("@dataclass(slots=False)\nclass Trainer:\n    net: object\n", id="a dataclass without"),
        pytest.param(
            "class Trainer:\n    def save(self):\n        __slots__ = 1\n        return __slots__\n", id="a local name"
        ),
    ],
)
def test_others_take_more(text: str) -> None:
    assert why(text) is None
