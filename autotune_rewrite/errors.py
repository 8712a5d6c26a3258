"""What is wrong with a file, in one line for the user."""

from __future__ import annotations


class FileError(Exception):
    """A file that cannot be used.

    Attributes:
        path: The file, as the user wrote it.
        message: What is wrong with it.
        line: Where in the file, from 1, or None where the whole of it is meant.
    """

    def __init__(self, path: str, message: str, line: int | None = None) -> None:
        # All arguments go to the base class, so that worker processes can hand the error back.
        super().__init__(path, message, line)
        self.path = path
        self.message = message
        self.line = line

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.message}"
