"""What repeats, against the installed libraries: the names are there, and none of them draws random numbers."""

from __future__ import annotations

import importlib

import pytest

from codemods.library.layers import may_draw
from codemods.library.repeating import (
    functions,
    goes_on,
    is_tokenizer,
    method_repeats,
    method_writes_files,
    position_of_mode,
    repeats,
    tokenizes,
    writes_files,
)

_OF_OLD = {"numpy.in1d", "numpy.bool_"}
"""Names that current versions have no more."""
_INSTALLED = {"builtins", "math", "numpy", "os", "re", "json", "torch", "torchvision", "PIL", "io", "itertools", "zlib"}


@pytest.mark.parametrize("name", sorted(each for each in functions() if each.partition(".")[0] in _INSTALLED))
def test_listed_functions_are_there(name: str) -> None:
    module, _, last = name.rpartition(".")
    assert name in _OF_OLD or hasattr(importlib.import_module(module), last)
    assert repeats(name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("numpy.random.rand", id="draws"),
        pytest.param("torch.rand", id="draws a tensor"),
        pytest.param("torch.nn.functional.dropout", id="drops out"),
        pytest.param("random.random", id="Python draws"),
        pytest.param("builtins.print", id="writes"),
        pytest.param("builtins.next", id="goes on"),
        pytest.param("numpy.save", id="writes a file"),
        pytest.param("torch.save", id="writes a file of tensors"),
        pytest.param("time.time", id="the time"),
        pytest.param("os.remove", id="removes"),
        pytest.param("numpy.copyto", id="writes into its argument"),
        pytest.param("package.load", id="another library"),
    ],
)
def test_others_do_not_repeat(name: str) -> None:
    assert not repeats(name)


@pytest.mark.parametrize("name", sorted(each for each in functions() if each.startswith("torch.")))
def test_no_function_of_torch_draws(name: str) -> None:
    assert not may_draw(name)


@pytest.mark.parametrize("name", ["lower", "convert", "astype", "unsqueeze", "mean", "append", "view"])
def test_methods_that_repeat(name: str) -> None:
    assert method_repeats(name)


@pytest.mark.parametrize("name", ["cuda", "to", "normal_", "shuffle", "backward", "read", "choice", "paste", "sample"])
def test_methods_that_do_not(name: str) -> None:
    assert not method_repeats(name)


def test_files_go_on_where_they_were_left() -> None:
    assert goes_on("read")
    assert not goes_on("read_text")
    assert position_of_mode("builtins.open") == 1
    assert position_of_mode("numpy.load") is None


def test_tokenizers() -> None:
    assert is_tokenizer("transformers.AutoTokenizer.from_pretrained")
    assert is_tokenizer("transformers.BertTokenizerFast")
    assert not is_tokenizer("transformers.AutoModel.from_pretrained")
    assert not is_tokenizer("another.Tokenizer")
    assert tokenizes("encode")
    assert not tokenizes("add_tokens")


def test_what_writes_files() -> None:
    assert writes_files("torch.save")
    assert not writes_files("torch.load")
    assert method_writes_files("to_csv")
    assert not method_writes_files("read_text")
    assert not repeats("torch.save")
    assert not method_repeats("save")
