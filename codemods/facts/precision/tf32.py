"""What does a script say of the precision of its matrix products in 32 bits, and what needs all of it?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import assigned
from codemods.dataflow.signatures import argument_of, arguments_of, signature
from codemods.dataflow.source import walk
from codemods.dataflow.values import External, Instance, Literal, Made, Tensor, Unknown, library_names
from codemods.facts.autograd.double_backward import keeps_graph
from codemods.facts.devices.cuda_use import located
from codemods.facts.devices.devices import branches, for_cuda
from codemods.facts.loops import module_of
from codemods.facts.models.applied import whole_number
from codemods.facts.models.layers import FUNCTIONAL_CONVOLUTIONS, Model
from codemods.facts.precision.bootstrap import bootstrapped
from codemods.facts.precision.coordinates import sampled
from codemods.facts.precision.densities import log_determinants
from codemods.facts.precision.gram import expanded_distances
from codemods.facts.precision.presence import mixed_precision_by_default, other_precision_by_default
from codemods.facts.precision.script_hazards import line_search
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.loss_regions import Phases
from codemods.library.functions import OF_OTHER_MODULES
from codemods.library.kinds import Kind, is_parameter, kind
from codemods.library.packages import Trait, has
from codemods.library.precise import PRECISE_METHODS, compares, is_precise
from codemods.library.weights import LOOKUPS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script

_SETTER = "torch.set_float32_matmul_precision"
_OLD, _NEW = "allow_tf32", "fp32_precision"
_OF_PRODUCTS = "torch.backends.cuda.matmul"
_VARIABLES = frozenset({"NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"})
_ON = frozenset({"high", "medium", "tf32", True})
_LINEAR = frozenset({"Linear", "LazyLinear", "Bilinear", "LSTMCell", "GRUCell", "RNNCell"})
"""Layers that multiply matrices: a recurrent cell does without cuDNN."""
_ATTENTION = ("Transformer", "MultiheadAttention")
_PRODUCTS = frozenset(
    {f"torch.{name}" for name in ("matmul", "mm", "bmm", "einsum", "baddbmm", "addmm", "tensordot")}
    | {f"torch.nn.functional.{name}" for name in ("multi_head_attention_forward", "scaled_dot_product_attention")}
)
_FUNCTIONAL_LINEAR = frozenset({"torch.nn.functional.linear", "torch.nn.functional.bilinear"})
_TABLES = frozenset(f"torch.nn.{name}" for name in LOOKUPS)
_METHODS = frozenset({"matmul", "mm", "bmm", "baddbmm", "addmm"})
_NEITHER: frozenset[int] = frozenset()
_BATCHES = {"torch.bmm": ({1, -2}, {2, -1}), "torch.matmul": ({-2}, {-1})}
"""Products of batches, and the dimension of one number that makes their left and their right operands vectors."""
_LAST_LAYERS = 2
"""Linear layers for each convolution that are still the last ones of a convolutional network, and compute little."""
_OWN_PACKAGES = frozenset({"torch", "torchvision", "timm"})
_TRANSFORMERS = (
    "vit_",
    "swin_",
    "maxvit",
    "mlp_mixer",
    "mixer_",
    "deit_",
    "beit_",
    "eva_",
    "cait_",
    "xcit_",
    "ViT",
    "VisionT",
    "Swin",
)


# What the script says.


def is_allowed(script: Script) -> bool:
    """Whether the script lets matrix products use TF32 already, whatever its options."""
    return any(
        is_on and not any(for_cuda(script.flow, each.test) is not each.holds for each in branches(module, node))
        for module, node, is_on in _settings(script)
        if is_on is not None
    )


def why_decided(script: Script) -> Reason | None:
    """Why the precision of matrix products is for the script to say: it says so, or trains in another one."""
    for module, node, _ in _settings(script):
        text = f"the script chooses the precision of products itself ({HERE})"
        return Reason("script-decides", text, (at(module, node),))
    other = other_precision_by_default(script)
    if other is not None:
        node, what = other
        return Reason("other-precision", f"{what} ({HERE})", (located(script, node),))
    present = mixed_precision_by_default(script)
    if present is not None:
        where, found = present
        name = (HERE, (at(where, found),)) if isinstance(found, (ast.expr, ast.stmt)) else (where.path, ())
        return Reason("done-already", f"mixed precision computes products in 16 bits already ({name[0]})", name[1])
    return None


def _settings(script: Script) -> Iterator[tuple[Module, ast.AST, bool | None]]:
    """Where a precision is chosen, and whether it allows TF32 in matrix products; None where it is about others."""
    for module in script.modules:
        if not any(each in module.text for each in (_OLD, _NEW, "matmul_precision", "TF32")):
            continue
        for statement in module.nodes(ast.Assign):
            for target, value in assigned(statement):
                if isinstance(target, ast.Attribute) and target.attr in {_OLD, _NEW}:
                    yield module, statement, _allows(script, target.value, value)
        yield from ((module, call, is_on) for call, is_on in _setting_calls(script, module))
        yield from ((module, each, None) for each in module.nodes(ast.Constant) if each.value in _VARIABLES)


def _setting_calls(script: Script, module: Module) -> Iterator[tuple[ast.Call, bool | None]]:
    for call in module.nodes(ast.Call):
        names = {each.name for each in script.flow.values(call.func)}
        if _SETTER in names:
            given = arguments_of(call)[:1]
            yield call, bool(given) and _is_on(given[0])
        elif _sets_backend(script, call, names):
            yield call, None


def _sets_backend(script: Script, call: ast.Call, names: set[str]) -> bool:
    """``setattr(torch.backends.cuda.matmul, "allow_tf32", x)``, ``torch.backends.cudnn.flags(allow_tf32=x)``."""
    if any(script.sets_attribute(call, each) for each in (_OLD, _NEW)):
        return bool(_backend(script, call.args[0]))
    is_flags = any(each.startswith("torch.backends.") for each in names)
    return is_flags and any(each.arg in {_OLD, _NEW} for each in call.keywords)


def _allows(script: Script, owner: ast.expr, value: ast.expr | None) -> bool | None:
    is_of_products = _OF_PRODUCTS in _backend(script, owner)
    return _is_on(value) if is_of_products else None


def _backend(script: Script, owner: ast.expr) -> frozenset[str]:
    names = library_names(script.flow.values(owner))
    return frozenset(each for each in names if each.startswith("torch.backends"))


def _is_on(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value in _ON


# What needs 32 bits.


def why_precise(script: Script) -> Reason | None:
    """What in the script needs products of 24 bits, of which TF32 keeps 11."""
    search = line_search(script)
    if search is not None:
        text = f"the line search of LBFGS compares losses that differ by little ({HERE})"
        return Reason("needs-precision", text, (located(script, search),))
    for module in script.modules:
        for call in module.nodes(ast.Call):
            what = _needs_precision(script, call)
            if what is not None and script.may_run(module, call):
                return Reason("needs-precision", f"{what} ({HERE})", (at(module, call),))
        codes = (module.tree, *module.nodes(ast.FunctionDef))
        distances = (each for code in codes for each in expanded_distances(script.flow, module, code))
        distance = next((each for each in distances if script.may_run(module, each)), None)
        if distance is not None:
            text = (
                f"{module.code(distance)} is part of an expanded distance, a small difference of large numbers ({HERE})"
            )
            return Reason("needs-precision", text, (at(module, distance),))
    return _why_of_density(script) or _why_of_coordinates(script) or _why_of_training(script)


def _why_of_coordinates(script: Script) -> Reason | None:
    codes = [each for module in script.modules for each in (module.tree, *module.nodes(ast.FunctionDef))]
    for call in sampled(script.flow, codes):
        module = module_of(script.flow, call)
        if script.may_run(module, call):
            text = f"images are sampled at coordinates that it computes, which need all digits ({HERE})"
            return Reason("needs-precision", text, (at(module, call),))
    return None


def _why_of_density(script: Script) -> Reason | None:
    for module in script.modules:
        for function in module.nodes(ast.FunctionDef):
            bound = next(log_determinants(function), None)
            if bound is not None and script.may_run(module, bound):
                text = f"'{bound.id}' is part of a density, which needs all digits ({HERE})"
                return Reason("needs-precision", text, (at(module, bound),))
    return None


def _needs_precision(script: Script, call: ast.Call) -> str | None:
    """Why a call needs precise products: it solves, compares, or differentiates again."""
    values = script.flow.values(call.func)
    for each in values:
        if isinstance(each, (External, Made)) and is_precise(each.name):
            return f"{each.name}() loses digits, and needs them all"
        if isinstance(each, (External, Made)) and has(each.name, Trait.EXACT):
            return f"{each.name}() solves to a tolerance that TF32 may not reach"
        if isinstance(each, External) and compares(each.name):
            return f"{each.name}() compares numbers closely"
    if isinstance(call.func, ast.Attribute) and call.func.attr in PRECISE_METHODS:
        owners = script.flow.values(call.func.value)
        if owners and all(isinstance(each, Tensor) or is_parameter(script.flow, each) for each in owners):
            return f"{call.func.attr}() loses digits, and needs them all"
    if keeps_graph(script.flow, call):
        return "gradients are differentiated again"
    return None


def _why_of_training(script: Script) -> Reason | None:
    """What a network learns from its own estimates, or is of a module that may be any, such as one of distances."""
    unseen: Reason | None = None
    for module in dict.fromkeys(module for module, _ in script.backwards):
        phases = Phases(script.seen_from(module, script.told))
        for phase in phases.all:
            hazard = bootstrapped(phases, phase)
            if hazard is not None:
                text = f"a network learns from targets that it estimates itself, as Q-learning does ({HERE})"
                return Reason("needs-precision", text, (at(hazard.module, hazard.node),))
            unseen = unseen or phases.why_unseen(phase, OF_OTHER_MODULES)
    return unseen


# What multiplies matrices.


def multiplies(script: Script, model: Value) -> bool:
    """Whether products of matrices are more than a last layer of the model: convolutions use TF32 already."""
    known = Model(script.flow, model)
    if _returns_words(script, known.layers):
        return True
    linear = convolved = 0
    for layer in known.layers:
        package, _, name = layer.name.rpartition(".")
        if isinstance(layer, Made) and package == "torch.nn":
            if name.startswith(_ATTENTION):
                return True
            linear += name in _LINEAR and not _is_vector(layer)
            convolved += "Conv" in name
        elif isinstance(layer, Made) and kind(script.flow, layer) is Kind.MODEL and not package.startswith("torch.nn"):
            if package.partition(".")[0] not in _OWN_PACKAGES or name.startswith(_TRANSFORMERS):
                return True
            convolved += Model(script.flow, layer).has_convolution
        class_ = Model(script.flow, layer).class_
        if class_ is not None:
            if _has_products(script, class_):
                return True
            linear += _calls(script, class_, _FUNCTIONAL_LINEAR)
            convolved += _calls(script, class_, FUNCTIONAL_CONVOLUTIONS)
    return linear > _LAST_LAYERS * convolved


def _is_vector(layer: Made) -> bool:
    """Whether the weights of a linear layer are one row or one column, as those of a head for one number are."""
    if layer.name != "torch.nn.Linear" or not isinstance(layer.site, ast.Call):
        return False
    sizes = (argument_of(layer.site, each, at) for at, each in enumerate(("in_features", "out_features")))
    return any(whole_number(each) == 1 for each in sizes)


def _returns_words(script: Script, layers: Iterable[Value]) -> bool:
    """Whether a linear layer is as wide as a table has rows, as the last one of a language model is: any width."""
    made = [each for each in layers if isinstance(each.site, ast.Call)]
    rows = [_size(script, each.site, "num_embeddings", 0) for each in made if each.name in _TABLES]
    wide = [_size(script, each.site, "out_features", 1) for each in made if each.name == "torch.nn.Linear"]
    return any(each is not None and each in rows for each in wide)


def _size(script: Script, call: ast.AST | None, name: str, position: int) -> tuple[ast.AST, str] | None:
    """The parameter of a constructor that says how large the layer is, which is not known where it is made."""
    given = argument_of(call, name, position) if isinstance(call, ast.Call) else None
    module = next((each for each in script.modules if given is not None and each.holds(given)), None)
    function = module.function(given) if module is not None and given is not None else None
    if function is None or not isinstance(given, ast.Name) or given.id not in signature(function).names:
        return None
    values = script.flow.values(given)
    return None if values and all(isinstance(each, Literal) for each in values) else (function, given.id)


def uses_tf32_already(script: Script, model: Value) -> bool:
    """Whether a convolution or cuDNN's recurrent layer is known to be in the model."""
    known = Model(script.flow, model)
    return known.has_convolution or known.recurrent is not None


