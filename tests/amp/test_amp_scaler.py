"""Which calls the scaler goes around, and in which order."""

from __future__ import annotations

import ast

import pytest
from iteration import looped, scaling, texts

from codemods.amp.reasons import LeftError
from codemods.editing.values import Insert, Replace, Surround

LOSS, STEP = "model(x).mean().backward()", "optimizer.step()"
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((LOSS, STEP), ["optimizer"], id="one"),
        pytest.param((LOSS, STEP, "second.step()"), ["optimizer", "second"], id="two optimizers"),
        pytest.param((LOSS, STEP, STEP), ["optimizer", "optimizer"], id="one that steps twice"),
        pytest.param((LOSS, "update()"), [], id="what is not known"),
    ],
)
def test_the_steps_are_those_of_optimizers(lines: tuple[str, ...], expected: list[str]) -> None:
    known = scaling(looped(*lines))

    assert texts(each.optimizer for each in known.steps) == expected
    assert len(known.optimizers) == len(set(expected))


def test_the_scaler_is_used_where_a_loss_is_computed_differentiated_and_stepped_for() -> None:
    known = scaling(looped("loss = model(x).mean()", "loss.backward()", STEP))

    assert texts(known.uses) == ["loss = model(x).mean()", "loss.backward()", "optimizer.step()"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((LOSS, CLIP, STEP), [CLIP], id="between backward and step"),
        pytest.param((CLIP, LOSS, STEP), [], id="before the backward"),
        pytest.param((LOSS, STEP, CLIP), [], id="after the step"),
        pytest.param((LOSS, STEP), [], id="nothing reads them"),
    ],
)
def test_who_reads_scaled_gradients(lines: tuple[str, ...], expected: list[str]) -> None:
    assert texts(each.node for each in scaling(looped(*lines)).readers) == expected


def test_gradients_are_unscaled_before_the_statement_that_reads_them() -> None:
    known = scaling(looped(LOSS, "print(x)", CLIP, STEP))
    (reader,) = known.readers
    place = known.unscale_place(reader)

    assert place is not None
    assert (ast.unparse(place[0].call), ast.unparse(place[1])) == (STEP, CLIP)


def test_gradients_that_are_read_in_a_branch_are_unscaled_before_it() -> None:
    known = scaling(looped(LOSS, f"if clipped:\n        {CLIP}", STEP))
    place = known.unscale_place(known.readers[0])

    assert place is not None
    assert ast.unparse(place[1]).startswith("if clipped:")


def test_gradients_are_unscaled_nowhere_where_the_step_stands_in_a_branch() -> None:
    known = scaling(looped(LOSS, CLIP, f"if ready:\n        {STEP}"))

    assert known.unscale_place(known.readers[0]) is None


def test_of_two_optimizers_the_one_that_owns_the_gradients_unscales_them() -> None:
    known = scaling(looped(LOSS, CLIP.replace("model", "other"), STEP, "second.step()"))
    (reader,) = known.readers
    place = known.unscale_place(reader)

    assert [known.is_of(reader, each) for each in known.steps] == [False, True]
    assert place is not None
    assert ast.unparse(place[0].optimizer) == "second"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((LOSS, STEP), True, id="one after the other"),
        pytest.param((STEP, LOSS), False, id="the step comes first"),
        pytest.param((f"if a:\n        {LOSS}", STEP), False, id="the backward in a branch"),
        pytest.param((LOSS, f"if a:\n        {STEP}"), True, id="the step in a branch"),
        pytest.param((f"if a:\n        {LOSS}\n        {STEP}",), True, id="both in one branch"),
        pytest.param((f"if a:\n        {LOSS}\n    else:\n        {STEP}",), False, id="on two sides"),
    ],
)
def test_whether_the_backward_has_run_when_it_steps(lines: tuple[str, ...], *, expected: bool) -> None:
    known = scaling(looped(*lines))

    assert known.runs_before(known.phases[0].event, known.steps[0].event) is expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((LOSS, STEP), [STEP], id="after the step"),
        pytest.param((LOSS, f"if a:\n        {STEP}"), [STEP], id="in the branch of the step"),
        pytest.param((LOSS, STEP, "second.step()"), ["second.step()"], id="after the last of several"),
        pytest.param(
            (LOSS, STEP, "if a:\n        second.step()"),
            ["if a:\n    second.step()"],
            id="below the branch of the last",
        ),
        pytest.param(
            (LOSS, "for each in [optimizer, second]:\n        each.step()"),
            ["for each in [optimizer, second]:\n    each.step()"],
            id="below the loop over optimizers",
        ),
    ],
)
def test_where_the_scaler_is_updated(lines: tuple[str, ...], expected: list[str]) -> None:
    assert texts(anchor for anchor, _ in scaling(looped(*lines)).updates()) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((LOSS, "model[0].weight.data -= model[0].weight.grad"), True, id="an update by hand"),
        pytest.param((LOSS, CLIP, STEP), False, id="an optimizer steps with them"),
        pytest.param((LOSS,), False, id="nobody reads them"),
    ],
)
def test_whether_gradients_are_applied_by_hand(lines: tuple[str, ...], *, expected: bool) -> None:
    assert scaling(looped(*lines)).applies_gradients is expected


def test_the_edits_scale_unscale_step_and_update_in_this_order() -> None:
    known = scaling(looped("loss = model(x).mean()", "loss.backward()", CLIP, STEP))
    edits = list(known.edits(lambda _: "scaler"))

    assert [type(each) for each in edits] == [Surround, Insert, Replace, Insert]
    scaled, unscaled, stepped, updated = edits
    assert isinstance(scaled, Surround)
    assert (scaled.before, ast.unparse(scaled.node)) == ("scaler.scale(", "loss")
    assert isinstance(unscaled, Insert)
    assert (unscaled.code, ast.unparse(unscaled.anchor)) == ("scaler.unscale_(optimizer)", CLIP)
    assert isinstance(stepped, Replace)
    assert stepped.template == "scaler.step({optimizer})"
    assert isinstance(updated, Insert)
    assert (updated.code, ast.unparse(updated.anchor)) == ("scaler.update()", STEP)


def test_a_place_that_does_not_see_the_scaler_leaves_the_iteration() -> None:
    known = scaling(looped("loss = model(x).mean()", "loss.backward()", STEP))

    with pytest.raises(LeftError) as left:
        list(known.edits(lambda place: None if ast.unparse(place) == STEP else "scaler"))

    assert left.value.reason.code == "no-place-for-scaler"
