"""A search for the changes that have to go so that the rest is fine, which asks as rarely as it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class NotFoundError(Exception):
    """No change can be blamed; the message says why, in a sentence."""


def culprits(rules: Sequence[str], fails: Callable[[frozenset[str]], bool]) -> frozenset[str]:
    """Finds rules that have to go so that the rest does not fail, none of them needlessly.

    It isolates one rule by delta debugging (A. Zeller, "Yesterday, my program worked. Today, it does not. Why?",
    1999), and looks whether the rest still fails without it. That takes 2 + log2(n) questions for one rule of n.

    Args:
        rules: All of them are known to have failed together. Of rules that fail only together the last one goes.
        fails: Whether a script with the changes of these rules alone fails. What it says is taken to be so for more
            rules, too, where they fail, and for fewer, where they do not.

    Raises:
        NotFoundError: All rules together do not fail again, or it fails with no rule at all, too.
    """
    failing: list[frozenset[str]] = []
    passing: list[frozenset[str]] = []

    def known(some: frozenset[str]) -> bool:
        if any(each <= some for each in failing):
            return True
        if any(some <= each for each in passing):
            return False
        failed = fails(some)
        (failing if failed else passing).append(some)
        return failed

    everything = frozenset(rules)
    if not known(everything):
        raise NotFoundError("The fault did not show again, so no change can be blamed.")
    out: frozenset[str] = frozenset()
    while known(everything - out):
        if out and known(frozenset()):
            raise NotFoundError("The fault shows without any change, too, so none can be blamed.")
        out |= {_isolated([rule for rule in rules if rule not in out], known)}
    # Each of them is the last of rules that fail together; those that were found later stand behind it, so that without
    # it these would still fail: none goes needlessly.
    return out


def _isolated(rules: Sequence[str], fails: Callable[[frozenset[str]], bool]) -> str:
    """The last rule of the shortest beginning that fails; all together are known to fail."""
    fine: list[str] = []
    suspects = list(rules)
    while len(suspects) > 1:
        middle = len(suspects) // 2
        first, second = suspects[:middle], suspects[middle:]
        if fails(frozenset(fine + first)):
            suspects = first
        else:
            fine += first
            suspects = second
    return suspects[0]
