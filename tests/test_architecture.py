"""docs/architecture.md and CONTRIBUTING.md, held against what there is."""

from __future__ import annotations

import ast
import re
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import PurePosixPath

import grimp
import pytest

from tests import regenerate_docs
from tests.conftest import ROOT

ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

MODULES = {
    path.relative_to(ROOT).as_posix()
    for package in ("autotune_rewrite", "codemods")
    for path in (ROOT / package).rglob("*.py")
}
PACKAGES = {name for name in MODULES if name.endswith("/__init__.py")}
DECISIONS, MODULE_TABLES = ARCHITECTURE.split("## Where is it decided?")[1].split("## The modules")
LISTED = re.findall(r"^\| `([\w/]+\.py)` \|", MODULE_TABLES, re.MULTILINE)
"""The modules of the tables, with what each answers."""
DECIDED = re.findall(r"`([\w/]+\.py)`((?:(?:: |, )`[A-Za-z_][\w.]*`)*)", ARCHITECTURE)
"""Modules, each with the names in it that are given beside it."""


def test_every_module_has_its_line() -> None:
    assert set(LISTED) ^ (MODULES - PACKAGES) == set(), "python tests/regenerate_docs.py writes the lines"
    assert len(LISTED) == len(set(LISTED))
    assert regenerate_docs.architecture() == ARCHITECTURE, "python tests/regenerate_docs.py writes the current one"


def test_every_decision_is_a_question_with_a_path() -> None:
    rows = re.findall(r"^\| (.*) \| (.*) \|$", DECISIONS, re.MULTILINE)[2:]

    assert len(rows) >= 10
    assert [question for question, answer in rows if not question.endswith("?") or "`" not in answer] == []


def test_facts_ask_one_another_in_no_circle() -> None:
    graph = grimp.build_graph("codemods", cache_dir=None)
    facts = {name for name in graph.modules if name.startswith("codemods.facts.")}
    asked = {name: graph.find_modules_directly_imported_by(name) & facts for name in facts}

    assert len(facts) > 10
    assert any(asked.values())
    TopologicalSorter(asked).prepare()  # which raises CycleError, and names the circle


@pytest.mark.parametrize("package", ["facts", "amp", "editing", "library"])
def test_every_module_is_asked_by_tests_of_its_own(package: str) -> None:
    """``facts/data/loaders.py`` in tests/facts/test_loaders.py; in test_data_loaders.py, where others have the name, too.

    What only holds tables or values is tested with what reads them.
    """
    modules = [PurePosixPath(name) for name in sorted(MODULES - PACKAGES) if name.startswith(f"codemods/{package}/")]
    asked = [module for module in modules if has_functions(module.as_posix())]
    names = Counter(PurePosixPath(name).stem for name in MODULES if name.startswith("codemods/"))
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    anywhere = {PurePosixPath(file).name for file in files}
    missing = [
        module.as_posix()
        for module in asked
        if f"test_{module.parent.name}_{module.stem}.py" not in anywhere
        and not (names[module.stem] == 1 and f"test_{module.stem}.py" in anywhere)
        and not (len(module.parts) == 3 and f"tests/{package}/test_{module.stem}.py" in files)
    ]

    assert asked
    assert missing == [], f"write tests/{package}/test_….py"


def has_functions(path: str) -> bool:
    """Whether a module has functions, of its own or of its classes."""
    return any(isinstance(each, ast.FunctionDef) for each in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))))


@pytest.mark.parametrize(
    "page", [pytest.param(ARCHITECTURE, id="architecture"), pytest.param(CONTRIBUTING, id="contributing")]
)
def test_every_path_that_a_page_names_exists(page: str) -> None:
    spans = {span.rstrip("/") for span in re.findall(r"`([\w.-]+(?:/[\w.*-]+)+/?)`", page)}
    links = set(re.findall(r"\]\(([^)#:]+)\)", page))
    named = {name for name in spans | links if "my_" not in name}

    assert named
    assert [name for name in named if not any(ROOT.glob(name))] == []


def test_every_name_that_a_module_is_said_to_hold_is_defined_there() -> None:
    said = {(path, name) for path, names in DECIDED for name in re.findall(r"`([\w.]+)`", names)}
    missing = [f"{path}: {name}" for path, name in sorted(said) if not set(name.split(".")) <= defined(path)]

    assert len(said) >= 10
    assert missing == []


def defined(path: str) -> set[str]:
    """The functions, classes and constants of a module, those of its classes too."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found
