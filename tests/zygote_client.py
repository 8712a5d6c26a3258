"""Has a script run by ``zygote.py`` that imports torch, with the arguments and the streams of this process."""

import json
import os
import signal
import socket
import sys
from typing import NoReturn


def run(zygote: str, script: str) -> NoReturn:
    """Ends as the script ends; the script ends where this process does.

    Args:
        zygote: The socket that it listens on.
        script: The file to run.
    """
    request = {
        "script": script,
        "arguments": sys.argv[1:],
        "cwd": os.getcwd(),  # noqa: PTH109 - pathlib takes longer to import than all this
        "environment": dict(os.environ),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(zygote)
        socket.send_fds(connection, [b"\0"], [0, 1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        code = int(connection.makefile().readline())
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
