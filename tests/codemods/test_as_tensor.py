from __future__ import annotations

import json
import subprocess
import sys

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.codemod import Leaves, Promise, Rewrites
from codemods.rules.as_tensor import AsTensor
from tests.training import run_script

HEAD = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

"""
LOOP = "for i in range(3):\n"


@pytest.mark.parametrize("example", [each for each in AsTensor.examples if isinstance(each, Rewrites)])
def test_examples_that_are_rewritten(example: Rewrites) -> None:
    check_rewrites(AsTensor, example.before, example.after)


@pytest.mark.parametrize("example", [each for each in AsTensor.examples if isinstance(each, Leaves)])
def test_examples_that_are_left(example: Leaves) -> None:
    check_leaves(AsTensor, example.code, example.because)


FORMS = {
    **{
        f"its elements lie in another order: {array}": (
            f"    x = torch.tensor({array})\n",
            f"    x = torch.as_tensor({array})\n",
        )
        for array in (
            "np.ones((4, 3)).T",
            "np.ones((4, 3)).T * 2",
            "np.exp(np.ones((4, 3)).T)",
            "np.ones((4, 3)).T.astype(np.float32)",
            "np.ones((4, 3)).swapaxes(0, 1)",
            "np.array(np.ones((4, 3)).T)",
        )
    },
    "its name goes on to the tensor": (
        "    x = np.ones((2, 3))\n    x -= x.mean()\n    x[0] = 1\n    x = torch.tensor(x.transpose(1, 0))\n",
        "    x = np.ones((2, 3))\n    x -= x.mean()\n    x[0] = 1\n    x = torch.as_tensor(x.transpose(1, 0))\n",
    ),
    "a new array": ("    x = torch.tensor(np.zeros((2, 3)))\n", "    x = torch.as_tensor(np.zeros((2, 3)))\n"),
    "the result of an operation": (
        "    a = np.arange(6)\n    x = torch.tensor(a / 255.0)\n    print(a)\n",
        "    a = np.arange(6)\n    x = torch.as_tensor(a / 255.0)\n    print(a)\n",
    ),
    "an array under a name of its own": (
        "    own = np.ones(3)\n    x = torch.tensor(own)\n    print(own.shape, len(own))\n",
        "    own = np.ones(3)\n    x = torch.as_tensor(own)\n    print(own.shape, len(own))\n",
    ),
    "an array that a method made": (
        "    x = torch.tensor(np.arange(6).reshape(2, 3).astype(np.float32))\n",
        "    x = torch.as_tensor(np.arange(6).reshape(2, 3).astype(np.float32))\n",
    ),
    "the number format that it has": (
        "    x = torch.tensor(np.zeros(3), dtype=torch.float64)\n",
        "    x = torch.as_tensor(np.zeros(3), dtype=torch.float64)\n",
    ),
    "a gradient": (
        "    x = torch.tensor(np.ones(3), requires_grad=True)\n",
        "    x = torch.as_tensor(np.ones(3)).requires_grad_()\n",
    ),
    "no gradient": (
        "    x = torch.tensor(np.ones(3), requires_grad=False)\n",
        "    x = torch.as_tensor(np.ones(3))\n",
    ),
    "arrays that are stacked": (
        "    a = np.ones(3)\n    x = torch.stack([torch.tensor(a), torch.tensor(a)])\n    a[0] = 5\n",
        "    a = np.ones(3)\n    x = torch.stack([torch.as_tensor(a), torch.as_tensor(a)])\n    a[0] = 5\n",
    ),
    "arrays that are stacked in depth": (
        "    a = np.ones(3)\n    x = torch.dstack([torch.tensor(a), torch.tensor(a)])\n    a[0] = 5\n",
        "    a = np.ones(3)\n    x = torch.dstack([torch.as_tensor(a), torch.as_tensor(a)])\n    a[0] = 5\n",
    ),
    "an array that goes to CUDA": (
        "    a = np.ones(3)\n    x = torch.tensor(a).cuda()\n    a[0] = 5\n",
        "    a = np.ones(3)\n    x = torch.as_tensor(a).cuda()\n    a[0] = 5\n",
    ),
    "an array whose format is changed at once": (
        "    a = np.ones(3)\n    x = torch.tensor(a).float()\n    a[0] = 5\n",
        "    a = np.ones(3)\n    x = torch.as_tensor(a).float()\n    a[0] = 5\n",
    ),
    "a list of arrays": (
        "    x = torch.tensor([np.zeros(3), np.ones(3)])\n",
        "    x = torch.from_numpy(np.array([np.zeros(3), np.ones(3)]))\n",
    ),
    "a list that is filled": (
        "    rs = []\n    for j in range(4):\n        rs.append(np.ones(3))\n    x = torch.tensor(rs)\n",
        "    rs = []\n    for j in range(4):\n        rs.append(np.ones(3))\n    x = torch.from_numpy(np.array(rs))\n",
    ),
    "a list in another number format": (
        "    x = torch.tensor([np.zeros(3)], dtype=torch.float32)\n",
        "    x = torch.as_tensor(np.array([np.zeros(3)]), dtype=torch.float32)\n",
    ),
    "the legacy constructor of an array": (
        "    a = np.arange(3)\n    x = torch.FloatTensor(a)\n    a[0] = 5\n",
        "    a = np.arange(3)\n    x = torch.as_tensor(a, dtype=torch.float32)\n    a[0] = 5\n",
    ),
    "the legacy constructor of its own format": (
        "    x = torch.Tensor(np.float32(np.arange(3)))\n",
        "    x = torch.as_tensor(np.float32(np.arange(3)))\n",
    ),
    "the legacy constructor of a list": (
        "    x = torch.Tensor([np.zeros(3), np.ones(3)])\n",
        "    x = torch.as_tensor(np.array([np.zeros(3), np.ones(3)]), dtype=torch.float32)\n",
    ),
    "arrays turned on their sides that are stacked": (
        "    x = torch.stack([torch.tensor(np.ones((2, 3)).T), torch.tensor(np.ones((2, 4))[:, 1:].T)])\n",
        "    x = torch.stack([torch.as_tensor(np.ones((2, 3)).T), torch.as_tensor(np.ones((2, 4))[:, 1:].T)])\n",
    ),
    "the first rows of a new array": (
        "    x = torch.tensor(np.ones((4, 3))[:2])\n",
        "    x = torch.as_tensor(np.ones((4, 3))[:2])\n",
    ),
    "a laid out copy of an array turned on its side": (
        "    x = torch.tensor(np.ones((4, 3)).T.copy())\n",
        "    x = torch.as_tensor(np.ones((4, 3)).T.copy())\n",
    ),
    "drawn numbers": (
        "    x = torch.tensor(np.random.uniform(0, 1, (2, 3)))\n",
        "    x = torch.as_tensor(np.random.uniform(0, 1, (2, 3)))\n",
    ),
    "a copy of what is used elsewhere": (
        "    a = np.ones(3)\n    x = torch.tensor(np.array(a))\n    a[0] = 5\n",
        "    a = np.ones(3)\n    x = torch.as_tensor(np.array(a))\n    a[0] = 5\n",
    ),
    "rows of what is used elsewhere, which NumPy copies where a list selects them": (
        "    a = np.ones((3, 4))\n    x = torch.tensor(a[[0, 2]])\n    a[0] = 5\n",
        "    a = np.ones((3, 4))\n    x = torch.as_tensor(a[[0, 2]])\n    a[0] = 5\n",
    ),
    "rows of what is used elsewhere, by the name of their indices": (
        "    a = np.ones((3, 4))\n    rows = np.random.choice(3, 2, replace=False)\n    x = torch.tensor(a[rows])\n    a[0] = 5\n",
        "    a = np.ones((3, 4))\n    rows = np.random.choice(3, 2, replace=False)\n    x = torch.as_tensor(a[rows])\n    a[0] = 5\n",
    ),
    "a new array in each pass of a comprehension": (
        "    xs = [torch.tensor(np.ones(3)) for _ in range(2)]\n    x = xs[0]\n    y = xs[1]\n",
        "    xs = [torch.as_tensor(np.ones(3)) for _ in range(2)]\n    x = xs[0]\n    y = xs[1]\n",
    ),
    "a list that may be empty, in a number format of its own": (
        "    rs = []\n    for j in range(i - 2):\n        rs.append(np.ones(3))\n    x = torch.tensor(rs, dtype=torch.float32)\n",
        (
            "    rs = []\n    for j in range(i - 2):\n        rs.append(np.ones(3))\n"
            "    x = torch.as_tensor(np.array(rs), dtype=torch.float32)\n"
        ),
    ),
    "a list of integers that are rounded as torch rounds them, over float64": (
        "    x = torch.tensor([np.zeros(3, dtype=np.int64)], dtype=torch.float32)\n",
        "    x = torch.as_tensor(np.array([np.zeros(3, dtype=np.int64)], dtype=np.float64), dtype=torch.float32)\n",
    ),
    "a list of arrays of unknown format, in one that is known": (
        "    x = torch.tensor([np.array(eval('[1, 2, 2**60]')), np.zeros(3)], dtype=torch.float)\n",
        "    x = torch.as_tensor(np.array([np.array(eval('[1, 2, 2**60]')), np.zeros(3)], dtype=np.float64), dtype=torch.float)\n",
    ),
    "a list of arrays of unknown format, of whole numbers": (
        "    x = torch.tensor([np.array(eval('[1, 2, 2**60 + 1]')), np.ones(3)], dtype=torch.long)\n",
        "    x = torch.as_tensor(np.array([np.array(eval('[1, 2, 2**60 + 1]')), np.ones(3)], dtype=np.int64), dtype=torch.long)\n",
    ),
    "the legacy constructor of such a list of whole numbers": (
        "    x = torch.LongTensor([np.array(eval('[1, 2, 2**60 + 1]'))])\n",
        "    x = torch.from_numpy(np.array([np.array(eval('[1, 2, 2**60 + 1]'))], dtype=np.int64))\n",
    ),
    "the legacy constructor of such a list": (
        "    x = torch.FloatTensor([np.array(eval('[1, 2, 2**60]'))])\n",
        "    x = torch.as_tensor(np.array([np.array(eval('[1, 2, 2**60]'))], dtype=np.float64), dtype=torch.float32)\n",
    ),
    "a list of arrays of unknown format that become floats at once": (
        "    x = torch.tensor([np.array(eval('[1, 2, 2**60]')), np.zeros(3)]).float()\n",
        "    x = torch.from_numpy(np.array([np.array(eval('[1, 2, 2**60]')), np.zeros(3)])).float()\n",
    ),
    "a list that may be empty, and becomes floats at once": (
        "    rs = []\n    for j in range(i):\n        rs.append(np.ones(3))\n    x = torch.tensor(rs).double()\n",
        "    rs = []\n    for j in range(i):\n        rs.append(np.ones(3))\n    x = torch.from_numpy(np.array(rs)).double()\n",
    ),
    "a list that is made by its name": (
        "    rs = list()\n    for j in range(4):\n        rs.append(np.ones(3))\n    x = torch.tensor(rs)\n",
        "    rs = list()\n    for j in range(4):\n        rs.append(np.ones(3))\n    x = torch.from_numpy(np.array(rs))\n",
    ),
    "the legacy constructor of integers that are several": (
        "    x = torch.Tensor(np.array([3, 4]))\n",
        "    x = torch.as_tensor(np.array([3, 4]), dtype=torch.float32)\n",
    ),
    "the legacy constructor of one float": (
        "    x = torch.Tensor(np.array(3.0, dtype=np.float64))\n",
        "    x = torch.as_tensor(np.array(3.0, dtype=np.float64), dtype=torch.float32)\n",
    ),
    "a tensor that is computed": (
        "    t = torch.ones(3).cuda()\n    x = torch.tensor(t.cuda() if i else t)\n",
        "    t = torch.ones(3).cuda()\n    x = (t.cuda() if i else t).detach().clone()\n",
    ),
    "a tensor": (
        "    t = torch.ones(3).cuda()\n    x = torch.tensor(t)\n",
        "    t = torch.ones(3).cuda()\n    x = t.detach().clone()\n",
    ),
    "rows of an array of integers, which are never a single one": (
        "    table = np.zeros((9, 2), dtype=np.int64)\n    x = torch.LongTensor(table[np.random.randint(9, size=4)])\n",
        "    table = np.zeros((9, 2), dtype=np.int64)\n    x = torch.as_tensor(table[np.random.randint(9, size=4)])\n",
    ),
}
FORMS |= {
    "a quotient, which is no integer": (
        "    x = torch.FloatTensor(np.array(eval('[1, 2]')) / 255)\n",
        "    x = torch.as_tensor(np.array(eval('[1, 2]')) / 255, dtype=torch.float32)\n",
    ),
    "integers in an order that is drawn": (
        "    rows = np.arange(8)\n    x = torch.LongTensor(rows[np.random.permutation(8)[:4]])\n",
        "    rows = np.arange(8)\n    x = torch.as_tensor(rows[np.random.permutation(8)[:4]], dtype=torch.int64)\n",
    ),
    "axes in another order": (
        "    image = np.zeros((2, 3, 4), dtype=np.uint8)\n    x = torch.Tensor(image.transpose(2, 0, 1))\n",
        "    image = np.zeros((2, 3, 4), dtype=np.uint8)\n"
        "    x = torch.as_tensor(image.transpose(2, 0, 1), dtype=torch.float32)\n",
    ),
}
STORED = """\
class Stored(Dataset):
    def __init__(self, path):
        self.path = path
        self.rows = np.load(path)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        with h5py.File(self.path) as file:
            data = np.array(file[str(index)])
        x = torch.Tensor(data)
        y = torch.LongTensor(self.rows[index])
        return x, y


