"""Which tensors may carry a graph for gradients, and where they leave the code that computes them."""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING

from codemods.dataflow import source
from codemods.dataflow.forward import ForwardAnalysis
from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.recursion import Answers
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.values import (
    Container,
    External,
    Literal,
    Made,
    Method,
    Plain,
    SomeTensor,
    Tensor,
    Value,
    library_names,
    without_none,
)
from codemods.facts.attribute_access import is_namespace
from codemods.facts.autograd.carriers import hands_out, may_carry, passes_on, runs_text
from codemods.facts.autograd.courses import Course, items
from codemods.facts.autograd.memories import KEEPS, leading_to
from codemods.facts.training.iterations import called_functions, is_backward, own
from codemods.library.drawing import samples_without_graph
from codemods.library.kinds import Kind, has_integers, kind
from codemods.library.operations import Parts, operation, parts
from codemods.library.operators import Memory, attribute, operator
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codemods.dataflow.effects import Doing
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Values

_SETS = frozenset({"__setattr__", "__setitem__", "register_buffer"})
_OF_CONTAINERS = frozenset({"update", "pop", "popleft", "index", "count"})
_STANDARD = ("builtins.", "collections.")
_UNTRAINED = ("builtins.", "collections.", "itertools.", "tqdm.", "torch.", "torchvision.")
# But these, and what compares results: nothing is gained where it does.
_TRAINING = (
    *("torch.autograd.backward", "torch.autograd.forward_ad.", "torch.autograd.functional.", "torch.autograd.grad"),
    *("torch.distributed.autograd.", "torch.distributed.rpc.", "torch.func.", "torch.testing."),
)
# Objects of classes with such names show numbers to people; nothing is trained on them.
_SHOWS = ("meter", "metric", "average", "logger", "tracker", "recorder", "writer", "progress", "statistic", "history")


_ANY = frozenset({"*"})
"""Any of the parameters may carry a graph."""


