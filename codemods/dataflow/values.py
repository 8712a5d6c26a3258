"""What an expression may be: the finite sets of values that the facts are made of."""

from __future__ import annotations

import ast
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codemods.dataflow.source import Callee


class Value:
    """One thing that an expression may be; each sort of thing is a class of its own, and never changes."""

    __slots__ = ("_hash", "_key", "name", "site")

    order: ClassVar[int]
    """Where values of the sort stand among others that are made at the same place."""

    name: str
    """What it is called; what that means depends on the sort."""
    site: ast.AST | None
    """Where it is made or defined, as far as that tells it from others."""

    def __init__(self, name: str = "", site: ast.AST | None = None, of: Value | None = None) -> None:
        self.name = name
        self.site = site
        self._key = name, site, of
        # Texts and nodes hash otherwise in each run, and so would sets of values be in another order in each.
        line, column = (0, 0) if site is None else _place(site)
        self._hash = hash((self.order, _text_hash(name), line, column, 0 if of is None else hash(of)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Value)
            and self._hash == other._hash
            and type(self) is type(other)
            and self._key == other._key
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._key!r}"


class External(Value):
    """A module, class or function of a library: ``name`` is its qualified name."""

    __slots__ = ()
    order = 1

    def __init__(self, name: str) -> None:
        super().__init__(name)


class Function(Value):
    """A function of the project: ``site`` is its definition."""

    __slots__ = ()
    order = 2
    site: Callee

    def __init__(self, name: str, site: Callee) -> None:
        super().__init__(name, site)


class Method(Value):
    """A method of ``of``: ``site`` is its definition where it is the project's, ``name`` its name."""

    __slots__ = ("of",)
    order = 3
    site: Callee | None

    def __init__(self, name: str, site: Callee | None, of: Value) -> None:
        super().__init__(name, site, of)
        self.of: Final = of


class Class(Value):
    """A class of the project: ``site`` is its definition."""

    __slots__ = ()
    order = 4
    site: ast.ClassDef

    def __init__(self, name: str, site: ast.ClassDef) -> None:
        super().__init__(name, site)


class Instance(Value):
    """An object of the project's class ``of``: ``site`` is the call that made it, None for ``self``."""

    __slots__ = ("of",)
    order = 5

    def __init__(self, name: str, site: ast.AST | None, of: Class) -> None:
        super().__init__(name, site, of)
        self.of: Final = of


class Made(Value):
    """What a call of the library's ``name`` returned, as a part of ``of`` if any: ``site`` is the call."""

    __slots__ = ("of",)
    order = 6

    def __init__(self, name: str, site: ast.AST | None = None, of: Value | None = None) -> None:
        super().__init__(name, site, of)
        self.of: Final = of


class Literal(Value):
    """A constant: ``name`` is its ``repr``."""

    __slots__ = ()
    order = 7

    def __init__(self, text: str) -> None:
        super().__init__(text)

    @property
    def value(self) -> object:
        """The constant itself."""
        return _constant(self.name)


class Container(Value):
    """A tuple, list, dict, set or iterator (``name``) made at ``site``; the flow knows its items."""

    __slots__ = ()
    order = 8
    site: ast.AST

    def __init__(self, kind: str, site: ast.AST) -> None:
        super().__init__(kind, site)


class Choice(Value):
    """What the user chooses when the script is started: ``name`` says how (``args.workers``)."""

    __slots__ = ()
    order = 9

    def __init__(self, name: str) -> None:
        super().__init__(name)


class Tensor(Value):
    """A tensor; ``of`` is the loader it comes from, as far as that is known."""

    __slots__ = ("of",)

    def __init__(self, site: ast.AST | None = None, of: Value | None = None) -> None:
        super().__init__("", site, of)
        self.of: Final = of


class Batch(Tensor):
    """A batch of the loader ``of``, or a part or a view of one, on the host."""

    __slots__ = ()
    order = 10

    def __init__(self, of: Value) -> None:
        super().__init__(None, of)


class HostTensor(Tensor):
    """A tensor that was newly made on the host, in pageable memory."""

    __slots__ = ()
    order = 11


class MovedTensor(Tensor):
    """A tensor that was moved to, or made on, a device at ``site``."""

    __slots__ = ()
    order = 12


class SomeTensor(Tensor):
    """A tensor of which nothing more is known."""

    __slots__ = ()
    order = 13

    def __init__(self) -> None:
        super().__init__()


class Plain(Value):
    """A number, text or other object that is none of the others; ``name`` is what is known of it, if anything."""

    __slots__ = ()
    order = 14

    def __init__(self, name: str = "") -> None:
        super().__init__(name)


class Super(Value):
    """``super()`` in a method of the class ``site``, for the object ``of``."""

    __slots__ = ("of",)
    order = 15
    site: ast.ClassDef

    def __init__(self, site: ast.ClassDef, of: Instance) -> None:
        super().__init__("super()", site, of)
        self.of: Final = of


class Partial(Value):
    """What ``functools.partial`` returned at ``site``; the flow knows its function and arguments as items."""

    __slots__ = ()
    order = 16
    site: ast.AST

    def __init__(self, site: ast.AST) -> None:
        super().__init__("functools.partial()", site)


class Unknown(Value):
    """Anything: ``name`` is the reason why nothing is known, in the user's words."""

    __slots__ = ()
    order = 17

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Unbound(Value):
    """The name may have no value here."""

    __slots__ = ()
    order = 18

    def __init__(self) -> None:
        super().__init__()


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
PLAIN: Values = frozenset({Plain()})
CONFIGURATION: Values = frozenset({Choice("config")})
TENSOR: Values = frozenset({SomeTensor()})
NUMBER: Values = frozenset({Plain("a number")})
NONE = Literal("None")
UNBOUND = Unbound()
_NO_VALUE: Values = frozenset({NONE, UNBOUND})

