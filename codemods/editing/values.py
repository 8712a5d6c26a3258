"""The edits a codemod can ask for, as values: what is to change, not how.

Every edit names the module it belongs to and nodes of that module's syntax tree. Edits are compared by value (their
nodes by identity), so that an edit that two findings share is one edit. ``apply.py`` carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import ast

    from codemods.dataflow.source import FunctionNode, Module
    from codemods.editing.docstrings import Described


@dataclass(frozen=True, slots=True)
class AddArgument:
    """``f(a)`` → ``f(a, name=value)``, before ``**kwargs``, on a line of its own where each argument has one."""

    module: Module
    call: ast.Call
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveArgument:
    """``f(a, name=value)`` → ``f(a)``, with the comment on its line.

    The argument is one of ``call.keywords`` or the last of ``call.args``.
    """

    module: Module
    call: ast.Call
    argument: ast.keyword | ast.expr


@dataclass(frozen=True, slots=True)
class AddItem:
    """``{'a': 1}`` → ``{'a': 1, 'key': value}``, at the end, with the quotes of the dictionary's other keys."""

    module: Module
    dictionary: ast.Dict
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class RemoveItem:
    """``[a, b]`` → ``[a]``, with the comment on its line."""

    module: Module
    display: ast.List
    item: ast.expr


@dataclass(frozen=True, slots=True)
class AddParameter:
    """``def f(a)`` → ``def f(a, name)``, before ``*args``, keyword-only parameters and ``**kwargs``.

    Where it has no default, and others have one, it can only be passed by its name: ``def f(a=1)`` →
    ``def f(a=1, *, name)``. ``before_defaults``: it stands before those, ``def f(name, a=1)``, which is right where no
    call passes them by position. A docstring that describes the parameters describes it, too, where ``described`` is
    given.
    """

    module: Module
    function: FunctionNode
    name: str
    default: str | None = None
    before_defaults: bool = False
    described: Described | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """The node becomes ``template``; each ``{hole}`` in it is the (possibly edited) text of a node inside it.

    Braces that are no hole are doubled, as in ``str.format``. A statement becomes one statement or several lines.
    Parentheses are added where the expression, or what is in a hole, needs them.
    """

    module: Module
    node: ast.expr | ast.stmt
    template: str
    holes: tuple[tuple[str, ast.expr], ...] = ()
    comments_go_along: bool = False
    """The comments inside stand in the template, or with the node in a statement that another edit inserts."""


@dataclass(frozen=True, slots=True)
class Surround:
    """The expression becomes ``before + expression + after``: ``loss`` → ``scaler.scale(loss)``."""

    module: Module
    node: ast.expr
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Insert:
    """One or more whole statements directly before or after a statement, at its indentation.

    Comments above the statement stay above what is inserted before it.

    ``outside`` says on which side of an edge that a ``Wrap`` of the same round shares with the statement they land,
    unless that wrap takes along what stands there.
    """

    module: Module
    anchor: ast.stmt
    code: str
    where: Literal["before", "after"]
    outside: bool = True


@dataclass(frozen=True, slots=True)
class AddElse:
    """``else:`` with whole statements, below an ``if`` that has none; ``elif test:`` where there is a test.

    Several with the same test share one.
    """

    module: Module
    statement: ast.If
    code: str
    test: str = ""


@dataclass(frozen=True, slots=True)
class Wrap:
    """Neighbouring statements of one suite go, indented, under ``header`` (``with torch.no_grad():``).

    Comments above the first statement stay above the header, and what is inserted on its edges stays outside, unless
    that was asked to be inside. ``takes_along``: the comments next to the first statement go along, and so does
    whatever is inserted on the edges. Of two wraps of the same statements the later one is outside.
    """

    module: Module
    statements: tuple[ast.stmt, ...]
    header: str
    takes_along: bool = False


@dataclass(frozen=True, slots=True)
class Unwrap:
    """A ``with`` or ``if`` without ``else`` goes; its body stays, one level less indented."""

    module: Module
    statement: ast.With | ast.If


@dataclass(frozen=True, slots=True)
class Remove:
    """The statement goes, with the comment on its line; comments above it stay, an emptied suite keeps a ``pass``.

    ``with_heading``: comments next to it go, too, where they stand above nothing but statements that are removed, and
    speak to no tool.
    """

    module: Module
    statement: ast.stmt
    with_heading: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """The statement goes to before ``anchor``, a statement around it, with the comments next to it.

    The comments next to the anchor stay with that. Several that go before one anchor keep their order.
    """

    module: Module
    statement: ast.stmt
    anchor: ast.stmt


@dataclass(frozen=True, slots=True)
class Decorate:
    """``@decorator`` (given without the ``@``) becomes the innermost decorator of the function."""

    module: Module
    function: FunctionNode
    decorator: str


@dataclass(frozen=True, slots=True)
class Rename:
    """``def f(a)`` → ``def name(a)``: the definition alone, not who calls it."""

    module: Module
    function: FunctionNode
    name: str


@dataclass(frozen=True, slots=True)
class Import:
    """An import statement at module level.

    It goes after the first imports of the same package, else after the first imports of all, else after the docstring
    and the ``__future__`` imports.
    """

    module: Module
    code: str


@dataclass(frozen=True, slots=True)
class ImportName:
    """``from package import name``.

    The name joins the first statement of the module's top that imports from the package, in the order of the names
    there; several of one package stand in one new statement where there is none, or where its line would get too wide.
    """

    module: Module
    package: str
    name: str


Edit: TypeAlias = (
    "AddArgument | RemoveArgument | AddItem | RemoveItem | AddParameter | Replace | Surround | Insert | AddElse | Wrap"
    " | Unwrap | Remove | Move | Decorate | Rename | Import | ImportName"
)
