"""Where what stands beside the scaler is seen."""

from __future__ import annotations

import ast

import pytest
from iteration import script

from codemods.amp.scaler_scope import Home
from codemods.amp.sight import Sight
from codemods.facts.reach import Reach


def is_seen(text: str, *, owner: str | None = None) -> bool:
    """Whether what is made after ``made = …`` is seen where ``use()`` stands."""
    known = script(text)
    (anchor,) = [each for each in known.module.nodes(ast.Assign) if "made" in ast.unparse(each.targets[0])]
    (place,) = [each for each in known.module.nodes(ast.Expr) if ast.unparse(each) == "use()"]
    class_ = next((each for each in known.module.nodes(ast.ClassDef) if each.name == owner), None)
    return Sight(known, Reach(known.flow)).is_seen(Home((anchor,), class_), place)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("made = 1\nuse()\n", True, id="below it"),
        pytest.param("use()\nmade = 1\n", False, id="above it"),
        pytest.param("if a:\n    made = 1\nuse()\n", False, id="below a branch with it"),
        pytest.param("made = 1\nfor x in y:\n    use()\n", True, id="in a loop below it"),
        pytest.param("made = 1\ndef f():\n    use()\nf()\n", True, id="in a function that runs after it"),
        pytest.param("def f():\n    use()\nf()\nmade = 1\n", False, id="in a function that runs before it"),
        pytest.param("made = 1\ndef f():\n    use()\n", False, id="in a function that nobody runs"),
        pytest.param(
            "made = 1\ndef f():\n    use()\nf()\nregister(f)\n", False, id="in a function that others run, too"
        ),
        pytest.param("def f():\n    made = 1\n    use()\n", True, id="in the same function"),
        pytest.param("def f():\n    made = 1\ndef g():\n    use()\nf()\ng()\n", False, id="in another function"),
        pytest.param(
            "def f():\n    use()\nif __name__ == '__main__':\n    made = 1\n    f()\n",
            False,
            id="in a function that others may import, without the guard",
        ),
        pytest.param(
            "def f():\n    use()\n    print(data)\nif __name__ == '__main__':\n    made = 1\n    data = 2\n    f()\n",
            True,
            id="in a function that is no use without the guard",
        ),
    ],
)
def test_where_a_name_is_seen(text: str, *, expected: bool) -> None:
    assert is_seen(text) is expected


def test_an_attribute_is_seen_in_the_methods_of_its_class() -> None:
    text = "class Trainer:\n    def __init__(self):\n        self.made = 1\n\n    def run(self):\n        use()\n"

    assert is_seen(text, owner="Trainer")


def test_an_attribute_is_not_seen_outside_its_class() -> None:
    text = "class Trainer:\n    def __init__(self):\n        self.made = 1\n\n\ndef run():\n    use()\n"

    assert not is_seen(text, owner="Trainer")


def test_without_a_home_nothing_is_seen() -> None:
    known = script("use()\n")

    assert not Sight(known, Reach(known.flow)).is_seen(None, known.module.tree.body[-1])
