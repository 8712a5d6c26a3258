"""What the only statement that binds a name gives it, or the only call that fills a parameter."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.cost.definitions import binding, origin

KEEPING = """\
env = make()
class Net:
    def __init__(self, env):
        self.size = env.shape
    def use(self):
        use(self.size)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = 1 + 2\nuse(x)", "1 + 2", id="of its module"),
        pytest.param("def f():\n    x = 3\n    use(x)", "3", id="of its function"),
        pytest.param("x = 1\ndef f():\n    use(x)", "1", id="of the module around its function"),
        pytest.param("x = 1\ndef f():\n    x = 2\n    use(x)", "2", id="the function's, where the module has one, too"),
        pytest.param("x = 1\nx = 2\nuse(x)", None, id="there are two"),
        pytest.param("x = 1\ndef f(x):\n    use(x)", None, id="a parameter"),
        pytest.param("x, y = 1, 2\nuse(y)", "2", id="one of several at once"),
        pytest.param("x, y = f()\nuse(x)", None, id="a part of what is unpacked"),
        pytest.param("*x, y = 1, *z\nuse(y)", None, id="a part of what is unpacked with a star"),
        pytest.param("x = y = 1\nuse(x)", None, id="two names at once"),
        pytest.param("for x in y:\n    use(x)", None, id="a loop's variable"),
        pytest.param("use(x)", None, id="it is bound nowhere"),
    ],
)
def test_the_only_statement(text: str, expected: str | None) -> None:
    known = script(text)
    (call,) = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "use"]
    (name,) = call.args
    assert isinstance(name, ast.Name)
    bound = binding(known.flow, name)

    assert (bound and ast.unparse(bound)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = y = 1\nz = f()\nuse(z)", "f()", id="one statement"),
        pytest.param("x = f()\ny = x\nuse(y)", "f()", id="a name of a name"),
        pytest.param("def g(x):\n    use(x)\ng(f())", "f()", id="a parameter"),
        pytest.param("def g(x):\n    use(x)\ng(x=f())", "f()", id="a parameter, by its name"),
        pytest.param(
            "class A:\n    def __init__(self, x):\n        use(x)\ndef main(x):\n    A(x)\nmain(f())",
            "f()",
            id="a parameter of a constructor, which a parameter fills",
        ),
        pytest.param(
            "x = f()\ndef g(x=x):\n    pass\nuse(x)", "f()", id="beside a parameter that it is the default of"
        ),
        pytest.param("def g(x):\n    use(x)\ng(f())\ng(h())", None, id="two calls"),
        pytest.param("def g(x):\n    use(x)\nregister(g)\ng(f())", None, id="others may call it"),
        pytest.param(
            "def g(x):\n    x = x + 1\n    x += 1\n    use(x)\ng(f())", None, id="a parameter that is bound anew"
        ),
        pytest.param("def g(x=1):\n    use(x)\ng()", None, id="nothing is given"),
        pytest.param("def g(x):\n    use(x)\ng(*f())", None, id="arguments that are unpacked"),
        pytest.param("def g(x, y):\n    use(x)\nd = {'x': f(), 'y': 2}\ng(**d)", "f()", id="the entry of a dictionary"),
        pytest.param(
            "class A:\n    def __init__(self, x):\n        use(x)\nd = dict()\nd = {'x': f()}\nA(**d)",
            None,
            id="one of two dictionaries",
        ),
        pytest.param(
            "def g(x, y):\n    use(x)\nd = {'x': f()}\nd['y'] = h(d['x'])\ng(**d)",
            "f()",
            id="another entry is set later",
        ),
        pytest.param("def g(x):\n    use(x)\nd = {'x': f()}\nd['x'] = 2\ng(**d)", None, id="the entry is set anew"),
        pytest.param("def g(x):\n    use(x)\nd = {'x': f()}\nd[k] = 2\ng(**d)", None, id="any entry may be set"),
        pytest.param("def g(x):\n    use(x)\nd = {'x': f()}\nd.update(h)\ng(**d)", None, id="entries are added"),
        pytest.param("def g(x):\n    use(x)\nd = {'x': f(), **h}\ng(**d)", None, id="others are taken over"),
        pytest.param("def g(x):\n    use(x)\ng(**{'x': f()})", None, id="a dictionary without a name"),
        pytest.param("def g(x, y):\n    use(x)\nd = {'y': 1}\ng(f(), **d)", "f()", id="beside a dictionary"),
        pytest.param("def g(x=1):\n    use(x)\nd = {'y': 1}\ng(**d)", None, id="no entry"),
        pytest.param("x = y\ny = x\nuse(x)", None, id="two names of each other"),
    ],
)
def test_what_only_names_hand_on(text: str, expected: str | None) -> None:
    known = script(text)
    (call,) = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "use"]
    (name,) = call.args
    assert isinstance(name, ast.Name)
    found = origin(known.flow, name)

    assert (found and ast.unparse(found)) == expected


def test_a_default_is_read_around_its_function() -> None:
    known = script("x = 1\ndef g(x=x):\n    pass\n")
    (function,) = known.module.nodes(ast.FunctionDef)
    (default,) = function.args.defaults
    assert isinstance(default, ast.Name)
    bound = binding(known.flow, default)

    assert bound is not None
    assert ast.unparse(bound) == "1"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param("", "env.shape", id="in another method"),
        pytest.param("        self.size = 3\n", "self.size", id="set twice"),
        pytest.param("net = Net(env)\nnet.size = 3\n", "self.size", id="set from outside"),
        pytest.param("setattr(Net(env), 'size', 3)\n", "self.size", id="set by its name"),
        pytest.param("setattr(Net(env), input(), 3)\n", "self.size", id="some attribute is set by its name"),
        pytest.param("Net(env).size += 1\n", "self.size", id="added to"),
    ],
)
def test_what_a_constructor_gives_an_object(more: str, expected: str) -> None:
    assert _origin_of_size(KEEPING + more) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(KEEPING.replace("    def use", "class Other:\n    def use"), id="of another class"),
        pytest.param(KEEPING.replace("__init__", "start"), id="by another method"),
        pytest.param(KEEPING.replace("self.size = env.shape", "self.size: int = env.shape"), id="with its type"),
        pytest.param(KEEPING.replace("self.size = env.shape", "self.size = self.all = env.shape"), id="two at once"),
    ],
)
def test_what_an_object_may_be_given_otherwise(text: str) -> None:
    assert _origin_of_size(text) == "self.size"


def _origin_of_size(text: str) -> str | None:
    known = script(text)
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "use")
    (size,) = call.args
    assert isinstance(size, ast.Attribute)
    found = origin(known.flow, size)
    return ast.unparse(found) if found is not None else None
