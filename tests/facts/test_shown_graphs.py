"""Where a script shows whether a tensor carries a graph."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.shown_graphs import Shown

HEAD = """\
import torch
import csv
import logging

total = torch.zeros(())

def show(value):
    print(value)

def shorten(value):
    return f"{value:.3f}"

def inner():
    return total

"""


def shown(text: str, *, is_number: bool = True) -> str | None:
    """Where the tensor ``total`` shows, as it is written."""
    known = script(HEAD + text)
    found = Shown(known.whole.graph_uses, is_number).find(known.module, None, frozenset({"total", "mean"}))
    return None if found is None else ast.unparse(found)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("print(f'{total}')", id="a format of a number"),
        pytest.param("print('{:.2f}'.format(total))", id="the method of a text"),
        pytest.param("print('%.2f' % total)", id="the operator of a text"),
        pytest.param("print(total.item(), float(total), total > 1)", id="numbers of it"),
        pytest.param("print([each.item() for each in total])", id="numbers of its items"),
        pytest.param("print(shorten(total))", id="a function makes a text of its number"),
        pytest.param("print(other)", id="another tensor"),
        pytest.param("mean = total / 2\nprint(f'{mean:.3f}', '%d %.3f' % (1, mean))", id="by another name"),
        pytest.param("mean = [total]\nmean.append(total)\nprint(f'{max(mean):.3f}', mean[0].item())", id="in a list"),
        pytest.param("for mean in [total]:\n    if mean > 1:\n        print(mean.exp().item())", id="in a loop"),
        pytest.param("torch.stack([total, total]).mean().item()", id="torch computes with it"),
        pytest.param(
            "from torch.utils.tensorboard import SummaryWriter\nSummaryWriter().add_scalar('x', total / 2)",
            id="TensorBoard writes a number",
        ),
        pytest.param("total.detach().numpy()", id="an array of what is detached"),
    ],
)
def test_a_number_shows_no_graph(text: str) -> None:
    assert shown(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("print(total / 2)", "print(total / 2)", id="it is printed"),
        pytest.param("print([each for each in total])", "print([each for each in total])", id="its items are"),
        pytest.param("print(f'{[total]}')", "{[total]}", id="a list is written"),
        pytest.param("print('{}'.format([total]))", "'{}'.format([total])", id="the method of a text writes a list"),
        pytest.param("csv.writer(x).writerow([total])", "csv.writer(x).writerow([total])", id="a library writes it"),
        pytest.param("again = total.backward", "total.backward", id="a method is handed on"),
        pytest.param("exec('print(total)')", "exec('print(total)')", id="a text is run"),
        pytest.param("self.total = total", "self.total = total", id="an object keeps it"),
        pytest.param("class A:\n    pass\nothers.append(total)", "others.append(total)", id="another list"),
        pytest.param("total.register_hook(print)", "total.register_hook", id="a hook needs it"),
        pytest.param("text = 'x' + str(total)", "str(total)", id="a text is made of it"),
        pytest.param("print('%s' % total)", "'%s' % total", id="a text by an operator"),
        pytest.param("logging.info('x %s', total)", "logging.info('x %s', total)", id="it is logged"),
        pytest.param("torch.save(total, 'x')", "torch.save(total, 'x')", id="it is saved"),
        pytest.param("ok = total.is_leaf", "total.is_leaf", id="it is asked"),
        pytest.param("show(total)", "print(value)", id="a function prints it"),
    ],
)
def test_a_text_or_a_question_shows_it(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_a_tensor_with_dimensions_shows_it_in_a_format_without_a_precision() -> None:
    assert shown("print(f'{total}')", is_number=False) is not None
    assert shown("print('{}'.format(total))", is_number=False) is not None
    assert shown("print(f'{total:.3f}')", is_number=False) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("print(inner())", "print(inner())", id="at once"),
        pytest.param("found = inner()\nprint(found)", "print(found)", id="by a name"),
        pytest.param("print(f'{inner():.3f}')", None, id="as a number"),
    ],
)
def test_what_a_function_returns_is_shown_where_it_is_called(text: str, expected: str | None) -> None:
    known = script(HEAD + text)
    inner = next(each for each in known.module.nodes(ast.FunctionDef) if each.name == "inner")
    found = Shown(known.whole.graph_uses, is_number=True).of_result(inner, frozenset({"total"}))

    assert (None if found is None else ast.unparse(found)) == expected
