"""What the rules say of a project of several modules: sites in helpers, and the one flag in the entry script."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

import pytest

from codemods.dataflow.source import Module
from codemods.editing.apply import apply
from codemods.facts.script import Script, Whole
from codemods.facts.target import UNKNOWN, Target
from codemods.rules.compile import Compile
from codemods.rules.cudnn_benchmark import CudnnBenchmark
from codemods.rules.h2d_non_blocking import H2dNonBlocking
from codemods.rules.no_grad_eval import NoGradEval
from codemods.rules.zero_grad_none import ZeroGradNone

if TYPE_CHECKING:
    from codemods.codemod import Codemod

_MODEL = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(5408, 10))

    def forward(self, x):
        return self.layers(x)


def make_net():
    return Net().cuda()
"""
_ENGINE = """\
import torch


def train_one_epoch(model, loader, optimizer):
    for images, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
        optimizer.step()


def evaluate(model, loader):
    model.eval()
    return sum((model(images.cuda()).argmax(1) == labels.cuda()).sum().item() for images, labels in loader)
"""
_TRAIN = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

from engine import evaluate, train_one_epoch
from model import make_net

net = make_net()
loader = DataLoader(datasets.MNIST("data"), batch_size=64)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
train_one_epoch(net, loader, optimizer)
evaluate(net, loader)
"""


def _project(rule: type[Codemod], target: Target = UNKNOWN, **changed: str) -> dict[str, list[str]]:
    """What the rule makes of each module or says of it, by the module's name; ``train`` is the one that is run."""
    texts = {"train": _TRAIN, "engine": _ENGINE, "model": _MODEL} | {
        name: textwrap.dedent(text) for name, text in changed.items()
    }
    entry, *others = (Module(f"{name}.py", text, name) for name, text in texts.items())
    script = Script.of(entry, target, others)
    found: dict[str, list[str]] = {}
    for module in (entry, *others):
        for finding in rule().sites(script.seen_from(module, target)):
            assert finding.module is module
            if finding.rewrites:
                text = apply(module, finding.edits)
                ast.parse(text)
                old = module.lines
                said = next(line for line in text.splitlines() if line not in [each.rstrip() for each in old])
            else:
                said = finding.message
            found.setdefault(module.name, []).append(said)
    return found


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(ZeroGradNone, {"engine": ["        optimizer.zero_grad(set_to_none=True)"]}, id="in the helper"),
        pytest.param(NoGradEval, {"engine": ["@torch.no_grad()"]}, id="a helper that evaluates"),
        pytest.param(CudnnBenchmark, {"train": ["torch.backends.cudnn.benchmark = True"]}, id="in the script that runs"),
    ],
)  # fmt: skip
def test_the_site_is_where_it_belongs(rule: type[Codemod], expected: dict[str, list[str]]) -> None:
    assert _project(rule) == expected


def test_a_model_made_when_a_helper_is_imported() -> None:
    made = _TRAIN.replace("import make_net", "import net").replace("net = make_net()\n", "")

    assert _project(CudnnBenchmark, train=made, model=_MODEL + "\n\nnet = make_net()\n") == {
        "train": ["torch.backends.cudnn.benchmark = True"]
    }


def _with_flag(train: str, model: str) -> str:
    """The script with the flag where the rule sets it."""
    entry, *others = (Module("train.py", train, "train"), Module("model.py", model, "model"))
    script = Script.of(entry, UNKNOWN, [*others, Module("engine.py", _ENGINE, "engine")])
    (finding,) = CudnnBenchmark().sites(script.seen_from(entry, UNKNOWN))
    return apply(entry, finding.edits)


def test_the_flag_stands_after_all_imports_where_one_makes_the_model() -> None:
    made = _TRAIN.replace("import make_net", "import net\nimport math").replace("net = make_net()\n", "")
    flag = "import math\n\ntorch.backends.cudnn.benchmark = True\n"

    assert _with_flag(made, _MODEL + "\n\nnet = make_net()\n") == made.replace("import math\n", flag)


