"""What compiling does to scripts that run: each reason against it is shown by what happens without it.

All scripts run in one process, on the simulated device, whose ``torch.compile`` takes graphs down and runs them as
they are.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit import run

import autotune_rewrite
from codemods.rules.compile import Compile

pytestmark = pytest.mark.xdist_group("compiled scripts")  # the process in which they run serves all tests

HEAD = """\
import copy, io, pickle
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


"""
MODEL = "model = Net().to(device)\n"
COMPILED = 'if device.type == "cuda":\n    model.compile()\n'
TRAINING = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
answer = []
for x in torch.randn(4, 6, 8):
    loss = model(x.to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    answer.append(loss.item())
"""
KEPT = HEAD.replace(
    "        return self.second(F.relu(self.first(x)))",
    "        self.inner = self.first(x)\n        return self.second(F.relu(self.inner)), self.inner",
)
PARTS = """\
answer = []
for x in torch.randn(4, 6, 8, device=device):
    out, inner = model(x)
    {use}
    out.sum().backward(retain_graph=True)
    answer.append(float({answer}))
"""

CRASHES = {
    "gradients of gradients are computed": (
        HEAD
        + MODEL
        + """\
for x in torch.randn(4, 6, 8, device=device):
    x.requires_grad_()
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    slope.norm().backward()
answer = model.first.weight.grad.tolist()
""",
        "gradient penalty / second derivative through model (line 23)",
        "does not currently support double backward",
    ),
    "a gradient is asked for of one of its outputs": (
        KEPT
        + MODEL
        + PARTS.format(use="(slope,) = torch.autograd.grad(out.sum(), inner, retain_graph=True)", answer="slope.sum()"),
        "a gradient with respect to what is computed inside model: a compiled model has no graph there (line 25)",
        "appears to not have been used in the graph",
    ),
    "a gradient is asked for of what it kept": (
        KEPT
        + MODEL
        + PARTS.format(
            use="slope = torch.autograd.grad(out.sum(), model.inner, retain_graph=True)[0]", answer="slope.sum()"
        ),
        "a gradient with respect to what is computed inside model: a compiled model has no graph there (line 25)",
        "appears to not have been used in the graph",
    ),
    "the graph is kept in some iterations": (
        HEAD.replace("F.relu(self.first(x))", "torch.sigmoid(F.relu(self.first(x)))")
        + MODEL
        + TRAINING.replace("loss.backward()", "loss.backward(retain_graph=len(answer) > 1)"),
        "the graph of model is kept (line 26), which fails once a compiled backward has not kept it: give "
        "retain_graph=True to the first backward of each iteration",
        "non-empty donated buffers",
    ),
    "a gradient is asked for of what a hook kept": (
        HEAD
        + MODEL
        + """\
kept, answer = {}, []
model.first.register_forward_hook(lambda module, given, output: kept.update(inner=output))
for x in torch.randn(4, 6, 8, device=device):
    out = model(x)
    slope = torch.autograd.grad(out.sum(), kept["inner"], retain_graph=True)[0]
    out.sum().backward()
    answer.append(float(slope.sum()))
""",
        "a gradient with respect to what is computed inside model: a compiled model has no graph there (line 25)",
        "appears to not have been used in the graph",
    ),
    "the gradient of one of its outputs is kept": (
        KEPT + MODEL + PARTS.format(use="inner.retain_grad()", answer="inner.grad.sum()"),
        "a gradient with respect to what is computed inside model: a compiled model has no graph there (line 25)",
        "'NoneType' object has no attribute 'sum'",
    ),
    "it is traced when it has been trained": (
        HEAD + MODEL + TRAINING + "torch.jit.trace(model, x)\n",
        "torch.jit.trace() traces the model, which fails once it is compiled (line 29): trace a copy that is not compiled",
        "torch.jit.trace a dynamo-optimized function",
    ),
    "it is TorchScript": (
        HEAD + "net = Net().to(device)\nmodel = torch.jit.script(net)\n" + TRAINING,
        "torch.jit.script() has made TorchScript of it, which is not compiled again: remove that first",
        "compile is not supported on ScriptModules",
    ),
    "a grid is computed for batches of several sizes": (
        HEAD.replace(
            "        return self.second(F.relu(self.first(x)))",
            "        grid = F.affine_grid(self.first(x)[:, :6].view(-1, 2, 3), (len(x), 1, 2, 4))\n"
            "        return F.grid_sample(x.view(-1, 1, 2, 4), grid, align_corners=False)",
        )
        + MODEL
        + TRAINING.replace("torch.randn(4, 6, 8)", "torch.randn(21, 8).split(6)"),
        "forward calls torch.nn.functional.affine_grid, which fails compiled where batches differ in size (line 17)",
        "SymInt",
    ),
}
"""Scripts that run, why they are left, and how they fail when the model is compiled after all."""

