from __future__ import annotations

import pytest
import torch
from kit import check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite_project
from codemods.codemod import Promise
from codemods.rules.debug_off import DebugOff
from tests.training import run_script

HEAD = """\
import contextlib
import os
import time
import torch
from torch import autograd, nn
from torch.autograd import detect_anomaly, set_detect_anomaly

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
TRAIN = """\
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
"""
OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--debug", action="store_true")
parser.add_argument("--check", type=int, default=1)
args = parser.parse_args()
"""
N = HEAD.count("\n")


# Anomaly detection.

SWITCHED_OFF = {
    "as a statement": ("torch.autograd.set_detect_anomaly(True)\n", "torch.autograd.set_detect_anomaly(False)\n"),
    "by the parameter's name": ("set_detect_anomaly(mode=True)\n", "set_detect_anomaly(mode=False)\n"),
    "that looks for no NaN": (
        "set_detect_anomaly(True, check_nan=False)\n",
        "set_detect_anomaly(False, check_nan=False)\n",
    ),
    "through the submodule": ("autograd.set_detect_anomaly(True)\n", "autograd.set_detect_anomaly(False)\n"),
    "an object that is kept": ("mode = set_detect_anomaly(True)\n", "mode = set_detect_anomaly(False)\n"),
    "where there is CUDA": (
        "if torch.cuda.is_available():\n    set_detect_anomaly(True)\n",
        "if torch.cuda.is_available():\n    set_detect_anomaly(False)\n",
    ),
    "in a function that prepares the run": (
        "def prepare():\n    set_detect_anomaly(True)\n\nprepare()\n",
        "def prepare():\n    set_detect_anomaly(False)\n\nprepare()\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), SWITCHED_OFF.values(), ids=SWITCHED_OFF)
def test_anomaly_detection_is_switched_off(before: str, after: str) -> None:
    check_rewrites(DebugOff, HEAD + before + TRAIN, HEAD + after + TRAIN)


BLOCKS = {
    "detect_anomaly": "with detect_anomaly():",
    "detect_anomaly with an argument": "with torch.autograd.detect_anomaly(check_nan=False):",
    "set_detect_anomaly": "with set_detect_anomaly(True):",
    "a profile without a name": "with torch.autograd.profiler.profile():",
    "a profile that is not read": "with torch.profiler.profile(record_shapes=True) as prof:",
}


@pytest.mark.parametrize("header", BLOCKS.values(), ids=BLOCKS)
def test_a_block_is_taken_away_and_its_body_stays(header: str) -> None:
    body = "for x in torch.randn(10, 8, 4):\n    # One step.\n    model(x).mean().backward()  # gradients\n"
    indented = "".join(f"    {line}" for line in body.splitlines(keepends=True))

    check_rewrites(DebugOff, f"{HEAD}{header}\n{indented}", HEAD + body)


def test_one_of_several_contexts_is_switched_off() -> None:
    text = (
        HEAD
        + "for x in torch.randn(10, 8, 4):\n    with {}, contextlib.ExitStack():\n        model(x).mean().backward()\n"
    )

    check_rewrites(DebugOff, text.format("set_detect_anomaly(True)"), text.format("set_detect_anomaly(False)"))
    check_rewrites(DebugOff, text.format("detect_anomaly()"), text.format("set_detect_anomaly(False)"))


DECIDED = {
    "an option is its argument": (
        OPTIONS + "set_detect_anomaly(bool(args.check))\n",
        "'bool(args.check)' decides whether it is on",
    ),
    "an option that is on by default": (
        OPTIONS + "if args.check:\n    set_detect_anomaly(True)\n",
        f"the script switches it on by a condition of its own (line {N + 6})",
    ),
    "a condition of the loop": (
        "for epoch in range(3):\n    if epoch == 2:\n        set_detect_anomaly(True)\n",
        f"the script switches it on by a condition of its own (line {N + 2})",
    ),
    "the arguments are not written out": (
        "given = {'mode': True}\nset_detect_anomaly(**given)\n",
        "its arguments are not written out",
    ),
    "it is asked for": (
        "set_detect_anomaly(True)\nprint(torch.is_anomaly_enabled())\n",
        f"the script asks whether it is on (line {N + 2})",
    ),
}


@pytest.mark.parametrize(("code", "because"), DECIDED.values(), ids=DECIDED)
def test_the_script_decides(code: str, because: str) -> None:
    check_leaves(DebugOff, HEAD + code + TRAIN, because)


SILENT = {
    "it is off": "set_detect_anomaly(False)\n",
    "an option that is off by default": OPTIONS + "if args.debug:\n    set_detect_anomaly(True)\n",
    "an option that is off by default is the argument": OPTIONS + "set_detect_anomaly(args.debug)\n",
    "a constant is the argument": "DEBUG = False\nset_detect_anomaly(DEBUG)\n",
    "a constant is the condition": "DEBUG = False\nif DEBUG:\n    set_detect_anomaly(True)\n",
    "a function is told that it is off": (
        "def debug(state):\n    set_detect_anomaly(mode=state)\n    autograd.profiler.profile(enabled=state)\n\ndebug(False)\n"
    ),
    "nobody switches it on": "from torch import profiler\n",
    "the launches do not block": 'os.environ["CUDA_LAUNCH_BLOCKING"] = "0"\n',
    "gradients are compared once": "torch.autograd.gradcheck(torch.sin, torch.randn(2, dtype=float, requires_grad=True))\n",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_what_is_off_is_not_mentioned(code: str) -> None:
    check_silent(DebugOff, HEAD + code + TRAIN)


def trained_in(header: str, handler: str) -> str:
    indented = "".join(f"    {line}" for line in TRAIN.splitlines(keepends=True))
    return f"{HEAD}set_detect_anomaly(True)\n{header}\n{indented}{handler}"


CAUGHT = {
    "RuntimeError": ("try:", "except RuntimeError:\n    print('NaN')\n"),
    "among others": ("try:", "except (ValueError, RuntimeError) as error:\n    print(error)\n"),
    "whatever it is": ("try:", "except:\n    pass\n"),
    "each exception": ("try:", "except Exception as error:\n    print(error)\n"),
}


@pytest.mark.parametrize(("header", "handler"), CAUGHT.values(), ids=CAUGHT)
def test_the_error_is_caught(header: str, handler: str) -> None:
    because = (
        "anomaly detection raises an error where a gradient is NaN, and the script goes on after it "
        f"(line {N + 2 + 1 + TRAIN.count(chr(10))})"
    )
    check_leaves(DebugOff, trained_in(header, handler), because)


def test_the_error_is_suppressed() -> None:
    because = (
        f"anomaly detection raises an error where a gradient is NaN, and the script goes on after it (line {N + 2})"
    )

    check_leaves(DebugOff, trained_in("with contextlib.suppress(RuntimeError):", ""), because)


NOT_CAUGHT = {
    "another exception": "except KeyboardInterrupt:\n    print('stopped')\n",
    "it is raised again": "except RuntimeError as error:\n    print(error)\n    raise\n",
    "only for want of memory": "except torch.cuda.OutOfMemoryError:\n    print('memory')\n",
}


@pytest.mark.parametrize("handler", NOT_CAUGHT.values(), ids=NOT_CAUGHT)
def test_the_error_still_ends_the_script(handler: str) -> None:
    before = trained_in("try:", handler)

    check_rewrites(DebugOff, before, before.replace("anomaly(True)", "anomaly(False)"))


def test_it_is_switched_off_where_its_suite_cannot_move() -> None:
    before = HEAD + "for x in torch.randn(10, 8, 4):\n    with detect_anomaly(): model(x).mean().backward()\n"

    check_rewrites(DebugOff, before, before.replace("detect_anomaly():", "set_detect_anomaly(False):"))


def test_a_test_may_fail_by_it() -> None:
    code = "def test_gradients():\n    with detect_anomaly():\n        model(torch.ones(4)).mean().backward()\n"

    check_leaves(
        DebugOff, HEAD + code, f"it is part of a test, which fails by it where a gradient is NaN (line {N + 1})"
    )


def test_a_function_that_the_script_calls_is_no_test() -> None:
    code = "def test_model():\n    with {}:\n        model(torch.ones(4)).mean().backward()\n\ntest_model()\n"
    after = code.replace("    with {}:\n        ", "    ")

    check_rewrites(DebugOff, HEAD + code.format("detect_anomaly()"), HEAD + after)


def test_an_error_of_something_else_may_be_caught() -> None:
    before = (
        HEAD + "set_detect_anomaly(True)\ntry:\n    model.load_state_dict({})\nexcept RuntimeError:\n    pass\n" + TRAIN
    )

    check_rewrites(DebugOff, before, before.replace("anomaly(True)", "anomaly(False)"))


# Profilers.

READ = {
    "it is printed": (
        "with torch.profiler.profile() as prof:\n    model(torch.ones(4)).backward()\nprint(prof.key_averages())\n"
    ),
    "it is told of each step": (
        "with torch.profiler.profile() as prof:\n    model(torch.ones(4)).backward()\n    prof.step()\n"
    ),
    "it is handed on": "with torch.profiler.profile(on_trace_ready=print):\n    model(torch.ones(4)).backward()\n",
    "it is kept": "prof = torch.profiler.profile()\nprof.start()\n",
    "it is an attribute": "with torch.profiler.profile() as model.prof:\n    model(torch.ones(4)).backward()\n",
    "it is written to a file": (
        'torch.cuda.memory._record_memory_history()\ntorch.cuda.memory._dump_snapshot("memory.pickle")\n'
    ),
}


@pytest.mark.parametrize("code", READ.values(), ids=READ)
def test_nothing_is_said_of_what_is_read(code: str) -> None:
    check_silent(DebugOff, HEAD + code + TRAIN)


FOR_OTHERS = {
    "it marks operators for others": (
        "with torch.autograd.profiler.emit_nvtx():\n    model(torch.ones(4)).backward()\n",
        "it marks operators for a profiler outside of the script: take it away where none is attached",
    ),
    "gradients are compared in a loop": (
        "for x in torch.randn(3, 2, dtype=float):\n    autograd.gradcheck(torch.sin, x.requires_grad_())\n",
        "it raises an error where gradients are wrong, in each pass of the loop: compare them once, in a test",
    ),
}


@pytest.mark.parametrize(("code", "because"), FOR_OTHERS.values(), ids=FOR_OTHERS)
def test_it_may_be_there_for_others(code: str, because: str) -> None:
    check_leaves(DebugOff, HEAD + code + TRAIN, because)


def test_a_history_that_nobody_reads_is_not_recorded() -> None:
    line = "torch.cuda.memory._record_memory_history(max_entries=100000)\n"

    check_rewrites(DebugOff, HEAD + line + TRAIN, HEAD + TRAIN)


# Launches that block.

VARIABLE = {
    "an item": ('os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n', 'os.environ["CUDA_LAUNCH_BLOCKING"] = "0"\n'),
    "among others": (
        'os.environ.update({"OMP_NUM_THREADS": "1", "CUDA_LAUNCH_BLOCKING": "1"})\n',
        'os.environ.update({"OMP_NUM_THREADS": "1", "CUDA_LAUNCH_BLOCKING": "0"})\n',
    ),
    "with other quotes": ("os.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n", "os.environ['CUDA_LAUNCH_BLOCKING'] = '0'\n"),
    "setdefault": (
        "os.environ.setdefault('CUDA_LAUNCH_BLOCKING', '1')\n",
        "os.environ.setdefault('CUDA_LAUNCH_BLOCKING', '0')\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), VARIABLE.values(), ids=VARIABLE)
def test_the_host_launches_ahead(before: str, after: str) -> None:
    check_rewrites(DebugOff, HEAD + before + TRAIN, HEAD + after + TRAIN)
    (site,) = run(DebugOff, HEAD + before + TRAIN).sites
    assert site.needs == "cuda"


BLOCKING = 'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n'
BLOCKED = {
    "the script reads it": (
        BLOCKING + 'print(os.environ["CUDA_LAUNCH_BLOCKING"])\n',
        f"the script uses the variable elsewhere, too (line {N + 2})",
    ),
    "another value": (
        'flag = input()\nos.environ["CUDA_LAUNCH_BLOCKING"] = flag\n',
        "'flag' decides whether it is on",
    ),
    "iterations are timed": (
        BLOCKING + "for x in torch.randn(10, 8, 4):\n    start = time.time()\n    model(x).mean().backward()\n",
        f"the script times its iterations (line {N + 3}), and would see the launches of kernels alone",
    ),
    "a copy to the host does not block": (
        BLOCKING + 'kept = model.weight.to("cpu", non_blocking=True)\n',
        f"a copy between host and device does not block (line {N + 2}), and may rely on the host waiting",
    ),
    "another stream": (
        BLOCKING + "with torch.cuda.stream(torch.cuda.Stream()):\n    model(torch.ones(4))\n",
        f"work is queued on another stream (line {N + 2}), and may rely on the host waiting",
    ),
}


@pytest.mark.parametrize(("code", "because"), BLOCKED.values(), ids=BLOCKED)
def test_the_host_has_to_wait(code: str, because: str) -> None:
    check_leaves(DebugOff, HEAD + code + TRAIN, because)


# Several files, and what comes of it.


def test_a_switch_in_another_file_is_found_there() -> None:
    settings = Settings(frozenset({DebugOff.name()}), Promise.TRAINING)
    helper = "import torch\n\ntorch.autograd.set_detect_anomaly(True)\n"
    texts = [
        Text("train.py", HEAD + "import helper\n" + TRAIN, settings),
        Text("helper.py", helper, settings, "helper"),
    ]

    script, other = rewrite_project(texts)

    assert isinstance(script, Rewrite)
    assert isinstance(other, Rewrite)
    assert script.after == script.before
    assert other.after == helper.replace("(True)", "(False)")


def test_the_losses_are_the_same_bits() -> None:
    text = (
        "import torch\ntorch.manual_seed(0)\n"
        + HEAD
        + (
            "set_detect_anomaly(True)\nfor x in torch.randn(10, 8, 4):\n    optimizer.zero_grad()\n"
            "    with autograd.profiler.profile() as prof:\n        loss = model(x).square().mean()\n        loss.backward()\n"
            "    optimizer.step()\n    print(loss.item().hex())\n"
        )
    )
    result = run(DebugOff, text)

    assert result.after.count("\n") == text.count("\n") - 1
    with torch.autograd.set_detect_anomaly(False):
        assert run_script(result.after) == run_script(text)
