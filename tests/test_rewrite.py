"""Rounds, levels, versions and conflicts, with rules made for the purpose."""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite.errors import FileError
from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite, Span
from autotune_rewrite.rewriting.rewrite import Text, parse, rewrite, rewrite_project
from codemods.codemod import Choices, Codemod, Promise
from codemods.editing.values import AddArgument, Insert, Move, Remove
from codemods.facts.reason import Reason
from codemods.facts.script import Whole
from codemods.facts.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script


def calls(script: Script, name: str) -> Iterator[ast.Call]:
    for node in script.module.nodes(ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


class AddTwo(Codemod):
    """``one()`` → ``one(two=2)``."""

    promise = Promise.PRECISION
    needs_cuda = False
    gain = "twice as fast"
    min_torch = (2, 1)

    def find(self, script: Script) -> Iterator[Finding]:
        for call in calls(script, "one"):
            if call.keywords:
                yield self.left(script.module, call, Reason("done-already", "it is passed already"))
            else:
                yield self.rewrites(script.module, call, "two is missing", AddArgument(script.module, call, "two", "2"))


class AddThree(Codemod):
    """``one()`` → ``one(two=3)``: in conflict with ``AddTwo``."""

    promise = Promise.BITWISE
    needs_cuda = False
    gain = "3 %"

    def find(self, script: Script) -> Iterator[Finding]:
        for call in calls(script, "one"):
            yield self.rewrites(script.module, call, "three is missing", AddArgument(script.module, call, "two", "3"))


class PrintFirst(Codemod):
    """Two lines before ``first()``."""

    promise = Promise.BITWISE
    needs_cuda = False
    gain = ""

    def find(self, script: Script) -> Iterator[Finding]:
        for call in calls(script, "first"):
            statement = script.module.statement(call)
            insert = Insert(script.module, statement, "print(1)\nprint(2)", "before")
            yield self.rewrites(script.module, call, "it is not printed", insert, fails=False)


class RemoveFirst(Codemod):
    """``first()`` goes."""

    promise = Promise.BITWISE
    needs_cuda = False
    gain = ""

    def find(self, script: Script) -> Iterator[Finding]:
        for call in calls(script, "first"):
            yield self.rewrites(script.module, call, "it is slow", Remove(script.module, script.module.statement(call)))


class MoveOne(Codemod):
    """``one()`` goes above the loop around it."""

    promise = Promise.BITWISE
    needs_cuda = False
    gain = ""

    def find(self, script: Script) -> Iterator[Finding]:
        for call in calls(script, "one"):
            module, statement = script.module, script.module.statement(call)
            loop = module.parent(statement)
            if isinstance(loop, ast.For):
                yield self.rewrites(module, call, "it is called again", Move(module, statement, loop))


class Followed(Codemod):
    """Each call whose name the facts know of the module that is at hand."""

    promise = Promise.BITWISE
    needs_cuda = False
    gain = ""

    def find(self, script: Script) -> Iterator[Finding]:
        for call in calls(script, "print"):
            if script.flow.values(call.func):
                yield self.left(script.module, call, Reason("done-already", "it is known"))


def run(text: str, *rounds: tuple[type[Codemod], ...], check: bool = False, **chosen: Any) -> Rewrite:
    """All rules of the rounds over a text."""
    names = frozenset(rule.name() for group in rounds for rule in group)
    settings = Settings(**{"rules": names, "level": Promise.PRECISION, **chosen})
    return rewrite("train.py", text, settings, check=check, rounds=rounds)


def messages(result: Rewrite) -> list[tuple[int, str, bool]]:
    return [(site.line, site.message, site.rewrites) for site in result.sites]


def test_a_site_is_plain_values_at_the_original_s_lines() -> None:
    result = run("import a\nx = [one()]\n", (AddTwo,))

    assert result.after == "import a\nx = [one(two=2)]\n"
    (site,) = result.sites
    assert (site.rule, site.message, site.promise, site.gain) == (
        "add-two",
        "two is missing",
        Promise.PRECISION,
        "twice as fast",
    )
    assert (site.line, site.column, site.end_line, site.end_column) == (2, 6, 2, 10)
    assert site.edits == (Span(2, 2),)
    assert result.promise is Promise.PRECISION
    assert result.rules == {"add-two"}
    assert result.fails


def test_nothing_found_leaves_the_text() -> None:
    result = run("import a\n", (AddTwo,))

    assert result == Rewrite("train.py", "import a\n", "import a\n", ())
    assert result.promise is None
    assert not result.fails


def test_a_check_finds_the_same_and_changes_nothing() -> None:
    text = "x = one()\n"

    assert run(text, (AddTwo,), check=True).sites == run(text, (AddTwo,)).sites
    assert run(text, (AddTwo,), check=True).after == text


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        pytest.param({"level": Promise.BITWISE}, "above level bitwise: two is missing", id="above the level"),
        pytest.param({"level": Promise.RANDOM}, "above level random: two is missing", id="above the middle level"),
        pytest.param(
            {"target": Target((2, 0))},
            "needs torch 2.1, and the script may run on an older one: two is missing",
            id="not rewriting below 2.1",
        ),
        pytest.param(
            {"target": Target((1, 9), (1, 10), "setup.py, line 3: torch==1.9")},
            "needs torch 2.1, and the script may run on an older one (setup.py, line 3: torch==1.9): two is missing",
            id="where that is said",
        ),
        pytest.param(
            {"target": Target(None, (2, 0))},
            "needs torch 2.1, and the script may run on an older one: two is missing",
            id="not rewriting before 2.0",
        ),
    ],
)
def test_what_may_not_be_done_is_left_with_the_reason(chosen: dict[str, Any], reason: str) -> None:
    result = run("one()\n", (AddTwo,), **chosen)

    assert messages(result) == [(1, reason, False)]
    assert result.after == result.before
    assert not result.fails