def test_the_flag_stands_before_an_import_that_trains() -> None:
    train = "import torch\nimport math\nfrom model import net\nimport os\n"
    trains = _MODEL + (
        "\n\nnet = make_net()\n"
        'data = datasets.MNIST("data", transform=transforms.ToTensor())\n'
        "for x, y in DataLoader(data, batch_size=64):\n"
        "    nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()\n"
    )
    imports = "from torch.utils.data import DataLoader\nfrom torchvision import datasets, transforms\n"
    flag = "import math\n\ntorch.backends.cudnn.benchmark = True\n"

    assert _with_flag(train, imports + trains) == train.replace("import math\n", flag)


def test_determinism_asked_for_in_a_helper() -> None:
    asking = _MODEL.replace("def make", "import torch\n\ntorch.backends.cudnn.deterministic = True\n\n\ndef make")

    assert _project(CudnnBenchmark, model=asking) == {"train": ["determinism requested (model.py, line 15)"]}


def test_images_resized_in_a_helper() -> None:
    resizing = _ENGINE.replace("        optimizer.zero", "        images = torch.nn.functional.interpolate(images, size())\n        optimizer.zero")  # fmt: skip

    assert _project(CudnnBenchmark, engine=resizing) == {
        "train": ["input size not provably fixed: images are resized (engine.py, line 6)"]
    }


def test_gradients_kept_in_another_module() -> None:
    keeping = _MODEL + "\n\ndef gradients(model):\n    return [p.grad for p in model.parameters()]\n"

    assert _project(ZeroGradNone, Target((1, 13)), model=keeping) == {
        "engine": ["gradients are kept by reference (model.py, line 18)"]
    }


def test_a_hook_of_another_module() -> None:
    hooking = _MODEL + "\n\ndef watch(layer, hook):\n    layer.register_forward_hook(hook)\n"

    assert _project(NoGradEval, model=hooking) == {
        "engine": ["a forward hook may keep tensors for later (model.py, line 18)"]
    }


def test_an_evaluated_result_that_another_module_trains_on() -> None:
    training = _ENGINE.replace("return sum((", "return max((").replace(".argmax(1) == labels.cuda()).sum().item()", ".sum() + labels.cuda().sum())")  # fmt: skip
    using = _TRAIN.replace("evaluate(net, loader)\n", "evaluate(net, loader).backward()\n")

    assert _project(NoGradEval, train=using, engine=training) == {
        "engine": ["what it returns may be trained on (train.py, line 12)"]
    }


def test_a_helper_that_fails_is_left_while_the_others_are_not() -> None:
    failing = _ENGINE.replace("import torch\n", "import torch\nfrom torch._six import inf\n")

    fails = "the script fails before any change; fix first: "
    assert _project(ZeroGradNone, engine=failing) == {"engine": [f"{fails}there is no module torch._six any more"]}


def test_a_script_that_imports_what_fails_says_so() -> None:
    failing = _ENGINE.replace("import torch\n", "import torch\nfrom torch._six import inf\n")
    zeroing = _ENGINE.replace("zero_grad()", "zero_grad(set_to_none=False)")
    caught = "try:\n    from torch._six import inf\nexcept ImportError:\n    inf = float('inf')\n"
    using = zeroing.replace("import torch\n", "import torch\nimport engine as other\n")

    because = "the script fails before any change; fix first: engine.py cannot be imported: "
    assert _project(ZeroGradNone, engine=failing, model=using + _MODEL)["model"] == [
        f"{because}there is no module torch._six any more"
    ]
    assert _project(ZeroGradNone, engine=_ENGINE.replace("import torch\n", f"import torch\n{caught}")) == _project(
        ZeroGradNone
    )


def test_what_only_a_script_runs_that_fails_is_left() -> None:
    failing = _TRAIN.replace("import torch\n", "import torch\nfrom torch._six import inf\n")

    text = "fails before any change{}; fix first: there is no module torch._six any more"
    assert _project(ZeroGradNone, train=failing) == {
        "engine": [f"each script that imports it {text.format(' (train.py, line 2)')}"]
    }


def test_batches_of_a_script_that_fails_are_not_pinned() -> None:
    failing = _TRAIN.replace("import torch\n", "import torch\nfrom torch._six import inf\n")
    modules = [
        Module(f"{name}.py", text, name)
        for name, text in {"train": failing, "other": "import engine\n", "engine": _ENGINE, "model": _MODEL}.items()
    ]
    whole = Whole.of(tuple(modules))
    script = Script(modules[2], tuple(modules), tuple(modules[:2]), UNKNOWN, whole)

    because = "the loader in train.py, line 10 does not pin its batches: the script fails there before any change"
    assert [each.message for each in H2dNonBlocking().sites(script)] == [because] * 4
    assert because not in _project(H2dNonBlocking)["engine"]


