"""One script through the rules: its text in, every site that they found and the new text out."""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune_rewrite import suppress
from autotune_rewrite.catalogue import ROUNDS, RULES
from autotune_rewrite.errors import FileError
from codemods import placing
from codemods.declaration import Promise
from codemods.facts import legacy
from codemods.facts.describe import facts_by_line
from codemods.facts.script import Script
from codemods.facts.source import Module

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Sequence

    from autotune_rewrite.catalogue import Rounds
    from autotune_rewrite.config import Settings
    from autotune_rewrite.suppress import Suppressions
    from codemods.declaration import Codemod, Finding
    from codemods.edit_values import Edit

_MARK = "\ufeff"
"""A byte order mark: part of the file, and of no line of it for Python."""


@dataclass(frozen=True, slots=True)
class Span:
    """Lines of the original that an edit touches, from 1, inclusive; an insertion before line n is (n, n - 1)."""

    line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Site:
    """One finding at the original's lines and columns (from 1, ends inclusive), as plain values."""

    rule: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    """Why the site is slow, or why it is left."""
    promise: Promise
    gain: str
    fails: bool
    edits: tuple[Span, ...]
    """What the rewrite touches; none where the site is left."""
    redraws: bool = False
    """Whether the rewritten code draws other random numbers."""

    @property
    def rewrites(self) -> bool:
        """Whether the site is rewritten."""
        return bool(self.edits)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What became of one script."""

    path: str
    before: str
    after: str
    """The new text; of a mere check, the text that the last round's rules read."""
    sites: tuple[Site, ...] = ()
    """In the order of the script's lines; those of one place in the order of the rules."""

    @property
    def rules(self) -> frozenset[str]:
        """The rules that changed something."""
        return frozenset(site.rule for site in self.sites if site.rewrites)

    @property
    def promise(self) -> Promise | None:
        """The farthest promise applied; None where nothing was."""
        return max((site.promise for site in self.sites if site.rewrites), default=None)

    @property
    def redraws(self) -> bool:
        """Whether anything that was applied draws other random numbers."""
        return any(site.rewrites and (site.redraws or site.promise == Promise.RANDOM) for site in self.sites)

    @property
    def fails(self) -> bool:
        """Whether a check of the script fails."""
        return any(site.fails for site in self.sites)


def rewrite(path: str, text: str, settings: Settings, *, check: bool = False, rounds: Rounds = ROUNDS) -> Rewrite:
    """Run the selected rules over a script.

    Args:
        path: The script's name in messages; nothing is read from there.
        text: The script.
        settings: What runs.
        check: Find the sites only: the last round's edits are not carried out.
        rounds: The rules there are, by rounds.

    Raises:
        FileError: when the script cannot be understood, or a comment in it asks for what there is not.
    """
    selected = [[rule for rule in group if rule.name() in settings.rules] for group in rounds]
    sites: list[Site] = []
    original = current = text.removeprefix(_MARK)
    with _nesting(path):
        for number, rules in enumerate(selected, start=1):
            module = parse(path, current)
            suppressions = suppress.read(module, RULES)
            if suppressions.skip_file:
                break
            if not rules:
                continue
            original_lines = None if current == original else _original_lines(parse(path, original), module)
            accepted = placing.Accepted()
            script = Script.of(module, settings.target.known)
            rewritten: set[tuple[str, ast.AST]] = set()
            for rule in rules:
                for finding in rule(settings.choices).sites(script):
                    reason = _objection(rule, finding, settings, suppressions) if finding.rewrites else None
                    if reason is None and finding.after and (finding.after, finding.node) not in rewritten:
                        reason = f"{finding.after} leaves it"
                    if reason is None:
                        reason = accepted.add(finding.edits)
                    if reason is None and finding.rewrites:
                        rewritten.add((finding.rule, finding.node))
                    sites.append(_site(finding if reason is None else _left(finding, reason), original_lines))
            if accepted.edits and not (check and number == len(selected)):
                current = _apply(module, accepted.edits)
    after = text[: len(text) - len(original)] + current
    return Rewrite(path, text, after, tuple(sorted(sites, key=lambda site: (site.line, site.column))))


