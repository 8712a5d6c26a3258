"""Where the time of an iteration goes: the values, what follows from them, and both as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from autotune_rewrite.errors import FileError
from autotune_rewrite.verify.statistics.ratio import CONFIDENCE, quantile_of_t
from codemods.codemod import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from autotune_rewrite.verify.records import Environment

KIND = "torchfast-profile"
"""What the JSON is: others of torchfast have versions, too."""
VERSION = 1
"""Of the JSON layout."""
COMPUTING = (Phase.FORWARD, Phase.BACKWARD)
"""What the model takes."""
BLOCKS = 10
"""Stretches of iterations that the interval is made of: single iterations are not independent, as workers hand over
their batches in bursts."""
FEWEST_BLOCKS = 3
"""Fewer show no spread to speak of."""
UNSTEADY = 0.25
"""The part of the mean that its interval may reach to either side."""
CAPABILITY_OF_BF16 = 8.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; None where there is too little to tell it."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A phase and what it takes."""

    phase: Phase
    seconds: float
    """In the mean of all iterations."""
    share: Estimate
    """Of the iteration, from 0 to 1; of an evaluation, of all the time that was seen."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """Phases that are shortened together, or one alone."""

    phases: tuple[Phase, ...]
    share: Estimate

    @property
    def name(self) -> str:
        """In words."""
        return ", and ".join(map(str, self.phases))


@dataclass(frozen=True, slots=True)
class Operator:
    """What an operator takes in an iteration, without those that it calls, under torch.profiler."""

    name: str
    calls: float
    host_seconds: float
    device_seconds: float


@dataclass(frozen=True, slots=True)
class Site:
    """A line that makes the host wait for the device. Counts are those of an iteration."""

    path: str
    line: int
    calls: dict[str, float]
    """How often each method wants values there."""
    confirmed: float | None
    """How often CUDA says that it waits; None where there is none to ask."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a script's iterations goes."""

    script: str
    arguments: tuple[str, ...]
    device: str
    """``cpu``, ``cuda`` or ``simulated``: what the script ran on."""
    environment: Environment
    warm_up: int
    """Iterations that were not measured."""
    iterations: int
    """Those that were."""
    iteration: Estimate | None
    """Seconds of an iteration; None on a simulated device, where times say nothing."""
    parts: tuple[Part, ...]
    """The phases of an iteration, which add up to it."""
    computing: Estimate | None
    """The share of forward and backward together; None where neither was seen."""
    evaluation: Part | None
    """What was evaluated between them; None where nothing was."""
    passes: int
    """How many evaluations."""
    loaders: bool
    """Whether a ``DataLoader`` was read."""
    modules: bool
    """Whether a module was called before a backward."""
    on_device: bool
    """Whether the times are those of the device's clock."""
    overhead: float
    """The part of an iteration that the marks take."""
    watched: int
    """Iterations in which operators and sites were counted."""
    operators: tuple[Operator, ...]
    accumulation: float | None
    """The part of the backward that adds to gradients."""
    busy: float | None
    """The part of the time in which the device was busy, under torch.profiler."""
    sites: tuple[Site, ...]
    notes: tuple[str, ...] = ()

    def part(self, phase: Phase) -> Part | None:
        """What is known of a phase."""
        known = (*self.parts, self.evaluation)
        return next((each for each in known if each is not None and each.phase is phase), None)

    @property
    def bottleneck(self) -> Bottleneck | None:
        """What takes longest. Forward and backward count together: what shortens one shortens the other."""
        return max(self._candidates, key=lambda each: each.share.value, default=None)

    @property
    def rivals(self) -> tuple[Bottleneck, ...]:
        """What may take as long, as far as the intervals tell."""
        longest = self.bottleneck
        if longest is None or longest.share.low is None:
            return ()
        low = longest.share.low
        return tuple(each for each in self._candidates if each != longest and (each.share.high or 0.0) >= low)

    @property
    def _candidates(self) -> tuple[Bottleneck, ...]:
        alone = [Bottleneck((each.phase,), each.share) for each in self.parts if each.phase not in COMPUTING]
        seen = tuple(each.phase for each in self.parts if each.phase in COMPUTING)
        return (*alone, *(() if self.computing is None else (Bottleneck(seen, self.computing),)))

    @property
    def is_unsteady(self) -> bool:
        """Whether iterations differ so much that their mean says little."""
        mean = self.iteration
        return mean is not None and mean.high is not None and mean.high > (1 + UNSTEADY) * mean.value

    @property
    def has_cuda(self) -> bool:
        """Whether the script ran where there is a CUDA device."""
        return self.device == "cuda"

    @property
    def has_bf16(self) -> bool:
        """Whether that device has bf16."""
        return self.has_cuda and float(self.environment.get("capability", 0.0)) >= CAPABILITY_OF_BF16


