from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite_project
from codemods.codemod import UNMEASURED, Promise
from codemods.rules.debug_off import DebugOff
from codemods.rules.sync_off import SyncOff
from tests.training import run_script

HEAD = """\
import gc
import os
import time
import torch
import torch.multiprocessing as mp
from torch import nn

model = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(10, 8, 4)
"""
STEP = "    optimizer.zero_grad()\n    loss = model(x.cuda()).mean()\n    loss.backward()\n    optimizer.step()\n"
LOOP = "for x in data:\n" + STEP
N = HEAD.count("\n")
M = N + LOOP.count("\n")


def indented(code: str) -> str:
    return "".join(f"    {line}" for line in code.splitlines(keepends=True))


# What goes.

GONE = {
    "the cache": "    torch.cuda.empty_cache()\n",
    "garbage": "    gc.collect()\n",
    "waiting": "    torch.cuda.synchronize()\n",
    "waiting for one device": "    torch.cuda.synchronize(device=0)\n",
    "several": "    gc.collect()\n    torch.cuda.empty_cache()\n",
    "with the comment on its line": "    torch.cuda.empty_cache()  # keep memory low\n",
    "with the question whether there is CUDA": "    if torch.cuda.is_available():\n        torch.cuda.empty_cache()\n",
    "with the device that it is for": "    with torch.cuda.device(0):\n        torch.cuda.empty_cache()\n",
    "on each device that there may be": (
        "    if torch.cuda.is_available():\n        torch.cuda.empty_cache()\n"
        "    elif torch.backends.mps.is_available():\n        torch.mps.empty_cache()\n"
    ),
    "where the device's type is compared": (
        '    if loss.device.type == "mps":\n        torch.mps.synchronize()\n'
        '    else:\n        if loss.device.type == "cuda":\n            torch.cuda.synchronize()\n'
    ),
    "behind and": "    torch.cuda.is_available() and torch.cuda.synchronize()\n",
    "in an expression that chooses": "    torch.cuda.synchronize() if torch.cuda.is_available() else None\n",
    "several under that question": (
        "    if torch.cuda.is_available():\n        torch.cuda.synchronize()\n        torch.cuda.empty_cache()\n"
    ),
}


@pytest.mark.parametrize("code", GONE.values(), ids=GONE)
def test_what_an_iteration_ends_with_goes(code: str) -> None:
    check_rewrites(SyncOff, HEAD + LOOP + code, HEAD + LOOP)


def test_a_function_that_is_told_the_device_goes_with_its_call() -> None:
    clean = (
        "def clean(device):\n    if device.type == 'cuda':\n        torch.cuda.empty_cache()\n"
        "    elif device.type == 'mps':\n        torch.mps.empty_cache()\n\ndevice = torch.device('cuda')\n"
    )

    check_rewrites(SyncOff, HEAD + clean + LOOP + "    clean(device)\n", HEAD + clean + LOOP)


def test_what_stays_under_the_question_keeps_it() -> None:
    kept = "    if torch.cuda.is_available():\n        print(loss)\n"

    check_rewrites(SyncOff, HEAD + LOOP + kept + "        torch.cuda.empty_cache()\n", HEAD + LOOP + kept)


def test_a_suite_is_not_left_empty() -> None:
    code = HEAD + LOOP + "    if torch.cuda.is_available():\n        {}\n    else:\n        print(loss)\n"

    check_rewrites(SyncOff, code.format("torch.cuda.empty_cache()"), code.format("pass"))


def test_it_goes_from_evaluation() -> None:
    before = HEAD + LOOP + "with torch.no_grad():\n    for x in data:\n        print(model(x.cuda()))\n"

    check_rewrites(SyncOff, before + "        torch.cuda.empty_cache()\n", before)


def test_it_goes_from_a_function_that_the_loop_calls() -> None:
    before = HEAD + "def step(x):\n" + STEP + "{}\n\nfor x in data:\n    step(x)\n"

    check_rewrites(SyncOff, before.format("    torch.cuda.empty_cache()\n"), before.format(""))


def test_it_goes_from_the_inner_of_two_loops() -> None:
    before = HEAD + "for epoch in range(3):\n" + indented(LOOP)

    check_rewrites(SyncOff, before + "        torch.cuda.empty_cache()\n", before)


HELPER = "def clean():\n    gc.collect()\n    if torch.cuda.is_available():\n        torch.cuda.empty_cache()\n\n\n"


def test_the_call_of_a_function_that_only_tidies_up_goes() -> None:
    check_rewrites(SyncOff, HEAD + HELPER + LOOP + "    clean()\nclean()\n", HEAD + HELPER + LOOP + "clean()\n")


