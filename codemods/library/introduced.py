"""Since which torch there is what: names by which a script shows that it was written for torch 2."""

from __future__ import annotations

_NAMES = """
2.0  torch.compile torch.set_default_device torch.func torch._dynamo torch._inductor torchvision.transforms.v2
2.0  torch.nn.functional.scaled_dot_product_attention torch.backends.cuda.sdp_kernel
2.0  torch.backends.cuda.enable_flash_sdp torch.backends.cuda.enable_mem_efficient_sdp
2.0  torch.backends.cuda.enable_math_sdp torch.mps torch.optim.lr_scheduler.LRScheduler
2.1  torch.compiler torch.export torch.nn.Module.compile torch.nn.utils.parametrizations.weight_norm
2.2  torch.distributed.device_mesh
2.3  torch.amp.GradScaler torch.get_default_device torch.nn.attention
2.4  torch.nn.RMSNorm torch.nn.functional.rms_norm torch.amp.custom_fwd torch.amp.custom_bwd
2.5  torch.nn.Buffer torch.nn.attention.flex_attention torch.optim.Adafactor
2.6  torch.accelerator
"""


def introduced(name: str) -> tuple[int, int]:
    """The first torch that has what the qualified name stands for; (0, 0) where that is not known to be a late one."""
    parts = name.split(".")
    prefixes = (".".join(parts[: index + 1]) for index in range(len(parts)))
    return max((_INTRODUCED.get(each, (0, 0)) for each in prefixes), default=(0, 0))


def names() -> frozenset[str]:
    """All names of the table."""
    return frozenset(_INTRODUCED)


_INTRODUCED = {
    name: (int(version.partition(".")[0]), int(version.partition(".")[2]))
    for version, *some in map(str.split, _NAMES.strip().splitlines())
    for name in some
}
