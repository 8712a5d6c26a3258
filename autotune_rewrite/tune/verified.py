"""A rewrite is verified; changes that do not hold up are taken back, and the rest is verified again."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypedDict, cast

from rich.text import Text

from autotune_rewrite.rewriting import batch
from autotune_rewrite.tune.bisect import NotFoundError, culprits
from autotune_rewrite.tune.slowing import Slowing, measured
from autotune_rewrite.tune.texts import written
from autotune_rewrite.verify.statistics.pairs import Pair
from codemods.catalogue import RULES
from codemods.codemod import Promise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from autotune_rewrite.rewriting.batch import Changes, Done, Read
    from autotune_rewrite.rewriting.config import Options
    from autotune_rewrite.rewriting.results import Site
    from autotune_rewrite.tune.texts import Verify
    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.plan import Plan, PromiseName
    from autotune_rewrite.verify.records import Environment, Run

SHORTEST_TIMEOUT = 60.0
"""Seconds that a run may take while changes are searched, at least: it may compile before it trains."""
TIMES_THE_ORIGINAL = 4
"""A run that takes so many times as long as the original is one that hangs."""
RECORDED_WHOLE = frozenset({"crashed", "exited"})
"""Outcomes of which the last iteration is known: of the others the end of the record may be lost."""
TAKEN_BACK = "taken back, as it did not hold up when it was verified"
SLOWING = "taken back, as the script is slower with it"
HELD_BACK = "held back, as it changes rounding and cannot act on this device"
WHY_HELD_BACK = "It changes rounding, and nothing of it can act on this device."
BF16 = 8.0
"""The first compute capability with bf16."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What holds up of a rewrite."""

    changes: Changes
    """The rewrite that was judged last; of what was taken back its sites say so."""
    judgement: Judgement | None
    """None where nothing was rewritten."""


def verified(  # noqa: PLR0913 - what to rewrite, how, and what to ask
    parts: Read,
    options: Options,
    plan: Plan,
    verify: Verify,
    say: Callable[[str], None],
    *,
    environment: Callable[[], Environment] | None = None,
    without: frozenset[str] = frozenset(),
    slowing: bool = False,
) -> Verified:
    """Rewrites a script and verifies the result, until all that is left of it holds up or nothing can be blamed.

    Args:
        parts: The script, which is the plan's original, and the other files of its project.
        options: How it is rewritten.
        plan: How it is verified: the original and the user's choices; what depends on the rewrite is filled in here.
        verify: Carries out plans. What it raises is passed on.
        say: Is told, in a line, what happens next.
        environment: Describes the device, where changes of rounding that cannot act on it are to be held back; None:
            none is. What it raises is passed on.
        without: Rules that do not run, whatever the options say.
        slowing: Whether changes are taken back, too, that are correct and make the whole slower.

    Raises:
        FileError: The script cannot be rewritten.
    """
    return _Trial(parts, options, plan, verify, say, environment, without, slowing).end()


@dataclass(frozen=True, slots=True)
class _Extent:
    """How much has to be run to see a failure."""

    pairs: int
    iterations: int | None

    def covers(self, other: _Extent) -> bool:
        """Whether what shows in the other shows here, too."""
        cut_later = self.iterations is None or (other.iterations is not None and other.iterations <= self.iterations)
        return self.pairs >= other.pairs and cut_later


