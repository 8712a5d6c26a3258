"""What stands against the fused step of an optimizer, wherever its parameters are, and which optimizers have one?"""

from __future__ import annotations

import ast
import re
from itertools import chain
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of, arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, last_name, lasting, unparsed
from codemods.dataflow.values import Class, External, Instance, Made, Unknown, library_names
from codemods.facts.devices.cuda_use import capture
from codemods.facts.overwritten import names_of, why_overwritten
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.momentum import scalers, why_momentum_unset
from codemods.library.fused import FUSED, NOT_FUSED, SPARSE
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.reason import Place
    from codemods.facts.script import Construction, Script

_LOADING = re.compile(r"load|resume|restore", re.IGNORECASE)
_COMPLEX = frozenset(f"torch.{name}" for name in ("complex32", "complex64", "complex128", "cfloat", "cdouble", "chalf"))
_LOADS = "load_state_dict"
_SPARSE = "sparse"
_SPARSE_GRAD = "sparse_grad"
_APEX = "apex."
_LAYERS_OF_APEX = ("apex.parallel.", "apex.normalization.", "apex.contrib.")
_ANY = "torch.optim.?"
_ONLY_KEEPING = ("torch.optim.lr_scheduler.", "builtins.")
"""What begins the names of what does not step the optimizers that it is given."""
_HOOK = "gradients-read", "a hook runs with its steps, and may meet gradients that are scaled"
_STATE = "state"
_USES = {
    _STATE: ("optimizer-state-used", "its state is used, in which the count of steps would be on the device"),
    "add_param_group": ("unknown-model", "parameters are added to it, which may be on another device"),
    "register_step_pre_hook": _HOOK,
    "register_step_post_hook": _HOOK,
}
"""What is done with an optimizer that a fused step does not go together with: the cause, and why."""


def why_not_fused(
    script: Script, made: Construction, *, is_loaded: bool = False, is_on_cpu: bool = False
) -> Reason | None:
    """Why the optimizer steps as it does, whatever it steps and wherever that is.

    Args:
        script: The script.
        made: The optimizer.
        is_loaded: Whether it is known what is loaded into it, so that this is no reason.
        is_on_cpu: Whether its parameters are never on CUDA: its state is then where it was.
    """
    return (
        why_overwritten(script.flow, made.module, names_of(script.flow, made.value))
        or (None if is_loaded else why_loaded(script, made))
        or _why_used_otherwise(script, made, _USES.keys() - ({_STATE} if is_on_cpu else set()))
        or capture(script)
        or _why_other_parameters(script)
        or why_momentum_unset(script, made.value)
    )


def why_loaded(script: Script, made: Construction) -> Reason | None:
    """A checkpoint is loaded into it, or may be.

    The optimizer then steps as the one that was saved, but a gradient scaler still leaves the scale to it.
    """
    for module, call, name in loads_into(script, made):
        text = f"a checkpoint is loaded into it, which decides how it steps ({HERE})"
        if name:
            text = f"{name}(), which was not read, may load a checkpoint into it ({HERE})"
        return Reason("checkpoint-loaded", text, (at(module, call),))
    return None


def loads_into(script: Script, made: Construction) -> Iterator[tuple[Module, ast.Call, str]]:
    """The calls that load a checkpoint into the optimizer, or may, those with the name of what was not read."""
    for module, call, name in chain.from_iterable(_loading(script.flow, each) for each in script.modules):
        is_method = isinstance(call.func, ast.Attribute) and call.func.attr == _LOADS
        if is_method and made.value in script.flow.values(call.func.value):  # type: ignore[attr-defined]
            yield module, call, ""
        elif name and any(made.value in script.flow.values(each) for each in arguments_of(call)):
            yield module, call, name


@lasting  # each optimizer of each script that runs the module asks
def _loading(flow: Flow, module: Module) -> Sequence[tuple[Module, ast.Call, str]]:
    """The calls that may load a checkpoint, each with the name of what it calls where that was not read."""
    found: list[tuple[Module, ast.Call, str]] = []
    for call in module.nodes(ast.Call):
        name = _unread(flow, call)
        name = name if _LOADING.search(name.rpartition(".")[2]) else ""
        if name or last_name(call.func) == _LOADS:
            found.append((module, call, name))
    return found


