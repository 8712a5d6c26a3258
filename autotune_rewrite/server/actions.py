"""What an editor can do about findings: which actions there are, and what each changes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from autotune_rewrite.project import suppress
from autotune_rewrite.report.summary import counted
from autotune_rewrite.rewriting.fixes import applied
from codemods.dataflow.source import Module

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autotune_rewrite.rewriting.results import Rewrite, Site
    from autotune_rewrite.server.programs import Found, Opened, Programs

FIX_ALL = "source.fixAll.torchfast"
PROGRAM = "source.torchfast.program"
"""Of another kind than the one above, as it also changes files that were not asked for."""
QUICK_FIX = "quickfix"
KINDS = (QUICK_FIX, FIX_ALL, PROGRAM)

What = Literal["finding", "rule", "ignore", "file", "program"]

Changed: TypeAlias = "tuple[str, str, str]"
"""A file, its text, and the one that it is to have."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done."""

    what: What
    kind: str
    title: str
    site: Site | None = None
    """The finding that it is about; none where it is about all."""
    disabled: str = ""
    """Why it cannot be done now."""


def of_findings(found: Found, sites: Sequence[Site]) -> Iterator[Action]:
    """What can be done about findings that have their own changes.

    Args:
        found: What was found in their file.
        sites: Some of it.
    """
    for site in sites:
        title = f"torchfast: apply {site.rule} [{site.promise}]"
        yield Action("finding", QUICK_FIX, title, site, disabled=site.no_fix)
    for rule in dict.fromkeys(site.rule for site in sites):
        of_rule = [site for site in found.own.sites if site.rule == rule and site.fix]
        if len(of_rule) > 1:
            title = f"torchfast: apply all {len(of_rule)} of {rule} in this file"
            yield Action("rule", QUICK_FIX, title, next(site for site in sites if site.rule == rule))
    for site in sites:
        title = f"torchfast: leave {site.rule} alone here ({suppress.Ignore(site.line, frozenset({site.rule}), '')})"
        yield Action("ignore", QUICK_FIX, title, site)


def of_file(found: Found) -> Iterator[Action]:
    """What can be done about all that is found in a file, and in the modules that it imports."""
    number = sum(site.rewrites for site in found.own.sites)
    if number:
        yield Action("file", FIX_ALL, "torchfast: apply all changes in this file")
    others = [sum(site.rewrites for site in each.sites) for each in found.others]
    if any(others):
        files = counted(sum(map(bool, [number, *others])), "file")
        yield Action("program", PROGRAM, f"torchfast: apply all changes of this program, in {files}")


def key(action: Action) -> dict[str, Any]:
    """What an editor keeps of an action until the user wants it."""
    site = action.site
    return {"what": action.what, **({} if site is None else {"rule": site.rule, "line": site.line, "at": site.column})}


def carried_out(programs: Programs, opened: Opened, path: str, wanted: dict[str, Any]) -> list[Changed]:
    """What an action changes in the texts as they are now.

    Args:
        programs: What is known of the program.
        opened: All files that are open.
        path: The file.
        wanted: The action; see ``key``.

    Raises:
        FileError: when a file cannot be used.
    """
    what: What = wanted["what"]
    if what in {"finding", "ignore"}:
        found = programs.check(opened, path, fixes=what == "finding")
        site = None if found is None else _site(found.own, wanted)
        if found is None or site is None:
            return []
        text = found.own.before
        return [(path, text, applied(text, site.fix) if what == "finding" else _ignoring(path, text, site))]
    if what == "rule":
        return _all_of(wanted["rule"], programs, opened, path)
    changed = programs.rewritten(opened, path, None if what == "program" else lambda where, _: where == path)
    return [(each.source.path, each.source.text, each.rewrite.after) for each in changed]


def why_nothing(wanted: dict[str, Any]) -> str:
    """Why an action may change nothing."""
    by_action = {"finding": "it is not found any more", "ignore": "no comment can stand there"}
    return by_action.get(wanted["what"], "what is found here needs changes in other files, too")


def _all_of(rule: str, programs: Programs, opened: Opened, path: str) -> list[Changed]:
    """A file with all changes of one rule, those too that have a change of another one in them."""
    found = programs.check(opened, path)
    if found is None:
        return []
    changed = programs.rewritten(opened, path, lambda where, site: where == path and site.rule == rule)
    after = next((each.rewrite.after for each in changed), found.own.before)
    for _ in found.own.sites:
        now = programs.check({**opened, os.path.realpath(path): after}, path, fixes=True)
        left = () if now is None else now.own.sites
        fix = next((site.fix for site in left if site.rule == rule and site.fix), None)
        if fix is None:
            break
        after = applied(after, fix)
    return [(path, found.own.before, after)]


def _site(rewrite: Rewrite, wanted: dict[str, Any]) -> Site | None:
    place = wanted["rule"], wanted["line"], wanted["at"]
    return next((each for each in rewrite.sites if (each.rule, each.line, each.column) == place), None)


def _ignoring(path: str, text: str, site: Site) -> str:
    """The text with a comment that leaves a finding alone; the same text where there is no place for one."""
    mark = text[: len(text) - len(text.removeprefix("\ufeff"))]
    return mark + suppress.with_ignores(Module(path, text.removeprefix(mark)), {site.line: {site.rule}})[0]