def parts_of(rows: Sequence[Sequence[float]], phases: Sequence[Phase]) -> tuple[Part, ...]:
    """The phases with what they take, those without any time left out.

    Args:
        rows: For each iteration the seconds of each phase.
        phases: What the columns are of.
    """
    wholes = [sum(row) for row in rows]
    columns = [[row[at] for row in rows] for at in range(len(phases))]
    return tuple(
        Part(phase, statistics.fmean(column), share_of(column, wholes))
        for phase, column in zip(phases, columns, strict=True)
        if any(column)
    )


def share_of(parts: Sequence[float], wholes: Sequence[float]) -> Estimate:
    """The part of the whole, with a t interval over consecutive blocks of iterations."""
    total = sum(wholes)
    share = sum(parts) / total
    blocks = _blocks(len(wholes))
    if len(blocks) < FEWEST_BLOCKS:
        return Estimate(share)
    residuals = [sum(parts[start:end]) - share * sum(wholes[start:end]) for start, end in blocks]
    count = len(blocks)
    error = math.sqrt(count / (count - 1) * sum(each**2 for each in residuals)) / total
    half = quantile_of_t((1 + CONFIDENCE) / 2, count - 1) * error
    return Estimate(share, max(0.0, share - half), min(1.0, share + half))


def mean_of(values: Sequence[float]) -> Estimate:
    """The mean, with a t interval over consecutive blocks."""
    mean = statistics.fmean(values)
    blocks = [statistics.fmean(values[start:end]) for start, end in _blocks(len(values))]
    if len(blocks) < FEWEST_BLOCKS:
        return Estimate(mean)
    half = quantile_of_t((1 + CONFIDENCE) / 2, len(blocks) - 1) * statistics.stdev(blocks) / math.sqrt(len(blocks))
    return Estimate(mean, max(0.0, mean - half), mean + half)


def _blocks(count: int) -> list[tuple[int, int]]:
    """The first and the last (which is not in it) of each block."""
    number = min(BLOCKS, count)
    return list(pairwise(round(count * at / number) for at in range(number + 1))) if number else []


def as_json(profile: Profile) -> dict[str, Any]:
    """The profile as plain values."""
    return {"kind": KIND, "version": VERSION, **_plain(profile)}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any of a profile's values
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Phase):
        return value.name.lower()
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value


def load(path: Path) -> Profile:
    """The profile that a file holds.

    Raises:
        FileError: It cannot be read, is no profile, or one of another version.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(str(path), error.strerror or str(error)) from error
    except ValueError as error:
        raise FileError(str(path), f"not JSON: {error}") from error
    if not isinstance(values, dict) or values.get("kind") != KIND:
        raise FileError(str(path), "not a profile: `torchfast profile SCRIPT --format json` prints one")
    if values.get("version") != VERSION:
        found = values.get("version") or "none"
        raise FileError(str(path), f"profiles of version {VERSION} are read here, and this one has {found}")
    try:
        return _profile(values)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileError(str(path), f"not a whole profile ({type(error).__name__}: {error})") from error


def _profile(values: Mapping[str, Any]) -> Profile:
    names = {each.name for each in dataclasses.fields(Profile)}
    known = {
        **{name: values[name] for name in names},
        "arguments": tuple(values["arguments"]),
        "iteration": None if values["iteration"] is None else Estimate(**values["iteration"]),
        "parts": tuple(map(_part, values["parts"])),
        "computing": None if values["computing"] is None else Estimate(**values["computing"]),
        "evaluation": None if values["evaluation"] is None else _part(values["evaluation"]),
        "operators": tuple(Operator(**each) for each in values["operators"]),
        "sites": tuple(Site(**each) for each in values["sites"]),
        "notes": tuple(values["notes"]),
    }
    return Profile(**known)


def _part(values: Mapping[str, Any]) -> Part:
    return Part(Phase[values["phase"].upper()], float(values["seconds"]), Estimate(**values["share"]))
