"""Networks that learn values: targets that are made of what such a network computes itself.

In ``(q(s, a) - (reward + gamma * q_target(s_next).max())) ** 2`` two large numbers are compared that differ by little.
bf16 keeps 8 bits: of values about 300 it tells apart those that differ by 2, and what is learned is lost.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codemods.dataflow.recursion import Answers
from codemods.dataflow.source import FUNCTIONS, last_name, lasting
from codemods.dataflow.values import External, Made, library_names
from codemods.facts.precision.hazards import Hazard
from codemods.facts.reach import is_model_call, own, project_functions, switches_gradients_off
from codemods.facts.reaching import targets
from codemods.library.losses import is_loss_class, is_loss_function, is_regression
from codemods.library.operations import operands, operation

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.training.loss_regions import Phase, Phases

Assignment: TypeAlias = "ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr | ast.For"

_BOTH = 2
_CUTS = frozenset({"detach", "data", "item", "numpy", "tolist"})
_COPIES = frozenset({"torch.tensor", "torch.Tensor", "torch.FloatTensor"})
"""What makes a tensor of numbers, without their graph."""
_PICKS = frozenset({"amax", "amin", "gather", "max", "maximum", "min", "minimum"})
_COLLECTS = frozenset(f"builtins.{name}" for name in ("list", "max", "min", "reversed", "sorted", "sum", "tuple"))
"""Functions of Python that return what they are given, or the sum or one of it."""
_WHAT = "adds to what a network estimates, as Q-learning does, and 16 bits do not tell such values apart:"
_REMEDY = "estimate values in 32 bits"


class _Made(NamedTuple):
    """What of an expression's numbers comes from models."""

    of_model: bool = False
    """Whether a model computes them, or a part of them."""
    is_cut: bool = False
    """Whether that part has no graph."""
    is_scaled: bool = False
    """Whether it is multiplied by something, as by a discount."""
    is_bootstrapped: bool = False
    """Whether it is scaled and added to what no model computes, as to a reward."""
    is_picked: bool = False
    """Whether it is one of several that a model computes: the best one, or that of an action."""

    def __or__(self, other: _Made) -> _Made:
        return _Made(
            self.of_model or other.of_model,
            self.is_cut or other.is_cut,
            self.is_scaled or other.is_scaled,
            self.is_bootstrapped or other.is_bootstrapped,
            self.is_picked or other.is_picked,
        )

    @property
    def is_target(self) -> bool:
        return self.is_bootstrapped and self.is_cut


_NOTHING = _Made()
_Read: TypeAlias = "tuple[str, frozenset[ast.expr] | None]"
"""A name that is read, and the assignments that may have bound it there; None for all of its function."""
_Results: TypeAlias = "Answers[tuple[Callee, frozenset[tuple[str, _Made]]], _Made]"
"""What functions return, by what their parameters are given."""


def bootstrapped(phases: Phases, phase: Phase) -> Hazard | None:
    """Why the networks of the phase need 32 bits: they learn values from such targets, here or in another phase."""
    found = _learning_values(phases)
    if not found or phase.call in found:
        return found.get(phase.call)
    called = phases.called(phase.code)
    others = (each for each in phases.all if each.call in found)
    return next((found[each.call] for each in others if called & phases.called(each.code)), None)


@lasting  # each training iteration asks, in each form
def _learning_values(phases: Phases) -> Mapping[ast.Call, Hazard]:
    """The backwards of losses that compare values with such targets."""
    results: _Results = Answers(lambda asked: _returned(phases, results, *asked), _NOTHING, _Made.__or__)
    found = {each.call: _of_phase(phases, each, results) for each in phases.all}
    return {call: hazard for call, hazard in found.items() if hazard is not None}


