"""``torchfast tune`` as it is typed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from worlds import CUDA, MARKS, World

from autotune_rewrite.checking.evidence import NAME
from autotune_rewrite.cli import tune
from autotune_rewrite.tune.hardware import described
from autotune_rewrite.verify import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.plan import Plan
    from tests.conftest import Answer

    Run = Callable[..., Answer]

CHOSEN = ("--level", "bitwise", "--select", ",".join(MARKS))


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[World], None]:
    """Puts a world in the place of the verifier."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def put(world: World) -> None:
        monkeypatch.setattr(tune, "Verifier", lambda _: world)
        monkeypatch.setattr(run, "probe", lambda _: CUDA)

    return put


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(("a.py", "b.py"), "tune takes one script", id="two scripts"),
        pytest.param(("a.py", "--budget", "soon"), "'soon' is no time such as 90s, 15m or 1h", id="no time"),
        pytest.param(("a.py", "--budget", "0m"), "'0m' is no time", id="no time at all"),
        pytest.param(("a.py", "--budget", "inf"), "'inf' is no time", id="no limit of time"),
        pytest.param(("a.py", "--budget", "9" * 400), "is no time such as", id="more time than can be counted"),
        pytest.param(
            ("a.py", "--values", "lr=1,2"),
            "'lr=1,2' is none of workers=…, prefetch=…, amp=…, compile=…",
            id="another option",
        ),
        pytest.param(("a.py", "--values", "workers="), "'workers=' is none of", id="no value"),
        pytest.param(("a.py", "--values", "workers=x"), "'x' is no number", id="no number"),
        pytest.param(("a.py", "--values", "workers=-1"), "workers=-1: ", id="fewer workers than none"),
        pytest.param(("a.py", "--values", "prefetch=0"), "prefetch=0: ", id="no batch ahead"),
        pytest.param(("a.py", "--values", "amp=foo"), "amp=foo: ", id="no form of mixed precision"),
        pytest.param(("a.py", "--values", "compile=max"), "compile=max: ", id="no mode of compiling"),
        pytest.param(("a.py", "--gpu-hourly", "-3"), "-3.0 is no price", id="no price"),
        pytest.param(("a.py", "--gpu-hourly", "nan"), "nan is no price", id="no number for a price"),
        pytest.param(("a.py", "--apply", "--patch", "x"), "exclude each other", id="two ways to write"),
        pytest.param(("a.py", "--pairs", "4"), "--pairs is not for tune", id="pairs"),
        pytest.param(
            ("a.py", "--time-budget", "4"), "--time-budget is not for tune: --budget says", id="another budget"
        ),
        pytest.param(
            ("a.py", "--html", "no/t.html"), "no/t.html: cannot be written: there is no directory no", id="no directory"
        ),
        pytest.param(
            ("a.py", "--patch", "no/t.patch"), "no/t.patch: cannot be written: there is no directory no", id="patch"
        ),
        pytest.param(("a.py", "--device", "simulated"), "what is simulated has no times", id="a simulated device"),
        pytest.param(("none.py",), "none.py: no such file", id="no script"),
        pytest.param(("a.py", "--address", "auto"), "--address is for --executor ray", id="an address and no cluster"),
        pytest.param(
            ("a.py", "--accelerator-type", "H100"),
            "--accelerator-type is for --executor ray",
            id="a type of GPU and no cluster",
        ),
        pytest.param(("a.py", "--gpus", "0"), "0 is not in the range", id="no GPU"),
        pytest.param(("a.py", "--device", "cpu", "--gpus", "1"), "--gpus is 1, but scripts see 0 GPUs", id="too many"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    torchfast: Run, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("import torch\n")

    answer = torchfast("tune", *options)

    assert answer.code == 2
    assert said in answer.err


def test_a_budget_is_told_in_hours_minutes_or_seconds() -> None:
    assert [tune._seconds(None, None, text) for text in ("90", "90s", "15m", "1.5h")] == [90, 90, 900, 5400]  # type: ignore[arg-type]


def test_nothing_is_written_unless_it_is_asked_for(
    torchfast: Run, naive: Path, worlds: Callable[[World], None]
) -> None:
    before = naive.read_bytes()
    worlds(World({"loader-pin": 1.5}))

    answer = torchfast("tune", str(naive), *CHOSEN)

    assert answer.code == 0
    assert "1 of 3 rules pays: 1.50 times as fast" in " ".join(answer.out.split())
    assert naive.read_bytes() == before
    assert not (naive.parent / NAME).exists()


def test_a_line_tells_of_each_trial_and_of_the_time_left(
    torchfast: Run, naive: Path, worlds: Callable[[World], None]
) -> None:
    worlds(World({"loader-pin": 1.5}))

    told = torchfast("tune", str(naive), *CHOSEN, "--budget", "5m").err

    assert told.splitlines()[:4] == [
        "trying everything together · at most 5 min left",
        "everything together: 1.50 times as fast (1.48 to 1.52) · at most 5 min left",
        "trying h2d-non-blocking alone · at most 5 min left",
        "h2d-non-blocking alone: no gain beyond the noise: 1.00 times as fast (0.99 to 1.01) · at most 5 min left",
    ]
    assert "\x1b" not in told


def test_what_pays_is_written_with_what_was_measured(
    torchfast: Run, naive: Path, worlds: Callable[[World], None]
) -> None:
    worlds(World({"loader-pin": 1.5}))

    answer = torchfast("tune", str(naive), *CHOSEN, "--apply")

    assert answer.code == 0
    assert {rule for rule, mark in MARKS.items() if mark in naive.read_text()} == {"loader-pin"}
    known = json.loads((naive.parent / NAME).read_text())["scripts"][naive.name]["rules"]
    assert {rule: each["answer"] for rule, each in known.items()} == {
        "h2d-non-blocking": "dropped",
        "loader-pin": "kept",
        "zero-grad-none": "dropped",
    }
    assert torchfast("check", "--evidence", str(naive)).code == 0


def test_it_can_be_taken_back(torchfast: Run, naive: Path, worlds: Callable[[World], None]) -> None:
    before = naive.read_bytes()
    worlds(World({"loader-pin": 1.5}))
    torchfast("tune", str(naive), *CHOSEN, "--apply")

    assert torchfast("undo").code == 0
    assert naive.read_bytes() == before
    assert torchfast("check", "--evidence", str(naive)).code == 1


def test_where_nothing_pays_nothing_is_written(torchfast: Run, naive: Path, worlds: Callable[[World], None]) -> None:
    before = naive.read_bytes()
    worlds(World({}))

    answer = torchfast("tune", str(naive), *CHOSEN, "--apply")

    assert answer.code == 0
    assert naive.read_bytes() == before
    assert "nothing was written" in answer.err


def test_a_result_that_does_not_hold_up_is_not_written(
    torchfast: Run, naive: Path, worlds: Callable[[World], None]
) -> None:
    before = naive.read_bytes()
    worlds(World({"loader-pin": 1.5}, late={"loader-pin": 1.0}))

    assert torchfast("tune", str(naive), *CHOSEN, "--apply").code == 1
    assert naive.read_bytes() == before


def test_as_a_patch(torchfast: Run, naive: Path, tmp_path: Path, worlds: Callable[[World], None]) -> None:
    worlds(World({"loader-pin": 1.5}))

    assert torchfast("tune", str(naive), *CHOSEN, "--patch", "changes.patch").code == 0
    assert "pin_memory=True" in (tmp_path / "changes.patch").read_text()


def test_interrupted_it_says_so_and_goes_on_later(torchfast: Run, naive: Path, worlds: Callable[[World], None]) -> None:
    whole, first, second = (World({"loader-pin": 1.5}, interrupts=number) for number in (-1, 2, -1))
    worlds(first)
    answer = torchfast("tune", str(naive), *CHOSEN)

    assert answer.code == 130
    assert "interrupted: nothing was written" in answer.err
    worlds(second)
    assert torchfast("tune", str(naive), *CHOSEN).code == 0
    worlds(whole)
    torchfast("tune", str(naive), *CHOSEN, "--fresh")
    assert len(second.plans) == len(whole.plans) - 2


def test_a_script_that_was_changed_is_measured_anew(
    torchfast: Run, naive: Path, worlds: Callable[[World], None]
) -> None:
    first, second = World({"loader-pin": 1.5}), World({"loader-pin": 1.5})
    worlds(first)
    torchfast("tune", str(naive), *CHOSEN)
    naive.write_text(naive.read_text() + "print(loss)\n")
    worlds(second)
    torchfast("tune", str(naive), *CHOSEN)

    assert len(second.plans) == len(first.plans)


def test_as_json_and_as_markdown(torchfast: Run, naive: Path, worlds: Callable[[World], None]) -> None:
    worlds(World({"loader-pin": 1.5}))
    told = json.loads(torchfast("tune", str(naive), *CHOSEN, "--format", "json", "--gpu-hourly", "2").out)

    assert (told["rules"], told["exit_code"], told["cost"]["hourly"]) == (["loader-pin"], 0, 2.0)
    assert torchfast("tune", str(naive), *CHOSEN, "--format", "markdown").out.startswith("### ")


def test_as_a_page(torchfast: Run, naive: Path, tmp_path: Path, worlds: Callable[[World], None]) -> None:
    naive.write_text(f"# <script>\n{naive.read_text()}")
    worlds(World({"loader-pin": 1.5, "zero-grad-none": 1.2}))

    assert torchfast("tune", str(naive), *CHOSEN, "--html", "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "2 of 3 rules pay: 1.80 times as fast" in page
    assert "<svg" in page
    assert "<script" not in page
    assert "pin_memory" in page


def test_a_page_where_nothing_pays(
    torchfast: Run, naive: Path, tmp_path: Path, worlds: Callable[[World], None]
) -> None:
    worlds(World({}))
    torchfast("tune", str(naive), *CHOSEN, "--html", "page.html")

    assert "No change gains anything beyond the noise." in (tmp_path / "page.html").read_text()


def test_options_that_are_refused_are_not_in_the_help(torchfast: Run) -> None:
    told = torchfast("tune", "--help").out

    assert "--budget" in told
    assert "--pairs" not in told
    assert "--time-budget" not in told


def test_a_script_that_nothing_changes_is_not_tried(
    torchfast: Run, naive: Path, worlds: Callable[[World], None]
) -> None:
    naive.write_text("import torch\n")
    worlds(World({}))

    answer = torchfast("tune", str(naive))

    assert answer.code == 0
    assert "trying" not in answer.err
    assert "No rule has anything to change." in " ".join(answer.out.split())


# --- elsewhere ------------------------------------------------------------------------------------------------------


def test_without_ray_it_is_said_what_to_install(
    torchfast: Run, naive: Path, worlds: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds(World({}))
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "autotune_rewrite.tune.cluster", raising=False)

    answer = torchfast("tune", str(naive), "--executor", "ray")

    assert answer.code == 2
    assert answer.err.splitlines()[-1] == "Error: --executor ray needs Ray: pip install 'autotune-rewrite[cluster]'"


def test_an_executor_gets_all_plans_and_its_hardware_names_the_records(
    torchfast: Run, naive: Path, worlds: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Places(World):
        places = 2
        hardware = described(dict[str, Any](CUDA))

        def several(self, plans: Iterable[tuple[str, Plan]]) -> Iterator[tuple[str, Judgement]]:
            return ((name, self(plan, probe=True)[0]) for name, plan in plans)

    here, there, elsewhere = World({"loader-pin": 1.5}), Places({"loader-pin": 1.5}), Places({"loader-pin": 1.5})
    elsewhere.hardware = {**there.hardware, "processor": "another"}
    given: list[World] = [there, elsewhere]
    monkeypatch.setattr("autotune_rewrite.tune.devices.devices", lambda *_: given.pop(0))
    worlds(here)
    answer = torchfast("tune", str(naive), *CHOSEN)

    assert torchfast("tune", str(naive), *CHOSEN, "--gpus", "1").out == answer.out
    assert torchfast("tune", str(naive), *CHOSEN, "--gpus", "1").out == answer.out
    assert len(there.plans) == 1, "what this machine has measured counts on the same hardware"
    assert len(elsewhere.plans) == len(here.plans), "and on no other"
