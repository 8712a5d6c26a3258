"""Real pairs of scripts with a known truth, through the whole verifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.verify import Judgement, Plan, Progress, verify

if TYPE_CHECKING:
    from pathlib import Path

ORIGINAL = """
import torch

torch.set_num_threads(1)
torch.manual_seed(1)
inputs = torch.randn(256, 8)
labels = inputs[:, :4].argmax(1)
model = torch.nn.Linear(8, 4)
rate = 0.1
for epoch in range(2):
    for batch, label in zip(inputs.split(8), labels.split(8)):
        loss = torch.nn.functional.cross_entropy(model(batch), label)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= rate * parameter.grad
                parameter.grad = None
"""
"""Two epochs of 32 iterations, in one thread: threads that wait for a busy core would be what is timed."""


OPTIMIZED = """
import torch

torch.set_num_threads(1)
torch.manual_seed(1)
first, second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (first, second)]
closing = torch.optim.LBFGS([*second.parameters()], max_iter=4)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
compiled = torch.compile(first, backend="eager")


def closure():
    closing.zero_grad()
    loss = second(first(inputs).detach()).square().mean()
    loss.backward()
    return loss


for iteration in range(12):
    inputs = torch.randn(4, 8)
    loss = second(compiled(inputs)).square().mean()
    scaler.scale(loss / 2).backward()
    if iteration % 2:
        for optimizer in optimizers:
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()
torch.autograd.backward([second(first(inputs)).sum()])
closing.step(closure)
"""
"""All that makes iterations hard to see: a compiled model, scaling, accumulation, two optimizers, a closure."""


@pytest.fixture
def compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: None) -> Compared:  # noqa: ARG001 - a way to run
    monkeypatch.chdir(tmp_path)  # what a script is started in is copied for each run
    return Compared(tmp_path)


class Compared:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.progress: list[Progress] = []

    def __call__(self, original: str, rewritten: str, **options: object) -> Judgement:
        paths = self.directory / "naive.py", self.directory / "fast.py"
        for path, text in zip(paths, (original, rewritten), strict=True):
            path.write_text(text)
        chosen = {"promise": "bitwise", "pairs": 1, "device": "cpu", "timeout": 120.0, **options}
        return verify(Plan(*paths, **chosen), self.progress.append)  # type: ignore[arg-type]


def test_an_unchanged_script_is_equal(compared: Compared) -> None:
    judgement = compared(ORIGINAL, ORIGINAL, pairs=2)
    assert (judgement.run, judgement.equality, judgement.losses, judgement.pairs) == ("ok", "equal", 64, 2)
    assert [(one.number, one.total) for one in compared.progress] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert sorted(one.side for one in compared.progress) == ["original"] * 2 + ["rewritten"] * 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("rate = 0.1", "rate = 0.2", id="learning rate doubled"),
        pytest.param("labels.split(8)", "labels.roll(1).split(8)", id="labels rolled by one"),
        pytest.param("loss = ", "loss = float('nan') * ", id="losses are not numbers"),
    ],
)
def test_another_training_is_different(compared: Compared, before: str, after: str) -> None:
    judgement = compared(ORIGINAL, ORIGINAL.replace(before, after))
    assert (judgement.run, judgement.equality, judgement.exit_code, judgement.fit) == ("ok", "different", 1, False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(".scale(loss / 2).backward()", ".scale(loss); (loss / 2).backward()", id="no loss scaling"),
        pytest.param("loss / 2", "loss", id="accumulation without division"),
        pytest.param("in optimizers:", "in optimizers[:1]:", id="one optimizer of two forgotten"),
        pytest.param("max_iter=4", "max_iter=3", id="a closure that is called less often"),
        pytest.param("second(first(inputs)).sum()", "first(inputs).sum()", id="another loss in autograd.backward"),
    ],
)
def test_what_is_hard_to_see_is_seen(compared: Compared, before: str, after: str) -> None:
    assert before in OPTIMIZED
    judgement = compared(OPTIMIZED, OPTIMIZED.replace(before, after))
    assert (judgement.run, judgement.equality, judgement.fit) == ("ok", "different", False), judgement.reason


def test_a_compiled_model_two_optimizers_and_a_closure_are_equal_to_themselves(compared: Compared) -> None:
    judgement = compared(OPTIMIZED, OPTIMIZED)
    assert (judgement.equality, judgement.reason.startswith("Every loss and every final parameter")) == ("equal", True)
    assert judgement.losses > 12 + 1


@pytest.mark.parametrize(
    ("crash", "after"),
    [
        pytest.param("\nraise ValueError('at the end')", "after 64 iterations", id="at the end"),
        pytest.param("\n    raise ValueError('at the end')", "after 32 iterations", id="in mid-epoch"),
    ],
)
def test_a_crash_of_the_rewritten_script_after_training_is_told(compared: Compared, crash: str, after: str) -> None:
    judgement = compared(ORIGINAL, ORIGINAL.rstrip() + crash)
    assert (judgement.run, judgement.side, judgement.exit_code) == ("crashed", "rewritten", 2)
    assert after in judgement.reason
    assert judgement.output[-1] == "ValueError: at the end"


def test_a_script_that_ignores_the_seed_is_not_repeatable(compared: Compared) -> None:
    script = ORIGINAL.replace("torch.manual_seed(1)", "torch.seed()")
    judgement = compared(script, script)
    assert (judgement.equality, judgement.exit_code) == ("inconclusive", 1)
    assert judgement.reason.startswith("The original is not repeatable")
    assert compared.progress[-1].side == "original"


def test_no_backward_is_not_checked(compared: Compared) -> None:
    judgement = compared("import torch", "import torch")
    assert (judgement.run, judgement.equality, judgement.exit_code) == ("ok", "not-checked", 1)
    assert judgement.iteration is None


def test_a_crash_of_the_rewritten_script_alone_is_its_own(compared: Compared) -> None:
    judgement = compared("import torch", "import torch\nraise ValueError('mine')", seed=0)
    assert [one.side for one in compared.progress] == ["rewritten", "original"]
    assert (judgement.run, judgement.side, judgement.exit_code) == ("crashed", "rewritten", 2)
    assert judgement.output[-1] == "ValueError: mine"


def test_where_both_crash_it_is_the_original(compared: Compared) -> None:
    crash = "raise ValueError('ours')"
    judgement = compared(crash, crash, seed=0)
    assert compared.progress[0].side == "rewritten"
    assert (judgement.run, judgement.side) == ("crashed", "original")
    assert judgement.reason == (
        "The original script ended with an exception. The rewritten script ended with an exception, too."
    )


def test_a_rewrite_that_waits_takes_longer_for_each_iteration(compared: Compared) -> None:
    waiting = ORIGINAL.replace("loss.backward()", "loss.backward(); import time; time.sleep(0.1)")
    judgement = compared(ORIGINAL, waiting, iterations=20)
    assert (judgement.equality, judgement.losses, judgement.basis) == ("equal", 20, "cut")
    assert judgement.iteration is not None
    assert judgement.iteration.estimate < 0.7


@pytest.mark.slow
def test_three_milliseconds_more_for_each_iteration_are_slower(compared: Compared) -> None:
    original = ORIGINAL.replace("range(2)", "range(60)")
    waiting = original.replace("loss.backward()", "loss.backward(); import time; time.sleep(0.003)")
    judgement = compared(original, waiting, pairs=4)
    assert (judgement.speed, judgement.equality, judgement.exit_code) == ("slower", "equal", 1)