@dataclass(slots=True)
class _Trial:
    """A script, what was found out about its changes, and the time that went into finding out."""

    parts: Read
    options: Options
    plan: Plan
    verify: Verify
    say: Callable[[str], None]
    environment: Callable[[], Environment] | None = None
    without: frozenset[str] = frozenset()
    slowing: bool = False
    left_out: dict[str, str] = field(default_factory=dict)
    """Rules that were taken back, each with why."""
    taken_back: list[tuple[str, Site]] = field(default_factory=list)
    """The files and sites of these rules."""
    searched: _Extent | None = None
    """What the last search has looked at, and found to be fine in the end."""
    seconds: float = 0.0
    """That searches took."""
    interrupted: bool = False

    def end(self) -> Verified:
        """Verifies, and takes back what does not hold up, until there is an end to it."""
        done = self._rewritten(frozenset())
        if held := self._unmeasured(done):
            done = self._without(done, held, WHY_HELD_BACK, _held_back)
            it = "it" if len(held) == 1 else "them"
            self.say(f"{_listed(held)} held back: --unmeasured writes {it} all the same")
        judgement: Judgement | None = None
        while done.promise is not None:
            judgement, failing = self._judged(done)
            try:
                if failing is not None:
                    blamed, why = self._blamed(done, judgement, failing)
                    done = self._without(done, blamed, why, _taken_back)
                elif self.slowing and judgement.fit_but_slower:
                    blamed, why = self._slow(done, judgement)
                    done = self._without(done, blamed, why, _left_as_slowing)
                else:
                    break
            except NotFoundError as error:
                judgement = replace(judgement, reason=f"{judgement.reason} {error}", interrupted=self.interrupted)
                break
            what_follows = "what is left is verified again" if done.promise is not None else "no change is left"
            self.say(f"{_listed(blamed)} left out; {what_follows}")
        if judgement is not None:
            judgement = replace(judgement, left_out=tuple(self.left_out.items()))
        return Verified(replace(done, dones=tuple(map(self._with_all_sites, done.dones))), judgement)

    def _unmeasured(self, done: Changes) -> frozenset[str]:
        """The rules that change rounding, and of which nothing acts on the device."""
        farthest = {
            site.rule for site in done.sites if site.rewrites and site.promise >= Promise.PRECISION and site.needs
        }
        if self.environment is None or not farthest:
            return frozenset()
        return frozenset(farthest.intersection(not_measured(done, self.environment())))

    def _without(self, done: Changes, rules: frozenset[str], why: str, as_left: Callable[[Site], Site]) -> Changes:
        """The rewrite without the changes of more rules."""
        self.left_out |= dict.fromkeys(sorted(rules), why)
        self.taken_back += [
            (each.source.path, as_left(site))
            for each in done.dones
            for site in each.rewrite.sites
            if site.rule in rules
        ]
        return self._rewritten(frozenset(self.left_out))

    def _with_all_sites(self, done: Done) -> Done:
        """The file with the sites that were taken back, too."""
        back = (site for path, site in self.taken_back if path == done.source.path)
        sites = sorted((*done.rewrite.sites, *back), key=lambda site: (site.line, site.column))
        return replace(done, rewrite=replace(done.rewrite, sites=tuple(sites)))

    def _judged(self, done: Changes) -> tuple[Judgement, _Failing | None]:
        """What can be said of the rewrite, and what it takes to see it fail, if it does."""
        with TemporaryDirectory(prefix="torchfast-") as directory:
            plan = self._plan(done, frozenset(self.left_out), Path(directory))
            judgement, runs = self.verify(plan, probe=False)
        simulated: Environment = {"cuda": True, "capability": plan.simulated or ""}
        device = judgement.environment if plan.simulated is None else simulated
        judgement = replace(judgement, applied=tuple(sorted(done.rules)), not_measured=not_measured(done, device))
        failed = not judgement.interrupted and _fails(judgement)
        return judgement, _Failing(
            plan, tuple(_extents(plan, judgement, runs)), _timeout(plan, runs)
        ) if failed else None

    def _blamed(self, done: Changes, judgement: Judgement, failing: _Failing) -> tuple[frozenset[str], str]:
        """The rules that have to go, and why.

        Raises:
            NotFoundError: There are none to blame, or no time is left to find them.
        """
        rules = done.rules
        last = [Text.from_ansi(line).plain.strip() for line in judgement.output[-1:]]
        said = " It said: ".join((judgement.reason, *last))
        if pointed := rules.intersection(judgement.blamed):
            return pointed, said
        if self.searched is not None and self.searched.covers(failing.extents[0]):
            raise NotFoundError("The fault shows now and then only, so no change can be blamed.")
        in_order = sorted(rules, key=lambda rule: (_promise(done, rule), rule))
        self.say(f"looking for the change that does it, for {self.plan.time_budget:g} s at most")

        @cache
        def fails(some: frozenset[str], extent: _Extent) -> bool:
            return self._fails(some, failing, extent)

        extent = next((each for each in failing.extents if fails(rules, each)), failing.extents[-1])
        blamed = culprits(in_order, lambda some: fails(some, extent))
        self.searched = extent
        return blamed, f"Without the changes of {_listed(blamed)} this does not happen: {said}"

    def _slow(self, done: Changes, judgement: Judgement) -> tuple[frozenset[str], str]:
        """The rule that makes the whole slower, and by how much.

        Raises:
            NotFoundError: There is none for certain, or the user has ended the search.
        """
        suspects = sorted(acting(done, judgement.environment), key=lambda rule: (-_promise(done, rule), rule))
        if len(done.rules) == 1 and judgement.whole is not None:
            return done.rules, measured(judgement.whole)
        left = self.plan.time_budget - self.seconds
        if left <= 0:
            raise NotFoundError("No time is left to find the change that makes it slower.")

        def rewritten(more: frozenset[str]) -> Changes:
            return self._rewritten(frozenset(self.left_out) | more)

        start = time.monotonic()
        search = Slowing(replace(self.plan, time_budget=left), self.verify, rewritten, self.say)
        try:
            found = search.found(done, suspects)
        except KeyboardInterrupt:
            self.interrupted = True
            raise NotFoundError("The search for the change that makes it slower was interrupted.") from None
        self.seconds += time.monotonic() - start
        if found is None:
            raise NotFoundError("No single change makes it slower for certain.")
        return frozenset({found[0]}), found[1]

    def _fails(self, rules: frozenset[str], failing: _Failing, extent: _Extent) -> bool:
        """Whether the script with the changes of these rules alone fails; without rules, the original beside itself.

        Raises:
            NotFoundError: The time for it is spent, or the user has ended it.
        """
        without = frozenset(RULES) - rules
        done = self._rewritten(without)
        if rules and not done.changed:
            return False  # what each of them builds on is not among them
        if self.seconds >= self.plan.time_budget:
            budget = f"{self.plan.time_budget:g} s"
            raise NotFoundError(f"The time budget of {budget} was spent before the change that does it was found.")
        start = time.monotonic()
        with TemporaryDirectory(prefix="torchfast-") as directory:
            plan = replace(
                failing.plan,  # what is a fault must not depend on what happens to be left
                **self._scripts(done, without, Path(directory), exact=failing.plan.bitwise is not None),
                pairs=extent.pairs,
                iterations=extent.iterations,
                timeout=failing.timeout,
                keep=False,
            )
            judgement, _ = self.verify(plan, probe=True)
        self.seconds += time.monotonic() - start
        if judgement.interrupted:
            self.interrupted = True
            raise NotFoundError("The search for the change that does it was interrupted.")
        return _fails(judgement)

    def _rewritten(self, without: frozenset[str]) -> Changes:
        return batch.changes(self.parts, self.options, without=without | self.without)

    def _plan(self, done: Changes, without: frozenset[str], directory: Path) -> Plan:
        """The plan for a rewrite, whose texts are written to the directory."""
        return replace(
            self.plan,
            **self._scripts(done, without, directory, exact=done.promise != Promise.BITWISE),
            promise=cast("PromiseName", str(done.promise)),
            tolerance=max(RULES[rule].tolerance for rule in done.rules),
            redrawn=done.redraws,
            signatures=tuple((rule, RULES[rule].failures) for rule in sorted(done.rules)),
            script_directory=self.plan.original.parent,
        )

    def _scripts(self, done: Changes, without: frozenset[str], directory: Path, *, exact: bool) -> _Scripts:
        """Writes what was rewritten and, if it is to be looked at alone, what promises the same bits and is there."""
        rewritten, modules = written(done, self.plan.original, directory / "rewritten")
        bitwise: Path | None = None
        bitwise_modules: tuple[tuple[Path, Path], ...] = ()
        if exact:
            exactly = batch.changes(self.parts, self.options, without=without | self.without, bitwise=True)
            if exactly.changed:
                bitwise, bitwise_modules = written(exactly, self.plan.original, directory / "bitwise")
        return {
            "rewritten": rewritten,
            "modules": modules,
            "bitwise": bitwise,
            "bitwise_modules": bitwise_modules,
        }


