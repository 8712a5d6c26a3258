"""What is known of a script, line by line: what ``torchfast facts`` prints."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from codemods.facts.devices import device
from codemods.facts.gradients import why_gradients_may_miss
from codemods.facts.kinds import Kind, kind
from codemods.facts.values import in_order
from codemods.facts.worker_code import WorkerCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.facts.data import Loader
    from codemods.facts.models import Model
    from codemods.facts.script import Script
    from codemods.facts.transfers import Transfer


def facts_by_line(script: Script) -> list[tuple[int, str]]:
    """Line and fact, in the order of the lines, of all that is known of the entry script."""
    return sorted([*_frameworks(script), *_data(script), *_devices(script), *_models(script), *_training(script)])


def _frameworks(script: Script) -> Iterator[tuple[int, str]]:
    if script.framework is not None:
        yield 1, f"framework: the training loop runs inside {script.framework}"


def _data(script: Script) -> Iterator[tuple[int, str]]:
    for loader in script.loaders:
        if loader.module is script.module:
            yield loader.call.lineno, f"loader: {_loader(loader)}"
            yield loader.call.lineno, f"data set: {_dataset(loader)}"
    for move in script.transfers:
        if move.module is script.module:
            yield move.call.lineno, f"transfer: {_transfer(move)}"


def _loader(loader: Loader) -> str:
    parts = [", ".join(f"{name} {each.how.value}" for name, each in sorted(loader.arguments.items()))]
    if loader.unknown_arguments is not None:
        parts.append(loader.unknown_arguments)
    parts.append(f"read in {_lines(each.line for each in loader.passes)}")
    parts.append(f"moved in {_lines(each.call.lineno for each in loader.transfers)}")
    parts.append("can be pinned" if loader.can_be_pinned else loader.why_left_unpinned or "is pinned")
    return "; ".join(each for each in parts if each)


def _dataset(loader: Loader) -> str:
    data, code = loader.dataset, WorkerCode(loader.flow, loader)
    if data.why_unknown is not None:
        return data.why_unknown
    if data.is_in_memory:
        return "in memory"
    access = "iterable" if data.is_iterable else "map-style"
    work = "reads, decodes or transforms" if code.does_work else "indexes what is in memory"
    return f"{access}; {work}; {'draws random numbers, or may' if code.draws else 'draws nothing'}"


def _transfer(move: Transfer) -> str:
    what = ", ".join(sorted({each.sort.name.lower() for each in move.sources}))
    tests = "".join(f", if {ast.unparse(each.test)} is {each.holds}" for each in reversed(move.branches))
    return f"{ast.unparse(move.receiver)} ({what}) to {move.device.kind.value}{tests}"


def _devices(script: Script) -> Iterator[tuple[int, str]]:
    flow = script.flow
    for call in script.module.nodes(ast.Call):
        if any(value.site is call and kind(flow, value) is Kind.DEVICE for value in flow.values(call)):
            yield call.lineno, f"device: {ast.unparse(call)} is {device(flow, call).kind.value}"


def _models(script: Script) -> Iterator[tuple[int, str]]:
    for model in script.models:
        site = model.value.site
        if isinstance(site, ast.Call) and script.module.holds(site):
            yield site.lineno, f"model: {_model(model)}"


def _model(model: Model) -> str:
    layers = in_order(model.layers[1:])
    counts = Counter(each.name.removeprefix("torch.nn.") for each in layers)
    named = ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts.items())
    missing = why_gradients_may_miss(model)
    gradients = "every parameter gets a gradient" if missing is None else f"gradients may miss: {missing}"
    return f"{model.value.name}{f' of {named}' if named else ''}; {gradients}"


def _training(script: Script) -> Iterator[tuple[int, str]]:
    for label, found in (("optimizer", script.optimizers), ("scheduler", script.schedulers)):
        for made in found:
            if made.module is script.module:
                yield made.call.lineno, f"{label}: {made.value.name}"
    for iteration in script.iterations:
        if iteration.module is script.module:
            events = ", ".join(each.kind.value for each in iteration.events)
            yield getattr(iteration.owner, "lineno", 1), f"iteration: {events}"
    for region in script.evaluations:
        if region.module is script.module:
            calls = f"models are called with gradients on in {_lines(each.lineno for each in region.calls)}"
            yield region.node.lineno, f"evaluation: {calls}{f'; {region.why_not}' if region.why_not else ''}"


def _lines(lines: Iterable[int]) -> str:
    found = sorted(set(lines))
    if not found:
        return "no line"
    return f"line{'s' * (len(found) > 1)} {', '.join(map(str, found))}"
