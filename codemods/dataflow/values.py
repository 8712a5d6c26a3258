"""What an expression may be: the finite sets of values that the facts are made of."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


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
    SUPER = enum.auto()
    """``super()`` in a method of the class ``site``, for the object ``of``."""
    PARTIAL = enum.auto()
    """What ``functools.partial`` returned at ``site``; the flow knows its function and arguments as items."""
    UNKNOWN = enum.auto()
    """Anything: ``name`` is the reason why nothing is known, in the user's words."""
    UNBOUND = enum.auto()
    """The name may have no value here."""

    # That of a member's name is computed in Python, and sorts are looked up in sets all the time.
    __hash__ = int.__hash__


@dataclass(init=False, eq=False, slots=True)
class Value:
    """One thing that an expression may be.

    So many are made that a frozen class would take a twentieth of all the time.
    """

    sort: Final[Sort]
    name: Final[str]
    site: Final[ast.AST | None]
    of: Final[Value | None]
    _hash: int = field(init=False, repr=False, compare=False)

    def __init__(self, sort: Sort, name: str = "", site: ast.AST | None = None, of: Value | None = None) -> None:
        self.sort = sort
        self.name = name
        self.site = site
        self.of = of
        # Texts and nodes hash otherwise in each run, and so would sets of values be in another order in each.
        line, column = (0, 0) if site is None else _place(site)
        self._hash = hash((sort, _text_hash(name), line, column, 0 if of is None else hash(of)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Value)
            and self._hash == other._hash
            and self.sort is other.sort
            and self.name == other.name
            and self.site is other.site
            and self.of == other.of
        )


class Literal(Value):
    """A constant; every value of the sort ``LITERAL`` is one."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        super().__init__(Sort.LITERAL, text)

    @property
    def value(self) -> object:
        """The constant itself."""
        return _constant(self.name)


def _place(node: ast.AST) -> tuple[int, int]:
    """Line and column; none of a module."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


@lru_cache(maxsize=4096)
def _text_hash(text: str) -> int:
    return crc32(text.encode(errors="surrogatepass"))


@lru_cache(maxsize=4096)
def _constant(text: str) -> object:
    return ast.literal_eval(text)


Values: TypeAlias = frozenset[Value]

NOTHING: Values = frozenset()
"""Not known yet, or never there: the bottom of the lattice."""
PLAIN: Values = frozenset({Value(Sort.PLAIN)})
CONFIGURATION: Values = frozenset({Value(Sort.CHOICE, "config")})
TENSOR: Values = frozenset({Value(Sort.TENSOR)})
NUMBER: Values = frozenset({Value(Sort.PLAIN, "a number")})
TENSOR_SORTS = frozenset({Sort.BATCH, Sort.HOST, Sort.MOVED, Sort.TENSOR})
NONE = Literal("None")
UNBOUND = Value(Sort.UNBOUND)

ANY = "*"
"""The key of a container, or the attribute of an object, under which all of them are joined."""
UNKNOWN_KEY = None
"""The key of a container under which items of unknown position stand: appended ones, say."""


@lru_cache(maxsize=4096)
def unknown(reason: str) -> Values:
    """The top of the lattice, with its reason."""
    return frozenset({Value(Sort.UNKNOWN, reason)})


@lru_cache(maxsize=4096)
def external(name: str) -> Values:
    """The library's thing of that qualified name."""
    return frozenset({Value(Sort.EXTERNAL, name)})


def text_starting(start: str) -> Values:
    """A text of which only the start is known: ``f"cuda:{rank}"``."""
    return frozenset({Value(Sort.PLAIN, f"{start!r}…")})


def leading_text(values: Values) -> str | None:
    """What the one text that the values are starts with; None where they are anything else."""
    (value,) = values if len(values) == 1 else (NONE,)
    if isinstance(value, Literal):
        return value.value if isinstance(value.value, str) else None
    if value.sort is Sort.PLAIN and value.name.endswith("…"):
        return str(_constant(value.name.removesuffix("…")))
    return None


def instance(class_: ast.ClassDef, site: ast.AST | None = None) -> Value:
    """An object of the project's class: the one that the call ``site`` made, or whichever."""
    return Value(Sort.INSTANCE, class_.name, site, Value(Sort.CLASS, class_.name, class_))


def class_of(value: Value) -> ast.ClassDef | None:
    """The project's class that the value is, or an object of."""
    class_ = value.of.site if value.sort is Sort.INSTANCE and value.of is not None else value.site
    return class_ if isinstance(class_, ast.ClassDef) and value.sort in {Sort.INSTANCE, Sort.CLASS} else None


_MOST = 40
"""Of constants, and of other values: more in one place are data, or everything that a helper function is ever given."""
_LITERAL, _UNKNOWN = Sort.LITERAL, Sort.UNKNOWN
_TOO_MANY = Value(Sort.UNKNOWN, "a value may be one of very many things")


