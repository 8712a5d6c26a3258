"""One script in one real child process: how it is run, what is seen of it, how it may end."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import psutil
import pytest

from autotune_rewrite.verify import turns
from autotune_rewrite.verify.child.harness import import_copies
from autotune_rewrite.verify.plan import Plan, Turn, VerifyError
from autotune_rewrite.verify.run import HARNESS, probe, run_in_turns, run_script

if TYPE_CHECKING:
    from autotune_rewrite.verify.records import Run

LOOP = """
import torch

torch.set_num_threads(1)
weight = torch.zeros(2, requires_grad=True)
inputs = torch.randn(40, 2)
for row in inputs:
    loss = (weight @ row - 1) ** 2
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
        weight.grad.zero_()
"""
"""Forty iterations without torch.optim, whose import takes longer than all the rest."""

UNREADABLE = """
import sys


def read(values):
    raise RuntimeError("CUDA error: device-side assert triggered")


sys.modules["__torchfast_measures__"].HostValues.read = read
"""
"""What CUDA does after an error on the device that nobody has waited for: to read what lies there raises."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a script is started in is copied for each run: not all of this project."""
    monkeypatch.chdir(tmp_path)


def ran(directory: Path, script: str, *, offset: int = 0, **options: object) -> Run:
    path = directory / "train.py"
    path.write_text(dedent(script))
    plan = replace(Plan(path, path, device="cpu", timeout=120.0), **options)  # type: ignore[arg-type]
    return run_script(plan, Turn("original", offset))


def test_the_project_is_imported_from_its_copy_also_where_an_absolute_path_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a module that was rewritten would not be the one that runs."""
    ways = ("PYTHONPATH", "a path file", "a finder of setuptools")
    sources = [tmp_path / f"src{number}" for number, _ in enumerate(ways)]
    for number, source in enumerate(sources):
        (source / f"package{number}").mkdir(parents=True)
        (source / f"package{number}" / "__init__.py").write_text("x = 1\n")
    site = tmp_path.parent / f"{tmp_path.name}-site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import importlib.util, sys, types\n"
        f"sys.path.append({str(sources[1])!r})\n"
        "finder = sys.modules['__editable___package2_finder'] = types.ModuleType('finder')\n"
        f"finder.MAPPING = {{'package2': {str(sources[2] / 'package2')!r}}}\n"
        "class Finder:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name in finder.MAPPING:\n"
        "            place = finder.MAPPING[name]\n"
        "            return importlib.util.spec_from_file_location(name, place + '/__init__.py')\n"
        "sys.meta_path.append(Finder)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (site, sources[0], os.environ["PYTHONPATH"]))))

    run = ran(
        tmp_path,
        """
        import os
        from pathlib import Path
        import package0, package1, package2

        here = Path.cwd()
        print(*(Path(each.__file__).is_relative_to(here) for each in (package0, package1, package2)))
        print(str(here / "src0") in os.environ["PYTHONPATH"].split(os.pathsep))
        """,
    )

    assert run.lines == ("True True True", "True")


def test_of_a_home_only_what_was_copied_is_imported_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is started in a home finds links there, and nothing that is hidden: Python itself may lie in that."""
    home, copy = tmp_path / "home", tmp_path / "copy"
    for each in (home / ".pyenv" / "lib", home / "linked", home / "project", copy / "project"):
        each.mkdir(parents=True)
    (copy / "linked").symlink_to(home / "linked")
    beside = tmp_path / "home-of-another"
    paths = [str(home / ".pyenv" / "lib"), str(home / "linked"), str(home / "project"), str(beside), ""]
    monkeypatch.setattr(sys, "path", list(paths))
    monkeypatch.setenv("PYTHONPATH", str(home / "project"))

    import_copies([(str(home), str(copy))])

    assert sys.path == [*paths[:2], str(copy / "project"), *paths[3:]]
    assert os.environ["PYTHONPATH"] == str(copy / "project")


