from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
import torch
from probe import script

from codemods.dataflow.values import External, Instance
from codemods.library.kinds import (
    MODULE_METHODS,
    SELF_METHODS,
    Kind,
    always,
    argument,
    described,
    framework,
    is_dtype,
    kind,
    may,
    why,
)

if TYPE_CHECKING:
    from codemods.dataflow.values import Values
    from codemods.facts.script import Script

HEAD = """\
import torch, torchvision, timm, transformers, datasets
import torch.nn as nn
"""


def answer(text: str) -> tuple[Script, Values]:
    """The script, and what it assigns to ``answer`` last."""
    found = script(HEAD + text)
    assigned = [each for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer"]
    return found, found.flow.values(assigned[-1].value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.utils.data.DataLoader(d)", Kind.LOADER),
        ("torch.utils.data.TensorDataset(x)", Kind.DATASET),
        ("torchvision.datasets.ImageFolder('d')", Kind.DATASET),
        ("torchvision.datasets.folder.default_loader('f')", None),
        ("torch.utils.data.random_split(d, [1, 2])[0]", Kind.DATASET),
        ("datasets.load_dataset('glue')", Kind.DATASET),
        ("load.load_dataset('mine')", None),
        ("nn.Linear(1, 1)", Kind.MODEL),
        ("nn.Module()", None),
        ("nn.Parameter(x)", None),
        ("nn.Parameter(x).expand(2, 1)", None),
        ("nn.Parameter(x).size()", None),
        ("nn.CrossEntropyLoss()", Kind.LOSS),
        ("nn.Linear(1, 1).to('cuda').train()", Kind.MODEL),
        ("torchvision.models.resnet18()", Kind.MODEL),
        ("torchvision.models.detection.fasterrcnn_resnet50_fpn()", Kind.MODEL),
        ("timm.create_model('x')", Kind.MODEL),
        ("transformers.AutoModel.from_pretrained('x')", Kind.MODEL),
        ("transformers.BertForMaskedLM.from_pretrained('x')", Kind.MODEL),
        ("transformers.AutoTokenizer.from_pretrained('x')", None),
        ("transformers.BertModel(c)", Kind.MODEL),
        ("transformers.BertForMaskedLM(c)", Kind.MODEL),
        ("transformers.TFBertModel(c)", None),
        ("transformers.FlaxBertModel(c)", None),
        ("transformers.BertTokenizer('f')", None),
        ("transformers.ForcedEOSTokenLogitsProcessor(9, 1)", None),
        ("transformers.DataCollatorForLanguageModeling(t)", None),
        ("torch.compile(m)", Kind.MODEL),
        ("nn.parallel.DistributedDataParallel(m)", Kind.MODEL),
        ("torch.optim.SGD(p)", Kind.OPTIMIZER),
        ("torch.optim.lr_scheduler.StepLR(o, 1)", Kind.SCHEDULER),
        ("torch.cuda.amp.GradScaler()", Kind.SCALER),
        ("torch.amp.GradScaler('cuda')", Kind.SCALER),
        ("torch.device('cpu')", Kind.DEVICE),
        ("transformers.Trainer(m)", Kind.FRAMEWORK),
        ("open('f')", None),
        ("3", None),
    ],
)
def test_the_kind_of_a_value(expression: str, expected: Kind | None) -> None:
    found, values = answer(f"answer = {expression}")
    assert {kind(found.flow, each) for each in values} == {expected}


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("nn.Module", Kind.MODEL),
        ("nn.Sequential", Kind.MODEL),
        ("torchvision.models.ResNet", Kind.MODEL),
        ("transformers.PreTrainedModel", Kind.MODEL),
        ("transformers.BertPreTrainedModel", Kind.MODEL),
        ("transformers.models.bert.modeling_bert.BertPreTrainedModel", Kind.MODEL),
        ("transformers.TFPreTrainedModel", None),
        ("transformers.BertModel", None),  # whose layers are not seen
        ("nn.MSELoss", Kind.LOSS),
        ("torch.utils.data.Dataset", Kind.DATASET),
        ("torchvision.datasets.MNIST", Kind.DATASET),
        ("torch.utils.data.DataLoader", Kind.LOADER),
        ("torch.optim.Optimizer", Kind.OPTIMIZER),
        ("torch.optim.lr_scheduler.LRScheduler", Kind.SCHEDULER),
        ("object", None),
    ],
)
def test_the_kind_of_an_object_of_a_class_of_the_project(base: str, expected: Kind | None) -> None:
    found, values = answer(f"class Base({base}): pass\nclass Own(Base): pass\nanswer = Own()")
    assert {kind(found.flow, each) for each in values} == {expected}