for x, y in DataLoader(Stored("a"), 4):
    print(x, y)
"""


AGENT = """\
import gym
import numpy as np
import torch


class Agent:
    def act(self, state):
        state = torch.FloatTensor(state).unsqueeze(0)
        return int(state.sum() > 0)


def run():
    env = gym.make("Own-v1")
    agent = Agent()
    print(env.observation_space.shape[0])
    for _ in range(9):
        state = env.reset()
        done, states = False, []
        while not done:
            states.append(state)
            state, reward, done, _ = env.step(agent.act(state))
        print(torch.tensor(states, dtype=torch.float32).mean())


run()
"""


def test_an_environment_of_gym_hands_out_arrays_where_their_sizes_are_asked_for() -> None:
    after = AGENT.replace("FloatTensor(state)", "as_tensor(state, dtype=torch.float32)")
    after = after.replace("tensor(states,", "as_tensor(np.array(states, dtype=np.float64),")

    check_rewrites(AsTensor, AGENT, after)
    counted = AGENT.replace("shape[0]", "n").replace("tensor(states, dtype=torch.float32)", "zeros(1)")
    check_leaves(AsTensor, counted, f"{NOT_KNOWN}: that depends on env.reset() (line 17)")


def test_what_is_read_from_a_file_is_no_size_where_nothing_fills_the_tensor() -> None:
    before = HEAD.replace("import numpy", "import h5py\nimport numpy", 1) + STORED
    after = before.replace("torch.Tensor(data)", "torch.as_tensor(data, dtype=torch.float32)")
    after = after.replace("LongTensor(self.rows[index])", "as_tensor(self.rows[index], dtype=torch.int64)")

    check_rewrites(AsTensor, before, after)
    filled = before.replace("        return x", "        y.fill_(1)\n        return x").replace("torch.Tensor", "list")
    check_leaves(AsTensor, filled, may_be_size("self.rows[index]", "int64"))


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
def test_it_is_made_without_a_copy(before: str, after: str) -> None:
    check_rewrites(AsTensor, HEAD + LOOP + before, HEAD + LOOP + after)


LOOKED_UP = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(9, 3)
        self.linear = torch.nn.Linear(3, 1)

    def features(self, rows, dev):
        x = self.embed(torch.LongTensor(rows).to(dev))
        return x + torch.arange(rows.shape[1], device=dev)[:, None]

    def forward(self, rows, labels, scale):
        x = self.features(rows, rows.device)
        y = self.embed(torch.LongTensor(labels))
        return self.linear(x * y * torch.FloatTensor(scale))


net = Net()
for rows, labels, scale in input():
    net(np.array(rows), np.array(labels), np.array(scale))
"""


def test_indices_that_an_embedding_is_asked_for_are_no_size() -> None:
    before = f"{HEAD}\n{LOOKED_UP}"
    after = before
    for name in ("rows", "labels"):
        after = after.replace(f"torch.LongTensor({name})", f"torch.as_tensor({name}, dtype=torch.int64)")

    check_rewrites(AsTensor, before, after)
    assert [site.message for site in run(AsTensor, after).sites] == [may_be_size("scale")]


def may_be_size(data: str, number_format: str = "float32") -> str:
    return (
        f"'{data}' may be a single integer, of which the legacy constructor makes a size:"
        f" write torch.as_tensor(…, dtype=torch.{number_format}) if it is an array"
    )


def left_elsewhere(name: str) -> str:
    return f"the tensor would share its memory with '{name}', which is used elsewhere"


