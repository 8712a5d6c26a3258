"""What a script says of how cuDNN chooses its algorithms."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from probe import script

from codemods.facts.devices.cudnn import convolves, is_switched_on, optional, why_decided
from codemods.facts.reason import HERE

HEAD = "import torch\nfrom torch.backends import cudnn\n"


def why(body: str, **others: str) -> tuple[str, str, list[str]] | None:
    """The reason's code and text, and the files that it names."""
    reason = why_decided(script(HEAD + body, **others))
    return None if reason is None else (reason.code, reason.text, [each.module.path for each in reason.places])


def test_nothing_is_said() -> None:
    known = script(HEAD + "cudnn.deterministic = False\n")

    assert why_decided(known) is None
    assert not is_switched_on(known)


@pytest.mark.parametrize(
    "statement",
    ["cudnn.benchmark = True", "setattr(cudnn, 'benchmark', True)", "cudnn.flags(benchmark=True)"],
    ids=["the flag", "setattr", "a block"],
)
def test_it_is_switched_on_by(statement: str) -> None:
    assert is_switched_on(script(HEAD + statement))


def test_another_thing_s_benchmark_is_none() -> None:
    assert not is_switched_on(script("import torch\ntorch.utils.benchmark = True\n"))


def test_another_module_asks_for_determinism() -> None:
    other = "from torch.backends import cudnn\ncudnn.deterministic = True\n"

    assert why("import seeds\n", seeds=other) == ("determinism", f"determinism requested ({HERE})", ["seeds.py"])


def test_a_function_that_was_not_read_seems_to_seed() -> None:
    assert why("import tools\ntools.seed_all(1)\n") == (
        "determinism",
        f"tools.seed_all(), which was not read, may ask for determinism ({HERE})",
        ["train.py"],
    )


def test_a_library_s_function_that_only_seeds_is_known() -> None:
    assert why("torch.manual_seed(1)\n") is None


def test_cudnn_is_switched_off() -> None:
    assert why("cudnn.enabled = False\n") == ("script-decides", f"cuDNN is switched off ({HERE})", ["train.py"])


OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--strict", action="store_true")
args = parser.parse_args()
"""


def asked(body: str, **others: str) -> str | None:
    """The test without which nothing keeps cuDNN from measuring."""
    found = optional(script(HEAD + OPTIONS + body, **others))
    return None if found is None else ast.unparse(found.test)


def test_an_option_that_is_off_by_default_asks_for_determinism() -> None:
    assert asked("if args.strict:\n    cudnn.deterministic = True\n") == "args.strict"


def test_a_module_is_called_only_under_the_option() -> None:
    seeds = "from torch.backends import cudnn\ndef settle():\n    cudnn.deterministic = True\n"

    assert (
        asked("import seeds\nif args.seed is not None:\n    seeds.settle()\n", seeds=seeds) == "args.seed is not None"
    )
    assert asked("import seeds\nseeds.settle()\n", seeds=seeds) is None


@pytest.mark.parametrize(
    "body",
    [
        "cudnn.deterministic = True\n",
        "if args.strict:\n    pass\nelse:\n    cudnn.deterministic = True\n",
        "if args.strict:\n    cudnn.deterministic = True\nif args.seed:\n    cudnn.benchmark = False\n",
        "if args.strict:\n    cudnn.deterministic = True\n    cudnn.benchmark = True\n",
        "if strict():\n    cudnn.deterministic = True\n",
    ],
    ids=["no option", "by default", "several options", "the flag is set, too", "not known"],
)
def test_there_is_no_single_option(body: str) -> None:
    assert asked(body) is None


def test_a_flag_that_only_an_option_sets_is_not_switched_on() -> None:
    assert not is_switched_on(script(HEAD + OPTIONS + "if args.strict:\n    cudnn.benchmark = True\n"))
    assert is_switched_on(script(HEAD + OPTIONS + "if not args.strict:\n    cudnn.benchmark = True\n"))
    assert is_switched_on(script(HEAD + "if torch.cuda.is_available():\n    cudnn.benchmark = True\n"))


WRAPPING_ITSELF = """\
from torch import nn

class Base(nn.Module):
    def fit(self, images):
        model = nn.DataParallel(self)
        for x in images:
            model(x).sum().backward()

class Dense(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)

class Convolved(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3)

    def forward(self, x):
        return self.layer(x)

class Deeper(Convolved):
    pass

"""


@pytest.mark.parametrize(
    ("rest", "is_found"),
    [
        pytest.param("Dense().fit(images)\n", False, id="no convolution is in what is made"),
        pytest.param("Convolved().fit(images)\n", True, id="one is in what is made"),
        pytest.param("Deeper().fit(images)\n", True, id="its base has one"),
        pytest.param("(Dense() if small else Convolved()).fit(images)\n", True, id="it may be either"),
        pytest.param("", True, id="nothing is made"),
        pytest.param("def fit(model):\n    model.fit(images)\nfit(Dense())\n", False, id="through a function"),
    ],
)
def test_convolutions_of_a_base_class_are_those_of_what_is_made_of_it(rest: str, *, is_found: bool) -> None:
    known = script(HEAD + WRAPPING_ITSELF + rest)
    wrapped = [each for each in known.models if each.value.name == "torch.nn.DataParallel"]

    assert [convolves(known, each) for each in wrapped] == [is_found]


def test_what_another_script_makes_of_a_base_class_has_no_say() -> None:
    other = "from net import Convolved\nConvolved().fit(images)\n"
    known = script("from net import Dense\nDense().fit(images)\n", net=HEAD + WRAPPING_ITSELF, other=other)
    alone = replace(known, modules=tuple(each for each in known.modules if each.path != "other.py"))
    (wrapped,) = (each for each in known.models if each.value.name == "torch.nn.DataParallel")

    assert (convolves(known, wrapped), convolves(alone, wrapped)) == (True, False)


def test_a_model_that_is_not_wrapped_has_its_own_convolutions() -> None:
    known = script(HEAD + WRAPPING_ITSELF + "dense, convolved = Dense(), Convolved()\n")
    plain = {each.value.name: convolves(known, each) for each in known.models if each.value.name[0] in "DC"}

    assert plain == {"Dense": False, "Convolved": True}
