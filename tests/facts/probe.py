"""What the flow knows of scripts in which the interesting expressions are assigned to ``answer``."""

from __future__ import annotations

import ast
import textwrap

from codemods.dataflow.source import Module
from codemods.dataflow.values import (
    Choice,
    Class,
    Container,
    External,
    Function,
    Instance,
    Literal,
    Made,
    Method,
    Partial,
    SomeTensor,
    Unknown,
    Value,
)
from codemods.facts.describe import facts_by_line
from codemods.facts.script import Script

_SHOWN: dict[type[Value], str] = {
    External: "{0.name}",
    Function: "def {0.name}",
    Method: "method {0.name}",
    Class: "class {0.name}",
    Instance: "a {0.name}",
    Made: "{0.name}()",
    Literal: "{0.name}",
    Container: "{0.name}",
    Choice: "choice {0.name}",
    Unknown: "unknown: {0.name}",
    Partial: "partial",
    SomeTensor: "tensor",
}


def shown(value: Value) -> str:
    """The value in short."""
    return _SHOWN.get(type(value), type(value).__name__.removesuffix("Tensor").lower()).format(value)


def script(text: str, **others: str) -> Script:
    """The script with this text, and the other modules of its project by name (``pkg__data`` is ``pkg.data``)."""
    modules = [
        Module(
            f"{name}.py",
            textwrap.dedent(other),
            name.replace("__", "."),
            is_package=any(each.startswith(f"{name}__") for each in others),
        )
        for name, other in others.items()
    ]
    return Script.of(Module("train.py", textwrap.dedent(text)), others=modules)


def answers(text: str, **others: str) -> list[set[str]]:
    """What each expression that the script assigns to ``answer`` may be, in the order of the text."""
    found = script(text, **others)
    return [
        {shown(value) for value in found.flow.values(statement.value)}
        for statement in found.module.nodes(ast.Assign)
        if ast.unparse(statement.targets[0]) == "answer"
    ]


def facts(text: str, **others: str) -> dict[int, list[str]]:
    """What ``torchfast facts`` prints of the script, by line."""
    found: dict[int, list[str]] = {}
    for line, fact in facts_by_line(script(text, **others)):
        found.setdefault(line, []).append(fact.text)
    return found
