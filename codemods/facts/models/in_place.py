"""What ``model.compile()`` compiles where a model is on its device, and what stands against it there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import Made, Value, without_none
from codemods.facts.devices.cuda_use import located
from codemods.facts.models.layers import Model
from codemods.facts.models.placement import unwrapped
from codemods.facts.models.preparation import why_too_early
from codemods.facts.models.trained import late_hook
from codemods.facts.models.uncalled import not_known
from codemods.facts.reason import HERE, Reason
from codemods.library.kinds import Kind, kind, why

if TYPE_CHECKING:
    from collections.abc import Container

    from codemods.facts.models.placement import Home
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script

OWN = Reason("own-method", "its class has a compile of its own")


def why_not_there(script: Script, trained: TrainedModel, place: Home, left: Container[Value]) -> Reason | None:
    """Why the model cannot be compiled at the place where it is on its device."""
    hook = late_hook(script.flow, script.module, script.modules, trained, script.module.function(place.anchor))
    if hook is not None:
        text = f"a compiled model ignores hooks that are added after its first call ({HERE})"
        return Reason("late-hook", text, (located(script, hook),), "add them before the first call")
    early = why_too_early(script, place)
    if early is not None:
        return early
    values = without_none(script.flow.values(place.name))
    if any(kind(script.flow, each) is not Kind.MODEL for each in values):
        return not_known(script.module.code(place.name), why(script.flow, values, Kind.MODEL))
    if any(each in left for value in values for each in unwrapped(script.flow, value)):
        text = f"{script.module.code(place.name)} may also be a model that is left"
        return Reason("left-with-another", text)
    compiling = {has_own_compile(Model(script.flow, each)) for each in values}
    text = "some of the models that it may be have a compile of their own"
    return Reason("own-method", text) if len(compiling) > 1 else None


def why_second_name(script: Script, trained: TrainedModel, home: Home) -> Reason | None:
    """Why the model has to be compiled under a second name: ``model.compile()`` is another's, or compiles nothing."""
    if has_own_compile(trained.model):
        return OWN
    return _in_vain_because(script, home) if _in_vain(script, home) else None


def with_one_name(because: Reason, only: Reason) -> Reason:
    """Why the model is left that needs a second name and cannot be given one."""
    text = f"{because.text.removesuffix(':')}, and {only.text}" + (":" if because.remedy else "")
    return because._replace(text=text, places=(*because.places, *only.places))


def _in_vain(script: Script, home: Home) -> bool:
    """Whether what is compiled in place there holds nothing but torch's own modules.

    TorchDynamo does not look into torch's own ``forward``: of ``nn.Sequential(nn.Linear(8, 8)).compile()`` torch 2.11
    and 2.13 make no graph, 2.15 makes one. ``torch.compile`` of the same model makes one in all of them.
    """
    if script.target.reaches((2, 15)):
        return False
    models = [Model(script.flow, each) for each in without_none(script.flow.values(home.name))]
    return bool(models) and all(_is_torchs_own(script, layer) for model in models for layer in model.layers)


def _is_torchs_own(script: Script, layer: Value) -> bool:
    class_ = Model(script.flow, layer).class_
    if class_ is None:
        return isinstance(layer, Made) and layer.name.startswith("torch.nn.")
    bases = [each for each in script.flow.bases(class_) if isinstance(each, str)]
    return script.flow.method(class_, "forward") is None and all(each.startswith("torch.nn.") for each in bases)


def _in_vain_because(script: Script, home: Home) -> Reason:
    name = script.module.code(home.name)
    text = f"{name}.compile() compiles nothing of torch's own modules before torch 2.15:"
    return Reason("compiles-nothing", text, remedy=f"train what torch.compile({name}) returns")


def has_own_compile(model: Model) -> bool:
    """Whether the model or its class has a ``compile`` of its own, which is not PyTorch's."""
    if model.class_ is None:
        return False
    own = [node for each in model.flow.project_bases(model.class_) for node in walk(each)]
    return model.flow.method(model.class_, "compile") is not None or any(
        isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node) in {"compile", "self.compile"}
        for node in own
    )