TAGGER = """\
class Tagger({base}):
    def __init__(self, config):
        super().__init__(config)
        self.body = transformers.BertModel(config)
        self.head = nn.Linear(config.hidden_size, 5)

    def forward(self, ids):
        return self.head(self.body(ids)[0])


"""


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("Tagger.from_pretrained('x', config=c)", id="by its name"),
        pytest.param("Tagger.from_config(c)", id="without weights"),
        pytest.param("CLASSES[name].from_pretrained('x')", id="out of a table"),
        pytest.param("CLASSES[name].from_pretrained('x').to('cuda')", id="moved at once"),
    ],
)
def test_a_class_of_the_project_makes_a_model_of_weights(made: str) -> None:
    table = "CLASSES = {'bert': Tagger}\n"
    found, values = answer(TAGGER.format(base="transformers.BertPreTrainedModel") + table + f"answer = {made}")
    (model,) = values

    assert isinstance(model, Instance)
    assert kind(found.flow, model) is Kind.MODEL
    assert {each.name for each in found.flow.attribute(model, "head")} == {"torch.nn.Linear"}


@pytest.mark.parametrize(
    "base",
    [
        pytest.param("nn.Module", id="it derives from none of Hugging Face's"),
        pytest.param("transformers.BertModel", id="its layers are not all seen"),
        pytest.param("transformers.PretrainedConfig", id="it is a configuration"),
    ],
)
def test_what_another_class_makes_of_weights_is_not_known(base: str) -> None:
    found, values = answer(TAGGER.format(base=base) + "answer = Tagger.from_pretrained('x')")

    assert why(found.flow, values, Kind.MODEL) == "what Tagger.from_pretrained() returns is not known"


def test_a_method_of_the_project_is_followed_before_the_one_of_the_library() -> None:
    own = "    @classmethod\n    def from_pretrained(cls, path):\n        return 3\n\n\n"
    found, values = answer(
        TAGGER.format(base="transformers.BertPreTrainedModel").rstrip()
        + "\n\n"
        + own
        + "answer = Tagger.from_pretrained('x')"
    )

    assert not may(found.flow, values, Kind.MODEL)


def test_always_and_may_leave_none_aside() -> None:
    found, values = answer("answer = None\nif c:\n    answer = nn.Linear(1, 1)\nanswer = answer")
    assert always(found.flow, values, Kind.MODEL)
    found, values = answer("answer = nn.Linear(1, 1) if c else 3")
    assert may(found.flow, values, Kind.MODEL)
    assert not always(found.flow, values, Kind.MODEL)
    found, values = answer("answer = None")
    assert not always(found.flow, values, Kind.MODEL), "nothing is of no kind"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("answer = make()", "'make' is defined in no place that can be seen"),
        ("answer = timm.optim.make()", "it comes from timm.optim.make(), which is not known to be an optimizer"),
        ("class A: pass\nanswer = A()", "it comes from an object of class A, which is not known to be an optimizer"),
        ("def f(): pass\nanswer = f", "it comes from the function f(), which is not known to be an optimizer"),
        ("answer = None", "it is never given a value"),
    ],
)
def test_why_a_value_is_not_known_to_be_of_a_kind(text: str, reason: str) -> None:
    found, values = answer(text)
    assert why(found.flow, values, Kind.OPTIMIZER) == reason


def test_values_in_words() -> None:
    _, values = answer("import sys\nanswer = timm.make().run if c else timm if d else sys.argv[1]")
    assert sorted(described(each) for each in values) == ["'.run' of timm.make()", "sys.argv", "timm"]


def test_what_is_chosen_from_a_library_by_its_name_in_words() -> None:
    _, values = answer("import torchvision\nanswer = getattr(torchvision.models, sys.argv)()")
    assert [described(each) for each in values] == ["what is chosen by its name from torchvision.models"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("/project.networks.Net", "networks.Net", id="as it is imported"),
        pytest.param("/project", "/project", id="of the directory itself"),
        pytest.param("timm.make", "timm.make", id="a library's as it is"),
    ],
)
def test_a_name_of_the_project_in_words(name: str, words: str) -> None:
    assert described(External(name)) == words


def test_number_formats() -> None:
    _, values = answer("answer = torch.float16")
    assert all(is_dtype(each) for each in values)
    _, values = answer("answer = torch.relu")
    assert not any(is_dtype(each) for each in values)


def test_the_framework_of_a_class_of_the_project() -> None:
    found, values = answer("import lightning as L\nclass Net(L.LightningModule): pass\nanswer = Net()")
    assert [framework(found.flow, each) for each in values] == ["Lightning"]
    found, values = answer("answer = nn.Linear(1, 1)")
    assert [framework(found.flow, each) for each in values] == [None]


def test_an_argument_by_position_or_by_name() -> None:
    found = script("f(1, b=2)")
    (call,) = found.module.nodes(ast.Call)
    assert [each.name for each in argument(found.flow, call, 0, "a")] == ["1"]
    assert [each.name for each in argument(found.flow, call, 1, "b")] == ["2"]
    assert not argument(found.flow, call, 1, "c")


def test_every_method_of_a_module_is_known_to_be_no_layer() -> None:
    public = {name for name in dir(torch.nn.Module()) if name[:1] != "_"}

    assert public - MODULE_METHODS == set()


@pytest.mark.parametrize("name", sorted(SELF_METHODS - {"cuda", "xpu", "ipu", "mtia", "to_empty", "type", "apply"}))
def test_methods_that_return_the_module_itself(name: str) -> None:
    module = torch.nn.Linear(2, 2)

    assert getattr(module, name)() is module
