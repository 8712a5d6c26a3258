"""Does the script choose the number formats of its training itself: autocast, a scaler, apex, float64?"""

from __future__ import annotations

import ast
import re
from functools import partial
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import argument_of, arguments_of
from codemods.dataflow.source import last_name, lasting
from codemods.dataflow.values import (
    NOTHING,
    UNKNOWN_KEY,
    Container,
    External,
    Literal,
    library_names,
    without_none,
)
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.options import asks_options, is_true, runs_by_default
from codemods.library.functions import SYNCHRONIZES
from codemods.library.kinds import LOADS_WEIGHTS, Kind, kind
from codemods.library.renamed import AUTOCAST, DEFAULT_FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.script import Script


_CASTS = frozenset({"half", "bfloat16", "double"})
_DEFAULT_SETTERS = frozenset({"torch.set_default_dtype", "torch.set_default_tensor_type"})
_MOVES = words("to type")
_FORMATS = words("torch_dtype dtype")
_QUANTIZING = words("load_in_8bit load_in_4bit quantization_config")
"""What Hugging Face's models are given that are loaded otherwise."""
_IN_32_BITS = frozenset(map(External, ("torch.float32", "torch.float", "torch.FloatTensor", "torch.cuda.FloatTensor")))
_DOUBLE = re.compile(r"float64|double", re.IGNORECASE)
_HALF = re.compile(r"half|b?float16", re.IGNORECASE)
_WIDTH = re.compile(r"torch\.(cuda\.)?(half|b?float(16|32|64)?|double|(Half|BFloat16|Float|Double)Tensor)")
_IN_64, _IN_16, _IN_ANOTHER = "float64 model", "manual half precision", "a model in a number format that is not known"


_AUTOCAST = frozenset({"autocast", "GradScaler"})
_OF_APEX = ("apex.amp", "apex.fp16_utils")
"""Its mixed precision."""
AUTOCAST_SINCE = (1, 10)
"""The first torch that has ``torch.autocast``."""


def mixed_precision_present(script: Script) -> tuple[Module, ast.AST] | None:
    """Where the script already uses autocast, a scaler or apex: in its own module, or in another that it imports."""
    return next(_mixed_precision(script), None)


def mixed_precision_by_default(script: Script) -> tuple[Module, ast.AST] | None:
    """Where it does so also if the user gives no options: not under ``if args.amp:``, nor with ``enabled=args.amp``.

    What apex has besides its mixed precision leaves the products of the script's own layers as they are.
    """
    found = (each for each in _mixed_precision(script) if not is_part_of_apex(script, *each))
    return next((each for each in found if _is_on_by_default(script, *each)), None)


def mixed_precision_on_request(script: Script) -> tuple[Module, ast.AST] | None:
    """Where the script uses them, if only where the user gives an option; of apex its mixed precision at first."""
    found = list(_mixed_precision(script))
    if any(_is_used_by_default(script, *each) for each in found):
        return None
    parts = [each for each in found if is_part_of_apex(script, *each)]
    of_apex = [each for each in found if each not in parts and _written(each[1]) in _from_apex(each[0])]
    return next(iter((*of_apex, *parts, *found)), None)


def is_part_of_apex(script: Script, module: Module, name: ast.AST) -> bool:
    """Whether the name is another part of apex than its mixed precision: an optimizer, a layer."""
    if _written(name) not in _from_apex(module) or name is module.tree:
        return False
    values = script.flow.values(_whole(module, name))
    return not any(each.name == "apex" or each.name.startswith(_OF_APEX) for each in values)


def _whole(module: Module, name: ast.AST) -> ast.expr:
    """All of a dotted name: ``apex.parallel.convert_syncbn_model`` of its ``apex``."""
    whole = name
    while isinstance(above := module.parent(whole), ast.Attribute):
        whole = above
    assert isinstance(whole, ast.expr)  # noqa: S101 - a name is one
    return whole


