from __future__ import annotations

import importlib

import pytest

from codemods.library.introduced import introduced, names

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", sorted(names()))
def test_torch_has_what_it_brought(name: str) -> None:
    pytest.importorskip(name.partition(".")[0])
    if introduced(name) > tuple(int(each) for each in torch.__version__.split(".")[:2]):
        pytest.skip("it came later")
    package, _, attribute = name.rpartition(".")

    # Of a method, what is before the last dot is a class.
    owner = torch.nn.Module if package == "torch.nn.Module" else importlib.import_module(package)

    assert hasattr(owner, attribute) or importlib.import_module(name) is not None


def test_what_is_in_a_package_came_with_it_or_later() -> None:
    assert introduced("torch.func.vmap") == (2, 0)
    assert introduced("torch.nn.attention.flex_attention.flex_attention") == (2, 5)
    assert introduced("torch.nn.Linear") == (0, 0)
