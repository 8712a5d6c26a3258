"""Runs the tool over a directory of checked-out repositories and counts what it did, and what broke.

``python tests/corpus/run.py DIRECTORY --json RESULTS``; ``README.md`` says what the figures mean. Each repository is
copied, rewritten as users rewrite theirs (``rewrite DIR --apply``), and checked again, which must find nothing more.
What the tool says is held against a census of its own, which knows nothing of what the tool understands.
"""

from __future__ import annotations

import argparse
import ast
import collections
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import census

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

PROJECT = Path(__file__).parents[2]
APART = ("pyg-team/pytorch_geometric", "pytorch/ignite", "huggingface/accelerate")
"""Libraries of graph networks and frameworks: their scripts are all alike, and would outweigh the others."""
COUNTED = 8
"""Scripts of one repository that count in the averages."""
LARGEST_FILE = 5_000_000
"""Bytes; what is larger and no program is left out of the copy."""
_FAULTS = re.compile(r"please report|not processed|nested too deeply")
"""What the tool says of a file when the fault is its own."""


_SOURCE = re.compile(rb'"source":\s*(?:\[(?:\s*"(?:[^"\\]|\\.)*",?)*\s*\]|"(?:[^"\\]|\\.)*")')
"""The source of a notebook's cell."""


@dataclass(frozen=True, slots=True)
class Broken:
    """Something that must not happen."""

    kind: str
    path: str
    detail: str


@dataclass(frozen=True, slots=True)
class Sight:
    """One site of one rule: what the tool said of it, or that it said nothing."""

    rule: str
    path: str
    line: int
    column: int
    cell: int | None
    state: str
    """``rewritten``, ``left`` or ``silent``."""
    reason: str = ""
    code: str = ""
    """The cause for which it is left."""

    @property
    def key(self) -> tuple[str, str, int, int, int]:
        """The place, for comparisons between versions; silent sites have no column."""
        return self.path, self.rule, -1 if self.cell is None else self.cell, self.line, self.column


@dataclass(slots=True)
class Repository:
    """What became of one repository."""

    name: str
    tool: str
    """The state of the project that was run."""
    files: int = 0
    """Those that import torch and can be read."""
    changed: int = 0
    seconds: float = 0.0
    """Of the rewrite."""
    counted: list[str] = field(default_factory=list)
    """The scripts that count in the averages."""
    unread: list[str] = field(default_factory=list)
    """Files that are no Python of today, as the tool says too."""
    unseen: list[str] = field(default_factory=list)
    """Files that the tool reads, and the census cannot: nothing is known of what is silent there."""
    sights: list[Sight] = field(default_factory=list)
    accounted: dict[str, dict[str, int]] = field(default_factory=dict)
    """How many sites of the census a finding accounts for, by rule and path."""
    settled: dict[str, int] = field(default_factory=dict)
    """Where there is nothing to do, by rule and why."""
    broken: list[Broken] = field(default_factory=list)

    @property
    def is_apart(self) -> bool:
        """Whether it is left out of the averages."""
        return self.name in APART

    @classmethod
    def of(cls, values: dict[str, Any]) -> Repository:
        """What ``asdict`` made of one."""
        sights = [Sight(**each) for each in values.pop("sights")]
        broken = [Broken(**each) for each in values.pop("broken")]
        return cls(**values, sights=sights, broken=broken)


# --- one repository -------------------------------------------------------------------------------------------------


