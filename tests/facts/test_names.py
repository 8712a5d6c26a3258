from __future__ import annotations

import ast

import pytest
from probe import answers

from codemods.dataflow import names
from codemods.dataflow.source import Module

LOADER = "torch.utils.data.DataLoader"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import torch\nanswer = torch.utils.data.DataLoader", id="import of the top package"),
        pytest.param("import torch as t\nanswer = t.utils.data.DataLoader", id="import under another name"),
        pytest.param("import torch.utils.data\nanswer = torch.utils.data.DataLoader", id="import of a subpackage"),
        pytest.param("import torch.utils.data as Data\nanswer = Data.DataLoader", id="subpackage under another name"),
        pytest.param("from torch.utils import data\nanswer = data.DataLoader", id="from import of a package"),
        pytest.param("from torch import utils as u\nanswer = u.data.DataLoader", id="from import as"),
        pytest.param("from torch.utils.data import DataLoader\nanswer = DataLoader", id="from import of the class"),
        pytest.param("from torch.utils.data import DataLoader as DL\nanswer = DL", id="class under another name"),
        pytest.param(
            "from torch.utils.data.dataloader import DataLoader\nanswer = DataLoader", id="where it is really defined"
        ),
        pytest.param("from torch.utils.data import *\nanswer = DataLoader", id="star import"),
        pytest.param(
            "from math import *\nfrom torch.utils.data import *\nanswer = DataLoader", id="one of several star imports"
        ),
        pytest.param("import torch\nDL = torch.utils.data.DataLoader\nanswer = DL", id="alias by assignment"),
        pytest.param("import torch\nd = torch.utils.data\nanswer = d.DataLoader", id="alias of a module"),
        pytest.param("import torch\nanswer = getattr(torch.utils.data, 'DataLoader')", id="getattr of a constant"),
        pytest.param("import torch, os\nanswer = torch.utils.data.DataLoader", id="several in one import"),
        pytest.param(
            "try:\n    from torch.utils.data import DataLoader\nexcept ImportError:\n    raise\nanswer = DataLoader",
            id="import in a try",
        ),
        pytest.param(
            "def main():\n    from torch.utils.data import DataLoader\n    answer = DataLoader\nmain()",
            id="import in a function",
        ),
        pytest.param(
            "def main():\n    answer = DataLoader\nfrom torch.utils.data import DataLoader\nmain()",
            id="import below the function that reads it",
        ),
        pytest.param(
            "class Config:\n    from torch.utils.data import DataLoader as loader\nanswer = Config.loader",
            id="import in a class",
        ),
    ],
)
def test_the_loader_is_known(text: str) -> None:
    assert answers(text) == [{LOADER}]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(
            "from torch_geometric.loader import DataLoader\nanswer = DataLoader",
            "torch_geometric.loader.DataLoader",
            id="of a graph library",
        ),
        pytest.param("from monai.data import DataLoader\nanswer = DataLoader", "monai.data.DataLoader", id="of monai"),
        pytest.param("class DataLoader: pass\nanswer = DataLoader", "class DataLoader", id="the user's own class"),
        pytest.param(
            "from torch.utils.data import *\nclass DataLoader: pass\nanswer = DataLoader",
            "class DataLoader",
            id="own class beside a star import",
        ),
        pytest.param(
            "from torch.utils.data import *\ndef f(DataLoader):\n    answer = DataLoader\nf(1)",
            "1",
            id="a parameter beside a star import",
        ),
        pytest.param("import torch\ntorch = 3\nanswer = torch", "3", id="bound anew"),
        pytest.param(
            "from apex.optimizers import FusedAdam as Adam\nanswer = Adam", "apex.optimizers.FusedAdam", id="apex"
        ),
        pytest.param("answer = print", "builtins.print", id="a builtin is not unknown"),
        pytest.param("answer = __name__", "plain", id="the module's own name"),
        pytest.param(
            "answer = DataLoader", "unknown: 'DataLoader' is defined in no place that can be seen", id="not imported"
        ),
        pytest.param(
            "from math import *\nfrom numpy import *\nanswer = DataLoader",
            "unknown: 'DataLoader' is defined in no place that can be seen",
            id="star imports of other libraries",
        ),
        pytest.param("from .data import Loader\nanswer = Loader", "data.Loader", id="of a file beside it"),
    ],
)
def test_what_only_looks_like_the_loader(text: str, name: str) -> None:
    assert answers(text) == [{name}]


@pytest.mark.parametrize(
    ("defined", "documented"),
    [
        ("torch.optim.adam.Adam", "torch.optim.Adam"),
        ("torch.optim.lr_scheduler.StepLR", "torch.optim.lr_scheduler.StepLR"),
        ("torch.optim.swa_utils.AveragedModel", "torch.optim.swa_utils.AveragedModel"),
        ("torch.nn.modules.conv.Conv2d", "torch.nn.Conv2d"),
        ("torch.nn.modules.Linear", "torch.nn.modules.Linear"),
        ("torch.nn.parameter.Parameter", "torch.nn.Parameter"),
        ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.nn.utils.clip_grad.clip_grad_norm_", "torch.nn.utils.clip_grad_norm_"),
        ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler"),
        ("torch.cuda.amp.grad_scaler.GradScaler", "torch.amp.GradScaler"),
        ("torch.autograd.no_grad", "torch.no_grad"),
        ("torch.autograd.variable.Variable", "torch.autograd.Variable"),
        ("torchvision.models.resnet.resnet18", "torchvision.models.resnet18"),
        (
            "torchvision.models.detection.fasterrcnn_resnet50_fpn",
            "torchvision.models.detection.fasterrcnn_resnet50_fpn",
        ),
        ("torchvision.datasets.mnist.MNIST", "torchvision.datasets.MNIST"),
        ("torchvision.transforms.v2.RandomCrop", "torchvision.transforms.RandomCrop"),
        ("torchvision.transforms.transforms.Compose", "torchvision.transforms.Compose"),
        ("numpy.random.rand", "numpy.random.rand"),
    ],
)
def test_the_name_under_which_a_thing_is_documented(defined: str, documented: str) -> None:
    assert names.canonical(defined) == documented


