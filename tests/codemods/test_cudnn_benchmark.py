from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.rules.cudnn_benchmark import CudnnBenchmark

IMPORTS = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import datasets, transforms
"""
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.conv(x).mean((2, 3)))
"""
REPEATED = """\
class Repeated(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return 3 * len(self.data)

    def __getitem__(self, index):
        return self.data[index % len(self.data)]


"""
DATA = 'data = datasets.MNIST("data", transform=transforms.ToTensor())\n'
TRAIN = """\
for x, y in DataLoader(data, batch_size=64):
    F.cross_entropy(model(x.cuda()), y.cuda()).backward()
"""
MODEL = "model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(5408, 10)).cuda()\n"
FLAG = "torch.backends.cudnn.benchmark = True\n"
UNKNOWN_SIZE = "input size not provably fixed: "


def indented(code: str) -> str:
    return "".join(f"    {line}" for line in code.splitlines(keepends=True))


# What stands before the flag, and after it.
PLACES = {
    "the imports": (IMPORTS + "\n", DATA + MODEL + TRAIN),
    "imports between which something is called": (
        IMPORTS
        + """\
import matplotlib
matplotlib.use('Agg')
import matplotlib.pyplot as plt

""",
        DATA + MODEL + TRAIN,
    ),
    "the imports that lead to torch, not earlier ones": (
        """\
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
"""
        + IMPORTS
        + "\n",
        DATA + MODEL + TRAIN,
    ),
    "the imports that bind torch, not those of its parts": (
        """\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
"""
        + DATA
        + """\
import torch
import torch.nn.functional as F
from torch import nn

""",
        MODEL + TRAIN,
    ),
    "an import in a try": (
        """\
try:
    import torch
except ImportError:
    raise SystemExit
"""
        + IMPORTS.partition("\n")[2]
        + "\n",
        DATA + MODEL + TRAIN,
    ),
    "the first imports, not those after other code": (
        IMPORTS + "\n",
        DATA + "import os\n" + MODEL + TRAIN,
    ),
    "the imports, where a long function that seeds is called first": (
        IMPORTS + "\n",
        "def prepare():\n    torch.manual_seed(0)\n" + "    print()\n" * 12 + "prepare()\n" + DATA + MODEL + TRAIN,
    ),
    "the seed, where an if that follows does something else": (
        IMPORTS + "torch.manual_seed(0)\n",
        "if torch.cuda.is_available():\n    torch.cuda.manual_seed(0)\nelse:\n    print()\n" + DATA + MODEL + TRAIN,
    ),
    "the seed": (IMPORTS + "torch.manual_seed(0)\n", DATA + MODEL + TRAIN),
    "the last of the seeds": (
        IMPORTS
        + """\
import random
import numpy as np
random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
""",
        DATA + MODEL + TRAIN,
    ),
    "a seed under an if that follows the seeds": (
        IMPORTS
        + """\
torch.manual_seed(0)
if torch.cuda.is_available():
    torch.cuda.manual_seed(0)
""",
        DATA + MODEL + TRAIN,
    ),
    "a small helper that seeds": (
        IMPORTS
        + """\
def set_seed(seed):
    torch.manual_seed(seed)
set_seed(0)
""",
        DATA + MODEL + TRAIN,
    ),
    "a function of a library that seeds": (
        IMPORTS + "from transformers import set_seed\nset_seed(1)\n",
        DATA + MODEL + TRAIN,
    ),
    "the seed just before the model, not one after it": (
        IMPORTS + DATA + "torch.manual_seed(0)\n",
        MODEL + "torch.manual_seed(1)\n" + TRAIN,
    ),
}


@pytest.mark.parametrize(("above", "below"), PLACES.values(), ids=PLACES)
def test_the_flag_stands_after(above: str, below: str) -> None:
    before = (
        above.removesuffix("\n") + below
        if above.endswith("""\


""")
        else above + below
    )

    check_rewrites(CudnnBenchmark, before, above + FLAG + below)


IN_MAIN = {
    "the device of main()": (
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n',
        "epochs = 2\ndevelop = 'yes'\n" + DATA + "model = Net().to(device)\n" + TRAIN,
    ),
    "the name of the device of main()": (
        'device = "cuda:0" if torch.cuda.is_available() else "cpu"\n',
        DATA + "model = Net().to(device)\n" + TRAIN,
    ),
    "the seed of main()": (
        "torch.manual_seed(0)\n",
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        + DATA
        + "model = Net().to(device)\n"
        + TRAIN,
    ),
    "the seed of main(), where a helper makes the model": (
        "torch.manual_seed(0)\n",
        DATA + "model = build().cuda()\n" + TRAIN,
    ),
    "the device of main(), where a helper makes the model": (
        'device = torch.device("cuda")\n',
        DATA + "model = build().to(device)\n" + TRAIN,
    ),
}


