"""What of a whole script mixed precision breaks: autograd functions of its own, TorchScript, LBFGS, hooks, threads."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import lasting, unparsed, walk
from codemods.dataflow.values import External, Method, Unknown, in_order, owner_of
from codemods.facts.devices.cuda_use import located
from codemods.facts.models.layers import Model, function_in_threads, is_in_threads
from codemods.facts.reason import HERE, Reason
from codemods.library.hooks import is_given_gradients
from codemods.library.kinds import described

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script


_KEEPING = frozenset(
    {"save_for_backward", "mark_non_differentiable", "clone", "contiguous", "sigmoid", "tanh", "relu", "neg", "sign"}
    | {"mul", "add", "sub", "clamp", "where", "zeros_like", "ones_like", "masked_fill", "round", "floor", "abs"}
)
"""What is computed in the format of what is given, under autocast as without."""


_KEEPING_OPERATORS = (ast.Add, ast.Sub, ast.Mult)


@lasting  # each module asks
def custom_function(script: Script) -> ast.ClassDef | None:
    """A class that derives from ``torch.autograd.Function``, is used, and is not made for autocast.

    One that only computes number by number, as swish does, has one number format all through.
    """
    for module in script.modules:
        for class_ in module.nodes(ast.ClassDef):
            is_function = any(base == "torch.autograd.Function" for base in script.flow.bases(class_))
            if (
                is_function
                and "custom_fwd" not in {_last(each) for each in _decorators(class_)}
                and not _keeps_format(script, class_)
                and any(
                    each.id == class_.name and class_ not in module.ancestors(each) for each in module.nodes(ast.Name)
                )
            ):
                return class_
    return None


def _keeps_format(script: Script, class_: ast.ClassDef) -> bool:
    """Whether all that the class computes is computed number by number, in the format of what it is given."""
    for node in walk(class_):
        if isinstance(node, ast.BinOp) and not isinstance(node.op, _KEEPING_OPERATORS):
            return False
        if isinstance(node, ast.Call):
            callees = script.flow.values(node.func)
            called = {_last(node.func)} if isinstance(node.func, ast.Attribute) else {each.name for each in callees}
            if any(not isinstance(each, (External, Method, Unknown)) for each in callees) or called - _KEEPING:
                return False
    return True


def _decorators(class_: ast.ClassDef) -> Iterator[ast.expr]:
    """What decorates the methods of the class, without arguments."""
    for method in class_.body:
        for each in method.decorator_list if isinstance(method, ast.FunctionDef) else ():
            yield each.func if isinstance(each, ast.Call) else each


def _last(node: ast.expr) -> str:
    match node:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
    return ast.unparse(node).rpartition(".")[2]


@lasting
def _called(module: Module) -> frozenset[str]:
    """What the module calls, as it is written."""
    return frozenset(unparsed(each.func) for each in module.nodes(ast.Call))


class Scripted(NamedTuple):
    """What says that TorchScript runs something."""

    node: ast.expr
    """A decorator, a base or a call."""
    definition: ast.FunctionDef | ast.ClassDef | None
    """What is decorated, or derived; None of a call."""


def scripted(script: Script) -> ast.expr | None:
    """Where the script has a model or function that TorchScript runs, which has its own rules for autocast."""
    return next((each.node for each in all_scripted(script)), None)


@lasting  # each module asks
def all_scripted(script: Script) -> tuple[Scripted, ...]:
    """All models and functions of the script that TorchScript runs."""
    return tuple(each for module in script.modules for each in _scripted_in(script, module))


def _scripted_in(script: Script, module: Module) -> Iterator[Scripted]:
    flow = script.flow
    for definition in module.nodes(ast.FunctionDef, ast.ClassDef):
        given: list[ast.expr] = [*definition.decorator_list, *getattr(definition, "bases", ())]
        for each in given:
            if any(value.name in _SCRIPTED for value in flow.values(each)):
                yield Scripted(each, definition)
    for assignment in module.nodes(ast.Assign):
        made = assignment.value
        if (
            isinstance(made, ast.Call)
            and any(value.name in _SCRIPTED for value in flow.values(made.func))
            and any(unparsed(each) in _called(module) for each in assignment.targets)
        ):
            yield Scripted(made, None)


_SCRIPTED = frozenset(
    {"torch.jit.script", "torch.jit.trace", "torch.jit.script_method", "torch.jit.ScriptModule", "torch.jit.freeze"}
)


@lasting  # each module asks
def line_search(script: Script) -> ast.Call | None:
    """Where an LBFGS is made that compares losses along a line, which differ too little in 16 bits."""
    for call in (each for module in script.modules for each in module.nodes(ast.Call)):
        given = argument_of(call, "line_search_fn")
        is_search = given is not None and not (isinstance(given, ast.Constant) and given.value is None)
        if is_search and any(each.name == "torch.optim.LBFGS" for each in script.flow.values(call.func)):
            return call
    return None


@lasting  # each module asks
def quasi_newton(script: Script) -> ast.Call | None:
    """Where an LBFGS is made: differences of gradients tell it the curvature, and those are too small for 16 bits."""
    for call in (each for module in script.modules for each in module.nodes(ast.Call)):
        if any(each.name == "torch.optim.LBFGS" for each in script.flow.values(call.func)):
            return call
    return None


@lasting  # each module asks
def gradient_hook(script: Script) -> ast.Call | None:
    """Where the script hangs a hook on gradients."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and is_given_gradients(call.func.attr):
                return call
    return None


@lasting  # each module asks
def data_parallel(script: Script) -> tuple[ast.Call, str] | None:
    """Where a model is spread over GPUs by threads, and by what: ``nn.DataParallel``, or another library's of the name.

    The threads take up autocast without its number format, and compute in fp16.
    """
    for call in (each for module in script.modules for each in module.nodes(ast.Call)):
        is_made = any(each.site is call and is_in_threads(script.flow, each) for each in script.flow.values(call))
        if is_made or _last(call.func).startswith("DataParallel"):
            return call, "DataParallel"
        function = function_in_threads(script.flow, call)
        if function is not None:
            return call, f"{function}()"
    return None


def computes_in_half(script: Script, models: Iterable[Value]) -> Reason | None:
    """What computes in fp16 under autocast, whatever number format that is told; None where nothing is known to.

    Args:
        script: The script, whose models may be spread over threads.
        models: The models that are called.
    """
    spread = data_parallel(script)
    if spread is not None:
        call, name = spread
        return Reason("data-parallel", f"{name} ({HERE}) {_IN_FP16}", (located(script, call),))
    for model in in_order(frozenset(models)):
        recurrent = Model(script.flow, model).recurrent
        # `self` is made at no single place.
        owner = owner_of(recurrent) if recurrent is not None else None
        site = recurrent and (recurrent.site or (owner and owner.site))
        if recurrent is not None and isinstance(site, (ast.expr, ast.stmt)):
            text = f"{described(recurrent)} ({HERE}) {_IN_FP16}"
            return Reason("computes-in-fp16", text, (located(script, site),))
    return None


_IN_FP16 = "computes in fp16 where bf16 is asked for"
