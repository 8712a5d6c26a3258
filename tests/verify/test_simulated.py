"""The CUDA branch without a GPU: what the simulated device does, crashes of and says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.report.judgement import as_json, as_text
from autotune_rewrite.verify import judged
from autotune_rewrite.verify.comparison import Comparison
from autotune_rewrite.verify.judgement import judge, judge_failure
from autotune_rewrite.verify.plan import Device, Plan, Turn, VerifyError
from autotune_rewrite.verify.records import Environment, Run
from autotune_rewrite.verify.run import HARNESS, run_script
from autotune_rewrite.verify.statistics.pairs import Pair

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.xdist_group("simulated")

CHILD = f"""
import json, runpy, sys, warnings
runpy.run_path({str(HARNESS)!r})["simulate"](sys.argv[1])
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
warnings.simplefilter("error")  # what a script does rightly on CUDA warns of nothing
answers = []
for text in json.load(sys.stdin):
    torch.manual_seed(0)
    names = {{"torch": torch, "nn": nn, "F": F}}
    try:
        exec(text, names)
        answers.append(repr(names["seen"]))
    except Exception as error:
        answers.append(f"{{type(error).__name__}}: {{error}}".splitlines()[0])
json.dump(answers, sys.stdout)
"""
"""Runs many texts in one process."""


def answers(child: Path, capability: str, texts: list[str]) -> dict[tuple[str, str], str]:
    """What each text leaves in ``seen``, or the first line of what it raises."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, str(child), capability],
        input=json.dumps(list(map(dedent, texts))),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return {(capability, text): answer for text, answer in zip(texts, json.loads(ended.stdout), strict=True)}


NOT_FOR_NUMPY = (
    "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
)
NOT_IN_FORKS = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start "
    "method"
)
NOT_ONE_TYPE = (
    "Index put requires the source and destination dtypes match, got Float for the destination and BFloat16 for the "
    "source."
)
"""As CUDA and torch say it."""

PORTABLE = """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp, capability = device.type == "cuda", torch.cuda.get_device_capability(device)
dtype = torch.bfloat16 if use_amp and capability[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler(device.type, enabled=use_amp and dtype is torch.float16)
with torch.autocast(device_type=device.type, dtype=dtype, enabled=use_amp):
    seen = capability, nn.Linear(4, 4).to(device)(torch.ones(2, 4, device=device)).dtype, scaler.get_scale()
"""

