"""What torch and Python offer to look into a run: checks of gradients, profilers, clocks, readings of memory."""

from __future__ import annotations

import enum

from codemods.dataflow.names import words


class Diagnosis(enum.Enum):
    """What looks into a run."""

    ANOMALY = "anomaly detection"
    PROFILE = "a profiler"
    MARKS = "marks for another profiler"
    HISTORY = "the history of memory"
    COMPARISON = "gradients are compared with differences"


_ANOMALY = "torch.autograd.set_detect_anomaly torch.autograd.anomaly_mode.set_detect_anomaly"
_ANOMALY_BLOCK = "torch.autograd.detect_anomaly torch.autograd.anomaly_mode.detect_anomaly"
_DIAGNOSES = {
    Diagnosis.ANOMALY: words(f"{_ANOMALY} {_ANOMALY_BLOCK}"),
    Diagnosis.PROFILE: words("torch.profiler.profile torch.profiler.profiler.profile torch.autograd.profiler.profile"),
    Diagnosis.MARKS: words("torch.autograd.profiler.emit_nvtx torch.autograd.profiler.emit_itt"),
    Diagnosis.HISTORY: words("torch.cuda.memory._record_memory_history torch.cuda._record_memory_history"),
    Diagnosis.COMPARISON: words(
        """
        torch.autograd.gradcheck torch.autograd.gradcheck.gradcheck
        torch.autograd.gradgradcheck torch.autograd.gradcheck.gradgradcheck
        """
    ),
}
_BY_NAME = {name: each for each, names in _DIAGNOSES.items() for name in names}
_SWITCHES = {
    **dict.fromkeys(words(_ANOMALY), "mode"),
    "torch.autograd.profiler.profile": "enabled",
    **dict.fromkeys(_DIAGNOSES[Diagnosis.MARKS], "enabled"),
}

ASKS_FOR_ANOMALY = words("torch.is_anomaly_enabled torch.is_anomaly_check_nan_enabled")
"""Functions that say whether anomaly detection is on."""
HANDS_ON_PROFILE = words("on_trace_ready schedule execution_trace_observer")
"""Arguments by which a profiler is told what to do with what it records."""
READS_HISTORY = words("_snapshot _dump_snapshot _save_segment_usage _save_memory_usage memory_snapshot")
"""Functions of ``torch.cuda.memory`` that read the history of memory."""
RUNS_A_MODEL = words(
    """
    torchinfo.summary torchsummary.summary torchsummaryX.summary torchkeras.summary pytorch_model_summary.summary
    modelsummary.summary torchscan.summary thop.profile ptflops.get_model_complexity_info torchstat.stat
    torchprofile.profile_macs calflops.calculate_flops fvcore.nn.FlopCountAnalysis fvcore.nn.flop_count
    torchview.draw_graph
    """
)
"""Functions that run a model once to describe it: its layers, and how much they compute."""
LAUNCHES_BLOCK = "CUDA_LAUNCH_BLOCKING"
"""The environment variable that makes the host wait for each kernel."""

_CLOCKS = words(
    """
    time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic time.monotonic_ns time.process_time
    time.process_time_ns time.clock timeit.default_timer timeit.timeit timeit.repeat timeit.Timer
    datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today
    torch.cuda.Event torch.Event torch.utils.benchmark.Timer
    """
)


def diagnosis(name: str) -> Diagnosis | None:
    """What the function or class of that qualified name looks into."""
    return _BY_NAME.get(name)


def switch(name: str) -> str | None:
    """The first parameter of it, where that says whether it is on."""
    return _SWITCHES.get(name)


def reads_clock(name: str) -> bool:
    """Whether the function or class of that qualified name reads a clock, or times what it is given."""
    return name in _CLOCKS or diagnosis(name) in {Diagnosis.PROFILE, Diagnosis.MARKS}


def names() -> frozenset[str]:
    """All functions and classes that look into a run, or read a clock."""
    return frozenset(_BY_NAME) | _CLOCKS | ASKS_FOR_ANOMALY
