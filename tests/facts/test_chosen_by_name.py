from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.chosen_by_name import chosen_by_default

HEAD = """
    import argparse
    from torchvision import models
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="resnet50", choices=sorted(
        each for each in models.__dict__ if callable(models.__dict__[each])))
    parser.add_argument("--other", choices=["vgg16"])
    args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("made", "names"),
    [
        pytest.param("models.__dict__[args.arch]()", {"resnet50"}, id="an option's default"),
        pytest.param("getattr(models, args.arch)()", {"resnet50"}, id="by getattr"),
        pytest.param("getattr(models, args.arch, None)()", {"resnet50"}, id="by getattr, or nothing"),
        pytest.param(
            "models.__dict__[args.arch](); models.__dict__['vgg11']()", {"resnet50", "vgg11"}, id="each that is named"
        ),
        pytest.param("models.__dict__[args.other]()", set(), id="nothing, as the option has no default"),
        pytest.param("models.__dict__[input()]()", set(), id="nothing, as the name is not known"),
        pytest.param("models.__dict__[args.arch](); getattr(models, input())()", set(), id="nothing where one is not"),
        pytest.param("models.resnet18()", set(), id="nothing where none is chosen"),
        pytest.param("getattr(args, args.arch)", set(), id="nothing of what something else has by that name"),
    ],
)
def test_the_networks_that_are_made_without_options(made: str, names: set[str]) -> None:
    known = script(f"{HEAD}    {made}\n")
    assert chosen_by_default(known, "torchvision.models.?") == {f"torchvision.models.{each}" for each in names}
