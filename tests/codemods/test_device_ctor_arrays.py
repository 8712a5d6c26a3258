"""``device-ctor`` on tensors of zeros and ones that NumPy fills."""

from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.rules.as_tensor import AsTensor
from codemods.rules.device_ctor import DeviceCtor
from tests.training import run_script

ADVERSARY = """\
import numpy as np
import torch
from torch import nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
judge = nn.Linear(4, 3)
judge.grid = (1, 3)
if cuda:
    judge.cuda()
Floats = torch.cuda.FloatTensor if cuda else torch.FloatTensor
loader = DataLoader(TensorDataset(torch.randn(12, 1, 4), torch.randn(12)), batch_size=5)
for pictures, weights in loader:
    drawn = Variable(pictures.type(Floats))
    weighed = weights.type(Floats)
    true = TRUE
    nn.functional.mse_loss(judge(drawn), true).backward()
    print(true.dtype, judge.weight.grad.sum().item().hex())
"""


def adversary(true: str) -> str:
    """A script whose loop makes its labels so."""
    return ADVERSARY.replace("TRUE", true)


TYPED = {
    "ones": (
        "Variable(Floats(np.ones((drawn.size(0), *judge.grid))), requires_grad=False)",
        "Variable(torch.ones((drawn.size(0), *judge.grid), device=drawn.device), requires_grad=False)",
    ),
    "zeros": (
        "Floats(np.zeros([drawn.size(0), 1, 3]))",
        "torch.zeros([drawn.size(0), 1, 3], device=drawn.device)",
    ),
    "by the size of a batch, on the device of the tensor above": (
        "Floats(np.ones((len(pictures), 1, 3)))",
        "torch.ones((len(pictures), 1, 3), device=weighed.device)",
    ),
    "in float32": (
        "Floats(np.ones((len(drawn), 1, 3), dtype=np.float32))",
        "torch.ones((len(drawn), 1, 3), device=drawn.device)",
    ),
    "of CUDA alone": ("torch.cuda.FloatTensor(np.ones((1, 3)))", 'torch.ones((1, 3), device="cuda")'),
    "by the shape of another": ("Floats(np.zeros(drawn.shape))", "torch.zeros(drawn.shape, device=drawn.device)"),
}


@pytest.mark.parametrize(("before", "after"), TYPED.values(), ids=TYPED)
def test_what_a_tensor_type_copies_is_filled_there(before: str, after: str) -> None:
    check_rewrites(DeviceCtor, adversary(before), adversary(after))


COPIED = {
    "by the type of the host": (
        "torch.FloatTensor(np.zeros((len(drawn), 1, 3))).to(device)",
        "torch.zeros((len(drawn), 1, 3), device=device)",
    ),
    "cast by its maker": (
        "torch.tensor(np.ones((1, 3)), dtype=torch.float32).to(device)",
        "torch.ones((1, 3), device=device)",
    ),
    "cast by a method": (
        "torch.from_numpy(np.ones((len(drawn), 1, 3))).float().to(device)",
        "torch.ones((len(drawn), 1, 3), device=device)",
    ),
    "in the format already": (
        "torch.from_numpy(np.zeros((1, 3), np.float32)).cuda()",
        'torch.zeros((1, 3), device="cuda")',
    ),
    "in a variable": (
        "Variable(torch.Tensor(np.ones((1, 3)))).to(device)",
        "Variable(torch.ones((1, 3), device=device))",
    ),
}


@pytest.mark.parametrize(("before", "after"), COPIED.values(), ids=COPIED)
def test_what_is_copied_is_filled_there(before: str, after: str) -> None:
    check_rewrites(DeviceCtor, adversary(before), adversary(after))


@pytest.mark.parametrize(
    "true",
    [
        pytest.param(TYPED["ones"][0], id="by a tensor type"),
        pytest.param(COPIED["by the type of the host"][0], id="by a copy"),
        pytest.param(COPIED["cast by a method"][0], id="by a copy after a cast"),
    ],
)
def test_the_losses_are_the_same_bits(true: str) -> None:
    result = run(DeviceCtor, adversary(true))

    assert "np.ones" not in result.after
    assert "np.zeros" not in result.after
    assert run_script(result.after) == run_script(adversary(true))


def test_no_other_rule_shares_the_array_first() -> None:
    check_leaves(
        AsTensor,
        adversary(COPIED["by the type of the host"][0]),
        "device-ctor fills it on the device, without an array",
    )


