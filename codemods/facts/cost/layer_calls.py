"""How often does a forward pass run a layer that the model keeps, and does the model's code multiply by more?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import walk
from codemods.dataflow.values import Function, Unknown, library_names
from codemods.facts.loops import module_of
from codemods.facts.precision.tf32 import multiplies_vector
from codemods.library.kinds import Kind, kind
from codemods.library.weights import multiplies_nothing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.facts.script import Script

_MULTIPLIES = frozenset(
    f"torch.{name}"
    for name in (
        *("matmul", "bmm", "mm", "mv", "einsum", "inner", "tensordot", "chain_matmul", "linalg.multi_dot", "fft.fft2"),
        *("baddbmm", "addbmm", "addmm", "addmv"),
    )
) | {
    f"torch.nn.functional.{name}"
    for name in (
        *("linear", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "bilinear", "interpolate", "upsample"),
        *("scaled_dot_product_attention", "multi_head_attention_forward", "unfold", "fold", "pixel_shuffle"),
    )
}
"""Functions that multiply by more than the layers show, or make images larger."""
_HARMLESS = frozenset({"torch", "builtins", "math", "numpy", "random", "einops", "functools", "itertools", "typing"})
"""Packages whose other functions compute little."""
_METHODS = frozenset({"matmul", "bmm", "mm", "mv", "inner", "baddbmm", "addbmm", "addmm", "addmv"})
_REPEATS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.GeneratorExp)
_PARTS = words("children named_children modules named_modules parameters named_parameters buffers named_buffers")
"""Methods of a model that go over what it is made of."""
_LOOKING = frozenset(
    f"builtins.{name}" for name in words("len int float str bool isinstance print range round min max hasattr type")
) | frozenset(f"torch.{name}" for name in words("zeros ones empty full rand randn arange"))
"""Functions that run nothing of what they are given."""
_SHAPING = words(
    """
    view reshape expand repeat permute transpose unsqueeze squeeze size narrow chunk split unflatten
    new new_zeros new_ones new_empty new_full
    """
)
"""Methods of tensors that are given sizes."""


class LayerCalls:
    """What the methods of models run."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._flow = script.flow

    def most(self, class_: ast.ClassDef) -> int | None:
        """How often a layer that the class keeps is called in a forward pass; None where other code multiplies."""
        calls: dict[str, int] = {}
        again: set[str] = set()
        for method in self._methods(class_):
            if self._computes_more(method, {method}):
                return None
            for node in walk(method):
                if isinstance(node, _REPEATS):
                    if not _is_over_layers(node):
                        return None
                    again.update(ast.unparse(each.func) for each in repeated(node))
                if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("self."):
                    name = ast.unparse(node.func)
                    is_model = any(kind(self._flow, each) is Kind.MODEL for each in self._flow.values(node.func))
                    calls[name] = calls.get(name, 0) + is_model
        weighty = {
            name: count for name, count in calls.items() if not self._is_empty(class_, name.removeprefix("self."))
        }
        is_shared = any(weighty.get(name) for name in again)
        return None if is_shared else max([1, *weighty.values()])

    def may_run(self, class_: ast.ClassDef, name: str) -> bool:
        """Whether what the class's objects keep under a name may be a layer that a forward pass runs.

        What is only computed with, given to layers as a size, or asked for its attributes is none. What the forward
        pass of a class of a library does is not known.
        """
        if not any(each.name == "forward" for each in self._methods(class_)):
            return True
        for module in self._flow.modules:
            if any(isinstance(each.func, ast.Attribute) and each.func.attr == name for each in module.nodes(ast.Call)):
                return True
        for method in self._methods(class_):
            module = module_of(self._flow, method)
            for node in walk(method):
                if not isinstance(node, ast.Attribute) or node.attr != name or not isinstance(node.ctx, ast.Load):
                    continue
                if not self._is_looked_at(module, node):
                    return True
        return False

    def _methods(self, class_: ast.ClassDef) -> Iterator[FunctionNode]:
        """What may run when an object of the class is called: all but what only the constructor runs."""
        for base in self._flow.project_bases(class_):
            for method in base.body:
                if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    continue
                if not self._only_builds(method, {method}):
                    yield method

    def _only_builds(self, function: Callee, seen: set[ast.AST]) -> bool:
        """Whether it is a constructor, or a method that nothing but constructors calls, such as ``_make_layer``."""
        if isinstance(function, ast.Lambda) or function.name in {"forward", "__call__"}:
            return False
        if function.name == "__init__":
            return True
        calls = self._flow.callers(function)
        if not calls or self._flow.escapes(function):
            return False
        for call in calls:
            caller = module_of(self._flow, call).function(call)
            if caller is None or (caller not in seen and not self._only_builds(caller, seen | {caller})):
                return False
        return True

    def _is_looked_at(self, module: Module, node: ast.expr) -> bool:
        """Whether an expression is only computed with, tested, or asked for its attributes: it runs no layer."""
        above = module.parent(node)
        while isinstance(above, ast.Attribute):
            node, above = above, module.parent(above)
        match above:
            case ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.If() | ast.While() | ast.FormattedValue():
                return True
            case ast.IfExp(test):
                return test is node
            case ast.Subscript(_, index):
                return index is node
            case ast.Call(ast.Attribute(attr=method)) if method in _SHAPING:
                return above.func is not node
            case ast.Call(function):
                names = {each.name for each in self._flow.values(function)}
                return function is not node and bool(names) and names <= _LOOKING
        return False

    def _computes_more(self, function: Callee, seen: set[ast.AST]) -> bool:
        """Whether a function multiplies by more than the layers show, or a function does that it calls."""
        for node in walk(function):
            if self._multiplies(node):
                return True
            for callee in self._flow.values(node.func) if isinstance(node, ast.Call) else ():
                if isinstance(callee, Function) and callee.site not in seen:
                    seen.add(callee.site)
                    if self._computes_more(callee.site, seen):
                        return True
        return False

    def _is_empty(self, class_: ast.ClassDef, name: str) -> bool:
        """Whether the layer of that attribute has no weights."""
        values = self._flow.attributes(class_).get(name, frozenset())
        return bool(values) and all(multiplies_nothing(each.name) for each in values)

    def _multiplies(self, node: ast.AST) -> bool:
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.MatMult)
        if not isinstance(node, ast.Call) or multiplies_vector(self._script, node):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            return True
        callees = self._flow.values(node.func)
        is_unseen = isinstance(node.func, ast.Name) and any(isinstance(each, Unknown) for each in callees)
        names = library_names(callees)
        return is_unseen or any(each in _MULTIPLIES or each.partition(".")[0] not in _HARMLESS for each in names)


