"""Which calls make the host wait for the device: by torch's own warning, and by the clock while the device is busy."""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from tests.gpu.facts.recording import backward, is_simulated, rounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.facts.recording import Seen

untyped: Any = torch
Calls = dict[str, "Callable[[], object]"]
BUSY_MS = 10
CYCLES = 2_000_000
"""Of a millisecond of the device, at its highest clock."""


def synchronizing_calls(seen: Seen) -> None:
    """For each call: how many warnings torch gives, and how long the host is kept while the device is busy."""
    calls: Calls = {}
    for group in (readings, transfers, indices, creations, images, training, layers):
        with seen.part(group.__name__):
            calls |= group()
    seen.on_cuda("Adam capturable.step", "capturable optimizers want their parameters on a real device")
    real = seen.on_cuda("synchronizes", "the simulated device computes while it is asked, so that nothing waits")
    found: dict[str, Any] = {}
    if real:
        seen["busy_ms"], seen["synchronizes"] = BUSY_MS, found
    else:
        seen["calls"] = sorted(calls)
    for name, call in calls.items():
        with seen.part(name):
            call()  # what is loaded and allocated once is not to count
            call()
            if real:
                found[name] = looked_at(call)


def looked_at(call: Callable[[], object]) -> dict[str, Any]:
    """Both looks at a call."""
    cuda = untyped.cuda
    cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            cuda.set_sync_debug_mode("default")
    cuda.synchronize()
    cuda._sleep(BUSY_MS * CYCLES)
    start = time.perf_counter()
    call()
    milliseconds = 1000 * (time.perf_counter() - start)
    cuda.synchronize()
    count = sum("called a synchronizing CUDA operation" in str(one.message) for one in caught)
    return {"warnings": count, "host_ms": rounded(milliseconds, 3), "waits": milliseconds > BUSY_MS / 2}


def readings() -> Calls:
    """What reads a value on the host."""
    loss, many = torch.ones((), device="cuda"), torch.arange(8.0, device="cuda")

    def printed(value: object) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            print(value)

    return {
        "nothing": lambda: many + 1,
        "item": loss.item,
        "float(loss)": lambda: float(loss),
        "int(count)": lambda: int((many > 3).sum()),
        "bool(loss > x)": lambda: bool(loss > 0.5),
        "if isnan(loss)": lambda: 1 if torch.isnan(loss) else 0,
        "print(loss)": lambda: printed(loss),
        "f-string of loss": lambda: f"{loss:.3f}",
        "f-string of loss.detach()": lambda: f"{loss.detach()}",
        "tolist": many.tolist,
        "cpu": loss.cpu,
        "cpu().numpy()": lambda: many.cpu().numpy(),
        "sum().item()": lambda: (many == 3).sum().item(),
        "torch.equal": lambda: torch.equal(many, many.clone()),
        "torch.allclose": lambda: torch.allclose(many, many.clone()),
        "all() in if": lambda: 1 if (many > 0).all() else 0,
        "in": lambda: 3 in many,
        "iteration": lambda: [one + 1 for one in many],
        "unpacking max": lambda: many.max(0),
        "len and shape": lambda: (len(many), many.shape, many.numel()),
        "detach and append": lambda: [loss.detach()],
        "format of a float64 sum": lambda: loss.double() * 64,
    }


