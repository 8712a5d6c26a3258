"""``torchfast mcp``: tools for coding assistants, which read, and write or run only what the user has allowed.

Each call is a command line of its own, whose JSON is the answer: so both always say the same, a script's output meets
no message of the protocol, and what was started ends with the call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from autotune_rewrite import __version__
from autotune_rewrite.errors import FileError
from autotune_rewrite.project import configuration
from autotune_rewrite.report.pages import page
from autotune_rewrite.rewriting import config
from autotune_rewrite.suggestions import unknown
from codemods.catalogue import RULES

INSTRUCTIONS = (
    "torchfast finds what makes PyTorch training scripts slow, and rewrites as little as makes them faster. `check` "
    "says what it finds, and why it leaves the rest; `preview` shows the change as diffs; `explain` has the page of a "
    "rule. `apply` writes the change, and `verify` runs the script before and after it: both only where the user's "
    "configuration allows it. Read a diff before you propose it: the promise of a finding says how far results may "
    "differ."
)
_START = "import sys; sys.path = [each for each in sys.path if each]; from autotune_rewrite.cli import main; main()"
"""The command, which imports nothing from the current directory: what lies there is the user's, and is not run."""
_TICK = 5.0
"""Seconds between two words about a run: clients give up on a server that says nothing."""
_GRACE = 30.0
"""Seconds in which what was started may end what it has started itself."""

PathArgument = Annotated[str, Field(description="A script, as seen from the working directory.")]
Paths = Annotated[list[str], Field(description="Files and directories, as seen from the working directory.")]
Level = Annotated[
    Literal["bitwise", "random", "precision"] | None,
    Field(description="The farthest promise of changes: the same bits, other random draws, or other rounding."),
]
Select = Annotated[list[str] | None, Field(description="Only these rules, by name; DEFAULT and ALL are groups.")]
Arguments = Annotated[list[str], Field(description="The script's own arguments.")]
Budget = Annotated[float, Field(description="Seconds that all runs together should take.", gt=0)]
Pairs = Annotated[int | None, Field(description="Pairs of runs, at most.", gt=0)]
Device = Annotated[Literal["auto", "cpu", "cuda", "simulated"], Field(description="The device that scripts run on.")]


class Assistant:
    """The tools, for the directory in which the server was started."""

    def __init__(self) -> None:
        """Where the tools may look."""
        self._here = Path.cwd().resolve()

    async def check(self, paths: Paths, level: Level = None, select: Select = None) -> dict[str, Any]:
        """What could be rewritten in PyTorch scripts, with each finding's own fix, and what is left and why.

        Nothing is written or run. The result is that of `torchfast check --format json`.
        """
        names = [self._inside(each) for each in paths]
        return self._of_here(await _torchfast("check", *names, *_chosen(level, select), "--format=json"))

    async def preview(self, path: PathArgument, level: Level = None, select: Select = None) -> dict[str, Any]:
        """The change of a script, and of the modules that it imports, as diffs. Nothing is written or run."""
        return self._of_here(await _torchfast("rewrite", self._inside(path), *_chosen(level, select), "--format=json"))

    async def apply(self, path: PathArgument, level: Level = None, select: Select = None) -> dict[str, Any]:
        """Write the change that `preview` shows, if the configuration allows it; `torchfast undo` takes it back."""
        name = self._inside(path)
        self._refuse_unless("write-files", "apply writes files")
        chosen = (name, *_chosen(level, select), "--format=json")
        diffs = (await _torchfast("rewrite", *chosen))["diffs"]
        outside = next((each["path"] for each in diffs if not self._is_inside(each["path"])), None)
        if outside is not None:
            raise ToolError(f"{outside} would be written, too, and lies outside {self._here}: nothing was written")
        return self._of_here(await _torchfast("rewrite", *chosen, "--apply"))

    async def explain(self, rule: Annotated[str, Field(description="The name of a rule, such as loader-pin.")]) -> str:
        """The page of a rule: what it changes, when it leaves a site, what it promises and what it gains."""
        if rule not in RULES:
            raise ToolError(unknown("rule", rule, RULES))
        return page(RULES[rule])

    async def verify(  # noqa: PLR0913 - as a command line has these options
        self,
        *,
        context: Context,
        path: PathArgument,
        rewritten: Annotated[
            str | None, Field(description="A script that is compared with it; without one, what torchfast makes of it.")
        ] = None,
        arguments: Arguments = [],  # noqa: B006 - the schema shows it, and nobody changes it
        time_budget: Budget = 120,
        pairs: Pairs = None,
        device: Device = "auto",
    ) -> dict[str, Any]:
        """Run a script and its faster version in turn: do both run, which is faster, do they compute the same?

        This runs the user's script, if the user's configuration allows it, and takes minutes. Nothing is written.
        """
        name = self._inside(path)
        self._refuse_unless("run-scripts", "verify runs scripts")
        command = ["rewrite", name, "--verify"]
        if rewritten is not None:
            command = ["verify", name, self._inside(rewritten)]
        options = ["--format=json", f"--time-budget={time_budget}", f"--device={device}"]
        options += [] if pairs is None else [f"--pairs={pairs}"]
        return self._of_here(await _torchfast(*command, *options, "--", *arguments, context=context))

    def _inside(self, path: str) -> str:
        """The path as a command line takes it.

        Raises:
            ToolError: when it lies outside of the working directory, or there is nothing.
        """
        if not path or not self._is_inside(path):
            raise ToolError(f"{path or 'an empty path'}: outside of the working directory, {self._here}")
        if not Path(path).exists():
            raise ToolError(f"{path}: no such file or directory")
        return path if os.path.isabs(path) else os.path.join(".", path) if path.startswith("-") else path  # noqa: PTH117, PTH118

    def _is_inside(self, path: str) -> bool:
        """Whether a path leads to something in the working directory, wherever its links lead."""
        return Path(os.path.realpath(path)).is_relative_to(self._here)

    def _of_here(self, said: dict[str, Any]) -> dict[str, Any]:
        """The answer, without what is said of files outside of the working directory, which the project may have."""
        answer = {**said}
        for key in ("findings", "diffs"):
            if key in said:
                answer[key] = [each for each in said[key] if self._is_inside(each["path"])]
        return answer

    def _refuse_unless(self, key: Literal["run-scripts", "write-files"], what: str) -> None:
        """Refuse what the working directory's configuration does not allow; those below it are no word of the user.

        Raises:
            ToolError: naming the key to set, and where.
        """
        config.forget()  # it may have been set since
        try:
            allowed = config.allowed(self._here)
            written = configuration.nearest(self._here)
        except FileError as error:
            raise ToolError(str(error)) from error
        if not allowed[key]:
            place = written.path or self._here / "pyproject.toml"
            table = "[mcp]" if place.name == configuration.OWN_FILE else "[tool.torchfast.mcp]"
            raise ToolError(f"{what}, which is not allowed: the user can set `{key} = true` under {table} in {place}")


