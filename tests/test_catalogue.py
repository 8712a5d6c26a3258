"""What every rule declares, held against what it does, and against what is written about it."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.report.pages import markdown_table, page, summary
from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods import commands
from codemods.catalogue import GROUPS, ROUNDS, RULES
from codemods.codemod import UNMEASURED, Advises, Codemod, Default, Leaves, Phase, Promise, Rewrites
from codemods.facts.causes import CAUSES, OF_ALL, OF_SOME
from codemods.facts.target import Target
from tests import regenerate_docs
from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotune_rewrite.rewriting.results import Rewrite

EXAMPLES = [(rule, example) for rule in RULES.values() for example in rule.examples]
REWRITES = [
    pytest.param(rule, example, id=f"{rule.name()}-{number}")
    for number, (rule, example) in enumerate(EXAMPLES)
    if isinstance(example, Rewrites)
]
LEAVES = [
    pytest.param(rule, example, id=f"{rule.name()}: {example.because}")
    for rule, example in EXAMPLES
    if isinstance(example, Leaves)
]
ADVISES = [
    pytest.param(rule, example, id=f"{rule.name()}: {example.says}")
    for rule, example in EXAMPLES
    if isinstance(example, Advises)
]


def run(rule: type[Codemod], text: str, target: tuple[int, int] | None) -> Rewrite:
    """This rule alone, at the farthest level."""
    return rewrite("example.py", text, Settings(frozenset({rule.name()}), Promise.TRAINING, target=Target(target)))


@pytest.mark.parametrize(("rule", "example"), REWRITES)
def test_an_example_is_rewritten_exactly_so(rule: type[Codemod], example: Rewrites) -> None:
    result = run(rule, example.before, example.target)

    assert result.after == example.after
    assert all(site.promise <= rule.promise for site in result.sites)


@pytest.mark.parametrize(("rule", "example"), REWRITES)
def test_a_second_pass_changes_nothing(rule: type[Codemod], example: Rewrites) -> None:
    result = run(rule, example.after, example.target)

    assert result.after == example.after
    assert not result.fails


@pytest.mark.parametrize(("rule", "example"), REWRITES)
def test_a_rewritten_example_compiles(rule: type[Codemod], example: Rewrites) -> None:
    compile(run(rule, example.before, example.target).after, "example.py", "exec")


@pytest.mark.parametrize(("rule", "example"), LEAVES)
def test_an_example_is_left_for_the_reason_given(rule: type[Codemod], example: Leaves) -> None:
    result = run(rule, example.code, example.target)

    assert result.after == example.code
    assert example.because in [site.message for site in result.sites]
    assert {site.code for site in result.sites if not site.rewrites} <= rule.causes | OF_ALL.keys()


@pytest.mark.parametrize(("rule", "example"), ADVISES)
def test_an_example_of_advice_is_told_so_by_a_check_and_fails_none(rule: type[Codemod], example: Advises) -> None:
    settings = Settings(frozenset({rule.name()}), Promise.TRAINING, target=Target(example.target))
    result = rewrite("example.py", example.code, settings, check=True)

    assert example.says in [site.message for site in result.sites if site.advises]
    assert not result.fails


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
class TestRule:
    def test_has_examples_of_both_kinds_and_not_too_many(self, rule: type[Codemod]) -> None:
        kinds = [type(example) for example in rule.examples]

        if rule.default is Default.ADVICE:
            assert (kinds.count(Rewrites), 1 <= kinds.count(Advises) <= 3) == (0, True)
        else:
            assert (1 <= kinds.count(Rewrites) <= 3, 1 <= kinds.count(Leaves) <= 3) == (True, True)

    def test_has_a_page_with_the_fixed_headings_in_order(self, rule: type[Codemod]) -> None:
        headings = re.findall(r"^## (.*)$", page(rule), re.MULTILINE)

        assert headings == [*Codemod.HEADINGS, "Codes", "Examples"]
        sections = re.split(r"^## .*$", page(rule), flags=re.MULTILINE)
        assert all(section.strip() for section in sections)

    def test_has_a_page_that_says_what_its_codes_mean(self, rule: type[Codemod]) -> None:
        text = page(rule).replace("\n  ", " ")
        said = re.findall(r"^- `([a-z0-9-]+)`: [A-Z`].*\.$", text, re.MULTILINE)

        assert said == [*sorted(rule.causes), *sorted(OF_ALL)]

    def test_has_a_first_line_that_is_a_sentence(self, rule: type[Codemod]) -> None:
        assert re.fullmatch(r"[A-Z`].*\.", summary(rule))

    def test_has_failure_signatures_that_are_patterns(self, rule: type[Codemod]) -> None:
        for pattern in rule.failures:
            re.compile(pattern)

    def test_has_its_name_in_its_file_and_its_tests(self, rule: type[Codemod]) -> None:
        name = rule.name().replace("-", "_")

        assert rule.__module__ == f"codemods.rules.{name}"
        assert Path(inspect.getfile(rule)).name == f"{name}.py"
        assert (ROOT / "tests" / "codemods" / f"test_{name}.py").is_file()

    def test_says_which_part_of_an_iteration_it_shortens(self, rule: type[Codemod]) -> None:
        phases = ", ".join(str(each) for each in Phase if each in rule.phases)

        assert phases or rule.default is Default.OPT_IN
        assert f"- Shortens: {phases or 'nothing'}\n" in page(rule)

    def test_has_a_gain_whose_figures_stand_where_it_says(self, rule: type[Codemod]) -> None:
        assert bool(rule.gain_sources) == (rule.gain != UNMEASURED), "name the sources of the gain in gain_sources"
        assert [source for source in rule.gain_sources if not _is_there(source)] == []
        assert all(source.partition("#")[2] in page(rule) for source in rule.gain_sources)

    def test_changes_training_only_when_asked_for_by_name(self, rule: type[Codemod]) -> None:
        assert rule.promise is not Promise.TRAINING or rule.default is not Default.ON


def _is_there(source: str) -> bool:
    """Whether a source is an address, or a part of a file of the repository: a fact by its key, or a heading."""
    if source.startswith("https://"):
        return True
    file, _, part = source.partition("#")
    text = (ROOT / file).read_text(encoding="utf-8")
    return f'{{"key": "{part}"' in text if file.endswith(".jsonl") else f"\n## {part}\n" in text


@pytest.mark.parametrize(
    ("names", "phases"),
    [
        pytest.param("loader-workers loader-persistent", {Phase.DATA}, id="loaders are waited for"),
        pytest.param("loader-pin h2d-non-blocking", {Phase.COPIES}, id="batches are copied"),
        pytest.param(
            "amp channels-last compile cudnn-benchmark tf32-matmul",
            {Phase.FORWARD, Phase.BACKWARD},
            id="the model computes, and its backward does",
        ),
        pytest.param("fused-optimizer", {Phase.OPTIMIZER}, id="the optimizer steps"),
        pytest.param(
            "zero-grad-none", {Phase.ZEROING, Phase.ACCUMULATION}, id="gradients are zeroed, and added to the zeros"
        ),
        pytest.param("no-grad-eval", {Phase.EVALUATION}, id="the model is evaluated"),
        pytest.param(
            "defer-sync",
            {Phase.WAITING, Phase.DATA, Phase.COPIES, Phase.OTHER},
            id="the host waits for the device, which has nothing to do until the next batch comes",
        ),
        pytest.param("as-tensor", {Phase.DATA, Phase.OTHER}, id="arrays become tensors, in a data set or beside it"),
    ],
)
def test_a_rule_shortens_what_it_changes(names: str, phases: set[Phase]) -> None:
    assert {name: set(RULES[name].phases) for name in names.split()} == dict.fromkeys(names.split(), phases)


def test_every_cause_is_declared_by_a_rule_or_is_of_all() -> None:
    assert frozenset().union(*(rule.causes for rule in RULES.values())) == OF_SOME.keys()
    assert OF_ALL.keys().isdisjoint(OF_SOME)


def test_every_code_that_is_given_is_a_cause_and_every_cause_is_given() -> None:
    given: set[str] = set()
    constants: set[object] = set()
    for package in ("codemods", "autotune_rewrite"):
        for path in (each for each in (ROOT / package).rglob("*.py") if each.name != "causes.py"):
            nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            constants |= {each.value for each in nodes if isinstance(each, ast.Constant)}
            given |= {code for each in nodes if isinstance(each, ast.Call) for code in _codes(each)}

    assert given <= CAUSES.keys()
    assert constants >= CAUSES.keys()


def _codes(call: ast.Call) -> Iterator[str]:
    """The codes that are written out in a call."""
    is_example = isinstance(call.func, ast.Name) and call.func.id in {"Leaves", "Advises"}
    nodes = [each.value for each in call.keywords if each.arg == "code" and not is_example]
    if isinstance(call.func, ast.Name) and call.func.id in {"Reason", "LeftError"}:
        nodes += call.args[:1]
    yield from (each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str))


def test_every_rule_is_in_one_round_only() -> None:
    names = [rule.name() for group in ROUNDS for rule in group]

    assert len(names) == len(set(names))
    assert list(RULES) == names


def test_every_module_with_a_rule_is_in_the_catalogue() -> None:
    written = {
        path.stem for path in (ROOT / "codemods").rglob("*.py") if "(Codemod):" in path.read_text(encoding="utf-8")
    }

    assert written == {rule.__module__.removeprefix("codemods.rules.") for rule in RULES.values()}


def test_every_command_is_a_rule_s() -> None:
    found = {
        name: each.rule
        for name, each in vars(commands).items()
        if inspect.isclass(each) and issubclass(each, commands.RuleCommand) and each is not commands.RuleCommand
    }

    assert found == {f"{rule.__name__}Command": rule for rule in RULES.values()}


def test_the_groups_are_made_of_rules() -> None:
    assert GROUPS["DEFAULT"] <= GROUPS["ALL"] == set(RULES)


def test_the_table_in_the_readme_is_current() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert markdown_table(RULES.values()) in readme
    assert regenerate_docs.readme() == readme, "python tests/regenerate_docs.py writes the current one"


def test_the_pages_of_the_rules_are_current() -> None:
    pages = regenerate_docs.rule_pages()
    there = {path: path.read_text(encoding="utf-8") for path in pages if path.exists()}

    assert there == pages, "python tests/regenerate_docs.py writes the current ones"
    assert regenerate_docs.stale_pages() == set()


def test_the_import_contract_holds_every_rule_apart() -> None:
    contracts = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[tool.importlinter]")[2]

    assert 'modules = ["codemods.rules.*"]' in contracts
    assert {rule.__module__.rpartition(".")[0] for rule in RULES.values()} == {"codemods.rules"}
