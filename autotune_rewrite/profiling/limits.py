"""The most that rules can gain: what they shorten would take no time at all, and all the rest what it takes now."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.catalogue import RULES
from codemods.codemod import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from autotune_rewrite.profiling.profiles import Profile
    from codemods.codemod import Need


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that can be gained (Amdahl's law)."""

    share: float
    """Of the time, from 0 to 1, that what is shortened takes."""

    @property
    def factor(self) -> float:
        """At most so many times as fast."""
        return math.inf if self.share >= 1 else 1 / (1 - self.share)


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that shorten the same phases."""

    phases: tuple[Phase, ...]
    limit: Limit
    acting: tuple[str, ...]
    """The rules that can act on the profile's device."""
    idle: tuple[str, ...]
    """Those that cannot."""


def limit(profile: Profile, phases: Iterable[Phase]) -> Limit | None:
    """The most that a rule with these phases can gain; None where the profile has no times, or not of them.

    An iteration is the measure, and for what is between iterations all the time that was seen.
    """
    if not profile.parts:
        return None
    asked = set(phases)
    if asked == {Phase.EVALUATION}:
        return None if profile.evaluation is None else Limit(profile.evaluation.share.value)
    if Phase.FORWARD in asked and not profile.modules:
        asked.add(Phase.OTHER)  # no call of a module told where the forward is
    share = sum(each.share.value for each in profile.parts if each.phase in asked)
    if Phase.ACCUMULATION in asked and Phase.BACKWARD not in asked:
        backward = profile.part(Phase.BACKWARD)
        whole = 0.0 if backward is None else backward.share.value
        share += whole if profile.accumulation is None else whole * profile.accumulation
    return Limit(min(1.0, share))


def can_act(profile: Profile, needs: Need) -> bool:
    """Whether a change that needs this acts where the profile was made."""
    return {"": True, "cuda": profile.has_cuda, "bf16": profile.has_bf16}[needs]


def groups(profile: Profile) -> tuple[Group, ...]:
    """All rules, those that can gain most first; those whose phases were not seen are left out."""
    return tuple(
        sorted(_groups(profile), key=lambda group: (not group.acting, -round(group.limit.share, 2), len(group.phases)))
    )


def _groups(profile: Profile) -> Iterator[Group]:
    together: dict[frozenset[Phase], list[str]] = {}
    for name, rule in RULES.items():
        if rule.phases:  # else it saves memory alone
            together.setdefault(rule.phases, []).append(name)
    for phases, names in together.items():
        most = limit(profile, phases)
        if most is None:
            continue
        acts = {name: can_act(profile, "cuda" if RULES[name].needs_cuda else "") for name in names}
        yield Group(
            tuple(each for each in Phase if each in phases),
            most,
            tuple(name for name in names if acts[name]),
            tuple(name for name in names if not acts[name]),
        )
