"""The text of one module, its syntax tree, and where each node stands in the text."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property, update_wrapper
from operator import attrgetter
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeAlias, TypeGuard, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

FunctionNode: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
Callee: TypeAlias = "FunctionNode | ast.Lambda"
Positioned: TypeAlias = "ast.expr | ast.stmt | ast.keyword | ast.arg | ast.excepthandler | ast.alias"

Node = TypeVar("Node", bound=ast.AST)
Other = TypeVar("Other", bound=ast.AST)
Found = TypeVar("Found")
Holder = TypeVar("Holder")
Others = ParamSpec("Others")

LOOPS = (ast.For, ast.AsyncFor, ast.While)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_WITHOUT_NODES = frozenset(
    {"ctx", "op", "ops", "id", "attr", "arg", "module", "level", "asname", "kind", "simple", "is_async", "conversion"}
)
"""Fields that hold texts, numbers, or the contexts and operators, which are singletons shared by many parents."""
_FIELDS = {
    type_: tuple(each for each in type_._fields if each not in _WITHOUT_NODES and type_ is not ast.Constant)
    for type_ in vars(ast).values()
    if isinstance(type_, type) and issubclass(type_, ast.AST)
}
"""The other fields of the nodes of a class."""
LEAVES = frozenset(type_ for type_, fields in _FIELDS.items() if not fields)
"""The classes of nodes that hold no others, such as names and constants: most nodes are of one."""
_NEWLINE = re.compile(r"\r\n|\r|\n")


def kept(compute: Callable[[Node], Found]) -> Callable[[Node], Found]:
    """Computes what follows from a node alone only once, and keeps it on the node: trees are never changed."""
    name = f"{compute.__module__}.{compute.__qualname__}"

    def of(node: Node) -> Found:
        held = node.__dict__
        if name not in held:
            held[name] = compute(node)
        found: Found = held[name]
        return found

    return update_wrapper(of, compute)


def lasting(compute: Callable[Concatenate[Holder, Others], Found]) -> Callable[Concatenate[Holder, Others], Found]:
    """As ``functools.cache``, but what was computed lives only as long as the first argument, and is kept by it."""
    name = f"{compute.__module__}.{compute.__qualname__}"

    def of(holder: Holder, /, *args: Others.args, **kwargs: Others.kwargs) -> Found:
        held = holder.__dict__
        if name not in held:
            held[name] = {}
        known: dict[object, Found] = held[name]
        key = (*args, *kwargs.items()) if kwargs else args
        if key not in known:
            known[key] = compute(holder, *args, **kwargs)
        return known[key]

    update_wrapper(of, compute)
    return of


@kept
def children(node: ast.AST) -> tuple[ast.AST, ...]:
    """As ``ast.iter_child_nodes``, but for contexts and operators, which are singletons shared by many parents."""
    fields = _FIELDS[type(node)]
    if not fields:
        return ()
    found: list[ast.AST] = []
    for name in fields:
        value = getattr(node, name, None)
        if type(value) is list:
            if value:
                found += [each for each in value if isinstance(each, ast.AST)]
        elif value is not None and isinstance(value, ast.AST):
            found.append(value)
    return tuple(found)


@kept
def walk(node: ast.AST) -> tuple[ast.AST, ...]:
    """As ``ast.walk``: the node and all nodes under it, from the outside in, but for contexts and operators."""
    found = [node]
    for here in found:
        if type(here) not in LEAVES:
            found += children(here)
    return tuple(found)


@kept
def unparsed(node: ast.AST) -> str:
    """As ``ast.unparse``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
        return f"{unparsed(node.value)}.{node.attr}"
    return ast.unparse(node)


