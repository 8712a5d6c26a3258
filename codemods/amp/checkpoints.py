"""The scaler's state in checkpoints: saved and loaded beside the optimizer's, or neither of both."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.editing.values import AddArgument, AddItem, Insert
from codemods.library.kinds import Kind, may

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Values
    from codemods.editing.values import Edit
    from codemods.facts.script import Script

_STATES = frozenset({"state_dict", "load_state_dict"})


@dataclass(frozen=True, eq=False)
class End:
    """Where an optimizer's state is saved in a dictionary, or loaded from one."""

    module: Module
    call: ast.Call
    optimizer: ast.expr
    key: str | None
    """The scaler's key beside the optimizer's; None where that is computed."""
    is_saved: bool
    is_editable: bool

    @property
    def statement(self) -> ast.stmt:
        """The statement in which it stands."""
        return self.module.statement(self.call)


def ends(script: Script, optimizers: Values) -> tuple[End, ...]:
    """Where the state of these optimizers is saved, and where it is loaded; only what has both ends, all to be edited.

    What is saved and never loaded, or the other way round, would be a part of checkpoints that nothing reads or writes.
    """
    found = list(_ends(script, optimizers))
    saves = [each for each in found if each.is_saved and _is_first(script, each)]
    saves = list({_container(each): each for each in reversed(saves)}.values())[::-1]
    saved = {each.key for each in saves}
    loads = list(_one_a_checkpoint([each for each in found if not each.is_saved], saved))
    loaded = {each.key for each in loads}
    if None in saved | loaded:
        return ()
    closed = {each.key for each in (*saves, *loads) if not each.is_editable}
    return tuple(each for each in (*saves, *loads) if each.key in (saved & loaded) - closed)


def checkpoints(script: Script, found: Sequence[End], scaler_at: Callable[[ast.stmt], str | None]) -> Iterator[Edit]:
    """Saves and loads the scaler's state at these ends, if the scaler is seen at all of them."""
    scalers = {end: scaler_at(end.statement) for end in found}
    for end, scaler in scalers.items() if all(scalers.values()) else ():
        dictionary = end.module.parent(end.call)
        quote, state = script.quote(end.module), f"{scaler}.state_dict()"
        if isinstance(dictionary, ast.Dict):
            yield AddItem(end.module, dictionary, end.key or "", state)
        elif isinstance(dictionary, ast.keyword):
            made = end.module.parent(dictionary)
            assert isinstance(made, ast.Call)  # noqa: S101 - `dict(optimizer=…)`; for the type checker
            yield AddArgument(end.module, made, end.key or "", state)
        elif isinstance(dictionary, ast.Assign) and isinstance(dictionary.targets[0], ast.Subscript):
            container = end.module.code(dictionary.targets[0].value)
            yield Insert(end.module, dictionary, f"{container}[{quote}{end.key}{quote}] = {state}", "after")
        elif isinstance(end.call.args[0], ast.Subscript):
            container, key = end.module.code(end.call.args[0].value), f"{quote}{end.key}{quote}"
            code = f"if {container}.get({key}):\n    {scaler}.load_state_dict({container}[{key}])"
            yield Insert(end.module, end.statement, code, "after")


def _ends(script: Script, optimizers: Values) -> Iterator[End]:
    flow = script.flow
    for module in script.modules:
        for call in module.nodes(ast.Call):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in _STATES:
                continue
            values = flow.values(call.func.value)
            if may(flow, values, Kind.OPTIMIZER) and values & optimizers:
                here = module is script.module
                read = _saved(flow, module, call) if call.func.attr == "state_dict" else _loaded(module, call)
                for key, is_editable in read:
                    is_saved = call.func.attr == "state_dict"
                    yield End(module, call, call.func.value, key, is_saved, is_editable and here)


