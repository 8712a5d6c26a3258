"""How code runs models: where it calls them, switches their mode, and switches gradients off."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, lasting, unparsed, walk
from codemods.dataflow.values import External, Function, Made, Method, Unknown, Value, Values, instance, without_none
from codemods.facts.loops import module_of
from codemods.facts.training.iterations import own
from codemods.library.kinds import MODULE_METHODS, Kind, kind, may
from codemods.library.solvers import calls_at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module

_USES = frozenset({"eval", "train", "parameters"})
"""What only models have; optimizers and loss scalers have a ``state_dict()`` too, and run a backward when called."""
_SET = frozenset({"torch.set_grad_enabled"})
_ON = frozenset({"torch.enable_grad", "torch.set_grad_enabled"})
_OFF = frozenset({"torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled"})
_LOADS = frozenset({"torch.load", "torch.jit.load"})
"""What may return a whole model."""


class Modes:
    """What calls in some modules do to models and to gradients."""

    def __init__(self, flow: Flow, modules: Sequence[Module]) -> None:
        self._flow = flow
        self._modules = modules
        self._computing: dict[tuple[Callee, bool], bool] = {}

    @lasting
    def calls(self, call: ast.Call) -> bool:
        """Whether the call runs a model, or a method of a model of the project that does not switch gradients off."""
        return self._runs(call, with_gradients=True)

    def runs_without(self, call: ast.Call) -> bool:
        """Whether the call runs a model's method that switches gradients off around all that it runs."""
        return self._runs(call, with_gradients=False) and not self.calls(call)

    def _runs(self, call: ast.Call, *, with_gradients: bool) -> bool:
        forward_of = (
            call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "forward" else call.func
        )
        callees = self._flow.values(call.func)
        if any(isinstance(each, (Function, External)) for each in callees):
            return False  # whatever calls models and functions alike is about something else
        for callee in callees:
            if self._is_model(callee, forward_of):
                return True
            if isinstance(callee, Method) and callee.name not in MODULE_METHODS - {"forward"}:
                if callee.name == "forward" and self._is_model(callee.of, forward_of):
                    return True
                if isinstance(callee.site, FUNCTIONS) and kind(self._flow, callee.of) is Kind.MODEL:
                    return self._computes(callee.site, with_gradients=with_gradients)
        return False

    def _computes(self, method: Callee, *, with_gradients: bool) -> bool:
        """Whether a model's method runs layers: ``init_hidden()`` only makes zeros."""
        key = (method, with_gradients)
        if key not in self._computing:
            self._computing[key] = False  # by calling itself it does not
            module = module_of(self._flow, method)
            self._computing[key] = not (with_gradients and self.is_decorated(method)) and any(
                self._runs(each, with_gradients=with_gradients)
                and not (with_gradients and self.without_gradients(module, each))
                for each in own(method, ast.Call)
            )
        return self._computing[key]

    def _is_model(self, value: Value, node: ast.expr) -> bool:
        if _is_loaded(value):  # of all that a file holds, a model is called
            return value.name in _LOADS or unparsed(node) in self._loaded_models
        return kind(self._flow, value) is Kind.MODEL or (value, _text(value, node)) in self._used_as_models

    @cached_property
    def _used_as_models(self) -> frozenset[tuple[Value, str]]:
        """What is only known to be switched, trained or saved as a model is, and how it is written there.

        What is made from an unknown thing is as unknown as that thing; only a name tells them apart.
        """
        found: set[tuple[Value, str]] = set()
        for module in self._modules:
            for call in module.nodes(ast.Call):
                if isinstance(call.func, ast.Attribute) and call.func.attr in _USES and not arguments_of(call):
                    values = self._flow.values(call.func.value)
                    found.update((each, _text(each, call.func.value)) for each in values if self._is_opaque(each))
        return frozenset(found)

    @cached_property
    def _loaded_models(self) -> frozenset[str]:
        """How that is written which ``torch.load()`` returns and the code uses as a model: ``model = model.cuda()``."""
        return frozenset(
            unparsed(call.func.value)
            for module in self._modules
            for call in module.nodes(ast.Call)
            if isinstance(call.func, ast.Attribute) and call.func.attr in _USES and not arguments_of(call)
            if any(map(_is_loaded, self._flow.values(call.func.value)))
        )

    def _is_opaque(self, value: Value) -> bool:
        """Whether the value may be a model for all that is known."""
        if isinstance(value, Made):
            is_other = not value.name.startswith(("torch.", "builtins."))
            return kind(self._flow, value) is None and (is_other or _is_loaded(value))
        return isinstance(value, Unknown) or (
            isinstance(value, Method) and value.site is None and value.name not in MODULE_METHODS
        )

    def sets(self, call: ast.Call, mode: str | None) -> bool:
        """Whether it is ``model.eval()`` or ``model.train()``, ``.train(False)`` and ``.train(True)`` being the same.

        With ``mode`` None, whether it is ``model.train(…)`` with something that is known only when it runs.
        """
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"eval", "train"}:
            return False
        given = arguments_of(call)
        found: str | None = call.func.attr
        if given and found == "eval":
            return False
        if given:
            known = isinstance(given[0], ast.Constant)
            found = None if not known else "train" if given[0].value else "eval"  # type: ignore[attr-defined]
        if found != mode or len(given) > 1:
            return False
        owners = self.receivers(call)
        return may(self._flow, owners, Kind.MODEL) or (bool(owners) and all(self._is_opaque(each) for each in owners))

    def receivers(self, call: ast.Call) -> Values:
        """What the method that is called belongs to."""
        return without_none(self._flow.values(call.func.value)) if isinstance(call.func, ast.Attribute) else frozenset()

    @lasting
    def without_gradients(self, module: Module, node: ast.AST) -> bool:
        """Whether the node runs under ``torch.no_grad()`` or its like, by a ``with`` or a decorator of its function.

        Or by one around the only call to which its function is handed, which calls it at once. The script may decide
        that as it runs: ``torch.set_grad_enabled(training)``.
        """
        return self._is_switched_off(module, node) or self._is_handed_out_without(module, node)

    def may_have_gradients(self, module: Module, node: ast.AST) -> bool:
        """Whether the node may run with gradients on, as the script may decide that as it runs."""
        if not self.without_gradients(module, node):
            return True
        blocks = [each for each in module.ancestors(node) if isinstance(each, ast.With)]
        switches = [
            item.context_expr for each in blocks for item in each.items if self._switches_off(item.context_expr)
        ]
        return bool(switches) and all(map(self._is_choice, switches))

    def _is_choice(self, node: ast.expr) -> bool:
        """``torch.set_grad_enabled(training)``, ``torch.enable_grad() if training else torch.no_grad()``."""
        match node:
            case ast.Call(func, [given]) if is_named(self._flow, func, _SET):
                return not isinstance(given, ast.Constant)
        return not all(each.name in _OFF for each in self._flow.values(node))

    def _is_handed_out_without(self, module: Module, node: ast.AST) -> bool:
        """Whether the function around the node runs only in calls of libraries around which gradients are off."""
        function = module.function(node)
        if not isinstance(function, ast.FunctionDef) or module.function(function) is None:
            return False  # others may name what is no function's own
        if any(
            is_named(self._flow, each, _ON) for each in walk(function) if isinstance(each, (ast.Name, ast.Attribute))
        ):
            return False
        reads = [each for each in module.nodes(ast.Name) if each.id == function.name and self._is(each, function)]
        return bool(reads) and all(
            self._is_given_to_solver(module, each) and self._is_switched_off(module, each) for each in reads
        )

    def _is(self, name: ast.Name, function: Callee) -> bool:
        """Whether the name may be read for the function."""
        return isinstance(name.ctx, ast.Load) and any(each.site is function for each in self._flow.values(name))

    def _is_given_to_solver(self, module: Module, name: ast.Name) -> bool:
        call = module.parent(name)
        call = module.parent(call) if isinstance(call, ast.keyword) else call
        names = self._flow.values(call.func) if isinstance(call, ast.Call) and call.func is not name else frozenset()
        return bool(names) and all(isinstance(each, External) and calls_at_once(each.name) for each in names)

    def _is_switched_off(self, module: Module, node: ast.AST) -> bool:
        for above in module.ancestors(node):
            if isinstance(above, (ast.With, ast.AsyncWith)) and any(
                self._switches_off(item.context_expr) for item in above.items
            ):
                return True
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return self.is_decorated(above) or self._switched_off_before(module, above, node)
        return self._switched_off_before(module, module.tree, node)

    def _switched_off_before(self, module: Module, scope: ast.AST, node: ast.AST) -> bool:
        """Whether ``torch.set_grad_enabled(…)`` is called as a statement before the node in its function."""
        return any(
            isinstance(module.parent(call), ast.Expr)
            and call.lineno < getattr(node, "lineno", 0)
            and is_named(self._flow, call.func, _SET)
            and self._switches_off(call)
            for call in own(scope, ast.Call)
        )

    def _switches_off(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            # Not set_grad_enabled(True), and not inference_mode(False).
            off = not node.args[0].value if is_named(self._flow, node.func, _SET) else node.args[0].value
            return bool(off) and is_named(self._flow, node, _OFF)
        return is_named(self._flow, node, _OFF)

    def is_decorated(self, function: Callee) -> bool:
        """Whether a decorator switches gradients off for the whole function, itself or as the project defines it."""
        return not isinstance(function, ast.Lambda) and any(
            self._switches_off(each) or self._is_own_switch(each) for each in function.decorator_list
        )

    def _is_own_switch(self, decorator: ast.expr) -> bool:
        """Whether it is a function of the project that decorates with ``torch.no_grad()`` or its like."""
        made = decorator.func if isinstance(decorator, ast.Call) else decorator
        return any(
            isinstance(name, (ast.Name, ast.Attribute)) and is_named(self._flow, name, _OFF - _SET)
            for value in self._flow.values(made)
            if isinstance(value, Function) and isinstance(value.site, FUNCTIONS)
            for name in walk(value.site)
        )


def functions_of(flow: Flow, module: Module) -> list[FunctionNode]:
    """The functions of a module, in the order of the text."""
    found = [function for function, where, _ in flow.functions() if where is module]
    return sorted(found, key=lambda each: (each.lineno, each.col_offset))


def is_no_evaluation(flow: Flow, module: Module, function: Callee) -> bool:
    """Whether what the function runs is not an evaluation, whatever it switches."""
    return is_models_method(flow, function) or is_unit_test(module, function) or is_frameworks(flow, function)


def is_models_method(flow: Flow, function: Callee) -> bool:
    """Whether it is a method of a model of the project."""
    return _kind_of_owner(flow, function) is Kind.MODEL


def is_frameworks(flow: Flow, function: Callee) -> bool:
    """Whether it is a method of what Lightning or the like runs, which switches gradients off to validate."""
    return _kind_of_owner(flow, function) is Kind.FRAMEWORK


def _kind_of_owner(flow: Flow, function: Callee) -> Kind | None:
    owner = flow.owner(function)
    return None if owner is None else kind(flow, instance(owner))


def is_unit_test(module: Module, function: Callee) -> bool:
    """Whether it is a test of code, not of a model: the function of a file that a test runner collects."""
    imported = {each.name for node in module.nodes(ast.Import) for each in node.names}
    in_file = bool(imported & {"pytest", "unittest"}) or re.search(r"(^|[/\\])test_[^/\\]*\.py$", module.path)
    return bool(in_file) and getattr(function, "name", "").startswith("test")


def is_named(flow: Flow, node: ast.expr, names: frozenset[str]) -> bool:
    """Whether the expression is, or was made by, one of the library's things of these names."""
    return any(isinstance(each, (Made, External)) and each.name in names for each in flow.values(node))


def _is_loaded(value: Value) -> bool:
    """Whether ``torch.load()`` has made it, or a method of what that has made: ``torch.load(path).cuda()``."""
    return isinstance(value, Made) and value.name.removesuffix("(…)") in _LOADS


def _text(value: Value, node: ast.expr) -> str:
    """How the value is written, where that tells it from what is made from it."""
    derived = isinstance(value, Unknown) or value.name.endswith("(…)")
    return unparsed(node) if derived else ""
