"""Which torch does the script's own code ask for: what it asserts of ``torch.__version__``, and what it uses."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting
from codemods.dataflow.values import External, Method, library_names
from codemods.facts.target import Target
from codemods.library.fused import FUSED
from codemods.library.introduced import introduced, names
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.target import Version

_VERSIONS = frozenset({"torch.__version__", "torch.version.__version__"})
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_DENIED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


@lasting  # each module of a script asks, in each round
def asserted(flow: Flow, modules: tuple[Module, ...]) -> Sequence[Target]:
    """What the statements at the top of modules demand: ``assert torch.__version__.startswith("1.")`` and the like."""
    return [*_asserted(flow, modules)]


def _asserted(flow: Flow, modules: Iterable[Module]) -> Iterator[Target]:
    for module in modules:
        for statement in module.tree.body:
            if isinstance(statement, ast.Assert):
                test, holds = statement.test, True
            elif isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise):
                test, holds = statement.test, False
            else:
                continue
            target = _demanded(flow, test, holds=holds)
            if target is not None:
                source = f"{module.path}, line {statement.lineno}: {ast.unparse(test)}"
                yield Target(target.known, target.below, source)


def newest_used(flow: Flow, modules: Iterable[Module]) -> Version:
    """The torch that everything exists in which the modules name, wherever they do."""
    found: set[Version] = {(0, 0)}
    last = {each.rpartition(".")[2] for each in names()}
    for module in modules:
        for statement in module.nodes(ast.ImportFrom, ast.Import):
            package = f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""
            found |= {introduced(f"{package}{each.name}") for each in statement.names}
        for node in module.nodes(ast.Attribute):
            if node.attr in last:
                found |= {introduced(_qualified(flow, each)) for each in flow.values(node)}
        for call in module.nodes(ast.Call):
            if any(each.arg == "fused" for each in call.keywords):
                found |= {FUSED[each.name].since for each in flow.values(call.func) if each.name in FUSED}
    return max(found)


def _qualified(flow: Flow, value: Value) -> str:
    """The library's name of what is named; of a method that every model has, torch's."""
    if isinstance(value, Method) and value.site is None and value.of is not None:
        return f"torch.nn.Module.{value.name}" if kind(flow, value.of) is Kind.MODEL else ""
    return value.name if isinstance(value, External) else ""


def _demanded(flow: Flow, test: ast.expr, *, holds: bool) -> Target | None:
    """What has to be so of torch where a test holds, or does not."""
    match test:
        case ast.UnaryOp(ast.Not(), operand):
            return _demanded(flow, operand, holds=not holds)
        case ast.Call(ast.Attribute(subject, "startswith"), [ast.Constant(str(text))]) if holds:
            return _compared(text.rstrip("."), ast.Eq) if _is_version(flow, subject) else None
        case ast.Compare(left, [operator], [right]):
            kind = type(operator)
            if _text(left) is not None:
                left, right, kind = right, left, _MIRRORED.get(kind, kind)
            written, is_major = _text(right), _is_major(flow, left)
            if written is None or not (is_major or _is_version(flow, left)):
                return None
            kind = kind if holds else _DENIED.get(kind, kind)
            return _compared(written.partition(".")[0] if is_major else written, kind)
    return None


def _is_version(flow: Flow, node: ast.expr) -> bool:
    """Whether it is torch's version, as it is or parsed: ``LooseVersion(torch.__version__)``."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        return _is_version(flow, node.args[0])
    return bool(library_names(flow.values(node)) & _VERSIONS)


def _is_major(flow: Flow, node: ast.expr) -> bool:
    """Whether it is the first number of the version: ``int(torch.__version__.split(".")[0])``."""
    match node:
        case ast.Call(ast.Name("int"), [inner]):
            return _is_major(flow, inner)
        case ast.Subscript(ast.Call(ast.Attribute(subject, "split"), [ast.Constant(".")]), ast.Constant(0)):
            return _is_version(flow, subject)
        case ast.Subscript(subject, ast.Constant(0)):
            return _is_version(flow, subject)
        case ast.Attribute(ast.Call(_, [subject]), "major"):
            return _is_version(flow, subject)
    return False


def _text(node: ast.expr) -> str | None:
    """A version that is written out: ``"1.3.1"``, ``1``, ``Version("1.3.1")``."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        node = node.args[0]
    written = str(node.value) if isinstance(node, ast.Constant) and type(node.value) in {str, int} else ""
    return written if re.match(r"\d+(\.\d+)*", written) else None


def _compared(text: str, operator: type[ast.cmpop]) -> Target | None:
    """``1.3.1`` and a comparison as a target; of an old torch, a mere lower bound says nothing."""
    parts: list[str | None] = [*re.findall(r"\d+", text)[:3], None, None]
    major, minor, patch, *_ = parts
    version = int(major or 0), int(minor or 0)
    following = (version[0] + 1, 0) if minor is None else (version[0], version[1] + 1)
    if operator is ast.Eq:
        return Target(version if minor is not None or version >= (2, 0) else None, following)
    if operator is ast.LtE or (operator is ast.Lt and patch not in {None, "0"}):
        return Target(None, following)
    if operator is ast.Lt:
        return Target(None, version)
    return Target(version) if operator in {ast.Gt, ast.GtE} and version >= (2, 0) else None
