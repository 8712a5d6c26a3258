"""Where the scaler is made, after all optimizers and before every use, and how it gets to where it is used."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from codemods.amp.reasons import LeftError
from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.placement import dominates
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import walk
from codemods.facts.fixed_attributes import why_no_more
from codemods.facts.reach import own, stores
from codemods.facts.reason import HERE, at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from codemods.dataflow.source import Callee, FunctionNode
    from codemods.facts.reach import Reach
    from codemods.facts.script import Script

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_T = TypeVar("_T")
_KEPT_APART = "the optimizers are kept in different places"
_NO_PLACE = "no-place-for-scaler"


class Home(NamedTuple):
    """Where the scaler is made, and how it gets to where it is used."""

    anchors: tuple[ast.stmt, ...]
    """The statements after which it is made."""
    owner: ast.ClassDef | None = None
    """The class whose attribute it is."""
    passing: tuple[ast.Call, ...] = ()
    """The calls that are to pass it on."""
    receivers: tuple[FunctionNode, ...] = ()
    """The functions that are to take it as a parameter."""
    keepers: tuple[FunctionNode, ...] = ()
    """Those that take it only to save its state, or to load it."""
    informing: tuple[ast.Call, ...] = ()
    """The calls that are to pass on which number format there is."""
    informed: tuple[FunctionNode, ...] = ()
    """The functions that are to take it as a parameter."""


class Homes:
    """Finds the home of a scaler.

    It follows the optimizers that it scales for: as a local or global name it stands beside theirs, as an attribute of
    ``self`` beside theirs in their class, as a parameter it is passed wherever they are.
    """

    def __init__(self, script: Script, reach: Reach) -> None:
        self._script = script
        self._reach = reach
        self._flow = script.flow
        self._module = script.module

    def find(
        self, optimizers: Sequence[ast.expr], uses: Sequence[ast.stmt], through: Sequence[FunctionNode] = ()
    ) -> Home:
        """The home for these optimizers.

        Args:
            optimizers: The optimizers, as they are written where they step.
            uses: The statements that are to use the scaler.
            through: The functions whose parameters they are after this.

        Raises:
            LeftError: when there is no place for it.
        """
        names = tuple(dict.fromkeys(name for each in optimizers for name in self._names(each)))
        in_class = {"." in each for each in names}
        if in_class == {True}:
            return self._in_class(names, uses)
        scopes = {self._scope(self._module.function(optimizers[0]), name) for name in names}
        if len(in_class) > 1 or len(scopes) > 1:
            raise LeftError(_NO_PLACE, _KEPT_APART)
        (scope,) = scopes
        if scope is not None and set(names) & {*_parameters(scope)}:
            return self._through_parameters(scope, names, uses, through)
        return self._in_scope(scope, names, uses)

    def handed_on(self, home: Home, optimizer: ast.expr, use: ast.stmt) -> Home:
        """The same home, from where the scaler is also handed to the function of a statement that saves or loads it.

        Raises:
            LeftError: when it cannot be.
        """
        other = self.find([optimizer], [use])
        keepers = tuple(each for each in other.receivers if each not in home.receivers)
        takers = {*home.receivers, *home.keepers, *keepers}
        for call in other.passing:
            function = self._module.function(call)
            owner = self._flow.owner(function) if isinstance(function, _FUNCTIONS) else None
            is_seen = function in takers or (owner is not None and owner is home.owner)
            if not is_seen and not any(
                dominates(self._module, each, self._module.statement(call)) for each in home.anchors
            ):
                raise LeftError(_NO_PLACE, f"the scaler would not be seen in {HERE}", at(self._module, call))
        passing = _unique([*home.passing, *other.passing])
        return home._replace(passing=passing, keepers=_unique([*home.keepers, *keepers]))

    def informed(
        self,
        home: Home,
        function: Callee | None,
        is_seen: Callable[[Home, ast.stmt], bool],
        through: Sequence[Callee | None] = (),
    ) -> Home:
        """The same home, from where the function is also told which number format there is.

        Args:
            home: The home.
            function: The function.
            is_seen: Whether a statement sees the number format from where the home is.
            through: The functions that are told as well, after this one.

        Raises:
            LeftError: when it cannot be.
        """
        if not isinstance(function, _FUNCTIONS):
            raise LeftError(_NO_PLACE, "the number format cannot be handed on")
        through = (*through, function)
        for call in self._calls_to(function):
            caller = self._module.function(call)
            is_told = caller in home.informed or caller in through
            if not is_told and not is_seen(home, self._module.statement(call)):
                home = self.informed(home, caller, is_seen, through)
            home = home._replace(informing=_unique([*home.informing, call]))
        return home._replace(informed=_unique([*home.informed, function]))

    def _names(self, node: ast.expr) -> Iterator[str]:
        """The names and attributes of ``self`` that the expression stands for.

        A loop's name stands for what the loop runs over.
        """
        if isinstance(node, ast.Name):
            loops = own(self._module.function(node) or self._module.tree, ast.For)
            over = next((each.iter for each in loops if ast.unparse(each.target) == node.id), None)
            yield from self._names(over) if over is not None else [node.id]
        elif isinstance(node, (ast.List, ast.Tuple)):
            for each in node.elts:
                yield from self._names(each)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and self._is_self(node.value):
            yield ast.unparse(node)
        else:
            raise LeftError(_NO_PLACE, f"the optimizer is not a plain name ({HERE})", at(self._module, node))

    def _is_self(self, node: ast.Name) -> bool:
        function = self._module.function(node)
        is_method = isinstance(function, _FUNCTIONS) and self._flow.owner(function) is not None
        return is_method and function is not None and signature(function).positional_names[:1] == (node.id,)

    def _scope(self, function: Callee | None, name: str) -> Callee | None:
        """The function whose local name it is; None for a module's."""
        if function is not None and name in declared_outer(function):
            raise LeftError(_NO_PLACE, _KEPT_APART)
        return function if function is not None and name in bound_names(function) else None

    # Beside the optimizers.

    def _in_class(self, names: Sequence[str], uses: Sequence[ast.stmt]) -> Home:
        functions = [self._module.function(each) for each in uses]
        owners = {self._flow.owner(each) if isinstance(each, _FUNCTIONS) else None for each in functions}
        (owner, *others) = owners
        if owner is None or others:
            raise LeftError(_NO_PLACE, "the optimizer is used outside its class")
        closed = why_no_more(self._flow, owner, _NO_PLACE)
        if closed is not None:
            raise LeftError.of(closed)
        code = [each for each in walk(owner) if isinstance(each, _FUNCTIONS)]
        return Home((self._after(names, code, uses),), owner)

    def _in_scope(self, scope: Callee | None, names: Sequence[str], uses: Sequence[ast.stmt]) -> Home:
        if scope is not None:
            return Home((self._after(names, [scope], uses),))
        return Home((self._after(names, [self._module.tree], [*uses, *self._calls_of(uses)]),))

    def _calls_of(self, uses: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        """The statements at module level that run the functions in which the uses stand."""
        functions = {self._module.function(each) for each in uses} - {None}
        for call in self._module.nodes(ast.Call) if functions else ():
            if self._module.function(call) is None and functions & self._reach.functions([call]):
                yield self._module.statement(call)

    def _after(self, names: Sequence[str], code: Iterable[ast.AST], uses: Sequence[ast.stmt]) -> ast.stmt:
        """The statement in the code after which each of the names has its optimizer, and none of the uses has run."""
        writes: dict[str, list[ast.stmt]] = {name: [] for name in names}
        for part in code:
            for node in stores(part):
                if ast.unparse(node) in writes and not _writes_none(self._module.statement(node)):
                    writes[ast.unparse(node)].append(self._module.statement(node))
        scopes = {self._module.function(each) for found in writes.values() for each in found}
        if not all(writes.values()):
            raise LeftError(_NO_PLACE, "where the optimizer is made is not seen")
        if len(scopes) > 1:
            raise LeftError(_NO_PLACE, "the optimizers are made in different functions")
        (scope,) = scopes
        anchor = self._after_all(writes, [each for each in uses if self._module.function(each) is scope])
        if anchor is None:
            raise LeftError(_NO_PLACE, "no place is after all optimizers and before all their uses")
        return anchor

    def _after_all(self, writes: Mapping[str, Sequence[ast.stmt]], uses: Sequence[ast.stmt]) -> ast.stmt | None:
        # What is made after the first use is another optimizer for the same scaler.
        first = min((each.lineno for each in uses), default=None)
        before = [[each for each in found if first is None or each.lineno < first] for found in writes.values()]
        return after_all(self._script, [each for found in before for each in found], uses) if all(before) else None

    # Through parameters.

    def _through_parameters(
        self, function: Callee, names: Sequence[str], uses: Sequence[ast.stmt], through: Sequence[FunctionNode]
    ) -> Home:
        """The scaler becomes a parameter too, and every call passes it."""
        if not isinstance(function, _FUNCTIONS):
            raise LeftError(_NO_PLACE, "the optimizer comes through a lambda")
        if function in through:
            raise LeftError(_NO_PLACE, f"{function.name}() hands its optimizer to itself")
        if not set(names) <= {*_parameters(function)}:
            raise LeftError(_NO_PLACE, _KEPT_APART)
        if any(self._module.function(each) is not function for each in uses):
            raise LeftError(_NO_PLACE, f"the optimizer is used outside {function.name}()")
        calls = self._calls_to(function)
        found = self._homes_of({call: self._given(function, call, names) for call in calls}, (*through, function))
        (owner, *others) = {each.owner for each in found}
        if others:
            raise LeftError(_NO_PLACE, f"the calls of {function.name}() keep their optimizers in different ways")
        return Home(
            anchors=_unique(anchor for each in found for anchor in each.anchors),
            owner=owner,
            passing=_unique([*calls, *(call for each in found for call in each.passing)]),
            receivers=_unique([function, *(receiver for each in found for receiver in each.receivers)]),
        )

    def _calls_to(self, function: FunctionNode) -> Sequence[ast.Call]:
        """All calls of a function that is to get another parameter.

        Raises:
            LeftError: when there may be others.
        """
        calls = self._flow.callers(function)
        if not calls:
            text = f"the optimizer is a parameter of {function.name}(), which nothing in this file calls"
            raise LeftError(_NO_PLACE, text)
        if self._flow.escapes(function) or not self._is_only_called(function, calls):
            text = f"{function.name}() is handed to other code, which would have to pass the scaler"
            raise LeftError(_NO_PLACE, text)
        foreign = [each for each in self._flow.modules if each is not self._module and any(map(each.holds, calls))]
        if foreign:
            text = f"{function.name}() is called in {foreign[0].path}, which would have to pass the scaler"
            raise LeftError(_NO_PLACE, text)
        return calls

    def _given(self, function: FunctionNode, call: ast.Call, names: Sequence[str]) -> list[ast.expr]:
        """What the call passes as these parameters."""
        binding = self._flow.bind(function, call)
        given = [binding.get(name) for name in names]
        if not binding.is_whole or not all(given):
            text = f"not every call of {function.name}() passes the optimizer in a way that can be seen"
            raise LeftError(_NO_PLACE, text)
        return [each for each in given if each is not None]

    def _homes_of(self, calls: Mapping[ast.Call, Sequence[ast.expr]], through: Sequence[FunctionNode]) -> list[Home]:
        """One home for all calls where there is one, else one for each."""
        places = {call: self._module.statement(call) for call in calls}
        if len({self._module.function(call) for call in calls}) == 1:
            try:
                return [self.find([each for given in calls.values() for each in given], [*places.values()], through)]
            except LeftError:
                pass  # Optimizers that are made and used one after the other have a scaler each.
        return [self.find(given, [places[call]], through) for call, given in calls.items()]

    def _is_only_called(self, function: FunctionNode, calls: Sequence[ast.Call]) -> bool:
        """Whether the function's name is nowhere used but to call it."""
        mentions: list[ast.expr] = [each for each in self._module.nodes(ast.Name) if each.id == function.name]
        if self._flow.owner(function) is not None:
            mentions = [each for each in self._module.nodes(ast.Attribute) if each.attr == function.name]
        return set(mentions) <= {call.func for call in calls}


def after_all(script: Script, writes: Sequence[ast.stmt], uses: Sequence[ast.stmt]) -> ast.stmt | None:
    """The statement after which all of ``writes`` have run and none of ``uses``; all of them in one function."""
    paths = {each: path(script, each) for each in (*writes, *uses)}
    for level in zip(*paths.values()):  # noqa: B905 - the shortest path is the deepest common suite
        heads = dict(zip(paths, level, strict=True))
        suites = {id(script.module.suite(each)) for each in level}
        if len(suites) > 1:
            return None
        if len(set(level)) > 1 or not uses:
            anchor = max((heads[each] for each in writes), key=lambda each: each.lineno)
            return anchor if all(heads[each].lineno > anchor.lineno for each in uses) else None
    return None


def path(script: Script, statement: ast.stmt) -> list[ast.stmt]:
    """The statements around the statement in its function, from the outside in, and itself."""
    found = [statement]
    for above in script.module.ancestors(statement):
        if isinstance(above, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            break
        if isinstance(above, ast.stmt):
            found.append(above)
    return found[::-1]


def _unique(found: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(found))


def _writes_none(statement: ast.stmt) -> bool:
    """``self.optimizer = None``."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else statement
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _parameters(function: Callee) -> list[str]:
    return [each.arg for each in signature(function).named]
