"""``data_parallel(model, x)``, the function, runs a model in threads as ``nn.DataParallel`` does, and is named."""

from __future__ import annotations

import pytest
from kit import check_leaves

from codemods.rules.amp import Amp
from codemods.rules.compile import Compile

SCRIPT = """\
import torch
from torch import nn
IMPORT

model = nn.Sequential(nn.Linear(80, 1024), nn.ReLU(), nn.Linear(1024, 1024)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(100, 64, 80), torch.randn(100, 64, 1024)):
    optimizer.zero_grad()
    outputs = CALL(model, x.cuda(), [0, 1])
    loss = nn.functional.mse_loss(outputs, y.cuda())
    loss.backward()
    optimizer.step()
"""
CALLS = [
    pytest.param("from torch.nn.parallel import data_parallel", "data_parallel", id="imported"),
    pytest.param("import torch.nn.parallel", "nn.parallel.data_parallel", id="by its full name"),
]


@pytest.mark.parametrize(("imported", "call"), CALLS)
def test_mixed_precision_is_left_for_it(imported: str, call: str) -> None:
    because = (
        "data_parallel() runs the model in threads (line 9), which compute in fp16 whatever autocast is told: "
        "use DistributedDataParallel"
    )

    check_leaves(Amp, SCRIPT.replace("IMPORT", imported).replace("CALL", call), because)


@pytest.mark.parametrize(("imported", "call"), CALLS)
def test_it_is_not_compiled(imported: str, call: str) -> None:
    because = "data_parallel() copies the model in each iteration (line 9): convert to DistributedDataParallel first"

    check_leaves(Compile, SCRIPT.replace("IMPORT", imported).replace("CALL", call), because)
