"""The table of PyTorch's operators, held against the installed torch: its declarations, and what its operators do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torchgen
import yaml
from torch.nn import functional

from codemods.library.operators import (
    _BF16_SINCE,
    Autocast,
    Draws,
    Memory,
    Operator,
    Result,
    attribute,
    attributes,
    function,
    joins,
    may_be_view,
    operator,
    operators,
    reads_no_numbers,
)
from codemods.library.writing import writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOMES = (torch.Tensor, torch, functional, torch.special)
OF_OLDER_TORCH = {"rename_", "names"}
"""Of named tensors, which are gone."""

# What an operator is called with besides a matrix of 4 x 4 numbers: the first that it takes.
REFUSED = (TypeError, ValueError, RuntimeError)
ELSEWHERE = {"cuda", "xpu", "mps", "pin_memory", "record_stream"}
"""What needs a device."""
MASK = torch.ones(4, 4, dtype=torch.bool)
INDICES = torch.zeros(4, 4, dtype=torch.long)


def numbers(*size: int) -> torch.Tensor:
    count = torch.Size(size or (4, 4)).numel()
    return (torch.arange(count, dtype=torch.float64) * 7 % 11 / 12 + 0.05).reshape(size or (4, 4))


MATRIX = numbers()


def patterns() -> Iterator[tuple[Any, ...]]:
    x = MATRIX
    yield from ((), (1,), (x,), (x, x), (x, x, x), (1, 1), (0, 1), (1, INDICES), ((4, 4),), (INDICES,))
    yield from ((1, INDICES, x), (MASK,), (MASK, 1.0), (MASK, x), (0, INDICES[0]), (0, INDICES[0], 0.5))
    yield from ((0, INDICES[0], x), (0, 1, 2), (0.5, True), (2, 0, 1.0), (0, (2, 2)), ((2, 2), 1.0), ((4, 4), (4, 1)))


IMAGES = numbers(1, 4, 8, 8)
# Where none of these is right: the operands, the tensor among them.
CALLS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack"), ([numbers(), numbers()],)),
    **dict.fromkeys(("column_stack", "row_stack", "meshgrid", "cartesian_prod"), ([numbers(4), numbers(4)],)),
    **dict.fromkeys(("dot", "vdot", "outer", "ger", "inner"), (numbers(4), numbers(4))),
    **dict.fromkeys(("bmm",), (numbers(2, 4, 4), numbers(2, 4, 4))),
    **dict.fromkeys(("baddbmm", "addbmm"), (numbers(), numbers(2, 4, 4), numbers(2, 4, 4))),
    **dict.fromkeys(("gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor"), (INDICES, INDICES)),
    **dict.fromkeys(("max_pool2d", "max_pool2d_with_indices", "avg_pool2d", "adaptive_max_pool2d"), (IMAGES, 2)),
    **dict.fromkeys(("fractional_max_pool2d", "fractional_max_pool2d_with_indices"), (IMAGES, 2, 4)),
    **dict.fromkeys(("max_pool3d", "max_pool3d_with_indices", "avg_pool3d", "adaptive_max_pool3d"), (IMAGES, 2)),
    **dict.fromkeys(("tril_indices", "triu_indices"), (3, 3)),
    **dict.fromkeys(("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"), (IMAGES, 0.5, True)),
    "rrelu": (-numbers(), 0.1, 0.3, True),
    "native_dropout": (numbers(), 0.5, True),
    "mv": (numbers(), numbers(4)),
    "addmv": (numbers(4), numbers(), numbers(4)),
    "addr": (numbers(), numbers(4), numbers(4)),
    "conv2d": (IMAGES, numbers(2, 4, 3, 3)),
    "conv1d": (numbers(1, 4, 8), numbers(2, 4, 3)),
    "interpolate": (IMAGES, 4),
    "batch_norm": (IMAGES, None, None, None, None, True),
    "instance_norm": (IMAGES,),
    "embedding": (INDICES, numbers()),
    "einsum": ("ij,jk->ik", numbers(), numbers()),
    "nll_loss": (numbers(), INDICES[0]),
    "one_hot": (INDICES,),
    "bincount": (INDICES[0],),
    "bucketize": (numbers(), numbers(4)),
    "item": (numbers(1, 1),),
    "flip": (numbers(), (0,)),
    "permute": (numbers(), (1, 0)),
    "pixel_shuffle": (IMAGES, 2),
    "unflatten": (numbers(), 0, (2, 2)),
    "randperm": (4,),
    "rand": (4,),
    "randn": (4,),
    "randint": (4, (4,)),
    "geometric_": (numbers(), 0.5),
    "new_full": (numbers(), (2,), 0.5),
    "apply_": (numbers(), abs),
    "set_": (numbers(), numbers()),
    "view_as_complex": (numbers(4, 2),),
    "view_as_real": (torch.view_as_complex(numbers(4, 2)),),
    "lstm_cell": (numbers(), (numbers(), numbers()), numbers(16, 4), numbers(16, 4)),
    "gru_cell": (numbers(), numbers(), numbers(12, 4), numbers(12, 4)),
}


@dataclass(frozen=True, eq=False)
class Call:
    """A call of an operator that torch accepts."""

    function: Callable[..., Any]
    given: tuple[Any, ...]

    def run(self, *, with_graph: bool = False) -> tuple[Any, Any]:
        """Its first operand, and what it returns."""
        first, *others = (each.clone() if isinstance(each, torch.Tensor) else each for each in self.given)
        if with_graph:
            first.requires_grad_()
        return first, self.function(first, *others)


@cache
def calls(name: str) -> tuple[Call, ...]:
    """One call of the operator for each place that has it, as far as one is known."""
    found = []
    functions = [getattr(home, name) for home in HOMES if callable(getattr(home, name, None))]
    for each in functions if name not in ELSEWHERE else ():
        for given in [CALLS[name]] if name in CALLS else ((MATRIX, *operands) for operands in patterns()):
            call = Call(each, given)
            try:
                call.run()
            except (*REFUSED, AttributeError, IndexError):
                continue
            found.append(call)
            break
    return tuple(found)


def kind_of(result: object) -> str | tuple[str, ...]:
    """The type of a tensor's elements, of each where there are several."""
    if isinstance(result, (tuple, list)) and result and all(isinstance(each, torch.Tensor) for each in result):
        return tuple(str(kind_of(each)) for each in result)
    if not isinstance(result, torch.Tensor):
        return "no tensor"
    if result.dtype is torch.bool:
        return "bool"
    if result.is_complex():
        return "complex"
    return str(result.dtype).removeprefix("torch.") if result.is_floating_point() else "integer"