def test_a_hook_of_another_script_of_the_directory() -> None:
    hooking = _MODEL + "\n\ndef watch(layer, hook):\n    layer.register_forward_hook(hook)\n"
    modules = [Module(f"{name}.py", text, name) for name, text in (("train", _TRAIN), ("engine", _ENGINE), ("model", _MODEL))]  # fmt: skip
    other = Module("other.py", hooking, "other")
    script = Script(modules[1], tuple(modules), (modules[0],), UNKNOWN, Whole.of([*modules, other]))

    assert [each.rewrites for each in NoGradEval().sites(script)] == [True]


def test_a_module_that_only_tries_its_layers_out_when_it_is_run() -> None:
    """Not where the model is trained, though its file can be run, too."""
    trying = _MODEL + '\n\nif __name__ == "__main__":\n    make_net()\n'
    names = ("train", "engine", "model")
    modules = [Module(f"{name}.py", text, name) for name, text in zip(names, (_TRAIN, _ENGINE, trying), strict=True)]
    script = Script(modules[2], tuple(modules), (modules[0], modules[2]), UNKNOWN, Whole.of(modules))

    assert list(CudnnBenchmark().sites(script)) == []


def test_a_model_that_only_another_script_trains_is_not_compiled_where_it_is_tested() -> None:
    training = (
        "from library import open_data\n"
        + _TRAIN.split("net = make_net()", maxsplit=1)[0]
        + textwrap.dedent("""\
        def load():
            return open_data()


        def main():
            net = make_net()
            loader = DataLoader(load(), batch_size=64)
            train_one_epoch(net, loader, torch.optim.SGD(net.parameters(), lr=0.1))


        if __name__ == "__main__":
            main()
    """)
    )
    testing = "from model import make_net\nfrom training import load\n\nnet = make_net()\nprint(net(load()))\n"

    assert _project(Compile, train=testing, training=training) == {}
    trained = testing.replace("import load", "import load, main") + "main()\n"
    assert _project(Compile, train=trained, training=training) == {"train": ["net.compile()"]}


def test_an_optimizer_of_another_module_looks_at_gradients() -> None:
    own = """\
import torch


class Mine(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is not None:
                    p.data.add_(grad, alpha=-0.1)
"""
    using = _TRAIN.replace("torch.optim.SGD(net.parameters(), lr=0.1)", "Mine(net.parameters(), {})").replace(
        "from model", "from mine import Mine\nfrom model"
    )

    assert _project(ZeroGradNone, Target((1, 13)), train=using, mine=own) == {
        "engine": ["a gradient is read outside the training iteration (mine.py, line 8)"]
    }


def test_determinism_asked_for_in_the_script_itself_too() -> None:
    asking = "import torch\n\ntorch.use_deterministic_algorithms(True)\n"

    assert _project(CudnnBenchmark, train=asking + _TRAIN, model=asking + _MODEL) == {
        "train": ["determinism requested (line 3)"]
    }


_SELF_TEST = """

def demo():
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    net(torch.randn(2, 1, 28, 28).cuda()).sum().backward()
    optimizer.step()


if __name__ == "__main__":
    demo()
"""


def test_the_self_test_of_a_module_does_not_run_with_those_that_import_it() -> None:
    model = "import torch\n" + _MODEL + _SELF_TEST

    assert "model" not in _project(ZeroGradNone, model=model)
    assert "model" in _project(
        ZeroGradNone, model=model, train=_TRAIN.replace("make_net\n", "demo, make_net\n") + "demo()\n"
    )
    assert "train" in _project(ZeroGradNone, train=model)


def test_what_a_self_test_shares_with_the_script_runs() -> None:
    engine = _ENGINE + '\n\nif __name__ == "__main__":\n    train_one_epoch(None, [], None)\n'

    assert _project(ZeroGradNone, engine=engine) == {"engine": ["        optimizer.zero_grad(set_to_none=True)"]}
