"""Rule ``compile``: models that train on CUDA are compiled, in place."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Promise, Rewrites
from codemods.dataflow.names import bound_names, words
from codemods.dataflow.placement import bound_for, dominates
from codemods.dataflow.source import walk
from codemods.dataflow.values import NOTHING, Sort, Value, Values, without_none
from codemods.editing.values import Insert, Replace
from codemods.facts.autograd.double_backward import differentiated_inside, differentiated_twice
from codemods.facts.cost.worth import worth
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.devices.transfers import Transfer
from codemods.facts.models.compilability import draws, pads_to_the_longest, why_not_traced, why_recompiled
from codemods.facts.models.layers import Model, is_in_threads
from codemods.facts.models.placement import Home, home, twins, unknown_models, unwrapped
from codemods.facts.models.trained import Called, called_models, given_to_process, late_hook, traced_by
from codemods.facts.precision.hazards import capture, located, no_cuda, unknown_device
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.iterations import EventKind
from codemods.library.kinds import SELF_METHODS, WRAPPERS, Kind, described, kind, may, why

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from codemods.codemod import Finding
    from codemods.dataflow.source import Callee, Module
    from codemods.editing.values import Edit
    from codemods.facts.script import Script

_MESSAGE = "each operation of {} is launched from Python, and none are fused"
_DRAWING = "; compiled, any dropout or noise in it draws other random numbers"
_PREPARES = SELF_METHODS | {"load_state_dict"}
_ON_CPU = Reason("no-cuda", "it is not moved to CUDA in this file")
_SINGLE = Reason("nothing-to-gain", "it is a single layer: there is nothing to fuse in it")
_OWN = Reason("own-method", "its class has a compile of its own")
_TORCH_SCRIPT = frozenset({"torch.jit.script", "torch.jit.trace"})
_NEW_TF32 = "fp32_precision"
_SECOND_NAME = (2, 0)
"""The torch that has ``torch.compile``; a model's own method came later."""


