"""Processes that have imported torch, and fork for each run: to import it takes longer than most runs in short.

How long a script takes to start is not to be read off a fork: a stage that measures that starts processes as users do.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from autotune_rewrite.verify.run import HARNESS

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]
MODULES = ("torch", "torchvision")
"""What a zygote imports. More, such as torch's compiler, might look for a GPU, and CUDA does not survive a fork."""


class Zygotes:
    """A pool of them."""

    def __init__(self, folder: Path, count: int, deadline: float) -> None:
        """Starts the processes.

        Args:
            folder: For their sockets.
            count: How many runs there may be at once.
            deadline: Until when they have to be ready, by ``time.monotonic``.

        Raises:
            ChildProcessError: One of them ended, or was not ready in time.
        """
        self._free: SimpleQueue[Path] = SimpleQueue()
        # Whether there is a GPU is asked of the driver's library, not of CUDA: that would start CUDA before the fork.
        environment = {**os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
        self._servers = []
        # Runs beside each other that each take all cores wait for one another most of the time.
        threads = max(1, (os.cpu_count() or 1) // count)
        compilers = f"os.environ.setdefault('TORCHINDUCTOR_COMPILE_THREADS', {str(max(2, threads))!r})\n"
        for number in range(count):
            socket = folder / f"{number}.socket"
            command = [sys.executable, str(TESTS / "zygote.py"), str(socket), *MODULES]
            server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            self._servers.append(server)
            client = folder / f"{number}.py"
            client.write_text(
                f"import os, sys\nsys.path[0] = {str(TESTS)!r}\n"
                f"os.environ.setdefault('ZYGOTE_THREADS', os.environ.get('OMP_NUM_THREADS') or {str(threads)!r})\n"
                f"{'' if count == 1 else compilers}"
                f"from zygote_client import run\nrun({str(socket)!r}, {str(HARNESS)!r})\n",
                encoding="utf-8",
            )
            self._free.put(client)
        for server in self._servers:
            if not _is_ready(server, deadline):
                status = server.poll()
                self.end()
                how = "was not ready in time" if status is None else f"ended with {status}"
                raise ChildProcessError(f"a process that is to fork for the runs {how}")

    @contextlib.contextmanager
    def harness(self) -> Iterator[Path]:
        """A file to run in the place of the harness; nobody else uses it meanwhile."""
        client = self._free.get()
        try:
            yield client
        finally:
            self._free.put(client)

    def end(self) -> None:
        """Ends the processes."""
        for server in self._servers:
            server.kill()
            server.wait()
            if server.stdout is not None:
                server.stdout.close()


def _is_ready(server: subprocess.Popen[bytes], deadline: float) -> bool:
    """Waits until the process says that it is."""
    if server.stdout is None:
        return False
    told, _, _ = select.select([server.stdout], [], [], max(0.0, deadline - time.monotonic()))
    return bool(told) and server.stdout.readline() == b"ready\n"


@contextlib.contextmanager
def zygotes(count: int, deadline: float) -> Iterator[Zygotes]:
    """So many of them, until the end of the block.

    Args:
        count: How many runs there may be at once.
        deadline: Until when they have to be ready, by ``time.monotonic``.

    Raises:
        ChildProcessError: One of them ended, or was not ready in time.
    """
    with tempfile.TemporaryDirectory(prefix="torchfast-") as folder:
        pool = Zygotes(Path(folder), count, deadline)
        try:
            yield pool
        finally:
            pool.end()
