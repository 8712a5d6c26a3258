"""What is known of a script, line by line: what ``torchfast facts`` prints."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from codemods.dataflow.values import SomeTensor, in_order
from codemods.facts.autograd.coverage import why_gradients_may_miss
from codemods.facts.cost.worth import worth
from codemods.facts.devices.devices import device
from codemods.facts.lifetimes import holder
from codemods.facts.loops import module_of
from codemods.facts.models.stepped import stepped
from codemods.facts.precision.tf32 import is_allowed, multiplies, why_decided, why_precise
from codemods.facts.reason import HERE, Reason, Words, at
from codemods.facts.training.fusing import why_not_fused
from codemods.facts.workers.payload import WorkerCode
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.data.loaders import Loader
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.models.layers import Model
    from codemods.facts.reason import Said
    from codemods.facts.script import Construction, Script


def facts_by_line(script: Script) -> list[tuple[int, Said]]:
    """Line and fact, in the order of the lines, of all that is known of the entry script."""
    found = [*_frameworks(script), *_data(script), *_devices(script), *_models(script), *_training(script)]
    found += [*_optimizers(script), *_products(script), *_costs(script)]
    said = [(line, fact.said(script.module)) for line, fact in found]
    return sorted(said, key=lambda each: (each[0], each[1].text))


def _frameworks(script: Script) -> Iterator[tuple[int, Words]]:
    if script.framework is not None:
        yield 1, Words(f"framework: the training loop runs inside {script.framework}")


def _data(script: Script) -> Iterator[tuple[int, Words]]:
    for loader in script.loaders:
        if loader.module is script.module:
            yield loader.call.lineno, _loader(script, loader).following("loader: ")
            yield loader.call.lineno, _dataset(loader).following("data set: ")
            held = holder(loader.flow, loader.value)
            if held is not None:
                who = f"'{held.name}' still refers" if held.is_certain else "something may still refer"
                yield loader.call.lineno, Words(f"at exit: {who} to the loader ({HERE})", (at(held.module, held.node),))
    for move in script.transfers:
        if move.module is script.module:
            yield move.call.lineno, Words(f"transfer: {_transfer(move)}")


def _loader(script: Script, loader: Loader) -> Words:
    parts = [Words(", ".join(f"{name} {each.how.value}" for name, each in sorted(loader.arguments.items())))]
    if loader.unknown_arguments is not None:
        parts.append(loader.unknown_arguments.words)
    parts.append(_lines(((each.module, each.module.statement(each.node)) for each in loader.passes), "read in "))
    parts.append(_lines(((each.module, each.call) for each in loader.transfers), "moved in "))
    why = script.why_left_unpinned(loader)
    parts.append(Words("is pinned" if loader.is_pinned else "can be pinned") if why is None else why.words)
    return _joined("; ", parts)


def _dataset(loader: Loader) -> Words:
    data, code = loader.dataset, WorkerCode(loader.flow, loader)
    if data.why_unknown is not None:
        return data.why_unknown.words
    if data.is_in_memory:
        return Words("in memory")
    access = "iterable" if data.is_iterable else "map-style"
    work = "reads, decodes or transforms" if code.does_work else "indexes what is in memory"
    return Words(f"{access}; {work}; {'draws random numbers, or may' if code.draws else 'draws nothing'}")


def _sort(value: Value) -> str:
    """What sort of thing it is, in a word: ``host`` for a tensor on the host."""
    return "tensor" if isinstance(value, SomeTensor) else type(value).__name__.removesuffix("Tensor").lower()


def _transfer(move: Transfer) -> str:
    what = ", ".join(sorted({_sort(each) for each in move.sources}))
    tests = "".join(f", if {ast.unparse(each.test)} is {each.holds}" for each in reversed(move.branches))
    return f"{ast.unparse(move.receiver)} ({what}) to {move.device.kind.value}{tests}"


def _devices(script: Script) -> Iterator[tuple[int, Words]]:
    flow = script.flow
    for call in script.module.nodes(ast.Call):
        if any(value.site is call and kind(flow, value) is Kind.DEVICE for value in flow.values(call)):
            yield call.lineno, Words(f"device: {ast.unparse(call)} is {device(flow, call).kind.value}")


def _models(script: Script) -> Iterator[tuple[int, Words]]:
    for model in script.models:
        site = model.value.site
        if isinstance(site, ast.Call) and script.module.holds(site):
            yield site.lineno, _model(model).following("model: ")


def _model(model: Model) -> Words:
    layers = in_order(model.layers[1:])
    counts = Counter(each.name.removeprefix("torch.nn.") for each in layers)
    named = ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())
    missing = why_gradients_may_miss(model)
    what = f"{model.value.name}{f' of {named}' if named else ''}; "
    if missing is None:
        return Words(f"{what}every parameter gets a gradient")
    return missing.words.following(f"{what}gradients may miss: ")


def _training(script: Script) -> Iterator[tuple[int, Words]]:
    for iteration in script.iterations:
        if iteration.module is script.module:
            events = ", ".join(each.kind.value for each in iteration.events)
            yield getattr(iteration.owner, "lineno", 1), Words(f"iteration: {events}")
    for region in script.evaluations:
        if region.module is script.module:
            called = ((region.module, each) for each in region.calls)
            calls = _lines(called, "evaluation: models are called with gradients on in ")
            if not region.calls:
                calls = Words("evaluation: nothing of the graphs that it is given is used")
            yield region.node.lineno, calls if region.why_not is None else _joined("; ", [calls, region.why_not.words])


def _optimizers(script: Script) -> Iterator[tuple[int, Words]]:
    for label, found in (("optimizer", script.optimizers), ("scheduler", script.schedulers)):
        for made in found:
            if made.module is script.module:
                yield made.call.lineno, Words(f"{label}: {made.value.name}")
    for made in script.optimizers:
        if made.module is script.module:
            yield made.call.lineno, _stepped(script, made).following("parameters: ")


def _stepped(script: Script, made: Construction) -> Words:
    """Which models' parameters an optimizer steps, and whether they are on CUDA by then."""
    found = stepped(script, made)
    if isinstance(found, Reason):
        return found.words
    sites = [each.site for each in found.models if each.site is not None]
    models = tuple(at(module_of(script.flow, each), each) for each in sites)
    where = "" if found.test == "True" else f" if {found.test}"
    later = ", moved there after" if found.is_moved_later else ""
    on_cuda = Words(f"of what is made in {', '.join([HERE] * len(models))}, on CUDA{where}{later}", models)
    otherwise = why_not_fused(script, made)
    return on_cuda if otherwise is None else _joined("; ", [on_cuda, otherwise.words])


