from __future__ import annotations

import pytest
from kit import ACCELERATED, check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite, rewrite_project
from codemods.codemod import Choices, Promise
from codemods.rules.tf32_matmul import Tf32Matmul

IMPORTS = """\
import os
import torch
import torch.nn.functional as F
from torch import nn

"""
MODEL = "model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8), 6).cuda()\n"
TRAIN = """\
for x in torch.randn(100, 128, 64, 512).cuda():
    model(x).sum().backward()
"""
LINE = 'torch.set_float32_matmul_precision("high")\n'
LITTLE = "convolutions and recurrent layers use TF32 already, and its matrix products are little beside them"
DECIDES = "the script chooses the precision of products itself (line {})"


def left(code: str, because: str) -> None:
    check_leaves(Tf32Matmul, IMPORTS + code, because)


# Where it goes.

PLACES = {
    "below the imports": (IMPORTS[:-1], "\n", "\n" + MODEL + TRAIN),
    "below the seeds": (IMPORTS + "torch.manual_seed(0)\n", "", MODEL + TRAIN),
    "below the device in a function": (
        IMPORTS + 'def main():\n    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n',
        "    ",
        "".join(f"    {line}" for line in MODEL.replace("cuda()", "to(device)").splitlines(keepends=True))
        + "".join(f"    {line}" for line in TRAIN.splitlines(keepends=True))
        + "\nmain()\n",
    ),
}


@pytest.mark.parametrize(("before", "lead", "after"), PLACES.values(), ids=PLACES)
def test_it_goes_where_a_colleague_would_look_for_it(before: str, lead: str, after: str) -> None:
    check_rewrites(Tf32Matmul, before + after, before + lead + LINE + after)


# What multiplies.


def trained(model: str) -> str:
    return f"{model}\n{TRAIN}"


ATTENTION = """\
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 16, 16)
        self.project = nn.Linear(64, 192)

    def forward(self, x):
        q, k, v = self.project(self.patches(x).flatten(2).mT).chunk(3, -1)
        return {}

model = Attention().cuda()
"""


def test_torch_is_imported_where_the_script_names_it_nowhere() -> None:
    before = "import os\n\nfrom torch import nn, randn\n"
    after = "\n" + MODEL + TRAIN.replace("torch.", "")
    check_rewrites(Tf32Matmul, before + after, before + "import torch\n\n" + LINE + after)


def test_left_where_torch_is_the_name_of_something_else() -> None:
    code = "from torch import nn, randn\n\n" + MODEL + TRAIN.replace("torch.", "") + "torch = None\n"
    check_leaves(Tf32Matmul, code, "torch.set_float32_matmul_precision cannot be named before the model is made")


MULTIPLIES = {
    "linear layers": "model = nn.Sequential(nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 512)).cuda()",
    "attention that is written out": ATTENTION.format("(q @ k.mT).softmax(-1) @ v"),
    "attention by a function": ATTENTION.format("F.scaled_dot_product_attention(q, k, v)"),
    "a recurrent cell, which is none of cuDNN's": "model = nn.LSTMCell(512, 4096).cuda()",
    "torchvision's transformer": "from torchvision.models import vit_b_16\nmodel = vit_b_16().cuda()",
    "a model of another library": (
        'from transformers import AutoModel\nmodel = AutoModel.from_pretrained("bert-base-uncased").cuda()'
    ),
    "a class of its own, with layers of another library": (
        "from transformers import BertModel, BertPreTrainedModel\n"
        "class Tagger(BertPreTrainedModel):\n"
        "    def __init__(self, config):\n"
        "        super().__init__(config)\n"
        "        self.body = BertModel(config)\n"
        "    def forward(self, x):\n"
        "        return self.body(x)[0]\n"
        'model = Tagger.from_pretrained("bert-base-uncased").cuda()'
    ),
    "one that multiplies, beside one that does not": (
        "from torchvision.models import resnet18\nother = resnet18().cuda()\nother(torch.ones(1).cuda()).backward()\n"
        + MODEL
    ),
}


@pytest.mark.parametrize("model", MULTIPLIES.values(), ids=MULTIPLIES)
def test_products_are_sped_up(model: str) -> None:
    (site,) = run(Tf32Matmul, IMPORTS + trained(model)).sites

    assert site.rewrites
    assert site.promise is Promise.PRECISION
    assert site.needs == "bf16"  # as capability 8.0 has both


NOTHING = {
    "a convolutional network": "from torchvision.models import resnet18\nmodel = resnet18().cuda()",
    "convolutions before some linear layers": (
        "model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.Flatten(), nn.Linear(64, 64), nn.Linear(64, 10)).cuda()"
    ),
    "a recurrent layer": "model = nn.LSTM(512, 4096).cuda()",
    "a network of timm": 'import timm\nmodel = timm.create_model("resnet50").cuda()',
}


