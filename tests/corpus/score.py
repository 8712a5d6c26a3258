"""Holds what the tool does against labels that people gave scripts by hand.

``python tests/corpus/score.py LABELS DIRECTORY``; ``README.md`` says what a label looks like. The tool is called on the
script and the files that its labels name; nothing is written.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import census
from run import PROJECT, version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NEAR = 2
"""Lines between a label and a finding that are still about the same."""
VERDICTS = ("rewrite", "must_not", "optional")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = (ast.For, ast.AsyncFor, ast.While, *_FUNCTIONS)
_LOADERS = frozenset({"DataLoader"})
_CALLED = {
    "as-tensor": frozenset({"tensor", "Tensor", "FloatTensor"}),
    "device-ctor": frozenset(
        {
            "zeros",
            "ones",
            "full",
            "empty",
            "eye",
            "arange",
            "linspace",
            "rand",
            "randn",
            "randint",
            "randperm",
            "tensor",
        }
    ),
    "h2d-non-blocking": frozenset({"to", "cuda"}),
    "loader-batched-index": _LOADERS,
    "loader-persistent": _LOADERS,
    "loader-pin": _LOADERS,
    "loader-workers": _LOADERS,
}
"""Of rules that rewrite calls, the last names of what is called."""
LOOPS_AND_MODELS = frozenset(
    {
        "amp-migrate",
        "as-tensor",
        "bce-logits",
        "channels-last",
        "const-hoist",
        "ddp-tuning",
        "debug-off",
        "defer-sync",
        "device-ctor",
        "foreach-manual-update",
        "grad-checkpoint",
        "jit-to-compile",
        "loss-fuse",
        "loss-history-detach",
        "no-grad-eval",
        "retain-graph",
        "sdpa",
        "sync-off",
        "vocab-pad",
    }
)
"""Rules of which README.md gives figures of their own."""


@dataclass(frozen=True, slots=True)
class Label:
    """What an expert says of one site."""

    path: str
    line: int
    """From 1; 0 stands for anywhere in the file."""
    rule: str
    verdict: Literal["rewrite", "must_not", "optional"]
    why: str
    cell: int | None = None

    def __post_init__(self) -> None:
        """Check the verdict, which nothing else would do.

        Raises:
            ValueError: There is no such verdict.
        """
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.path}:{self.line}: {self.verdict!r} is none of {', '.join(VERDICTS)}")


@dataclass(frozen=True, slots=True)
class Script:
    """One script with its labels."""

    repository: str
    commit: str
    script: str
    labels: tuple[Label, ...]
    fails: str = ""
    """Why it does not run as published; empty where it does."""

    @classmethod
    def of(cls, values: dict[str, Any]) -> Script:
        """Reads one as it stands in JSON.

        Raises:
            KeyError: Something is missing.
            ValueError: A verdict is none.
        """
        names = ("path", "line", "rule", "verdict", "why", "cell")
        labels = tuple(Label(**{name: each[name] for name in names if name in each}) for each in values["sites"])
        fails = values.get("fails") or ""
        return cls(values["repository"], values["commit"], values["script"], labels, str(fails))


@dataclass(frozen=True, slots=True)
class Answer:
    """One label, and what the tool did there."""

    label: Label
    done: Literal["rewritten", "left", "silent"]
    reason: str = ""
    code: str = ""
    """The cause for which it is left."""


@dataclass(slots=True)
class Outcome:
    """What became of one script."""

    repository: str
    script: str
    answers: list[Answer] = field(default_factory=list)
    fails: str = ""
    """Why the script does not run as published, by the labels."""
    unlabelled: list[str] = field(default_factory=list)
    """Rewritten sites that no label speaks of: to be looked at by hand."""
    problem: str = ""
    """Why the tool could not be run."""


# --- one script -----------------------------------------------------------------------------------------------------


def judge(script: Script, root: Path, findings: Sequence[dict[str, Any]]) -> Outcome:
    """What the tool did at each label.

    Args:
        script: With its labels.
        root: The checkout.
        findings: As the tool prints them, with paths relative to the checkout.
    """
    outcome = Outcome(script.repository, script.script, fails=script.fails)
    programs = {path: census.Program.read(root / path, path) for path in _paths(script)}
    exact = {label: [each for each in findings if _is_at(label, each, programs, 0)] for label in script.labels}
    _leave_to_namesakes(exact, programs)
    _leave_to_own_labels(exact, programs)
    taken = {id(each) for found in exact.values() for each in found}
    used = set(taken)
    for label in script.labels:
        found = exact[label] or [
            each
            for each in findings
            if id(each) not in taken and _is_at(label, each, programs, NEAR) and not _is_apart(label, each, programs)
        ]
        found = found or _changing(label, findings, programs) or _about_all(label, findings)
        used |= {id(each) for each in found}
        rewritten = any(each["status"] == "rewrites" for each in found)
        reason, code = ("", "") if rewritten or not found else (found[0]["message"], found[0]["code"])
        outcome.answers.append(Answer(label, "rewritten" if rewritten else "left" if found else "silent", reason, code))
    outcome.unlabelled = [
        f"{each['path']}:{each['line']}: {each['rule']}: {each['message']}"
        for each in findings
        if each["status"] == "rewrites" and id(each) not in used
    ]
    return outcome


def _leave_to_namesakes(found: dict[Label, list[dict[str, Any]]], programs: dict[str, census.Program | None]) -> None:
    """Takes from a model's label what stands where another model of its name is made, and is labelled, too."""
    made = {}
    for label in found:
        program = programs.get(label.path)
        if label.rule == "compile" and label.line and program is not None:
            line = program.line(label.cell, label.line)
            made[label] = (label.path, _assigned(program, line), _statement(program, line), program)
    for label, (path, name, own, program) in made.items():
        others = [other for where, named, other, _ in made.values() if (where, named) == (path, name) and other != own]
        found[label] = [
            each
            for each in found[label]
            if not any(first <= program.line(each.get("cell"), each["line"]) <= last for first, last in others)
        ]


