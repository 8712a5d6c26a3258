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
    """Where the script or a file beside it says so; empty where nothing is known, or the user said it."""
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

    def narrowed(self, demanded: Target) -> Target:
        """The same for a script that demands something of torch itself; what the user said stands above that."""
        if self.known is not None and not self.source:
            return self
        known = [each for each in (self.known, demanded.known) if each is not None]
        below = [each for each in (self.below, demanded.below) if each is not None]
        return Target(max(known, default=None), min(below, default=None), demanded.source or self.source, self.unread)


UNKNOWN = Target()
