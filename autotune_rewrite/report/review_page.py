"""What could be faster of what a branch changed, as a page on which changes are left out and the rest is downloaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune_rewrite.report import judgement as words
from autotune_rewrite.report.diff import texts
from autotune_rewrite.report.page import from_markdown, rendered, side_by_side
from autotune_rewrite.report.pages import page
from autotune_rewrite.report.review import gain, measured_lines, part_of_measured, place
from autotune_rewrite.rewriting.fixes import applied, lines
from codemods.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autotune_rewrite.report.changes import Change
    from autotune_rewrite.report.page import Hunk
    from autotune_rewrite.report.review import Review


@dataclass(frozen=True, slots=True)
class Told:
    """What a rule says of places of one change, or of one that is left."""

    rule: str
    promise: str
    places: str
    message: str
    gain: str
    measured: str


@dataclass(frozen=True, slots=True)
class Card:
    """A change, as it is shown."""

    change: Change
    place: str
    findings: tuple[Told, ...]
    hunks: tuple[Hunk, ...]
    why_not: str
    """Why it is not in the patch; empty where it is."""

    @property
    def can_be_left_out(self) -> bool:
        """Whether it is in the patch at all."""
        return not self.why_not


def as_html(review: Review) -> str:
    """One page that needs nothing else, and that sends nothing anywhere."""
    found = review.changes
    cards = [_card(each, review) for each in found]
    left = [
        {"place": place(rewrite, site), "rule": site.rule, "message": rewrite.message(site)}
        for rewrite, site in review.left
    ]
    names = {rule for each in found for rule in each.rules} | {each["rule"] for each in left}
    said = [] if review.judgement is None else [words.headline(review.judgement), *measured_lines(review.judgement)]
    return rendered(
        "review.html",
        review=review,
        cards=cards,
        switched=sum(each.can_be_left_out for each in cards),
        left=left,
        measured=said,
        directory=Path.cwd().name or "/",
        data=_data(cards),
        rules=[(name, from_markdown(page(RULES[name]), below=2)) for name in RULES if name in names],
    )


def _card(change: Change, review: Review) -> Card:
    why_not = ""
    if change.rewrite.units is None:
        why_not = "A notebook: no patch changes its cells, `torchfast rewrite --apply` does."
    elif change.path in review.not_utf8:
        why_not = "The file is not in UTF-8: this page makes no patch of it, `torchfast rewrite --patch` does."
    return Card(
        change, place(change.rewrite, change.sites[0]), tuple(_findings(change, review)), tuple(_hunks(change)), why_not
    )


def _findings(change: Change, review: Review) -> Iterator[Told]:
    for rule in change.rules:
        own = [each for each in change.sites if each.rule == rule]
        lines = dict.fromkeys(place(change.rewrite, each).rpartition(":")[2] for each in own)
        messages = dict.fromkeys(change.rewrite.message(each) for each in own)
        yield Told(
            rule,
            str(max(each.promise for each in own)),
            f"{'line' if len(lines) == 1 else 'lines'} {', '.join(lines)}",
            "; ".join(messages),
            gain(own),
            part_of_measured(rule, review.judgement),
        )


def _hunks(change: Change) -> Iterator[Hunk]:
    if change.rewrite.units is not None:
        yield from side_by_side(change.rewrite.before, applied(change.rewrite.before, change.replacements))
        return
    for cell, before, after in texts(change.rewrite):
        yield from side_by_side(before, after, f"cell {cell}")


def _data(cards: Sequence[Card]) -> dict[str, Any]:
    """What the page makes its patch of."""
    files: dict[str, dict[str, Any]] = {}
    numbers: dict[str, list[int]] = {}
    for card in cards:
        if card.can_be_left_out:
            numbers.setdefault(card.change.path, []).append(card.change.number)
    for card in cards:
        rewrite = card.change.rewrite
        if rewrite.path in numbers and rewrite.path not in files and rewrite.units is not None:
            own = numbers[rewrite.path]
            pieces = [
                {
                    "line": each.replacement.line,
                    "end_line": each.replacement.end_line,
                    "text": each.replacement.text,
                    "changes": [own[unit] for unit in each.units],
                }
                for each in rewrite.units.pieces
            ]
            files[rewrite.path] = {"path": rewrite.path, "lines": lines(rewrite.before), "pieces": pieces}
    needs = {str(each.change.number): list(each.change.needs) for each in cards if each.change.needs}
    return {"files": list(files.values()), "needs": needs}
