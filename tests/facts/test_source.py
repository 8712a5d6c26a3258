from __future__ import annotations

import ast

import pytest

from codemods.dataflow.source import Module, is_main_guard, kept


def statement(text: str) -> tuple[Module, ast.stmt]:
    module = Module("m.py", text)
    return module, module.tree.body[-1]


@pytest.mark.parametrize(
    ("text", "newline"),
    [
        pytest.param("a\nb\n", "\n", id="unix"),
        pytest.param("a\r\nb\r\n", "\r\n", id="windows"),
        pytest.param("a\r\nb\nc\r\n", "\r\n", id="what most lines end with"),
        pytest.param("a", "\n", id="one line without an end"),
    ],
)
def test_the_newline_of_a_module(text: str, newline: str) -> None:
    assert Module("m.py", text).newline == newline


@pytest.mark.parametrize(
    ("text", "code", "column", "end_column"),
    [
        pytest.param("x = 1\ny = 2", "y = 2", 1, 5, id="plain"),
        pytest.param("x = 'é'; y = 'ß'", "y = 'ß'", 10, 16, id="characters of two bytes"),
        pytest.param("x = 1\r\ny = (\r\n2)\r\n", "y = (\r\n2)", 1, 2, id="windows newlines"),
        pytest.param(
            "def f():\n\n    return 'ü', (\n  3)", "def f():\n\n    return 'ü', (\n  3)", 1, 4, id="several lines"
        ),
        pytest.param("@d\ndef f(): pass", "def f(): pass", 1, 13, id="a decorated function starts at its def"),
        pytest.param("\f\ny = 2", "y = 2", 1, 5, id="after a form feed on a line of its own"),
    ],
)
def test_where_a_node_stands(text: str, code: str, column: int, end_column: int) -> None:
    module, node = statement(text)
    assert module.code(node) == code
    assert module.column(node) == column
    assert module.end_column(node) == end_column
    start, end = module.span(node)
    assert text.encode()[start:end].decode() == code
    assert module.line_of(start) == node.lineno


def test_lines_have_no_newlines() -> None:
    assert Module("m.py", "a\r\nb\n").lines == ("a", "b", "")


def test_nodes_come_in_the_order_of_the_text() -> None:
    module = Module("m.py", "f(g(1))\nclass A:\n    def m(self): h()\nasync def k(): pass\ndef n(): pass\n")
    assert [ast.unparse(each.func) for each in module.nodes(ast.Call)] == ["f", "g", "h"]
    assert [each.name for each in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef)] == ["m", "k", "n"]
    assert module.nodes(ast.Lambda) == []


def test_parents_and_what_is_around() -> None:
    module = Module("m.py", "def f():\n    if a:\n        b\n    else:\n        c\n")
    name = next(each for each in module.nodes(ast.Name) if each.id == "c")
    inner = module.statement(name)
    assert [type(each).__name__ for each in module.ancestors(name)] == ["Expr", "If", "FunctionDef", "Module"]
    assert module.function(name) is module.tree.body[0]
    assert module.function(module.tree.body[0]) is None
    branch = module.parent(inner)
    assert isinstance(branch, ast.If)
    assert module.suite(inner) is branch.orelse
    assert module.holds(name)
    assert not module.holds(ast.Name("c"))
    assert module.parent(module.tree) is None


def test_what_stands_in_no_statement() -> None:
    module = Module("m.py", "x = 1")
    with pytest.raises(ValueError, match="no statement"):
        module.statement(module.tree)
    handler = Module("m.py", "match x:\n    case 1: pass")
    case = handler.nodes(ast.Pass)[0]
    with pytest.raises(ValueError, match="no suite"):
        module_suite(handler, case)


def module_suite(module: Module, statement_: ast.stmt) -> list[ast.stmt]:
    """The suite of a statement, under another parent than it has."""
    module._parents[statement_] = module.tree
    return module.suite(statement_)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if __name__ == '__main__': pass", True),
        ('if "__main__" == __name__: pass', True),
        ("if name == '__main__': pass", False),
        ("if __name__: pass", False),
        ("while __name__ == '__main__': pass", False),
    ],
)
def test_the_main_guard(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert is_main_guard(statement(text)[1]) is expected


def test_user_codes_own_warnings_are_not_ours(recwarn: pytest.WarningsRecorder) -> None:
    Module("m.py", "x = '\\d'\nassert (1, 'always')\n")
    assert not recwarn.list


@pytest.mark.parametrize("text", ["x = = 1", "print 'x'", "\0"])
def test_what_is_not_python_is_refused(text: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        Module("m.py", text)


class Long:
    @staticmethod
    def name(node: ast.AST) -> str:
        return type(node).__name__


class Short:
    @staticmethod
    def name(node: ast.AST) -> str:
        return type(node).__name__[:1]


def test_what_two_functions_of_one_name_keep_is_kept_apart() -> None:
    tree = ast.parse("x")
    assert (kept(Long.name)(tree), kept(Short.name)(tree)) == ("Module", "M")
