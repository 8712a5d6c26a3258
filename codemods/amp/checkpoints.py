"""The scaler's state in checkpoints: saved and loaded beside the optimizer's."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.editing.values import AddItem, Insert
from codemods.library.kinds import Kind, may

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.script import Script


def checkpoints(script: Script, scaler_at: Callable[[ast.stmt], str | None]) -> Iterator[Edit]:
    """Saves and loads the scaler's state where the optimizer's is, as far as the scaler is seen there."""
    module, flow = script.module, script.flow
    for call in module.nodes(ast.Call):
        if not isinstance(call.func, ast.Attribute) or not may(flow, flow.values(call.func.value), Kind.OPTIMIZER):
            continue
        statement = module.statement(call)
        scaler = scaler_at(statement)
        if scaler is None:
            continue
        if call.func.attr == "state_dict":
            yield from _saved(module, call, scaler)
        elif call.func.attr == "load_state_dict" and isinstance(statement, ast.Expr) and len(call.args) == 1:
            yield from _loaded(script, statement, call.args[0], scaler)


def _saved(module: Module, call: ast.Call, scaler: str) -> Iterator[Edit]:
    dictionary = module.parent(call)
    if isinstance(dictionary, ast.Dict) and sum(".state_dict()" in ast.unparse(each) for each in dictionary.values) > 1:
        key = dictionary.keys[dictionary.values.index(call)]
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and _is_first_optimizer(dictionary, key.value):
            yield AddItem(module, dictionary, _key(key.value), f"{scaler}.state_dict()")


def _is_first_optimizer(dictionary: ast.Dict, key: str) -> bool:
    """Whether it is the first of several optimizers that the dictionary holds: there is one scaler."""
    keys = [
        each.value for each in dictionary.keys if isinstance(each, ast.Constant) and "opt" in str(each.value).lower()
    ]
    return keys[:1] == [key]


def _loaded(script: Script, statement: ast.stmt, argument: ast.expr, scaler: str) -> Iterator[Edit]:
    module = script.module
    if (
        not isinstance(argument, ast.Subscript)
        or not isinstance(argument.slice, ast.Constant)
        or not isinstance(argument.slice.value, str)
    ):
        return
    container, key, quote = module.code(argument.value), _key(argument.slice.value), script.quote(module)
    if not container.isidentifier():
        return
    code = f"if {container}.get({quote}{key}{quote}):\n    {scaler}.load_state_dict({container}[{quote}{key}{quote}])"
    yield Insert(module, statement, code, "after")


def _key(optimizer: str) -> str:
    """The scaler's key beside the optimizer's: ``optimizer_state_dict`` → ``scaler_state_dict``."""
    for word in ("optimizer", "optim", "opt"):
        if optimizer.startswith(word) and not optimizer[len(word) :][:1].isalpha():
            rest = optimizer[len(word) :]
            return "scaler" + (rest if "state" in rest else "")
    return "scaler"
