"""Does reading an item of the script's own data set make the same each time that it is read?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, decorators
from codemods.dataflow.signatures import argument_of, signature
from codemods.dataflow.source import FUNCTIONS, lasting, walk
from codemods.dataflow.values import (
    Class,
    Container,
    External,
    Function,
    Instance,
    Made,
    Method,
    library_names,
    without_none,
)
from codemods.facts.overwritten import why_overwritten
from codemods.facts.reason import HERE, Reason
from codemods.facts.workers.changes import why_changed
from codemods.facts.workers.payload import may_draw_items
from codemods.library.kinds import argument
from codemods.library.packages import is_known
from codemods.library.repeating import (
    goes_on,
    is_tokenizer,
    method_repeats,
    position_of_mode,
    repeats,
    tokenizes,
)
from codemods.library.transforms import is_repeatable, is_torchvisions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee
    from codemods.dataflow.values import Value
    from codemods.facts.workers.payload import WorkerCode

_COMPOSE = frozenset({"torchvision.transforms.Compose", "torchvision.transforms.v2.Compose"})
_LAMBDA = frozenset({"torchvision.transforms.Lambda", "torchvision.transforms.v2.Lambda"})
_DATA_SETS = ("torch.utils.data.", "torchvision.datasets.", "datasets.")
_PLAIN_BASES = frozenset({"builtins.object", "object", "typing.NamedTuple"})
_PROPERTIES = frozenset({"property", "cached_property"})
_STATEFUL = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
_TELLING = ("builtins.print", "logging.", "warnings.")
_DOES_MORE = frozenset({"inplace", "device"})
"""Arguments by which what is called changes what it is given, or takes memory of a device."""
_INTO = frozenset({"torch", "numpy"})
"""Modules that number formats belong to."""


def why_items_differ(code: WorkerCode) -> Reason | None:
    """Why an item may not be the same when it is read again, as far as the code says that reads it; None where it is.

    What the code does is looked up: it repeats where all that it calls does, and where it changes nothing but what it
    makes itself. That files stay as they are is taken for granted.
    """
    for function in code.functions:
        for node in walk(function):
            reason = _why_differs(code, function, node)
            if reason is not None:
                return reason
    changed = why_changed(code)
    if changed is not None:
        text = f"reading an item changes the data set or the script ({HERE})"
        return Reason("dataset-changes", text, changed.places)
    return why_overwritten(code.flow, code.loader.module, {*code.library_names, *_transforms(code)})


def _transforms(code: WorkerCode) -> Iterator[str]:
    return (each.name for each in code.objects if isinstance(each, Made) and is_repeatable(each.name))


def _why_differs(code: WorkerCode, function: Callee, node: ast.AST) -> Reason | None:
    """Why what a node of the code computes may differ from one reading to the next."""
    if isinstance(node, _STATEFUL):
        return _unknown(code, f"'{ast.unparse(node)}'", node)
    if isinstance(node, ast.Call):
        return _why_call_differs(code, function, node)
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
        return _why_read_differs(code, function, node)
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and getattr(function, "name", "") != "__init__"
    ):
        flag = next((each for each in node.targets if isinstance(each, ast.Attribute)), None)
        return _unknown(code, f"'{ast.unparse(flag)}'", node) if flag is not None else None
    if isinstance(node, ast.Subscript):
        owner = next((each for each in code.flow.values(node.value) if each.name.startswith(_DATA_SETS)), None)
        return _unknown(code, f"an item of '{ast.unparse(node.value)}'", node) if owner is not None else None
    return None


def _unknown(code: WorkerCode, what: str, node: ast.AST) -> Reason:
    text = f"whether {what} is the same each time that an item is read is not known ({HERE})"
    return Reason("unknown-item-code", text, (code.at(node),))


def _drawn(code: WorkerCode, what: str, node: ast.AST) -> Reason:
    return Reason("draws-anew", f"{what} draws random numbers for each item in each epoch ({HERE})", (code.at(node),))


# What is called.


def _why_call_differs(code: WorkerCode, function: Callee, call: ast.Call) -> Reason | None:
    values = code.flow.values(call.func)
    known = without_none(values)
    if values and not known:  # `if self.transform is not None: …`, which never runs
        return None
    what = f"{ast.unparse(call.func)}()"
    more = next((each.arg for each in call.keywords if each.arg in _DOES_MORE and _is_set(each.value)), None)
    if more is not None:
        return _unknown(code, f"what {what} does with '{more}'", call)
    if any(isinstance(each, External) and each.name.startswith(_TELLING) for each in known):
        text = f"{what} tells of each item that is read ({HERE}), and would tell of it once"
        return Reason("unknown-item-code", text, (code.at(call),))
    for value in known:
        if isinstance(value, Made):
            reason = _why_object_differs(code, value, call)
            if reason is not None:
                return reason
        elif not _repeats(code, function, value, call):
            drawing = value.of if isinstance(value, Method) else value
            is_drawn = isinstance(drawing, (External, Made)) and may_draw_items(drawing.name)
            return _drawn(code, what, call) if is_drawn else _unknown(code, f"what {what} returns", call)
    if not known and not _method_repeats(function, call):
        return _unknown(code, f"what {what} returns", call)
    return None


def _repeats(code: WorkerCode, function: Callee, value: Value, call: ast.Call) -> bool:
    """Whether calling the value makes the same of the same: by its name, or as its code is looked at, too."""
    if isinstance(value, External):
        return (repeats(value.name) or is_torchvisions(value.name)) and _only_reads(call, value.name)
    if isinstance(value.site, FUNCTIONS):
        return value.site in code.functions
    if isinstance(value, (Class, Instance)):
        runs = code.flow.run_by(value)
        return runs in code.functions if runs is not None else isinstance(value, Class) and _is_plain(code.flow, value)
    if isinstance(value, Method) and is_tokenizer(value.of.name):
        return tokenizes(value.name)
    if isinstance(value, Method) and isinstance(value.of, Made) and not is_known(value.of.name):
        return False
    return _method_repeats(function, call)


def _is_plain(flow: Flow, class_: Class) -> bool:
    """Whether nothing of a library runs where an object of the class is made."""
    return all(isinstance(each, ast.ClassDef) or each in _PLAIN_BASES for each in flow.bases(class_.site))


def _is_set(node: ast.expr) -> bool:
    return not isinstance(node, ast.Constant) or bool(node.value)


def _only_reads(call: ast.Call, name: str) -> bool:
    """Whether what opens files opens this one to read it."""
    position = position_of_mode(name)
    mode = argument_of(call, "mode", position) if position is not None else None
    return mode is None or (isinstance(mode, ast.Constant) and str(mode.value).startswith("r"))


def _method_repeats(function: Callee, call: ast.Call) -> bool:
    """Whether a method does, of an object of which nothing more is known."""
    if not isinstance(call.func, ast.Attribute):
        return False
    method, owner = call.func.attr, call.func.value
    if method == "to":
        return bool(call.args) and not call.keywords and all(map(_is_format, call.args))
    if goes_on(method):
        while isinstance(owner, (ast.Attribute, ast.Subscript)):
            owner = owner.value
        local = bound_names(function) - frozenset(signature(function).names)
        return not isinstance(owner, ast.Name) or owner.id in local
    return method_repeats(method)


def _is_format(node: ast.expr) -> bool:
    """``torch.float32``."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _INTO