class Compile(Codemod):
    """Compiles the models that train on CUDA, in place (``model.compile()``).

    Why it is faster:
        TorchDynamo takes the operations of ``forward`` down as one graph, and Inductor fuses them into few kernels:
        fewer launches from Python, and fewer trips of the activations through memory. It compiles at the first
        iteration, for 20 to 120 seconds, and again for evaluation, for a smaller last batch and for gradients switched
        on or off. The model stays the same object with the same keys in its ``state_dict``; only calls of the model
        itself are compiled. One that holds nothing but torch's own modules is compiled under a second name: in place,
        nothing of it is compiled before torch 2.15. A copy of the model (EMA, target network), and one that is saved
        whole and loaded, runs uncompiled. It takes a C compiler and Triton, which comes with torch for Linux alone; no
        script shows whether they are there, so run the result once where it will train. Python 3.12 takes torch 2.4,
        3.13 takes 2.6.

    When it is left:
        Second derivatives go through the model (gradient penalty), or gradients are asked for of what it computes on
        the way. It is recurrent, branches on the values of tensors, prints or counts in ``forward``, takes images of
        any size, is traced or scripted, given to another process, or wrapped in ``DataParallel``. It is trained through
        other methods than its call. Hooks are added to it later. It stays on the CPU, or its device is not known. The
        script sets ``cudnn.deterministic`` without ``torch.use_deterministic_algorithms(True)``: Inductor times kernels
        that round differently, and may choose others in the next run. The script compiles already.

        It cannot pay, as far as the script shows: an iteration computes at most 10 billion operations (on an H100, such
        networks were slower when compiled), or all iterations together save less than the eleven seconds that a start
        takes at least. ``--select compile`` compiles all the same.

    Results:
        Fused operations round otherwise. Dropout and noise in the model draw other random numbers: the same
        distribution, other masks. It pays off in long runs.

    References:
        ``torch.compile``; ``torch.nn.Module.compile`` (torch 2.1: pytorch/pytorch 97565); "torch.compile and nn.Module
        hooks"; "Where to apply torch.compile"; the release notes of torch 2.4 and 2.6 (Python 3.12 and 3.13);
        pytorch/pytorch 91469 (double backward), 101105 and 165950 (determinism).
    """

    promise = Promise.PRECISION
    gain = "1.1-1.6x (in the mean 1.4x over PyTorch's own benchmarks on an A100)"
    min_torch = (2, 1)
    needs_cuda = True
    causes = words(
        """
        captured compiles-nothing data-parallel determinism done-already double-backward dynamic-shapes framework
        graph-break inductor-fault inner-gradient late-hook left-with-another made-in-loop never-pays-back no-cuda
        no-name not-called nothing-to-gain other-process own-method recurrent-model torchscript unknown-device
        unknown-model
        """
    )
    tolerance = 1e-3  # kernels with TF32 may be chosen
    failures = (
        r"does not currently support double backward",
        r"overwritten by a subsequent run",
        r"InductorError|BackendCompilerFailed|mix of the legacy and new APIs",
        r"recompile_limit|cache_size_limit",
        r"(Missing|Unexpected) key\(s\).*_orig_mod\.",
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(784, 128)
        self.out = nn.Linear(128, 10)

    def forward(self, x):
        return self.out(self.hidden(x).relu())

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
for images in torch.randn(100, 64, 784):
    model(images.to(device)).square().mean().backward()
""",
            after="""\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(784, 128)
        self.out = nn.Linear(128, 10)

    def forward(self, x):
        return self.out(self.hidden(x).relu())

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
if device.type == "cuda":
    model.compile()
for images in torch.randn(100, 64, 784):
    model(images.to(device)).square().mean().backward()
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
for images in torch.randn(100, 64, 784):
    model(images.to(device)).square().mean().backward()
""",
            after="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
compiled_model = torch.compile(model) if device.type == "cuda" else model
for images in torch.randn(100, 64, 784):
    compiled_model(images.to(device)).square().mean().backward()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(784, 256), nn.SiLU(), nn.Linear(256, 1)).cuda()
for images in torch.randn(100, 32, 784).cuda():
    images.requires_grad_()
    (slope,) = torch.autograd.grad(critic(images).sum(), images, create_graph=True)
    (slope.norm(dim=1) - 1).square().mean().backward()
""",
            because="gradient penalty / second derivative through critic (line 7)",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model = nn.Sequential(nn.Embedding(1000, 64), nn.LSTM(64, 64)).cuda()
for words in torch.randint(1000, (100, 32, 20)).cuda():
    model(words)[0].sum().backward()
""",
            because="RNN model: TorchDynamo does not trace torch.nn.LSTM()",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every model that training iterations call, one finding for those that are compiled at one place."""
        compiling = _compiles_already(script)
        if not script.iterations or compiling is script.module:
            return
        called = list(called_models(script.flow, script.iterations))
        said: set[tuple[ast.AST, str]] = set()
        nodes: set[ast.AST] = set()
        for finding in self._found(script, called, compiling):
            # Models that one call may make, by their names, are left for one reason.
            if finding.rewrites or (finding.node, finding.message) not in said:
                said.add((finding.node, finding.message))
                nodes.add(finding.node)
                yield finding
        for value in _optimized(script, called):
            if value.site is not None and value.site not in nodes and script.module.holds(value.site):
                yield self.left(script.module, value.site, _why_not_called(script, value, called))
        reported = {part for each in nodes for part in walk(each)}
        named = {name for name, move in unknown_models(script.flow, script.modules) if move.call in nodes}
        for owner in _owners(script) if any(True for _ in _trained_calls(script)) else ():
            values = script.flow.values(owner)
            is_new = ast.unparse(owner) not in named and not any(each.site in reported for each in values)
            if is_new and script.module.holds(owner) and all(kind(script.flow, each) is None for each in values):
                named.add(ast.unparse(owner))
                yield self.left(script.module, owner, _why_unknown(script, owner))

    def _found(self, script: Script, called: Sequence[Called], compiling: Module | None) -> Iterator[Finding]:
        twice = differentiated_twice(script.flow, script.modules, tuple(each.model for each in called))
        ready: list[tuple[Called, Home]] = []
        left: dict[Value, ast.AST] = {}
        on_cpu: list[Called] = []
        said: set[tuple[ast.AST, str]] = set()
        for each in called:
            place = home(script.flow, script.modules, each.model.value)
            if not _is_asked_for(script, each, place):
                continue
            reason = _why_in_vain(script, each, place, compiling) or _why_not(script, each, twice.get(each.model.value))
            reason = reason or (place if isinstance(place, Reason) else None)
            if reason is None and isinstance(place, Home):
                ready.append((each, place))
            elif reason is None:
                on_cpu.append(each)
            else:
                left[each.model.value] = _site(script, each)
                # Of models among which the script chooses, a reason that is the same for all is said once.
                where = place.anchor if isinstance(place, Home) else left[each.model.value]
                if (where, reason.text) not in said:
                    said.add((where, reason.text))
                    yield self.left(script.module, left[each.model.value], reason)
        named = {value for _, place in ready for value in script.flow.values(place.name)}
        for each in on_cpu:
            if each.model.value not in named:
                yield self.left(script.module, _site(script, each), _ON_CPU)
        yield from self._compiled(script, ready, left)
        yield from self._only_methods(script, called)
        yield from self._not_known(script)

    def _compiled(
        self, script: Script, ready: Sequence[tuple[Called, Home]], left: Mapping[Value, ast.AST]
    ) -> Iterator[Finding]:
        """The findings for models that nothing stands against but, perhaps, the place."""
        places: dict[ast.stmt, list[tuple[Called, Home]]] = {}
        for each, place in ready:
            reason = _why_not_there(script, each, place, left) or self._why_not_worth_it(script, each)
            if reason is not None:
                site = _site(script, each)
                if site not in left.values():  # which has its reason
                    yield self.left(script.module, site, reason)
            elif _own_compile(each.model):
                yield self._with_two_names(script, each, place, _OWN)
            elif _in_vain(script, place):
                yield self._with_two_names(script, each, place, _in_vain_because(script, place))
            else:
                for one in (place, *twins(script.flow, script.modules, each.model.value, place)):
                    places.setdefault(_last_preparation(script, one), []).append((each, one))
        sites: set[ast.AST] = set()
        for anchor, group in places.items():
            module = script.module
            lines: dict[str, list[str]] = {}
            for _, place in group:
                calls = lines.setdefault(_condition(script, place, anchor) or "", [])
                line = f"{module.code(place.name)}.compile()"
                if line not in calls:
                    calls.append(line)
            names = _listed([module.code(place.name) for _, place in group])
            drawing = any(draws(each.model) for each, _ in group)
            code = "\n".join(_under(condition, calls) for condition, calls in lines.items())
            # Of several models that one function makes, each is reported where it is put on its device.
            site = _site(script, group[0][0])
            site = group[0][1].anchor if site in sites else site
            sites.add(site)
            yield self.rewrites(
                module,
                site,
                _message(names, drawing=drawing),
                Insert(module, anchor, code, "after"),
                redraws=drawing,
            )

    def _why_not_worth_it(self, script: Script, called: Called) -> Reason | None:
        return worth(script).why_not_compiled(called.model.value) if self.is_weighed else None

    def _with_two_names(self, script: Script, each: Called, place: Home, because: Reason) -> Finding:
        """``compiled = torch.compile(model)`` where ``model.compile()`` is not what compiles it.

        Args:
            script: What is rewritten.
            each: The model and its calls.
            place: Where it is on its device.
            because: Why it is left where a second name cannot be given to it.
        """
        module, site, name = script.module, _site(script, each), place.name
        torch = script.spelled(module, "torch.compile", place.anchor)
        calls = [call for where, call in each.calls if where is module and _reads(script, call.func, place)]
        others = twins(script.flow, script.modules, each.model.value, place)
        is_alone = len(calls) == len(each.calls) and next(others, None) is None
        if torch is None or not isinstance(name, ast.Name) or not is_alone:
            return self.left(module, site, because)
        new = f"compiled_{name.id}"
        if any(
            new in bound_names(scope) for scope in (module.tree, *module.nodes(ast.FunctionDef, ast.AsyncFunctionDef))
        ):
            return self.left(module, site, replace(because, text=f"{because.text}, and {new} is taken", remedy=""))
        condition = _condition(script, place, place.anchor)
        code = f"{new} = {torch}({name.id})" + (f" if {condition} else {name.id}" if condition else "")
        edits: list[Edit] = [Insert(module, place.anchor, code, "after")]
        edits.extend(Replace(module, call.func, new) for call in calls)
        drawing = draws(each.model)
        return self.rewrites(
            module, site, _message(name.id, drawing=drawing), *edits, redraws=drawing, since=_SECOND_NAME
        )

    def _only_methods(self, script: Script, called: Sequence[Called]) -> Iterator[Finding]:
        """Models that training iterations use, but do not call."""
        done = {each.model.value for each in called}
        for call in _trained_calls(script):
            for callee in script.flow.values(call.func):
                model = callee.of
                is_own = callee.site is not None or callee.name == "forward"
                if callee.sort is not Sort.METHOD or model is None or model in done or not is_own:
                    continue
                # A model that trains itself calls its own methods.
                site = model.site or (call if callee.name == "forward" else None)
                if kind(script.flow, model) is Kind.MODEL and site is not None and script.may_use_cuda:
                    done.add(model)
                    text = f"only __call__ is compiled, and the training calls {callee.name}() ({HERE}):"
                    reason = Reason("not-called", text, (at(script.module, call),), _how_to_call(script, callee))
                    yield self.left(script.module, site if script.module.holds(site) else call, reason)

    def _not_known(self, script: Script) -> Iterator[Finding]:
        """What is moved to CUDA, has parameters and is called in training like a model, but is not known to be one."""
        calls = list(_trained_calls(script))
        said: set[str] = set()
        for name, move in unknown_models(script.flow, script.modules):
            is_here = move.module is script.module
            values = without_none(script.flow.values(move.receiver))
            same = [each for each in calls if is_here and ast.unparse(each.func) == name]
            # By another name, in a function that is given it.
            same += [
                each for each in calls if isinstance(each.func, ast.Name) and values & script.flow.values(each.func)
            ]
            if same and name not in said:
                said.add(name)
                reason = Reason("unknown-model", why(script.flow, values, Kind.MODEL))
                if is_here:
                    yield self.left(script.module, move.call, reason)
                else:
                    what = f"what {ast.unparse(same[0].func)} is there is not known: "
                    yield self.left(script.module, same[0], reason.following(what))
        for value in _made_of_models(script):
            if value.site is not None and script.module.holds(value.site):
                yield self.left(script.module, value.site, _taken(value))


# Which models.


def _is_asked_for(script: Script, called: Called, place: Home | Reason | None) -> bool:
    """Whether the model is one of the script's own module: it is put on its device there, or else made there."""
    if isinstance(place, Home):
        return place.module is script.module
    if called.is_single and place is None:
        return False
    return called.model.value.site is not None and script.module.holds(called.model.value.site)


def _trained_calls(script: Script) -> Iterator[ast.Call]:
    """The calls in the entry script that are part of a training iteration."""
    parts = {
        part
        for each in script.iterations
        for part in (each.owner, *(event.frame for event in each.events if event.frame is not None))
    }
    for call in script.module.nodes(ast.Call) if parts else ():
        if not parts.isdisjoint(script.module.ancestors(call)):
            yield call


def _made_of_models(script: Script) -> Iterator[Value]:
    """What a library's function has made of a model that may train on CUDA, and the training calls."""
    found: dict[Value, None] = {}
    for call in _trained_calls(script) if script.may_use_cuda else ():
        found.update(dict.fromkeys(each for each in script.flow.values(call.func) if _is_made_of_model(script, each)))
    yield from found


def _is_made_of_model(script: Script, value: Value, depth: int = 3) -> bool:
    """Whether a library's function was given a model, or what another one made of that, and what it made is unknown."""
    given = _given(script, value)
    return may(script.flow, given, Kind.MODEL) or (
        depth > 1 and any(_is_made_of_model(script, each, depth - 1) for each in given)
    )


def _given(script: Script, value: Value) -> Values:
    """What the library's function was given that made something which is not known."""
    if value.sort is not Sort.MADE or not isinstance(value.site, ast.Call) or kind(script.flow, value) is not None:
        return NOTHING
    given = (*value.site.args, *(each.value for each in value.site.keywords))
    return NOTHING.union(*(script.flow.values(each) for each in given))


def _owners(script: Script) -> Iterator[ast.expr]:
    """What the optimizers of the script are given the parameters of."""
    for made in script.optimizers:
        for node in walk(made.call):
            if isinstance(node, ast.Attribute) and node.attr in {"parameters", "named_parameters"}:
                yield node.value


def _how_to_call(script: Script, method: Value) -> str:
    """What to do where the training calls another method than the one that is compiled."""
    if method.name == "forward":
        return "call the model itself"
    trains = any(module.function(call) is method.site for module, call in script.backwards)
    steps = method.site is not None and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        and may(script.flow, script.flow.values(node.func.value), Kind.OPTIMIZER)
        for node in walk(method.site)
    )
    # An optimizer has no place in what is compiled.
    return f"let {method.name}() call a model to compute its loss" if trains or steps else "move that into forward()"


