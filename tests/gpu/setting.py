"""Where and on what the stages run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PREPARED = Path("build/gpu")
"""Where ``prepare`` writes the scripts under test, from the repository's root."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What every stage has to know."""

    prepared: Path
    """The folder that ``prepare`` wrote."""
    scratch: Path
    """Holds generated data and compilers' caches; it need not outlast the machine."""
    device: Literal["cuda", "simulated"]
    """A real GPU, or this project's simulated one, where the code of the stages is tried."""
    only: frozenset[str] = frozenset()
    """The names of the scripts that the stages are restricted to; empty: all."""

    def wants(self, script: str) -> bool:
        """Whether the script is among those that the stages run."""
        return not self.only or script in self.only

    @property
    def tries_only(self) -> bool:
        """Whether all is to be as short as it can be: nothing that is measured counts."""
        return self.device == "simulated"
