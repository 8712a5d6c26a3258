"""Programs that nobody wrote, and the fixtures written otherwise: nothing is raised, and findings follow the meaning."""

from __future__ import annotations

import ast
import builtins
import re
import tempfile
import textwrap
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import hypothesmith
import libcst as cst
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from autotune_rewrite.project import files
from autotune_rewrite.rewriting.batch import Done, alone, process_read, read_project
from autotune_rewrite.rewriting.config import Options
from tests.conftest import ROOT
from tests.test_properties import PROGRAM, hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from autotune_rewrite.rewriting.batch import Read

FIXTURES = {path.parent.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("fixtures/*/naive.py"))}
OFTEN = 100
"""Examples of a run that looks for faults; other runs are the same each time."""

Program: TypeAlias = "dict[str, str]"
"""The texts of a project's files by their names; the script is ``train.py``."""
Choose: TypeAlias = "Callable[[st.SearchStrategy[Any]], Any]"
"""Draws from a strategy."""


def few_or_often(few: int) -> pytest.MarkDecorator:
    """As many examples, or, where that was asked for, many."""
    often = pytest.param(OFTEN, id="often", marks=pytest.mark.slow)
    return pytest.mark.parametrize("examples", [pytest.param(few, id="few"), often])


def fuzz(examples: int, holds: Callable[..., None], *strategies: st.SearchStrategy[Any]) -> None:
    """Hold a property against so many examples."""
    found = given(*strategies)(holds)
    settings(
        max_examples=examples,
        deadline=None,
        derandomize=examples != OFTEN,
        database=None,
        phases=[*Phase] if examples == OFTEN else [Phase.generate],  # to look for a small example takes minutes
        suppress_health_check=list(HealthCheck),
    )(found)()


# --- programs that nobody wrote -------------------------------------------------------------------------------------


def pieces(text: str) -> list[tuple[ast.stmt, str]]:
    """The module's statements, each with the lines in front of it that are no statement's."""
    tree = parsed(text)
    lines = text.splitlines(keepends=True)
    ends = [0, *(each.end_lineno or 0 for each in tree.body)]
    ends[-1:] = [len(lines)]
    return [(each, "".join(lines[start:end])) for each, start, end in zip(tree.body, ends, ends[1:], strict=False)]


def parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the program
        return ast.parse(text)


STATEMENTS = [piece for text in FIXTURES.values() for _, piece in pieces(text) if "__future__" not in piece]


def mixed(program: str, statements: list[str], program_comes_first: bool) -> str:  # noqa: FBT001 - drawn
    middle = "".join(statements)
    parts = (program, middle) if program_comes_first else (middle, program)
    return "import torch\n" + "\n".join(parts)


@few_or_often(5)
@pytest.mark.parametrize(
    "programs",
    [
        pytest.param(hypothesmith.from_grammar(), id="from the grammar"),
        pytest.param(hypothesmith.from_node(cst.SimpleStatementLine), id="from simple statements"),
        pytest.param(hypothesmith.from_node(cst.FunctionDef), id="from functions"),
        pytest.param(hypothesmith.from_node(), id="from modules", marks=pytest.mark.slow),  # takes long to draw
    ],
)
def test_any_program_is_rewritten_once_and_for_all(programs: st.SearchStrategy[str], examples: int) -> None:
    statements = st.lists(st.sampled_from(STATEMENTS), max_size=3)
    fuzz(examples, hold, st.builds(mixed, programs, statements, st.booleans()))


# --- the fixtures, written otherwise --------------------------------------------------------------------------------


class _Names(cst.CSTTransformer):
    """Writes other code for each use of a name, in f-strings too; attributes and keywords are no names."""

    def __init__(self, codes: Mapping[str, str]) -> None:
        super().__init__()
        self.codes = {name: cst.parse_expression(code) for name, code in codes.items()}

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: ARG002, N802 - LibCST's names
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: ARG002, N802 - LibCST's names
        return False

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:  # noqa: N802
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:  # noqa: N802
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:  # noqa: N802
        return self.codes.get(original_node.value, updated_node).deep_clone()


def with_names(text: str, codes: Mapping[str, str]) -> str:
    return cst.parse_module(text).visit(_Names(codes)).code


