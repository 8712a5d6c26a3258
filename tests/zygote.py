"""A process that has imported torch, and forks for every script that is to be run: none of them waits for the import.

``python zygote.py SOCKET [MODULE...]`` serves ``zygote_client.py``, one script at a time, until the process that started
it ends. It computes nothing with torch itself, and asks nothing of a GPU: neither threads nor CUDA survive a fork. The
modules are imported beside torch; by default, those that a compilation needs.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import types
from pathlib import Path
from select import select
from typing import Any, NoReturn

HARNESS = Path(__file__).parents[1] / "autotune_rewrite" / "verify" / "child" / "harness.py"
THREADS = "ZYGOTE_THREADS"
"""The variable by which a script is given more threads than the one that this process has."""
POLL = 0.01
"""Seconds between two looks at whether a script has ended."""
IMPORTS = (
    "torch._dynamo.testing",  # the first optimizer imports torch._dynamo, the first compilation all the rest
    "torch._functorch.aot_autograd",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "torch.utils.checkpoint",
    "torchvision",
)


def served(path: str) -> dict[str, Any]:
    """Serves for ever.

    Args:
        path: Of the socket.

    Returns:
        In each fork, what that is to run.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                _, files, *_ = socket.recv_fds(connection, 1, 3)
                request: dict[str, Any] = json.loads(lines.readline())
                child = os.fork()
                if child == 0:
                    os.setsid()
                    for number, file in enumerate(files):
                        os.dup2(file, number)
                        os.close(file)
                    return request
                for file in files:
                    os.close(file)
                with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
                    connection.sendall(b"%d\n" % exit_code(child, connection))


def exit_code(child: int, connection: socket.socket) -> int:
    """How the child ended, as ``subprocess`` has it; it is killed when nobody waits for it any more."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if select([connection], [], [], POLL)[0]:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what the script has left behind
    return os.waitstatus_to_exitcode(status)


def become(script: str, arguments: list[str], cwd: str, environment: dict[str, str]) -> NoReturn:
    """Runs a script in this process as if Python had been started for it, and ends the process."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    if THREADS in environment:
        import torch

        torch.set_num_threads(int(environment[THREADS]))
    module = types.ModuleType("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    code: int | str | None = 0
    try:
        exec(compile(Path(script).read_bytes(), script, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - it is shown as Python shows it
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    # As Python ends, but without taking apart each module of torch, which takes a second.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    harness = runpy.run_path(str(HARNESS))
    harness["die_with_parent"]()
    harness["torch"].set_num_threads(1)
    for name in sys.argv[2:] or IMPORTS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # or each fork's collector would copy all the pages that these objects are on
    become(**served(sys.argv[1]))