ROWS = {name: row for name in sorted(operators()) if (row := operator(name)) is not None}


def is_as_said(row: Operator, kinds: str | tuple[str, ...]) -> bool:
    match row.result:
        case Result.FLOAT | Result.SAME | Result.FRESH | Result.DETACHED:
            return kinds in {"float64", "integer", "complex"}
        case Result.BOOL | Result.INTEGER | Result.COMPLEX:
            return bool(kinds == row.result.value)
        case Result.INDEXED:
            return kinds == ("float64", "integer")
        case Result.REDUCED | Result.POOLED:
            return kinds in {"float64", ("float64", "integer")}
        case Result.SEVERAL:
            return isinstance(kinds, tuple) and set(kinds) <= {"float64", "bool"}
        case Result.WIDE:
            return kinds in {"float32", "float64"}
        case Result.HALF:
            return kinds in {"float16", "bfloat16"}
        case Result.PYTHON:
            return kinds == "no tensor"
    return True


@cache
def declarations() -> tuple[dict[str, Any], ...]:
    """What native_functions.yaml says of the operators that users call."""
    path = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    public = {name for home in HOMES for name in dir(home) if not name.startswith("_")}
    with path.open(encoding="utf-8") as file:
        found = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe
    return tuple(each for each in found if name_of(each) in public and not is_out(each))


def name_of(declaration: dict[str, Any]) -> str:
    return re.split(r"[.(]", declaration["func"])[0]


def is_out(declaration: dict[str, Any]) -> bool:
    return bool(re.match(r"\w+\.\w*out", declaration["func"], re.IGNORECASE))


def returned(declaration: dict[str, Any]) -> str:
    return str(declaration["func"].rpartition(" -> ")[2])


