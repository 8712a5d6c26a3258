"""Which places trials are compared in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.tune.hardware import alike, described, named, processor

if TYPE_CHECKING:
    from pathlib import Path

    from autotune_rewrite.verify.records import Environment

H100: Environment = {"gpu": "H100", "cpus": 16, "processor": "EPYC"}
A100: Environment = {"gpu": "A100", "cpus": 16, "processor": "EPYC"}
OTHER_CPU: Environment = {"gpu": "H100", "cpus": 16, "processor": "Xeon"}


@pytest.mark.parametrize(
    ("places", "weights", "chosen"),
    [
        pytest.param({"a": A100, "b": H100, "c": H100}, {"a": 1, "b": 1, "c": 1}, ["b", "c"], id="most nodes"),
        pytest.param({"a": A100, "b": H100, "c": H100}, {"a": 8, "b": 1, "c": 1}, ["a"], id="most trials at once"),
        pytest.param({"a": H100, "b": OTHER_CPU}, {"a": 1, "b": 1}, ["a"], id="another processor is another kind"),
        pytest.param({"a": H100, "b": A100}, {"a": 1, "b": 1}, ["b"], id="as many of both: by their names"),
        pytest.param({"b": A100, "a": H100}, {"a": 1, "b": 1}, ["b"], id="in whichever order they are found"),
    ],
)
def test_the_largest_set_of_places_with_equal_hardware_is_used(
    places: dict[str, Environment], weights: dict[str, int], chosen: list[str]
) -> None:
    found, kind = alike(places, weights)

    assert found == chosen
    assert kind == places[chosen[0]]


@pytest.mark.parametrize(
    ("text", "model"),
    [
        pytest.param(
            "processor\t: 0\nmodel name\t: AMD EPYC 9354\nprocessor\t: 1\nmodel name\t: other\n",
            "AMD EPYC 9354",
            id="x86",
        ),
        pytest.param("cpu\t: POWER9\ncpu model\t: MIPS 74Kc\n", "MIPS 74Kc", id="mips"),
    ],
)
def test_the_model_of_a_processor_is_told_by_the_system(tmp_path: Path, text: str, model: str) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(text)

    assert processor(info) == model


def test_a_system_that_does_not_tell_has_at_least_an_architecture(tmp_path: Path) -> None:
    assert processor(tmp_path / "none")


def test_hardware_is_what_a_run_sees_and_the_processor() -> None:
    assert described({"torch": "2.15.0"}) == {"torch": "2.15.0", "processor": processor()}


def test_hardware_has_a_name() -> None:
    assert named(H100) == "H100, 16 CPUs (EPYC)"
    assert named({"cpus": 1}) == "1 CPU (of unknown model)"
