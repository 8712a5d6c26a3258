"""Models: their layers, and what kinds of layers these are."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import (
    Container,
    External,
    Instance,
    Literal,
    Made,
    Unknown,
    Value,
    Values,
    in_order,
    library_names,
    without_none,
)
from codemods.facts.unreached import never_runs
from codemods.library.kinds import Kind, kind
from codemods.library.layers import is_recurrent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode

_CONVOLUTIONS = frozenset(
    f"{lazy}Conv{transpose}{n}d" for lazy in ("", "Lazy") for transpose in ("", "Transpose") for n in (1, 2, 3)
)
FUNCTIONAL_CONVOLUTIONS = frozenset(
    f"torch.nn.functional.conv{transpose}{n}d" for transpose in ("", "_transpose") for n in (1, 2, 3)
)
# torchvision's and timm's constructors that make no convolutional network.
_NO_CONVOLUTION = ("vit_", "swin_", "mlp_mixer", "mixer_", "deit_", "raft_")
# Families of networks in timm, by what their names begin with, that begin with convolutions and go on with them.
_CONVOLUTIONAL_FAMILIES = (
    *("resnet", "resnext", "resnest", "res2net", "seresne", "wide_resnet", "ecaresnet", "skresne", "legacy_seresne"),
    *("efficientnet", "tf_efficientnet", "mobilenet", "tf_mobilenet", "mnasnet", "regnet", "convnext", "densenet"),
    *("vgg", "inception", "xception", "dla", "dpn", "hrnet", "rexnet", "repvgg", "darknet", "cspdarknet", "cspresne"),
)
# Layers that take another way, with other rounding, where no gradients are asked for.
_ROUNDS_OTHERWISE = ("Transformer", "MultiheadAttention", "LSTM", "vit_", "maxvit", "VisionTransformer")
_FUSED = ("scaled_dot_product_attention", "multi_head_attention_forward")
_KNOWN = frozenset(
    {"torch", "builtins", "math", "numpy", "torchvision", "copy", "random", "functools", "itertools", "collections"}
)
HOLDERS = frozenset({"torch.nn.ModuleDict", "torch.nn.ModuleList"})
"""What holds models and computes nothing: a call of it raises."""
_OF_LAYERS = HOLDERS | {"torch.nn.Sequential"}
_VARIABLE_INPUT = ("torchvision.models.detection", "torchvision.models.segmentation")


@dataclass(frozen=True, eq=False)
class Model:
    """An ``nn.Module`` that the script makes."""

    flow: Flow
    value: Value

    @property
    def class_(self) -> ast.ClassDef | None:
        """Its class, where it is the project's."""
        return self.value.of.site if isinstance(self.value, Instance) else None

    @property
    def forwards(self) -> Iterator[FunctionNode]:
        """The code of the project that a call of it runs: its own ``forward``, and those of its layers."""
        classes = (Model(self.flow, each).class_ for each in self.layers)
        methods = (self.flow.method(each, "forward") for each in classes if each is not None)
        return (each for each in methods if each is not None)

    @property
    def layers(self) -> tuple[Value, ...]:
        """Every layer in it that is known, from the outside in, the model itself among them."""
        return _layers(self.flow, self.value)

    @cached_property
    def has_convolution(self) -> bool:
        """Whether a convolution is known to be in it."""
        for layer in self.layers:
            package, _, name = layer.name.rpartition(".")
            if isinstance(layer, Made):
                if package == "torch.nn" and name in _CONVOLUTIONS:
                    return True
                if package.startswith("torchvision.models") and not name.startswith(_NO_CONVOLUTION):
                    return True
                if layer.name == "timm.create_model" and _named(self.flow, layer).startswith(_CONVOLUTIONAL_FAMILIES):
                    return True
            elif isinstance(layer, Instance) and _is_convolutional(self.flow, layer.of.site):
                return True
        return False

    @cached_property
    def recurrent(self) -> Value | None:
        """A recurrent layer in it, torch's own or derived from one; None where none is known."""
        return next((each for each in self.layers if self._is_recurrent(each)), None)

    def _is_recurrent(self, layer: Value) -> bool:
        class_ = Model(self.flow, layer).class_
        bases = self.flow.bases(class_) if class_ is not None else ()
        return is_recurrent(layer.name) or any(isinstance(each, str) and is_recurrent(each) for each in bases)

    @property
    def takes_any_size(self) -> bool:
        """Whether it is made for images that differ in size."""
        return any(layer.name.startswith(_VARIABLE_INPUT) for layer in self.layers)

    @cached_property
    def is_exact_without_gradients(self) -> bool:
        """Whether it is known to compute the same bits whether or not a graph is kept.

        Transformers take a fused path without gradients, LSTMs another kernel on the CPU, compilers another graph.
        """
        for layer in self.layers:
            package, _, name = layer.name.rpartition(".")
            if isinstance(layer, Made):
                known = package == "torch.nn" or (package.startswith("torchvision.models") and name != "?")
                known = known and holds_only_known(self.flow, layer)
                if not known or name.startswith(_ROUNDS_OTHERWISE):
                    return False
            class_ = Model(self.flow, layer).class_
            if class_ is not None and not self._calls_only_known(class_):
                return False
        return True

    def _calls_only_known(self, class_: ast.ClassDef) -> bool:
        """Whether all that the class derives from and calls is known to round alike without gradients."""
        for base in self.flow.bases(class_):
            if isinstance(base, str) and (
                not base.startswith("torch.nn.") or base.rpartition(".")[2].startswith(_ROUNDS_OTHERWISE)
            ):
                return False
        return calls_only_known(self.flow, class_)


