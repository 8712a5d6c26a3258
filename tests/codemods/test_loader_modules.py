"""What the loader rules say of a project of several modules: loaders in helpers, guards in the scripts that are run."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from codemods.dataflow.source import Module
from codemods.editing.apply import apply
from codemods.facts.script import Script, Whole
from codemods.facts.target import UNKNOWN
from codemods.rules.h2d_non_blocking import H2dNonBlocking
from codemods.rules.loader_persistent import LoaderPersistent
from codemods.rules.loader_pin import LoaderPin
from codemods.rules.loader_workers import LoaderWorkers

if TYPE_CHECKING:
    from codemods.codemod import Codemod

_DATA = """\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def get_loader(batch_size):
    return DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=batch_size)
"""
_GUARDED = """\
from data import get_loader


def main():
    loader = get_loader(64)
    for epoch in range(3):
        for images, labels in loader:
            images, labels = images.cuda(), labels.cuda()


if __name__ == "__main__":
    main()
"""
_OPEN = """\
from data import get_loader

loader = get_loader(64)
for epoch in range(3):
    for images, labels in loader:
        images = images.cuda()
"""
_WITH_WORKERS = _DATA.replace("batch_size=batch_size", "batch_size=batch_size, num_workers=2")


def _project(rule: type[Codemod], entries: tuple[str, ...] = ("train",), **texts: str) -> dict[str, list[str]]:
    """What the rule makes of each module or says of it, by the module's name."""
    modules = [Module(f"{name}.py", textwrap.dedent(text), name) for name, text in texts.items()]
    run = tuple(each for each in modules if each.name in entries)
    script = Script(modules[0], tuple(modules), run, UNKNOWN, Whole.of(modules))
    found: dict[str, list[str]] = {}
    for module in modules:
        for finding in rule().sites(script.seen_from(module)):
            assert finding.module is module
            if finding.rewrites:
                text = apply(module, finding.edits)
                compile(text, module.path, "exec")
                found.setdefault(module.name, []).extend(
                    line.strip() for line in text.splitlines() if line not in module.text.splitlines()
                )
            else:
                found.setdefault(module.name, []).append(finding.message)
    return found


def test_workers_in_a_helper_of_a_guarded_script() -> None:
    after = _DATA.splitlines()[-1].strip().replace("=batch_size)", "=batch_size, num_workers=4)")

    assert _project(LoaderWorkers, train=_GUARDED, data=_DATA) == {"data": [after]}
    assert _project(LoaderWorkers, data=_DATA, train=_GUARDED) == {"data": [after]}


def test_a_script_without_guard_keeps_its_helper_without_workers() -> None:
    needs = "workers need a __main__ guard around what reads it (train.py, line 4): put one there first"

    assert _project(LoaderWorkers, data=_DATA, train=_OPEN) == {"data": [needs]}


def test_one_of_two_scripts_has_no_guard() -> None:
    needs = "workers need a __main__ guard around what reads it (test.py, line 4): put one there first"

    found = _project(LoaderWorkers, ("train", "test"), train=_GUARDED, data=_DATA, test=_OPEN)

    assert found == {"data": [needs]}


def test_another_script_without_guard_is_nothing_to_a_loader_that_it_does_not_read() -> None:
    own = _GUARDED.replace("from data import get_loader", _DATA.rstrip())
    other = _OPEN.replace("from data import get_loader", _DATA.rstrip())
    found = _project(LoaderWorkers, ("train", "test"), train=own, test=other)

    assert "num_workers=4" in found["train"][0]
    assert "if __name__ == '__main__':" in " ".join(found["test"]).replace('"', "'")
    assert not any("__name__" in each for each in found["train"])


def test_importing_a_helper_reads_a_loader() -> None:
    eager = _DATA + "\n\nmean = sum(images.mean() for images, _ in get_loader(9))\n"
    needs = "workers need a __main__ guard around what reads it (line 9): importing data.py reads a loader"

    assert _project(LoaderWorkers, train=_GUARDED, data=eager) == {"data": [needs]}


def test_an_option_of_the_script_is_passed_where_the_helper_knows_it() -> None:
    options = """\
        import argparse


        def parse():
            parser = argparse.ArgumentParser()
            parser.add_argument("--n_cpu", type=int, default=8)
            return parser.parse_args()
        """
    train = _GUARDED.replace("get_loader(64)", "get_loader(parse())").replace("import get_loader", "import get_loader\nfrom options import parse")  # fmt: skip
    data = _DATA.replace("get_loader(batch_size)", "get_loader(opt)").replace("batch_size=batch_size", "batch_size=9")

    (after,) = _project(LoaderWorkers, train=train, data=data, options=options)["data"]

    assert after.endswith("batch_size=9, num_workers=opt.n_cpu)")


