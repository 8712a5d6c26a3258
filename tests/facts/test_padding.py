"""Are sequences padded to the longest of each batch."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.padding import pads_to_the_longest

HEAD = """\
import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
"""


def pads(text: str, **others: str) -> bool:
    return pads_to_the_longest(script(HEAD + text, **others))


def collate(longest: str) -> str:
    return f"def collate(batch):\n    n = {longest}\n    return n\nloader = DataLoader([1], 2, collate_fn=collate)\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("pad_sequence(batch)", id="by torch"),
        pytest.param("tokenizer(texts, padding=True)", id="by a tokenizer"),
        pytest.param("tokenizer(texts, padding='longest')", id="by a tokenizer, in words"),
        pytest.param(collate("max(len(each) for each in batch)"), id="by hand"),
        pytest.param(collate("max(map(len, batch))"), id="by hand, with map"),
        pytest.param(collate("len(max(batch, key=len))"), id="the length of the longest"),
        pytest.param(collate("torch.tensor([len(each) for each in batch]).max()"), id="a tensor of lengths"),
        pytest.param(
            "def collate(batch):\n    lengths = [len(each) for each in batch]\n    return max(lengths)\n"
            "loader = DataLoader([1], 2, collate_fn=collate)\n",
            id="lengths that have a name",
        ),
        pytest.param("for batch in batches:\n    n = max(len(each) for each in batch)", id="in a loop over batches"),
    ],
)
def test_sequences_are_padded(text: str) -> None:
    assert pads(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("tokenizer(texts, padding='max_length')", id="to a length that is fixed"),
        pytest.param("tokenizer(texts, padding=False)", id="not at all"),
        pytest.param("nn.Conv2d(3, 3, 3, padding=1)", id="of a convolution"),
        pytest.param("n = max(len(each) for each in texts)", id="to the longest of all"),
        pytest.param(collate("max(batch)"), id="the greatest number"),
        pytest.param(collate("max(each.score for each in batch)"), id="the greatest of something else"),
        pytest.param(
            "for batch in batches:\n    lengths = lengths\n    n = max(lengths)", id="a name that is given itself"
        ),
    ],
)
def test_nothing_is_padded(text: str) -> None:
    assert not pads(text)


def test_another_module_pads() -> None:
    other = "from torch.nn.utils.rnn import pad_sequence\ndef collate(batch):\n    return pad_sequence(batch)\n"

    assert pads("import other\n", other=other)