@lasting
def holds_only_known(flow: Flow, layer: Value) -> bool:
    """Whether all layers in it are known, if it is torch's to hold others: ``nn.Sequential(*list(net.children()))``."""
    if not isinstance(layer, Made) or layer.name not in _OF_LAYERS:
        return True
    todo = [*flow.items(layer)]
    for each in arguments_of(layer.site) if isinstance(layer.site, ast.Call) else ():
        todo += flow.values(each.value if isinstance(each, ast.Starred) else each)
    inside = closure(todo, lambda value: flow.items(value) if isinstance(value, Container) else ())
    return all(isinstance(each, (Container, Literal)) or kind(flow, each) is Kind.MODEL for each in inside)


def calls_only_known(flow: Flow, code: ast.AST) -> bool:
    """Whether all that the code calls, beside models and functions of the project, rounds alike without gradients."""
    for node in walk(code):
        for callee in flow.values(node.func) if isinstance(node, ast.Call) else ():
            if isinstance(callee, Unknown) or (isinstance(callee, Made) and kind(flow, callee) is None):
                return False
            package, _, name = callee.name.partition(".")
            if isinstance(callee, External) and (package not in _KNOWN or name.rpartition(".")[2].startswith(_FUSED)):
                return False
    return True


def held(flow: Flow, value: Value) -> Iterator[Value]:
    """The models that a ``ModuleList`` or ``ModuleDict`` holds, itself or in others; the value where it is none."""
    todo, seen = [value], set[Value]()
    while todo:
        each = todo.pop(0)
        if each.name not in HOLDERS:
            yield each
        elif each not in seen:
            seen.add(each)
            todo.extend(_inside(flow, each))


def is_in_threads(flow: Flow, value: Value) -> bool:
    """Whether it is ``nn.DataParallel``, or an object of a class of the project that derives from it."""
    class_ = Model(flow, value).class_
    bases = (value.name,) if class_ is None else flow.bases(class_)
    return isinstance(value, (Made, Instance)) and "torch.nn.DataParallel" in bases


def function_in_threads(flow: Flow, call: ast.Call) -> str | None:
    """The name of the function by which the call runs a model, its first argument, in threads; None where none."""
    names = library_names(flow.values(call.func))
    return min((_IN_THREADS[name] for name in names & _IN_THREADS.keys()), default=None)


