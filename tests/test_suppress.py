from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import suppress
from codemods.dataflow.source import Module

RULES = ("loader-pin", "zero-grad-none")


def ignored(code: str, rule: str = "loader-pin") -> list[str]:
    """The reasons with which calls of ``site`` are left alone, in the order of the lines."""
    module = Module("train.py", dedent(code))
    suppressions = suppress.read(module, RULES)
    sites = [node for node in ast.walk(module.tree) if isinstance(node, ast.Name) and node.id == "site"]
    found = [suppressions.ignore(module, node, rule) for node in sorted(sites, key=lambda node: node.lineno)]
    return ["-" if each is None else each.reason for each in found]


def test_only_the_statement_with_the_comment_is_left() -> None:
    assert ignored("site()  # torchfast: ignore[loader-pin] why\nsite()\n") == ["why", "-"]


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        pytest.param("# torchfast: ignore[loader-pin] it is slower", "it is slower", id="with a reason"),
        pytest.param("# torchfast: ignore[loader-pin]", "", id="without a reason"),
        pytest.param("#torchfast:ignore[loader-pin]", "", id="without blanks"),
        pytest.param("# torchfast: ignore[zero-grad-none, loader-pin] both", "both", id="several rules"),
        pytest.param("# torchfast: ignore whatever", "whatever", id="every rule"),
        pytest.param("# torchfast: ignore[zero-grad-none] other", "-", id="another rule"),
        pytest.param("# see torchfast: ignore[loader-pin]", "-", id="a comment about it"),
        pytest.param(
            "# noqa: E501  # torchfast: ignore[loader-pin] why", "why", id="behind a comment for another tool"
        ),
        pytest.param("# see #torchfast:ignore", "", id="behind words"),
    ],
)
def test_a_comment_speaks_of_the_rules_it_names(comment: str, reason: str) -> None:
    assert ignored(f"site()  {comment}\n") == [reason]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("x = site(  # torchfast: ignore why\n    1,\n)\n", id="first line"),
        pytest.param("x = site(\n    # torchfast: ignore why\n    1,\n)\n", id="line of its own"),
        pytest.param("x = site(\n    1,\n)  # torchfast: ignore why\n", id="last line"),
        pytest.param("for x in site(\n    1,\n):  # torchfast: ignore why\n    pass\n", id="end of a header"),
        pytest.param("if site(): x = 1  # torchfast: ignore why\n", id="suite on the header's line"),
        pytest.param("@decorate  # torchfast: ignore why\ndef f(x=site): pass\n", id="decorator"),
        pytest.param("match site:  # torchfast: ignore why\n    case 1:\n        pass\n", id="match"),
    ],
)
def test_any_line_of_the_statement_will_do(code: str) -> None:
    assert ignored(code) == ["why"]


def test_a_comment_in_a_suite_does_not_speak_of_the_header() -> None:
    assert ignored("for x in site():\n    x()  # torchfast: ignore why\n") == ["-"]


def test_a_string_is_no_comment() -> None:
    assert ignored("site('# torchfast: ignore')\n'''\n# torchfast: skip-file\n'''\n") == ["-"]


def test_skip_file_leaves_the_whole_file() -> None:
    assert suppress.read(Module("train.py", "import torch\n# torchfast: skip-file\n"), RULES).skip_file


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# torchfast: ignore[loader-pinn]", "unknown rule 'loader-pinn'; did you mean 'loader-pin'?"),
        ("# torchfast: ignroe[loader-pin]", "unknown torchfast comment 'ignroe'; did you mean 'ignore'?"),
        ("# torchfast:", "unknown torchfast comment ''; there is ignore, skip-file"),
    ],
)
def test_what_torchfast_does_not_know_is_an_error_with_its_line(comment: str, message: str) -> None:
    with pytest.raises(FileError) as caught:
        suppress.read(Module("train.py", f"import torch\nx = 1  {comment}\n"), RULES)

    assert str(caught.value) == f"train.py:2: {message}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("site()\n", "site()  # torchfast: ignore[loader-pin]\n", id="a line"),
        pytest.param("site()", "site()  # torchfast: ignore[loader-pin]", id="a line without an end"),
        pytest.param("site()\r\n", "site()  # torchfast: ignore[loader-pin]\r\n", id="CRLF"),
        pytest.param(
            "x = site(\n    1,\n)\n", "x = site(  # torchfast: ignore[loader-pin]\n    1,\n)\n", id="several lines"
        ),
        pytest.param(
            "x = site() + \\\n    1\n", "x = site() + \\\n    1  # torchfast: ignore[loader-pin]\n", id="a line goes on"
        ),
        pytest.param(
            'site("""\n""")\n', 'site("""\n""")  # torchfast: ignore[loader-pin]\n', id="a string of several lines"
        ),
        pytest.param(
            "site()  # noqa\n", "site()  # noqa  # torchfast: ignore[loader-pin]\n", id="beside another comment"
        ),
        pytest.param(
            "site()  # torchfast: ignore[zero-grad-none] why\n",
            "site()  # torchfast: ignore[loader-pin, zero-grad-none] why\n",
            id="one more name",
        ),
        pytest.param(
            "x = site(\n    1,\n)  # torchfast: ignore[zero-grad-none]\n",
            "x = site(\n    1,\n)  # torchfast: ignore[loader-pin, zero-grad-none]\n",
            id="one more name at the end",
        ),
        pytest.param(
            "for x in site():\n    pass  # torchfast: ignore[zero-grad-none]\n",
            "for x in site():  # torchfast: ignore[loader-pin]\n    pass  # torchfast: ignore[zero-grad-none]\n",
            id="a suite has its own",
        ),
    ],
)
def test_a_comment_is_written(code: str, expected: str) -> None:
    assert suppress.with_ignores(Module("train.py", code), {1: {"loader-pin"}}) == (expected, 0)
    assert ignored(expected) != ["-"]


def test_where_no_comment_can_stand_none_is_written() -> None:
    code = 'x = """\n""" + \\\n    f"""{site()}\n"""; y = \\\n    2\n'

    assert suppress.with_ignores(Module("train.py", code), {2: {"loader-pin"}}) == (code, 1)