COUNTING = HEAD.replace("return self.second", "self.calls += 1\n        return self.calls * self.second").replace(
    "        self.second =", "        self.calls = 0\n        self.second ="
)
USELESS = {
    "forward is called": (
        HEAD + MODEL + TRAINING.replace("model(", "model.forward("),
        "only __call__ is compiled, and the training calls forward() (line 24): call the model itself",
        "nothing is captured",
    ),
    "another method is called": (
        HEAD.replace("def forward", "def encode") + MODEL + TRAINING.replace("model(", "model.encode("),
        "only __call__ is compiled, and the training calls encode() (line 24): move that into forward()",
        "nothing is captured",
    ),
    "its class has its own way to be called": (
        HEAD.replace("    def forward", "    def __call__(self, x):\n        return self.forward(x)\n\n    def forward")
        + MODEL
        + TRAINING,
        "its class has a method __call__() of its own, which is not compiled",
        "nothing is captured",
    ),
    "it is recurrent": (
        HEAD.replace("nn.Linear(8, 8)", "nn.GRU(8, 8)", 1).replace("self.first(x)", "self.first(x)[0]")
        + MODEL
        + TRAINING,
        "RNN model: TorchDynamo does not trace torch.nn.GRU()",
        "the graph breaks",
    ),
    "forward reads a number out of a tensor": (
        HEAD.replace("return self.second", "return x.sum().item() * self.second") + MODEL + TRAINING,
        "forward has data-dependent Python: .item() (line 17)",
        "the graph breaks",
    ),
    "forward branches on a tensor": (
        HEAD.replace("return self.second", "if x.sum() > 0:\n            x = -x\n        return self.second")
        + MODEL
        + TRAINING,
        "forward has data-dependent Python: it branches on a tensor (line 17)",
        "the graph breaks",
    ),
    "forward makes an array": (
        HEAD.replace("return self.second", "return float(x.detach().numpy().max()) * self.second") + MODEL + TRAINING,
        "forward has data-dependent Python: .numpy() (line 17)",
        "the graph breaks",
    ),
    "forward prints": (
        HEAD.replace("return self.second", "print(x.shape)\n        return self.second") + MODEL + TRAINING,
        "forward prints (line 17)",
        "the graph breaks",
    ),
    "forward counts its calls": (
        COUNTING + MODEL + TRAINING.replace("0.1", "0.001"),
        "forward counts in self.calls, and each new value compiles it anew (line 18)",
        "it is captured again",
    ),
    "forward moves on in a ring": (
        COUNTING.replace("self.calls += 1", "self.calls = (self.calls + len(x)) % 64")
        + MODEL
        + TRAINING.replace("0.1", "0.001"),
        "forward counts in self.calls, and each new value compiles it anew (line 18)",
        "it is captured again",
    ),
}
"""Scripts that compiling does not help, why they are left, and what is seen when the model is compiled after all."""

LATE_HOOK = (
    HEAD
    + MODEL
    + TRAINING
    + "seen = []\nmodel.first.register_forward_hook(lambda *_: seen.append(1))\nmodel(x)\nanswer = len(seen)\n"
)
TAKEN = HEAD.replace("        self.second =", "        self.compile = False\n        self.second =") + MODEL + TRAINING

REPLICA = (
    HEAD
    + MODEL
    + """\
x = torch.randn(3, 8)
replica = model._replicate_for_data_parallel()
replica.second = nn.Linear(8, 8)
answer = torch.equal(replica(x), replica.second(F.relu(replica.first(x))))
"""
)
"""What ``nn.DataParallel`` does for each device in each iteration."""

