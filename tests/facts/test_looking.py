"""Are the images and labels of a data set only looked at?"""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.looking import is_only_looked_at

HEAD = """\
import collections
import random
import numpy as np
import torch
import matplotlib.pyplot as plt
from torchvision import datasets
data = datasets.MNIST("data")
names = ["zero", "one"]
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("print(data.targets[0])", True, id="printed"),
        pytest.param("print(f'{data.targets}', data.targets.shape[0])", True, id="formatted"),
        pytest.param("counts = torch.bincount(data.targets); counts[0] += 1", True, id="counted"),
        pytest.param("counts = collections.Counter(data.targets.tolist())", True, id="counted, as a list"),
        pytest.param("plt.imshow(data.targets[3].view(28, 28), cmap='gray')", True, id="drawn"),
        pytest.param("print(names[data.targets[0]], data.targets == 3)", True, id="an index, compared"),
        pytest.param("print([int(i) + 0 for i in data.targets if i > 2])", False, id="handed to what is not known"),
        pytest.param("for i, label in enumerate(data.targets):\n    print(i, label)", True, id="one by one"),
        pytest.param("for label in data.targets:\n    label.zero_()", False, id="one by one, written to"),
        pytest.param("labels = data.targets\nprint(labels.float().mean())", True, id="under another name"),
        pytest.param("labels = data.targets\nlabels[0] = 1", False, id="under another name, an item"),
        pytest.param("labels = data.targets\nlabels += 1", False, id="under another name, added to"),
        pytest.param("labels = data.targets.clone()\nlabels[0] = 1", True, id="a copy"),
        pytest.param("labels = data.targets.long()\nlabels[0] = 1", False, id="of the same format already"),
        pytest.param("labels = data.targets.numpy()\nlabels[0] = 1", False, id="an array of the same memory"),
        pytest.param("data.targets.view(-1).zero_()", False, id="a view"),
        pytest.param("data.targets[0] = 1", False, id="an item"),
        pytest.param("random.shuffle(data.targets)", False, id="shuffled"),
        pytest.param("torch.add(data.targets, 1, out=data.targets)", False, id="out="),
        pytest.param("data.targets.extra = 3", False, id="a field of its own"),
        pytest.param("class Keeper:\n    def __init__(self):\n        self.x = data.targets", False, id="kept"),
    ],
)
def test_who_writes(text: str, *, expected: bool) -> None:
    known = script(HEAD + text)
    found = [each for each in known.module.nodes(ast.Attribute) if each.attr == "targets"]

    assert all(is_only_looked_at(known, known.module, each) for each in found) is expected