NOT_KNOWN = "it is not known to be a NumPy array"
NO_ARRAYS = "it is not known to be a list of NumPy arrays: that depends on load(i).copy() (line 6)"
MAY_BE_EMPTY = "an empty list would become a tensor of another number format"
LEFT = {
    "the array is written later": ("    a = np.ones(3)\n    x = torch.tensor(a)\n    a[0] = 5\n", left_elsewhere("a")),
    "the array is written by an operator": (
        "    a = np.ones(3)\n    x = torch.tensor(a)\n    a += 1\n",
        left_elsewhere("a"),
    ),
    "the array is kept": ("    a = np.ones(3)\n    x = torch.tensor(a)\n    seen.append(a)\n", left_elsewhere("a")),
    "the array is read later, and the tensor may be written": (
        "    a = np.ones(3)\n    x = torch.tensor(a)\n    x.add_(1)\n    print(a)\n",
        left_elsewhere("a"),
    ),
    "a view of an array that lives on": (
        "    a = np.ones(3)\n    x = torch.tensor(a[1:])\n    a[:] = 0\n",
        left_elsewhere("a"),
    ),
    "an array that was another tensor's": (
        "    t = torch.ones(3)\n    x = torch.tensor(t.numpy())\n    t.zero_()\n",
        left_elsewhere("t"),
    ),
    "one array becomes several tensors": (
        "    a = np.ones(3)\n    xs = [torch.tensor(a) for _ in range(2)]\n    xs[0].add_(1)\n",
        left_elsewhere("a"),
    ),
    "one array becomes a tensor in each pass of an inner loop": (
        "    a = np.ones(3)\n    for j in range(2):\n        x = torch.tensor(a)\n        x.add_(1)\n",
        left_elsewhere("a"),
    ),
    "the array has another name": (
        "    a = np.ones(3)\n    b = a\n    x = torch.tensor(a)\n    b[0] = 5\n",
        left_elsewhere("a"),
    ),
    "a view of it is written": (
        "    a = np.ones(3)\n    b = a.reshape(3, 1)\n    x = torch.tensor(b)\n    a[0] = 5\n",
        left_elsewhere("a"),
    ),
    "a buffer that the next pass writes": (
        "    a = buffer = np.ones((3, 2))\n    x = torch.tensor(buffer[i])\n    buffer[i] = 0\n",
        left_elsewhere("buffer"),
    ),
    "what an environment returned": ("    x = torch.tensor(env.step(i))\n", NOT_KNOWN),
    "what may be the array itself, in another number format": (
        "    a = np.ones(3, dtype=np.float32)\n    x = torch.tensor(np.float32(a))\n    a[0] = 5\n",
        left_elsewhere("a"),
    ),
    "what may be a tensor times an array": ("    x = torch.tensor(np.ones(3) * load(i))\n", NOT_KNOWN),
    "a whole number of which the legacy constructor makes a size": (
        "    x = torch.Tensor(np.array(i))\n",
        may_be_size("np.array(i)"),
    ),
    "an item that may be a whole number": (
        "    a = np.arange(3)\n    x = torch.FloatTensor(a[i])\n",
        may_be_size("a[i]"),
    ),
    "a list that may be empty": (
        "    rs = []\n    for j in range(i):\n        rs.append(np.ones(3))\n    x = torch.tensor(rs)\n",
        MAY_BE_EMPTY,
    ),
    "a list that is filled at times": (
        "    rs = []\n    for j in range(3):\n        if j < i:\n            rs.append(np.ones(3))\n    x = torch.tensor(rs)\n",
        MAY_BE_EMPTY,
    ),
    "a list whose filling is broken off": (
        (
            "    rs = []\n    for j in range(3):\n        if j >= i:\n            break\n        rs.append(np.ones(3))\n"
            "    x = torch.tensor(rs)\n"
        ),
        MAY_BE_EMPTY,
    ),
    "a list that is emptied": (
        "    rs = []\n    rs.append(np.ones(3))\n    rs.clear()\n    x = torch.tensor(rs)\n",
        MAY_BE_EMPTY,
    ),
    "a list that is filled later": (
        "    rs = []\n    x = torch.tensor(rs)\n    rs.append(np.ones(3))\n",
        MAY_BE_EMPTY,
    ),
    "a comprehension that may be empty": (
        "    x = torch.tensor([np.ones(3) for j in range(2) if j > i])\n",
        MAY_BE_EMPTY,
    ),
    "a device that may be the CPU": (
        '    a = np.ones(3)\n    x = torch.tensor(a).to("cuda" if cuda() else "cpu")\n    a[0] = 5\n',
        left_elsewhere("a"),
    ),
    "the format that it has already": (
        "    a = np.ones(3)\n    x = torch.tensor(a).double()\n    a[0] = 5\n",
        left_elsewhere("a"),
    ),
    "a copy to another format happens anyway": (
        "    x = torch.tensor(np.zeros(3), dtype=torch.float32)\n",
        "it is copied once, from float64 to float32, in either form",
    ),
    "a copy to a device happens anyway": (
        "    x = torch.tensor(np.zeros(3), device='cuda')\n",
        "it is copied once, to its device, in either form",
    ),
    "pinned memory": (
        "    x = torch.tensor(np.zeros(3), pin_memory=True)\n",
        "as_tensor takes no other arguments than dtype and device",
    ),
    "a gradient that is decided when it runs": (
        "    x = torch.tensor(np.zeros(3), requires_grad=bool(i))\n",
        "whether it requires a gradient is decided when the script runs",
    ),
    "anything": ("    x = torch.tensor(load(i))\n", NOT_KNOWN),
    "an array that cannot be written": ("    x = torch.tensor(np.frombuffer(data))\n", NOT_KNOWN),
    "an array whose elements share their memory": ("    x = torch.tensor(np.broadcast_to(np.ones(1), 3))\n", NOT_KNOWN),
    "an array mapped from a file": ("    x = torch.tensor(np.load('x.npy', mmap_mode='r'))\n", NOT_KNOWN),
    "a function of what may be a tensor": ("    x = torch.tensor(np.exp(load(i)))\n", NOT_KNOWN),
    "an array only at times": (
        "    a = np.ones(3)\n    if i:\n        a = load(i)\n    x = torch.tensor(a)\n",
        f"{NOT_KNOWN}: that depends on load(i) (line 8)",
    ),
    "anything that goes to a device": (
        "    x = torch.tensor(load(i), device='cuda')\n",
        "it is copied once, to its device, in either form",
    ),
    "anything that stays on the host": ("    x = torch.tensor(load(i), device='cpu')\n", NOT_KNOWN),
    "an item of a dictionary": (
        "    rows = {'a': np.ones(3), 'b': load(i)}\n    x = torch.tensor(rows['a'][1:])\n",
        f"{NOT_KNOWN}: that depends on rows['a'] (line 7)",
    ),
    "a list of arrays of unknown format": (
        "    x = torch.tensor([np.array(load(i)), np.zeros(3)])\n",
        "the number format of the list's arrays is not known",
    ),
    "large integers on the way to smaller ones": (
        "    x = torch.tensor([np.zeros(3, dtype=np.int64)], dtype=torch.int32)\n",
        "numbers of int64 may be rounded otherwise on the way to int32",
    ),
    "a list of arrays of unknown format for integers of half the size": (
        "    x = torch.IntTensor([np.array(load(i)), np.zeros(3)])\n",
        "the number format of the list's arrays is not known",
    ),
    "a list of arrays of unknown format for whatever they are": (
        "    x = torch.tensor([np.array(load(i)), np.array(load(i))])\n",
        "the number format of the list's arrays is not known",
    ),
    "a list of arrays of unknown format that is rounded to another one": (
        "    x = torch.tensor([np.array(load(i))]).half()\n",
        "the number format of the list's arrays is not known",
    ),
    "a list of what may be tensors": ("    x = torch.as_tensor([load(i).copy()], dtype=torch.float32)\n", NO_ARRAYS),
    "a tensor that is given another format": (
        "    t = torch.ones(3).cuda()\n    x = torch.tensor(t, dtype=torch.float64)\n",
        "it is a tensor already, which is given other properties here",
    ),
    **{
        f"a gap between its elements: {array}": (
            f"    x = torch.tensor({array})\n",
            "its elements may have gaps between them, which those of a copy have not",
        )
        for array in (
            "np.ones((4, 3))[:, 1:]",
            "np.ones((4, 3))[::2]",
            "np.ones((4, 3)).T[1:, 1:]",
        )
    },
    "an image whose array cannot be written to": (
        "    from PIL import Image\n\n    image = np.asarray(Image.open(str(i)))\n    x = torch.tensor(image.transpose(2, 0, 1)).float()\n",
        "it is copied once in either form: the array of an image, or of a table of pandas, may be read-only",
    ),
    "what may be the memory of a tensor": (
        "    x = torch.tensor(load(i).detach().cpu().numpy())\n",
        "the tensor would share its memory with what load(i).detach().cpu() returns, and that may be kept there",
    ),
    "a name that a function reads whenever it runs": (
        "    a = np.ones(3)\n    show = lambda: print(a)\n    a = torch.tensor(a[0:2])\n    show()\n",
        left_elsewhere("a"),
    ),
    "a name whose array is kept before": (
        "    a = np.ones(3)\n    kept.append(a)\n    a = torch.tensor(a)\n",
        left_elsewhere("a"),
    ),
    "a row that one number of NumPy's selects": (
        "    a = np.ones((3, 4))\n    x = torch.tensor(a[np.random.choice(3)])\n    a[0] = 5\n",
        left_elsewhere("a"),
    ),
    "a name whose view is kept before": (
        "    a = np.ones(3)\n    kept = a[1:]\n    a = torch.tensor(a)\n    kept += 1\n",
        left_elsewhere("a"),
    ),
    "it is drawn anew only now and then": (
        "    if i % 2 == 0:\n        noise = np.random.randn(4, 8)\n    x = torch.tensor(noise)\n    x += 1\n",
        "the tensor would share its memory with 'noise', which is used elsewhere",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left(code: str, because: str) -> None:
    check_leaves(AsTensor, HEAD + LOOP + code, because)


KEEPING = """\
class Buffer(dict):
    def __init__(self):
        self.rows = None
        self.clear()

    def clear(self):
        self.rows = np.zeros((4, 3))

    def store(self, row):
        {written}

    def sample(self):
        for i in range(3):
            yield torch.tensor({read})
"""


@pytest.mark.parametrize(
    ("written", "read", "because"),
    [
        pytest.param("self.rows[0] = row", "self.rows", left_elsewhere("self.rows"), id="its rows are written"),
        pytest.param(
            "self.rows = row", "self.rows", f"{NOT_KNOWN}: that depends on row (line 14)", id="it is replaced"
        ),
        pytest.param(
            "self['rows'] = row",
            "self['rows'][1:]",
            f"{NOT_KNOWN}: that depends on self['rows'] (line 18)",
            id="an item",
        ),
    ],
)
def test_what_is_nothing_at_first_is_an_array_where_it_is_one(written: str, read: str, because: str) -> None:
    check_leaves(AsTensor, HEAD + KEEPING.format(written=written, read=read), because)


def test_a_name_that_is_nothing_at_first_is_the_array_that_it_becomes() -> None:
    code = "noise = None\nfor i in range(3):\n    noise = np.random.randn(4)\n    x = torch.tensor(noise).cuda()\n"
    check_rewrites(AsTensor, HEAD + code, HEAD + code.replace("torch.tensor", "torch.as_tensor"))


def test_an_array_that_is_used_in_each_pass_stays_the_loops() -> None:
    code = "a = np.ones(3)\n" + LOOP + "    x = torch.tensor(a)\n    x.add_(1)\n"
    check_leaves(AsTensor, HEAD + code, left_elsewhere("a"))


def test_an_array_that_a_function_replaces_is_not_known() -> None:
    code = "a = np.ones(3)\n\n\ndef renew():\n    global a\n    a = load()\n\n\n"
    check_leaves(AsTensor, HEAD + code + LOOP + "    renew()\n    x = torch.stack([torch.tensor(a)])\n", NOT_KNOWN)


def test_an_array_of_an_outer_function_is_not_the_inner_ones() -> None:
    code = "def outer():\n    a = np.ones(3)\n\n    def inner():\n        return torch.tensor(a)\n\n"
    code = HEAD + code + "    for i in range(3):\n        inner().add_(1)\n\n\nouter()\n"
    check_leaves(AsTensor, code, left_elsewhere("a"))


SEVERAL = """\
class Environments:
    def wait(self):
        pass

    def reset(self):
        raise NotImplementedError

    def step(self, actions):
        return self.wait()


class Several(Environments):
    def __init__(self, made):
        self.made = made

    def reset(self):
        return np.stack([each.reset() for each in self.made])

    def wait(self):
        observations, rewards, infos = zip(*[each.step() for each in self.made])
        return np.stack(observations), np.stack(rewards), infos


class Buffer:
    def __init__(self):
        self.kept = []

    def sample(self):
        observations, rewards = map(np.stack, zip(*self.kept))
        return observations, rewards


def train(made):
    environments = [each for each in made]
    environments = Several(environments)
    buffer = Buffer()
    observations = environments.reset()
    for i in range(3):
        x = torch.FloatTensor(observations)
        new, rewards, infos = environments.step(x)
        y = torch.FloatTensor(1 - rewards)
        old, _ = buffer.sample()
        z = torch.FloatTensor(old)
        observations = new
    for i in range(3):
        for j in range(5):
            new, rewards, infos = environments.step(new)
        new = torch.FloatTensor(new)
"""


def test_what_methods_of_the_project_return_is_followed() -> None:
    after = SEVERAL
    for each in ("observations", "1 - rewards", "old", "new"):
        after = after.replace(f"FloatTensor({each})", f"as_tensor({each}, dtype=torch.float32)")
    check_rewrites(AsTensor, HEAD + SEVERAL, HEAD + after)


NO_INTEGER = {"floats, whatever is given": "-np.log(a.numpy())", "a slice": "a.numpy()[np.array([0, 2]), :]"}


@pytest.mark.parametrize("given", NO_INTEGER.values(), ids=NO_INTEGER)
def test_what_cannot_be_a_single_integer(given: str) -> None:
    code = HEAD + f"def pick(a):\n    for i in range(3):\n        print(torch.Tensor({given}))\n"
    check_rewrites(AsTensor, code, code.replace(f"Tensor({given})", f"as_tensor({given}, dtype=torch.float32)"))


def test_an_array_of_a_list_is_no_single_integer() -> None:
    code = HEAD + "kept = []\n" + LOOP + "    kept.append(i)\n    print(torch.Tensor(np.array(kept)))\n"
    check_rewrites(
        AsTensor, code, code.replace("Tensor(np.array(kept))", "as_tensor(np.array(kept), dtype=torch.float32)")
    )


@pytest.mark.parametrize("given", ["a.numpy()[0]", "np.abs(a.numpy())", "np.random.randint(2, size=n)"])
def test_what_may_be_a_single_integer(given: str) -> None:
    code = HEAD + f"def pick(a, n):\n    for i in range(3):\n        print(torch.Tensor({given}))\n"
    check_leaves(AsTensor, code, may_be_size(given))


def test_a_method_that_may_return_something_else_is_not_followed() -> None:
    code = SEVERAL.replace("        pass\n", "        return [], [], []\n")
    code = code.replace("        x = torch.FloatTensor(observations)\n", "        x = torch.ones(3)\n")
    code = code.replace("        z = torch.FloatTensor(old)\n", "        z = old\n")
    code = code.replace("        new = torch.FloatTensor(new)\n", "        print(new)\n")
    because = "it is not known to be a NumPy array: that depends on environments.step(x) (line 44)"
    check_leaves(AsTensor, HEAD + code, because)


def test_a_function_that_returns_its_own_result_ends() -> None:
    code = "def make(n):\n    return make(n - 1)\n\n\nfor i in range(3):\n    a, b = make(3)\n    x = torch.tensor(a)\n"
    check_leaves(AsTensor, HEAD + code, f"{NOT_KNOWN}: that depends on make(3) (line 10)")


KEPT = {
    "returned with it": ("def make():\n    a = np.ones(3)\n    return a, torch.tensor(a)\n\n\n", "make()", "a"),
    "kept by an object": (
        "class Made:\n    def make(self):\n        self.a = np.ones(3)\n        return torch.tensor(self.a)\n\n\n",
        "Made().make()",
        "self.a",
    ),
}


@pytest.mark.parametrize(("code", "call", "name"), KEPT.values(), ids=KEPT)
def test_the_array_is_left_where_it_is(code: str, call: str, name: str) -> None:
    check_leaves(AsTensor, HEAD + code + LOOP + f"    {call}\n", left_elsewhere(name))


def test_the_legacy_constructor_follows_the_default_format() -> None:
    code = "torch.set_default_dtype(torch.float64)\n" + LOOP + "    x = torch.Tensor(np.zeros(3))\n"
    check_leaves(AsTensor, HEAD + code, "the script changes the default number format, which torch.Tensor follows")


def test_numpy_has_to_have_a_name() -> None:
    code = HEAD.replace("import numpy as np", "from numpy import zeros") + LOOP + "    x = torch.tensor([zeros(3)])\n"
    check_leaves(AsTensor, code, "NumPy cannot be named where the tensor is made")


def test_torch_has_to_have_a_name() -> None:
    code = HEAD.replace("import torch\n", "from torch import tensor\n") + LOOP + "    x = tensor(np.zeros(3))\n"
    check_leaves(AsTensor, code, "the call does not name the module torch")


SILENT = {
    "it happens once": "x = torch.tensor(np.zeros(3))\n",
    "a number": LOOP + "    x = torch.tensor(i)\n    y = torch.tensor(3.5)\n",
    "a list of numbers": LOOP + "    x = torch.tensor([1.0, 2.0, i])\n    y = torch.tensor([j for j in range(3)])\n",
    "a list that has a name": LOOP + "    x = [j + 1 for j in range(3)]\n    x = torch.tensor(x[:-1])\n",
    "the user's choice": "import argparse\n\nargs = argparse.ArgumentParser().parse_args()\n"
    + LOOP
    + "    x = torch.tensor(args.lr)\n",
    "sizes": LOOP + "    x = torch.Tensor(3, 4)\n    y = torch.FloatTensor(i)\n",
    "it shares already": LOOP + "    x = torch.as_tensor(np.zeros(3))\n    y = torch.from_numpy(np.zeros(3))\n",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_no_site_where(code: str) -> None:
    check_silent(AsTensor, HEAD + code)


DATA = """\
class Data(Dataset):
    def __init__(self):
        self.images = np.random.rand(100, 8)
        self.labels = np.zeros(100, dtype=np.int64)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = torch.tensor(self.images[index])
        return image, torch.tensor(self.labels[index])


"""
LOADER = "loader = DataLoader(Data(), batch_size=4)\n"


def test_items_of_a_data_set_are_copied_together_anyway() -> None:
    check_rewrites(AsTensor, HEAD + DATA + LOADER, HEAD + DATA.replace("torch.tensor", "torch.as_tensor") + LOADER)


def test_data_sets_may_be_measured() -> None:
    data, size = HEAD + DATA + LOADER, "print(len(loader.dataset), len(Data()), args.dataset)\n"
    check_rewrites(AsTensor, data + size, data.replace("torch.tensor", "torch.as_tensor") + size)


def test_a_function_that_is_called_in_a_loop_is_in_it() -> None:
    code = "def noise():\n    return torch.{make}(np.random.randn(3))\n\n\n" + LOOP + "    print(noise())\n"
    check_rewrites(AsTensor, HEAD + code.format(make="tensor"), HEAD + code.format(make="as_tensor"))


def test_a_method_that_makes_an_items_part_runs_for_each_item() -> None:
    code = DATA.replace("torch.tensor(self.images[index])", "self.read(index)")
    code += "    def read(self, index):\n        return torch.{make}(np.log1p(np.ones(3, dtype=np.float32)))\n\n\n"
    before, after = (HEAD + code.replace("torch.tensor(self", "int(self") + LOADER for _ in range(2))
    check_rewrites(AsTensor, before.replace("{make}", "FloatTensor"), after.replace("{make}", "as_tensor"))


def test_an_array_may_give_its_name_to_the_tensor() -> None:
    code = LOOP + "    x = np.zeros(3, dtype=np.float32)\n    x = torch.{make}(x)\n"
    check_rewrites(AsTensor, HEAD + code.format(make="Tensor"), HEAD + code.format(make="as_tensor"))


def test_a_name_that_is_a_tensor_in_later_passes_is_no_array() -> None:
    code = "x = np.zeros(3, dtype=np.float32)\n" + LOOP + "    x = torch.Tensor(x)\n"
    check_leaves(AsTensor, HEAD + code, f"{NOT_KNOWN}: that depends on torch.Tensor(x) (line 7)")


def test_a_legacy_constructor_of_something_unknown_has_a_reason() -> None:
    code = LOOP + "    x = torch.Tensor(np.logical_or(*game.step()))\n"
    check_leaves(AsTensor, HEAD + code, "it is not known to be a NumPy array")


@pytest.mark.parametrize(
    "drawn",
    ["np.random.uniform(0, 1)", "np.random.normal(0.0, 1.0)", "np.random.random()", "np.random.normal(size=None)"],
)
def test_numbers_that_are_drawn_one_by_one_are_no_arrays(drawn: str) -> None:
    code = HEAD + LOOP + f"    x = torch.tensor([{drawn} for _ in range(8)])\n    y = torch.tensor({drawn})\n"
    assert run(AsTensor, code).after == code


@pytest.mark.parametrize(
    "line", ['torch.set_default_device("cuda")\n', 'with torch.device("cuda"):\n    model = torch.nn.Linear(1, 1)\n']
)
def test_tensors_follow_the_default_device_where_there_is_one(line: str) -> None:
    code = HEAD + line + LOOP + "    x = torch.tensor(np.zeros(3))\n    y = torch.FloatTensor(np.zeros(3))\n"
    check_leaves(AsTensor, code, "the script says on which device tensors are made (line 5)")


def test_a_collate_function_is_called_for_each_batch() -> None:
    code = """\
def collate(batch):
    return torch.{make}(np.array([row / 2 for row in batch]))


loader = DataLoader(list(np.zeros((8, 2))), collate_fn=collate)
"""
    check_rewrites(AsTensor, HEAD + code.format(make="tensor"), HEAD + code.format(make="as_tensor"))


ITEMS = {
    "its items are handed on one by one": (DATA, LOADER.replace("batch_size=4", "batch_size=None")),
    "the batches are put together otherwise": (DATA, LOADER.replace("batch_size=4", "collate_fn=list")),
    "the loader's arguments are not known": (DATA, LOADER.replace("batch_size=4", "**options()")),
    "nothing loads it": (DATA, "data = Data()\n"),
    "its items are taken one by one, too": (DATA, LOADER + "data = Data()\nprint(data[0])\n"),
    "its items are taken from the loader's data set, too": (DATA, LOADER + "print(loader.dataset[0])\n"),
    "it takes its own items": (
        DATA.replace("    def __len__", "    def first(self):\n        return self[0]\n\n    def __len__"),
        LOADER,
    ),
    "a class that derives from it takes its items": (
        (
            DATA
            + "class Noisy(Data):\n    def __getitem__(self, index):\n        image, label = super().__getitem__(index)\n"
            "        return image.add_(1), label\n\n\n"
        ),
        LOADER + "noisy = DataLoader(Noisy(), batch_size=4)\n",
    ),
    "a class that derives from it is its own data set": (
        DATA + "class Noisy(Data):\n    pass\n\n\n",
        LOADER + "noisy = Noisy()\nnoisy[0][0].add_(1)\n",
    ),
    "it is iterated over, too": (DATA, LOADER + "data = Data()\nfor image, label in data:\n    print(image)\n"),
}


@pytest.mark.parametrize(("data", "loader"), ITEMS.values(), ids=ITEMS)
def test_items_of_a_data_set_are_left_where(data: str, loader: str) -> None:
    result = run(AsTensor, HEAD + data + loader)

    assert result.after == HEAD + data + loader
    assert [site.message for site in result.sites] == [left_elsewhere("self.images"), left_elsewhere("self.labels")]


def test_an_item_that_is_written_before_it_is_returned_is_left() -> None:
    data = DATA.replace("        return image", "        image.div_(2)\n        return image")
    result = run(AsTensor, HEAD + data + LOADER)

    assert result.after == HEAD + data.replace("torch.tensor(self.labels", "torch.as_tensor(self.labels") + LOADER
    assert left_elsewhere("self.images") in [site.message for site in result.sites]


def test_it_promises_the_same_bits() -> None:
    assert run(AsTensor, HEAD + LOOP + FORMS["a new array"][0]).promise is Promise.BITWISE


# What the rewritten script does.

DRIVER = """\
import contextlib
import json
import sys
import warnings

import numpy as np
import torch

warnings.simplefilter("ignore")  # about lists of arrays and tensors, the reason for the rewrite
torch.Tensor.cuda = torch.Tensor.clone


def values(text):
    np.random.seed(0)
    names = {}
    with contextlib.redirect_stdout(sys.stderr):
        exec(text, names)
    kept = {name: value for name, value in names.items() if isinstance(value, (np.ndarray, torch.Tensor))}
    return {
        name: [str(value.dtype), list(value.shape), getattr(value, "requires_grad", None), value.tolist()]
        for name, value in kept.items()
    }


json.dump([values(text) for text in json.load(sys.stdin)], sys.stdout)
"""


REFUSED = {
    "an array of the other byte order": '    x = torch.tensor(np.ones(3).astype(">f4"))\n',
    "an array of objects": "    x = torch.tensor(np.array([None]))\n",
    "arrays of several shapes": "    x = torch.tensor([np.zeros(2), np.zeros(3)])\n",
}


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")  # is slow, which is why they are rewritten
@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_what_torch_refuses_it_refuses_afterwards(code: str) -> None:
    result = run(AsTensor, HEAD + LOOP + code)

    assert "torch.tensor(" not in result.after
    for text in (HEAD + LOOP + code, result.after):
        with pytest.raises((TypeError, ValueError)):
            exec(text, {})  # noqa: S102 - the script above


def test_every_form_gives_the_same_bits_and_shares_nothing_that_is_written() -> None:
    # `x` is written last: an array that shared its memory would show it.
    after = "    x.detach().mul_(7)\n"
    texts = [HEAD + LOOP + code + after for form in FORMS.values() for code in form]
    loads = "batches = [torch.cat([x.flatten().double() for x in batch]) for batch in loader]\nx = torch.cat(batches)\n"
    data = HEAD + DATA + LOADER + loads
    texts += [data, data.replace("torch.tensor", "torch.as_tensor")]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], input=json.dumps(texts), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

    answers = json.loads(done.stdout)
    for name, before, after_ in zip([*FORMS, "a data set"], answers[::2], answers[1::2], strict=True):
        assert "x" in before, name
        # An array that nothing reads again may lend its memory to the tensor.
        assert {**before, "own": None} == {**after_, "own": None}, name


MAPS = """\
import numpy as np
import torch


def maps(boxes):
    heat = np.zeros([len(boxes), 8, 8])
    for i, box in enumerate(boxes):
        heat[i, box] = 1.0
    heat = heat.reshape(len(boxes), -1)
    return heat


for boxes in [[1, 2], [3]]:
    boxes = [each % 8 for each in boxes]
    boxes = maps(boxes)
    boxes = torch.tensor(boxes).float()
"""


def test_what_a_function_returns_is_an_array_where_all_its_ends_are() -> None:
    check_rewrites(AsTensor, MAPS, MAPS.replace("torch.tensor(boxes)", "torch.as_tensor(boxes)"))


@pytest.mark.parametrize(
    ("code", "because"),
    [
        (
            MAPS.replace("boxes = torch.tensor(boxes).float()", "print(torch.tensor(boxes))"),
            "the tensor would share its memory with what maps(boxes) returns, and that may be kept there",
        ),
        (
            MAPS.replace("    heat = np.zeros", "    if not boxes:\n        return 0\n    heat = np.zeros"),
            f"{NOT_KNOWN}: that depends on maps(boxes) (line 17)",
        ),
        (
            MAPS.replace(
                "    boxes = maps(boxes)\n", "    boxes = maps(boxes)\n    if 3 in boxes:\n        boxes = []\n"
            ),
            f"{NOT_KNOWN}: that depends on [] (line 17)",
        ),
        (
            MAPS.replace("torch.tensor(boxes)", "torch.stack([torch.tensor(boxes) for boxes in [boxes]])"),
            "it is not known to be a NumPy array",
        ),
    ],
    ids=["it may keep it", "not at each end", "the name may be given something else", "a comprehension binds the name"],
)
def test_what_a_function_returns_is_left_where(code: str, because: str) -> None:
    check_leaves(AsTensor, code, because)


@pytest.mark.parametrize(
    "read",
    [
        "np.load('x.npy')",
        "np.loadtxt('x.txt')",
        "np.genfromtxt('x.csv', delimiter=',').astype(np.float32)",
        "(np.load('x.npy') - 5) / 2",
        "np.load('x.npy', allow_pickle=True)",
    ],
)
def test_what_is_read_from_a_file_may_be_large_outside_of_loops_too(read: str) -> None:
    before = f"{HEAD}x = torch.tensor({read})\n"

    check_rewrites(AsTensor, before, before.replace("torch.tensor", "torch.as_tensor"))


def test_a_file_that_is_used_elsewhere_is_left_outside_of_loops_too() -> None:
    check_leaves(AsTensor, HEAD + "a = np.load('x.npy')\nx = torch.tensor(a)\nprint(a.sum())\n", left_elsewhere("a"))


def test_a_list_of_arrays_is_slow_outside_of_loops_too() -> None:
    before = HEAD + "parts = [np.zeros(3), np.ones(3)]\nx = torch.tensor(parts)\n"

    check_rewrites(AsTensor, before, before.replace("torch.tensor(parts)", "torch.from_numpy(np.array(parts))"))


MADE_ELSEWHERE = {
    "a function returns it": (
        "def make():\n    rows = []\n    rows.append(np.eye(4)[[0, 1]])\n    return rows\n",
        "make()",
    ),
    "a function returns it beside others": (
        "def make():\n    rows, names = [], []\n    rows.append(np.eye(4)[1])\n    names.append(1)\n    return names, rows\n",
        "make()[1]",
    ),
    "a method returns it": (
        "class Data:\n    def make(self):\n        return [np.zeros(3) for _ in range(2)]\n\n\n",
        "Data().make()",
    ),
}


@pytest.mark.parametrize(("made", "call"), MADE_ELSEWHERE.values(), ids=MADE_ELSEWHERE)
def test_a_list_of_arrays_that_is_made_elsewhere(made: str, call: str) -> None:
    is_part = call.endswith("]")
    given = f"_, rows = {call[:-3]}\n" if is_part else f"rows = {call}\n"
    before = HEAD + made + given + "rows = torch.FloatTensor(rows)\n"

    check_rewrites(
        AsTensor,
        before,
        before.replace("torch.FloatTensor(rows)", "torch.as_tensor(np.array(rows), dtype=torch.float32)"),
    )


def test_a_list_of_arrays_that_a_function_is_given() -> None:
    before = (
        HEAD + "def joined(rows):\n    return torch.FloatTensor(rows)\n\n\n"
        "a = joined([np.zeros(3)])\nb = joined([np.ones(3) for _ in range(2)])\n"
    )

    check_rewrites(
        AsTensor,
        before,
        before.replace("torch.FloatTensor(rows)", "torch.as_tensor(np.array(rows), dtype=torch.float32)"),
    )


def test_a_list_of_pairs_of_arrays() -> None:
    before = (
        HEAD
        + "pairs = []\nfor i in range(3):\n    pairs.append((np.zeros(3), np.ones(3)))\nx = torch.FloatTensor(pairs)\n"
    )

    check_rewrites(
        AsTensor,
        before,
        before.replace("torch.FloatTensor(pairs)", "torch.as_tensor(np.array(pairs), dtype=torch.float32)"),
    )


def test_a_list_of_lists_that_may_be_empty_is_one_of_float64_to_numpy() -> None:
    code = HEAD + "lists = [[np.zeros(3, np.int64) for _ in range(n)] for n in sizes]\nx = torch.tensor(lists)\n"

    check_leaves(AsTensor, code, "the number format of the list's arrays is not known")


NOT_ONLY_ARRAYS = {
    "the function may return something else": "def make():\n    if busy:\n        return [torch.ones(3)]\n    return [np.zeros(3)]\nrows = make()\n",
    "a generator makes it": "def make():\n    yield np.zeros(3)\nrows = make()\n",
    "the function is replaced by a decorator": "@cached\ndef make():\n    return [np.zeros(3)]\nrows = make()\n",
    "more is added": "def make():\n    return [np.zeros(3)]\nrows = make()\nrows.extend(others)\n",
    "an item is replaced": "rows = [np.zeros(3)]\nrows[0] = torch.ones(3)\n",
    "some items are replaced": "rows = [np.zeros(3)]\nrows[:] = others\n",
    "a function that calls itself makes it": "def make():\n    rows = make()\n    return rows\nrows = make()\n",
    "a list of lists has something else": "rows = [[np.zeros(3)], [torch.ones(3)]]\n",
}


@pytest.mark.parametrize("made", NOT_ONLY_ARRAYS.values(), ids=NOT_ONLY_ARRAYS)
def test_a_list_that_may_have_something_else_in_it(made: str) -> None:
    check_silent(AsTensor, HEAD + made + "x = torch.FloatTensor(rows)\n")


def test_a_parameter_that_others_may_give() -> None:
    check_silent(
        AsTensor,
        HEAD + "def joined(rows):\n    return torch.FloatTensor(rows)\n\n\nuse(joined)\njoined([np.zeros(3)])\n",
    )


def test_the_index_of_an_item_is_a_number() -> None:
    check_silent(
        AsTensor,
        HEAD
        + "class Data(Dataset):\n    def __getitem__(self, index):\n        return torch.tensor(index)\n\n\n"
        + "loader = DataLoader(Data())\n",
    )


def test_images_become_tensors_without_a_second_copy() -> None:
    before = """\
from PIL import Image


class Data(Dataset):
    def __getitem__(self, index):
        image = np.array(Image.open(f"{index}.png"))
        image = image.astype(np.float32) / 255
        image = torch.tensor(image.transpose(2, 0, 1))
        return image


loader = DataLoader(Data())
"""

    check_rewrites(AsTensor, HEAD + before, (HEAD + before).replace("torch.tensor", "torch.as_tensor"))


TABLE = """\
def load(path):
    rows = np.loadtxt(path, dtype=np.float32)
    return rows[:, 1:], rows[:, 0], len(rows)


class Rows(Dataset):
    def __init__(self, inputs, labels):
        self.inputs = inputs
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.tensor(self.inputs[i]).unsqueeze(0), torch.tensor(self.labels[i])


inputs, labels, count = load("rows.txt")
order = np.random.permutation(count)
mean, std = inputs[order].mean(axis=0), inputs[order].std(axis=0)
inputs = (inputs - mean) / std
loader = DataLoader(Rows(inputs, labels), batch_size=2)
for _ in range(3):
    weight = torch.tensor(count)
"""


def test_arrays_are_followed_through_the_tuple_that_a_function_returns() -> None:
    after = TABLE.replace("torch.tensor(self", "torch.as_tensor(self")
    check_rewrites(AsTensor, HEAD + TABLE, HEAD + after)


def test_an_attribute_of_the_same_name_in_another_class_is_another_one() -> None:
    other = "class Names:\n    def __init__(self):\n        self.inputs = object()\n\n\n"
    after = TABLE.replace("torch.tensor(self", "torch.as_tensor(self")
    check_rewrites(AsTensor, HEAD + other + TABLE, HEAD + other + after)


def test_an_attribute_of_a_derived_class_may_be_the_same_one() -> None:
    other = "class More(Rows):\n    def __init__(self):\n        self.inputs = object()\n\n\n"
    code = TABLE.replace("inputs, labels, count = load", other + "inputs, labels, count = load")
    after = run(AsTensor, HEAD + code).after

    assert "torch.tensor(self.inputs[i])" in after


ENVIRONMENTS = """\
import gymnasium as gym

envs = gym.wrappers.RecordEpisodeStatistics(gym.vector.SyncVectorEnv([make(i) for i in range(4)]))
state, _ = envs.reset(seed=1)
for step in range(9):
    action = act(torch.Tensor(state))
    state, reward, ended, cut, infos = envs.step(action)
    done = np.logical_or(ended, cut)
    state, done = torch.Tensor(state), torch.Tensor(done)
"""


def test_what_several_environments_hand_out_are_arrays() -> None:
    code = ENVIRONMENTS.replace("    state, done = torch.Tensor(state), ", "    done = ")
    after = code.replace("torch.Tensor(state)", "torch.as_tensor(state, dtype=torch.float32)").replace(
        "torch.Tensor(done)", "torch.as_tensor(done, dtype=torch.float32)"
    )
    check_rewrites(AsTensor, HEAD + code, HEAD + after)


def test_what_one_environment_hands_out_may_be_a_single_integer() -> None:
    code = ENVIRONMENTS.replace("gym.vector.SyncVectorEnv([make(i) for i in range(4)])", 'gym.make("Taxi-v3")')

    assert run(AsTensor, HEAD + code).after == HEAD + code


def test_a_tensor_that_is_copied_into_another_may_share_memory_until_then() -> None:
    code = "sums = torch.zeros(9, 3)\na = np.ones(3)\n" + LOOP + "    sums[i] = torch.tensor(a).to('cpu')\n    a += 1\n"
    check_rewrites(AsTensor, HEAD + code, HEAD + code.replace("torch.tensor", "torch.as_tensor"))


@pytest.mark.parametrize(
    "given",
    [
        "x.shape",
        "x.shape[0]",
        "x.size()",
        "len(x) + 1",
        "x.item()",
        "random.sample(range(9), 3)",
        "x.tolist()",
        "np.ones(3).mean()",
        "list(x)",
    ],
)
def test_numbers_and_sizes_are_no_site_whatever_has_them(given: str) -> None:
    code = f"import random\n\n\ndef sizes(x):\n    for i in range(3):\n        y = torch.tensor({given})\n"
    check_silent(AsTensor, HEAD + code)


@pytest.mark.parametrize("said", ["int", "float", "list[int]", "Sequence[float]"])
def test_a_parameter_that_is_said_to_be_a_number_is_no_site(said: str) -> None:
    check_silent(AsTensor, HEAD + f"def sizes(x: {said}):\n    for i in range(3):\n        y = torch.tensor(x)\n")


def test_generators_draw_arrays_where_they_are_asked_for_several_numbers() -> None:
    code = "rng = np.random.default_rng(0)\n" + LOOP + "    x = torch.tensor(2 * np.pi * rng.standard_normal(8))\n"
    check_rewrites(AsTensor, HEAD + code, HEAD + code.replace("torch.tensor", "torch.as_tensor"))


def test_what_other_code_gives_a_parameter_is_not_known() -> None:
    code = (
        "def moved(x):\n    return torch.tensor(x)\n\n\nfor i in range(9):\n    y = list(map(moved, np.ones((3, 2))))\n"
    )
    check_leaves(AsTensor, HEAD + code, "it is not known to be a NumPy array")


ONCE = {
    "a layer": """\
class Wavelets(torch.nn.Module):
    def __init__(self, low, high):
        super().__init__()
        self.register_buffer("both", torch.Tensor(np.concatenate((np.ones(low), np.ones(high)))))
layers = [Wavelets(2, 3) for each in range(9)]
""",
    "what a layer calls to be made": """\
class Wavelets(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fill()
    def fill(self):
        self.taps = torch.tensor(np.ones(3))
for i in range(9):
    Wavelets()
""",
    "the layers of a model": """\
class Wavelets(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for n in range(9):
            self.register_buffer(str(n), torch.tensor(np.ones(n)))
Wavelets()
""",
    "the layers of a model, by a method": """\
class Tower(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = self.make(sizes)
    def make(self, sizes):
        layers = torch.nn.ModuleList()
        for n, m in zip(sizes, sizes[1:]):
            layer = torch.nn.Linear(n, m)
            layer.weight.data = torch.tensor(np.random.normal(0, 1, (m, n)).astype(np.float32))
            layers.append(layer)
        return layers
Tower([3, 4, 5])
""",
    "a data set": """\
class Own(Dataset):
    def __init__(self):
        self.scale = torch.tensor(np.ones(3))
    def __getitem__(self, i):
        return self.scale
for name in "abc":
    Own()
""",
}


@pytest.mark.parametrize("code", ONCE.values(), ids=ONCE)
def test_no_site_in_what_runs_once_to_make(code: str) -> None:
    check_silent(AsTensor, HEAD + "\n" + code)


def test_an_object_that_is_made_for_each_batch_converts_each_time() -> None:
    code = """\

class Step:
    def __init__(self, n):
        self.x = torch.tensor(np.ones(n))
for n in range(9):
    Step(n)
"""
    check_rewrites(AsTensor, HEAD + code, HEAD + code.replace("torch.tensor", "torch.as_tensor"))


REPEATED = {
    "in what makes a data set, of its files": """\
class Own(Dataset):
    def __init__(self, names):
        self.items = []
        for name in names:
            self.items.append(torch.tensor(np.random.randn(9)))
Own("abc")
""",
    "in a function that the forward calls, too": """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fill()
    def fill(self):
        self.rows = [torch.tensor(np.ones(n)) for n in range(9)]
    def forward(self, x):
        self.fill()
        return x
Net()
""",
    "in a function that is called elsewhere, too": """\
def tables():
    return [torch.tensor(np.ones(n)) for n in range(9)]
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = tables()
Net()
tables()
""",
}


@pytest.mark.parametrize("code", REPEATED.values(), ids=REPEATED)
def test_a_loop_repeats(code: str) -> None:
    code = HEAD + "\n" + code
    check_rewrites(AsTensor, code, code.replace("torch.tensor", "torch.as_tensor"))


def test_lines_stay_wrapped_as_they_are() -> None:
    code = (
        LOOP
        + """\
    x = torch.Tensor(
        np.concatenate((np.ones(3), np.ones(2)), axis=0))
    y = torch.tensor(
        np.concatenate((np.ones(3), np.ones(2)), axis=0),
        dtype=torch.float64)
"""
    )
    check_rewrites(
        AsTensor,
        HEAD + code,
        HEAD
        + LOOP
        + """\
    x = torch.as_tensor(
        np.concatenate((np.ones(3), np.ones(2)), axis=0),
        dtype=torch.float32)
    y = torch.as_tensor(
        np.concatenate((np.ones(3), np.ones(2)), axis=0),
        dtype=torch.float64)
""",
    )


ARCHIVES = {
    "its path": 'f = np.load("cache.npz")\nx = torch.tensor(f["mean"])\n',
    "the call itself": 'x = torch.tensor(np.load("cache.npz")["mean"])\n',
    "that it is closed": 'f = np.load(path)\nx = torch.tensor(f["mean"][:])\nf.close()\n',
    "a with": 'with np.load(path) as f:\n    x = torch.tensor(f["mean"])\n',
}


@pytest.mark.parametrize("code", ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_reads_an_array_anew_each_time_known_by(code: str) -> None:
    code = "import sys\npath = sys.argv[1]\n" + code

    check_rewrites(AsTensor, HEAD + code, HEAD + code.replace("torch.tensor", "torch.as_tensor"))


def test_the_field_of_a_table_shares_memory() -> None:
    code = LOOP + '    f = np.load("table.npy")\n    x = torch.tensor(f["mean"])\n    f["mean"] += 1\n'
    check_leaves(AsTensor, HEAD + code, "the tensor would share its memory with 'f', which is used elsewhere")


def test_a_number_in_a_function_that_nothing_calls_is_no_site() -> None:
    check_silent(AsTensor, HEAD + "def scaled(x):\n    for i in range(3):\n        x *= torch.tensor(1.0 / 0.01)\n")


READ = {
    "scipy.io.wavfile": ("from scipy.io import wavfile", "rate, sound = wavfile.read(name)"),
    "scipy.io.wavfile.read": ("from scipy.io.wavfile import read", "_, sound = read(name)"),
    "librosa": ("import librosa", "sound, rate = librosa.load(name, sr=16000)"),
    "soundfile": ("import soundfile as sf", 'sound, rate = sf.read(name, dtype="float32")'),
}


@pytest.mark.parametrize(("library", "reading"), READ.values(), ids=READ)
def test_a_recording_that_a_library_reads_is_held_by_nobody_else(library: str, reading: str) -> None:
    text = f"{library}\n" + HEAD + "for name in open('names'):\n    {}\n    x = torch.{}(sound)\n"

    check_rewrites(AsTensor, text.format(reading, "tensor"), text.format(reading, "as_tensor"))


def test_a_recording_is_cast_to_an_array_of_its_own() -> None:
    text = (
        "from scipy.io.wavfile import read\n" + HEAD + "class Sounds(Dataset):\n    def __getitem__(self, i):\n"
        "        rate, sound = read(self.names[i])\n        return torch.{}(sound.astype(np.float32))\n"
    )
    check_rewrites(AsTensor, text.format("FloatTensor"), text.format("as_tensor"))


UNREAD = {
    "mapped from its file": "rate, sound = wavfile.read(name, mmap=True)",
    "in memory that is a file's": "rate, sound = wavfile.read(io.BytesIO(name))",
    "the rate": "sound, rate = wavfile.read(name)",
}


@pytest.mark.parametrize("reading", UNREAD.values(), ids=UNREAD)
def test_what_else_a_library_reads_is_left(reading: str) -> None:
    text = "import io\nfrom scipy.io import wavfile\n" + HEAD
    text += f"for name in open('names'):\n    {reading}\n    x = torch.tensor(sound)\n"

    check_leaves(AsTensor, text, "it is not known to be a NumPy array")


FRAMES = "    frames = [np.zeros((4, 4), dtype=np.float32) for _ in range(3)]\n"
LISTS = {
    "to a number format": (
        "torch.as_tensor(frames, dtype=torch.float32)",
        "torch.as_tensor(np.array(frames), dtype=torch.float32)",
    ),
    "written out": (
        "torch.as_tensor([np.zeros(3), np.ones(3)])",
        "torch.from_numpy(np.array([np.zeros(3), np.ones(3)]))",
    ),
}


@pytest.mark.parametrize(("before", "after"), LISTS.values(), ids=LISTS)
def test_as_tensor_of_a_list_of_arrays_is_given_one_array(before: str, after: str) -> None:
    check_rewrites(AsTensor, HEAD + LOOP + FRAMES + f"    x = {before}\n", HEAD + LOOP + FRAMES + f"    x = {after}\n")


@pytest.mark.parametrize("data", ["np.ones(3)", "np.array(frames)", "[1.0, i]", "[i, i].copy()", "unknown(i)"])
def test_of_as_tensor_of_anything_else_nothing_is_said(data: str) -> None:
    check_silent(AsTensor, HEAD + LOOP + FRAMES + f"    x = torch.as_tensor({data})\n")


@pytest.mark.parametrize("call", ["torch.as_tensor(seen, dtype=torch.float32)", "torch.tensor(seen)"])
def test_a_list_of_what_may_be_arrays_is_never_passed_over(call: str) -> None:
    text = (
        HEAD + "import gym\n\nenv = gym.make('Own-v1')\nfor epoch in range(3):\n    seen, done = [], False\n"
        "    obs = env.reset()\n    while not done:\n        seen.append(obs.copy())\n"
        f"        obs, reward, done, _ = env.step(0)\n    x = {call}\n"
    )
    check_leaves(AsTensor, text, "it is not known to be a list of NumPy arrays: that depends on obs.copy() (line 12)")


def test_a_line_that_gets_too_wide_is_split() -> None:
    lines = "    observation, finished = np.ones((64, 4)), np.zeros(64)\n"
    before = "    observation, finished = torch.Tensor(observation).to(device), torch.Tensor(finished).to(device)\n"
    after = """\
    observation = torch.as_tensor(observation, dtype=torch.float32).to(device)
    finished = torch.as_tensor(finished, dtype=torch.float32).to(device)
"""
    head = HEAD + "device = torch.device('cuda')\n" + LOOP + lines

    check_rewrites(AsTensor, head + before, head + after)


def test_a_line_stays_one_where_a_name_is_bound_that_it_reads() -> None:
    lines = "    observation, finished = np.ones((64, 4)), np.zeros(64)\n"
    before = "    finished, observation = torch.Tensor(observation).to(device), torch.Tensor(finished).to(device)\n"
    head = HEAD + "device = torch.device('cuda')\n" + LOOP + lines
    made = "torch.as_tensor({}, dtype=torch.float32).to(device)"
    after = f"    finished, observation = {made.format('observation')}, {made.format('finished')}\n"

    check_rewrites(AsTensor, head + before, head + after)


LEGACY = {
    "integers of the same format": ("LongTensor(np.zeros(3, np.int64))", "as_tensor(np.zeros(3, np.int64))"),
    "floats of the same format": ("DoubleTensor(np.ones(3))", "as_tensor(np.ones(3))"),
    "floats that are cut": ("IntTensor(np.ones(3) * 1.5)", "as_tensor(np.ones(3) * 1.5, dtype=torch.int32)"),
    "integers of the machine's format": ("LongTensor(np.arange(3))", "as_tensor(np.arange(3), dtype=torch.int64)"),
    "a list of arrays": (
        "LongTensor([np.zeros(3, np.int32), np.zeros(3, np.int32)])",
        "as_tensor(np.array([np.zeros(3, np.int32), np.zeros(3, np.int32)]), dtype=torch.int64)",
    ),
}


def test_positions_that_are_repeated_for_each_row_and_masked_in_place() -> None:
    head = HEAD + "def embed(rows):\n"
    made = "    places = np.tile(np.arange(1, rows.shape[1] + 1), [rows.shape[0], 1])\n    places *= rows != 0\n"
    end = "for i in range(3):\n    print(embed(np.eye(3)).tolist())\n"
    before = f"{head}{made}    return torch.LongTensor(places)\n{end}"
    after = f"{head}{made}    return torch.as_tensor(places, dtype=torch.int64)\n{end}"

    check_rewrites(AsTensor, before, after)
    assert run_script(after) == run_script(before)


EPISODES = """\
import random


class Buffer:
    def __init__(self):
        self.kept = []

    def push(self, states):
        self.kept.append(states)

    def sample(self):
        batch = []
        for states in random.sample(self.kept, 2):
            batch.append(states)
        return batch


buffer = Buffer()
for i in range(3):
    batch = buffer.sample()
"""
UNKNOWN_LISTS = {
    "the legacy constructor": "torch.FloatTensor(batch)",
    "a format that is named": "torch.tensor(batch, dtype=torch.float32)",
    "a format that is named where arrays are shared": "torch.as_tensor(batch, dtype=torch.float)",
    "floats in the end": "torch.tensor(batch).float()",
}


@pytest.mark.parametrize("call", UNKNOWN_LISTS.values(), ids=UNKNOWN_LISTS)
def test_floats_of_a_list_that_may_be_one_of_arrays(call: str) -> None:
    because = "it is not known to be a list of NumPy arrays: that depends on states (line 18)"
    check_leaves(AsTensor, f"{HEAD}{EPISODES}    x = {call}\n", because)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("torch.LongTensor(batch)", id="indices, as of words"),
        pytest.param("torch.tensor(batch)", id="whatever it holds, which may be words"),
        pytest.param("torch.FloatTensor([batch[0], batch[1]])", id="a few things that are written out"),
    ],
)
def test_a_list_of_which_nothing_speaks_for_arrays(call: str) -> None:
    check_silent(AsTensor, f"{HEAD}{EPISODES}    x = {call}\n")


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")  # is slow, which is why they are rewritten
@pytest.mark.parametrize(("legacy", "shared"), LEGACY.values(), ids=LEGACY)
def test_a_legacy_constructor_of_any_format(legacy: str, shared: str) -> None:
    before, after = (f"{HEAD}{LOOP}    x = torch.{each}\n    print(x.tolist(), x.dtype)\n" for each in (legacy, shared))

    check_rewrites(AsTensor, before, after)
    assert run_script(after) == run_script(before)


@pytest.mark.parametrize(
    ("call", "because"),
    [
        pytest.param(
            "LongTensor([np.ones(3), np.ones(3)])",
            "numbers of float64 may be refused as int64 one by one, and are cut as a whole",
            id="floats one by one",
        ),
        pytest.param(
            "IntTensor([np.zeros(3, np.int64), np.zeros(3, np.int64)])",
            "numbers of int64 may be refused as int32 one by one, and are cut as a whole",
            id="integers that may be too large",
        ),
        pytest.param("LongTensor(np.asarray(i))", may_be_size("np.asarray(i)", "int64"), id="a size"),
    ],
)
def test_a_legacy_constructor_that_may_make_something_else(call: str, because: str) -> None:
    check_leaves(AsTensor, f"{HEAD}{LOOP}    x = torch.{call}\n", because)


BATCHES = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def train(loader):
    for points, labels in loader:
        {body}
        print(points.tolist())


train(DataLoader(TensorDataset(torch.arange(12).view(4, 3), torch.arange(4)), {arguments}))
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("points = points.data.numpy()\n        points = torch.Tensor(points)", id="a batch as an array"),
        pytest.param(
            "points = np.asarray(points)\n        points[:, :1] += 1\n        points = torch.Tensor(points)",
            id="parts of it are set",
        ),
    ],
)
def test_the_legacy_constructor_of_what_has_rows(body: str) -> None:
    before = BATCHES.format(body=body, arguments="batch_size=2")
    after = before.replace("torch.Tensor(points)", "torch.as_tensor(points, dtype=torch.float32)")

    check_rewrites(AsTensor, before, after)
    assert run_script(before) == run_script(after)


