"""The findings of rules as the sites that users are told of."""

from __future__ import annotations

import dataclasses
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from autotune_rewrite.rewriting.results import Site, Span
from codemods.editing import conflicts
from codemods.facts.reason import Reason
from codemods.facts.target import ASSUMED, OLDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autotune_rewrite.project.suppress import Suppressions
    from autotune_rewrite.rewriting.config import Settings
    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.facts.target import Target

_WITHOUT_WORK = frozenset({"no-cuda", "never-pays-back"})
"""Why sites are left at which there is little to compute on CUDA, whatever computes it."""


def objection(finding: Finding, settings: Settings, target: Target, suppressions: Suppressions) -> Reason | None:
    """Why a site is not to be rewritten though it could be, or why no advice is given."""
    ignore = suppressions.ignore(finding.module, finding.node, finding.rule)
    if ignore is not None:
        return Reason("ignored", f"ignored here: {ignore.reason}" if ignore.reason else "ignored here")
    if finding.advises:
        return None
    if finding.promise > settings.level and finding.rule not in settings.exempt:
        words = finding.words.following(f"above level {settings.level}: ")
        return Reason("above-level", words.text, words.places, f"choose --level {finding.promise}")
    if not target.allows(finding.since):
        because = target.why_too_old(finding.since)
        words = finding.words.following(f"{because.text}: ")
        return because._replace(text=words.text, places=words.places)
    return None


def why_not_beside(finding: Finding, sites: Sequence[Site]) -> Reason | None:
    """Why a finding brings nothing, or is wrong, beside what another rule does to the script, or leaves; else None.

    Args:
        finding: The finding.
        sites: Those of all rules in the script.
    """
    clash = finding.clash
    if clash is not None:
        changed = (site for site in sites if site.rule == clash.rule and site.rewrites)
        return clash.because if any(each.needs != clash.harmless for each in changed) else None
    other = finding.unless or finding.only_with
    others = [site for site in sites if site.rule == other and site.code not in _WITHOUT_WORK]
    # A part is enough: the next time, that rule says nothing of the rest, as the script has what it writes.
    if finding.only_with and not any(site.rewrites for site in others):
        text = f"{other}, without which it may cost more than it gains, "
        return Reason("left-with-another", text + ("leaves the script" if others else "is not applied"))
    if finding.unless and others and all(site.rewrites for site in others):
        text = f"{other}, in the same rewrite, leaves it nothing to do"
        return Reason("idle-beside", text, remedy=f"--ignore {other} has it written")
    return None


def left(finding: Finding, reason: Reason) -> Finding:
    """The finding without its edits."""
    return dataclasses.replace(finding, because=reason, gain="", edits=(), fails=False)


def site_of(finding: Finding, original: Module) -> Site:
    """The finding as plain values, at the original's lines."""
    module, node, said = finding.module, finding.node, finding.said
    shown = module.shown_line
    spans = []
    for line, end_line in dict.fromkeys(place for edit in finding.edits for place in conflicts.places(edit)):
        first = shown(line)
        spans.append(Span(first, first - 1 if end_line < line else shown(end_line)))
    begins = shown(module.line_of(module.span(node)[0]))
    return Site(
        rule=finding.rule,
        line=begins,
        column=module.column(node),
        end_line=shown(node.end_lineno),  # type: ignore[attr-defined]
        end_column=module.end_column(node),
        message=said.text,
        promise=finding.promise,
        gain=finding.gain,
        fails=finding.fails and finding.rewrites,
        edits=tuple(spans),
        redraws=finding.redraws,
        spots=said.spots,
        code="" if finding.because is None else finding.because.code,
        remedy="" if finding.because is None else finding.because.remedy,
        needs=finding.needs,
        no_fix=_needs_too(finding.only_with) if finding.rewrites else "",
        excerpt=original.lines[begins - 1],
    )


def _needs_too(rule: str) -> str:
    return f"without {rule} it may cost more than it gains: apply that first" if rule else ""


def notes_of(target: Target, sites: Sequence[Site]) -> Iterator[str]:
    """What is to be said once of the torch that the script runs on, however many sites it decides."""
    is_too_old = any(site.code == OLDER for site in sites)
    assumed = ".".join(map(str, ASSUMED))
    if is_too_old and target.is_silent:
        yield (
            f"nothing beside the script says which torch is used: {assumed} is assumed. "
            "--target-torch VERSION says which"
        )
    where, _, spoken_of = target.spoken_of.partition(": ")
    if spoken_of and any(site.rewrites for site in sites):
        # Newer code than that torch has may have been written.
        yield (
            f"{where}, speaks of {spoken_of}, which is no requirement: torch {assumed} is assumed. "
            "--target-torch VERSION says which"
        )
    if is_too_old and target.source:
        yield (
            f"{target.source} says which torch is used, so that what needs a newer one is left. "
            "Where it is out of date, --target-torch VERSION says which"
        )
    for each in target.unread if sites else ():
        yield f"{each} is not understood, and decides nothing. --target-torch VERSION says which torch is used"


def original_lines(before: Module, after: Module) -> tuple[int, ...]:
    """For every line of ``after`` its line in ``before``, from 1."""
    old, new = ([line.strip() for line in module.lines] for module in (before, after))
    lines: list[int] = []
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old, new).get_opcodes():
        # Of lines that were changed and stand together, each is told by how it begins: `loader = DataLoader(`.
        hunks = [(0, end - start, 0, new_end - new_start)]
        if tag == "replace":
            heads = [[line.partition("(")[0] for line in part] for part in (old[start:end], new[new_start:new_end])]
            hunks = [each[1:] for each in SequenceMatcher(None, heads[0], heads[1]).get_opcodes()]
        for first, behind, new_first, new_behind in hunks:
            # What has no line of its own stands for the last line that it replaces, or the line it was inserted before.
            last = min(start + max(first + 1, behind), len(old))
            lines += (min(start + first + 1 + offset, last) for offset in range(new_behind - new_first))
    # A line that stayed while those beside it moved is the one with its text, where there is one only.
    were, are = Counter(old), Counter(new)
    return tuple(
        old.index(text) + 1 if were[text] == are[text] == 1 else line for text, line in zip(new, lines, strict=True)
    )