def test_runs_as_python_script_py_does(tmp_path: Path) -> None:
    script = """
        import os, pickle, sys
        import beside

        class Local: ...

        assert __name__ == "__main__" and sys.modules["__main__"].Local is Local
        assert pickle.loads(pickle.dumps(Local())).__class__ is Local
        assert (__spec__, __package__, __doc__) == (None, None, None), __spec__
        report = [__file__, sys.path[0], *sys.argv, os.getcwd(), os.environ.get("CUDA_VISIBLE_DEVICES")]
        if __name__ == "__main__":
            sys.exit("\\n".join(map(str, report)))
    """
    (tmp_path / "beside.py").write_text("x = 1\n")
    seen = ran(tmp_path, script, arguments=("--epochs", "2"))
    train = str(tmp_path / "train.py")
    assert seen.output == (train, str(tmp_path), train, "--epochs", "2", str(Path.cwd()))
    assert (seen.outcome, seen.problem) == ("exited", "ended with exit status 1")


@pytest.mark.skipif(not turns.POSSIBLE, reason="processes take turns on Linux only")
def test_two_in_turns_see_the_same_and_do_not_time_each_other(tmp_path: Path) -> None:
    plan = Plan(tmp_path / "train.py", tmp_path / "train.py", device="cpu", timeout=120.0)
    plan.original.write_text(
        LOOP + "import time\nend = time.thread_time() + 1.0\nwhile time.thread_time() < end: ...\n"
    )
    start = time.perf_counter()
    first, second = run_in_turns(plan, (Turn("original", 0), Turn("rewritten", 0)))
    passed = time.perf_counter() - start
    assert (first.outcome, second.outcome, first.in_turns, second.in_turns) == ("ok", "ok", True, True)
    assert (first.side, second.side, first.losses) == ("original", "rewritten", second.losses)
    assert first.wall_seconds + second.wall_seconds < passed
    for run in (first, second):
        assert run.import_seconds + run.script_seconds + run.launch_seconds < run.wall_seconds
        assert run.times[-1] < run.script_seconds


def test_sees_losses_times_and_a_clean_exit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen = ran(tmp_path, LOOP + "print('trained')\nraise SystemExit\n")
    assert (seen.outcome, seen.ended, len(seen.losses)) == ("ok", "finished", 40)
    assert seen.losses[0] == 1.0
    assert list(seen.times) == sorted(seen.times)
    assert 0 < seen.times[0] < seen.times[-1] < seen.script_seconds < seen.wall_seconds
    assert seen.output == ("trained",)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("forked")
def test_every_kind_of_backward_is_one_iteration(tmp_path: Path) -> None:
    script = """
        import torch
        from torch.utils.checkpoint import checkpoint

        def leaf(value):
            return torch.tensor(value, requires_grad=True)

        (leaf(3.0) * 1).backward()
        torch.autograd.backward([leaf(1.0) * 2, leaf(2.0) * 2])
        torch.autograd.backward(tensors=leaf(5.0) * 1)
        (leaf([1.0, 2.0]) * 2).backward(torch.ones(2))
        checkpoint(lambda x: (x * 7).sum(), leaf([1.0]), use_reentrant=True).backward()
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scaler.scale(leaf(9.0) * 1).backward()
        (leaf(float("nan")) * 1).backward()

        weight = leaf([4.0])
        optimizer = torch.optim.LBFGS([weight], max_iter=3)

        def closure():
            optimizer.zero_grad()
            loss = (weight ** 2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
    """
    seen = ran(tmp_path, script)
    assert seen.outcome == "ok", seen.output
    assert str(seen.losses[:8]) == str((3.0, 6.0, 5.0, 6.0, 7.0, 9.0, float("nan"), 16.0))
    assert len(seen.losses) > 8, "the closure is called more than once"
    assert len(seen.parameters) == 1


@pytest.mark.usefixtures("forked")
def test_digest_tells_parameters_apart_after_the_optimizer_is_gone(tmp_path: Path) -> None:
    script = """
        import torch

        def train(value):
            weight = torch.nn.Parameter(torch.full((3,), value))
            return weight, torch.optim.SGD([weight, torch.nn.Parameter(torch.ones(1))], lr=0.1)

        for value in 1.0, 1.0, 1.0000001:
            weight, optimizer = train(value)
        torch.optim.SGD([torch.nn.UninitializedParameter()])
        (2 * weight).sum().backward()
        optimizer.step()
    """
    seen = ran(tmp_path, script)
    first, second, third, _ = seen.parameters
    assert first == second != third
    assert seen.moved == (0, 0, 1, 0), "only one parameter of the third was trained"


