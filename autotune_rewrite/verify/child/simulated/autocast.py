"""Mixed precision: autocast on the CPU casts as CUDA's does, and a gradient scaler scales there."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from .presence import is_device, tensors, untyped

if TYPE_CHECKING:
    from collections.abc import Callable

LOWER_PRECISION = """
    _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
    prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
    _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    _scaled_dot_product_flash_attention scaled_dot_product_attention
""".split()  # noqa: SIM905 - a table
"""AT_FORALL_LOWER_PRECISION_FP: CUDA's autocast runs them in 16 bits."""
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""So does it cuDNN's recurrent networks, which these are on CUDA."""
WIDEST = """
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
""".split()  # noqa: SIM905 - a table
"""AT_FORALL_PROMOTE: it runs them in the widest type among their arguments."""
BANNED = "binary_cross_entropy"
"""It refuses this one. Everything else that it knows, it runs in 32 bits."""
UNSAFE = """\
torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast."""
ONLY_ON_CPU = (
    *("fft_", "linalg_", "cholesky_", "lu_", "stft", "inverse", "pinverse", "geqrf", "orgqr", "ormqr", "svd"),
    *("triangular_solve", "quantile", "nanquantile", "polar", "view_as_complex", "index_copy", "cross_entropy_loss"),
)
"""What the CPU's autocast casts to 32 bits and CUDA's leaves alone, so that 16-bit arguments are an error there."""


def use_cuda_autocast_lists() -> object:
    """Gives autocast on the CPU the operations that CUDA's has: what is cast, widened, left alone and forbidden.

    Returns:
        What has to be kept alive: the registrations end with it.
    """
    library = untyped.library.Library("aten", "IMPL")
    on_cpu, on_cuda = (
        {name.partition("::")[2] for name in torch._C._dispatch_get_registrations_for_dispatch_key(key)}  # noqa: SLF001
        for key in ("AutocastCPU", "AutocastCUDA")
    )
    recurrent = {f"{name}.{form}" for name in RECURRENT for form in ("input", "data")}
    for name in sorted(on_cuda | recurrent):
        operation, _, overload = name.partition(".")
        if operation in LOWER_PRECISION and name in on_cpu:
            continue  # the CPU's kernel does the same, and keeps what it cast for the next time
        packet = getattr(torch.ops.aten, operation, None)
        if packet is not None and (overload or "default") in packet.overloads():
            library.impl(name, cast_arguments(operation, getattr(packet, overload or "default")), "AutocastCPU")
    for name in sorted(on_cpu - on_cuda):
        if name.startswith(ONLY_ON_CPU):
            library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")
    return library


def cast_arguments(operation: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """What autocast does before an operation.

    Args:
        operation: Its name.
        run: The operation itself.
    """
    autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)  # noqa: SLF001 - as torch.library does it

    def cast(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on
        if operation == BANNED:
            raise RuntimeError(UNSAFE)
        given = (args, kwargs)
        found = {value.dtype for value in tensors(given) if value.is_floating_point()}
        wanted: torch.dtype | None = torch.float32
        if operation in LOWER_PRECISION or operation in RECURRENT:
            wanted = torch.get_autocast_dtype("cpu")
        elif operation in WIDEST:
            wanted = torch.float32 if torch.float32 in found else None
        elif any(isinstance(value, torch.dtype) for value in (*args, *kwargs.values())):
            wanted = None  # the script says itself in which type it wants a sum
        with torch._C._ExcludeDispatchKeyGuard(autocast):  # noqa: SLF001 - as torch.library does it
            return run(*as_type(args, wanted), **as_type(kwargs, wanted))

    return cast


def as_type(values: Any, wanted: torch.dtype | None) -> Any:  # noqa: ANN401 - any nest of arguments
    """The values with their floating point tensors in the wanted type, but for those of 64 bits."""
    if wanted is None:
        return values
    if isinstance(values, torch.Tensor):
        return values.to(wanted) if values.is_floating_point() and values.dtype is not torch.float64 else values
    if isinstance(values, dict):
        return {name: as_type(value, wanted) for name, value in values.items()}
    if isinstance(values, (tuple, list)):
        return type(values)(as_type(value, wanted) for value in values)
    return values


def mirror_autocast() -> None:
    """Lets autocast on "cuda" switch on the CPU's, too: torch itself keeps the state of both."""
    autocast, module = untyped.autocast, untyped.amp.autocast_mode
    enter, leave, cast = autocast.__enter__, autocast.__exit__, module._cast  # noqa: SLF001 - custom_fwd casts with it

    @functools.wraps(enter)
    def __enter__(self: Any) -> Any:  # noqa: ANN401, N807 - as there
        if self.device == "cuda":
            self.before = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
            torch.set_autocast_enabled("cpu", self._enabled)
            torch.set_autocast_dtype("cpu", self.fast_dtype)
        return enter(self)

    @functools.wraps(leave)
    def __exit__(self: Any, *error: object) -> Any:  # noqa: ANN401, N807 - as there
        if self.device == "cuda":
            enabled, dtype = self.before
            torch.set_autocast_enabled("cpu", enabled)
            torch.set_autocast_dtype("cpu", dtype)
        return leave(self, *error)

    autocast.__enter__, autocast.__exit__ = __enter__, __exit__
    module._cast = lambda value, device, dtype: cast(value, "cpu" if device == "cuda" else device, dtype)  # noqa: SLF001


def scale_on_cpu() -> None:
    """Lets a gradient scaler for "cuda" scale gradients on the CPU."""
    scaler = untyped.amp.GradScaler
    create = scaler.__init__

    @functools.wraps(create)
    def __init__(self: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807 - as there
        create(self, "cpu" if is_device(device) else device, *args, **kwargs)

    scaler.__init__ = __init__
