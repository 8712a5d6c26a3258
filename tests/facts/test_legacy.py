"""Scripts that fail on current torch before anything is changed are said to, where that is certain."""

from __future__ import annotations

import re
import textwrap

import pytest
from probe import script

from autotune_rewrite.errors import FileError
from autotune_rewrite.rewriting.rewrite import parse
from codemods.dataflow.source import Module
from codemods.facts.failures import why_unreadable
from codemods.facts.script import Script, Whole
from codemods.facts.target import UNKNOWN, Target

_START = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(4, 1)
criterion = nn.MSELoss()
loader = DataLoader([1, 2])
"""


def _because(text: str) -> str | None:
    found = script(_START + textwrap.dedent(text)).fails_today
    return None if found is None else found.because


_ITEM = "loss.data[0]: a loss has no dimensions, write .item() instead of .data[0]"


@pytest.mark.parametrize(
    ("text", "because"),
    [
        pytest.param("loss = criterion(model(x), y)\nprint(loss.data[0])", _ITEM, id="a loss of a layer"),
        pytest.param("loss = F.nll_loss(model(x), y) / 3\nprint(loss.data[0])", _ITEM, id="a loss of a function"),
        pytest.param("loss = -(torch.mean(a) - torch.mean(b))\nprint(loss.data[0])", _ITEM, id="a difference of means"),
        pytest.param("loss = 0\nfor x in loader:\n    loss += criterion(x, x)\nprint(loss.data[0])", _ITEM, id="a sum"),
        pytest.param(
            "loss = criterion(model(x), y)\nif step % 100 == 0:\n    print(loss.data.cpu().numpy()[0])",
            _ITEM.replace("data[0]:", "data.cpu().numpy()[0]:"),
            id="now and then",
        ),
        pytest.param(
            "def train():\n    loss = criterion(model(x), y)\n    return loss.data[0]\nfor _ in range(3):\n    train()",
            _ITEM,
            id="in a function that is called",
        ),
        pytest.param(
            "spectrum = torch.fft(torch.rand(4, 2), 1)",
            "torch.fft() fails: the functions of torch.fft have taken its place",
            id="a function that is a module now",
        ),
        pytest.param(
            "print(torch.matrix_rank(torch.eye(3)))",
            "torch.matrix_rank() fails: torch.linalg.matrix_rank has taken its place",
            id="a function that moved",
        ),
        pytest.param("x, y = iter(loader).next()", "iter(loader).next() fails: write next(iter(loader))", id="old next()"),
        pytest.param(
            "def forever():\n    while True:\n        yield 1\nit = forever()\nit.next()",
            "it.next() fails: write next(it)",
            id="next() of a generator",
        ),
        pytest.param(
            "loss = criterion(model(x), y)\ntry:\n    print(loss.data[0])\nexcept KeyboardInterrupt:\n    pass",
            _ITEM,
            id="where only ctrl-C is caught",
        ),
        pytest.param("torch.symeig(x)", "torch.symeig() fails: torch.linalg.eigh has taken its place", id="symeig"),
        pytest.param("torch.gels(x, y)", "torch.gels() fails: it is gone from torch", id="gels"),
        pytest.param(
            "from torchvision import transforms\ntransforms.Compose([transforms.Scale(3)])",
            "torchvision.transforms.Scale() fails: it is called Resize now",
            id="Scale",
        ),
        pytest.param(
            "from torchtext.data import Field\nfield = Field()",
            "torchtext.data.Field cannot be imported: it is gone since torchtext 0.12",
            id="torchtext's Field",
        ),
        pytest.param("from torchtext import legacy", "there is no module torchtext.legacy any more", id="a package"),
        pytest.param("from torch._six import inf", "there is no module torch._six any more", id="a module"),
        pytest.param("for i in xrange(3):\n    pass", "Python 3 has no xrange", id="Python 2"),
        pytest.param(
            "model(x).sum().backward(retain_variables=True)",
            "backward() has no retain_variables: it is called retain_graph now",
            id="retain_variables",
        ),
        pytest.param(
            "class Relu(torch.autograd.Function):\n    def forward(self, x):\n        return x\nRelu()(x)",
            "Relu is an autograd function of the old kind: its methods have to be static",
            id="old autograd function",
        ),
        pytest.param("loss = criterion(model(x), y)\nprint(loss[0])", _ITEM.replace(".data", ""), id="no data"),
        pytest.param(
            "total_loss = 0\nfor x in loader:\n    total_loss += criterion(x, x)\nprint(total_loss[0])",
            "total_loss[0]: a loss has no dimensions, write .item() instead of [0]",
            id="a sum without data",
        ),
        pytest.param(
            "losses = {}\nfor k in 'ab':\n    losses[k] = criterion(model(x), y)\nfor k in losses:\n    print(losses[k].data[0])",
            _ITEM.replace("loss.", "losses[k].", 1),
            id="a dictionary of losses",
        ),
        pytest.param(
            "losses = []\nlosses.append(criterion(model(x), y))\nprint(losses[-1].data[0])",
            _ITEM.replace("loss.", "losses[-1].", 1),
            id="a list of losses",
        ),
        pytest.param(
            "def log(losses=None):\n    for k in losses:\n        print(losses[k].data[0])\n"
            "loss = criterion(model(x), y)\nlog({'sum': loss + loss * 2.0, 'one': loss})",
            _ITEM.replace("loss.", "losses[k].", 1),
            id="a dictionary that a function is given",
        ),
        pytest.param(
            "a = criterion(x, y)\nb = a + a\nc = b + a\nd = c + b\ne = d + c\nf = e + d\ng = f + e\nh = g + f\nprint(h.data[0])",
            _ITEM.replace("loss.", "h.", 1),
            id="a sum of sums of sums",
        ),
        pytest.param(
            "def compute(x):\n    out = model(x)\n    return criterion(out, x)\nprint(compute(y).data[0])",
            _ITEM.replace("loss.", "compute(y).", 1),
            id="the result of a function",
        ),
        pytest.param(
            "def compute(x):\n    out = model(x)\n    return out, criterion(out, x)\n"
            "out, loss = compute(y)\nprint(loss.data[0])",
            _ITEM,
            id="a part of the result of a function",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def forward(self, x):\n        return F.mse_loss(x, x)\n"
            "net = Net()\nloss = net(y)\nprint(loss.data[0])",
            _ITEM,
            id="the result of a model",
        ),
        pytest.param(
            "class Run:\n    def step(self):\n        self.loss = criterion(model(x), y)\n    def log(self):\n"
            "        print(self.loss.data[0])\nrun = Run()\nrun.step()\nrun.log()",
            _ITEM.replace("loss.", "self.loss.", 1),
            id="an attribute",
        ),
        pytest.param(
            "loss = criterion(model(x), y)\nif args.log:\n    print(loss.data[0])\nelif args.quiet:\n    loss.data[0]\n"
            "else:\n    print(torch.symeig(x))",
            f"{_ITEM}; torch.symeig() fails: torch.linalg.eigh has taken its place",
            id="in each arm of an if",
        ),
        pytest.param(
            "a = criterion(model(x), y)\nb = a * 2\nprint(a.data[0], b.data[0], a.data[0])\ntorch.gels(x, y)\n",
            "a.data[0], b.data[0]: a loss has no dimensions, write .item() instead of .data[0]; "
            "torch.gels() fails: it is gone from torch",
            id="all that fails",
        ),
        pytest.param(
            "from torchtext.data import BucketIterator, Field\n",
            "torchtext.data.BucketIterator, torchtext.data.Field cannot be imported: they are gone since torchtext 0.12",
            id="names of a module",
        ),
    ],
)  # fmt: skip
def test_fails_before_any_change(text: str, because: str) -> None:
    assert _because(text) == because


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("losses = criterion(model(x), y, reduction='none')\nlosses.data[0]", id="losses of each example"),
        pytest.param("per = nn.MSELoss(reduce=False)\nloss = per(model(x), y)\nprint(loss.data[0])", id="not reduced"),
        pytest.param("loss = torch.mean(a, 1)\nprint(loss.data[0])", id="means of rows"),
        pytest.param("loss = make()\nprint(loss.data[0])", id="a loss that is not known"),
        pytest.param(
            "loss = criterion(model(x), y)\ntry:\n    print(loss.data[0])\nexcept IndexError:\n    print(loss.item())",
            id="in a try",
        ),
        pytest.param(
            "loss = criterion(model(x), y)\nif torch.__version__ < '0.4':\n    print(loss.data[0])", id="for old versions"
        ),
        pytest.param("def train():\n    torch.symeig(x)", id="in a function that nothing calls"),
        pytest.param("try:\n    from torch._six import inf\nexcept ImportError:\n    from math import inf", id="import"),
        pytest.param("try:\n    xrange\nexcept NameError:\n    xrange = range\nfor i in xrange(3):\n    pass", id="xrange"),
        pytest.param(
            "class It:\n    def next(self):\n        return 1\nit = It()\nit.next()", id="the script's own next()"
        ),
        pytest.param(
            "class Relu(torch.autograd.Function):\n    @staticmethod\n    def forward(c, x):\n        return x\nRelu.apply(x)",
            id="new autograd function",
        ),
        pytest.param(
            "loss = criterion(model(x), y)\nif torch.__version__ < '0.4':\n    print(loss.data[0])\nelse:\n    print(loss)",
            id="in one arm of an if",
        ),
        pytest.param(
            "loss = criterion(model(x), y)\nif a:\n    loss.data[0]\nelse:\n    try:\n        loss.data[0]\n"
            "    except IndexError:\n        pass",
            id="in one arm of an if, and where errors are caught",
        ),
        pytest.param("loss = criterion(model(x), y)\nprint(loss[None], loss[...], loss[True])", id="new dimensions"),
        pytest.param("losses = {}\nfill(losses)\nlosses['a'].data[0]", id="a dictionary that others fill"),
        pytest.param(
            "def log(loss):\n    print(loss.data[0])\nlog(criterion(x, y))\nlog(model(x))",
            id="a parameter that is given others, too",
        ),
        pytest.param(
            "def log(loss):\n    print(loss.data[0])\nlog(criterion(x, y))\nlog(*model(x))",
            id="a parameter that is given what is not known",
        ),
        pytest.param(
            "def log(loss):\n    loss = model(loss)\n    print(loss.data[0])\nlog(criterion(x, y))",
            id="a parameter that is bound anew",
        ),
        pytest.param("losses = {'a': criterion(x, y), 'b': x}\nlosses['a'].data[0]", id="a dictionary of all sorts"),
        pytest.param(
            "def compute(x):\n    if x:\n        return model(x)\n    return criterion(x, x)\ncompute(y).data[0]",
            id="a function that may return others",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def forward(self, x):\n        return F.mse_loss(x, x)\n"
            "net = nn.DataParallel(Net())\nloss = net(y)\nprint(loss.data[0])",
            id="a loss of each device",
        ),
        pytest.param(
            "class A:\n    def f(self):\n        self.loss = criterion(x, y)\nclass B:\n    def f(self):\n"
            "        self.loss = model(x)\n        self.loss.data[0]\nA().f()\nB().f()",
            id="an attribute of one name that holds others",
        ),
        pytest.param("soft = nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])\nsoft(x, y)[0]", id="a pair"),
        pytest.param("from torch import fft, symeig", id="names that are there"),
        pytest.param("from torch.autograd import Variable\nVariable(x, volatile=True)", id="volatile only warns"),
    ],
)  # fmt: skip
def test_runs_or_may_run(text: str) -> None:
    assert _because(text) is None


def test_the_demonstration_at_the_end_of_a_helper_does_not_run() -> None:
    entry = Module("train.py", "import helper\n", "train")
    helper = Module("helper.py", "if __name__ == '__main__':\n    import cPickle\n", "helper")
    both = Script.of(entry, others=[helper])

    assert both.seen_from(helper).fails_today is None
    assert Script.of(helper).fails_today is not None


_HELPER = f"{_START}\ndef step(x):\n    loss = criterion(model(x), x)\n    print(loss.data[0])\n"


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        pytest.param("from helper import step\nstep(1)\n", True, id="called"),
        pytest.param("import helper\ndef main():\n    helper.step(1)\nif __name__ == '__main__':\n    main()\n", True, id="as main"),
        pytest.param("from helper import step\nif a:\n    step(1)\n", False, id="under a condition"),
        pytest.param("from helper import step\n", False, id="called by another script"),
    ],
)  # fmt: skip
def test_what_a_script_runs_in_another_module(text: str, *, fails: bool) -> None:
    entry, helper = Module("train.py", text, "train"), Module("helper.py", _HELPER, "helper")
    other = Module("other.py", "from helper import step\nstep(2)\n", "other")
    found = Script(entry, (entry, helper, other), (entry, other), UNKNOWN, Whole.of((entry, helper, other))).fails_today

    assert (found.because if found is not None else None) == (_ITEM if fails else None)
    if found is not None:
        assert (getattr(found.node, "lineno", 0), [(each.module.path, each.lines) for each in found.places]) == (
            1,
            [("helper.py", (12,))],
        )


def test_a_module_of_the_project_is_not_gone() -> None:
    assert script("import urllib2\nurllib2.x", urllib2="x = 1").fails_today is None


@pytest.mark.parametrize(("target", "fails"), [((1, 12), False), ((1, 13), True)], ids=["before", "since"])
def test_what_is_gone_later_than_the_known_torch_is_there(target: tuple[int, int], *, fails: bool) -> None:
    found = Script.of(Module("train.py", _START + "iter(loader).next()\n"), Target(target)).fails_today

    assert (found is not None) is fails


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        pytest.param("x = x.cuda(async=True)", "write non_blocking=… instead of async=…", id="a copy"),
        pytest.param("    async=True)", "write non_blocking=… instead of async=…", id="perhaps a copy"),
        pytest.param("r = Replay(size, async=True)", "give that argument of Replay() another name", id="another call"),
        pytest.param("def f(x, async=True):", "give that argument of f() another name", id="a parameter"),
    ],
)
def test_what_to_write_instead_of_async_is_said(line: str, remedy: str) -> None:
    assert why_unreadable(line) == f"async is a keyword since Python 3.7; {remedy}"


def test_async_is_named_as_the_cause() -> None:
    message = "train.py:1: not Python 3: async is a keyword since Python 3.7; write non_blocking=… instead of async=…"
    with pytest.raises(FileError, match=re.escape(message)):
        parse("train.py", "x = x.cuda(async=True)\n")
