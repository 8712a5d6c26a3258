"""Why a model that training iterations call is not to be compiled, in the order in which it is said."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, lasting, walk
from codemods.dataflow.values import Made, Method, library_names
from codemods.facts.autograd.apart_results import differentiated_apart
from codemods.facts.autograd.double_backward import differentiated_inside, differentiated_twice
from codemods.facts.autograd.input_gradients import of_inputs_alone
from codemods.facts.autograd.retained import retained_at_times
from codemods.facts.data.padding import pads_to_the_longest
from codemods.facts.devices.cuda_use import capture, located, no_cuda, unknown_device
from codemods.facts.models.compilability import why_not_traced, why_recompiled
from codemods.facts.models.drawn_sizes import drawn_size
from codemods.facts.models.layers import Model, is_in_threads
from codemods.facts.models.looked_at import last_look
from codemods.facts.models.placement import Home, unwrapped
from codemods.facts.models.repeatability import why_runs_differ
from codemods.facts.models.replaced_data import is_called_again, replaced_data
from codemods.facts.models.replication import is_only_on_several
from codemods.facts.models.trained import given_to_process, traced_by
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.options import runs_by_default
from codemods.library.functions import SYNCHRONIZES
from codemods.library.kinds import Kind, kind
from codemods.library.torchscript import SCRIPT_MODULE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script
    from codemods.facts.target import Version

_TORCH_SCRIPT = frozenset({"torch.jit.script", "torch.jit.trace"})
_NEW_TF32 = "fp32_precision"
_SYNCHRONIZED = "torch.nn.SyncBatchNorm"
_NOT_IN_ONE = "its batch norms gather from other processes, which is not compiled: the graph breaks at each of them"
SINGLE = Reason("nothing-to-gain", "it is a single layer: there is nothing to fuse in it")


@dataclass(frozen=True)
class Obstacle:
    """Something that stands against compiling a model."""

    check: Callable[[Script, TrainedModel], Reason | None]
    """The reason, where it does."""
    mended_in: Version | None = None
    """The first torch in which it does not, if there is one."""
    reference: str = ""
    """Where that is said."""


def why_not_compiled(script: Script, trained: TrainedModel, *, alone: bool = False) -> Reason | None:
    """Why the model is not to be compiled; None where nothing is known against it.

    It is the first obstacle's reason, but what the user can do nothing about goes before what can be mended.

    Args:
        script: The script.
        trained: The model.
        alone: Whether it is asked for where ``nn.DataParallel`` does not copy the model.
    """
    first = None
    for obstacle in OBSTACLES:
        if alone and obstacle.check is _in_threads:
            continue
        if obstacle.mended_in is not None and script.target.reaches(obstacle.mended_in):
            continue
        reason = obstacle.check(script, trained)
        if reason is not None and not reason.remedy:
            return reason
        first = first or reason
    return first


def _on_no_device(script: Script, trained: TrainedModel) -> Reason | None:
    if trained.home is None and not script.may_use_cuda:
        return unknown_device(script, script.transfers) or no_cuda(script)
    return None


def _single(_script: Script, trained: TrainedModel) -> Reason | None:
    return SINGLE if trained.is_single else None


def _captured(script: Script, _trained: TrainedModel) -> Reason | None:
    return capture(script)


def _compiled_elsewhere(script: Script, _trained: TrainedModel) -> Reason | None:
    compiling = compiles_already(script)
    return Reason("done-already", f"{compiling.path} compiles already") if compiling is not None else None


def _in_threads(script: Script, trained: TrainedModel) -> Reason | None:
    found = wrappers_in_threads(script, trained)
    if not found:
        return None
    branch = branch_in_threads(script, found)
    if branch is not None:
        text = f"nn.DataParallel copies the model in each iteration, in one branch ({HERE}):"
        return Reason("data-parallel", text, (located(script, branch),), "call model.compile() in the others")
    tests = [_test_of(script, each) for each in found]
    test = tests[0] if len({each and ast.unparse(each) for each in tests}) == 1 else None
    where = f" where {ast.unparse(test)} ({HERE})" if test is not None else ""
    places = (located(script, test),) if test is not None else ()
    if test is None and is_only_on_several(script.flow, found):
        where = " where there are several GPUs"
    text = f"nn.DataParallel copies the model in each iteration{where}:"
    return Reason("data-parallel", text, places, "convert to DistributedDataParallel first")


def wrappers_in_threads(script: Script, trained: TrainedModel) -> list[Value]:
    """What copies the model, or layers of it, into threads."""
    return [each for each in (*trained.wrappers, *trained.model.layers) if is_in_threads(script.flow, each)]


def branch_in_threads(script: Script, wrappers: Sequence[Value]) -> ast.Call | None:
    """The first of the calls that make such wrappers, if all are in one branch of a test; else None."""
    sites = [each.site for each in wrappers if isinstance(each.site, ast.Call)]
    if not sites or len(sites) < len(wrappers) or not _is_in_one_branch(script, sites):
        return None
    return min(sites, key=lambda each: each.lineno)


def _is_in_one_branch(script: Script, sites: Sequence[ast.Call]) -> bool:
    """Whether the script wraps the model in one branch of an ``if``, and binds it otherwise in the other one."""
    module = next((each for each in script.modules if each.holds(sites[0])), None)
    for above in module.ancestors(sites[0]) if module is not None else ():
        if isinstance(above, FUNCTIONS) or module is None:
            return False
        if isinstance(above, ast.If) and above.orelse:
            arms = [{each for part in arm for each in walk(part)} for arm in (above.body, above.orelse)]
            here, other = arms if sites[0] in arms[0] else reversed(arms)
            if here.issuperset(sites) and _stored(walk(module.statement(sites[0]))) & _stored(other):
                return True
    return False


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    return {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _test_of(script: Script, wrapper: Value) -> ast.expr | None:
    """The test of the ``if`` without ``else`` that wraps the model, where one does."""
    site = wrapper.site
    module = next((each for each in script.modules if site is not None and each.holds(site)), None)
    if site is None or module is None:
        return None
    match module.parent(module.statement(site)):
        case ast.If(test, orelse=[]) if site not in walk(test):
            return test
    return None


def _scripted(_script: Script, trained: TrainedModel) -> Reason | None:
    made = (*trained.wrappers, trained.model.value)
    name = next((each.name for each in made if each.name in _TORCH_SCRIPT), None)
    class_ = trained.model.class_
    if name is None and class_ is not None and SCRIPT_MODULE in trained.model.flow.bases(class_):
        text = f"{class_.name} derives from {SCRIPT_MODULE}, so that TorchScript compiles it:"
        return Reason("torchscript", text, remedy="derive it from torch.nn.Module, and remove what marks its methods")
    if name is None:
        return None
    text = f"{name}() has made TorchScript of it, which is not compiled again:"
    return Reason("torchscript", text, remedy="remove that first")


def _differentiated_twice(script: Script, trained: TrainedModel) -> Reason | None:
    twice = _twice(script, trained.model.value).get(trained.model.value)
    if twice is None:
        return None
    second = any(each.arg == "create_graph" for each in twice.keywords)
    what = "gradient penalty / second derivative" if second else f"derivatives by {ast.unparse(twice.func)}()"
    text = f"{what} through {trained.name} ({HERE})"
    return Reason("double-backward", text, (located(script, twice),))


@lasting  # each model asks
def _twice(script: Script, value: Value) -> dict[Value, ast.Call]:
    """Where models are differentiated twice: those that training iterations call, and one that may be another."""
    called = [each.model for each in script.trained_models if each.model.value != value]
    return differentiated_twice(script.flow, script.modules, (*called, Model(script.flow, value)), script.may_run)


def _differentiated_inside(script: Script, trained: TrainedModel) -> Reason | None:
    inside = differentiated_inside(script.flow, script.modules, trained.model)
    if inside is None:
        return None
    what = f"a gradient with respect to what is computed inside {trained.name}"
    text = f"{what}: a compiled model has no graph there ({HERE})"
    return Reason("inner-gradient", text, (located(script, inside),))


def _differentiated_by_inputs(script: Script, trained: TrainedModel) -> Reason | None:
    found = of_inputs_alone(script, trained.model.value)
    if found is None:
        return None
    name = trained.name
    text = (
        f"a loop in each iteration asks for gradients of what {name} is given alone ({HERE}), where a compiled backward"
    )
    remedy = f"{name}.requires_grad_(False) before that loop, and {name}.requires_grad_() after it"
    return Reason("input-gradient", f"{text} computes those of all weights, too:", (located(script, found),), remedy)


def _retained(script: Script, trained: TrainedModel) -> Reason | None:
    kept = retained_at_times(script.flow, script.modules, script.iterations, trained.model.value, script.may_run)
    if kept is None:
        return None
    text = f"the graph of {trained.name} is kept ({HERE}), which fails once a compiled backward has not kept it:"
    remedy = "give retain_graph=True to the first backward of each iteration"
    return Reason("retained-graph", text, (located(script, kept),), remedy)


def _differentiated_apart(script: Script, trained: TrainedModel) -> Reason | None:
    found = differentiated_apart(script.flow, script.modules, trained.calls, script.whole.graph_uses.only_reads)
    if found is None:
        return None
    text = f"results of one call of {trained.name} may be differentiated one after the other ({HERE}): compiled, they"
    remedy = "add the losses up, and differentiate the sum"
    return Reason("results-apart", f"{text} have one graph, which the first backward frees:", (at(*found),), remedy)


def _replacing_data(script: Script, trained: TrainedModel) -> Reason | None:
    found = replaced_data(trained.model)
    if found is None or not is_called_again(script.iterations, (call for _, call in trained.calls)):
        return None
    text = f"forward replaces the data of a tensor ({HERE}), and {trained.name} is called again before the backward,"
    remedy = "copy into a buffer under torch.no_grad(), and compute with a clone of it"
    return Reason("data-replaced", f"{text} which would read the old data once it is compiled:", (at(*found),), remedy)


def _called_by_its_own(script: Script, trained: TrainedModel) -> Reason | None:
    class_ = trained.model.class_
    if class_ is None or script.flow.method(class_, "__call__") is None:
        return None
    return Reason("own-method", "its class has a method __call__() of its own, which is not compiled")


def _traced(script: Script, trained: TrainedModel) -> Reason | None:
    home = trained.home
    place = last_look(script, trained, home) if isinstance(home, Home) else None
    tracing = traced_by(script.flow, script.modules, trained, place)
    if tracing is None:
        return None
    text = f"{ast.unparse(tracing.func)}() traces the model, which fails once it is compiled ({HERE}):"
    return Reason("torchscript", text, (located(script, tracing),), "trace a copy that is not compiled")


def _sent_away(script: Script, trained: TrainedModel) -> Reason | None:
    process = given_to_process(script.flow, script.modules, trained)
    if process is None:
        return None
    remedy = "compile it in the function that runs there"
    text = f"it is given to another process: {remedy} ({HERE})"
    return Reason("other-process", text, (located(script, process),), remedy)


def _may_differ(script: Script, trained: TrainedModel) -> Reason | None:
    home = trained.home
    if not isinstance(home, Home):
        return why_runs_differ(script, script.module, None)
    return why_runs_differ(script, home.module, home.anchor)


def _in_framework(script: Script, _trained: TrainedModel) -> Reason | None:
    return in_framework(script.framework) if script.framework is not None else None


def _beside_new_tf32(script: Script, _trained: TrainedModel) -> Reason | None:
    attributes = script.module.nodes(ast.Attribute)
    tf32 = next((each for each in attributes if each.attr == _NEW_TF32 and isinstance(each.ctx, ast.Store)), None)
    if tf32 is None:
        return None
    text = f"Inductor of torch 2.9 to 2.13 fails beside {_NEW_TF32} ({HERE})"
    return Reason("inductor-fault", text, (at(script.module, tf32),))


def _not_traced(_script: Script, trained: TrainedModel) -> Reason | None:
    return why_not_traced(trained.model)


def _synchronized(script: Script, trained: TrainedModel) -> Reason | None:
    """Its layers gather statistics from other processes in each call: what compiles it breaks off at each of them."""
    layers = trained.model.layers
    for each in layers:
        if each.name == _SYNCHRONIZED and isinstance(each.site, ast.expr):
            return Reason("graph-break", f"{_NOT_IN_ONE} ({HERE})", (located(script, each.site),))
    if not any(_may_normalize(each) for each in layers):
        return None
    for module in script.modules:
        for call in script.flow.calls_of(module, SYNCHRONIZES):
            given = {part for each in arguments_of(call) for part in _layers_of(script, each)}
            if not given.isdisjoint(layers) and runs_by_default(script, module, call):
                return Reason("graph-break", f"{_NOT_IN_ONE} ({HERE})", (at(module, call),))
    return None


def _may_normalize(layer: Value) -> bool:
    """Whether a batch norm is in what is not a class of the project: in a layer, or in a network of a library."""
    is_of_torch = layer.name.startswith("torch.nn.")
    return isinstance(layer, Made) and (not is_of_torch or layer.name.startswith("torch.nn.BatchNorm"))


def _layers_of(script: Script, node: ast.expr) -> Iterator[Value]:
    for value in script.flow.values(node):
        if kind(script.flow, value) is Kind.MODEL:
            for each in unwrapped(script.flow, value):
                yield from Model(script.flow, each).layers


def _recompiled(script: Script, trained: TrainedModel) -> Reason | None:
    return why_recompiled(trained.model) if pads_to_the_longest(script) else None


def _drawn_sizes(script: Script, trained: TrainedModel) -> Reason | None:
    drawn = (drawn_size(script.flow, module, call) for module, call in trained.calls)
    found = next((each for each in drawn if each is not None), None)
    if found is None:
        return None
    text = f"a random number ({HERE}) says how large what {trained.name} is given is, and each size may compile it anew"
    return Reason("dynamic-shapes", text, (located(script, found),))


def _no_home(_script: Script, trained: TrainedModel) -> Reason | None:
    return trained.home if isinstance(trained.home, Reason) else None


OBSTACLES = (
    Obstacle(_on_no_device),
    Obstacle(_single),
    Obstacle(_captured),
    Obstacle(_compiled_elsewhere),
    Obstacle(_in_threads),
    Obstacle(_scripted),
    Obstacle(_differentiated_twice, reference="pytorch/pytorch 91469"),
    Obstacle(_differentiated_inside),
    Obstacle(_differentiated_by_inputs),
    Obstacle(_retained),
    Obstacle(_differentiated_apart, reference="pytorch/pytorch 91542, 118739"),
    Obstacle(_replacing_data),
    Obstacle(_called_by_its_own),
    Obstacle(_traced),
    Obstacle(_sent_away),
    Obstacle(_may_differ, reference="pytorch/pytorch 101105, 165950, 174711"),
    Obstacle(_in_framework),
    Obstacle(_beside_new_tf32, mended_in=(2, 14), reference="pytorch/pytorch 166387"),
    Obstacle(_not_traced),
    Obstacle(_synchronized, reference="pytorch/pytorch 107372, 161302"),
    Obstacle(_recompiled),
    Obstacle(_drawn_sizes),
    Obstacle(_no_home),
)
"""What holds of the script and of its task, then what may hold of the model, then its place."""


def in_framework(name: str) -> Reason:
    """Why a model is left that a framework trains."""
    text = f"the training loop runs inside {name}, which has a switch of its own for this"
    return Reason("framework", text, remedy=f"use the switch of {name}")


@lasting
def compiles_already(script: Script) -> Module | None:
    """The module that compiles something itself, always or by its own switch."""
    modules = (script.module, *(each for each in script.modules if each is not script.module))
    # Most modules do not even have the word, and this asks about every name.
    for module in (each for each in modules if "compile" in each.text):
        for node in module.nodes(ast.Name, ast.Attribute):
            if "torch.compile" in library_names(script.flow.values(node)):
                return module
        for call in module.nodes(ast.Call):
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr == "compile"
                and _is_module_compile(script, call.func)
            ):
                return module
    return None


def _is_module_compile(script: Script, func: ast.Attribute) -> bool:
    return any(
        isinstance(each, Method) and each.site is None and kind(script.flow, each.of) is Kind.MODEL
        for each in script.flow.values(func)
    )
