"""What a folder of results holds: the lines of the stages, and the machines and commands that they come from."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.gpu.judging import compared
from tests.gpu.tables import MISSING
from tests.gpu.tasks import Ledger, results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.gpu.judging import Beside
    from tests.gpu.tasks import Values

ROOT = Path(__file__).parents[2]
OUT = "--out"
"""Names the folder of the results."""


@dataclass(frozen=True, slots=True)
class Device:
    """The results of one device with one version of torch."""

    folder: Path
    stages: Mapping[int, list[Values]]
    """The lines of each stage that has some, without those on the machine."""
    machines: tuple[tuple[int, Values], ...]
    """Of each call of a stage: the stage, and what it ran on."""
    besides: Mapping[int, list[Beside]]
    """Of the stages that measure."""

    @classmethod
    def of(cls, folder: Path) -> Device:
        """What a folder holds; a last line that was cut short is passed over."""
        read = {number: list(Ledger(folder / f"stage-{number}.jsonl").lines()) for number in range(1, 8)}
        machines = tuple(
            (number, line) for number, lines in read.items() for line in lines if line["key"].startswith("machine")
        )
        stages = {
            number: found
            for number, lines in read.items()
            if (found := [line for line in results(lines) if not line["key"].startswith("machine")])
        }
        return cls(folder, stages, machines, {at: list(compared(stages[at])) for at in (2, 3, 6) if at in stages})

    @property
    def name(self) -> str:
        """The GPU and the version of torch."""
        gpus = self._distinct(lambda machine: (machine.get("gpu") or {}).get("name"))
        simulated = any(machine.get("device") == "simulated" for _, machine in self.machines)
        device = "simulated device" if simulated else " and ".join(gpus) or self.folder.name
        versions = self._distinct(lambda machine: machine.get("packages", {}).get("torch"))
        return f"{device}, torch {' and '.join(versions) or MISSING}"

    def commits(self, stage: int) -> str:
        """Of the scripts and the tool."""
        return ", ".join(self._distinct(lambda machine: machine.get("commit"), stage)) or MISSING

    def dates(self, stage: int) -> str:
        """From the first to the last call."""
        days = sorted(self._distinct(lambda machine: machine.get("time", "")[:10], stage))
        return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else MISSING

    def commands(self, stage: int) -> list[str]:
        """Those that measured it, each once, from the repository's root; they name the folder where the results are now."""
        folder = self.folder.resolve()
        place = (folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else Path(*folder.parts[-2:])).as_posix()
        usual = ["run", "--stage", str(stage), "--out", place]
        called = [machine.get("arguments") or usual for number, machine in self.machines if number == stage]
        told = (shlex.join(_with_out(arguments, place)) for arguments in called or [usual])
        return list(dict.fromkeys(f"python -m tests.gpu {arguments}" for arguments in told))

    def _distinct(self, value: Callable[[Values], str | None], stage: int | None = None) -> list[str]:
        found = (value(machine) for number, machine in self.machines if stage in (None, number))
        return list(dict.fromkeys(each for each in found if each))


def _with_out(arguments: Sequence[str], place: str) -> list[str]:
    """The arguments with this folder for the results: they were written on another machine, and have moved since."""
    found = list(arguments)
    for at, argument in enumerate(arguments):
        if argument.startswith(f"{OUT}="):
            found[at] = f"{OUT}={place}"
        elif at and arguments[at - 1] == OUT:
            found[at] = place
    return found


def devices(place: Path) -> list[Device]:
    """Of all folders in this one that hold results, by name."""
    folders = sorted({path.parent for path in place.glob("*/stage-*.jsonl")})
    return [device for folder in folders if (device := Device.of(folder)).stages]
