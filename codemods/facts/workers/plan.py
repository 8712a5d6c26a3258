"""Which loaders read their batches in worker processes, which can be made to, and how that is written."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import Choice, Container, Literal, Unknown
from codemods.facts.data.keeping import why_kept
from codemods.facts.data.loader_dictionaries import taken_at
from codemods.facts.data.loader_use import is_prepared, why_not_cuda, why_reading_is_unknown, with_all_moves
from codemods.facts.data.loaders import ONLY_FIRST, why_only_first
from codemods.facts.data.pinning import why_not_on_host
from codemods.facts.data.reads import How
from codemods.facts.data.samplers import device_indices, is_drawn_at_once
from codemods.facts.devices import cuda_condition
from codemods.facts.devices.devices import cuda_branches, for_cuda
from codemods.facts.loops import loop_around
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.workers.arguments import Option, is_given, is_read, namespace, options, unread_by_click
from codemods.facts.workers.changes import why_changed
from codemods.facts.workers.drawn_ahead import why_drawn_ahead
from codemods.facts.workers.ingredients import why_changed_while_read, why_class_is_changed
from codemods.facts.workers.main_guard import Unguarded, unguarded
from codemods.facts.workers.obstacles import (
    Start,
    why_not_copied,
    why_not_in_memory,
    why_not_sent,
    why_on_device,
    why_unknown,
)
from codemods.facts.workers.payload import WorkerCode, worker_code
from codemods.facts.workers.shared_state import why_not_shared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.data.loaders import Argument, Loader
    from codemods.facts.script import Script

Site: TypeAlias = "ast.Call | ast.Dict"

_ROLES = {"dataset": "data set", "collate_fn": "collate_fn", "worker_init_fn": "worker_init_fn"}
_NAMED_WORKERS = re.compile(r"^(num_?|n_?|data_?|loader_?|dataloader_?)*(workers?|cpus?)$", re.IGNORECASE)
_NAMED_THREADS = re.compile(r"^(num_?|n_?)*threads$", re.IGNORECASE)
_COUNTS_PROCESSORS = frozenset(
    {"os.cpu_count", "os.process_cpu_count", "multiprocessing.cpu_count", "torch.multiprocessing.cpu_count"}
)
# Arguments that DataLoader refuses without workers.
_NEEDS_WORKERS = ("prefetch_factor", "multiprocessing_context", "timeout")
SHARES = f"it shares its arguments with the loader in {HERE}: "
_UNKNOWN = frozenset({"unknown-dataset", "unknown-worker-code"})
_START_METHOD = "torch.multiprocessing.get_start_method"


class Count(NamedTuple):
    """A number of workers at the place where it is written, or is to be."""

    site: Site
    """The loader's call, or a dictionary that is given to it with ``**``."""
    now: ast.expr | None
    """What stands there now."""
    text: str
    """What is to stand there."""
    positive: str
    """An expression, valid there, that says whether there are workers; ``"True"`` where there always are."""
    is_imported: bool = True
    """Whether what both expressions name is bound there; ``torch`` has to be imported else."""
    on_cuda: bool = False
    """Whether there are workers only where there is a CUDA device."""


class Workers(NamedTuple):
    """The workers that a loader has or can be given."""

    counts: tuple[Count, ...]
    are_new: bool
    """Whether it has none now, or fewer."""
    draws: bool = False
    """Whether other workers mean other random draws, or another order."""
    unguarded: Unguarded | None = None
    """What has to go under a guard first."""
    why_forked: Reason | None = None
    """Why there are none where they would not be forked."""


