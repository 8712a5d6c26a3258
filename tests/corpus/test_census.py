from __future__ import annotations

import json
from typing import TYPE_CHECKING

import census
import pytest
from census import Program, accounts, sites

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "import numpy as np\nimport torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
TRAINING = """\
net = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    x = x.cuda()
    optimizer.zero_grad(set_to_none=False)
    loss = (net(x) - y).mean()
    loss.backward()
    optimizer.step()
"""


def found(code: str, rule: str, *, old_torch: bool = False, path: str = "train.py") -> list[tuple[int, str]]:
    """Lines, without the imports, of a rule's sites, each with why it is settled."""
    program = Program(path, [(None, HEAD + code)])
    return [(each.line - 4, each.settled) for each in sites(program, old_torch=old_torch) if each.rule == rule]


def finding(line: int, *, end: int | None = None, status: str = "left", message: str = "") -> dict[str, object]:
    return {"line": line, "end_line": end or line, "status": status, "message": message}


# --- which sites there are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("amp", 7),
        ("compile", 1),
        ("fused-optimizer", 2),
        ("h2d-non-blocking", 4),
        ("tf32-matmul", 1),
        ("zero-grad-none", 5),
    ],
)
def test_a_training_script_has_a_site_of_each_rule(rule: str, line: int) -> None:
    assert found(TRAINING, rule) == [(line, "")]


def test_a_file_without_torch_has_no_sites() -> None:
    assert sites(Program("train.py", [(None, "import torch_geometric\nloss.backward()\n")])) == []


@pytest.mark.parametrize(
    ("code", "rule", "settled"),
    [
        pytest.param("DataLoader(data)", "loader-workers", "", id="no workers"),
        pytest.param("DataLoader(data, num_workers=0)", "loader-workers", "", id="no workers, and it says so"),
        pytest.param("DataLoader(data, num_workers=2)", "loader-workers", "num_workers is given", id="workers"),
        pytest.param("N = 0; DataLoader(data, num_workers=N)", "loader-workers", "", id="a name of 0"),
        pytest.param(
            "N = 0; f = lambda N: DataLoader(d, num_workers=N)",
            "loader-workers",
            "num_workers is given",
            id="another 0",
        ),
        pytest.param(
            "DataLoader(d, 8, True, None, None, n)", "loader-workers", "num_workers is given", id="by position"
        ),
        pytest.param("DataLoader(data)", "loader-pin", "", id="not pinned"),
        pytest.param("DataLoader(data, pin_memory=False)", "loader-pin", "pin_memory is given", id="pinned or not"),
        pytest.param("torch.utils.data.DataLoader(data)", "loader-pin", "", id="by its full name"),
        pytest.param("DataLoader(data, **more)", "loader-pin", "", id="something is given"),
        pytest.param(
            "DataLoader(data, **{'pin_memory': True})",
            "loader-pin",
            "pin_memory is among the ** arguments, as it seems",
            id="given with **",
        ),
        pytest.param(
            "dgl.DataLoader(data)", "loader-pin", "another library's or the script's own", id="another library's"
        ),
        pytest.param("DataLoader(data, num_workers=2)", "loader-persistent", "", id="workers that may stay"),
        pytest.param(
            "loader = DataLoader(data, num_workers=2)\nfor x in loader: print(x)",
            "loader-persistent",
            "read once",
            id="workers that need not stay",
        ),
    ],
)
def test_loaders(code: str, rule: str, settled: str) -> None:
    assert found(code, rule) == [(1, settled)]


@pytest.mark.parametrize(
    ("code", "sites"),
    [
        pytest.param("DataLoader(TensorDataset(x))", [(1, "")], id="made there"),
        pytest.param("data = torch.utils.data.TensorDataset(x)\nDataLoader(data)", [(2, "")], id="by its name"),
        pytest.param("DataLoader(TensorDataset(x), collate_fn=f)", [(1, "collate_fn is given")], id="collated"),
        pytest.param("data = TensorDataset(x)\nDataLoader(other)", [], id="another one"),
    ],
)
def test_loaders_of_tensors(code: str, sites: list[tuple[int, str]]) -> None:
    assert found(code, "loader-batched-index") == sites


