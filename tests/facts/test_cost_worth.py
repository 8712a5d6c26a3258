"""Which changes cannot save what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.cost.worth import Worth, worth

if TYPE_CHECKING:
    from codemods.facts.script import Script

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision import datasets, models, transforms as T
"""


def trained(model: str, data: str = "datasets.MNIST('d', transform=T.ToTensor())", epochs: str = "range(5)") -> Script:
    return script(f"""{HEAD}
model = {model}
loader = DataLoader({data}, batch_size=64)
for epoch in {epochs}:
    for x, y in loader:
        model(x).sum().backward()
""")


SMALL = "nn.Sequential(nn.Flatten(), nn.Linear(784, 10))"
LARGE = "models.resnet50()"
IMAGES = "datasets.ImageFolder('d', T.Compose([T.Resize((224, 224)), T.ToTensor()]))"


@pytest.mark.parametrize(
    ("known", "compiled", "narrow"),
    [
        pytest.param(trained(SMALL), True, True, id="a small network"),
        pytest.param(trained(LARGE, IMAGES), False, False, id="a large one on data of which the size is not known"),
        pytest.param(trained(LARGE, epochs="range(1)"), False, False, id="a large one for one epoch"),
        pytest.param(trained("make()"), None, False, id="a model that is not known"),
    ],
)
def test_what_cannot_pay(known: Script, compiled: bool | None, narrow: bool) -> None:  # noqa: FBT001 - expected
    found = Worth(known)
    values = [each.value for each in known.models]

    assert [found.why_compiled_in_vain(each) is not None for each in values] == ([] if compiled is None else [compiled])
    assert (found.why_in_32_bits(frozenset(values)) is not None) is narrow


@pytest.mark.parametrize(
    ("under", "then", "is_vain"),
    [
        pytest.param("if i % 100 == 0:", "print(second(x).mean())", True, id="for a sample now and then"),
        pytest.param("if i % 100 == 0 and epoch > 3:", "show(x)", True, id="in a function that is called for one"),
        pytest.param("if epoch > 3:", "print(second(x).mean())", False, id="in all iterations from one on"),
        pytest.param("if i % 5 == 0:", "second(x).sum().backward()", False, id="a generator learns now and then"),
        pytest.param("if True:", "print(second(x).mean())", False, id="in each iteration"),
    ],
)
def test_a_network_of_few_iterations(under: str, then: str, is_vain: bool) -> None:  # noqa: FBT001 - expected
    known = script(f"""{HEAD}
def show(x):
    print(second(x).mean())
model, second = {LARGE}, models.resnet18()
i = 0
for epoch in range(500):
    for x, y in DataLoader({IMAGES}, batch_size=64):
        model(x).sum().backward()
        {under}
            {then}
        i += 1
""")
    found = {each.value.name: Worth(known).why_compiled_in_vain(each.value) for each in known.models}

    assert found["torchvision.models.resnet50"] is None
    assert (found["torchvision.models.resnet18"] is not None) is is_vain


PROBE = """\
class Probe(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.layer = nn.Linear(features, classes)
        self.act = nn.Sigmoid()

    def forward(self, x):
        return {}

"""


@pytest.mark.parametrize(
    ("made", "forward", "is_little"),
    [
        pytest.param("Probe(backbone.width, 10)", "self.act(self.layer(x))", True, id="few classes"),
        pytest.param("Probe(10, backbone.width)", "self.layer(x)", True, id="few features"),
        pytest.param("Probe(backbone.width, 1000)", "self.layer(x)", False, id="many classes"),
        pytest.param("Probe(backbone.width, backbone.classes)", "self.layer(x)", False, id="nothing is known"),
        pytest.param("Probe(backbone.width, 10)", "self.layer(x @ x.T)", False, id="another product"),
        pytest.param(
            "nn.Sequential(backbone, nn.Linear(backbone.width, 10))", "x", False, id="what is not known before it"
        ),
        pytest.param(
            "nn.Sequential(nn.Linear(backbone.width, 10), nn.Linear(10, backbone.width))", "x", False, id="two layers"
        ),
    ],
)
def test_one_narrow_layer_on_features_of_unknown_width(made: str, forward: str, is_little: bool) -> None:  # noqa: FBT001 - expected
    known = script(
        f"from library import backbone\n{HEAD}{PROBE.format(forward)}model = {made}\nfor x in DataLoader(load(), batch_size=64):\n"
        "    model(x).sum().backward()\n"
    )
    values = [each.value for each in known.models]

    assert values
    assert (Worth(known).why_in_32_bits(frozenset(values)) is not None) is is_little
    assert (Worth(known).why_without_tf32(values) is not None) is is_little


PHOTOS = "datasets.ImageFolder('d', T.ToTensor())"


