"""How the parts of ``amp`` say that a training iteration is left as it is."""

from __future__ import annotations

NO_SCALER = "; --amp bf16 needs no scaler"
BF16_CAN = "; the bf16 form can do it"


class LeftError(Exception):
    """The iteration is left; the message is the reason, in the user's words."""