def _saved(flow: Flow, module: Module, call: ast.Call) -> Iterator[tuple[str | None, bool]]:
    """The scaler's key beside the optimizer's, and whether it can be added there; nothing where there is no dictionary.

    A dictionary that holds nothing else is the optimizer's own.
    """
    match module.parent(call):
        case ast.Dict(keys, values) as dictionary:
            key = _key(keys[values.index(call)])
            is_shared = sum(".state_dict()" in ast.unparse(each) for each in dictionary.values) > 1
            yield key, is_shared
        case ast.keyword(str() as name) as keyword:
            made = module.parent(keyword)
            yield _beside(name), isinstance(made, ast.Call) and _is_shared_dictionary(flow, module, made)
        case ast.Assign([ast.Subscript(ast.Name() as container, index)]):
            yield _key(index), _is_shared_name(module, container)
        case ast.Assign([ast.Subscript(_, index)]):
            yield _key(index), False


def _is_shared_dictionary(flow: Flow, module: Module, made: ast.Call) -> bool:
    """``dict(model=model.state_dict(), optimizer=optimizer.state_dict())``."""
    values = flow.values(made.func)
    is_dictionary = bool(values) and all(each.name == "builtins.dict" for each in values)
    return is_dictionary and sum(".state_dict()" in module.code(each) for each in made.keywords) > 1


def _is_shared_name(module: Module, container: ast.Name) -> bool:
    """``state["model"] = model.state_dict()`` beside ``state["optimizer"] = …``, or ``state = {"epoch": epoch}``."""
    function, count = module.function(container), 0
    for each in module.nodes(ast.Assign):
        match each:
            case ast.Assign([ast.Subscript(ast.Name(name), _)], ast.Call(ast.Attribute(_, "state_dict"))) | ast.Assign(
                [ast.Name(name)], ast.Dict([_, *_])
            ):
                count += name == container.id and module.function(each) is function
    return count > 1


def _loaded(module: Module, call: ast.Call) -> Iterator[tuple[str | None, bool]]:
    """The same for ``optimizer.load_state_dict(checkpoint["optimizer"])``."""
    statement = module.statement(call)
    match call.args:
        case [ast.Subscript(container, index)]:
            is_statement = isinstance(statement, ast.Expr) and statement.value is call
            yield _key(index), is_statement and isinstance(container, ast.Name)
        case [ast.Call(ast.Attribute(_, "get" | "pop"), [index, *_])]:
            yield _key(index), False


def _is_first(script: Script, end: End) -> bool:
    """Whether it is the first of the optimizers in its dictionary: there is one scaler."""
    dictionary = end.module.parent(end.call)
    for value in dictionary.values if isinstance(dictionary, ast.Dict) else ():
        match value:
            case ast.Call(ast.Attribute(of, "state_dict")) if may(script.flow, script.flow.values(of), Kind.OPTIMIZER):
                return value is end.call
    return True


def _container(end: End) -> tuple[ast.AST | None, str]:
    """The dictionary into which an optimizer's state is put: its display, or the name that it has in its function."""
    parent = end.module.parent(end.call)
    match parent:
        case ast.Assign([ast.Subscript(container, _)]):
            return end.module.function(end.call), ast.unparse(container)
        case ast.keyword():
            return end.module.parent(parent), ""
    return parent, ""


def _one_a_checkpoint(loads: Sequence[End], saved: set[str | None]) -> Iterator[End]:
    """Of the optimizers that are loaded from one checkpoint the one beside which the scaler is saved, or the first."""
    groups: dict[tuple[ast.AST | None, str], list[End]] = {}
    for each in loads:
        argument = each.call.args[0]
        container = ast.unparse(argument.value) if isinstance(argument, ast.Subscript) else ""
        groups.setdefault((each.module.function(each.call), container), []).append(each)
    for group in groups.values():
        yield next((each for each in group if each.key in saved), group[0])


def _key(optimizer: ast.expr | None) -> str | None:
    """The scaler's key beside the optimizer's; None where that is computed."""
    is_text = isinstance(optimizer, ast.Constant) and isinstance(optimizer.value, str)
    return _beside(str(optimizer.value)) if isinstance(optimizer, ast.Constant) and is_text else None


def _beside(optimizer: str) -> str:
    """``optimizer_state_dict`` → ``scaler_state_dict``."""
    for word in ("optimizer", "optim", "opt"):
        if optimizer.startswith(word) and not optimizer[len(word) :][:1].isalpha():
            rest = optimizer[len(word) :]
            return "scaler" + (rest if "state" in rest else "")
    return "scaler"
