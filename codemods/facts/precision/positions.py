"""Where do positions, or targets, take the 16 bits of what a layer returns, which keep whole numbers up to 256 only?

``torch.arange(n).type_as(h)`` has floats of 32 bits without autocast. Under it, where ``h`` is the output of a layer,
they are bf16: 257 is 256 there, and from 512 on every fourth number is left. fp16 keeps them up to 2048.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import argument_of, signature
from codemods.dataflow.source import FUNCTIONS, last_name
from codemods.dataflow.values import Literal, library_names, without_none
from codemods.facts.loops import module_of
from codemods.facts.precision.dtypes import ExactFormats, Format
from codemods.facts.precision.floats import content
from codemods.facts.precision.hazards import Hazard, numbers
from codemods.facts.reach import own
from codemods.facts.reaching import reaching, targets
from codemods.library.kinds import is_dtype
from codemods.library.operations import operands, operation
from codemods.library.operators import Memory, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.precision.dtypes import Formats
    from codemods.facts.reach import Reach

_LARGEST = 256
"""All whole numbers up to this one are told apart in bf16."""
_COUNTS = words("torch.arange torch.range torch.linspace numpy.arange numpy.linspace numpy.indices")
_ADDS_UP = "cumsum"
_KEEPING = words(
    """
    stack cat concat concatenate meshgrid repeat repeat_interleave tile flip cartesian_prod clone add add_ sub sub_
    subtract mul mul_ multiply div div_ divide true_divide clamp clip long int from_numpy as_tensor tensor Tensor
    FloatTensor LongTensor Variable
    """
)
_MIXING = (ast.Add, ast.Sub)
_CALCULATES = (*_MIXING, ast.Mult, ast.Div, ast.FloorDiv)
_TO_INTEGERS = words("floor floor_ long int trunc round ceil")
_REGRESSION = words(
    """
    torch.nn.L1Loss torch.nn.MSELoss torch.nn.SmoothL1Loss torch.nn.HuberLoss torch.nn.functional.l1_loss
    torch.nn.functional.mse_loss torch.nn.functional.smooth_l1_loss torch.nn.functional.huber_loss
    """
)
_FEW = words("zeros ones full eye zeros_like ones_like full_like new_zeros new_ones new_full one_hot bernoulli rand")
"""What makes numbers that 16 bits keep, or numbers below 1."""
_TAKES = (
    "takes the 16 bits of what a layer returns, in which whole numbers above 256 are not told apart (2048 in fp16):"
)
_ADDS = "adds whole numbers to 16 bits, in which those above 256 are not told apart (2048 in fp16):"
_CUTS = "may be of numbers above 256, of which 16 bits keep nothing behind the point:"


def rounded_positions(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Hazard | None:
    """Where a position, a coordinate or the target of a regression takes the 16 bits of a layer's output."""
    for where, part, formats in _code(reach, calls_model, module, nodes):
        for node, what, remedy in _rounded(reach.flow, where, part, formats):
            return Hazard(where, node, f"{where.code(node)} {what}", remedy=remedy)
    return None


def _code(
    reach: Reach, calls_model: Callable[[ast.Call], bool], module: Module, nodes: Sequence[ast.AST]
) -> Iterator[tuple[Module, ast.AST, Formats]]:
    """All code that runs with the nodes, and the formats in it; a layer in a sequence may be given 16 bits."""
    formats = ExactFormats(reach.flow, calls_model)
    formats.run([each for each in nodes if isinstance(each, ast.stmt)])
    yield from ((module, each, formats) for each in nodes)
    followed: set[ast.AST] = {*nodes}
    for function, inside in formats.functions(nodes):
        followed.add(function)
        yield reach.flow.module_of(function), function, inside
    for where, part in reach.code(module, nodes):
        if part not in followed and isinstance(part, FUNCTIONS):
            yield where, part, formats.given_anything(part)


def _rounded(flow: Flow, module: Module, part: ast.AST, formats: Formats) -> Iterator[tuple[ast.expr, str, str]]:
    """The expressions of a piece of code that are rounded so, each with what is wrong and what to do about it."""
    for call in own(part, ast.Call):
        if any(formats.of(like) is Format.NARROW for like in _followed(flow, call)):
            yield from ((call, _TAKES, remedy) for remedy in _made_alike(flow, module, call))
        target = argument_of(call, "target", 1) if _is_regression(flow, call) else None
        if target is not None and _is_rounded_target(flow, target, formats):
            yield target, _TAKES, "keep the target in 32 bits"
        if last_name(call.func) in _TO_INTEGERS and _is_scaled(flow, module, operands(flow, call)[:1], formats):
            yield call, _CUTS, "compute it with autocast off"
    for sum_, counted in _sums(part):
        other = sum_.right if counted is sum_.left else sum_.left
        if formats.of(other) is Format.NARROW and _is_position(flow, counted, is_whole=True):
            yield sum_, _ADDS, f"add {module.code(counted)}.float()"


