"""Which layers does a model's forward reach in some calls, and not in others?

Stochastic depth, a head that is chosen by the task, a block that joins after some steps. What an object is made with
decides the same in each of its calls, and is no reason: ``if self.downsample is not None``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import children, walk
from codemods.dataflow.values import Container, Instance, Made, library_names
from codemods.facts.loops import module_of
from codemods.facts.models.fixed_tests import FixedTests
from codemods.facts.models.layers import HOLDERS, Model
from codemods.library.kinds import Kind, kind
from codemods.library.layers import has_no_parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode, Module
    from codemods.dataflow.values import Value

_NONE: frozenset[str] = frozenset()
_HOLDERS = HOLDERS | {"torch.nn.Sequential"}
_LOOKED_AT = frozenset(f"builtins.{each}" for each in ("len", "hasattr", "isinstance", "bool", "callable"))
"""What is told of a layer without calling it."""
_DRAWING = ("random.", "numpy.random.", "torch.rand", "torch.bernoulli", "torch.multinomial")


class Skipped(NamedTuple):
    """A layer that some calls of its model pass over."""

    module: Module
    node: ast.AST
    """What decides it."""
    name: str
    """The attribute that holds the layer; empty where it may be any."""


def skipped_layers(model: Model) -> Iterator[Skipped]:
    """The layers with parameters that some calls of the model reach and others do not, as far as its code is known."""
    seen: set[ast.ClassDef] = set()
    for layer in model.layers:
        class_ = Model(model.flow, layer).class_
        forward = model.flow.method(class_, "forward") if class_ is not None else None
        if class_ is not None and forward is not None and class_ not in seen:
            seen.add(class_)
            yield from _Forward(model.flow, class_).skipped(forward)


def has_parameters(flow: Flow, value: Value) -> bool:
    """Whether a value is a model with parameters, a parameter, or may be."""
    if value.name == "torch.nn.Parameter":
        return True
    if kind(flow, value) is not Kind.MODEL:
        return False
    layers = Model(flow, value).layers
    if isinstance(value, Made):
        inner = [each for each in layers if each is not value]
        if value.name in _HOLDERS and (inner or not _is_given(value)):
            return any(has_parameters(flow, each) for each in inner)
        return not has_no_parameters(value.name)
    return not isinstance(value, Instance) or _instance_has(flow, value)


def _is_given(value: Made) -> bool:
    return isinstance(value.site, ast.Call) and bool(arguments_of(value.site))


def _instance_has(flow: Flow, value: Instance) -> bool:
    class_ = value.of.site
    if any(isinstance(each, str) and each != "torch.nn.Module" for each in flow.bases(class_)):
        return True
    held = [each for some in flow.attributes(class_).values() for each in some]
    inside = closure(held, lambda each: flow.items(each) if isinstance(each, Container) else ())
    return any(each != value and has_parameters(flow, each) for each in inside)


class _Paths(NamedTuple):
    """What surely is reached by the ways through some statements; None where there is no such way."""

    on: frozenset[str] | None
    """By those that go on to the next statement."""
    out: frozenset[str] | None = None
    """By those that leave the function."""
    over: frozenset[str] | None = None
    """By those that leave a pass of the loop."""

    @property
    def all(self) -> frozenset[str]:
        """What all of them reach."""
        return _common(self.on, self.out, self.over) or _NONE

    def after(self, before: frozenset[str]) -> _Paths:
        """The same, of ways that have reached something before."""
        return _Paths(*(None if each is None else before | each for each in self))


def _common(*ways: frozenset[str] | None) -> frozenset[str] | None:
    known = [each for each in ways if each is not None]
    return frozenset.intersection(*known) if known else None


def _any(*ways: frozenset[str] | None) -> frozenset[str] | None:
    known = [each for each in ways if each is not None]
    return frozenset().union(*known) if known else None


class _Forward:
    """One class of a model: which of its attributes all ways through its forward reach."""

    def __init__(self, flow: Flow, class_: ast.ClassDef) -> None:
        self._flow = flow
        self._class = class_
        self._fixed = FixedTests(flow)
        self._reached: set[str] = set()
        self._chosen: dict[str, ast.AST] = {}
        """Attributes of which an item is chosen, or the graph is cut, and what decides it."""
        self._splits: dict[str, ast.AST] = {}
        """Attributes that one branch reaches and another does not, and the condition."""
        self._ends: ast.AST | None = None
        """A condition under which a way ends earlier than others."""
        self._also: dict[str, frozenset[str]] = {}
        """Names of the function that stand for attributes: ``for layer in self.layers``."""
        self._known: dict[FunctionNode, frozenset[str]] = {}

    def skipped(self, forward: FunctionNode) -> Iterator[Skipped]:
        always = self._through(forward)
        for name, node in self._chosen.items():
            yield Skipped(module_of(self._flow, node), node, name)
        for name in sorted(self._reached - always - self._chosen.keys()):
            decides = self._splits.get(name) or self._ends
            if decides is not None:
                yield Skipped(module_of(self._flow, decides), decides, name)

    def _through(self, method: FunctionNode) -> frozenset[str]:
        """What all ways through a method reach."""
        if method not in self._known:
            self._known[method] = _NONE
            outside, self._also = self._also, {}
            self._known[method] = self._block(method.body).all
            self._also = outside
        return self._known[method]

    # Statements.

    def _block(self, statements: Sequence[ast.stmt]) -> _Paths:
        before = _NONE
        out = over = None
        for each in statements:
            paths = self._statement(each).after(before)
            out, over = _common(out, paths.out), _common(over, paths.over)
            if paths.on is None:
                return _Paths(None, out, over)
            before = paths.on
        return _Paths(before, out, over)

    def _statement(self, statement: ast.stmt) -> _Paths:  # noqa: C901 - a table of cases
        match statement:
            case ast.Return(value):
                return _Paths(None, self._use(value))
            case ast.Raise():
                return _Paths(None)
            case ast.Break() | ast.Continue():
                return _Paths(None, None, _NONE)
            case ast.If(test, body, orelse):
                return self._branches(test, [body, orelse])
            case ast.Match(subject, cases):
                others: list[list[ast.stmt]] = [] if any(map(_is_wild, cases)) else [[]]
                return self._branches(subject, [*(each.body for each in cases), *others])
            case ast.For() | ast.AsyncFor():
                return self._loop(statement)
            case ast.While(test, body):
                return self._branches(test, [body, []]) if not self._fixed.holds(test) else self._pass(body)
            case ast.With(items, body) | ast.AsyncWith(items, body):
                entered = [each.context_expr for each in items]
                for each in entered:
                    self._note_switch(each)
                return self._block(body).after(_NONE.union(*map(self._use, entered)))
            case ast.Try(body, handlers, orelse, final):
                for handler in handlers:
                    self._block(handler.body)
                return self._block([*body, *orelse, *final])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return _Paths(self._all_in(statement))
            case ast.Assign([ast.Name(name)], value) if self._named(value):
                self._also[name] = self._named(value)
                return _Paths(_NONE)
        found = _NONE.union(*(self._use(each) for each in _expressions(statement)))
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            self._also.pop(getattr(target, "id", ""), None)
        return _Paths(found)

    def _branches(self, test: ast.expr, branches: list[list[ast.stmt]]) -> _Paths:
        before = self._of_test(test)
        paths = [self._block(each) for each in branches]
        if self._fixed.holds(test):
            # An object always goes the one way.
            of_all = _NONE.union(*(each.all for each in paths))
            if all(each.on is None for each in paths):
                return _Paths(None, _any(*(each.out for each in paths)), _any(*(each.over for each in paths)))
            return _Paths(before | of_all)
        self._note_split(test, [each.all for each in paths if each != _Paths(None)])
        if len({each.on is None for each in paths if each != _Paths(None)}) > 1:
            self._ends = test
        self._note_cut(test, branches)
        return _Paths(*(_common(*ways) for ways in zip(*paths, strict=True))).after(before)

    def _loop(self, loop: ast.For | ast.AsyncFor) -> _Paths:
        held = self._held_in(loop.iter)
        self._note_drawn(loop.iter)
        before = _NONE if held else self._use(loop.iter)
        for each in walk(loop.target) if held else ():
            if isinstance(each, ast.Name):
                self._also[each.id] = held
        return self._pass([*loop.body]).after(before)

    def _pass(self, body: list[ast.stmt]) -> _Paths:
        """A loop that goes through its body once at least."""
        paths = self._block(body)
        return _Paths(_common(paths.on, paths.over), paths.out)

    # Expressions.

    def _use(self, node: ast.AST | None) -> frozenset[str]:
        match node:
            case None:
                return _NONE
            case ast.IfExp(test, one, other):
                before, ways = self._of_test(test), [self._use(one), self._use(other)]
                return before | self._either(test, ways)
            case ast.BoolOp(_, [first, *others]):
                before = self._use(first)
                rest = _NONE.union(*map(self._use, others))
                return before | (self._either(first, [rest, _NONE]))
            case ast.Attribute(ast.Name("self"), name):
                return self._reach({name} if self._holds(name) else ())
            case ast.Name(name):
                return self._reach(self._also.get(name, ()))
            case ast.Subscript(value, index):
                self._note_choice(value, index)
                return self._use(value) | self._use(index)
            case ast.Call():
                return self._call(node)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self._comprehension(node)
        return _NONE.union(*(self._use(each) for each in children(node)))

    def _either(self, test: ast.expr, ways: list[frozenset[str]]) -> frozenset[str]:
        if self._fixed.holds(test):
            return _NONE.union(*ways)
        self._note_split(test, ways)
        return frozenset.intersection(*ways)

    def _call(self, call: ast.Call) -> frozenset[str]:
        names = library_names(self._flow.values(call.func))
        if names and names <= _LOOKED_AT:
            return _NONE
        found = _NONE.union(*map(self._use, arguments_of(call)))
        match call:
            case ast.Call(ast.Attribute(ast.Name("self"), name)):
                method = self._flow.method(self._class, name)
                if method is not None:
                    return found | self._through(method)
            case ast.Call(ast.Name("getattr"), [ast.Name("self"), name, *_]) if not self._fixed.holds(name):
                self._chosen.setdefault("", call)
        self._note_drawn(call)
        return found | self._use(call.func)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> frozenset[str]:
        found = _NONE
        for each in node.generators:
            held = self._held_in(each.iter)
            found |= _NONE if held else self._use(each.iter)
            for target in walk(each.target) if held else ():
                if isinstance(target, ast.Name):
                    self._also[target.id] = held
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inner = _NONE.union(*map(self._use, parts))
        for test in (test for each in node.generators for test in each.ifs):
            inner = self._either(test, [inner, _NONE])
        return found | inner

    def _of_test(self, test: ast.expr) -> frozenset[str]:
        """What a condition calls: not what it only looks at, ``self.head is not None``."""
        return _NONE.union(*(self._use(each) for each in walk(test) if isinstance(each, ast.Call)))

    def _all_in(self, node: ast.AST) -> frozenset[str]:
        """All that a function inside may reach, taken for what it does."""
        return _NONE.union(*(self._use(each) for each in walk(node) if isinstance(each, ast.Attribute)))

    # What the attributes hold.

    def _holds(self, name: str) -> bool:
        values = self._flow.attributes(self._class).get(name, ())
        inside = closure(values, lambda each: self._flow.items(each) if isinstance(each, Container) else ())
        return any(has_parameters(self._flow, each) for each in inside)

    def _reach(self, names: Iterable[str]) -> frozenset[str]:
        self._reached.update(names)
        return frozenset(names)

    def _held_in(self, node: ast.expr) -> frozenset[str]:
        """The attributes with parameters whose items an expression goes through."""
        named = (each for each in walk(node) if isinstance(each, (ast.Attribute, ast.Name, ast.Subscript)))
        return _NONE.union(*(self._named(each) for each in named))

    def _named(self, node: ast.expr) -> frozenset[str]:
        """The attributes that an expression names, and does not call: ``self.head``, ``self.heads[i]``."""
        match node:
            case ast.Attribute(ast.Name("self"), name) if self._holds(name):
                return frozenset({name})
            case ast.Name(name):
                return self._also.get(name, _NONE)
            case ast.Subscript(value, index):
                self._note_choice(value, index)
                return self._named(value)
        return _NONE

    # What decides.

    def _note_split(self, test: ast.AST, ways: list[frozenset[str]]) -> None:
        for name in frozenset().union(*ways) - (_common(*ways) or _NONE):
            self._splits.setdefault(name, test)

    def _note_choice(self, value: ast.expr, index: ast.expr) -> None:
        """``self.heads[task]``: one of several layers, another one each time."""
        named = self._named(value) if not isinstance(value, ast.Subscript) else _NONE
        is_of_layers = any(
            kind(self._flow, each) is Kind.MODEL
            for some in self._flow.values(value)
            for each in (some, *(self._flow.items(some) if isinstance(some, Container) else ()))
        )
        if named and is_of_layers and not self._fixed.holds(index):
            self._chosen.setdefault(min(named), index)

    def _note_drawn(self, node: ast.expr) -> None:
        """``random.choice(self.heads)``, ``random.sample(self.layers, 3)``."""
        for call in walk(node):
            names = library_names(self._flow.values(call.func)) if isinstance(call, ast.Call) else ()
            if isinstance(call, ast.Call) and any(each.startswith(_DRAWING) for each in names):
                for name in _NONE.union(*map(self._held_in, arguments_of(call))):
                    self._chosen.setdefault(name, call)

    def _note_switch(self, node: ast.expr) -> None:
        """``with torch.set_grad_enabled(self.step > 100):``, ``with torch.no_grad() if frozen else nullcontext():``."""
        for each in walk(node):
            names = library_names(self._flow.values(each.func)) if isinstance(each, ast.Call) else ()
            is_choice = isinstance(each, ast.IfExp) and "no_grad" in ast.unparse(each)
            test = each.test if isinstance(each, ast.IfExp) and is_choice else None
            if isinstance(each, ast.Call) and "torch.set_grad_enabled" in names and each.args:
                test = each.args[0]
            if test is not None and not self._fixed.holds(test):
                self._chosen.setdefault("", test)

    def _note_cut(self, test: ast.expr, branches: list[list[ast.stmt]]) -> None:
        """``if step < 100: x = x.detach()``: until then no gradient goes through."""
        cuts = [any(_cuts(each) for each in branch) for branch in branches]
        if any(cuts) and not all(cuts):
            self._chosen.setdefault("", test)


def _cuts(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign([ast.Name(name)], ast.Call(ast.Attribute(ast.Name(other), "detach"))):
            return name == other
    return False


def _is_wild(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    return (each for each in children(statement) if isinstance(each, ast.expr) and not _is_stored(each))


def _is_stored(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store) and isinstance(node, ast.Name)