WORKS = {
    "two backwards through one graph": TRAINING.replace(
        "loss.backward()", "loss.backward(retain_graph=True)\n    loss.backward()"
    ),
    "an attribute that is another number in each epoch": TRAINING.replace(
        "    loss = ", "    model.first.scale = len(answer) / 7\n    loss = "
    ),
    "evaluation in between": TRAINING.replace(
        "    answer.append",
        "    model.eval()\n    with torch.no_grad():\n        model(x)\n    model.train()\n    answer.append",
    ),
    "layers that are frozen on the way": TRAINING.replace(
        "    optimizer.zero_grad()", "    model.first.requires_grad_(len(answer) % 2 == 0)\n    optimizer.zero_grad()"
    ),
    "a last batch that is smaller": TRAINING.replace("torch.randn(4, 6, 8)", "torch.randn(22, 8).split(6)"),
    "first derivatives": TRAINING.replace("answer = []", "answer, slope = [], None").replace(
        "    optimizer.zero_grad()",
        "    y = x.clone().requires_grad_()\n    (slope,) = torch.autograd.grad(model(y).sum(), y)\n    optimizer.zero_grad()",
    ),
    "the whole model in a file, its pickle and its weights": TRAINING
    + "file = io.BytesIO()\ntorch.save(model, file)\nfile.seek(0)\n"
    + "for other in torch.load(file, weights_only=False), pickle.loads(pickle.dumps(model)):\n"
    + "    answer.append(float(other(x.to(device)).sum()))\nanswer.append(list(model.state_dict()))\n",
    "a copy that follows it": "mean = copy.deepcopy(model)\n"
    + TRAINING
    + "    for one, other in zip(mean.parameters(), model.parameters()):\n"
    + "        one.data.lerp_(other.data, 0.5)\n    answer.append(float(mean(x.to(device)).sum()))\n",
    "weights and hooks that are there before": "model.load_state_dict(Net().state_dict())\nseen = []\n"
    "model.first.register_forward_hook(lambda *_: seen.append(1))\n"
    "model.first.weight.register_hook(lambda each: each * 2)\n" + TRAINING + "answer.append(len(seen))\n",
    "runs that have to repeat": "torch.use_deterministic_algorithms(True)\n" + TRAINING,
}
"""What goes on as it was where the model is compiled: these are rewritten."""

GAN = """\
G, D = Net().to(device), Net().to(device)
steps = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (G, D)]
answer = []
for x in torch.randn(4, 6, 8, device=device):
    fake = G(x)
    real_loss = D(x).square().mean() + D(fake.detach()).square().mean()
    steps[1].zero_grad()
    real_loss.backward()
    steps[1].step()
    loss = (D(fake) - 1).square().mean()
    steps[0].zero_grad()
    loss.backward()
    steps[0].step()
    answer.append([loss.item(), real_loss.item()])
"""
NORMS = HEAD.replace("nn.Linear(8, 8)", "nn.utils.spectral_norm(nn.Linear(8, 8))", 1) + MODEL + TRAINING

DRIVER = """\
import contextlib
import json
import linecache
import sys
import types
import warnings

import torch
from autotune_rewrite.verify.child import simulated

torch.set_num_threads(1)
simulated.install("9.0")
warnings.simplefilter("ignore")  # of torch about itself: TorchScript, exports
counters = torch._dynamo.utils.counters


def outcome(text):
    torch._dynamo.reset()
    counters.clear()
    name = f"script {len(linecache.cache)}"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # TorchScript reads the source
    sys.modules["__main__"] = module = types.ModuleType("__main__")  # what pickles find classes in
    with contextlib.redirect_stdout(sys.stderr):
        try:
            exec(compile(text, name, "exec"), module.__dict__)
        except Exception as error:  # whatever the script raises is the outcome
            return str(error), 0, 0
    return module.answer, counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())


json.dump([outcome(text) for text in json.load(sys.stdin)], sys.stdout)
"""


def compiled(text: str) -> str:
    """The script with its model compiled, whatever stands against it."""
    line = next(each for each in text.splitlines(keepends=True) if each.startswith("model = "))
    return text.replace(line, line + "model.compile()\n")


