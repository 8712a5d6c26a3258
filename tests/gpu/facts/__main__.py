"""Asks for one fact in this process: ``python -m tests.gpu.facts NAME [--device cuda|simulated]``.

The last line on standard output is one JSON object. Where the process ended before its time, it has what was seen
until then, and says so under "unfinished".
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from tests.gpu.facts import FACTS
from tests.gpu.facts.recording import Seen, simulate


def main() -> int:
    """Asks, and prints one JSON object as the last line.

    Returns:
        0; 1 where a part of the question failed in a way that is no answer; 2 where there is no such fact or device.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.facts", description=__doc__)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--device", choices=("cuda", "simulated"), default="cuda")
    parser.add_argument("--list", action="store_true", help="name the facts, and how many seconds each may take")
    options = parser.parse_args()
    if options.list:
        for fact in FACTS:
            print(f"{fact.name:26} {fact.seconds:5.1f} s {'alone ' if fact.alone else '      '} {fact.question}")
        return 0
    found = next((fact for fact in FACTS if fact.name == options.name), None)
    if found is None:
        print(f"There is no fact {options.name!r}; --list names all.", file=sys.stderr)
        return 2
    started = time.perf_counter()

    def write(seen: dict[str, Any], **more: bool) -> None:
        values = {"fact": found.name, "seconds": round(time.perf_counter() - started, 3), "seen": {**seen, **more}}
        print(json.dumps(values, allow_nan=False), flush=True)

    Seen.after_part = lambda seen: write(seen.report(), unfinished=True)
    if options.device == "simulated":
        simulate("9.0")
    else:
        import torch

        if not torch.cuda.is_available():
            print("There is no CUDA device; --device simulated asks without one.", file=sys.stderr)
            return 2
    seen = found.run()
    write(seen)
    return 1 if "failed" in seen else 0


if __name__ == "__main__":
    sys.exit(main())
