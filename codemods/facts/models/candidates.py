"""Which models are to be compiled, and in which way, or why they are not."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.names import bound_names
from codemods.dataflow.source import walk
from codemods.dataflow.values import Instance, Made, class_of
from codemods.facts.models.cuda_graphs import why_not_replayed
from codemods.facts.models.in_place import why_not_there, why_second_name, with_one_name
from codemods.facts.models.looked_at import last_look
from codemods.facts.models.obstacles import why_not_compiled
from codemods.facts.models.placement import Home, twins
from codemods.facts.models.preparation import last_preparation, why_one_name
from codemods.facts.models.replication import replicating
from codemods.facts.models.uncalled import only_methods, optimized, owners, unknown, why_on_cpu
from codemods.library.kinds import PARAMETER, Kind, kind
from codemods.library.layers import has_no_parameters

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from codemods.dataflow.values import Value
    from codemods.facts.cost.worth import Worth
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.reason import Reason
    from codemods.facts.script import Script


@dataclass(frozen=True)
class Placed:
    """A model that training iterations call, and one of the places where it is on its device."""

    model: TrainedModel
    home: Home


@dataclass(frozen=True)
class InPlace:
    """Models of which ``model.compile()`` is written below one statement."""

    site: ast.AST
    anchor: ast.stmt
    models: tuple[Placed, ...]


@dataclass(frozen=True)
class Unreplicated:
    """A model that ``nn.DataParallel`` copies under an ``if``: ``model.compile()`` is for the other side."""

    site: ast.AST
    choice: ast.If
    model: Placed


@dataclass(frozen=True)
class SecondName:
    """A model of which ``torch.compile(model)`` gets a name of its own."""

    site: ast.AST
    name: str
    compile: str
    """``torch.compile``, as it is written there."""
    uncompiled: str
    """The model's own name."""
    model: Placed


@dataclass(frozen=True)
class NotCompiled:
    """What is not compiled, and why."""

    site: ast.AST
    because: Reason


Candidate: TypeAlias = "InPlace | Unreplicated | SecondName | NotCompiled"


@dataclass(frozen=True)
class Wanted:
    """What else is asked of what is compiled."""

    pays: Worth | None = None
    """What says whether compiling pays; None where it is wanted anyway."""
    as_graphs: bool = False
    """Whether it is to be launched as CUDA graphs."""

    def why_not(self, script: Script, trained: TrainedModel) -> Reason | None:
        """Why the model is not compiled so; None where it is."""
        in_vain = None if self.pays is None else self.pays.why_compiled_in_vain(trained.model.value)
        return in_vain or (why_not_replayed(script, trained) if self.as_graphs else None)


def candidates(script: Script, wanted: Wanted) -> Iterator[Candidate]:
    """What the module trains, or may train, by what is to be done with it."""
    sites: set[ast.AST] = set()
    for each in (*_called(script, wanted), *_uncalled(script)):
        sites.add(each.site)
        yield each
    yield from (NotCompiled(*each) for each in optimized(script) if each[0] not in sites)
    yield from (NotCompiled(*each) for each in owners(script, sites))


def _uncalled(script: Script) -> Iterator[NotCompiled]:
    yield from (NotCompiled(*each) for each in only_methods(script))
    yield from (NotCompiled(*each) for each in unknown(script))


def _called(script: Script, wanted: Wanted) -> Iterator[Candidate]:
    """The models that training iterations call."""
    ready: list[Placed] = []
    left: dict[Value, ast.AST] = {}
    on_cpu: list[TrainedModel] = []
    said: set[tuple[ast.AST, str]] = set()
    mine = [each for each in script.trained_models if each.is_of(script.module)]
    networks = {each.site(script.module) for each in mine if not each.is_single}
    for each in mine:
        home, reason = each.home, why_not_compiled(script, each)
        beside = _beside(script, each, reason, wanted)
        if beside is not None:
            yield beside
        elif reason is not None:
            left[each.model.value] = each.site(script.module)
            # Of models among which the script chooses, a reason that is the same for all is said once.
            where = home.anchor if isinstance(home, Home) else left[each.model.value]
            # What is chosen by its name among all that a module has is a network, and no layer of one.
            is_network = each.is_single and left[each.model.value] in networks
            if (where, reason.text) not in said and not is_network:
                said.add((where, reason.text))
                yield NotCompiled(left[each.model.value], reason)
        elif isinstance(home, Home):
            ready.append(Placed(each, home))
        else:
            on_cpu.append(each)
    named = {value for each in ready for value in script.flow.values(each.home.name)}
    for each in on_cpu:
        if each.model.value not in named and not _only_computes_loss(script, each):
            yield NotCompiled(each.site(script.module), why_on_cpu(script, each.model.value))
    yield from _at_home(script, ready, left.keys(), set(left.values()), wanted)


