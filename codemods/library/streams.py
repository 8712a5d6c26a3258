"""CUDA streams: what makes another one current, and what makes one wait for another."""

from __future__ import annotations

from codemods.dataflow.names import words

ENTERS_STREAM = frozenset({"torch.cuda.stream", "torch.cuda.StreamContext", "torch.cuda.Stream", "torch.Stream"})
"""What a ``with`` statement is given that runs its block on another stream."""
SETS_STREAM = frozenset({"torch.cuda.set_stream", "torch.accelerator.set_stream"})
WAITS_FOR_STREAM = frozenset({"wait_stream", "wait_event", "wait", "synchronize"})
"""Methods and functions after which a stream, or the host, has what was queued on another."""
CURRENT_STREAM = frozenset({"torch.cuda.current_stream", "torch.cuda.default_stream"})
"""What returns the stream on which code runs that names none."""
CAPTURES = frozenset({"torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables"}) | {
    "torch.cuda.graphs.graph",
    "torch.cuda.graphs.CUDAGraph",
}
"""What captures work as a CUDA graph."""
_OWN_STREAMS = words("cudf cupy cuda jax numba nvidia pycuda rmm taichi tensorflow tensorrt torch_tensorrt warp")


def has_own_streams(package: str) -> bool:
    """Whether the package of that dotted name queues work on CUDA streams of its own."""
    return package.partition(".")[0] in _OWN_STREAMS
