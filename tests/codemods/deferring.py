"""The scripts in which ``defer-sync`` is tried: their loop, and a meter that it tells numbers."""

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
METER = """\
class Meter:
    def __init__(self, name=""):
        self.name = name
        self.reset()

    def reset(self):
        self.value, self.sum, self.count, self.mean = 0, 0, 0, 0
        self.all = []

    def update(self, value, n=1):
        self.value = value
        self.sum += value * n
        self.count += n
        self.mean = self.sum / self.count
        self.all.append(float(value))

    def __str__(self):
        return f"{self.name}: {self.mean} {self.all}"
"""
HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(6, 3).to(device)
criterion = nn.CrossEntropyLoss(reduction="mean")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(4 + i % 3, 6), torch.randint(3, (4 + i % 3,))) for i in range(7)]
kept = []


"""


def indented(text: str, by: int) -> str:
    """The lines of a text, each so many spaces further in."""
    return "".join(f"{' ' * by}{each}\n" for each in text.splitlines())


def meter_script(start: str, inside: str, end: str, meter: str = METER) -> str:
    """A function whose loop tells a meter: what stands before it, in it, and after it."""
    body = indented(f"{start}\n{ITERATION}", 4) + indented(inside, 8) + indented(end, 4)
    return f"{HEAD}{meter}\n\ndef train():\n{body}\n\nprint(train(), kept)\n"
