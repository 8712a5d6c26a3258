"""Write what the tool makes of the naive scripts today: ``python tests/regenerate_fixtures.py [NAME...]``.

Each fixture's ``fast.py`` and ``report.txt``, or those of the named ones, are overwritten. Read the difference as an
expert would before it is committed: what stands in these files is what the tests hold to be right.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def torchfast(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run this checkout's tool in a fixture's folder, so that reports name the script alone."""
    command = [sys.executable, "-m", "autotune_rewrite", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)


def regenerate(folder: Path) -> None:
    """Overwrite the golden files of one fixture.

    Raises:
        CalledProcessError: The tool did not rewrite the script.
    """
    torchfast(folder, "rewrite", "naive.py", "--output", "fast.py").check_returncode()
    (folder / "report.txt").write_bytes(torchfast(folder, "check", "naive.py").stdout)


if __name__ == "__main__":
    for script in sorted((ROOT / "fixtures").glob("*/naive.py")):
        if script.parent.name in (sys.argv[1:] or [script.parent.name]):
            regenerate(script.parent)
            print(script.parent.name)