def _leave_to_own_labels(found: dict[Label, list[dict[str, Any]]], programs: dict[str, census.Program | None]) -> None:
    """Takes from what only stands in one loop with a finding of no gradients that which is labelled by itself.

    A loop may evaluate in several places, each with a label. What stands at its head, or that of a function, is about
    all of them.
    """
    labels = [each for each in found if each.rule == "no-grad-eval" and each.line]
    own = {each: _own_lines(each, programs) for each in labels}
    for label in labels:
        others = [own[each] for each in labels if each.path == label.path and own[each] != own[label]]
        mine = [own[label], _heads(label, programs)]
        found[label] = [
            each
            for each in found[label]
            if any(_touches(each, lines, programs) for lines in mine)
            or not any(_touches(each, lines, programs) for lines in others)
        ]
    for label in labels:
        if label.verdict == "must_not":
            inside = [found[each] for each in labels if _is_in_function_of(label, each, programs)]
            found[label] = [
                each
                for each in found[label]
                if _touches(each, own[label], programs) or not any(each in some for some in inside)
            ]


def _is_in_function_of(head: Label, label: Label, programs: dict[str, census.Program | None]) -> bool:
    """Whether a label stands in the body of the function at whose head another one stands.

    A function that must not be decorated may have a part that can do without gradients.
    """
    program = programs.get(head.path)
    if program is None or label.path != head.path:
        return False
    at, line = (program.line(each.cell, each.line) for each in (head, label))
    functions = [each for each in ast.walk(program.tree) if isinstance(each, _FUNCTIONS)]
    around = next((each for each in functions if census.head(each)[0] <= at <= census.head(each)[1]), None)
    return around is not None and census.head(around)[1] < line <= (around.end_lineno or 0)