@pytest.mark.parametrize(
    ("code", "sites"),
    [
        pytest.param("from torchvision import datasets; DataLoader(datasets.MNIST())", [(1, "")], id="in a package"),
        pytest.param("from torchvision.datasets import MNIST; DataLoader(MNIST())", [(1, "")], id="by its name"),
        pytest.param("import torchvision\nDataLoader(torchvision.datasets.CIFAR10())", [(2, "")], id="in full"),
        pytest.param(
            "from torchvision.datasets import MNIST\nclass Pairs:\n    def __init__(self): self.data = MNIST()\nDataLoader(Pairs())",
            [(3, "held by a class of the script")],
            id="read through another one",
        ),
        pytest.param("from own import MNIST; DataLoader(MNIST())", [], id="another one"),
        pytest.param("from torchvision import datasets; datasets.MNIST()", [], id="no loader"),
    ],
)
def test_image_sets(code: str, sites: list[tuple[int, str]]) -> None:
    assert found(code, "dataset-materialize") == sites


TRAINED = "for x in loader:\n    net(x).mean().backward()\n"


@pytest.mark.parametrize(
    ("code", "rule", "sites"),
    [
        pytest.param(TRAINED + "    torch.cuda.empty_cache()", "sync-off", [(3, "")], id="the cache"),
        pytest.param("import gc\n" + TRAINED + "    gc.collect()", "sync-off", [(4, "")], id="garbage"),
        pytest.param(
            "from torch.cuda import synchronize\n" + TRAINED + "    synchronize()",
            "sync-off",
            [(4, "")],
            id="by its name",
        ),
        pytest.param(TRAINED + "torch.cuda.empty_cache()", "sync-off", [], id="behind the loop"),
        pytest.param("for x in loader:\n    torch.cuda.empty_cache()", "sync-off", [], id="nothing is trained"),
        pytest.param(
            "for x in loader:\n    try:\n        net(x).backward()\n    except RuntimeError:\n        torch.cuda.empty_cache()",
            "sync-off",
            [(5, "after an error")],
            id="after an error",
        ),
        pytest.param("for x in y:\n    torch.zeros(2).to(d)", "device-ctor", [(2, "")], id="filled in a loop"),
        pytest.param(
            "for x in y:\n    torch.ones(2).view(1, 2).cuda()", "device-ctor", [(2, "")], id="with a step between"
        ),
        pytest.param("torch.zeros(2).to(d)", "device-ctor", [], id="in no loop"),
        pytest.param("for x in y:\n    x.float().to(d)", "device-ctor", [], id="not filled"),
        pytest.param(
            "for x in y:\n    torch.zeros(2).to(torch.long)", "device-ctor", [(2, "a format or the CPU")], id="a format"
        ),
        pytest.param(
            "for x in y:\n    torch.zeros(2, device=d).to(e)", "device-ctor", [(2, "made there")], id="made there"
        ),
        pytest.param("from torch.cuda.amp import autocast\nautocast()", "amp-migrate", [(1, "")], id="an import"),
        pytest.param("from torch.cuda import amp\namp.autocast()", "amp-migrate", [(1, "")], id="the package"),
        pytest.param("torch.cuda.amp.GradScaler()", "amp-migrate", [(1, "")], id="in full"),
        pytest.param("from torch.cuda.amp import autocast", "amp-migrate", [(1, "never used")], id="never used"),
        pytest.param(
            "torch.amp.autocast if new else torch.cuda.amp.autocast",
            "amp-migrate",
            [(1, "the new name is there, too")],
            id="by the version",
        ),
        pytest.param("torch.autograd.set_detect_anomaly(True)", "debug-off", [(1, "")], id="anomalies"),
        pytest.param("torch.autograd.set_detect_anomaly(False)", "debug-off", [(1, "it is off")], id="switched off"),
        pytest.param(
            "if debug:\n    torch.autograd.set_detect_anomaly(True)",
            "debug-off",
            [(2, "an option or condition")],
            id="by an option",
        ),
    ],
)
def test_what_pauses_is_filled_renamed_or_looked_into(code: str, rule: str, sites: list[tuple[int, str]]) -> None:
    assert found(code, rule) == sites


def test_a_loader_without_workers_has_none_that_could_stay() -> None:
    code = "N = 0\nDataLoader(data)\nDataLoader(data, num_workers=0)\nDataLoader(data, num_workers=N)"
    assert found(code, "loader-persistent") == []