_IN_THREADS = {
    f"torch.nn.{package}{name}": name
    for name in ("data_parallel", "parallel_apply", "replicate")
    for package in ("", "parallel.", f"parallel.{name}.")
}


@lasting  # those of large models are asked for again and again
def _layers(flow: Flow, model: Value) -> tuple[Value, ...]:
    """The model, and every layer in it that is known, from the outside in."""
    found: dict[Value, None] = {}
    todo = [model]
    while todo:
        value = todo.pop()
        if value in found:
            continue
        found[value] = None
        todo.extend(_inside(flow, value))
    return tuple(found)


@lasting
def _inside(flow: Flow, value: Value) -> tuple[Value, ...]:
    """The layers that a layer holds itself."""
    values: list[Values] = []
    if isinstance(value, Instance):
        values.extend(flow.attributes(value.of.site).values())
        values.extend(flow.values(each) for each in _handed_to_holder(flow, value))
    elif isinstance(value, Made) and isinstance(value.site, ast.Call):
        arguments = arguments_of(value.site)
        values.extend(flow.values(each.value if isinstance(each, ast.Starred) else each) for each in arguments)
        # What was added later: `layers.append(…)`, `model.fc = …`.
        values.extend((flow.items(value), *flow.attributes(value.site).values()))
    todo = [each for some in values for each in in_order(without_none(some))]
    seen: set[Value] = set()
    found: list[Value] = []
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        if isinstance(each, Container):
            todo.extend(in_order(flow.items(each)))
        elif kind(flow, each) is Kind.MODEL and (each.site is None or not never_runs(flow, each.site)):
            found.append(each)
    return tuple(found)


def _handed_to_holder(flow: Flow, value: Instance) -> Iterator[ast.expr]:
    """The layers that an object is given whose class derives from one of torch's: ``super().__init__(*layers)``."""
    class_ = value.of.site
    if not any(isinstance(base, str) and base in _OF_LAYERS for base in flow.bases(class_)):
        return
    makers = [
        each
        for owner in (class_, *flow.project_bases(class_))
        for each in owner.body
        if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    ]
    inner = (each for maker in makers for each in walk(maker) if isinstance(each, ast.Call))
    calls = [each for each in inner if isinstance(each.func, ast.Attribute) and each.func.attr == "__init__"]
    if not makers:
        calls += [value.site] if isinstance(value.site, ast.Call) else _makings(flow, class_)
    for call in calls:
        yield from (each.value if isinstance(each, ast.Starred) else each for each in arguments_of(call))


@lasting
def _makings(flow: Flow, class_: ast.ClassDef) -> tuple[ast.Call, ...]:
    """The calls of a class: what any object of it may be given."""
    calls = (call for module in flow.modules for call in module.nodes(ast.Call))
    return tuple(each for each in calls if any(made.site is class_ for made in flow.values(each.func)))


@lasting
def _is_convolutional(flow: Flow, class_: ast.ClassDef) -> bool:
    """Whether the class derives from a convolution or a convolutional network, or calls one as a function."""
    for base in flow.bases(class_):
        if isinstance(base, str) and (
            base.rpartition(".")[2] in _CONVOLUTIONS or base.startswith("torchvision.models.")
        ):
            return True
    return any(
        isinstance(value, External) and value.name in FUNCTIONAL_CONVOLUTIONS
        for node in walk(class_)
        if isinstance(node, ast.Call)
        for value in flow.values(node.func)
    )


def _named(flow: Flow, layer: Value) -> str:
    """The name of the network that a library's function was asked for; empty where it is not written out."""
    given = layer.site.args[:1] if isinstance(layer.site, ast.Call) else []
    given += [each.value for each in getattr(layer.site, "keywords", ()) if each.arg == "model_name"]
    (name,) = flow.values(given[0]) if given and len(flow.values(given[0])) == 1 else (None,)
    return name.value if isinstance(name, Literal) and isinstance(name.value, str) else ""