def is_tagged(declaration: dict[str, Any]) -> bool:
    tags = declaration.get("tags", [])
    return "nondeterministic_seeded" in (tags if isinstance(tags, list) else [tags])


def test_every_name_is_torchs() -> None:
    public = {name for home in HOMES for name in dir(home)}

    assert (operators() | attributes()) - public <= OF_OLDER_TORCH


@pytest.mark.filterwarnings("ignore")
def test_attributes_are_what_the_table_says() -> None:
    tensor = numbers().requires_grad_()
    tensor.sum().backward()  # type: ignore[no-untyped-call]
    known = {name: getattr(tensor, name) for name in attributes() - {"imag", *OF_OLDER_TORCH}}
    rows = {name: row for name in known if (row := attribute(name)) is not None}

    assert {name for name, row in rows.items() if not is_as_said(row, kind_of(known[name]))} == set()
    carrying = {name for name, value in known.items() if getattr(value, "requires_grad", False)}
    assert carrying == {name for name, row in rows.items() if row.carries_graph}
    assert attribute("stride") is None


@pytest.mark.filterwarnings("ignore")
def test_operators_return_what_the_table_says() -> None:
    run, wrong = set(), []
    for name, row in ROWS.items():
        for call in calls(name):
            run.add(name)
            kinds = kind_of(call.run()[1])
            if not is_as_said(row, kinds) and not (name == "where" and isinstance(kinds, tuple)):
                wrong.append((name, row.result, kinds))

    assert wrong == []
    assert len(run) > 400, "most can be called"


@pytest.mark.filterwarnings("ignore")
def test_graphs_go_on_where_the_table_says() -> None:
    wrong = []
    for name, row in ROWS.items():
        for call in calls(name) if name not in CALLS else ():
            try:
                result = call.run(with_graph=True)[1]
            except REFUSED:
                continue  # it writes into its operand
            first = result[0] if isinstance(result, (tuple, list)) and result else result
            carries = isinstance(first, torch.Tensor) and first.requires_grad
            if carries is not row.carries_graph and name not in {"where", "type"}:
                wrong.append((name, row.result, carries))

    assert wrong == []


@pytest.mark.filterwarnings("ignore")
def test_memory_is_whose_the_table_says() -> None:
    expected = {Memory.NEW: {False}, Memory.VIEW: {True}, Memory.EITHER: {True, False}, Memory.SELF: {True}}
    wrong = []
    for name, row in ROWS.items():
        for call in calls(name) if name not in CALLS else ():
            operand, result = call.run()
            first = result[0] if isinstance(result, (tuple, list)) and result else result
            if isinstance(first, torch.Tensor) and not first.is_sparse:
                is_same = first.untyped_storage().data_ptr() == operand.untyped_storage().data_ptr() != 0
                if is_same not in expected.get(row.memory, set()):
                    wrong.append((name, row.memory, is_same))

    assert wrong == []


WITHOUT_EFFECT = [
    *((), (0,), (1,), (-1,), (4,), ((4, 4),), ((4,),), ((1, 1),), ((0, 0),), ((0,),), ([],), (0.0,), (1.0,)),
    *((1, 1), (0, 0), (0.5, False), (0.0, False), (0, None), (0, 0, 4), (torch.float64,), (None,)),
]
"""Arguments with which operators may have nothing to do."""


def is_shared(result: object, operand: torch.Tensor) -> bool:
    if isinstance(result, (tuple, list)):
        return any(is_shared(each, operand) for each in result)
    if not isinstance(result, torch.Tensor) or result.is_sparse:
        return False
    return result.untyped_storage().data_ptr() == operand.untyped_storage().data_ptr() != 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "operand",
    [
        pytest.param(numbers(), id="a matrix"),
        pytest.param(numbers(4), id="a vector"),
        pytest.param(torch.arange(4), id="integers"),
        pytest.param(torch.ones(4, dtype=torch.bool), id="truth values"),
    ],
)
def test_what_is_new_is_new_where_there_is_nothing_to_do(operand: torch.Tensor) -> None:
    found = set()
    names = [name for name, row in ROWS.items() if row.memory is Memory.NEW and name not in ELSEWHERE]
    places = [(name, getattr(home, name)) for name in names for home in HOMES if callable(getattr(home, name, None))]
    for name, run in places:
        # What writes to it where it is asked to is held elsewhere.
        candidates = WITHOUT_EFFECT if f"torch.nn.functional.{name}" not in writing() else [()]
        for given in candidates:
            one = operand.clone()
            try:
                result = run(one, *given)
            except (*REFUSED, AttributeError, LookupError, AssertionError, ArithmeticError):
                continue
            if is_shared(result, one):
                found.add((name, 1 + len(given)))

    assert {name for name, count in found if not may_be_view(name, count)} == set()


