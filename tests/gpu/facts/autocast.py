"""What type the results of operations have under CUDA's autocast, and which it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from tests.gpu.facts.recording import answer, shortened, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
Operations = dict[str, "Callable[[], object]"]
REFUSALS = (RuntimeError, TypeError, ValueError)
"""How torch refuses a type."""
LONGEST = 160
"""Characters of a refusal in the table."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the operations of the table are given, in one type of numbers."""

    rows: torch.Tensor
    """Of shape (8, 16), between 0 and 1."""
    other: torch.Tensor
    """As well."""
    square: torch.Tensor
    """Of shape (16, 16)."""
    batch: torch.Tensor
    """Of shape (2, 8, 16)."""
    images: torch.Tensor
    """Of shape (2, 4, 8, 8)."""
    labels: torch.Tensor
    """Eight class indices below 16."""
    signs: torch.Tensor
    """Eight times 1 or -1."""

    @classmethod
    def of(cls, dtype: torch.dtype) -> Arguments:
        """Makes them."""
        torch.manual_seed(0)

        def random(*shape: int) -> torch.Tensor:
            return torch.rand(*shape, device="cuda").mul(0.8).add(0.1).to(dtype)

        signs = torch.tensor([1, -1] * 4, device="cuda").to(dtype)
        labels = torch.arange(8, device="cuda")
        return cls(random(8, 16), random(8, 16), random(16, 16), random(2, 8, 16), random(2, 4, 8, 8), labels, signs)


def autocast_dtypes(seen: Seen) -> None:
    """For each operation the type of its result from arguments in 32 and in 16 bits, under autocast to either type."""
    groups = (products, pointwise, reductions, normalizations, losses, pictures, selections, networks)
    for dtype in (torch.bfloat16, torch.float16):
        name = type_name(dtype)
        table: dict[str, list[str]] = {}
        for group in groups:
            with seen.part(f"{name}_{group.__name__}"):
                wide, narrow = (group(Arguments.of(given)) for given in (torch.float32, dtype))
                for operation in wide:
                    table[operation] = [result(wide[operation], dtype), result(narrow[operation], dtype)]
        seen[f"results_under_{name}_from_float32_and_from_{name}"] = table
    with seen.part("binary_cross_entropy"):
        seen["binary_cross_entropy"] = {type_name(one): binary_losses(one) for one in (torch.bfloat16, torch.float16)}


def result(call: Callable[[], object], dtype: torch.dtype) -> str:
    """The type of an operation's result under autocast, those of several with a plus sign; or how it is refused."""
    try:
        with torch.autocast("cuda", dtype), torch.no_grad():
            value = call()
    except REFUSALS as error:
        return f"{type(error).__name__}: {shortened(str(error), LONGEST)}"
    values = value if isinstance(value, tuple) else (value,)
    return "+".join(type_name(one.dtype) for one in values if isinstance(one, torch.Tensor))