def _is_apart(label: Label, finding: dict[str, Any], programs: dict[str, census.Program | None]) -> bool:
    """Whether a finding is about a call near what must not be rewritten, which is a call of that kind itself."""
    program = programs.get(label.path)
    if label.verdict != "must_not" or program is None:
        return False
    labelled, found = (
        _statement(program, program.line(cell, line))
        for cell, line in ((label.cell, label.line), (finding.get("cell"), finding["line"]))
    )
    return all(_calls_any(program, lines, _CALLED.get(label.rule, frozenset())) for lines in (labelled, found))


def _calls_any(program: census.Program, lines: tuple[int, int], names: frozenset[str]) -> bool:
    """Whether something of one of these names is called within the lines."""
    return any(
        lines[0] <= each.lineno <= lines[1] and ast.unparse(each.func).rpartition(".")[2] in names
        for each in program.calls
    )


def _own_lines(label: Label, programs: dict[str, census.Program | None]) -> tuple[int, int]:
    """First and last line of the statement that is labelled."""
    program = programs.get(label.path)
    return (label.line, label.line) if program is None else _statement(program, program.line(label.cell, label.line))


def _heads(label: Label, programs: dict[str, census.Program | None]) -> tuple[int, int]:
    """The line in which the innermost loop or function around a label starts, twice."""
    program = programs.get(label.path)
    first = label.line if program is None else _block(program, program.line(label.cell, label.line))[0]
    return first, first


def _touches(finding: dict[str, Any], lines: tuple[int, int], programs: dict[str, census.Program | None]) -> bool:
    """Whether a finding has one of the lines, of which the first and the last are given."""
    program = programs.get(finding["path"])
    cell = finding.get("cell")
    first, last = (
        (finding["line"], finding["end_line"])
        if program is None
        else (program.line(cell, finding["line"]), program.line(cell, finding["end_line"]))
    )
    return first <= lines[1] and lines[0] <= max(first, last)


def _changing(
    label: Label, findings: Sequence[dict[str, Any]], programs: dict[str, census.Program | None]
) -> list[dict[str, Any]]:
    """What changes the labelled statement though it is found elsewhere: the calls of a name whose import is changed."""
    program = programs.get(label.path)
    if program is None or not label.line:
        return []
    start, end = _statement(program, program.line(label.cell, label.line))
    return [
        each
        for each in findings
        if each["rule"] == label.rule
        and each["status"] == "rewrites"
        and any(
            edit["path"] == label.path
            and program.line(edit.get("cell"), edit["line"]) <= end
            and start <= program.line(edit.get("cell"), edit["end_line"])
            for edit in each.get("edits", ())
        )
    ]


