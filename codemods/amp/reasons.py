"""How the parts of ``amp`` say that a training iteration is left as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.facts.reason import Reason

if TYPE_CHECKING:
    from codemods.facts.reason import Place

NO_SCALER = "--amp bf16 needs no scaler"
BF16_CAN = "the bf16 form can do it"
"""Remedies where fp16 alone is refused."""


class LeftError(Exception):
    """The iteration is left, with the reason."""

    def __init__(self, code: str, text: str, *places: Place, remedy: str = "") -> None:
        """The parts of the reason."""
        super().__init__(text)
        self.reason = Reason(code, text, places, remedy)

    @classmethod
    def of(cls, reason: Reason) -> LeftError:
        """The iteration is left with a reason that is there already."""
        return cls(reason.code, reason.text, *reason.places, remedy=reason.remedy)


def in_fp16(reason: Reason | None) -> Reason:
    """Why a site that is left has no fp16, without what bf16 could do."""
    assert reason is not None  # noqa: S101 - only sites that are left get here; for the type checker
    return reason._replace(text=reason.cause.text, remedy="") if reason.remedy in {NO_SCALER, BF16_CAN} else reason
