from __future__ import annotations

from probe import script

from codemods.facts.cost.worth import worth
from codemods.facts.data.materializing import image_sets, read_once
from codemods.facts.reason import Reason

SCRIPT = """
from torch.utils.data import DataLoader, TensorDataset, default_collate
from torchvision import datasets, transforms
data = datasets.{}
loader = DataLoader(data, batch_size=64)
for epoch in range(3):
    for x, y in loader:
        print(x)
"""
MNIST = 'MNIST("data", transform=transforms.ToTensor())'


def test_which_data_sets_are_seen() -> None:
    for made, number in ((MNIST, 1), ('ImageFolder("data", transform=transforms.ToTensor())', 0), ("FakeData()", 0)):
        assert len(list(image_sets(script(SCRIPT.format(made))))) == number


def test_why_one_is_read_in_each_epoch() -> None:
    for made, code in ((MNIST, None), (MNIST.replace("ToTensor()", "RandomCrop(8)"), "draws-anew")):
        asked = script(SCRIPT.format(made))
        ((module, _, value),) = image_sets(asked)
        found = read_once(asked, module, value)
        assert (found.code if isinstance(found, Reason) else None) == code


def test_what_was_read_once_has_the_length_and_the_images_of_what_it_was_read_from() -> None:
    text = SCRIPT.format(MNIST).replace("loader =", "data = TensorDataset(*default_collate(list(data)))\nloader =")
    asked = script(text)
    (loader,) = asked.loaders
    lengths = worth(asked).lengths
    assert list(image_sets(asked)) == []
    assert (lengths.batches(loader), lengths.image(loader.dataset)) == (938, (1, 28, 28))
