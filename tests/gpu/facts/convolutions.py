"""Convolutional networks: whether bits repeat and depend on the memory format, and what cuDNN's search costs and gains."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from tests.gpu.facts.recording import answer, backward, deterministic, device_ms, once_seconds, rounded, sized

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
cudnn: Any = torch.backends.cudnn
Gradients = list[torch.Tensor]


def network(width: int, size: int, depth: int = 3, *, groups: int = 1) -> nn.Sequential:
    """Convolutions with batch normalization, pooling and a classifier, always with the same weights.

    Args:
        width: Channels.
        size: Of the images, a multiple of four.
        depth: Convolutions after the first.
        groups: Of their channels.
    """
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1, groups=groups, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(width * (size // 4) ** 2, 10)).to("cuda")


def bits_from_run_to_run(seen: Seen) -> None:
    """Without measuring time: equality of gradients under each switch, and the operations that are refused."""
    if not seen.on_cuda("cuDNN's algorithms", "convolutions run on the CPU: every equality here is the CPU's"):
        seen["switches_without_effect_here"] = ["cudnn.deterministic", "cudnn.benchmark", "cudnn.allow_tf32"]
    with seen.part("repeats"):
        seen["gradients_repeat_bitwise"] = {name: repeats(name) for name in SWITCHES}
    with seen.part("formats"):
        seen["channels_last_against_contiguous"] = {name: formats(name) for name in SWITCHES}
    with seen.part("strides"):
        seen["output_is_channels_last"] = layouts()
    with seen.part("views"):
        seen["views"] = views()
    with seen.part("workspace"):
        seen["matmul_when_deterministic_without_workspace_variable"] = answer(matmul_when_deterministic)
    with seen.part("refused"):
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        seen["refused_when_deterministic"] = refused()
    with seen.part("atomics"):
        seen["operations_repeat_bitwise"] = {name: same(call) for name, call in operations().items()}


SWITCHES: dict[str, dict[str, Any]] = {
    "default": {},
    "deterministic": {"deterministic": True},
    "benchmark": {"benchmark": True},
    "without_tf32": {"allow_tf32": False},
    "deterministic_without_tf32": {"deterministic": True, "allow_tf32": False},
}


def set_switches(name: str) -> None:
    """Sets the switches of cuDNN, those that are not named to torch's defaults."""
    for switch, value in ({"deterministic": False, "benchmark": False, "allow_tf32": True} | SWITCHES[name]).items():
        setattr(cudnn, switch, value)


def gradients(
    *, last_weights: bool = False, last_input: bool = False, bf16: bool = False
) -> tuple[torch.Tensor, Gradients]:
    """The output and all gradients of one pass, in one of the memory formats."""
    size = sized(32, 8)
    model = network(sized(64, 8), size)
    x = torch.randn(sized(32, 2), 3, size, size, generator=torch.Generator("cpu").manual_seed(1)).to("cuda")
    if last_weights:
        model = model.to(memory_format=torch.channels_last)
    if last_input:
        x = x.to(memory_format=torch.channels_last)
    with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
        out = model(x)
    out.float().square().mean().backward()
    return out.detach(), [one.grad for one in model.parameters() if one.grad is not None]


def repeats(name: str) -> bool:
    """Whether three passes give the same gradients."""
    set_switches(name)
    results = [gradients() for _ in range(3)]
    set_switches("default")
    return all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0][1], other[1], strict=True))


def formats(name: str) -> dict[str, Any]:
    """Whether channels_last changes output and gradients, and by how much at most."""
    set_switches(name)
    found: dict[str, Any] = {}
    for bf16 in (False, True):
        plain, last = gradients(bf16=bf16), gradients(last_weights=True, last_input=True, bf16=bf16)
        whole, difference = (
            torch.cat([one.flatten() for one in parts]).norm()
            for parts in (plain[1], [a - b for a, b in zip(plain[1], last[1], strict=True)])
        )
        found["bfloat16" if bf16 else "float32"] = {
            "output_equal": torch.equal(plain[0], last[0]),
            "gradients_equal": [torch.equal(a, b) for a, b in zip(plain[1], last[1], strict=True)],
            "output_difference": rounded(float((plain[0] - last[0]).abs().max()), 3),
            "relative_gradient_difference": rounded(float(difference / whole), 3),
        }
    set_switches("default")
    return found