@pytest.mark.parametrize(
    ("model", "is_little"),
    [
        pytest.param("nn.Sequential(nn.Conv2d(3, 64, 9), nn.ReLU(), nn.Conv2d(64, 3, 5))", True, id="two narrow ones"),
        pytest.param(
            "nn.Sequential(nn.Conv2d(3, 24, 4, 2), nn.ReLU(), nn.ConvTranspose2d(24, 3, 4, 2))",
            True,
            id="one that makes images smaller, and one that makes them larger again",
        ),
        pytest.param(
            "nn.Sequential(nn.Conv2d(3, 24, 4, 2), nn.ConvTranspose2d(24, 96, 4, 2), nn.Conv2d(96, 3, 3))",
            False,
            id="a wide one that makes them larger",
        ),
        pytest.param(
            "nn.Sequential(nn.Conv2d(3, 64, 4, 2), nn.ConvTranspose2d(64, 64, 5, 2), nn.ConvTranspose2d(64, 3, 5, 2))",
            False,
            id="much to multiply where they become larger",
        ),
        pytest.param(
            "nn.Sequential(nn.Conv2d(3, 32, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))",
            True,
            id="one beside a narrow linear layer",
        ),
        pytest.param(
            "nn.Sequential(nn.Conv2d(3, 32, 3), nn.Flatten(), nn.Linear(8192, 128))",
            False,
            id="one beside a wide linear layer",
        ),
        pytest.param("nn.Sequential(nn.Conv2d(3, 128, 3), nn.Conv2d(128, 3, 3))", False, id="wider ones"),
        pytest.param("nn.Sequential(*[nn.Conv2d(64, 64, 3) for _ in range(9)])", False, id="many narrow ones"),
        pytest.param(
            "nn.Sequential(nn.Conv2d(3, 32, 3), nn.Flatten(), nn.LazyLinear(9))", False, id="a layer of unknown width"
        ),
    ],
)
def test_narrow_convolutions_of_images_of_any_size(model: str, is_little: bool) -> None:  # noqa: FBT001 - expected
    known = trained(model, PHOTOS)
    reason = Worth(known).why_in_32_bits(frozenset(each.value for each in known.models))

    assert (reason is not None) is is_little


SEQUENCES = "datasets.MNIST('d', transform=T.ToTensor())"


@pytest.mark.parametrize(
    ("levels", "is_little"),
    [pytest.param(15, True, id="many operations, of few channels"), pytest.param(48, False, id="more of them")],
)
def test_narrow_convolutions_of_images_of_a_size_that_is_known(levels: int, is_little: bool) -> None:  # noqa: FBT001 - expected
    known = trained(f"nn.Sequential(*[nn.Conv1d(30, 30, 7) for _ in range({levels})])", SEQUENCES)
    values = [each.value for each in known.models]
    operations = Worth(known).operations(values[0])

    assert operations is not None
    assert operations > 10**10
    assert (Worth(known).why_in_32_bits(frozenset(values)) is not None) is is_little


BIGRAMS = f"""{HEAD}
class Bigrams(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.rows = nn.Embedding(size, size)

    def forward(self, x):
        return self.rows(x)

model = Bigrams(len(set(open("text").read())))
for step in range(3000):
    x = torch.randint(9, (32, 8))
    model(x).sum().backward()
"""


@pytest.mark.parametrize(
    ("text", "is_little"),
    [
        pytest.param(BIGRAMS, True, id="rows of a table of unknown size"),
        pytest.param(BIGRAMS.replace("self.rows(x)", "self.rows(x) @ self.rows.weight"), False, id="and a product"),
        pytest.param(BIGRAMS.replace("self.rows(x)", "self.out(self.rows(x))"), False, id="and an unknown layer"),
        pytest.param(
            BIGRAMS.replace("self.rows(x)", "torch.bmm(self.rows(x), self.rows(x[:, 0]).unsqueeze(2))"),
            True,
            id="and each is multiplied with one vector",
        ),
        pytest.param(
            BIGRAMS.replace("self.rows(x)", "self.rows(x[:, 0]).unsqueeze(1).bmm(self.rows(x).mT)"),
            True,
            id="and one vector is multiplied with each, by a method",
        ),
        pytest.param(
            BIGRAMS.replace("self.rows(x)", "torch.bmm(self.rows(x).unsqueeze(2), self.rows(x))"),
            False,
            id="and a product of which no operand is a vector",
        ),
        pytest.param(
            BIGRAMS.replace("self.rows(x)", "torch.bmm(self.rows(x), self.rows(x).mT)"),
            False,
            id="and a batch of products",
        ),
    ],
)
def test_what_only_looks_up_rows_of_a_table(text: str, is_little: bool) -> None:  # noqa: FBT001 - expected
    known = script(text.replace("        self.rows = ", "        self.out = make()\n        self.rows = "))
    values = [each.value for each in known.models]

    assert len(values) == 1
    assert (Worth(known).why_compiled_in_vain(values[0]) is not None) is is_little
    assert (Worth(known).why_in_32_bits(frozenset(values)) is not None) is is_little


@pytest.mark.parametrize(
    ("data", "epochs", "expected"),
    [
        pytest.param("datasets.MNIST('d', transform=T.ToTensor())", "range(5)", False, id="many batches"),
        pytest.param("TensorDataset(torch.zeros(640, 3), torch.zeros(640))", "range(1)", True, id="ten batches"),
        pytest.param(IMAGES, "range(1)", False, id="a length that is not known"),
    ],
)
def test_workers_for_a_few_batches(data: str, epochs: str, expected: bool) -> None:  # noqa: FBT001 - expected
    known = trained(SMALL, data, epochs)

    assert (Worth(known).why_without_workers(known.loaders[0]) is not None) is expected


def test_workers_for_what_is_read_once_by_a_function_that_reads_another_loader_in_each_epoch() -> None:
    known = script(f"""{HEAD}
data = TensorDataset(torch.zeros(640, 3), torch.zeros(640))
valid, test = DataLoader(data, batch_size=64), DataLoader(data, batch_size=64)
def validate(loader):
    for x, y in loader:
        print(x)
for epoch in range(5):
    validate(valid)
validate(test)
""")

    assert [Worth(known).why_without_workers(each) is not None for each in known.loaders] == [False, True]


def test_the_user_may_ask_for_it_all_the_same() -> None:
    known = trained(SMALL)
    reason = Worth(known).why_compiled_in_vain(known.models[0].value)

    assert reason is not None
    assert (reason.code, reason.remedy) == ("never-pays-back", "select the rule by name to apply it all the same")


def test_it_is_added_up_once() -> None:
    known = trained(SMALL)

    assert worth(known) is worth(known)
