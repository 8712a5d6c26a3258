"""What could be faster of what a branch changed, as Markdown for a comment on its pull request."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune_rewrite.report import judgement as words
from autotune_rewrite.report.changes import changes
from autotune_rewrite.report.entries import shown_path
from autotune_rewrite.report.markdown import escaped
from autotune_rewrite.report.summary import counted, summary
from autotune_rewrite.report.verified import per_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from autotune_rewrite.errors import FileError
    from autotune_rewrite.project.git import Commits
    from autotune_rewrite.report.changes import Change
    from autotune_rewrite.rewriting.results import Rewrite, Site
    from autotune_rewrite.verify.judgement import Judgement

LONGEST = 60_000
"""Characters of a comment: GitHub takes 65,536, GitLab a million."""


@dataclass(frozen=True, slots=True)
class Review:
    """What there is to say of a branch."""

    rewrites: Sequence[Rewrite]
    """With the findings that the branch touches alone."""
    revision: str
    """Since which the branch was changed."""
    commits: Commits
    judgement: Judgement | None = None
    """What a verification said."""
    errors: Sequence[FileError] = ()
    told: frozenset[int] = frozenset()
    """The numbers of changes that are told of elsewhere, in comments on their lines."""
    not_utf8: frozenset[str] = frozenset()
    """The files whose bytes are not those of their text in UTF-8."""

    @property
    def changes(self) -> list[Change]:
        """What can be taken over."""
        return changes(self.rewrites)

    @property
    def left(self) -> list[tuple[Rewrite, Site]]:
        """What is left, and for which reason."""
        return [(each, site) for each in self.rewrites for site in each.sites if site.code]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say, but that nothing was found."""
        return not (self.changes or self.left or self.errors or self.judgement)

    @property
    def headline(self) -> str:
        """How much there is, in a line."""
        found = summary(self.rewrites, check=False) or "nothing found"
        comments = f" ({counted(len(self.told), 'comment')} on these)" if self.told else ""
        return f"torchfast: {found}, on lines changed since {self.revision}{comments}"


def as_markdown(review: Review) -> str:
    """A heading that counts, what was measured, then each rule folded away; without a final newline.

    Diffs are left out from the end where a comment would be too long.
    """
    head = [f"### {escaped(review.headline)}", *measured(review.judgement)]
    tail = [*_left(review.left), *_errors(review.errors)]
    found = review.changes
    rules = list(dict.fromkeys(rule for each in found if each.number not in review.told for rule in each.rules))
    for whole in range(len(rules), -1, -1):
        folded = [block for at, rule in enumerate(rules) for block in _rule(rule, found, review, with_diffs=at < whole)]
        if whole < len(rules):
            folded.append("Diffs are left out here, as a comment holds no more: `torchfast review` has them as `html`.")
        text = "\n\n".join([*head, *folded, *tail])
        if len(text) <= LONGEST:
            break
    return text


def measured(judgement: Judgement | None) -> Iterator[str]:
    """What a verification said, as blocks of Markdown."""
    if judgement is None:
        return
    yield f"**Measured:** {escaped(words.headline(judgement))}"
    yield "\n".join(f"- {escaped(each)}" for each in measured_lines(judgement))


def measured_lines(judgement: Judgement) -> list[str]:
    """What was measured, in sentences."""
    if judgement.run != "ok":
        return [judgement.reason]
    lines = [f"{name}: {ratio}" for name, ratio in words.ratios(judgement)]
    lines += per_run(judgement)
    if judgement.applied:
        lines.append(f"with these rules together: {', '.join(judgement.applied)}")
    return [*lines, words.seen(judgement)]


def part_of_measured(rule: str, judgement: Judgement | None) -> str:
    """Whether the changes of a rule are among those that were measured, where that is known."""
    if judgement is None or not judgement.applied:
        return ""
    if rule not in judgement.applied:
        return "not part of what was measured"
    idle = any(rule == name.partition(" ")[0] for name in judgement.not_measured)
    return "cannot act on the device that was measured" if idle else "part of what was measured"


def gain(sites: Iterable[Site]) -> str:
    """The gain to expect of sites of one rule."""
    return "; ".join(dict.fromkeys(each.gain for each in sites if each.gain))


def _rule(rule: str, found: Sequence[Change], review: Review, *, with_diffs: bool) -> Iterator[str]:
    """A rule, folded away: its sites, and the diff of each change that it comes first in."""
    here = [each for each in found if each.number not in review.told]
    own = [(each, site) for each in here for site in each.sites if site.rule == rule]
    promise = max(site.promise for _, site in own)
    number = counted(len(own), "change")
    yield f"<details>\n<summary><code>{html.escape(rule)}</code>: {number}, {promise}</summary>"
    said = [f"Gain to expect: {gain(site for _, site in own)}", part_of_measured(rule, review.judgement)]
    yield escaped("; ".join(filter(None, said)) + ".")
    yield "\n".join(f"- {_site(each, site, found)}" for each, site in own)
    for each in dict.fromkeys(each.number for each, _ in own) if with_diffs else ():
        change = found[each - 1]
        if change.rules[0] == rule:
            yield f"{escaped(place(change.rewrite, change.sites[0]))}:"
            yield fenced("diff", "\n".join(line.rstrip("\r") for line in change.diff))
    yield "</details>"


def _site(change: Change, site: Site, found: Sequence[Change]) -> str:
    said = [f"{escaped(place(change.rewrite, site))} {escaped(change.rewrite.message(site))}, {site.promise}"]
    together = [rule for rule in change.rules if rule != site.rule]
    if together:
        said.append(f"together with {', '.join(f'`{rule}`' for rule in together)}")
    needed = needed_rules(change, found)
    if needed:
        said.append(f"only with {needed}")
    return "; ".join(said)


def needed_rules(change: Change, found: Sequence[Change]) -> str:
    """The rules without whose changes this one is not right; empty where there are none."""
    needed = dict.fromkeys(rule for number in change.needs for rule in found[number - 1].rules)
    return ", ".join(f"`{rule}`" for rule in needed)


def place(rewrite: Rewrite, site: Site) -> str:
    """Where a site is, for people."""
    path = shown_path(rewrite.path)
    return f"{path}:{site.line}" if rewrite.cells is None else f"{path}:{rewrite.cells.named(site.line)}"


def fenced(language: str, text: str) -> str:
    """A block of code that ends where it is to end, whatever stands in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _left(left: Sequence[tuple[Rewrite, Site]]) -> Iterator[str]:
    if not left:
        return
    yield f"<details>\n<summary>Left: {counted(len(left), 'place')}, and why</summary>"
    yield "\n".join(
        f"- {escaped(place(rewrite, site))} `{site.rule}` {escaped(rewrite.message(site))}" for rewrite, site in left
    )
    yield "</details>"


def _errors(errors: Sequence[FileError]) -> Iterator[str]:
    if errors:
        yield "\n".join(f"- {escaped(str(each))}" for each in errors)
