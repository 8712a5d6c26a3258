"""What git says of files: which have changes that are not committed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def has_uncommitted_changes(path: str) -> bool:
    """Whether a file differs from what git has of it; False where git is not there, or does not know."""
    target = Path(os.path.realpath(path))
    said = _git(target.parent, "status", "--porcelain", "--", f"./{target.name}")
    return bool(said)


def _git(directory: Path, *arguments: str) -> str | None:
    """What git says in a directory; None where it fails."""
    # A hook's git names its own index and repository in the environment, which hold there and nowhere else.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        ended = subprocess.run(  # noqa: S603 - fixed words and a path
            ["git", "-C", str(directory), *arguments],  # noqa: S607 - the user's git
            env=environment,
            capture_output=True,
            check=True,
            text=True,
            errors="surrogateescape",
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return ended.stdout