@pytest.mark.parametrize(("above", "below"), IN_MAIN.values(), ids=IN_MAIN)
@pytest.mark.parametrize(
    "call",
    [
        "main()\n",
        """\
if __name__ == '__main__':
    main()
""",
    ],
    ids=["called", "guarded"],
)
def test_the_flag_stands_in_main_after(above: str, below: str, call: str) -> None:
    start = (
        IMPORTS
        + NET
        + """\
def build():
    return Net()
def main():
"""
    )

    check_rewrites(
        CudnnBenchmark,
        start + indented(above + below) + call,
        start + indented(above + FLAG + below) + call,
    )


def test_the_flag_stands_in_the_guard_after_the_device() -> None:
    start = IMPORTS + "if __name__ == '__main__':\n"
    above = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    below = DATA + MODEL.replace("cuda()", "to(device)") + TRAIN

    check_rewrites(CudnnBenchmark, start + indented(above + below), start + indented(above + FLAG + below))


def test_the_flag_stands_after_the_imports_where_main_has_neither_seed_nor_device() -> None:
    rest = NET + "def main():\n" + indented(DATA + "model = Net().cuda()\n" + TRAIN) + "main()\n"

    check_rewrites(CudnnBenchmark, IMPORTS + rest, IMPORTS + "\n" + FLAG + rest)


def test_the_flag_is_not_set_again_and_again_after_a_seed_in_a_loop() -> None:
    rest = DATA + "for seed in range(5):\n    torch.manual_seed(seed)\n" + indented(MODEL + TRAIN)

    check_rewrites(CudnnBenchmark, IMPORTS + rest, IMPORTS + "\n" + FLAG + rest)


def test_the_flag_is_spelled_as_the_file_spells_it() -> None:
    imports = IMPORTS + "import torch.backends.cudnn as cudnn\n"

    check_rewrites(
        CudnnBenchmark,
        imports + DATA + MODEL + TRAIN,
        imports
        + """\

cudnn.benchmark = True
"""
        + DATA
        + MODEL
        + TRAIN,
    )


FIXED_SIZE = {
    "a crop": "transforms.Resize(256), transforms.CenterCrop(224)",
    "a random crop": "transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()",
    "both sides named": "transforms.Resize((256, 256)), transforms.ColorJitter()",
    "both sides named elsewhere": "transforms.Resize(size)",
    "a crop, warped": "transforms.CenterCrop(224), transforms.ElasticTransform()",
    "a crop, compressed": "transforms.CenterCrop(224), transforms.v2.JPEG((5, 50))",
}


@pytest.mark.parametrize("steps", FIXED_SIZE.values(), ids=FIXED_SIZE)
def test_the_size_is_fixed_by(steps: str) -> None:
    rest = (
        f"size = (64, 64)\ntransform = transforms.Compose([{steps}, transforms.ToTensor()])\n"
        'data = datasets.ImageFolder("data", transform=transform)\n' + MODEL + TRAIN
    )

    check_rewrites(CudnnBenchmark, IMPORTS + rest, IMPORTS + "\n" + FLAG + rest)


