"""Expressions that are put into templates, with parentheses where they need them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Mapping


# What binds at least as tightly as a call, whatever stands around it.
ATOMS = (
    cst.Attribute,
    cst.Call,
    cst.Dict,
    cst.DictComp,
    cst.Ellipsis,
    cst.FormattedString,
    cst.List,
    cst.ListComp,
    cst.Name,
    cst.Set,
    cst.SetComp,
    cst.SimpleString,
    cst.Subscript,
)
# What needs parentheses of its own wherever it is put.
LOOSE = (cst.GeneratorExp, cst.NamedExpr, cst.Tuple, cst.Yield)
# Where any other expression may stand without parentheses.
_ROOMY = (
    ast.AnnAssign,
    ast.Assert,
    ast.Assign,
    ast.AugAssign,
    ast.Expr,
    ast.If,
    ast.List,
    ast.Raise,
    ast.Return,
    ast.Set,
    ast.Tuple,
    ast.While,
)
_PLACEHOLDER = "_hole_of_torchfast_"


def with_placeholders(template: str, holes: Mapping[str, object]) -> str:
    """The template with a name in each hole."""
    return template.format_map({name: _PLACEHOLDER + name for name in holes})


def braced(text: str) -> str:
    """The text as a template without holes."""
    return text.replace("{", "{{").replace("}", "}}")


class Fill(cst.CSTTransformer):
    """Puts expressions in the place of the placeholders, with the parentheses they need there."""

    def __init__(self, holes: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.holes = {_PLACEHOLDER + name: node for name, node in holes.items()}
        self.bracketed: set[cst.CSTNode | None] = set()
        """Nodes of the template where a line may break and any expression may stand."""
        self.roomy: set[cst.CSTNode | None] = set()
        """Nodes of the template where any expression may stand."""

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Notes where any expression may stand without parentheses."""
        match node:
            case cst.Arg(value=value, star="") | cst.Index(value=value):
                self.bracketed.add(value)
            case cst.Assign(value=value) | cst.AnnAssign(value=value) | cst.AugAssign(value=value):
                self.roomy.add(value)
            case cst.Return(value=value) | cst.Expr(value=value) | cst.Element(value=value):
                self.roomy.add(value)
            case cst.If(test=value) | cst.While(test=value):
                self.roomy.add(value)
        return True

    def leave_Name(  # noqa: N802 - LibCST's name
        self, original_node: cst.Name, updated_node: cst.Name
    ) -> cst.BaseExpression:
        """Puts the expression in the place of its hole."""
        node = self.holes.get(updated_node.value)
        if node is None:
            return updated_node
        if node.lpar or updated_node.lpar:
            return node.with_changes(lpar=[*updated_node.lpar, *node.lpar], rpar=[*node.rpar, *updated_node.rpar])
        if original_node in self.bracketed:
            return parenthesized(node) if isinstance(node, LOOSE) else node
        fits = isinstance(node, ATOMS) or (original_node in self.roomy and not isinstance(node, LOOSE))
        return node if fits and _stands_alone(node) else parenthesized(node)


def _stands_alone(node: cst.BaseExpression) -> bool:
    """Whether the expression's lines hold together without parentheses around them."""
    code = cst.Module([]).code_for_node(node)
    if "\n" not in code:
        return True
    try:
        ast.parse(code, mode="eval")
    except SyntaxError:
        return False
    return True


def is_roomy(parent: ast.AST | None, place: ast.expr) -> bool:
    """Whether any expression but the loosest may stand at the place without parentheses."""
    match parent:
        case ast.Call(func=part):
            return part is not place
        case ast.Subscript(slice=part):
            return part is place
        case ast.keyword(arg=name):
            return name is not None
        case ast.For(iter=part) | ast.AsyncFor(iter=part):
            return part is place
        case ast.Dict(keys=keys):
            return None not in keys
    return isinstance(parent, _ROOMY)


def parenthesized(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression with parentheses around it."""
    return node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()])


def without_parentheses(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression as ast sees it: only tuples and generators own parentheses."""
    if isinstance(node, (cst.Tuple, cst.GeneratorExp)):
        return node.with_changes(lpar=node.lpar[-1:], rpar=node.rpar[:1])
    return node.with_changes(lpar=(), rpar=())


def value(text: str) -> cst.BaseExpression:
    """An expression that is to stand between brackets; it may run over several lines."""
    node = cst.parse_expression(f"({text}\n)")
    node = node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[:-1])
    return parenthesized(node) if isinstance(node, LOOSE) and not node.lpar else node
