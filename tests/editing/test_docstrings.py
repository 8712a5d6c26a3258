"""A new parameter's line in a docstring, in the style of the docstring."""

from __future__ import annotations

import pytest

from codemods.editing.docstrings import Described, with_parameter

NEW = Described("scaler", "torch.amp.GradScaler", "the gradient scaler")
GOOGLE = '''"""Train.

    Args:
        model: Trains.
            At length.
        **rest: More.

    Returns:
        loss: It.
    """'''
TYPED = '''"""Train.

    Arguments:
      model (Module): trains
      epochs (int, optional): how often
    """'''
SPHINX = '''"""Train.

    :param model: trains
        at length
    :return: loss"""'''
SPHINX_TYPES = '''"""Train.

    :param model: Trains.
    :type model: Module
    :param int epochs: How often.
    """'''
NUMPY = '''"""Train.

    Parameters
    ----------
    model : Module
        Trains.
    epochs : int
        How often.

    Returns
    -------
    loss
    """'''


@pytest.mark.parametrize(
    ("literal", "following", "line", "above"),
    [
        pytest.param(GOOGLE, None, "        scaler: The gradient scaler.", "        **rest: More.", id="at the end"),
        pytest.param(
            GOOGLE, "rest", "        scaler: The gradient scaler.", "            At length.", id="before another"
        ),
        pytest.param(
            TYPED,
            "epochs",
            "      scaler (torch.amp.GradScaler): the gradient scaler",
            "      model (Module): trains",
            id="with types, in small letters",
        ),
        pytest.param(SPHINX, None, "    :param scaler: the gradient scaler", "        at length", id="fields"),
        pytest.param(
            SPHINX_TYPES,
            "epochs",
            "    :param scaler: The gradient scaler.\n    :type scaler: torch.amp.GradScaler",
            "    :type model: Module",
            id="fields of types",
        ),
        pytest.param(
            NUMPY,
            "epochs",
            "    scaler : torch.amp.GradScaler\n        The gradient scaler.",
            "        Trains.",
            id="underlined, before another",
        ),
        pytest.param(
            NUMPY,
            None,
            "    scaler : torch.amp.GradScaler\n        The gradient scaler.",
            "        How often.",
            id="underlined, at the end",
        ),
        pytest.param(
            GOOGLE.replace("\n", "\r\n"),
            None,
            "        scaler: The gradient scaler.",
            "        **rest: More.",
            id="lines of Windows",
        ),
    ],
)
def test_a_parameter_is_described_as_the_others_are(literal: str, following: str | None, line: str, above: str) -> None:
    newline = "\r\n" if "\r\n" in literal else "\n"

    after = with_parameter(literal, NEW, following)

    assert after == literal.replace(above, f"{above}\n{line}".replace("\n", newline))


def test_quotes_behind_the_last_parameter_go_behind_the_new_one() -> None:
    assert with_parameter('"""Train.\n\n    Args:\n        model: trains"""', NEW, None).endswith(
        '        model: trains\n        scaler: the gradient scaler"""'
    )


@pytest.mark.parametrize(
    "literal",
    [
        pytest.param('"""Train."""', id="one line"),
        pytest.param('"Args:"', id="no lines"),
        pytest.param('"""Train.\n\n    Args:\n\n    Returns:\n        loss: it\n    """', id="nothing described"),
        pytest.param('"""Train.\n\n    The parameters: many.\n    """', id="another word"),
    ],
)
def test_a_docstring_that_describes_no_parameter_stays(literal: str) -> None:
    assert with_parameter(literal, NEW, None) == literal