def transfers() -> Calls:
    """What moves between host and device."""
    host, device = torch.ones(1024), torch.ones(1024, device="cuda")
    large, pinned = torch.ones(2**20), torch.ones(1024).pin_memory()
    return {
        "to device, pageable": lambda: host.to("cuda"),
        "to device, pageable, non_blocking": lambda: host.to("cuda", non_blocking=True),
        "to device, 4 MiB pageable, non_blocking": lambda: large.to("cuda", non_blocking=True),
        "to device, pinned": lambda: pinned.to("cuda"),
        "to device, pinned, non_blocking": lambda: pinned.to("cuda", non_blocking=True),
        "to host": lambda: device.to("cpu"),
        "to host, non_blocking": lambda: device.to("cpu", non_blocking=True),
        "copy_ from host": lambda: device.copy_(host),
        "pin_memory": host.pin_memory,
        "torch.tensor(number, device)": lambda: torch.tensor(3.0, device="cuda"),
        "torch.tensor(list, device)": lambda: torch.tensor([1, 2, 3], device="cuda"),
        "torch.tensor(list).to(device)": lambda: torch.tensor([1, 2, 3]).to("cuda"),
        "torch.as_tensor(array, device)": lambda: torch.as_tensor(np.ones(8), device="cuda"),
        "number times host scalar tensor": lambda: device * torch.tensor(2.0),
        "host scalar tensor to device": lambda: torch.tensor(2.0).to("cuda"),
    }


def indices() -> Calls:
    """What selects, and so may have to know how much."""
    x, rows = torch.arange(64.0, device="cuda"), torch.ones(8, 8, device="cuda")
    mask, index, host = x > 30, torch.arange(4, device="cuda"), torch.arange(4)

    def assigned(place: Any, value: Any) -> Callable[[], None]:
        def assign() -> None:
            x.clone()[place] = value

        return assign

    return {
        "nonzero": mask.nonzero,
        "torch.where(mask)": lambda: torch.where(mask),
        "torch.where(mask, a, b)": lambda: torch.where(mask, x, 0.0),
        "x[mask]": lambda: x[mask],
        "x[mask] = number": assigned(mask, 0.0),
        "x[mask] = tensor": assigned(mask, torch.zeros((), device="cuda")),
        "masked_fill": lambda: x.masked_fill(mask, 0.0),
        "masked_select": lambda: x.masked_select(mask),
        "x[index]": lambda: x[index],
        "x[host index]": lambda: x[host],
        "x[list]": lambda: x[[0, 1]],
        "x[array]": lambda: x[np.arange(4)],
        "x[index] = number": assigned(index, 0.0),
        "x[0] = number": assigned(0, 5.0),
        "x[1:3] = number": assigned(slice(1, 3), 5.0),
        "x[0]": lambda: x[0],
        "x[device scalar]": lambda: x[index[1]],
        "slice by device scalar": lambda: x[: index[3]],
        "unique": lambda: torch.unique(x),
        "bincount": lambda: torch.bincount(index),
        "bincount with minlength": lambda: torch.bincount(index, minlength=8),
        "histc": lambda: torch.histc(x, 8),
        "one_hot": lambda: F.one_hot(index),
        "one_hot with classes": lambda: F.one_hot(index, 8),
        "repeat_interleave": lambda: torch.repeat_interleave(x[:4], index),
        "repeat_interleave with output_size": lambda: torch.repeat_interleave(x[:4], index, output_size=6),
        "split by sizes": lambda: torch.split(x, [32, 32]),
        "split by device tensor": lambda: torch.split(x, (index[:2] * 0 + 32).tolist()),
        "sort, topk, argmax": lambda: (x.sort(), x.topk(3), x.argmax()),
        "scatter, gather": lambda: rows.gather(0, index[None].repeat(2, 1)),
        "multinomial": lambda: torch.multinomial(rows, 2),
        "randperm": lambda: torch.randperm(64, device="cuda"),
        "quantile": lambda: torch.quantile(x, 0.5),
        "linalg.inv": lambda: torch.linalg.inv(rows + torch.eye(8, device="cuda")),
        "linalg.cholesky": lambda: torch.linalg.cholesky(torch.eye(8, device="cuda")),
        "linalg.svd": lambda: torch.linalg.svd(rows),
        "to_sparse": rows.to_sparse,
    }


