"""``amp`` and ``compile`` where the training loop, its model and its step stand in several files of a project.

Each file is asked for in turn: what is rewritten is in that file, and names nothing that the file does not have.
"""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

import pytest

from codemods.codemod import Choices
from codemods.dataflow.source import Module
from codemods.editing import conflicts
from codemods.editing.apply import apply
from codemods.facts.script import Script
from codemods.rules.amp import Amp
from codemods.rules.compile import Compile
from codemods.rules.zero_grad_none import ZeroGradNone

if TYPE_CHECKING:
    from codemods.codemod import AmpForm, Codemod

MODELS = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.first(x).relu())


def build():
    return Net()
"""
TRAIN = """\
import torch
from torch import nn
from engine import train_one_epoch
from models import build

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = build().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = list(zip(torch.randn(3, 6, 8), torch.randint(4, (3, 6))))
for epoch in range(3):
    train_one_epoch(model, batches, optimizer, nn.CrossEntropyLoss(), device)
"""
ENGINE = """\
import torch


def train_one_epoch(model, loader, optimizer, criterion, device):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
"""
STEP = """\
def step(model, x):
    loss = model(x).mean()
    loss.backward()
    return loss
"""
STEPPING = """\
import torch
from models import build
from steps import step

model = build().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(4, 6, 8).cuda():
    optimizer.zero_grad()
    step(model, x)
    optimizer.step()
"""
PROJECT = {"train": TRAIN, "engine": ENGINE, "models": MODELS}


def asked(
    rule: type[Codemod], name: str, files: dict[str, str], form: AmpForm = "auto"
) -> tuple[str, list[tuple[int, str]]]:
    """What the rule makes of one of the files, and the lines and messages of its findings there."""
    modules = {each: Module(f"{each}.py", text, each) for each, text in files.items()}
    entry = modules.pop(name)
    accepted = conflicts.Accepted()
    found = list(rule(Choices(amp=form)).find(Script.of(entry, others=list(modules.values()))))
    for finding in found:
        assert entry.holds(finding.node)
        assert all(each.module is entry for each in finding.edits)
        assert accepted.add(finding.edits) is None
    after = apply(entry, accepted.edits) if accepted.edits else entry.text
    ast.parse(after)
    lines = [(entry.statement(each.node).lineno, each.message) for each in found]
    return after, lines


def test_a_helper_gets_bf16_as_its_callers_would_have_to_pass_a_scaler() -> None:
    after, [(line, message)] = asked(Amp, "engine", PROJECT)

    assert line == 9
    assert message.endswith("as in fp16 train_one_epoch() is called in train.py, which would have to pass the scaler")
    assert after == ENGINE.replace(
        "    for x, y",
        '    use_amp = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 8\n    for x, y',
    ).replace(
        "        loss = criterion(model(x), y)\n",
        """\
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=use_amp):
            loss = criterion(model(x), y)
""",
    )


def test_a_helper_is_left_in_fp16() -> None:
    after, [(_, message)] = asked(Amp, "engine", PROJECT, "fp16")

    assert after == ENGINE
    reason = "train_one_epoch() is called in train.py, which would have to pass the scaler"
    assert message == f"{reason}; --amp bf16 needs no scaler"


@pytest.mark.parametrize("name", ["train", "models"])
def test_a_backward_is_a_site_of_its_own_file_alone(name: str) -> None:
    assert asked(Amp, name, PROJECT) == (PROJECT[name], [])


def test_a_model_is_compiled_where_it_is_put_on_its_device() -> None:
    after, [(line, _)] = asked(Compile, "train", PROJECT)

    assert line == 7
    assert 'build().to(device)\nif device.type == "cuda":\n    model.compile()\n' in after
    assert asked(Compile, "engine", PROJECT) == (ENGINE, [])
    assert asked(Compile, "models", PROJECT) == (MODELS, [])


def test_a_step_in_another_file() -> None:
    files = {"train": STEPPING, "steps": STEP, "models": MODELS}
    after, [(line, message)] = asked(Amp, "steps", files)

    assert line == 3
    assert message.endswith("as in fp16 the optimizer steps in another file")
    assert after == "import torch\n\n\n" + STEP.replace(
        "    loss = model(x).mean()\n",
        """\
    use_amp = torch.cuda.get_device_capability()[0] >= 8
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=use_amp):
        loss = model(x).mean()
        loss = loss.float()