@pytest.mark.parametrize(
    ("code", "settled"),
    [
        pytest.param("for x in loader:\n    x.to(device)", "", id="a batch"),
        pytest.param("for i, (x, y) in enumerate(loader):\n    y.to(device)", "", id="its second part"),
        pytest.param("for batch in loader:\n    a = batch[0]; a.view(-1).cuda()", "", id="a part of a part"),
        pytest.param("while True:\n    x = next(batches); x.to(device)", "", id="what comes next"),
        pytest.param("for batch in loader:\n    [x.to(device) for x in batch]", "", id="in a comprehension"),
        pytest.param("for x in loader:\n    x.to(device, non_blocking=True)", "non_blocking is given", id="done"),
        pytest.param("for x in loader:\n    x.to(torch.float32)", "not to a device", id="a number format"),
        pytest.param("for x in loader:\n    x.to('cpu')", "not to a device", id="back"),
        pytest.param("for x in loader:\n    net.to(device)", "a model", id="a model"),
        pytest.param("for x in loader:\n    Net(x).to(device)", "a new object", id="a new model"),
        pytest.param("for x in loader:\n    torch.ones(len(x)).to(device)", "made there", id="a new tensor"),
        pytest.param("for x in loader:\n    h.to(device)", "nothing that a loop hands out", id="a state"),
        pytest.param("for i, x in enumerate(b):\n    h[i].to(device)", "nothing that a loop hands out", id="beside"),
        pytest.param("for i in range(9):\n    i.to(device)", "nothing that a loop hands out", id="a number"),
        pytest.param(
            "for name, part in net.named_modules():\n    part.to(d)", "nothing that a loop hands out", id="layers"
        ),
    ],
)
def test_moves_under_loops(code: str, settled: str) -> None:
    assert found(code, "h2d-non-blocking") == [(2, settled)]


@pytest.mark.parametrize("code", ["x.to(device)", "for x in load(x.to(device)):\n    print(x)"])
def test_moves_that_are_made_once(code: str) -> None:
    assert found(code, "h2d-non-blocking") == []


@pytest.mark.parametrize(
    ("code", "settled"),
    [
        pytest.param("optimizer.zero_grad()", "the default since torch 2", id="plain"),
        pytest.param("optimizer.zero_grad(set_to_none=False)", "", id="with zeros"),
        pytest.param("optimizer.zero_grad(set_to_none=True)", "set_to_none is given", id="without"),
        pytest.param("p.grad.data.zero_()", "", id="by hand"),
    ],
)
def test_zeroed_gradients(code: str, settled: str) -> None:
    assert found(code, "zero-grad-none") == [(1, settled)]


def test_an_old_torch_drops_no_gradients_by_itself() -> None:
    code = "optimizer.zero_grad()\noptimizer.zero_grad(set_to_none=True)"
    assert found(code, "zero-grad-none", old_torch=True) == [(1, ""), (2, "set_to_none is given")]


@pytest.mark.parametrize(
    ("code", "settled"),
    [
        pytest.param("def evaluate():\n    return net(1)", "", id="with gradients"),
        pytest.param("@torch.no_grad()\ndef evaluate():\n    net(1)", "without gradients already", id="decorated"),
        pytest.param(
            "def validate():\n    net(1)\nwith torch.no_grad():\n    validate()",
            "without gradients already",
            id="called so",
        ),
        pytest.param("def test_step():\n    net(1)", "a framework calls it, without gradients", id="a hook"),
    ],
)
def test_evaluation_functions(code: str, settled: str) -> None:
    assert [each for _, each in found(code, "no-grad-eval")] == [settled]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("def evaluate():\n    net(1).backward()", id="trains"),
        pytest.param("def evaluate():\n    print(1)", id="calls no model"),
        pytest.param("def test_net(**more):\n    return _create_net(**more)", id="makes a model"),
        pytest.param("def invalidate():\n    net(1)", id="another word"),
    ],
)
def test_other_functions(code: str) -> None:
    assert found(code, "no-grad-eval") == []


def test_a_unit_test_is_no_evaluation() -> None:
    assert found("def test_net():\n    net(1)", "no-grad-eval", path="tests/test_net.py") == [(1, "a unit test")]


