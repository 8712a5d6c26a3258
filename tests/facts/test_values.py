from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemods.dataflow.values import (
    ANY,
    NONE,
    NOTHING,
    PLAIN,
    UNBOUND,
    Arguments,
    Batch,
    Choice,
    External,
    HostTensor,
    Literal,
    Made,
    MovedTensor,
    Plain,
    SomeTensor,
    Unknown,
    Values,
    external,
    joined,
    keys_of,
    leading_text,
    library_names,
    text_starting,
    unknown,
    why_unknown,
    without_none,
)

sorts = st.sampled_from([External, Unknown, Plain, Choice])
literals = st.integers(0, 90).map(lambda number: Literal(repr(number)))
others = st.builds(lambda sort, name: sort(name), sorts, st.sampled_from(["", "a", "b", "c"]))
tensors = st.sampled_from([SomeTensor(), MovedTensor(), HostTensor()])
many = st.integers(0, 90).map(lambda number: Made(f"f{number}"))
values = st.frozensets(literals | others | tensors | many | st.just(NONE), max_size=60)


def literal(*constants: object) -> Values:
    return frozenset(Literal(repr(each)) for each in constants)


@given(values, values, values)
def test_joining_is_the_join_of_a_lattice(one: Values, two: Values, three: Values) -> None:
    assert joined(one, two) == joined(two, one)
    assert joined(joined(one, two), three) == joined(one, joined(two, three)) == joined(one, two, three)
    assert joined(joined(one)) == joined(one)
    assert joined(joined(one, two), two) == joined(one, two), "what was joined once brings nothing new"


def test_of_several_reasons_the_first_is_kept() -> None:
    assert joined(unknown("b"), unknown("a"), external("x")) == unknown("a") | external("x")


def test_constants_beside_plain_objects_are_plain() -> None:
    assert joined(literal(1, "cuda"), PLAIN, frozenset({NONE})) == PLAIN | {NONE}
    assert joined(literal(*range(100))) == PLAIN
    assert joined(literal(1, 2)) == literal(1, 2)


def test_very_many_values_are_unknown() -> None:
    assert joined(*[external(f"x{number}") for number in range(100)]) == unknown(
        "a value may be one of very many things"
    )


def test_none_and_unbound_say_nothing() -> None:
    assert without_none(frozenset({NONE, UNBOUND}) | external("x")) == external("x")


def test_why_something_is_unknown() -> None:
    assert why_unknown(unknown("b") | unknown("a")) == "a"
    assert why_unknown(external("x")) is None


@pytest.mark.parametrize(
    ("index", "keys"),
    [
        (literal("a"), {"a"}),
        (literal(0, 2), {0, 2}),
        (literal(-1), {None}),
        (literal(None), {None}),
        (literal(ANY), {None}),
        (PLAIN, {None}),
        (NOTHING, set()),
    ],
)
def test_keys_that_an_index_may_be(index: Values, keys: set[object]) -> None:
    assert keys_of(index) == keys


def test_the_start_of_a_text() -> None:
    assert leading_text(text_starting("cuda:")) == "cuda:"
    assert leading_text(literal("cpu")) == "cpu"
    assert leading_text(literal(1)) is None
    assert leading_text(literal("a", "b")) is None
    assert leading_text(PLAIN) is None


def test_arguments_by_position_by_name_and_of_a_star() -> None:
    arguments = Arguments((external("a"),), {"k": external("b")}, external("c"))
    assert arguments.get(0, "x") == external("a")
    assert arguments.get(3, "k") == external("b")
    assert arguments.get(3, "x") == external("c")
    assert arguments.all() == external("a") | external("b") | external("c")
    later = arguments.after([external("z")], {"k": external("y"), "m": external("n")})
    assert later.positional == (external("z"), external("a"))
    assert later.keywords == {"k": external("b"), "m": external("n")}


def test_equal_values_are_one_in_a_set() -> None:
    of = Made("f")
    assert {Batch(of=of), Batch(of=Made("f"))} == {Batch(of=of)}


def test_a_constant_is_known_by_its_class() -> None:
    one = Literal("'a'")

    assert (one.name, one.value) == ("'a'", "a")
    assert one == Literal("'a'") != Literal("'b'")
    assert one != Choice("'a'")


def test_the_names_of_the_libraries_things() -> None:
    made = Made("torch.zeros")

    assert library_names(external("torch.zeros") | external("numpy.load") | {made, NONE}) == {
        "torch.zeros",
        "numpy.load",
    }
