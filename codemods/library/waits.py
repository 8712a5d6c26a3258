"""What makes the host wait until a device has computed, as it wants the numbers; and which clocks would show it."""

from __future__ import annotations

from codemods.dataflow.names import words

READ_BY_METHODS = words("item tolist cpu numpy")
"""Methods of tensors whose result is on the host."""
READ_BY_BUILTINS = frozenset(f"builtins.{name}" for name in words("float int bool str print format repr"))
"""Built-in functions that want the numbers of a tensor that they are given."""
SIZED_BY_NUMBERS = words("nonzero unique masked_select argwhere unique_consecutive")
"""Operators whose result has as many elements as the numbers say, and which the host therefore waits for."""
SYNCHRONIZES = words("torch.cuda.synchronize torch.equal torch.allclose torch.xpu.synchronize torch.mps.synchronize")
CLOCKS = words(
    """
    time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic time.monotonic_ns time.process_time
    time.clock timeit.default_timer datetime.datetime.now datetime.datetime.utcnow torch.cuda.Event torch.Event
    """
)
"""What code measures time with."""
