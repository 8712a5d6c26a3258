"""Where the time of an iteration goes, on one screen and as JSON."""

from __future__ import annotations

import sys
import textwrap
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from autotune_rewrite.profiling import profiles
from autotune_rewrite.profiling.limits import Limit, groups
from autotune_rewrite.report.judgement import WIDTH, duration
from autotune_rewrite.report.limits import times
from codemods.codemod import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from autotune_rewrite.profiling.limits import Group as Rules
    from autotune_rewrite.profiling.profiles import Estimate, Part, Profile, Site

MOST = 0.5
"""The part of the time from which on an evaluation is told before all phases."""
BAR = 30
"""Columns of a phase that takes all the time."""
SHOWN = 5
"""Operators and sites on the screen; JSON has more."""


def as_json(profile: Profile) -> dict[str, Any]:
    """The profile, and what follows from it."""
    bottleneck = profile.bottleneck
    return {
        **profiles.as_json(profile),
        "bottleneck": [] if bottleneck is None else [phase.name.lower() for phase in bottleneck.phases],
        "limits": [
            {
                "phases": [phase.name.lower() for phase in each.phases],
                "share": each.limit.share,
                "at_most": None if each.limit.share >= 1 else each.limit.factor,
                "rules": list(each.acting),
                "rules_that_cannot_act_here": list(each.idle),
            }
            for each in groups(profile)
        ],
    }