LEFT = {
    "what its shape is": (
        "Floats(np.ones(judge.grid[0]))",
        "whether 'judge.grid[0]' is a shape that torch.ones takes is not known: write its numbers in a tuple",
    ),
    "another number format": (
        "Floats(np.ones((1, 3), dtype=bool))",
        "'np.ones((1, 3), dtype=bool)' is given more than its shape",
    ),
    "a cast by the copy": (
        "torch.FloatTensor(np.ones((1, 3))).to(device, torch.half)",
        "the copy is cast to another number format, too",
    ),
}


@pytest.mark.parametrize(("true", "because"), LEFT.values(), ids=LEFT)
def test_what_may_be_another_tensor_is_left(true: str, because: str) -> None:
    check_leaves(DeviceCtor, adversary(true), because)


UNKNOWN = "which device 'Floats' means is not known, and no batch is taken there above, with x.type(Floats):"
ELSEWHERE = {
    "the tensor is taken there below": (
        "    drawn = Variable(pictures.type(Floats))\n    weighed = weights.type(Floats)\n    true = T\n",
        "    true = T\n    drawn = pictures.type(Floats)\n",
    ),
    "the name gets another tensor": (
        "    weighed = weights.type(Floats)\n    true = T\n",
        "    drawn = drawn.cpu()\n    true = T\n",
    ),
    "the tensor gets other data": (
        "    weighed = weights.type(Floats)\n    true = T\n",
        "    drawn.data = pictures\n    true = T\n",
    ),
    "under a condition": (
        "    drawn = Variable(pictures.type(Floats))\n    weighed = weights.type(Floats)\n",
        "    drawn = pictures\n    if cuda:\n        drawn = pictures.type(Floats)\n",
    ),
    "to another type": (
        "pictures.type(Floats))\n    weighed = weights.type(Floats)\n",
        "pictures.type(torch.FloatTensor))\n",
    ),
    "the type changes between": (
        "    weighed = weights.type(Floats)\n",
        "    Floats = torch.FloatTensor if weights[0] > 1 else torch.cuda.FloatTensor\n",
    ),
    "of what is on a device already": (
        "pictures.type(Floats))\n    weighed = weights.type(Floats)\n",
        "judge.weight.to(device).type(Floats))\n",
    ),
}


@pytest.mark.parametrize(("old", "new"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_device_that_no_tensor_shows_is_left(old: str, new: str) -> None:
    code = ADVERSARY.replace("TRUE", "T").replace(old, new).replace("true = T\n", "true = Floats(np.ones((1, 3)))\n")

    assert new.replace("true = T\n", "true = Floats(np.ones((1, 3)))\n") in code
    check_leaves(DeviceCtor, code, f"{UNKNOWN} write torch.ones(…, device=device)")


def test_another_default_format_is_left() -> None:
    code = adversary("Floats(np.ones((1, 3)))").replace("cuda =", "torch.set_default_dtype(torch.float64)\ncuda =", 1)
    because = "torch.ones makes tensors of the number format that is set (line 8):"

    check_leaves(DeviceCtor, code, f"{because} write torch.ones(…, dtype=torch.float32, device=…)")


def test_it_is_left_where_torch_has_no_name() -> None:
    code = (
        "import numpy as np\nfrom torch import FloatTensor, nn\n\nmodel = nn.Linear(4, 6).cuda()\nfor x in input():\n"
        "    (model(x.cuda()) - FloatTensor(np.ones((1, 6))).cuda()).mean().backward()\n"
    )

    check_leaves(DeviceCtor, code, "torch.ones, which fills a tensor there, cannot be named here")


SILENT = {
    "drawn by NumPy": "Floats(np.random.normal(0, 1, (8, 3)))",
    "sizes, which make it there already": "Floats(8, 3).fill_(1.0)",
    "numbers of the script": "Floats([1, 2, 3])",
    "computed of ones": "Floats(np.ones((1, 3)) / 3)",
    "on the host": "torch.FloatTensor(np.ones((1, 3)))",
    "in float64": "torch.from_numpy(np.ones((1, 3))).to(device)",
    "gradients are asked for": "torch.tensor(np.ones((1, 3)), dtype=torch.float32, requires_grad=True).to(device)",
}


@pytest.mark.parametrize("true", SILENT.values(), ids=SILENT)
def test_other_tensors_are_not_mentioned(true: str) -> None:
    check_silent(DeviceCtor, adversary(true))


def test_what_runs_once_is_not_mentioned() -> None:
    code = adversary("0").replace("loader =", "true = Floats(np.ones((1, 3)))\nloader =", 1)

    check_silent(DeviceCtor, code)