@pytest.mark.parametrize(
    ("code", "target", "expected"),
    [
        pytest.param("unknown-arguments", Target((2, 0)), "older-torch", id="the torch decides, and is asked first"),
        pytest.param("unknown-arguments", Target((2, 1)), "unknown-arguments", id="it is new enough"),
        pytest.param("unknown-arguments", Target(), "unknown-arguments", id="it is not known"),
        pytest.param("done-already", Target((2, 0)), "done-already", id="no torch makes it worth the while"),
    ],
)
def test_a_torch_that_is_too_old_is_the_reason_before_other_obstacles(code: str, target: Target, expected: str) -> None:
    class Leaves(AddTwo):
        def find(self, script: Script) -> Iterator[Finding]:
            yield from (self.left(script.module, call, Reason(code, "it is left")) for call in calls(script, "one"))

    assert [each.code for each in run("one()\n", (Leaves,), target=target).sites] == [expected]


def test_an_older_form_of_a_rule_has_its_say_on_an_older_torch() -> None:
    class Leaves(AddTwo):
        oldest_torch = (1, 2)

        def find(self, script: Script) -> Iterator[Finding]:
            yield from (self.left(script.module, call, Reason("apex", "it is left")) for call in calls(script, "one"))

    found = [run("one()\n", (Leaves,), target=Target(each)).sites[0].message for each in ((1, 2), (1, 1))]
    assert found == ["it is left", "needs torch 1.2, and the script may run on an older one"]


def test_a_module_runs_on_the_torch_of_the_scripts_that_import_it() -> None:
    pinned = Target((1, 9), (1, 10), "environment.yml, line 3: torch==1.9")
    settings = Settings(rules=frozenset({"add-two"}), level=Promise.PRECISION)
    texts = [
        Text("run.py", "import exp\n", dataclasses.replace(settings, target=pinned), local={"exp": "exp"}),
        Text("exp/exp.py", "one()\n", settings, "exp", is_entry=False),
    ]

    _, found = rewrite_project(texts, rounds=((AddTwo,),))

    assert isinstance(found, Rewrite)
    assert messages(found) == [
        (1, f"needs torch 2.1, and the script may run on an older one ({pinned.source}): two is missing", False)
    ]


@pytest.mark.parametrize(
    ("target", "needed", "notes"),
    [
        pytest.param(
            Target(),
            (2, 6),
            ("nothing beside the script says which torch is used: 2.4 is assumed. --target-torch VERSION says which",),
            id="nothing is known",
        ),
        pytest.param(
            Target(spoken_of="README.md, line 3: torch 1.6"),
            (2, 1),
            (
                "README.md, line 3, speaks of torch 1.6, which is no requirement: torch 2.4 is assumed. "
                "--target-torch VERSION says which",
            ),
            id="something is written for a newer one than is spoken of",
        ),
        pytest.param(Target((2, 7)), (2, 6), (), id="the user said it"),
    ],
)
def test_which_torch_is_assumed_is_said_where_it_decides(
    target: Target, needed: tuple[int, int], notes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AddTwo, "min_torch", needed)

    assert run("one()\n", (AddTwo,), target=target).notes == notes


def test_an_opt_in_rule_asked_for_by_name_runs_above_the_level() -> None:
    result = run("one()\n", (AddTwo,), level=Promise.BITWISE, exempt=frozenset({"add-two"}))

    assert result.after == "one(two=2)\n"


def test_a_rule_that_is_not_selected_does_not_run() -> None:
    assert run("one()\n", (AddTwo,), rules=frozenset()).sites == ()


