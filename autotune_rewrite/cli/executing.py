"""The options about where trials run, and what runs them there."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from autotune_rewrite.cli.faults import Fault
from autotune_rewrite.cli.findings import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from autotune_rewrite.tune.executors import Executor
    from autotune_rewrite.verify import Plan


@dataclass(frozen=True, slots=True)
class Executing:
    """What was chosen about where trials run."""

    kind: Literal["local", "ray"]
    address: str | None
    gpus: int | None
    accelerator: str | None

    @contextmanager
    def executor(self, script: str, plan: Plan) -> Iterator[Executor | None]:
        """What runs trials there; None: each runs by itself, and sees all devices.

        Raises:
            FileError: The project cannot be shipped.
            VerifyError: There is no such place.
        """
        if self.kind == "ray":
            with self._cluster(script, plan) as cluster:
                yield cluster
        elif self.gpus is not None:
            from autotune_rewrite.tune.devices import devices

            yield devices(plan, self.gpus, say)
        else:
            yield None

    @contextmanager
    def _cluster(self, script: str, plan: Plan) -> Iterator[Executor]:
        try:
            from autotune_rewrite.tune.cluster import Needs, connected
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "ray":
                raise
            raise Fault("--executor ray needs Ray: pip install 'autotune-rewrite[cluster]'") from error
        from autotune_rewrite.project.shipping import shipment, top_of

        shipped = shipment(top_of(Path(script), Path.cwd()))
        say(shipped.told)
        needs = Needs(self.gpus, self.accelerator)
        with connected(self.address or "auto", shipped, plan, needs, say) as cluster:
            yield cluster


def with_executing(command: Callable[..., None]) -> Callable[..., None]:
    """The options about where trials run; they reach the command as ``executing``."""

    @functools.wraps(command)
    def chosen(
        *,
        executor: Literal["local", "ray"],
        address: str | None,
        gpus: int | None,
        accelerator: str | None,
        **values: Any,  # noqa: ANN401 - each option has a type of its own
    ) -> None:
        for option, value in (("--address", address), ("--accelerator-type", accelerator)):
            if executor == "local" and value is not None:
                raise Fault(f"{option} is for --executor ray")
        command(executing=Executing(executor, address, gpus, accelerator), **values)

    options = (
        click.option(
            "--executor",
            type=click.Choice(["local", "ray"]),
            default="local",
            show_default=True,
            help="Run trials here, or on the nodes of a Ray cluster.",
        ),
        click.option("--address", metavar="HOST:PORT", help="The head of the Ray cluster.  [default: auto]"),
        click.option(
            "--gpus",
            type=click.IntRange(min=1),
            metavar="N",
            help="GPUs that a trial sees; others run at once on others.  [default: all; with ray: 1]",
        ),
        click.option(
            "--accelerator-type",
            "accelerator",
            metavar="NAME",
            help="The kind of GPU of the cluster.  [default: the one that most trials fit on]",
        ),
    )
    for decorate in reversed(options):
        chosen = decorate(chosen)
    return chosen
