"""What findings can gain at most, by a profile of the script, and their order by that."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autotune_rewrite.profiling.limits import can_act, limit
from codemods.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from autotune_rewrite.profiling import Profile
    from autotune_rewrite.rewriting.results import Rewrite, Site

MANY = 10
"""Times as fast: above it, decimals say nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the sites of scripts can gain where the profile was made."""

    profile: Profile

    def acts(self, site: Site) -> bool:
        """Whether the change does anything there; of a site that is left, whether the rule's changes would."""
        needs = site.needs if site.rewrites else "cuda" if RULES[site.rule].needs_cuda else ""
        return can_act(self.profile, needs)

    def number(self, site: Site) -> float | None:
        """At most so many times as fast; None where the profile does not tell, or names no end."""
        factor = self._factor(site)
        return None if factor is None or math.isinf(factor) else factor

    def words(self, site: Site) -> str:
        """The same for people."""
        factor = self._factor(site)
        if not self.acts(site):
            return "cannot act where the profile was made"
        return "not seen in the profile" if factor is None else f"at most {times(factor)}"

    def in_order(self, rewrites: Iterable[Rewrite]) -> Iterator[Rewrite]:
        """The scripts in parts, those parts first whose sites can gain most; notes come with the first."""
        parts = [
            (factor, replace(rewrite, sites=tuple(site for site in rewrite.sites if self._rank(site) == factor)))
            for rewrite in rewrites
            for factor in sorted({self._rank(site) for site in rewrite.sites}, reverse=True) or [0.0]
        ]
        parts.sort(key=lambda part: -part[0])
        yield from (rewrite for _, rewrite in parts)

    def _factor(self, site: Site) -> float | None:
        if not self.acts(site):
            return 1.0
        found = limit(self.profile, RULES[site.rule].phases)
        return None if found is None else found.factor

    def _rank(self, site: Site) -> float:
        """By what it can gain; what the profile does not tell comes after what it does, and before what cannot act."""
        factor = self._factor(site)
        if not self.acts(site):
            return 0.0
        return 0.5 if factor is None else factor


def times(factor: float) -> str:
    """Such as "2.60 times as fast"."""
    if math.isinf(factor):
        return "any number of times as fast"
    return f"{factor:.0f} times as fast" if factor >= MANY else f"{factor:.2f} times as fast"