def layouts() -> dict[str, bool]:
    """The format of an activation by that of weights and input."""
    found = {}
    for weights in (False, True):
        for images in (False, True):
            layer, x = nn.Conv2d(3, 8, 3).to("cuda"), torch.randn(2, 3, 8, 8, device="cuda")
            if weights:
                layer = layer.to(memory_format=torch.channels_last)
            if images:
                x = x.to(memory_format=torch.channels_last)
            out = nn.BatchNorm2d(8).to("cuda")(layer(x)).relu()
            name = f"weights {'last' if weights else 'first'}, input {'last' if images else 'first'}"
            found[name] = out.is_contiguous(memory_format=torch.channels_last) and not out.is_contiguous()
    return found


def views() -> dict[str, Any]:
    """What becomes of ``view`` where channels come last, and of weights with five dimensions."""
    x = torch.randn(2, 4, 3, 3, device="cuda").to(memory_format=torch.channels_last)
    return {
        "view": answer(lambda: x.view(2, -1)),
        "reshape": answer(lambda: x.reshape(2, -1)),
        "view_after_pooling_to_one": answer(lambda: F.adaptive_avg_pool2d(x, 1).view(2, -1)),
        "conv3d_weights": answer(
            lambda: type(nn.Conv3d(2, 2, 3).to("cuda").to(memory_format=torch.channels_last)).__name__
        ),
    }


def matmul_when_deterministic() -> str:
    """A matrix product under deterministic algorithms, without the variable that cuBLAS wants."""
    kept = os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    try:
        with deterministic():
            out = torch.ones(8, 8, device="cuda") @ torch.ones(8, 8, device="cuda")
    finally:
        if kept is not None:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = kept
    return f"no exception: {out[0, 0].item():g}"