def products(a: Arguments) -> Operations:
    """What autocast runs in 16 bits, and products that it does not know."""
    weights = torch.ones(4, 4, 3, 3, device="cuda")
    return {
        "matmul": lambda: a.rows @ a.square,
        "mm": lambda: torch.mm(a.rows, a.square),
        "mv": lambda: torch.mv(a.square, a.square[0]),
        "bmm": lambda: torch.bmm(a.batch, a.batch.mT),
        "baddbmm": lambda: torch.baddbmm(a.batch[:, :, :8], a.batch, a.batch.mT),
        "addmm": lambda: torch.addmm(a.rows, a.rows, a.square),
        "linear": lambda: F.linear(a.rows, torch.ones(4, 16, device="cuda")),
        "einsum": lambda: torch.einsum("ij,jk->ik", a.rows, a.square),
        "tensordot": lambda: torch.tensordot(a.rows, a.square, dims=1),
        "dot": lambda: torch.dot(a.square[0], a.square[1]),
        "outer": lambda: torch.outer(a.square[0], a.square[1]),
        "chain_matmul": lambda: torch.linalg.multi_dot([a.rows, a.square, a.square]),
        "bilinear": lambda: F.bilinear(a.rows, a.rows, torch.ones(3, 16, 16, device="cuda")),
        "cross": lambda: torch.linalg.cross(a.rows[:, :3], a.other[:, :3]),
        "conv1d": lambda: F.conv1d(a.batch, torch.ones(4, 8, 3, device="cuda")),
        "conv2d": lambda: F.conv2d(a.images, weights),
        "conv_transpose2d": lambda: F.conv_transpose2d(a.images, weights),
        "prelu": lambda: F.prelu(a.rows, torch.ones(1, device="cuda")),
        "attention": lambda: F.scaled_dot_product_attention(a.batch, a.batch, a.batch),
        "mixed_matmul": lambda: a.rows @ torch.ones(16, 4, device="cuda"),
        "float64_matmul": lambda: a.rows.double() @ a.square.double(),
        "complex_matmul": lambda: a.rows.to(torch.complex64) @ a.square.to(torch.complex64),
        "cdist": lambda: torch.cdist(a.batch, a.batch),
        "pdist": lambda: F.pdist(a.rows),
        "cosine_similarity": lambda: F.cosine_similarity(a.rows, a.other),
        "pairwise_distance": lambda: F.pairwise_distance(a.rows, a.other),
        "vecdot": lambda: torch.linalg.vecdot(a.rows, a.other),
    }


def pointwise(a: Arguments) -> Operations:
    """Functions of each element."""
    names = (
        *("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt"),
        *("sinh", "tan", "sqrt", "square", "sin", "cos", "tanh", "sigmoid", "erf", "exp2", "abs", "atan"),
    )
    functions = (F.relu, F.gelu, F.silu, F.elu, F.softplus, F.softsign, F.hardtanh, F.mish, F.logsigmoid, F.tanhshrink)
    table: Operations = {name: partial(getattr(torch, name), a.rows) for name in names}
    table |= {one.__name__: partial(one, a.rows) for one in functions}
    return table | {
        "pow": lambda: torch.pow(a.rows, 2.5),
        "square_by_operator": lambda: a.rows**2,
        "base_pow": lambda: 2.0**a.rows,
        "atan2": lambda: torch.atan2(a.rows, a.other),
        "addcmul": lambda: torch.addcmul(a.rows, a.rows, a.other),
        "addcdiv": lambda: torch.addcdiv(a.rows, a.rows, a.other),
        "lerp": lambda: torch.lerp(a.rows, a.other, 0.5),
        "add_float32": lambda: a.rows + torch.ones(16, device="cuda"),
        "divide_by_float": lambda: a.rows / 3.0,
        "dropout": lambda: F.dropout(a.rows),
        "clamp": lambda: a.rows.clamp(0.2, 0.4),
        "where_zero": lambda: torch.where(a.rows > 0.5, a.rows, 0.0),
        "nan_to_num": lambda: torch.nan_to_num(a.rows),
        "glu": lambda: F.glu(a.rows),
        "gumbel_softmax": lambda: F.gumbel_softmax(a.rows),
    }