def test_a_rule_s_own_reason_is_kept_whatever_the_level() -> None:
    result = run("one(two=1)\n", (AddTwo,), level=Promise.BITWISE)

    assert messages(result) == [(1, "it is passed already", False)]


def test_of_two_changes_in_conflict_the_later_is_left() -> None:
    result = run("one()\nx = 1\none()\n", (AddTwo, AddThree))

    assert result.after == "one(two=2)\nx = 1\none(two=2)\n"
    assert [(site.rule, site.line, site.rewrites) for site in result.sites] == [
        ("add-two", 1, True),
        ("add-three", 1, False),
        ("add-two", 3, True),
        ("add-three", 3, False),
    ]


class NameTwo(Codemod):
    """``one(two=2)`` → ``one(two=2, name="two")``: where ``AddTwo`` adds the one, this adds both."""

    promise = Promise.BITWISE
    needs_cuda = False
    gain = ""

    def find(self, script: Script) -> Iterator[Finding]:
        for call in calls(script, "one"):
            added = (AddArgument(script.module, call, name, value) for name, value in (("two", "2"), ("name", "'two'")))
            yield self.rewrites(script.module, call, "it has no name", *added, after="add-two")


def test_a_site_that_builds_on_another_rule_is_left_where_that_rule_leaves_it() -> None:
    result = run("one()\none(three=3)\n", (AddTwo, NameTwo))

    assert result.after == "one(two=2, name='two')\none(three=3)\n"
    assert messages(result) == [
        (1, "two is missing", True),
        (1, "it has no name", True),
        (2, "it is passed already", False),
        (2, "add-two leaves it", False),
    ]


class Choosy(Codemod):
    """``one()`` → ``one(two=N)`` with the number that the user chose."""

    promise = Promise.BITWISE
    needs_cuda = False
    gain = ""

    def find(self, script: Script) -> Iterator[Finding]:
        for call in calls(script, "one"):
            edit = AddArgument(script.module, call, "two", str(self.choices.workers))
            yield self.rewrites(script.module, call, "two is missing", edit)


def test_the_user_s_choices_reach_the_rules() -> None:
    assert run("one()\n", (Choosy,)).after == "one(two=4)\n"
    assert run("one()\n", (Choosy,), choices=Choices(workers=7)).after == "one(two=7)\n"


def test_an_ignored_site_is_left_and_the_others_are_not() -> None:
    result = run("one()  # torchfast: ignore it is faster so\none()\n", (AddTwo,))

    assert messages(result) == [(1, "ignored here: it is faster so", False), (2, "two is missing", True)]
    assert result.after == "one()  # torchfast: ignore it is faster so\none(two=2)\n"


def test_a_skipped_file_has_no_sites() -> None:
    text = "# torchfast: skip-file\none()\n"

    assert run(text, (AddTwo,)) == Rewrite("train.py", text, text, ())


@pytest.mark.parametrize("check", [False, True], ids=["rewrite", "check"])
def test_later_rounds_speak_of_the_original_s_lines(*, check: bool) -> None:
    result = run("import a\nfirst()\nx = 1\none()\n", (PrintFirst,), (AddTwo,), check=check)

    assert messages(result) == [(2, "it is not printed", True), (4, "two is missing", True)]
    assert [site.edits for site in result.sites] == [(Span(2, 1),), (Span(4, 4),)]
    if not check:
        assert result.after == "import a\nprint(1)\nprint(2)\nfirst()\nx = 1\none(two=2)\n"


def test_lines_that_change_beside_new_ones_are_told_by_how_they_begin() -> None:
    result = run("a = one(first())\nb = one()\n", (PrintFirst, AddTwo), (AddThree,))

    assert result.after.startswith("print(1)\nprint(2)\na = one(first(), two=2")
    assert [site.line for site in result.sites if site.rule == "add-three"] == [1, 2]


def test_a_later_round_reads_what_the_earlier_one_wrote() -> None:
    assert run("first()\none()\n", (PrintFirst,), (RemoveFirst,)).after == "print(1)\nprint(2)\none()\n"


def test_a_round_that_writes_nothing_leaves_the_facts_of_the_one_before() -> None:
    result = run("first()\nprint(3)\n", (PrintFirst,), (Followed,), (Followed,))

    assert [message for _, message, _ in messages(result)].count("it is known") == 2 * 3


def test_a_statement_that_was_moved_has_the_line_where_it_stood() -> None:
    result = run("for x in y:\n    a()\n    b()\n    one()\n    c()\n", (MoveOne,), (AddTwo,))

    assert result.after == "one(two=2)\nfor x in y:\n    a()\n    b()\n    c()\n"
    assert [line for line, _, _ in messages(result)] == [4, 4]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    result = run("\ufeffone()\n", (AddTwo,))

    assert result.after == "\ufeffone(two=2)\n"
    assert result.sites[0].column == 1