def test_the_legacy_constructor_of_an_item_may_make_a_size() -> None:
    code = BATCHES.format(body="points = torch.Tensor(labels.numpy())", arguments="batch_size=None")

    check_leaves(AsTensor, code, may_be_size("labels.numpy()"))


def test_nothing_is_said_of_what_is_a_number_here_and_a_tensor_there() -> None:
    code = f"""\
import argparse
{HEAD}parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float, default=0.2)
alpha = parser.parse_args().alpha
for i in range(9):
    print(torch.tensor(alpha))
    alpha = torch.ones(1).exp()
"""
    check_silent(AsTensor, code)


ACTING = """\
import gym
import numpy as np
import torch


def choose(net, observation):
    return net(torch.tensor([observation], dtype=torch.float)).argmax().item()


def play(net):
    env = gym.make("{name}")
    observation, done = env.reset(), False
    while not done:
        observation, _, done, _ = env.step(choose(net, observation))
"""


def test_what_an_environment_observes_that_is_known_by_its_name() -> None:
    before = ACTING.format(name="LunarLander-v2")

    check_rewrites(
        AsTensor,
        before,
        before.replace(
            "torch.tensor([observation], dtype=torch.float)",
            "torch.as_tensor(np.array([observation], dtype=np.float64), dtype=torch.float)",
        ),
    )