def _sums(part: ast.AST) -> Iterator[tuple[ast.BinOp, ast.expr]]:
    """The sums and differences of a piece of code, with each of their operands."""
    for each in own(part, ast.BinOp):
        if isinstance(each.op, _MIXING):
            yield from ((each, each.left), (each, each.right))


def _made_alike(flow: Flow, module: Module, call: ast.Call) -> Iterator[str]:
    """What to do about a call, where what it makes in the format of something, or converts to that, is a position."""
    if last_name(call.func) in {"to", "type", "type_as"} and isinstance(call.func, ast.Attribute):
        if _is_position(flow, call.func.value):
            yield f"write {module.code(call.func.value)}.float()"
    elif _counts(flow, call):
        yield "give it dtype=torch.float32"


def _followed(flow: Flow, call: ast.Call) -> Iterator[ast.expr]:
    """The tensors whose format a call asks for: ``h`` of ``x.type_as(h)``, ``x.to(h)`` and ``dtype=h.dtype``."""
    name, is_method = last_name(call.func), isinstance(call.func, ast.Attribute)
    given = [each.value for each in call.keywords if each.arg in {"dtype", "other"}]
    if is_method and name == "type_as":
        yield from call.args[:1]
    if is_method and name in {"to", "type"}:
        given += call.args
        yield from (each for each in call.args[:1] if name == "to" and not isinstance(each, ast.Attribute))
    for each in closure(given, lambda node: _given(flow, node)):
        match each:
            case ast.Attribute(like, "dtype") | ast.Call(ast.Attribute(like, "type"), [], []):
                yield like


def _is_rounded_target(flow: Flow, target: ast.expr, formats: Formats) -> bool:
    """Whether a target takes the format of a prediction, and may hold other numbers than 0 and 1."""
    for each in closure([target], lambda node: _given(flow, node)):
        if not isinstance(each, ast.Call) or not isinstance(each.func, ast.Attribute):
            continue
        if any(formats.of(like) is Format.NARROW for like in _followed(flow, each)):
            sources = closure([each.func.value], lambda node: _alike(flow, node))
            return not any(_has_few(flow, source) for source in sources)
    return False


def _alike(flow: Flow, node: ast.expr) -> Sequence[ast.expr]:
    """What an expression has its numbers of, where it leaves them as they are."""
    return [] if isinstance(node, ast.BinOp) else _made_of(flow, node, is_whole=False)


def _has_few(flow: Flow, node: ast.expr) -> bool:
    is_made = isinstance(node, ast.Call) and last_name(node.func) in _FEW
    return is_made or isinstance(node, ast.Compare) or _holds_truth(flow, node)


def _holds_truth(flow: Flow, node: ast.expr) -> bool:
    """Whether it is known to hold truth values."""
    found = content(flow, module_of(flow, node), node)
    return found is not None and found.truth


def _is_regression(flow: Flow, call: ast.Call) -> bool:
    return any(each.name in _REGRESSION for each in flow.values(call.func))


def _is_scaled(flow: Flow, module: Module, given: Sequence[ast.expr], formats: Formats) -> bool:
    """Whether it is a layer's output times a number above 256, or times a size: ``torch.sigmoid(h) * (width - 1)``."""
    for each in closure(given, lambda node: _made_of(flow, node, is_whole=False)):
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult):
            for factor, other in ((each.left, each.right), (each.right, each.left)):
                is_large = any(abs(number) > _LARGEST for number in numbers(module, factor))
                if (is_large or _is_size(flow, factor)) and formats.of(other) is Format.NARROW:
                    return True
    return False


def _is_size(flow: Flow, node: ast.expr) -> bool:
    """Whether the size of a tensor is part of it, which may be any."""
    found = closure([node], lambda each: _made_of(flow, each, is_whole=False))
    return any(
        (isinstance(each, ast.Attribute) and each.attr == "shape")
        or (isinstance(each, ast.Call) and last_name(each.func) == "size")
        for each in found
    )


# What is a position.


def _is_position(flow: Flow, node: ast.expr, *, is_whole: bool = False) -> bool:
    """Whether numbers that are counted are part of it; if asked, only where all of them are integers yet."""
    found = closure([node], lambda each: _made_of(flow, each, is_whole=is_whole))
    return any(isinstance(each, ast.Call) and _counts(flow, each, is_whole=is_whole) for each in found)


