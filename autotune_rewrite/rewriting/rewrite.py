"""The modules of a script through the rules: texts in, every site that they found and the new texts out."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from autotune_rewrite.errors import FileError, NotPythonError
from autotune_rewrite.project import suppress
from autotune_rewrite.rewriting.results import Rewrite, Site
from autotune_rewrite.rewriting.sites import left, notes_of, objection, original_lines, site_of, why_not_beside
from codemods.catalogue import GROUPS, ROUNDS, RULES
from codemods.dataflow.source import Module
from codemods.editing import conflicts
from codemods.editing.splitting import width
from codemods.facts import failures
from codemods.facts.describe import facts_by_line
from codemods.facts.reason import Reason
from codemods.facts.script import Script, Whole
from codemods.facts.target import UNKNOWN, weakest

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from autotune_rewrite.project.suppress import Suppressions
    from autotune_rewrite.rewriting.config import Settings
    from codemods.catalogue import Rounds
    from codemods.codemod import Codemod, Finding
    from codemods.editing.values import Edit
    from codemods.facts.reason import Said
    from codemods.facts.target import Target, Version

_MARK = "\ufeff"
"""A byte order mark: part of the file, and of no line of it for Python."""
_TOO_DEEP = "nested too deeply to be understood"
_NOT_FOLLOWED = Reason("too-deep", "its code is nested, or calls itself, too deeply to be followed; please report this")
_TOO_DEEP_TOGETHER = "the modules of its project are nested too deeply to be understood together; please report this"


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A module of a project: what is in it, and what is to be done with it."""

    path: str
    """The name in messages; nothing is read from there."""
    text: str
    settings: Settings | None = None
    """What runs; None where it is only read how it uses what stands in the other modules."""
    name: str = "__main__"
    """The dotted name that stands for it in the project."""
    is_package: bool = False
    is_entry: bool = True
    """Whether it is run itself."""
    local: Mapping[str, str] = field(default_factory=dict)
    """First parts of dotted names in its imports, and the names in the project that they stand for."""

    def parsed(self, text: str) -> Module:
        """The module with another text.

        Raises:
            FileError: when that is not Python that this interpreter reads.
        """
        module = parse(self.path, text, self.name, is_package=self.is_package, local=self.local)
        if self.settings is not None and self.settings.widest is not None:
            module.widest = self.settings.widest
        return module


def rewrite(path: str, text: str, settings: Settings, *, check: bool = False, rounds: Rounds = ROUNDS) -> Rewrite:
    """Run the selected rules over a script of one file.

    Args:
        path: The script's name in messages; nothing is read from there.
        text: The script.
        settings: What runs.
        check: Find the sites only: the last round's edits are not carried out.
        rounds: The rules there are, by rounds.

    Raises:
        FileError: when the script cannot be understood, or a comment in it asks for what there is not.
    """
    (result,) = rewrite_project([Text(path, text, settings)], check=check, rounds=rounds)
    if isinstance(result, FileError):
        raise result
    return result


def rewrite_project(
    texts: Sequence[Text],
    *,
    check: bool = False,
    rounds: Rounds = ROUNDS,
    steps: list[Step] | None = None,
    ask: Ask | None = None,
) -> list[Rewrite | FileError]:
    """Run the selected rules over the modules of a project, which are understood together.

    Args:
        texts: The modules; the scripts first.
        check: Find the sites only: the last round's edits are not carried out.
        rounds: The rules there are, by rounds.
        steps: Where it is noted, in turn, what is done to each module.
        ask: Whether a change is wanted; one that is not is left without a word.

    Returns:
        For each module that has settings, in their order, what became of it, or what is wrong with it: a module that
        cannot be read holds up no other, but one that is nested too deeply those of its project.
    """
    work = _Work(list(texts), check=check, rounds=rounds, ask=ask)
    try:
        for step in work.run():
            if steps is not None:
                steps.append(step)
    except (RecursionError, MemoryError):
        # Without its callers, or what it calls, a module would be understood otherwise than it is meant.
        deep = [each for each in texts if _is_too_deep(each)]
        told = f"not understood: {deep[0].path}, of the same project, is {_TOO_DEEP}" if deep else _TOO_DEEP_TOGETHER
        asked = [each for each in texts if each.settings is not None]
        return [FileError(each.path, _TOO_DEEP if each in deep else told) for each in asked]
    return [work.result(each) for each in texts if each.settings is not None]


def carried_out(text: Text, module: Module, edits: Sequence[Edit]) -> str:
    """The whole text of a file after edits of its module.

    Raises:
        FileError: when they cannot be carried out.
    """
    return _mark(text) + _apply(module, edits)


def _mark(text: Text) -> str:
    return text.text[: len(text.text) - len(text.text.removeprefix(_MARK))]