def test_states_that_are_counted_are_numbers_already() -> None:
    check_silent(AsTensor, ACTING.format(name="FrozenLake-v1"))


REPLAY = """\
import random
from collections import deque, namedtuple

import gym
import numpy as np
import torch

Step = namedtuple("Step", ("state", "action", "reward"))


class Memory:
    def __init__(self, size):
        self.kept = deque(maxlen=size)

    def push(self, state, action, reward):
        self.kept.append({put})

    def sample(self, n):
        return random.sample(self.kept, n)


memory = Memory(100)
env = gym.make("CartPole-v1")
state = env.reset()
for i in range(100):
    following, reward, done, _ = env.step(0)
    memory.push(state, 0, reward)
    state = env.reset() if done else following
    batch = memory.sample(min(8, i + 1))
    {taken}
    x = {made}
"""
COLUMNS = {
    "zipped": ("(state, action, reward)", "states, actions, rewards = zip(*batch)", "torch.FloatTensor({})", "states"),
    "by their names": (
        "Step(state, action, reward)",
        "pass",
        "torch.tensor({}, dtype=torch.float32)",
        "[step.state for step in batch]",
    ),
    "zipped by their names": (
        "Step(state, action, reward)",
        "rows = Step(*zip(*batch))",
        "torch.FloatTensor({})",
        "rows.state",
    ),
    "in a loop": (
        "[state, action, reward]",
        "states = []\n    for one, _, _ in batch:\n        states.append(one)",
        "torch.FloatTensor({})",
        "states",
    ),
    "in a loop, one after the other": (
        "(state, action, reward)",
        "states = []\n    for step in batch:\n        one, _, _ = step\n        states.append(one)",
        "torch.FloatTensor({})",
        "states",
    ),
}


