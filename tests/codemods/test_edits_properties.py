"""Random edits of random programs: the result is what the edits say, and nothing else changes."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codemods.dataflow.source import Module
from codemods.editing import conflicts, imports, problems
from codemods.editing.apply import apply
from codemods.editing.values import (
    AddArgument,
    AddElse,
    AddItem,
    AddParameter,
    Decorate,
    Edit,
    Import,
    Insert,
    Remove,
    RemoveArgument,
    RemoveItem,
    Rename,
    Replace,
    Surround,
    Unwrap,
    Wrap,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

# --- programs -------------------------------------------------------------------------------------------------------

EXPRESSIONS = (
    "x",
    "f()",
    "f(a, *b, k=1)",
    "f(a,)",
    "f( a )",
    "f(\n        a,  # why a\n        # k=2,\n    )",
    "f(\n        a,\n        k=g(b)  # why k\n    )",
    "f(a,\n      b,\n      k=1)",
    "f(a, b,\n      k=1)",
    "f(a, **kw)",
    "f(\n        # all of it\n        **kw,\n    )",
    "f(x for x in y)",
    "f((x for x in y))",
    "'é' + f('ü', k=g(1))",
    "(a + b).sum()",
    "(a +  # one\n     b)",
    "-x ** 2",
    "not f(a)",
    "(y := f(a))",
    "[x for x in f(a) if x]",
    "{'a': 1, 'b': f(2)}",
    '{\n        "a": 1,  # one\n        **kw,\n    }',
    "{}",
    "{'a':1,}",
    "(a, b)",
    "a if f(b) else c",
    "lambda a, b=1: f(a)",
    "x[f(a), 1:2]",
    "x[0](1)(k=2)",
    "f'{f(a)!r:>{w}}'",
    '"""one\n  two"""',
    "'a' 'b'",
    "a.b.c(d).e",
    "a < f(b) <= c",
    "a and f(b) or c",
    "1if x else[2]",
)
SIMPLE = (
    "{0}",
    "t = {0}",
    "t.u = v = {0}",
    "t += {0}",
    "assert {0}, m",
    "del t[{0}]",
    "pass",
    "import os",
    "t: int = {0}",
)
COMPOUND = (
    "if {0}:\n{body}",
    "if {0}:  # why\n{body}elif {1}:\n{body}else:\n{body}",
    "for t in {0}:\n{body}",
    "while {0}:\n{body}else:\n{body}",
    "with {0} as t:\n{body}",
    "with a, {0}:  # why\n{body}",
    "try:\n{body}except E as e:\n{body}finally:\n{body}",
    "def f(a, b=1, *c, d=2, **e):\n{body}",
    "def f():\n{body}",
    "@d({0})\ndef f(a, /, b):\n{body}",
    "@d\n# why\n@staticmethod\nasync def f(\n    a,\n    b,\n):\n{body}",
    "class C(B):\n{body}",
    "match {0}:\n    case [1, x] if {1}:\n{nested}",
)
LAYOUT = ("", "\n", "# about it\n", "\n\n# one\n\n# two\n")
ONE_LINERS = ("if x: f(a); g(b)\n", "f(a); g(b)\n", "t = \\\n    f(a)\n", "t = f(a) + \\\n    g(b)\n", "f(a);\n")


def indented(block: str, indent: str) -> str:
    """The block one level deeper; the text of its triple-quoted strings with it, which is as good as any other."""
    return "".join(indent + line if line.strip() else line for line in block.splitlines(keepends=True))


@st.composite
def blocks(draw: st.DrawFn, indent: str, depth: int = 0) -> str:
    """Some statements, each on lines of its own or not, with blank lines and comments between them."""
    parts = []
    for _ in range(draw(st.integers(1, 3 if depth else 5))):
        parts.append(draw(st.sampled_from(LAYOUT)))
        kind = draw(st.integers(0, 9))
        code = [draw(st.sampled_from(EXPRESSIONS)) for _ in range(2)]
        if kind == 0:
            parts.append(draw(st.sampled_from(ONE_LINERS)))
        elif kind > 6 and depth < 3:
            body = indented(draw(blocks(indent, depth + 1)), indent)
            template = draw(st.sampled_from(COMPOUND)).replace("\n    ", "\n" + indent)
            parts.append(template.format(*code, body=body, nested=indented(body, indent)))
        else:
            comment = draw(st.sampled_from(["", "  # note"]))
            parts.append(draw(st.sampled_from(SIMPLE)).format(*code) + comment + "\n")
    if draw(st.booleans()):
        parts.append("# last words\n")
    return "".join(parts)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A module's text that Python parses."""
    head = draw(st.sampled_from(["", "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n", '"""Docs."""\n']))
    future = draw(st.sampled_from(["", "from __future__ import annotations\n"]))
    imports = draw(st.sampled_from(["", "import os\n\nimport torch\nimport torch.nn as nn\nimport sys\n"]))
    text = head + future + imports + draw(blocks(draw(st.sampled_from(["    ", "  ", "\t"]))))
    if draw(st.booleans()):
        text = text.removesuffix("\n")
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def candidates(module: Module) -> list[Edit]:  # noqa: C901 - one case for each kind of node
    """Edits of every kind at every node of the module that may take one."""
    found: list[Edit] = [Import(module, "import copy"), Import(module, "from torch.amp import autocast")]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            found += [AddArgument(module, node, "new", "a == 1"), AddArgument(module, node, "k", "2")]
            removable: list[ast.expr | ast.keyword] = [*node.args[-1:], *node.keywords]
            found += [RemoveArgument(module, node, argument) for argument in removable]
            if node.args:
                found.append(Replace(module, node, "g({x}).h({{1: 2}})", (("x", node.args[0]),)))
        if isinstance(node, ast.List):
            found += [RemoveItem(module, node, each) for each in node.elts]
        if isinstance(node, ast.Dict):
            found.append(AddItem(module, node, "new", "b\n+ 1"))
        if isinstance(node, ast.expr):
            found += [Surround(module, node, "s(", ", 1)"), Surround(module, node, "", " / 2")]
            if isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                found += [Replace(module, node, "new"), Replace(module, node, "a + b")]
            if isinstance(node, ast.BinOp):
                holes = (("left", node.left), ("right", node.right))
                found.append(Replace(module, node, "{right} * {left}", holes))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found += [Decorate(module, node, "torch.no_grad()"), AddParameter(module, node, "new", "None")]
            found += [AddParameter(module, node, "plain"), Rename(module, node, "renamed")]
        if isinstance(node, (ast.With, ast.If)):
            found.append(Unwrap(module, node))
        if isinstance(node, ast.If):
            found += [AddElse(module, node, "five = 5"), AddElse(module, node, "six = 6", "e")]
        if isinstance(node, ast.Assign):
            found.append(Replace(module, node, "# new\nif {v}:\n    t = {v}\nelse:\n    pass", (("v", node.value),)))
        if isinstance(node, ast.stmt):
            suite = module.suite(node)
            start = [id(each) for each in suite].index(id(node))
            found += [Wrap(module, tuple(suite[start:end]), "with w:") for end in range(start + 1, len(suite) + 1)]
            found += [Insert(module, node, "one = 1", "before"), Insert(module, node, "two = 2", "after")]
            found.append(Insert(module, node, "# in\nif 3:\n    three = 3", "before", outside=False))
            found.append(Insert(module, node, "four = 4", "after", outside=False))
            found.append(Remove(module, node))
    return found