ANY = "*"
"""The key of a container, or the attribute of an object, under which all of them are joined."""
UNKNOWN_KEY = None
"""The key of a container under which items of unknown position stand: appended ones, say."""


@lru_cache(maxsize=4096)
def unknown(reason: str) -> Values:
    """The top of the lattice, with its reason."""
    return frozenset({Unknown(reason)})


@lru_cache(maxsize=4096)
def external(name: str) -> Values:
    """The library's thing of that qualified name."""
    return frozenset({External(name)})


def text_starting(start: str) -> Values:
    """A text of which only the start is known: ``f"cuda:{rank}"``."""
    return frozenset({Plain(f"{start!r}…")})


def leading_text(values: Values) -> str | None:
    """What the one text that the values are starts with; None where they are anything else."""
    (value,) = values if len(values) == 1 else (NONE,)
    if isinstance(value, Literal):
        return value.value if isinstance(value.value, str) else None
    if isinstance(value, Plain) and value.name.endswith("…"):
        return str(_constant(value.name.removesuffix("…")))
    return None


def instance(class_: ast.ClassDef, site: ast.AST | None = None) -> Instance:
    """An object of the project's class: the one that the call ``site`` made, or whichever."""
    return Instance(class_.name, site, Class(class_.name, class_))


def owner_of(value: Value) -> Value | None:
    """What it is a method, a part or an object of; None for what is nothing of the kind."""
    return value.of if isinstance(value, (Method, Instance, Made, Tensor, Super)) else None


def class_of(value: Value) -> ast.ClassDef | None:
    """The project's class that the value is, or an object of."""
    class_ = value.of if isinstance(value, Instance) else value
    return class_.site if isinstance(class_, Class) else None


_MOST_CONSTANTS = 40
"""More in one place are data."""
_MOST_OTHERS = 80
"""More in one place are everything that a helper function is ever given. Sixty models from which an option chooses are
not."""
_TOO_MANY = Unknown("a value may be one of very many things")


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
    if len(union) - len(literals) - len(reasons) > _MOST_OTHERS:
        return frozenset({_TOO_MANY})
    if len(reasons) > 1:
        union = union.difference(reasons) | {min(reasons, key=lambda each: each.name)}
    if len(literals) > _MOST_CONSTANTS or (literals and union >= PLAIN):
        union = union.difference(each for each in literals if each != NONE) | PLAIN
    return union


def _told_apart(values: Values) -> tuple[list[Value], list[Value]]:
    """The constants among the values, and the reasons why something is unknown."""
    literals: list[Value] = []
    reasons: list[Value] = []
    for each in values:
        if isinstance(each, Literal):
            literals.append(each)
        elif isinstance(each, Unknown):
            reasons.append(each)
    return literals, reasons


def without_none(values: Values) -> Values:
    """The values but ``None`` and "no value": ``self.optimizer = None`` says nothing about the optimizer."""
    return values if values.isdisjoint(_NO_VALUE) else values - _NO_VALUE


def library_names(values: Values) -> frozenset[str]:
    """The qualified names of the libraries' modules, classes and functions among the values."""
    return frozenset(each.name for each in values if isinstance(each, External))


def in_order(values: Iterable[Value]) -> list[Value]:
    """The values in the order of the text: sets have none, and what is said first must not be chance."""
    return sorted(
        values,
        key=lambda each: (getattr(each.site, "lineno", 0), getattr(each.site, "col_offset", 0), each.order, each.name),
    )


def why_unknown(values: Values) -> str | None:
    """The reason why something in the set is unknown, or None where all of it is known."""
    return min((each.name for each in values if isinstance(each, Unknown)), default=None)


def combined(operands: Values) -> Values:
    """What an operation on these yields: a tensor where one of them is, unknown where one of them is, else plain."""
    found = {each for each in operands if isinstance(each, (Unknown, Choice))}
    if any(isinstance(each, MovedTensor) for each in operands):
        return frozenset({*found, MovedTensor()})
    on_host = {each for each in operands if isinstance(each, (Batch, HostTensor)) and each.of is not None}
    if on_host:
        return frozenset({*found, *(HostTensor(of=each.of) for each in on_host)})
    if any(isinstance(each, Tensor) for each in operands):
        return frozenset({*found, SomeTensor()})
    return frozenset(found) or (PLAIN if operands else NOTHING)


_DEEPEST_CHOICE = 3


def path(choice: Value, name: str) -> str:
    """What an attribute of a choice is called; ``cfg.train.loader`` names whatever is below it well enough."""
    return choice.name if choice.name.count(".") == _DEEPEST_CHOICE - 1 else f"{choice.name}.{name}"


def is_configuration(value: Value) -> bool:
    """Whether it is an object that files and the command line fill, or a part of one: ``cfg = CfgNode()``."""
    return isinstance(value, Choice) and value.name.partition(".")[0] == "config"


def keys_of(values: Values) -> frozenset[object]:
    """The keys that an index may be: texts and numbers from 0, ``UNKNOWN_KEY`` for all others."""
    found = set()
    for each in values:
        key = each.value if isinstance(each, Literal) else UNKNOWN_KEY
        known = (isinstance(key, str) and key != ANY) or (isinstance(key, int) and key >= 0)
        found.add(key if known else UNKNOWN_KEY)
    return frozenset(found)


class Arguments(NamedTuple):
    """The evaluated arguments of one call."""

    positional: tuple[Values, ...] = ()
    keywords: Mapping[str, Values] = MappingProxyType({})
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