def bound(tree: ast.AST) -> Iterator[str]:
    """Every name that something other than an import gives a value, as often as something does."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name


def loaded(tree: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def is_import(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def is_definition(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.FunctionDef, ast.ClassDef))


def head(text: str) -> int:
    """How many statements are the docstring and the imports at the top."""
    found = pieces(text)
    is_docstring = isinstance(found[0][0], ast.Expr)
    return next(at for at, (each, _) in enumerate(found) if not is_import(each) and (at or not is_docstring))


def renamed(text: str, choose: Choose) -> Program:
    """Local and global names are others, but for those of methods and of what is called by keyword.

    ``self`` stays: the object of a method that calls it otherwise is not known to be the method's own, which leaves
    sites alone.
    """
    tree = parsed(text)
    fixed = (
        {"self"}
        | {each.arg for each in ast.walk(tree) if isinstance(each, ast.keyword)}
        | {
            each.name
            for owner in ast.walk(tree)
            if isinstance(owner, ast.ClassDef)
            for each in owner.body
            if isinstance(each, ast.FunctionDef)
        }
    )
    names = sorted(set(bound(tree)) - fixed)
    kept = choose(st.just(set()) | st.sets(st.sampled_from(names)))
    new = choose(st.sampled_from(["{}_", "my_{}", "x{1}", "Σ{1}", "torch{1}", "loader_{1}", "model{1}"]))
    return {
        "train.py": with_names(text, {name: new.format(name, i) for i, name in enumerate(names) if name not in kept})
    }


def forms(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> dict[str, str]:
    """Imports of the same thing, and what stands for it then."""
    name = alias.asname or alias.name
    if isinstance(statement, ast.ImportFrom):
        origin = f"{statement.module}.{alias.name}"
        return {
            f"from {statement.module} import {alias.name} as {name}_": f"{name}_",
            f"import {statement.module} as of_{name}": f"of_{name}.{alias.name}",
            f"import {statement.module}": origin,
            f"import {statement.module}\n{name}_ = {origin}": f"{name}_",
        }
    if alias.asname is None:
        return {f"import {name}": name, f"import {name} as {name}_": f"{name}_"}
    package, _, last = alias.name.rpartition(".")
    return {
        f"import {alias.name} as {name}_": f"{name}_",
        f"import {alias.name}": alias.name,
        **({f"from {package} import {last} as {name}_": f"{name}_"} if package else {}),
    }


def imported_otherwise(text: str, choose: Choose) -> Program:
    """Each of the imports in another form."""
    codes: dict[str, str] = {}
    new: list[str] = []
    for statement, piece in pieces(text):
        if not isinstance(statement, (ast.Import, ast.ImportFrom)) or "__future__" in piece:
            new.append(piece)
            continue
        for alias in statement.names:
            ways = forms(statement, alias)
            way = choose(st.sampled_from([*ways]))
            new.append(f"{way}\n")
            codes[alias.asname or alias.name] = ways[way]
    return {"train.py": with_names("".join(new), codes)}


@dataclass(frozen=True, slots=True)
class Effects:
    """What a statement does at once."""

    binds: frozenset[str]
    loads: frozenset[str]
    is_pure: bool
    """Whether it only gives names a value."""

    @classmethod
    def of(cls, statement: ast.stmt) -> Effects:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            names = {each.asname or each.name.partition(".")[0] for each in statement.names}
            return cls(frozenset(names), frozenset(), is_pure=True)
        if isinstance(statement, ast.FunctionDef):
            at_once = [*statement.decorator_list, *statement.args.defaults]
            return cls(frozenset({statement.name}), frozenset().union(*map(loaded, at_once)), is_pure=True)
        binds = {statement.name} if isinstance(statement, ast.ClassDef) else set(bound(statement))
        is_constant = isinstance(statement, ast.Assign) and not any(
            isinstance(each, ast.Call) for each in ast.walk(statement)
        )
        is_pure = is_constant or isinstance(statement, ast.ClassDef)
        return cls(frozenset(binds), frozenset(loaded(statement)), is_pure=is_pure)

    def may_follow(self, later: Effects, *, is_definition: bool) -> bool:
        """Whether it may come after what comes after it."""
        touched = self.binds | self.loads
        # What the earlier one calls may use what the later one binds only if that is there already.
        return ((self.is_pure and later.is_pure) or is_definition) and not (
            touched & later.binds or self.binds & later.loads
        )


def reordered(text: str, choose: Choose) -> Program:
    """Neighbours that do not depend on each other have changed places, many times; definitions have come up."""
    found = pieces(text)
    first = next(at for at, (_, piece) in enumerate(found) if "import" in piece and "__future__" not in piece)
    found[-1] = (found[-1][0], found[-1][1].rstrip("\n") + "\n")
    for at in choose(st.lists(st.integers(first, len(found) - 2), min_size=10, max_size=60)):
        earlier, later = found[at][0], found[at + 1][0]
        if Effects.of(earlier).may_follow(Effects.of(later), is_definition=isinstance(later, ast.FunctionDef)):
            found[at : at + 2] = found[at + 1], found[at]
    return {"train.py": "".join(piece for _, piece in found)}


def split(text: str, *, with_definitions: bool) -> tuple[str, str]:
    """What is to stay at the top: imports, and definitions too, perhaps; and the rest."""
    count = head(text)
    top: list[str] = []
    rest: list[str] = []
    for number, (statement, piece) in enumerate(pieces(text)):
        stays = number < count or (with_definitions and is_definition(statement))
        (top if stays else rest).append(piece)
    return "".join(top), "".join(rest).strip("\n") + "\n"


def wrapped(text: str, choose: Choose) -> Program:
    """All but the imports in a function, in one that is called by a guard, or in a method."""
    top, rest = split(text, with_definitions=False)
    unit = choose(st.sampled_from(["    ", "  ", "\t"]))
    match choose(st.sampled_from(["function", "guarded", "method", "guard"])):
        case "function":
            new = f"def run_all():\n{textwrap.indent(rest, unit)}\nrun_all()\n"
        case "guarded":
            new = f'def run_all():\n{textwrap.indent(rest, unit)}\nif __name__ == "__main__":\n{unit}run_all()\n'
        case "method":
            new = f"class Program:\n{unit}def run(this):\n{textwrap.indent(rest, unit * 2)}\nProgram().run()\n"
        case _:
            new = f'if __name__ == "__main__":\n{textwrap.indent(rest, unit)}'
    return {"train.py": f"{top}\n\n{new}"}


def called(text: str, choose: Choose) -> Program:
    """All but the imports and definitions in a function; what the definitions use of it is global."""
    top, rest = split(text, with_definitions=True)
    tree = parsed(rest)
    loops = {name for each in ast.walk(tree) if isinstance(each, ast.comprehension) for name in bound(each.target)}
    names = sorted((set(bound(tree)) - loops) & loaded(parsed(top)))
    declaration = f"global {', '.join(names)}\n" if names else ""
    call = choose(st.sampled_from(["run_all()\n", 'if __name__ == "__main__":\n    run_all()\n']))
    return {"train.py": f"{top}\n\ndef run_all():\n{textwrap.indent(declaration + rest, '    ')}\n\n{call}"}


def held(text: str, choose: Choose) -> Program:
    """All but the imports in a method; what the module's names were are attributes now."""
    top, rest = split(text, with_definitions=False)
    count = Counter(bound(parsed(rest)))
    definitions = {each.name for each in parsed(rest).body if isinstance(each, (ast.FunctionDef, ast.ClassDef))}
    own = sorted(
        target.id
        for each in parsed(rest).body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name)
        and count[target.id] == 1
        and target.id not in definitions
        # The options of the command line are passed on by a name of their own, and by nothing else.
        and not ast.unparse(each.value).endswith(".parse_args()")
    )
    names = choose(st.sets(st.sampled_from(own))) if own else set()
    rest = with_names(rest, {name: f"this.{name}" for name in names})
    return {
        "train.py": f"{top}\n\nclass Program:\n    def run(this):\n{textwrap.indent(rest, ' ' * 8)}\n\nProgram().run()\n"
    }