DEVICES = {
    "what is asked of torch.cuda": (
        """
        properties = torch.cuda.get_device_properties(0)
        seen = (
            torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device(),
            torch.cuda.get_device_name(), torch.cuda.get_device_capability("cuda:0"), properties.major,
            torch.cuda.is_bf16_supported(), torch.cuda.memory_allocated(), torch.cuda.memory_stats()["active.peak"],
            torch.cuda.mem_get_info()[0] == properties.total_memory, torch.backends.cudnn.is_available(),
        )
        """,
        "(True, 1, 0, 'simulated CUDA device', (9, 0), 9, True, 0, 0, True, True)",
    ),
    "what is asked of torch.accelerator": (
        """
        accelerator = torch.accelerator
        seen = accelerator.is_available(), accelerator.current_accelerator().type, accelerator.device_count()
        """,
        "(True, 'cuda', 1)",
    ),
    "what is told to torch.cuda": (
        """
        torch.cuda.set_device(0)
        torch.cuda.manual_seed_all(1)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = True
        state = torch.cuda.get_rng_state()
        torch.cuda.set_rng_state(state)
        with torch.cuda.device(0):
            torch.cuda.nvtx.range_push("epoch")
        seen = torch.cuda.synchronize()
        """,
        "None",
    ),
    "streams and events": (
        """
        stream, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event()
        start.record()
        with torch.cuda.stream(stream):
            x = torch.ones(2).to("cuda", non_blocking=True)
            x.record_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_stream(stream)
        stream.synchronize()
        end.record(stream)
        seen = x.tolist(), end.query(), start.elapsed_time(end) >= 0
        """,
        "([1.0, 1.0], True, True)",
    ),
    "every way to name the device": (
        """
        x, device = torch.ones(2), torch.device("cuda:0")
        new = [torch.zeros(2, device=each) for each in ("cuda", "cuda:0", device, 0)]
        new += [x.new_zeros(2, device=device), torch.zeros_like(x, device=device), torch.as_tensor(1.0, device=0)]
        moved = [x.cuda(), x.cuda(0, non_blocking=True), x.to(0), x.to("cuda", torch.float64), x.to(device=device)]
        moved += [x.to(new[0]), x.type(torch.cuda.LongTensor), x.type("torch.cuda.HalfTensor"), x.type_as(new[0])]
        made = [torch.cuda.FloatTensor(2, 3), torch.cuda.LongTensor([1, 2])]
        seen = all(each.is_cuda for each in new + moved + made), x.is_cuda, device.type, moved[0].device.type
        """,
        "(True, False, 'cuda', 'cpu')",
    ),
    "the default device": (
        """
        with torch.device("cuda"):
            inside = torch.zeros(2).is_cuda, nn.Linear(2, 2).weight.is_cuda, torch.get_default_device().type
        torch.set_default_device("cuda")
        default = torch.zeros(2).is_cuda, torch.zeros(2, device="cpu").is_cuda, torch.get_default_device().type
        torch.set_default_device(None)
        seen = inside, default, torch.zeros(2).is_cuda
        """,
        "((True, True, 'cuda'), (True, False, 'cuda'), False)",
    ),
    "what is computed there stays there": (
        """
        x = torch.ones(2, 2, requires_grad=True)
        y = x.cuda()
        (y @ y).sum().backward()
        seen = y.is_leaf, (y + 1).is_cuda, y[0].is_cuda, y.unbind()[1].is_cuda, y.detach().is_cuda, x.grad.is_cuda
        """,
        "(False, True, True, True, True, False)",
    ),
    "a number of the device makes a tensor of the CPU": (
        "seen = torch.tensor([torch.ones((), device='cuda')]).is_cuda, torch.full((2,), torch.ones(()).cuda()).is_cuda",
        "(False, False)",
    ),
    "a copy is laid out as asked": (
        """
        x = torch.ones(1, 2, 3, 4)
        copies = x.cuda(memory_format=torch.channels_last), x.to("cuda", memory_format=torch.channels_last)
        seen = [each.is_contiguous(memory_format=torch.channels_last) for each in copies]
        """,
        "[True, True]",
    ),
    "cpu() is a copy": (
        """
        weight = torch.zeros(2, device="cuda")
        best = weight.cpu()
        weight += 1
        seen = best.tolist(), best.is_cuda, weight.cuda() is weight
        """,
        "([0.0, 0.0], False, True)",
    ),
    "a module keeps its parameters": (
        """
        import copy
        module = nn.Linear(2, 2)
        weight = module.weight
        same = module.cuda() is module, module.to("cuda") is module, module.weight is weight
        seen = same, weight.is_cuda, copy.deepcopy(module).weight.is_cuda, module.cpu().weight.is_cuda
        """,
        "((True, True, True), True, True, False)",
    ),
    "DataParallel is its module": (
        """
        module = nn.DataParallel(nn.Linear(2, 2)).cuda()
        seen = list(module.state_dict()), module(torch.ones(3, 2).cuda()).shape == (3, 2)
        """,
        "(['module.weight', 'module.bias'], True)",
    ),
    "data_parallel calls its module": (
        """
        from torch.nn.parallel import data_parallel
        there, halved = nn.Linear(2, 2).cuda(), lambda one, other, scale: (one + other) / scale
        x = torch.ones(3, 2).cuda()
        seen = data_parallel(there, x, range(1)).is_cuda, data_parallel(halved, (x, x), [0], module_kwargs={"scale": 2}).tolist()
        """,
        "(True, [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])",
    ),
    "generators draw as on the CPU": (
        """
        there = torch.randn(3, device="cuda", generator=torch.Generator(device="cuda").manual_seed(3))
        here = torch.randn(3, generator=torch.Generator().manual_seed(3))
        seen = torch.equal(there.cpu(), here), isinstance(torch.Generator("cuda:0"), torch.Generator)
        """,
        "(True, True)",
    ),
    "checkpoints are loaded wherever they should be": (
        """
        import io
        file, places = io.BytesIO(), (None, "cpu", "cuda", "cuda:0", torch.device("cuda"), {"cuda:0": "cuda:0"})
        torch.save({"weight": torch.ones(2, device="cuda")}, file)
        seen = [torch.load(file, map_location=place)["weight"].sum().item() for place in places if file.seek(0) == 0]
        """,
        "[2.0, 2.0, 2.0, 2.0, 2.0, 2.0]",
    ),
    "a thread uses the device, too": (
        """
        import threading
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.ones(1, device="cuda").is_cuda))
        thread.start()
        thread.join()
        """,
        "[True]",
    ),
    "a thread pins memory while the main thread captures a graph": (
        """
        import threading
        seen, done = [], threading.Event()

        def pin():
            try:
                while not done.is_set():
                    torch.ones(1).pin_memory()
            except RuntimeError as error:
                seen.append(str(error))

        thread = threading.Thread(target=pin)
        thread.start()
        net = nn.Linear(2, 2).cuda()
        net.compile()
        net(torch.ones(1, 2).cuda()).sum().backward()
        done.set()
        thread.join()
        """,
        "[]",
    ),
    "autograd functions and hooks use the device": (
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x * 2

            @staticmethod
            def backward(context, gradient):
                return gradient * torch.full((1,), 2.0).cuda()

        x = torch.ones(1, device="cuda", requires_grad=True)
        x.register_hook(lambda gradient: gradient + torch.ones(1, device="cuda"))
        Double.apply(x).backward()
        (other,) = torch.autograd.grad(Double.apply(x), x)
        seen = x.grad.item(), other.item()
        """,
        "(3.0, 3.0)",
    ),
    "numpy does not read from the device": (
        "torch.ones(2, device='cuda').numpy()",
        f"TypeError: {NOT_FOR_NUMPY}",
    ),
    "pinned memory is the CPU's": (
        """
        x = torch.ones(2)
        seen = x.pin_memory().is_pinned(), torch.ones(2, pin_memory=True).is_pinned(), x.is_pinned()
        """,
        "(True, True, False)",
    ),
    "a loader pins, with and without workers": (
        """
        from torch.utils.data import DataLoader, TensorDataset
        data = TensorDataset(torch.arange(6.0))
        loaders = [DataLoader(data, batch_size=2, pin_memory=True, num_workers=workers) for workers in (0, 2)]
        seen = [[(x.is_pinned(), x.to("cuda", non_blocking=True).tolist()) for x, in loader] for loader in loaders]
        """,
        str([[(True, [0.0, 1.0]), (True, [2.0, 3.0]), (True, [4.0, 5.0])]] * 2),
    ),
    "a loader cannot pin what is on the device": (
        """
        from torch.utils.data import DataLoader, TensorDataset
        list(DataLoader(TensorDataset(torch.ones(2).cuda()), pin_memory=True))
        """,
        "RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
    ),
    "a forked worker has no device": (
        """
        from torch.utils.data import DataLoader
        loader = DataLoader(torch.ones(4).cuda(), num_workers=1, multiprocessing_context="fork")
        try:
            list(loader)
        except RuntimeError as error:
            seen = str(error).splitlines()[-1]
        """,
        repr(f"RuntimeError: {NOT_IN_FORKS}"),
    ),
}

AUTOCAST = """
net, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).cuda(), torch.ones(2, 4, device="cuda")
with torch.autocast("cuda", dtype=torch.{dtype}):
    half = net(x)
    {inside}
"""


def autocast(inside: str, dtype: str = "bfloat16") -> str:
    """A text that runs something under autocast, on a 16-bit ``half`` and an ``x`` of 32 bits."""
    return AUTOCAST.format(dtype=dtype, inside=inside)


FORMS = "torch.autocast('cuda', {0}), torch.amp.autocast('cuda', {0}), torch.autocast(device_type='cuda', {0})"

PRECISION = {
    "every form of autocast": (
        f"""
        net, x, seen = nn.Linear(4, 4).cuda(), torch.ones(2, 4).cuda(), []
        for dtype in torch.float16, torch.bfloat16:
            for form in {FORMS.format("dtype=dtype")}:
                with form:
                    seen.append(net(x).dtype is dtype and torch.is_autocast_enabled("cuda"))
        with torch.autocast("cuda"):
            seen += [net(x).dtype, torch.get_autocast_dtype("cuda")]
            with torch.autocast("cuda", enabled=False):
                seen.append(net(x).dtype)
        seen += [net(x).dtype, torch.is_autocast_enabled("cpu")]
        """,
        f"{[True] * 6 + ['16', '16', '32', '32', False]}".replace("'16'", "torch.float16").replace(
            "'32'", "torch.float32"
        ),
    ),
    "a portable script does not scale with a capability of 9.0": (PORTABLE, "((9, 0), torch.bfloat16, 1.0)"),
    "the old names of autocast and scaler": (
        """
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            with torch.cuda.amp.autocast():
                dtype = nn.Linear(4, 4).cuda()(torch.ones(2, 4).cuda()).dtype
            scaler = torch.cuda.amp.GradScaler()
        seen = dtype, scaler.is_enabled(), scaler.scale(torch.ones(())).item()
        """,
        "(torch.float16, True, 65536.0)",
    ),
    "what CUDA runs in 32 bits": (
        autocast(
            "seen = {each.dtype for each in (half.softmax(-1), half.sum(), half.exp(), half.norm(), half.pow(2),"
            " F.layer_norm(half, (4,)), F.cross_entropy(half, half.argmax(1)), F.mse_loss(half, x))}"
        ),
        "{torch.float32}",
    ),
    "what CUDA runs in 16 bits": (
        autocast("seen = {each.dtype for each in (half, x @ x.T, torch.mv(x, x[0]), torch.einsum('ij,kj', x, x))}"),
        "{torch.bfloat16}",
    ),
    "what CUDA widens": (autocast("seen = torch.addcmul(x, half, half).dtype"), "torch.float32"),
    "a sum says its type itself": (autocast("seen = half.sum(dtype=torch.bfloat16).dtype"), "torch.bfloat16"),
    "64 bits are left alone": (autocast("seen = (x.double() @ x.double().T).dtype"), "torch.float64"),
    "recurrent networks are those of cuDNN": (
        autocast("seen = [kind(4, 3).cuda()(x)[0].dtype for kind in (nn.LSTM, nn.GRU, nn.RNN)]"),
        "[torch.bfloat16, torch.bfloat16, torch.bfloat16]",
    ),
    "a convolutional network learns in float16": (
        """
        layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Upsample(scale_factor=2)
        net = nn.Sequential(*layers, nn.ConvTranspose2d(4, 2, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()).cuda()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.ones(2, 3, 8, 8).cuda()).pow(2).mean()
        loss.backward()
        seen = loss.dtype, {each.grad.dtype for each in net.parameters()}
        """,
        "(torch.float32, {torch.float32})",
    ),
    "BCELoss under autocast": (
        autocast("nn.BCELoss()(half.sigmoid(), torch.ones_like(half))"),
        "RuntimeError: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.",
    ),
    "BCELoss beside autocast": (
        autocast("pass") + "seen = nn.BCELoss()(half.float().sigmoid(), torch.ones_like(x)).dtype",
        "torch.float32",
    ),
    "BCELoss where autocast is switched off": (
        autocast("""
    with torch.autocast("cuda", enabled=False):
        seen = nn.BCELoss()(half.float().sigmoid(), torch.ones_like(x)).dtype
        """),
        "torch.float32",
    ),
    "bfloat16 is nothing for numpy": (
        autocast("half.detach().cpu().numpy()"),
        "TypeError: Got unsupported ScalarType BFloat16",
    ),
    "16 bits do not fit what is outside": (
        autocast("pass") + "nn.Linear(4, 4).cuda()(half)",
        "RuntimeError: mat1 and mat2 must have the same dtype, but got BFloat16 and Float",
    ),
    "16 bits are not put into 32": (
        autocast("x[torch.tensor([0])] = half[:1]"),
        f"RuntimeError: {NOT_ONE_TYPE}",
    ),
    "no Fourier transform in 16 bits": (
        autocast("torch.fft.rfft(half)"),
        "NotImplementedError: Unsupported dtype BFloat16",
    ),
    "a constant that is too large for float16": (
        autocast("half.masked_fill(half > 0, -1e9)", "float16"),
        "RuntimeError: value cannot be converted to type c10::Half without overflow",
    ),
    "custom autograd functions get what they ask for": (
        """
        class Square(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
            def forward(context, x):
                context.save_for_backward(x)
                return x * x

            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")
            def backward(context, gradient):
                return 2 * gradient * context.saved_tensors[0]

        x = torch.ones(2, 2, device="cuda", requires_grad=True)
        with torch.autocast("cuda"):
            y = Square.apply(x @ x)
        y.sum().backward()
        seen = y.dtype, x.grad.dtype
        """,
        "(torch.float32, torch.float32)",
    ),
    "a checkpointed forward is repeated in the same type": (
        """
        from torch.utils.checkpoint import checkpoint
        net, x, types = nn.Linear(4, 4).cuda(), torch.ones(1, 4, device="cuda", requires_grad=True), []
        def forward(x):
            types.append(net(x).dtype)
            return net(x)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = checkpoint(forward, x, use_reentrant=False)
        y.sum().backward()
        seen = types
        """,
        "[torch.bfloat16, torch.bfloat16]",
    ),
    "compiled in place, as it would be": (
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                noise = torch.randn(x.shape, device="cuda") + torch.zeros(4).to("cuda") + torch.ones(4).cuda()
                return self.layer(F.dropout(x)) * noise

        net, x = Net().cuda(), torch.ones(2, 4, device="cuda")
        torch.manual_seed(1)
        eager = net(x)
        net.compile(mode="max-autotune")
        from torch._dynamo.utils import counters
        counters.clear()
        torch.manual_seed(1)
        compiled = net(x)
        compiled.sum().backward()
        seen = torch.equal(eager, compiled), counters["stats"]["unique_graphs"], list(net.state_dict())
        """,
        "(True, 1, ['layer.weight', 'layer.bias'])",
    ),
    "compiled in pieces": (
        """
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).cuda()
        net, mask = nn.TransformerEncoder(layer, 1), torch.full((5, 5), float("-inf")).triu(1).cuda()
        x = torch.randn(3, 5, 8, device="cuda")
        eager = net(x, mask=mask)
        net.compile()
        compiled = net(x, mask=mask)
        from torch._dynamo.utils import counters
        seen = torch.allclose(eager, compiled), len(counters["graph_break"]) > 0
        """,
        "(True, True)",
    ),
    "compiled under autocast": (
        """
        net = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)).cuda())
        with torch.autocast("cuda", dtype=torch.bfloat16):
            seen = net(torch.ones(2, 4, device="cuda")).dtype
        """,
        "torch.float32",
    ),
    "a second derivative through a compiled network": (
        """
        net, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).cuda(), torch.ones(2, 4, device="cuda", requires_grad=True)
        net.compile()
        (gradient,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        gradient.norm().backward()
        """,
        "RuntimeError: torch.compile with aot_autograd does not currently support double backward",
    ),
}

