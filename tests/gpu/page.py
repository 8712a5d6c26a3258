"""Markdown: README's section with the figures that count, and the page with all that was measured."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from autotune_rewrite.verify.comparison import Comparison
from autotune_rewrite.verify.records import run_of
from autotune_rewrite.verify.statistics.pairs import START, Pair
from tests.gpu import truths, tuning
from tests.gpu.crashes import losses_apart
from tests.gpu.plots import pictures
from tests.gpu.running import NAIVE
from tests.gpu.scripts import SCRIPTS
from tests.gpu.speed import COLD
from tests.gpu.tables import (
    MISSING,
    NAMES,
    NOT_CHECKED,
    answers,
    entries_of,
    failures_in,
    is_simulated,
    judgement_of,
    notes_on,
    ratio_text,
    tables_of,
    word_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from autotune_rewrite.verify.records import Run
    from tests.gpu.judging import Beside
    from tests.gpu.results import Device
    from tests.gpu.tables import Cells
    from tests.gpu.tasks import Values

NOTHING = "Not measured on a GPU yet."
WARM = r" \*"
"""Stands beside a ratio without the time that compiling takes."""
RIVALS = (
    "Accelerate and Lightning run without `torch.compile` and `cudnn.benchmark`, as their users get them unless they ask "
    "for more."
)
WIDTH = 120
"""Characters of a line of README, but for tables."""


def markdown_table(head: Cells, rows: Iterable[Cells]) -> str:
    """A table in Markdown."""
    told = [tuple({"-": MISSING}.get(cell, cell.replace("(-)", "(one round)")) for cell in row) for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *told))


def _commands(device: Device, stage: int) -> str:
    """The commands that measured a stage, as code."""
    return ", ".join(f"`{command}`" for command in device.commands(stage))


def escaped(text: str) -> str:
    """One line in which Markdown finds nothing of its own."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", " ".join(text.split()))


# --- README -----------------------------------------------------------------------------------------------------------

README_HEAD: Cells = (
    *("Script", "Text", "Over naive", "Over naive with TF32"),
    *("At its own length: over naive", "over naive with TF32", "Speed", "Results"),
)


def section(found: Sequence[Device], link: str) -> str:
    """README's part between its markers.

    Args:
        found: The results.
        link: Where the page is, from README.
    """
    if not found:
        return NOTHING
    parts = [
        _wrapped(
            "How many times as fast as the naive script the rewritten one is, and the one that an expert wrote by "
            "hand; in brackets the 95 % interval over the rounds. To set TF32 is one line, and so the naive script "
            "with it is the baseline that counts."
        )
    ]
    parts += [_of_device(device) for device in found]
    parts.append(
        _wrapped(
            "How it was measured: every text ran as a fresh process, one after the other and in random order within a "
            "round of one seed, and what is compared are whole runs. At its own length a script is extrapolated from "
            "the time of an iteration, with compiled kernels made anew. All that was measured, with plots: "
            f"[{link}]({link})."
        )
    )
    return "\n\n".join(parts)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _of_device(device: Device) -> str:
    if 2 not in device.stages:
        return _wrapped(f"**{escaped(device.name)}**: how fast scripts are was not measured.")
    known = {(one.script, one.label): one for one in device.besides[2]}
    cells = []
    for script in SCRIPTS:
        of_script = [
            known.get((script.name, label), known.get((script.name, f"{label}, {COLD}")))
            for label in ("default", "expert")
        ]
        for label, one in zip(("default", "expert"), of_script, strict=True):
            name = f"`{script.name}`{_iterations(of_script, script.whole.backwards)}" if label == "default" else ""
            told = label if one is None else one.label
            cells.append((name, NAMES.get(told, told), *_of_text(one, script.whole.backwards)))
    rounds = sorted({len(one.comparison.pairs) for one in known.values()} - {0})
    counted = " to ".join(str(each) for each in dict.fromkeys((rounds[0], rounds[-1]))) if rounds else MISSING
    about = (
        f"**{escaped(device.name)}** (commit {device.commits(2)}, {device.dates(2)}, rounds: {counted}; "
        f"{_commands(device, 2)}):"
    )
    noted = []
    if any(is_simulated(one.judgement) for one in known.values()):
        noted.append(NOT_CHECKED)
    if any(WARM in cell for row in cells for cell in row):
        noted.append("\\* Its compiled kernels were at hand: what it takes to make them was not measured.")
    return "\n\n".join((_wrapped(about), markdown_table(README_HEAD, cells), *noted))


def _iterations(besides: Iterable[Beside | None], length: int) -> str:
    """How many iterations were measured, of how many."""
    counts = (one.comparison.iterations for one in besides if one is not None and one.comparison.pairs)
    count = next(counts, None)
    return "" if count is None else f", {count}{f' of {length}' if length else ''} iterations"


