"""The scaler's state in checkpoints: saved and loaded beside the optimizer's, or neither of both."""

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
SAVED = 'torch.save({"net": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")\n'
LOADED = 'checkpoint = torch.load("last.pt")\noptimizer.load_state_dict(checkpoint["optimizer"])\n'
ALSO_LOADED = 'if checkpoint.get("scaler"):\n    scaler.load_state_dict(checkpoint["scaler"])\n'


def also_saved(saved: str, key: str = "scaler") -> str:
    return saved.replace("optimizer.state_dict()}", f'optimizer.state_dict(), "{key}": scaler.state_dict()}}')


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
        pytest.param("sgd", "scaler", id="another word"),
    ],
)
def test_it_is_kept_under_a_name_like_the_optimizer_s(optimizer: str, scaler: str) -> None:
    saved, loaded = (each.replace('"optimizer"', f'"{optimizer}"') for each in (SAVED, LOADED))

    assert after_training(saved + loaded).replace(",\n            ", ", ") == (
        also_saved(saved, scaler) + loaded + ALSO_LOADED.replace('"scaler"', f'"{scaler}"')
    )


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(SAVED, id="nothing loads it"),
        pytest.param(LOADED, id="nothing saves it"),
        pytest.param(SAVED + LOADED.replace('["optimizer"]', '["optimizer_state"]'), id="other names"),
        pytest.param('torch.save(optimizer.state_dict(), "last.pt")\n' + LOADED, id="saved in a file of its own"),
        pytest.param(
            'torch.save({"optimizer": optimizer.state_dict()}, "last.pt")\n' + LOADED, id="a dictionary of its own"
        ),
        pytest.param('key = "optimizer"\n' + SAVED.replace('"optimizer":', "key:") + LOADED, id="a computed name"),
        pytest.param(SAVED.replace('"optimizer":', "0:") + LOADED, id="a name that is no text"),
        pytest.param(
            'states = {}\nstates["optimizer"] = optimizer.state_dict()\n' + LOADED, id="added to one of its own"
        ),
        pytest.param(
            SAVED + "state = make(net=model.state_dict(), optimizer=optimizer.state_dict())\n" + LOADED,
            id="saved twice, once where it cannot be added",
        ),
        pytest.param(SAVED + 'optimizer.load_state_dict(torch.load("last.pt"))\n', id="loaded as a whole file"),
        pytest.param(SAVED + 'optimizer.load_state_dict(torch.load("last.pt")["optimizer"])\n', id="loaded at once"),
        pytest.param(
            SAVED + 'state = torch.load("last.pt")\nkey = "optimizer"\noptimizer.load_state_dict(state[key])\n',
            id="loaded by a computed name",
        ),
        pytest.param(
            SAVED
            + LOADED
            + 'if checkpoint.get("optimizer"):\n    optimizer.load_state_dict(checkpoint.get("optimizer"))\n',
            id="loaded twice, once where it is not seen",
        ),
    ],
)
def test_it_is_neither_saved_nor_loaded(lines: str) -> None:
    assert after_training(lines) == lines


@pytest.mark.parametrize(
    ("saved", "also_saved"),
    [
        pytest.param(
            "state = dict(net=model.state_dict(), optimizer=optimizer.state_dict())\n",
            "state = dict(net=model.state_dict(), optimizer=optimizer.state_dict(), scaler=scaler.state_dict())\n",
            id="a call of dict",
        ),
        pytest.param(
            'state = {"net": model.state_dict()}\nstate["optimizer"] = optimizer.state_dict()\n',
            'state = {"net": model.state_dict()}\nstate["optimizer"] = optimizer.state_dict()\n'
            'state["scaler"] = scaler.state_dict()\n',
            id="added to a dictionary that is there",
        ),
        pytest.param(
            'state = {}\nstate["net"] = model.state_dict()\nstate["a"] = optimizer.state_dict()\n'
            'state["optimizer"] = optimizer.state_dict()\n',
            'state = {}\nstate["net"] = model.state_dict()\nstate["a"] = optimizer.state_dict()\n'
            'state["scaler"] = scaler.state_dict()\nstate["optimizer"] = optimizer.state_dict()\n',
            id="added one by one",
        ),
    ],
)
def test_it_is_saved_as_the_optimizer_is(saved: str, also_saved: str) -> None:
    assert after_training(saved + LOADED) == also_saved + LOADED + ALSO_LOADED


