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
    "where a block is entered": (
        "import time\nclass Timer:\n    def __enter__(self):\n        self.t = time.time()\n"
        "    def __exit__(self, *error):\n        pass\nfor _ in range(3):\n    with Timer() as timer:\n        pass\n"
    ),
    "where a block is left": (
        "import time\nclass Timer:\n    def __enter__(self):\n        pass\n    def __exit__(self, *error):\n"
        "        print(time.time())\ntimer = Timer()\nfor _ in range(3):\n    with timer:\n        pass\n"
    ),
    "by a decorator": (
        "import time\ndef timed(function):\n    def wrapper(*args):\n        start = time.time()\n"
        "        function(*args)\n        print(time.time() - start)\n    return wrapper\n"
        "@timed\ndef f():\n    pass\nfor _ in range(3):\n    f()\n"
    ),
    "by a decorator with arguments": (
        "import time\ndef timed(name):\n    def decorator(function):\n        def wrapper(*args):\n"
        "            start = time.time()\n            function(*args)\n            print(name, time.time() - start)\n"
        "        return wrapper\n    return decorator\n@timed('f')\ndef f():\n    pass\nfor _ in range(3):\n    f()\n"
    ),
}
NONE = {
    "a date for a file": "import time\nfor _ in range(3):\n    time.strftime('%H')\n",
    "a decorator that reads none": (
        "import time\ndef kept(function):\n    return function\n@kept\ndef f():\n    pass\ntime.time()\n"
        "for _ in range(3):\n    f()\n"
    ),
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