""",
    )


def test_a_device_of_another_file_is_not_named() -> None:
    train = STEPPING.replace(".cuda()", ".to(device)").replace(
        "model =", 'device = "cuda:0" if torch.cuda.is_available() else "cpu"\nmodel ='
    )
    after, _ = asked(Amp, "steps", {"train": train, "steps": STEP, "models": MODELS}, "bf16")

    assert "device" not in after
    assert 'with torch.autocast("cuda", dtype=torch.bfloat16, enabled=torch.cuda.is_available()):' in after


ELSEWHERE = {
    "a hazard in a model": (
        MODELS.replace("self.first(x).relu()", "torch.fft.fft(self.first(x))").replace(
            "from torch", "import torch\nfrom torch"
        ),
        "torch.fft.fft has no 16-bit kernel (models.py, line 12)",
    ),
    "a model in 16 bits": (
        MODELS.replace("return Net()", "return Net().half()"),
        "manual half precision (models.py, line 15)",
    ),
    "mixed precision": (
        MODELS + "\n\ndef run(model, x):\n    with torch.autocast('cuda'):\n        return model(x)\n",
        "models.py uses mixed precision already; use it here as there",
    ),
    "replicas": (
        MODELS.replace("return Net()", "return nn.DataParallel(Net())"),
        "DataParallel (models.py, line 15) computes in fp16 where bf16 is asked for; --amp fp16 is right there",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_another_file_has_against_it(name: str) -> None:
    models, reason = ELSEWHERE[name]
    after, lines = asked(Amp, "engine", PROJECT | {"models": models}, "bf16")

    assert after == ENGINE
    assert lines == [(9, reason)]


NOT_COMPILED = {
    "branches": (
        "        if x.sum() > 0:\n            x = -x\n        return",
        "forward has data-dependent Python: it branches on a tensor (models.py, line 11)",
    ),
    "prints": ("        print(x)\n        return", "forward prints (models.py, line 11)"),
}


@pytest.mark.parametrize("name", NOT_COMPILED)
def test_what_a_model_of_another_file_has_against_being_compiled(name: str) -> None:
    code, reason = NOT_COMPILED[name]
    models = MODELS.replace("        return self.second", f"{code} self.second")
    # That it is a tensor is seen where the loop is.
    train = textwrap.dedent(
        """\
        import torch
        from models import build

        model = build().cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.randn(3, 6, 8).cuda():
            model(x).sum().backward()
            optimizer.step()
        """
    )
    assert asked(Compile, "train", {"train": train, "models": models}) == (train, [(4, reason)])


def test_another_file_compiles() -> None:
    models = MODELS.replace("return Net()", "return torch.compile(Net())").replace(
        "from torch", "import torch\nfrom torch"
    )
    files = PROJECT | {"models": models}

    assert asked(Compile, "models", files) == (models, [])
    assert asked(Compile, "train", files)[0] == TRAIN


def test_a_hook_that_another_file_adds() -> None:
    engine = ENGINE + "\n\ndef watch(model):\n    model.register_forward_hook(print)\n"
    after, [(_, message)] = asked(Compile, "train", PROJECT | {"engine": engine})

    assert after == TRAIN
    assert message == "a compiled model ignores hooks that are added after its first call (engine.py, line 15)"


def test_what_another_script_does_with_the_same_files_does_not_count() -> None:
    penalty = (
        "import torch\nfrom models import build\n\ntorch.autograd.grad(build()(torch.ones(8)), [], create_graph=True)\n"
    )
    modules = {each: Module(f"{each}.py", text, each) for each, text in (PROJECT | {"penalty": penalty}).items()}
    script = Script.of(modules["train"], others=[modules["engine"], modules["models"], modules["penalty"]])
    script.modules = script.modules[:3]

    (finding,) = Compile().find(script)
    assert finding.rewrites


def test_the_order_of_the_files_does_not_matter() -> None:
    modules = [Module(f"{each}.py", text, each) for each, text in PROJECT.items()]
    script = Script.of(modules[0], others=modules[1:]).seen_from(modules[1])

    (finding,) = Amp(Choices(amp="fp16")).find(script)
    reason = "train_one_epoch() is called in train.py, which would have to pass the scaler"
    assert finding.message == f"{reason}; --amp bf16 needs no scaler"


def test_a_method_of_a_base_in_another_file_reads_what_the_block_computes() -> None:
    base = "class Base:\n    def save(self, path):\n        self.output.detach().cpu().numpy().tofile(path)\n"
    trainer = """\
import torch
from base import Base


class Trainer(Base):
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model.cuda(), optimizer

    def fit(self, batches):
        for x in batches:
            self.optimizer.zero_grad()
            self.output = self.model(x.cuda())
            loss = self.output.square().mean()
            loss.backward()
            self.optimizer.step()
"""
    train = """\
import torch
from models import build
from trainer import Trainer