def scope(text: str) -> names.Scope:
    return names.scope_of(Module("scope.py", text).tree.body[0])


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        pytest.param("def f(a, /, b, *c, d, **e): pass", "a b c d e", id="every kind of parameter"),
        pytest.param("def f():\n    x = y\n    z: int = 1\n    w += 1", "x z w", id="assignments"),
        pytest.param("def f():\n    (a, [b, *c]), d.e, g[0] = h", "a b c", id="unpacking"),
        pytest.param("def f():\n    for i, j in k: pass", "i j", id="loops"),
        pytest.param("def f():\n    with g() as (a, b): pass", "a b", id="with"),
        pytest.param("def f():\n    try: pass\n    except E as e: pass", "e", id="except"),
        pytest.param("def f():\n    import a.b, c as d\n    from e import g as h, i", "a d h i", id="imports"),
        pytest.param("def f():\n    def g(x): y = 1\n    class H: z = 1", "g H", id="definitions, not what is in them"),
        pytest.param(
            "def f():\n    if (a := 1) and [b := c for c in d]: pass", "a b", id="walrus, in comprehensions too"
        ),
        pytest.param(
            "def f():\n    return [x for x in y], lambda z: z", "", id="no comprehension's or lambda's own names"
        ),
        pytest.param(
            "def f():\n    match x:\n        case {'a': b, **c}: pass\n        case [d, *e] as g: pass",
            "b c d e g",
            id="patterns",
        ),
        pytest.param("def f():\n    del a", "a", id="del makes a name local"),
        pytest.param("def f():\n    global a\n    nonlocal_ = a = 1", "nonlocal_", id="not what it declares global"),
        pytest.param("class C:\n    x = 1\n    def f(self): pass", "x f", id="a class"),
        pytest.param("lambda a, b=c: (d := a)", "", id="an expression's statement binds nothing"),
    ],
)
def test_names_that_a_scope_binds(text: str, bound: str) -> None:
    assert scope(text).bound == set(bound.split())


def test_what_else_a_scope_says() -> None:
    found = scope(
        "def f(self):\n"
        "    global a\n"
        "    nonlocal b\n"
        "    self.c = [d for d in e]\n"
        "    def inner():\n"
        "        self.not_mine = yield\n"
    )
    assert found.global_ == {"a"}
    assert found.nonlocal_ == {"b"}
    assert found.local == {"d"}
    assert found.written == {"c"}
    assert not found.yields
    assert scope("def f():\n    x = yield from g()").yields
    assert names.declared_outer(Module("m.py", "def f():\n    global a").tree.body[0]) == {"a"}


@pytest.mark.parametrize(
    ("statement", "package", "source"),
    [
        pytest.param("from a.b import c", "", "a.b", id="absolute"),
        pytest.param("from .a import c", "pkg.sub", "pkg.sub.a", id="beside"),
        pytest.param("from ..a import c", "pkg.sub", "pkg.a", id="one package up"),
        pytest.param("from . import c", "pkg", "pkg", id="the package itself"),
        pytest.param("from .a import c", "", "a", id="beside a script"),
        pytest.param("from . import c", "", ".", id="the folder of a script"),
        pytest.param("from ...a import c", "pkg", "a", id="above the top"),
    ],
)
def test_the_module_that_an_import_reads(statement: str, package: str, source: str) -> None:
    node = Module("m.py", statement).tree.body[0]
    assert names.source(node, package) == source  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("vars(args)", True, id="options"),
        pytest.param("vars(parser.parse_args())", True, id="options as they are read"),
        pytest.param("dir(model)", True, id="a model"),
        pytest.param("vars()", False, id="the names around"),
        pytest.param("locals()", False, id="those by their other name"),
        pytest.param("vars(x)", False, id="the object that is asked about"),
        pytest.param("vars(sys.modules[__name__])", False, id="the names of a module"),
        pytest.param("vars(importlib.import_module('train'))", False, id="those of one that is imported there"),
    ],
)
def test_what_lists_the_names_of_an_object(call: str, *, expected: bool) -> None:
    module = Module("train.py", f"{call}\n")
    node = module.nodes(ast.Call)[0]

    assert names.lists_object(module, node, {"x"}) is expected


@pytest.mark.parametrize("named", ["import sys\nme = sys.modules[__name__]\n", "import __main__ as me\n"])
def test_a_module_that_has_a_name_for_itself_is_no_object(named: str) -> None:
    module = Module("train.py", f"{named}vars(me)\n")
    (call,) = module.nodes(ast.Call)

    assert not names.lists_object(module, call, {"x"})
