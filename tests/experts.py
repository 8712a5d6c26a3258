"""The naive scripts on a CPU, beside what the tool makes of them and beside what an expert wrote.

On a machine on which nothing else runs, in less than twelve minutes::

    python -m tests.experts

It runs ``torchfast verify`` of each pair of texts, keeps what that says in docs/records/experts.json, and writes the table
in docs/measured.md from it. Each answer is kept as soon as it is there. ``--table`` measures nothing and writes the table.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from tests.gpu.calls import commit
from tests.gpu.scripts import SCRIPTS, length
from tests.gpu.tables import MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.gpu.scripts import Script

Values: TypeAlias = "dict[str, Any]"

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "docs" / "records" / "experts.json"
DOCUMENT = ROOT / "docs" / "measured.md"
SIZES = {
    "tabular_mlp": length("--rows 20000 --epochs 6", "20000", 6 * 63),
    "text_lstm": length(
        "--train-lines 800 --test-lines 200 --epochs 3 --embedding-dim 64 --hidden-dim 32 --lr 1e-2 --dropout 0.2"
        " --batch-size 16 --max-len 32",
        "800 200",
        3 * 50,
    ),
    "unet_segmentation": length(
        "--size 32 --train-images 120 --val-images 24 --batch-size 4 --base-channels 4 --epochs 5 -l 0.002",
        "--sizes 120 24 32",
        5 * 30,
    ),
    "gpt": length(
        "--model tiny --tokens 200000 --batch-size 8 --max-iters 150 --warmup-iters 10 --lr 3e-3 --eval-interval 50"
        " --eval-iters 5",
        "512 200000 10000",
        150,
    ),
    "mnist_cnn": length("--samples 3000 --test-samples 500 --epochs 3", "3000 500", 3 * 38),
    "mnist_feedforward": length("--samples 6000 --test-samples 1000 --epochs 5", "6000 1000", 5 * 94),
    "jpeg_resnet": length(
        "--size 32 --samples 240 --val-samples 48 --batch-size 16 --epochs 2 --lr 0.003",
        "--samples 240 --val-samples 48 --size 32",
        2 * 15,
    ),
}
"""How much of each script's work is done: naive texts train for about as long as they take to start."""
PAIRS = "4"
"""As few as give an interval: all comparisons share the time."""
SELECTED = {
    **dict.fromkeys(("tabular_mlp", "mnist_cnn", "mnist_feedforward"), ("fused-cpu",)),
    "unet_segmentation": ("dataset-cache",),
}
"""Rules that have to be selected, of scripts whose expert does on a CPU what they do: a third text has them, too."""
TEXTS = {"fast": "rewritten", "selected": "rewritten, with {}", "expert": "expert"}
"""What is compared with ``naive.py``, and how the table calls it."""
SHORTEST = 20.0
"""Seconds below which a comparison says nothing, and is not begun."""
GRANTED = 1.2
"""How much of its part of the time a comparison is told to take: most need less, and the others get what is left."""
PATIENCE = 2.5
"""How many times its part of the time a comparison may take before it is interrupted."""
LONGEST = "90"
"""Seconds that one run may take: a part of the time budget, which is short, ends runs that just start slowly."""
ENDING = 20.0
"""Seconds that an interrupted comparison has to say what it knows."""
_COLUMNS = ("script", "text", "whole run", "iteration", "seconds", "pairs", "of the expert's speed", "result")
_TABLE = re.compile(r"(?<=<!-- experts -->\n).*?(?=\n<!-- end of experts -->)", re.DOTALL)
_KEPT = ("exit_code", "run", "speed", "equality", "pairs", "sized", "ratios", "summary", "reason")


def command(script: Script, text: str, data: Path, seconds: float) -> list[str]:
    """The comparison of one text with the naive one, in so many seconds."""
    folder = Path("fixtures") / script.name
    files = [str(folder / "naive.py"), str(selected(script, data) if text == "selected" else folder / f"{text}.py")]
    asked = ["--device", "cpu", "--full", "--pairs", PAIRS, "--time-budget", f"{seconds:.0f}", "--timeout", LONGEST]
    asked += ["--format", "json"]
    given = ["--data", str(data), *SIZES[script.name].arguments]
    return [sys.executable, "-m", "autotune_rewrite", "verify", *files, *asked, "--", *given]