def scripts() -> list[str]:
    """All that is run, each text once."""
    left = [each[0] for each in (*CRASHES.values(), *USELESS.values())] + [LATE_HOOK, TAKEN]
    rewritten = [HEAD + MODEL + each for each in WORKS.values()] + [HEAD + GAN, NORMS]
    texts = [
        *left,
        REPLICA,
        *map(compiled, (*left, REPLICA)),
        *rewritten,
        *(run(Compile, each).after for each in (*left, *rewritten)),
    ]
    return list(dict.fromkeys(texts))


@functools.cache
def outcomes() -> dict[str, tuple[Any, int, int]]:
    """For each script its answer, or what it raised; how many graphs were captured, and how many breaks they had."""
    texts = scripts()
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(autotune_rewrite.__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    return {text: tuple(each) for text, each in zip(texts, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize(("text", "because", "error"), CRASHES.values(), ids=CRASHES)
def test_it_is_left_where_compiled_it_would_fail_since(text: str, because: str, error: str) -> None:
    result = run(Compile, text)

    assert {site.message for site in result.sites} == {because}
    assert outcomes()[result.after] == outcomes()[text]
    assert not isinstance(outcomes()[text][0], str)
    assert error in outcomes()[compiled(text)][0]


@pytest.mark.parametrize(("text", "because", "seen"), USELESS.values(), ids=USELESS)
def test_it_is_left_where_compiling_does_not_help_since(text: str, because: str, seen: str) -> None:
    result = run(Compile, text)
    _, graphs, breaks = outcomes()[compiled(text)]

    assert {site.message for site in result.sites} == {because}
    assert outcomes()[result.after][1] == 0
    assert {
        "nothing is captured": graphs == 0,
        "the graph breaks": breaks > 0 or graphs != 1,
        "it is captured again": graphs > 1,
    }[seen]


def test_hooks_that_come_later_would_not_run() -> None:
    result = run(Compile, LATE_HOOK)
    because = "a compiled model ignores hooks that are added after its first call (line 30)"

    assert {site.message for site in result.sites} == {because}
    assert (outcomes()[result.after][0], outcomes()[compiled(LATE_HOOK)][0]) == (1, 0)


def test_replicas_would_call_the_model_that_they_were_copied_from() -> None:
    result = run(Compile, HEAD + "model = nn.DataParallel(Net().to(device))\n" + TRAINING)
    because = "nn.DataParallel copies the model in each iteration: convert to DistributedDataParallel first"

    assert {site.message for site in result.sites} == {because}
    assert (outcomes()[REPLICA][0], outcomes()[compiled(REPLICA)][0]) == (True, False)


def test_an_attribute_of_the_name_compile_is_not_called() -> None:
    result = run(Compile, TAKEN)

    assert "compiled_model = torch.compile(model) if device.type" in result.after
    assert outcomes()[result.after][:2] == (pytest.approx(outcomes()[TAKEN][0], rel=1e-5), 1)
    assert "'bool' object is not callable" in outcomes()[compiled(TAKEN)][0]


@pytest.mark.parametrize("rest", WORKS.values(), ids=WORKS)
def test_compiled_in_place_it_goes_on_with(rest: str) -> None:
    result = run(Compile, HEAD + MODEL + rest)
    before, after = outcomes()[HEAD + MODEL + rest], outcomes()[result.after]

    assert COMPILED in result.after
    assert after[1] > before[1] == 0
    assert after[2] == 0
    numbers = [each for each in before[0] if not isinstance(each, list)]
    assert [each for each in after[0] if not isinstance(each, list)] == pytest.approx(numbers, rel=1e-4)
    assert [each for each in after[0] if isinstance(each, list)] == [
        each for each in before[0] if isinstance(each, list)
    ]


def test_both_models_of_a_gan_are_compiled_and_train_alike() -> None:
    result = run(Compile, HEAD + GAN)

    assert 'if device.type == "cuda":\n    G.compile()\n    D.compile()\n' in result.after
    for one, other in zip(outcomes()[result.after][0], outcomes()[HEAD + GAN][0], strict=True):
        assert one == pytest.approx(other, rel=1e-4)


def test_normalised_weights_are_compiled_and_train_alike() -> None:
    result = run(Compile, NORMS)

    assert COMPILED in result.after
    assert outcomes()[result.after][0] == pytest.approx(outcomes()[NORMS][0], rel=1e-4)
