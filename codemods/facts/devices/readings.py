"""Where does the host want numbers that a device may still have to compute, and so waits for it?"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, LOOPS, last_name
from codemods.dataflow.values import (
    Batch,
    Choice,
    Container,
    Literal,
    Made,
    MovedTensor,
    Plain,
    SomeTensor,
    Unknown,
    leading_text,
    library_names,
    without_none,
)
from codemods.facts.devices.only_tensors import is_only_tensor
from codemods.facts.precision.floats import content, is_differentiated, is_made_of_parameter, is_of_parameters
from codemods.facts.reach import own
from codemods.facts.reaching import is_seen_elsewhere, reaching
from codemods.library.kinds import Kind, computes_loss, may
from codemods.library.processes import is_first, is_rank
from codemods.library.waits import READ_BY_BUILTINS, READ_BY_METHODS, SIZED_BY_NUMBERS, SYNCHRONIZES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value

_TO_NUMBERS = frozenset({"builtins.float", "builtins.int"})
_ON_DEVICE = (SomeTensor, MovedTensor)
_PERHAPS = (*_ON_DEVICE, Unknown, Choice)
"""What tensors are that are computed of others and of something that is not known, or that the user chooses."""
_NORMS = frozenset({"torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm"})
"""Functions that return a tensor which they compute of gradients, and whose values do not say so."""
_WITHOUT_ITEM = (Literal, Container)
"""What Python makes itself: of a tuple or a tensor, it is the tensor that has ``item()``."""
_CHOOSING = (ast.If, ast.IfExp, ast.While, ast.Assert)
_OF_OBJECTS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


@dataclass(frozen=True, eq=False)
class Reading:
    """A call that makes a number of Python's of a tensor: ``loss.item()``, ``float(loss)``."""

    module: Module
    node: ast.Call
    tensor: ast.expr
    """What is read, without copies to the host on the way."""
    cuts: bool
    """Whether it makes an integer of whatever number it is."""
    is_sure: bool = True
    """Whether it is known to be a tensor."""
    copies: tuple[ast.Call, ...] = ()
    """The copies to the host by which the tensor comes, which go where it is to stay on the device."""


def reading(flow: Flow, module: Module, node: ast.AST) -> Reading | None:
    """The reading that a node is, of a tensor that may be on a device; None of all else."""
    if _is_of_host(module, node):
        return None
    match node:
        case ast.Call(ast.Attribute(tensor, "item"), [], []):
            cuts = False
        case ast.Call(ast.Name(), [tensor], []) if called := {each.name for each in flow.values(node.func)}:
            if not called <= _TO_NUMBERS:
                return None
            cuts = "builtins.int" in called
            inner = reading(flow, module, tensor)
            if inner is not None:
                return replace(inner, node=node, cuts=cuts or inner.cuts)
        case _:
            return None
    if isinstance(tensor, ast.Compare) and any(isinstance(each, _OF_OBJECTS) for each in tensor.ops):
        return None  # a truth value of Python's: `int(targets is None)`
    while is_copy_to_host(flow, tensor) and isinstance(tensor, ast.Call) and not tensor.keywords:
        tensor = tensor.func.value  # type: ignore[attr-defined]
    by_host = copied_on_the_way(flow, module, tensor)
    if by_host is not None:
        return Reading(module, node, tensor, cuts, copies=(by_host,))
    is_method = isinstance(node.func, ast.Attribute)
    is_sure = is_on_device(flow, module, tensor, or_number=is_method) or (
        is_method and (_is_computed(flow, module, tensor) or _is_only_tensor(flow, module, tensor))
    )
    return (
        Reading(module, node, tensor, cuts, is_sure) if is_sure or (is_method and _is_unknown(flow, tensor)) else None
    )


