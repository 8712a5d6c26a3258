"""Many projects, one after the other and in several processes."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.errors import FileError
from autotune_rewrite.project.programs import Part, Project
from autotune_rewrite.rewriting import batch
from autotune_rewrite.rewriting.config import Options
from codemods.dataflow.flow import Flow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _projects(*sizes: int) -> list[Project]:
    return [
        Project(tuple(Part(f"{number}_{part}.py") for part in range(size)), has_torch=True)
        for number, size in enumerate(sizes)
    ]


def _paths(project: Project) -> list[str]:
    return [part.path for part in project.parts]


def _or_killed(project: Project) -> list[str]:
    if project.parts[0].path == "3_0.py":
        os.kill(os.getpid(), signal.SIGKILL)
    return _paths(project)


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([1, 2, 1], id="few files are done in this process"),
        pytest.param([1, 9, 2, 4, 3], id="of many the largest project is begun first"),
    ],
)
def test_results_come_in_the_order_of_the_projects(sizes: Sequence[int]) -> None:
    groups = _projects(*sizes)
    assert list(batch.in_turn(_paths, groups)) == [_paths(each) for each in groups]


def test_a_killed_worker_process_leaves_an_error_for_each_file_that_it_had() -> None:
    groups = _projects(*[4] * 8)
    results = list(batch.in_turn(_or_killed, groups))
    errors = [each for each in results[3] if isinstance(each, FileError)]
    assert [each.path for each in errors] == _paths(groups[3])
    assert {each.message for each in errors} == {"not processed: a worker process was killed"}
    # Whatever else was under way then, every file is accounted for.
    assert [[str(each).partition(":")[0] for each in several] for several in results] == [
        _paths(each) for each in groups
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no process that its parent died")
def test_worker_processes_end_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    program = f"""
from functools import partial
from autotune_rewrite.rewriting import batch
from tests.test_batch import _projects, _write_number_and_wait
list(batch.in_turn(partial(_write_number_and_wait, {str(tmp_path)!r}), _projects(*[4] * 8)))
"""
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[1])
    _wait_until(lambda: any(tmp_path.iterdir()))
    parent.kill()
    parent.wait()
    _wait_until(lambda: not any(_runs(each.name) for each in tmp_path.iterdir()))


def _write_number_and_wait(folder: str, project: Project) -> list[str]:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)
    return _paths(project)


def _wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    pytest.fail("not within a minute")


def _runs(process: str) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def _flows() -> list[Flow]:
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is Flow]  # isinstance() would ask proxies for their class


def test_what_is_understood_of_a_project_is_forgotten_after_it() -> None:
    directory = Path(__file__).parent.parent / "fixtures"
    held = _flows()  # by other tests of this process
    for each in batch.found([str(directory)], Options())[1]:
        batch.process(each, Options(), check=True)
    assert len(_flows()) == len(held)
