"""Takes the place of a script that imports torch: ``zygote.py`` runs that with this process's arguments and streams.

It ends as the script ends, and the script ends where this process does. The environment names the socket and the script.
"""

import json
import os
import signal
import socket
import sys

environment = dict(os.environ)
request = {
    "script": environment.pop("ZYGOTE_SCRIPT"),
    "arguments": sys.argv[1:],
    "cwd": os.getcwd(),  # noqa: PTH109 - pathlib takes longer to import than all this
    "environment": environment,
}
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(environment.pop("ZYGOTE_SOCKET"))
    socket.send_fds(connection, [b"\0"], [0, 1, 2])
    connection.sendall(json.dumps(request).encode() + b"\n")
    code = int(connection.makefile().readline())
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
