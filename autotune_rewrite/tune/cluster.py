"""Trials on a Ray cluster: each is one task on one node, on nodes that are alike. Nothing else imports Ray."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError, RayTaskError

from autotune_rewrite.tune import hardware
from autotune_rewrite.tune.runner import TOP, LostError, Parcel, Runner
from autotune_rewrite.verify.plan import VerifyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from autotune_rewrite.project.shipping import Shipment
    from autotune_rewrite.tune.runner import Answer
    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import Environment, Run

RETRIES = 3
"""Times that a trial whose worker or node was lost is run again."""
LOOK = 5.0
"""Seconds between two looks at which nodes are left."""
DESCRIBING = 600.0
"""Seconds in which a node has to say what it is: it may be busy, or import torch over a slow disk."""
PROJECT = "project"
"""The directory with the project in what is shipped: its modules are none of a worker's own."""
ACCELERATOR = "accelerator_type:"


@dataclass(frozen=True, slots=True)
class Needs:
    """What a trial takes of a cluster."""

    gpus: int | None = None
    """None: one, where nodes have some."""
    accelerator: str | None = None
    """The type of the GPU, as Ray calls it; None: the one that most trials fit on."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node, and what a trial takes of it."""

    name: str
    """Ray's identifier."""
    address: str
    places: int
    """Trials that fit on it at once: where it has no GPU, one has all of its processors."""
    gpus: int
    cpus: int
    """For each of them."""
    is_whole: bool
    """Whether one trial has all of its processors."""

    @property
    def resources(self) -> dict[str, Any]:
        """As Ray is asked for them."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}


@contextmanager
def connected(
    address: str, shipment: Shipment, plan: Plan, needs: Needs, say: Callable[[str], None]
) -> Iterator[Cluster]:
    """A cluster that is there, with a project shipped to it.

    Args:
        address: Of the cluster's head; "auto": that of this machine.
        shipment: The project.
        plan: How trials are run: on which device.
        needs: What each of them takes.
        say: Is told which nodes run them.

    Raises:
        VerifyError: There is no such cluster, or no node of it will do.
    """
    # Ray prints what becomes of workers; standard output is for the report.
    with TemporaryDirectory(prefix="torchfast-") as folder, redirect_stdout(sys.stderr):
        shipment.lay(Path(folder) / PROJECT)
        _connect(address, folder)
        try:
            yield _cluster(shipment, plan, needs, say)
        finally:
            ray.shutdown()


def _connect(address: str, folder: str) -> None:
    packages = [str(TOP / name) for name in ("autotune_rewrite", "codemods")]
    environment = {"working_dir": folder, "py_modules": packages}
    try:
        ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, OSError, RuntimeError, ValueError, RayError) as error:
        raise VerifyError(f"no Ray cluster at {address}: {_first_line(error)}") from error


def _cluster(shipment: Shipment, plan: Plan, needs: Needs, say: Callable[[str], None]) -> Cluster:
    """The largest set of nodes that are alike."""
    nodes = _nodes([each for each in ray.nodes() if each["Alive"]], plan, needs)
    parcel = Parcel.of(plan, shipment.top, shipment.left_out)
    found = _described(nodes, parcel)
    chosen, kind = hardware.alike(found, {each: each.places for each in found})
    cluster = Cluster(tuple(chosen), kind, shipment, say)
    at_once = "1 trial" if cluster.places == 1 else f"{cluster.places} trials"
    say(f"{at_once} at once on {len(chosen)} of {len(nodes)} nodes: {hardware.named(kind)}")
    for node in found:
        if node not in chosen:
            say(f"not used: {node.address}, which is other hardware: {hardware.named(found[node])}")
    return cluster


def _nodes(alive: Sequence[dict[str, Any]], plan: Plan, needs: Needs) -> list[Node]:
    """The nodes that trials fit on.

    Raises:
        VerifyError: There are none.
    """
    types = {each["NodeID"]: _accelerator(each) for each in alive}
    if needs.accelerator is not None and needs.accelerator not in types.values():
        some = ", ".join(sorted(filter(None, types.values()))) or "none"
        raise VerifyError(f"no node has a GPU of the type {needs.accelerator}; types in the cluster: {some}")
    has_gpus = any(each["Resources"].get("GPU") for each in alive)
    gpus = needs.gpus
    if plan.device == "cpu":
        gpus = 0
    elif gpus is None and has_gpus and plan.launcher:
        raise VerifyError("--gpus has to say how many GPUs the processes of the launcher take")
    elif gpus is None:
        gpus = int(has_gpus)
    fitting = [each for each in alive if needs.accelerator in (None, types[each["NodeID"]])]
    nodes = [node for each in fitting if (node := _node(each, gpus)) is not None]
    if not nodes:
        needed = f"{gpus} GPUs" if gpus else "a processor"
        raise VerifyError(f"none of the {len(alive)} nodes of the cluster has {needed} for a trial")
    return nodes


def _accelerator(node: dict[str, Any]) -> str | None:
    """The type of a node's GPUs."""
    found = (name for name in node["Resources"] if name.startswith(ACCELERATOR))
    return next((name.removeprefix(ACCELERATOR) for name in found), None)