def parts_of_apex_alone(script: Script) -> tuple[Module, ast.AST] | None:
    """The first part of apex that the script uses, where it has no mixed precision besides: no autocast, no scaler."""
    found = list(_mixed_precision(script))
    return found[0] if found and all(is_part_of_apex(script, *each) for each in found) else None


def _is_on_by_default(script: Script, module: Module, name: ast.AST) -> bool:
    """Whether what the name stands for computes in 16 bits then: a scaler by itself does not."""
    values = script.flow.values(name) if isinstance(name, ast.expr) else NOTHING
    if "GradScaler" in {each.name.rpartition(".")[2] for each in values} or _written(name) == "GradScaler":
        return False
    if _written(name) not in _AUTOCAST and any(map(_is_autocast, values)) and not all(map(_is_autocast, values)):
        return False  # where it is given the one or the other is asked for itself
    return _is_used_by_default(script, module, name)


def _is_used_by_default(script: Script, module: Module, name: ast.AST) -> bool:
    values = script.flow.values(name) if isinstance(name, ast.expr) else NOTHING
    call = module.parent(name)
    is_called = isinstance(call, ast.Call) and call.func is name
    made = [call] if is_called else [each.site for each in values if _is_autocast(each)]
    calls = [each for each in made if isinstance(each, ast.Call)]
    return runs_by_default(script, module, name) and (not calls or any(_is_enabled(script, each) for each in calls))


def _is_enabled(script: Script, autocast: ast.Call) -> bool:
    given = argument_of(autocast, "enabled")
    is_off = given is not None and is_true(script, given) is False and asks_options(script, given)
    is_off = is_off or (given is not None and _asks_for_what_options_make(script, given))
    return not is_off and runs_by_default(script, module_of(script.flow, autocast), autocast)


def _asks_for_what_options_make(script: Script, test: ast.expr) -> bool:
    """``scaler is not None``, where a scaler is made only if the user asks for it by an option."""
    match test:
        case ast.Compare(asked, [ast.IsNot()], [ast.Constant(None)]):
            made = [each.site for each in without_none(script.flow.values(asked))]
            return bool(made) and all(
                isinstance(each, ast.Call) and not runs_by_default(script, module_of(script.flow, each), each)
                for each in made
            )
    return False


def _written(name: ast.AST) -> str:
    return name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""


def _mixed_precision(script: Script) -> Iterator[tuple[Module, ast.AST]]:
    for module in (script.module, *(each for each in script.modules if each is not script.module)):
        found = ((module, node) for node in _mixed_precision_in(script.flow, module))
        yield from (each for each in found if not _synchronizes_on_request(script, *each))


def _is_autocast(value: Value) -> bool:
    return value.name.startswith("torch.") and value.name.rpartition(".")[2] in _AUTOCAST


@lasting  # a module is asked about for each that imports it
def _mixed_precision_in(flow: Flow, module: Module) -> tuple[ast.AST, ...]:
    names: list[ast.Attribute | ast.Name] = [*module.nodes(ast.Attribute), *module.nodes(ast.Name)]
    found: list[ast.AST] = list(_used_of_apex(module))
    if module.tree in found:
        return (module.tree,)
    is_named = any(word in each.text for each in flow.modules for word in _AUTOCAST)
    for name in names if is_named else ():
        is_autocast = _written(name) in _AUTOCAST or any(map(_is_autocast, flow.values(name)))
        # What has to stay in 32 bits wherever it runs is no mixed precision.
        if is_autocast and not _only_switches_off(module.parent(name)):
            found.append(name)
    return tuple(found)


def uses_apex(script: Script) -> bool:
    """Whether a module uses what may have number formats of its own: mixed precision of apex, optimizers, layers."""
    return any(
        not _synchronizes_on_request(script, module, each)
        for module in script.modules
        for each in _used_of_apex(module)
    )


def _used_of_apex(module: Module) -> Sequence[ast.AST]:
    """All of a module that imports whatever there is; an import that nothing uses is no use."""
    of_apex = _from_apex(module)
    if "*" in of_apex:
        return (module.tree,)
    loads = (each for each in module.nodes(ast.Name) if isinstance(each.ctx, ast.Load))
    return [each for each in loads if each.id in of_apex]