@dataclass(eq=False)
class Module:
    """One module of a project: its path as the user wrote it, its text, its tree.

    Raises:
        SyntaxError: when the text is not Python that this interpreter parses.
        ValueError: when the text holds a null byte.
        RecursionError, MemoryError: when it is nested too deeply for the parser.
    """

    path: str
    text: str
    name: str = "__main__"
    """The dotted name under which other modules of the project import it; no two of a project have the same."""
    is_package: bool = False
    """Whether it is the ``__init__`` of the package of that name."""
    local: Mapping[str, str] = field(default_factory=dict)
    """First parts of the dotted names that it imports → the name, in the project, of what they lead to there."""
    widest: int = 120
    """Columns of a line that changes make longer: a wider one is broken, where that can be done."""
    earlier: tuple[int, ...] | None = None
    """For each line the one that it was before earlier changes; None where there were none."""
    earlier_width: int = 0
    """Columns of its widest line of code before earlier changes; 0 where there were none."""
    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        with warnings.catch_warnings():
            # The warnings are about the user's code and would be printed as ours.
            warnings.simplefilter("ignore")
            self.tree = ast.parse(self.text)

    @property
    def package(self) -> str:
        """The dotted name of the package that the module is in, from which its relative imports start."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def resolved(self, target: str) -> str:
        """The name in the project, or a library's, that a dotted name in an import of this module stands for."""
        head, dot, rest = target.partition(".")
        return f"{self.local.get(head, head)}{dot}{rest}"

    @property
    def notebook(self) -> bool:
        """Whether the text is that of a notebook's cells, which are run in any order, and never imported."""
        return self.path.endswith(".ipynb")

    @cached_property
    def cell_lines(self) -> tuple[str, ...]:
        """The lines, each a statement, that stand above the cells of a notebook; none in a script.

        The first line is one, and the others differ from it by a number.
        """
        mark = self.lines[0].rstrip("0123456789")
        return tuple(each for each in self.lines if each.startswith(mark)) if self.notebook else ()

    @cached_property
    def newline(self) -> str:
        """The newline that most lines of the module end with."""
        found = _NEWLINE.findall(self.text)
        return max(set(found), key=found.count) if found else "\n"

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines without their newlines; ``lines[0]`` is line 1."""
        return tuple(_NEWLINE.split(self.text))

    @cached_property
    def _line_starts(self) -> tuple[int, ...]:
        """Byte offset, in UTF-8, at which each line starts."""
        starts = [0]
        position = 0
        offset = 0
        for match in _NEWLINE.finditer(self.text):
            offset += len(self.text[position : match.end()].encode())
            position = match.end()
            starts.append(offset)
        return tuple(starts)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Byte offsets, in the UTF-8 text, of the node's first byte and of the byte after its last.

        A decorated function or class starts at its ``def`` or ``class``, as in ``ast``.
        """
        return (
            self._line_starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self._line_starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    def shown_line(self, line: int) -> int:
        """The line, from 1, as the user knows it: where it stood before any change."""
        return line if self.earlier is None else self.earlier[line - 1]

    def line_of(self, offset: int) -> int:
        """The line, from 1, in which the byte at ``offset`` stands."""
        return bisect_right(self._line_starts, offset)

    def code(self, node: ast.AST) -> str:
        """The node's source text, as it stands in the module."""
        return self.between(*self.span(node))

    def between(self, start: int, end: int) -> str:
        """The source text between two byte offsets, which must not part a character."""
        return self._bytes[start:end].decode()

    def column(self, node: ast.AST) -> int:
        """The node's first column, in characters from 1."""
        line_start = self._line_starts[node.lineno - 1]  # type: ignore[attr-defined]
        return len(self._bytes[line_start : self.span(node)[0]].decode()) + 1

    def end_column(self, node: ast.AST) -> int:
        """The node's last column, in characters from 1, inclusive."""
        line_start = self._line_starts[node.end_lineno - 1]  # type: ignore[attr-defined]
        return len(self._bytes[line_start : self.span(node)[1]].decode())

    @cached_property
    def _bytes(self) -> bytes:
        return self.text.encode()

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        parents: dict[ast.AST, ast.AST] = {}
        todo: list[ast.AST] = [self.tree]
        while todo:
            parent = todo.pop()
            below = children(parent) if type(parent) not in LEAVES else ()
            if below:
                parents.update(dict.fromkeys(below, parent))
                todo += below
        return parents

    @cached_property
    def _in_order(self) -> dict[tuple[type[ast.AST], ...], list[ast.AST]]:
        """The nodes by type, in the order of the text: of each type alone, and of several once they are asked for."""
        found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in self._parents:
            if hasattr(node, "lineno"):
                found[type(node)].append(node)
        for nodes in found.values():
            nodes.sort(key=_position)
        return {(type_,): nodes for type_, nodes in found.items()}

    @overload
    def nodes(self, one: type[Node], /) -> Sequence[Node]: ...

    @overload
    def nodes(self, one: type[Node], other: type[Other], /) -> Sequence[Node | Other]: ...

    @overload
    def nodes(self, *types: type[Node]) -> Sequence[Node]: ...

    def nodes(self, *types: type[ast.AST]) -> Sequence[ast.AST]:
        """All nodes of exactly these types, in the order of the text."""
        if types not in self._in_order:
            several = [node for each in types for node in self._in_order.get((each,), ())]
            self._in_order[types] = sorted(several, key=_position)
        return self._in_order[types]

    @cached_property
    def stores(self) -> Mapping[str, Sequence[ast.Name | ast.Attribute]]:
        """The names and attributes that are bound, by how they are written: those of ``self.loss`` under that."""
        found: dict[str, list[ast.Name | ast.Attribute]] = {}
        for node in self.nodes(ast.Name, ast.Attribute):
            if isinstance(node.ctx, ast.Store):
                found.setdefault(unparsed(node), []).append(node)
        return found

    @cached_property
    def attribute_stores(self) -> Mapping[str, Sequence[ast.Attribute]]:
        """The attributes that are bound, of whatever object, by their own names: ``loss`` of ``self.loss``."""
        found: dict[str, list[ast.Attribute]] = {}
        for node in self.nodes(ast.Attribute):
            if isinstance(node.ctx, ast.Store):
                found.setdefault(node.attr, []).append(node)
        return found

    def assignments(self, name: ast.Name) -> Iterator[ast.Assign]:
        """Those of its function, or of the module, that bind a name."""
        for store in self.stores.get(name.id, ()):
            statement = self.statement(store)
            if isinstance(statement, ast.Assign) and self.function(store) is self.function(name):
                yield statement

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds this one, or None for the module itself."""
        return self._parents.get(node)

    def holds(self, node: ast.AST) -> bool:
        """Whether the node is one of this module's."""
        return node in self._parents

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around this one, from the inside out, without the node itself."""
        above = self._parents.get(node)
        while above is not None:
            yield above
            above = self._parents.get(above)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds the node, or is it."""
        here: ast.AST | None = node
        while here is not None and not isinstance(here, ast.stmt):
            here = self._parents.get(here)
        if here is None:
            msg = "the node stands in no statement"
            raise ValueError(msg)
        return here

    def function(self, node: ast.AST) -> FunctionNode | ast.Lambda | None:
        """The innermost function around the node, or None at module level (and in a class body there)."""
        try:
            return self._functions[node]
        except KeyError:
            pass
        parents = self._parents
        above = parents.get(node)
        while above is not None and not isinstance(above, FUNCTIONS):
            above = parents.get(above)
        self._functions[node] = above
        return above

    @cached_property
    def _functions(self) -> dict[ast.AST, FunctionNode | ast.Lambda | None]:
        """The functions around the nodes that were asked for."""
        return {}

    def suite(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements in which the statement stands."""
        parent = self._parents[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and any(each is statement for each in block):
                return block
        msg = "the statement stands in no suite"
        raise ValueError(msg)


_position = attrgetter("lineno", "col_offset")


def catches_errors(block: ast.Try, node: ast.AST) -> bool:
    """Whether a ``try`` around a node goes on after errors of it: an interrupt by the user is none."""
    caught = [ast.unparse(each.type) if each.type is not None else "" for each in block.handlers]
    return any(node in walk(each) for each in block.body) and any(each != "KeyboardInterrupt" for each in caught)


def is_name(node: ast.AST, name: str) -> TypeGuard[ast.Name]:
    """Whether the node is this name, read or written."""
    return isinstance(node, ast.Name) and node.id == name


def is_dotted_name(node: ast.AST) -> bool:
    """``model``, ``self.model``."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and is_dotted_name(node.value))


def last_name(node: ast.AST) -> str:
    """``relu`` of ``relu`` and of ``torch.relu``; nothing of what has no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_main_guard(statement: ast.AST) -> TypeGuard[ast.If]:
    """Whether the statement is ``if __name__ == "__main__":``."""
    if not isinstance(statement, ast.If) or not isinstance(statement.test, ast.Compare):
        return False
    sides = (statement.test.left, *statement.test.comparators)
    return any(is_name(side, "__name__") for side in sides)