@pytest.mark.parametrize(("put", "taken", "made", "data"), COLUMNS.values(), ids=COLUMNS)
def test_what_is_remembered_of_an_environment_is_joined_first(put: str, taken: str, made: str, data: str) -> None:
    before = REPLAY.format(put=put, taken=taken, made=made.format(data))
    joined = f"torch.as_tensor(np.array({data}, dtype=np.float64), dtype=torch.float32)"

    check_rewrites(AsTensor, before, REPLAY.format(put=put, taken=taken, made=joined))


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")  # is slow, which is why they are joined
def test_the_joined_arrays_are_the_same_bits() -> None:
    import numpy as np
    import torch

    rng = np.random.default_rng(0)
    for format_ in ("float32", "float64", "int64", "uint8"):
        states = tuple((rng.random(4) * 100).astype(format_) for _ in range(5))
        joined = torch.as_tensor(np.array(states, dtype=np.float64), dtype=torch.float32)

        assert torch.equal(torch.FloatTensor(states), joined)


@pytest.mark.parametrize("column", ["rewards", "actions"])
def test_numbers_that_are_remembered_are_no_site(column: str) -> None:
    taken = "states, actions, rewards = zip(*batch)"

    check_silent(
        AsTensor, REPLAY.format(put="(state, action, reward)", taken=taken, made=f"torch.FloatTensor({column})")
    )