ALSO = {
    "a ragged last batch": DATA + MODEL + TRAIN.replace("batch_size=64", "batch_size=61"),
    "deterministic = False": "torch.backends.cudnn.deterministic = False\n" + DATA + MODEL + TRAIN,
    "deterministic algorithms off": "torch.use_deterministic_algorithms(False)\n" + DATA + MODEL + TRAIN,
    "deterministic algorithms off by keyword": "torch.use_deterministic_algorithms(mode=False)\n"
    + DATA
    + MODEL
    + TRAIN,
    "cuDNN explicitly on": "torch.backends.cudnn.enabled = True\n" + DATA + MODEL + TRAIN,
    "a library's seeding that leaves cuDNN alone": """\
from ignite.utils import manual_seed
manual_seed(1)
"""
    + DATA
    + MODEL
    + TRAIN,
    "an unused loader of images of any size": DATA
    + 'other = DataLoader(datasets.ImageFolder("data"))\n'
    + MODEL
    + TRAIN,
    "another thing's attribute of that name": "class Timer:\n    pass\ntimer = Timer()\ntimer.benchmark = True\n"
    + DATA
    + MODEL
    + TRAIN,
    "collate_fn=None": DATA + MODEL + TRAIN.replace("batch_size=64", "collate_fn=None"),
    "an unused loader beside batches that are scaled on the host": DATA
    + 'other = DataLoader(datasets.ImageFolder("data"))\n'
    + MODEL
    + TRAIN.replace("x.cuda()", "(x * 2 - 1).cuda()").replace("y.cuda()", "(y + 0).cuda()"),
    "tensors in memory": "data = TensorDataset(torch.randn(99, 1, 28, 28), torch.zeros(99))\n" + MODEL + TRAIN,
    "batches that are scaled on the host": DATA + MODEL + TRAIN.replace("x.cuda()", "(x * 2 - 1).cuda()"),
    "crops of a fixed size": DATA + MODEL + TRAIN.replace("x.cuda()", "x.cuda()[:, :, 2:-2, 2:-2]"),
    "a data set that keeps its transform": """\
class Digits(datasets.MNIST):
    def __init__(self):
        super().__init__("data")
        self.transform = transforms.ToTensor()
"""
    + DATA
    + MODEL
    + TRAIN,
    "another thing's attribute through setattr": "setattr(torch, 'deterministic', True)\n" + DATA + MODEL + TRAIN,
    "resizing inside the model": NET.replace("self.conv(x)", "F.interpolate(self.conv(x), scale_factor=2)")
    + DATA
    + "model = Net().cuda()\n"
    + TRAIN,
    "a part of the data, by name": DATA
    + "data = torch.utils.data.Subset(dataset=data, indices=range(100))\n"
    + MODEL
    + TRAIN,
    "data sets in a row, by name": DATA
    + "data = torch.utils.data.ConcatDataset(datasets=[data, data])\n"
    + MODEL
    + TRAIN,
    "data that is read several times": DATA + REPEATED + "data = Repeated(data)\n" + MODEL + TRAIN,
    "a part of the data": DATA + "data = torch.utils.data.Subset(data, range(100))\n" + MODEL + TRAIN,
    "a GAN of fixed size": NET.replace("Net", "Critic")
    + """\
class Maker(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(9, 1, 28)
    def forward(self, z):
        return self.conv(z)
"""
    + DATA
    + """\
maker, critic = Maker().cuda(), Critic().cuda()
for x, y in DataLoader(data, batch_size=64):
    z = torch.randn(len(x), 9, 1, 1).cuda()
    (critic(x.cuda()).mean() - critic(maker(z)).mean()).backward()
""",
    "a torchvision network": "from torchvision import models\n" + DATA + "model = models.resnet18().cuda()\n" + TRAIN,
}


@pytest.mark.parametrize("rest", ALSO.values(), ids=ALSO)
def test_set_with(rest: str) -> None:
    imports = IMPORTS
    while rest.startswith("from"):
        line, _, rest = rest.partition("\n")
        imports += line + "\n"

    check_rewrites(CudnnBenchmark, imports + rest, imports + "\n" + FLAG + rest)


DECIDED = {
    "cudnn.deterministic": ("torch.backends.cudnn.deterministic = True\n", "determinism requested (line 6)"),
    "cudnn.deterministic by the user's choice": (
        """\
import argparse
args = argparse.ArgumentParser().parse_args()
torch.backends.cudnn.deterministic = args.d
""",
        "determinism requested (line 8)",
    ),
    "cudnn.deterministic through the module": (
        """\
from torch.backends import cudnn
cudnn.deterministic = True
""",
        "determinism requested (line 7)",
    ),
    "cudnn.deterministic in a helper": (
        """\
def set_seed():
    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
set_seed()
""",
        "determinism requested (line 8)",
    ),
    "cudnn.deterministic through setattr": (
        "setattr(torch.backends.cudnn, 'deterministic', True)\n",
        "determinism requested (line 6)",
    ),
    "any attribute of cudnn": (
        """\
for name in ("enabled", "deterministic"):
    setattr(torch.backends.cudnn, name, True)
""",
        "determinism requested (line 7)",
    ),
    "benchmark through setattr": (
        "setattr(torch.backends.cudnn, 'benchmark', False)\n",
        "the flag is set to False (line 6)",
    ),
    "deterministic algorithms": ("torch.use_deterministic_algorithms(True)\n", "determinism requested (line 6)"),
    "deterministic algorithms by keyword": (
        "torch.use_deterministic_algorithms(mode=True)\n",
        "determinism requested (line 6)",
    ),
    "cuBLAS's workspace": (
        """\
import os
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
""",
        "determinism requested (line 7)",
    ),
    "benchmark = False": (
        "torch.backends.cudnn.benchmark = False\n",
        "the flag is set to False (line 6)",
    ),
    "benchmark = False in a helper": (
        """\
def set_seed():
    torch.backends.cudnn.benchmark = False
set_seed()
""",
        "the flag is set to False (line 7)",
    ),
    "benchmark by the user's choice": (
        """\
import argparse
args = argparse.ArgumentParser().parse_args()
torch.backends.cudnn.benchmark = args.bench
""",
        "the flag is set by a choice of the script's own (line 8)",
    ),
    "cuDNN switched off": ("torch.backends.cudnn.enabled = False\n", "cuDNN is switched off (line 6)"),
    "a helper of another file": (
        """\
from utils import set_seed
set_seed(0)
""",
        "utils.set_seed(), which was not read, may ask for determinism (line 7)",
    ),
    "a helper of another file, imported with *": (
        """\
from utils import *
seed_everything(0)
""",
        "seed_everything(), which was not read, may ask for determinism (line 7)",
    ),
}


