"""What the interpretation asks of whoever knows the libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import ast

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Arguments, Value, Values


class Semantics(Protocol):
    """What the libraries do: the part of the interpretation that knows PyTorch."""

    def call(self, flow: Flow, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        """What a call of a library's function, class, object or method returns."""

    def attribute(self, flow: Flow, owner: Value, name: str) -> Values:
        """What an attribute of a library's thing is, or one that the project's class does not define."""

    def item(self, flow: Flow, owner: Value, node: ast.Subscript) -> Values:
        """What a subscript of a library's thing is."""

    def iterate(self, flow: Flow, owner: Value, node: ast.AST) -> Values:
        """What the elements are that iterating over a library's thing yields."""

    def entered(self, flow: Flow, value: Value) -> Values:
        """What ``with value as name`` binds."""

    def operation(self, flow: Flow, node: ast.BinOp | ast.AugAssign, left: Values, right: Values) -> Values | None:
        """What an operation makes of values, where it does more than to compute with them; None where not."""

    def operand(self, flow: Flow, value: Value) -> Value:
        """What a value is to an operator, such as ``*``."""

    def fills_parameters(self, decorator: Value) -> bool:
        """Whether a decorator fills the function's parameters with what the user chooses."""

    def may_be_called(self, value: Value) -> bool:
        """Whether the value may take the place of a method."""

    def is_configuration(self, base: str) -> bool:
        """Whether objects of the library's class hold what the user chooses."""