def test_one_operand_may_be_seen_otherwise() -> None:
    matrix = numbers()

    for name, given in {"einsum": ("ij->ji", matrix), "cartesian_prod": (matrix[0],)}.items():
        assert may_be_view(name, len(given))
        assert not may_be_view(name, len(given) + 1)
        assert is_shared(getattr(torch, name)(*given), matrix)
    assert not is_shared(torch.cartesian_prod(matrix[0], matrix[0]), matrix)
    assert not is_shared(torch.einsum("ij,ij->ij", matrix, matrix), matrix)
    assert not may_be_view("add", 1)


@pytest.mark.parametrize("name", ["torch.autograd.Variable", "torch.nn.Parameter"])
def test_what_wraps_a_tensor_is_in_its_memory(name: str) -> None:
    tensor, row = numbers(), function(name)

    assert row is not None
    assert row.memory is Memory.VIEW
    assert attrgetter(name.removeprefix("torch."))(torch)(tensor).data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("shape", True),
        ("argmax", True),
        ("greater", True),
        ("item", True),
        ("numpy", False),
        ("float", False),
        ("x", False),
    ],
)
def test_what_reads_no_numbers(name: str, *, answer: bool) -> None:
    assert reads_no_numbers(name) is answer


@pytest.mark.parametrize("name", sorted(name for name in operators() if joins(f"torch.{name}")))
def test_what_joins_tensors_does(name: str) -> None:
    ones = torch.ones(3, 2)

    assert getattr(torch, name)([ones, ones]).numel() == 12


def test_what_writes_into_its_operand_follows_from_what_does_not() -> None:
    written = {name_of(each) for each in declarations() if returned(each) == "Tensor(a!)"}
    rows = {name: row for name in written if (row := operator(name)) is not None}

    assert {name for name, row in rows.items() if row.memory not in {Memory.SELF, Memory.VIEW}} == set()
    assert len(rows) > 150
    assert operator("add__") is None
    assert operator("grow_") is None


def test_pairs_of_values_and_indices_are_those_that_torch_declares() -> None:
    declared = {name_of(each) for each in declarations() if re.search(r", Tensor(\(\w!\))? indices\)$", returned(each))}
    paired = {name for name, row in ROWS.items() if row.result in {Result.INDEXED, Result.REDUCED}}

    assert declared - paired == set()
    assert paired - declared == {
        *("frexp", "lu"),  # a mantissa and exponents; a factorization and pivots
        *(name for name in paired if name.endswith("_with_indices")),
    }


def test_what_torch_declares_to_be_random_draws() -> None:
    tagged = {name_of(each) for each in declarations() if is_tagged(each)}
    rows = {name: operator(name) for name in tagged}

    assert {name for name, row in rows.items() if row is not None and not row.may_draw} == set()
    assert {name for name, row in rows.items() if row is None} <= {"miopen_rnn", "quantized_lstm", "quantized_gru"}


@pytest.mark.filterwarnings("ignore")
def test_what_draws_moves_the_generator_on() -> None:
    drawing: set[str] = set()
    silent: set[str] = set()
    for name in ROWS:
        for call in calls(name):
            before = torch.manual_seed(1).get_state()
            call.run()
            (silent if torch.equal(before, torch.get_rng_state()) else drawing).add(name)

    assert {name for name in drawing if not ROWS[name].may_draw} == set()
    assert {name for name in silent - drawing if ROWS[name].draws is Draws.YES} == set()
    assert {"dropout", "bernoulli", "exponential_", "log_normal_", "multinomial", "gumbel_softmax"} <= drawing