def reductions(a: Arguments) -> Operations:
    """Sums, means and what is counted along a dimension."""
    return {
        "softmax": lambda: F.softmax(a.rows, dim=-1),
        "softmax_of_module": lambda: nn.Softmax(dim=-1)(a.rows),
        "log_softmax": lambda: F.log_softmax(a.rows, dim=-1),
        "softmin": lambda: F.softmin(a.rows, dim=-1),
        "logsumexp": lambda: torch.logsumexp(a.rows, dim=-1),
        "sum": a.rows.sum,
        "sum_along": lambda: a.rows.sum(dim=0),
        "sum_to_float16": lambda: a.rows.sum(dim=0, dtype=torch.float16),
        "mean": a.rows.mean,
        "prod": a.rows.prod,
        "std": a.rows.std,
        "var": a.rows.var,
        "var_mean": lambda: torch.var_mean(a.rows),
        "cumsum": lambda: a.rows.cumsum(0),
        "cumprod": lambda: a.rows.cumprod(0),
        "logcumsumexp": lambda: torch.logcumsumexp(a.rows, 0),
        "norm": a.rows.norm,
        "norm_along": lambda: a.rows.norm(2, dim=1),
        "linalg_norm": lambda: torch.linalg.norm(a.rows),
        "vector_norm": lambda: torch.linalg.vector_norm(a.rows),
        "matrix_norm": lambda: torch.linalg.matrix_norm(a.rows),
        "normalize": lambda: F.normalize(a.rows),
        "dist": lambda: torch.dist(a.rows, a.other),
        "renorm": lambda: torch.renorm(a.rows, 2, 0, 1.0),
        "amax": a.rows.amax,
        "trapezoid": lambda: torch.trapezoid(a.rows),
        "quantile": lambda: torch.quantile(a.rows, 0.5),
        "histc": lambda: torch.histc(a.rows, 4),
        "trace": a.square.trace,
    }


def normalizations(a: Arguments) -> Operations:
    """Layers that normalize; their parameters are in 32 bits, as a model's are."""
    rms = untyped.nn.functional.rms_norm
    return {
        "layer_norm": lambda: F.layer_norm(a.rows, (16,)),
        "layer_norm_of_module": lambda: nn.LayerNorm(16).to("cuda")(a.rows),
        "rms_norm": lambda: rms(a.rows, (16,)),
        "rms_norm_of_module": lambda: nn.RMSNorm(16).to("cuda")(a.rows),
        "group_norm": lambda: F.group_norm(a.images, 2),
        "group_norm_of_module": lambda: nn.GroupNorm(2, 4).to("cuda")(a.images),
        "batch_norm_of_module": lambda: nn.BatchNorm2d(4).to("cuda")(a.images),
        "batch_norm_in_eval": lambda: nn.BatchNorm2d(4).to("cuda").eval()(a.images),
        "instance_norm": lambda: F.instance_norm(a.images),
        "local_response_norm": lambda: F.local_response_norm(a.images, 2),
        "embedding": lambda: F.embedding(a.labels, a.square),
        "embedding_bag": lambda: F.embedding_bag(a.labels[None], a.square),
        "one_hot": lambda: F.one_hot(a.labels, 16),
    }