def _counts(flow: Flow, call: ast.Call, *, is_whole: bool = False) -> bool:
    """Whether the call makes numbers one after the other that may go beyond 256."""
    names = library_names(flow.values(call.func))
    if names & _COUNTS:
        if is_whole and ("linspace" in last_name(call.func) or _asks_for_floats(call)):
            return False
        return not all(_is_small(flow, each) for each in call.args)
    if last_name(call.func) != _ADDS_UP or (names and names != {f"torch.{_ADDS_UP}"}):
        return False
    (added, *_) = operands(flow, call)
    found = content(flow, module_of(flow, added), added)
    return (found is None or not found.floats) and not (is_whole and _asks_for_floats(call))


def _asks_for_floats(call: ast.Call) -> bool:
    has_point = any(isinstance(each, ast.Constant) and isinstance(each.value, float) for each in call.args)
    return has_point or any(each.arg == "dtype" for each in call.keywords)


def _is_small(flow: Flow, node: ast.expr) -> bool:
    """Whether it is known to be a number of at most 257: what is counted stays below."""
    values = without_none(flow.values(node))
    return bool(values) and all(
        isinstance(each, Literal) and isinstance(each.value, (int, float)) and abs(each.value) <= _LARGEST + 1
        for each in values
    )


def _made_of(flow: Flow, node: ast.expr, *, is_whole: bool) -> Sequence[ast.expr]:
    """What an expression has its numbers of, be they shifted and scaled; if asked, only where integers stay such."""
    match node:
        case ast.Subscript(value):
            return [value]
        case ast.Tuple(items) | ast.List(items):
            return items
        case ast.UnaryOp(ast.USub(), operand):
            return [operand]
        case ast.BinOp(left, operator, right) if isinstance(operator, _CALCULATES):
            return [] if is_whole and isinstance(operator, ast.Div) else [left, right]
        case ast.IfExp(_, one, other):
            return [one, other]
        case ast.Call():
            return _made_by(flow, node, is_whole=is_whole)
    return _given(flow, node)


def _made_by(flow: Flow, call: ast.Call, *, is_whole: bool) -> Sequence[ast.expr]:
    functions = flow.called(call)
    if functions:
        returns = (each.value for function in functions for each in own(function, ast.Return))
        return [each for each in returns if each is not None]
    found, name = operation(flow, call), last_name(call.func)
    is_view = found is not None and found.memory in {Memory.VIEW, Memory.EITHER} and found.result is Result.SAME
    is_cast = found is not None and found.result in {Result.CAST, Result.WIDE}
    if is_cast and is_whole:
        asked = [*call.args, *(each.value for each in call.keywords)]
        is_cast = name in {"cuda", "cpu"} or (
            name == "to" and not any(is_dtype(value) for each in asked for value in flow.values(each))
        )
    if is_view or is_cast:
        return operands(flow, call)[:1]
    return operands(flow, call) if name in _KEEPING else []


def _given(flow: Flow, node: ast.expr) -> Sequence[ast.expr]:
    """What a name or an attribute of ``self`` is given, as far as that is seen: by callers, too."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _kept(module_of(flow, node), node)
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return []
    module = module_of(flow, node)
    function = module.function(node)
    scope = function or module.tree
    found = [*reaching(scope).known(node)]
    for target in targets(scope).of(node) or ():
        parent = module.parent(target)
        statement = module.parent(parent) if isinstance(parent, (ast.Tuple, ast.List)) else None
        match parent, statement:
            case ast.Tuple(names), ast.Assign(value=ast.Tuple(items)) if len(names) == len(items):
                found.append(items[names.index(target)])
            case _, ast.Assign(value=value):
                found.append(value)
    if function is not None and node.id in signature(function).names and not found:
        bound = (flow.bind(function, call).get(node.id) for call in flow.callers(function))
        found += [each for each in bound if each is not None]
    return found


def _kept(module: Module, attribute: ast.Attribute) -> list[ast.expr]:
    """What the module assigns to an attribute of ``self``, or registers as a buffer of that name."""
    stores = module.stores.get(f"self.{attribute.attr}", ())
    statements = [module.parent(each) for each in stores]
    found = [each.value for each in statements if isinstance(each, ast.Assign)]
    for call in module.nodes(ast.Call):
        match call:
            case ast.Call(ast.Attribute(_, "register_buffer"), [ast.Constant(name), value, *_]):
                found += [value] if name == attribute.attr else []
    return found