@pytest.mark.parametrize("model", NOTHING.values(), ids=NOTHING)
def test_convolutions_gain_nothing(model: str) -> None:
    left(trained(model), LITTLE)


TABLE = """\
class Bigrams(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(65, 65)

    def forward(self, x):
        return self.table(x)

model = Bigrams().cuda()
"""


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(TABLE, id="a table"),
        pytest.param("model = nn.Sequential(nn.LayerNorm(512), nn.ReLU()).cuda()", id="a normalisation"),
    ],
)
def test_of_what_multiplies_nothing_no_convolution_is_told(model: str) -> None:
    left(trained(model), "none of its layers is seen to multiply matrices")


# Who decides.

SILENT = {
    "the function": LINE,
    "the function, lower still": 'torch.set_float32_matmul_precision("medium")\n',
    "the flag": "torch.backends.cuda.matmul.allow_tf32 = True\n",
    "both flags": "torch.backends.cudnn.allow_tf32 = True\ntorch.backends.cuda.matmul.allow_tf32 = True\n",
    "the flag of newer torch": 'torch.backends.cuda.matmul.fp32_precision = "tf32"\n',
}


@pytest.mark.parametrize("line", SILENT.values(), ids=SILENT)
def test_nothing_is_said_where_it_is_allowed(line: str) -> None:
    check_silent(Tf32Matmul, IMPORTS + line + MODEL + TRAIN)


DECISIONS = {
    "by the function": 'torch.set_float32_matmul_precision("highest")\n',
    "by a flag": "torch.backends.cuda.matmul.allow_tf32 = False\n",
    "by cuDNN's flag": "torch.backends.cudnn.allow_tf32 = False\n",
    "by a flag of newer torch": 'torch.backends.cuda.matmul.fp32_precision = "ieee"\n',
    "by the flag of newer torch for all": 'torch.backends.fp32_precision = "ieee"\n',
    "by setattr": 'setattr(torch.backends.cuda.matmul, "allow_tf32", False)\n',
    "by cuDNN's flags": "torch.backends.cudnn.flags(allow_tf32=False)\n",
    "by the environment": 'os.environ["NVIDIA_TF32_OVERRIDE"] = "0"\n',
    "by an option": 'torch.backends.cuda.matmul.allow_tf32 = bool(os.environ.get("FAST"))\n',
    "under a condition": 'if os.environ.get("FAST"):\n    torch.backends.cuda.matmul.allow_tf32 = True\n',
}


@pytest.mark.parametrize("lines", DECISIONS.values(), ids=DECISIONS)
def test_the_script_decides(lines: str) -> None:
    left(lines + MODEL + TRAIN, DECIDES.format(5 + lines.count("\n")))


PRECISE = {
    "64 bits": (MODEL + "model.double()\n" + TRAIN, "float64 model (line 7)"),
    "16 bits": (
        MODEL + TRAIN.replace("model(x)", "model(torch.autocast)"),
        "mixed precision computes products in 16 bits already (line 8)",
    ),
    "what decomposes": (
        MODEL + TRAIN + "print(torch.linalg.svd(torch.eye(3)))\n",
        "torch.linalg.svd() loses digits, and needs them all (line 9)",
    ),
    "what decomposes weights": (
        "layer = nn.Linear(512, 512).cuda()\n" + MODEL + TRAIN + "print(layer.weight.svd())\n",
        "svd() loses digits, and needs them all (line 10)",
    ),
    "distances": (
        MODEL + TRAIN + "print(torch.cdist(torch.eye(3), torch.eye(3)))\n",
        "torch.cdist() loses digits, and needs them all (line 9)",
    ),
    "distances that are expanded": (
        MODEL + TRAIN + "def distances(a, b):\n    return (a ** 2).sum(1, True) - 2 * a @ b.T + (b ** 2).sum(1)\n",
        "2 * a @ b.T is part of an expanded distance, a small difference of large numbers (line 10)",
    ),
    "a solver": (
        "from torchdiffeq import odeint\n" + MODEL + TRAIN + "odeint(model, torch.ones(1), torch.ones(2))\n",
        "torchdiffeq.odeint() solves to a tolerance that TF32 may not reach (line 10)",
    ),
    "a density": (
        MODEL + TRAIN + "def flow(x):\n    log_det = model(x).sum(-1)\n    return x, log_det\nflow(x)\n",
        "'log_det' is part of a density, which needs all digits (line 10)",
    ),
    "coordinates of pixels": (
        MODEL + TRAIN + "def warp(x, points):\n    return F.grid_sample(x, points @ x)\nwarp(x, x)\n",
        "images are sampled at coordinates that it computes, which need all digits (line 10)",
    ),
    "a comparison": (
        MODEL + TRAIN + "assert torch.allclose(torch.eye(3), torch.eye(3))\n",
        "torch.allclose() compares numbers closely (line 9)",
    ),
    "second derivatives": (
        MODEL
        + TRAIN
        + "(slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)\nslope.norm().backward()\n",
        "gradients are differentiated again (line 9)",
    ),
    "a line search": (
        MODEL + 'search = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")\n' + TRAIN,
        "the line search of LBFGS compares losses that differ by little (line 7)",
    ),
    "Q-learning": (
        """\
model = nn.Sequential(nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 2)).cuda()
for x, reward in zip(torch.randn(100, 64, 512).cuda(), torch.randn(100, 64).cuda()):
    with torch.no_grad():
        target = reward + 0.99 * model(x).max(1)[0]
    F.mse_loss(model(x)[:, 0], target).backward()
""",
        "a network learns from targets that it estimates itself, as Q-learning does (line 10)",
    ),
}


