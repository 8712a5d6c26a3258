"""The scaler's state in checkpoints: where the optimizer's stands, and nowhere else."""

from __future__ import annotations

import pytest
from kit import run

from codemods.rules.amp import Amp

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
TRAINING = """\
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


def after_training(lines: str) -> str:
    """What becomes of these lines below a training that gets a scaler."""
    result = run(Amp, HEAD + TRAINING + lines)
    _, update, rest = result.after.partition("    scaler.update()\n")

    assert update, [site.message for site in result.sites]
    compile(result.after, "train.py", "exec")
    return rest


@pytest.mark.parametrize(
    ("optimizer", "scaler"),
    [
        pytest.param("optimizer", "scaler", id="its name"),
        pytest.param("optim", "scaler", id="its name cut short"),
        pytest.param("opt_state", "scaler_state", id="its state"),
        pytest.param("optimizer_state_dict", "scaler_state_dict", id="its state_dict"),
        pytest.param("optimizer_G", "scaler", id="its name and whose it is"),
        pytest.param("optimal", "scaler", id="a word that only begins like it"),
    ],
)
def test_it_is_saved_under_a_name_like_the_optimizer_s(optimizer: str, scaler: str) -> None:
    saved = f'torch.save({{"net": model.state_dict(), "{optimizer}": optimizer.state_dict()}}, "last.pt")\n'

    assert after_training(saved) == saved.replace(
        "optimizer.state_dict()}", f'optimizer.state_dict(), "{scaler}": scaler.state_dict()}}'
    )


@pytest.mark.parametrize(
    "saved",
    [
        pytest.param('torch.save(optimizer.state_dict(), "last.pt")\n', id="a file of its own"),
        pytest.param('torch.save({"optimizer": optimizer.state_dict()}, "last.pt")\n', id="a dictionary of its own"),
        pytest.param(
            'key = "optimizer"\ntorch.save({"net": model.state_dict(), key: optimizer.state_dict()}, "last.pt")\n',
            id="a name that is computed",
        ),
        pytest.param(
            'torch.save({"net": model.state_dict(), 0: optimizer.state_dict()}, "last.pt")\n',
            id="a name that is no text",
        ),
    ],
)
def test_it_is_not_saved_where_it_has_no_place(saved: str) -> None:
    assert after_training(saved) == saved


def test_of_several_optimizers_it_is_saved_beside_the_first() -> None:
    saved = 'torch.save({"opt_a": optimizer.state_dict(), "net": model.state_dict(), "opt_b": optimizer.state_dict()}, "a")\n'

    assert after_training(saved).count("scaler.state_dict()") == 1


def test_it_is_loaded_where_a_checkpoint_has_it() -> None:
    loaded = 'checkpoint = torch.load("last.pt")\noptimizer.load_state_dict(checkpoint["optimizer"])\n'

    assert after_training(loaded) == (
        f'{loaded}if checkpoint.get("scaler"):\n    scaler.load_state_dict(checkpoint["scaler"])\n'
    )


@pytest.mark.parametrize(
    "loaded",
    [
        pytest.param('optimizer.load_state_dict(torch.load("last.pt"))\n', id="a file of its own"),
        pytest.param('optimizer.load_state_dict(torch.load("last.pt")["optimizer"])\n', id="a file that is read there"),
        pytest.param(
            'state = torch.load("last.pt")\nkey = "optimizer"\noptimizer.load_state_dict(state[key])\n',
            id="a name that is computed",
        ),
        pytest.param('state = torch.load("last.pt")\noptimizer.load_state_dict(state[0])\n', id="a number"),
    ],
)
def test_it_is_not_loaded_where_it_is_not_seen(loaded: str) -> None:
    assert after_training(loaded) == loaded


def test_a_function_that_cannot_name_the_scaler_saves_none() -> None:
    save = (
        "def save(model, optimizer):\n"
        '    torch.save({"net": model.state_dict(), "opt": optimizer.state_dict()}, "last.pt")\n'
    )
    main = "def main():\n" + "".join(f"    {line}\n" for line in (HEAD + TRAINING).partition("\n\n")[2].splitlines())
    code = HEAD.partition("\n\n")[0] + f"\n\n{save}\n{main}    save(model, optimizer)\n\n\nmain()\n"

    result = run(Amp, code).after

    assert "scaler.update()" in result
    assert "scaler.state_dict()" not in result
