from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.gpu.facts import FACTS, Fact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
SECONDS = 350
"""For all facts, of the half-hour in which a GPU is at hand."""
TIMES = re.compile(r"_ms\b|\bms\b|seconds|tflops|gigabytes|\bmib\b")
"""What stands in the name of a time, or of another figure that only a device can give."""
MIXED = "mix of the legacy and new APIs"
FORKED = "Cannot re-initialize CUDA in forked subprocess"

KEYS = {
    "device-and-copies": {
        *("versions", "name", "capability", "accelerator", "limits", "values_arrive", "pinning"),
        "prefetched_values_arrive",
    },
    "float32-precision": {"defaults", "switches_high", "errors_highest", "errors_of_16_bits", "after_new_ieee_for_all"},
    "autocast-dtypes": {
        "results_under_bfloat16_from_float32_and_from_bfloat16",
        "results_under_float16_from_float32_and_from_float16",
        "binary_cross_entropy",
    },
    "sixteen-bit-hazards": {
        f"{dtype}_{group}"
        for dtype in ("bfloat16", "float16")
        for group in ("meetings", "in_place", "constants", "transforms", "decompositions", "overflow", "regions")
    },
    "recurrent-networks": {"under_bfloat16", "packed", "refusals", "weights", "gradients_repeat_bitwise"},
    "grad-scaler": {"settings", "tiny", "overflowing", "growth", "misuse", "norms", "fused", "resumed"},
    "optimizer-forms": {"numerics", "default_form", "clipping", "averages", "refusals"},
    "bits-and-draws": {
        *("gradients_repeat_bitwise", "channels_last_against_contiguous", "output_is_channels_last"),
        *("refused_when_deterministic", "operations_repeat_bitwise", "dropout_masks_equal", "sums"),
    },
    "convolution-times": {"runs_in_float32", "runs_in_bfloat16"},
    "attention-kernels": {"enabled", "differences_float32", "differences_bfloat16", "edges", "encoder_fast_path"},
    "steps-and-syncs": {"calls", "small_habits", "large_habits", "anomaly_text", "conversions_equal"},
    "loaders-and-device": {
        *("pinned_with_0_workers", "pinned_with_1_workers", "forked_workers"),
        *("losses_equal_to_the_plain_loader", "losses_equal_when_read_at_the_end"),
    },
    "worker-start": {"batches"},
    "compile-again": {"in_place", "train_and_eval", "batches", "lengths", "attributes", "counted", "legacy"},
    "compile-hazards": {"double_backward"},
    "compile-warm-up": {"networks"},
}
"""What each fact says without a GPU, at least."""
NEEDS_CUDA = {
    "device-and-copies": {"allocator", "pinned_gib", "host_waits_for_a_busy_device", "copy_ms", "prefetching_ms"},
    "float32-precision": {"errors_high", "tflops"},
    "recurrent-networks": {"ctc_loss"},
    "optimizer-forms": {"step_ms"},
    "bits-and-draws": {"streams", "fills_differ_by", "same_draws_on_host_and_device"},
    "convolution-times": {"steps", "depthwise_step_ms"},
    "attention-kernels": {"chosen", "forward_and_backward"},
    "steps-and-syncs": {"synchronizes", "small_step_ms", "profiled_step_ms"},
    "loaders-and-device": {"pass_ms"},
    "worker-start": {"fork_seconds", "spawn_seconds", "forkserver_seconds"},
    "compile-hazards": {"reduce_overhead", "dropout_masks_equal_eager", "newer_tf32_switch"},
    "compile-warm-up": {"cold"},
}
"""What it says that it cannot say."""


MODULE = ("-m", "tests.gpu.facts")
PROGRAM = f"""\
import runpy
import sys

if __name__ == "__main__":
    sys.path[0] = {str(ROOT)!r}
    runpy.run_module({MODULE[1]!r}, run_name="__main__")
"""
"""The same as a file."""


