"""Where trials run, where several can at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import Environment, Run


class Executor(Protocol):
    """Carries out plans, each as a whole in one place: what is compared runs on the same hardware."""

    @property
    def places(self) -> int:
        """How many plans can be carried out at once."""

    @property
    def hardware(self) -> Environment:
        """What each of these places is."""

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        """Carry out one plan, as ``tune.verified.Verify`` says."""

    def several(self, plans: Iterable[tuple[str, Plan]]) -> Iterator[tuple[str, Judgement]]:
        """Carry out plans, as many at once as there are places.

        Args:
            plans: Each with a name; one is taken from there as soon as there is a place for it.

        Yields:
            Names and what can be said, in the order in which the plans end.
        """
