"""Which number formats tensors have, and what is collated of arrays and numbers."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.number_formats import NumberFormats

HEAD = "import torch\nimport numpy as np\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("answer = torch.randn(3)", "float32", id="drawn floats"),
        pytest.param("answer = torch.randint(9, (3,))", "int64", id="drawn integers"),
        pytest.param("answer = torch.zeros(3, dtype=torch.float64)", "float64", id="a format that is asked for"),
        pytest.param("answer = torch.zeros(3, dtype=chosen)", None, id="one that is not known"),
        pytest.param("answer = torch.zeros(3, **given)", None, id="perhaps one among the keywords"),
        pytest.param("torch.set_default_dtype(torch.float64)\nanswer = torch.zeros(3)", None, id="another default"),
        pytest.param("answer = torch.ByteTensor(3)", "uint8", id="a legacy constructor"),
        pytest.param("answer = torch.tensor([[1, 2], [3, 4]])", "int64", id="integers of Python"),
        pytest.param("answer = torch.tensor(0.5)", "float32", id="a float of Python, as a tensor"),
        pytest.param("answer = torch.tensor([1, 2.5])", "float32", id="numbers of several kinds"),
        pytest.param("answer = 0.5", "float64", id="a float of Python, collated"),
        pytest.param("answer = True", "bool", id="a truth value"),
        pytest.param("answer = np.zeros(3)", "float64", id="an array"),
        pytest.param("answer = torch.from_numpy(np.zeros(3))", "float64", id="a tensor of an array"),
        pytest.param("answer = torch.tensor(np.zeros(3, np.float32))", "float32", id="a copy of an array"),
        pytest.param("answer = torch.from_numpy(given)", None, id="of an array that is not known"),
        pytest.param("answer = torch.zeros(3).long()", "int64", id="cast"),
        pytest.param("answer = torch.zeros(3).to(torch.float16)", "float16", id="cast to what is named"),
        pytest.param("answer = torch.zeros(3).view(1, 3).clone()[0]", "float32", id="a view, a copy, an item"),
        pytest.param("answer = torch.zeros(3).argmax()", None, id="another method"),
        pytest.param("x = torch.zeros(3)\nanswer = x", "float32", id="a name"),
        pytest.param("x = torch.zeros(3) if a else torch.zeros(3).long()\nanswer = x", None, id="one of two"),
        pytest.param("def f(x):\n    answer = x\nf(torch.zeros(3))\nf(torch.ones(2))", "float32", id="a parameter"),
        pytest.param("def f(x):\n    answer = x", None, id="one that nobody is seen to give"),
        pytest.param("answer = other(3)", None, id="what is not followed"),
    ],
)
def test_the_number_format(text: str, expected: str | None) -> None:
    known = script(HEAD + text)
    (given,) = (each for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")

    assert NumberFormats(known.flow).of(known.module, given.value) == expected