class _Scripts(TypedDict):
    """Fields of a plan."""

    rewritten: Path
    modules: tuple[tuple[Path, Path], ...]
    bitwise: Path | None
    bitwise_modules: tuple[tuple[Path, Path], ...]


@dataclass(frozen=True, slots=True)
class _Failing:
    """A rewrite that fails, and how to see that again."""

    plan: Plan
    extents: tuple[_Extent, ...]
    """The cheapest comes first; where all changes together do not fail there, the next."""
    timeout: float
    """Seconds that a run may take."""


def _fails(judgement: Judgement) -> bool:
    """Whether changes can be to blame: a mere slowdown is another matter, and an original that fails its own."""
    if judgement.run == "ok":
        return judgement.equality == "different"
    return judgement.side == "rewritten"


def _extents(plan: Plan, judgement: Judgement, runs: Sequence[Run]) -> Iterator[_Extent]:
    """What has to be run to see a failure again: as little as was enough, then as much as there was."""
    whole = _Extent(judgement.pairs, plan.iterations)
    if judgement.run != "ok":
        whole = _Extent(min(judgement.pairs + 1, plan.pairs), plan.iterations)
        failed = next((run for run in reversed(runs) if run.outcome in RECORDED_WHOLE), None)
        sign = None if failed is None else len(failed.times) + 1
    else:
        # Statistics take all pairs that there were.
        sign = None if judgement.summary is not None else _first_sign(plan, runs)
    if sign is not None:
        cut = sign if plan.iterations is None else min(sign, plan.iterations)
        cheap = _Extent(whole.pairs if judgement.run != "ok" else 1, cut)
        if cheap != whole:
            yield cheap
    yield whole