@pytest.mark.parametrize(("start", "because"), DECIDED.values(), ids=DECIDED)
def test_left_because_the_script_decides_by(start: str, because: str) -> None:
    check_leaves(CudnnBenchmark, IMPORTS + start + DATA + MODEL + TRAIN, because)


def image_folder(steps: str) -> str:
    return f'data = datasets.ImageFolder("data", transform=transforms.Compose([{steps}, transforms.ToTensor()]))\n'


VARIES = {
    "images at their own size": (
        'data = datasets.ImageFolder("data", transform=transforms.ToTensor())\n' + MODEL + TRAIN,
        "the images of torchvision.datasets.ImageFolder() are not cropped to one size",
    ),
    "Resize of the shorter side": (
        image_folder("transforms.Resize(256)") + MODEL + TRAIN,
        "the images of torchvision.datasets.ImageFolder() are not cropped to one size",
    ),
    "Resize to the user's choice": (
        """\
import argparse
args = argparse.ArgumentParser().parse_args()
"""
        + image_folder("transforms.Resize(args.size)")
        + MODEL
        + TRAIN,
        "the images of torchvision.datasets.ImageFolder() are not cropped to one size",
    ),
    "a transform that is not known": (
        image_folder("transforms.CenterCrop(9), transforms.Lambda(lambda image: image.crop(box))") + MODEL + TRAIN,
        "what torchvision.transforms.Lambda() does to the size of an image is not known",
    ),
    "a data set of the script's own": (
        """\
class Own(Dataset):
    def __getitem__(self, i):
        return torch.zeros(1, i, i), i
data = Own()
"""
        + MODEL
        + TRAIN,
        "the size of the images of an object of class Own is not known",
    ),
    "one of the loaders, at the images' own size": (
        DATA
        + 'other = DataLoader(datasets.ImageFolder("data", transform=transforms.ToTensor()))\n'
        + MODEL
        + TRAIN
        + """\
for x, y in other:
    model(x.cuda())
""",
        "the images of torchvision.datasets.ImageFolder() are not cropped to one size",
    ),
    "a loader whose batches are not moved here": (
        'data = datasets.ImageFolder("data", transform=transforms.ToTensor())\n' + MODEL + TRAIN.replace(".cuda()", ""),
        "the images of torchvision.datasets.ImageFolder() are not cropped to one size",
    ),
    "a collate_fn that may pad": (
        "from mine import pad\n" + DATA + MODEL + TRAIN.replace("batch_size=64", "collate_fn=pad"),
        "the loader in line 9 has a collate_fn of its own",
    ),
    "resizing in the loop": (
        DATA
        + MODEL
        + """\
for x, y in DataLoader(data):
    model(F.interpolate(x.cuda(), scale_factor=1 + torch.rand(1).item())).sum().backward()
""",
        "images are resized (line 9)",
    ),
    "resizing with torchvision's functions": (
        "import torchvision.transforms.functional as TF\n"
        + DATA
        + MODEL
        + """\
for x, y in DataLoader(data):
    model(TF.resize(x.cuda(), 24 + len(x) % 3)).sum().backward()
""",
        "images are resized (line 10)",
    ),
    "crops by a size of the moment": (
        DATA
        + MODEL
        + """\
for size, (x, y) in enumerate(DataLoader(data), start=8):
    model(x.cuda()[:, :, :size, :size]).sum().backward()
""",
        "images are cropped (line 9)",
    ),
    "a transform that is replaced in time": (
        DATA
        + MODEL
        + """\
for size in 16, 24:
    data.transform = transforms.Compose([transforms.Resize((size, size)), transforms.ToTensor()])
    for x, y in DataLoader(data):
        model(x.cuda()).sum().backward()
""",
        "the transform of a data set is replaced (line 9)",
    ),
    "a detection model": (
        "import torchvision\n"
        + DATA
        + "model = torchvision.models.detection.fasterrcnn_resnet50_fpn().cuda()\n"
        + TRAIN,
        "the model is made for images that differ in size",
    ),
    "an environment": (
        """\
import gym
env = gym.make('Pong')
"""
        + MODEL
        + """\
for step in range(9):
    model(torch.FloatTensor(env.step(0)).cuda()).sum().backward()
""",
        "no DataLoader is seen",
    ),
    "batches of another file": (
        "from mine import get_loader\n"
        + MODEL
        + """\
for x, y in get_loader():
    model(x.cuda()).sum().backward()
""",
        "what iterating over mine.get_loader() yields is not known",
    ),
    "unknown arguments of the loader": (
        DATA
        + MODEL
        + """\
def train(options):
    for x, y in DataLoader(data, **options):
        model(x.cuda()).sum().backward()
""",
        "its arguments are given with **options: 'options' is a parameter of train(), which nothing in this file calls",
    ),
}