def joined(*several: Values) -> Values:
    """The join of the lattice: every value of the sets, as long as there are not too many.

    Constants beside other plain objects are but plain objects. Of the reasons why something is unknown only the first
    by the alphabet is kept: one is as good as many, which would travel through the script one by one.
    """
    union = NOTHING
    for values in several:
        if values:
            union = union | values if union else values
    if len(union) < 2:  # noqa: PLR2004 - one value needs no choice
        return union
    if _TOO_MANY in union:
        return frozenset({_TOO_MANY})
    literals, reasons = _told_apart(union)
    if len(union) - len(literals) - len(reasons) > _MOST:
        return frozenset({_TOO_MANY})
    if len(reasons) > 1:
        union = union.difference(reasons) | {min(reasons, key=lambda each: each.name)}
    if len(literals) > _MOST or (literals and union >= PLAIN):
        union = union.difference(each for each in literals if each != NONE) | PLAIN
    return union


def _told_apart(values: Values) -> tuple[list[Value], list[Value]]:
    """The constants among the values, and the reasons why something is unknown."""
    literals: list[Value] = []
    reasons: list[Value] = []
    for each in values:
        if each.sort is _LITERAL:
            literals.append(each)
        elif each.sort is _UNKNOWN:
            reasons.append(each)
    return literals, reasons


def without_none(values: Values) -> Values:
    """The values but ``None`` and "no value": ``self.optimizer = None`` says nothing about the optimizer."""
    return frozenset(each for each in values if each != NONE and each.sort is not Sort.UNBOUND)


def library_names(values: Values) -> frozenset[str]:
    """The qualified names of the libraries' modules, classes and functions among the values."""
    return frozenset(each.name for each in values if each.sort is Sort.EXTERNAL)


def in_order(values: Iterable[Value]) -> list[Value]:
    """The values in the order of the text: sets have none, and what is said first must not be chance."""
    return sorted(
        values,
        key=lambda each: (getattr(each.site, "lineno", 0), getattr(each.site, "col_offset", 0), each.sort, each.name),
    )


def why_unknown(values: Values) -> str | None:
    """The reason why something in the set is unknown, or None where all of it is known."""
    return min((each.name for each in values if each.sort is Sort.UNKNOWN), default=None)


def combined(operands: Values) -> Values:
    """What an operation on these yields: a tensor where one of them is, unknown where one of them is, else plain."""
    found = {each for each in operands if each.sort in {Sort.UNKNOWN, Sort.CHOICE}}
    if any(each.sort is Sort.MOVED for each in operands):
        return frozenset({*found, Value(Sort.MOVED)})
    on_host = {each for each in operands if each.sort in {Sort.BATCH, Sort.HOST} and each.of is not None}
    if on_host:
        return frozenset({*found, *(Value(Sort.HOST, of=each.of) for each in on_host)})
    if any(each.sort in TENSOR_SORTS for each in operands):
        return frozenset({*found, Value(Sort.TENSOR)})
    return frozenset(found) or (PLAIN if operands else NOTHING)


_DEEPEST_CHOICE = 3


def path(choice: Value, name: str) -> str:
    """What an attribute of a choice is called; ``cfg.train.loader`` names whatever is below it well enough."""
    return choice.name if choice.name.count(".") == _DEEPEST_CHOICE - 1 else f"{choice.name}.{name}"


def is_configuration(value: Value) -> bool:
    """Whether it is an object that files and the command line fill, or a part of one: ``cfg = CfgNode()``."""
    return value.sort is Sort.CHOICE and value.name.partition(".")[0] == "config"


def keys_of(values: Values) -> frozenset[object]:
    """The keys that an index may be: texts and numbers from 0, ``UNKNOWN_KEY`` for all others."""
    found = set()
    for each in values:
        key = each.value if isinstance(each, Literal) else UNKNOWN_KEY
        known = (isinstance(key, str) and key != ANY) or (isinstance(key, int) and key >= 0)
        found.add(key if known else UNKNOWN_KEY)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The evaluated arguments of one call."""

    positional: tuple[Values, ...] = ()
    keywords: Mapping[str, Values] = field(default_factory=dict)
    rest: Values = NOTHING
    """What further positional arguments may be: the items of a ``*`` whose number is not known."""
    unknown_keywords: bool = False
    """Whether there may be more keywords, from a ``**`` whose keys are not all known."""

    def get(self, position: int, name: str) -> Values:
        """The argument given at that position (from 0) or by that name; nothing if it is not given."""
        if name in self.keywords:
            return self.keywords[name]
        return self.positional[position] if 0 <= position < len(self.positional) else self.rest

    def all(self) -> Values:
        """All arguments, joined."""
        return joined(self.rest, *self.positional, *self.keywords.values())

    def after(self, positional: Sequence[Values], keywords: Mapping[str, Values]) -> Arguments:
        """These arguments after others that were given earlier."""
        return Arguments(
            (*positional, *self.positional), {**keywords, **self.keywords}, self.rest, self.unknown_keywords
        )


NO_ARGUMENTS = Arguments()