def only_looks_up(script: Script, model: Value) -> bool:
    """Whether all that the model does with its weights is to look up rows of them, as a table of bigrams does."""
    known = Model(script.flow, model)
    layers = [each for each in known.layers if each != model]
    if known.class_ is None or not layers or any(each.name not in _TABLES for each in layers):
        return False
    called = (
        value
        for node in walk(known.class_)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if any(isinstance(owner, Instance) for owner in script.flow.values(node.func.value))
        for value in script.flow.values(node.func)
    )
    has_products = _has_products(script, known.class_) or _calls(script, known.class_, _FUNCTIONAL_LINEAR)
    return not has_products and not any(isinstance(each, Unknown) for each in called)


def _has_products(script: Script, class_: ast.ClassDef) -> bool:
    """Whether the class multiplies matrices by itself, as attention does: not each with a single vector."""
    for node in walk(class_):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return True
        if isinstance(node, ast.Call) and not multiplies_vector(script, node):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
                return True
            if library_names(script.flow.values(node.func)) & _PRODUCTS:
                return True
    return False


def _calls(script: Script, class_: ast.ClassDef, functions: frozenset[str]) -> int:
    """How many calls of these functions stand in the class."""
    calls = (each for each in walk(class_) if isinstance(each, ast.Call))
    return sum(not functions.isdisjoint(library_names(script.flow.values(each.func))) for each in calls)