def parted(text: str, choose: Choose) -> Program:
    """Definitions, and the constants that they use, in a module that the script imports."""
    count = head(text)
    found = pieces(text)
    imports = [piece for statement, piece in found[:count] if is_import(statement)]
    imported = {name for statement, _ in found[:count] for name in Effects.of(statement).binds if is_import(statement)}
    allowed = imported | set(dir(builtins)) | {"__file__"}
    body = found[count:]
    often = Counter(name for statement, _ in body for name in Effects.of(statement).binds)
    movable = {
        name: (statement, piece)
        for statement, piece in body
        if is_definition(statement) or (isinstance(statement, ast.Assign) and Effects.of(statement).is_pure)
        for name in Effects.of(statement).binds
        if often[name] == 1 and len(Effects.of(statement).binds) == 1
    }
    while gone := [name for name, (each, _) in movable.items() if not free(each) <= allowed | movable.keys()]:
        for name in gone:
            del movable[name]
    used = {name: free(each) & movable.keys() for name, (each, _) in movable.items()}
    chosen = set(choose(st.sets(st.sampled_from(sorted(movable))))) if choose(st.booleans()) else set(movable)
    while more := set().union(*(used[name] for name in chosen)) - chosen:
        chosen |= more
    moved = [movable[name][0] for name in movable if name in chosen]
    rest = "".join(piece for statement, piece in body if statement not in moved)
    needed = sorted(chosen & loaded(parsed(rest)))
    if not needed:
        return {"train.py": text}
    match choose(st.sampled_from(["from", "as", "module", "alias"])):
        case "from":
            line, codes = f"from helpers import {', '.join(needed)}", {}
        case "as":
            line = f"from helpers import {', '.join(f'{name} as our_{name}' for name in needed)}"
            codes = {name: f"our_{name}" for name in needed}
        case "module":
            line, codes = "import helpers", {name: f"helpers.{name}" for name in needed}
        case _:
            line, codes = "import helpers as h", {name: f"h.{name}" for name in needed}
    top = "".join(piece for _, piece in found[:count])
    return {
        "train.py": with_names(f"{top}{line}\n{rest}", codes),
        "helpers.py": "".join(imports) + "".join(piece for statement, piece in body if statement in moved),
    }