TRAINED = """
net = nn.Linear(4, 1).cuda()
optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cuda", init_scale=1024.0)
x, y, losses = torch.randn(64, 4, device="cuda"), torch.randn(64, 1, device="cuda"), []
for _ in range(50):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.mse_loss(net(x), y)
    scaler.scale(loss).backward()
    {before}
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
"""

SCALING = {
    "gradients are scaled": (
        TRAINED.format(before="scaled = net.bias.grad.item(); scaler.unscale_(optimizer); plain = net.bias.grad.item()")
        + "seen = scaled / plain, scaler.get_scale(), losses[-1] < losses[0]",
        "(1024.0, 1024.0, True)",
    ),
    "gradients that overflow are skipped": (
        """
        net = nn.Linear(4, 1).cuda()
        weight, optimizer = net.weight.detach().clone(), torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.ones(2, 4).cuda()).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        seen = torch.equal(weight, net.weight), scaler.get_scale() == 2.0**39
        """,
        "(True, True)",
    ),
    "clipping scaled gradients stops the training": (
        "rates = []\n"
        + "".join(
            TRAINED.format(before=f"{unscale}nn.utils.clip_grad_norm_(net.parameters(), 0.5)")
            + "rates.append(losses[0] - losses[-1])\n"
            for unscale in ("scaler.unscale_(optimizer); ", "")
        )
        + "seen = rates[0] > 0.05, rates[1] < rates[0] / 20",
        "(True, True)",
    ),
    "two steps without an update": (
        TRAINED.format(before="scaler.step(optimizer)"),
        "RuntimeError: step() has already been called since the last update().",
    ),
    "unscaled twice": (
        TRAINED.format(before="scaler.unscale_(optimizer); scaler.unscale_(optimizer)"),
        "RuntimeError: unscale_() has already been called on this optimizer since the last update().",
    ),
    "an update without a backward": (
        """
        net = nn.Linear(4, 1).cuda()
        optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cuda")
        scaler.scale(net(torch.ones(1, 4).cuda()).sum())
        scaler.step(optimizer)
        """,
        "AssertionError: No inf checks were recorded for this optimizer.",
    ),
    "a network that is float16 itself": (
        TRAINED.replace(".cuda()", ".cuda().half()").format(before="scaler.unscale_(optimizer)"),
        "ValueError: Attempting to unscale FP16 gradients.",
    ),
    "bfloat16 is only emulated": (
        "seen = torch.cuda.is_bf16_supported(including_emulation=False), torch.cuda.is_bf16_supported()",
        "(False, True)",
    ),
    "a portable script scales with a capability of 7.0": (PORTABLE, "((7, 0), torch.float16, 65536.0)"),
}