def _synchronizes_on_request(script: Script, module: Module, name: ast.AST) -> bool:
    """Whether a name of apex only makes batch norms that gather from all processes, where the user asks for it."""
    if _written(name) not in _from_apex(module):
        return False
    values = script.flow.values(_whole(module, name))
    is_known = bool(values) and all(each.name in SYNCHRONIZES for each in values)
    return is_known and not runs_by_default(script, module, name)


def _from_apex(module: Module) -> frozenset[str]:
    """The names that imports from apex bind."""
    starts = (each for each in module.nodes(ast.ImportFrom) if (each.module or "").partition(".")[0] == "apex")
    found = [alias for start in starts for alias in start.names]
    found += [each for each in module.nodes(ast.alias) if each.name.partition(".")[0] == "apex"]
    return frozenset(each.asname or each.name.partition(".")[0] for each in found)


def _only_switches_off(call: ast.AST | None) -> bool:
    """``autocast("cuda", enabled=False)``."""
    given = argument_of(call, "enabled") if isinstance(call, ast.Call) else None
    return isinstance(given, ast.Constant) and given.value is False


def other_precision(script: Script) -> tuple[ast.Call, str] | None:
    """Where the script chooses a number format for its model or its inputs by hand, and which."""
    return next(((call, what) for _, call, what in _other_precisions(script)), None)


def other_precision_by_default(script: Script) -> tuple[ast.Call, str] | None:
    """Where it does so also if the user gives no options."""
    found = (each for each in _other_precisions(script) if runs_by_default(script, *each[:2]))
    return next(((call, what) for _, call, what in found if not _may_stay(script.flow, call)), None)


def _other_precisions(script: Script) -> Iterator[tuple[Module, ast.Call, str]]:
    for module in script.modules:
        setters = script.flow.calls_of(module, _DEFAULT_SETTERS)
        for call in module.nodes(ast.Call):
            if last_name(call.func) in LOADS_WEIGHTS and _loads_otherwise(script.flow, call):
                yield module, call, "weights loaded in another number format"
            given = _given_another(script.flow, call)
            if given is None and (last_name(call.func) in _CASTS or call in setters):
                given = _cast_to_another(script.flow, call, is_own=module is script.module)
            if given is not None:
                yield module, call, given


def _cast_to_another(flow: Flow, call: ast.Call, *, is_own: bool) -> str | None:
    """What ``half()`` or ``double()`` makes of a model, or a setter of all that is made."""
    names = library_names(flow.values(call.func))
    if names & _DEFAULT_SETTERS:
        given = [value.name for each in arguments_of(call) for value in flow.values(each)]
        return _IN_64 if any(map(_DOUBLE.search, [ast.unparse(call), *given])) else None
    if not isinstance(call.func, ast.Attribute) or names:
        return None
    of_model = any(kind(flow, each) is Kind.MODEL for each in flow.values(call.func.value))
    if call.func.attr == "double":
        return _IN_64 if of_model else None
    return _IN_16 if call.func.attr in _CASTS and (of_model or is_own) else None


def _given_another(flow: Flow, call: ast.Call) -> str | None:
    """The number format that a model may be given where it is made or moved, if it may be another than 32 bits."""
    found = _given_formats(flow, call)
    if found <= _IN_32_BITS:
        return None
    of_model = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES else call
    if not any(kind(flow, each) is Kind.MODEL for each in flow.values(of_model)):
        return None
    names = library_names(found - _IN_32_BITS)
    if any(map(_HALF.search, names)):
        return _IN_16
    return _IN_64 if any(map(_DOUBLE.search, names)) else _IN_ANOTHER


def _given_formats(flow: Flow, call: ast.Call) -> Values:
    """What may be the number format that a model is given by ``to()`` or ``type()``, or a layer by its ``dtype``."""
    is_moved = isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES
    named = argument_of(call, "dtype")
    if not is_moved and named is None:
        return NOTHING
    if not is_moved and not any(each.startswith("torch.nn.") for each in library_names(flow.values(call.func))):
        return NOTHING
    values = (value for each in call.args for value in flow.values(each)) if is_moved else ()
    unnamed = frozenset(each for each in values if isinstance(each, External) and _WIDTH.fullmatch(each.name))
    return unnamed if named is None else unnamed | without_none(flow.values(named))


