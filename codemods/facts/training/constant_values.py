"""What makes the same tensor of the same numbers in each pass of a loop, and what computes the same of such tensors."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, scope_of, words
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import walk
from codemods.dataflow.values import Choice, Container, External, Literal, Plain, library_names, without_none
from codemods.facts.invariants import Invariants, names_of
from codemods.facts.loops import module_of
from codemods.facts.reach import own
from codemods.facts.training.tensor_uses import written_by
from codemods.library.fills import COMPUTING, FILLING, is_alike, is_constant, is_tensor_type, makes_array
from codemods.library.losses import is_stateless_loss
from codemods.library.operators import function, operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.facts.reason import Reason
    from codemods.library.operators import Operator

VARIABLE = "torch.autograd.Variable"
_FROM_ARRAY = "torch.from_numpy"
_KEEPING = words("to cuda cpu type requires_grad_ astype ravel")
"""Methods of tensors or arrays that keep the numbers, whatever they are given."""
_NUMBERS = (Literal, Plain, Choice)
_LISTS = (ast.Tuple, ast.List)
_LEAVES = (ast.Break, ast.Continue, ast.Return)


@dataclass(eq=False)
class ConstantValues(Invariants):
    """Answers of tensors what ``Invariants`` does of numbers, and of names that are given several values in turn.

    ``y = torch.arange(n)`` and ``y = y.cuda()`` below it give ``y`` the same in each pass, and so do both with an
    ``if use_cuda:`` around the second one.
    """

    lengths_stay: bool = False
    """Whether the length of a batch, ``x.size(0)``, counts as the same in each pass."""
    read_between: list[ast.Name] = field(default_factory=list)
    """Where such a name is read between the first and the last of its assignments, but not by these."""
    _chains: dict[str, Reason | None] = field(default_factory=dict)
    """Why names that the loop gives several values are not the same in each pass; None while that is looked into."""
    _asked: set[str] = field(default_factory=set)
    """The names of which is asked whether they hold a tensor that the loop makes."""
    _computing: set[ast.AST] = field(default_factory=set)
    """The functions of the project that are looked into, and given such tensors and numbers alone."""

    # Tensors.

    def makes_tensors(self, value: ast.expr) -> bool:
        """Whether the expression makes tensors of numbers, or computes them of tensors that the loop makes so."""
        if isinstance(value, ast.Tuple):
            return bool(value.elts) and all(map(self.makes_tensors, value.elts))
        match value:
            case ast.Name(name) if name in self._own_names:
                return self._inside in self._computing
            case ast.Name(name):
                return self._holds_tensor(name) and module_of(self._flow, value) is self.module
            case ast.Call():
                return self._call_makes_tensors(value)
            case ast.UnaryOp(_, made) | ast.Subscript(made):
                return self.makes_tensors(made)
            case ast.IfExp(_, body, orelse):
                return self.makes_tensors(body) and self.makes_tensors(orelse)
            case ast.BinOp(left, _, right) | ast.Compare(left, _, [right]):
                others = [each for each in (left, right) if not self._is_number(each)]
                return bool(others) and all(map(self.makes_tensors, others))
        return False

    def computes(self, value: ast.expr) -> bool:
        """Whether a function of torch computes something of such tensors, such as a grid."""
        called = (library_names(self._flow.values(each.func)) for each in walk(value) if isinstance(each, ast.Call))
        return any(_computes(name, function(name)) for names in called for name in names)

    def _call_makes_tensors(self, call: ast.Call) -> bool:
        values = self._flow.values(call.func)
        names = library_names(values)
        if any(each.arg == "out" for each in call.keywords) or written_by(self._flow, call):
            return False
        if not names and self._flow.called(call):
            return self._function_computes(call)
        if not names:
            return isinstance(call.func, ast.Attribute) and self._method_makes_tensors(call.func)
        if len(names) < len(values):
            return False
        if names == {VARIABLE}:
            return bool(call.args) and self.makes_tensors(call.args[0])
        if all(map(is_tensor_type, names)):
            return self._is_of_numbers(call)
        return all(is_constant(each) or makes_array(each) or _takes_tensors(each) for each in names)

    def _method_makes_tensors(self, method: ast.Attribute) -> bool:
        made = method.value
        if method.attr in FILLING and isinstance(made, ast.Call):
            names = library_names(self._flow.values(made.func))
            if names and all(map(is_tensor_type, names)):
                return True
        is_known = is_alike(method.attr) or method.attr in _KEEPING or _computes(method.attr, operator(method.attr))
        return is_known and self.makes_tensors(made)

    def _function_computes(self, call: ast.Call) -> bool:
        """Whether a function of the project is given such tensors and numbers, and reads nothing else."""
        functions = self._flow.called(call)
        function_ = functions[0] if len(functions) == 1 else None
        if not isinstance(function_, ast.FunctionDef) or self._flow.owner(function_) is not None:
            return False
        given = [part for argument in arguments_of(call) for part in parts(argument)]
        own_names = bound_names(function_) | frozenset(signature(function_).names)
        inner = (each for statement in function_.body for each in walk(statement) if isinstance(each, ast.Name))
        return (
            bool(given)
            and all(self._is_number(each) or self.makes_tensors(each) for each in given)
            and all(isinstance(each, ast.Constant) for each in signature(function_).defaults.values())
            and all(each.id in own_names or self._is_of_library(each) for each in inner)
        )

    def _is_of_library(self, node: ast.expr) -> bool:
        """A function, a constant or a number format of a library."""
        values = self._flow.values(node)
        return bool(values) and all(isinstance(each, External) for each in values)

    def _is_of_numbers(self, call: ast.Call) -> bool:
        """Whether a constructor of the old kind is given numbers, and no sizes, of which it fills in nothing."""
        match call:
            case ast.Call(_, [ast.List() | ast.Tuple()], []):
                return True
            case ast.Call(_, [ast.BinOp() as repeated], []):
                return _count(repeated) is not None
            case ast.Call(_, [ast.Call(counted) as given], []):
                is_range = library_names(self._flow.values(counted)) == {"builtins.range"}
                return is_range or self.is_array(given)
        return False

    def is_array(self, node: ast.expr) -> bool:
        """Whether it is an array that NumPy fills with numbers: ``np.eye(3).astype("float32")``."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names = library_names(self._flow.values(node.func))
            if names:
                return all(map(makes_array, names))
            node = node.func.value
        return False

    def _holds_tensor(self, name: str) -> bool:
        """Whether the loop first gives the name a tensor that it makes."""
        if name in self._asked or name not in self._bound:
            return False
        self._asked.add(name)
        statements = [self._step(each) for each in self._stores(name)]
        first = statements[0] if statements else None
        value = getattr(first, "value", None)
        holds = isinstance(value, ast.expr) and self.makes_tensors(value)
        self._asked.discard(name)
        return holds

    def _is_number(self, node: ast.expr) -> bool:
        if isinstance(node, ast.UnaryOp):
            return self._is_number(node.operand)
        values = self._flow.values(node)
        return isinstance(node, ast.Constant) or (bool(values) and all(isinstance(each, _NUMBERS) for each in values))

    def _why_made(self, call: ast.Call) -> Reason | None:
        values = self._flow.values(call.func)
        names = library_names(values)
        if names and all(map(_makes_of_numbers, names)):
            return self._why_arguments(call) or self._why_contents(arguments_of(call))
        if names and len(names) == len(values) and all(makes_array(each) or _takes_tensors(each) for each in names):
            return self._why_arguments(call) or self._why_not_of_constants(call)
        match call.func:
            case ast.Attribute(tensor, method) if not names and self._method_makes_tensors(call.func):
                only_shapes = (is_alike(method) and method not in COMPUTING) or method in _KEEPING
                reason = self.why_varies(tensor) or self._why_arguments(call)
                return reason or (None if only_shapes else self._why_not_of_constants(call))
        if not self._flow.called(call) or not self._function_computes(call):
            return super()._why_made(call)
        before = set(self._computing)
        self._computing.update(self._flow.called(call))
        reason = super()._why_made(call)
        self._computing = before
        return reason

    def _why_contents(self, given: Sequence[ast.expr]) -> Reason | None:
        """Why a list that a tensor is made of may be changed in the loop."""
        for each in (part for argument in given for part in parts(argument)):
            if any(isinstance(value, Container) for value in without_none(self._flow.values(each))):
                reason = self._why_content(each)
                if reason is not None:
                    return reason
        return None

    def _why_not_of_constants(self, call: ast.Call) -> Reason | None:
        """Why what computes something of tensors may be given others than those that the loop makes of numbers."""
        for each in (part for argument in arguments_of(call) for part in parts(argument)):
            if not self._is_of_library(each) and not self._is_number(each) and not self.makes_tensors(each):
                return self._unknown(each)
        return None

    def _why_content(self, node: ast.expr) -> Reason | None:
        return None if self.makes_tensors(node) else super()._why_content(node)

    def _why_form(self, node: ast.expr) -> Reason | None:
        if isinstance(node, ast.Slice):
            return self._first(*(each for each in (node.lower, node.upper, node.step) if each is not None))
        return super()._why_form(node)

    def _why_not_computed(self, node: ast.expr) -> Reason | None:
        count = _count(node)
        if count is not None:
            return self._why_not_number(count)
        return None if self.makes_tensors(node) else super()._why_not_computed(node)

    def why_varies(self, node: ast.expr) -> Reason | None:
        """Why the expression may be something else in another pass of the loop, or above it; None if it is the same."""
        return None if self.lengths_stay and self._is_length(node) else super().why_varies(node)

    def _is_length(self, node: ast.expr) -> bool:
        """``x.size(0)``, ``x.shape[0]`` or ``len(x)`` of something that the loop has a name for."""
        match node:
            case (
                ast.Call(ast.Attribute(ast.Name(name), "size"), [ast.Constant(0)], [])
                | ast.Subscript(ast.Attribute(ast.Name(name), "shape"), ast.Constant(0))
                | ast.Subscript(ast.Call(ast.Attribute(ast.Name(name), "size"), [], []), ast.Constant(0))
                | ast.Call(ast.Name("len"), [ast.Name(name)], [])
            ):
                return name in self._bound and name not in self._own_names
        return False

    # Names.

    def why_statement_varies(self, statement: ast.stmt) -> Reason | None:
        """Why an assignment directly in the loop does not give its names the same in each pass; None if it does."""
        names = [each.id for each in names_of(statement)]
        several = [each for each in names if len(self._stores(each)) > 1]
        if not several:
            return super().why_statement_varies(statement)
        return next(filter(None, map(self._why_chain, several)), None)

    def is_first(self, statement: ast.stmt) -> bool:
        """Whether no other assignment of the loop gives one of its names a value before it."""
        return all(self._stores(each.id)[:1] == [each] for each in names_of(statement))

    def why_read_between(self) -> Reason | None:
        """Why what stays in the loop may see another value of a name than before."""
        for each in self.read_between:
            if self._directly_in_loop(each) not in self.statements:
                return self._varies(each, f"'{each.id}' is read before it gets its last value")
        return None

    def _why_bound(self, name: str) -> Reason | None:
        return self._why_chain(name) if len(self._stores(name)) > 1 else super()._why_bound(name)

    def _why_chain(self, name: str) -> Reason | None:
        if name not in self._chains:
            self._chains[name] = None
            self._chains[name] = self._why_no_chain(name)
        return self._chains[name]

    def _why_no_chain(self, name: str) -> Reason | None:
        stores = self._stores(name)
        found = [self._step(each) for each in stores]
        steps = sorted((each for each in dict.fromkeys(found) if each is not None), key=self.module.span)
        if None in found or isinstance(steps[0], ast.If):
            return self._varies(stores[0], f"'{name}' changes from one pass of the loop to the next")
        reason = self._why_seen_otherwise(name, steps)
        return reason or next(filter(None, map(self._why_step_varies, steps)), None)

    def _why_step_varies(self, statement: ast.stmt) -> Reason | None:
        """Why one of the assignments, or an ``if`` that consists of such, does not do the same in each pass."""
        if statement in self.statements:
            return None
        for store in own(statement, ast.Name):
            if isinstance(store.ctx, ast.Store):
                is_chain = len(self._stores(store.id)) > 1
                reason = self._why_chain(store.id) if is_chain else self._why_not_only(store, statement)
                if reason is not None:
                    return reason
        reason = self._why_assigned_varies(statement)
        if reason is None:
            self.statements[statement] = None
        return reason

    def _why_assigned_varies(self, statement: ast.stmt) -> Reason | None:
        if isinstance(statement, ast.If):
            reasons = map(self._why_assigned_varies, [*statement.body, *statement.orelse])
            return self.why_varies(statement.test) or next(filter(None, reasons), None)
        value = getattr(statement, "value", None)
        return self.why_varies(value) if isinstance(value, ast.expr) else None

    def _why_seen_otherwise(self, name: str, steps: Sequence[ast.stmt]) -> Reason | None:
        """Why something else sees the name at another time, or gives it a value; what reads it between is noted."""
        start, end = self.module.span(steps[0])[0], self.module.span(steps[-1])[1]
        home = self.module.function(self.loop)
        for each in self.module.nodes(ast.Name):
            if each.id == name and not self._is_after(each, home) and self._directly_in_loop(each) not in steps:
                reason = self._why_seen(each, start, end)
                if reason is not None:
                    return reason
        for leave in own(self.loop, *_LEAVES):
            if start < self.module.span(leave)[0] < end:
                return self._varies(leave, f"the pass may end before '{name}' gets its last value")
        return None

    def _why_seen(self, node: ast.Name, start: int, end: int) -> Reason | None:
        home, reader = self.module.function(self.loop), self.module.function(node)
        is_here = reader is home or (home is not None and node.id in scope_of(home).outer_bound)
        if not isinstance(node.ctx, ast.Load):
            is_other = is_here or self._is_outer(node)
            return self._varies(node, f"'{node.id}' is given another value elsewhere") if is_other else None
        if not is_here:
            inherits = reader is not None and node.id not in bound_names(reader)
            return self._varies(node, f"a function reads '{node.id}'") if inherits else None
        if self.module.span(node)[0] < start:
            return self._varies(node, f"'{node.id}' is read before it is made")
        if self.module.span(node)[0] < end:
            self.read_between.append(node)
        return None

    def _stores(self, name: str) -> list[ast.Name]:
        """Where the loop gives the name a value."""
        names = own(self.loop, ast.Name)
        return [each for each in names if each.id == name and not isinstance(each.ctx, ast.Load)]

    def _step(self, store: ast.Name) -> ast.stmt | None:
        """The assignment directly in the loop that gives a name its value, or the ``if`` of assignments alone."""
        statement = self._directly_in_loop(store)
        return statement if statement is not None and _only_assigns(statement) else None

    def _directly_in_loop(self, node: ast.AST) -> ast.stmt | None:
        around = {node, *self.module.ancestors(node)}
        return next((each for each in self.loop.body if each in around), None)


