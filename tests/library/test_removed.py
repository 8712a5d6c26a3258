"""What is said to be gone fails with the installed torch, and says what has taken its place."""

from __future__ import annotations

import importlib
import importlib.util
import inspect

import pytest
import torch

from codemods.library.removed import (
    COUNTED,
    PYTHON,
    demanded_argument,
    removed,
    removed_argument,
    removed_arguments,
    removed_from_modules,
    removed_method,
    removed_modules,
    removed_names,
)

INSTALLED = tuple(int(each) for each in torch.__version__.split(".")[:2])


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name.partition(".")[0]) is not None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(each for each in removed_names() if is_installed(each)))
def test_what_is_gone_cannot_be_called(name: str) -> None:
    row = removed(name)
    package, _, last = name.rpartition(".")
    called = getattr(importlib.import_module(package), last, None)

    assert row is not None
    if row.since > INSTALLED:
        pytest.skip(f"this torch still has {name}")
    for operands in ((torch.eye(3),), (torch.eye(3), torch.eye(3)), (torch.eye(3), 1)):
        with pytest.raises((TypeError, RuntimeError)):
            called(*operands)  # type: ignore[misc]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", sorted(name for each in removed_names() if removed_method(name := each.rpartition(".")[2]) is not None)
)
def test_what_is_gone_is_no_method_any_more(name: str) -> None:
    row = removed_method(name)

    assert row is not None
    if row.since > INSTALLED:
        pytest.skip(f"this torch still has {name}")
    for operands in ((), (torch.eye(3),), (1,)):
        with pytest.raises((TypeError, AttributeError, RuntimeError)):
            getattr(torch.eye(3), name)(*operands)


@pytest.mark.filterwarnings("ignore")
def test_what_is_demanded_of_real_numbers_alone() -> None:
    row, signal, window = demanded_argument("torch.stft"), torch.rand(64), torch.ones(8)

    assert row is not None
    with pytest.raises(RuntimeError, match=row.name):
        torch.stft(signal, 8)
    with pytest.raises(RuntimeError, match=row.name):
        signal.stft(8)
    assert not torch.stft(signal, 8, **{row.name: False}).is_complex()  # type: ignore[arg-type]
    assert torch.stft(signal + 0j, 8).is_complex()
    assert list(inspect.signature(torch.stft).parameters)[row.position] == row.name
    assert torch.stft(signal, 8, window=window + 0j).is_complex()


@pytest.mark.parametrize("name", sorted(each for each in removed_arguments() if is_installed(each)))
def test_what_is_gone_is_no_argument_any_more(name: str) -> None:
    function, _, argument = name.rpartition(".")
    row = removed_argument(function, argument)
    package, _, last = function.rpartition(".")
    called = getattr(importlib.import_module(package), last)

    assert row is not None
    if row.since > INSTALLED:
        pytest.skip(f"this torch still has {name}")
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{argument}'"):
        called(*given(last), **{argument: (0, 1)})


def given(name: str) -> tuple[object, ...]:
    """What it is called with besides."""
    if name in {"make_grid", "save_image"}:
        return torch.rand(2, 3, 4, 4), "unused.png"
    if name.startswith("Random"):
        return (10,)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    more = {"LambdaLR": (float,), "MultiplicativeLR": (float,), "SequentialLR": ([], []), "CyclicLR": (0.1, 1.0)}
    return (optimizer, *more.get(name, (1, 2)))


@pytest.mark.parametrize("name", sorted(removed_modules()))
def test_modules_that_are_gone_cannot_be_imported(name: str) -> None:
    assert removed_modules()[name] == PYTHON or removed_modules()[name] <= INSTALLED
    with pytest.raises(ImportError):
        importlib.import_module(name)


@pytest.mark.parametrize("name", ["torch.linalg.eig", "torch.linalg.eigh", "torch.linalg.lstsq", "torch.linalg.solve"])
def test_what_has_taken_a_place_is_there(name: str) -> None:
    assert any(name in row.instead for each in removed_names() if (row := removed(each)) is not None)
    assert callable(getattr(torch.linalg, name.rpartition(".")[2]))


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_what_takes_no_floats(name: str) -> None:
    package, _, last = name.rpartition(".")
    called = getattr(importlib.import_module(package), last)
    more = (1,) if name.startswith("torch.nn.Conv") else ()

    for at in range(COUNTED[name]):
        given = [4] * COUNTED[name]
        called(*given, *more)
        with pytest.raises(TypeError):
            called(*[each / 2 if place == at else each for place, each in enumerate(given)], *more)


def test_what_modules_had() -> None:
    assert removed_from_modules("_backend") is not None
    assert not hasattr(torch.nn.Embedding(3, 2), "_backend")
    assert removed_from_modules("padding_idx") is None


def test_what_is_still_there() -> None:
    assert removed("torch.svd") is None
    assert removed("torch.fft.fft") is None
