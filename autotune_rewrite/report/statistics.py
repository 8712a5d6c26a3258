"""How many findings each rule has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from autotune_rewrite.rewriting.results import Rewrite


def counts(rewrites: Iterable[Rewrite]) -> list[dict[str, Any]]:
    """For each rule that has findings, those that can be rewritten, that are left, and that advise; most first."""
    by_rule: dict[str, dict[str, Any]] = {}
    for site in (site for each in rewrites for site in each.sites):
        row = by_rule.setdefault(site.rule, {"rule": site.rule, "rewrites": 0, "left": 0, "advice": 0})
        row["rewrites" if site.rewrites else "advice" if site.advises else "left"] += 1
    return sorted(by_rule.values(), key=lambda row: (-row["rewrites"], -row["left"], row["rule"]))


def lines(rewrites: Iterable[Rewrite]) -> Iterator[str]:
    """The same as a table for people."""
    rows = [("changes", "left", "rule")]
    rows += [(str(row["rewrites"]), str(row["left"]), _named(row)) for row in counts(rewrites)]
    if len(rows) > 1:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        yield from (f"{row[0]:>{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}" for row in rows)


def _named(row: dict[str, Any]) -> str:
    """The rule, and how often it advises."""
    return f"{row['rule']} ({row['advice']} advised)" if row["advice"] else row["rule"]
