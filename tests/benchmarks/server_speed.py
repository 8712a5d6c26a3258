"""How long after a key an editor has what is found (no test: times are those of one machine).

Files are opened in turn, and each is changed again and again at its end, as somebody types::

    python tests/benchmarks/server_speed.py FILE...
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from autotune_rewrite.server import editor
from autotune_rewrite.server.programs import Programs

SECONDS = 120


def looks(path: Path, text: str, number: int) -> list[float]:
    """Seconds that a processor is busy with each look at a text that is changed before each."""
    programs, times = Programs(), []
    for turn in range(number + 1):
        start = time.process_time()
        programs.check({str(path): f"{text}\nx = {turn}\n"}, str(path))
        times.append(time.process_time() - start)
    return times[1:]


class Client:
    """A program that changes files, and waits for what a server says of them."""

    def __init__(self) -> None:
        """Not started yet."""
        self._client = LanguageClient("server_speed", "1")
        self._said: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()

        self._client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(partial(self._said.put_nowait))

    async def start(self) -> None:
        """Start a server."""
        await self._client.start_io(sys.executable, "-m", "autotune_rewrite", "server")
        await self._client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
        self._client.initialized(types.InitializedParams())

    async def changes(self, path: Path, text: str, number: int) -> list[float]:
        """Seconds from each change of a file to what is said of it."""
        times = []
        item = types.TextDocumentItem(path.as_uri(), "python", 0, text)
        self._client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await self._heard(0)
        for version in range(1, number + 1):
            start = time.perf_counter()
            document = types.VersionedTextDocumentIdentifier(version, path.as_uri())
            change = types.TextDocumentContentChangeWholeDocument(f"{text}\nx = {version}\n")
            self._client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
            await self._heard(version)
            times.append(time.perf_counter() - start)
        closed = types.TextDocumentIdentifier(path.as_uri())
        self._client.text_document_did_close(types.DidCloseTextDocumentParams(closed))
        return times

    async def _heard(self, version: int) -> None:
        while (await asyncio.wait_for(self._said.get(), SECONDS)).version != version:
            pass

    async def end(self) -> None:
        """End the server."""
        await self._client.shutdown_async(None)
        self._client.exit(None)
        await self._client.stop()  # type: ignore[no-untyped-call]


async def measure(texts: dict[Path, str], number: int) -> None:
    """Print how long it takes, file by file."""
    client = Client()
    await client.start()
    print(f"median and longest of {number}; a text is looked at {editor.PAUSE} s after the last key")
    for path, text in texts.items():
        lines = text.count("\n")
        alone, whole = looks(path, text, number), await client.changes(path, text, number)
        print(
            f"{lines:6} lines  of a processor {1000 * median(alone):5.0f} ms, {1000 * max(alone):5.0f} ms"
            f"  from key to diagnostics {1000 * median(whole):5.0f} ms, {1000 * max(whole):5.0f} ms  {path}"
        )
    await client.end()


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--changes", type=int, default=20)
    options = parser.parse_args()
    gc.set_threshold(editor.OBJECTS)
    asyncio.run(measure({each.resolve(): each.read_text(encoding="utf-8") for each in options.files}, options.changes))


if __name__ == "__main__":
    main()
