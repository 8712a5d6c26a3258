"""What computes in fp16 under autocast whatever it is told: threads of replicas, and cuDNN's recurrent layers."""

from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, run

from codemods.codemod import Choices, Finding
from codemods.dataflow.source import Module
from codemods.editing import conflicts
from codemods.editing.apply import apply
from codemods.facts.script import Script
from codemods.rules.amp import Amp

IMPORTS = """\
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
STEP = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(6, 16, 5, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
CLASSIFIER = """\


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        output, state = self.rnn(x)
        return self.head(output[:, -1])


model = Net().to(device)
"""
SCRIPT = IMPORTS + CLASSIFIER + STEP
IN_FP16 = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
use_amp = device.type == "cuda"
scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
for x, y in zip(torch.randn(6, 16, 5, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def found(code: str, form: str) -> list[Finding]:
    return list(Amp(Choices(amp=form)).find(Script.of(Module("train.py", code))))  # type: ignore[arg-type]


def rewritten(code: str, form: str) -> str:
    script = Script.of(Module("train.py", code))
    accepted = conflicts.Accepted()
    for finding in found(code, form):
        assert accepted.add(finding.edits) is None
    return apply(script.module, accepted.edits)


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param(CLASSIFIER, id="an LSTM"),
        pytest.param(CLASSIFIER.replace("LSTM", "GRU"), id="a GRU"),
        pytest.param(CLASSIFIER.replace("LSTM", "RNN"), id="an RNN"),
        pytest.param(
            CLASSIFIER.replace("nn.LSTM(", "Drawn(").replace(
                "\n\nclass Net", "\n\nclass Drawn(nn.GRU):\n    pass\n\n\nclass Net", 1
            ),
            id="a layer derived from a GRU",
        ),
        pytest.param(
            CLASSIFIER.replace("output, state = self.rnn(x)", "output = self.rnn(x)").replace(
                "nn.LSTM(8, 16, batch_first=True)", "First()"
            ),
            id="an LSTM in a model in the model",
        ),
    ],
)
def test_recurrent_layers_get_fp16_and_its_scaler(layers: str) -> None:
    inner = """\


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 16, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0]
"""
    before = IMPORTS + (inner if "First()" in layers else "") + layers

    check_rewrites(Amp, before + STEP, before + IN_FP16)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("torch.histc(output, 4, 0, 1)", id="a function"),
        pytest.param("torch.polar(output, output).abs()", id="complex numbers"),
    ],
)
def test_what_has_no_kernel_on_cuda_is_left(call: str) -> None:
    model = "model = nn.Sequential(nn.Flatten(), nn.Linear(40, 4)).to(device)\n"
    lines = f"    output = model(x)\n    loss = F.cross_entropy(output, y) + {call}.sum()\n"
    code = IMPORTS + model + STEP.replace("    loss = F.cross_entropy(model(x), y)\n", lines)
    name = call.partition("(")[0]

    check_leaves(Amp, code, f"{name} has no 16-bit kernel (line 12)")


@pytest.mark.parametrize("cell", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_compute_in_the_format_that_is_asked_for(cell: str) -> None:
    code = SCRIPT.replace("nn.LSTM(8, 16, batch_first=True)", f"nn.{cell}(8, 16)")
    code = code.replace("output, state = self.rnn(x)", "output = self.rnn(x[:, 0])").replace("output[:, -1]", "output")

    assert "torch.bfloat16 if" in run(Amp, code).after


def test_recurrent_layers_beside_the_model_that_trains_do_not_count() -> None:
    code = IMPORTS + CLASSIFIER.replace("model = ", "other = ") + "model = nn.Linear(8, 4).to(device)\n" + STEP

    assert "torch.bfloat16 if" in run(Amp, code).after


def test_recurrent_layers_are_left_where_bf16_is_asked_for() -> None:
    (finding,) = found(SCRIPT, "bf16")

    assert not finding.rewrites
    assert finding.message == (
        "torch.nn.LSTM() (line 11) computes in fp16 where bf16 is asked for; --amp fp16 is right there"
    )
    assert rewritten(SCRIPT, "fp16") == IMPORTS + CLASSIFIER + IN_FP16


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        pytest.param(
            "optimizer.step()",
            "optimizer.step(lambda: None)",
            "optimizer.step() in line 26 is more than a plain statement; "
            "torch.nn.LSTM() (line 11) computes in fp16 where bf16 is asked for",
            id="no scaler goes around the step",
        ),
        pytest.param(
            "F.cross_entropy(model(x), y)",
            "F.binary_cross_entropy(model(x).sigmoid(), F.one_hot(y, 4).float())",
            "gradients of binary_cross_entropy of a sigmoid are no numbers in fp16 (line 24); return the logits and use "
            "its with_logits form",
            id="the loss has no gradients in fp16",
        ),
        pytest.param(
            "self.head(output[:, -1])",
            "torch.fft.fft(self.head(output[:, -1])).abs()",
            "torch.fft.fft has no 16-bit kernel (line 16)",
            id="nothing in 16 bits would do",
        ),
    ],
)
def test_recurrent_layers_that_cannot_have_fp16_are_left(old: str, new: str, because: str) -> None:
    check_leaves(Amp, SCRIPT.replace(old, new), because)


@pytest.mark.parametrize(
    ("import_", "call", "name"),
    [
        ("", "nn.parallel.data_parallel(model, x)", "data_parallel()"),
        ("from torch.nn.parallel import data_parallel\n", "data_parallel(model, x, [0, 1])", "data_parallel()"),
        (
            "from torch.nn.parallel.data_parallel import data_parallel\n",
            "data_parallel(model, x, [0, 1])",
            "data_parallel()",
        ),
        ("from torch.nn.parallel import parallel_apply\n", "parallel_apply([model], [x])[0]", "parallel_apply()"),
    ],
)
def test_functions_that_run_replicas_are_like_data_parallel(import_: str, call: str, name: str) -> None:
    model = "model = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)\n"
    code = IMPORTS + import_ + model + STEP.replace("model(x)", f"({call})").replace("(6, 16, 5, 8)", "(6, 16, 40)")
    (finding,) = found(code, "bf16")

    assert finding.message.startswith(f"{name} (line 1")
    assert finding.message.endswith(") computes in fp16 where bf16 is asked for; --amp fp16 is right there")
    assert "bfloat16" not in rewritten(code, "auto")