def creations() -> Calls:
    """Tensors that are made on the device, distributions among them."""
    logits = torch.zeros(8, device="cuda")
    return {
        "zeros, full, arange, eye": lambda: (torch.zeros(8, device="cuda"), torch.full((8,), 2.0, device="cuda")),
        "arange of a device scalar": lambda: torch.arange(int(logits.sum()) + 3, device="cuda"),
        "zeros_like, new_zeros": lambda: (torch.zeros_like(logits), logits.new_zeros(3)),
        "new_tensor": lambda: logits.new_tensor([1.0, 2.0]),
        "randn, rand": lambda: (torch.randn(8, device="cuda"), torch.rand(8, device="cuda")),
        "Normal": lambda: untyped.distributions.Normal(logits, 1.0).sample(),
        "Normal without validation": lambda: untyped.distributions.Normal(logits, 1.0, validate_args=False).sample(),
        "Categorical": lambda: untyped.distributions.Categorical(logits=logits).sample(),
        "Categorical without validation": lambda: untyped.distributions.Categorical(
            logits=logits, validate_args=False
        ).sample(),
        "cuda.get_rng_state": untyped.cuda.get_rng_state,
        "manual_seed": lambda: torch.manual_seed(0),
        "empty_cache": untyped.cuda.empty_cache,
        "memory_allocated": untyped.cuda.memory_allocated,
        "mem_get_info": untyped.cuda.mem_get_info,
        "synchronize": untyped.cuda.synchronize,
    }


def training() -> Calls:
    """Parts of a training step."""
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to("cuda")
    x, y = torch.ones(8, 16, device="cuda"), torch.zeros(8, dtype=torch.long, device="cuda")
    backward(F.cross_entropy(model(x), y))
    parameters = list(model.parameters())
    kept = [parameter.grad for parameter in parameters]

    def with_gradients(call: Callable[[], object]) -> Callable[[], object]:
        def called() -> object:
            for parameter, gradient in zip(parameters, kept, strict=True):
                parameter.grad = gradient
            return call()

        return called

    def scaled(name: str, **options: Any) -> Callable[[], object]:
        optimizer, scaler = getattr(torch.optim, name)(parameters, lr=0.0, **options), untyped.amp.GradScaler("cuda")

        def step() -> None:
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16):
                loss = F.cross_entropy(model(x), y)
            backward(scaler.scale(loss))
            scaler.step(optimizer)
            scaler.update()

        return step

    optimizers: dict[str, tuple[str, dict[str, Any]]] = {
        "Adam": ("Adam", {}),
        "Adam foreach": ("Adam", {"foreach": True}),
        "Adam fused": ("Adam", {"fused": True}),
        "AdamW": ("AdamW", {}),
        "SGD": ("SGD", {}),
        "SGD fused": ("SGD", {"fused": True}),
        "RMSprop": ("RMSprop", {}),
        "NAdam": ("NAdam", {}),
        "Adagrad": ("Adagrad", {}),
        "Adafactor": ("Adafactor", {}),
    }
    if not is_simulated():
        optimizers["Adam capturable"] = "Adam", {"capturable": True}
    steps = {
        f"{name}.step": with_gradients(getattr(torch.optim, kind)(parameters, lr=1e-6, **options).step)
        for name, (kind, options) in optimizers.items()
    }
    clip = nn.utils.clip_grad_norm_
    return steps | {
        "forward": lambda: model(x),
        "forward and backward": lambda: backward(F.cross_entropy(model(x), y)),
        "autocast forward and backward": autocast_step(model, x, y),
        "clip_grad_norm_": with_gradients(lambda: clip(parameters, 1.0)),
        "clip_grad_norm_ that refuses infinity": with_gradients(lambda: clip(parameters, 1.0, error_if_nonfinite=True)),
        "clip_grad_value_": with_gradients(lambda: nn.utils.clip_grad_value_(parameters, 1.0)),
        "zero_grad": model.zero_grad,
        "GradScaler with SGD": scaled("SGD"),
        "GradScaler with Adam": scaled("Adam"),
        "GradScaler with fused Adam": scaled("Adam", fused=True),
        "GradScaler with fused SGD": scaled("SGD", fused=True),
        "GradScaler.get_scale": used_scaler().get_scale,
        "AveragedModel.update_parameters": averaged(model),
        "state_dict": model.state_dict,
        "cross_entropy with class weights": lambda: F.cross_entropy(model(x), y, weight=torch.ones(4, device="cuda")),
    }