def test_ends_after_so_many_iterations_and_leaves_no_worker(tmp_path: Path) -> None:
    script = """
        import os
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Rows(Dataset):
            def __len__(self):
                return 1000

            def __getitem__(self, index):
                return torch.full((1,), float(index))

        if __name__ == "__main__":
            weight = torch.ones(1, requires_grad=True)
            batches = iter(DataLoader(Rows(), num_workers=1, persistent_workers=True))
            print(batches._workers[0].pid)
            for batch in batches:
                try:
                    (weight * batch).sum().backward()
                except Exception:
                    print("a bare except does not see the end")
            print("not reached")
    """
    seen = ran(tmp_path, script, iterations=5)
    assert (seen.outcome, seen.ended, seen.losses) == ("ok", "cut", (0.0, 1.0, 2.0, 3.0, 4.0))
    (worker,) = seen.output
    with pytest.raises(ProcessLookupError):
        os.kill(int(worker), 0)


def test_a_rewritten_text_acts_as_if_it_lay_in_the_project(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    (project / "train.py").write_text("raise SystemExit('the original must not be imported')\n")
    (project / "rows.py").write_text("scale = 2.0\n")
    script = """
        import inspect
        import sys
        from pathlib import Path
        import torch
        from torch.utils.data import DataLoader, Dataset
        from rows import scale

        HERE = Path(__file__).parent.name

        class Rows(Dataset):
            def __len__(self):
                return 2

            def __getitem__(self, index):
                return torch.tensor(scale if HERE == "project" else 0.0)

        if __name__ == "__main__":
            assert sys.argv == [__file__]
            assert "class Rows" in inspect.getsource(Rows)
            weight = torch.ones(1, requires_grad=True)
            for batch in DataLoader(Rows(), num_workers=1, multiprocessing_context="spawn"):
                (weight * batch).sum().backward()
    """
    (elsewhere / "train.py").write_text(dedent(script))
    plan = Plan(project / "train.py", elsewhere / "train.py", timeout=120.0, script_directory=project)
    seen = run_script(plan, Turn("rewritten", 0))
    assert (seen.outcome, seen.losses) == ("ok", (2.0, 2.0)), seen.output


@pytest.mark.usefixtures("forked")
def test_a_rewritten_file_elsewhere_finds_the_originals_modules(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "rows.py").write_text("x = 1\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "fast.py").write_text("import rows, sys\nprint(sys.path[0])\nprint(__file__)\n")
    seen = run_script(Plan(tmp_path / "train.py", elsewhere / "fast.py", timeout=120.0), Turn("rewritten", 0))
    assert seen.output == (str(elsewhere), str(elsewhere / "fast.py"))


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("module", [pytest.param(False, id="by its file"), pytest.param(True, id="as python -m does")])
def test_the_script_runs_where_a_module_of_its_package_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, module: bool
) -> None:
    (tmp_path / "package").mkdir()
    train, rows, changed = (tmp_path / name for name in ("package/train.py", "package/rows.py", "changed.py"))
    train.write_text("import sys\nfrom pathlib import Path\nsys.path.append(str(Path.cwd()))\nimport package.rows\n")
    rows.write_text("print('as it was')\n")
    changed.write_text("print('changed by', __name__)\n")
    monkeypatch.chdir(tmp_path)
    original, own = (path.relative_to(tmp_path) for path in (train, rows))  # as users type them
    plan = Plan(original, original, timeout=120.0, module=module, modules=((own, changed),))

    seen = run_script(plan, Turn("rewritten", 0))

    assert (seen.outcome, seen.output) == ("ok", ("changed by package.rows",))


def test_a_module_runs_as_python_m_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "training"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rows.py").write_text("scale = 2.0\n")
    script = """
        import sys
        import torch
        from torch.utils.data import DataLoader, Dataset
        from .rows import scale

        class Rows(Dataset):
            def __len__(self):
                return 2

            def __getitem__(self, index):
                return torch.tensor(scale)

        if __name__ == "__main__":
            print(__file__, sys.argv, sys.path[0], __package__, __spec__.name, sep="\\n")
            weight = torch.ones(1, requires_grad=True)
            for batch in DataLoader(Rows(), num_workers=1, multiprocessing_context="spawn"):
                (weight * batch).sum().backward()
    """
    (package / "train.py").write_text(dedent(script))
    monkeypatch.chdir(tmp_path)
    path = Path("training", "train.py")
    plan = Plan(path, path, module=True, device="cpu", arguments=("--fast",), timeout=120.0)
    seen = run_script(plan, Turn("original", 0))
    train = str(package / "train.py")
    assert (seen.outcome, seen.losses) == ("ok", (2.0, 2.0)), seen.output
    assert seen.lines == (train, str([train, "--fast"]), str(tmp_path), "training", "training.train")


def test_a_launcher_s_processes_train_together_and_the_first_is_recorded(tmp_path: Path) -> None:
    script = """
        import sys
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        torch.manual_seed(0)
        # Not DistributedDataParallel: with gloo its process aborts now and then at its end, without a harness, too.
        model = torch.nn.Linear(2, 1)
        for iteration in range(9):
            loss = model(torch.full((4, 2), float(dist.get_rank() + 1))).mean()
            loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        assert sys.argv[1:] == ["--epochs", "1"]
        sys.stdout.write(f"rank {dist.get_rank()}\\n")
        dist.destroy_process_group()
    """
    launcher = ("torchrun", "--standalone", "--nproc_per_node=2")
    seen = ran(tmp_path, script, launcher=launcher, arguments=("--epochs", "1"))
    assert (seen.outcome, seen.ended, len(seen.losses)) == ("ok", "finished", 9), seen.lines
    assert {"rank 0", "rank 1"} <= set(seen.lines)
    assert 0.0 < seen.launch_seconds < seen.wall_seconds - seen.import_seconds
    cut = ran(tmp_path, script, launcher=launcher, arguments=("--epochs", "1"), iterations=5)
    assert (cut.outcome, cut.ended, cut.losses) == ("ok", "cut", seen.losses[:5]), cut.lines


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_it_ends_with_the_one_that_measures_while_it_still_imports_torch(tmp_path: Path) -> None:
    record = tmp_path / "record"
    config = json.dumps({"script": None, "argv": [""], "path": [], "capability": None, "record": str(record)})
    starts = f"""
        import subprocess, sys
        from pathlib import Path
        process = subprocess.Popen([sys.executable, {str(HARNESS)!r}, {config!r}])
        while "libtorch" not in Path(f"/proc/{{process.pid}}/maps").read_text():
            pass
        print(process.pid)
    """
    killed = subprocess.run([sys.executable, "-c", dedent(starts)], stdout=subprocess.PIPE, check=True)
    until = time.monotonic() + 60
    while psutil.pid_exists(int(killed.stdout)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not record.exists()


@pytest.mark.usefixtures("forked")
def test_what_a_loader_does_is_seen(tmp_path: Path) -> None:
    script = """
        import time
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Rows(Dataset):
            def __len__(self):
                return 10

            def __getitem__(self, index):
                time.sleep(0.01)
                return {"x": torch.full((2,), float(index)), "y": index}

        weight = torch.ones(2, requires_grad=True)
        train, test = DataLoader(Rows(), batch_size=4), DataLoader(Rows(), batch_size=5)
        for epoch in range(2):
            for batch in train:
                (weight * batch["x"]).sum().backward()
            for batch in test:
                weight.detach().sum()
        for batch in train:
            (weight * batch["x"]).sum().backward()
            break
        with open("result.txt", "w") as file:
            file.write("bytes")
    """
    seen = ran(tmp_path, script)
    assert [(one.batches, one.samples, one.iterations) for one in seen.passes] == [
        *[(3, 10, 3), (2, 10, 0)] * 2,
        (1, 4, 1),
    ], seen.output
    assert all(one.start < one.end <= seen.script_seconds and one.waited >= 0.1 for one in seen.passes[:4])
    assert list(seen.waits) == sorted(seen.waits)
    assert 0.4 < seen.waits[-1] < seen.times[-1]
    assert [(one.name, one.size) for one in seen.files] == [("result.txt", 5)]
    assert seen.files[0].digest == hashlib.sha256(b"bytes").hexdigest()
    cut = ran(tmp_path, script, batches=1)
    assert [(one.batches, one.samples, one.iterations) for one in cut.passes] == [
        *[(1, 4, 1), (1, 5, 0)] * 2,
        (1, 4, 1),
    ]


@pytest.mark.usefixtures("forked")
def test_what_the_harness_sets_and_what_it_sees_of_compiling_and_writing(tmp_path: Path) -> None:
    script = """
        import os
        import torch
        from torch.utils.tensorboard import SummaryWriter

        weight = torch.ones(2, requires_grad=True)
        double = torch.compile(lambda x: 2 * x, backend="eager", dynamic=False)
        with SummaryWriter("runs") as writer:
            for iteration in range(3):
                loss = (weight * double(torch.ones(2 + iteration // 2))[:2]).sum()
                loss.backward()
                writer.add_scalar("loss/train", loss, iteration)
            writer.add_scalar(tag="accuracy", scalar_value=0.5)
        print(torch.are_deterministic_algorithms_enabled(), os.environ.get("CUBLAS_WORKSPACE_CONFIG"))
        print(torch.get_float32_matmul_precision())
    """
    path = tmp_path / "train.py"
    path.write_text(dedent(script))
    plan = Plan(path, path, device="cpu", timeout=120.0)
    seen = run_script(plan, Turn("original", 0, "check"))
    assert seen.outcome == "ok", seen.output
    assert seen.lines[:2] == ("True :4096:8", "highest")
    assert [(one.tag, one.step, one.value) for one in seen.scalars] == [
        *(("loss/train", iteration, 4.0) for iteration in range(3)),
        ("accuracy", None, 0.5),
    ]
    first, second = seen.compiles
    assert first < seen.times[0] < seen.times[1] < second < seen.times[2]
    assert seen.host_bytes > 2**20


@pytest.mark.usefixtures("forked")
def test_tf32_is_a_baseline_that_the_harness_sets(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\nprint(torch.get_float32_matmul_precision())\n")
    assert run_script(Plan(path, path, device="cpu"), Turn("original", 0, "tf32")).lines == ("high",)


@pytest.mark.usefixtures("forked")
def test_hooks_stay_out_of_a_compiled_loop(tmp_path: Path) -> None:
    script = """
        import torch

        weight = torch.ones(2, requires_grad=True)

        @torch.compile(backend="eager")
        def iteration(batch):
            loss = (weight * batch).sum()
            loss.backward()
            return loss

        for value in range(4):
            iteration(torch.full((2,), float(value)))
    """
    seen = ran(tmp_path, script)
    assert (seen.outcome, seen.losses) == ("ok", (0.0, 2.0, 4.0, 6.0)), seen.output
    assert "harness" not in "\n".join(seen.output)


@pytest.mark.usefixtures("forked")
def test_the_same_seed_draws_the_same_and_another_pair_draws_otherwise(tmp_path: Path) -> None:
    script = """
        import random
        import numpy
        import torch

        def draw():
            return torch.rand(()).item() + numpy.random.rand() + random.random() + hash("a") % 97

        def record():
            (torch.ones((), requires_grad=True) * draw()).backward()

        record()
        torch.manual_seed(7)
        numpy.random.seed(7)
        random.seed(7)
        record()
    """
    first, again, other = (ran(tmp_path, script, offset=offset).losses for offset in (0, 0, 1))
    assert len(first) == 2
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("script", "outcome", "problem", "last"),
    [
        pytest.param(
            LOOP.replace(
                "loss.backward()",
                "loss.backward()\n    if len(seen := [*seen, 1]) == 5: raise ValueError('in the middle')",
            ).replace("import torch", "import torch\nseen = []", 1),
            "crashed",
            "ended with an exception after 5 iterations",
            "ValueError: in the middle",
            id="crash in mid-epoch",
        ),
        pytest.param(
            f"{LOOP}raise ValueError('at the end')",
            "crashed",
            "ended with an exception after 40 iterations",
            "ValueError: at the end",
            id="crash at the end",
        ),
        pytest.param(
            LOOP.replace("loss.backward()", "loss.backward()\n    import os; os._exit(0)"),
            "vanished",
            "left without coming to its end (os._exit?)",
            "",
            id="os._exit(0) before the first window",
        ),
        pytest.param(
            f"{LOOP}import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "killed",
            "was ended by SIGKILL",
            "",
            id="killed",
        ),
        pytest.param(
            f"{LOOP}{UNREADABLE}",
            "crashed",
            "ended with an exception after 40 iterations",
            "RuntimeError: CUDA error: device-side assert triggered",
            id="an error on the device that nobody has waited for",
        ),
        pytest.param(
            f"{LOOP}import atexit, os; atexit.register(os.abort); raise ValueError('the library then aborts')",
            "crashed",
            "ended with an exception after 40 iterations",
            "ValueError: the library then aborts",
            id="an exception after which the process is aborted",
        ),
        pytest.param("import sys; sys.exit(3)", "exited", "ended with exit status 3", "", id="an exit status"),
        pytest.param(
            "input()",
            "crashed",
            "read from standard input, where nobody answers",
            "EOFError: EOF when reading a line",
            id="reads standard input",
        ),
        pytest.param(
            f"{LOOP}torch.empty(2**60)",
            "out-of-memory",
            "ran out of memory after 40 iterations",
            None,
            id="more memory than there is",
        ),
    ],
)
def test_a_run_that_does_not_end_well_is_told(
    request: pytest.FixtureRequest, script: str, outcome: str, problem: str, last: str | None
) -> None:
    if outcome not in {"killed", "vanished"}:
        request.getfixturevalue("forked")
    seen = ran(Path.cwd(), script)
    assert (seen.outcome, seen.problem) == (outcome, problem)
    assert last is None or (seen.output or ("",))[-1] == last
    assert "harness.py" not in "\n".join(seen.output)


def test_of_a_run_that_vanishes_the_windows_are_left(tmp_path: Path) -> None:
    script = LOOP.replace("loss.backward()", "loss.backward()\n    import time; time.sleep(0.2)")
    seen = ran(tmp_path, script.replace("inputs:", "inputs[:8]:") + "import os; os._exit(0)")
    assert seen.outcome == "vanished"
    assert 4 <= len(seen.losses) < 8
    assert (len(seen.times), len(seen.waits)) == (len(seen.losses), len(seen.losses))
    assert seen.losses[0] == 1.0
    assert seen.problem == (
        f"left after {len(seen.losses)} iterations without coming to its end (os._exit?) "
        "(at most the last half second of its record is lost)"
    )


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "loss.backward()",
            "try:\n        loss.backward()\n    except:\n        continue",
            id="catches what ends a run",
        ),
        pytest.param(
            "inputs = ",
            "(torch.ones(1, requires_grad=True, device='meta') * 2).backward()\ninputs = ",
            id="tries on the meta device first",
        ),
    ],
)
def test_odd_scripts_are_seen_as_they_are(tmp_path: Path, before: str, after: str) -> None:
    seen = ran(tmp_path, LOOP.replace(before, after), iterations=7)
    assert (seen.outcome, seen.ended, len(seen.losses)) == ("ok", "cut", 7), seen.output
    assert seen.losses[0] == 1.0