@pytest.mark.parametrize(
    ("code", "settled"),
    [
        pytest.param("for i in x:\n    torch.tensor(np.zeros(i))", "", id="in a loop"),
        pytest.param("for i in x:\n    a = np.zeros(i); torch.Tensor(a)", "", id="by a name"),
        pytest.param("def __getitem__(self, i):\n    return torch.FloatTensor(np.zeros(i))", "", id="of a data set"),
        pytest.param("if x:\n    torch.tensor(np.zeros(1))", "made once", id="once"),
        pytest.param("for i in x:\n    torch.tensor(np.sqrt(i))", "a number", id="a number"),
    ],
)
def test_tensors_of_arrays(code: str, settled: str) -> None:
    assert found(code, "as-tensor") == [(2, settled)]


@pytest.mark.parametrize(
    ("code", "settled"),
    [
        pytest.param("nn.Conv2d(1, 1, 1)\n", [""], id="made"),
        pytest.param("torch.backends.cudnn.benchmark = True; nn.Conv2d(1, 1, 1)\n", ["the flag is set"], id="set"),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self): self.c = nn.Conv2d(1, 1, 1)\n",
            ["no such model is made there"],
            id="a class that nobody makes one of",
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self): self.c = nn.Conv2d(1, 1, 1)\nNet()\n", [""], id="of a class"
        ),
        pytest.param("", [], id="none"),
    ],
)
def test_convolutions(code: str, settled: list[str]) -> None:
    assert [each for _, each in found(code + TRAINING, "cudnn-benchmark")] == settled


@pytest.mark.parametrize(
    ("code", "settled"),
    [
        pytest.param("torch.optim.Adam(net.parameters())", [""], id="torch's"),
        pytest.param("from torch import optim\noptim.AdamW(net.parameters())", [""], id="by a name of it"),
        pytest.param("torch.optim.SGD(net.parameters(), foreach=True)", ["foreach is given"], id="as it is to step"),
        pytest.param("from apex.optimizers import Adam\nAdam(net.parameters())", [], id="another library's"),
        pytest.param("class SGD: pass\nSGD(net.parameters())", [], id="the script's own"),
        pytest.param("torch.optim.RMSprop(net.parameters())", [], id="one that is never fused"),
    ],
)
def test_optimizers(code: str, settled: list[str]) -> None:
    training = TRAINING.replace("torch.optim.SGD(", "make(")
    assert [each for _, each in found(f"{training}{code}\n", "fused-optimizer")] == settled


@pytest.mark.parametrize(
    ("code", "settled"),
    [
        pytest.param("nn.TransformerEncoderLayer(8, 2)\n", [""], id="a transformer"),
        pytest.param("torch.einsum('ij,jk', a, b)\n", [""], id="by hand"),
        pytest.param(
            "torch.set_float32_matmul_precision('high'); nn.Linear(1, 1)\n", ["the precision is set"], id="set"
        ),
        pytest.param(
            "class Net(nn.Module):\n    def __init__(self): self.c = nn.Linear(1, 1)\n",
            ["no such model is made there"],
            id="a class that nobody makes one of",
        ),
        pytest.param("nn.Conv2d(1, 1, 1)\n", [], id="convolutions alone"),
    ],
)
def test_products(code: str, settled: list[str]) -> None:
    training = TRAINING.replace("nn.Linear(", "make(")
    assert [each for _, each in found(code + training, "tf32-matmul")] == settled


@pytest.mark.parametrize(
    ("code", "settled"),
    [
        pytest.param("with torch.autocast('cuda'):\n    loss.backward()", "mixed precision is there", id="there"),
        pytest.param("accelerator.backward(loss)", "another library's or the script's own", id="another library's"),
        pytest.param(
            "class Net:\n    def backward(self, x): pass\n    def train(self, x): self.backward(x)",
            "another library's or the script's own",
            id="a method of its class",
        ),
    ],
)
def test_backward_calls_that_need_nothing(code: str, settled: str) -> None:
    assert [each for _, each in found(f"nn.Linear(1, 1)\n{code}", "amp")] == [settled]


def test_without_a_model_nothing_is_trained() -> None:
    assert found("y.backward()", "amp") == [(1, "nothing is trained")]


def test_a_part_of_a_model_is_not_trained_by_itself() -> None:
    code = "class Net(nn.Module):\n    def __init__(self):\n        self.part = nn.LSTM(1, 1)\n"
    assert found(f"{code}        for p in self.part.parameters(): print(p)\n{TRAINING}", "compile") == [(5, "")]


