"""How the parts of ``amp`` say that an iteration is left."""

from __future__ import annotations

import pytest

from codemods.amp.reasons import BF16_CAN, NO_SCALER, LeftError, in_fp16
from codemods.dataflow.source import Module
from codemods.facts.reason import HERE, Reason, at


def test_a_reason_that_is_there_is_handed_on_as_it_is() -> None:
    module = Module("train.py", "x = 1\n")
    reason = Reason("no-name", f"it is taken ({HERE})", (at(module, module.tree.body[0]),), "rename it")

    assert LeftError.of(reason).reason == reason
    assert str(LeftError.of(reason)) == reason.text


@pytest.mark.parametrize("remedy", [NO_SCALER, BF16_CAN])
def test_what_bf16_could_do_is_no_remedy_where_bf16_is_refused_too(remedy: str) -> None:
    reason = Reason("step-closure", "the step has a closure", remedy="").followed(";", remedy=remedy)

    assert in_fp16(reason) == Reason("step-closure", "the step has a closure")


def test_another_remedy_stays() -> None:
    reason = Reason("loss-of-probabilities", "the loss refuses;", remedy="return the logits")

    assert in_fp16(reason) is reason