def as_text(profile: Profile, *, block: str = "█") -> str:
    """The profile in words, bars and tables; without a final newline.

    Args:
        profile: What to say.
        block: What bars are made of.
    """
    written = StringIO()
    console = Console(file=written, width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(Group(*_screen(profile, WIDTH, block)), crop=False)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def show(profile: Profile) -> None:
    """Prints the same, in colours and at the width of a terminal where it is one."""
    block = "█" if "utf" in (sys.stdout.encoding or "").lower() else "#"
    if not sys.stdout.isatty():
        sys.stdout.write(f"{as_text(profile, block=block)}\n")
        return
    console = Console()
    width = min(console.width, WIDTH)
    console.print(Group(*_screen(profile, width, block)), crop=False, width=width)


def headline(profile: Profile) -> str:
    """The bottleneck in words."""
    found = profile.bottleneck
    if found is None:
        return "Times on a simulated device say nothing: what follows is where the script waits for a device."
    verb = "is" if len(found.phases) == 1 else "are"
    share = f"{found.name[0].upper()}{found.name[1:]} {verb} {_percent(found.share.value)} of an iteration"
    most = times(Limit(found.share.value).factor)
    return f"{share}: without any of that, and all else as now, the script would be {most}."


def doubts(profile: Profile) -> str:
    """What else may be the bottleneck, in a sentence; empty where the measurement tells."""
    if not profile.rivals:
        return ""
    names = ", or ".join(each.name for each in profile.rivals)
    return f"As long may be: {names}. To tell, measure more iterations, or on a quieter machine."


def remedies(profile: Profile) -> str:
    """The rules that shorten the bottleneck, in a sentence; empty where there is none."""
    found = profile.bottleneck
    if found is None:
        return ""
    touching = (each for each in groups(profile) if {*found.phases} & {*each.phases})
    known = sorted(touching, key=lambda each: len({*each.phases} - {*found.phases}))
    acting = [name for each in known for name in each.acting]
    idle = [name for each in known for name in each.idle]
    if not acting and not idle:
        return "No rule shortens that."
    here = f"Rules that shorten it: {', '.join(acting)}." if acting else "No rule that shortens it acts here."
    return f"{here} Only on CUDA: {', '.join(idle)}." if idle else here


def measured(profile: Profile) -> str:
    """How it was measured, in a sentence."""
    counted = "1 iteration" if profile.iterations == 1 else f"{profile.iterations} iterations"
    where = f"torch {profile.environment.get('torch', '?')}, {_device(profile)}"
    if profile.iteration is None:
        return f"Seen: {profile.watched} iterations after {profile.warm_up} that warm up, {where}."
    took = f"{duration(profile.iteration.value)}{_interval(profile.iteration, duration)}"
    marks = f"taking the marks costs {100 * profile.overhead:.1g} % of it" if profile.overhead else "no marks"
    clock = "by events in the device's stream" if profile.on_device else "by the host's clock"
    blocks = "; brackets are 95 % intervals over blocks of iterations" if profile.iteration.low is not None else ""
    return (
        f"Measured: {counted} after {profile.warm_up} that warm up, {took} each, {clock}, without torch.profiler; "
        f"{marks}{blocks}. {where[0].upper()}{where[1:]}."
    )


def evaluations(profile: Profile) -> Iterator[str]:
    """What lay between the iterations, in a sentence."""
    if profile.evaluation is not None:
        passes = "1 evaluation" if profile.passes == 1 else f"{profile.passes} evaluations"
        share = profile.evaluation.share
        yield (
            f"Between the iterations lay {passes}: {_percent(share.value)}{_interval(share, _percent)} of all the time "
            "that was seen, of which the phases of an iteration hold nothing."
        )


def _evaluates_mostly(profile: Profile) -> bool:
    """Whether iterations were the smaller part of the time that was seen."""
    return profile.evaluation is not None and profile.evaluation.share.value > MOST


def notes(profile: Profile) -> Iterator[str]:
    """What else the user should know, in sentences."""
    yield from profile.notes
    if not _evaluates_mostly(profile):
        yield from evaluations(profile)
    if profile.iteration is None:
        return
    if profile.is_unsteady:
        yield (
            "Iterations took very different times: something else may compute on this machine. Where threads of "
            "torch wait for each other, --threads 1 is steadier."
        )
    if not profile.loaders:
        yield "No DataLoader was read in these iterations: how batches are made is in other code."
    if not profile.modules:
        yield "No module was called before backward: how the loss is computed is in other code."
    if profile.busy is not None:
        yield f"Under torch.profiler, the GPU was idle for {_percent(1 - profile.busy)} of the time."
    if not profile.has_cuda:
        yield (
            "There is no CUDA device here: nothing is copied to one and nothing waits for one. "
            "--device simulated shows the lines that would wait."
        )


def _screen(profile: Profile, width: int, block: str) -> Iterator[RenderableType]:
    """The report, from above to below."""
    yield _wrapped(headline(profile), width, "bold")
    if _evaluates_mostly(profile):
        yield from (_wrapped(each, width, "bold") for each in evaluations(profile))
    if doubts(profile):
        yield _wrapped(doubts(profile), width, "yellow")
    if remedies(profile):
        yield _wrapped(remedies(profile), width)
    yield from _phases(profile, block)
    yield from _limits(profile, width)
    yield from _operators(profile, width)
    yield from _sites(profile, width)
    yield _wrapped(measured(profile), width, "dim")
    yield from (_wrapped(note, width) for note in notes(profile))


def _phases(profile: Profile, block: str) -> Iterator[RenderableType]:
    if not profile.parts:
        return
    table = _table(4)
    table.columns[1].justify = table.columns[2].justify = "right"
    longest = profile.bottleneck
    for part in profile.parts:
        bar = block * round(BAR * part.share.value)
        style = "bold yellow" if longest is not None and part.phase in longest.phases else "cyan"
        table.add_row(Text(str(part.phase)), Text(duration(part.seconds)), Text(_share(part)), Text(bar, style))
        if part.phase is Phase.BACKWARD and profile.accumulation is not None:
            seconds = duration(part.seconds * profile.accumulation)
            own = _percent(part.share.value * profile.accumulation)
            table.add_row(Text(f"  {Phase.ACCUMULATION}", "dim"), Text(seconds, "dim"), Text(own, "dim"), Text(""))
    yield _indented(table)


def _limits(profile: Profile, width: int) -> Iterator[RenderableType]:
    """What rules can gain, each group in lines of its own."""
    known = groups(profile)
    if not known:
        return
    yield _wrapped("At most, if what a rule shortens took no time, and all else as much as now:", width)
    table = _table(3)
    for each in known:
        phases = ", ".join(map(str, each.phases))
        table.add_row(Text(times(each.limit.factor)), Text(phases), Text(_names(each)))
    yield _indented(table)


def _names(rules: Rules) -> str:
    idle = f"only on CUDA: {', '.join(rules.idle)}" if rules.idle else ""
    return "; ".join(filter(None, (", ".join(rules.acting), idle)))


def _operators(profile: Profile, width: int) -> Iterator[RenderableType]:
    if not profile.operators:
        return
    on_device = any(each.device_seconds for each in profile.operators)
    yield _wrapped(
        f"The longest operators, in {profile.watched} iterations under torch.profiler, which slows them down:", width
    )
    table = _table(3)
    table.columns[1].justify = table.columns[2].justify = "right"
    for each in profile.operators[:SHOWN]:
        seconds = each.device_seconds if on_device else each.host_seconds
        table.add_row(Text(each.name), Text(duration(seconds)), Text(f"{each.calls:.3g} times an iteration"))
    yield _indented(table)


def _sites(profile: Profile, width: int) -> Iterator[RenderableType]:
    if not profile.sites:
        if profile.device == "simulated":
            yield _wrapped("No line waits for the device in an iteration.", width)
        return
    yield _wrapped("Lines that make the host wait for the device, with how often in an iteration:", width)
    table = _table(3)
    for site in profile.sites[:SHOWN]:
        calls = ", ".join(f"{name} {count:.3g}" for name, count in site.calls.items())
        table.add_row(Text(f"{site.path}:{site.line}"), Text(calls), Text(_confirmed(site)))
    yield _indented(table)
    if len(profile.sites) > SHOWN:
        yield _wrapped(f"  and {len(profile.sites) - SHOWN} more, which --format json lists", width)


def _confirmed(site: Site) -> str:
    if site.confirmed is None:
        return ""
    return f"CUDA waited {site.confirmed:.3g} times" if site.confirmed else "CUDA did not wait"


def _table(columns: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), show_header=False)
    for _ in range(columns):
        table.add_column("")
    return table


def _indented(table: Table) -> Padding:
    return Padding(table, (0, 0, 0, 2))


def _share(part: Part) -> str:
    return f"{_percent(part.share.value)}{_interval(part.share, _percent)}"


def _interval(estimate: Estimate, words: Callable[[float], str]) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f" ({words(estimate.low).removesuffix(' %')} to {words(estimate.high)})"


def _percent(share: float) -> str:
    """Whole percents, and a digit more where there is less than one."""
    return f"{100 * share:.1f} %" if 0 < share < 0.01 else f"{100 * share:.0f} %"  # noqa: PLR2004 - one percent


def _device(profile: Profile) -> str:
    cores = f"{profile.environment.get('cpus', '?')} CPU cores"
    return str(profile.environment.get("gpu", cores))


def _wrapped(text: str, width: int, style: str = "") -> Text:
    """Lines that end between words alone: a path stays whole."""
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return Text("\n".join(lines), style, no_wrap=True, overflow="ignore")
