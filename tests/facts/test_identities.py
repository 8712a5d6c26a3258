"""Identity matrices that NumPy makes."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.identities import identity

HEAD = "import numpy as np\nimport torch\nfrom torch.autograd import Variable\nk = 4\n"


def found(code: str) -> tuple[str, bool] | None:
    made = script(f"{HEAD}answer = {code}\n")
    (maker,) = [each for each in made.module.nodes(ast.Call) if ast.unparse(each.func) == "torch.from_numpy"]
    result = identity(made, maker)
    return None if result is None else (ast.unparse(result[0]), result[1])


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("torch.from_numpy(np.eye(k).astype(np.float32))", ("k", False)),
        ("torch.from_numpy(np.identity(3, dtype='float32'))", ("3", False)),
        ("torch.from_numpy(np.eye(k, dtype=np.float32).flatten())", ("k", True)),
        ("torch.from_numpy(np.eye(k).astype(np.float32).ravel())", ("k", True)),
        ("torch.from_numpy(np.array([1, 0, 0, 1]).astype(np.float32))", ("2", True)),
        ("torch.from_numpy(np.array([1.0, 0, 0, 1], dtype=np.float32)).view(1, 4)", ("2", False)),
        ("Variable(torch.from_numpy(np.eye(k).flatten().astype(np.float32))).view(1, k * k)", ("k", False)),
        ("torch.from_numpy(np.eye(k))", None),
        ("torch.from_numpy(np.eye(k).astype(np.float64))", None),
        ("torch.from_numpy(np.eye(k, 3).astype(np.float32))", None),
        ("torch.from_numpy(np.eye(k, k=1).astype(np.float32))", None),
        ("torch.from_numpy(np.eye(k).reshape(-1).astype(np.float32))", None),
        ("torch.from_numpy(np.array([1, 0, 1]).astype(np.float32))", None),
        ("torch.from_numpy(np.array([1, 0, 0, 2]).astype(np.float32))", None),
        ("torch.from_numpy(np.array([1, 0, 0, k]).astype(np.float32))", None),
        ("torch.from_numpy(np.array(k).astype(np.float32))", None),
        ("torch.from_numpy(np.zeros(k).astype(np.float32))", None),
        ("torch.from_numpy(array)", None),
    ],
)
def test_the_size_of_an_identity(code: str, expected: tuple[str, bool] | None) -> None:
    assert found(code) == expected
