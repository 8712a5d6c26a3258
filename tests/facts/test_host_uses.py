from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.host_uses import why_needed_on_host, why_written

READ = """
import numpy as np
import torch
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset
device = torch.device("cuda")
model = torch.nn.Linear(4, 2)
other = torch.zeros(8)
loader = DataLoader(TensorDataset(torch.randn(80, 4), torch.randn(80)), 8)
def move(x):
    return x.to(device)
for x, y in loader:
"""


def line(*body: str) -> int | None:
    """The line of the body, from 1, that needs a batch on the host."""
    asked = script(READ + "".join(f"    {each}\n" for each in body))
    reason = why_needed_on_host(asked.flow, asked.loaders[0])
    if reason is None:
        return None
    assert reason.code == "used-on-host"
    return reason.places[0].lines[0] - READ.count("\n")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(["x, y = x.to(device), y.to(device)", "x.numpy()"], id="moved at once; what is moved is another"),
        pytest.param(["x = x.view(-1, 4).float().cuda()"], id="regrouped and in another format before"),
        pytest.param(["x = Variable(x).cuda()", "y = Variable(y.cuda())"], id="in a Variable"),
        pytest.param(["print(x.shape, len(y), y.size(0), x.dtype)"], id="asked for its size"),
        pytest.param(["a, b = x, y", "a, b = a.cuda(), b.cuda()"], id="by other names"),
        pytest.param(["x = move(x)"], id="in a function of the project"),
        pytest.param(["a = x[:, 0].to(device)"], id="a part of it"),
        pytest.param(["a = x.data.to(device)"], id="without its graph"),
        pytest.param(["del y", "x"], id="given away"),
        pytest.param(["a = [each.to(device) for each in (x.cuda(), y.cuda())]"], id="moved in a list"),
    ],
)
def test_what_a_device_does_alike(body: list[str]) -> None:
    assert line(*body) is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(["a = x.cuda()", "x.numpy()"], id="NumPy"),
        pytest.param(["a = x.cuda()", "print(x)"], id="printed, with its device"),
        pytest.param(["a = x.cuda()", "print((model(a).cpu()[:, 0] == y).sum())"], id="beside a tensor on the host"),
        pytest.param(["a = x.cuda()", "b = other[y.long()]"], id="an index of a tensor on the host"),
        pytest.param(["a = y.cuda()", "x = (x / 255).cuda()"], id="computed with before it is moved"),
        pytest.param(["a = y.cuda()", "x /= 255"], id="written in place by an operator"),
        pytest.param(["a = y.cuda()", "x.mul_(2)"], id="written in place by a method"),
        pytest.param(["a = y.cuda()", "x[0] = 1"], id="a part of it is written"),
        pytest.param(["a = y.cuda()", "noise = torch.randn_like(x)"], id="numbers are drawn where it is"),
        pytest.param(["a = y.cuda()", "noise = torch.zeros(3, device=x.device)"], id="asked for its device"),
        pytest.param(["a = y.cuda()", "out = model(x)"], id="given to a model"),
        pytest.param(["a = y.cuda()", "model.seen = x"], id="kept"),
        pytest.param(["a = y.cuda()", "b = x.float().sum()"], id="summed up after a cast"),
        pytest.param(["a = y.cuda()", "torch.save([x], 'x.pt')"], id="in a list"),
    ],
)
def test_what_needs_it_on_the_host(body: list[str]) -> None:
    assert line(*body) == 2


def test_a_function_of_the_project_is_looked_into() -> None:
    asked = script(READ.replace("return x.to(device)", "return x.numpy()") + "    a = y.cuda(); move(x)\n")
    reason = why_needed_on_host(asked.flow, asked.loaders[0])
    assert reason is not None
    assert reason.places[0].lines == (11,)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("a -= a.mean(0)", "", None, id="before it is copied"),
        pytest.param("", "a -= a.mean(0)", "a", id="the array whose memory it shares"),
        pytest.param("", "x[0] = 1", "x", id="the tensor itself"),
        pytest.param("", "other[0] = 1", None, id="another tensor"),
        pytest.param("def change():\n    x.zero_()", "change()", "x", id="in a function, which may run at any time"),
    ],
)
def test_what_is_written_afterwards(before: str, after: str, expected: str | None) -> None:
    made = "other, a = torch.zeros(3), np.zeros((8, 3))\nx = torch.from_numpy(a)\n"
    asked = script(f"import numpy as np\nimport torch\n{made}{before}\ndata = list(x)\n{after}\n")
    call = next(each for each in asked.module.nodes(ast.Call) if ast.unparse(each) == "list(x)")
    reason = why_written(asked.module, call, call.args)
    assert (reason is None) is (expected is None)
    if reason is not None:
        assert reason.text.startswith(f"'{expected}' is written on the host afterwards")
