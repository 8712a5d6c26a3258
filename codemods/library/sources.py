"""Where the figures that were measured on a GPU stand."""

from __future__ import annotations

_FACTS = "fixtures/results/h100-torch2.11/stage-4.jsonl"


def measured(fact: str) -> str:
    """The source of what a fact of the GPU half-hour says: ``fixtures/results/README.md`` has the command."""
    return f"{_FACTS}#{fact}"
