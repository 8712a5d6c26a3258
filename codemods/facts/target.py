"""The torch that a script is known to run on, and who says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codemods.facts.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

Version: TypeAlias = "tuple[int, int]"

ASSUMED: Version = (2, 4)
"""What an unknown target counts as when code needs a minimum."""


_SECOND: Version = (2, 0)

OLDER = "older-torch"
"""The code of the reason for which sites are left where torch may be too old."""


class Target(NamedTuple):
    """Bounds of the torch version that a script runs on; both may be unknown."""

    known: Version | None = None
    """The script runs on this version or a later one."""
    below: Version | None = None
    """The script runs on a version before this one."""
    source: str = ""
    """Where the script or a file beside it says so; empty where nothing is known, or the user said it."""
    unread: tuple[str, ...] = ()
    """What such files say of torch in words that are not understood, and where."""
    spoken_of: str = ""
    """Where other files speak of a torch, if none asks for one."""

    @property
    def is_silent(self) -> bool:
        """Whether nothing is said of torch, be it understood or not."""
        return self.known is None and self.below is None and not self.unread

    def allows(self, minimum: Version) -> bool:
        """Whether code that needs this version may be written."""
        if self.known is not None:
            return minimum <= self.known
        return minimum <= ASSUMED and (self.below is None or minimum < self.below)

    def why_too_old(self, minimum: Version, what: str = "") -> Reason:
        """The reason for which sites are left where code that needs this version may not be written.

        Args:
            minimum: The version.
            what: What it is that needs it, unless that is the rewritten code.
        """
        version, source = ".".join(map(str, minimum)), self.source
        said_by, otherwise = (f" ({source})", f": {source} says otherwise") if source else ("", "")
        text = f"{what} needs torch {version}, and the script may run on an older one{said_by}".lstrip()
        return Reason(OLDER, text, remedy=f"say --target-torch {version}, if it runs on no older one{otherwise}")

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
        return self._replace(
            known=max(known, default=None),
            below=min(below, default=None),
            source=demanded.source or self.source,
        )


UNKNOWN = Target()


def weakest(targets: Sequence[Target]) -> Target:
    """What holds whichever of the targets is the one; an old torch that one of them pins counts."""
    bound = [each for each in targets if each.known is not None]
    below = [each.below for each in targets if each.below is not None]
    oldest = min(bound, key=lambda each: each.known or _SECOND, default=UNKNOWN)
    decides = len(bound) == len(targets) or (oldest.known or _SECOND) < _SECOND
    highest = max(below) if below and len(below) == len(targets) else None
    source = oldest.source if decides else next((each.source for each in targets if highest and each.source), "")
    unread = tuple(dict.fromkeys(one for each in targets for one in each.unread))
    spoken_of = next((each.spoken_of for each in targets if each.spoken_of), "")
    return Target(oldest.known if decides else None, highest, source, unread, spoken_of)