def _why_unknown(script: Script, owner: ast.expr) -> Reason:
    if script.framework is not None:
        return _in_framework(script.framework)
    if not script.may_use_cuda and not any(True for _ in _moved_to_cuda(script)):
        return no_cuda(script)
    return _not_known(ast.unparse(owner), why(script.flow, script.flow.values(owner), Kind.MODEL))


def _not_known(what: str, why_: str) -> Reason:
    return Reason("unknown-model", f"what {what} is there is not known: {why_}")


def _optimized(script: Script, called: Sequence[Called]) -> Iterator[Value]:
    """The models whose parameters the script's optimizers are given, but those that are called, and parts of models."""
    flow, found = script.flow, dict[Value, None]()
    for owner in _owners(script):
        models = (each for each in flow.values(owner) if kind(flow, each) is Kind.MODEL)
        found.update(dict.fromkeys(part for each in models for part in unwrapped(flow, each)))
    parts = {layer for each in script.models if each.value.name not in WRAPPERS for layer in each.layers[1:]}
    done = parts | {each.model.value for each in called if not each.is_single}
    yield from (each for each in found if each not in done)


def _moved_to_cuda(script: Script) -> Iterator[Value]:
    """Whatever is moved to what may be a CUDA device, known to be a model or tensor or not."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in {"to", "cuda"}:
                move = Transfer(script.flow, module, call)
                if move.may_reach_cuda:
                    yield from script.flow.values(move.receiver)


def _taken(value: Value) -> Reason:
    text = f"{described(value)} takes the model, and what it returns is not known to be one"
    return Reason("unknown-model", text)


def _why_not_called(script: Script, value: Value, called: Sequence[Called]) -> Reason:
    """Why a model that an optimizer trains is not to be compiled, where its calls are not seen, or all it calls."""
    place = home(script.flow, script.modules, value)
    if script.framework is not None:
        return _in_framework(script.framework)
    moved = list(_moved_to_cuda(script)) if place is None else []
    taker = next((each for each in moved if value in _given(script, each)), None)
    if taker is not None:
        return _taken(taker)
    if place is None and not moved and not script.may_use_cuda:
        return no_cuda(script)
    if any(each.model.value == value for each in called):
        return _SINGLE
    if not isinstance(place, Home):
        return place or _ON_CPU
    events = (event for each in script.iterations for event in each.of(EventKind.FORWARD))
    if any(value in unwrapped(script.flow, subject) for event in events for subject in event.subjects):
        unknown = Reason("unknown-model", "what its layers do is not known")
        return why_not_traced(Model(script.flow, value)) or unknown
    return Reason("not-called", "no training iteration is seen to call it")


def _compiles_already(script: Script) -> Module | None:
    """The module that compiles something itself, always or by its own switch."""
    modules = (script.module, *(each for each in script.modules if each is not script.module))
    # Most modules do not even have the word, and this asks about every name.
    for module in (each for each in modules if "compile" in each.text):
        for node in module.nodes(ast.Name, ast.Attribute):
            if any(each.sort is Sort.EXTERNAL and each.name == "torch.compile" for each in script.flow.values(node)):
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
        each.sort is Sort.METHOD
        and each.site is None
        and each.of is not None
        and kind(script.flow, each.of) is Kind.MODEL
        for each in script.flow.values(func)
    )


# Why not.


def _why_in_vain(
    script: Script, called: Called, place: Home | Reason | None, compiling: Module | None
) -> Reason | None:
    """Why there is nothing to gain."""
    if place is None and not script.may_use_cuda:
        return unknown_device(script, script.transfers) or no_cuda(script)
    if called.is_single:
        return _SINGLE
    return capture(script) if compiling is None else Reason("done-already", f"{compiling.path} compiles already")


def _why_not(script: Script, called: Called, twice: ast.Call | None) -> Reason | None:
    """Why the model is not to be compiled, wherever that were done."""
    if any(is_in_threads(script.flow, each) for each in (*called.wrappers, *called.model.layers)):
        text = "nn.DataParallel copies the model in each iteration:"
        return Reason("data-parallel", text, remedy="convert to DistributedDataParallel first")
    script_ = next((each.name for each in (*called.wrappers, called.model.value) if each.name in _TORCH_SCRIPT), None)
    if script_ is not None:
        text = f"{script_}() has made TorchScript of it, which is not compiled again:"
        return Reason("torchscript", text, remedy="remove that first")
    if twice is not None:
        second = any(each.arg == "create_graph" for each in twice.keywords)
        what = "gradient penalty / second derivative" if second else f"derivatives by {ast.unparse(twice.func)}()"
        text = f"{what} through {_name(script, called)} ({HERE})"
        return Reason("double-backward", text, (located(script, twice),))
    inside = differentiated_inside(script.flow, script.modules, called.model)
    if inside is not None:
        what = f"a gradient with respect to what is computed inside {_name(script, called)}"
        text = f"{what}: a compiled model has no graph there ({HERE})"
        return Reason("inner-gradient", text, (located(script, inside),))
    elsewhere = _used_elsewhere(script, called) or _why_may_differ(script)
    if elsewhere is not None:
        return elsewhere
    if script.framework is not None:
        return _in_framework(script.framework)
    tf32 = _new_tf32(script)
    if tf32 is not None:
        text = f"Inductor of torch 2.9 to 2.13 fails beside {_NEW_TF32} ({HERE})"
        return Reason("inductor-fault", text, (at(script.module, tf32),))
    reason = why_not_traced(called.model)
    if reason is None and pads_to_the_longest(script.flow, script.modules):
        reason = why_recompiled(called.model)
    return reason


def _in_framework(name: str) -> Reason:
    text = f"the training loop runs inside {name}, which has a switch of its own for this"
    return Reason("framework", text, remedy=f"use the switch of {name}")


def _used_elsewhere(script: Script, called: Called) -> Reason | None:
    """What else the script does with the model that does not work, or does nothing, once it is compiled."""
    class_ = called.model.class_
    if class_ is not None and script.flow.method(class_, "__call__") is not None:
        return Reason("own-method", "its class has a method __call__() of its own, which is not compiled")
    tracing = traced_by(script.flow, script.modules, called)
    if tracing is not None:
        text = f"{ast.unparse(tracing.func)}() traces the model, which fails once it is compiled ({HERE})"
        return Reason("torchscript", text, (located(script, tracing),))
    process = given_to_process(script.flow, script.modules, called)
    if process is not None:
        remedy = "compile it in the function that runs there"
        text = f"it is given to another process: {remedy} ({HERE})"
        return Reason("other-process", text, (located(script, process),), remedy)
    return None


def _why_may_differ(script: Script) -> Reason | None:
    """Where the script asks for runs that repeat each other.

    Inductor chooses among kernels that round differently by timing them, and may choose otherwise in the next run,
    unless ``torch.use_deterministic_algorithms(True)`` forbids it (pytorch/pytorch 101105, 165950, 174711).
    """
    if script.determinism is None or any(
        each.name == "torch.use_deterministic_algorithms" and not _is_switched_off(call)
        for module in script.modules
        for call in module.nodes(ast.Call)
        for each in script.flow.values(call.func)
    ):
        return None
    where, node = script.determinism
    place, places = (HERE, (at(where, node),)) if where is script.module else (where.path, ())
    text = (
        f"determinism requested ({place}): without torch.use_deterministic_algorithms(True), kernels are chosen by "
        "timing them, and runs differ"
    )
    return Reason("determinism", text, places, "call torch.use_deterministic_algorithms(True)")


def _is_switched_off(call: ast.Call) -> bool:
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")][:1]
    return any(isinstance(each, ast.Constant) and not each.value for each in given)


def _why_not_there(script: Script, called: Called, place: Home, left: Container[Value]) -> Reason | None:
    """Why the model cannot be compiled at the place where it is on its device."""
    hook = late_hook(script.flow, script.module, script.modules, called, script.module.function(place.anchor))
    if hook is not None:
        text = f"a compiled model ignores hooks that are added after its first call ({HERE})"
        return Reason("late-hook", text, (located(script, hook),), "add them before the first call")
    values = without_none(script.flow.values(place.name))
    if any(kind(script.flow, each) is not Kind.MODEL for each in values):
        return _not_known(script.module.code(place.name), why(script.flow, values, Kind.MODEL))
    if any(each in left for value in values for each in unwrapped(script.flow, value)):
        text = f"{script.module.code(place.name)} may also be a model that is left"
        return Reason("left-with-another", text)
    compiling = {_own_compile(Model(script.flow, each)) for each in values}
    text = "some of the models that it may be have a compile of their own"
    return Reason("own-method", text) if len(compiling) > 1 else None


def _new_tf32(script: Script) -> ast.Attribute | None:
    """Where torch 2.9's switches for TF32 are set, if the script may run on a torch whose Inductor fails then."""
    if script.target.reaches((2, 14)):
        return None
    attributes = script.module.nodes(ast.Attribute)
    return next((each for each in attributes if each.attr == _NEW_TF32 and isinstance(each.ctx, ast.Store)), None)