def _of_text(beside: Beside | None, length: int) -> Cells:
    """Ratios and words of a text of a script with so many iterations."""
    if beside is None:
        return (MISSING,) * 6
    judgement = judgement_of(beside)
    over_tf32 = _over_tf32(beside)
    return (
        ratio_text(judgement.whole),
        ratio_text(judgement.over_tf32),
        _at_length(beside, length),
        MISSING if over_tf32 is None else _at_length(over_tf32, length),
        MISSING if judgement.speed == "not-checked" else judgement.speed,
        word_of(beside),
    )


def _over_tf32(beside: Beside) -> Beside | None:
    """The text beside the naive one with TF32."""
    rewritten = {pair.rewritten.offset: pair.rewritten for pair in beside.comparison.pairs}
    pairs = [Pair(run, rewritten[run.offset]) for run in beside.comparison.tf32 if run.offset in rewritten]
    return replace(beside, comparison=Comparison(tuple(pairs))) if pairs else None


def _at_length(beside: Beside, length: int) -> str:
    """The ratio of runs of so many iterations; with a star where kernels that it compiles were at hand."""
    if not length or judgement_of(beside).whole is None:
        return MISSING
    ratio = beside.ratio_at(length, cold=True)
    if ratio is None:
        return MISSING
    warm = beside.compiling is None and any(pair.rewritten.compiles for pair in beside.comparison.pairs)
    return f"{ratio:.2f}{WARM}" if warm else f"{ratio:.2f}"


# --- The page ---------------------------------------------------------------------------------------------------------


def page(found: Sequence[Device]) -> str:
    """The page with all that was measured, in Markdown."""
    parts = ["# Measured on a GPU"]
    if not found:
        parts.append(NOTHING)
    else:
        parts.append(
            "`python -m tests.gpu report` writes this page from the files beside it; it is not edited by hand. Ratios "
            "are the naive script's time divided by the other's, with 95 % intervals over the rounds. "
            "*Paid back* says after how many iterations a longer start is. Pairs of figures are those "
            "of the naive script and of the other one."
        )
    for device in found:
        parts += [f"## {escaped(device.name)}", *_sections(device)]
    return "\n\n".join(parts)


def _sections(device: Device) -> Iterator[str]:
    shown = pictures(device)

    def picture(name: str) -> Iterator[str]:
        if name in shown:
            alt = re.sub(r"[\[\]]", "", shown[name].alt)
            yield f"![{escaped(alt)}]({device.folder.name}/{name}.svg)"

    yield from _headed(device, 2, "Is it faster?", picture("speed"))
    yield from _headed(device, 6, "What would a user pick instead?", (RIVALS,) if 6 in device.stages else ())
    for name, title in (("start", "### When does a start pay back?"), ("memory", "### Memory")):
        if name in shown:
            yield title
            yield from picture(name)
    yield from _headed(device, 3, "What does each rule bring?", (*picture("rules"), *picture("workers")))
    yield "### Does it run?"
    yield _command(device, 1)
    yield from _of_crashes(device.stages.get(1, ()))
    yield "### Facts"
    yield _command(device, 4)
    yield from _of_facts(device.stages.get(4, ()))
    yield "### The verifier itself"
    yield _command(device, 5)
    if 5 in device.stages:
        yield _indented(truths.summary(device.stages[5]))
    if 7 in device.stages:
        yield "### What does tuning keep?"
        yield _command(device, 7)
        yield _indented(list(tuning.summary(device.stages[7])))
    yield "### The machine"
    yield _of_machines(device)


def _command(device: Device, stage: int) -> str:
    if stage not in device.stages:
        return f"Stage {stage} was not measured."
    return f"{_commands(device, stage)} (commit {device.commits(stage)}, {device.dates(stage)})"


def _headed(device: Device, stage: int, title: str, shown: Iterable[str]) -> Iterator[str]:
    """What a stage has measured."""
    yield f"### {title}"
    yield _command(device, stage)
    if failures := list(failures_in(device.stages.get(stage, ()))):
        yield _indented(failures)
    besides = device.besides.get(stage, [])
    if any(is_simulated(one.judgement) for one in besides):
        yield NOT_CHECKED
    yield from shown
    for head, columns, rows in tables_of(besides):
        if head:
            yield f"{head}:"
        yield markdown_table(columns, [(f"`{row[0]}`", NAMES.get(row[1], row[1]), *row[2:]) for row in rows])
    if notes := list(notes_on(besides)):
        yield "\n".join(f"- {escaped(note)}" for note in notes)


