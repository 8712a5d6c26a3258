"""The whole scripts that the tool is held against, in ``fixtures/``, and the arguments that keep their training short."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.gpu import scripts as sized

FIXTURES = Path(__file__).parent.parent / "fixtures"


@dataclass(frozen=True, slots=True)
class Fixture:
    """A naive script, its golden rewrite and the golden report beside it."""

    name: str
    arguments: tuple[str, ...]
    """What keeps the training short where the script offers it."""
    backwards: int
    """How often the script calls ``backward`` when it is run with these arguments."""

    @property
    def rounds(self) -> bool:
        """Whether the golden rewrite rounds otherwise on a CPU, too: it computes attention by one function."""
        return "scaled_dot_product_attention" in self.text("fast.py")

    @property
    def folder(self) -> Path:
        """Where the scripts stand."""
        return FIXTURES / self.name

    def text(self, file: str) -> str:
        """The text of one of its files, newlines as they are."""
        return (self.folder / file).read_bytes().decode()


# 1500 images are 30 iterations an epoch in batches of 50, and 24 in batches of 64.
SMALL = (
    Fixture("digits_cnn", (), 5 * 30),
    Fixture("digits_args", ("--epochs", "2"), 2 * 30),
    Fixture("digits_trainer", ("--epochs", "2"), 2 * 30 + 6 * 3),  # the attack: 3 for each of its 6 batches
    Fixture("digits_feedforward", (), 5 * 24),
    Fixture("digits_gan", ("--n_epochs", "2"), 2 * 24 * 2),
    Fixture("text_transformer", (), 50 * 4),  # gradients of 4 batches are accumulated
    Fixture("series_lstm", (), 5 * 19),  # 1280 numbers have 1245 windows
    Fixture("digits_finetune", ("--epochs", "2"), 2 * 30),
)
"""Small by themselves: a GPU has hardly anything to do."""
SIZED = tuple(Fixture(script.name, script.small.arguments, script.small.backwards) for script in sized.SCRIPTS)
"""As large as a GPU likes them by their own arguments."""
ALL = (*SMALL, *SIZED)
