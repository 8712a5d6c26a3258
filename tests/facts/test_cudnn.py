"""What a script says of how cuDNN chooses its algorithms."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.cudnn import is_switched_on, optional, why_decided
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
