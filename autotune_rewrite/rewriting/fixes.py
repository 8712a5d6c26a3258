"""Each finding's own change: which lines are to stand in the place of which, where nothing else is changed."""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, TypeAlias

from autotune_rewrite.errors import FileError
from autotune_rewrite.rewriting.results import Replacement
from autotune_rewrite.rewriting.rewrite import Step, carried_out, rewrite_project
from codemods.catalogue import ROUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from autotune_rewrite.rewriting.results import Rewrite, Site
    from autotune_rewrite.rewriting.rewrite import Ask, Text

_Fixes: TypeAlias = "dict[tuple[Text, Site], tuple[Replacement, ...]]"


def with_fixes(texts: Sequence[Text], *, check: bool, ask: Ask | None = None) -> list[Rewrite | FileError]:
    """What ``rewrite_project`` says, in which each site that is rewritten has its own change.

    Rules of a round know only the script as it is before that round. So a site of a later round has a change of its own
    only if its round finds it, just so, in the script as the user has it. Else it says after which rules it is found.

    Args:
        texts: The modules of a project.
        check: Find the sites only.
        ask: Whether a change is wanted.
    """
    steps: list[Step] = []
    said = rewrite_project(texts, check=check, steps=steps, ask=ask)
    rounds = sorted({each.round for each in steps})
    fixes: _Fixes = {}
    for number in rounds:
        # What the first of them found was there before any change.
        is_first = number == rounds[0]
        fixes |= _fixes([each for each in steps if each.round == number] if is_first else _alone(texts, number))
    asked = [each for each in texts if each.settings is not None]
    return [
        each if isinstance(each, FileError) else replace(each, sites=tuple(_fixed(text, each.sites, fixes, steps)))
        for text, each in zip(asked, said, strict=True)
    ]


def applied(text: str, fix: Iterable[Replacement]) -> str:
    """The text with one finding's change."""
    parts = lines(text)
    for piece in sorted(fix, key=lambda each: each.line, reverse=True):
        parts[piece.line - 1 : piece.end_line] = [piece.text]
    return "".join(parts)


def _alone(texts: Sequence[Text], number: int) -> list[Step]:
    """What a round finds in the modules as they are, with no other round before it."""
    steps: list[Step] = []
    rewrite_project(texts, check=True, rounds=(ROUNDS[number],), steps=steps)
    return steps


def _fixes(steps: Iterable[Step]) -> _Fixes:
    """The change of each site, carried out alone in the script as it is."""
    return {
        (step.text, site): tuple(pieces(step.text.text, carried_out(step.text, step.module, edits)))
        for step in steps
        for site, edits in step.done
    }


def _fixed(text: Text, sites: Iterable[Site], fixes: _Fixes, steps: Iterable[Step]) -> Iterator[Site]:
    number_of = {rule.name(): number for number, group in enumerate(ROUNDS) for rule in group}
    for site in sites:
        fix = fixes.get((text, site), ())
        if site.no_fix or not site.rewrites:
            yield site
        elif fix:
            yield site._replace(fix=fix)
        else:
            earlier = {each.rule for step in steps if step.round < number_of[site.rule] for each, _ in step.done}
            names = ", ".join(sorted(earlier, key=lambda name: (number_of[name], name)))
            yield site._replace(no_fix=f"it is found like this only after other changes ({names})")


def pieces(before: str, after: str) -> Iterator[Replacement]:
    """The change in pieces, each of which takes the place of at least one line and has at least one.

    So two changes of one place overlap, and whoever makes both of them notices.
    """
    old, new = lines(before), lines(after)
    found: list[tuple[int, int, int, int]] = []
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        piece = start, end, new_start, new_end
        if tag != "replace":
            # The line before stays as it is; at the top it is the line behind.
            piece = (start - 1, end, new_start - 1, new_end) if start else (start, end + 1, new_start, new_end + 1)
        if found and piece[0] < found[-1][1]:
            last = found.pop()
            piece = last[0], piece[1], last[2], piece[3]
        found.append(piece)
    for start, end, new_start, new_end in found:
        yield Replacement(start + 1, end, "".join(new[new_start:new_end]))


def lines(text: str) -> list[str]:
    """The lines with their newlines; only a line feed ends one."""
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [last for last in text.split("\n")[-1:] if last]