@dataclass(eq=False)
class WorkerFacts:
    """Answers, for one script, what two rules ask about worker processes."""

    script: Script
    number: int
    """The workers that a loader is given where the script has no option for their number."""
    main_guard: bool = True
    """Whether code may go under ``if __name__ == "__main__":``; else workers are forked where that would be needed."""

    @cached_property
    def _codes(self) -> dict[Loader, WorkerCode]:
        return {loader: worker_code(self.script.flow, loader) for loader in self.script.loaders}

    def code(self, loader: Loader) -> WorkerCode:
        """What runs in the loader's workers."""
        return self._codes[loader]

    def _unguarded(self, loader: Loader) -> Unguarded | None:
        return unguarded(self.script, loader, tuple(self._codes.values()))

    @cached_property
    def _option(self) -> Option | None:
        """The script's own option for the number of workers."""
        for option in options(self.script):
            if option.is_integer and _NAMED_WORKERS.match(option.name):
                return option
            if option.is_integer and _NAMED_THREADS.match(option.name) and not is_read(self.script, option):
                return option
        return None

    @cached_property
    def _unread(self) -> Option | None:
        """The script's option for the number of workers that nothing reads, where there is one."""
        named = (_NAMED_WORKERS, _NAMED_THREADS)
        of_workers = (each for each in options(self.script) if any(name.match(each.name) for name in named))
        by_click = (each for each in unread_by_click(self.script) if any(name.match(each.name) for name in named))
        return next((each for each in of_workers if not is_given(self.script, each)), next(by_click, None))

    def _of_unread(self, loader: Loader, argument: Argument) -> Reason | None:
        """What is to be said of a loader with a number of its own where the option for that number is not read."""
        if self._unread is None or argument.node is None or any(isinstance(each, Choice) for each in argument.values):
            return None
        number = loader.module.code(argument.node)
        flag = self._unread.flag
        text = f"its number of workers is {number}, whatever the user says: the option {flag} is never read"
        return Reason("unread-option", text, remedy=f"give the loader the value of {flag}")

    # What a loader has.

    def present(self, loader: Loader) -> Workers | Reason | None:
        """The workers that the loader has; why their number cannot be named; None where it has none."""
        argument = loader.arguments.get("num_workers")
        if argument is None or _is_zero(argument):
            return None
        if argument.node is None:
            counts = tuple(self._in_dictionaries(loader))
            if not counts:
                return self._why_not_written(loader)
            written = frozenset().union(*[self.script.flow.values(each.now) for each in counts if each.now is not None])
            if not argument.values <= written:
                return Reason("no-name", "its number of workers is set again after the dictionary was written")
            return Workers(counts, are_new=False)
        text = loader.module.code(argument.node)
        positive = self._positive(loader.module, argument.node)
        if positive is None:
            return Reason("no-name", f"its number of workers is worked out in the call: {text}")
        on_cuda = self._is_on_cuda(loader.module, loader.call, argument.node)
        return Workers((Count(loader.call, argument.node, text, positive, on_cuda=on_cuda),), are_new=False)

    def _is_on_cuda(self, module: Module, site: Site, count: ast.expr) -> bool:
        """Whether the count, where it is above 0, stands in a branch for CUDA, or is chosen by a test for it."""
        chosen = isinstance(count, ast.IfExp) and for_cuda(self.script.flow, count.test) is True
        return chosen or bool(cuda_branches(self.script.flow, module, site))

    def _why_not_written(self, loader: Loader) -> Reason:
        """Why ``persistent_workers`` cannot be written beside the number of workers that comes through ``**``."""
        sites = [each.site for each in loader.dictionaries if each.site is not None]
        elsewhere = [each for each in sites if not loader.module.holds(each)]
        if elsewhere:
            text = f"its number of workers is in a dictionary of another file ({HERE})"
            return Reason("no-name", text, (loader.at(elsewhere[0]),))
        return Reason("no-name", "its number of workers is not written in a dictionary")

    def _in_dictionaries(self, loader: Loader) -> Iterator[Count]:
        """The counts in the dictionaries that are given with ``**``, and in those that ``update`` merges into them."""
        for site in self._dictionaries(loader):
            if isinstance(site, ast.Dict):
                items = [
                    (getattr(key, "value", None), value) for key, value in zip(site.keys, site.values, strict=True)
                ]
            else:
                items = [(each.arg, each.value) for each in site.keywords]
            for node in (value for key, value in items if key == "num_workers"):
                positive = self._positive(loader.module, node)
                if positive is not None:
                    on_cuda = self._is_on_cuda(loader.module, site, node)
                    yield Count(site, node, loader.module.code(node), positive, on_cuda=on_cuda)

    def _dictionaries(self, loader: Loader) -> tuple[Site, ...]:
        flow, module = self.script.flow, loader.module
        found = list(loader.dictionaries)
        for call in module.nodes(ast.Call):
            owner = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "update" else call
            if not flow.values(owner).isdisjoint(loader.dictionaries):
                found.extend(each for given in call.args for each in flow.values(given) if isinstance(each, Container))
        sites = dict.fromkeys(each.site for each in found)
        return tuple(each for each in sites if isinstance(each, (ast.Dict, ast.Call)) and module.holds(each))

    def _positive(self, module: Module, count: ast.expr) -> str | None:
        """The expression that says whether the count is above 0; None where it cannot be written."""
        if isinstance(count, ast.IfExp) and isinstance(count.body, ast.Constant):
            otherwise = count.orelse.value if isinstance(count.orelse, ast.Constant) else None
            return module.code(count.test) if count.body.value and otherwise == 0 else None
        if self._is_above_0(count):
            return "True"
        is_plain = not isinstance(count, ast.Constant) and self._can_be_written_twice(count)
        return f"{module.code(count)} > 0" if is_plain else None

    def _is_above_0(self, count: ast.expr) -> bool:
        """A number, as many as there are processors, or the least of such."""
        if isinstance(count, ast.Call) and isinstance(count.func, ast.Name) and count.func.id in {"min", "max"}:
            return len(count.args) > 1 and all(map(self._is_above_0, count.args))
        is_number = isinstance(count, ast.Constant) and isinstance(count.value, int) and count.value > 0
        return is_number or self._counts_processors(count)

    def _counts_processors(self, node: ast.expr) -> bool:
        names = {each.name for each in self.script.flow.values(node.func)} if isinstance(node, ast.Call) else set()
        return bool(names) and names <= _COUNTS_PROCESSORS

    def _can_be_written_twice(self, count: ast.expr) -> bool:
        """Whether the expression may be written twice: names, attributes, items, arithmetic on them."""
        if isinstance(count, ast.BinOp):
            return self._can_be_written_twice(count.left) and self._can_be_written_twice(count.right)
        if isinstance(count, ast.Call):
            is_plain = isinstance(count.func, ast.Name) and count.func.id in {"int", "min", "max"}
            return self._counts_processors(count) or (is_plain and all(map(self._can_be_written_twice, count.args)))
        if isinstance(count, (ast.Attribute, ast.Subscript)):
            return self._can_be_written_twice(count.value)
        return isinstance(count, (ast.Name, ast.Constant))

    def users(self, site: Site) -> tuple[Loader, ...]:
        """The loaders whose arguments stand at the site."""
        return tuple(each for each in self.script.loaders if each.call is site or site in self._dictionaries(each))

    def reading_ahead(self, loader: Loader) -> Workers | Reason | None:
        """The workers of a loader that leaves to PyTorch how many batches they have ahead; None where there are none.

        Returns:
            A reason where more of them would be a loss, or cannot be asked for.
        """
        if loader.unknown_arguments is not None or "prefetch_factor" in loader.arguments:
            return loader.unknown_arguments
        found = self.present(loader)
        if not isinstance(found, Workers):
            return found
        code = self.code(loader)
        reason = self._why_not_passed(loader, "prefetch_factor") or loader.own_iteration or why_unknown(code)
        reason = reason or self._why_not_read(loader) or why_not_cuda(self.script, loader)
        if reason is not None:
            return reason
        own_order = not all(is_drawn_at_once(loader, name) for name in ("sampler", "batch_sampler"))
        return found._replace(draws=own_order or loader.dataset.is_iterable or code.draws)

    def why_not_beside(self, loader: Loader, workers: Workers, name: str) -> Reason | None:
        """Why an argument that needs workers cannot stand beside their number: it would reach loaders without any.

        What is in a dictionary may be in another one, too: ``{**kwargs, "num_workers": 0}``.
        """
        sites = [count.site for count in workers.counts]
        if sites == [loader.call]:
            return None
        for other in dict.fromkeys(each for site in sites for each in self.users(site)):
            theirs = self.present(other)
            has_same = isinstance(theirs, Workers) and sites == [count.site for count in theirs.counts]
            if other is not loader and (not has_same or name in other.arguments):
                text = (
                    f"what is given to it with ** reaches the loader in {HERE}, which has workers of its own, or none"
                )
                return Reason("script-decides", text, (loader.at(other.call),))
        taken = taken_at(self.script, sites)
        if taken is not None:
            text = f"items of the dictionary that is given to it with ** are copied, or taken out of it ({HERE}):"
            return Reason("script-decides", text, (at(*taken),), f"give the loader {name} in its own call")
        return None

    # What it can be given.

    def given(self, loader: Loader) -> Workers | Reason | None:
        """The workers that the loader can be given; why it cannot be given any; None where it has its number."""
        counts = self._raised(loader)
        argument = loader.arguments.get("num_workers")
        if argument is not None and not counts and not _is_zero(argument):
            few = self._why_few(argument)
            return few if few is not None and self._why_not(loader) is None else self._of_unread(loader, argument)
        reason = self._why_not(loader)
        why_forked = None if counts or self._option is not None else self._why_forked(loader)
        unguarded = None if reason is not None or why_forked is not None else self._unguarded(loader)
        may_be_forked = not counts and self._option is None and not self._chooses_start_method
        if unguarded is not None and not self.main_guard and may_be_forked:
            text = f"no main guard is wanted around what reads it ({HERE})"
            why_forked = Reason("needs-main-guard", text, (unguarded.where,))
            unguarded = None
        if reason is not None and why_forked is None:
            return (
                reason.followed(f"; the script's option {self._unread.flag} is never read") if self._unread else reason
            )
        start = Start.ANYHOW if why_forked is None else Start.FORKED
        if not counts:
            found = self._new_count(loader, argument, start)
            if isinstance(found, Reason):
                return found
            counts = (found,)
        others = [each for count in counts for each in self.users(count.site) if each is not loader]
        for other in others:
            reason = self._why_not(other, start)
            if reason is not None:
                return reason.following(SHARES, loader.at(other.call))
        own_order = not all(is_drawn_at_once(loader, name) for name in ("sampler", "batch_sampler"))
        draws = own_order or self._is_ordered_late(loader) or loader.dataset.is_iterable or self.code(loader).draws
        return Workers(counts, are_new=True, draws=draws, unguarded=unguarded, why_forked=why_forked)

    def _why_forked(self, loader: Loader) -> Reason | None:
        """Why workers of the call's loaders have to be forked; None where they need not be, or must not be given."""
        sharing = [each for each in self.script.loaders if each.call is loader.call]
        reasons = [self._why_not(each) for each in sharing]
        if any(self._why_not(each, Start.FORKED) is not None for each in sharing) or self._chooses_start_method:
            return None
        return next((each for each in reasons if each is not None), None)

    @cached_property
    def _chooses_start_method(self) -> bool:
        """Whether the script says how processes start, which it may not once that has been asked for."""
        attributes = (each.attr for module in self.script.modules for each in module.nodes(ast.Attribute))
        names = (each.name for module in self.script.modules for each in module.nodes(ast.alias))
        return "set_start_method" in {*attributes, *names}

    def _is_ordered_late(self, loader: Loader) -> bool:
        """Whether something may draw between the start of a pass and its first batch, where workers draw the order.

        ``zip`` starts all its loaders before it asks the first for a batch.
        """
        flow = self.script.flow
        for each in loader.passes:
            calls = [node for node in walk(getattr(each.node, "iter", each.node)) if isinstance(node, ast.Call)]
            zipped = any(value.name == "builtins.zip" for call in calls for value in flow.values(call.func))
            if each.how is How.ITERATOR or zipped:
                return True
        return False

    def _raised(self, loader: Loader) -> tuple[Count, ...]:
        """The ``{'num_workers': 1} if use_cuda else {}`` of PyTorch's examples, where the one worker becomes more."""
        if loader.unknown_arguments is not None:
            return ()
        found = list(self._in_dictionaries(loader))
        few = all(isinstance(each.now, ast.Constant) and each.now.value == 1 for each in found)
        on_cuda = all(cuda_branches(self.script.flow, loader.module, each.site) for each in found)
        if not few or not on_cuda:
            return ()
        return tuple(each._replace(text=str(self.number)) for each in found)

    def _why_few(self, argument: Argument) -> Reason | None:
        """Where the script, or the user who chooses nothing, has one worker or none: that is theirs to change."""
        if argument.values and all(isinstance(each, Literal) and each.value == 1 for each in argument.values):
            text = f"one worker is the script's own choice: {self.number} would read {self.number} batches side by side"
            return Reason("script-decides", text, remedy=f"give it num_workers={self.number}")
        chosen = {each.name.rpartition(".")[2] for each in argument.values if isinstance(each, Choice)}
        for option in options(self.script):
            if option.name in chosen and option.default in {0, 1}:
                text = f"the number of workers is the user's, and {option.default} by default:"
                return Reason("script-decides", text, remedy=f"start the script with {option.flag} {self.number}")
        return None

    def _new_count(self, loader: Loader, argument: Argument | None, start: Start) -> Count | Reason:
        module, place = loader.module, loader.module.statement(loader.call)
        if argument is not None and argument.node is None:
            return Reason("script-decides", "num_workers is 0 in a dictionary that is given with **")
        if argument is not None and not isinstance(argument.node, ast.Constant):
            text = f"{ast.unparse(argument.node or loader.call)} is 0 there:"
            return Reason("script-decides", text, remedy="give it another value")
        now = argument.node if argument is not None else None
        if self._option is not None:
            name = namespace(self.script, module, place)
            if name is None:
                text = f"the script's option {self._option.flag} cannot be named where the loader is made"
                return Reason("no-name", text)
            text = f"{name}.{self._option.name}"
            return Count(loader.call, now, text, f"{text} > 0")
        condition = cuda_condition.of_loader(self.script, with_all_moves(loader), loader.call)
        is_imported = condition is not None
        condition = condition or "torch.cuda.is_available()"
        if start is Start.FORKED:
            start_method = self.script.spelled(module, _START_METHOD, place)
            is_imported = is_imported and start_method is not None
            condition = _both(condition, f"{start_method or _START_METHOD}() == {_quoted(self.script, module, 'fork')}")
        text = str(self.number) if condition == "True" else f"{self.number} if {condition} else 0"
        return Count(loader.call, now, text, condition, is_imported, on_cuda=True)

    @lasting
    def _why_not(self, loader: Loader, start: Start = Start.ANYHOW) -> Reason | None:
        """Why the loader cannot, or should not, have workers; or such as are forked."""
        if loader.unknown_arguments is not None:
            return loader.unknown_arguments
        own_class = self._why_not_passed(loader, "num_workers")
        if own_class is not None:
            return own_class
        if loader.own_iteration is not None:
            return loader.own_iteration
        for name in _NEEDS_WORKERS:
            if name in loader.arguments:
                return Reason("script-decides", f"it is given {name}, which DataLoader refuses without workers")
        code = self.code(loader)
        in_worker = self._why_not_in_workers(loader, code, start)
        if in_worker is not None and in_worker.code in _UNKNOWN:
            in_worker = _why_changed(code) or in_worker  # what is known to go wrong decides
        return in_worker or self._why_not_read(loader) or why_not_cuda(self.script, loader)

    def _why_not_passed(self, loader: Loader, name: str) -> Reason | None:
        """Why the call that makes the loader takes no such argument of ``DataLoader``."""
        if loader.passing is loader.call:
            return None
        text = f"class {loader.value.name} has an __init__ of its own: {name} belongs into its call"
        return Reason("own-loader-class", text, remedy=f"give {name} in the call of DataLoader's __init__")

    def _why_not_in_workers(self, loader: Loader, code: WorkerCode, start: Start) -> Reason | None:
        """Why its data set cannot, or should not, be read in a worker process."""
        if loader.dataset.is_decoded_once:
            text = "its items are decoded once, and are in memory then: to send them takes longer than to index them"
            return Reason("data-in-memory", text)
        if loader.dataset.is_in_memory:
            text = "its data set is in memory: to send its items from a worker takes longer than to index them"
            return Reason("data-in-memory", text)
        for name, role in _ROLES.items():
            argument = loader.arguments.get(name)
            reason = why_not_on_host(self.script.flow, role, argument.values) if argument is not None else None
            if reason is not None:
                return why_on_device(code) or reason
        unknown = _why_not_sent_indices(loader) or why_unknown(code)
        if unknown is not None:
            return unknown
        if loader.dataset.is_iterable and not code.is_sharded:
            text = "its data set is iterable and does not ask get_worker_info(): each worker would yield all of it"
            remedy = "yield what get_worker_info() says is this worker's part"
            return Reason("not-divided-among-workers", text, remedy=remedy)
        if not code.does_work:
            not_in_memory = why_not_in_memory(code)
            if not_in_memory is not None:
                return not_in_memory
            text = "its items are made of what is in memory: to send one from a worker takes longer than to make it"
            return Reason("data-in-memory", text)
        reason = why_on_device(code) or why_not_sent(code, start) or why_not_copied(code)
        return reason or why_changed(code) or why_not_shared(code) or why_class_is_changed(code)

    def _why_not_read(self, loader: Loader) -> Reason | None:
        """Why the way in which it is read makes workers a loss."""
        flow = self.script.flow
        found = loader.passes
        if is_prepared(self.script, loader):
            return self._begun_anew(loader)
        unknown = why_reading_is_unknown(self.script, loader)
        if unknown is not None:
            return unknown
        if all(each.how is How.FIRST for each in found) or why_only_first(flow, loader) is not None:
            return ONLY_FIRST
        for each in found:
            if each.how is How.FIRST and loop_around(flow, each.module, each.node) is not None:
                text = f"it is read anew for each batch, and workers would start each time ({HERE})"
                return Reason("few-batches", text, (loader.at(each.node),))
        return self._made_in_pass(loader) or why_kept(self.script, loader) or _why_changed(self.code(loader))

    def _begun_anew(self, loader: Loader) -> Reason | None:
        """Where what Accelerate makes of the loader may be read anew for each batch: ``next(iter(loader))`` in a loop.

        Epochs are loops over it, which call ``iter`` themselves.
        """
        flow = self.script.flow
        for module in self.script.modules:
            for call in module.nodes(ast.Call):
                begins = isinstance(call.func, ast.Name) and call.func.id == "iter" and len(call.args) == 1
                is_unknown = begins and any(isinstance(each, Unknown) for each in flow.values(call.args[0]))
                if is_unknown and loop_around(flow, module, call) is not None:
                    text = f"it may be read anew for each batch, and workers start each time ({HERE})"
                    return Reason("few-batches", text, (loader.at(call),))
        return _why_changed(self.code(loader))

    def _made_in_pass(self, loader: Loader) -> Reason | None:
        flow = self.script.flow
        loop = loop_around(flow, loader.module, loader.call)
        reading = [each.node for other in self.script.loaders for each in other.passes]
        if loop is not None and loop in reading:
            text = f"it is made anew for each batch of another loader ({HERE})"
            return Reason("made-in-loop", text, (loader.at(loop),))
        return None