# --- what the edits say, done to the syntax tree --------------------------------------------------------------------


class _Filled(ast.NodeTransformer):
    def __init__(self, holes: Mapping[str, ast.expr]) -> None:
        self.holes = holes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.holes.get(node.id, node)


class _Edited(ast.NodeTransformer):
    """Does to the tree, node by node, what the edits ask for."""

    def __init__(self, module: Module, edits: tuple[Edit, ...]) -> None:
        self.edits = edits
        self.done: dict[ast.AST, Any] = {}
        """What each node of the source has become."""
        self.marks: dict[ast.AST, tuple[str, ast.stmt]] = {}
        """Of inserted statements: on which side of which statement."""
        self.source: set[ast.AST] = set(ast.walk(module.tree))
        self.places = {each.code: imports.import_place(module, each.code) for each in edits if isinstance(each, Import)}
        """Where the imports go, by the source: that the docstring is replaced moves none."""

    def visit(self, node: ast.AST) -> Any:
        suites = {
            name: list(value)
            for name, value in ast.iter_fields(node)
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt)
        }
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
            elif isinstance(value, list):
                value[:] = [self.visit(each) if isinstance(each, ast.AST) else each for each in value]
        for name, suite in suites.items():
            setattr(node, name, self.suite(node, suite))
        new = self.edited(node)
        self.done[node] = new
        return new

    def edited(self, node: ast.AST) -> Any:  # noqa: C901 - one case for each kind of edit
        new: Any = node
        for edit in self.edits:
            match edit:
                case RemoveArgument(_, call, argument) if call is node:
                    (new.keywords if isinstance(argument, ast.keyword) else new.args).remove(self.done[argument])
                case RemoveItem(_, display, item) if display is node:
                    new.elts.remove(self.done[item])
                case AddItem(_, dictionary, key, value) if dictionary is node:
                    new.keys.append(ast.Constant(key))
                    new.values.append(ast.parse(f"({value})", mode="eval").body)
                case AddParameter(_, function, name, default) if function is node:
                    if default is None and new.args.defaults:
                        new.args.kwonlyargs.append(ast.arg(name))
                        new.args.kw_defaults.append(None)
                    else:
                        new.args.args.append(ast.arg(name))
                        new.args.defaults += [] if default is None else [ast.parse(default, mode="eval").body]
                case Decorate(_, function, decorator) if function is node:
                    new.decorator_list.append(ast.parse(decorator, mode="eval").body)
                case Rename(_, function, name) if function is node:
                    new.name = name
        for edit in self.edits:
            if isinstance(edit, AddArgument) and edit.call is node:
                keyword = ast.keyword(edit.name, ast.parse(edit.value, mode="eval").body)
                at = next((at for at, each in enumerate(new.keywords) if each.arg is None), len(new.keywords))
                new.keywords.insert(at, keyword)
        for edit in self.edits:
            match edit:
                case Replace(_, ast.expr() as place, template, holes) if place is node:
                    new = self.filled(template, holes).body[0].value
                case Surround(_, place, before, after) if place is node:
                    new = _Filled({"it": new}).visit(ast.parse(f"{before}it{after}", mode="eval")).body
        return new

    def filled(self, template: str, holes: tuple[tuple[str, ast.expr], ...]) -> Any:
        names = {name: f"hole_{name}" for name, _ in holes}
        filled = {names[name]: copy.deepcopy(self.done[hole]) for name, hole in holes}
        return _Filled(filled).visit(ast.parse(template.format_map(names)))

    def suite(self, owner: ast.AST, suite: list[ast.stmt]) -> list[ast.stmt]:  # noqa: C901 - edits in their order
        here = [edit for edit in self.edits if self.anchor(edit) in suite]
        if isinstance(owner, ast.Module):
            here += [edit for edit in self.edits if isinstance(edit, Import)]
        result: list[Any] = list(suite)
        top: list[ast.stmt] = []
        # Imports first, then what stands inside, the wraps from the inside out, and what stands outside of them.
        for edit in here:
            if isinstance(edit, Import):
                match self.places[edit.code]:
                    case ("after", anchor):
                        self.insert(result, anchor, "after", edit.code, outside=False)
                    case _:
                        top += ast.parse(edit.code).body
        for edit in here:
            if isinstance(edit, Insert) and not edit.outside:
                self.insert(result, edit.anchor, edit.where, edit.code, outside=edit.outside)
        wraps = [edit for edit in here if isinstance(edit, Wrap)]
        for wrap in sorted(wraps, key=lambda wrap: len(wrap.statements)):
            first = next(at for at, each in enumerate(result) if wrap.statements[0] in self.under(each))
            last = next(at for at, each in enumerate(result) if wrap.statements[-1] in self.under(each))
            while any(self.inserted(each, "before", wrap.statements[0]) for each in result[:first][-1:]):
                first -= 1
            while any(self.inserted(each, "after", wrap.statements[-1]) for each in result[last + 1 :][:1]):
                last += 1
            wrapper: Any = ast.parse(f"{wrap.header}\n    pass").body[0]
            wrapper.body = result[first : last + 1]
            result[first : last + 1] = [wrapper]
        for edit in here:
            if isinstance(edit, Insert) and edit.outside:
                self.insert(result, edit.anchor, edit.where, edit.code, outside=edit.outside)
        changed = top + self.expanded(result, here)
        return changed or ([] if isinstance(owner, ast.Module) else [ast.Pass()])

    def insert(self, result: list[Any], anchor: ast.stmt, where: str, code: str, *, outside: bool) -> None:
        at = next(at for at, each in enumerate(result) if anchor in self.under(each))
        if result[at] is not anchor and self.edge(result[at], where) is not anchor:
            self.insert(result[at].body, anchor, where, code, outside=outside)
            return
        while where == "before" and at and self.inserted(result[at - 1], "before", anchor) and outside:
            at -= 1
        if where == "after":
            at += 1
            while at < len(result) and self.marks.get(result[at], ("", None))[1] is anchor:
                at += 1
        new = ast.parse(code).body
        self.marks |= dict.fromkeys(new, (where if not outside else f"{where} all", anchor))
        result[at:at] = new

    def edge(self, node: Any, where: str) -> ast.AST:
        """The statement of the source that a new wrap starts or ends with."""
        edge: ast.AST = node
        while isinstance(edge, ast.With) and edge not in self.source:
            wrapped = [each for each in edge.body if each not in self.marks]
            edge = wrapped[0 if where == "before" else -1]
        return edge

    def inserted(self, node: ast.AST, where: str, anchor: ast.stmt) -> bool:
        return self.marks.get(node) == (where, anchor)

    def under(self, node: ast.AST) -> list[ast.AST]:
        return list(ast.walk(node))

    def anchor(self, edit: Edit) -> ast.AST | None:
        """The statement that the edit moves, changes or stands beside."""
        match edit:
            case Insert(_, anchor):
                return anchor
            case Wrap(_, statements):
                return statements[0]
            case Unwrap(_, statement) | Remove(_, statement) | Replace(_, ast.stmt() as statement):
                return statement
            case AddElse(_, statement):
                return statement
        return None

    def expanded(self, result: list[Any], here: list[Edit]) -> list[Any]:
        """The statements with the removed, replaced and unwrapped ones gone, also inside new wraps."""
        new: list[Any] = []
        for statement in result:
            lines = [statement]
            for edit in here:
                match edit:
                    case Unwrap(_, place) if place is statement:
                        lines = statement.body
                    case Remove(_, place) if place is statement:
                        lines = []
                    case AddElse(_, place, code, test) if place is statement:
                        self.add_branch(statement, code, test)
                    case Replace(_, place, template, holes) if place is statement:
                        lines = self.filled(template, holes).body
            if isinstance(statement, ast.With) and statement not in self.source:
                statement.body = self.expanded(statement.body, here) or [ast.Pass()]
            new += lines
        return new

    @staticmethod
    def add_branch(statement: ast.If, code: str, test: str) -> None:
        found: Any = ast.parse(f"if a:\n    pass\n{f'elif {test}' if test else 'else'}:\n    {code}").body[0]
        if not statement.orelse:
            statement.orelse = found.orelse
        elif test and isinstance(statement.orelse[0], ast.If):
            statement.orelse[0].body += found.orelse[0].body
        else:
            statement.orelse += found.orelse


