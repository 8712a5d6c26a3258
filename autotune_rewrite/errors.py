"""What is wrong with a file, in one line for the user."""

from __future__ import annotations


class FileError(Exception):
    """A file that cannot be used.

    Attributes:
        path: The file, as the user wrote it.
        message: What is wrong with it.
        line: Where in the file, or in the cell, from 1, or None where the whole of it is meant.
        cell: Of a notebook, the cell, from 1.
    """

    def __init__(self, path: str, message: str, line: int | None = None, cell: int | None = None) -> None:
        # All arguments go to the base class, so that worker processes can hand the error back.
        super().__init__(path, message, line, cell)
        self.path = path
        self.message = message
        self.line = line
        self.cell = cell

    def __str__(self) -> str:
        cell = "" if self.cell is None else f":cell {self.cell}"
        line = "" if self.line is None else f":{self.line}"
        return f"{self.path}{cell}{line}: {self.message}"


class NotPythonError(FileError):
    """A file that is not Python, or not yet, as while it is written."""


class NoPythonFilesError(FileError):
    """A directory in which there is nothing to look at."""
