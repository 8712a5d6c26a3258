"""Which classes give their objects no attribute beside those they name: by ``__slots__``, or by ``__setattr__``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import walk
from codemods.facts.loops import place
from codemods.facts.reason import HERE, Reason

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow

_SLOTS = "__slots__"
_DICTIONARY = "__dict__"
_TORCH = "torch."
"""Objects of these classes have a ``__dict__``. Those of ``abc.ABC`` have none, and of others it is not known."""


def why_no_more(flow: Flow, class_: ast.ClassDef, code: str) -> Reason | None:
    """Why objects of the class cannot be given an attribute more; None where they can.

    Args:
        flow: What is known of the script.
        class_: The class. Its objects may be of a class that derives from it.
        code: The code of the reason.
    """
    for each in flow.family(class_):
        setter = flow.defines(each, "__setattr__")
        if setter is not None:
            text = f"class {each.name} decides by __setattr__ ({HERE}) which attributes its objects have"
            return Reason(code, text, (place(flow, setter),))
    lineage = (class_, *flow.bases(class_))
    slots = [_slots(each) for each in lineage if isinstance(each, ast.ClassDef)]
    is_of_torch = any(isinstance(each, str) and each.startswith(_TORCH) for each in lineage)
    if is_of_torch or slots[0] is None or not all(slots):
        return None
    text = f"objects of class {class_.name} have only the attributes of its __slots__ ({HERE}):"
    return Reason(code, text, (place(flow, slots[0]),), remedy=f"name {_DICTIONARY!r} among them")


def _slots(class_: ast.ClassDef) -> ast.expr | None:
    """What says which attributes the class gives to its objects; None where these have a ``__dict__``."""
    for each in class_.decorator_list:
        given = argument_of(each, "slots") if isinstance(each, ast.Call) else None
        if given is not None and not (isinstance(given, ast.Constant) and given.value is False):
            return each
    for statement in class_.body:
        targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
        if any(isinstance(each, ast.Name) and each.id == _SLOTS for each in targets):
            value = getattr(statement, "value", None)
            is_open = value is not None and any(getattr(each, "value", None) == _DICTIONARY for each in walk(value))
            return None if is_open else targets[0]
    return None