class Graphs:
    """Follows graphs from the calls that make them.

    Args:
        flow: The values of the project.
        makes: Whether a call's result carries a graph, whatever its arguments are.
        trains: Whether a function of the project computes gradients.
        outside: Whether the graphs of tensors that come from elsewhere matter too.
        strict: Whether code that is not seen may keep what it is given, and train on it.
    """

    hands_on: Callable[[ast.Call], bool] = staticmethod(lambda _: False)
    """Whether a call's result carries a graph where its arguments do, and no other, whatever it runs."""

    def __init__(
        self,
        flow: Flow,
        makes: Callable[[ast.Call], bool],
        trains: Callable[[Callee], bool],
        *,
        outside: bool,
        strict: bool = False,
    ) -> None:
        self.flow = flow
        self.makes = makes
        self.trains = trains
        self.outside = outside
        self.strict = strict
        self._courses = Answers(self._course, Course(), Course.join)
        self._results: dict[ast.Lambda, ast.Return] = {}
        """What lambdas return, as statements: one each, or a course that names it would be another one each time."""

    def function(
        self, function: Callee, carrying: frozenset[str] | None = None, outside: frozenset[str] = frozenset()
    ) -> Course:
        """The course of a function's body.

        Args:
            function: A function of the project.
            carrying: The parameters that carry a graph; None where any of them may.
            outside: Those that may carry one of elsewhere.
        """
        return self._courses.of((function, _ANY if carrying is None else carrying, outside - (carrying or _ANY)))

    def _course(self, key: tuple[Callee, frozenset[str], frozenset[str]]) -> Course:
        function, carrying, outside = key
        parameters = frozenset(signature(function).names)
        held = dict.fromkeys(parameters, _Held.NONE)
        held.update(dict.fromkeys(outside, _Held.OUTSIDE))
        held.update(dict.fromkeys(carrying, _Held.CARRIES))
        names = {} if carrying is _ANY else held
        walk = _Walk(self, names, bound_names(function) - parameters, declared_outer(function))
        if isinstance(function, ast.Lambda):
            walk.run([self._results.setdefault(function, ast.copy_location(ast.Return(function.body), function.body))])
        else:
            walk.run(function.body)
        return walk.course

    @property
    def entered(self) -> dict[Callee, frozenset[str]]:
        """The functions that were given graphs so far, and which of their parameters were."""
        found: dict[Callee, frozenset[str]] = {}
        for callee, carrying, _ in self._courses.asked:
            if carrying and "*" not in carrying:
                found[callee] = found.get(callee, frozenset()) | carrying
        return found

    def statements(
        self,
        module: Module,
        statements: Sequence[ast.stmt],
        names: frozenset[str] = frozenset(),
        bare: frozenset[str] = frozenset(),
    ) -> Course:
        """The course of neighbouring statements.

        Args:
            module: Where they stand.
            statements: Some statements of one suite.
            names: The names that carry a graph before them.
            bare: Those that surely carry none, wherever what they hold comes from.
        """
        walk = self._walk(module, statements[0], names, bare)
        walk.run(statements)
        return walk.course

    def before_each(
        self, module: Module, statements: Sequence[ast.stmt], names: frozenset[str] = frozenset()
    ) -> Mapping[ast.stmt, frozenset[str]]:
        """The names that may carry a graph before each statement that is run by some; the arguments are those above."""
        walk = self._walk(module, statements[0], names)
        found: dict[ast.stmt, frozenset[str]] = {}
        walk.before = found
        walk.run(statements)
        return found

    def needing(
        self,
        module: Module,
        statements: Sequence[ast.stmt],
        asked: Mapping[ast.stmt, Sequence[ast.expr]],
        bare: frozenset[str] = frozenset(),
    ) -> frozenset[ast.expr]:
        """Those of some expressions that may carry a graph where they are computed, be it one of elsewhere.

        Args:
            module: Where they stand.
            statements: All that runs before them in their function or module, and their own statements.
            asked: The expressions, by the statements that compute them.
            bare: The names that surely hold none before, wherever what they hold comes from.
        """
        walk = self._walk(module, statements[0], frozenset(), bare)
        walk.asked = asked
        walk.run(statements)
        return frozenset(walk.needing)

    def surely_carry(
        self, module: Module, statements: Sequence[ast.stmt], asked: Mapping[ast.stmt, Sequence[ast.expr]]
    ) -> bool:
        """Whether all of some expressions carry a graph on every way that leads to them; the arguments are those above.

        What a branch or a loop adds to a number counts: a number alone cannot be differentiated.
        """
        walk = _SureWalk(self, {}, *self._scope(module, statements[0]))
        walk.asked = asked
        walk.run(statements)
        return walk.lacking is None

    def carries(self, module: Module, node: ast.expr, names: frozenset[str]) -> bool:
        """Whether an expression may carry a graph where these names do before its statement."""
        return self._walk(module, module.statement(node), names).carries(node)

    def after(self, module: Module, last: ast.stmt, course: Course) -> Course:
        """The course of everything in the function that may run after some statements.

        Args:
            module: Where they stand.
            last: The last of them.
            course: Theirs.
        """
        walk = self._walk(module, last, course.at_end)
        jumped = None if course.at_jumps is None else dict.fromkeys(course.at_jumps, _Held.CARRIES)
        walk.run_after(module, last, jumped)
        return walk.course

    def _walk(
        self, module: Module, place: ast.stmt, names: frozenset[str], bare: frozenset[str] = frozenset()
    ) -> _Walk:
        carrying = dict.fromkeys(bare, _Held.NONE) | dict.fromkeys(names, _Held.CARRIES)
        return _Walk(self, carrying, *self._scope(module, place))

    @staticmethod
    def _scope(module: Module, place: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
        """The names that the function or module around a statement binds, and those that it shares with others."""
        scope = module.function(place)
        if scope is None:
            return bound_names(module.tree), frozenset()
        return bound_names(scope) - frozenset(signature(scope).names), declared_outer(scope)


class _Held(enum.IntEnum):
    """What a name holds; what may hold one of two holds the greater."""

    NUMBER = -1
    """What cannot be differentiated: told apart from the next one only where all ways are asked for."""
    NONE = 0
    OUTSIDE = 1
    """What may carry a graph of elsewhere, as it came: nothing is lost until something is computed from it."""
    CARRIES = 2


class _Walk(ForwardAnalysis[_Held]):
    """Whether each name may hold a tensor that carries a graph; a name that is bound nowhere here may come with one."""

    def __init__(
        self, graphs: Graphs, names: Mapping[str, _Held], local: frozenset[str], shared: frozenset[str]
    ) -> None:
        super().__init__(names, bottom=_Held.NONE)
        self._graphs = graphs
        self._flow = graphs.flow
        self._local = local
        self._shared = shared
        self._rebound: set[str] = set()
        self._ever = set(_carrying(names))
        self._kept: ast.AST | None = None
        self._returned: ast.Return | None = None
        self._parts: frozenset[tuple[int, int]] = frozenset()
        self._trained: ast.AST | None = None
        self._here: ast.stmt | None = None
        """The statement that is followed."""
        self.before: dict[ast.stmt, frozenset[str]] | None = None
        """What carries a graph before each statement, where that is asked for."""
        self.asked: Mapping[ast.stmt, Sequence[ast.expr]] = {}
        """The expressions of which it is asked whether they may carry a graph."""
        self.needing: set[ast.expr] = set()
        """Those of them that may."""

    @property
    def course(self) -> Course:
        jumped = None if self.jumped is None else _carrying(self.jumped)
        ever = frozenset(self._ever)
        return Course(_carrying(self.names), jumped, ever, self._kept, self._returned, self._trained, self._parts)

    # Statements.

    def reached(self, statement: ast.stmt) -> None:
        self._here = statement
        if self.before is not None:
            self.before[statement] = self.before.get(statement, frozenset()) | _carrying(self.names)
        self.needing.update(each for each in self.asked.get(statement, ()) if self.of(each) is not _Held.NONE)

    def join(self, one: _Held, other: _Held) -> _Held:
        return max(one, other)

    def of(self, node: ast.expr) -> _Held:
        if self.carries(node):
            return _Held.CARRIES
        comes_so = self._graphs.outside and self.carries(node, operand=True)
        return _Held.OUTSIDE if comes_so else _Held.NONE

    def element(self, node: ast.expr) -> _Held:
        held = self.of(node)
        # The rows of a tensor are computed from it; what is in a list is not.
        is_tensor = any(isinstance(each, SomeTensor) for each in self._flow.values(node))
        return _Held.CARRIES if held is _Held.OUTSIDE and is_tensor else held

    def iterated(self, target: ast.expr, node: ast.expr) -> None:
        match target, node:
            case ast.Tuple(targets), ast.Call(func, several, []) if (
                len(targets) == len(several)
                and library_names(self._flow.values(func)) == {"builtins.zip"}
                and not any(isinstance(each, ast.Starred) for each in (*targets, *several))
            ):
                # Only what stands at the same place is handed out.
                held = [self.element(each) for each in several]
                for one, other in zip(targets, held, strict=True):
                    self.bind(one, other)
            case _:
                super().iterated(target, node)

    def unpacked(self, node: ast.expr, count: int) -> Sequence[_Held]:
        parts = self._returned_parts(node) if isinstance(node, ast.Call) else None
        if parts is not None and all(length == count for length, _ in parts):
            return [_Held.CARRIES if (count, each) in parts else _Held.NONE for each in range(count)]
        rest = _Held.NONE if self._gives_indices(node, is_unpacked=True) else self.element(node)
        return [self.element(node), *[rest] * (count - 1)]

    def _returned_parts(self, call: ast.Call) -> frozenset[tuple[int, int]] | None:
        """Which parts of the tuple carry one that functions of the project return; None where others may be called."""
        functions = called_functions(self._flow, call)
        is_whole = self._is_closure(call) or self._graphs.makes(call)
        if is_whole or not functions or len(functions) != len(self._flow.values(call.func)):
            return None
        return frozenset().union(*[self._course_of(each, call).parts for each in functions])

    def augmented(self, statement: ast.AugAssign) -> _Held:
        target = statement.target
        if self.carries(statement.value, operand=True):
            if isinstance(target, ast.Name) and self._is_given(target.id, statement):
                self._kept = self._kept or statement
            if not self._may_be_number(target, statement):
                self._reach_by_others(target, statement)
            return _Held.CARRIES
        # A tensor to which a number is added in place keeps its graph, and its gradients are the same.
        keeps = isinstance(statement.op, (ast.Add, ast.Sub))
        held = self.of(target)
        return held if keeps or held is _Held.NONE else _Held.CARRIES

    def _is_given(self, name: str, statement: ast.AugAssign) -> bool:
        """Whether the name is still a parameter, whose list or tensor changes for the caller as well."""
        if name in self._local | self._shared | self._rebound:
            return False
        return not self._may_be_number(statement.target, statement)

    def _may_be_number(self, target: ast.expr, statement: ast.AugAssign) -> bool:
        if isinstance(target, ast.Name):
            values = without_none(self._flow.before(statement).get(target.id, frozenset()))
        else:
            values = without_none(self._flow.values(target))
        return any(isinstance(each, (Literal, Plain)) for each in values)

    def defined(self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> _Held:
        carries = not isinstance(statement, ast.ClassDef) and self._is_closed_over(statement)
        if carries:
            self._ever.add(statement.name)
        return _Held.CARRIES if carries else _Held.NONE

    def bound(self, target: ast.Name, held: _Held) -> None:
        self._rebound.add(target.id)
        if held is _Held.CARRIES:
            self._ever.add(target.id)
            if target.id in self._shared:
                self._kept = self._kept or target

    def stored(self, target: ast.Attribute | ast.Subscript, held: _Held) -> None:
        if held is not _Held.CARRIES:
            return
        if isinstance(target, ast.Subscript):
            self._put_into(target.value, target)
        else:
            self._kept = self._kept or target

    def returned(self, statement: ast.Return) -> None:
        if statement.value is not None and self.carries(statement.value):
            self._returned = self._returned or statement
            self._parts |= items(statement.value, self.carries)

    def _put_into(self, container: ast.expr, place: ast.AST, *, is_list: bool = False) -> None:
        """Notes that a container, or a tensor, takes up one that carries a graph."""
        self._reach_by_others(container, place, is_list=is_list)
        while isinstance(container, (ast.Subscript, ast.Attribute)):
            if isinstance(container, ast.Attribute):
                self._kept = self._kept or place
                return
            container = container.value
        if isinstance(container, ast.Name):
            self._take_up(container.id, place)
        else:
            self._kept = self._kept or place

    def _take_up(self, name: str, place: ast.AST) -> None:
        """Notes that what a name holds takes up a tensor that carries a graph, or its tensor that graph."""
        if name in self._local and name not in self._shared:
            self.put(name, _Held.CARRIES)
            self._ever.add(name)
        else:
            self._kept = self._kept or place

    def _reach_by_others(self, node: ast.expr, place: ast.AST, *, is_list: bool = False) -> None:
        """Notes the same of all names that lead to what an expression is, or to what it is a view of."""
        if self._here is None:
            return
        bound, others = leading_to(self._flow, self._here, node, is_list=is_list)
        for name in bound:
            self.put(name, _Held.CARRIES)
            self._ever.add(name)
            if name in self._shared:
                self._kept = self._kept or place
        for name in others:
            self._take_up(name, place)

    # Expressions.

    def done(self, node: Doing, *, is_statement: bool) -> None:
        if isinstance(node, ast.Call):
            self._call(node, is_statement=is_statement)
        elif node.value is not None and self.carries(node.value):
            self._kept = self._kept or node.value

    def _call(self, call: ast.Call, *, is_statement: bool) -> None:
        arguments = arguments_of(call)
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        callees = self._flow.values(call.func)
        if is_backward(self._flow, call) or any(each.name == "torch.autograd.grad" for each in callees):
            roots = self._roots(call)
            if any(self.carries(each, operand=each in roots) for each in (*receiver, *arguments)):
                self._trained = self._trained or call
            return
        functions = called_functions(self._flow, call)
        self._change_in_place(call, functions)
        if self._graphs.strict and any(runs_text(each.name) for each in callees) and _carrying(self.names):
            self._kept = self._kept or call
        if not any(self.carries(each) for each in arguments):
            return
        for callee in functions:
            self._enter(callee, call)
        if isinstance(call.func, ast.Attribute) and not functions:
            self._call_method(call, call.func, is_statement=is_statement)
        self._write_into(call, callees)
        if any(_is_told_to_keep(each, is_method=bool(receiver)) for each in callees):
            self._kept = self._kept or call
        if self._graphs.strict and not functions and not self._is_understood(call):
            self._kept = self._kept or call

    def _enter(self, function: Callee, call: ast.Call) -> None:
        """Notes what a function of the project does with a tensor that carries a graph."""
        course = self._course_of(function, call)
        if self._graphs.trains(function) or course.trained is not None:
            self._trained = self._trained or call
        if course.kept is not None and not self._is_shown(function):
            self._kept = self._kept or call

    def _call_method(self, call: ast.Call, called: ast.Attribute, *, is_statement: bool) -> None:
        """Notes what a method of no class of the project does with a tensor that carries a graph."""
        is_update = called.attr == "update" and self._may_update_dictionary(call, called.value)
        # ``z = x.add(y)`` leaves a tensor as it is, where ``seen.add(y)`` is of a set.
        is_kept = called.attr in KEEPS and (is_statement or called.attr != "add")
        if is_kept or _is_in_place(called.attr) or is_update:
            self._put_into(called.value, call, is_list=is_kept or is_update)
        elif called.attr in _SETS:
            self._kept = self._kept or call

    def _may_update_dictionary(self, call: ast.Call, owner: ast.expr) -> bool:
        """Whether ``update()`` may put what it is given there, and not show it: also the attributes of an object."""
        if is_namespace(self._flow, owner):
            return True
        owners = self._flow.values(owner)
        is_other = bool(owners) and all(
            isinstance(each, (External, Made)) and not each.name.startswith(_STANDARD) for each in owners
        )
        # A dictionary takes up another one, or pairs: ``loss.update(value)`` of a tensor is of something that counts.
        given = [value for each in call.args for value in self._flow.values(each)]
        is_tensor = bool(given) and all(isinstance(each, Tensor) for each in given)
        return not is_other and not is_tensor and len(call.args) <= 1

    def _roots(self, call: ast.Call) -> list[ast.expr]:
        """What a call differentiates: its first argument, or the tensor whose method it is."""
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        values = [value for each in receiver for value in self._flow.values(each)]
        is_method = bool(values) and all(isinstance(each, Tensor) for each in values)
        return receiver if is_method else [*receiver, *arguments_of(call)[:1]]

    def _change_in_place(self, call: ast.Call, functions: Sequence[Callee]) -> None:
        """Notes that ``x.mul_(2)`` changes a tensor of elsewhere that may carry a graph."""
        if functions or not isinstance(call.func, ast.Attribute) or not _is_in_place(call.func.attr):
            return
        if self.of(call.func.value) is _Held.OUTSIDE:
            self._put_into(call.func.value, call)

    def _write_into(self, call: ast.Call, callees: Values) -> None:
        """Notes what functions of libraries write a graph into: ``torch.add(x, y, out=v)``, ``torch._foreach_add_``."""
        written = [each.value for each in call.keywords if each.arg == "out"]
        if any(map(_is_in_place, library_names(callees))):
            written += arguments_of(call)[:1]
        for each in written:
            for part in each.elts if isinstance(each, (ast.List, ast.Tuple)) else (each,):
                self._put_into(part, call)

    def _is_understood(self, call: ast.Call) -> bool:
        """Whether code of a library is called that does not train on what it is given, or of a model or a loss."""
        callees = without_none(self._flow.values(call.func))
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Constant):
            return True  # ``"{:.3f}".format(loss)``
        if isinstance(call.func, ast.Attribute) and not any(isinstance(each, External) for each in callees):
            if call.func.attr in KEEPS | _OF_CONTAINERS:
                owners = self._flow.values(call.func.value)
                return bool(owners) and all(isinstance(each, (Tensor, Container)) for each in owners)
            if operator(call.func.attr) is not None:
                return True
        return bool(callees) and all(self._is_known_not_to_train(each) for each in callees)

    def _is_known_not_to_train(self, callee: Value) -> bool:
        thing = callee.of if isinstance(callee, Method) and callee.of is not None else callee
        what = kind(self._flow, thing)
        if what is not None:
            return what in {Kind.MODEL, Kind.LOSS, Kind.SCHEDULER}
        if not isinstance(thing, (External, Made)) or thing.name.startswith(_TRAINING):
            return False
        return thing.name.startswith(_UNTRAINED) or has(thing.name, Trait.GRAPHLESS)

    def _is_shown(self, function: Callee) -> bool:
        owner = self._flow.owner(function)
        return owner is not None and any(each in owner.name.lower() for each in _SHOWS)

    def _course_of(self, function: Callee, call: ast.Call) -> Course:
        """The course of a function's body in a call."""
        binding = self._flow.bind(function, call)
        if not binding.is_whole:
            return self._graphs.function(function, frozenset(signature(function).names))
        held = {name: max(map(self.of, candidates)) for name, candidates in binding.filled()}
        outside = frozenset(name for name, each in held.items() if each is _Held.OUTSIDE)
        return self._graphs.function(function, _carrying(held), outside)

    def carries(self, node: ast.AST, *, operand: bool = False) -> bool:  # noqa: C901 - a table of cases
        """Whether what the expression yields may carry a graph.

        Args:
            node: The expression.
            operand: Whether something is computed from it, so that a graph from outside would go on.
        """
        match node:
            case ast.Name(name):
                held = self.names.get(name)
                if held is not None:
                    return held is _Held.CARRIES or (operand and held is _Held.OUTSIDE)
                return operand and self._graphs.outside and may_carry(self._flow, self._flow.values(node))
            case ast.Attribute(value, name):
                row = attribute(name)
                is_cut = row is not None and not row.carries_graph
                if is_cut or (name == "indices" and self._gives_indices(value)):
                    return False
                if row is not None and self._graphs.outside and self.carries(value, operand=True):
                    return True  # ``x.T`` is another tensor
                outside = (
                    operand and self._graphs.outside and may_carry(self._flow, self._flow.values(node), opaque=False)
                )
                return outside or self.carries(value)
            case ast.Subscript(value, index):
                if source.unparsed(index) in {"1", "-1"} and self._gives_indices(value):
                    return False
                return self.carries(value, operand=operand or self._takes_part(value, index))
            case ast.Call():
                return self._call_carries(node, operand=operand)
            case ast.Lambda():
                return self._is_closed_over(node)
            case ast.Compare() | ast.JoinedStr() | ast.Yield() | ast.YieldFrom() | ast.Constant():
                return False
            case ast.BinOp() | ast.UnaryOp():
                return any(self.carries(each, operand=True) for each in ast.iter_child_nodes(node))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                held = self.comprehended(node)
                return held is _Held.CARRIES or (operand and held is _Held.OUTSIDE)
            case ast.IfExp(_, body, orelse):
                return self.carries(body, operand=operand) or self.carries(orelse, operand=operand)
            case _:
                return any(self.carries(each, operand=operand) for each in ast.iter_child_nodes(node))

    def _gives_indices(self, node: ast.expr, *, is_unpacked: bool = False) -> bool:
        """Whether it is ``x.max(1)``, ``torch.topk(x, 5)`` or the like, which yield values and integers."""
        found = parts(self._flow, node) if isinstance(node, ast.Call) else Parts.ONE
        return found is Parts.VALUES_FIRST or (is_unpacked and found is Parts.ONE_OR_VALUES_FIRST)

    def _is_closed_over(self, function: ast.AST) -> bool:
        """Whether a function reads a name that carries a graph around it."""
        names = (each.id for each in source.walk(function) if isinstance(each, ast.Name))
        return any(self.names.get(each) is _Held.CARRIES for each in names)

    def _takes_part(self, node: ast.expr, index: ast.expr) -> bool:
        """Whether an index computes a part of a tensor, and does not hand out an item of a list."""
        is_part = any(isinstance(each, ast.Slice) for each in getattr(index, "elts", ()))
        return is_part or any(isinstance(each, SomeTensor) for each in self._flow.values(node))

    def _is_closure(self, call: ast.Call) -> bool:
        """Whether the function that is called reads a name around it that carries a graph."""
        return isinstance(call.func, ast.Name) and self.names.get(call.func.id) is _Held.CARRIES

    def _call_carries(self, call: ast.Call, *, operand: bool) -> bool:
        if self._graphs.hands_on(call):
            return any(self.carries(each, operand=True) for each in arguments_of(call))
        if self._graphs.makes(call) or self._is_closure(call):
            return True
        callees = self._flow.values(call.func)
        if callees and all(map(samples_without_graph, callees)):
            return False
        arguments = arguments_of(call)
        functions = called_functions(self._flow, call)
        if functions and len(functions) == len(callees):
            courses = ((each, self._course_of(each, call)) for each in functions)
            # What a generator yields, which counts as kept, is what iterating over it hands out.
            return any(
                course.returned is not None or (course.kept is not None and _is_generator(each))
                for each, course in courses
            )
        row = operation(self._flow, call)
        if row is not None and not row.carries_graph:
            return False
        formats = self._flow.values(arguments[0]) if arguments else ()
        if formats and all(map(has_integers, formats)):
            return False  # ``x.type(torch.LongTensor)``, ``x.to(torch.long)``
        externals = library_names(callees)
        if externals and len(externals) == len(callees):
            computes = operand or not all(map(hands_out, externals))
            return any(map(passes_on, externals)) and any(self.carries(each, operand=computes) for each in arguments)
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        if row is not None and row.memory in {Memory.VIEW, Memory.EITHER}:
            arguments = [each for each in arguments if self.carries(each)]  # sizes, devices and types
        return any(self.carries(each, operand=True) for each in (*receiver, *arguments))


class _SureWalk(_Walk):
    """The same, where what may hold one of two holds the lesser: whether each name holds a graph on every way."""

    lacking: ast.expr | None = None
    """An expression that is asked for and may carry none."""

    def reached(self, statement: ast.stmt) -> None:
        super().reached(statement)
        for each in self.asked.get(statement, ()):
            if not self.carries(each):
                self.lacking = each

    def _reach_by_others(self, node: ast.expr, place: ast.AST, *, is_list: bool = False) -> None:
        """Other names may lead to it, but need not."""

    def join(self, one: _Held, other: _Held) -> _Held:
        return max(one, other) if _Held.NUMBER in {one, other} else min(one, other)

    def of(self, node: ast.expr) -> _Held:
        return _Held.NUMBER if self._is_number(node) else super().of(node)

    def carries(self, node: ast.AST, *, operand: bool = False) -> bool:
        match node:
            case ast.IfExp(_, body, orelse):
                ways = [each for each in (body, orelse) if not self._is_number(each)]
            case ast.BoolOp(_, ways):
                pass
            case _:
                return super().carries(node, operand=operand)
        return bool(ways) and all(self.carries(each, operand=operand) for each in ways)

    def _is_number(self, node: ast.expr) -> bool:
        values = self._flow.values(node)
        return bool(values) and all(isinstance(each, (Literal, Plain)) for each in values)


def _carrying(names: Mapping[str, _Held]) -> frozenset[str]:
    return frozenset(name for name, held in names.items() if held is _Held.CARRIES)


def _is_generator(function: Callee) -> bool:
    return any(True for _ in own(function, ast.Yield)) or any(True for _ in own(function, ast.YieldFrom))


def _is_in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__")


def _is_told_to_keep(callee: Value, *, is_method: bool) -> bool:
    """``setattr(x, "last", output)``, or ``on_output(output)``, called with ``outputs.append``."""
    return callee.name == "builtins.setattr" or (not is_method and isinstance(callee, Method) and callee.name in KEEPS)
