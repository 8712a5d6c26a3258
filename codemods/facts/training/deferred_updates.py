"""When may what each pass tells a meter of the project wait until few passes ask it, or until the loop is over?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import walk
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.deferred_lists import DeferredList
from codemods.facts.training.meter_reads import tellings
from codemods.facts.training.sums import is_number, needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.facts.devices.readings import Reading
    from codemods.facts.training.meter_reads import Telling
    from codemods.facts.training.own_meters import Meter

EACH = "each"
"""The name of what a meter is told, one after the other, after the loop, where its method has no names for it."""


@dataclass(frozen=True, eq=False)
class DeferredUpdates(DeferredList):
    """What the passes of a loop tell a meter, which may be told after the loop."""

    @property
    def call(self) -> ast.Call:
        """The call that tells it."""
        return self.total.additions[0].value  # type: ignore[attr-defined, no-any-return]

    @property
    def told(self) -> ast.expr:
        """Which of the arguments is read from the device, be it by name."""
        nodes = {each.node for each in self.readings}
        return next(each for each in arguments_of(self.call) if each in nodes or each in self.named)

    @property
    def beside(self) -> list[ast.expr]:
        """The other arguments that a pass has to keep for it."""
        return [
            each for each in arguments_of(self.call) if each is not self.told and not isinstance(each, ast.Constant)
        ]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the method calls the arguments that are kept for it; none where the script has these names already."""
        (method,) = {*self.flow.called(self.call)}
        by_argument = {argument: name for name, argument in self.flow.bind(method, self.call).given.items()}
        found = [by_argument.get(each) for each in (self.told, *self.beside)]
        scope = self.total.function or self.total.module.tree
        taken = bound_names(scope) | {each.id for each in walk(scope) if isinstance(each, ast.Name)}
        names = tuple(each for each in found if each is not None and each not in taken)
        return names if len(set(names)) == len(found) else ()

    @property
    def joins(self) -> bool:
        """Nothing is computed of it before the meter is told."""
        return False

    def widens(self, one: Reading) -> bool:  # noqa: ARG002 - whatever it is
        """The number itself is asked for, as the script does."""
        return False

    @property
    def pending(self) -> str:
        """A name for what it is still to be told."""
        return f"{self.meter.name}_updates"

    @property
    def meter(self) -> Meter:
        """The meter."""
        return self.total  # type: ignore[return-value]

    @cached_property
    def tellings(self) -> Sequence[Telling]:
        """Where the loop itself tells it, or makes it anew."""
        return () if isinstance(self._told_inside, Reason) else self._told_inside

    @cached_property
    def _told_inside(self) -> Sequence[Telling] | Reason:
        return tellings(self.flow, self.meter)

    def waits_for(self, node: ast.AST) -> bool:
        """Whether few passes of the loop come to a node, and these tell the meter first, so that the host waits."""
        span = self.meter.module.span
        return any(
            not each.is_new and span(each.anchor)[0] <= span(one)[0] and node in walk(one)
            for each in self.tellings
            for one in each.suite
        )

    @property
    def repeated(self) -> str:
        """The loop that tells the meter all that its passes have kept for it."""
        module, call = self.meter.module, self.call
        places = range(1 + len(self.beside))
        names = self.names or tuple(f"{EACH}[{place}]" if self.beside else EACH for place in places)
        later = {**dict(zip(self.beside, names[1:], strict=True)), self.told: f"{names[0]}.item()"}
        arguments = [later.get(each) or module.code(each) for each in call.args]
        arguments += [f"{each.arg}={later.get(each.value) or module.code(each.value)}" for each in call.keywords]
        told = f"{module.code(call.func)}({', '.join(arguments)})"
        return f"for {', '.join(self.names) or EACH} in {self.pending}:\n    {told}"

    def why_not(self) -> Reason | None:
        """Why the meter has to be told in each pass."""
        return (
            self.why_unknown()
            or self._why_other_call()
            or self._why_used()
            or self.total.why_seen(self.flow)
            or self._why_long()
            or self._why_no_name()
        )

    def _why_other_call(self) -> Reason | None:
        total, module = self.total, self.total.module
        if len(total.additions) != 1:
            return needed(module, total.additions[1], f"'{total.name}' is told more than one thing in the loop")
        nodes = {each.node for each in self.readings}
        if len(self.readings) != 1 or not any(each in nodes or each in self.named for each in arguments_of(self.call)):
            return needed(module, self.call, f"'{total.name}' is told what is computed of a number")
        (one,) = self.readings
        if not isinstance(one.node.func, ast.Attribute) or self.named.get(self.told, one.node) is not one.node:  # type: ignore[call-overload]
            return needed(module, self.call, f"'{total.name}' is told what is computed of a number")
        for each in self.beside:
            if not is_number(self.flow, module, each):
                text = f"whether '{ast.unparse(each)}' is a number of Python's is not known ({HERE})"
                return Reason("unknown-number", text, (at(module, each),))
        return self._why_captured() or self._why_no_tensor(one)

    def _why_used(self) -> Reason | None:
        found = self._told_inside
        return found if isinstance(found, Reason) else self.meter.why_shared()

    def _why_no_name(self) -> Reason | None:
        scope = self.total.function or self.total.module.tree
        if self.pending in self.total.module.text or EACH in bound_names(scope):
            return Reason("no-name", f"the script gives the name '{self.pending}' or '{EACH}' to something else")
        return None