def test_a_list_of_parameters_is_no_model() -> None:
    code = TRAINING.replace("net.parameters()", "model_params").replace("net = ", "model_params = get()\nnet = ")
    assert found(code, "compile") == []


def test_comments_and_a_device_that_is_the_cpu_count_for_nothing() -> None:
    code = TRAINING.replace(".cuda()", ".to(torch.device('cpu'))  # or 'cuda'")
    assert found(code, "compile") == []


# --- which findings account for them --------------------------------------------------------------------------------


def accounted(rule: str, *findings: dict[str, object], code: str = TRAINING) -> bool:
    program = Program("train.py", [(None, code)])
    program.__dict__["imports_torch"] = True
    (site,) = (each for each in sites(program) if each.rule == rule)
    return any(accounts(program, site, each, alone=len(findings) == 1) for each in findings)


@pytest.mark.parametrize(
    ("rule", "line", "answer"),
    [
        pytest.param("h2d-non-blocking", 4, True, id="the same line"),
        pytest.param("h2d-non-blocking", 3, False, id="the loop around"),
        pytest.param("amp", 6, True, id="the iteration around a backward"),
        pytest.param("compile", 2, True, id="another use of the model"),
        pytest.param("compile", 7, False, id="a line that has nothing of it"),
    ],
)
def test_a_finding_accounts_for_a_site(rule: str, line: int, *, answer: bool) -> None:
    assert accounted(rule, finding(line, status="rewrites")) is answer


def test_a_statement_is_one_place() -> None:
    code = "for i in range(2):\n    DataLoader(\n        data,\n    )\n"
    assert accounted("loader-pin", finding(4), code=code)


def test_one_reason_against_mixed_precision_holds_for_the_whole_script() -> None:
    assert accounted("amp", finding(1))
    assert not accounted("amp", finding(1), finding(2))


def test_a_name_at_the_start_of_a_line_is_one() -> None:
    code = TRAINING.replace("optimizer = ", "net = wrap(net)\noptimizer = ")
    assert accounted("compile", finding(2, message="it is not known"), code=code)


def test_models_that_are_compiled_at_one_place_are_named_there() -> None:
    assert accounted("compile", finding(8, message="net and critic run operation by operation"))
    assert not accounted("compile", finding(8, message="critic runs operation by operation"))


# --- files ----------------------------------------------------------------------------------------------------------


def test_the_cells_of_a_notebook_are_one_program(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch"]},
        {"cell_type": "markdown", "source": "loss.backward()"},
        {"cell_type": "code", "source": "%%bash\nloss.backward("},
        {"cell_type": "code", "source": "found = !pip install torch\nnet?\nloss.backward()\noptimizer.step()"},
    ]
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")

    program = Program.read(tmp_path / "train.ipynb", "train.ipynb")

    assert program is not None
    (site,) = sites(program)
    assert (site.rule, site.cell, site.line, site.settled) == ("amp", 4, 3, "")
    assert accounts(program, site, {**finding(3), "cell": 4}, alone=False)
    assert not accounts(program, site, {**finding(3), "cell": 1}, alone=False)


def test_what_is_no_python_has_no_program(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("print 'torch'\n", encoding="utf-8")
    assert Program.read(tmp_path / "old.py", "old.py") is None


def test_files_that_nobody_wrote_are_passed_over(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.ipynb", ".git/d.py", "b/__pycache__/e.py", "f.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert census.files(tmp_path) == ["a.py", "b/c.ipynb"]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("torch>=2.1", False),
        ("torch>=1.4", False),
        ("torch==1.13", True),
        ("pytorch=1.4.0", True),
        ("torch>=1.4,<2", True),
        ("torch==2.1", False),
        ("torch", False),
        ("torchvision==0.13", False),
    ],
)
def test_requirements(tmp_path: Path, line: str, *, answer: bool) -> None:
    (tmp_path / "requirements.txt").write_text(f"numpy\n{line}\n", encoding="utf-8")
    assert census.pins_old_torch(tmp_path, "src/train.py") is answer


def test_requirements_of_a_neighbour_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "requirements.txt").write_text("torch==1.4\n", encoding="utf-8")
    assert not census.pins_old_torch(tmp_path, "src/train.py")
