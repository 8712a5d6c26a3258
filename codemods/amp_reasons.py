"""How the parts of ``amp`` say that a training iteration is left as it is."""

from __future__ import annotations


class LeftError(Exception):
    """The iteration is left; the message is the reason, in the user's words."""