def test_what_collects_garbage_needs_no_cuda() -> None:
    assert [each.needs for each in run(SyncOff, HEAD + LOOP + "    gc.collect()\n").sites] == [""]
    assert [each.needs for each in run(SyncOff, HEAD + LOOP + "    torch.cuda.empty_cache()\n").sites] == ["cuda"]


def test_the_gain_of_collecting_garbage_is_said_of_that_alone() -> None:
    code = "    torch.cuda.empty_cache()\n    torch.cuda.synchronize()\n    gc.collect()\n"

    assert [each.gain for each in run(SyncOff, HEAD + LOOP + code).sites] == [UNMEASURED, UNMEASURED, SyncOff.gain]


# What costs little.

SILENT = {
    "once in an epoch": "for epoch in range(3):\n"
    + indented(LOOP)
    + "    torch.cuda.empty_cache()\n    gc.collect()\n",
    "before training": "torch.cuda.empty_cache()\n" + LOOP,
    "after an error": (
        "for x in data:\n    try:\n"
        + indented(STEP)
        + "    except torch.cuda.OutOfMemoryError:\n        torch.cuda.empty_cache()\n"
    ),
    "in a loop without a model": LOOP + "for name in os.listdir():\n    gc.collect()\n",
    "each model for itself": (
        LOOP + "for n in (1, 2):\n    net = nn.Linear(4, n).cuda()\n    net(data[0].cuda())\n    gc.collect()\n"
    ),
    "each model for itself, made in a function": (
        "def make():\n    return nn.Linear(4, 4).cuda()\n\n"
        + LOOP
        + "for n in (1, 2):\n    make()(data[0].cuda())\n    torch.cuda.empty_cache()\n"
    ),
    "in a function that runs once": "def clean():\n    print()\n    gc.collect()\n\nclean()\n" + LOOP,
    "where what it returns is used": LOOP + "    print(gc.collect())\n",
    "a method of that name": LOOP + "    optimizer.collect()\n",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_what_costs_little_is_not_mentioned(code: str) -> None:
    check_silent(SyncOff, HEAD + code)


# What needs it.

MEMORY = "the script measures memory (line {})"
CLOCK = "a clock is read (line {}), and would not see what the device has still to do"
LEFT = {
    "in each hundredth iteration": (
        "for i, x in enumerate(data):\n" + STEP + "    if i % 100 == 0:\n        torch.cuda.empty_cache()\n",
        f"the script chooses by a condition of its own where it runs (line {M + 1})",
    ),
    "in each hundredth iteration on CUDA": (
        "for i, x in enumerate(data):\n"
        + STEP
        + "    if i % 100 == 0 and torch.cuda.is_available():\n        torch.cuda.empty_cache()\n",
        f"the script chooses by a condition of its own where it runs (line {M + 1})",
    ),
    "it is seen when objects are freed": (
        "import weakref\nalive = weakref.WeakSet()\n" + LOOP + "    gc.collect()\n    print(len(alive))\n",
        f"the script sees when objects are freed (line {N + 2})",
    ),
    "by an option": (
        "flag = input()\n" + LOOP + "    if flag:\n        gc.collect()\n",
        f"the script chooses by a condition of its own where it runs (line {M + 2})",
    ),
    "in a function that runs between epochs, too": (
        "def clean():\n    print()\n    gc.collect()\n\n" + LOOP + "    clean()\nclean()\n",
        "other code runs it, too, where it is no part of an iteration",
    ),
    "memory is measured": (
        LOOP + "    torch.cuda.empty_cache()\n    print(torch.cuda.memory_reserved())\n",
        MEMORY.format(M + 2),
    ),
    "memory of the host is measured": (
        "import psutil\n" + LOOP + "    gc.collect()\n    print(psutil.virtual_memory())\n",
        MEMORY.format(M + 3),
    ),
    "the script goes on without memory": (
        "for x in data:\n    try:\n"
        + indented(STEP)
        + "    except RuntimeError:\n        continue\n    torch.cuda.empty_cache()\n",
        f"the script goes on where memory has run out (line {N + 7}), which may be elsewhere without it",
    ),
    "other processes use the device": (
        "mp.spawn(print)\n" + LOOP + "    torch.cuda.empty_cache()\n",
        "other processes that the script starts may need the memory",
    ),
    "Python collects no garbage": (
        "gc.disable()\n" + LOOP + "    gc.collect()\n",
        f"the script chooses itself when garbage is collected (line {N + 1})",
    ),
    "gradients hold each other": (
        "for x in data:\n    model(x.cuda()).mean().backward(create_graph=True)\n    gc.collect()\n",
        f"gradients that have a graph may hold each other (line {N + 2}), and are freed by it",
    ),
    "an iteration is timed": (
        "for x in data:\n    start = time.time()\n"
        + STEP
        + "    torch.cuda.synchronize()\n    print(time.time() - start)\n",
        CLOCK.format(N + 2),
    ),
    "the caller has the clock": (
        "def step(x):\n" + STEP + "    torch.cuda.synchronize()\n\n"
        "for x in data:\n    start = time.perf_counter()\n    step(x)\n    print(time.perf_counter() - start)\n",
        CLOCK.format(M + 4),
    ),
    "the block around it has the clock": (
        "class Timer:\n    def __enter__(self):\n        self.start = time.time()\n"
        "    def __exit__(self, *error):\n        print(time.time() - self.start)\n\n"
        "for x in data:\n    with Timer():\n" + indented(STEP) + "        torch.cuda.synchronize()\n",
        CLOCK.format(N + 3),
    ),
    "a decorator has the clock": (
        "def timed(function):\n    def wrapper(x):\n        start = time.time()\n        function(x)\n"
        "        print(time.time() - start)\n    return wrapper\n\n"
        "@timed\ndef step(x):\n" + STEP + "    torch.cuda.synchronize()\n\nfor x in data:\n    step(x)\n",
        CLOCK.format(N + 3),
    ),
    "events of CUDA are the clock": (
        "end = torch.cuda.Event(enable_timing=True)\n" + LOOP + "    end.record()\n    torch.cuda.synchronize()\n",
        CLOCK.format(N + 1),
    ),
    "something unknown stands beside it": (
        "from timers import timer\n" + LOOP + "    torch.cuda.synchronize()\n    timer.stop()\n",
        f"what is called beside it is not read (line {M + 3}), and may time the device",
    ),
    "a block of something unknown is around it": (
        "from timers import timed\nfor x in data:\n    with timed():\n"
        + indented(STEP)
        + "        torch.cuda.synchronize()\n",
        f"what is called beside it is not read (line {N + 3}), and may time the device",
    ),
    "another stream is used": (
        "side = torch.cuda.Stream()\n" + LOOP + "    torch.cuda.synchronize()\n",
        f"work is queued on another stream (line {N + 1}), and may rely on the host waiting",
    ),
    "a copy to the host does not block": (
        LOOP + '    kept = loss.to("cpu", non_blocking=True)\n    torch.cuda.synchronize()\n',
        f"a copy between host and device does not block (line {M + 1}), and may rely on the host waiting",
    ),
    "it sleeps": (
        LOOP + "    time.sleep(0.1)\n",
        "the script sleeps by its own choice: take it away where nobody needs it",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_what_is_needed_stays(code: str, because: str) -> None:
    check_leaves(SyncOff, HEAD + code, because)


# Several files, and what comes of it.


def test_a_profiler_that_goes_is_no_clock() -> None:
    settings = Settings(frozenset({SyncOff.name(), DebugOff.name()}), Promise.TRAINING)
    profiled = "    with torch.autograd.profiler.profile():\n        loss.item()\n    torch.cuda.synchronize()\n"

    (script,) = rewrite_project([Text("train.py", HEAD + LOOP + profiled, settings)])

    assert isinstance(script, Rewrite)
    assert script.after == HEAD + LOOP + "    loss.item()\n"


def test_it_is_found_in_another_file() -> None:
    settings = Settings(frozenset({SyncOff.name()}), Promise.TRAINING)
    engine = "import gc\n\n\ndef train(model, data):\n    for x in data:\n        model(x).mean().backward()\n        gc.collect()\n"
    texts = [
        Text("train.py", HEAD + "from engine import train\ntrain(model, data)\n", settings),
        Text("engine.py", engine, settings, "engine"),
    ]

    script, other = rewrite_project(texts)

    assert isinstance(script, Rewrite)
    assert isinstance(other, Rewrite)
    assert script.after == script.before
    assert other.after == engine.replace("        gc.collect()\n", "")


def test_the_losses_are_the_same_bits() -> None:
    text = (
        "import torch\ntorch.manual_seed(0)\n"
        + HEAD.replace(".cuda()", "")
        + (LOOP.replace(".cuda()", "") + "    gc.collect()\n    print(loss.item().hex())\n")
    )
    result = run(SyncOff, text)

    assert result.after == text.replace("    gc.collect()\n", "")
    assert run_script(result.after) == run_script(text)