TABLES = (("9.0", DEVICES), ("9.0", PRECISION), ("7.0", SCALING))


@pytest.fixture(scope="module")
def answered(forking: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    child = tmp_path_factory.mktemp("simulated") / "child.py"
    child.write_text(CHILD, encoding="utf-8")
    found = answers(forking(child), "9.0", [text for text, _ in (DEVICES | PRECISION).values()])
    return found | answers(forking(child), "7.0", [text for text, _ in SCALING.values()])


@pytest.mark.parametrize(
    ("capability", "text", "expected"),
    [
        pytest.param(capability, text, expected, id=reason)
        for capability, table in TABLES
        for reason, (text, expected) in table.items()
    ],
)
def test_device(answered: dict[tuple[str, str], str], capability: str, text: str, expected: str) -> None:
    assert answered[capability, text] == expected


TRAIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
cuda = device.type == "cuda"
images, labels = torch.randn(40, 1, 8, 8), torch.randint(0, 3, (40,))
loader = DataLoader(TensorDataset(images, labels), batch_size=4, shuffle=True, pin_memory=cuda)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(144, 3))
net.to(device)
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(2):
    for x, y in loader:
        x, y = x.to(device, non_blocking=cuda), y.to(device, non_blocking=cuda)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x + torch.randn(x.shape, device=device)), y)
        loss.backward()
        optimizer.step()