def selected(script: Script, data: Path) -> Path:
    """Where the text lies that has the rules of ``SELECTED``, too: beside the data, in a folder of its own."""
    return data.parent / "selected" / f"{script.name}.py"


def write_selected(script: Script, data: Path) -> None:
    """Writes that text."""
    target = selected(script, data)
    target.parent.mkdir(exist_ok=True)
    rules = [word for rule in ("DEFAULT", *SELECTED[script.name]) for word in ("--select", rule)]
    naive = ROOT / "fixtures" / script.name / "naive.py"
    command = [sys.executable, "-m", "autotune_rewrite", "rewrite", str(naive), *rules, "--output", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def texts(script: Script) -> list[str]:
    """What is compared with the naive text of a script."""
    return [each for each in TEXTS if each != "selected" or script.name in SELECTED]


def measured(script: Script, text: str, data: Path, seconds: float, left: float) -> Values:
    """What the comparison says, without what is the machine's own: paths and the like.

    Args:
        script: The fixture.
        text: What its naive text is compared with.
        data: Where its data lie.
        seconds: That the comparison should take.
        left: That it can take at most.
    """
    asked = command(script, text, data, seconds * GRANTED)
    words = (word.replace(str(data), "DIRECTORY").replace(str(data.parent), "SCRATCH") for word in asked[3:])
    found = {"script": script.name, "text": text, "command": " ".join(("torchfast", *words))}
    said, error = _said(asked, min(seconds * PATIENCE, left))
    try:
        answer = json.loads(said)
    except ValueError:
        return {**found, "problem": _without_paths((error.strip().splitlines() or ["no answer in time"])[-1])}
    kept = {each: answer.get(each) for each in _KEPT}
    times = {each: (answer.get(each) or {}).get("run_seconds") for each in ("original", "rewritten")}
    return {
        **found,
        **kept,
        "reason": _without_paths(str(answer.get("reason", ""))),
        "seconds": times,
        "environment": answer.get("environment"),
    }


def _said(asked: Sequence[str], seconds: float) -> tuple[str, str]:
    """What the command prints; after so many seconds it is interrupted, and says what it knows by then."""
    # A shell that starts this in the background has it ignore interrupts, and with it whatever it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            return process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()


def _without_paths(text: str) -> str:
    return text.replace(f"{ROOT}{os.sep}", "").replace(f"{tempfile.gettempdir()}{os.sep}", "")


def measure(only: Sequence[str], budget: float, record: Path) -> None:
    """Compares all texts, each in an equal part of the time that is left, and keeps each answer at once.

    Pictures come last: to decode them takes longest.
    """
    began = time.monotonic()
    chosen = [each for each in reversed(SCRIPTS) if not only or each.name in only]
    pairs = [(script, text) for script in chosen for text in texts(script)]
    kept: Values = {"commit": commit(), "load": round(os.getloadavg()[0], 1), "comparisons": []}
    with tempfile.TemporaryDirectory() as scratch:
        for index, (script, text) in enumerate(pairs):
            data = Path(scratch) / script.name
            if not data.exists():
                _make(script, data)
            if text == "selected":
                write_selected(script, data)
            left = budget - (time.monotonic() - began)
            share = left / (len(pairs) - index)
            if share < SHORTEST and index:
                found = {"script": script.name, "text": text, "problem": "not measured: the time was over"}
            else:
                found = measured(script, text, data, share, left)
            kept["comparisons"].append(found)
            record.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            click.echo(f"{script.name:18} {text:10} {found.get('problem') or _result(found)}")


def _make(script: Script, data: Path) -> None:
    maker = ROOT / "fixtures" / script.name / "make_data.py"
    subprocess.run(
        [sys.executable, str(maker), str(data), *SIZES[script.name].data], check=True, stdout=subprocess.DEVNULL
    )


def _result(found: Values) -> str:
    if found["run"] != "ok":
        return str(found["reason"]).replace("|", "/")
    return f"{found['speed']}, results {found['equality']}"


def table(record: Values | None) -> str:
    """The comparisons of a record in Markdown, and what they were measured with."""
    if record is None:
        return "Not measured yet."
    found = record["comparisons"]
    experts = {each["script"]: each for each in found if each["text"] == "expert"}
    rows = [
        _COLUMNS,
        ("---",) * len(_COLUMNS),
        *(_row(each, _beside(each, experts.get(each["script"], each))) for each in found),
    ]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([_setting(record), "", *lines])


def _setting(record: Values) -> str:
    known: Values = next((each["environment"] for each in record["comparisons"] if each.get("environment")), {})
    parts = [
        f"commit {record['commit'] or MISSING}",
        f"torch {known.get('torch', MISSING)}",
        f"Python {known.get('python', MISSING)}",
        f"{known.get('cpus', MISSING)} cores",
        f"load {record['load']} before",
    ]
    sizes = {each.name: " ".join(SIZES[each.name].arguments) for each in SCRIPTS}
    runs = [each for each in record["comparisons"] if "command" in each]
    if not all(each["command"].endswith(sizes[each["script"]]) for each in runs):
        parts.append("other sizes than `SIZES` has today")
    return f"Measured with {', '.join(parts)}."


def _beside(found: Values, expert: Values) -> str:
    """How fast the text is beside the expert's, as a whole and in an iteration; nothing of the expert's own."""
    if expert is found:
        return ""
    said = []
    for each, name in (("run", ""), ("iteration", "iteration ")):
        one, other = ((side.get("ratios") or {}).get(each) or {} for side in (found, expert))
        if one.get("estimate") is None or other.get("estimate") is None:
            continue
        middle, spread = one["estimate"] / other["estimate"], ""
        if None not in (one["low"], one["high"], other["low"], other["high"]):
            half = math.hypot(*(math.log(side["high"] / side["low"]) / 2 for side in (one, other)))
            spread = f" ({middle / math.exp(half):.0%} to {middle * math.exp(half):.0%})"
        said.append(f"{name}{middle:.0%}{spread}".replace("%", " %"))
    return ", ".join(said) or MISSING


def _row(found: Values, beside: str) -> tuple[str, ...]:
    rules = ", ".join(f"`{each}`" for each in SELECTED.get(found["script"], ()))
    head = (f"`{found['script']}`", TEXTS[found["text"]].format(rules))
    if "problem" in found:
        return (*head, MISSING, MISSING, MISSING, MISSING, beside, found["problem"].replace("|", "/"))
    ratios, seconds = found["ratios"] or {}, found["seconds"]
    whole, iteration = (_ratio(ratios.get(each) or {}) for each in ("run", "iteration"))
    times = " → ".join(MISSING if each is None else f"{each:.1f}" for each in seconds.values())
    return (*head, whole, iteration, times, str(found["pairs"]), beside, _result(found))


def _ratio(ratio: Values) -> str:
    """How many times as fast, and the interval where there is one."""
    estimate, low, high = (ratio.get(each) for each in ("estimate", "low", "high"))
    if estimate is None:
        return MISSING
    return f"{estimate:.2f}" if low is None or high is None else f"{estimate:.2f} ({low:.2f} to {high:.2f})"


def kept_record() -> Values | None:
    """What was measured last; None where nothing was."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else None


def document() -> str:
    """docs/measured.md with the table of the record."""
    found = table(kept_record())
    return _TABLE.sub(lambda _: found, DOCUMENT.read_text(encoding="utf-8"))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--budget", type=click.FloatRange(min=SHORTEST), default=680.0, show_default=True, help="Seconds.")
@click.option("--only", multiple=True, type=click.Choice([each.name for each in SCRIPTS]), help="May be repeated.")
@click.option("--table", "writes_only", is_flag=True, help="Measure nothing: write the table of the record.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep the record there, and leave the table.")
def main(budget: float, only: tuple[str, ...], out: Path | None, *, writes_only: bool) -> None:
    """Compare the naive scripts with the rewritten ones and the experts' on this machine's CPU."""
    if not writes_only:
        measure(only, budget, out or RECORD)
    if out is None:
        DOCUMENT.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