def _of_phase(phases: Phases, phase: Phase, results: _Results) -> Hazard | None:
    for module, part in phases.reach.code(phase.module, phase.code or _before(phase)):
        scope = part if isinstance(part, FUNCTIONS) else module.function(part)
        values = _Values(phases, module, scope, results)
        squared = _squared(phases.reach.flow, scope or module.tree)
        for node, one, other in _regressions(phases, part):
            sides = values.of(one), values.of(other)
            # What a loss is given second is its target: where nothing trains its network, few detach it. Some give it
            # first, which is told from an output by what is picked in it.
            is_first = sides[0].is_bootstrapped and sides[0].is_picked and not sides[1].is_bootstrapped
            is_target = isinstance(node, ast.Call) and (sides[1].is_bootstrapped or is_first)
            # Actor and critic that share a network learn together, from one difference that has the graph of both.
            is_shared = node in squared and sides[0].is_bootstrapped is not sides[1].is_bootstrapped
            is_learned = is_target or is_shared or any(each.is_target for each in sides)
            if all(each.of_model for each in sides) and is_learned:
                is_left = sides[0].is_target or is_first or (is_shared and sides[0].is_bootstrapped)
                text = f"{module.code(one if is_left else other)} {_WHAT}"
                return Hazard(module, node, text, remedy=_REMEDY, code="bootstrapped-target")
    return None


def _before(phase: Phase) -> Sequence[ast.stmt]:
    """What runs before a backward in its suite: the loss may be computed before another backward."""
    suite = phase.module.suite(phase.statement)
    return suite[: next(at for at, each in enumerate(suite) if each is phase.statement)]