def _why_not_sent_indices(loader: Loader) -> Reason | None:
    """Where its sampler may hand tensors on a device to workers."""
    for name in ("sampler", "batch_sampler"):
        argument = loader.arguments.get(name)
        for each in argument.values if argument is not None else ():
            drawn = device_indices(loader.flow, each)
            if drawn is not None:
                text = f"the indices of its sampler may be tensors on a device ({HERE}), which no worker can be sent:"
                return Reason("cuda-in-worker", text, (loader.at(drawn),), remedy="give it tolist() of them")
    return None


def _why_changed(code: WorkerCode) -> Reason | None:
    """Where the loop over the loader changes what workers would go on with as it was."""
    return why_changed_while_read(code) or why_drawn_ahead(code.flow, code.loader)


def _both(condition: str, other: str) -> str:
    """The two conditions together; the first may be ``"True"``."""
    if condition == "True":
        return other
    is_loose = isinstance(ast.parse(condition, mode="eval").body, (ast.IfExp, ast.Lambda, ast.NamedExpr)) or any(
        isinstance(each, ast.Or) for each in ast.walk(ast.parse(condition))
    )
    return f"({condition}) and {other}" if is_loose else f"{condition} and {other}"


def _quoted(script: Script, module: Module, text: str) -> str:
    quote = script.quote(module)
    return f"{quote}{text}{quote}"


def _is_zero(argument: Argument) -> bool:
    return bool(argument.values) and all(isinstance(each, Literal) and each.value == 0 for each in argument.values)