def _only_computes_loss(script: Script, trained: TrainedModel) -> bool:
    """Whether it is a class of losses with nothing in it that is trained: it need not be moved anywhere."""
    layers = trained.model.layers
    of_torch = [each for each in layers if isinstance(each, Made)]
    losses = [each for each in of_torch if kind(script.flow, each) is Kind.LOSS]
    own = [class_ for each in layers if isinstance(each, Instance) and (class_ := class_of(each)) is not None]
    calls = (each for class_ in own for each in walk(class_) if isinstance(each, ast.Call))
    has_own = any(value.name == PARAMETER for each in calls for value in script.flow.values(each.func))
    is_loss = bool(losses) or (bool(own) and all("loss" in each.name.lower() for each in own))
    is_known = len(of_torch) + len(own) == len(layers)
    return (
        is_loss
        and is_known
        and not has_own
        and all(each in losses or has_no_parameters(each.name) for each in of_torch)
    )


def _at_home(
    script: Script, ready: Iterable[Placed], left: Collection[Value], reported: set[ast.AST], wanted: Wanted
) -> Iterator[Candidate]:
    """The models that nothing stands against but, perhaps, the place.

    Args:
        script: Whose.
        ready: The models.
        left: Those that are not compiled.
        reported: Where these are made.
        wanted: What else is asked.
    """
    places: dict[ast.stmt, list[Placed]] = {}
    for each in ready:
        model, home, site = each.model, each.home, each.model.site(script.module)
        reason = why_not_there(script, model, home, left) or wanted.why_not(script, model)
        because = why_second_name(script, model, home)
        if reason is not None:
            if site not in reported:
                yield NotCompiled(site, reason)
        elif because is not None:
            yield _with_second_name(script, site, because, each)
        else:
            for one in (home, *twins(script.flow, script.modules, model.model.value, home)):
                place = last_look(script, model, one) or one.anchor
                places.setdefault(last_preparation(script, one, place), []).append(Placed(model, one))
    sites: set[ast.AST] = set()
    for anchor, group in places.items():
        # Of several models that one function makes, each is reported where it is put on its device.
        site = group[0].model.site(script.module)
        site = group[0].home.anchor if site in sites else site
        sites.add(site)
        yield InPlace(site, anchor, tuple(group))


def _with_second_name(script: Script, site: ast.AST, because: Reason, placed: Placed) -> SecondName | NotCompiled:
    """The model under another name; or why not, where it cannot be compiled in place.

    Args:
        script: Whose.
        site: Where it is reported.
        because: Why it is not compiled in place.
        placed: The model.
    """
    module, home = script.module, placed.home
    torch, name = script.spelled(module, "torch.compile", home.anchor), home.name
    only = why_one_name(script, placed.model, home)
    if torch is None or not isinstance(name, ast.Name) or only is not None:
        return NotCompiled(site, because if only is None else with_one_name(because, only))
    new = f"compiled_{name.id}"
    scopes = (module.tree, *module.nodes(ast.FunctionDef, ast.AsyncFunctionDef))
    if any(new in bound_names(scope) for scope in scopes):
        return NotCompiled(site, because._replace(text=f"{because.text}, and {new} is taken", remedy=""))
    return SecondName(site, new, torch, name.id, placed)


def _beside(script: Script, trained: TrainedModel, reason: Reason | None, wanted: Wanted) -> Unreplicated | None:
    """The model where ``nn.DataParallel`` copies it under a plain ``if``, and nothing else is against it."""
    home = trained.home
    if reason is None or reason.code != "data-parallel" or not isinstance(home, Home):
        return None
    choice = replicating(script, trained, home)
    if choice is None or why_not_compiled(script, trained, alone=True) is not None:
        return None
    is_alone = next(twins(script.flow, script.modules, trained.model.value, home), None) is None
    if not is_alone or why_not_there(script, trained, home, ()) or why_second_name(script, trained, home):
        return None
    look = last_look(script, trained, home)
    is_looked_at_later = look is not None and look.lineno > choice.lineno
    if is_looked_at_later or wanted.why_not(script, trained) is not None:
        return None
    return Unreplicated(trained.site(script.module), choice, Placed(trained, home))