def _in_vain(script: Script, place: Home) -> bool:
    """Whether what is compiled in place there holds nothing but torch's own modules.

    TorchDynamo does not look into torch's own ``forward``: of ``nn.Sequential(nn.Linear(8, 8)).compile()`` torch 2.11
    and 2.13 make no graph, 2.15 makes one. ``torch.compile`` of the same model makes one in all of them.
    """
    if script.target.reaches((2, 15)):
        return False
    models = [Model(script.flow, each) for each in without_none(script.flow.values(place.name))]
    return bool(models) and all(_is_torchs_own(script, layer) for model in models for layer in model.layers)


def _is_torchs_own(script: Script, layer: Value) -> bool:
    class_ = Model(script.flow, layer).class_
    if class_ is None:
        return layer.sort is Sort.MADE and layer.name.startswith("torch.nn.")
    bases = [each for each in script.flow.bases(class_) if isinstance(each, str)]
    return script.flow.method(class_, "forward") is None and all(each.startswith("torch.nn.") for each in bases)


def _in_vain_because(script: Script, place: Home) -> Reason:
    name = script.module.code(place.name)
    text = f"{name}.compile() compiles nothing of torch's own modules before torch 2.15:"
    return Reason("compiles-nothing", text, remedy=f"train what torch.compile({name}) returns")