def _node(node: dict[str, Any], gpus: int) -> Node | None:
    """What a trial takes of a node; None where none fits."""
    all_cpus, all_gpus = int(node["Resources"].get("CPU", 0)), int(node["Resources"].get("GPU", 0))
    places = all_gpus // gpus if gpus else int(all_cpus > 0)
    if not places:
        return None
    cpus = all_cpus // places
    return Node(node["NodeID"], node["NodeManagerAddress"], places, gpus, cpus, is_whole=places == 1)


def _described(nodes: Sequence[Node], parcel: Parcel) -> dict[Node, Environment]:
    """What each node is, as runs see it.

    Raises:
        VerifyError: None of them says so.
    """
    asked = {_submitted(parcel, node, [node.name], describes=True): node for node in nodes}
    done, late = ray.wait(list(asked), num_returns=len(asked), timeout=DESCRIBING)
    for each in late:
        ray.cancel(each, force=True)
    refused = ""
    found: dict[Node, Environment] = {}
    for each in done:
        try:
            answer: Answer = ray.get(each)
        except RayError as error:
            refused = _first_line(error)
            continue
        refused = answer.refused or refused
        if not answer.refused:
            found[asked[each]] = answer.hardware
    if not found:
        raise VerifyError(refused or f"no node has answered within {DESCRIBING:g} seconds: are they busy?")
    return {node: found[node] for node in nodes if node in found}


def _submitted(parcel: Parcel, node: Node, names: Iterable[str], *, describes: bool) -> Any:  # noqa: ANN401 - Ray's own
    """A task on one of some nodes, of which as much is taken as of this one."""
    task = ray.remote(_on_node).options(
        **node.resources,
        name="torchfast trial",
        label_selector={"ray.io/node-id": f"in({','.join(names)})"},
        max_retries=RETRIES,
        retry_exceptions=[LostError],  # a script's own failure is an answer
    )
    return task.remote(parcel, node, describes)


def _on_node(parcel: Parcel, node: Node, describes: bool) -> Answer:  # noqa: FBT001 - Ray's tasks take positions
    """Carries out a plan; runs in a worker process of a node, where only torch and what verifying needs is there."""
    root = Path.cwd() / PROJECT
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "") if node.gpus else "cpu"
    here = ray.get_runtime_context().get_node_id()
    with TemporaryDirectory(prefix="torchfast-") as folder:
        job = parcel.job(root, Path(folder), f"{here}-{visible}", describes=describes)
        return parcel.told(Runner(job, _environment(node), Path(folder)).wait(), root)


def _environment(node: Node) -> dict[str, str]:
    """The variables of a worker but for what Ray has made of them for itself."""
    own = {*map(str, (Path.cwd(), TOP))}
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = os.pathsep.join(path for path in paths if path and path not in own)
    found = {**os.environ, "PYTHONPATH": others}
    if node.is_whole and found.get("OMP_NUM_THREADS") == str(node.cpus):
        del found["OMP_NUM_THREADS"]  # torch knows better how many of a machine's processors to use
    return found


