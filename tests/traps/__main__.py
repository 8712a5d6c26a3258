"""``python -m tests.traps FILE``: sweeps the idioms with the torch that is installed. It needs numpy, nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.traps.idioms import IDIOMS
from tests.traps.sweep import swept

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(swept(IDIOMS), indent=1) + "\n", encoding="utf-8")