def _may_stay(flow: Flow, call: ast.Call) -> bool:
    """Whether 32 bits are among the formats that it may be given: most scripts choose them by default."""
    return not _IN_32_BITS.isdisjoint(_given_formats(flow, call))


def _loads_otherwise(flow: Flow, call: ast.Call) -> bool:
    """``Net.from_pretrained(path, torch_dtype=torch.float16)`` of a model, or one that is quantized."""
    if not any(kind(flow, each) is Kind.MODEL for each in flow.values(call)):
        return False
    given = [(each.arg, without_none(flow.values(each.value))) for each in call.keywords]
    return any(
        (name in _FORMATS and not values <= _IN_32_BITS)
        or (name in _QUANTIZING and bool(values - {Literal("False")}))
        or (name is None and not all(map(partial(_says_nothing_of_it, flow), values)))
        for name, values in given
    )


def _says_nothing_of_it(flow: Flow, options: Value) -> bool:
    """Whether a dictionary of arguments surely has none that chooses a number format."""
    keys = flow.keys(options) if isinstance(options, Container) else {UNKNOWN_KEY}
    return UNKNOWN_KEY not in keys and keys.isdisjoint(_FORMATS | _QUANTIZING)


_SETTERS = frozenset(f"torch.set_autocast_{each}dtype" for each in ("", "cpu_", "gpu_"))
_SAME = {"half": "float16"}


def sets_format(script: Script, device: str) -> bool:
    """Whether the script may set another number format for autocast on a device than it has from the start.

    Args:
        script: The script.
        device: The type of the device, ``cuda`` or ``cpu``.
    """
    calls = (each for module in script.modules if "autocast" in module.text for each in module.nodes(ast.Call))
    return any(_sets_format(script.flow, each, device) for each in calls)


def _sets_format(flow: Flow, call: ast.Call, device: str) -> bool:
    names = {each.name for each in flow.values(call.func)}
    if names & _SETTERS:
        return True
    if not names & AUTOCAST:
        return False
    named = argument_of(call, "device_type", 0)
    if isinstance(named, ast.Constant) and str(named.value) in DEFAULT_FORMATS.keys() - {device}:
        return False
    number_format = argument_of(call, "dtype", 1)
    default = DEFAULT_FORMATS[device]
    found = {_SAME.get(last, last) for last in _last_parts(flow, number_format)} if number_format is not None else set()
    return bool(found - {default})


def _last_parts(flow: Flow, node: ast.expr) -> Iterator[str]:
    """The last part of the name of each library's thing that the expression may be; empty of what is something else."""
    values = flow.values(node)
    yield from (each.name.rpartition(".")[2] if isinstance(each, External) else "" for each in values)
    if not values:
        yield ""


def apex_calls(script: Script) -> Iterator[tuple[ast.Call, Reason]]:
    """Where the module starts Apex's mixed precision, and why autocast is not put in its place."""
    module, flow = script.module, script.flow
    for call in module.nodes(ast.Call) if "apex" in module.text else ():
        if not any(each.name == "apex.amp.initialize" for each in flow.values(call.func)):
            continue
        if not script.target.allows(AUTOCAST_SINCE):
            yield call, script.target.why_too_old(AUTOCAST_SINCE, "torch.autocast, in place of Apex,")
            continue
        level = next((ast.unparse(each.value) for each in call.keywords if each.arg == "opt_level"), "'O1'")
        how = "it patches PyTorch's functions" if level == "'O1'" else f"opt_level={level} may keep weights in 16 bits"
        text = f"Apex computes in 16 bits its own way here ({HERE}), and {how}:"
        remedy = "torch.autocast and torch.amp.GradScaler, put in by hand, take its place"
        yield call, Reason("apex", text, (at(module, call),), remedy)