@pytest.mark.parametrize(("rest", "because"), VARIES.values(), ids=VARIES)
def test_left_because_the_size_is_not_fixed_with(rest: str, because: str) -> None:
    check_leaves(CudnnBenchmark, IMPORTS + rest, UNKNOWN_SIZE + because)


OWN = """\
class Own(Dataset):
    def __init__(self, size=64):
        self.size = size
        self.prepare()

    def prepare(self):
        self.images = read(self.size)

    def __getitem__(self, i):
        return self.images[i], i
"""
SHUFFLED = TRAIN.replace("batch_size=64", "batch_size=64, shuffle=True")
COLLATE = """\
def collate(items):
    images, boxes = [], []
    for item in items:
        images.append(item[0])
        boxes.append(torch.FloatTensor(item[1]))
    return torch.stack(images, 0), boxes
"""
ONE_SIZE = {
    "a data set of the script's own": OWN + "data = Own()\n" + MODEL + SHUFFLED,
    "a data set of torchvision's": 'data = datasets.ImageFolder("data", transform=transforms.ToTensor())\n'
    + MODEL
    + SHUFFLED,
    "another of its class, in order": OWN
    + "data, held_out = Own(), Own()\n"
    + MODEL
    + SHUFFLED
    + "for x, y in DataLoader(held_out, batch_size=2):\n    print(model(x.cuda()).mean())\n",
    "a function that stacks them as they are": OWN
    + COLLATE
    + "data = Own()\n"
    + MODEL
    + SHUFFLED.replace("shuffle=True", "shuffle=True, collate_fn=collate"),
    "a number of them that an option has by default": OWN
    + "import argparse\nparser = argparse.ArgumentParser()\n"
    + 'parser.add_argument("--batch", type=int, default=32)\nargs = parser.parse_args()\ndata = Own()\n'
    + MODEL
    + SHUFFLED.replace("64", "args.batch"),
    "a number of them that is read as an integer": OWN
    + 'config = {"batch": 32}\ndata = Own()\n'
    + MODEL
    + SHUFFLED.replace("64", 'int(config["batch"])'),
}


@pytest.mark.parametrize("rest", ONE_SIZE.values(), ids=ONE_SIZE)
def test_images_that_meet_in_any_batch_have_one_size_in(rest: str) -> None:
    result = run(CudnnBenchmark, IMPORTS + rest).after

    assert result == IMPORTS + "\n" + FLAG + rest
    compile(result, "train.py", "exec")


NOT_ONE_SIZE = {
    "batches of one": OWN + "data = Own()\n" + MODEL + SHUFFLED.replace("64", "1"),
    "an option of one by default": OWN
    + "import argparse\nparser = argparse.ArgumentParser()\n"
    + 'parser.add_argument("--batch", type=int, default=1)\nargs = parser.parse_args()\ndata = Own()\n'
    + MODEL
    + SHUFFLED.replace("64", "args.batch"),
    "a sampler that may put like to like": OWN
    + "data = Own()\n"
    + MODEL
    + SHUFFLED.replace("shuffle=True", "shuffle=True, batch_sampler=Buckets()"),
    "items in their order": OWN + "data = Own()\n" + MODEL + TRAIN,
    "a size that the training sets": OWN + "data = Own()\n" + MODEL + "for data.size in 32, 64:\n" + indented(SHUFFLED),
    "a size that a method sets": OWN
    + "    def grow(self):\n        self.size += 1\n\ndata = Own()\n"
    + MODEL
    + SHUFFLED,
    "a function that pads": OWN
    + COLLATE.replace("item[0]", "F.pad(item[0], (0, 9))")
    + "data = Own()\n"
    + MODEL
    + SHUFFLED.replace("shuffle=True", "shuffle=True, collate_fn=collate"),
    "a function that keeps the images apart": OWN
    + COLLATE.replace("torch.stack(images, 0), boxes", "images, torch.stack(boxes)")
    + "data = Own()\n"
    + MODEL
    + SHUFFLED.replace("shuffle=True", "shuffle=True, collate_fn=collate"),
}


