"""On which condition the scaler and the blocks of one training are enabled: on one and the same, or it is left."""

from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, run

from codemods.rules.amp import Amp

# DataParallel has fp16 and the scaler on every GPU.
SCRIPT = """\
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", default=None, type=int)
parser.add_argument("--device", default="cuda")
parser.add_argument("--other", default="cpu")


def main():
    args = parser.parse_args()
    model = nn.DataParallel(nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 8)))
    MOVES
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        train(model, criterion, optimizer, args)


def train(model, criterion, optimizer, args):
    for x, y in zip(torch.randn(6, 16, 512), torch.randint(8, (6, 16))):
        BATCH
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
"""
ON_EACH_SIDE = """\
if args.gpu is not None:
        model = model.cuda(args.gpu)
    else:
        model = model.cuda()"""
BY_HAND = """\
if args.gpu is not None:
            x = x.cuda(args.gpu)"""


def _script(moves: str, *batch: str) -> str:
    return SCRIPT.replace("MOVES", moves).replace("BATCH", "\n        ".join(batch))


def _conditions(code: str) -> list[str]:
    """What the scaler and the block say of when they are enabled."""
    lines = [line for line in run(Amp, code).after.splitlines() if "GradScaler(" in line or "autocast(" in line]
    return [line.partition("enabled=")[2].rstrip(":")[:-1] for line in lines]


def test_a_flag_that_says_who_moves_the_batch_is_no_condition() -> None:
    before = _script(ON_EACH_SIDE, BY_HAND, "y = y.cuda(args.gpu)")
    after = (
        before.replace("lr=0.1)\n", 'lr=0.1)\n    scaler = torch.amp.GradScaler("cuda")\n')
        .replace("optimizer, args)\n", "optimizer, args, scaler=scaler)\n")
        .replace("optimizer, args):", "optimizer, args, scaler):")
        .replace(
            "        loss = criterion(model(x), y)\n",
            '        with torch.autocast("cuda", dtype=torch.float16):\n            loss = criterion(model(x), y)\n',
        )
        .replace(
            "loss.backward()\n        optimizer.step()\n",
            "scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()\n",
        )
    )

    check_rewrites(Amp, before, after)


@pytest.mark.parametrize(
    ("moves", "batch", "condition"),
    [
        pytest.param(
            ON_EACH_SIDE, (BY_HAND, "y = y.to(x.device)"), "", id="the block does not ask where the scaler need not"
        ),
        pytest.param(
            "if args.gpu is not None:\n        model = model.cuda(args.gpu)",
            (BY_HAND, "y = y.to(x.device)"),
            "args.gpu is not None",
            id="the flag decides for the model too",
        ),
        pytest.param(
            "if torch.cuda.is_available():\n        model = model.cuda()",
            (BY_HAND, "y = y.to(x.device)"),
            "torch.cuda.is_available()",
            id="the flag does not decide for the model",
        ),
        pytest.param(
            "if args.device:\n        model = model.cuda()",
            (BY_HAND, "y = y.to(x.device)"),
            "torch.cuda.is_available()",
            id="two flags",
        ),
    ],
)
def test_the_scaler_and_the_block_are_enabled_on_one_condition(
    moves: str, batch: tuple[str, ...], condition: str
) -> None:
    assert _conditions(_script(moves, *batch)) == [condition, condition]


def test_two_devices_are_not_taken_for_one() -> None:
    code = _script(
        "first = torch.device(args.device)\n    model = model.to(first)", "x, y = x.to(device), y.to(device)"
    )
    code = code.replace("optimizer, args)\n", "optimizer, torch.device(args.other))\n").replace(
        "optimizer, args):", "optimizer, device):"
    )

    because = (
        "the scaler (line 18) and the forward pass (line 26) may be on CUDA on different conditions; "
        "DataParallel (line 14) computes in fp16 where bf16 is asked for"
    )
    check_leaves(Amp, code, because)


@pytest.mark.parametrize(
    "moves",
    [
        pytest.param("device = torch.device(args.device)\n    model = model.to(device)", id="by the same name"),
        pytest.param("first = torch.device(args.device)\n    model = model.to(first)", id="by another name"),
    ],
)
def test_a_device_that_is_handed_on_is_the_same_one(moves: str) -> None:
    code = _script(moves, "x, y = x.to(device), y.to(device)")
    name = moves.partition(" ")[0]
    code = code.replace("optimizer, args)\n", f"optimizer, {name})\n").replace(
        "optimizer, args):", "optimizer, device):"
    )

    assert _conditions(code) == [f'{name}.type == "cuda"', 'device.type == "cuda"']