@pytest.mark.usefixtures("forked")
def test_a_rank_in_the_environment_means_nothing_without_a_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    seen = ran(tmp_path, LOOP)
    assert (seen.outcome, len(seen.losses)) == ("ok", 40)


@pytest.mark.usefixtures("forked")
def test_a_hook_for_errors_that_fails_hides_none(tmp_path: Path) -> None:
    seen = ran(tmp_path, "import sys\nsys.excepthook = lambda *_: 1 / 0\nraise ValueError('mine')\n")
    assert (seen.outcome, seen.problem) == ("crashed", "ended with an exception")
    assert seen.output[-1] == "ValueError: mine"


def test_a_script_that_closes_all_files_finds_none_of_ours_in_its_own(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    slow = LOOP.replace("loss.backward()", "loss.backward()\n    import time; time.sleep(0.1)").replace(
        "inputs:", "inputs[:12]:"
    )
    script = slow.replace("inputs = ", f"import os; os.closerange(3, 64); own = open({str(path)!r}, 'w')\ninputs = ")
    seen = ran(tmp_path, script)
    assert (seen.outcome, len(seen.losses), path.read_text()) == ("ok", 12, ""), seen.output


def test_work_that_outlives_the_script_is_its_own(tmp_path: Path) -> None:
    script = """
        import subprocess, sys, time

        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.6)"])
        print(time.perf_counter())
    """
    seen = ran(tmp_path, script)
    assert (seen.outcome, seen.left_running) == ("ok", 0)
    assert seen.exit_seconds is not None
    assert 0.4 <= seen.exit_seconds < seen.wall_seconds - seen.script_seconds


def test_an_interrupt_while_the_process_is_started_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("subprocess.Popen", start)
    seen = ran(tmp_path, LOOP)
    assert (seen.outcome, seen.problem, seen.lines) == ("interrupted", "was interrupted", ())
    with pytest.raises(KeyboardInterrupt):
        probe(Plan(tmp_path / "train.py", tmp_path / "train.py"))


def test_a_script_whose_process_goes_on_after_its_end_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune_rewrite.verify.run.LINGER", 0.5)
    seen = ran(tmp_path, "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n")
    assert (seen.outcome, seen.problem) == (
        "timed-out",
        "reached its end, but something kept its process running (a thread that is no daemon?)",
    )
    assert seen.wall_seconds < 60


def test_the_user_s_interrupt_ends_the_run_and_keeps_what_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(dedent(LOOP.replace("loss.backward()", "loss.backward()\n    import time; time.sleep(0.2)")))

    def interrupt(_: int, per_second: float) -> None:
        assert per_second > 0
        raise KeyboardInterrupt

    seen = run_script(Plan(path, path, device="cpu"), Turn("original", 0), None, interrupt)
    assert (seen.outcome, len(seen.losses) > 0) == ("interrupted", True)
    assert seen.problem == f"was interrupted after {len(seen.losses)} iterations"


def test_a_flood_of_output_neither_blocks_nor_is_kept(tmp_path: Path) -> None:
    seen = ran(tmp_path, "for _ in range(300_000): print('x' * 99)\nprint('end')\n")
    assert (seen.outcome, seen.output[-1]) == ("ok", "end")
    assert sum(map(len, seen.output)) < 20_000


def test_a_fork_that_runs_to_the_end_is_not_the_run(tmp_path: Path) -> None:
    script = f"import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\n{LOOP}"
    seen = ran(tmp_path, script.replace("for row in inputs", "for row in inputs[: 40 if child else 3]"))
    assert (seen.outcome, len(seen.losses)) == ("ok", 40)


def test_a_timeout_ends_all_that_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    never_ending = tmp_path / "harness.py"
    script = """
        import subprocess, sys, time

        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print(child.pid, flush=True)
        time.sleep(600)
    """
    never_ending.write_text(dedent(script))
    monkeypatch.setattr("autotune_rewrite.verify.run.HARNESS", never_ending)  # or the time is over while torch loads
    seen = ran(tmp_path, "", timeout=4.0)
    assert (seen.outcome, seen.problem) == (
        "timed-out",
        "did not end within 4 seconds; it was ended before any iteration was told",
    )
    assert seen.wall_seconds < 60
    assert gone(int(seen.output[0]))


def test_what_a_finished_script_leaves_behind_is_ended(tmp_path: Path) -> None:
    script = """
        import subprocess, sys

        for alone in False, True:
            command = [sys.executable, "-c", "import time; time.sleep(600)"]
            print(subprocess.Popen(command, start_new_session=alone).pid)
    """
    seen = ran(tmp_path, script)
    assert (seen.outcome, seen.left_running) == ("ok", 2)
    assert all(gone(int(process)) for process in seen.output)


def gone(process: int) -> bool:
    """Whether it ends within a second; an orphan is a zombie until init has seen it."""
    for _ in range(100):
        try:
            if psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


def test_describes_the_machine_and_asks_for_cuda_only_where_it_is(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    environment = probe(Plan(script, script, device="cpu"))
    assert environment["cuda"] is False
    assert environment["python"] == ".".join(map(str, sys.version_info[:3]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CUDA_VISIBLE_DEVICES", "")
        with pytest.raises(VerifyError, match=r"^the device is cuda, but torch \S+ finds no CUDA device here$"):
            probe(Plan(script, script, device="cuda"))
