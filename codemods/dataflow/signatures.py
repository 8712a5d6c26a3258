"""The parameters of a function, and which arguments of a call they are given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.source import kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.source import Callee


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """What a call is given, by position or by name; ``*`` and ``**`` as they stand there."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def argument_of(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """What a call gives a parameter of that name; by position, from 0, where it is said which; None where nothing.

    The function is not asked: it is a library's.
    """
    by_name = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if by_name is not None or position is None:
        return by_name
    return call.args[position] if position < len(call.args) else None


class Binding(NamedTuple):
    """The arguments of a call by the names of the parameters that are given them."""

    given: Mapping[str, ast.expr]
    is_whole: bool
    """Whether no ``*`` or ``**`` may give other parameters something, or these something else."""
    rest: tuple[ast.expr, ...] = ()
    """The arguments, or containers of some, of which it is not known which parameter gets them, or which have none."""
    named: tuple[str, ...] = ()
    """The parameters that a call may give something, each by its name."""
    stars: tuple[str, ...] = ()
    """``*args`` and ``**kwargs``, which collect what has no parameter of its own."""

    def get(self, name: str) -> ast.expr | None:
        """The argument for a parameter; None where none is given, as far as it is known."""
        return self.given.get(name)

    def may_give(self, name: str) -> bool:
        """Whether the call may give the parameter something else than its default."""
        return not self.is_whole or name in self.given

    def candidates(self, name: str) -> Sequence[ast.expr]:
        """What a parameter may be given, or a container of it; nothing where it surely has its default."""
        if name in self.given:
            return (self.given[name],)
        return self.rest if not self.is_whole or name in self.stars else ()

    def filled(self) -> Iterator[tuple[str, Sequence[ast.expr]]]:
        """Each parameter that may be given something, and what that may be."""
        several = ((name, self.candidates(name)) for name in (*self.named, *self.stars))
        return ((name, candidates) for name, candidates in several if candidates)


class Signature(NamedTuple):
    """What a function takes."""

    positional: tuple[ast.arg, ...]
    """What may be given by position; most of it by name, too."""
    keyword_only: tuple[ast.arg, ...]
    vararg: ast.arg | None
    kwarg: ast.arg | None
    defaults: Mapping[str, ast.expr]

    @property
    def named(self) -> tuple[ast.arg, ...]:
        """The parameters that have a name of their own, without ``*args`` and ``**kwargs``."""
        return (*self.positional, *self.keyword_only)

    @property
    def stars(self) -> tuple[ast.arg, ...]:
        """``*args`` and ``**kwargs``, where the function has them."""
        return tuple(each for each in (self.vararg, self.kwarg) if each is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parameters, ``*args`` and ``**kwargs`` among them."""
        return tuple(each.arg for each in (*self.named, *self.stars))

    @property
    def positional_names(self) -> tuple[str, ...]:
        """The names of what may be given by position, in that order."""
        return tuple(each.arg for each in self.positional)

    def bound(self) -> Signature:
        """What is left of it when the first argument is given: a method that its object binds."""
        return Signature(self.positional[1:], self.keyword_only, self.vararg, self.kwarg, self.defaults)

    def bind(self, call: ast.Call) -> Binding:
        """Which argument of a call each parameter is given, as far as they are given one by one.

        A ``*`` gives an unknown number of positional arguments, so that those from it on are not known; a ``**`` may
        give whatever is not given otherwise. What the function cannot take is left out.
        """
        plain: list[ast.expr] = []
        for each in call.args:
            if isinstance(each, ast.Starred):
                break
            plain.append(each)
        given = dict(zip(self.positional_names, plain, strict=False))
        names = {each.arg for each in self.named}
        given |= {each.arg: each.value for each in call.keywords if each.arg is not None and each.arg in names}
        is_whole = len(plain) == len(call.args) and all(each.arg is not None for each in call.keywords)
        rest = tuple(each for each in _arguments(call) if each not in given.values())
        return Binding(given, is_whole, rest, tuple(each.arg for each in self.named), self._star_names)

    def may_take(self, call: ast.Call) -> bool:
        """Whether Python does not refuse the arguments of a call: too many, too few, or of names that are none here."""
        if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
            return True
        given = {*self.positional_names[: len(call.args)], *(each.arg for each in call.keywords)}
        demanded = {each.arg for each in self.named} - self.defaults.keys()
        is_too_much = len(call.args) > len(self.positional) and self.vararg is None
        is_named = self.kwarg is not None or given <= {each.arg for each in self.named}
        return not is_too_much and is_named and demanded <= given

    def bind_none(self, call: ast.Call) -> Binding:
        """The same of a call of which it is not known which parameters get its arguments."""
        names = tuple(each.arg for each in self.named)
        return Binding({}, is_whole=False, rest=tuple(_arguments(call)), named=names, stars=self._star_names)

    @property
    def _star_names(self) -> tuple[str, ...]:
        return tuple(each.arg for each in self.stars)


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    """What a call gives, without stars."""
    yield from (each.value if isinstance(each, ast.Starred) else each for each in call.args)
    yield from (each.value for each in call.keywords)


@kept
def signature(function: Callee) -> Signature:
    """What a function, method or lambda takes; of a method, its object is the first parameter."""
    given = function.args
    positional = (*given.posonlyargs, *given.args)
    defaults = dict(zip((each.arg for each in positional[::-1]), given.defaults[::-1], strict=False))
    defaults |= {
        parameter.arg: default
        for parameter, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if default is not None
    }
    return Signature(positional, tuple(given.kwonlyargs), given.vararg, given.kwarg, defaults)
