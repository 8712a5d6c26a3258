from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite, rewrite_project
from codemods.codemod import Choices, Leaves, Promise, Rewrites
from codemods.dataflow.source import Module
from codemods.facts.script import Script
from codemods.rules.jit_to_compile import JitToCompile

START = """\
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x):
        {forward}
        return self.second(F.relu(self.first(x)))


"""
TRAINING = """\
for x in torch.randn(4, 16, 8, device=device):
    model(x).square().mean().backward()
"""


def text(made: str, more: str = "", forward: str = "x = x * 2") -> str:
    return START.replace("{forward}", forward) + made + TRAINING + more


@pytest.mark.parametrize("example", [each for each in JitToCompile.examples if isinstance(each, Rewrites)])
def test_examples_that_are_rewritten(example: Rewrites) -> None:
    check_rewrites(JitToCompile, example.before, example.after)


@pytest.mark.parametrize("example", [each for each in JitToCompile.examples if isinstance(each, Leaves)])
def test_examples_that_are_left(example: Leaves) -> None:
    check_leaves(JitToCompile, example.code, example.because)


FORMS = {
    "under the model's own name": (
        "model = Net().to(device)\nmodel = torch.jit.script(model)\n",
        "model = Net().to(device)\n",
    ),
    "under the model's own name, which is moved with it": (
        "model = Net()\nmodel = torch.jit.script(model).to(device)\n",
        "model = Net()\nmodel = model.to(device)\n",
    ),
    "around the model that is made": (
        "model = torch.jit.script(Net().to(device))\n",
        "model = Net().to(device)\n",
    ),
    "before it is moved": ("model = torch.jit.script(Net()).to(device)\n", "model = Net().to(device)\n"),
    "by another name of the function": (
        "from torch.jit import script\n\nmodel = script(Net().to(device))\n",
        "from torch.jit import script\n\nmodel = Net().to(device)\n",
    ),
    "on several lines": (
        "model = torch.jit.script(\n    Net().to(device)\n)\n",
        "model = Net().to(device)\n",
    ),
    "where the model's name is not read again": (
        "net = Net().to(device)\nmodel = torch.jit.script(net)\n",
        "net = Net().to(device)\nmodel = net\n",
    ),
    "in an attribute": (
        "class Task:\n    def __init__(self):\n        self.model = Net().to(device)\n"
        "        self.model = torch.jit.script(self.model)\n\n\nmodel = Task().model\n",
        "class Task:\n    def __init__(self):\n        self.model = Net().to(device)\n\n\nmodel = Task().model\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
def test_the_call_goes(before: str, after: str) -> None:
    check_rewrites(JitToCompile, text(before), text(after))


SCRIPTED = "model = Net().to(device)\nmodel = torch.jit.script(model)\n"
USED = "the TorchScript itself is used (line 23)"
LEFT = {
    "it is saved": (text(SCRIPTED, 'model.save("model.pt")\n'), "torchscript", USED),
    "it is saved by a function": (text(SCRIPTED, 'torch.jit.save(model, "model.pt")\n'), "torchscript", USED),
    "it is frozen": (text(SCRIPTED, "fast = torch.jit.freeze(model.eval())\n"), "torchscript", USED),
    "its graph is looked at": (text(SCRIPTED, "print(model.graph)\n"), "torchscript", USED),
    "it is told by its class": (
        text(SCRIPTED, "print(isinstance(model, torch.jit.ScriptModule))\n"),
        "torchscript",
        USED,
    ),
    "its class is asked for": (text(SCRIPTED, "print(type(model).__name__)\n"), "torchscript", USED),
    "it is told from the class of the model": (
        text(SCRIPTED, "print(isinstance(model, (nn.Linear, Net)))\n"),
        "torchscript",
        USED,
    ),
    "the code asks whether it is scripted": (
        text(SCRIPTED, forward="x = x if torch.jit.is_scripting() else 2 * x"),
        "torchscript",
        "the code of the model is written for TorchScript (line 15)",
    ),
    "the model is used beside it": (
        text("net = Net().to(device)\nmodel = torch.jit.script(net)\n", "net.eval()\n"),
        "torchscript",
        "net is used beside the TorchScript of it (line 23): give both the name net",
    ),
    "a condition decides": (
        text("import sys\n\nmodel = Net().to(device)\nif sys.argv[1:]:\n    model = torch.jit.script(model)\n"),
        "script-decides",
        "a condition decides whether TorchScript is made of it (line 22)",
    ),
    "it is given the model by name": (
        text("model = torch.jit.script(obj=Net().to(device))\n"),
        "unknown-arguments",
        "torch.jit.script() is given something else than one model by position",
    ),
    "it is traced": (
        text("model = torch.jit.trace(Net().to(device), torch.zeros(1, 8, device=device))\n"),
        "torchscript",
        "torch.jit.trace() keeps one way through the code of the model, which may compute otherwise itself: "
        "train the model itself where it does not",
    ),
    "compiling would break": (
        text(SCRIPTED, forward="print(x.shape)"),
        "graph-break",
        "forward prints (line 15)",
    ),
    "compiling would come again and again": (
        text("for seed in range(3):\n    model = torch.jit.script(Net().to(device))\n"),
        "made-in-loop",
        "it is made or moved again in each pass of a loop (line 19)",
    ),
    "the script compiles it": (
        text("model = torch.compile(torch.jit.script(Net().to(device)))\n"),
        "done-already",
        "train.py compiles already",
    ),
    "nothing goes to CUDA": (
        text('device = "cpu"\nmodel = torch.jit.script(Net())\n'),
        "no-cuda",
        "no CUDA: nothing in this file moves a model or its batches to a CUDA device",
    ),
}


@pytest.mark.parametrize(("script", "code", "because"), LEFT.values(), ids=LEFT)
def test_it_stays(script: str, code: str, because: str) -> None:
    result = run(JitToCompile, script)

    assert result.after == script
    assert [(each.code, each.message) for each in result.sites] == [(code, because)]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            text("model = Net().to(device)\n", 'torch.jit.script(model).save("model.pt")\n'), id="what is only exported"
        ),
        pytest.param(
            text("@torch.jit.script\ndef double(x):\n    return 2 * x\n\n\nmodel = Net().to(device)\n"),
            id="a function, which is looked through",
        ),
        pytest.param(text("model = Net().to(device)\n"), id="no TorchScript"),
    ],
)
def test_there_is_nothing_to_say(script: str) -> None:
    check_silent(JitToCompile, script)