def _is_too_deep(text: Text) -> bool:
    """Whether the module is nested too deeply, be it understood alone."""
    try:
        Whole.of((text.parsed(text.text.removeprefix(_MARK)),))
    except (RecursionError, MemoryError):
        return True
    except FileError as error:
        return error.message == _TOO_DEEP
    return False


def _sites(rule: Codemod, script: Script) -> list[Finding] | None:
    """What a rule finds in a module; None where the code is nested too deeply for it."""
    try:
        return list(rule.sites(script))
    except RecursionError:
        return None


Ask: TypeAlias = "Callable[[str, Site, Callable[[], tuple[str, str]]], bool]"
"""Whether a change is wanted: the file, the site, and what finds the text of its module now and with this change alone,
which takes long."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a round does to a module."""

    text: Text
    round: int
    module: Module
    """As it is before."""
    done: tuple[tuple[Site, tuple[Edit, ...]], ...]
    """The sites that are rewritten, each with all that its change needs."""


@dataclass(frozen=True, slots=True, eq=False)
class _Chosen:
    """What is done to a module in a round, as far as it is decided."""

    text: Text
    script: Script
    accepted: conflicts.Accepted = field(default_factory=conflicts.Accepted)
    waiting: list[Finding] = field(default_factory=list)
    """Findings that depend on what another rule does to the script."""
    done: list[tuple[Site, tuple[Edit, ...]]] = field(default_factory=list)
    """The sites that are rewritten, each with its edits."""

    def in_order(self, rules: Sequence[type[Codemod]]) -> list[Edit]:
        """The edits as the round has their rules: what waited for another rule stands where it would have stood."""
        at = {each.name(): index for index, each in enumerate(rules)}
        return [edit for _, edits in sorted(self.done, key=lambda each: at[each[0].rule]) for edit in edits]