def _only_assigns(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        is_test = not any(isinstance(each, ast.NamedExpr) for each in walk(statement.test))
        return is_test and all(map(_only_assigns, [*statement.body, *statement.orelse]))
    return bool(names_of(statement))


def _count(node: ast.expr) -> ast.expr | None:
    """``n`` of ``[0.5] * n``."""
    match node:
        case ast.BinOp(ast.List(), ast.Mult(), count) | ast.BinOp(count, ast.Mult(), ast.List()):
            return count
    return None


def _takes_tensors(name: str) -> bool:
    """Whether the function makes the same of the same tensors, or of the same arrays."""
    return name == _FROM_ARRAY or _computes(name, function(name))


def _makes_of_numbers(name: str) -> bool:
    return is_constant(name) or is_tensor_type(name) or is_stateless_loss(name) or name == VARIABLE


def _computes(name: str, row: Operator | None) -> bool:
    """Whether it computes new tensors, or views, of those that it is given, the same of the same, and changes none."""
    return row is not None and row.computes_alike and not name.endswith("_")


def parts(given: ast.expr) -> Iterator[ast.expr]:
    """What a list that is written out is made of; anything else by itself."""
    if isinstance(given, _LISTS):
        for each in given.elts:
            yield from parts(each)
    else:
        yield given