model = build()
Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1)).fit(torch.randn(4, 6, 8))
"""
    after, _ = asked(Amp, "trainer", {"train": train, "trainer": trainer, "base": base, "models": MODELS})

    assert "            self.output = self.output.float()\n" in after


HOOKED = """\
class Watched:
    def __init__(self, net):
        self.net = net
        self.watch()

    def watch(self):
        self.net.first.register_forward_hook(self.keep)

    def keep(self, _, __, output):
        self.kept = output.numpy()
"""


def test_hooks_that_nothing_makes_see_no_tensors() -> None:
    training = STEP + "\n\n" + STEPPING.replace("from steps import step\n", "")
    files = {"train": training, "models": MODELS, "hooks": HOOKED}
    watching = training.replace("model = build().cuda()", "model = build().cuda()\nWatched(model)")

    alone, _ = asked(Amp, "train", files | {"train": "import hooks\n" + training})
    watched, [(_, message)] = asked(Amp, "train", files | {"train": "from hooks import Watched\n" + watching})

    assert "torch.autocast" in alone
    assert "torch.autocast" not in watched
    assert message == "a forward hook would be given tensors in 16 bits (hooks.py, line 7)"


NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else x
"""
OF_NET = """\
import torch
from net import Net

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad(set_to_none=False)
    model(x).mean().backward()
    optimizer.step()
"""


def test_a_reason_names_the_file_in_which_the_model_is_defined() -> None:
    _, [(_, message)] = asked(ZeroGradNone, "train", {"train": OF_NET, "net": NET})

    assert message.endswith("weight decay: forward has a branch (net.py, line 10)")


@pytest.mark.parametrize(
    ("returned", "widens"),
    [
        pytest.param("(output.argmax(1) == y).float().mean()", False, id="only where the largest stand"),
        pytest.param("output.softmax(1).cpu().numpy()", True, id="an array of the numbers"),
    ],
)
def test_a_function_of_another_file_reads_what_the_block_computes(returned: str, *, widens: bool) -> None:
    metrics = f"def accuracy(output, y):\n    return {returned}\n"
    train = """\
import torch
from metrics import accuracy
from models import build
from torch import nn

model = build().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(4, 6, 8).cuda(), torch.randint(4, (4, 6)).cuda()):
    optimizer.zero_grad()
    output = model(x)
    loss = nn.functional.cross_entropy(output, y)
    loss.backward()
    optimizer.step()
    print(accuracy(output, y))
"""
    after, _ = asked(Amp, "train", {"train": train, "metrics": metrics, "models": MODELS})

    assert "scaler.scale(loss)" in after
    assert ("output = output.float()" in after) is widens


TRAINERS = """\
import torch


class Trainer:
    def __init__(self, critic):
        self.critic = critic.cuda()
        self.optimizer = torch.optim.SGD(self.critic.parameters(), lr=0.1)

    def loss(self, x):
        return self.critic(x).mean()

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.loss(x)
        loss.backward()
        self.optimizer.step()


class PenaltyTrainer(Trainer):
    def loss(self, x):
        scores = self.critic(x.requires_grad_())
        (slope,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
        return scores.mean() + slope.norm()


def penalty(critic, x):
    (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return slope.norm()
"""
USING = """\
import torch
from models import build
from trainers import PenaltyTrainer, Trainer, penalty

trainer = Trainer(build())
for x in torch.randn(4, 6, 8).cuda():
    trainer.step(x)
"""
PENALIZED = {
    "another trainer of the project": (USING, False),
    "the trainer that is made": (USING.replace("= Trainer(", "= PenaltyTrainer("), True),
    "the trainer that one function makes and runs": (
        USING.replace("= Trainer(", "= PenaltyTrainer(")
        .replace("trainer =", "def main():\n    trainer =")
        .replace("\nfor x in", "\n    for x in")
        .replace("    trainer.step(x)", "        trainer.step(x)\n\nmain()"),
        True,
    ),
    "one of two that an option chooses": (
        USING.replace("Trainer(build", "{'a': Trainer, 'b': PenaltyTrainer}[input()](build"),
        True,
    ),
}


@pytest.mark.parametrize(("using", "is_run"), PENALIZED.values(), ids=PENALIZED)
@pytest.mark.parametrize("rule", [Amp, Compile])
def test_a_double_backward_counts_where_it_may_run(rule: type[Codemod], using: str, *, is_run: bool) -> None:
    trainers, models = Module("trainers.py", TRAINERS, "trainers"), Module("models.py", MODELS, "models")
    known = Script.of(Module("train.py", using), others=[trainers, models]).seen_from(trainers)
    reasons = [each.because.code for each in rule(Choices()).find(known) if each.because is not None]

    assert ("double-backward" in reasons) is is_run
