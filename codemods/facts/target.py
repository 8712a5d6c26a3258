"""The torch that a script is known to run on, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Version: TypeAlias = "tuple[int, int]"

ASSUMED: Version = (2, 4)
"""What an unknown target counts as when code needs a minimum."""


@dataclass(frozen=True, slots=True)
class Target:
    """Bounds of the torch version that a script runs on; both may be unknown."""

    known: Version | None = None
    """The script runs on this version or a later one."""
    below: Version | None = None
    """The script runs on a version before this one."""
    source: str = ""
    """Where a file beside the script says so; empty where nothing is known, or the user said it."""
    unread: tuple[str, ...] = ()
    """What such files say of torch in words that are not understood, and where."""

    def allows(self, minimum: Version) -> bool:
        """Whether code that needs this version may be written."""
        if self.known is not None:
            return minimum <= self.known
        return minimum <= ASSUMED and (self.below is None or minimum < self.below)

    def reaches(self, version: Version) -> bool:
        """Whether the script is known to run on nothing older than this version."""
        return self.known is not None and self.known >= version

    def may_be(self, version: Version) -> bool:
        """Whether the script may be run on this version, as far as the oldest that is allowed says."""
        if self.known is not None:
            return self.known >= version
        return self.below is None or version < self.below


UNKNOWN = Target()
