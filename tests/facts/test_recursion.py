"""Questions that lead to each other, perhaps back to where they began."""

from __future__ import annotations

import random

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


def test_none_is_worked_out_for_each_that_asks() -> None:
    asked = []

    def compute(number: int) -> int:
        asked.append(number)
        return 1 if not number else answers.of(number - 1) + answers.of(number - 1)

    answers = Answers(compute, 0, max)
    assert answers.of(30) == 2**30
    assert len(asked) == 61


@pytest.mark.parametrize(
    "edges",
    [
        pytest.param({"a": "b", "b": ""}, id="another"),
        pytest.param({"a": "bc", "b": "c", "c": ""}, id="another that was asked for before"),
    ],
)
def test_what_is_taken_for_the_least_while_another_is_worked_out_leaves_no_trace(edges: dict[str, str]) -> None:
    def compute(node: str) -> frozenset[str]:
        below = [answers.of(each) for each in edges[node]]
        return frozenset({f"{node} over nothing"} if below and not all(below) else {node})

    answers = Answers(compute, frozenset[str](), frozenset[str].union)
    assert {each: answers.of(each) for each in edges} == {each: {each} for each in edges}


def test_what_was_broken_off_is_worked_out_again() -> None:
    broken: list[str] = []

    def compute(node: str) -> int:
        if node == "b" and not broken:
            broken.append(node)
            raise RecursionError
        return answers.of("b") if node == "a" else max(answers.of("a"), 3)

    answers = Answers(compute, 0, max)
    with pytest.raises(RecursionError):
        answers.of("a")
    assert [answers.of("a"), answers.of("b")] == [3, 3]


def test_many_that_ask_for_each_other_come_to_an_end() -> None:
    every = range(40)
    asked = []

    def compute(number: int) -> int:
        asked.append(number)
        return max([number, *(answers.of(each) for each in every)])

    answers = Answers(compute, 0, max)
    assert answers.of(0) == 39
    assert len(asked) < 40**2


def _reach(edges: dict[str, str], asked: list[str]) -> Answers[str, frozenset[str]]:
    """Which nodes of a graph are reached from a node; ``asked`` says which were worked out."""

    def compute(node: str) -> frozenset[str]:
        asked.append(node)
        return frozenset(edges[node]).union(*(found.of(each) for each in edges[node]))

    found = Answers(compute, frozenset[str](), frozenset[str].union)
    return found


def test_an_answer_is_worked_out_again_only_if_what_it_asked_for_was_more_than_nothing() -> None:
    asked: list[str] = []
    found = _reach({"a": "bc", "b": "d", "c": "d", "d": ""}, asked)
    assert [found.of("a"), found.of("a")] == [frozenset("bcd")] * 2
    assert set(found.asked) == set("abcd")
    assert asked.count("d") == 1
    assert len(asked) <= 8


@pytest.mark.parametrize(
    ("edges", "reached"),
    [
        pytest.param({"a": "ab", "b": ""}, {"a": "ab", "b": ""}, id="one that calls itself"),
        pytest.param({"a": "b", "b": "ac", "c": ""}, {"a": "abc", "b": "abc", "c": ""}, id="two that call each other"),
        pytest.param(
            {"a": "b", "b": "bcd", "c": "a", "d": "c"},
            {"a": "abcd", "b": "abcd", "c": "abcd", "d": "abcd"},
            id="circles in circles",
        ),
    ],
)
def test_recursion_is_followed_to_a_fixpoint(edges: dict[str, str], reached: dict[str, str]) -> None:
    for start in sorted(edges):
        found = _reach(edges, [])
        first = found.of(start)
        assert first == frozenset(reached[start])
        assert {each: found.of(each) for each in edges} == {each: frozenset(reached[each]) for each in edges}


@pytest.mark.parametrize("seed", range(10))
def test_answers_are_those_of_the_least_fixpoint(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - it draws graphs, no secrets
    nodes = [chr(ord("A") + at) for at in range(60)]
    chains = zip(nodes, [*nodes[1:], nodes[0]], strict=True)
    edges = {
        one: next_ * (draw.random() < 0.95) + "".join(draw.sample(nodes, draw.choice([0, 0, 0, 1])))
        for one, next_ in chains
    }
    reached = {each: set(edges[each]) for each in nodes}
    for _ in range(6):  # each time paths of twice the length
        reached = {each: held.union(*(reached[other] for other in held)) for each, held in reached.items()}
    found = _reach(edges, [])
    assert {each: found.of(each) for each in nodes} == reached


def test_a_long_chain_of_calls_needs_no_deep_stack() -> None:
    running: list[int] = []
    started: list[int] = []

    def compute(number: int) -> frozenset[int]:
        assert not running
        started.append(number)
        running.append(number)
        below = found.of(number - 1) if number else frozenset[int]()
        running.pop()
        return below | {number}

    found = Answers(compute, frozenset[int](), frozenset[int].union)
    assert found.of(300) == frozenset(range(301))
    assert len(started) <= 2 * 301
