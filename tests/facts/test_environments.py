from __future__ import annotations

from codemods.dataflow.environments import UNREACHABLE, Environment
from codemods.dataflow.values import PLAIN, UNBOUND, external, joined, unknown

ONE, TWO = external("one"), external("two")


def test_what_is_bound_last_counts() -> None:
    env = Environment().bind("x", ONE)
    assert env.bind("x", TWO)["x"] == TWO
    assert env["x"] == ONE, "an environment never changes"
    assert "y" not in env


def test_a_name_that_only_one_way_binds_may_be_unbound() -> None:
    start = Environment().bind("x", ONE)
    joined_ = start.bind("y", ONE).join(start.bind("x", TWO))
    assert joined_["x"] == ONE | TWO
    assert joined_["y"] == ONE | {UNBOUND}
    assert joined_ == start.bind("x", TWO).join(start.bind("y", ONE))


def test_joining_what_brings_nothing_new_is_the_same_object() -> None:
    env = Environment().bind("x", ONE | TWO)
    assert env.join(Environment().bind("x", ONE)) is env
    assert env.join(env) is env
    reasons = Environment().bind("x", unknown("a"))
    assert reasons.join(Environment().bind("x", unknown("b"))) is reasons


def test_a_name_that_is_deleted_is_unbound() -> None:
    assert Environment().bind("x", ONE).unbind("x")["x"] == {UNBOUND}


def test_nothing_comes_out_of_where_control_does_not_get() -> None:
    env = Environment().bind("x", ONE)
    assert UNREACHABLE.bind("x", ONE) is UNREACHABLE
    assert UNREACHABLE.join(env) is env
    assert env.join(UNREACHABLE) is env


def test_many_names_share_one_dictionary() -> None:
    env = Environment()
    shared = set()
    for number in range(1000):
        env = env.bind(f"x{number}", PLAIN)
        shared.add(id(env._base))
    assert len(env) == 1000
    assert list(env) == [f"x{number}" for number in range(1000)]
    assert len(shared) < 100, "and not one for each"


def test_names_whose_last_change_lies_in_different_dictionaries_are_joined() -> None:
    one = two = Environment()
    for number in range(100):
        one = one.bind(f"x{number}", ONE)
        two = two.bind(f"x{number}", TWO)
    assert all(values == joined(ONE, TWO) for values in one.join(two).values())
    assert len(one.join(two)) == 100