def _is_of_host(module: Module, node: ast.AST) -> bool:
    """Whether it is read where it is not on CUDA alone: ``loss.double() if loss.is_cuda else loss.item()``."""
    match module.parent(node):
        case ast.IfExp(test=ast.Attribute(attr="is_cuda"), orelse=otherwise):
            return otherwise is node
    return False


def copied_on_the_way(flow: Flow, module: Module, tensor: ast.expr) -> ast.Call | None:
    """The copy to the host by which a sum comes that is read: ``hits.cpu()`` of ``hits.cpu().sum()``.

    Also of a name that was given it just above, in the same suite, and has no other use. Integers alone have the same
    sum on a device.
    """
    if isinstance(tensor, ast.Name):
        if is_seen_elsewhere(module, tensor):
            return None
        found = reaching(module.function(tensor) or module.tree)
        match found.given(tensor):
            case [given] if list(found.readers(given)) == [tensor] and _is_given_beside(module, given, tensor):
                tensor = given
            case _:
                return None
        if is_copy_to_host(flow, tensor) and isinstance(tensor, ast.Call) and not tensor.keywords:
            made = tensor.func.value  # type: ignore[attr-defined]
            return tensor if _is_sum(made) and _may_be_there(flow, made) else None
    if not _is_sum(tensor):
        return None
    copy = tensor.func.value  # type: ignore[attr-defined]
    if not (isinstance(copy, ast.Call) and is_copy_to_host(flow, copy)) or copy.keywords:
        return None
    known = content(flow, module, tensor)
    there = copy.func.value  # type: ignore[attr-defined]
    return copy if known is not None and not known.floats and _may_be_there(flow, there) else None


def _is_given_beside(module: Module, given: ast.expr, name: ast.Name) -> bool:
    """Whether a statement gives the name what it holds in each pass that reads it: ``hits = x.sum()`` above it."""
    above, here = module.statement(given), module.statement(name)
    is_plain = isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name)
    suite = module.suite(here)
    return is_plain and above in suite and suite.index(above) < suite.index(here)


def _is_sum(node: ast.AST) -> bool:
    """``x.sum()``, a new tensor without dimensions."""
    match node:
        case ast.Call(ast.Attribute(attr="sum"), [], []):
            return True
    return False


def _may_be_there(flow: Flow, node: ast.expr) -> bool:
    """Whether it is not seen to be on the host; what is copied to the host is a tensor, whatever else is known."""
    values = without_none(flow.values(node))
    return bool(values) and all(isinstance(each, _PERHAPS) for each in values)


def _is_unknown(flow: Flow, node: ast.expr) -> bool:
    """Whether what has ``item()`` may be a tensor.

    Where it may be of a parameter, what a library makes is one, too; where it may be a tensor, what is not known is.
    """
    values = [each for each in flow.values(node) if not isinstance(each, _WITHOUT_ITEM)]
    may_be = (*_PERHAPS, Made) if any(map(is_of_parameters, values)) else _PERHAPS
    may_be = (*may_be, Plain) if any(isinstance(each, _ON_DEVICE) for each in values) else may_be
    return bool(values) and all(isinstance(each, may_be) for each in values)


