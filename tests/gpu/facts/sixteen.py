"""What breaks or changes in 16 bits: errors where types meet, overflow, operations without kernels, stale weights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from tests.gpu.facts.recording import answer, rounded, type_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
Questions = dict[str, "Callable[[], object]"]
NARROW = (torch.bfloat16, torch.float16)
REFUSALS = (RuntimeError, TypeError, ValueError, AssertionError)


def sixteen_bit_hazards(seen: Seen) -> None:
    """Asks each question in both types of 16 bits."""
    for dtype in NARROW:
        name = type_name(dtype)
        for group in (meetings, in_place, constants, transforms, decompositions, sparse_and_complex):
            with seen.part(f"{name}_{group.__name__}"):
                seen[f"{name}_{group.__name__}"] = {
                    question: answer(call, *REFUSALS) for question, call in group(dtype).items()
                }
        with seen.part(f"{name}_overflow"):
            seen[f"{name}_overflow"] = overflow(dtype)
        with seen.part(f"{name}_regions"):
            seen[f"{name}_regions"] = regions(dtype)
        with seen.part(f"{name}_own_function"):
            seen[f"{name}_own_function"] = own_function(dtype)


def meetings(dtype: torch.dtype) -> Questions:
    """Where a result in 16 bits meets what is in 32, after the region."""
    wide, narrow = torch.ones(4, 4, device="cuda"), torch.ones(4, 4, device="cuda", dtype=dtype)
    mask, index = wide > 0, torch.tensor([0, 1], device="cuda")

    def write(place: Any) -> Callable[[], object]:
        def written() -> str:
            buffer = torch.zeros(4, 4, device="cuda")
            buffer[place] = narrow[mask] if place is mask else narrow[:2]
            return type_name(buffer.dtype)

        return written

    return {
        "numpy": lambda: str(narrow.cpu().numpy().dtype),
        "matmul": lambda: wide @ narrow,
        "linear": lambda: nn.Linear(4, 4).to("cuda")(narrow),
        "conv2d": lambda: F.conv2d(wide.view(1, 1, 4, 4), narrow.view(1, 1, 4, 4)),
        "add": lambda: wide + narrow,
        "mse_loss": lambda: F.mse_loss(narrow, wide),
        "cross_entropy_alone": lambda: F.cross_entropy(narrow, torch.zeros(4, dtype=torch.long, device="cuda")),
        "cat": lambda: torch.cat([wide, narrow]),
        "where": lambda: torch.where(mask, wide, narrow),
        "write_a_slice": write(slice(0, 2)),
        "write_by_mask": write(mask),
        "write_by_index": write(index),
        "index_copy": lambda: torch.zeros(4, 4, device="cuda").index_copy_(0, index, narrow[:2]),
        "index_add": lambda: torch.zeros(4, 4, device="cuda").index_add_(0, index, narrow[:2]),
        "scatter": lambda: torch.zeros(4, 4, device="cuda").scatter_(0, index[None], narrow[:1, :2]),
        "scatter_add": lambda: torch.zeros(4, 4, device="cuda").scatter_add_(0, index[None], narrow[:1, :2]),
        "masked_scatter": lambda: torch.zeros(4, 4, device="cuda").masked_scatter_(mask, narrow),
        "copy": lambda: torch.zeros(4, 4, device="cuda").copy_(narrow),
        "batch_norm": lambda: nn.BatchNorm1d(4).to("cuda")(narrow),
        "layer_norm": lambda: nn.LayerNorm(4).to("cuda")(narrow),
        "lstm": lambda: nn.LSTM(4, 4).to("cuda")(narrow)[0],
        "attention_of_two_types": lambda: F.scaled_dot_product_attention(wide, narrow, narrow),
        "attention_with_a_wide_mask": lambda: F.scaled_dot_product_attention(narrow, narrow, narrow, attn_mask=wide),
        "normal_distribution": lambda: untyped.distributions.Normal(narrow, narrow).log_prob(wide),
        "categorical_distribution": lambda: untyped.distributions.Categorical(logits=narrow).sample(),
        "binary_cross_entropy": lambda: F.binary_cross_entropy(narrow.sigmoid(), wide),
    }


def in_place(dtype: torch.dtype) -> Questions:
    """Operations that write into an argument, under autocast: it casts no such argument."""
    wide, narrow = torch.ones(4, 4, device="cuda"), torch.ones(4, 4, device="cuda", dtype=dtype)

    def under(call: Callable[[], object]) -> Callable[[], object]:
        def asked() -> object:
            with torch.autocast("cuda", dtype):
                return call()

        return asked

    questions: Questions = {
        "wide_addmm_": lambda: wide.clone().addmm_(wide, wide),
        "wide_addmm_of_narrow": lambda: wide.clone().addmm_(narrow, narrow),
        "narrow_addmm_of_wide": lambda: narrow.clone().addmm_(wide, wide),
        "matmul_out": lambda: torch.mm(wide, wide, out=wide.clone()),
        "matmul_out_of_narrow": lambda: torch.mm(narrow, narrow, out=wide.clone()),
        "wide_add_": lambda: wide.clone().add_(wide @ wide),
        "narrow_add_": lambda: (wide @ wide).add_(wide),
        "narrow_multiply_": lambda: (wide @ wide).mul_(2.0),
        "narrow_divide_": lambda: narrow.clone().div_(wide),
        "write_by_mask": lambda: wide.clone().masked_scatter_(wide > 0, wide @ wide),
        "index_put_of_a_product": lambda: wide.clone().index_put_((wide > 0,), (wide @ wide).flatten()),
        "softmax_in_place": lambda: torch.softmax(wide, -1, out=narrow.clone()),
        "inverse": lambda: torch.linalg.inv(wide @ wide + 5 * torch.eye(4, device="cuda")),
        "fft": lambda: torch.fft.rfft(wide @ wide),
        "view_as_complex": lambda: torch.view_as_complex((wide @ wide).view(8, 2)),
    }
    return {name: under(call) for name, call in questions.items()}


def constants(dtype: torch.dtype) -> Questions:
    """Numbers that the type does not hold."""
    scores = torch.ones(4, 4, device="cuda", dtype=dtype)
    mask = scores > 0
    return {
        "masked_fill_minus_1e9": lambda: scores.masked_fill(mask, -1e9),
        "masked_fill_minus_inf": lambda: scores.masked_fill(mask, float("-inf")),
        "masked_fill_finfo_min": lambda: scores.masked_fill(mask, torch.finfo(dtype).min),
        "where_minus_1e9": lambda: str(torch.where(mask, -1e9, scores)[0, 0].item()),
        "add_minus_1e9": lambda: str((scores + -1e9)[0, 0].item()),
        "epsilon_1e-8": lambda: str((scores * 0 + 1e-8)[0, 0].item()),
        "clamp_min_1e-8": lambda: str((scores * 0).clamp(min=1e-8)[0, 0].item()),
        "full_of_1e9": lambda: str(torch.full((1,), 1e9, dtype=dtype, device="cuda").item()),
        "sum_of_4096_ones": lambda: torch.ones(4096, dtype=dtype, device="cuda").sum().item(),
        "sum_of_70000_ones": lambda: torch.ones(70000, dtype=dtype, device="cuda").sum().item(),
        "mean_of_70000_ones": lambda: torch.ones(70000, dtype=dtype, device="cuda").mean().item(),
        "count_of_70000": lambda: torch.ones(70000, dtype=torch.bool, device="cuda").sum().item(),
        "arange_to_300": lambda: torch.arange(300, dtype=dtype, device="cuda").max().item(),
        "257_as_a_number": lambda: torch.tensor(257.0, device="cuda").to(dtype).item(),
        "exp_of_12": lambda: str((scores * 12).exp()[0, 0].item()),
        "square_of_300": lambda: str((scores * 300).square()[0, 0].item()),
    }


def transforms(dtype: torch.dtype) -> Questions:
    """Fourier transforms and convolutions through them."""
    wave, odd = torch.ones(8, 64, device="cuda", dtype=dtype), torch.ones(8, 60, device="cuda", dtype=dtype)
    return {
        "rfft_64": lambda: torch.fft.rfft(wave),
        "rfft_60": lambda: torch.fft.rfft(odd),
        "fft2_64": lambda: torch.fft.fft2(wave),
        "stft": lambda: torch.stft(wave, 16, window=torch.ones(16, device="cuda", dtype=dtype), return_complex=True),
        "stft_with_a_wide_window": lambda: torch.stft(
            wave, 16, window=torch.ones(16, device="cuda"), return_complex=True
        ),
        "irfft": lambda: torch.fft.irfft(torch.fft.rfft(wave)),
        "view_as_complex": lambda: torch.view_as_complex(wave.view(8, 32, 2)),
        "polar": lambda: torch.polar(wave, wave),
        "to_complex": lambda: wave.to(torch.complex64),
    }


def decompositions(dtype: torch.dtype) -> Questions:
    """``torch.linalg`` and what else runs in libraries without kernels for 16 bits."""
    matrix, label = (torch.eye(4, device="cuda") * 4 + 1).to(dtype), torch.ones(1, 1, dtype=torch.long, device="cuda")
    names = (
        "inv",
        "cholesky",
        "svd",
        "qr",
        "det",
        "slogdet",
        "eigh",
        "pinv",
        "matrix_exp",
        "norm",
        "cond",
        "matrix_rank",
    )
    table: Questions = {f"linalg.{name}": partial(getattr(torch.linalg, name), matrix) for name in names}
    return table | {
        "linalg.solve": lambda: torch.linalg.solve(matrix, matrix),
        "linalg.lstsq": lambda: torch.linalg.lstsq(matrix, matrix),
        "linalg.matrix_power": lambda: torch.linalg.matrix_power(matrix, 3),
        "logdet": lambda: torch.logdet(matrix),
        "quantile": lambda: torch.quantile(matrix, 0.5),
        "median": lambda: torch.median(matrix),
        "histc": lambda: torch.histc(matrix, 4),
        "bincount_weights": lambda: torch.bincount(torch.tensor([0, 1], device="cuda"), weights=matrix[0, :2]),
        "cdist": lambda: torch.cdist(matrix, matrix),
        "pdist": lambda: F.pdist(matrix),
        "multinomial": lambda: torch.multinomial(matrix, 1),
        "ctc_loss": lambda: untyped.nn.functional.ctc_loss(matrix[:, None].log_softmax(-1), label, (4,), (1,)),
        "cov": lambda: torch.cov(matrix),
        "corrcoef": lambda: torch.corrcoef(matrix),
        "kron": lambda: torch.kron(matrix, matrix),
        "grid_sample": lambda: F.grid_sample(matrix.view(1, 1, 4, 4), matrix.view(1, 2, 4, 2), align_corners=False),
        "max_unpool2d": lambda: F.max_unpool2d(
            *F.max_pool2d(matrix.view(1, 1, 4, 4), 2, return_indices=True), kernel_size=[2, 2]
        ),
        "adaptive_max_pool3d": lambda: F.adaptive_max_pool3d(matrix.view(1, 1, 1, 4, 4), 1),
        "lgamma": lambda: torch.lgamma(matrix),
        "bessel_j0": lambda: torch.special.bessel_j0(matrix),
    }


def sparse_and_complex(dtype: torch.dtype) -> Questions:
    """Sparse products, alone and under autocast, and complex numbers under it."""
    wide = torch.eye(4, device="cuda")
    narrow = wide.to(dtype)

    def under(call: Callable[[], object]) -> object:
        with torch.autocast("cuda", dtype):
            return call()

    return {
        "sparse.mm": lambda: torch.sparse.mm(narrow.to_sparse(), narrow),
        "sparse.mm_of_csr": lambda: torch.sparse.mm(narrow.to_sparse_csr(), narrow),
        "wide_sparse.mm_under_autocast": lambda: under(lambda: torch.sparse.mm(wide.to_sparse(), wide)),
        "sparse_matmul_under_autocast": lambda: under(lambda: wide.to_sparse() @ wide),
        "sparse.mm_of_a_product": lambda: under(lambda: torch.sparse.mm(wide.to_sparse(), wide @ wide)),
        "sparse.addmm_under_autocast": lambda: under(lambda: torch.sparse.addmm(wide, wide.to_sparse(), wide)),
        "complex_under_autocast": lambda: under(lambda: wide.to(torch.complex64) @ wide.to(torch.complex64)),
        "complex_times_product": lambda: under(lambda: wide.to(torch.complex64) * (wide @ wide)),
        "einsum_of_complex": lambda: under(
            lambda: torch.einsum("ij,jk->ik", wide.to(torch.complex64), wide.to(torch.complex64))
        ),
    }


def overflow(dtype: torch.dtype) -> dict[str, Any]:
    """Gram matrices, norms and scores of features of usual sizes: whether they stay finite, and how exact they are."""
    torch.manual_seed(0)
    features = torch.rand(2, 512, 1024, device="cuda")
    exact = features.double() @ features.double().mT
    found: dict[str, Any] = {}
    for factor in (1.0, 16.0):
        with torch.autocast("cuda", dtype):
            gram = (factor * features) @ (factor * features).mT
            norm = (factor * features).to(dtype).norm()
            squares = (factor * features).to(dtype).pow(2).sum()
        error = (gram.double() / factor**2 - exact).abs().max() / exact.max()
        found[f"features_times_{factor:g}"] = {
            "gram_finite": bool(gram.isfinite().all()),
            "gram_error": rounded(float(error), 3),
            "norm_finite": bool(norm.isfinite()),
            "squares_finite": bool(squares.isfinite()),
        }
    logits = torch.linspace(-30, 30, 601, device="cuda").to(dtype)
    ones = logits[logits.sigmoid() == 1]
    found["sigmoid_is_1_from"] = rounded(float(ones.min())) if len(ones) else None
    return found


def regions(dtype: torch.dtype) -> dict[str, Any]:
    """What a region keeps: casts of weights that have since changed, casts without a graph, its type in threads."""
    torch.manual_seed(0)
    model, x = nn.Linear(8, 8).to("cuda"), torch.randn(4, 8, device="cuda")
    with torch.autocast("cuda", dtype):
        before = model(x)
        with torch.no_grad():
            model.weight.mul_(2)
            stale = torch.equal(model(x), before)
        stale_with_graph = torch.equal(model(x), before)
    with torch.autocast("cuda", dtype):
        with torch.no_grad():
            model(x)
        model(x).float().sum().backward()
    gradient = model.weight.grad is not None
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 16)).to("cuda")
    states = torch.randn(256, 64, device="cuda")
    with torch.no_grad():
        old = network(states).log_softmax(-1)
        with torch.autocast("cuda", dtype):
            new = network(states).log_softmax(-1)
        ratio = (new.float() - old).exp().sub(1).abs()
    with torch.autocast("cuda", dtype):
        nested = {}
        with torch.autocast("cuda", enabled=False):
            nested["disabled_inside"] = type_name((x @ x.mT).dtype)
        nested["after_it"] = type_name((x @ x.mT).dtype)
    return {
        "weights_stale_under_no_grad": stale,
        "weights_stale_with_a_graph": stale_with_graph,
        "gradient_after_a_forward_without_graph": gradient,
        "ratio_off_by_mean": rounded(float(ratio.mean()), 3),
        "ratio_off_by_most": rounded(float(ratio.max()), 3),
        "nested": nested,
    }


class Product(torch.autograd.Function):
    """A product with a backward pass by hand, as scripts have them."""

    @staticmethod
    def forward(ctx: Any, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """The product."""
        ctx.save_for_backward(left, right)
        return left @ right

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Its two gradients."""
        left, right = ctx.saved_tensors
        return gradient.mm(right.mT), left.mT.mm(gradient)


class CastProduct(Product):
    """As ``Product``, in 32 bits by torch's decorators."""

    forward = staticmethod(untyped.amp.custom_fwd(Product.forward, device_type="cuda", cast_inputs=torch.float32))
    backward = staticmethod(untyped.amp.custom_bwd(Product.backward, device_type="cuda"))


def own_function(dtype: torch.dtype) -> dict[str, Any]:
    """What becomes of a script's own autograd function in a region, plain and with torch's decorators."""

    def trained(function: Any) -> str:
        weight = torch.ones(4, 4, device="cuda", requires_grad=True)
        with torch.autocast("cuda", dtype):
            narrow = weight @ weight
            out = function.apply(narrow, weight)
        untyped.autograd.backward(out.float().sum())
        return type_name(out.dtype)

    return {name: answer(partial(trained, one)) for name, one in (("plain", Product), ("cast", CastProduct))}