def losses(a: Arguments) -> Operations:
    """Losses; class indices stay what they are."""
    bounded, log = F.softmax(a.rows.float(), -1).to(a.rows.dtype), F.log_softmax(a.rows.float(), -1).to(a.rows.dtype)
    steps = F.log_softmax(torch.ones(6, 2, 5, device="cuda"), -1).to(a.rows.dtype)
    targets = torch.ones(2, 3, dtype=torch.long, device="cuda")
    lengths, short = torch.tensor([6, 6], dtype=torch.int32), torch.tensor([3, 3], dtype=torch.int32)
    on_host = torch.ones(6, dtype=torch.int32)  # where cuDNN's kernel wants its targets
    return {
        "cross_entropy": lambda: F.cross_entropy(a.rows, a.labels),
        "cross_entropy_with_probabilities": lambda: F.cross_entropy(a.rows, bounded),
        "nll_loss": lambda: F.nll_loss(log, a.labels),
        "mse_loss": lambda: F.mse_loss(a.rows, a.other),
        "mse_loss_with_float32": lambda: F.mse_loss(a.rows, a.other.float()),
        "l1_loss": lambda: F.l1_loss(a.rows, a.other),
        "smooth_l1_loss": lambda: F.smooth_l1_loss(a.rows, a.other),
        "huber_loss": lambda: F.huber_loss(a.rows, a.other),
        "kl_div": lambda: F.kl_div(log, bounded, reduction="batchmean"),
        "poisson_nll_loss": lambda: F.poisson_nll_loss(a.rows, a.other),
        "gaussian_nll_loss": lambda: F.gaussian_nll_loss(a.rows, a.other, a.other),
        "hinge_embedding_loss": lambda: F.hinge_embedding_loss(a.rows[:, 0], a.signs),
        "margin_ranking_loss": lambda: F.margin_ranking_loss(a.rows[:, 0], a.other[:, 0], a.signs),
        "cosine_embedding_loss": lambda: F.cosine_embedding_loss(a.rows, a.other, a.signs),
        "triplet_margin_loss": lambda: F.triplet_margin_loss(a.rows, a.other, a.rows.flip(0)),
        "multi_margin_loss": lambda: F.multi_margin_loss(a.rows, a.labels),
        "soft_margin_loss": lambda: F.soft_margin_loss(a.rows[:, 0], a.signs),
        "multilabel_soft_margin_loss": lambda: F.multilabel_soft_margin_loss(a.rows, a.other),
        "binary_cross_entropy_with_logits": lambda: F.binary_cross_entropy_with_logits(a.rows, a.other),
        "ctc_loss": lambda: untyped.nn.functional.ctc_loss(steps, targets, (6, 6), (3, 3)),
        "ctc_loss_of_cudnn": lambda: F.ctc_loss(steps, on_host, lengths, short),
    }


def pictures(a: Arguments) -> Operations:
    """What is done with images; pooling and its reverse among them."""
    grid = torch.zeros(2, 4, 4, 2, device="cuda")

    def unpooled() -> torch.Tensor:
        values, places = F.max_pool2d(a.images, 2, return_indices=True)
        return F.max_unpool2d(values, places, [2, 2])

    modes = ("nearest", "bilinear", "bicubic", "area")
    table: Operations = {
        f"interpolate_{mode}": partial(F.interpolate, a.images, scale_factor=2, mode=mode) for mode in modes
    }
    return table | {
        "max_pool2d": lambda: F.max_pool2d(a.images, 2),
        "max_pool2d_with_indices": lambda: F.max_pool2d(a.images, 2, return_indices=True),
        "max_unpool2d": unpooled,
        "avg_pool2d": lambda: F.avg_pool2d(a.images, 2),
        "adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(a.images, 1),
        "lp_pool2d": lambda: F.lp_pool2d(a.images, 2, 2),
        "grid_sample": lambda: F.grid_sample(a.images, grid, align_corners=False),
        "affine_grid": lambda: F.affine_grid(a.images.new_ones(2, 2, 3), [2, 4, 8, 8], align_corners=False),
        "unfold": lambda: F.unfold(a.images, 3),
        "pixel_shuffle": lambda: F.pixel_shuffle(a.images, 2),
        "pad_reflect": lambda: F.pad(a.images, (1, 1, 1, 1), mode="reflect"),
    }


def selections(a: Arguments) -> Operations:
    """What returns indices, selects, joins, or writes by index."""
    mask = a.rows > 0.5
    index = torch.zeros(8, 16, dtype=torch.long, device="cuda")
    return {
        "cummax": lambda: tuple(torch.cummax(a.rows, 1)),
        "cummin": lambda: tuple(torch.cummin(a.rows, 1)),
        "max_along": lambda: tuple(a.rows.max(1)),
        "sort": lambda: tuple(a.rows.sort(1)),
        "topk": lambda: tuple(a.rows.topk(2)),
        "kthvalue": lambda: tuple(a.rows.kthvalue(2)),
        "mode": lambda: tuple(torch.mode(a.rows)),
        "median_along": lambda: tuple(a.rows.median(1)),
        "argmax": lambda: a.rows.argmax(1),
        "multinomial": lambda: torch.multinomial(a.rows, 2),
        "bernoulli": lambda: torch.bernoulli(a.rows),
        "unique": lambda: torch.unique(a.rows),
        "searchsorted": lambda: torch.searchsorted(a.rows.sort(1).values, a.other),
        "bucketize": lambda: torch.bucketize(a.rows, a.square[0].sort().values),
        "cat_with_float32": lambda: torch.cat([a.rows, torch.ones(1, 16, device="cuda")]),
        "stack_with_float32": lambda: torch.stack([a.rows, torch.ones(8, 16, device="cuda")]),
        "index_put_of_a_product": lambda: a.rows.clone().index_put((mask,), (a.rows @ a.square)[mask]),
        "scatter_add_of_a_product": lambda: a.rows.scatter_add(0, index, a.rows @ a.square),
        "masked_fill_minus_1e9": lambda: (a.rows @ a.square).masked_fill(mask, -1e9),
        "masked_scatter_of_a_product": lambda: a.rows.masked_scatter(mask, a.rows @ a.square),
    }