class _Work:
    """The modules of a project on their way through the rounds."""

    def __init__(self, texts: list[Text], *, check: bool, rounds: Rounds, ask: Ask | None) -> None:
        self._ask = ask
        self._texts = texts
        self._check = check
        self._rounds = rounds
        self._current = {each: each.text.removeprefix(_MARK) for each in texts}
        self._original: dict[Text, Module] = {}
        self._sites: dict[Text, list[Site]] = {each: [] for each in texts}
        self._targets: dict[Text, Target] = {}
        self._faults: dict[Text, FileError] = {}
        self._names = frozenset(rule.name() for group in rounds for rule in group)
        self._used: dict[Text, set[tuple[int, str]]] = {each: set() for each in texts}
        """Lines of comments that leave sites alone, and the rules that have found something there."""
        self._whole: Whole | None = None
        self._shared: dict[tuple[Module, ...], Script] = {}

    def run(self) -> Iterator[Step]:
        """All rounds."""
        for text in self._texts:
            with self._fault(text):
                self._original[text] = text.parsed(self._current[text])
        modules = self._modules()
        asked = [
            number for number, group in enumerate(self._rounds) if any(self._rules(text, group) for text in modules)
        ]
        for number, group in enumerate(self._rounds):
            if self._whole is None:
                modules = self._modules()
            chosen: list[_Chosen] = []
            for text, module in modules.items():
                rules = self._rules(text, group)
                with self._fault(text):
                    suppressions = suppress.read(module, RULES) if text.settings is not None else None
                    if suppressions is None or suppressions.skip_file or not rules:
                        continue
                    chosen.append(self._choose(text, *self._find(text, modules, rules), suppressions))
            is_last = number >= max(asked, default=0)
            for each in chosen:
                with self._fault(each.text):
                    self._decide(each)
                    if each.accepted.edits and not (self._check and is_last):
                        self._current[each.text] = _apply(each.script.module, each.in_order(group))
                        self._forget()  # what is known is of the texts before
                if each.done and each.text not in self._faults:
                    yield Step(each.text, number, each.script.module, tuple(each.done))

    def _modules(self) -> dict[Text, Module]:
        """The modules as they are now."""
        modules = {}
        for text, module in self._original.items():
            modules[text] = module if self._is_original(text) else text.parsed(self._current[text])
            if modules[text] is not module:
                modules[text].earlier = original_lines(module, modules[text])
                modules[text].earlier_width = width(module)
        return modules

    def _unreadable(self) -> Mapping[str, str]:
        """Why modules of the project, by their names, are not Python."""
        return {
            text.name: f"{text.path} cannot be imported: {self._faults[text].message}"
            for text in self._texts
            if text not in self._original and text in self._faults
        }

    def _is_original(self, text: Text) -> bool:
        return self._current[text] == text.text.removeprefix(_MARK)

    @staticmethod
    def _rules(text: Text, group: Sequence[type[Codemod]]) -> list[type[Codemod]]:
        settings = text.settings
        return [] if settings is None else [rule for rule in group if rule.name() in settings.rules]

    def _known(self, text: Text, modules: Mapping[Text, Module]) -> Script:
        """The facts, seen from one module."""
        self._whole = self._whole or Whole.of(tuple(modules.values()), self._unreadable())
        return _script(text, modules, self._whole, self._shared)

    def _forget(self) -> None:
        self._whole, self._shared = None, {}

    def _find(
        self, text: Text, modules: Mapping[Text, Module], rules: Sequence[type[Codemod]]
    ) -> tuple[Script, list[Finding]]:
        """What the rules find in a module; one for which its code is nested too deeply says so, and leaves it."""
        settings = text.settings
        assert settings is not None  # noqa: S101 - for mypy: only such modules get here
        found: list[Finding] = []
        script = self._known(text, modules)
        if not script.module.tree.body:
            return script, found  # nothing that a reason could point at, either
        for rule in (each(settings.choices) for each in rules):
            sites = _sites(rule, script)
            found += [rule.left(script.module, script.module.tree.body[0], _NOT_FOLLOWED)] if sites is None else sites
            if sites is None:
                self._forget()  # what was broken off may be known by half
                script = self._known(text, modules)
        return script, found

    def _choose(self, text: Text, script: Script, findings: Sequence[Finding], suppressions: Suppressions) -> _Chosen:
        """Notes the sites of a module, but those that depend on the sites of others, and chooses what is done there."""
        settings = text.settings
        assert settings is not None  # noqa: S101 - as above
        self._targets[text] = script.target
        chosen = _Chosen(text, script)
        rewritten: set[tuple[str, ast.AST]] = set()
        newest: Version = (0, 0)
        for finding in findings if suppressions.ignores else ():
            self._use(text, suppressions, finding)
        for finding in sorted(findings, key=lambda each: each.until is not None):
            if finding.until is not None and newest >= finding.until:
                continue  # what is written beside it runs on no older torch
            has_something_to_say = finding.rewrites or finding.advises
            reason = objection(finding, settings, script.target, suppressions) if has_something_to_say else None
            if reason is None and finding.after and (finding.after, finding.node) not in rewritten:
                reason = Reason("left-with-another", f"{finding.after} leaves it")
            if reason is None and finding.waits and has_something_to_say:
                chosen.waiting.append(finding)
                continue
            if reason is None and not self._is_wanted(chosen, finding):
                continue
            if reason is None:
                reason = chosen.accepted.add(finding.edits)
            if reason is None and finding.rewrites:
                rewritten.add((finding.rule, finding.node))
                newest = max(newest, finding.since)
            self._note(chosen, finding if reason is None else left(finding, reason))
        return chosen

    def _is_wanted(self, chosen: _Chosen, finding: Finding) -> bool:
        """Whether the user wants a change, where he is asked."""
        if self._ask is None or not finding.rewrites:
            return True
        module = finding.module
        site = site_of(finding, self._original[chosen.text])
        return self._ask(module.path, site, lambda: (module.text, _apply(module, finding.edits)))

    def _use(self, text: Text, suppressions: Suppressions, finding: Finding) -> None:
        """Notes that a comment has something to leave alone."""
        module = finding.module
        ignore = suppressions.ignore(module, finding.node, finding.rule)
        if ignore is None:
            return
        lines = {ignore.line}
        if module is not self._original[text]:
            # Which of several that say the same it was is not known where lines have moved.
            there = suppress.read(self._original[text], RULES).ignores
            lines = {each.line for each in there if (each.rules, each.reason) == (ignore.rules, ignore.reason)}
        self._used[text] |= {(line, finding.rule) for line in lines}

    def _unused(self, text: Text) -> Iterator[tuple[int, str]]:
        """The comments that have nothing to leave alone: not those of rules that did not run."""
        found = suppress.read(self._original[text], RULES)
        ran = frozenset() if text.settings is None or found.skip_file else text.settings.rules & self._names
        for each in found.ignores:
            rules = each.rules or GROUPS["DEFAULT"]
            used = {rule for line, rule in self._used[text] if line == each.line}
            if rules <= ran and not used:
                yield each.line, str(each)

    def _note(self, chosen: _Chosen, finding: Finding) -> None:
        if finding.advises and not self._check:
            return  # there is nothing to do about it here
        settings = chosen.text.settings
        may_fail = settings is not None and settings.may_fail(finding.promise)
        site = site_of(dataclasses.replace(finding, fails=finding.fails and may_fail), self._original[chosen.text])
        self._sites[chosen.text].append(site)
        if finding.rewrites:
            chosen.done.append((site, finding.edits))

    def _decide(self, chosen: _Chosen) -> None:
        """Notes the sites that depend on what another rule does to the script, wherever that is."""
        modules = {each.path for each in chosen.script.modules}
        for finding in chosen.waiting:
            sites = [site for text, some in self._sites.items() if text.path in modules for site in some]
            reason = why_not_beside(finding, sites)
            if reason is not None and finding.advises:
                continue
            if reason is None and not self._is_wanted(chosen, finding):
                continue
            reason = reason or chosen.accepted.add(finding.edits)
            self._note(chosen, finding if reason is None else left(finding, reason))

    @contextlib.contextmanager
    def _fault(self, text: Text) -> Iterator[None]:
        """What is wrong with one module holds up no other."""
        try:
            yield
        except FileError as error:
            self._faults[text] = error

    def result(self, text: Text) -> Rewrite | FileError:
        """What became of a module."""
        if text in self._faults:
            return self._faults[text]
        sites = sorted(self._sites[text], key=lambda site: (site.line, site.column))
        notes = tuple(notes_of(self._targets.get(text, UNKNOWN), sites))
        after = _mark(text) + self._current[text]
        return Rewrite(text.path, text.text, after, tuple(sites), notes, unused=tuple(self._unused(text)))