@pytest.mark.parametrize(("code", "because"), PRECISE.values(), ids=PRECISE)
def test_what_needs_precision_is_left(code: str, because: str) -> None:
    left(code, because)


@pytest.mark.parametrize("is_called", [False, True])
def test_functions_of_other_modules_count_where_they_are_called(*, is_called: bool) -> None:
    checks = "import torch\n\ndef check(a, b):\n    return torch.allclose(a, b)\n"
    main = IMPORTS + "import checks\n" + MODEL + TRAIN + ("checks.check(x, x)\n" if is_called else "")
    settings = Settings(frozenset({"tf32-matmul"}), Promise.TRAINING)

    (result, _) = rewrite_project(
        [Text("main.py", main, settings), Text("checks.py", checks, settings, "checks", is_entry=False)]
    )

    assert isinstance(result, Rewrite)
    assert [site.code for site in result.sites] == ["needs-precision" if is_called else ""]


def test_what_a_unit_test_compares_says_nothing_of_the_script() -> None:
    checks = "import unittest\nimport torch\nimport main\n\ndef test_it():\n    assert torch.allclose(main.x, main.x)\n"
    settings = Settings(frozenset({"tf32-matmul"}), Promise.TRAINING)

    (result, _) = rewrite_project(
        [Text("main.py", IMPORTS + MODEL + TRAIN, settings, "main"), Text("checks.py", checks, settings, "checks")]
    )

    assert isinstance(result, Rewrite)
    assert [site.code for site in result.sites] == [""]


def test_determinism_is_no_obstacle() -> None:
    (site,) = run(Tf32Matmul, IMPORTS + "torch.use_deterministic_algorithms(True)\n" + MODEL + TRAIN).sites

    assert site.rewrites


def test_a_framework_chooses() -> None:
    check_leaves(Tf32Matmul, ACCELERATED, "the training step runs inside Accelerate, which chooses the precision")


def test_without_cuda_there_is_nothing_to_gain() -> None:
    left(
        (MODEL + TRAIN).replace(".cuda()", ""),
        "no CUDA: nothing in this file moves a model or its batches to a CUDA device",
    )


@pytest.mark.parametrize("called", ["model.forward(x)", "model.encode(x)"])
def test_a_model_that_runs_by_its_methods_is_one(called: str) -> None:
    net = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8), 6)

    def encode(self, x):
        return self.layers(x)

    def forward(self, x):
        return self.encode(x)


