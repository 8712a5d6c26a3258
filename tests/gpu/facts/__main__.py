"""Asks for one fact in this process: ``python -m tests.gpu.facts NAME [--device cuda|simulated]``."""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.gpu.facts import FACTS


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
    if options.device == "simulated":
        from tests.gpu.facts.recording import simulate

        simulate("9.0")
    else:
        import torch

        if not torch.cuda.is_available():
            print("There is no CUDA device; --device simulated asks without one.", file=sys.stderr)
            return 2
    seen = found.run()
    seconds = round(time.perf_counter() - started, 3)
    print(json.dumps({"fact": found.name, "seconds": seconds, "seen": seen}, allow_nan=False), flush=True)
    return 1 if "failed" in seen else 0


if __name__ == "__main__":
    sys.exit(main())