def _own_compile(model: Model) -> bool:
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


# How and where.


def _site(script: Script, called: Called) -> ast.AST:
    site = called.model.value.site
    if site is not None and script.module.holds(site):
        return site
    place = home(script.flow, script.modules, called.model.value)
    return place.anchor if isinstance(place, Home) else script.module.tree


def _name(script: Script, called: Called) -> str:
    place = home(script.flow, script.modules, called.model.value)
    return place.module.code(place.name) if isinstance(place, Home) else described(called.model.value)


def _reads(script: Script, func: ast.expr, place: Home) -> bool:
    """Whether what is called is the home's own name: in its function, or as a name of the module."""
    name, module = place.name, place.module
    if not (isinstance(func, ast.Name) and isinstance(name, ast.Name) and func.id == name.id):
        return False
    here, there = module.function(place.anchor), module.function(func)
    only = set(script.flow.values(func)) <= set(script.flow.values(name))
    if here is there:
        return only and dominates(module, place.anchor, module.statement(func))
    return (
        only
        and here is None
        and there is not None
        and bound_for(module, name.id, there)
        and _runs_after(script, place.anchor, there)
    )


def _runs_after(script: Script, anchor: ast.stmt, function: Callee) -> bool:
    """Whether a function is only called where the statement at module level has run."""
    module, callers = script.module, script.flow.callers(function)
    if not callers or script.flow.escapes(function):
        return False
    for call in callers:
        if not module.holds(call):
            return False
        around = module.function(call)
        if around is function:
            continue
        if not (
            dominates(module, anchor, module.statement(call)) if around is None else _runs_after(script, anchor, around)
        ):
            return False
    return True