def test_of_several_optimizers_it_is_kept_beside_the_first() -> None:
    saved = (
        'torch.save({"a": optimizer.state_dict(), "net": model.state_dict(), "b": optimizer.state_dict()}, "last.pt")\n'
    )
    loaded = (
        'state = torch.load("last.pt")\noptimizer.load_state_dict(state["a"])\noptimizer.load_state_dict(state["b"])\n'
    )
    after = after_training(saved + loaded)

    assert after.count("scaler.state_dict()") == 1
    assert after.count("scaler.load_state_dict(") == 1


MAIN = """\


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    RESUME
    for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    SAVE


main()
"""
IMPORTS = HEAD.partition("\n\n")[0] + "\n"
SAVE = """\


def save(path, model, optimizer, epoch):
    torch.save({"net": model.state_dict(), "opt": optimizer.state_dict(), "epoch": epoch}, path)
"""
RESUME = """\


def resume(path, model, optimizer):
    checkpoint = torch.load(path)
    model.load_state_dict(checkpoint["net"])
    optimizer.load_state_dict(checkpoint["opt"])
    return checkpoint["epoch"]
"""
RESUMED_HERE = 'state = torch.load("last.pt")\n    optimizer.load_state_dict(state["opt"])'
SAVED_HERE = 'torch.save({"net": model.state_dict(), "opt": optimizer.state_dict()}, "last.pt")'


def program(helpers: str, resume: str, save: str) -> str:
    return IMPORTS + helpers + MAIN.replace("RESUME", resume).replace("SAVE", save)


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        pytest.param(
            program(SAVE, RESUMED_HERE, 'save("last.pt", model, optimizer, 3)'),
            ["def save(path, model, optimizer, epoch, scaler):", 'save("last.pt", model, optimizer, 3, scaler=scaler)'],
            id="a function saves",
        ),
        pytest.param(
            program(RESUME, 'start = resume("last.pt", model, optimizer)', SAVED_HERE),
            ["def resume(path, model, optimizer, scaler):", 'resume("last.pt", model, optimizer, scaler=scaler)'],
            id="a function loads",
        ),
        pytest.param(
            program(SAVE + RESUME, 'resume("last.pt", model, optimizer)', 'save("last.pt", model, optimizer, epoch=3)'),
            ["def save(path, model, optimizer, epoch, scaler):", "def resume(path, model, optimizer, scaler):"],
            id="functions do both",
        ),
    ],
)
def test_functions_that_save_or_load_are_handed_the_scaler(code: str, lines: list[str]) -> None:
    after = run(Amp, code).after

    assert all(line in after for line in lines)
    assert after.count('"scaler": scaler.state_dict()') == 1
    assert after.count("scaler.load_state_dict(") == 1
    assert "amp_dtype = " in after.partition("def main():")[2]
    assert "amp_dtype" not in after.partition("def main():")[0]
    assert run(Amp, after).after == after


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            program(SAVE, RESUMED_HERE, 'for write in [save]:\n        write("last.pt", model, optimizer, 3)'),
            id="the function is handed on",
        ),
        pytest.param(program(SAVE, "pass", 'save("last.pt", model, optimizer, 3)'), id="nothing loads"),
    ],
)
def test_where_one_end_cannot_see_the_scaler_neither_has_it(code: str) -> None:
    after = run(Amp, code).after

    assert "scaler.update()" in after
    assert "scaler.state_dict()" not in after
    assert "scaler.load_state_dict" not in after
    assert "scaler=scaler" not in after