def test_an_option_of_one_of_two_scripts_is_not_passed() -> None:
    parsed = (
        "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--n_cpu', type=int, default=8)\n"
    )
    train = parsed + _GUARDED.replace("get_loader(64)", "get_loader(parser.parse_args())")
    test = parsed.replace("n_cpu", "size") + _GUARDED.replace("get_loader(64)", "get_loader(parser.parse_args())")
    data = _DATA.replace("get_loader(batch_size)", "get_loader(opt)").replace("batch_size=batch_size", "batch_size=9")

    (after,) = _project(LoaderWorkers, ("train", "test"), train=train, test=test, data=data)["data"]

    assert after.endswith("batch_size=9, num_workers=4)")


_SETTING = (
    "import config\nfrom PIL import Image\nfrom torch.utils.data import DataLoader, Dataset\n\n\n"
    """\
class Images(Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, index):
        return Image.open(f"{config.root}/{index}.png")


def get_loader(batch_size):
    return DataLoader(Images(), batch_size=batch_size)
"""
)
_SETS = _GUARDED.replace("from data", "import config\nfrom data").replace(
    "    loader =", '    config.root = "x"\n    loader ='
)


def test_a_setting_that_the_script_changes_in_another_module() -> None:
    reason = "the data set reads 'config.root', which the script changes (train.py, line 6), unseen by workers that are not forked"

    assert _project(LoaderWorkers, train=_SETS, data=_SETTING, config="root = 'data'\n") == {"data": [reason]}
    assert "num_workers=4" in _project(LoaderWorkers, train=_GUARDED, data=_SETTING, config="root = ''\n")["data"][0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("mean = torch.zeros(3).cuda()", "the data set reads 'mean' (line 13), a tensor on a device"),
        ("cache = []", None),
        (
            "file = h5py.File(0)",
            "the data set reads 'file' (line 13), which h5py.File() opens before the workers start",
        ),
    ],
    ids=["a tensor on a device", "nothing that matters", "an open file"],
)
def test_what_a_data_set_reads_of_its_own_module(line: str, reason: str | None) -> None:
    name = line.partition(" ")[0]
    data = _SETTING.replace("import config", f"import h5py\nimport torch\n{line}").replace(
        "{config.root}", f"{{{name}}}"
    )
    (found,) = _project(LoaderWorkers, train=_GUARDED, data=data)["data"]

    assert found == reason or (reason is None and "num_workers=4" in found)


def test_workers_of_a_helper_stay() -> None:
    found = _project(LoaderPersistent, train=_GUARDED, data=_WITH_WORKERS)

    assert "num_workers=2, persistent_workers=True" in " ".join(found["data"])


def test_the_number_of_workers_of_another_file() -> None:
    train = _GUARDED.replace("get_loader(64)", "get_loader({'batch_size': 64, 'num_workers': 2})")
    data = _DATA.replace("batch_size=batch_size", "**arguments").replace(
        "get_loader(batch_size)", "get_loader(arguments)"
    )

    assert _project(LoaderPersistent, train=train, data=data) == {
        "data": ["its number of workers is in a dictionary of another file (train.py, line 5)"]
    }


def test_a_helper_that_each_epoch_calls() -> None:
    train = _GUARDED.replace("    loader = get_loader(64)\n", "").replace("in loader", "in get_loader(64)")

    assert _project(LoaderPersistent, train=train, data=_WITH_WORKERS) == {
        "data": ["it is made anew in each pass of a loop (train.py, line 5)"]
    }


def test_batches_of_a_helper_are_pinned() -> None:
    (after,) = _project(LoaderPin, train=_GUARDED, data=_DATA)["data"]

    assert after.endswith("batch_size=batch_size, pin_memory=True)")
    assert _project(LoaderPin, train=_GUARDED.replace(".cuda()", ""), data=_DATA) == {
        "data": ["in the files of the project, its batches are not seen to be moved to a device"]
    }


def test_the_loader_of_another_file_does_not_pin() -> None:
    unpinned = _DATA.replace("batch_size=batch_size", "batch_size=batch_size, pin_memory=False")
    reason = "the loader in data.py, line 6 does not pin its batches: pin_memory is False there"

    assert _project(H2dNonBlocking, train=_GUARDED, data=unpinned) == {"train": [reason, reason]}


def test_what_a_helper_moves_is_written_in_the_script() -> None:
    moves = "def to_gpu(x):\n    return x.cuda()\n"
    train = _GUARDED.replace("import get_loader", "import get_loader\nfrom moves import to_gpu").replace(
        "images, labels = images.cuda(), labels.cuda()", "there = to_gpu(images)\n            images.mul_(2)"
    )
    reason = "the batch is written on the host again while it may be copied (train.py, line 10)"

    assert _project(H2dNonBlocking, train=train, data=_DATA, moves=moves) == {"moves": [reason]}


