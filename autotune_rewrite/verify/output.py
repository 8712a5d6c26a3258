"""What a child process writes, kept within bounds."""

from __future__ import annotations

import os
import threading
from typing import IO

KEPT = 2**18
"""Bytes that are kept of a stream's beginning, and of its end: a flood must not fill the memory."""
TAIL_LINES = 20
"""Lines that show how a script failed."""
DRAIN_SECONDS = 5.0
"""How long the end of the output is awaited; a process that left the group may hold the pipe open for ever."""


class Output(threading.Thread):
    """Reads a stream to its end and keeps its beginning and its end, so that the writer never has to wait."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._beginning = b""
        self._end = b""
        self.start()

    def run(self) -> None:
        """Reads until every writer has closed the stream."""
        with self._stream:
            while block := os.read(self._stream.fileno(), 65_536):
                space = KEPT - len(self._beginning)
                self._beginning += block[:space]
                if block[space:]:
                    self._end = (self._end + block[space:])[-KEPT:]

    def lines(self) -> tuple[str, ...]:
        """What is kept, without empty lines; a progress bar that is drawn anew is a line each time."""
        self.join(DRAIN_SECONDS)
        text = (self._beginning + self._end).decode("utf-8", errors="replace")
        return tuple(line.rstrip() for line in text.splitlines() if line.strip())
