"""Loops that change the parameters of models one by one: averages of weights, target networks, descent by hand."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, words
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, LOOPS, last_name, walk
from codemods.dataflow.values import in_order, library_names, owner_of, without_none
from codemods.facts.loops import REPEATING, loop_around, module_of
from codemods.facts.models.alike import Alike
from codemods.facts.precision.presence import other_precision
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.elementwise import Column, Elementwise, NoFormError, Step, operands
from codemods.facts.training.graphless import may_be_without_parameters
from codemods.facts.training.modes import Modes
from codemods.library.kinds import Kind, described, kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script

_PARAMETERS = words("parameters named_parameters")
_CASTS = words("half bfloat16")
_SETTERS = words("torch.set_default_dtype")
_IN_16_BITS = words("torch.float16 torch.half torch.bfloat16")
_STATES = words("state_dict buffers named_buffers")


@dataclass(eq=False)
class ManualUpdate:
    """A loop that changes parameters, in each iteration of a loop around it."""

    module: Module
    loop: ast.For
    owners: Mapping[str, ast.expr] = field(default_factory=dict)
    """By the name of each parameter in the loop: the model that it is of, as it is written."""
    steps: list[Step] = field(default_factory=list)
    """What it does, in this order."""
    why_not: Reason | None = None


def manual_updates(script: Script) -> Iterator[ManualUpdate]:
    """The loops of the module that change parameters one by one, again and again."""
    module = script.module
    for loop in module.nodes(ast.For):
        asked = {name for each in walk(loop.iter) for name in _asked(each)}
        if not asked or not _changes_something(script, module, loop):
            continue
        if loop_around(script.flow, module, loop) is not None:
            yield _Reader(script, loop, asked).read()


def _asked(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(ast.Attribute(_, name)) if name in _PARAMETERS | _STATES:
            yield name


def _changes_something(script: Script, module: Module, loop: ast.For) -> bool:
    """Whether it changes a tensor, and does not only zero it: there are other ways to do that."""
    names = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
    reader = Elementwise(script.flow, module, names)
    changes = [each for each in walk(loop) if isinstance(each, ast.stmt) and reader.updates(each)]
    return any(not _is_zeroing(each) for each in changes)


def _is_zeroing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(_, "zero_"))):
            return True
    return False


class _Reader:
    def __init__(self, script: Script, loop: ast.For, asked: set[str]) -> None:
        self._script = script
        self._flow = script.flow
        self._module = script.module
        self._loop = loop
        self._asked = asked

    def read(self) -> ManualUpdate:
        """The loop, with what it does or why that is not known."""
        found = ManualUpdate(self._module, self._loop)
        try:
            found.owners = self._owners()
            reader = Elementwise(self._flow, self._module, found.owners)
            found.steps = [step for each in self._loop.body for step in reader.steps(each)]
        except NoFormError as error:
            found.why_not = error.reason
        else:
            found.why_not = next((each for each in self._obstacles(found) if each is not None), None)
        return found

    # What the loop goes through.

    def _owners(self) -> dict[str, ast.expr]:
        if self._asked & _STATES:
            text = f"buffers are changed as well ({HERE}), and some of them hold integers"
            raise self._left("integer-buffers", text, self._loop.iter)
        owners: dict[str, ast.expr] = {}
        for target, given in self._pairs():
            owner, is_named = self._owner(given)
            if is_named:
                target = self._second(target)  # noqa: PLW2901 - the parameter beside its name
            if owner is None or not isinstance(target, ast.Name):
                text = f"what the loop goes through is not seen to be the parameters of models alone ({HERE})"
                raise self._left("unknown-model", text, self._loop.iter)
            owners[target.id] = owner
        if self._loop.orelse:
            raise self._left("not-elementwise", f"the loop has an else ({HERE})", self._loop.orelse[0])
        return owners

    def _pairs(self) -> list[tuple[ast.expr, ast.expr]]:
        match self._loop.target, self._loop.iter:
            case ast.Tuple(targets), ast.Call(func, given, []) if len(targets) == len(given):
                if {each.name for each in self._flow.values(func)} == {"builtins.zip"}:
                    return list(zip(targets, given, strict=True))
        return [(self._loop.target, self._loop.iter)]

    def _owner(self, given: ast.expr) -> tuple[ast.expr | None, bool]:
        """The model whose parameters these are, and whether they come with their names."""
        match given:
            case ast.Call(func, [inner], []) if {each.name for each in self._flow.values(func)} == {"builtins.list"}:
                return self._owner(inner)
            case ast.Call(ast.Attribute((ast.Name() | ast.Attribute()) as owner, name), [], []) if name in _PARAMETERS:
                values = without_none(self._flow.values(given))
                are_of_models = bool(values) and all(
                    each.name == f"torch.nn.Module.{name}" and self._is_model(owner_of(each)) for each in values
                )
                return (owner if are_of_models else None), name == "named_parameters"
        return None, False

    def _is_model(self, value: Value | None) -> bool:
        return value is not None and kind(self._flow, value) is Kind.MODEL

    def _second(self, target: ast.expr) -> ast.expr:
        """The parameter beside its name, which nothing reads."""
        match target:
            case ast.Tuple([ast.Name(name), second]):
                for part in self._loop.body:
                    for each in walk(part):
                        if isinstance(each, ast.Name) and each.id == name:
                            text = f"the loop uses the names of the parameters ({HERE})"
                            raise self._left("not-elementwise", text, each)
                return second
        return target

    # What is against it.

    def _obstacles(self, found: ManualUpdate) -> Iterator[Reason | None]:
        yield self._why_empty(found)
        yield self._why_not_paired(found)
        yield self._why_read_later()
        yield self._why_graph(found)
        yield self._why_caught()
        yield self._why_half()

    def _why_empty(self, found: ManualUpdate) -> Reason | None:
        """That a loop over no parameters does nothing, where functions for lists raise an error."""
        for owner in found.owners.values():
            values = without_none(self._flow.values(owner))
            empty = next((each for each in in_order(values) if may_be_without_parameters(self._flow, each)), None)
            if empty is not None:
                what = f"may be {described(empty)}, which has" if len(values) > 1 else "has"
                shown = self._module.code(owner)
                text = f"{shown} {what} no parameters to change ({HERE}), and an empty list raises an error"
                return Reason("nothing-to-gain", text, (at(self._module, self._loop),))
        return None

    def _why_half(self) -> Reason | None:
        cast = self._cast_to_16_bits()
        if cast is None:
            return None
        text = f"weights may be in 16 bits ({HERE}), where the CPU rounds what a list is multiplied by"
        return Reason("other-precision", text, (at(module_of(self._flow, cast), cast),))

    def _cast_to_16_bits(self) -> ast.Call | None:
        chosen = other_precision(self._script)
        if chosen is not None and last_name(chosen[0].func) in _CASTS:
            return chosen[0]
        for module in self._script.modules:
            for call in module.nodes(ast.Call):
                is_of_model = isinstance(call.func, ast.Attribute) and call.func.attr == "to"
                is_of_model = is_of_model and any(map(self._is_model, self._flow.values(call.func.value)))  # type: ignore[attr-defined]
                given = {each.name for one in arguments_of(call) for each in self._flow.values(one)}
                if given & _IN_16_BITS and (is_of_model or library_names(self._flow.values(call.func)) & _SETTERS):
                    return call
        return None

    def _why_not_paired(self, found: ManualUpdate) -> Reason | None:
        """Why the models may have other numbers of parameters: ``zip`` ends with the shorter one."""
        alike = Alike(self._flow)
        first, *others = found.owners.values()
        for other in others:
            if not alike.holds(self._module, first, other):
                shown = f"{self._module.code(first)} and {self._module.code(other)}"
                text = f"that {shown} have as many parameters, of the same sizes, is not known ({HERE})"
                return Reason("unpaired-parameters", text, (at(self._module, self._loop),))
        return None

    def _why_read_later(self) -> Reason | None:
        """Where code behind the loop reads what it calls the last parameter."""
        module, loop = self._module, self._loop
        function = module.function(loop)
        bound = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
        inside = set(walk(loop))
        for name in module.nodes(ast.Name):
            if name.id not in bound or name in inside or not isinstance(name.ctx, ast.Load):
                continue
            home = module.function(name)
            is_here = home is function or (function is None and home is not None and name.id not in bound_names(home))
            if is_here and not self._is_bound_anew(name):
                text = f"'{name.id}' is read outside of the loop ({HERE})"
                return Reason("used-outside", text, (at(module, name),))
        return None

    def _is_bound_anew(self, name: ast.Name) -> bool:
        """Whether another loop or comprehension around gives the name a value of its own."""
        below: ast.AST = name
        for above in self._module.ancestors(name):
            generators = getattr(above, "generators", ()) if isinstance(above, REPEATING) else ()
            targets = [each.target for each in generators]
            if isinstance(above, LOOPS) and below in above.body:
                targets.append(getattr(above, "target", None))
            if any(
                isinstance(each, ast.Name) and each.id == name.id
                for target in targets
                if target is not None
                for each in walk(target)
            ):
                return True
            below = above
        return False

    def _why_graph(self, found: ManualUpdate) -> Reason | None:
        """Why what is computed of the parameters may have a graph, which is kept then."""
        read = (each for step in found.steps for each in operands(step) if isinstance(each, Column))
        plain = next((each for each in read if not each.is_detached and not each.is_gradient), None)
        if plain is None or Modes(self._flow, (self._module,)).without_gradients(self._module, self._loop):
            return None
        text = f"'{plain.code}' may take part in a graph ({HERE}):"
        remedy = f"put the loop under torch.no_grad(), or write {plain.code}.detach()"
        return Reason("graph-escapes", text, (at(self._module, self._loop),), remedy)

    def _why_caught(self) -> Reason | None:
        for above in self._module.ancestors(self._loop):
            if isinstance(above, FUNCTIONS):
                return None
            if isinstance(above, ast.Try) and above.handlers and self._loop in walk(above):
                text = f"an error ends the loop half-way, and the script may go on ({HERE})"
                return Reason("error-caught", text, (at(self._module, above),))
        return None

    def _left(self, code: str, text: str, node: ast.AST) -> NoFormError:
        return NoFormError(Reason(code, text, (at(self._module, node),)))