def together(script: str, *rules: str) -> tuple[dict[str, str], str]:
    choices = Choices(models_are_compiled="compile" in rules)
    result = rewrite("train.py", script, Settings(frozenset(rules), Promise.TRAINING, choices=choices))
    return {site.rule: site.code for site in result.sites}, result.after


def test_the_model_is_compiled_in_the_same_rewrite() -> None:
    codes, after = together(text(SCRIPTED), "jit-to-compile", "compile")

    assert codes == {"jit-to-compile": "", "compile": ""}
    assert after == text('model = Net().to(device)\nif device.type == "cuda":\n    model.compile()\n')


def test_where_nothing_compiles_it_stays() -> None:
    codes, after = together(text(SCRIPTED), "jit-to-compile")

    assert codes == {"jit-to-compile": "left-with-another"}
    assert after == text(SCRIPTED)


def test_it_stays_where_compiling_would_not_pay() -> None:
    found = Script.of(Module("train.py", text(SCRIPTED)))

    (weighed,) = JitToCompile(Choices(weighed=frozenset({"compile", "jit-to-compile"}))).find(found)
    (by_name,) = JitToCompile(Choices(weighed=frozenset({"jit-to-compile"}))).find(found)

    assert weighed.because is not None
    assert weighed.because.code == "never-pays-back"
    assert by_name.rewrites


def test_what_stands_against_it_in_another_module_is_named() -> None:
    net = text("").partition("for x in")[0].replace("x = x * 2", "print(x)")
    main = 'import torch\nfrom net import Net\n\ndevice = torch.device("cuda")\nmodel = torch.jit.script(Net().to(device))\n'
    settings = Settings(frozenset({"jit-to-compile"}), Promise.TRAINING)

    results = rewrite_project(
        [Text("main.py", main + TRAINING, settings), Text("net.py", net, settings, "net", is_entry=False)]
    )

    sites = [(each.path, site.message) for each in results if isinstance(each, Rewrite) for site in each.sites]
    assert sites == [("main.py", "forward prints (net.py, line 15)")]