def free(statement: ast.stmt) -> set[str]:
    """Names that a statement may take from the module."""
    own = set(bound(statement)) - Effects.of(statement).binds
    return loaded(statement) - own - Effects.of(statement).binds


def laid_out(text: str, choose: Choose) -> Program:
    """Comments, blank lines, tabs and other ends of lines."""
    lines = text.splitlines()
    starts = sorted({each.lineno - 1 for each in ast.walk(parsed(text)) if isinstance(each, ast.stmt)})
    unit = "  " if re.search(r"^  \S", text, re.MULTILINE) else "    "
    for at in sorted(choose(st.sets(st.sampled_from(starts), max_size=12)), reverse=True):
        match choose(st.sampled_from(["comment", "blank", "deep", "end", "form"])):
            case "comment":
                lines.insert(at, re.sub(r"\S.*", "# a note", lines[at]))
            case "blank":
                lines.insert(at, choose(st.sampled_from(["", "   ", "\t"])))
            case "deep":
                lines.insert(at, " " * 40 + "# far away")
            case "end" if not lines[at].rstrip().endswith("\\"):
                lines[at] += "  # at the end" if "#" not in lines[at] and '"""' not in lines[at] else "  "
            case _:
                lines.insert(at, "\f")
    if choose(st.booleans()):
        lines = [re.sub(rf"^(?:{unit})+", lambda found: "\t" * (len(found[0]) // len(unit)), line) for line in lines]
    newline = choose(st.sampled_from(["\n", "\r\n"]))
    return {
        "train.py": choose(st.sampled_from(["", "\ufeff"]))
        + newline.join(lines)
        + choose(st.sampled_from(["", newline]))
    }


MEANING_KEPT = [renamed, imported_otherwise, reordered, wrapped, called, held, parted, laid_out]


def read(program: Program) -> Iterable[Read]:
    """The program as the tool reads it."""
    if len(program) == 1:
        yield alone(files.decode(PROGRAM, program["train.py"].encode()))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, text in program.items():
            Path(folder, name).write_bytes(text.encode())
        yield read_project(str(Path(folder, "train.py")))


def rewritten(program: Program) -> tuple[Program, Counter[tuple[str, bool]]]:
    """What becomes of a program, and how often each rule rewrites or leaves a site."""
    (results,) = (process_read(each, Options(), check=False) for each in read(program))
    after: Program = {}
    found: Counter[tuple[str, bool]] = Counter()
    for each in results:
        assert isinstance(each, Done), each
        after[Path(each.source.path).name if len(program) > 1 else "train.py"] = each.rewrite.after
        found.update((site.rule, site.rewrites) for site in each.rewrite.sites)
    return after, found


def compiles(program: Program) -> None:
    for name, text in program.items():
        compile(text.removeprefix("\ufeff"), name, "exec", dont_inherit=True)


@cache
def findings(name: str) -> Counter[tuple[str, bool]]:
    """Those of a fixture as it stands."""
    return rewritten({"train.py": FIXTURES[name]})[1]


MOVED: dict[Callable[[str, Choose], Program], frozenset[str]] = {
    wrapped: frozenset({"loader-persistent"}),
    held: frozenset({"loader-persistent"}),
    called: frozenset({"as-tensor", "loader-persistent", "loader-workers"}),
}
"""The rules that may judge otherwise where the script's code moves into a function. Workers may stay where nothing refers
to their loader any more at the end; and what a function sets for the module may be set again, while workers run or
before it is converted.
"""


def told(found: Counter[tuple[str, bool]], mutation: Callable[[str, Choose], Program]) -> Counter[tuple[str, bool]]:
    """What has to stay the same."""
    return Counter({each: count for each, count in found.items() if each[0] not in MOVED.get(mutation, ())})


@few_or_often(4)
@pytest.mark.parametrize("mutation", MEANING_KEPT, ids=lambda mutation: mutation.__name__)
def test_findings_follow_the_meaning(mutation: Callable[[str, Choose], Program], examples: int) -> None:
    def holds(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([*FIXTURES]))
        program = mutation(FIXTURES[name], data.draw)
        compiles(program)
        after, found = rewritten(program)
        assert told(found, mutation) == told(findings(name), mutation)
        compiles(after)
        assert rewritten(after)[0] == after

    fuzz(examples, holds, st.data())


# --- the fixtures, broken -------------------------------------------------------------------------------------------
def statements(text: str) -> list[tuple[int, int]]:
    """The lines of every statement that begins on a line of its own, from 0, without its end."""
    lines = text.splitlines()
    found = []
    for each in ast.walk(parsed(text)):
        if isinstance(each, ast.stmt) and not lines[each.lineno - 1][: each.col_offset].strip():
            decorators = getattr(each, "decorator_list", [])
            found.append((min(one.lineno for one in [each, *decorators]) - 1, each.end_lineno or each.lineno))
    return sorted(found)


def indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def indented_as(lines: list[str], other: list[str]) -> list[str]:
    """Lines as deep as others are."""
    before, after = indentation(lines[0]), indentation(other[0])
    return [after + line.removeprefix(before) if line.strip() else line for line in lines]


def without_one(text: str, choose: Choose) -> str:
    lines = text.splitlines()
    start, end = choose(st.sampled_from(statements(text)))
    lines[start:end] = [f"{indentation(lines[start])}pass"]
    return "\n".join(lines)


def with_one_twice(text: str, choose: Choose) -> str:
    lines = text.splitlines()
    start, end = choose(st.sampled_from(statements(text)))
    lines[end:end] = lines[start:end]
    return "\n".join(lines)


def with_two_swapped(text: str, choose: Choose) -> str:
    lines = text.splitlines()
    every = statements(text)
    one = choose(st.sampled_from(every))
    apart = [each for each in every if each[1] <= one[0] or one[1] <= each[0]]
    if not apart:
        return text
    first, second = sorted([one, choose(st.sampled_from(apart))])
    above, below = lines[slice(*first)], lines[slice(*second)]
    lines[slice(*second)] = indented_as(above, below)
    lines[slice(*first)] = indented_as(below, above)
    return "\n".join(lines)


def with_another_name(text: str, choose: Choose) -> str:
    lines = text.splitlines()
    tree = parsed(text)
    in_strings = {id(each) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for each in ast.walk(one)}
    names = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and id(each) not in in_strings]
    place = choose(st.sampled_from(names))
    line = lines[place.lineno - 1]
    new = choose(st.sampled_from(names)).id
    lines[place.lineno - 1] = line[: place.col_offset] + new + line[place.end_col_offset :]
    return "\n".join(lines)


@few_or_often(3)
@pytest.mark.parametrize(
    "mutation", [without_one, with_one_twice, with_two_swapped, with_another_name], ids=lambda each: each.__name__
)
def test_a_broken_script_is_rewritten_once_and_for_all(mutation: Callable[[str, Choose], str], examples: int) -> None:
    def holds(data: st.DataObject) -> None:
        text = data.draw(st.sampled_from([*FIXTURES.values()]))
        for _ in range(data.draw(st.integers(1, 3))):
            broken = mutation(text, data.draw)
            if not is_program(broken):
                break
            text = broken
        hold(text)

    fuzz(examples, holds, st.data())


def is_program(text: str) -> bool:
    """Whether Python runs it; a ``return`` at the top, say, is no program, though it parses."""
    try:
        compile(text, "train.py", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True