def networks(_: Arguments) -> Operations:
    """Recurrent and attention modules whose parameters are in 32 bits, with what they return."""
    steps = torch.ones(5, 2, 16, device="cuda")

    def flat(value: Any) -> tuple[Any, ...]:
        return tuple(part for one in value for part in (one if isinstance(one, tuple) else (one,)))

    def run(module: nn.Module, *arguments: torch.Tensor) -> tuple[Any, ...]:
        value = module.to("cuda")(*arguments)
        return flat(value if isinstance(value, tuple) else (value,))

    return {
        "lstm": lambda: run(nn.LSTM(16, 8), steps),
        "gru": lambda: run(nn.GRU(16, 8), steps),
        "rnn": lambda: run(nn.RNN(16, 8), steps),
        "lstm_cell": lambda: run(nn.LSTMCell(16, 8), steps[0]),
        "gru_cell": lambda: run(nn.GRUCell(16, 8), steps[0]),
        "multihead_attention": lambda: run(nn.MultiheadAttention(16, 2), steps, steps, steps),
        "encoder_layer": lambda: run(nn.TransformerEncoderLayer(16, 2, 32), steps),
        "encoder_layer_in_eval": lambda: run(nn.TransformerEncoderLayer(16, 2, 32).eval(), steps),
    }


def binary_losses(dtype: torch.dtype) -> dict[str, Any]:
    """What BCELoss says under autocast and beside it, and the form that takes logits."""
    logits, target = torch.randn(8, device="cuda"), torch.ones(8, device="cuda")
    weights = torch.ones(4, 8, device="cuda")

    def under(call: Callable[[], object]) -> dict[str, Any]:
        with torch.autocast("cuda", dtype):
            return answer(call, RuntimeError)

    def outside(call: Callable[[torch.Tensor], object]) -> dict[str, Any]:
        with torch.autocast("cuda", dtype):
            probabilities = torch.sigmoid(F.linear(logits, weights))
            with torch.autocast("cuda", enabled=False):
                return answer(lambda: call(probabilities), RuntimeError)

    return {
        "module": under(lambda: nn.BCELoss()(logits.sigmoid(), target)),
        "function": under(lambda: F.binary_cross_entropy(logits.sigmoid(), target)),
        "module_with_logits": under(lambda: nn.BCEWithLogitsLoss()(logits, target)),
        "function_with_logits": under(lambda: F.binary_cross_entropy_with_logits(logits, target)),
        "with_logits_of_a_layer": under(
            lambda: F.binary_cross_entropy_with_logits(F.linear(logits, weights), target[:4])
        ),
        "in_a_disabled_region": outside(lambda p: F.binary_cross_entropy(p, target[:4])),
        "in_a_disabled_region_both_narrow": outside(lambda p: F.binary_cross_entropy(p, target[:4].to(dtype))),
        "in_a_disabled_region_widened": outside(lambda p: F.binary_cross_entropy(p.float(), target[:4])),
    }