def _first_sign(plan: Plan, runs: Sequence[Run]) -> int | None:
    """After how many iterations two runs differ more than promised; None where a shorter run may not show it."""
    signs = []
    for kind, offset in dict.fromkeys((run.kind, run.offset) for run in runs if run.kind in ("pair", "check")):
        of_turn = {run.side: run for run in runs if (run.kind, run.offset) == (kind, offset)}
        if len(of_turn) < 2:  # noqa: PLR2004 - both sides
            continue
        pair = Pair(of_turn["original"], of_turn["rewritten"])
        if pair.lengths_differ:
            return None
        losses = pair.rewritten.losses
        if kind == "check" or plan.promise == "bitwise":
            signs.append(pair.first_difference)
        elif pair.diverged:
            signs.append(next(at for at, loss in enumerate(losses) if not math.isfinite(loss)))
        elif not plan.redrawn and pair.first_loss_distance > plan.tolerance:
            signs.append(0)
    known = [sign + 1 for sign in signs if sign is not None]
    return max(known, default=None)


def _timeout(plan: Plan, runs: Iterable[Run]) -> float:
    """Seconds after which a run hangs, by how long the original takes."""
    longest = max(
        (run.wall_seconds for run in runs if run.side == "original" and run.outcome == "ok"), default=math.inf
    )
    return min(plan.seconds_of_run, max(SHORTEST_TIMEOUT, TIMES_THE_ORIGINAL * longest))


def _taken_back(site: Site) -> Site:
    """The site as one that is left."""
    if not site.rewrites:
        return site
    return site._replace(message=TAKEN_BACK, gain="", edits=(), fails=False, spots=(), code="not-verified")


def _left_as_slowing(site: Site) -> Site:
    """The same for one that makes the script slower."""
    return _taken_back(site)._replace(message=SLOWING) if site.rewrites else site


def _held_back(site: Site) -> Site:
    """The same for one that nothing was measured of."""
    if not site.rewrites:
        return site
    remedy = "--unmeasured writes it all the same"
    return _taken_back(site)._replace(message=HELD_BACK, code="not-measured", remedy=remedy)


def _promise(changes: Changes, rule: str) -> Promise:
    """The farthest promise that the rule was applied with."""
    return max(site.promise for site in changes.sites if site.rewrites and site.rule == rule)


def _acts(site: Site, environment: Environment) -> bool:
    """Whether the change of a site does anything on a device, simulated or not."""
    if not site.needs:
        return True
    has_cuda = bool(environment.get("cuda"))
    return has_cuda and (site.needs == "cuda" or float(environment.get("capability", 0.0)) >= BF16)


def acting(changes: Changes, environment: Environment) -> frozenset[str]:
    """The rules of which a change does something on the device."""
    return frozenset(site.rule for site in changes.sites if site.rewrites and _acts(site, environment))


def not_measured(changes: Changes, environment: Environment) -> tuple[str, ...]:
    """The rules that cannot act on the device at all, and the lines at which others cannot."""
    idle: dict[str, list[int]] = {}
    for site in changes.sites:
        if site.rewrites and not _acts(site, environment):
            idle.setdefault(site.rule, []).append(site.line)
    some = acting(changes, environment)
    return tuple(
        f"{rule} ({', '.join(f'line {line}' for line in lines)})" if rule in some else rule
        for rule, lines in sorted(idle.items())
    )


def _listed(rules: Iterable[str]) -> str:
    return " and ".join(sorted(rules))