def _unread(flow: Flow, call: ast.Call) -> str:
    """The name of a function that was not read; empty for others."""
    for callee in flow.values(call.func):
        if isinstance(callee, Unknown):
            return unparsed(call.func)
        if isinstance(callee, External) and not callee.name.startswith("torch."):
            return callee.name
    return ""


def _why_used_otherwise(script: Script, made: Construction, uses: Collection[str]) -> Reason | None:
    """Its state is read or written, parameters are added to it, hooks run with its steps, or apex has it."""
    for module in script.modules:
        for attribute in module.nodes(ast.Attribute):
            use = _USES[attribute.attr] if attribute.attr in uses else None
            if use is not None and made.value in script.flow.values(attribute.value):
                return Reason(use[0], f"{use[1]} ({HERE})", (at(module, attribute),))
    for module in script.modules:
        of_apex = [each for each in script.flow.called_names(module) if each.startswith(_APEX)]
        for call in script.flow.calls_of(module, of_apex):
            is_called = any(isinstance(each, External) for each in script.flow.values(call.func))
            if not is_called or not _is_about(script, call, made):
                continue  # what apex has made, a model, steps nothing when it is called
            return Reason("other-precision", f"apex changes how optimizers step ({HERE})", (at(module, call),))
    return None


def _is_about(script: Script, call: ast.Call, made: Construction) -> bool:
    """Whether a call of apex may change how the optimizer steps: it is given it, or starts mixed precision."""
    names = {each.name for each in script.flow.values(call.func)}
    is_other = names and all(each.startswith(_LAYERS_OF_APEX) for each in names)
    return not is_other or any(made.value in script.flow.values(each) for each in arguments_of(call))


def _why_other_parameters(script: Script) -> Reason | None:
    """Gradients may be sparse, or parameters complex: no fused step takes them."""
    sparse = next(_sparse_gradients(script), None)
    if sparse is not None:
        return Reason("not-fusible", f"gradients may be sparse, which no fused step takes ({HERE})", (sparse,))
    for module in script.modules:
        if "complex" not in module.text and "cfloat" not in module.text and "cdouble" not in module.text:
            continue
        for node in module.nodes(ast.Attribute, ast.Name):
            if library_names(script.flow.values(node)) & _COMPLEX:
                text = f"parameters may be complex, which no fused step takes ({HERE})"
                return Reason("not-fusible", text, (at(module, node),))
    return None


def _sparse_gradients(script: Script) -> Iterator[Place]:
    """Where gradients may be asked for that are sparse: of a table of embeddings, or by ``torch.gather``."""
    for module, call in _calls(script):
        if _may_make_sparse_gradients(script.flow, call) or any(
            each.arg == _SPARSE_GRAD and not _is_off(each.value) for each in call.keywords
        ):
            yield at(module, call)
    for module in script.modules:
        for statement in module.nodes(ast.Assign):
            for target in statement.targets:
                is_table = isinstance(target, ast.Attribute) and any(
                    isinstance(each, Made) and each.name in SPARSE for each in script.flow.values(target.value)
                )
                if is_table and last_name(target) == _SPARSE and not _is_off(statement.value):
                    yield at(module, target)


def _may_make_sparse_gradients(flow: Flow, call: ast.Call) -> bool:
    """Whether a call may ask for sparse gradients: of a table of embeddings, or of what is not known.

    What a function of the project does with its own ``sparse`` is seen where it does it.
    """
    is_unpacked = any(each.arg is None for each in call.keywords)
    if len(call.args) < min(SPARSE.values()) and not is_unpacked and all(each.arg != _SPARSE for each in call.keywords):
        return False
    callees = flow.values(call.func)
    if is_unpacked and any(isinstance(each, External) and each.name in SPARSE for each in callees):
        return any(_SPARSE in module.text for module in flow.modules)
    tables = {SPARSE[each.name] for each in callees if isinstance(each, External) and each.name in SPARSE}
    given = argument_of(call, _SPARSE, *tables) if len(tables) <= 1 else argument_of(call, _SPARSE)
    if given is None or _is_off(given):
        return False
    return not callees or any(_may_have_a_table(flow, each) for each in callees)