def _is_computed(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether it is surely a tensor that is computed of a model's parameters, or by a distribution."""
    if is_made_of_parameter(flow, module, node):
        return True
    found = content(flow, module, node)
    return found is not None and found.is_tensor


def _is_only_tensor(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether nothing is known of it but that it has to be a tensor."""
    return all(isinstance(each, _PERHAPS) for each in flow.values(node)) and is_only_tensor(flow, module, node)


def is_copy_to_host(flow: Flow, node: ast.expr) -> bool:
    """Whether it is ``x.cpu()`` or ``x.to("cpu")``."""
    match node:
        case ast.Call(ast.Attribute(attr="cpu"), []):
            return True
        case ast.Call(ast.Attribute(attr="to"), [device]):
            return flow.values(device) == {Literal("'cpu'")}
    return False


def is_on_device(flow: Flow, module: Module, node: ast.expr, *, or_number: bool = False) -> bool:
    """Whether an expression is a tensor that is not seen to be on the host.

    Args:
        flow: The values of the project.
        module: Where it stands.
        node: The expression.
        or_number: Whether it may be a number or a container of Python's besides, which have no ``item()``.
    """
    values = frozenset(
        each for each in without_none(flow.values(node)) if not (or_number and isinstance(each, _WITHOUT_ITEM))
    )
    if values and all(isinstance(each, _ON_DEVICE) or _is_norm(each) for each in values):
        return True
    if not values or any(not isinstance(each, _PERHAPS) for each in values):
        return False
    if isinstance(node, (ast.Name, ast.Attribute)) and is_differentiated(module, node):
        return True
    is_mixed = any(isinstance(each, _ON_DEVICE) for each in values)
    return is_mixed and content(flow, module, node) is not None


def _is_norm(value: Value) -> bool:
    return isinstance(value, Made) and value.name in _NORMS


def waits(flow: Flow, module: Module, statements: Iterable[ast.AST]) -> Iterator[tuple[Module, ast.expr]]:
    """Where code surely waits for the device each time that it runs: itself, or in functions of the project it calls.

    What the first of several processes does counts, too: ``if rank == 0:``.
    Where a call may run one of several functions, each of them has to wait.
    Copies of batches are not looked at: ``non_blocking`` is for them.
    """
    yield from _waits(flow, module, statements, {})


def _waits(
    flow: Flow, module: Module, statements: Iterable[ast.AST], known: dict[Callee, list[tuple[Module, ast.expr]]]
) -> Iterator[tuple[Module, ast.expr]]:
    for statement in statements:
        for node in own(statement, ast.expr):
            if not is_sure(
                module, node, statement, lambda each: _asks_for_tensor(flow, module, each) or _asks_for_first(each)
            ):
                continue
            if _wants_numbers(flow, module, node):
                yield module, node
            if not isinstance(node, ast.Call):
                continue
            inside = [_waits_inside(flow, each, known) for each in flow.called(node)]
            if all(inside) and not computes_loss(flow, node):
                yield from itertools.chain.from_iterable(inside)


def _waits_inside(
    flow: Flow, function: Callee, known: dict[Callee, list[tuple[Module, ast.expr]]]
) -> list[tuple[Module, ast.expr]]:
    """Where a function does; one that calls itself is asked once."""
    if function not in known:
        known[function] = []
        body = [function.body] if isinstance(function, ast.Lambda) else function.body
        known[function] = list(_waits(flow, flow.module_of(function), body, known))
    return known[function]


def is_sure(
    module: Module, node: ast.AST, within: ast.AST, holds: Callable[[ast.expr], bool] = lambda _: False
) -> bool:
    """Whether a node runs each time that the code does in which it stands, as far as conditions and loops go.

    Args:
        module: The module.
        node: What is asked about.
        within: The code.
        holds: Says of a condition whether it surely holds.
    """
    below = node
    for above in module.ancestors(node) if node is not within else ():
        is_tested = below in (getattr(above, "test", None), getattr(above, "iter", None))
        if isinstance(above, (ast.If, ast.IfExp, *LOOPS)) and not is_tested:
            is_chosen = isinstance(above, ast.If) and below in above.body and holds(above.test)
            if not is_chosen:
                return False
        if isinstance(above, (ast.ExceptHandler, ast.match_case, *FUNCTIONS)):
            return False
        if isinstance(above, ast.BoolOp) and below is not above.values[0]:
            return False
        if above is within:
            return True
        below = above
    return True


def _asks_for_tensor(flow: Flow, module: Module, test: ast.expr) -> bool:
    """Whether a condition asks of what is a tensor whether it is one: ``torch.is_tensor(x)``."""
    match test:
        case ast.Call(func, [asked]) if library_names(flow.values(func)) == {"torch.is_tensor"}:
            return is_on_device(flow, module, asked)
        case ast.Call(func, [asked, type_]) if library_names(flow.values(func)) == {"builtins.isinstance"}:
            return library_names(flow.values(type_)) == {"torch.Tensor"} and is_on_device(flow, module, asked)
    return False


def _asks_for_first(test: ast.expr) -> bool:
    """Whether a condition holds in the first of several processes, and in one that runs alone: ``rank == 0``."""
    match test:
        case ast.Compare(asked, [ast.Eq()], [ast.Constant(0)]):
            pass
        case ast.Compare(asked, [ast.In()], [ast.List(numbers) | ast.Tuple(numbers)]):
            if not any(isinstance(each, ast.Constant) and each.value == 0 for each in numbers):
                return False
        case _:
            called = test.func if isinstance(test, ast.Call) else test
            return is_first(last_name(called) or "")
    called = asked.func if isinstance(asked, ast.Call) else asked
    return is_rank(last_name(called) or "")


def _wants_numbers(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether the expression itself makes the host wait."""
    match node:
        case ast.FormattedValue(value):
            return is_on_device(flow, module, value)
        case ast.BinOp(text, ast.Mod(), given) if leading_text(flow.values(text)) is not None:
            filled_in = given.elts if isinstance(given, ast.Tuple) else [given]
            return any(is_on_device(flow, module, each) for each in filled_in)
        case ast.Call(ast.Attribute(text, "format")) if leading_text(flow.values(text)) is not None:
            return any(is_on_device(flow, module, each) for each in arguments_of(node))
        case ast.Call(func, arguments):
            called = library_names(flow.values(func))
            if called & READ_BY_BUILTINS:
                return any(is_on_device(flow, module, each) for each in arguments)
            if called & SYNCHRONIZES:
                return True
            return isinstance(func, ast.Attribute) and _method_waits(flow, module, node, func)
    parent = module.parent(node)
    is_test = isinstance(parent, _CHOOSING) and parent.test is node
    return is_test and any(is_on_device(flow, module, each) for each in _tested(node))


def _is_moved_batch(flow: Flow, node: ast.expr) -> bool:
    """Whether it is a batch that the script takes to the device wherever there is one: ``if cuda: x = x.cuda()``."""
    values = without_none(flow.values(node))
    is_moved = any(isinstance(each, MovedTensor) for each in values)
    return is_moved and all(isinstance(each, (Batch, MovedTensor)) for each in values)


def _method_waits(flow: Flow, module: Module, call: ast.Call, func: ast.Attribute) -> bool:
    if is_copy_to_host(flow, call) and _is_moved_batch(flow, func.value):
        return True
    if func.attr in READ_BY_METHODS | SIZED_BY_NUMBERS or is_copy_to_host(flow, call):
        return is_on_device(flow, module, func.value)
    return func.attr == "step" and may(flow, flow.values(func.value), Kind.SCALER) and _scaler_waits(flow, call, func)


def _scaler_waits(flow: Flow, call: ast.Call, func: ast.Attribute) -> bool:
    """Whether the step of a gradient scaler asks for overflows on the host: not where the optimizer does so itself."""
    scalers = [each.site for each in flow.values(func.value) if isinstance(each.site, ast.Call)]
    may_be_off = any(each.arg in {"enabled", None} or each.arg is None for one in scalers for each in one.keywords)
    made = [each.site for given in call.args for each in flow.values(given) if isinstance(each.site, ast.Call)]
    fused = any(each.arg in {"fused", None} for one in made for each in one.keywords)
    return bool(made) and not may_be_off and not fused


def _tested(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of a condition of which the truth is asked."""
    match node:
        case ast.BoolOp(values=[first, *_]) | ast.UnaryOp(ast.Not(), first):
            yield from _tested(first)
        case ast.Compare(left, operators, others):
            if not any(isinstance(each, _OF_OBJECTS) for each in operators):
                yield from (left, *others)
        case _:
            yield node