@dataclass(slots=True)
class Cluster:
    """Nodes that are alike; an executor, see ``Executor``."""

    nodes: tuple[Node, ...]
    hardware: Environment
    shipment: Shipment
    say: Callable[[str], None]
    lost: set[str] = field(default_factory=set)
    """Nodes of which the user was told that they are gone."""

    @property
    def places(self) -> int:
        """How many trials run at once."""
        return max(1, sum(each.places for each in self.nodes if each.name not in self.lost))

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        """Carry out one plan.

        Raises:
            VerifyError: It cannot be.
        """
        ((_, judgement, runs),) = self._several([("", plan)])
        if probe:
            _refuse_failing_node(judgement)
        return judgement, runs

    def several(self, plans: Iterable[tuple[str, Plan]]) -> Iterator[tuple[str, Judgement]]:
        """Carry out plans, as many at once as there are places.

        Raises:
            VerifyError: One cannot be carried out, or no node is left.
        """
        for name, judgement, _ in self._several(plans):
            _refuse_failing_node(judgement)
            yield name, judgement

    def _several(self, plans: Iterable[tuple[str, Plan]]) -> Iterator[tuple[str, Judgement, Sequence[Run]]]:
        waiting = iter(plans)
        pending: dict[Any, str] = {}
        try:
            while True:
                while len(pending) < self.places and (taken := next(waiting, None)) is not None:
                    name, plan = taken
                    pending[self._submit(plan)] = name
                if not pending:
                    return
                for each in self._ended(list(pending)):
                    name = pending.pop(each)
                    answer = self._answer(each)
                    assert answer.judgement is not None  # noqa: S101 - it was not refused
                    yield name, answer.judgement, answer.runs
        finally:
            for each in pending:
                ray.cancel(each, force=True)

    def _submit(self, plan: Plan) -> Any:  # noqa: ANN401 - Ray's own
        parcel = Parcel.of(plan, self.shipment.top, self.shipment.left_out)
        # All of them are alike: what a trial takes of one it takes of each.
        return _submitted(parcel, self.nodes[0], [each.name for each in self.nodes], describes=False)

    def _ended(self, pending: list[Any]) -> list[Any]:
        """The trials that have ended, as soon as one has.

        Raises:
            VerifyError: No node is left that could run them.
        """
        while True:
            done, _ = ray.wait(pending, timeout=LOOK)
            self._look()
            if done:
                return list(done)

    def _look(self) -> None:
        """Notices nodes that are gone; what ran there is run again on the others."""
        alive = {each["NodeID"] for each in ray.nodes() if each["Alive"]}
        for each in self.nodes:
            if each.name not in alive | self.lost:
                self.lost.add(each.name)
                self.say(f"node {each.address} is lost; its trial is run again elsewhere")
        if not alive.intersection(each.name for each in self.nodes):
            raise VerifyError(f"no node is left with {hardware.named(self.hardware)}: what was measured is on record")

    def _answer(self, ended: Any) -> Answer:  # noqa: ANN401 - Ray's own
        """What came of a trial.

        Raises:
            VerifyError: Nothing did, or it says nothing of its changes.
        """
        try:
            answer: Answer = ray.get(ended)
        except RayTaskError as error:
            raise VerifyError(f"a trial was lost {RETRIES + 1} times: {error.cause}") from error
        except RayError as error:
            raise VerifyError(f"a trial was lost {RETRIES + 1} times: {_first_line(error)}") from error
        if answer.refused:
            raise VerifyError(answer.refused)
        if answer.hardware != self.hardware:
            other = hardware.named(answer.hardware)
            raise VerifyError(f"a node is no longer what it was: {other}, and not {hardware.named(self.hardware)}")
        return answer


def _refuse_failing_node(judgement: Judgement) -> None:
    """Refuses to say of changes what is a node's fault: the original has run before, on another one perhaps.

    Raises:
        VerifyError: It failed.
    """
    if judgement.run != "ok" and judgement.side == "original":
        cure = "what is not shipped has to be at the same place on each node"
        raise VerifyError(f"on a node the script fails as it is, and has run before: {judgement.reason} ({cure})")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