def _is_off(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _may_have_a_table(flow: Flow, callee: Value) -> bool:
    """Whether ``sparse`` may make the gradients of a table sparse, as far as what is called is known."""
    if isinstance(callee, External):
        is_torchs = callee.name.startswith("torch.")
        return callee.name in SPARSE if is_torchs else not has(callee.name, Trait.ARRAYS)
    function = flow.method(callee.site, "__init__") if isinstance(callee, Class) else flow.run_by(callee)
    return function is None or all(each.arg != _SPARSE for each in signature(function).named)


def _calls(script: Script) -> Iterator[tuple[Module, ast.Call]]:
    for module in script.modules:
        for call in module.nodes(ast.Call):
            yield module, call


def why_never_stepped(script: Script, made: Construction) -> Reason | None:
    """Nothing steps the optimizer of an entry script, as where a model is only tested; None where something may."""
    flow = script.flow
    if made.module not in script.entries:
        return None  # who imports it may
    for module in script.modules:
        for attribute in module.nodes(ast.Attribute):
            owners = flow.values(attribute.value) if attribute.attr == "step" else ()
            if any(each == made.value or _is_unread(each) for each in owners):
                return None
        for call in module.nodes(ast.Call):
            if any(made.value in flow.values(each) for each in arguments_of(call)) and _may_step(flow, call):
                return None
    return Reason("nothing-to-gain", "nothing steps it")


def _is_unread(value: Value) -> bool:
    """Whether it is neither the project's nor torch's."""
    return not isinstance(value, Instance) and not value.name.startswith("torch.")


def _may_step(flow: Flow, call: ast.Call) -> bool:
    """Whether what a call runs may step an optimizer that it is given, and is no code of the project."""
    callees = flow.values(call.func)
    return not callees or not all(
        isinstance(each.site, (ast.ClassDef, *FUNCTIONS)) or each.name.startswith(_ONLY_KEEPING) for each in callees
    )


def fusible(script: Script) -> Iterator[tuple[ast.Call, list[Construction], list[str]]]:
    """The calls of the module that make optimizers which have, or may have, a fused form, and the names of these."""
    sites: dict[ast.Call, list[Construction]] = {}
    for made in script.optimizers:
        if made.module is script.module:
            sites.setdefault(made.call, []).append(made)
    for call, several in sites.items():
        names = [form for each in several if (form := _named_form(script, each.value)) is not None]
        if names:
            yield call, several, names


def _named_form(script: Script, value: Value) -> str | None:
    """The name of torch's optimizer that the value is or derives from, if it has a fused form or may have one."""
    if isinstance(value, Instance):
        bases = script.flow.bases(value.of.site)
        return next((each for each in bases if isinstance(each, str) and each in FUSED), None)
    return value.name if value.name in FUSED or value.name == _ANY else None


def why_form_unknown(several: list[Construction], names: list[str]) -> Reason | None:
    """Why it is not known which optimizer it is, or how that steps."""
    made = several[0]
    own = next((each.value for each in several if isinstance(each.value, Instance)), None)
    if own is not None and own.of is not None:
        text = f"{own.of.name} derives from {names[0]}, and may step in a way of its own"
        return Reason("unknown-optimizer", text)
    if _ANY in names or len(names) < len(several):
        return Reason("unknown-optimizer", "it may be an optimizer that has no fused form")
    if any(each.arg is None for each in made.call.keywords) or any(
        isinstance(each, ast.Starred) for each in made.call.args
    ):
        return Reason("unknown-arguments", "the arguments come through * or **, and may choose how it steps")
    decides = next((each for each in made.call.keywords if each.arg in NOT_FUSED), None)
    if decides is not None:
        return Reason("script-decides", f"{decides.arg} is given ({HERE})", (at(made.module, decides.value),))
    return None


def may_be_scaled(script: Script) -> bool:
    """Whether a gradient scaler may leave its work to the optimizer, where the factor is multiplied in elsewhere."""
    return next(scalers(script), None) is not None
