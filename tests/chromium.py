"""A browser that tests click in: Chromium, spoken to through pipes by its DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page of a browser without windows."""

    def __init__(self, folder: Path, width: int = 1200) -> None:
        """Starts it.

        Args:
            folder: Where it keeps what it downloads, and its profile.
            width: Of its window.
        """
        assert PROGRAM is not None
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def as_it_expects() -> None:
            os.dup2(to_read, 13)
            os.dup2(to_write, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--window-size={width},900")
        self._process = subprocess.Popen(
            [PROGRAM, *flags, f"--user-data-dir={folder / 'profile'}"],
            preexec_fn=as_it_expects,  # noqa: PLW1509 - no thread of this test holds a lock
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._session = ""
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder), eventsEnabled=True)

    def call(self, method: str, **parameters: object) -> Any:
        """What the browser answers."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": parameters, **session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)
        raise AssertionError("the browser ended")

    def wait(self, method: str) -> dict[str, Any]:
        """The next event of a name."""
        for event in self.events:
            if event["method"] == method:
                self.events.remove(event)
                return event
        for answer in self._messages():
            if answer.get("method") == method:
                return answer
            self.events.append(answer)
        raise AssertionError("the browser ended")

    def open(self, path: Path) -> None:
        """Show a file."""
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript is."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            message, end, rest = self._rest.partition(b"\0")
            if end:
                self._rest = rest
                yield json.loads(message)
                continue
            more = os.read(self._read, 1 << 16)
            if not more:
                return
            self._rest += more

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
