"""Logarithms of sums of exponentials that are written out: with the maximum taken off, or taken off what they are of.

``m + log(sum(exp(x - m)))`` is ``logsumexp(x)`` for any ``m`` that is one number along the dimension of the sum. What
has to be seen is that both are of one size.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.source import walk
from codemods.dataflow.values import External, Function, library_names
from codemods.facts.asked_names import listed
from codemods.facts.precision.log_probabilities import is_method, operand_of
from codemods.facts.precision.softmax_operands import LOG_SOFTMAX, why_no_softmax
from codemods.facts.reach import own
from codemods.facts.reaching import is_seen_elsewhere, targets
from codemods.facts.reason import HERE, Reason, at
from codemods.library.softmaxes import LOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.script import Script

LOGSUMEXP = "torch.logsumexp"
_DIMENSIONS = frozenset({"dim", "axis"})
_KEEPS = frozenset({"keepdim", "keepdims"})
_LARGEST = frozenset({"max", "amax"})
_WITHOUT_GRAPH = frozenset({"detach", "data", "item"})
_BOTH = "dim=(0, 1)"


@dataclass(frozen=True, eq=False)
class LogSum:
    """A logarithm of a sum of exponentials, with what is done to it so that no number is too large."""

    module: Module
    whole: ast.expr
    """What one function computes."""
    function: str = LOGSUMEXP
    operand: str = ""
    """What that is given, as it is written."""
    arguments: str = ""
    """What else it is given."""
    idle: Sequence[ast.stmt] = ()
    """The statements that nothing needs then."""
    why_not: Reason | None = None


class _Sum(NamedTuple):
    """``sum(exp(x), dim, keepdim)``."""

    inner: ast.expr
    """``x``."""
    given: str
    """The dimension as an argument: ``dim=1``."""
    dimension: ast.expr | None
    keeps: ast.expr | None

    @property
    def keeps_dimension(self) -> bool:
        return _is_true(self.keeps)


@dataclass(eq=False)
class _Maximum:
    """What is taken off: the name of the largest numbers, and where it was computed."""

    name: ast.Name
    made: ast.Assign
    call: ast.expr
    idle: list[ast.stmt] = field(default_factory=list)


def log_sums(script: Script) -> Iterator[LogSum]:
    """The logarithms of sums of exponentials in the module that one function computes, in the order of the text."""
    module = script.module
    if not ("exp" in module.text and LOG in module.text):
        return
    for call in module.nodes(ast.Call):
        reader = _Reader(script, module, call)
        found = reader.of_names() if _LOGSUMEXP_NAME in ast.unparse(call.func) else reader.written_out()
        if found is not None:
            yield found


_LOGSUMEXP_NAME = "logsumexp"


@dataclass(eq=False)
class _Reader:
    """Reads what stands around a logarithm."""

    script: Script
    module: Module
    log: ast.Call

    def of_names(self) -> LogSum | None:
        """``x - torch.logsumexp(x, 1, keepdim=True)``."""
        summed = self._summed(self.log, _LOGSUMEXP_NAME)
        return self._difference(summed, summed.inner) if summed is not None else None

    def written_out(self) -> LogSum | None:
        """``m + torch.log(torch.sum(torch.exp(x - m), 1))`` and ``x - torch.log(torch.sum(torch.exp(x), 1, True))``."""
        operand = operand_of(self.script, self.log, LOG)
        summed = self._summed(operand, "sum") if isinstance(operand, ast.Call) else None
        if summed is None or not isinstance(summed.inner, ast.Call):
            return None
        exponent = operand_of(self.script, summed.inner, "exp")
        if exponent is None:
            return None
        return self._difference(summed, exponent) or self._with_maximum(summed, exponent)

    def _summed(self, call: ast.Call, name: str) -> _Sum | None:
        """What the sum is of, and along which dimension, where nothing else is said."""
        values = self.script.flow.values(call.func)
        given = list(call.args)
        if not (values and all(isinstance(each, External) and each.name == f"torch.{name}" for each in values)):
            method = call.func
            if not isinstance(method, ast.Attribute) or method.attr != name or not is_method(self.script, method):
                return None
            given.insert(0, method.value)
        by_name = {each.arg: each.value for each in call.keywords}
        if not given or len(given) > 3 or any(isinstance(each, ast.Starred) for each in given):  # noqa: PLR2004
            return None
        if not by_name.keys() <= _DIMENSIONS | _KEEPS:
            return None
        dimension = given[1] if len(given) > 1 else next((by_name[each] for each in _DIMENSIONS & by_name.keys()), None)
        keeps = given[2] if len(given) > 2 else next((by_name[each] for each in _KEEPS & by_name.keys()), None)  # noqa: PLR2004
        if dimension is not None and not isinstance(dimension, (ast.Constant, ast.UnaryOp, ast.Name, ast.Attribute)):
            return None
        text = self.module.code(dimension) if dimension is not None else ""
        return _Sum(given[0], text if len(given) > 1 else f"dim={text}", dimension, keeps)

    # What it is taken off.

    def _difference(self, summed: _Sum, exponent: ast.expr) -> LogSum | None:
        """``x - log(…)`` of that ``x``: the logarithm of a softmax, which needs no maximum to be taken off."""
        match self.module.parent(self.log):
            case ast.BinOp(left, ast.Sub(), right) as whole if right is self.log:
                is_known = summed.dimension is not None and summed.keeps_dimension
                if not is_known or not _is_plain(exponent) or ast.dump(left) != ast.dump(exponent):
                    return None
                reason = why_no_softmax(self.script, self.module, exponent, summed.dimension)
                if reason is not None:
                    return LogSum(self.module, whole, LOG_SOFTMAX, why_not=reason)
                operand, idle = self._without_maximum(summed, exponent, whole)
                return LogSum(self.module, whole, LOG_SOFTMAX, self.module.code(operand), summed.given, idle)
        return None

    def _without_maximum(
        self, summed: _Sum, exponent: ast.expr, whole: ast.expr
    ) -> tuple[ast.expr, Sequence[ast.stmt]]:
        """``x`` of ``x - m`` and the statements that only give ``m``, unless something else needs those."""
        taken_off = self._taken_off(exponent)
        maximum = self._maximum(taken_off[1]) if taken_off is not None else None
        if taken_off is None or maximum is None:
            return exponent, ()
        operand, less, shifted = taken_off
        maximum.idle += [shifted] if shifted is not None else []
        largest_of = self._largest_of(maximum)
        is_its_own = largest_of is not None and ast.dump(_without_detach(largest_of)) == ast.dump(operand)
        is_alike = is_its_own and self._is_along(less, maximum, summed)
        if not is_alike or self._why_needed(maximum, whole) is not None:
            return exponent, ()
        return operand, (maximum.made, *maximum.idle)

    # The maximum that is taken off and added again.

    def _with_maximum(self, summed: _Sum, exponent: ast.expr) -> LogSum | None:
        taken_off = self._taken_off(exponent)
        if taken_off is None:
            return None
        operand, less, shifted = taken_off
        maximum = self._maximum(less)
        if maximum is None:
            return None
        if shifted is not None:
            maximum.idle.append(shifted)
        whole = self.module.parent(self.log)
        if not isinstance(whole, ast.BinOp) or not isinstance(whole.op, ast.Add):
            return None
        added = whole.left if whole.right is self.log else whole.right
        reason = self._why_without_gain(maximum) or self._why_another_size(maximum, operand)
        arguments = None if reason is not None else self._arguments(summed, operand, less, added, maximum)
        if reason is None and arguments is None:
            text = f"whether {maximum.name.id!r} is taken off along the dimension of the sum is not seen ({HERE}):"
            remedy = f"{LOGSUMEXP}({self.module.code(operand)}, dim) computes all of it"
            reason = Reason("other-result", text, (at(self.module, maximum.made),), remedy)
        reason = reason or self._why_needed(maximum, whole)
        idle = () if reason is not None else (maximum.made, *maximum.idle)
        return LogSum(self.module, whole, LOGSUMEXP, self.module.code(operand), arguments or "", idle, why_not=reason)

    def _taken_off(self, exponent: ast.expr) -> tuple[ast.Name, ast.expr, ast.Assign | None] | None:
        """``x`` and ``m`` of ``x - m``, there or in a statement before that gives it a name."""
        statement = None
        if isinstance(exponent, ast.Name):
            statement = self._only(exponent)
            if statement is None or not isinstance(statement.targets[0], ast.Name):
                return None
            exponent = statement.value
        match exponent:
            case ast.BinOp(ast.Name() as operand, ast.Sub(), less):
                return operand, less, statement
        return None

    def _only(self, name: ast.Name) -> ast.Assign | None:
        """The one statement that gives the name what it holds there."""
        bound = targets(self.module.function(name) or self.module.tree).of(name)
        statement = self.module.statement(bound[0]) if bound is not None and len(bound) == 1 else None
        return statement if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None

    def _maximum(self, less: ast.expr) -> _Maximum | None:
        """The maximum that is taken off, through what only lays it out."""
        for name in (each for each in walk(less) if isinstance(each, ast.Name)):
            made = self._only(name)
            if made is None:
                continue
            if less is name and isinstance(made.targets[0], ast.Name) and _is_expanded(made.value):
                inner = self._maximum(made.value)
                if inner is not None:
                    inner.idle.append(made)
                return inner
            call = _largest_of(made, name.id)
            if call is not None and self._is_largest(call):
                return _Maximum(name, made, call)
        return None

    def _is_largest(self, call: ast.expr) -> bool:
        """``torch.max(x, 1)``, ``x.amax(1)``, or the item of a row whose number a function finds."""
        match call:
            case ast.Subscript(ast.Name(), ast.Tuple([ast.Constant(0), ast.Call(ast.Name()) as index])):
                functions = [each for each in self.script.flow.values(index.func) if isinstance(each, Function)]
                return bool(functions) and all(self._only_finds(each.site) for each in functions)
            case ast.Call(ast.Attribute(_, name)) if name in _LARGEST:
                names = library_names(self.script.flow.values(call.func))
                return names <= {f"torch.{each}" for each in _LARGEST} or is_method(self.script, call.func)
        return False

    def _only_finds(self, function: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether the function does nothing but to compute: a number of a row, mostly."""
        for each in walk(function):
            if isinstance(each, (ast.Global, ast.Nonlocal, ast.Yield, ast.Await, ast.Delete, ast.Raise)):
                return False
            if isinstance(each, (ast.Attribute, ast.Subscript)) and isinstance(each.ctx, ast.Store):
                return False
            if isinstance(each, ast.Call) and not self._only_computes(each, seen | {function}):
                return False
        return True

    def _only_computes(self, call: ast.Call, seen: frozenset[ast.AST]) -> bool:
        called = list(self.script.flow.called(call))
        if called:
            return all(each not in seen and self._only_finds(each, seen) for each in called)
        names = library_names(self.script.flow.values(call.func))
        if names:
            return all(each.startswith("torch.") or each == "builtins.int" for each in names)
        return isinstance(call.func, ast.Attribute) and not call.func.attr.endswith("_")

    # Whether both are of one size.

    def _arguments(
        self, summed: _Sum, operand: ast.Name, less: ast.expr, added: ast.expr, maximum: _Maximum
    ) -> str | None:
        """What the one function is given so that its result has the size of what is computed; None if not known."""
        if summed.dimension is None:
            is_whole = isinstance(maximum.call, ast.Subscript) and self._is_row(less, operand)
            return _BOTH if is_whole and self._is(added, maximum) else None
        if not self._is_along(less, maximum, summed):
            return None
        kept = f", keepdim={self.module.code(summed.keeps)}" if summed.keeps is not None else ""
        squeezing = self._squeezing(added, maximum, summed)
        if squeezing is not None and self._is(less, maximum):
            maximum.idle.append(squeezing)
            return f"{summed.given}{kept}"
        if self._is(less, maximum):
            is_alike = self._is(added, maximum) if summed.keeps_dimension else self._is_squeezed(added, maximum, summed)
        else:
            is_alike = self._is(added, maximum) and not summed.keeps_dimension
            is_alike = is_alike and (summed.keeps is None or _is_false(summed.keeps))
        return f"{summed.given}{kept}" if is_alike else None

    def _is_along(self, less: ast.expr, maximum: _Maximum, summed: _Sum) -> bool:
        """Whether what is taken off is the maximum along the dimension of the sum, and one number there."""
        made = self._summed(maximum.call, self._largest(maximum.call)) if isinstance(maximum.call, ast.Call) else None
        if made is None or made.dimension is None or summed.dimension is None:
            return False
        if ast.dump(made.dimension) != ast.dump(summed.dimension):
            return False
        if made.keeps_dimension:
            return self._is(less, maximum)
        is_dropped = made.keeps is None or _is_false(made.keeps)
        return is_dropped and self._is_unsqueezed(less, maximum, summed)

    @staticmethod
    def _largest(call: ast.Call) -> str:
        return call.func.attr if isinstance(call.func, ast.Attribute) else ""

    def _is(self, node: ast.expr, maximum: _Maximum) -> bool:
        """Whether it is the maximum itself, as it was made."""
        return isinstance(node, ast.Name) and node.id == maximum.name.id and self._only(node) is maximum.made

    def _is_squeezed(self, node: ast.expr, maximum: _Maximum, summed: _Sum) -> bool:
        """``m.squeeze(1)``, where the sum does not keep its dimension."""
        if summed.keeps is not None and not _is_false(summed.keeps):
            return False
        return self._is_laid_out(node, "squeeze", maximum, summed)

    def _squeezing(self, added: ast.expr, maximum: _Maximum, summed: _Sum) -> ast.If | None:
        """``if not keepdim: m = m.squeeze(1)`` before the sum that is given the same ``keepdim``."""
        if not isinstance(added, ast.Name) or not isinstance(summed.keeps, ast.Name):
            return None
        bound = targets(self.module.function(added) or self.module.tree).of(added) or ()
        statements = [self.module.statement(each) for each in bound]
        squeezed = [each for each in statements if each is not maximum.made]
        if maximum.made not in statements or len(squeezed) != 1 or not isinstance(squeezed[0], ast.Assign):
            return None
        branch, keeps = self.module.parent(squeezed[0]), summed.keeps.id
        match branch:
            case ast.If(test, [only], []) if ast.unparse(test) in {
                f"not {keeps}",
                f"{keeps} is False",
                f"{keeps} == False",
            }:
                return branch if self._is_laid_out(only.value, "squeeze", maximum, summed) else None  # type: ignore[attr-defined]
        return None

    def _is_unsqueezed(self, node: ast.expr, maximum: _Maximum, summed: _Sum) -> bool:
        """``m.unsqueeze(1)``, and ``m[:, None]`` of the dimension 1."""
        match node:
            case ast.Subscript(inner, ast.Tuple([ast.Slice(None, None, None), ast.Constant(None)])):
                is_second = isinstance(summed.dimension, ast.Constant) and summed.dimension.value == 1
                return is_second and self._is(inner, maximum)
        return self._is_laid_out(node, "unsqueeze", maximum, summed)

    def _is_laid_out(self, node: ast.expr, how: str, maximum: _Maximum, summed: _Sum) -> bool:
        match node:
            case ast.Call(ast.Attribute(inner, name), [dimension], []) if name == how:
                is_same = summed.dimension is not None and ast.dump(dimension) == ast.dump(summed.dimension)
                return is_same and self._is(inner, maximum)
        return False

    def _is_row(self, less: ast.expr, operand: ast.Name) -> bool:
        """``m.view(1, -1).expand(1, x.size()[1])``, or a name for that: ``x`` has two dimensions."""
        if isinstance(less, ast.Name):
            made = self._only(less)
            return made is not None and isinstance(made.targets[0], ast.Name) and self._is_row(made.value, operand)
        written = {f"{operand.id}.size()[1]", f"{operand.id}.size(1)", f"{operand.id}.shape[1]"}
        match less:
            case ast.Call(
                ast.Attribute(ast.Call(ast.Attribute(_, "view"), [ast.Constant(1), _]), "expand"), [one, size]
            ):
                return ast.unparse(one) == "1" and ast.unparse(size) in written
        return False

    def _why_another_size(self, maximum: _Maximum, operand: ast.Name) -> Reason | None:
        """Where the maximum is of another tensor, or of one number that has a dimension."""
        call, name = maximum.call, maximum.name.id
        of = self._largest_of(maximum)
        if of is not None and ast.dump(of) != ast.dump(operand):
            text = f"{name!r} is the largest of {self.module.code(of)!r} ({HERE}), which may have another size:"
            remedy = f"{LOGSUMEXP}({operand.id}, dim) takes off the largest of {operand.id!r} itself"
            return Reason("other-result", text, (at(self.module, maximum.made),), remedy)
        if isinstance(call, ast.Subscript) and not all(map(self._is_number, _indices(call))):
            text = f"{name!r} may be a tensor of one dimension ({HERE}), and so what is computed:"
            remedy = f"{LOGSUMEXP}({operand.id}, 1) has one, too"
            return Reason("other-result", text, (at(self.module, maximum.made),), remedy)
        return None

    def _largest_of(self, maximum: _Maximum) -> ast.expr | None:
        """``x`` of ``torch.max(x, 1)``, ``x.amax(1)`` and ``x[0, i]``."""
        if isinstance(maximum.call, ast.Subscript):
            return maximum.call.value
        made = self._summed(maximum.call, self._largest(maximum.call)) if isinstance(maximum.call, ast.Call) else None
        return made.inner if made is not None else None

    def _is_number(self, node: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether it is a number of Python's: ``at.item()``, ``int(at)``, or what a function returns as such."""
        match node:
            case ast.Constant(value):
                return isinstance(value, int)
            case ast.Call(ast.Attribute(_, "item"), [], []):
                return True
            case ast.Call():
                called = list(self.script.flow.called(node))
                if not called:
                    return library_names(self.script.flow.values(node.func)) == {"builtins.int"}
                return all(each not in seen and self._gives_number(each, seen | {each}) for each in called)
            case ast.Subscript(ast.Call(ast.Attribute(row, "tolist"), [], []), ast.Constant()):
                return any(_is_flattened(each) for each in walk(row))
            case ast.Name():
                made = self._only(node)
                is_one = made is not None and isinstance(made.targets[0], ast.Name)
                return made is not None and is_one and self._is_number(made.value, seen)
        return False

    def _gives_number(self, function: Callee, seen: frozenset[ast.AST]) -> bool:
        if isinstance(function, ast.Lambda):
            return self._is_number(function.body, seen)
        returned = [each.value for each in own(function, ast.Return)]
        return bool(returned) and all(each is not None and self._is_number(each, seen) for each in returned)

    # What else needs the maximum.

    def _why_without_gain(self, maximum: _Maximum) -> Reason | None:
        """Where the maximum has no graph, there is nothing of it in the backward that could be saved."""
        if isinstance(maximum.call, ast.Subscript):
            return None
        parts = {each.attr for each in walk(maximum.made.value) if isinstance(each, ast.Attribute)}
        if parts.isdisjoint(_WITHOUT_GRAPH):
            return None
        text = f"the maximum is taken off without a graph ({HERE}): {LOGSUMEXP}() would take as long"
        return Reason("nothing-to-gain", text, (at(self.module, maximum.made),))

    def _why_needed(self, maximum: _Maximum, whole: ast.expr) -> Reason | None:
        """What else reads what was taken off, or comes between."""
        module = self.module
        idle = [maximum.made, *maximum.idle]
        suite = module.suite(module.statement(whole))
        numbers = [suite.index(each) for each in idle if each in suite]
        last = suite.index(module.statement(whole))
        between = suite[min(numbers) : last] if numbers else []
        if len(numbers) < len(idle) or {*between} != {*idle}:
            text = f"other statements stand between the maximum and the sum ({HERE})"
            return Reason("other-result", text, (at(module, maximum.made),))
        bound = {each.id for part in idle for each in walk(part) if isinstance(each, ast.Name) and _is_stored(each)}
        inside = {each for part in (*idle, whole) for each in walk(part)}
        function = module.function(whole)
        reaching = targets(function or module.tree)
        for each in module.nodes(ast.Name):
            if each.id not in bound or _is_stored(each) or each in inside or module.function(each) is not function:
                continue
            given = reaching.of(each)
            if given is None or any(module.statement(one) in idle for one in given):
                text = f"{each.id!r} is used elsewhere as well ({HERE}), so that both would be computed"
                return Reason("other-result", text, (at(module, each),))
        names = [each for part in idle for each in walk(part) if isinstance(each, ast.Name) and each.id in bound]
        listing = next(iter(listed(self.script, module, whole, bound)), None)
        if listing is not None:
            text = f"{module.code(listing)!r} lists names ({HERE}), and {names[0].id!r} would be none any more"
            return Reason("other-result", text, (at(module, listing),))
        seen = next((each for each in names if is_seen_elsewhere(module, each)), None)
        if seen is not None:
            return Reason("other-result", f"other code may read {seen.id!r} ({HERE})", (at(module, seen),))
        return None


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _is_plain(node: ast.expr) -> bool:
    """Whether it reads names and attributes, and does nothing that a second time would do again."""
    return all(isinstance(each, (ast.Name, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Constant)) for each in walk(node))


def _without_detach(node: ast.expr) -> ast.expr:
    match node:
        case ast.Call(ast.Attribute(inner, "detach"), [], []) | ast.Attribute(inner, "data"):
            return _without_detach(inner)
    return node


def _indices(row: ast.Subscript) -> list[ast.expr]:
    return row.slice.elts if isinstance(row.slice, ast.Tuple) else [row.slice]


def _is_flattened(node: ast.AST) -> bool:
    """``x.view(-1)`` and ``x.flatten()``."""
    match node:
        case ast.Call(ast.Attribute(_, "view" | "reshape"), [size], []):
            return ast.unparse(size) == "-1"
        case ast.Call(ast.Attribute(_, "flatten"), [], []):
            return True
    return False


def _is_expanded(node: ast.expr) -> bool:
    """``m.view(1, -1).expand(1, n)``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "expand"


def _largest_of(made: ast.Assign, name: str) -> ast.expr | None:
    """``torch.max(x, 1)`` of ``m, _ = torch.max(x, 1)``, ``torch.max(x, 1)[0]`` and ``torch.max(x, 1).values``."""
    match made.targets[0], made.value:
        case ast.Tuple([ast.Name(first), _]), ast.Call() as call:
            return call if first == name else None
        case ast.Name(), ast.Subscript(ast.Call() as call, ast.Constant(0)) | ast.Attribute(
            ast.Call() as call, "values"
        ):
            return call
        case ast.Name(), value:
            return value
    return None
