"""Which of cuDNN's switches does a script set, or may it set?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.dataflow.names import assigned
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import lasting
from codemods.dataflow.values import External, Instance, Unknown
from codemods.facts.devices.devices import branches, for_cuda
from codemods.facts.loops import makings, module_of
from codemods.facts.models.layers import Model
from codemods.facts.models.placement import unwrapped
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.unreached import never_runs
from codemods.facts.workers.arguments import by_default
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.devices.devices import Branch
    from codemods.facts.script import Script

_SEEDING = re.compile(r"seed|determin|reproduc", re.IGNORECASE)


def convolves(script: Script, model: Model) -> bool:
    """Whether a convolution is known to be in the model.

    Where a base class wraps ``self``, it is looked for in the objects that the script makes of it and of its
    subclasses: there may be convolutions in others, of which it makes none.
    """
    inside = list(unwrapped(script.flow, model.value))
    made = [each for value in inside if value.site is None for each in _objects(script, value)]
    known = [Model(script.flow, each) for each in made] or [model]
    return any(each.has_convolution for each in known)


def _objects(script: Script, own: Value) -> Iterator[Value]:
    """What ``self`` is: the objects that the script makes of its class, or of one that derives from it."""
    for call in makings(script.flow, own.of.site) if isinstance(own, Instance) else ():
        if module_of(script.flow, call) in script.modules:
            yield from (each for each in script.flow.values(call) if isinstance(each, Instance) and each.site is call)


def is_switched_on(script: Script) -> bool:
    """Whether the script lets cuDNN measure its algorithms already, if no option is given that says otherwise."""
    return any(
        _is_true(value)
        and all(by_default(script, each.test) is each.holds for each in _conditions(script, module, node))
        for module, node, value in _settings(script)
    )


def optional(script: Script) -> ast.If | None:
    """The one ``if`` of the module under which everything stands that keeps cuDNN from measuring; None for another.

    It asks for an option that is off by default: without it, the script leaves the choice to cuDNN.
    """
    if any(_is_true(value) for _, _, value in _settings(script)):
        return None
    said = {node: module for module, node in script.determinisms} | {
        node: where for where, node, _ in _settings(script)
    }
    found = {branch for node, module in said.items() if (branch := off_by_default(script, module, node)) is not None}
    if len(found) != 1 or any(off_by_default(script, module, node) is None for node, module in said.items()):
        return None
    (statement,) = found
    return statement if script.module.holds(statement) else None


def off_by_default(script: Script, module: Module, node: ast.AST) -> ast.If | None:
    """The ``if`` of an option that is off by default, around the node or around the only call of its function."""
    for condition in _conditions(script, module, node):
        if condition.holds and by_default(script, condition.test) is False:
            statement = module_of(script.flow, condition.test).parent(condition.test)
            return statement if isinstance(statement, ast.If) else None
    return None


def _conditions(script: Script, module: Module, node: ast.AST) -> list[Branch]:
    """The conditions under which the node runs, but CUDA's: of its function, and of that one's only call."""
    found: list[Branch] = []
    seen: set[ast.AST] = set()
    here: ast.AST | None = node
    while here is not None and here not in seen:
        seen.add(here)
        found += [each for each in branches(module, here) if for_cuda(script.flow, each.test) is not each.holds]
        function = module.function(here)
        calls = script.flow.callers(function) if function is not None else ()
        here = calls[0] if len(calls) == 1 else None
        module = module_of(script.flow, here) if here is not None else module
    return found


@lasting  # each module asks
def _settings(script: Script) -> tuple[tuple[Module, ast.AST, ast.expr | None], ...]:
    """Where the flag is set, to what: ``cudnn.benchmark = …``, ``cudnn.flags(…)``; not where that never runs."""
    found = (each for module in script.modules for each in _settings_in(script, module))
    return tuple((module, node, value) for module, node, value in found if not never_runs(script.flow, node))


def _settings_in(script: Script, module: Module) -> Iterator[tuple[Module, ast.AST, ast.expr | None]]:
    for statement in module.nodes(ast.Assign):
        for target, value in assigned(statement):
            if isinstance(target, ast.Attribute) and target.attr == "benchmark" and script.is_cudnn(target.value):
                yield module, statement, value
    for call in module.nodes(ast.Call):
        named = len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
        if named and script.sets_attribute(call, "benchmark") and script.is_cudnn(call.args[0]):
            yield module, call, call.args[2]
        if any(each.name == "torch.backends.cudnn.flags" for each in script.flow.values(call.func)):
            yield module, call, argument_of(call, "benchmark")


def _is_true(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and bool(value.value)


def why_decided(script: Script, aside: ast.If | None = None) -> Reason | None:
    """Why the script decides otherwise, or may: it asks for determinism, or sets the flag.

    Args:
        script: The script.
        aside: What is said under this ``if`` does not count.
    """
    reason = _why_said(script) if aside is None else None
    return reason or _why_switched_off(script)


def _why_said(script: Script) -> Reason | None:
    if script.determinism is not None:
        place = at(*script.determinism)
        if off_by_default(script, *script.determinism) is None:
            return Reason("determinism", f"determinism requested ({HERE})", (place,))
        text = f"determinism requested under an option that is off by default ({HERE}):"
        return Reason("determinism", text, (place,), "set torch.backends.cudnn.benchmark = True where it is not given")
    for module, node, value in _settings(script):
        said = "to False" if isinstance(value, ast.Constant) else "by a choice of the script's own"
        if _is_true(value):
            said = "only under a condition of the script's own"
        return Reason("script-decides", f"the flag is set {said} ({HERE})", (at(module, node),))
    return None


def _why_switched_off(script: Script) -> Reason | None:
    """Why cuDNN may not choose at all, or not be free to, as far as can be read."""
    for module in script.modules:
        for statement in module.nodes(ast.Assign):
            for target in statement.targets:
                switch = (
                    isinstance(target, ast.Attribute) and target.attr == "enabled" and script.is_cudnn(target.value)
                )
                if switch and not _is_true(statement.value):
                    return Reason("script-decides", f"cuDNN is switched off ({HERE})", (at(module, statement),))
        for call in module.nodes(ast.Call):
            name = _unread_seeding(script, call)
            if name is not None:
                text = f"{name}(), which was not read, may ask for determinism ({HERE})"
                return Reason("determinism", text, (at(module, call),))
    return None


def _unread_seeding(script: Script, call: ast.Call) -> str | None:
    """The name of a function of a file that was not read, where it seems to seed: ``utils.set_seed``."""
    for callee in script.flow.values(call.func):
        name = ast.unparse(call.func) if isinstance(callee, Unknown) else callee.name
        is_unread = isinstance(callee, (External, Unknown)) and not has(name, Trait.SEEDS)
        if is_unread and _SEEDING.search(name.rpartition(".")[2]):
            return name
    return None