def _why_object_differs(code: WorkerCode, value: Made, call: ast.Call) -> Reason | None:
    """Why calling a library's object may make something else each time: a transform, a tokenizer."""
    flow, name = code.flow, value.name
    if is_tokenizer(name) or is_repeatable(name):
        return None
    last = name.rpartition(".")[2]
    if name in _COMPOSE | _LAMBDA and isinstance(value.site, ast.Call):
        given = argument(flow, value.site, 0, "transforms" if name in _COMPOSE else "lambd")
        given = without_none(given)
        steps = [step for each in given for step in (flow.items(each) if isinstance(each, Container) else {each})]
        for step in steps:
            if isinstance(step, Made):
                reason = _why_object_differs(code, step, call)
                if reason is not None:
                    return reason
            elif flow.run_by(step) not in code.functions:
                return _unknown(code, f"what {last} makes of an image", value.site)
        return None if steps else _unknown(code, f"what {last} makes of an image", value.site)
    where = value.site if value.site is not None else call
    if is_repeatable(name) is False or "Random" in last:
        return _drawn(code, last, where)
    return _unknown(code, f"what {last} makes of what it is given", where)


# What is read.


def _why_read_differs(code: WorkerCode, function: Callee, node: ast.Name | ast.Attribute) -> Reason | None:
    """Why a name or attribute may lead to code that is not looked at: a property, a function that is handed on."""
    flow = code.flow
    module = flow.module_of(function)
    above = module.parent(node)
    if isinstance(node, ast.Attribute) and node.attr in _properties(flow):
        return _unknown(code, f"'{ast.unparse(node)}', which a property computes,", node)
    is_part = isinstance(above, ast.Attribute) or (isinstance(above, ast.Call) and above.func is node)
    is_part = is_part or (isinstance(above, ast.Call) and library_names(flow.values(above.func)) == {"builtins.len"})
    if is_part or isinstance(above, (ast.Compare, ast.If, ast.IfExp, ast.BoolOp, ast.UnaryOp)):
        return None
    for value in flow.values(node):
        if isinstance(value, (Function, Method)) and isinstance(value.site, FUNCTIONS):
            is_looked_at = value.site in code.functions
        elif isinstance(value, External):
            is_looked_at = not may_draw_items(value.name)
        else:
            is_looked_at = not isinstance(value, Instance)
        if not is_looked_at:
            return _unknown(code, f"what '{ast.unparse(node)}' does here", node)
    return None


@lasting
def _properties(flow: Flow) -> frozenset[str]:
    """The names of the properties of the project's classes."""
    return frozenset(
        function.name for function, _, owner in flow.functions() if owner and decorators(function) & _PROPERTIES
    )