"""


def ran(path: Path, script: str, **options: object) -> Run:
    path.write_text(dedent(script))
    plan = replace(Plan(path, path, device="simulated", timeout=120.0), **options)  # type: ignore[arg-type]
    return run_script(plan, Turn("original", 0))


@pytest.mark.usefixtures("forked")
def test_a_script_computes_there_what_it_computes_without_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = TRAIN + "print(device)\n"
    simulated = ran(
        tmp_path / "train.py", script + "raise SystemExit(0 if cuda and images.pin_memory().is_pinned() else 3)"
    )
    plain = ran(tmp_path / "train.py", script, device="cpu")
    assert (simulated.outcome, simulated.output, plain.outcome, plain.output) == ("ok", ("cuda",), "ok", ("cpu",))
    assert len(plain.losses) == 20
    assert (simulated.losses, simulated.parameters) == (plain.losses, plain.parameters)


def test_spawned_workers_believe_in_the_device_too(tmp_path: Path) -> None:
    script = """
        import torch
        from torch.utils.data import DataLoader, Dataset

        table = torch.full((1,), 2.0, device="cuda")

        class Rows(Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, index):
                return (table * index).cpu()

        if __name__ == "__main__":
            weight = torch.ones(1, device="cuda", requires_grad=True)
            loader = DataLoader(Rows(), num_workers=1, multiprocessing_context="spawn", pin_memory=True)
            for batch in loader:
                assert batch.is_pinned()
                (weight * batch.cuda()).sum().backward()
    """
    seen = ran(tmp_path / "train.py", script)
    assert (seen.outcome, seen.output, seen.losses) == ("ok", (), (0.0, 2.0, 4.0, 6.0))


@pytest.mark.slow
def test_verify_says_that_the_device_was_simulated(tmp_path: Path) -> None:
    for name in "naive.py", "fast.py":
        (tmp_path / name).write_text(TRAIN)
    command = "verify naive.py fast.py --device simulated --capability 7.0 --pairs 1 --iterations 3 --format json"
    ended = subprocess.run(
        [sys.executable, "-m", "autotune_rewrite", *command.split()], cwd=tmp_path, capture_output=True, check=False
    )
    said = json.loads(ended.stdout)
    assert (ended.returncode, said["run"], said["speed"], said["equality"]) == (0, "ok", "not-checked", "equal")
    environment = said["environment"]
    assert (environment["simulated"], environment["cuda"]) == ("7.0", True)
    assert said["ratios"]["run"] == {"estimate": None, "low": None, "high": None, "basis": None}


SCRIPTS = Plan(Path("a.py"), Path("b.py"), device="simulated", not_measured=("loader-pin",))
WHERE: Environment = {
    "torch": "2.9.0",
    "python": "3.12.1",
    "cpus": 2,
    "gpu": "simulated CUDA device",
    "simulated": "9.0",
    "cuda": True,
}
ORIGINAL = Run(
    "original",
    0,
    "ok",
    "",
    (),
    9.0,
    ended="finished",
    times=(0.0, 1.0, 2.0),
    losses=(3.0, 2.0, 1.0),
    parameters=("digest",),
)


@pytest.mark.parametrize(
    ("losses", "equality", "code"),
    [
        pytest.param((3.0, 2.0, 1.0), "equal", 0, id="equal passes, however slow"),
        pytest.param((3.0, 2.0, 1.5), "inconclusive", 1, id="one different pair does not"),
        pytest.param((3.0, 2.0, float("nan")), "different", 1, id="a loss that is no number does not"),
    ],
)
def test_speed_does_not_count(losses: tuple[float, ...], equality: str, code: int) -> None:
    rewritten = replace(ORIGINAL, side="rewritten", losses=losses, times=(0.0, 10.0, 20.0), wall_seconds=90.0)
    judgement = judge(SCRIPTS, Comparison((Pair(ORIGINAL, rewritten),)), WHERE)
    assert (judgement.run, judgement.speed, judgement.equality, judgement.exit_code) == (
        "ok",
        "not-checked",
        equality,
        code,
    )
    assert judgement.fit == (code == 0)
    assert (judgement.whole, judgement.iteration, judgement.not_measured) == (None, None, ())


def test_every_report_says_that_the_device_was_simulated() -> None:
    judgement = judge(SCRIPTS, Comparison((Pair(ORIGINAL, replace(ORIGINAL, side="rewritten")),)), WHERE)
    assert as_text(judgement) == (
        "The rewritten script was not timed; it computes the same, bit for bit.\n"
        "Every loss and every final parameter is equal bit for bit. The CUDA device was simulated on the CPU,\n"
        "which says nothing about speed.\n"
        "Seen: 1 pair of runs with 3 losses each, promise precision, torch 2.9.0, Python 3.12.1, simulated\n"
        "CUDA device of capability 9.0 on 2 CPU cores."
    )
    assert as_json(judgement)["environment"]["simulated"] == "9.0"
    failed = replace(ORIGINAL, side="rewritten", outcome="crashed", problem="ended with exit status 1", output=("no",))
    judgement = judge_failure(SCRIPTS, failed, None, 0, WHERE)
    assert as_text(judgement) == (
        "The rewritten script crashed: speed and results were NOT CHECKED.\n"
        "The rewritten script ended with exit status 1. The CUDA device was simulated on the CPU.\n  no"
    )
    assert (judgement.exit_code, judgement.not_measured) == (2, ())


@pytest.mark.parametrize(
    ("device", "compiles", "said"),
    [
        pytest.param("simulated", (0.5,), True, id="compiled, on a simulated device"),
        pytest.param("simulated", (), False, id="not compiled"),
        pytest.param("cuda", (0.5,), False, id="on a GPU, with Inductor"),
    ],
)
def test_it_is_said_that_inductor_made_nothing(device: Device, compiles: tuple[float, ...], *, said: bool) -> None:
    rewritten = replace(ORIGINAL, side="rewritten", compiles=compiles)
    judgement = judged(replace(SCRIPTS, device=device), [ORIGINAL, rewritten], WHERE)
    assert judgement.captured_only is said
    assert ("aot_eager" in as_text(judgement)) is said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"capability": "9"}, "the capability is '9', but it has to look like 9.0", id="no point in the capability"
        ),
        pytest.param(
            {"capability": "7.0", "device": "cuda"},
            "the capability is that of a simulated device, but the device is cuda",
            id="a real device has its own capability",
        ),
    ],
)
def test_refuses(change: dict[str, object], message: str) -> None:
    with pytest.raises(VerifyError) as refused:
        replace(SCRIPTS, **change).check()  # type: ignore[arg-type]
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("change", "capability"),
    [
        pytest.param({}, "9.0", id="bfloat16 unless asked otherwise"),
        pytest.param({"capability": "7.0"}, "7.0", id="as asked"),
        pytest.param({"device": "auto"}, None, id="nothing is simulated"),
    ],
)
def test_what_is_simulated(change: dict[str, object], capability: str | None) -> None:
    assert replace(SCRIPTS, **change).simulated == capability  # type: ignore[arg-type]