@pytest.mark.parametrize("rest", NOT_ONE_SIZE.values(), ids=NOT_ONE_SIZE)
def test_the_size_is_not_known_with(rest: str) -> None:
    because = UNKNOWN_SIZE + "the size of the images of an object of class Own is not known"
    check_leaves(CudnnBenchmark, IMPORTS + rest, because)


LOSS = """\
def loss(output, n):
    return output[:, :, :n].mean()


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Conv2d(1, 8, 3)

    def forward(self, x):
        return loss(self.net(x), 2)


model = Whole().cuda()
for x, y in DataLoader(data, batch_size=64):
    model(x.cuda()).backward()
"""


def test_what_only_a_model_calls_follows_the_size_of_its_input() -> None:
    check_rewrites(CudnnBenchmark, IMPORTS + DATA + LOSS, IMPORTS + "\n" + FLAG + DATA + LOSS)


def test_what_the_training_calls_too_may_cut_images() -> None:
    because = UNKNOWN_SIZE + "images are cropped (line 8)"
    check_leaves(CudnnBenchmark, IMPORTS + DATA + LOSS + "    loss(x, int(y[0]))\n", because)


def test_what_is_written_into_is_no_crop() -> None:
    rest = DATA + MODEL + TRAIN + "heat = torch.zeros(4, 8, 8)\nfor i in range(4):\n    heat[0, i, i : i + 2] = 1\n"
    check_rewrites(CudnnBenchmark, IMPORTS + rest, IMPORTS + "\n" + FLAG + rest)


WITHOUT_TORCH = IMPORTS.replace("import torch\n", "").replace(
    "import torch.nn.functional as F", "from torch.nn import functional as F"
)


def test_torch_is_imported_where_no_name_leads_to_cudnn() -> None:
    rest = DATA + MODEL + TRAIN
    imported = WITHOUT_TORCH.replace("TensorDataset\n", "TensorDataset\nimport torch\n")
    check_rewrites(CudnnBenchmark, WITHOUT_TORCH + rest, imported + "\n" + FLAG + rest)


def test_left_where_torch_is_the_name_of_something_else() -> None:
    code = WITHOUT_TORCH + "import numpy as torch\n" + DATA + MODEL + TRAIN
    check_leaves(CudnnBenchmark, code, "torch.backends.cudnn cannot be named before the model is made")


def test_a_script_that_stays_on_the_cpu_is_left() -> None:
    code = (IMPORTS + DATA + MODEL + TRAIN).replace(".cuda()", "")
    check_leaves(CudnnBenchmark, code, "no CUDA: nothing in this file moves a model or its batches to a CUDA device")


ACCELERATE = (
    IMPORTS
    + """\
import timm
from accelerate import Accelerator
"""
)
ACCELERATED = (
    DATA
    + """\
accelerator = Accelerator()
model = timm.create_model("resnet50d", in_chans=1)
model, loader = accelerator.prepare(model, DataLoader(data, batch_size=64))
for x, y in loader:
    accelerator.backward(F.cross_entropy(model(x), y))
"""
)


def test_accelerate_trains_on_cuda_where_it_is_found() -> None:
    check_rewrites(CudnnBenchmark, ACCELERATE + ACCELERATED, ACCELERATE + "\n" + FLAG + ACCELERATED)


def test_a_transformer_of_timm_has_no_convolutions_to_choose_for() -> None:
    check_silent(CudnnBenchmark, (ACCELERATE + ACCELERATED).replace("resnet50d", "vit_base_patch16_224"))


SILENT = {
    "a script that has set it": FLAG + DATA + MODEL + TRAIN,
    "a script that has set it through the module": """\
import torch.backends.cudnn as cudnn
cudnn.benchmark = True
"""
    + DATA
    + MODEL
    + TRAIN,
    "a script that has set it in a block": DATA
    + MODEL
    + "with torch.backends.cudnn.flags(enabled=True, benchmark=True):\n"
    + indented(TRAIN),
    "a script that only evaluates": DATA
    + MODEL
    + """\
for x, y in DataLoader(data):
    model(x.cuda())
""",
    "a model without convolutions": DATA + "model = nn.Linear(784, 10).cuda()\n" + TRAIN,
    "a transformer of torchvision's": "from torchvision import models\n"
    + DATA
    + "model = models.vit_b_16().cuda()\n"
    + TRAIN,
}


@pytest.mark.parametrize("rest", SILENT.values(), ids=SILENT)
def test_nothing_is_said_of(rest: str) -> None:
    check_silent(CudnnBenchmark, IMPORTS + rest)


