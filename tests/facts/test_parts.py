"""Which part of a batch is moved, and whether it may be something else than a tensor."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.parts import is_callers_batch, may_hand_out, why_inputs_made_anew, why_no_tensor

COLLATED = """\
    import torch
    from torch.utils.data import DataLoader

    class Boxes:
        def to(self, device):
            return self

    def collate(items):
        return torch.stack([image for image, _ in items]), Boxes()

    loader = DataLoader(torch.zeros(8, 3), collate_fn=collate)
"""


@pytest.mark.parametrize(
    ("loop", "is_tensor"),
    [
        pytest.param("for x, y in loader:\n    x.cuda()", True, id="the part that is stacked"),
        pytest.param("for x, y in loader:\n    y.cuda()", False, id="the part that is an object"),
        pytest.param("for i, (x, y) in enumerate(loader):\n    x.cuda()", True, id="a part behind enumerate"),
        pytest.param("for batch in loader:\n    batch.cuda()", False, id="all of it"),
        pytest.param("for batch in loader:\n    batch[0].cuda()", True, id="an item"),
        pytest.param("for batch in loader:\n    batch[1].cuda()", False, id="an item that is an object"),
        pytest.param(
            "for i, batch in enumerate(loader):\n    x = batch[0]\n    x.cuda()", True, id="a name for an item"
        ),
        pytest.param("for batch in loader:\n    batch = batch[1]\n    batch[0].cuda()", False, id="an item of an item"),
        pytest.param("for batch in loader:\n    batch[i].cuda()", False, id="an item that is not known"),
        pytest.param(
            "for i, batch in enumerate(loader):\n    x, y = batch[0], batch[1]\n    x.cuda()",
            True,
            id="one of several names for items",
        ),
        pytest.param(
            "for batch in loader:\n    x, y = batch[0], batch[1]\n    y.cuda()",
            False,
            id="one of several names for items, that of an object",
        ),
        pytest.param("for batch in loader:\n    x, y = batch\n    x.cuda()", True, id="a name that unpacks it"),
        pytest.param(
            "for batch in loader:\n    x, y = batch\n    y.cuda()", False, id="a name that unpacks it, for an object"
        ),
        pytest.param(
            "for batch in loader:\n    if swapped:\n        batch = batch[::-1]\n    x, y = batch\n    x.cuda()",
            False,
            id="it may be given anew before it is unpacked",
        ),
        pytest.param("for batch in loader:\n    *x, y = batch\n    y.cuda()", False, id="a star takes some of it"),
        pytest.param(
            "for batch in loader:\n    batch.reverse()\n    x, y = batch\n    x.cuda()", False, id="it is reversed"
        ),
        pytest.param("for batch in loader:\n    del batch[0]\n    batch[0].cuda()", False, id="an item is deleted"),
        pytest.param(
            "for x in others:\n    print(x)\nfor x, y in loader:\n    x.cuda()",
            True,
            id="another loop gave that name before",
        ),
        pytest.param(
            "for batch in loader:\n    x = batch[0]\n    x.cuda()\nfor batch in others:\n    x = batch[1]",
            True,
            id="another loop reads others",
        ),
        pytest.param(
            "for x, y in loader:\n    if y:\n        x = y\n    x.cuda()",
            False,
            id="a branch of the loop gives it something else",
        ),
    ],
)
def test_the_part_that_a_loop_names_is_told_from_the_others(loop: str, is_tensor: bool) -> None:  # noqa: FBT001
    found = script(COLLATED + "".join(f"    {line}\n" for line in loop.splitlines()))

    (move,) = found.transfers
    (loader,) = found.loaders

    assert (why_no_tensor(loader, move) is None) is is_tensor


@pytest.mark.parametrize(
    ("function", "is_callers"),
    [
        pytest.param("def train(loader):\n    for x, y in loader:\n        x = x.cuda()\n", True, id="nobody calls it"),
        pytest.param(
            "def train(*, data):\n    for x, y in data:\n        x = x.cuda()\n", True, id="given by name alone"
        ),
        pytest.param(
            "def train(loader):\n    for x in loader:\n        x = x.cuda()\n", False, id="no part of a tuple"
        ),
        pytest.param(
            "def train(loader):\n    for x, y in loader:\n        z = x.cuda()\n",
            False,
            id="the part is used elsewhere",
        ),
        pytest.param(
            "def train(loader):\n    for x, y in loader:\n        x = x.cuda()\n\ntrain(something)\n",
            False,
            id="a call is seen",
        ),
    ],
)
def test_a_batch_of_a_caller_that_is_not_seen(function: str, is_callers: bool) -> None:  # noqa: FBT001
    (move,) = script(function).transfers

    assert is_callers_batch(move) is is_callers


@pytest.mark.parametrize(
    ("made", "is_tensor"),
    [
        pytest.param("np.random.beta(1, 1)", True, id="a number of NumPy"),
        pytest.param("np.stack([each for each, _ in items])", True, id="an array"),
        pytest.param("Boxes()", False, id="an object"),
    ],
)
def test_what_stands_beside_tensors_may_have_no_to(made: str, is_tensor: bool) -> None:  # noqa: FBT001
    text = COLLATED.replace("Boxes()\n\n", f"{made}\n\n") + "    for batch in loader:\n        x = batch[k].cuda()\n"
    found = script("    import numpy as np\n" + text)

    (move,) = found.transfers
    (loader,) = found.loaders

    assert (why_no_tensor(loader, move) is None) is is_tensor


@pytest.mark.parametrize(
    "wrapped",
    [
        pytest.param("loop = tqdm(tqdm(tqdm(tqdm(tqdm(loader)))))", id="however often it is wrapped"),
        pytest.param("loop = loader\nfor _ in range(2):\n    loop = tqdm(loop)", id="again in a loop"),
    ],
)
def test_what_hands_on_the_batches(wrapped: str) -> None:
    text = f"from tqdm import tqdm\n{wrapped}\nfor x, y in loop:\n    x.cuda()\n"
    found = script(COLLATED + "".join(f"    {line}\n" for line in text.splitlines()))
    (move,) = found.transfers
    (loader,) = found.loaders

    assert why_no_tensor(loader, move) is None


PAIRS = """\
    from torch.utils.data import DataLoader, Dataset

    class Pairs(Dataset):
        def __getitem__(self, index):
            return self.x[index], self.y[index]

    def triple(items):
        return 1, 2, 3

    def as_it_comes(items):
        return tuple(items)

    class Traced(Dataset):
        @traced
        def __getitem__(self, index):
            return self.x[index], self.y[index]

    class Several(Pairs):
        def __getitems__(self, indices):
            return [(self.x[each], self.y[each], each) for each in indices]

