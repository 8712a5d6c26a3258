"""What stands against compiling a model."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.obstacles import compiles_already, why_not_compiled

HEAD = """\
import torch
import torch.multiprocessing as mp
from torch import nn
class Net({base}):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
    def forward(self, x):
        {body}
        return self.two(self.one(x))
    {method}
model = {made}
{before}
for x in data:
    loss = model(x).sum()
    loss.backward({backward})
{after}
"""


def why(**parts: str) -> str | None:
    given = {
        "base": "nn.Module",
        "body": "pass",
        "method": "",
        "made": "Net().cuda()",
        "before": "",
        "backward": "",
        "after": "",
        **parts,
    }
    known = script(HEAD.format(**given))
    (trained,) = known.trained_models
    reason = why_not_compiled(known, trained)
    return None if reason is None else reason.code


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"made": "Net()"}, "no-cuda", id="it stays on the host"),
        pytest.param({"made": "nn.Linear(4, 4).cuda()"}, "nothing-to-gain", id="a single layer"),
        pytest.param({"made": "nn.DataParallel(Net()).cuda()"}, "data-parallel", id="in threads"),
        pytest.param({"made": "torch.jit.script(Net()).cuda()"}, "torchscript", id="TorchScript"),
        pytest.param({"base": "torch.jit.ScriptModule"}, "torchscript", id="a class of TorchScript"),
        pytest.param({"backward": "create_graph=True"}, "double-backward", id="differentiated twice"),
        pytest.param({"backward": "None, True, True"}, "double-backward", id="differentiated twice, by position"),
        pytest.param(
            {
                "after": "    for _ in range(3):\n        x.requires_grad_()\n        torch.autograd.grad(model(x).sum(), x)"
            },
            "input-gradient",
            id="a loop asks for gradients of its input alone",
        ),
        pytest.param({"method": "def __call__(self, x):\n        return x"}, "own-method", id="a call of its own"),
        pytest.param({"after": "torch.jit.trace(model, x)"}, "torchscript", id="traced afterwards"),
        pytest.param({"after": "mp.Process(target=f, args=(model,))"}, "other-process", id="another process"),
        pytest.param({"before": "torch.backends.cudnn.deterministic = True"}, "determinism", id="runs that repeat"),
        pytest.param(
            {
                "before": "torch.backends.cudnn.deterministic = True\ntorch.use_deterministic_algorithms(True)",
            },
            None,
            id="algorithms that repeat",
        ),
        pytest.param({"body": "print(x)"}, "graph-break", id="what is not traced"),
        pytest.param({"before": "step = torch.compile(f)"}, "done-already", id="it compiles already"),
    ],
)
def test_what_stands_against_it(parts: dict[str, str], code: str | None) -> None:
    assert why(**parts) == code


def test_what_cannot_be_mended_is_said_first() -> None:
    assert why(made="nn.DataParallel(Net()).cuda()", backward="create_graph=True") == "double-backward"


def test_a_framework_trains_it() -> None:
    text = HEAD.format(base="nn.Module", body="pass", method="", made="Net().cuda()", before="", backward="", after="")
    known = script(f"from accelerate import Accelerator\naccelerator = Accelerator()\n{text}")
    (trained,) = known.trained_models
    reason = why_not_compiled(known, trained)

    assert reason is not None
    assert reason.code == "framework"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\nf = torch.compile(g)\n", True),
        ("from torch import nn\nmodel = nn.Linear(3, 3)\nmodel.compile()\n", True),
        ("import re\nf = re.compile('x')\n", False),
        ("import torch\nprint('compile')\n", False),
    ],
)
def test_what_compiles_already(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert (compiles_already(script(text)) is not None) is expected