def repeated(loop: ast.AST) -> Iterator[ast.Call]:
    """The calls that a loop makes each time of the same, and does not choose by what it goes over."""
    chosen = _targets(loop)
    for node in walk(loop):
        if isinstance(node, ast.Call) and chosen.isdisjoint(
            each.id for each in walk(node.func) if isinstance(each, ast.Name)
        ):
            yield node


def _targets(loop: ast.AST) -> set[str]:
    """The names that a loop gives what it goes over."""
    targets = [loop.target] if isinstance(loop, (ast.For, ast.AsyncFor)) else []
    targets += [each.target for each in getattr(loop, "generators", ())]
    return {each.id for target in targets for each in walk(target) if isinstance(each, ast.Name)}


def _is_over_layers(node: ast.AST) -> bool:
    """Whether a loop goes over layers that the model keeps: ``for layer in self.layers``."""
    over = [node.iter] if isinstance(node, (ast.For, ast.AsyncFor)) else []
    over += [each.iter for each in getattr(node, "generators", ())]
    inner = [part for each in over for part in _gone_over(each)]
    return bool(inner) and all(ast.unparse(each).startswith("self.") for each in inner)


def _gone_over(node: ast.expr) -> Sequence[ast.expr]:
    """What a loop goes over: ``enumerate(self.layers)``, ``range(len(self.layers))``, ``self.children()``."""
    match node:
        case ast.Call(ast.Name("range"), [ast.Call(ast.Name("len"), [layers])]):
            return [layers]
        case ast.Call(ast.Attribute(attr=method) as parts, []) if method in _PARTS:
            return [parts]
        case ast.Call():
            return node.args
    return [node]
