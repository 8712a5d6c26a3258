"""What TensorBoard itself reads from the files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite.report.markdown import as_markdown
from autotune_rewrite.report.tensorboard import check_tensorboard, write_tensorboard
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.plan import Plan, VerifyError
from autotune_rewrite.verify.records import Run, Scalar

if TYPE_CHECKING:
    from autotune_rewrite.verify.plan import Kind, Side

PLAN = Plan(Path("a.py"), Path("b.py"), seed=40)
JUDGEMENT = Judgement("ok", "faster", "equal", "Fine.", "bitwise", environment={"torch": "2.9.0", "gpu": "H100"})


def run(side: Side, offset: int, losses: tuple[float, ...] = (4.0, 2.0, 1.0), *, kind: Kind = "pair") -> Run:
    each = 0.5 if side == "original" else 0.25
    times = tuple(1 + at * each for at in range(len(losses)))
    scalars = Scalar("acc", 10, 0.5), Scalar("acc", None, 0.75)
    lines = "Epoch 1, accuracy: 0.25", "Epoch 2, accuracy: 0.5", "best accuracy: 0.5", "acc: 1.5"
    return Run(
        side,
        offset,
        "ok",
        "",
        (),
        9.0,
        kind=kind,
        ended="finished",
        times=times,
        losses=losses,
        scalars=scalars,
        lines=lines if losses else (),
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("tensorboard")
    directory = tmp_path_factory.mktemp("events") / "new"
    runs = [run("original", 0), run("rewritten", 0), run("original", 1), run("rewritten", 1, ())]
    again = [run("original", 0, kind=kind) for kind in ("check", "check", "tf32")]
    write_tensorboard(directory, PLAN, [*runs, *again], JUDGEMENT)
    return directory


def accumulated(directory: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory))
    events.Reload()
    return events


def test_each_run_has_a_subdirectory(directory: Path) -> None:
    assert sorted(each.name for each in directory.iterdir() if each.is_dir()) == [
        "original-0",
        "original-0-check",
        "original-0-check-again-1",
        "original-0-tf32",
        "original-1",
        "rewritten-0",
        "rewritten-1",
    ]


@pytest.mark.parametrize(
    ("tag", "points"),
    [
        pytest.param("iteration/loss", [(1, 4.0), (2, 2.0), (3, 1.0)], id="loss by iteration"),
        pytest.param("iteration/seconds", [(2, 0.5), (3, 0.5)], id="time by iteration, from the second on"),
        pytest.param("acc", [(10, 0.5), (2, 0.75)], id="the script's own, counted where it gives no step"),
        pytest.param("output/accuracy", [(1, 0.25), (2, 0.5)], id="a metric that it printed, by line"),
        pytest.param("output/best accuracy", [(1, 0.5)], id="another line has its own curve"),
        pytest.param("summary/final_loss", [(0, 1.0)], id="final loss"),
        pytest.param("summary/iteration_seconds", [(0, 0.5)], id="seconds per iteration"),
    ],
)
def test_curves(directory: Path, tag: str, points: list[tuple[int, float]]) -> None:
    events = accumulated(directory / "original-0")
    assert [(each.step, each.value) for each in events.Scalars(tag)] == points


def test_all_runs_begin_at_the_same_time(directory: Path) -> None:
    before, after = (accumulated(directory / name).Scalars("iteration/loss") for name in ("original-0", "rewritten-0"))
    assert before[0].wall_time == after[0].wall_time
    assert before[2].wall_time - after[2].wall_time == pytest.approx(0.5)


def test_a_run_without_losses_has_the_scripts_own_curves_alone(directory: Path) -> None:
    assert accumulated(directory / "rewritten-1").Tags()["scalars"] == ["acc"]


def test_a_run_that_is_not_timed_has_no_times(directory: Path) -> None:
    tags = accumulated(directory / "original-0-check").Tags()["scalars"]
    assert not [tag for tag in tags if "seconds" in tag]
    assert "iteration/loss" in tags


def test_the_judgement_is_there_to_read(directory: Path) -> None:
    events = accumulated(directory)
    assert events.SummaryMetadata("judgement").plugin_data.plugin_name == "text"
    (text,) = events.Tensors("judgement")[0].tensor_proto.string_val
    assert text.decode() == as_markdown(JUDGEMENT, "a.py", "b.py")


def test_the_tab_hparams_shows_each_run_with_its_figures(directory: Path) -> None:
    """Asked as TensorBoard's own server asks for it."""
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
    from tensorboard.context import RequestContext
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(directory))
    multiplexer.Reload()
    context = backend_context.Context(
        TBContext(logdir=str(directory), data_provider=MultiplexerDataProvider(multiplexer, str(directory)))
    )
    found = context.hparams_metadata(RequestContext(), "")
    experiment = context.experiment_from_metadata(
        RequestContext(), "", include_metrics=True, hparams_run_to_tag_to_content=found, data_provider_hparams=[]
    )
    assert {info.name for info in experiment.hparam_infos} == {"side", "kind", "seed", "device", "torch"}
    statuses = [api_pb2.STATUS_UNKNOWN, api_pb2.STATUS_RUNNING, api_pb2.STATUS_SUCCESS]
    columns = [api_pb2.ColParams(metric=info.name) for info in experiment.metric_infos]
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0, slice_size=100, allowed_statuses=statuses, col_params=columns
    )
    handler = list_session_groups.Handler(RequestContext(), context, "", request)
    groups = {group.name: group for group in handler.run().session_groups}
    assert len(groups) == 7
    rewritten = groups["rewritten-0"]
    values = {name: value.string_value or value.number_value for name, value in rewritten.hparams.items()}
    assert values == {"side": "rewritten", "kind": "pair", "seed": 40, "device": "H100", "torch": "2.9.0"}
    assert {each.name.tag: each.value for each in rewritten.metric_values} == {
        "summary/iteration_seconds": 0.25,
        "summary/final_loss": 1.0,
    }


def test_a_directory_that_holds_something_is_refused_before_anything_runs(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    check_tensorboard(tmp_path)
    (tmp_path / "events").touch()
    with pytest.raises(VerifyError) as refused:
        check_tensorboard(tmp_path)
    assert str(refused.value) == f"{tmp_path}: not empty, and TensorBoard would mix what is there with these runs"


def test_a_directory_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(VerifyError) as refused:
        write_tensorboard(file / "new", PLAN, [], JUDGEMENT)
    assert str(refused.value) == f"{file / 'new'}: Not a directory"


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune_rewrite.report.tensorboard.find_spec", lambda _: None)
    with pytest.raises(VerifyError) as refused:
        write_tensorboard(tmp_path, PLAN, [], JUDGEMENT)
    assert str(refused.value) == (
        "--tensorboard needs tensorboard, which is not installed: pip install 'autotune-rewrite[tensorboard]'"
    )


def test_files_are_written_without_torch_and_the_package_is_imported_for_them_alone(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    program = (
        "import sys\nimport autotune_rewrite.cli\n"
        "from test_tensorboard import JUDGEMENT, PLAN, Path, run, write_tensorboard\n"
        "print('tensorboard' in sys.modules)\n"
        "write_tensorboard(Path(sys.argv[1]), PLAN, [run('original', 0)], JUDGEMENT)\n"
        "print(sorted({'torch', 'tensorflow'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "new")]
    said = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert (said.stdout, said.returncode) == ("False\n[]\n", 0), said.stderr