# What autocast_mode.h calls otherwise than users do, or what only other operators call.
SPELLED = {
    **{f"{name}{n}d": "interpolate" for name in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)},
    **dict.fromkeys(("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), "interpolate"),
    **dict.fromkeys(("upsample_bicubic2d", "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa"), "interpolate"),
    "nll_loss2d": "nll_loss",
    "native_layer_norm": "layer_norm",
    "linalg_vecdot": "torch.linalg.vecdot",
    "linalg_multi_dot": "torch.linalg.multi_dot",
    "linalg_vector_norm": "torch.linalg.vector_norm",
    "linalg_matrix_norm": "torch.linalg.matrix_norm",
}
COMPOSED = {
    *("softmin", "normalize", "pairwise_distance", "gumbel_softmax", "cross_entropy", "gaussian_nll_loss"),
    *("multilabel_soft_margin_loss", "triplet_margin_with_distance_loss"),
    *("upsample", "upsample_nearest", "upsample_bilinear", "arccos", "arcsin"),
}
"""What runs in 32 bits because what it calls does, and other names of the same."""

NARROWED = {
    *("lstm", "gru", "rnn_tanh", "rnn_relu"),
    *("multi_head_attention_forward", "affine_grid", "affine_grid_generator"),
}
"""What returns 16 bits because what it calls does: seen on an H100 with torch 2.11, given 32 bits."""


@cache
def autocast_lists() -> dict[str, frozenset[str]]:
    text = (Path(torch.__file__).parent / "include/ATen/autocast_mode.h").read_text(encoding="utf-8")
    found = {}
    for macro, body in re.findall(r"#define AT_FORALL_(\w+)\(_\)((?:.*\\\n)+.*)", text):
        names = re.findall(r"_\((?:ADD_NS\()?(\w+)", body)
        found[macro] = frozenset(SPELLED.get(each, each) for each in names if SPELLED.get(each, each)[:1] != "_")
    return found


@pytest.mark.parametrize(
    ("listed", "autocast"),
    [
        pytest.param(("LOWER_PRECISION_FP",), Autocast.LOW, id="16 bits"),
        pytest.param(
            ("FP32", "FP32_SET_OPT_DTYPE", "DIFFERENT_REDISPATCH_SIGNATURE"), Autocast.HIGH, id="at least 32 bits"
        ),
        pytest.param(("PROMOTE",), Autocast.WIDEST, id="the widest of its operands"),
    ],
)
def test_autocast_does_what_the_table_says(listed: tuple[str, ...], autocast: Autocast) -> None:
    names = frozenset().union(*(autocast_lists()[each] for each in listed))
    rows = {name: function(name) if "." in name else operator(name) for name in names}
    said = {name for name, row in ROWS.items() if row.autocast is autocast}

    assert {name for name, row in rows.items() if row is None or row.autocast is not autocast} == set()
    others = {Autocast.HIGH: COMPOSED, Autocast.LOW: NARROWED}
    assert said - names <= others.get(autocast, {"grid_sample", "arctan2", "constant_pad_nd"})


def test_what_autocast_came_to_widen_later_is_not_wide_everywhere() -> None:
    later = {name for name, row in ROWS.items() if row.since is not None}

    assert {"rms_norm", "interpolate"} <= later
    assert not any(ROWS[name].is_wide for name in later)
    assert all(ROWS[name].is_wide for name in ("kl_div", "layer_norm", "float"))


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("torch.cummax", Result.INDEXED),
        ("torch.nn.functional.dropout", Result.FLOAT),
        ("torch.special.expit", Result.FLOAT),
        ("torch.nn.utils.rnn.pad_packed_sequence", Result.INDEXED),
    ],
)
def test_qualified_names(name: str, result: Result) -> None:
    row = function(name)

    assert row is not None
    assert row.result is result


@pytest.mark.parametrize("name", ["numpy.max", "torchmetrics.functional.mean", "torch.utils.data.gather", "max"])
def test_names_of_others_are_not_known(name: str) -> None:
    assert function(name) is None


@pytest.mark.parametrize("name", sorted(_BF16_SINCE))
def test_what_has_no_kernel_for_bf16_in_some_torch_is_there(name: str) -> None:
    assert callable(attrgetter(name.removeprefix("torch."))(torch))
