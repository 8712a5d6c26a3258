"""What an expression may be: the finite sets of values that the facts are made of."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from typing import TypeAlias


class Sort(enum.IntEnum):
    """The sort of a value; what ``name``, ``site`` and ``of`` mean depends on it."""

    EXTERNAL = enum.auto()
    """A module, class or function of a library: ``name`` is its qualified name."""
    FUNCTION = enum.auto()
    """A function of the project: ``site`` is its definition."""
    METHOD = enum.auto()
    """``of``'s method: ``site`` is its definition where it is the project's, ``name`` its name."""
    CLASS = enum.auto()
    """A class of the project: ``site`` is its definition."""
    INSTANCE = enum.auto()
    """An object of the project's class ``of``: ``site`` is the call that made it, None for ``self``."""
    MADE = enum.auto()
    """What a call of the library's ``name`` returned: ``site`` is the call."""
    LITERAL = enum.auto()
    """A constant: ``name`` is its ``repr``."""
    CONTAINER = enum.auto()
    """A tuple, list, dict, set or iterator (``name``) made at ``site``; the flow knows its items."""
    CHOICE = enum.auto()
    """What the user chooses when the script is started: ``name`` says how (``args.workers``)."""
    BATCH = enum.auto()
    """A batch of the loader ``of``, or a part or a view of one, on the host."""
    HOST = enum.auto()
    """A tensor that was newly made on the host, in pageable memory; ``of`` is the loader it comes from, if any."""
    MOVED = enum.auto()
    """A tensor that was moved to, or made on, a device at ``site``; ``of`` is the loader it comes from, if any."""
    TENSOR = enum.auto()
    """A tensor of which nothing more is known."""
    PLAIN = enum.auto()
    """A number, text or other object that is none of the above; ``name`` is what is known of it, if anything."""
    UNKNOWN = enum.auto()
    """Anything: ``name`` is the reason why nothing is known, in the user's words."""
    UNBOUND = enum.auto()
    """The name may have no value here."""


@dataclass(frozen=True, slots=True)
class Value:
    """One thing that an expression may be."""

    sort: Sort
    name: str = ""
    site: ast.AST | None = None
    of: Value | None = None

    @property
    def literal(self) -> object:
        """The constant itself; only for ``Sort.LITERAL``."""
        return ast.literal_eval(self.name)


Values: TypeAlias = frozenset[Value]

NOTHING: Values = frozenset()
"""Not known yet, or never there: the bottom of the lattice."""
PLAIN: Values = frozenset({Value(Sort.PLAIN)})
TENSOR: Values = frozenset({Value(Sort.TENSOR)})
NUMBER: Values = frozenset({Value(Sort.PLAIN, "a number")})
NONE = Value(Sort.LITERAL, "None")


def unknown(reason: str) -> Values:
    """The top of the lattice, with its reason."""
    return frozenset({Value(Sort.UNKNOWN, reason)})


def external(name: str) -> Values:
    """The library's thing of that qualified name."""
    return frozenset({Value(Sort.EXTERNAL, name)})


def text_starting(start: str) -> Values:
    """A text of which only the start is known: ``f"cuda:{rank}"``."""
    return frozenset({Value(Sort.PLAIN, f"{start!r}…")})


def leading_text(values: Values) -> str | None:
    """What the one text that the values are starts with; None where they are anything else."""
    (value,) = values if len(values) == 1 else (NONE,)
    if value.sort is Sort.LITERAL:
        return value.literal if isinstance(value.literal, str) else None
    if value.sort is Sort.PLAIN and value.name.endswith("…"):
        return str(ast.literal_eval(value.name.removesuffix("…")))
    return None


def without_none(values: Values) -> Values:
    """The values but ``None`` and "no value": ``self.optimizer = None`` says nothing about the optimizer."""
    return frozenset(each for each in values if each != NONE and each.sort is not Sort.UNBOUND)


def why_unknown(values: Values) -> str | None:
    """The reason why something in the set is unknown, or None where all of it is known."""
    return min((each.name for each in values if each.sort is Sort.UNKNOWN), default=None)