def operations() -> dict[str, Callable[[], torch.Tensor]]:
    """Operations that may add in any order, each with the gradient or result that would show it."""
    generator = torch.Generator("cpu").manual_seed(0)
    count = sized(100_000, 1000)
    values = torch.randn(count, 8, generator=generator).to("cuda")
    index = torch.randint(0, 50, (count,), generator=generator).to("cuda")
    images = torch.randn(4, 8, 33, 33, generator=generator).to("cuda")
    grid = (2 * torch.rand(4, 50, 50, 2, generator=generator) - 1).to("cuda")

    def gradient(call: Callable[[torch.Tensor], torch.Tensor], leaf: torch.Tensor) -> torch.Tensor:
        leaf = leaf.clone().requires_grad_()
        backward(call(leaf).square().sum())
        assert leaf.grad is not None
        return leaf.grad

    zeros, rows = torch.zeros(50, 8, device="cuda"), index[:, None].expand(-1, 8)
    return {
        "index_add": lambda: zeros.index_add(0, index, values),
        "scatter_add": lambda: zeros.scatter_add(0, rows, values),
        "index_put_accumulate": lambda: zeros.index_put((index,), values, accumulate=True),
        "scatter_reduce_mean": lambda: zeros.scatter_reduce(0, rows, values, "mean"),
        "bincount_with_weights": lambda: torch.bincount(index, values[:, 0]),
        "cumsum": lambda: values.cumsum(0),
        "histc": lambda: torch.histc(values, 20),
        "kthvalue": lambda: values.kthvalue(3, 0).values,
        "median_along": lambda: values.median(0).values,
        "embedding_backward": lambda: gradient(lambda w: F.embedding(index, w), zeros + 1),
        "embedding_bag_backward": lambda: gradient(lambda w: F.embedding_bag(index.view(-1, 10), w), zeros + 1),
        "gather_backward": lambda: gradient(lambda w: w.gather(0, rows), zeros + 1),
        "index_select_backward": lambda: gradient(lambda w: w.index_select(0, index), zeros + 1),
        "indexing_backward": lambda: gradient(lambda w: w[index], zeros + 1),
        "bilinear_backward": lambda: gradient(lambda x: F.interpolate(x, size=(50, 50), mode="bilinear"), images),
        "bicubic_backward": lambda: gradient(lambda x: F.interpolate(x, size=(50, 50), mode="bicubic"), images),
        "nearest_backward": lambda: gradient(lambda x: F.interpolate(x, size=(50, 50)), images),
        "adaptive_avg_pool_backward": lambda: gradient(lambda x: F.adaptive_avg_pool2d(x, 7), images),
        "adaptive_max_pool_backward": lambda: gradient(lambda x: F.adaptive_max_pool2d(x, 7), images),
        "max_pool_backward": lambda: gradient(lambda x: F.max_pool2d(x, 3, 1), images),
        "avg_pool3d_backward": lambda: gradient(lambda x: F.avg_pool3d(x[None], 3), images),
        "reflection_pad_backward": lambda: gradient(lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), images),
        "replication_pad_backward": lambda: gradient(lambda x: F.pad(x, (3, 3, 3, 3), mode="replicate"), images),
        "grid_sample_backward": lambda: gradient(lambda x: F.grid_sample(x, grid, align_corners=False), images),
        "nll_loss_2d": lambda: F.nll_loss(images.log_softmax(1), images.argmax(1)),
        "cross_entropy_backward": lambda: gradient(lambda x: F.cross_entropy(x, index % 8), values),
        "batch_norm_backward": lambda: gradient(lambda x: F.batch_norm(x, None, None, training=True) ** 3, images),
        "attention_backward": lambda: gradient(
            lambda x: F.scaled_dot_product_attention(x, x, x),
            values[: 64 * (count // 64)].view(1, 1, -1, 64)[:, :, :1000],
        ),
        "fold": lambda: F.fold(F.unfold(images, 3), (33, 33), 3),
        "put_accumulate": lambda: zeros.put(index, values[:, 0], accumulate=True),
        "sparse_to_dense": lambda: torch.sparse_coo_tensor(index[None], values, (50, 8)).to_dense(),
    }


def refused() -> dict[str, Any]:
    """Which operations deterministic algorithms refuse, with the text."""
    found = {}
    with deterministic():
        for name, call in operations().items():
            given = answer(call, RuntimeError)
            if "raises" in given:
                found[name] = given["text"]
    return found


def same(call: Callable[[], torch.Tensor]) -> bool:
    """Whether four calls give the same bits."""
    first = call()
    return all(torch.equal(first, call()) for _ in range(3))


def convolution_times(seen: Seen) -> None:
    """Steps of a network in each type and memory format, with and without the search for algorithms."""
    with seen.part("runs"):  # and loads what cuDNN loads once
        for kind in ("float32", "bfloat16"):
            seen[f"runs_in_{kind}"] = answer(step_of(network(8, 8, 1), images_of(2, 8), kind))
    with seen.part("steps"):
        if seen.times_on_cuda("steps"):
            seen["steps"] = {
                f"{kind} {'channels_last' if last else 'contiguous'} benchmark={search}": timed(
                    kind, last=last, search=search
                )
                for kind in ("float32", "bfloat16")
                for last in (False, True)
                for search in (False, True)
            }
    with seen.part("float32_without_tf32"):
        if seen.times_on_cuda("float32_without_tf32"):
            cudnn.allow_tf32 = False
            seen["float32_without_tf32"] = {
                "contiguous": timed("float32", last=False, search=False),
                "channels_last": timed("float32", last=True, search=False),
            }
            cudnn.allow_tf32 = True
    with seen.part("depthwise"):
        if seen.times_on_cuda("depthwise_step_ms"):
            seen["depthwise_step_ms"] = {
                f"{kind} {'channels_last' if last else 'contiguous'}": timed(kind, last=last, search=False, groups=128)[
                    "step_ms"
                ]
                for kind in ("float32", "bfloat16")
                for last in (False, True)
            }


def images_of(batch: int, size: int, *, last: bool = False) -> torch.Tensor:
    """Random images."""
    images = torch.randn(batch, 3, size, size, device="cuda")
    return images.to(memory_format=torch.channels_last) if last else images


def step_of(model: nn.Module, images: torch.Tensor, kind: str) -> Callable[[], str]:
    """One pass forward and backward."""

    def step() -> str:
        model.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=kind == "bfloat16"):
            out = model(images)
        out.float().square().mean().backward()
        return "trained"

    return step


def timed(kind: str, *, last: bool, search: bool, groups: int = 1) -> dict[str, float]:
    """Seconds of the first steps on each of several shapes, milliseconds of those after them."""
    cudnn.benchmark = search
    untyped.cuda.reset_peak_memory_stats()
    model: nn.Module = network(128, 32, 4, groups=groups)
    if last:
        model = model.to(memory_format=torch.channels_last)
    found = {}
    for name, batch in (("first", 64), ("smaller_batch", 37)):
        step = step_of(model, images_of(batch, 32, last=last), kind)
        found[f"{name}_step_seconds"] = once_seconds(step)
        found[f"{name}_second_step_seconds"] = once_seconds(step)
    found["step_ms"] = device_ms(step_of(model, images_of(64, 32, last=last), kind), repeats=5, inner=3)
    found["peak_mib"] = rounded(untyped.cuda.max_memory_allocated() / 2**20)
    cudnn.benchmark = False
    return found
