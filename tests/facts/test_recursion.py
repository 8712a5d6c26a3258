"""Questions that lead to each other, perhaps back to where they began."""

from __future__ import annotations

import pytest

from codemods.dataflow.recursion import Answers, closure


def test_each_is_reached_once_and_before_what_it_leads_to() -> None:
    graph = {"a": "bc", "b": "d", "c": "db", "d": "a", "e": "a"}
    assert list(closure("a", graph.__getitem__)) == ["a", "b", "d", "c"]


def largest(graph: dict[str, str], own: dict[str, int]) -> Answers[str, int]:
    """The largest number among those that a node leads to; ``asked`` are the nodes that were worked out."""

    def compute(node: str) -> int:
        return max([own.get(node, 0), *(answers.of(each) for each in graph[node])])

    answers = Answers(compute, 0, max)
    return answers


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        pytest.param({"a": "b", "b": "c", "c": ""}, 3, id="a chain"),
        pytest.param({"a": "ab", "b": "c", "c": ""}, 3, id="one that asks for itself"),
        pytest.param({"a": "b", "b": "ac", "c": ""}, 3, id="two that ask for each other"),
        pytest.param({"a": "bd", "b": "a", "c": "", "d": "bc"}, 3, id="the answer is found after it was needed"),
    ],
)
def test_the_answer_holds_of_all_that_is_asked(graph: dict[str, str], expected: int) -> None:
    answers = largest(graph, {"c": 3})
    assert [answers.of(each) for each in ("b", "a")] == [expected, expected]
    again = largest(graph, {"c": 3})
    assert [again.of(each) for each in ("a", "b")] == [expected, expected]


def test_none_is_worked_out_twice() -> None:
    asked = []

    def compute(number: int) -> int:
        asked.append(number)
        return 1 if not number else answers.of(number - 1) + answers.of(number - 1)

    answers = Answers(compute, 0, max)
    assert answers.of(30) == 2**30
    assert len(asked) == 31


def test_many_that_ask_for_each_other_come_to_an_end() -> None:
    every = range(40)
    asked = []

    def compute(number: int) -> int:
        asked.append(number)
        return max([number, *(answers.of(each) for each in every)])

    answers = Answers(compute, 0, max)
    assert answers.of(0) == 39
    print(len(asked))
    assert len(asked) < 40**3
