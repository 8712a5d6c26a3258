"""The loop of the scripts in which ``defer-sync`` is tried."""

from __future__ import annotations

ITERATION = """\
for i, (x, y) in enumerate(batches):
    x, y = x.to(device), y.to(device)
    out = model(x)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def indented(text: str, by: int) -> str:
    """The lines of a text, each so many spaces further in."""
    return "".join(f"{' ' * by}{each}\n" for each in text.splitlines())