def _products(script: Script) -> Iterator[tuple[int, Words]]:
    """What the script says of the precision of its products in 32 bits, and which models have such products."""
    if not script.backwards:
        return
    why = why_decided(script) or why_precise(script)
    if is_allowed(script):
        yield 1, Words("products: the script lets them use TF32")
    elif why is not None:
        yield 1, why.words.following("products: ")
    for each in script.trained_models:
        site = each.model.value.site
        if isinstance(site, ast.Call) and script.module.holds(site):
            much = "multiplies matrices" if multiplies(script, each.model.value) else "hardly multiplies matrices"
            yield site.lineno, Words(f"products: {much}")


def _costs(script: Script) -> Iterator[tuple[int, Words]]:
    """How long the script runs as it stands, and how large its models are."""
    found = worth(script)
    for loader in script.loaders:
        batches = found.lengths.batches(loader) if loader.module is script.module else None
        if batches is not None:
            yield loader.call.lineno, Words(f"length: at most {batches:,} batches")
    for iteration in script.iterations:
        count = found.lengths.of_iteration(iteration) if iteration.module is script.module else None
        if count is not None:
            yield getattr(iteration.owner, "lineno", 1), Words(f"length: at most {count:,} iterations")
    for model in script.models:
        site = model.value.site
        if isinstance(site, ast.Call) and script.module.holds(site):
            sizes, operations = found.networks.sizes(model.value), found.operations(model.value)
            parts = [f"{sizes.parameters:,} parameters"] if sizes is not None and sizes.parameters is not None else []
            parts += [f"at most {operations:,} operations an iteration"] if operations is not None else []
            if parts:
                yield site.lineno, Words(f"size: {', '.join(parts)}")


def _lines(nodes: Iterable[tuple[Module, ast.expr | ast.stmt]], lead: str) -> Words:
    """Words before the lines of some nodes of modules; each line is named once."""
    found: dict[Module, dict[int, ast.AST]] = {}
    for module, node in nodes:
        found.setdefault(module, {})[node.lineno] = node
    places = tuple(at(module, *(lines[line] for line in sorted(lines))) for module, lines in found.items())
    return Words(lead + (", ".join([HERE] * len(places)) or "no line"), places)


def _joined(between: str, parts: Iterable[Words]) -> Words:
    """Sentences, but for empty ones, as one."""
    found = [each for each in parts if each.text]
    return Words(between.join(each.text for each in found), tuple(place for each in found for place in each.places))