@pytest.mark.parametrize(
    "line",
    ["torch.set_default_device('cuda')", "device = 'mps'", "torch.set_default_tensor_type(torch.cuda.FloatTensor)"],
)
def test_what_another_script_says_of_devices_is_nothing_to_this_one(line: str) -> None:
    chosen = _GUARDED.replace("from data import get_loader", _DATA).replace(".cuda()", ".to(args.device)")
    parser = "parser = argparse.ArgumentParser()\nparser.add_argument('--device', choices=['cpu', 'cuda'])\n"
    own = f"import argparse\nimport shared\n{parser}args = parser.parse_args()\n{chosen}"
    other = f"import torch\nimport shared\n\n{line}\n"

    for rule in (LoaderPin, H2dNonBlocking):
        alone = _project(rule, train=own, shared="size = 3\n")
        assert any("pin_memory=" in each or "non_blocking=" in each for each in alone["train"])
        assert _project(rule, ("train", "test"), train=own, shared="size = 3\n", test=other) == alone


_IMAGES = """\
import numpy as np
from torch.utils.data import DataLoader, Dataset

SCALE = 1


def load(path):
    return np.load(path) * SCALE


class Images(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return load(self.paths[index])


def get_loader(paths):
    return DataLoader(Images(paths), batch_size=8)
"""
_TRAINING = """\
import sys
from unittest import mock

import data


def main():
    loader = data.get_loader(sys.argv[1:])
    for epoch in range(3):
        SET
        for images in loader:
            images = images.cuda()


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("code", "name"),
    [
        pytest.param("data.SCALE = epoch", "SCALE", id="an attribute of the module"),
        pytest.param("data.load = print", "load", id="a function of it"),
        pytest.param("setattr(data, 'SCALE', epoch)", "SCALE", id="by a function"),
        pytest.param("mock.patch('data.load').start()", "load", id="by a patch of its name"),
        pytest.param("mock.patch.object(data, 'load').start()", "load", id="by a patch of the module"),
    ],
)
def test_what_the_script_sets_in_the_data_set_s_module_workers_do_not_see(code: str, name: str) -> None:
    reason = f"the data set reads '{name}', which the script changes (train.py, line 10), unseen by workers that are"
    found = _project(LoaderWorkers, train=_TRAINING.replace("SET", code), data=_IMAGES)

    assert found == {"data": [f"{reason} not forked"]}


@pytest.mark.parametrize("code", ["data.OTHER = epoch", "print(data.SCALE)", "mock.patch('data.save').start()"])
def test_what_the_script_sets_elsewhere_is_no_matter_of_workers(code: str) -> None:
    (line,) = _project(LoaderWorkers, train=_TRAINING.replace("SET", code), data=_IMAGES)["data"]

    assert "num_workers=4" in line


_SHARED = """\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def train(config):
    loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64)
    for images, labels in loader:
        images = images.to(config["device"])
"""
_OF_A_PROGRAM = """\
from engine import train

train({"device": "cuda"})
"""
_UNIT_TEST = """\
from engine import train


class TestTraining:
    def test_train(self, config):
        assert_trains(config)


def assert_trains(config):
    train(config)
"""
_PINNED = [
    'loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), batch_size=64, pin_memory=True)'
]


@pytest.mark.parametrize(
    "tests",
    [
        {"test_engine": _UNIT_TEST},
        {"engine_test": _UNIT_TEST},
        {"test_engine": _UNIT_TEST + "\n\nif __name__ == '__main__':\n    pytest.main()\n"},
        {"tests/common": _UNIT_TEST.replace("test_train", "check"), "tests/test_common": "def test_it(config): pass\n"},
        {"tests/conftest": "from engine import train\n\ndef trained(config):\n    return train(config)\n"},
    ],
    ids=["in test_….py", "in …_test.py", "with a guard for the runner", "in a helper of tests", "in a fixture"],
)
def test_what_unit_tests_call_a_function_with_is_not_what_the_program_does(tests: dict[str, str]) -> None:
    assert _project(LoaderPin, ("train",), train=_OF_A_PROGRAM, engine=_SHARED, **tests)["engine"] == _PINNED


@pytest.mark.parametrize(
    "name_and_text",
    [
        ("check", _UNIT_TEST),
        ("test_engine", "from engine import train\n\ndef test(config):\n    train(config)\n\ntest(open('c').read())\n"),
        (
            "test_engine",
            "from engine import train\n\ndef test_it(config):\n    train(config)\n\n"
            "def main(config):\n    test_it(config)\n\nif __name__ == '__main__':\n    main(input())\n",
        ),
        ("test_engine", "from engine import train\n\ndef test(c):\n    pass\n\nfor c in open('c'):\n    train(c)\n"),
    ],
    ids=["no name of a test file", "a script that calls test()", "a script with a guard", "a script with a loop"],
)
def test_what_a_script_calls_a_function_with_counts_whatever_its_name(name_and_text: tuple[str, str]) -> None:
    name, text = name_and_text
    (message,) = _project(LoaderPin, ("train",), train=_OF_A_PROGRAM, engine=_SHARED, **{name: text})["engine"]

    assert message.startswith("the device its batches are moved to is not known")


def test_a_function_that_only_unit_tests_call_is_given_what_is_not_known() -> None:
    (message,) = _project(LoaderPin, engine=_SHARED, test_engine=_UNIT_TEST)["engine"]

    assert "'config' is a parameter of train(), which nothing in the project calls" in message
