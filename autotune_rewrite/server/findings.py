"""Findings as an editor shows them: as diagnostics, and with their rules' pages where the user points at one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsprotocol import types

from autotune_rewrite.report.pages import page
from autotune_rewrite.suggestions import unknown
from codemods.catalogue import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from autotune_rewrite.rewriting.results import Rewrite, Site
    from autotune_rewrite.server.places import Places

SOURCE = "torchfast"

_SEVERITIES = {
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}
_FAILS = "fails-today"


@dataclass(frozen=True, slots=True)
class Shown:
    """What the user wants to see."""

    severity: str = "information"
    """How what can be rewritten is shown: the code is right, and could be faster."""
    left: bool = False
    """Whether what is left is shown, too, as hints with the reason."""

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Shown:
        """What the settings of an editor say.

        Raises:
            ValueError: when something in them is not known.
        """
        for key in settings:
            if key not in {"severity", "showLeft"}:
                raise ValueError(unknown("setting", key, ("severity", "showLeft")))
        severity, left = settings.get("severity", cls().severity), settings.get("showLeft", cls().left)
        if severity not in _SEVERITIES:
            raise ValueError(unknown("severity", str(severity), _SEVERITIES))
        if not isinstance(left, bool):
            raise ValueError("showLeft is not true or false")  # noqa: TRY004 - the value, and not the argument, is wrong
        return cls(str(severity), left)


def is_shown(site: Site, shown: Shown) -> bool:
    """Whether the user sees a finding: what can be done is, and that the script fails before any change."""
    return not site.code or shown.left or site.code == _FAILS


def diagnostics(rewrite: Rewrite, places: Places, shown: Shown) -> Iterator[types.Diagnostic]:
    """All that is shown of a file."""
    for site in rewrite.sites:
        if not site.code:
            yield diagnostic(rewrite, site, places, shown)
    groups: dict[tuple[int, str], list[Site]] = {}
    for site in rewrite.sites:
        if site.code and is_shown(site, shown):
            groups.setdefault((site.line, site.message), []).append(site)
    for (_, message), sites in groups.items():
        fails = sites[0].code == _FAILS
        rules = ", ".join(dict.fromkeys(site.rule for site in sites))
        yield types.Diagnostic(
            places.range_of(sites[0]),
            message if fails else f"left: {message}",
            severity=types.DiagnosticSeverity.Warning if fails else types.DiagnosticSeverity.Hint,
            code=rules,
            source=SOURCE,
        )
    for line, comment in rewrite.unused:
        yield types.Diagnostic(
            places.line(line),
            f"'{comment}' is not needed: nothing is found there",
            severity=types.DiagnosticSeverity.Hint,
            source=SOURCE,
        )


def diagnostic(rewrite: Rewrite, site: Site, places: Places, shown: Shown) -> types.Diagnostic:
    """A finding that can be rewritten, or that advises."""
    gain = f"\n{site.gain}" if site.gain else ""
    return types.Diagnostic(
        places.range_of(site),
        f"{rewrite.message(site)} [{site.mark}]{gain}",
        severity=types.DiagnosticSeverity.Hint if site.advises else _SEVERITIES[shown.severity],
        code=site.rule,
        source=SOURCE,
    )


def described(rewrite: Rewrite, sites: Sequence[Site]) -> str:
    """What is said of findings, and the pages of their rules, in Markdown."""
    said = [
        f"**{site.rule}** [{site.mark}]: {rewrite.message(site)}"
        if not site.code
        else f"**{site.rule}** leaves it: {rewrite.message(site)}"
        for site in sites
    ]
    pages = [page(RULES[rule]) for rule in dict.fromkeys(site.rule for site in sites)]
    return "\n\n---\n\n".join(["\n\n".join(dict.fromkeys(said)), *pages])