@pytest.mark.parametrize(
    "start",
    [
        "mp.Process(target=train, args=(model,)).start()",
        "mp.start_processes(train, (model,), nprocs=1)",
        "mp.spawn(train, (model,), nprocs=1)",
    ],
)
def test_before_what_other_processes_run_too(start: str) -> None:
    code = """\
import torch
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets
{flag}

def train(model):
    for images, labels in DataLoader(datasets.MNIST("data"), batch_size=64):
        nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(5408, 10)).cuda()
    {start}
"""
    after = code.format(flag="\ntorch.backends.cudnn.benchmark = True\n", start=start)
    check_rewrites(CudnnBenchmark, code.format(flag="", start=start), after)


OWN = """\
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Photos(Dataset):
    def __init__(self, paths, transform=None):
        self.paths, self.transform = paths, transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index])
        if self.transform is not None:
            image = self.transform(image)
        return image


def collate(images):
    return torch.stack(images, 0)


steps = transforms.Compose(STEPS)
loader = DataLoader(Photos(open("photos").read().split(), steps), batch_size=8ARGUMENTS)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images in loader:
    optimizer.zero_grad()
    model(images.cuda()).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("steps", "arguments"),
    [
        pytest.param("[transforms.RandomCrop(224), transforms.ToTensor()]", "", id="a crop"),
        pytest.param(
            "[lambda x: x.convert('RGB'), transforms.Resize((64, 64)), transforms.ToTensor()]", "", id="sides"
        ),
        pytest.param("[transforms.CenterCrop(64), transforms.ToTensor()]", ", collate_fn=collate", id="stacked"),
    ],
)
def test_images_of_an_own_class_that_its_transforms_make_alike(steps: str, arguments: str) -> None:
    code = OWN.replace("STEPS", steps).replace("ARGUMENTS", arguments)

    assert "torch.backends.cudnn.benchmark = True" in run(CudnnBenchmark, code).after


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        pytest.param("[transforms.ToTensor()]", "the images of an object of class Photos are not cropped", id="none"),
        pytest.param(
            "[transforms.Resize(64)]", "the images of an object of class Photos are not cropped", id="one side"
        ),
        pytest.param("[transforms.CenterCrop(64), lambda x: x[:9]]", "what a lambda does to the size", id="cut later"),
    ],
)
def test_images_of_an_own_class_that_may_differ(steps: str, reason: str) -> None:
    code = OWN.replace("STEPS", steps).replace("ARGUMENTS", "")

    assert f"input size not provably fixed: {reason}" in run(CudnnBenchmark, code).sites[0].message


@pytest.mark.parametrize(
    "body",
    ["x.mul(255)", "-(x - 0.5) / 0.5", "x.repeat(3, 1, 1)", "torch.cat([x, x, x], 0)", 'x.convert("L").copy()'],
)
def test_a_lambda_that_keeps_images_alike(body: str) -> None:
    data = image_folder(f"transforms.CenterCrop(9), transforms.Lambda(lambda x: {body})")
    assert FLAG in run(CudnnBenchmark, IMPORTS + data + MODEL + TRAIN).after


@pytest.mark.parametrize("body", ["x[: len(x) // 2]", "x[x > 0]", "x.crop(x.getbbox())", "x.reshape(size)"])
def test_a_lambda_that_may_not(body: str) -> None:
    data = image_folder(f"transforms.CenterCrop(9), transforms.Lambda(lambda x: {body})")
    unknown = "what torchvision.transforms.Lambda() does to the size of an image is not known"
    check_leaves(CudnnBenchmark, IMPORTS + data + MODEL + TRAIN, UNKNOWN_SIZE + unknown)


def test_torch_may_be_imported_after_the_first_model() -> None:
    first = """\
from torchvision import datasets, models, transforms
from torch.utils.data import DataLoader

print(models.resnet18())

"""
    second = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
    check_rewrites(
        CudnnBenchmark,
        first + second + DATA + MODEL + TRAIN,
        first + second + "\n" + FLAG + DATA + MODEL + TRAIN,
    )


OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--lucky", type=int, default=-1)
parser.add_argument("--strict", action="store_true")
parser.add_argument("--loose", action="store_false")
args = parser.parse_args()
"""
STRICT = "torch.backends.cudnn.deterministic = True\n"
NOT_GIVEN = "determinism requested under an option that is off by default (line {}): "
NOT_GIVEN += "set torch.backends.cudnn.benchmark = True where it is not given"
OPTIONAL = {
    "a seed": "if args.seed is not None:\n",
    "a seed that is -1 by default": "if args.lucky != -1:\n",
    "a seed that is below 0 by default": "if args.lucky >= 0:\n",
    "a switch": "if args.strict:\n",
    "a switch that is on by default": "if not args.loose:\n",
    "two of them": "if args.strict and args.seed:\n",
}


