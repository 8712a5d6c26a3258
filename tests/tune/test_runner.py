"""Plans in processes of their own, and what goes from one machine to another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.tune import devices, runner
from autotune_rewrite.tune.devices import Devices
from autotune_rewrite.tune.runner import Answer, Job, LostError, Parcel
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.plan import Plan, VerifyError
from autotune_rewrite.verify.records import Run

if TYPE_CHECKING:
    from collections.abc import Mapping

DONE = Judgement("ok", "faster", "equal", "It is.", "bitwise")


# --- parcels --------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "there"
    (top / "run").mkdir(parents=True)
    (top / "data").mkdir()
    (top / "train.py").write_text("original")
    (top / "net.py").write_text("net")
    monkeypatch.chdir(top / "run")
    return top


def test_a_plan_is_unpacked_where_the_project_lies_elsewhere(project: Path, tmp_path: Path) -> None:
    text, module = tmp_path / "fast" / "train.py", tmp_path / "module-1.py"
    text.parent.mkdir()
    text.write_text("faster")
    module.write_text("faster net")
    plan = Plan(
        Path("../train.py"), text, modules=((project / "net.py", module),), script_directory=project, original_text=text
    )
    root, folder = tmp_path / "here", tmp_path / "folder"
    (root / "run").mkdir(parents=True)
    folder.mkdir()

    parcel = Parcel.of(plan, project, (Path("data"), Path("none")))
    text.unlink()
    job = parcel.job(root, folder, "cpu", describes=False)

    assert job.directory == root / "run"
    assert job.plan.original == Path("../train.py"), "from where it is started"
    assert (job.plan.rewritten.name, job.plan.rewritten.read_text()) == ("train.py", "faster")
    assert job.plan.original_text == job.plan.rewritten
    ((own, changed),) = job.plan.modules
    assert (own, changed.read_text()) == (root / "net.py", "faster net")
    assert job.plan.script_directory == root
    assert (root / "data").resolve() == project / "data", "what lies at the same place is there"
    assert not (root / "none").is_symlink()


def test_a_changed_file_that_is_not_shipped_is_refused(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("x")
    plan = Plan(Path("../train.py"), Path("../train.py"), modules=((outside, outside),))

    with pytest.raises(VerifyError, match=r"it lies outside of .*, and only what is below that is shipped"):
        Parcel.of(plan, project)


def test_an_answer_names_the_files_of_the_machine_that_asked(project: Path) -> None:
    parcel = Parcel.of(Plan(Path("../train.py"), Path("../train.py")), project)
    run = Run("original", 0, "crashed", "", ("/node/project/train.py, line 3",), 1.0, times=(1.0,))
    answer = Answer({"gpu": "a GPU"}, replace(DONE, reason="/node/project/net.py is new."), (run,))

    told = parcel.told(answer, Path("/node/project"))

    assert told.judgement is not None
    assert told.judgement.reason == f"{project}/net.py is new."
    assert told.runs[0].output == (f"{project}/train.py, line 3",)
    assert (told.runs[0].times, told.hardware) == (run.times, answer.hardware)


# --- processes ------------------------------------------------------------------------------------------------------


def test_a_script_that_is_refused_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 +\n")
    plan = Plan(tmp_path / "broken.py", tmp_path / "broken.py")

    answer = runner.Runner(Job(plan, tmp_path, "a place"), os.environ, tmp_path).wait()

    assert "broken.py:1" in answer.refused


def test_a_process_that_leaves_no_answer_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "START", "import os; os.kill(os.getpid(), 9)")
    plan = Plan(tmp_path / "a.py", tmp_path / "a.py")

    with pytest.raises(LostError, match="left no answer"):
        runner.Runner(Job(plan, tmp_path, "a place"), os.environ, tmp_path).wait()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(
    "does",
    [
        pytest.param("", id="as usual"),
        pytest.param("signal.signal(signal.SIGINT, signal.SIG_IGN)", id="it ignores interrupts"),
        pytest.param("signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})", id="it blocks interrupts"),
    ],
)
def test_what_runs_is_ended_when_the_asker_is_killed(tmp_path: Path, does: str) -> None:
    stub = (
        "import sys, time; sys.path[0] = sys.argv[1]; from autotune_rewrite.tune import runner\n"
        "def verify(plan, on_run):\n"
        f"    open({str(tmp_path / 'began')!r}, 'w').close()\n"
        "    try: time.sleep(60)\n"
        f"    finally: open({str(tmp_path / 'ended')!r}, 'w').close()\n"
        "runner.verify = verify; runner.main(*sys.argv[2:])"
    )
    asker = (
        "import os, signal, sys; from pathlib import Path; from autotune_rewrite.tune import runner\n"
        "from autotune_rewrite.verify.plan import Plan\n"
        f"{does}\n"
        f"runner.START = {stub!r}; here = Path({str(tmp_path)!r})\n"
        "runner.Runner(runner.Job(Plan(here, here), here, str(here)), os.environ, here).wait()"
    )
    with subprocess.Popen([sys.executable, "-c", asker]) as process:
        wait_for(tmp_path / "began")
        process.send_signal(signal.SIGKILL)

    wait_for(tmp_path / "ended")


def wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_two_jobs_are_never_in_one_place(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("the system has no such locks")
    order: list[str] = []

    def second() -> None:
        with runner._alone(str(tmp_path)):
            order.append("second")

    with runner._alone(str(tmp_path)):
        other = threading.Thread(target=second)
        other.start()
        time.sleep(0.1)
        order.append("first")
    other.join()

    assert order == ["first", "second"]


# --- GPUs of this machine -------------------------------------------------------------------------------------------


class Fake:
    """Stands in for a process; keeps which of them ran at once, and on which GPUs."""

    alive: list[str]
    most: int
    ended: list[str]
    gpus: Mapping[str, str]

    def __init__(self, job: Job, environment: Mapping[str, str], folder: Path) -> None:
        assert folder.is_dir()
        self.job, self.visible, self.looks = job, environment["CUDA_VISIBLE_DEVICES"], 0
        assert not set(self.visible.split(",")) & {each for one in Fake.alive for each in one.split(",")}
        Fake.alive.append(self.visible)
        Fake.most = max(Fake.most, len(Fake.alive))

    @property
    def has_ended(self) -> bool:
        self.looks += 1
        return self.looks > 2

    def wait(self) -> Answer:
        self.end()
        return Answer({"gpu": Fake.gpus[self.visible.split(",")[0]]}, None if self.job.describes else DONE)

    def end(self) -> None:
        Fake.alive.remove(self.visible)
        Fake.ended.append(self.visible)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    monkeypatch.setattr(devices, "Runner", Fake)
    monkeypatch.setattr(devices, "LOOK", 0.0)
    Fake.alive, Fake.most, Fake.ended = [], 0, []
    Fake.gpus = {"0": "H100", "1": "A100", "2": "H100", "3": "H100"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    return Fake


PLAN = Plan(Path("train.py"), Path("train.py"))


def test_each_trial_has_gpus_of_its_own_and_all_are_alike(fakes: type[Fake]) -> None:
    said: list[str] = []
    some = devices.devices(PLAN, 1, said.append)
    fakes.ended.clear()

    names = [name for name, _ in some.several((str(number), PLAN) for number in range(7))]

    assert (some.groups, some.places) == (("0", "2", "3"), 3)
    assert said == ["3 trials at once, with one GPU each: H100, ? CPUs (of unknown model)"]
    assert sorted(names) == [str(number) for number in range(7)]
    assert set(fakes.ended) == {"0", "2", "3"}
    assert fakes.most == 3


def test_a_trial_may_have_several_gpus(fakes: type[Fake]) -> None:
    fakes.gpus = dict.fromkeys("0123", "H100")

    assert devices.devices(PLAN, 2, lambda _: None).groups == ("0,1", "2,3")


def test_no_more_plans_are_asked_for_than_there_are_places(fakes: type[Fake]) -> None:
    taken: list[str] = []

    def plans() -> object:
        for number in range(4):
            taken.append(str(number))
            yield str(number), PLAN

    answers = Devices(("0", "2"), {}).several(plans())  # type: ignore[arg-type]
    next(answers)

    assert len(taken) == 2
    assert len(list(answers)) == 3
    assert fakes.most == 2


def test_what_runs_is_ended_with_an_interrupt(fakes: type[Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(Devices(("0", "2"), {}).several([("a", PLAN), ("b", PLAN)]))

    assert sorted(fakes.ended) == ["0", "2"]