ENDS_OTHERWISE = """\
if args.gpu is not None:
        model = model.cuda(args.gpu)
    else:
        raise SystemExit("choose a GPU")"""
CHOSEN = 'torch.device(args.device).type == "cuda"'
LOSS = "criterion = nn.CrossEntropyLoss()"


def test_a_side_that_ends_the_script_needs_no_move() -> None:
    assert _conditions(_script(ENDS_OTHERWISE, BY_HAND)) == ["", ""]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("if args.gpu is not None:\n        model.cuda(args.gpu)", "", id="without CUDA the script dies"),
        pytest.param("model.to(args.device)", CHOSEN, id="the device of the model is the user's choice"),
    ],
)
def test_a_loss_that_is_always_moved_to_cuda(model: str, expected: str) -> None:
    batch = "x = x.to(args.device)" if "device" in model else BY_HAND
    scaler, block = _conditions(_script(model, batch).replace(LOSS, f"{LOSS}.cuda(args.gpu)"))

    assert scaler == block == expected


VALIDATION = """\
def validate(model, criterion, gpu):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.eval()
    with torch.no_grad():
        for x, y in zip(torch.randn(6, 16, 512), torch.randint(8, (6, 16))):
            if gpu is not None and device.type == "cuda":
                x, y = x.cuda(gpu), y.cuda(gpu)
            else:
                x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            print(loss.item())


def train("""


def test_the_validation_asks_for_the_device_that_it_has_at_hand() -> None:
    code = _script("model.to(args.device)", "x = x.to(args.device)").replace("def train(", VALIDATION)
    call = "optimizer, args)\n"
    found = _conditions(code.replace(call, f"{call}        validate(model, criterion, args.gpu)\n"))

    assert found == [CHOSEN, 'device.type == "cuda"', CHOSEN]


FLAGGED = """\
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--cuda", action="store_true")


def main():
    global args
    args = parser.parse_args()
    model = nn.DataParallel(nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 8)))
    if args.cuda:
        model.cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        train(model, criterion, optimizer)
        validate(model)


def train(model, criterion, optimizer):
    for x, y in zip(torch.randn(6, 16, 512), torch.randint(8, (6, 16))):
        if args.cuda:
            x, y = x.cuda(), y.cuda()
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def validate(model):
    with torch.no_grad():
        for x in torch.randn(6, 16, 512):
            if args.cuda:
                x = x.cuda()
            out = model(x)
            print(out.argmax(1))


main()
"""


def test_the_validation_asks_for_the_flag_as_the_training_does() -> None:
    assert _conditions(FLAGGED) == ["args.cuda"] * 3


def test_a_validation_without_a_flag_of_its_own_asks_for_cuda() -> None:
    code = FLAGGED.replace("            if args.cuda:\n                x = x.cuda()\n", "")

    assert _conditions(code)[-1] == "torch.cuda.is_available()"


def test_a_device_that_the_loop_names_is_asked_in_the_loop() -> None:
    start = """\
import torch
from torch import nn

model = nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(4, 8, 64):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
"""
    loss, step = (
        "loss = model(x.to(device)).square().mean()\n",
        "optimizer.zero_grad(); loss.backward(); optimizer.step()\n",
    )
    line = 'use_amp = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 8\n'
    block = f'with torch.autocast("cuda", dtype=torch.bfloat16, enabled=use_amp):\n        {loss}'

    check_rewrites(Amp, f"{start}    {loss}    {step}", f"{start}    {line}    {block}    {step}")


@pytest.mark.parametrize(
    ("start", "above"),
    [
        pytest.param(
            "", "global args\n    args = parser.parse_args()\n    args.cuda = args.gpu is None", id="global args"
        ),
        pytest.param(
            "args = None\n",
            "global args\n    args = parser.parse_args()\n    args.cuda = args.gpu is None",
            id="they are nothing at first",
        ),
        pytest.param("args = parser.parse_args()\nargs.cuda = args.gpu is None\n", "pass", id="those of the module"),
    ],
)
def test_the_script_s_own_flag_is_asked_where_its_options_are_global(start: str, above: str) -> None:
    move = "if args.cuda:\n            x, y = x.cuda(), y.cuda()"
    code = _script("if args.cuda:\n        model.cuda()", move).replace(", args)", ")")
    code = code.replace("def main():\n    args = parser.parse_args()", f"{start}\n\ndef main():\n    {above}")

    assert _conditions(code) == ["args.cuda", "args.cuda"]


FLAG_OF_A_CLASS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))

    def forward(self, x):
        return self.layers(x)