def _of_crashes(lines: Iterable[Values]) -> Iterator[str]:
    """Stage 1: what failed, then bits and losses, script by script."""
    lines = [line for line in lines if "run" in line]
    if not lines:
        return
    failed = sum(line["run"]["outcome"] != "ok" for line in lines)
    yield f"{len(lines)} runs, {failed} failed."
    if failures := list(failures_in(lines)):
        yield _indented(failures)
    runs = {(line["script"], line["variant"], line["kind"]): run_of(line["run"]) for line in lines}
    claims = {(line["script"], line["variant"]): line.get("claims") for line in lines}
    variants = list(dict.fromkeys(variant for _, variant, kind in runs if kind == "pair" and variant != NAIVE))
    rows = []
    for script in dict.fromkeys(script for script, *_ in runs):
        naive = runs.get((script, NAIVE, "pair"))
        bits = _bits(runs.get((script, NAIVE, "check")), runs.get((script, "bitwise", "check")))
        apart = (
            _apart(naive, runs.get((script, variant, "pair")), claims.get((script, variant))) for variant in variants
        )
        rows.append((f"`{script}`", "-" if naive is None else naive.outcome, bits, *apart))
    yield (
        "The rewrite that promises the same bits, under deterministic algorithms; and how far the losses of the other "
        "texts are from the naive script's: the first one, and the mean over the next ones, relative to their size."
    )
    yield markdown_table(("Script", "naive", "the same bits", *(NAMES.get(each, each) for each in variants)), rows)


def _bits(naive: Run | None, exact: Run | None) -> str:
    if naive is None or exact is None:
        return "-"
    if naive.outcome != "ok" or exact.outcome != "ok":
        return f"{(naive if naive.outcome != 'ok' else exact).outcome}"
    pair = Pair(naive, exact)
    if pair.equal:
        return f"equal ({len(naive.losses)} losses)"
    at = pair.first_difference
    if at is not None:
        return f"**DIFFER** from loss {at + 1} on"
    return "**DIFFER** in number of losses" if pair.lengths_differ else "**DIFFER** in parameters"


def _apart(naive: Run | None, run: Run | None, claims: Mapping[str, Any] | None) -> str:
    """How far the losses of a run are from the naive script's; first the terminal's verdict, where it gives one."""
    if run is None:
        return "-"
    if run.outcome != "ok":
        return f"**{run.outcome}**"
    if naive is None or naive.outcome != "ok":
        return "ran"
    pair = Pair(naive, run)
    words = f"{pair.first_loss_distance:.1e}, {pair.distance(START):.1e}"
    verdict, colon, _ = losses_apart(pair, claims).partition(": ")
    return f"**{verdict}**: {words}" if colon else words


def _of_facts(lines: Iterable[Values]) -> Iterator[str]:
    lines = list(lines)
    if not lines:
        return
    if failures := [line for line in answers(lines) if line.startswith("FAILED")]:
        yield _indented(failures)
    rows = [
        (f"`{line['key']}`", escaped(line["question"]), "<br>".join(map(escaped, entries_of(line["seen"]))))
        for line in lines
        if "seen" in line
    ]
    yield markdown_table(("Fact", "Question", "Seen"), rows)


MACHINE_HEAD: Cells = (
    *("Stage", "Time", "Commit", "GPU", "Driver", "SM clock, MHz", "Temperature, °C", "Power limit, W"),
    *("Others on it", "Processor", "System", "Packages"),
)


def _of_machines(device: Device) -> str:
    """One row for each call of a stage."""
    rows = []
    for stage, machine in device.machines:
        gpu = machine.get("gpu") or {}
        limit = gpu.get("power_limit_milliwatt")
        clocks = [str(clock) for name in ("sm_clock_mhz", "sm_clock_most_mhz") if (clock := gpu.get(name)) is not None]
        packages = [f"{name} {version}" for name, version in machine.get("packages", {}).items() if version]
        values = (
            *(stage, machine.get("time"), machine.get("commit"), gpu.get("name"), gpu.get("driver")),
            *(" of ".join(clocks), gpu.get("temperature_celsius"), None if limit is None else f"{limit / 1000:.0f}"),
            *(gpu.get("compute_processes"), machine.get("processor")),
            *(f"{machine.get('system', '')}, Python {machine.get('python', '')}", ", ".join(packages)),
        )
        rows.append(tuple("-" if value in (None, "") else escaped(str(value)) for value in values))
    return markdown_table(MACHINE_HEAD, rows) if rows else "Nothing is known of it."


def _indented(lines: Iterable[str]) -> str:
    """A block that is shown as it is."""
    return "\n".join(f"    {line}".rstrip() for line in lines)
