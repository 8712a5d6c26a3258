"""Where a script reads a clock."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.clocks import clock

CLOCKS = {
    "time.time()": "import time\nfor _ in range(3):\n    time.time()\n",
    "by another name": "from time import perf_counter as now\nfor _ in range(3):\n    now()\n",
    "an event of CUDA": "import torch\nfor _ in range(3):\n    torch.cuda.Event(enable_timing=True)\n",
    "in a function that is called": "import time\ndef f():\n    return time.time()\nfor _ in range(3):\n    f()\n",
    "in a method": (
        "import time\nclass Timer:\n    def tic(self):\n        self.t = time.time()\ntimer = Timer()\n"
        "for _ in range(3):\n    timer.tic()\n"
    ),
}
NONE = {
    "a date for a file": "import time\nfor _ in range(3):\n    time.strftime('%H')\n",
    "outside of the loop": "import time\ntime.time()\nfor _ in range(3):\n    pass\n",
    "the script's own": "def time():\n    return 1\nfor _ in range(3):\n    time()\n",
}


def is_read(code: str) -> bool:
    known = script(code)
    (loop,) = known.module.nodes(ast.For)
    return clock(known, known.module, loop) is not None


@pytest.mark.parametrize("code", CLOCKS.values(), ids=CLOCKS)
def test_a_clock_is_read(code: str) -> None:
    assert is_read(code)


@pytest.mark.parametrize("code", NONE.values(), ids=NONE)
def test_no_clock_is_read(code: str) -> None:
    assert not is_read(code)
