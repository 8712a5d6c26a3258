"""Which of cuDNN's switches does a script set, or may it set?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.dataflow.values import Sort
from codemods.facts.reason import HERE, Reason, at
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_SEEDING = re.compile(r"seed|determin|reproduc", re.IGNORECASE)


def is_switched_on(script: Script) -> bool:
    """Whether the script lets cuDNN measure its algorithms already."""
    return any(_is_true(value) for _, _, value in _settings(script))


def _settings(script: Script) -> Iterator[tuple[Module, ast.AST, ast.expr | None]]:
    """Where the flag is set, to what: ``cudnn.benchmark = …``, ``cudnn.flags(…)``."""
    for module in script.modules:
        for statement in module.nodes(ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Attribute) and target.attr == "benchmark" and script.is_cudnn(target.value):
                    yield module, statement, statement.value
        for call in module.nodes(ast.Call):
            named = len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
            if named and script.sets_attribute(call, "benchmark") and script.is_cudnn(call.args[0]):
                yield module, call, call.args[2]
            if any(each.name == "torch.backends.cudnn.flags" for each in script.flow.values(call.func)):
                yield module, call, next((each.value for each in call.keywords if each.arg == "benchmark"), None)


def _is_true(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and bool(value.value)


def why_decided(script: Script) -> Reason | None:
    """Why the script decides otherwise, or may: it asks for determinism, or sets the flag."""
    if script.determinism is not None:
        return Reason("determinism", f"determinism requested ({HERE})", (at(*script.determinism),))
    for module, node, value in _settings(script):
        said = "to False" if isinstance(value, ast.Constant) else "by a choice of the script's own"
        return Reason("script-decides", f"the flag is set {said} ({HERE})", (at(module, node),))
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
        name = ast.unparse(call.func) if callee.sort is Sort.UNKNOWN else callee.name
        is_unread = callee.sort in {Sort.EXTERNAL, Sort.UNKNOWN} and not has(name, Trait.SEEDS)
        if is_unread and _SEEDING.search(name.rpartition(".")[2]):
            return name
    return None