def _last_preparation(script: Script, place: Home) -> ast.stmt:
    """The last of the statements right after the home that move models, give them weights or add hooks to them.

    Losses and optimizers may be made among them.
    """
    suite = place.module.suite(place.anchor)
    index = next(i for i, each in enumerate(suite) if each is place.anchor)
    last = place.anchor
    for following in suite[index + 1 :]:
        subject = _prepared(script, following)
        if subject is None:
            break
        last = following if subject is Kind.MODEL else last
    return last


def _prepared(script: Script, statement: ast.stmt) -> Kind | None:
    """The kind of thing that the statement prepares and does nothing else: a model or a loss."""
    call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return None
    method = call.func.attr
    if method not in _PREPARES and not (method.startswith("register_") and method.endswith("_hook")):
        return None
    kinds = {kind(script.flow, each) for each in without_none(script.flow.values(call.func.value))}
    (only,) = kinds if len(kinds) == 1 else (None,)
    return only if only in {Kind.MODEL, Kind.LOSS} else None


def _condition(script: Script, place: Home, anchor: ast.stmt) -> str | None:
    """The expression that says whether the model is on CUDA; None where it is for certain."""
    module, move = place.module, place.move
    around = [each for each in move.branches if not _inside(module, each.test, place.anchor)]
    inside = [each for each in move.branches if each not in around]
    at_home = move.module is module and module.statement(move.call) is place.anchor
    certain = move.device.kind is DeviceKind.CUDA or any(each in around for each in move.cuda_branches)
    if certain and not inside and (at_home or (not around and (move.is_certain or move.cuda_branches))):
        return None
    said = script.condition_of(move, module, anchor)
    return said or f"next({module.code(place.name)}.parameters()).is_cuda"


def _inside(module: Module, node: ast.AST, statement: ast.stmt) -> bool:
    return statement in module.ancestors(node)


def _message(names: str, *, drawing: bool) -> str:
    return _MESSAGE.format(names) + (_DRAWING if drawing else "")


def _under(condition: str, lines: Sequence[str]) -> str:
    return "\n".join(lines) if not condition else f"if {condition}:\n" + "\n".join(f"    {each}" for each in lines)


def _listed(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"