def expectation(module: Module, edits: tuple[Edit, ...]) -> str:
    """A dump of the tree with the edits done to it. The module cannot be used afterwards."""
    return ast.dump(_Edited(module, edits).visit(module.tree))


# --- the properties -------------------------------------------------------------------------------------------------


def parsed(text: str) -> Module | None:
    """The module, or None where the templates made no valid program."""
    try:
        compile(text, "program", "exec", dont_inherit=True)
        return Module("program.py", text)
    except SyntaxError:
        return None


def possible(module: Module) -> list[Edit]:
    return [edit for edit in candidates(module) if problems.problem(edit) is None]


# Programs are large, so that drawing them is slow; the deadline is the test run's.
MANY = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@MANY
@given(programs(), st.data())
def test_accepted_edits_are_carried_out_together(text: str, data: st.DataObject) -> None:
    module = parsed(text)
    if module is None:
        return
    everything = possible(module)
    accepted = conflicts.Accepted()
    for edit in data.draw(st.lists(st.sampled_from(everything), max_size=12)):
        accepted.add([edit])
    result = apply(module, accepted.edits)
    assert ast.dump(ast.parse(result)) == expectation(module, accepted.edits)


@MANY
@given(programs(), st.data())
def test_one_edit_changes_only_the_lines_it_touches(text: str, data: st.DataObject) -> None:
    module = parsed(text)
    if module is None:
        return
    edit = data.draw(st.sampled_from(possible(module)))
    check_lines(module, edit, apply(module, [edit]))


def check_lines(module: Module, edit: Edit, result: str) -> None:
    """Every line outside the touched ones is there as it was."""
    first, last = conflicts.touched_lines(edit)
    # A missing final newline stays missing: it is no line's.
    end = "" if module.text.endswith(("\r", "\n")) else module.newline
    before, after = (module.text + end).splitlines(keepends=True), (result + end).splitlines(keepends=True)
    above, below = before[: first - 1], before[last:]
    assert after[: len(above)] == above
    assert after[len(after) - len(below) :] == below
    if isinstance(edit, Wrap):
        moved = [line.strip() for line in before[first - 1 : last]]
        assert [line.strip() for line in after[first - 1 :]][1 : len(moved) + 1] == moved
        assert sum(line.rstrip("\r\n") != line.rstrip() for line in after) <= sum(
            line.rstrip("\r\n") != line.rstrip() for line in before
        )
