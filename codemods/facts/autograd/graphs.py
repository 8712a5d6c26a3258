"""Which tensors may carry a graph for gradients, and where they leave the code that computes them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow import source
from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS
from codemods.dataflow.values import TENSOR_SORTS, Sort, Value, Values, without_none
from codemods.facts.training.iterations import called_functions, is_backward, own
from codemods.library.kinds import Kind, kind
from codemods.library.operations import Parts, operation, parts
from codemods.library.operators import attribute, function, operator
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module

# ``TryStar`` came with Python 3.11.
_TRIES: tuple[type[ast.Try], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))
_LONG = frozenset(
    {"torch.LongTensor", "torch.cuda.LongTensor", "torch.long", "torch.int64", "torch.int", "torch.uint8"}
)
# Built-in functions that pass on what they are given; the others return numbers, texts and the like.
_PASSES_ON = frozenset(
    {
        "sum",
        "max",
        "min",
        "abs",
        "pow",
        "zip",
        "enumerate",
        "list",
        "tuple",
        "dict",
        "set",
        "map",
        "filter",
        "sorted",
        "reversed",
    }
    | {"iter", "next", "getattr", "vars", "round", "frozenset"}
)
_KEEPS = frozenset(
    {"append", "appendleft", "extend", "add", "insert", "put", "put_nowait", "push", "store", "remember", "setdefault"}
)
_OF_CONTAINERS = frozenset({"update", "pop", "popleft", "index", "count"})
_UNTRAINED = ("builtins.", "collections.", "itertools.", "tqdm.", "torch.", "torchvision.")
# But these, and what compares results: nothing is gained where it does.
_TRAINING = (
    *("torch.autograd.backward", "torch.autograd.forward_ad.", "torch.autograd.functional.", "torch.autograd.grad"),
    *("torch.distributed.autograd.", "torch.distributed.rpc.", "torch.func.", "torch.testing."),
)
# Objects of classes with such names show numbers to people; nothing is trained on them.
_SHOWS = ("meter", "metric", "average", "logger", "tracker", "recorder", "writer", "progress", "statistic", "history")


@dataclass(frozen=True, slots=True)
class Course:
    """What running some statements does with tensors that carry a graph."""

    names: frozenset[str] = frozenset()
    """The names that may hold one at the end."""
    ever: frozenset[str] = frozenset()
    """The names that may hold one at some point."""
    kept: ast.AST | None = None
    """The first place that keeps one where other code finds it: an attribute, a global name, a list from outside."""
    returned: ast.Return | None = None
    """The first place that returns one."""
    trained: ast.AST | None = None
    """The first place that computes gradients from one."""


class Graphs:
    """Follows graphs from the calls that make them.

    Args:
        flow: The values of the project.
        makes: Whether a call's result carries a graph, whatever its arguments are.
        trains: Whether a function of the project computes gradients.
        outside: Whether the graphs of tensors that come from elsewhere matter too.
        strict: Whether code that is not seen may keep what it is given, and train on it.
    """

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
        self._courses: dict[tuple[Callee, frozenset[str]], Course | None] = {}

    def function(self, function: Callee, carrying: frozenset[str] | None = None) -> Course:
        """The course of a function's body.

        Args:
            function: A function of the project.
            carrying: The parameters that carry a graph; None where any of them may.
        """
        key = (function, carrying if carrying is not None else frozenset({"*"}))
        if key not in self._courses:
            self._courses[key] = None
            parameters = frozenset(signature(function).names)
            body = (
                [ast.copy_location(ast.Return(function.body), function.body)]
                if isinstance(function, ast.Lambda)
                else function.body
            )
            walk = _Walk(self, bound_names(function) - parameters, declared_outer(function))
            walk.names = set(carrying or ())
            walk.bound = set(parameters) if carrying is not None else set()
            walk.block(body)
            self._courses[key] = walk.course
        # A function that calls itself: nothing more than what the rest of it says.
        return self._courses[key] or Course()

    @property
    def entered(self) -> dict[Callee, frozenset[str]]:
        """The functions that were given graphs so far, and which of their parameters were."""
        found: dict[Callee, frozenset[str]] = {}
        for callee, carrying in self._courses:
            if carrying and "*" not in carrying:
                found[callee] = found.get(callee, frozenset()) | carrying
        return found

    def statements(self, module: Module, statements: Sequence[ast.stmt], names: frozenset[str] = frozenset()) -> Course:
        """The course of neighbouring statements.

        Args:
            module: Where they stand.
            statements: Some statements of one suite.
            names: The names that carry a graph before them.
        """
        walk = self._walk(module, statements[0])
        walk.names = set(names)
        walk.block(statements)
        return walk.course

    def after(self, module: Module, last: ast.stmt, names: frozenset[str]) -> Course:
        """The course of everything in the function that may run after a statement.

        Args:
            module: Where the statement stands.
            last: The statement.
            names: The names that carry a graph after it.
        """
        walk = self._walk(module, last)
        here: ast.stmt = last
        while True:
            suite = module.suite(here)
            index = next(i for i, each in enumerate(suite) if each is here)
            parent = module.parent(here)
            walk.names, outside, walk.ever = set(names), walk.ever, set(names)
            walk.block(suite[index + 1 :])
            if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
                # The next pass; the loop may be left at any point of it.
                if not isinstance(parent, ast.While):
                    walk.bind(parent.target, carries=False)
                walk.block(suite[:index])
                walk.names = set(walk.ever)
            elif isinstance(parent, _TRIES) and suite is parent.body:
                walk.block(_rest(parent))
                walk.names = set(walk.ever)
            names = frozenset(walk.names)
            walk.ever |= outside
            if parent is None or isinstance(parent, (*FUNCTIONS, ast.ClassDef, ast.Module)):
                return walk.course
            here = parent if isinstance(parent, ast.stmt) else module.statement(parent)

    def _walk(self, module: Module, place: ast.stmt) -> _Walk:
        scope = module.function(place)
        if scope is None:
            return _Walk(self, bound_names(module.tree), frozenset())
        return _Walk(self, bound_names(scope) - frozenset(signature(scope).names), declared_outer(scope))


class _Walk:
    """One pass over statements, in their order."""

    def __init__(self, graphs: Graphs, local: frozenset[str], shared: frozenset[str]) -> None:
        self._graphs = graphs
        self._flow = graphs.flow
        self._local = local
        self._shared = shared
        self.names: set[str] = set()
        self.bound: set[str] = set()
        self.ever: set[str] = set()
        self._kept: ast.AST | None = None
        self._returned: ast.Return | None = None
        self._trained: ast.AST | None = None

    @property
    def course(self) -> Course:
        return Course(
            frozenset(self.names), frozenset(self.ever | self.names), self._kept, self._returned, self._trained
        )

    # Statements.

    def block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:  # noqa: C901 - one case for each kind of statement
        if isinstance(statement, _TRIES):
            self._any_part([*statement.body, *_rest(statement)])
            return
        match statement:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
                if self._is_closed_over(statement):
                    self._taint(name)
            case ast.ClassDef():
                return
            case ast.If(test, body, orelse):
                self._read(test)
                self._branches(body, orelse)
            case ast.Match(subject, cases):
                self._read(subject)
                self._branches(*(case.body for case in cases), [])
            case ast.For(target, iterated, body, orelse) | ast.AsyncFor(target, iterated, body, orelse):
                self._read(iterated)
                self.bind(target, carries=self.carries(iterated))
                self._any_part([*body, *orelse])
            case ast.While(test, body, orelse):
                self._read(test)
                self._any_part([*body, *orelse])
            case ast.With(items, body) | ast.AsyncWith(items, body):
                for item in items:
                    self._read(item.context_expr)
                    if item.optional_vars is not None:
                        self.bind(item.optional_vars, carries=self.carries(item.context_expr))
                self.block(body)
            case ast.Assign(targets, value):
                self._read(value)
                for target in targets:
                    self._assign(target, value)
            case ast.AnnAssign(target, _, value) if value is not None:
                self._read(value)
                self._assign(target, value)
            case ast.AugAssign(target, _, value):
                self._read(value)
                self.bind(target, carries=self.carries(value, operand=True) or self.carries(target))
            case ast.Return(value):
                if value is not None:
                    self._read(value)
                    if self.carries(value):
                        self._returned = self._returned or statement
            case _:
                self._read(statement)

    def _branches(self, *blocks: Sequence[ast.stmt]) -> None:
        before, after = set(self.names), set()
        for block in blocks:
            self.names = set(before)
            self.block(block)
            after |= self.names
        self.names = after

    def _any_part(self, statements: Sequence[ast.stmt]) -> None:
        """Statements that may be run again and left, or jumped over, at any point."""
        ever, self.ever = self.ever, set(self.names)
        while True:
            known = len(self.ever)
            self.block(statements)
            self.names = set(self.ever)
            if len(self.ever) == known:
                break
        self.ever |= ever

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for one, other in zip(target.elts, [self.carries(each) for each in value.elts], strict=True):
                    self.bind(one, carries=other)
                return
            if self._gives_indices(value, is_unpacked=True):
                first, *others = target.elts
                self.bind(first, carries=self.carries(value))
                for each in others:
                    self.bind(each, carries=False)
                return
        self.bind(target, carries=self.carries(value))

    def bind(self, target: ast.expr, *, carries: bool) -> None:
        """What ``target = …`` does."""
        match target:
            case ast.Name(name):
                self.bound.add(name)
                if name in self._shared and carries:
                    self._kept = self._kept or target
                (self._taint if carries else self.names.discard)(name)
            case ast.Tuple(elements) | ast.List(elements):
                for each in elements:
                    self.bind(each, carries=carries)
            case ast.Starred(value):
                self.bind(value, carries=carries)
            case ast.Subscript(value) if carries:
                self._put(value, target)
            case ast.Attribute() if carries:
                self._kept = self._kept or target

    def _taint(self, name: str) -> None:
        self.names.add(name)
        self.ever.add(name)

    def _put(self, container: ast.expr, place: ast.AST) -> None:
        """Notes that a container takes up a tensor that carries a graph."""
        while isinstance(container, (ast.Subscript, ast.Attribute)):
            if isinstance(container, ast.Attribute):
                self._kept = self._kept or place
                return
            container = container.value
        if isinstance(container, ast.Name) and container.id in self._local and container.id not in self._shared:
            self._taint(container.id)
        else:
            self._kept = self._kept or place

    # Expressions.

    def _read(self, node: ast.AST) -> None:
        """What evaluating the node does besides its value."""
        for comprehension in own(node, ast.comprehension):
            self.bind(comprehension.target, carries=self.carries(comprehension.iter))
        for inside in own(node, ast.NamedExpr):
            self.bind(inside.target, carries=self.carries(inside.value))
        for call in own(node, ast.Call):
            self._call(call, is_statement=isinstance(node, ast.Expr) and node.value is call)
        given = [*(each.value for each in own(node, ast.Yield)), *(each.value for each in own(node, ast.YieldFrom))]
        self._kept = self._kept or next((each for each in given if each is not None and self.carries(each)), None)

    def _call(self, call: ast.Call, *, is_statement: bool) -> None:
        arguments = _arguments(call)
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        callees = self._flow.values(call.func)
        if is_backward(self._flow, call) or any(each.name == "torch.autograd.grad" for each in callees):
            if any(self.carries(each) for each in (*receiver, *arguments)):
                self._trained = self._trained or call
            return
        if not any(self.carries(each) for each in arguments):
            return
        functions = list(called_functions(self._flow, call))
        for callee in functions:
            course = self._graphs.function(callee, self._carrying_parameters(callee, call))
            if self._graphs.trains(callee) or course.trained is not None:
                self._trained = self._trained or call
            if course.kept is not None and not self._is_shown(callee):
                self._kept = self._kept or call
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        in_place = method.endswith("_") and not method.endswith("__")
        if receiver and not functions and is_statement and (method in _KEEPS or in_place):
            self._put(receiver[0], call)
        # `on_output(output)`, called with `outputs.append`.
        if not receiver and any(each.sort is Sort.METHOD and each.name in _KEEPS for each in callees):
            self._kept = self._kept or call
        if self._graphs.strict and not functions and not self._is_understood(call):
            self._kept = self._kept or call

    def _is_understood(self, call: ast.Call) -> bool:
        """Whether code of a library is called that does not train on what it is given, or of a model or a loss."""
        callees = without_none(self._flow.values(call.func))
        if isinstance(call.func, ast.Attribute) and not any(each.sort is Sort.EXTERNAL for each in callees):
            if call.func.attr in _KEEPS | _OF_CONTAINERS:
                owners = self._flow.values(call.func.value)
                return bool(owners) and all(each.sort in TENSOR_SORTS | {Sort.CONTAINER} for each in owners)
            if operator(call.func.attr) is not None:
                return True
        return bool(callees) and all(self._is_known_not_to_train(each) for each in callees)

    def _is_known_not_to_train(self, callee: Value) -> bool:
        thing = callee.of if callee.sort is Sort.METHOD and callee.of is not None else callee
        what = kind(self._flow, thing)
        if what is not None:
            return what in {Kind.MODEL, Kind.LOSS, Kind.SCHEDULER}
        if thing.sort not in {Sort.EXTERNAL, Sort.MADE} or thing.name.startswith(_TRAINING):
            return False
        return thing.name.startswith(_UNTRAINED) or has(thing.name, Trait.GRAPHLESS)

    def _is_shown(self, function: Callee) -> bool:
        owner = self._flow.owner(function)
        return owner is not None and any(each in owner.name.lower() for each in _SHOWS)

    def _carrying_parameters(self, function: Callee, call: ast.Call) -> frozenset[str]:
        """The parameters of the function that are given a tensor with a graph."""
        binding = self._flow.signature(function).bind(call)
        if not binding.is_whole:
            return frozenset(signature(function).names)
        return frozenset(name for name, each in binding.given.items() if self.carries(each))

    def carries(self, node: ast.AST, *, operand: bool = False) -> bool:  # noqa: C901 - a table of cases
        """Whether what the expression yields may carry a graph.

        Args:
            node: The expression.
            operand: Whether something is computed from it, so that a graph from outside would go on.
        """
        match node:
            case ast.Name(name):
                if name in self.names:
                    return True
                return (
                    operand
                    and self._graphs.outside
                    and name not in self.bound
                    and _may_carry(self._flow, self._flow.values(node))
                )
            case ast.Attribute(value, name):
                row = attribute(name)
                is_cut = row is not None and not row.carries_graph
                if is_cut or (name == "indices" and self._gives_indices(value)):
                    return False
                outside = (
                    operand and self._graphs.outside and _may_carry(self._flow, self._flow.values(node), opaque=False)
                )
                return outside or self.carries(value)
            case ast.Subscript(value, index):
                is_index = ast.unparse(index) in {"1", "-1"} and self._gives_indices(value)
                return not is_index and self.carries(value, operand=operand)
            case ast.Call():
                return self._call_carries(node)
            case ast.Lambda():
                return self._is_closed_over(node)
            case ast.Compare() | ast.JoinedStr() | ast.Yield() | ast.YieldFrom() | ast.Constant():
                return False
            case ast.BinOp() | ast.UnaryOp():
                return any(self.carries(each, operand=True) for each in ast.iter_child_nodes(node))
            case ast.ListComp(element) | ast.SetComp(element) | ast.GeneratorExp(element):
                return self.carries(element, operand=operand)
            case ast.DictComp(_, value):
                return self.carries(value, operand=operand)
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
        return any(isinstance(each, ast.Name) and each.id in self.names for each in source.walk(function))

    def _call_carries(self, call: ast.Call) -> bool:
        if self._graphs.makes(call) or (isinstance(call.func, ast.Name) and call.func.id in self.names):
            return True
        callees = self._flow.values(call.func)
        arguments = _arguments(call)
        functions = list(called_functions(self._flow, call))
        if functions and len(functions) == len(callees):
            courses = [self._graphs.function(each, self._carrying_parameters(each, call)) for each in functions]
            return any(each.returned is not None for each in courses)
        row = operation(self._flow, call)
        if row is not None and not row.carries_graph:
            return False
        if arguments and all(
            each.sort is Sort.EXTERNAL and each.name in _LONG
            for each in self._flow.values(arguments[0]) or [Value(Sort.PLAIN)]
        ):
            return False  # ``x.type(torch.LongTensor)``, ``x.to(torch.long)``
        externals = [each.name for each in callees if each.sort is Sort.EXTERNAL]
        if externals and len(externals) == len(callees):
            return any(_passes_on(name) for name in externals) and any(
                self.carries(each, operand=name.startswith("torch.")) for each in arguments for name in externals
            )
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        return any(self.carries(each, operand=True) for each in receiver) or any(
            self.carries(each) for each in arguments
        )


def _rest(statement: ast.Try) -> list[ast.stmt]:
    """What may run after the body of a ``try``."""
    return [*statement.orelse, *(each for handler in statement.handlers for each in handler.body), *statement.finalbody]


def _passes_on(name: str) -> bool:
    """Whether what a library's function returns may carry the graphs of its arguments."""
    package, _, rest = name.partition(".")
    if package == "builtins":
        return rest in _PASSES_ON
    row = function(name)
    return row.carries_graph if row is not None else not has(name, Trait.GRAPHLESS)


def _may_carry(flow: Flow, values: Values, *, opaque: bool = True, depth: int = 3) -> bool:
    """Whether a value from outside may carry a graph: batches, numbers and fresh tensors do not.

    Args:
        flow: The values of the project.
        values: What the expression may be.
        opaque: Whether a value of which nothing is known may.
        depth: How many moves and conversions are looked through.
    """
    for value in values:
        if value.sort is Sort.TENSOR or (value.sort is Sort.UNKNOWN and opaque):
            return True
        if value.sort in {Sort.HOST, Sort.MOVED} and value.of is None:
            call = value.site
            if not isinstance(call, ast.Call) or not depth:
                return True
            if any(each.arg == "requires_grad" for each in call.keywords):
                return True
            is_method = isinstance(call.func, ast.Attribute) and not any(
                each.sort is Sort.EXTERNAL for each in flow.values(call.func)
            )
            receiver = flow.values(call.func.value) if is_method else frozenset()  # type: ignore[attr-defined]
            if _may_carry(flow, receiver, opaque=opaque, depth=depth - 1):
                return True
        elif value.sort is Sort.MADE and value.name == "torch.nn.Parameter":
            return True
    return False


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]
