"""CUDA streams: what makes another one current, and what makes one wait for another."""

from __future__ import annotations

ENTERS_STREAM = frozenset({"torch.cuda.stream", "torch.cuda.StreamContext", "torch.cuda.Stream", "torch.Stream"})
"""What a ``with`` statement is given that runs its block on another stream."""
SETS_STREAM = frozenset({"torch.cuda.set_stream", "torch.accelerator.set_stream"})
WAITS_FOR_STREAM = frozenset({"wait_stream", "wait_event", "wait", "synchronize"})
"""Methods and functions after which a stream, or the host, has what was queued on another."""
CURRENT_STREAM = frozenset({"torch.cuda.current_stream", "torch.cuda.default_stream"})
"""What returns the stream on which code runs that names none."""