def describe(texts: Sequence[Text], asked: Text) -> tuple[tuple[int, Said], ...]:
    """What is understood of a module: lines, from 1, and facts.

    Args:
        texts: The modules of its project, itself too.
        asked: The one that is described.

    Raises:
        FileError: when it cannot be understood.
    """
    modules = {asked: asked.parsed(asked.text.removeprefix(_MARK))}
    for text in texts:
        with contextlib.suppress(FileError):  # what is wrong with another is nothing to say here
            modules.setdefault(text, text.parsed(text.text.removeprefix(_MARK)))
    with _nesting(asked.path):
        whole = Whole.of(tuple(modules[text] for text in texts if text in modules))
        return tuple(facts_by_line(_script(asked, modules, whole, {})))


def parse(
    path: str,
    text: str,
    name: str = "__main__",
    *,
    is_package: bool = False,
    local: Mapping[str, str] = MappingProxyType({}),
) -> Module:
    """The module with this text.

    Args:
        path: Its name in messages.
        text: What is in it.
        name: The dotted name that stands for it in its project.
        is_package: Whether it is the ``__init__`` of the package of that name.
        local: See ``Module``.

    Raises:
        NotPythonError: when it is not Python that this interpreter reads.
        FileError: when it is nested too deeply.
    """
    with _nesting(path):
        try:
            return Module(path, text, name, is_package, local)
        except SyntaxError as error:
            said = failures.why_unreadable(error.text or "") or error.msg
            raise NotPythonError(path, f"not Python 3: {said}", error.lineno or 1) from error
        except ValueError as error:
            raise NotPythonError(path, f"not Python: {error}", 1) from error


@contextlib.contextmanager
def _nesting(path: str) -> Iterator[None]:
    """Code that is nested too deeply is the script's fault, at whatever stage it shows."""
    try:
        yield
    except (RecursionError, MemoryError) as error:
        raise FileError(path, _TOO_DEEP) from error


def _script(
    text: Text, modules: Mapping[Text, Module], whole: Whole, shared: dict[tuple[Module, ...], Script]
) -> Script:
    """The facts, seen from one module: those that run in one process with it matter to it."""
    entries = [module for each, module in modules.items() if each.is_entry]
    together = whole.flow.together(modules[text], entries)
    target = _target(text, [each for each, module in modules.items() if each.is_entry and module in together])
    known = shared.get(together)
    if known is None:
        known = Script(modules[text], together, tuple(each for each in together if each in entries), target, whole)
    # The copy knows what the facts were asked so far.
    shared[together] = known.seen_from(modules[text], target)
    return shared[together]


def _apply(module: Module, edits: Sequence[Edit]) -> str:
    """The module's text after the edits."""
    from codemods.editing.apply import NotEditableError, apply

    try:
        text = apply(module, edits)
    except NotEditableError as error:
        # LibCST shows the code in question, on lines of its own.
        raise FileError(module.path, " ".join(str(error).removeprefix(f"{module.path}:").split())) from error
    # What follows are faults of torchfast; the user's file is worth more than the report of them.
    try:
        cell_lines = Module(module.path, text).cell_lines
    except SyntaxError as error:
        message = f"the rewrite would not be Python ({error.msg}): left as it is; please report this"
        raise FileError(module.path, message) from error
    if cell_lines != module.cell_lines:
        raise FileError(module.path, "the rewrite would mix the cells: left as it is; please report this")
    return text


def _target(text: Text, entries: Sequence[Text]) -> Target:
    """The torch that a module is run on: what lies beside the scripts that run it says so where nothing nearer does."""
    own = text.settings.target if text.settings is not None else UNKNOWN
    others = [each.settings.target for each in entries if each.settings is not None]
    return weakest(others) if own.is_silent and others else own