@pytest.mark.parametrize("test", OPTIONAL.values(), ids=OPTIONAL)
def test_the_flag_stands_where_an_option_is_not_given_that_asks_for_determinism(test: str) -> None:
    above = IMPORTS + OPTIONS + test + indented("torch.manual_seed(0)\n" + STRICT)
    below = DATA + MODEL + TRAIN

    check_rewrites(CudnnBenchmark, above + below, above + "else:\n" + indented(FLAG) + below)


def test_the_flag_stands_in_the_other_branch() -> None:
    above = IMPORTS + OPTIONS + "if args.strict:\n" + indented(STRICT) + "else:\n    print('fast')\n"
    below = DATA + MODEL + TRAIN

    check_rewrites(CudnnBenchmark, above + below, above + indented(FLAG) + below)


def test_the_flag_stands_where_a_helper_is_not_called_that_asks_for_determinism() -> None:
    helper = "def settle(seed):\n    torch.manual_seed(seed)\n" + indented(STRICT)
    above = IMPORTS + OPTIONS + helper + "if args.seed is not None:\n    settle(args.seed)\n"
    below = DATA + MODEL + TRAIN

    check_rewrites(CudnnBenchmark, above + below, above + "else:\n" + indented(FLAG) + below)


def test_what_is_set_to_false_under_the_option_is_free_without_it() -> None:
    off = STRICT + "torch.backends.cudnn.benchmark = False\n"
    above = IMPORTS + OPTIONS + "if args.strict:\n" + indented(off)
    below = DATA + MODEL + TRAIN

    check_rewrites(CudnnBenchmark, above + below, above + "else:\n" + indented(FLAG) + below)


SETTLE = """\
def settle(seed, strict=False):
    torch.manual_seed(seed)
    if strict:
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False


settle({})
"""


def test_what_a_parameter_asks_for_that_nobody_gives_is_not_asked_for() -> None:
    above, below = IMPORTS + SETTLE.format("3"), DATA + MODEL + TRAIN
    check_rewrites(CudnnBenchmark, above + below, above + FLAG + below)


@pytest.mark.parametrize("given", ["3, True", "3, strict=len(data) > 3"])
def test_left_where_a_parameter_asks_for_determinism(given: str) -> None:
    line = IMPORTS.count("\n") + 4
    code = IMPORTS + SETTLE.format(given) + DATA + MODEL + TRAIN
    check_leaves(CudnnBenchmark, code, f"determinism requested (line {line})")


LINE = (IMPORTS + OPTIONS).count("\n") + 2
NOT_FREE = {
    "a chain of branches": (
        "if args.strict:\n" + indented(STRICT) + "elif args.seed:\n    print()\n",
        NOT_GIVEN.format(LINE),
    ),
    "an option that may be no number": (
        "if args.seed > 0:\n" + indented(STRICT),
        f"determinism requested (line {LINE})",
    ),
    "an option that is on by default": ("if args.loose:\n" + indented(STRICT), f"determinism requested (line {LINE})"),
    "an option of which nothing is known": (
        "if args.other:\n" + indented(STRICT),
        f"determinism requested (line {LINE})",
    ),
    "it is requested elsewhere, too": (
        "if args.strict:\n" + indented(STRICT) + STRICT,
        NOT_GIVEN.format(LINE),
    ),
    "the flag is set under an option": (
        "if args.strict:\n" + indented(FLAG),
        f"the flag is set only under a condition of the script's own (line {LINE})",
    ),
    "both at once": (
        "if args.other:\n    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True\n",
        f"determinism requested (line {LINE})",
    ),
    "cuDNN is off": (
        "torch.backends.cudnn.enabled = False\nif args.strict:\n" + indented(STRICT),
        f"cuDNN is switched off (line {LINE - 1})",
    ),
}


@pytest.mark.parametrize(("start", "because"), NOT_FREE.values(), ids=NOT_FREE)
def test_left_though_an_option_decides(start: str, because: str) -> None:
    check_leaves(CudnnBenchmark, IMPORTS + OPTIONS + start + DATA + MODEL + TRAIN, because)


WRITTEN = {
    "where CUDA is found": "if torch.cuda.is_available():\n" + indented(FLAG),
    "where an option is not given": "if not args.strict:\n" + indented(FLAG),
    "where an option is not given, in the other branch": "if args.strict:\n    print()\nelse:\n" + indented(FLAG),
    "with another switch": "torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = True, False\n",
}


@pytest.mark.parametrize("start", WRITTEN.values(), ids=WRITTEN)
def test_the_flag_is_written_already(start: str) -> None:
    check_silent(CudnnBenchmark, IMPORTS + OPTIONS + start + DATA + MODEL + TRAIN)