def study(root: Path, scratch: Path, timeout: float, answers: Path | None = None) -> Repository:
    """Rewrites a copy of a repository and looks at everything.

    Args:
        root: The checkout.
        scratch: An empty folder for the copy.
        timeout: Seconds for one call of the tool.
        answers: A folder for what the rewrite printed, with the diffs.
    """
    name = root.name.replace("+", "/", 1)
    repository = Repository(name, version())
    copy = scratch / root.name
    shutil.copytree(root, copy, ignore=_not_copied, symlinks=True)
    before = _contents(copy)
    programs = dict(_programs(copy))
    started = time.perf_counter()
    report = _call(["rewrite", "--apply"], copy, timeout, repository, codes=(0, 2))
    repository.seconds = round(time.perf_counter() - started, 1)
    after = _contents(copy)
    if report is not None:
        if answers is not None:
            answers.mkdir(parents=True, exist_ok=True)
            (answers / f"{root.name}.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
        refusals = list(_refusals(report["errors"], before))
        repository.unread = [each for each in refusals if isinstance(each, str)]
        repository.broken += [each for each in refusals if isinstance(each, Broken)]
        repository.broken += _faults(report, before, after)
        repository.changed = len(_changed(before, after))
        refused = {each["path"] for each in report["errors"]}
        repository.unseen = [path for path in census.files(copy) if path not in programs and path not in refused]
        old_torch = {path for path in programs if census.pins_old_torch(root, path)}
        take_in(report["findings"], programs, repository, old_torch)
        again = _call(["check"], copy, timeout, repository, codes=(0, 1, 2))
        for finding in again["findings"] if again is not None else ():
            if finding["status"] == "rewrites":
                what = f"line {finding['line']}: {finding['rule']}: {finding['message']}"
                repository.broken.append(Broken("a second pass changes something", finding["path"], what))
    return repository


def take_in(
    findings: Sequence[dict[str, Any]],
    programs: dict[str, census.Program],
    repository: Repository,
    old_torch: Collection[str] = (),
) -> None:
    """Sorts what was found, and what was not.

    Args:
        findings: As the tool prints them, with paths relative to the repository.
        programs: Its programs before the rewrite, by path.
        repository: Where the answers go.
        old_torch: The paths for which requirements pin a torch before 2.
    """
    by_place: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for each in findings:
        by_place[each["path"], each["rule"]].append(each)
        state = "rewritten" if each["status"] == "rewrites" else "left"
        reason = "" if state == "rewritten" else each["message"]
        place = (each["line"], each["column"], each.get("cell"))
        repository.sights.append(Sight(each["rule"], each["path"], *place, state, reason, each["code"]))
    failing = {each["path"] for each in findings if each["code"] == census.FAILS}
    settled: collections.Counter[str] = collections.Counter()
    accounted: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    scripts = {path for path, _ in by_place}
    for path, program in programs.items():
        sites = census.sites(program, old_torch=path in old_torch)
        scripts |= {path} if sites else set()
        for site in sites:
            near = by_place[path, site.rule]
            said = path in failing or any(census.accounts(program, site, each, len(near) == 1) for each in near)
            if said or _is_said_where_made(site, programs, findings):
                accounted[site.rule][path] += 1
            elif site.settled:
                settled[f"{site.rule}: {site.settled}"] += 1
            else:
                repository.sights.append(Sight(site.rule, path, site.line, 0, site.cell, "silent"))
    repository.settled = dict(settled)
    repository.accounted = {rule: dict(counts) for rule, counts in accounted.items()}
    repository.files = sum(each.imports_torch for each in programs.values())
    repository.counted = choose({path: programs[path] for path in scripts if path in programs})


def _is_said_where_made(
    site: census.Site, programs: dict[str, census.Program], findings: Sequence[dict[str, Any]]
) -> bool:
    """Whether a finding stands in the function of another file that makes what the site does."""
    others = (each for each in findings if each["rule"] == site.rule and each["path"] in programs)
    return any(census.accounts_where_made(programs[each["path"]], site, each) for each in others)


def choose(programs: dict[str, census.Program]) -> list[str]:
    """The scripts that count: those that train first, by a hash of their paths; the same text once, no unit tests."""

    def order(path: str) -> tuple[bool, str]:
        return ".backward(" not in programs[path].text, hashlib.sha256(path.encode()).hexdigest()

    chosen: dict[str, str] = {}
    for path in sorted((path for path in programs if not programs[path].is_unit_test), key=order):
        chosen.setdefault(programs[path].text, path)
    return list(chosen.values())[:COUNTED]


def _call(
    words: Sequence[str], copy: Path, timeout: float, repository: Repository, codes: Sequence[int]
) -> dict[str, Any] | None:
    """Calls the tool as users do; what it printed with paths relative to the repository, or None where it broke."""

    def broken(kind: str, detail: str = "") -> None:
        repository.broken.append(Broken(f"{words[0]}: {kind}", "", detail))

    command = [sys.executable, "-m", "autotune_rewrite", *words, "--format", "json", copy.name]
    try:
        done = subprocess.run(
            command,
            cwd=copy.parent,
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        broken(f"did not end within {timeout:g} seconds")
        return None
    if "Traceback" in done.stderr:
        broken("traceback", done.stderr[-3000:])
        return None
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        broken("no JSON", f"exit code {done.returncode}: {done.stderr[-1000:]}")
        return None
    if done.returncode not in codes or (done.returncode == 2) != bool(report["errors"]):
        broken("exit code", f"{done.returncode} with {len(report['errors'])} errors")
    for each in (item for name in ("findings", "errors", "diffs") for item in report[name]):
        each["path"] = each["path"].removeprefix(f"{copy.name}/")
        for edit in each.get("edits", ()):
            edit["path"] = edit["path"].removeprefix(f"{copy.name}/")
    return report


def _refusals(errors: Iterable[dict[str, Any]], before: dict[str, bytes]) -> Iterator[Broken | str]:
    """What is wrong with files that the tool refuses, or with the tool; a line of text where the file is no Python."""
    for error in errors:
        path, message = error["path"], error["message"]
        if _FAULTS.search(message):
            yield Broken("a fault of the tool's own", path, message)
        elif path.endswith(".py") and compiles(before.get(path, b"")) is None:
            yield Broken("refused, though Python reads it", path, message)
        else:
            yield f"{path}: {message}"


def _faults(report: dict[str, Any], before: dict[str, bytes], after: dict[str, bytes]) -> Iterator[Broken]:
    """What is wrong with files that changed."""
    told = {each["path"] for each in report["diffs"]}
    edits = [edit for finding in report["findings"] for edit in finding["edits"]]
    for path in _changed(before, after):
        if path not in told or path not in before or path not in after:
            yield Broken("changed without a word", path, "")
        elif path.endswith(".ipynb"):
            problem = notebook_problem(before[path], after[path])
            if problem:
                yield Broken("bytes changed outside the edits", path, problem)
        else:
            fault = compiles(after[path])
            if fault is not None:
                yield Broken("does not compile", path, fault)
            lost = [] if fault else sorted(set(left_behind(after[path])) - set(left_behind(before[path])))
            if lost:
                yield Broken("needs what only the main guard makes", path, ", ".join(lost))
            spans = [(edit["line"], edit["end_line"]) for edit in edits if edit["path"] == path]
            line = outside(before[path], after[path], spans)
            if line is not None:
                yield Broken("bytes changed outside the edits", path, f"line {line}")


def _changed(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def compiles(data: bytes) -> str | None:
    """Why a module does not compile; None where it does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(data, "module", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError) as error:
            return str(error)
    return None


def left_behind(data: bytes) -> list[str]:
    """Names that a module reads when it is imported, though only code under ``if __name__ == "__main__":`` makes them.

    A worker process that imports the script would end there.
    """
    body = _parsed(data).body
    guards = [each for each in body if isinstance(each, ast.If) and "__name__" in ast.unparse(each.test)]
    others = [each for each in body if each not in guards]
    only = _names(guards, ast.Store) - _names(others, ast.Store)
    return sorted(only & _names(others, ast.Load))


def _names(statements: Iterable[ast.AST], context: type[ast.expr_context]) -> set[str]:
    """The names that statements bind or read, without what stands in functions."""
    found: set[str] = set()
    pending = list(statements)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and context is ast.Store:
            found.add(node.name)
        elif isinstance(node, ast.alias) and context is ast.Store:
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, context):
            found.add(node.id)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)
    return found


def _parsed(data: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(data)
        except (SyntaxError, ValueError):
            return ast.Module(body=[], type_ignores=[])


def outside(before: bytes, after: bytes, spans: Iterable[tuple[int, int]]) -> int | None:
    """The first line of the text before that changed though no edit touches it; None where there is none.

    What lies between edits has to follow in the new text in the same order, byte for byte. Comments right above an edit
    belong to its statement and may move with it; their words have to be there still. Blank lines next to an edit may
    go with a statement that is removed.

    Args:
        before: The text before.
        after: And after.
        spans: First and last line, from 1, of each edit; an insertion before line n is (n, n - 1).
    """
    lines = before.splitlines(keepends=True)
    spaced: list[tuple[int, list[bytes]]] = []
    kept = 1
    stripped = {each.strip() for each in after.splitlines()}
    for at, last in [*sorted(spans), (len(lines) + 1, len(lines))]:
        first = at
        while kept < first <= len(lines) and lines[first - 2].strip() in stripped and _is_comment(lines[first - 2]):
            first -= 1
        if first >= kept:
            spaced.append((kept, lines[kept - 1 : first - 1]))
        kept = max(kept, last + 1)
    pieces = [
        (at, b"".join(_without_blank(piece, above=number > 0, below=number < len(spaced) - 1)))
        for number, (at, piece) in enumerate(spaced)
    ]
    start, end = pieces[0][1], pieces[-1][1]
    if not after.startswith(start) or (len(pieces) == 1 and after != before):
        pairs = zip(lines, after.splitlines(keepends=True), strict=False)
        return next((at for at, (old, new) in enumerate(pairs, start=1) if old != new), len(lines))
    position = len(start)
    for line, piece in pieces[1:]:
        found = after.find(piece, position)
        if found < 0:
            return line
        position = found + len(piece)
    return None if after.endswith(end) else pieces[-1][0]


def _without_blank(lines: list[bytes], *, above: bool, below: bool) -> list[bytes]:
    """The lines without the blank ones that they begin with, if an edit stands above, and those that they end with."""
    first, last = 0, len(lines)
    while above and first < last and not lines[first].strip():
        first += 1
    while below and first < last and not lines[last - 1].strip():
        last -= 1
    return lines[first:last]


def _is_comment(line: bytes) -> bool:
    return line.lstrip().startswith(b"#")


def notebook_problem(before: bytes, after: bytes) -> str:
    """What of a notebook changed besides the source of code cells; empty where nothing did."""

    def rest(data: bytes) -> Any:
        notebook = json.loads(data)
        for cell in notebook.get("cells", ()):
            if cell.get("cell_type") == "code":
                cell["source"] = ""
        return notebook

    try:
        if rest(before) != rest(after):
            return "outputs, metadata or other cells differ"
    except ValueError as error:
        return f"no notebook any more: {error}"
    form, new_form = (_SOURCE.sub(b"", text) for text in (before, after))
    return "" if form == new_form else "its form outside of the sources differs"


def _not_copied(folder: str, names: list[str]) -> list[str]:
    """What ``shutil.copytree`` leaves out."""
    paths = [Path(folder) / name for name in names]
    return [
        each.name
        for each in paths
        if each.name == ".git"
        or each.is_symlink()
        or (each.is_file() and each.suffix not in {".py", ".ipynb"} and each.stat().st_size > LARGEST_FILE)
    ]


def _contents(root: Path) -> dict[str, bytes]:
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def _programs(root: Path) -> Iterator[tuple[str, census.Program]]:
    """The programs that the tool should have looked at."""
    for path in census.files(root):
        program = census.Program.read(root / path, path)
        if program is not None:
            yield path, program


def version() -> str:
    """The commit of the project, with ``+`` where files differ from it; empty where there is none."""
    command = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty=+"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


# --- figures --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Figures:
    """Of one rule."""

    rewritten: int = 0
    left: collections.Counter[str] = field(default_factory=collections.Counter)
    """By the code of the cause."""
    silent: int = 0
    accounted: int = 0
    """Sites of the census for which there is a finding: what the silent ones are compared to."""

    @property
    def share(self) -> float:
        """Of the census's sites that are silent; 0 where there are no sites."""
        sites = self.silent + self.accounted
        return self.silent / sites if sites else 0.0


def figures(repositories: Iterable[Repository], *, counted: bool) -> dict[str, Figures]:
    """Adds up by rule: all sites, or those of the scripts that count."""
    found: dict[str, Figures] = collections.defaultdict(Figures)
    for repository in repositories:
        chosen = set(repository.counted)
        for sight in repository.sights:
            if not counted or sight.path in chosen:
                of_rule = found[sight.rule]
                of_rule.rewritten += sight.state == "rewritten"
                of_rule.silent += sight.state == "silent"
                if sight.state == "left":
                    of_rule.left[sight.code] += 1
        for rule, counts in repository.accounted.items():
            found[rule].accounted += sum(count for path, count in counts.items() if not counted or path in chosen)
    return dict(sorted(found.items()))


def table(found: dict[str, Figures], *, reasons: int = 0) -> Iterator[str]:
    """One line a rule, and its most frequent causes."""
    yield f"{'rule':<18}{'rewritten':>10}{'left':>8}{'silent':>8}{'of census':>11}{'share':>8}"
    for rule, each in found.items():
        sites = each.silent + each.accounted
        yield (f"{rule:<18}{each.rewritten:>10}{each.left.total():>8}{each.silent:>8}{sites:>11}{each.share:>8.1%}")
        for code, count in each.left.most_common(reasons):
            yield f"    {count:>6}  {code}"


def compare(old: Sequence[Repository], new: Sequence[Repository]) -> Iterator[str]:
    """What became of each site, for the repositories of both."""
    earlier = {each.name: each for each in old}
    moves: dict[tuple[str, str, str], list[str]] = collections.defaultdict(list)
    for repository in new:
        if repository.name not in earlier:
            continue
        was, now = _by_place(earlier[repository.name]), _by_place(repository)
        for place in sorted(was.keys() | now.keys()):
            before, after = was.get(place), now.get(place)
            states = (before.state if before else "nothing", after.state if after else "nothing")
            reasons = [each.reason if each else "" for each in (before, after)]
            if states[0] != states[1] or reasons[0] != reasons[1]:
                path, rule, cell, line = place
                where = f"{repository.name}: {path}:{'' if cell < 0 else f'cell {cell}:'}{line}"
                moves[(rule, *states)].append("  ".join([where, " → ".join(filter(None, reasons))]).rstrip())
    for (rule, before_state, after_state), places in sorted(moves.items()):
        yield f"{rule}: {before_state} → {after_state}: {len(places)}"
        yield from (f"    {place}" for place in places)


def _by_place(repository: Repository) -> dict[tuple[str, str, int, int], Sight]:
    """One word for each line: what was done outweighs what was said, and that outweighs silence."""
    order = ("silent", "left", "rewritten")
    sights = sorted(repository.sights, key=lambda each: order.index(each.state))
    return {each.key[:4]: each for each in sights}


def summary(repositories: Sequence[Repository], *, reasons: int) -> Iterator[str]:
    """The tables, what broke and the silent sites."""
    ordinary = [each for each in repositories if not each.is_apart]
    apart = [each for each in repositories if each.is_apart]
    scripts = sum(len(each.counted) for each in ordinary)
    yield f"Averages: {scripts} scripts of {len(ordinary)} repositories, at most {COUNTED} of each"
    yield from table(figures(ordinary, counted=True), reasons=reasons)
    yield f"\nAll {sum(each.files for each in ordinary)} files of these repositories"
    yield from table(figures(ordinary, counted=False))
    if apart:
        yield f"\nApart: {', '.join(each.name for each in apart)}"
        yield from table(figures(apart, counted=False))
    unseen = [f"{repository.name}/{path}" for repository in repositories for path in repository.unseen]
    if unseen:
        yield f"\nRead by the tool, and not by the census: {len(unseen)}: {', '.join(unseen[:10])}"
    for repository in repositories:
        for each in repository.broken:
            yield f"\nbroken: {repository.name}: {each.path}: {each.kind}\n    {each.detail}".rstrip()
    yield f"\n{sum(len(each.broken) for each in repositories)} broken"


def silent_sites(repositories: Iterable[Repository]) -> Iterator[str]:
    """One line each; those that count in the averages are marked."""
    for repository in repositories:
        for each in sorted(repository.sights, key=lambda each: (each.rule, each.key)):
            if each.state == "silent":
                mark = "*" if each.path in repository.counted and not repository.is_apart else " "
                cell = "" if each.cell is None else f"cell {each.cell}:"
                yield f"{mark} {each.rule}  {repository.name}  {each.path}:{cell}{each.line}"


# --- the command ----------------------------------------------------------------------------------------------------


def load(path: Path) -> list[Repository]:
    """The results in a file; none where there is no such file."""
    if not path.exists():
        return []
    return [Repository.of(each) for each in json.loads(path.read_text(encoding="utf-8"))]


def save(path: Path, repositories: Iterable[Repository]) -> None:
    """Writes results."""
    path.write_text(json.dumps([asdict(each) for each in repositories], indent=1) + "\n", encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """Works through the directory, small repositories first.

    Returns:
        The exit status: 1 where something broke.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, help="checked-out repositories, in folders named owner+name")
    parser.add_argument(
        "--repository", action="append", metavar="NAME", help="only this one, as owner/name; repeatable"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="results; those of other repositories there are kept")
    parser.add_argument("--against", type=Path, metavar="OLD", help="earlier results: print what changed since")
    parser.add_argument("--answers", type=Path, metavar="FOLDER", help="keep what each rewrite printed, with its diffs")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for one call of the tool")
    parser.add_argument("--reasons", type=int, default=5, help="causes shown for each rule")
    parser.add_argument("--silent", action="store_true", help="list the silent sites; * counts in the averages")
    arguments = parser.parse_args(words)
    roots = [each for each in arguments.directory.iterdir() if each.is_dir() and "+" in each.name]
    if arguments.repository:
        roots = [each for each in roots if each.name.replace("+", "/", 1) in arguments.repository]
    if not roots:
        parser.error("no such repository: folders are named owner+name")
    sizes = {root: sum(file.stat().st_size for file in root.rglob("*.py")) for root in roots}
    results = {each.name: each for each in (load(arguments.json) if arguments.json else [])}
    done = []
    for root in sorted(roots, key=lambda each: sizes[each]):
        with tempfile.TemporaryDirectory(prefix="corpus-") as scratch:
            repository = study(root, Path(scratch), arguments.timeout, arguments.answers)
        print(
            f"{repository.name}: {repository.files} files, {repository.changed} changed in {repository.seconds:g} s, "
            f"{len(repository.broken)} broken",
            file=sys.stderr,
            flush=True,
        )
        done.append(repository)
        results[repository.name] = repository
        if arguments.json:
            save(arguments.json, results.values())
    print("\n".join(summary(done, reasons=arguments.reasons)))
    if arguments.silent:
        print("\n".join(silent_sites(done)))
    if arguments.against:
        print("\n".join(compare(load(arguments.against), done)))
    return int(any(each.broken for each in done))


if __name__ == "__main__":
    sys.exit(main())
