"""Where a script goes on after an error of its training."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.caught import caught

HEAD = """\
import contextlib
import torch
from torch import nn

model = nn.Linear(4, 1)


def step(x):
    loss = model(x).mean()
    loss.backward()


"""
CALLED = "for x in torch.randn(10, 8, 4):\n    try:\n        step(x)\n    {}\n"


def line(code: str, *, only_memory: bool = False) -> int | None:
    """The line, below the head, at which an error is caught."""
    known = script(HEAD + code)
    found = caught(known.flow, known.modules, only_memory=only_memory)
    assert found is None or isinstance(found[1], (ast.expr, ast.ExceptHandler))
    return None if found is None else found[1].lineno - HEAD.count("\n")  # type: ignore[attr-defined]


CATCHING = {
    "RuntimeError": "except RuntimeError: pass",
    "a base class": "except Exception: pass",
    "one of several": "except (OSError, RuntimeError): pass",
    "no type": "except: pass",
    "a type that is not known": "except errors: pass",
    "the next batch is taken": "except RuntimeError as error:\n        if 'nan' in str(error):\n            continue\n        raise",
    "the loop ends": "except RuntimeError as error:\n        if 'nan' in str(error):\n            break\n        raise error",
    "raised again under a condition": "except RuntimeError:\n        if model.training:\n            raise\n        print()",
}


@pytest.mark.parametrize("handler", CATCHING.values(), ids=CATCHING)
def test_it_is_caught_in_what_calls_the_backward(handler: str) -> None:
    assert line(CALLED.format(handler)) == 4


PASSING = {
    "another exception": "except (KeyboardInterrupt, ValueError): pass",
    "the script's own": "except Own: pass",
    "it is raised again": "except RuntimeError:\n        print()\n        raise",
    "it is raised again after a loop": "except RuntimeError:\n        for p in model.parameters():\n"
    "            if p.grad is None: continue\n        raise",
    "it ends as another one": "except RuntimeError as error:\n        raise ValueError from error",
    "nothing is handled": "finally: print()",
    "only for want of memory": "except torch.cuda.OutOfMemoryError: pass",
}


@pytest.mark.parametrize("handler", PASSING.values(), ids=PASSING)
def test_it_ends_the_script(handler: str) -> None:
    assert line("class Own(Exception):\n    pass\n\n" + CALLED.format(handler)) is None


def test_want_of_memory_is_caught() -> None:
    assert line(CALLED.format("except torch.cuda.OutOfMemoryError: pass"), only_memory=True) == 4


@pytest.mark.parametrize("block", ["contextlib.suppress(RuntimeError)", "pytest.raises(RuntimeError)"])
def test_it_is_suppressed(block: str) -> None:
    assert line(f"import pytest\nwith {block}:\n    step(torch.ones(4))\n") == 2


def test_code_without_gradients_may_fail() -> None:
    assert line("try:\n    model(torch.ones(3))\nexcept RuntimeError:\n    pass\n") is None


def test_gradients_that_are_asked_for_count() -> None:
    code = "w = model.weight\ntry:\n    torch.autograd.grad(w.sum(), w)\nexcept RuntimeError:\n    pass\n"

    assert line(code) == 4


def test_it_is_caught_in_another_file() -> None:
    known = script(
        "from step import step\ntry:\n    step(1)\nexcept RuntimeError:\n    pass\n",
        step="def step(x):\n    x.backward()\n",
    )
    found = caught(known.flow, known.modules)

    assert found is not None
    assert found[0] is known.module