class Trainer:
    def __init__(self, cuda):
        self.critic, self.maker = Net(), Net()
        self.settle(cuda)
        self.of_critic = torch.optim.RMSprop(self.critic.parameters())
        self.of_maker = torch.optim.RMSprop(self.maker.parameters())

    def settle(self, cuda):
        self.cuda = False
        if cuda:
            self.cuda = True
            self.critic.cuda()
            self.maker.cuda()

    def moved(self, x):
        return x.cuda() if self.cuda else x

    def train(self):
        one = torch.ones(1)
        if self.cuda:
            one = one.cuda()
        for step in range(10000):
            for _ in range(5):
                self.critic.zero_grad()
                real = self.critic(self.moved(torch.randn(256, 512))).mean().view(1)
                real.backward(one)
                self.of_critic.step()
            self.maker.zero_grad()
            made = self.critic(self.maker(self.moved(torch.randn(256, 512)))).mean().view(1)
            made.backward(one)
            self.of_maker.step()
            if step % 100 == 0:
                z = self.moved(torch.randn(800, 512))
                with torch.no_grad():
                    samples = self.maker(z)
                print(samples.mul(0.5).sum().item())

    @torch.no_grad()
    def walk(self):
        z = torch.randn(1, 512)
        if self.cuda:
            z = z.cuda()
        for i in range(10):
            sample = self.maker(z * i)
            print(sample.mul(0.5).sum().item())


trainer = Trainer(torch.cuda.is_available())
trainer.train()
trainer.walk()
"""


def test_a_validation_in_a_loop_has_its_flag_above_the_loop() -> None:
    lines = run(Amp, FLAG_OF_A_CLASS).after.splitlines()
    found = [(line.strip(), lines[at + 1].strip()) for at, line in enumerate(lines) if "use_amp =" in line]

    assert found == [
        (
            "use_amp = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8",
            "for step in range(10000):",
        ),
        ("use_amp = self.cuda and torch.cuda.get_device_capability()[0] >= 8", "for i in range(10):"),
    ]


def test_a_header_asks_for_cuda_where_a_run_may_only_evaluate() -> None:
    code = """\
import sys
import torch
from torch import nn


def main():
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if "--evaluate" in sys.argv:
        print(model(torch.ones(3, 8)))
        return
    model.cuda()
    for x in torch.randn(6, 16, 8).cuda():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()


main()
"""
    after = run(Amp, code).after

    assert "    use_amp = torch.cuda.is_available()\n" in after
    assert "if use_amp and torch.cuda.get_device_capability()[0] >= 8 else" in after
    assert 'GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)' in after


BATCHES_ON_CUDA = """\
import torch
from torch import nn


def train(model, optimizer):
    for x in torch.randn(6, 16, 8):
        x = x.cuda()
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()


def main(device):
    model = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer)


main(DEVICE)
"""


@pytest.mark.parametrize(
    ("device", "is_scaled"),
    [
        pytest.param('torch.device("cuda:0" if torch.cuda.is_available() else "cpu")', True, id="CUDA if there is any"),
        pytest.param('torch.device("cuda" if torch.ones(1) > 0 else "cpu")', False, id="CUDA for another reason"),
    ],
)
def test_a_scaler_on_whatever_cuda_there_is_covers_batches_on_cuda(device: str, *, is_scaled: bool) -> None:
    after = run(Amp, BATCHES_ON_CUDA.replace("DEVICE", device)).after

    assert ('    use_amp = device.type == "cuda"\n' in after) is is_scaled
    assert ("torch.amp.GradScaler" in after) is is_scaled


TRAINER = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, model, use_cuda=True):
        self.model = model
        self.use_cuda = use_cuda
        if use_cuda:
            self.model.cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x):
        if self.use_cuda:
            x = x.cuda()
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()


trainer = Trainer(nn.Linear(8, 4), torch.cuda.is_available())
for x in torch.randn(6, 16, 8):
    trainer.step(x)
"""


@pytest.mark.parametrize(
    ("more", "is_asked"),
    [
        pytest.param("", True, id="given once"),
        pytest.param("trainer.use_cuda = False\n", False, id="given again"),
    ],
)
def test_a_flag_that_an_object_is_given_is_asked(more: str, *, is_asked: bool) -> None:
    after = run(Amp, TRAINER + more).after

    assert ("enabled=self.use_cuda and self.amp_dtype is torch.float16" in after) is is_asked
    assert ('with torch.autocast("cuda", dtype=self.amp_dtype, enabled=self.use_cuda):' in after) is is_asked