"""


@pytest.mark.parametrize(
    ("made", "may"),
    [
        pytest.param("DataLoader(Pairs())", False, id="items of another number of parts"),
        pytest.param("DataLoader(Pairs(), collate_fn=triple)", True, id="batches of as many"),
        pytest.param("DataLoader(Pairs(), collate_fn=lambda items: triple(items))", True, id="through a lambda"),
        pytest.param("DataLoader(Pairs(), collate_fn=as_it_comes)", True, id="of any number"),
        pytest.param("DataLoader(Traced())", True, id="a decorator may make others"),
        pytest.param("DataLoader(Several())", True, id="several are read at once"),
        pytest.param("DataLoader(Pairs(), **given)", True, id="arguments that are not seen"),
        pytest.param("DataLoader(read())", True, id="a data set that is not seen"),
    ],
)
def test_whose_batches_a_loop_can_unpack(made: str, may: bool) -> None:  # noqa: FBT001
    found = script(PAIRS + f"    loader = {made}\n    for x, y, z in loader:\n        z.cuda()\n")
    (move,) = found.transfers
    (loader,) = found.loaders

    assert may_hand_out(loader, move) is may


READING = """\
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.randn(80, 4), torch.randn(80)), 8)
    for number, batch in enumerate(loader):
"""
UNPACKED = "x, y = batch\n"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param(
            f"{UNPACKED}x = scaled(x.numpy())\nx = torch.tensor(x).cuda()\ny = y.cuda()", 7, id="by a function not seen"
        ),
        pytest.param(
            f"{UNPACKED}array = x.numpy() / 2\nmade = torch.from_numpy(array)\na, b = made.cuda(), y.cuda()",
            7,
            id="by other names",
        ),
        pytest.param(f"{UNPACKED}a = torch.tensor(x.numpy()).cuda()\ny = y.cuda()", 7, id="at once"),
        pytest.param(f"{UNPACKED}x = x.cuda()\ny = torch.tensor(scaled(y.numpy())).cuda()", None, id="another part"),
        pytest.param(
            f"{UNPACKED}seen.update(x.numpy())\na = torch.zeros(4).cuda()\ny = y.cuda()", None, id="numbers, not moved"
        ),
        pytest.param(
            f"{UNPACKED}a = torch.tensor(scaled(x.numpy())).cuda()\nx, y = x.cuda(), y.cuda()",
            None,
            id="moved as it came, too",
        ),
        pytest.param(
            f"{UNPACKED}x = other(number)\nx = torch.tensor(scaled(x.numpy())).cuda()\ny = y.cuda()",
            None,
            id="another tensor of that name",
        ),
        pytest.param(
            "x = torch.tensor(scaled(batch[0].numpy())).cuda()\ny = batch[1].cuda()", None, id="parts without a name"
        ),
    ],
)
def test_whether_what_a_network_is_given_is_made_anew(body: str, line: int | None) -> None:
    found = script(READING + "".join(f"        {each}\n" for each in body.splitlines()))
    (loader,) = found.loaders
    reason = why_inputs_made_anew(loader, found.transfers)

    assert loader.moves
    assert [each.lines[0] for each in reason.places] == [line] if reason is not None else line is None


def test_it_is_made_anew_where_two_loaders_are_read_at_once() -> None:
    body = (
        "for batch, other in zip(loader, loader):\n    x, y = batch\n    x = torch.tensor(scaled(x.numpy())).cuda()\n"
    )
    text = READING.partition("    for")[0] + "".join(f"    {each}\n" for each in f"{body}    y.cuda()\n".splitlines())
    found = script(text)
    (loader,) = found.loaders

    assert why_inputs_made_anew(loader, found.transfers) is not None


DATA = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

class Boxes:
    def to(self, device):
        return self

def same_size(images):
    height = max(each.shape[1] for each in images)
    canvas = images[0].new(len(images), 3, height, 9).zero_()
    for image, place in zip(images, canvas):
        place[:, : image.shape[1]].copy_(image)
    return canvas

class Shapes(Dataset):
    def __init__(self, change=None):
        self.change = change
    def __getitem__(self, index):
        image = Image.open(f"{index}.png")
        found = {"boxes": torch.ones(3, 4), "name": "shape"}
        if self.change is not None:
            image = torch.ones(3, 8, 9)
        return image, found
    def pairs(self, items):
        return tuple(zip(*items))
"""
COLLATES = {
    "tuples of them": ("Shapes()", "data.pairs", True),
    "the items as they are": ("Shapes()", "lambda items: items", True),
    "tuples of them, by a function without a name": ("Shapes()", "lambda items: list(zip(*items))", True),
    "a tensor that an image makes": (
        "Shapes()",
        "collate\ndef collate(items):\n    images, found = zip(*items)\n    return same_size(images), found",
        True,
    ),
    "objects of the project": ("Shapes()", "lambda items: [Boxes() for _ in items]", False),
    "what another library makes of them": ("Shapes()", "lambda items: other.joined(items)", False),
    "what is not known of itself": (
        "Shapes()",
        "collate\ndef collate(items):\n    items = joined(items)\n    return items",
        False,
    ),
    "tuples of what another library makes": ("other.Shapes()", "lambda items: tuple(zip(*items))", False),
    "tuples of objects of the project": (
        "Marked()\nclass Marked(Dataset):\n    def __getitem__(self, index):\n        return Boxes(), 1",
        "lambda items: tuple(zip(*items))",
        False,
    ),
    "tuples of what is not known": (
        "Read()\nclass Read(Dataset):\n    def __getitem__(self, index):\n        return other.read(index), 1",
        "lambda items: tuple(zip(*items))",
        False,
    ),
    "tuples of what a decorator changes": (
        "Read()\nclass Read(Dataset):\n    @other.wrapped\n    def __getitem__(self, index):\n        return 1, 2",
        "lambda items: tuple(zip(*items))",
        False,
    ),
}


@pytest.mark.parametrize(("made", "collate", "is_tensor"), COLLATES.values(), ids=COLLATES)
def test_what_a_collate_function_hands_on(made: str, collate: str, is_tensor: bool) -> None:  # noqa: FBT001
    data, _, its_class = made.partition("\n")
    name, _, definition = collate.partition("\n")
    known = script(
        f"{DATA}import other\n{its_class}\n{definition}\ndata = {data}\n"
        f"loader = DataLoader(data, collate_fn={name}, pin_memory=True)\n"
        "for images, found in loader:\n    images = [each.cuda() for each in images]\n"
    )
    (move,) = (each for each in known.transfers if each.method == "cuda")

    assert (why_no_tensor(known.loaders[0], move) is None) is is_tensor
