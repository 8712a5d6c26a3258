"""What a script says of how cuDNN chooses its algorithms."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.cudnn import is_switched_on, why_decided
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