def _regressions(phases: Phases, part: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """The comparisons of numbers in the code, each with what it compares: ``F.mse_loss(a, b)``, ``a - b``."""
    for call in own(part, ast.Call):
        names = {each.name for each in phases.reach.flow.values(call.func) if isinstance(each, (External, Made))}
        given = [*call.args, *(each.value for each in call.keywords if each.arg in {"input", "target"})]
        if any(map(is_regression, names)) and len(given) >= _BOTH:
            yield call, given[0], given[1]
    for difference in own(part, ast.BinOp):
        if isinstance(difference.op, ast.Sub):
            yield difference, difference.left, difference.right


@lasting  # asked for each statement
def _squared(flow: Flow, part: ast.AST) -> Container[ast.expr]:
    """What the code squares, or names and squares by that name: ``delta = a - b``, ``delta ** 2``."""
    found: set[ast.expr] = set()
    for node in own(part, ast.expr):
        match node:
            case ast.BinOp(base, ast.Pow(), ast.Constant(2)):
                found.add(base)
            case ast.Call(ast.Attribute(base, "pow" | "square")) if operation(flow, node) is not None:
                found.add(node.args[0] if node.args and library_names(flow.values(node.func)) else base)
    names = {each.id for each in found if isinstance(each, ast.Name)}
    given = (each for each in own(part, ast.Assign) if isinstance(each.targets[0], ast.Name))
    return found | {each.value for each in given if each.targets[0].id in names}  # type: ignore[attr-defined]


@dataclass(eq=False)
class _Values:
    """What the expressions of one function, or of a module, are made of."""

    phases: Phases
    module: Module
    scope: Callee | None
    results: _Results
    """What functions return."""
    given: Mapping[str, _Made] = field(default_factory=dict)
    """What the parameters hold."""
    known: dict[_Read, _Made] = field(default_factory=dict, init=False)
    """What the names hold that were asked for so far."""
    asked: list[_Read] = field(default_factory=list, init=False)
    """Those of which it is not yet certain."""

    @cached_property
    def _assignments(self) -> Mapping[str, Sequence[tuple[Assignment, ast.expr, ast.expr]]]:
        """What the scope assigns to each name, or to its elements: the statement, its target, and the value."""
        found: defaultdict[str, list[tuple[Assignment, ast.expr, ast.expr]]] = defaultdict(list)
        for statement in own(self._tree, ast.AST):
            if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target, value in (pair for each in targets for pair in _pairs(each, statement.value)):
                if value is not None:
                    found[_bound_name(target)].append((statement, target, value))
        for loop in own(self._tree, ast.For):
            for target, value in _taken(self.phases.reach.flow, loop.target, loop.iter):
                found[_bound_name(target)].append((loop, target, value))
        return found

    @cached_property
    def _comprehended(self) -> Mapping[ast.Name, ast.expr]:
        """The names that comprehensions bind for themselves, where they are read: what the numbers are taken from."""
        found: dict[ast.Name, ast.expr] = {}
        for node in own(self._tree, ast.expr):  # the inner ones come later
            if not isinstance(node, (ast.ListComp, ast.GeneratorExp)):
                continue
            bound: dict[str, ast.expr] = {}
            for each in node.generators:
                found.update((name, bound[name.id]) for name in own(each.iter, ast.Name) if name.id in bound)
                taken = _taken(self.phases.reach.flow, each.target, each.iter)
                bound.update((_bound_name(target), value) for target, value in taken)
            found.update((name, bound[name.id]) for name in own(node.elt, ast.Name) if name.id in bound)
        return found

    @cached_property
    def _put_in(self) -> Mapping[str, Sequence[ast.expr]]:
        """What the scope puts into the list of each name."""
        found: defaultdict[str, list[ast.expr]] = defaultdict(list)
        for call in own(self._tree, ast.Call):
            match call.func:
                case ast.Attribute(ast.Name(kept), "append" | "insert" | "extend") if call.args:
                    found[kept].append(call.args[-1])
        return found

    @property
    def _tree(self) -> ast.AST:
        return self.module.tree if self.scope is None else self.scope

    def of(self, node: ast.expr) -> _Made:
        """What the expression is made of."""
        match node:
            case ast.Name():
                taken = self._comprehended.get(node)
                return self._name((node.id, self._bound_by(node))) if taken is None else self.of(taken)
            case ast.BinOp(left, operator, right):
                return self._combined(operator, self.of(left), self.of(right))
            case ast.UnaryOp(operand=inner) | ast.Starred(value=inner):
                return self.of(inner)
            case ast.Attribute(value, name):
                whole = self.of(value)
                return whole._replace(is_cut=whole.of_model) if name in _CUTS else whole
            case ast.Subscript(value, index):
                whole = self.of(value)
                return whole._replace(is_picked=whole.is_picked or (whole.of_model and _picks(index)))
            case ast.IfExp(_, one, other):
                return self.of(one) | self.of(other)
            case ast.Tuple(elements) | ast.List(elements):
                return self._any(elements)
            case ast.ListComp(element) | ast.GeneratorExp(element):
                return self.of(element)
            case ast.Call():
                return self._call(node)
        return _NOTHING

    def _any(self, nodes: Sequence[ast.expr]) -> _Made:
        found = _NOTHING
        for each in nodes:
            found |= self.of(each)
        return found

    @staticmethod
    def _combined(operator: ast.operator, one: _Made, other: _Made) -> _Made:
        both = one | other
        if isinstance(operator, (ast.Mult, ast.Div, ast.MatMult)):
            return both._replace(is_scaled=both.of_model)
        if isinstance(operator, (ast.Add, ast.Sub)) and one.of_model is not other.of_model and both.is_scaled:
            return both._replace(is_bootstrapped=True)
        return both

    def _bound_by(self, node: ast.Name) -> frozenset[ast.expr] | None:
        """The assignments that may have bound the name where it is read; None for all that there are."""
        bound = targets(self._tree).of(node)
        assigned = {target for _, target, _ in self._assignments.get(node.id, ())}
        return frozenset(bound) if bound is not None and assigned.issuperset(bound) else None

    def _name(self, read: _Read) -> _Made:
        """What the scope assigns to the name: again until nothing more is found, as names are made of each other."""
        if read[0] in self.given:
            return self.given[read[0]]
        if read in self.known:
            return self.known[read]
        is_first, self.known[read] = not self.asked, _NOTHING
        self.asked.append(read)
        is_new = self._finds_more(read)
        while is_first and is_new:
            is_new = any(self._finds_more(each) for each in self.asked)
        if is_first:
            self.asked.clear()
        return self.known[read]

    def _finds_more(self, read: _Read) -> bool:
        before = self.known[read]
        for held in self._held(*read):
            self.known[read] |= held
        return self.known[read] != before

    def _held(self, name: str, bound: frozenset[ast.expr] | None) -> Iterator[_Made]:
        for statement, target, value in self._assignments.get(name, ()):
            is_whole = isinstance(target, ast.Name) and not isinstance(statement, ast.AugAssign)
            if bound is not None and is_whole and target not in bound:
                continue  # the name is bound anew before it is read
            made = self.of(value)
            if isinstance(statement, ast.AugAssign):
                made = self._combined(statement.op, self._name((name, None)), made)
            yield made._replace(is_cut=made.of_model and (made.is_cut or self._is_without_gradients(statement)))
        yield from map(self.of, self._put_in.get(name, ()))

    def _is_without_gradients(self, node: ast.AST) -> bool:
        flow = self.phases.reach.flow
        return any(switches_gradients_off(flow, each) for each in self.module.ancestors(node))

    def _call(self, call: ast.Call) -> _Made:
        flow = self.phases.reach.flow
        values = flow.values(call.func)
        if is_model_call(flow, call) or (self.phases.calls_model(call) and not list(project_functions(values))):
            return _Made(of_model=True, is_cut=self._is_without_gradients(call))
        functions = list(project_functions(values))
        if functions and len(functions) == len(values):
            return self._any_returned(functions, call)
        if any(is_loss_function(each.name) or is_loss_class(each.name) for each in values):
            return self._any(call.args[:1])
        if isinstance(call.func, ast.Attribute) and call.func.attr in _CUTS:
            return self.of(call.func)
        if values and all(each.name in _COPIES for each in values):
            copied = self._any(call.args[:1])
            return copied._replace(is_cut=copied.of_model)
        if values and all(each.name in _COLLECTS for each in values):
            return self._any(call.args)
        found = operation(flow, call)
        is_numpy = any(isinstance(each, External) and each.name.startswith("numpy.") for each in values)
        if (found is None or found.has_no_floats) and not is_numpy:
            return _NOTHING
        computed = self._any(operands(flow, call))
        is_picked = computed.of_model and last_name(call.func) in _PICKS
        return computed._replace(is_picked=computed.is_picked or is_picked)

    def _any_returned(self, functions: list[Callee], call: ast.Call) -> _Made:
        """What the functions of the project return for these arguments."""
        found = _NOTHING
        for function in functions:
            given = self.phases.reach.flow.bind(function, call).filled()
            found |= self.results.of((function, frozenset((name, self._any(each)) for name, each in given)))
        return found


def _returned(phases: Phases, results: _Results, function: Callee, given: frozenset[tuple[str, _Made]]) -> _Made:
    """What a function of the project returns for such arguments."""
    flow = phases.reach.flow
    inner = _Values(phases, flow.module_of(function), function, results, dict(given))
    found = _NOTHING
    for result in _results(function):
        found |= inner.of(result)
    is_cut = found.of_model and switches_gradients_off(flow, function)
    return found._replace(is_cut=True) if is_cut else found


def _results(function: Callee) -> Iterator[ast.expr]:
    """What the function returns."""
    if isinstance(function, ast.Lambda):
        yield function.body
    else:
        yield from (each.value for each in own(function, ast.Return) if each.value is not None)


def _picks(index: ast.expr) -> bool:
    """Whether it takes one of several: ``values[rows, actions]``; ``values[0]`` and ``values[:, 1:]`` take a part."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(each, (ast.Name, ast.Attribute, ast.Call)) for each in parts)


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The targets in it, each with what it is given."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
    elif isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, other)
    else:
        for each in target.elts:
            yield from _pairs(each, value)


def _taken(flow: Flow, target: ast.expr, iterated: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of a loop, each with that of which its values are the elements."""
    names = {each.name for each in flow.values(iterated.func)} if isinstance(iterated, ast.Call) else set()
    several = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
    given = iterated.args if isinstance(iterated, ast.Call) else []
    if names == {"builtins.zip"} and len(given) == len(several):
        for one, other in zip(several, given, strict=True):
            yield from _taken(flow, one, other)
    elif names == {"builtins.enumerate"} and given and len(several) == _BOTH:
        yield from _taken(flow, several[1], given[0])
    elif several:
        for each in several:
            yield from _taken(flow, each, iterated)
    else:
        yield target, iterated


def _bound_name(target: ast.expr) -> str:
    """The name that is bound, or whose elements are."""
    while isinstance(target, (ast.Subscript, ast.Starred)):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""