def test_what_is_remembered_and_may_be_no_array_is_left() -> None:
    text = REPLAY.format(
        put="(state, action, reward)",
        taken="states, actions, rewards = zip(*batch)",
        made="torch.FloatTensor(states)",
    )

    check_leaves(
        AsTensor,
        text.replace("CartPole-v1", "Own-v1"),
        "it is not known to be a list of NumPy arrays: that depends on state (line 16)",
    )


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("torch.tensor(np.loadtxt('a.txt'), dtype=torch.float32)", id="another number format"),
        pytest.param("torch.tensor(np.load('a.npy'), device='cuda')", id="to a device"),
        pytest.param("torch.tensor(pd.read_csv('a.csv').values)", id="what may be read-only"),
    ],
)
def test_nothing_is_said_of_one_copy_that_is_made_in_either_form(made: str) -> None:
    start = "import numpy as np\nimport pandas as pd\nimport torch\n"

    check_silent(AsTensor, f"{start}x = {made}\n")
    assert [each.code for each in run(AsTensor, f"{start}while True:\n    x = {made}\n").sites] == ["nothing-to-gain"]


COLLATED = """\
class Rows(Dataset):
    def __init__(self, path, names):
        with np.load(path) as data:
            x, y = data["x"], data["y"]
        self.x = [x[i] for i in range(len(x))]
        self.y = []
        for i in range(len(x)):
            self.y.append(y[i])
        self.names = names

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index], self.names[index]


def collate(rows):
    columns = list(zip(*rows))
    x = torch.tensor(columns[0], dtype=torch.float)
    y = torch.LongTensor([each[1] for each in rows])
    names = torch.tensor([each for _, _, each in rows], dtype=torch.float)
    return x, y, names


for x, y, names in DataLoader(Rows("rows.npz", input()), collate_fn=collate):
    print(x, y, names)
"""