model = Net().cuda()
"""
    after = net + TRAIN.replace("model(x)", called)
    before = f"{IMPORTS}torch.manual_seed(0)\n"
    check_rewrites(Tf32Matmul, before + after, before + LINE + after)


def test_what_is_trained_may_be_unknown() -> None:
    left(
        "from networks import model\n" + TRAIN.replace("model(x)", "model.cuda()(x)"),
        "what is trained is not known to be a model",
    )


@pytest.mark.parametrize(
    ("before", "because"),
    [
        pytest.param(
            'torch.set_default_device(os.environ["DEVICE"])\n',
            "whether the default device is CUDA is not followed (line 6): move the model to it",
            id="the default device may be CUDA",
        ),
        pytest.param(
            "from settings import device\nscale = torch.ones(512).to(device)\n",
            "whether device is a CUDA device is not known (line 7): the device comes from settings.device",
            id="the device is not known",
        ),
    ],
)
def test_where_no_model_is_seen_an_unknown_device_is_named(before: str, because: str) -> None:
    left(
        f"{before}layer = nn.Linear(512, 512)\n{TRAIN.replace('model(x)', 'layer.forward(x)').replace('.cuda()', '')}",
        because,
    )


def test_where_no_model_is_seen_a_script_on_the_cpu_has_no_site() -> None:
    check_silent(
        Tf32Matmul,
        f"{IMPORTS}w = torch.ones(512, 9, requires_grad=True)\nfor x in torch.ones(3, 512):\n    (x @ w).sum().backward()\n",
    )


def test_a_script_that_trains_nothing_has_no_site() -> None:
    check_silent(Tf32Matmul, IMPORTS + MODEL + "print(model(torch.ones(1, 1, 512).cuda()))\n")


@pytest.mark.parametrize(
    ("width", "is_weighed", "is_written"),
    [
        pytest.param(16, True, False, id="too little to compute"),
        pytest.param(16, False, True, id="asked for by name"),
        pytest.param(4096, True, True, id="enough to compute"),
    ],
)
def test_small_products_do_not_pay(width: int, *, is_weighed: bool, is_written: bool) -> None:
    model = f"model = nn.Sequential(nn.Linear(512, {width}), nn.ReLU(), nn.Linear({width}, 10)).cuda()\n"
    rule = Tf32Matmul.name()
    choices = Choices(weighed=frozenset({rule} if is_weighed else ()))
    data = "from torch.utils.data import DataLoader, TensorDataset\ndata = TensorDataset(torch.randn(1000, 512))\n"
    loop = "for (x,) in DataLoader(data, 64):\n    model(x.cuda()).sum().backward()\n"

    text = IMPORTS + data + model + loop
    result = rewrite("train.py", text, Settings(frozenset({rule}), Promise.TRAINING, choices=choices))

    assert [site.code for site in result.sites] == ["" if is_written else "never-pays-back"]


# Beside mixed precision.

STEP = """\
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8), 6).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(100, 128, 64, 512).cuda():
    optimizer.zero_grad()
    loss = model(x).sum(){}
    loss.backward()
    optimizer.step()
"""


def both(text: str) -> dict[str, str]:
    result = rewrite("train.py", text, Settings(frozenset({"amp", "tf32-matmul"}), Promise.TRAINING))
    return {site.rule: site.code for site in result.sites}


def test_beside_mixed_precision_there_is_nothing_left_to_speed_up() -> None:
    assert both(IMPORTS + STEP.format("")) == {"amp": "", "tf32-matmul": "idle-beside"}


def test_where_mixed_precision_is_left_it_is_written() -> None:
    assert both(IMPORTS + STEP.format("") + "\n# torchfast: ignore[amp]\n") != {}
    found = both(IMPORTS + STEP.format(" + torch.fft.fft(x).abs().sum()"))

    assert found == {"amp": "breaks-in-16-bits", "tf32-matmul": ""}


def test_mixed_precision_under_an_option_that_is_off_leaves_products_in_32_bits() -> None:
    options = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--amp'{})\n"
    step = IMPORTS + options + "args = parser.parse_args()\n" + STEP.format("")
    step = step.replace("    loss", "    with torch.autocast('cuda', enabled=args.amp):\n        loss", 1)

    assert both(step.replace("{}", ", action='store_true'")) == {"amp": "script-decides", "tf32-matmul": ""}
    assert both(step.replace("{}", ", default=True")) == {"tf32-matmul": "done-already"}


@pytest.mark.parametrize(("is_half", "code"), [(False, ""), (True, "done-already")], ids=["off", "on"])
def test_mixed_precision_under_a_constant_counts_where_it_is_on(*, is_half: bool, code: str) -> None:
    fit = f"half = {is_half}\ndef fit(model, half):\n    " + TRAIN.replace("\n", "\n    ").rstrip()
    fit = fit.replace("model(x).sum()", "loss = model(x).sum()\n        if half:\n            with torch.autocast('cuda'):\n"
                      "                loss = model(x).sum()\n        loss")  # fmt: skip

    assert both(f"{IMPORTS}{fit}\n{MODEL}fit(model, half)\n").get("tf32-matmul") == code


def test_mixed_precision_in_another_module_counts() -> None:
    engine = (
        IMPORTS
        + "def train(model):\n"
        + "".join(f"    {line}" for line in STEP.format("").splitlines(keepends=True)[1:])
    )
    main = IMPORTS + "from engine import train\n\n" + MODEL + "train(model)\n"
    settings = Settings(frozenset({"amp", "tf32-matmul"}), Promise.TRAINING)

    results = rewrite_project(
        [Text("main.py", main, settings), Text("engine.py", engine, settings, "engine", is_entry=False)]
    )

    assert all(isinstance(each, Rewrite) for each in results)
    found = {(each.path, site.rule): site.code for each in results if isinstance(each, Rewrite) for site in each.sites}
    assert found == {("engine.py", "amp"): "", ("main.py", "tf32-matmul"): "idle-beside"}
