"""What is refused before anything runs, and the order of the runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotune_rewrite.verify.plan import Plan, VerifyError


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    script = tmp_path / "train.py"
    script.write_text("x = 1\n")
    return Plan(script, script)


def test_a_plan_that_can_be_carried_out(plan: Plan) -> None:
    plan.check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"pairs": 0}, "the number of pairs is 0, but at least 1 is needed", id="no pairs"),
        pytest.param({"iterations": 0}, "the number of iterations is 0, but at least 1 is needed", id="no iterations"),
        pytest.param({"timeout": 0.0}, "the timeout is 0 seconds, but it has to be positive", id="no time"),
        pytest.param(
            {"seed": -1}, "the seed is -1, but it has to be between 0 and 2**32 - 1 - pairs", id="negative seed"
        ),
        pytest.param({"rewritten": Path("missing.py")}, "missing.py: No such file or directory", id="missing script"),
    ],
)
def test_refuses(plan: Plan, change: dict[str, object], message: str) -> None:
    with pytest.raises(VerifyError) as refused:
        replace(plan, **change).check()  # type: ignore[arg-type]
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("source", "line"),
    [
        pytest.param(b"x = 1\nprint 'python 2'\n", 2, id="Python 2"),
        pytest.param(b"x = 1\ny = (\n", 2, id="unclosed bracket"),
        pytest.param(b"# coding: no-such\n", 1, id="unknown encoding"),
        pytest.param(b"x = '\xff'\n", 1, id="not UTF-8"),
        pytest.param(b"x = 1\x00\n", 1, id="binary"),
    ],
)
def test_refuses_a_script_that_does_not_compile(plan: Plan, source: bytes, line: int) -> None:
    plan.original.write_bytes(source)
    with pytest.raises(VerifyError) as refused:
        plan.check()
    message = str(refused.value)
    assert message.startswith(f"{plan.original}:{line}: ")
    assert "\n" not in message


def test_refuses_a_directory(plan: Plan) -> None:
    with pytest.raises(VerifyError, match="not a file"):
        replace(plan, original=plan.original.parent).check()


def test_says_which_package_is_missing(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune_rewrite.verify.plan.NEEDED", ("no_such_package",))
    with pytest.raises(VerifyError, match="verifying needs no_such_package, which is not installed"):
        plan.check()


def test_blocks_are_abba_or_baab_and_both_occur(plan: Plan) -> None:
    turns = replace(plan, pairs=40).pair_turns
    blocks = {"".join(turn.side[0] for pair in turns[at : at + 2] for turn in pair) for at in range(0, 40, 2)}
    assert blocks == {"orro", "roor"}


def test_the_seed_is_the_same_in_a_pair_and_another_in_the_next(plan: Plan) -> None:
    assert [[turn.offset for turn in pair] for pair in plan.pair_turns] == [[pair, pair] for pair in range(plan.pairs)]


def test_the_order_follows_from_the_seed(plan: Plan) -> None:
    orders = {replace(plan, seed=seed).pair_turns for seed in range(10)}
    assert len(orders) > 1
    assert plan.pair_turns == replace(plan).pair_turns


def test_a_module_has_its_name_in_the_current_directory(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    replace(plan, module=True).check()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(VerifyError, match=r"-m runs modules of the current directory"):
        replace(plan, module=True).check()