def _about_all(label: Label, findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is said once of the whole file: that it fails, or what stands against mixed precision in all of it."""
    here = [each for each in findings if each["path"] == label.path]
    fails = [each for each in here if each["code"] == census.FAILS]
    of_rule = [each for each in here if each["rule"] == label.rule]
    said = label.rule == "amp" and len(of_rule) == 1 and of_rule[0]["status"] == "left"
    return fails or (of_rule if said else [])


def _paths(script: Script) -> list[str]:
    """The script and the files that its labels name."""
    return list(dict.fromkeys([script.script, *(each.path for each in script.labels)]))


def _is_at(label: Label, finding: dict[str, Any], programs: dict[str, census.Program | None], near: int) -> bool:
    """Whether a finding is about what is labelled.

    Args:
        label: The label.
        finding: The finding.
        programs: The files, by path; None for one that cannot be read.
        near: Lines that a finding may be off; with 0 it has to stand in the labelled statement.
    """
    if (finding["rule"], finding["path"]) != (label.rule, label.path):
        return False
    program = programs.get(label.path)
    if label.line == 0:
        return True
    if program is None:
        return bool(finding.get("cell") == label.cell and abs(finding["line"] - label.line) <= near)
    line = program.line(label.cell, label.line)
    first = program.line(finding.get("cell"), finding["line"])
    last = max(first, program.line(finding.get("cell"), finding["end_line"]))
    if label.rule in {"amp", "no-grad-eval"}:
        start, end = _block(program, line)
    else:
        start, end = _statement(program, line)
        named = label.rule == "compile" and _assigned(program, line)
        if named and re.search(rf"(?<![\w.]){re.escape(named)}(?![\w.])", finding["message"]):
            return True
    if first <= end and start <= last:
        return True
    return bool(near) and finding.get("cell") == label.cell and abs(first - line) <= near


def _statement(program: census.Program, line: int) -> tuple[int, int]:
    """First and last line of the innermost statement that a line belongs to, without its body."""
    heads = [census.head(each) for each in ast.walk(program.tree) if isinstance(each, ast.stmt)]
    around = [each for each in heads if each[0] <= line <= each[1]]
    return min(around, key=lambda each: each[1] - each[0], default=(line, line))


def _block(program: census.Program, line: int) -> tuple[int, int]:
    """First and last line of the innermost loop or function around a line; else of the statement."""
    blocks = [census.extent(each) for each in ast.walk(program.tree) if isinstance(each, _BLOCKS)]
    around = [each for each in blocks if each[0] <= line <= each[1]]
    return min(around, key=lambda each: each[1] - each[0], default=_statement(program, line))


def _assigned(program: census.Program, line: int) -> str:
    """The name that a line gives something; empty where it gives none."""
    found = (
        ast.unparse(each.targets[0])
        for each in ast.walk(program.tree)
        if isinstance(each, ast.Assign) and each.lineno <= line <= (each.end_lineno or each.lineno)
    )
    return next(found, "")


def ask(script: Script, root: Path, timeout: float, target: str | None = None) -> Outcome:
    """Calls the tool on one script, and the files that its labels name, as users would to see what it would do.

    Args:
        script: With its labels.
        root: The checkout.
        timeout: Seconds.
        target: The torch that the labels were written for; None for what the repository asks for.
    """
    paths = [path for path in _paths(script) if (root / path).is_file()]
    if script.script not in paths:
        return Outcome(
            script.repository, script.script, fails=script.fails, problem="there is no such script in the checkout"
        )
    command = [sys.executable, "-m", "autotune_rewrite", "check", "--format", "json", *paths]
    if target:
        command += ["--target-torch", target]
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return Outcome(
            script.repository, script.script, fails=script.fails, problem=f"did not end within {timeout:g} seconds"
        )
    except ValueError:
        return Outcome(script.repository, script.script, fails=script.fails, problem=f"no JSON: {done.stderr[-500:]}")
    outcome = judge(script, root, report["findings"])
    outcome.problem = "; ".join(f"{each['path']}: {each['message']}" for each in report["errors"])
    return outcome


# --- figures --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Score:
    """Of one rule, or of all."""

    wanted: int = 0
    rewritten: int = 0
    """Of those wanted."""
    silent: int = 0
    """Of those wanted: neither rewritten nor declined."""
    forbidden: int = 0
    violations: int = 0
    optional: int = 0
    taken: int = 0
    """Optional ones that were rewritten."""

    @property
    def recall(self) -> float:
        """Of the sites that are to be rewritten; 1 where there are none."""
        return self.rewritten / self.wanted if self.wanted else 1.0

    def add(self, answer: Answer) -> None:
        """Count one more."""
        is_rewritten = answer.done == "rewritten"
        if answer.label.verdict == "rewrite":
            self.wanted += 1
            self.rewritten += is_rewritten
            self.silent += answer.done == "silent"
        elif answer.label.verdict == "must_not":
            self.forbidden += 1
            self.violations += is_rewritten
        else:
            self.optional += 1
            self.taken += is_rewritten


def scores(outcomes: Iterable[Outcome], rules: frozenset[str] | None = None) -> dict[str, Score]:
    """By rule, and ``all`` at the end; of these rules, where they are given."""
    found: dict[str, Score] = collections.defaultdict(Score)
    total = Score()
    for outcome in outcomes:
        for answer in outcome.answers:
            if rules is None or answer.label.rule in rules:
                found[answer.label.rule].add(answer)
                total.add(answer)
    return {**dict(sorted(found.items())), "all": total}


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Recall and violations by rule; then what was missed and why, and what was violated."""
    yield f"{'rule':<18}{'rewritten':>12}{'recall':>8}{'silent':>8}{'violations':>14}{'optional':>12}"
    running = [each for each in outcomes if not each.fails]
    parts = {
        **scores(outcomes),
        "all that run": scores(running)["all"],
        "loops and models": scores(outcomes, LOOPS_AND_MODELS)["all"],
        "  that run": scores(running, LOOPS_AND_MODELS)["all"],
    }
    for rule, each in parts.items():
        rewritten, violations = f"{each.rewritten}/{each.wanted}", f"{each.violations}/{each.forbidden}"
        taken = f"{each.taken}/{each.optional}"
        yield f"{rule:<18}{rewritten:>12}{each.recall:>8.1%}{each.silent:>8}{violations:>14}{taken:>12}"
    yield from _listed(
        "Violations", outcomes, lambda each: each.label.verdict == "must_not" and each.done == "rewritten"
    )
    yield from _listed("Missed", outcomes, lambda each: each.label.verdict == "rewrite" and each.done != "rewritten")
    missed = collections.Counter(
        (answer.label.rule, answer.code or "silent")
        for outcome in outcomes
        for answer in outcome.answers
        if answer.label.verdict == "rewrite" and answer.done != "rewritten"
    )
    yield "\nCauses given for those missed"
    yield from (f"{count:>6}  {rule}: {code}" for (rule, code), count in missed.most_common())
    yield "\nRewritten where there is no label"
    yield from (f"    {each.repository}: {line}" for each in outcomes for line in each.unlabelled)
    yield "\nNot run, or only in part"
    yield from (f"    {each.repository}: {each.script}: {each.problem}" for each in outcomes if each.problem)


def _listed(title: str, outcomes: Iterable[Outcome], wanted: Any) -> Iterator[str]:
    yield f"\n{title}"
    for outcome in outcomes:
        for answer in filter(wanted, outcome.answers):
            label = answer.label
            where = f"{outcome.repository}: {label.path}:{label.line}: {label.rule}"
            yield f"    {where}: {answer.reason or answer.done} (label: {label.why})"


# --- the command ----------------------------------------------------------------------------------------------------


def load(directory: Path) -> list[Script]:
    """The labels in a directory: each JSON file holds one script, or a list of them.

    Raises:
        ValueError: A file holds something else.
    """
    return [script for file in sorted(directory.glob("*.json")) for script in _scripts(file)]


def _scripts(file: Path) -> list[Script]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return [Script.of(each) for each in (values if isinstance(values, list) else [values])]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file}: {error!r}") from error


def main(words: Sequence[str] | None = None) -> int:
    """Works through the labels.

    Returns:
        The exit status: 1 where something was rewritten that must not be.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("labels", type=Path, help="a directory of JSON files")
    parser.add_argument("directory", type=Path, help="checked-out repositories, in folders named owner+name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every answer")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one script")
    parser.add_argument("--target-torch", metavar="VERSION", help="the torch that the labels were written for")
    arguments = parser.parse_args(words)
    outcomes = []
    for script in load(arguments.labels):
        root = arguments.directory / script.repository.replace("/", "+", 1)
        outcomes.append(ask(script, root, arguments.timeout, arguments.target_torch))
        print(f"{script.repository}: {script.script}", file=sys.stderr, flush=True)
    print("\n".join(summary(outcomes)))
    if arguments.json:
        answers = {"tool": version(), "outcomes": [asdict(each) for each in outcomes]}
        arguments.json.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
    return int(scores(outcomes)["all"].violations > 0)


if __name__ == "__main__":
    sys.exit(main())
