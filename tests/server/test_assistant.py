"""``torchfast mcp``, as a coding assistant speaks with it over standard input and output."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import TextContent

from autotune_rewrite.report.pages import page
from codemods.catalogue import RULES
from tests.conftest import NAIVE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.conftest import Answer

pytestmark = pytest.mark.xdist_group("editor")

TRAINING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), batch_size=8)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
"""


class Assistant:
    """A program that calls the tools of a server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: object) -> Any:
        """What a tool answers."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def refused(self, tool: str, **arguments: object) -> str:
        """Why a tool does nothing, in one line."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        (content,) = result.content
        assert isinstance(content, TextContent)
        assert "\n" not in content.text
        return content.text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project in a directory that holds something else, too."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[tool.other]\n")
    (folder / "train.py").write_text(NAIVE)
    (tmp_path / "secret.py").write_text(NAIVE)
    return folder


@pytest.fixture
def speak(folder: Path) -> Callable[[Callable[[Assistant], Awaitable[None]]], None]:
    """Has a server started in the project, and something said to it."""

    def speak(conversation: Callable[[Assistant], Awaitable[None]]) -> None:
        async def run() -> None:
            # As the installed command, and unlike `python -m`, it imports nothing from the current directory.
            start = "import sys; sys.path.pop(0); from autotune_rewrite.cli import main; main()"
            command = StdioServerParameters(
                command=sys.executable, args=["-c", start, "mcp"], cwd=folder, env={**os.environ}
            )
            async with Client(command) as client:
                await conversation(Assistant(client))

        anyio.run(run)

    return speak


def test_what_is_read_is_what_the_commands_print(
    speak: Callable[..., None], folder: Path, torchfast: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What lies in the working directory is not imported: it would be run.
    (folder / "click.py").write_text("raise SystemExit('the file of the user was run')\n")
    before = {each: each.read_bytes() for each in folder.iterdir()}
    monkeypatch.chdir(folder)

    def printed(*line: str) -> Any:
        return json.loads(torchfast(*line, "--format", "json").out)

    async def conversation(assistant: Assistant) -> None:
        tools = {each.name: each for each in (await assistant.client.list_tools()).tools}
        assert set(tools) == {"apply", "check", "explain", "preview", "verify"}
        reading = {name for name, each in tools.items() if each.annotations and each.annotations.read_only_hint}
        assert reading == {"check", "explain", "preview"}
        assert await assistant.call("check", paths=["."]) == printed("check", ".")
        assert await assistant.call("check", paths=[], select=[]) == printed("check")
        pins = await assistant.call("check", paths=["train.py"], select=["loader-pin", "compile"], level="bitwise")
        assert {each["rule"] for each in pins["findings"] if each["status"] == "rewrites"} == {"loader-pin"}
        preview = await assistant.call("preview", path="train.py")
        assert preview == printed("rewrite", "train.py")
        assert "+loader = DataLoader(" in preview["diffs"][0]["diff"]
        assert (await assistant.call("explain", rule="loader-pin"))["result"] == page(RULES["loader-pin"])
        assert "did you mean 'loader-pin'?" in await assistant.refused("explain", rule="loader-pinn")

    speak(conversation)

    assert {each: each.read_bytes() for each in folder.iterdir()} == before


def test_what_is_not_allowed_is_refused(speak: Callable[..., None], folder: Path) -> None:
    (folder / "linked.py").symlink_to(folder.parent / "secret.py")
    (folder / "below").mkdir()
    # Only the user's own word counts, and not that of something that lies there.
    (folder / "below" / "torchfast.toml").write_text("[mcp]\nrun-scripts = true\nwrite-files = true\n")
    (folder / "below" / "train.py").write_text(NAIVE)

    async def conversation(assistant: Assistant) -> None:
        for path in ("../secret.py", str(folder.parent / "secret.py"), "linked.py", ".."):
            assert f"{path}: outside of the working directory" in await assistant.refused("check", paths=[path])
            for tool in ("preview", "apply", "verify"):
                assert f"{path}: outside of the working directory" in await assistant.refused(tool, path=path)
        assert "no such file" in await assistant.refused("preview", path="--apply")
        assert "no such file" in await assistant.refused("check", paths=["-"])
        for path in ("train.py", "below/train.py"):
            said = await assistant.refused("apply", path=path)
            assert said.endswith(f"set `write-files = true` under [tool.torchfast.mcp] in {folder / 'pyproject.toml'}")
            said = await assistant.refused("verify", path=path)
            assert said.endswith(f"set `run-scripts = true` under [tool.torchfast.mcp] in {folder / 'pyproject.toml'}")

    speak(conversation)

    assert (folder / "train.py").read_text() == (folder / "below" / "train.py").read_text() == NAIVE


def test_what_is_allowed_is_done(speak: Callable[..., None], folder: Path) -> None:
    (folder / "torchfast.toml").write_text("[mcp]\nrun-scripts = true\nwrite-files = true\n")
    (folder / "fails.py").write_text("1 / 0\n")

    async def conversation(assistant: Assistant) -> None:
        changed = await assistant.call("apply", path="train.py")
        assert changed["written"] == ["train.py"]
        judged = await assistant.call("verify", path="fails.py", rewritten="train.py", pairs=1)
        assert judged["run"] == "crashed"
        said = await assistant.refused("verify", path="fails.py", rewritten="../secret.py")
        assert "outside of the working directory" in said

    speak(conversation)

    assert "pin_memory=True" in (folder / "train.py").read_text()
    assert (folder.parent / "secret.py").read_text() == NAIVE


@pytest.mark.slow
def test_a_verdict_is_that_of_the_command(speak: Callable[..., None], folder: Path) -> None:
    (folder / "torchfast.toml").write_text("[mcp]\nrun-scripts = true\n")
    (folder / "train.py").write_text(TRAINING)
    (folder / "fast.py").write_text(TRAINING.replace("mean()", "mean()  # the same"))

    async def conversation(assistant: Assistant) -> None:
        judged = await assistant.call("verify", path="train.py", rewritten="fast.py", pairs=1, device="simulated")
        assert (judged["run"], judged["speed"], judged["equality"]) == ("ok", "not-checked", "equal")

    speak(conversation)


def test_what_a_project_has_outside_is_neither_told_nor_written(speak: Callable[..., None], folder: Path) -> None:
    """The script imports a module of its project that lies above the working directory."""
    (folder / "pyproject.toml").unlink()
    (folder.parent / "pyproject.toml").write_text("[tool.torchfast.mcp]\nwrite-files = true\n")
    helper = "from torch.utils.data import DataLoader\n\n\ndef loader(data):\n    return DataLoader(data, batch_size=64, num_workers=2)\n"
    (folder.parent / "helper.py").write_text(helper)
    script = NAIVE.replace("from torch.utils.data import DataLoader", "from helper import loader as make").replace(
        "DataLoader(data, batch_size=64, shuffle=True, num_workers=2)", "make(data)"
    )
    (folder / "train.py").write_text(script)

    async def conversation(assistant: Assistant) -> None:
        said = await assistant.call("preview", path="train.py")
        assert {each["path"] for each in [*said["findings"], *said["diffs"]]} == {"train.py"}
        assert "helper.py would be written, too, and lies outside" in await assistant.refused("apply", path="train.py")

    speak(conversation)

    assert ((folder / "train.py").read_text(), (folder.parent / "helper.py").read_text()) == (script, helper)


def test_the_configuration_shows_what_is_allowed(torchfast: Callable[..., Answer], tmp_path: Path) -> None:
    def shown() -> Any:
        return json.loads(torchfast("config", "--format", "json").out)["mcp"]

    assert shown() == {"value": {"run-scripts": False, "write-files": False}, "from": "by default"}
    (tmp_path / "torchfast.toml").write_text("[mcp]\nrun-scripts = true\n")
    torchfast("config")
    assert json.loads(torchfast("config", ".", "--format", "json").out)["mcp"]["value"] == {"run-scripts": True}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        pytest.param("mcp = true", "mcp is not a table", id="no table"),
        pytest.param("[mcp]\nrun = true", "unknown key of mcp 'run'; there is run-scripts, write-files", id="no key"),
        pytest.param("[mcp]\nrun-scripts = 1", "run-scripts is not true or false", id="neither true nor false"),
    ],
)
def test_what_is_wrong_in_the_configuration_is_told(
    torchfast: Callable[..., Answer], tmp_path: Path, written: str, said: str
) -> None:
    (tmp_path / "torchfast.toml").write_text(written)

    answer = torchfast("config")

    assert answer.code == 2
    assert said in answer.err


def test_without_the_sdk_one_line_says_what_is_missing(
    torchfast: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "autotune_rewrite.server.assistant", raising=False)

    answer = torchfast("mcp")

    assert answer.code == 2
    assert answer.err == "Error: the server needs the MCP SDK: pip install 'autotune-rewrite[mcp]'\n"