def ask(*arguments: str, program: tuple[str, ...] = MODULE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture(scope="session")
def forking_program(forking: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What asks in a fork of a process that has imported torch."""
    path = tmp_path_factory.mktemp("facts") / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return forking(path)


def names(value: Any) -> Iterator[str]:
    """All names in nested objects."""
    for name, one in value.items() if isinstance(value, dict) else ():
        yield name
        yield from names(one)
    for one in value if isinstance(value, list) else ():
        yield from names(one)


def test_facts_have_names_of_their_own() -> None:
    assert len({fact.name for fact in FACTS}) == len(FACTS) == len(KEYS)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fact.name) for fact in FACTS)
    assert all(fact.question.endswith("?") and fact.source for fact in FACTS)


def test_facts_together_fit_into_their_share_of_the_half_hour() -> None:
    assert sum(fact.seconds for fact in FACTS) <= SECONDS
    assert min(fact.seconds for fact in FACTS) > 4  # which a process takes to start


def test_the_list_needs_no_torch() -> None:
    program = (
        "import runpy, sys\n"
        "sys.argv[1:] = ['--list']\n"
        "try:\n"
        "    runpy.run_module('tests.gpu.facts', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "assert not {'torch', 'numpy', 'libcst', 'click'} & set(sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert [line.split()[0] for line in ended.stdout.splitlines()] == [fact.name for fact in FACTS]


@pytest.mark.parametrize("arguments", [["no-such-fact"], []], ids=["unknown name", "no name"])
def test_a_name_that_is_none_is_refused_in_one_line(arguments: list[str]) -> None:
    ended = ask(*arguments)
    assert ended.returncode == 2
    assert not ended.stdout
    assert ended.stderr.count("\n") == 1


def test_a_missing_device_is_said_in_one_line() -> None:
    ended = ask("worker-start")
    assert ended.returncode == 2
    assert ended.stderr == "There is no CUDA device; --device simulated asks without one.\n"


def test_a_part_that_fails_is_reported_and_leaves_the_others() -> None:
    from tests.gpu.facts.recording import Seen

    seen = Seen()
    for name in ("first", "second"):
        with seen.part(name):
            seen[name] = 1
            if name == "first":
                raise RuntimeError("not as expected")
    report = seen.report()
    assert report["second"] == 1
    assert report["failed"]["first"]["text"] == "not as expected"
    assert list(report["failed"]) == ["first"]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.name)
def test_a_fact_runs_to_its_end_without_a_gpu(fact: Fact, forking_program: Path) -> None:
    ended = ask(fact.name, "--device", "simulated", program=(str(forking_program),))
    assert ended.returncode == 0, f"{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
    answer = json.loads(ended.stdout.splitlines()[-1])
    assert set(answer) == {"fact", "seconds", "seen"}
    assert answer["fact"] == fact.name
    seen = answer["seen"]
    assert KEYS[fact.name] <= set(seen)
    assert NEEDS_CUDA.get(fact.name, set()) <= set(seen.get("not_here", {}))
    assert not set(seen) & set(seen.get("not_here", {}))
    measured = {name for name in names({**seen, "not_here": {}}) if TIMES.search(name)}
    assert not measured, "a time of the simulated device says nothing of CUDA"
    if fact.name in CHECKS:
        CHECKS[fact.name](seen)


def check_autocast(seen: dict[str, Any]) -> None:
    for dtype in ("bfloat16", "float16"):
        table = seen[f"results_under_{dtype}_from_float32_and_from_{dtype}"]
        assert table["matmul"] == table["conv2d"] == table["linear"] == [dtype, dtype]
        assert (
            table["softmax"] == table["layer_norm"] == table["exp"] == table["cross_entropy"] == ["float32", "float32"]
        )
        assert table["relu"] == ["float32", dtype]
        assert table["cummax"] == ["float32+int64", f"{dtype}+int64"]
        assert table["float64_matmul"] == ["float64", "float64"]
        losses = seen["binary_cross_entropy"][dtype]
        for refused in ("module", "function"):
            assert losses[refused]["raises"] == "RuntimeError"
            assert "binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast" in losses[refused]["text"]
        assert losses["module_with_logits"] == losses["in_a_disabled_region_widened"] == {"returns": "float32 []"}


def check_sixteen(seen: dict[str, Any]) -> None:
    assert "without overflow" in seen["float16_constants"]["masked_fill_minus_1e9"]["text"]
    assert "returns" in seen["bfloat16_constants"]["masked_fill_minus_1e9"]
    assert not seen["float16_overflow"]["features_times_16"]["gram_finite"]
    assert seen["bfloat16_overflow"]["features_times_16"]["gram_finite"]
    for dtype in ("bfloat16", "float16"):
        assert "same dtype" in seen[f"{dtype}_meetings"]["matmul"]["text"]
        assert "Index put requires" in seen[f"{dtype}_meetings"]["write_by_mask"]["text"]
        assert seen[f"{dtype}_regions"]["weights_stale_under_no_grad"]
        assert seen[f"{dtype}_own_function"]["plain"]["raises"] == "RuntimeError"
        assert seen[f"{dtype}_own_function"]["cast"] == {"returns": "float32"}


def check_scaler(seen: dict[str, Any]) -> None:
    assert seen["settings"]["init_scale"] == 65536
    for name in ("tiny", "large_loss", "overflowing"):
        skipped, scales = seen[name]["skipped"], seen[name]["scales"]
        assert skipped == list(range(1, len(skipped) + 1))
        assert scales[-1] == 65536 / 2 ** len(skipped)
    assert seen["overflowing"]["skipped"]
    assert seen["growth"]["with_an_interval_of_4"][3] == 2 * 65536
    misuse = seen["misuse"]
    assert (
        misuse["unscale_twice"]["text"]
        == "unscale_() has already been called on this optimizer since the last update()."
    )
    assert misuse["step_without_scale"]["text"].startswith("Attempted step but _scale is None")
    assert misuse["step_twice"]["text"] == "step() has already been called since the last update()."
    assert misuse["closure_by_keyword"]["raises"] == "RuntimeError"
    assert misuse["closure_by_position"]["returns"].startswith("no exception")
    assert seen["norms"]["scaled"] == pytest.approx(65536 * seen["norms"]["unscaled"], rel=1e-2)
    for name, resumed in seen["resumed"].items():
        assert resumed["as_loaded"]["text"] == "Expected grad_scale and found_inf to be None", name
        assert resumed["with_fused_set_again"]["returns"].startswith("no exception")


def check_float32(seen: dict[str, Any]) -> None:
    assert seen["defaults"]["float32_matmul_precision"] == "highest"
    assert seen["defaults"]["cudnn.allow_tf32"] is True
    assert seen["switches_high"]["cuda.matmul.allow_tf32"] is True
    for setting in ("float32_matmul_precision", "cuda.matmul.allow_tf32"):
        assert MIXED in seen["after_new_tf32_for_matmul"][setting]["text"]
    assert seen["errors_highest"]["matmul"]["norm"] < 1e-5 < seen["errors_of_16_bits"]["bfloat16"]["norm"]


def check_optimizers(seen: dict[str, Any]) -> None:
    for name, numerics in seen["numerics"].items():
        assert numerics["foreach_and_single"] == 0, name
        assert numerics["fused_and_single"] < 1e-5, name
    assert seen["averages"]["foreach_and_loop"] == 0
    assert "does not support sparse gradients" in seen["refusals"]["sparse_SGD"]["text"]
    assert seen["refusals"]["with_foreach"]["raises"] == "RuntimeError"


def check_bits(seen: dict[str, Any]) -> None:
    assert all(seen["gradients_repeat_bitwise"].values())
    assert seen["output_is_channels_last"]["weights last, input first"]
    assert "view size is not compatible" in seen["views"]["view"]["text"]
    assert "required rank 4 tensor" in seen["views"]["conv3d_weights"]["text"]
    assert seen["dropout_masks_equal"]["repeated"]
    assert seen["sums"]["float64_equals_the_host"]


def check_attention(seen: dict[str, Any]) -> None:
    assert seen["differences_float32"]["full"]["sdpa_from_float64"] < 1e-5
    edges = seen["edges"]["float32"]
    assert edges["causal_of_two_lengths_aligns"] == {"returns": "top left"}
    assert edges["empty_row_is_nan_by_torch_and_by_hand"] == {"returns": [False, True]}
    assert edges["int_mask"]["raises"] == "RuntimeError"


def check_loaders(seen: dict[str, Any]) -> None:
    for workers in (0, 1):
        pinned = seen[f"pinned_with_{workers}_workers"]
        assert pinned["tensor"]["returns"] == {"type": "Tensor", "pinned": [True]}
        assert pinned["data class"]["returns"] == {"type": "Record", "pinned": [False]}
        assert pinned["class with pin_memory"]["returns"]["pinned"] == [True]
    assert "only dense CPU tensors can be pinned" in seen["pinned_with_0_workers"]["on the device"]["text"]
    assert FORKED in seen["forked_workers"]["new tensor on the device"]["text"]
    assert seen["forked_workers"]["host tensors only"] == {"returns": "Tensor"}
    assert all(seen["losses_equal_to_the_plain_loader"].values())
    assert seen["losses_equal_when_read_at_the_end"]


def check_compile_again(seen: dict[str, Any]) -> None:
    assert seen["train_and_eval"]["train"] == 1
    assert seen["train_and_eval"]["train again"] == 0
    limit = seen["many_batches"]["limit"]
    assert seen["many_batches"]["graphs"] == [1] * limit + [0] * (12 - limit)
    assert sum(seen["lengths"]["Pooled"]["graphs"]) == limit
    assert seen["lengths"]["Pooled"]["log"]
    assert sum(seen["lengths"]["Greatest"]["graphs"]) <= 3
    assert [count for size, count in seen["batches"]["default"] if size == 8] == [1, 0, 0, 0]
    for form in ("torch.cuda.FloatTensor(x.size())", "torch.FloatTensor(x.size())"):
        assert seen["legacy"][form]["eager"] == {"returns": [3, 5]}
        assert seen["legacy"][form]["compiled"]["raises"] == "TorchRuntimeError"
    assert seen["legacy"]["torch.zeros(x.size(), device)"]["compiled"] == {"returns": [3, 5]}


def check_compile_hazards(seen: dict[str, Any]) -> None:
    forms = seen["double_backward"]["aot_eager"]
    assert all(form["eager"]["returns"]["gradient_of_both"]["returns"] for form in forms.values())
    refused = forms["network by its input"]["compiled"]["returns"]["gradient_of_both"]
    assert "does not currently support double backward" in refused["text"]


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "autocast-dtypes": check_autocast,
    "sixteen-bit-hazards": check_sixteen,
    "grad-scaler": check_scaler,
    "float32-precision": check_float32,
    "optimizer-forms": check_optimizers,
    "bits-and-draws": check_bits,
    "attention-kernels": check_attention,
    "loaders-and-device": check_loaders,
    "compile-again": check_compile_again,
    "compile-hazards": check_compile_hazards,
}
"""What a CPU can truly answer."""
