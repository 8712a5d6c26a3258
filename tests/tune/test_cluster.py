"""Trials on a Ray cluster of two nodes on this machine: Ray, its workers and what is shipped are real, times are not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install 'autotune-rewrite[cluster]'")

import nodes
from worlds import OPTIONS, World

from autotune_rewrite.project.shipping import shipment
from autotune_rewrite.rewriting.batch import read_project
from autotune_rewrite.tune import cluster, runner
from autotune_rewrite.tune.cluster import Needs, connected
from autotune_rewrite.tune.hardware import named
from autotune_rewrite.tune.trials import Records
from autotune_rewrite.tune.tuned import Tuned, Tuning
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.plan import Plan, VerifyError
from tests.conftest import NAIVE, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from autotune_rewrite.tune.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray"), pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """A cluster of two nodes, each with one processor."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        some = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        some.add_node(num_cpus=1)
        yield some
        some.shutdown()


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where trials are noted; what is shipped of torchfast has known times in the place of the verifier."""
    place, packages = tmp_path / "notes", tmp_path / "packages"
    place.mkdir()
    for name in ("autotune_rewrite", "codemods"):
        shutil.copytree(ROOT / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    stub = Path(nodes.__file__).read_text(encoding="utf-8").replace("from __future__ import annotations\n", "")
    given = f"\nNOTES = Path({str(place)!r})\n"
    (place / "seconds").write_text("0.5")
    with (packages / "autotune_rewrite" / "tune" / "runner.py").open("a", encoding="utf-8") as file:
        file.write(stub + given)
    monkeypatch.setattr(cluster, "TOP", packages)
    return place


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / ".gitignore").write_text("data/\n")
    (folder / "train.py").write_text(NAIVE)
    monkeypatch.chdir(folder)
    return folder


def tuned(some: Cluster | World, records: Path | None = None) -> Tuned:
    script = Path("train.py")
    plan, parts, executor = Plan(script, script), read_project(str(script)), None if isinstance(some, World) else some
    return Tuning(parts, OPTIONS, plan, some, lambda _: None, 600, Records(records), executor=executor).end()


def at(two_nodes: Any, project: Path, say: Callable[[str], None] = lambda _: None) -> Any:
    script = Path("train.py")
    return connected(two_nodes.address, shipment(project), Plan(script, script), Needs(), say)


def answers(result: Tuned) -> dict[str, str]:
    assert result.found is not None
    return {part.rule: part.answer for part in result.found.parts}


class Note(NamedTuple):
    what: str
    worker: str
    runner: str
    raylet: str
    directory: str
    has_data: str


def trials(notes: Path) -> list[Note]:
    path = notes / "trials"
    return [Note(*line.split()) for line in path.read_text().splitlines()] if path.exists() else []


def running(notes: Path) -> list[Note]:
    ended = {each.runner for each in trials(notes) if each.what == "ended"}
    return [each for each in trials(notes) if each.runner not in ended]


def begun(notes: Path) -> int:
    return [each.what for each in trials(notes)].count("began")


def when(condition: Callable[[], bool], act: Callable[[], None]) -> threading.Thread:
    """Does something as soon as a condition holds."""

    def watch() -> None:
        until = time.monotonic() + 60
        while not condition() and time.monotonic() < until:
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


EXPECTED = {"h2d-non-blocking": "dropped", "loader-pin": "kept", "zero-grad-none": "kept"}


def test_a_cluster_finds_what_one_machine_finds_with_trials_at_once(
    two_nodes: Any, notes: Path, project: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    with at(two_nodes, project, said.append) as some:
        assert some.places == 2
        result = tuned(some, tmp_path / "records")
    here = World({"loader-pin": 1.5, "zero-grad-none": 1.2})
    expected = tuned(here)

    assert answers(result) == answers(expected) == EXPECTED
    assert result.pays
    assert said == [f"2 trials at once on 2 of 2 nodes: {named(some.hardware)}"]
    order = [each.what for each in trials(notes)]
    assert ["began", "began"] in [order[at : at + 2] for at in range(len(order))], "two at once"
    alive: Counter[str] = Counter()
    for each in trials(notes):
        alive[each.raylet] += 1 if each.what == "began" else -1
        assert alive[each.raylet] <= 1, "never two on one node"
    assert len(alive) == 2
    assert {each.has_data for each in trials(notes)} == {"True"}, "what is not shipped is found where it lies"
    assert {Path(each.directory).name for each in trials(notes)} == {cluster.PROJECT}
    assert result.confirmed is not None
    assert result.confirmed.reason == f"The same bits in {project}.", "paths are those of this machine"
    alone = World({})
    assert tuned(alone, tmp_path / "records").found == result.found, "the records are those of any executor"
    assert len(alone.plans) == 1, "but for the result, which is confirmed afresh"


def test_ctrl_c_ends_what_runs_on_the_nodes(two_nodes: Any, notes: Path, project: Path, tmp_path: Path) -> None:
    with at(two_nodes, project) as some:
        interrupting = when(lambda: begun(notes) >= 2, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            tuned(some, tmp_path / "records")
        interrupting.join()
        counted = len(trials(notes))
        time.sleep(2)

    assert trials(notes)[counted:] == []
    assert len(Records(tmp_path / "records").known) >= 1


def test_a_worker_that_is_killed_and_a_node_that_is_lost_in_mid_trial_lose_nothing(
    two_nodes: Any, notes: Path, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    killed: list[str] = []
    other = two_nodes.add_node(num_cpus=1)
    two_nodes.wait_for_nodes()
    its_raylet = str(other.all_processes["raylet"][0].process.pid)
    (notes / "seconds").write_text("4")

    def lose() -> None:
        (notes / "seconds").write_text("0.2")
        trial = next(each for each in running(notes) if each.raylet != its_raylet)
        killed.append(trial.runner)
        os.kill(int(trial.worker), signal.SIGKILL)
        two_nodes.remove_node(other, allow_graceful=False)

    with at(two_nodes, project, said.append) as some:
        losing = when(lambda: len(running(notes)) == 3, lose)
        result = tuned(some, tmp_path / "records")
        losing.join()

    assert answers(result) == EXPECTED
    assert said[0].startswith("3 trials at once on 3 of 3 nodes")
    assert set(said[1:]) <= {f"node {some.nodes[0].address} is lost; its trial is run again elsewhere"}
    asked = [json.loads(line)["key"] for line in (tmp_path / "records").read_text().splitlines() if line]
    assert len(asked) == len(set(asked)), "what was lost is on record once"
    assert [each.what for each in trials(notes) if each.runner in killed] == ["began"], "what it had started has ended"
    assert capsys.readouterr().out == "", "what Ray prints is not the report"


# --- which nodes ----------------------------------------------------------------------------------------------------


def node(name: str, **resources: float) -> dict[str, Any]:
    shown = {key.replace("accelerator_type_", "accelerator_type:"): value for key, value in resources.items()}
    return {"NodeID": name, "NodeManagerAddress": f"host-{name}", "Alive": True, "Resources": shown}


PLAN = Plan(Path("train.py"), Path("train.py"))
MIXED = [
    node("head", CPU=4),
    node("a", CPU=32, GPU=4, accelerator_type_A100=1.0),
    node("b", CPU=16, GPU=2, accelerator_type_H100=1.0),
]


@pytest.mark.parametrize(
    ("alive", "plan", "needs", "found"),
    [
        pytest.param(
            [node("a", CPU=4), node("b", CPU=2)],
            PLAN,
            Needs(),
            [("a", 1, 0, 4), ("b", 1, 0, 2)],
            id="no GPU: whole nodes",
        ),
        pytest.param(
            MIXED, PLAN, Needs(), [("a", 4, 1, 8), ("b", 2, 1, 8)], id="one GPU each, and its part of the processors"
        ),
        pytest.param(MIXED, PLAN, Needs(2), [("a", 2, 2, 16), ("b", 1, 2, 16)], id="two GPUs"),
        pytest.param(MIXED, PLAN, Needs(4), [("a", 1, 4, 32)], id="too many for a node"),
        pytest.param(MIXED, PLAN, Needs(accelerator="H100"), [("b", 2, 1, 8)], id="a type"),
        pytest.param(
            MIXED,
            Plan(Path("a"), Path("a"), device="cpu"),
            Needs(),
            [("head", 1, 0, 4), ("a", 1, 0, 32), ("b", 1, 0, 16)],
            id="on the CPU",
        ),
        pytest.param(
            [node("a", CPU=4), node("head", CPU=0)], PLAN, Needs(), [("a", 1, 0, 4)], id="a head that runs nothing"
        ),
    ],
)
def test_trials_fit_on_nodes(
    alive: list[dict[str, Any]], plan: Plan, needs: Needs, found: list[tuple[str, int, int, int]]
) -> None:
    assert [(each.name, each.places, each.gpus, each.cpus) for each in cluster._nodes(alive, plan, needs)] == found


@pytest.mark.parametrize(
    ("plan", "needs", "said"),
    [
        pytest.param(
            PLAN,
            Needs(accelerator="B200"),
            "no node has a GPU of the type B200; types in the cluster: A100, H100",
            id="a type that is not there",
        ),
        pytest.param(PLAN, Needs(8), "none of the 3 nodes of the cluster has 8 GPUs for a trial", id="too many GPUs"),
        pytest.param(Plan(Path("a"), Path("a"), launcher=("torchrun",)), Needs(), "--gpus has to say", id="a launcher"),
    ],
)
def test_where_no_node_will_do_it_is_said(plan: Plan, needs: Needs, said: str) -> None:
    with pytest.raises(VerifyError, match=said):
        cluster._nodes(MIXED, plan, needs)


def test_a_node_on_which_the_script_fails_as_it_is_says_nothing_of_a_change() -> None:
    failed = Judgement("crashed", "not-checked", "not-checked", "The original script ended.", "bitwise")

    cluster._refuse_failing_node(replace(failed, side="rewritten"))
    with pytest.raises(VerifyError, match=r"on a node the script fails as it is, .*: The original script ended\."):
        cluster._refuse_failing_node(replace(failed, side="original"))


def test_the_wrong_address_is_told_in_a_line(project: Path) -> None:
    with (
        pytest.raises(VerifyError, match="no Ray cluster at nonsense: "),
        connected("nonsense", shipment(project), PLAN, Needs(), lambda _: None),
    ):
        pass


def test_what_is_shipped_runs_without_libcst() -> None:
    import subprocess
    import sys

    text = "import sys; sys.modules['libcst'] = None; sys.modules['ray'] = None; import autotune_rewrite.tune.runner"

    assert subprocess.run([sys.executable, "-c", text], cwd=runner.TOP, check=False).returncode == 0