def test_columns_of_what_a_data_set_returns_are_read_as_a_whole() -> None:
    before = f"{HEAD}\n{COLLATED}"
    after = before.replace(
        "torch.tensor(columns[0], dtype=torch.float)",
        "torch.as_tensor(np.array(columns[0], dtype=np.float64), dtype=torch.float)",
    ).replace(
        "torch.LongTensor([each[1] for each in rows])",
        "torch.from_numpy(np.array([each[1] for each in rows], dtype=np.int64))",
    )

    check_rewrites(AsTensor, before, after)
    (site,) = run(AsTensor, after).sites
    assert site.message == "it is not known to be a list of NumPy arrays: that depends on self.names[index] (line 20)"


@pytest.mark.parametrize(
    ("place", "other"),
    [
        pytest.param("print(x, y, names)", "collate([(1, 2, 3)])", id="its function is called elsewhere"),
        pytest.param(
            "            self.y.append(y[i])", "            self.x.append(load(i))", id="others are put into it"
        ),
        pytest.param(
            "        self.names = names", "        self.x = load(path)", id="it is bound to what is not known"
        ),
        pytest.param("        self.names = names", "        self.x[0] = load(path)", id="an item is something else"),
        pytest.param("        self.names = names", "        names.append(self.x)", id="it is handed on"),
    ],
)
def test_a_column_that_may_hold_something_else(place: str, other: str) -> None:
    indent = " " * (len(other) - len(other.lstrip())) if other.startswith(" ") else "    "
    code = COLLATED.replace(place, f"{place}\n{indent}{other.strip()}")

    assert "torch.tensor(columns[0], dtype=torch.float)" in run(AsTensor, f"{HEAD}\n{code}").after


def test_an_item_of_a_list_of_arrays_shares_its_memory() -> None:
    code = "arrays = [np.zeros(3) for _ in range(9)]\nfor i in range(9):\n    x = torch.tensor(arrays[i])\n    x += 1\n"

    check_leaves(AsTensor, HEAD + code, left_elsewhere("arrays"))


ACTING = """\
class Agent:
    def __init__(self, net):
        self.net = net

    def act(self, obs):
        obs = torch.FloatTensor(obs).unsqueeze(0)
        return self.net(obs).argmax(1).item()

    def select_action(self, obs):
        return self.net(torch.tensor(np.zeros(3))).argmax().item()

    def describe(self, obs):
        return torch.tensor(np.zeros(3)).shape
"""


def test_a_method_that_chooses_an_action_is_called_in_each_step() -> None:
    before = f"{HEAD}\n{ACTING}"
    after = before.replace("self.net(torch.tensor(np", "self.net(torch.as_tensor(np")

    check_rewrites(AsTensor, before, after)
    assert [site.message for site in run(AsTensor, after).sites] == [NOT_KNOWN]


def test_where_it_is_called_is_seen() -> None:
    check_silent(
        AsTensor, f"{HEAD}\n{ACTING}\n\nagent = Agent(load())\nagent.act(load())\nagent.select_action(load())\n"
    )


def test_a_function_of_that_name_is_no_method() -> None:
    check_silent(AsTensor, f"{HEAD}\ndef act(obs):\n    return torch.FloatTensor(obs)\n")