def describe(path: str, text: str) -> tuple[tuple[int, str], ...]:
    """What is understood of a script: lines, from 1, and facts.

    Raises:
        FileError: when the script cannot be understood.
    """
    with _nesting(path):
        return tuple(facts_by_line(Script.of(parse(path, text.removeprefix(_MARK)))))


def parse(path: str, text: str) -> Module:
    """The module with this text.

    Raises:
        FileError: when it is not Python that this interpreter reads.
    """
    with _nesting(path):
        try:
            return Module(path, text)
        except SyntaxError as error:
            said = legacy.why_unreadable(error.text or "") or error.msg
            raise FileError(path, f"not Python 3: {said}", error.lineno or 1) from error
        except ValueError as error:
            raise FileError(path, f"not Python: {error}", 1) from error


@contextmanager
def _nesting(path: str) -> Iterator[None]:
    """Code that is nested too deeply is the script's fault, at whatever stage it shows."""
    try:
        yield
    except (RecursionError, MemoryError) as error:
        raise FileError(path, "nested too deeply to be understood") from error


def _objection(rule: type[Codemod], finding: Finding, settings: Settings, suppressions: Suppressions) -> str | None:
    """Why a site is not to be rewritten though it could be."""
    ignore = suppressions.ignore(finding.module, finding.node, finding.rule)
    if ignore is not None:
        return f"ignored here: {ignore.reason}" if ignore.reason else "ignored here"
    if finding.promise > settings.level and finding.rule not in settings.exempt:
        return f"above level {settings.level}: {finding.message}"
    if not settings.target.allows(rule.min_torch):
        needed = ".".join(map(str, rule.min_torch))
        return f"needs torch {needed}, and the script may run on an older one: {finding.message}"
    return None


def _left(finding: Finding, reason: str) -> Finding:
    """The finding without its edits."""
    return dataclasses.replace(finding, message=reason, gain="", edits=(), fails=False)


def _apply(module: Module, edits: Sequence[Edit]) -> str:
    """The module's text after the edits."""
    from codemods.edits import NotEditableError, apply

    try:
        text = apply(module, edits)
    except NotEditableError as error:
        # LibCST shows the code in question, on lines of its own.
        raise FileError(module.path, " ".join(str(error).removeprefix(f"{module.path}:").split())) from error
    try:
        Module(module.path, text)
    except SyntaxError as error:
        # A fault of torchfast; the user's file is worth more than the report of it.
        message = f"the rewrite would not be Python ({error.msg}): left as it is; please report this"
        raise FileError(module.path, message) from error
    return text


def _site(finding: Finding, original_lines: tuple[int, ...] | None) -> Site:
    """The finding as plain values, at the original's lines."""

    def original(line: int) -> int:
        return line if original_lines is None else original_lines[line - 1]

    module, node = finding.module, finding.node
    spans = []
    for edit in finding.edits:
        line, end_line = placing.touched_lines(edit)
        first = original(line)
        spans.append(Span(first, first - 1 if end_line < line else original(end_line)))
    return Site(
        rule=finding.rule,
        line=original(module.line_of(module.span(node)[0])),
        column=module.column(node),
        end_line=original(node.end_lineno),  # type: ignore[attr-defined]
        end_column=module.end_column(node),
        message=finding.message,
        promise=finding.promise,
        gain=finding.gain,
        fails=finding.fails and finding.rewrites,
        edits=tuple(spans),
        redraws=finding.redraws,
    )


def _original_lines(before: Module, after: Module) -> tuple[int, ...]:
    """For every line of ``after`` its line in ``before``, from 1."""
    from difflib import SequenceMatcher

    old, new = ([line.strip() for line in module.lines] for module in (before, after))
    lines: list[int] = []
    for _, start, end, new_start, new_end in SequenceMatcher(None, old, new).get_opcodes():
        # What has no line of its own stands for the last line that it replaces, or the line it was inserted before.
        last = min(max(start + 1, end), len(old))
        lines += (min(start + 1 + offset, last) for offset in range(new_end - new_start))
    return tuple(lines)