def _chosen(level: str | None, select: list[str] | None) -> list[str]:
    """The options that choose among changes."""
    levels = [] if level is None else [f"--level={level}"]
    # An empty list is how some assistants say that they choose nothing.
    return [*levels, f"--select={','.join(select)}"] if select else levels


async def _torchfast(*arguments: str, context: Context | None = None) -> dict[str, Any]:
    """What a command prints as JSON.

    Raises:
        ToolError: when it prints something else, with the last line of what is wrong.
    """
    command = [sys.executable, "-c", _START, *arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        await _carry_out(command, out, err, context)
        said, wrong = (_text(each) for each in (out, err))
    try:
        answer = json.loads(said)
    except ValueError as error:
        lines = wrong.strip().splitlines() or ["torchfast said nothing"]
        raise ToolError(lines[-1].removeprefix("Error: ")) from error
    if not isinstance(answer, dict):
        raise ToolError("torchfast said something else than what was asked for; please report this")
    return answer


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


async def _carry_out(command: list[str], out: IO[bytes], err: IO[bytes], context: Context | None) -> None:
    """Run a command to its end, and say now and then that it runs; where the call is given up, so is the command."""
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err) as process:
        try:
            async with anyio.create_task_group() as group:
                if context is not None:
                    group.start_soon(_tick, context)
                await process.wait()
                group.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            process.terminate()  # which it takes for Ctrl-C: it ends what it has started
            with anyio.move_on_after(_GRACE, shield=True):
                await process.wait()
            raise


async def _tick(context: Context) -> None:
    start = time.monotonic()
    while True:
        await anyio.sleep(_TICK)
        seconds = time.monotonic() - start
        await context.report_progress(seconds, message=f"scripts have been running for {seconds:.0f} s")


def assistant_server() -> MCPServer:
    """The server, which starts when it is told how it speaks with the assistant."""
    server: MCPServer = MCPServer("torchfast", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    tools, reads = Assistant(), ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for tool in (tools.check, tools.preview, tools.explain):
        server.add_tool(tool, annotations=reads)
    server.add_tool(tools.apply, annotations=ToolAnnotations(destructive_hint=True, idempotent_hint=True))
    server.add_tool(tools.verify, annotations=ToolAnnotations(destructive_hint=False, open_world_hint=True))
    return server