def multiplies_vector(script: Script, call: ast.Call) -> bool:
    """Whether one operand of a product of matrices is a vector: ``torch.bmm(rows, word.unsqueeze(2))``."""
    names = library_names(script.flow.values(call.func)) & _BATCHES.keys()
    method = call.func.attr if isinstance(call.func, ast.Attribute) and not names else ""
    operands = list(call.args)
    if isinstance(call.func, ast.Attribute) and not names:
        operands.insert(0, call.func.value)
    rows, columns = _BATCHES.get(next(iter(names), f"torch.{method}"), (_NEITHER, _NEITHER))
    match operands:
        case [left, right]:
            return _adds_dimension(left, rows) or _adds_dimension(right, columns)
    return False


def _adds_dimension(node: ast.expr, at_one_of: Collection[int]) -> bool:
    """Whether it is ``x.unsqueeze(…)``, or ``torch.unsqueeze(x, …)``, of one of these dimensions."""
    match node:
        case ast.UnaryOp(_, inner) | ast.Call(ast.Attribute(inner, "neg"), [], []):
            return _adds_dimension(inner, at_one_of)
        case ast.Call(ast.Attribute(attr="unsqueeze")):
            dimension = argument_of(node, "dim", len(node.args) - 1)
            return any(ast.unparse(dimension) == str(each) for each in at_one_of) if dimension is not None else False
    return False
