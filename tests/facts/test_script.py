"""All facts of a script: what rules ask."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.dataflow.source import Module
from codemods.facts.script import Script
from codemods.facts.target import Target

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 2)
"""


def test_what_is_made() -> None:
    known = script(f"""{HEAD}
optimizer = torch.optim.SGD(model.parameters(), lr=1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
loader = DataLoader([1])
whole = nn.Sequential(nn.Linear(2, 2))
""")

    assert [each.value.name for each in known.optimizers] == ["torch.optim.SGD"]
    assert [each.value.name for each in known.schedulers] == ["torch.optim.lr_scheduler.StepLR"]
    assert [each.value.name for each in known.models] == ["torch.nn.Linear", "torch.nn.Sequential"]
    (loader,) = known.loaders
    assert known.loader(loader.value) is loader
    assert known.loader(known.models[0].value) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("model.cuda()", True),
        ("model.to('cuda' if flag else 'cpu')", True),
        ("x = torch.zeros(3).cuda()", True),
        ("x = torch.zeros(3, device='cuda')", True),
        ("model.to('cpu')", False),
        ("model.to(torch.float16)", False),
        ("print(model)", False),
    ],
)
def test_whether_it_may_use_cuda(body: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert script(HEAD + body).may_use_cuda is expected


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("from accelerate import Accelerator\na = Accelerator()", "Accelerate"),
        ("import pytorch_lightning as pl\nclass Net(pl.LightningModule):\n    pass", "Lightning"),
        ("model(x)", None),
    ],
)
def test_the_framework_that_trains(body: str, name: str | None) -> None:
    found = script(HEAD + body)

    assert (found.framework or "").endswith(name or "")
    assert (found.framework is None) is (name is None)
    assert found.is_accelerated is (name == "Accelerate")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("torch.backends.cudnn.deterministic = True", True),
        ("setattr(torch.backends.cudnn, 'deterministic', True)", True),
        ("torch.use_deterministic_algorithms(True)", True),
        ("torch.backends.cudnn.deterministic = False", False),
        ("torch.use_deterministic_algorithms(False)", False),
        ("model.deterministic = True", False),
        ("torch.manual_seed(0)", False),
    ],
)
def test_where_it_asks_for_results_that_repeat(body: str, expected: bool) -> None:  # noqa: FBT001 - expected
    assert (script(HEAD + body).determinism is not None) is expected


def test_the_module_that_is_looked_at_is_asked_first() -> None:
    text = "import torch\ntorch.use_deterministic_algorithms(True)\n"
    known = script(f"import other\n{text}", other=text)
    other = known.modules[1]

    first, seen = known.determinism, known.seen_from(other).determinism
    assert first is not None
    assert seen is not None
    assert (first[0], seen[0]) == (known.module, other)


def test_facts_of_the_whole_project_are_shared() -> None:
    known = script("import other\n", other=HEAD)
    other = known.seen_from(known.modules[1], Target((2, 3)))

    assert other.whole is known.whole
    assert other.target.known == (2, 3)
    assert known.target.known is None
    assert [each.value for each in other.models] == [each.value for each in known.models]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("torch.set_default_device('cuda')", ast.Call),
        ("with torch.device('cuda'):\n    x = torch.ones(3)", ast.With),
        ("x = torch.device('cuda')", None),
    ],
)
def test_where_a_default_device_is_set(body: str, expected: type | None) -> None:
    found = script(HEAD + body).default_device

    assert (None if found is None else type(found)) == expected


def test_code_under_the_main_guard_of_a_module_that_is_imported_does_not_run() -> None:
    known = script(
        "import other\nother.f()\n", other="def f():\n    A\ndef g():\n    B\nif __name__ == '__main__':\n    g()\n"
    )
    other = known.modules[1]
    names = {each.id: each for each in other.nodes(ast.Name)}

    assert known.runs(other, names["A"])
    assert not known.runs(other, names["B"])


TRAINING = """\
import torch
from torch import nn
def build():
    return nn.Linear(1, 2).cuda()
def train(model, batches):
    for x in batches:
        model(x).sum().backward()
"""
GUARDED = "if __name__ == '__main__':\n    train(build(), torch.ones(3, 1).cuda())\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param(
            "from other import build\nbuild()(torch.ones(1).cuda())\n", 0, id="the script only builds its model"
        ),
        pytest.param("from other import build, train\ntrain(build(), data)\n", 1, id="the script trains"),
        pytest.param("import other\n", 0, id="the module is only imported"),
    ],
)
def test_the_training_of_another_script_that_is_imported(text: str, count: int) -> None:
    known = script(text, other=TRAINING + GUARDED)

    assert len(known.iterations) == count
    assert len(known.trained_models) == count


OFFERED = """\
import torch
from torch import nn
def build():
    return nn.Linear(1, 2).cuda()
class Trainer:
    def step(self, model, x):
        model(x).sum().backward()
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("from other import build\nprint(build()(1))\n", 0, id="no trainer is made"),
        pytest.param(
            "from other import Trainer, build\nmodel = build()\nTrainer().step(model, 1)\n", 1, id="one is made"
        ),
        pytest.param("from other import Trainer, build\n", 1, id="a package that offers it to other projects"),
    ],
)
def test_the_training_of_a_trainer_that_is_imported(text: str, count: int) -> None:
    assert len(script(text, other=OFFERED).iterations) == count


READ = "\nfor (x,) in loader:\n    x.cuda()\n"


@pytest.mark.parametrize(
    ("options", "where", "code"),
    [
        ("", "", None),
        ("num_workers=2, persistent_workers=True", "", "waits-at-exit"),
        ("num_workers=2, persistent_workers=True", "def main():\n", None),
        ("pin_memory=False", "", "script-decides"),
    ],
)
def test_why_batches_are_left_unpinned(options: str, where: str, code: str | None) -> None:
    body = f"loader = DataLoader(torch.utils.data.TensorDataset(torch.zeros(3)), {options}){READ}"
    text = body if not where else where + "".join(f"    {line}\n" for line in body.split("\n")) + "main()\n"
    known = script(HEAD + text)
    (loader,) = known.loaders
    reason = known.why_left_unpinned(loader)

    assert (None if reason is None else reason.code) == code
    assert known.can_be_pinned(loader) is (code is None)


def test_a_torch_that_tells_workers_to_stop_does_not_wait() -> None:
    body = f"loader = DataLoader([1], num_workers=2, persistent_workers=True){READ}"
    module = Module("train.py", HEAD + body)
    found = [Script.of(module, target) for target in (Target((2, 12)), Target((2, 13)))]

    assert [each.why_ends_late(each.loaders[0]) is not None for each in found] == [True, False]