def test_a_rewrite_that_is_no_python_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codemods.editing.apply.apply", lambda *_: "x = (")

    with pytest.raises(FileError, match="please report this"):
        run("x = one()\n", (AddTwo,))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param("import torch\nx = (\n", 2, "not Python 3: '(' was never closed", id="syntax error"),
        pytest.param("import torch\nprint 'x'\n", 2, "not Python 3: Missing parentheses", id="Python 2"),
        pytest.param("x = 1\0\n", 1, "null byte", id="null byte"),
        pytest.param("x = " + "(" * 1000 + ")" * 1000, 1, "too many nested parentheses", id="parentheses"),
        pytest.param("x = " + "-" * 100_000 + "1", None, "nested too deeply", id="operators"),
        pytest.param("x = " + "lambda: " * 20_000 + "1", None, "nested too deeply", id="lambdas"),
    ],
)
def test_what_is_no_python_is_an_error_with_its_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(FileError, match=re.escape(message)) as caught:
        parse("train.py", text)

    assert caught.value.line == line


@pytest.mark.parametrize("asked", [True, False])
def test_no_module_is_understood_without_one_of_its_project_that_is_nested_too_deeply(*, asked: bool) -> None:
    settings = Settings(frozenset({"add-two"}), Promise.TRAINING)
    deep = Text("deep.py", "x = " + "+".join(["a"] * 900) + "\n", settings if asked else None, "deep")
    found = rewrite_project([Text("train.py", "one()\n", settings), deep], rounds=((AddTwo,),))

    assert [str(each) for each in found] == [
        "train.py: not understood: deep.py, of the same project, is nested too deeply to be understood",
        *["deep.py: nested too deeply to be understood"] * asked,
    ]


def test_modules_that_cannot_be_understood_together_are_not_understood_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Whole.of

    def raise_(modules: tuple[Module, ...], *rest: Any) -> Whole:
        if len(modules) > 1:
            raise RecursionError
        return of(modules, *rest)

    monkeypatch.setattr(Whole, "of", raise_)
    settings = Settings(frozenset({"add-two"}), Promise.TRAINING)
    texts = [Text(f"{name}.py", "one()\n", settings, name) for name in ("train", "data")]
    for found in rewrite_project(texts, rounds=((AddTwo,),)):
        assert isinstance(found, FileError)
        assert found.message.endswith("nested too deeply to be understood together; please report this")


def test_a_rule_that_cannot_follow_a_module_leaves_that_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    find = AddTwo.find

    def raise_(self: AddTwo, script: Script) -> Iterator[Finding]:
        yield from find(self, script)
        if script.module.path != "train.py":
            raise RecursionError

    monkeypatch.setattr(AddTwo, "find", raise_)
    settings = Settings(frozenset({"add-two", "add-three"}), Promise.TRAINING)
    texts = [Text(f"{name}.py", "one()\n", settings, name) for name in ("train", "data")]
    texts.append(Text("empty/__init__.py", "", settings, "empty"))
    train, data, empty = rewrite_project(texts, rounds=((AddTwo, AddThree),))
    assert isinstance(train, Rewrite)
    assert isinstance(data, Rewrite)
    assert isinstance(empty, Rewrite)
    assert empty.sites == ()
    assert [(each.rule, each.code) for each in train.sites] == [("add-two", ""), ("add-three", "overlapping-change")]
    assert [(each.rule, each.line, each.code) for each in data.sites] == [
        ("add-two", 1, "too-deep"),
        ("add-three", 1, ""),
    ]


@pytest.mark.parametrize("depth", [100, 900, 3000])
def test_a_deeply_nested_script_is_rewritten_or_refused_in_one_line(depth: int) -> None:
    text = "one()\nx = " + "+".join(["1"] * depth) + "\n"

    try:
        result = run(text, (AddTwo,))
    except FileError as error:
        assert "nested too deeply" in error.message
    else:
        assert result.after == text.replace("one()", "one(two=2)")


@pytest.mark.parametrize(
    ("widest", "between"),
    [(None, " "), (120, " "), (80, "\n" + " " * 20), (40, " ")],
    ids=["120", "fits", "broken", "wider already"],
)
def test_lines_are_no_wider_than_the_project_has_them(widest: int | None, between: str) -> None:
    before = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64, shuffle=True{})
for images, labels in loader:
    images = images.cuda()
"""
    chosen = Settings(frozenset({"loader-pin"}), Promise.BITWISE, widest=widest)

    assert rewrite("train.py", before.format(""), chosen).after == before.format(f",{between}pin_memory=True")