def autocast_step(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], object]:
    """Forward and backward in bf16."""

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        backward(loss)

    return step


def used_scaler() -> Any:
    """A scaler whose scale is on the device."""
    scaler = untyped.amp.GradScaler("cuda")
    scaler.scale(torch.ones(1, device="cuda"))
    return scaler


def averaged(model: nn.Module) -> Callable[[], object]:
    """The update of torch's averaged model."""
    swa = untyped.optim.swa_utils
    average = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.999))
    return lambda: average.update_parameters(model)


def images() -> Calls:
    """Images that came as bytes, and are normalised on the device: by torchvision's transform, and without it."""
    batch = torch.ones(4, 3, 16, 16, dtype=torch.uint8, device="cuda")
    given = ((0.49, 0.48, 0.45), (0.2, 0.2, 0.3))
    normalize = import_module("torchvision.transforms").Normalize(*given)
    mean, std = (torch.tensor(each, device="cuda").view(-1, 1, 1) for each in given)
    return {
        "transforms.Normalize of a batch": lambda: normalize(batch.float().div_(255)),
        "sub_ and div_ by tensors": lambda: batch.float().div_(255).sub_(mean).div_(std),
        "sub_ and div_ by numbers": lambda: batch.float().div_(255).sub_(0.5).div_(0.25),
    }


def layers() -> Calls:
    """Layers of which it is not obvious."""
    x, rows = torch.ones(5, 4, 16, device="cuda"), torch.ones(8, 16, device="cuda")
    images = torch.ones(2, 4, 8, 8, device="cuda")
    norm, lstm, drop = nn.BatchNorm1d(16).to("cuda"), nn.LSTM(16, 8).to("cuda"), nn.Dropout(0.5)
    attention = nn.MultiheadAttention(16, 2).to("cuda")
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1).to("cuda")
    padding = torch.zeros(5, 4, dtype=torch.bool, device="cuda")
    bounded = nn.Embedding(8, 4, max_norm=1.0).to("cuda")
    index, lengths = torch.arange(4, device="cuda"), torch.tensor([5, 4, 3, 2])
    scores, targets = (
        torch.zeros(6, 2, 5, device="cuda").log_softmax(-1),
        torch.ones(2, 3, dtype=torch.long, device="cuda"),
    )

    def evaluated() -> None:
        with torch.no_grad():
            encoder.eval()(x, src_key_padding_mask=padding)

    def checkpointed() -> None:
        leaf = rows.clone().requires_grad_()
        untyped.utils.checkpoint.checkpoint(lambda one: drop(one) * 2, leaf, use_reentrant=False).sum().backward()

    return {
        "BatchNorm": lambda: norm(rows),
        "dropout": lambda: drop(rows),
        "LSTM": lambda: lstm(x),
        "packed LSTM": lambda: lstm(nn.utils.rnn.pack_padded_sequence(x, lengths)),
        "MultiheadAttention": lambda: attention(x, x, x, key_padding_mask=padding.mT),
        "encoder in training": lambda: encoder.train()(x, src_key_padding_mask=padding),
        "encoder in eval without graph, padded": evaluated,
        "embedding with max_norm": lambda: bounded(index),
        "checkpoint": checkpointed,
        "interpolate": lambda: F.interpolate(images, scale_factor=2),
        "adaptive pooling": lambda: F.adaptive_avg_pool2d(images, 1),
        "ctc_loss with lists": lambda: untyped.nn.functional.ctc_loss(scores, targets, (6, 6), (3, 3)),
        "ctc_loss with device lengths": lambda: untyped.nn.functional.ctc_loss(
            scores, targets, index[:2] * 0 + 6, index[:2] * 0 + 3
        ),
        "anomaly mode": anomalous,
    }


def anomalous() -> None:
    """A backward pass that looks for NaN."""
    with torch.autograd.detect_anomaly(check_nan=True):
        backward(torch.ones(4, device="cuda", requires_grad=True).square().sum())
