"""What one of two pieces of code does with graphs."""

from __future__ import annotations

import ast

from codemods.facts.autograd.courses import Course

ONE, OTHER = (ast.Return() for _ in range(2))


def test_a_name_may_hold_a_graph_after_the_statements_or_where_a_jump_leads_out_of_them() -> None:
    course = Course(at_end=frozenset({"loss"}), at_jumps=frozenset({"output"}), ever=frozenset({"loss", "output", "x"}))

    assert course.names == {"loss", "output"}


def test_statements_that_no_jump_leaves_hold_what_they_hold_at_their_end() -> None:
    assert Course(at_end=frozenset({"loss"})).names == {"loss"}


def test_one_of_two_courses_may_do_whatever_either_does() -> None:
    joined = Course(frozenset({"a"}), ever=frozenset({"a"}), kept=ONE).join(
        Course(frozenset({"b"}), ever=frozenset({"b", "c"}), returned=OTHER)
    )

    assert (joined.at_end, joined.ever) == (frozenset("ab"), frozenset("abc"))
    assert (joined.kept, joined.returned, joined.trained) == (ONE, OTHER, None)


def test_the_first_of_two_places_is_the_one_that_is_told() -> None:
    assert Course(trained=ONE).join(Course(trained=OTHER)).trained is ONE
