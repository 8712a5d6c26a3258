"""How the script is to say what mixed precision needs: where ``scaler``, ``amp_dtype`` and ``use_amp`` are made and seen."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from codemods.edit_values import AddArgument, AddParameter, Import, Insert
from codemods.facts.devices import DeviceKind, is_on_cuda
from codemods.facts.kinds import Kind, may
from codemods.facts.names import bound_names, declared_outer
from codemods.facts.placement import dominates, means_the_same
from codemods.facts.reach import own
from codemods.facts.transfers import Transfer
from codemods.facts.values import Sort

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.edit_values import Edit
    from codemods.facts.flow import Callee
    from codemods.facts.reach import Reach
    from codemods.facts.script import Script
    from codemods.facts.source import FunctionNode
    from codemods.facts.values import Values

Form: TypeAlias = Literal["auto", "bf16", "fp16"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEEPEST = 3
"""An optimizer is followed through so many parameters to where it is made."""
_WIDEST = 110


@dataclass(frozen=True, slots=True)
class Condition:
    """When the script trains on CUDA, as it can be said at some place."""

    test: str | None
    """The expression; None where it always does."""
    device: str = ""
    """The device's name there, if it has one."""

    @property
    def is_name(self) -> bool:
        """Whether it is a flag of the script's own."""
        return self.test is not None and self.test.replace(".", "").isidentifier()

    @property
    def operand(self) -> str:
        """The expression, to stand before ``and``."""
        test = self.test or ""
        return f"({test})" if isinstance(ast.parse(test, mode="eval").body, (ast.IfExp, ast.BoolOp)) else test


class Conditions:
    """Finds out on which condition some code of the entry script runs on CUDA."""

    def __init__(self, script: Script, moves: Sequence[Transfer]) -> None:
        self._script = script
        self._flow = script.flow
        self._module = script.entry
        self._moves = moves

    @classmethod
    def of_script(cls, script: Script) -> Conditions:
        """The conditions of all moves of batches and models that may go to CUDA."""
        module, flow = script.entry, script.flow
        moves = [each for each in script.transfers if each.module is module]
        for call in module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr in {"to", "cuda"}:
                if may(flow, flow.values(call.func.value), Kind.MODEL):
                    moves.append(Transfer(flow, module, call))
        return cls(script, [each for each in moves if each.may_reach_cuda])

    def of_code(self, reach: Reach, nodes: Sequence[ast.AST], models: Values) -> Conditions:
        """The conditions of the moves of these models, and of tensors in this code and what it calls."""
        parts = [*nodes, *reach.functions(nodes)]
        inside = {call for part in parts for call in own(part, ast.Call)}
        if any(each.sort is Sort.UNKNOWN for each in models):
            return self
        return Conditions(self._script, [each for each in self._moves if each.call in inside or self._flow.values(each.receiver) & models])

    @property
    def are_about_cuda(self) -> bool:
        """Whether anything is moved to CUDA at all."""
        return bool(self._moves)

    def at(self, place: ast.stmt) -> Condition | None:
        """The condition as it can be said at the place; None where it cannot."""
        if any(each.device.kind is DeviceKind.CUDA and not each.branches for each in self._moves):
            return Condition(None)
        for move in self._moves:
            found = self._flag(move, place) or self._device(move, place)
            if found is not None:
                return found
        if any(each.method == "cuda" or each.method == "type" for each in self._moves):
            name = self._script.spelled(self._module, "torch.cuda.is_available", place)
            return Condition(f"{name}()") if name is not None else None
        return None

    def _flag(self, move: Transfer, place: ast.stmt) -> Condition | None:
        for branch in reversed(move.cuda_branches):
            test, holds = branch.test, branch.holds
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and not holds:
                test, holds = test.operand, True
            if holds and means_the_same(self._flow, self._module, test, place):
                return Condition(self._module.code(test))
        return None

    def _device(self, move: Transfer, place: ast.stmt) -> Condition | None:
        node = move.device.node
        if move.device.kind is not DeviceKind.CONDITIONAL or node is None or move.method == "type":
            return None
        if not means_the_same(self._flow, self._module, node, place):
            return None
        text = self._module.code(node)
        test = is_on_cuda(self._flow, node, text, self._script.quote(self._module))
        return None if test is None else Condition(test, text)


# --- where the scaler is made ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Home:
    """Where the scaler is made, and how it gets to where it is used."""

    anchors: tuple[ast.stmt, ...]
    """The statements after which it is made."""
    owner: ast.ClassDef | None = None
    """The class whose attribute it is."""
    passed: tuple[tuple[ast.Call, ast.stmt], ...] = ()
    """The calls that are to pass it on, each with its statement."""
    receivers: tuple[FunctionNode, ...] = ()
    """The functions that are to take it as a parameter."""


class Homes:
    """Finds where the scaler of some optimizers is to be made: after all of them, and before every use."""

    def __init__(self, script: Script, reach: Reach) -> None:
        self._script = script
        self._reach = reach
        self._flow = script.flow
        self._module = script.entry

    def find(self, optimizers: Sequence[ast.expr], uses: Sequence[ast.stmt], depth: int = _DEEPEST) -> Home | str:
        """The home, or the reason why there is none.

        Args:
            optimizers: The optimizers, as they are written where they step.
            uses: The statements that are to use the scaler.
            depth: How many parameters may still be followed.
        """
        function = self._module.function(optimizers[0])
        names = list(dict.fromkeys(name for each in optimizers for name in self._names(each)))
        if any(name.startswith("?") for name in names):
            return f"the optimizer is not a plain name (line {optimizers[0].lineno})"
        attributes = [each for each in names if "." in each]
        if attributes:
            return self._in_class(names, uses) if len(attributes) == len(names) else "the optimizers are kept in different places"
        if function is not None and any(name in _parameters(function) for name in names):
            return self._through_parameters(function, names, uses, depth)
        is_local = function is not None and all(name in bound_names(function) for name in names)
        if function is not None and not is_local and any(name in bound_names(function) or name in declared_outer(function) for name in names):
            return "the optimizers are kept in different places"
        return self._in_scope(function if is_local else None, names, uses)

    def _names(self, node: ast.expr) -> Iterator[str]:
        """The names and attributes of ``self`` that the expression is made of; a loop's name stands for what it runs over."""
        if isinstance(node, ast.Name):
            scope = self._module.function(node) or self._module.tree
            loop = next((each for each in own(scope, ast.For) if isinstance(each.target, ast.Name) and each.target.id == node.id), None)
            if loop is not None:
                yield from self._names(loop.iter)
            else:
                yield node.id
        elif isinstance(node, (ast.List, ast.Tuple)):
            for each in node.elts:
                yield from self._names(each)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and self._is_self(node.value):
            yield ast.unparse(node)
        else:
            yield f"?{ast.unparse(node)}"

    def _is_self(self, node: ast.Name) -> bool:
        function = self._module.function(node)
        return isinstance(function, _FUNCTIONS) and self._flow.owner(function) is not None and _parameters(function)[:1] == [node.id]

    def _in_class(self, names: Sequence[str], uses: Sequence[ast.stmt]) -> Home | str:
        functions = [self._module.function(each) for each in uses]
        owners = {self._flow.owner(each) if isinstance(each, _FUNCTIONS) else None for each in functions}
        (owner, *others) = owners
        if owner is None or others:
            return "the optimizer is used outside its class"
        writes = {
            name: [
                self._module.statement(each)
                for each in self._module.nodes(ast.Attribute)
                if owner in self._module.ancestors(each)
                and isinstance(each.ctx, ast.Store)
                and ast.unparse(each) == name
                and not _writes_none(self._module.statement(each))
            ]
            for name in names
        }
        return self._after(writes, uses, owner)

    def _in_scope(self, scope: Callee | None, names: Sequence[str], uses: Sequence[ast.stmt]) -> Home | str:
        code: ast.AST = scope if scope is not None else self._module.tree
        writes = {
            name: [
                self._module.statement(each)
                for each in own(code, ast.Name)
                if each.id == name and isinstance(each.ctx, ast.Store) and not _writes_none(self._module.statement(each))
            ]
            for name in names
        }
        return self._after(writes, [*uses, *(self._calls_of(uses) if scope is None else ())], None)

    def _calls_of(self, uses: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        """The statements at module level that run the functions in which the uses stand."""
        functions = {function for each in uses for function in [self._module.function(each)] if function is not None}
        for call in self._module.nodes(ast.Call) if functions else ():
            if self._module.function(call) is None and functions & self._reach.functions([call]):
                yield self._module.statement(call)

    def _after(self, writes: Mapping[str, Sequence[ast.stmt]], uses: Sequence[ast.stmt], owner: ast.ClassDef | None) -> Home | str:
        scopes = {self._module.function(each) for found in writes.values() for each in found}
        if not all(writes.values()):
            return "where the optimizer is made is not seen"
        if len(scopes) > 1:
            return "the optimizers are made in different functions"
        scope = scopes.pop()
        uses = [each for each in uses if self._module.function(each) is scope]
        first = min((each.lineno for each in uses), default=None)
        # What is made after the first use is another optimizer for the same scaler.
        before = {name: [each for each in found if first is None or each.lineno < first] for name, found in writes.items()}
        anchor = after_all(self._script, [each for found in before.values() for each in found], uses) if all(before.values()) else None
        return Home((anchor,), owner) if anchor is not None else "no place is after all optimizers and before all their uses"

    def _through_parameters(self, function: Callee, names: Sequence[str], uses: Sequence[ast.stmt], depth: int) -> Home | str:
        """The scaler becomes a parameter too, and every call passes it."""
        if not isinstance(function, _FUNCTIONS) or not depth:
            return "the optimizer comes through too many functions"
        if any(name not in _parameters(function) for name in names):
            return "the optimizers are kept in different places"
        if any(self._module.function(each) is not function for each in uses):
            return f"the optimizer is used outside {function.name}()"
        calls = self._flow.callers(function)
        if not calls:
            return f"the optimizer is a parameter of {function.name}(), which nothing in this file calls"
        if self._flow.escapes(function) or not self._is_only_called(function, calls):
            return f"{function.name}() is handed to other code, which would have to pass the scaler"
        passing = [(call, [_argument(function, call, name, is_method=self._flow.owner(function) is not None) for name in names]) for call in calls]
        if not all(self._module.holds(call) and all(given) for call, given in passing):
            return f"not every call of {function.name}() passes the optimizer in a way that can be seen"
        found = self._of_calls([(call, [each for each in given if each is not None]) for call, given in passing], depth - 1)
        if isinstance(found, str):
            return found
        (owner, *others) = {each.owner for each in found}
        if others:
            return f"the calls of {function.name}() keep their optimizers in different ways"
        return Home(
            tuple(dict.fromkeys(anchor for each in found for anchor in each.anchors)),
            owner,
            tuple(dict.fromkeys([*((call, self._module.statement(call)) for call in calls), *(p for each in found for p in each.passed)])),
            tuple(dict.fromkeys([function, *(receiver for each in found for receiver in each.receivers)])),
        )

    def _of_calls(self, calls: Sequence[tuple[ast.Call, list[ast.expr]]], depth: int) -> list[Home] | str:
        """One home for all calls where there is one, else one for each."""
        scopes = {self._module.function(call) for call, _ in calls}
        if len(scopes) == 1:
            together = self.find([each for _, given in calls for each in given], [self._module.statement(call) for call, _ in calls], depth)
            if isinstance(together, Home):
                return [together]
        found: list[Home] = []
        for call, given in calls:
            home = self.find(given, [self._module.statement(call)], depth)
            if isinstance(home, str):
                return home
            found.append(home)
        return found

    def _is_only_called(self, function: FunctionNode, calls: Sequence[ast.Call]) -> bool:
        """Whether the function's name is nowhere used but to call it."""
        called = {call.func for call in calls}
        mentions = [each for each in self._module.nodes(ast.Name) if each.id == function.name and isinstance(each.ctx, ast.Load)]
        mentions_as_method = [each for each in self._module.nodes(ast.Attribute) if each.attr == function.name and self._flow.owner(function) is not None]
        return all(each in called for each in (*mentions, *mentions_as_method))


def after_all(script: Script, writes: Sequence[ast.stmt], uses: Sequence[ast.stmt]) -> ast.stmt | None:
    """The statement after which all of ``writes`` have run and none of ``uses``; all of them in one function."""
    module = script.entry
    paths = {each: _path(script, each) for each in (*writes, *uses)}
    depth = 0
    while True:
        heads = {path[depth] if depth < len(path) else None for path in paths.values()}
        suites = {id(module.suite(each)) for each in heads if each is not None}
        if None in heads or len(suites) != 1:
            return None
        if len(heads) > 1 or not uses:
            break
        depth += 1
    suite = module.suite(next(each for each in heads if each is not None))
    anchor = max((paths[each][depth] for each in writes), key=lambda each: each.lineno)
    if any(paths[each][depth].lineno <= anchor.lineno for each in uses):
        return None
    return anchor if anchor in suite else None


def _path(script: Script, statement: ast.stmt) -> list[ast.stmt]:
    """The statements around the statement in its function, from the outside in, and itself."""
    found = [statement]
    for above in script.entry.ancestors(statement):
        if isinstance(above, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            break
        if isinstance(above, ast.stmt):
            found.append(above)
    return found[::-1]


def _writes_none(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Assign, ast.AnnAssign)) and (
        statement.value is None or (isinstance(statement.value, ast.Constant) and statement.value.value is None)
    )


def _parameters(function: Callee) -> list[str]:
    return [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def _argument(function: FunctionNode, call: ast.Call, name: str, *, is_method: bool) -> ast.expr | None:
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    position = _parameters(function).index(name) - (1 if is_method else 0)
    return call.args[position] if position < len(call.args) else None


# --- what is written there ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Names:
    """The names that are free in the whole module."""

    scaler: str
    use_amp: str
    dtype: str

    @classmethod
    def free(cls, script: Script) -> Names | str:
        """Names that nothing in the module has, or the reason why there are none."""
        module = script.entry
        taken = {each.id for each in module.nodes(ast.Name)} | {each.attr for each in module.nodes(ast.Attribute)}
        taken |= {each.arg for each in module.nodes(ast.arg)} | {each.arg or "" for each in module.nodes(ast.keyword)}
        taken |= {each.name for each in module.nodes(ast.FunctionDef, ast.ClassDef)}
        taken |= {each.asname or each.name for each in module.nodes(ast.alias)}
        found: list[str] = []
        for candidates in (("scaler", "grad_scaler"), ("use_amp", "amp_enabled"), ("amp_dtype", "autocast_dtype")):
            name = next((each for each in candidates if each not in taken), None)
            if name is None:
                return f"the name {candidates[0]} is taken"
            found.append(name)
        return cls(*found)


@dataclass(eq=False)
class Wording:
    """What is inserted so that the blocks and the scaler can be written, and how they are written at each place."""

    script: Script
    form: Form
    names: Names
    conditions: Conditions
    home: Home | None
    """None where no scaler is needed."""
    places: Sequence[ast.stmt]
    """The statements that are to stand under autocast."""
    edits: list[Edit] = field(default_factory=list)

    def torch(self, qualified: str, place: ast.stmt) -> str:
        """How ``torch.…`` is written at the place, after an import if need be."""
        found = self.script.spelled(self.script.entry, qualified, place)
        if found is None:
            self._add(Import(self.script.entry, "import torch"))
        return found or qualified

    def _add(self, edit: Edit) -> None:
        if edit not in self.edits:
            self.edits.append(edit)

    # The header.

    def write(self) -> str | None:
        """Adds the header and what passes the scaler on; the reason if it cannot be written."""
        home, module = self.home, self.script.entry
        if home is None:
            return None
        for anchor in home.anchors:
            condition = self.conditions.at(anchor)
            if condition is None:
                return f"whether the script trains on CUDA cannot be said where the optimizer is made (line {anchor.lineno})"
            self._add(Insert(module, anchor, self._header(anchor, condition), "after"))
        for receiver in home.receivers:
            self._add(AddParameter(module, receiver, self.names.scaler, "None" if receiver.args.defaults else None))
        for call, statement in home.passed:
            self._add(AddArgument(module, call, self.names.scaler, self.scaler_at(statement) or self.names.scaler))
        return None

    @property
    def _prefix(self) -> str:
        return "self." if self.home is not None and self.home.owner is not None else ""

    def _header(self, anchor: ast.stmt, condition: Condition) -> str:
        assert self.home is not None  # noqa: S101 - told by the caller; for the type checker
        prefix, quote = self._prefix, self.script.quote(self.script.entry)
        scaler = f"{prefix}{self.names.scaler} = {self.torch('torch.amp.GradScaler', anchor)}({quote}cuda{quote}"
        if self.form == "fp16":
            lines, test = self._use_amp(condition)
            return "\n".join([*lines, f"{scaler}{'' if test is None else f', enabled={test}'})"])
        capability = f"{self.torch('torch.cuda.get_device_capability', anchor)}({condition.device})[0]"
        if self.home.receivers:
            modern = f"{capability} < 8" if condition.test is None else f"{condition.operand} and {capability} < 8"
            return f"{scaler}, enabled={modern})"
        lines, test = self._use_amp(condition)
        dtype, half = f"{prefix}{self.names.dtype}", self.torch("torch.float16", anchor)
        lines += self._dtype(dtype, test, capability, anchor)
        enabled = f"{dtype} is {half}" if test is None else f"{test} and {dtype} is {half}"
        return "\n".join([*lines, f"{scaler}, enabled={enabled})"])

    def _use_amp(self, condition: Condition) -> tuple[list[str], str | None]:
        """The line that names the condition, where the script has no name for it that all blocks see."""
        test = condition.test
        if test is None or self._is_seen_everywhere(condition) or (self.home is not None and self.home.receivers):
            return [], test if test is None else condition.operand
        name = f"{self._prefix}{self.names.use_amp}"
        return [f"{name} = {test}"], name

    def _is_seen_everywhere(self, condition: Condition) -> bool:
        return condition.is_name and all(self.conditions.at(each) == condition for each in self.places)

    def _dtype(self, name: str, test: str | None, capability: str, place: ast.stmt) -> list[str]:
        choice = f"{capability} >= 8" if test is None else f"{test} and {capability} >= 8"
        wide, half = self.torch("torch.bfloat16", place), self.torch("torch.float16", place)
        line = f"{name} = {wide} if {choice} else {half}"
        if place.col_offset + len(line) <= _WIDEST:
            return [line]
        return [f"{name} = (", f"    {wide} if {choice}", f"    else {half}", ")"]

    # At each place.

    def scaler_at(self, place: ast.stmt) -> str | None:
        """How the scaler is written at the place; None where it is not seen there."""
        home = self.home
        if home is None:
            return None
        function = self.script.entry.function(place)
        if function in home.receivers:
            return self.names.scaler
        return f"{self._prefix}{self.names.scaler}" if self._is_seen(place) else None

    def _is_seen(self, place: ast.stmt) -> bool:
        """Whether what the header binds is bound at the place."""
        module, home = self.script.entry, self.home
        if home is None:
            return False
        function = module.function(place)
        if home.owner is not None:
            return isinstance(function, _FUNCTIONS) and self.script.flow.owner(function) is home.owner
        scopes = {module.function(each) for each in home.anchors}
        if scopes == {None} and function is not None:
            # A global, for functions that are called once it is there.
            return True
        return any(dominates(module, each, place) for each in home.anchors)

    def block(self, place: ast.stmt) -> str | None:
        """The header of a block under autocast at the place; None where its condition cannot be said there."""
        quote = self.script.quote(self.script.entry)
        dtype, enabled = self._dtype_and_test(place)
        if enabled is None:
            return None
        arguments = [f"{quote}cuda{quote}", f"dtype={dtype}", *([f"enabled={enabled}"] if enabled else [])]
        return f"with {self.torch('torch.autocast', place)}({', '.join(arguments)}):"

    def _dtype_and_test(self, place: ast.stmt) -> tuple[str, str | None]:
        """The number format and the condition; an empty condition where there is none to be stated."""
        condition = self.conditions.at(place)
        if self.form != "auto":
            dtype = self.torch("torch.bfloat16" if self.form == "bf16" else "torch.float16", place)
            if self.home is None or self.home.receivers or not self._is_seen(place):
                return dtype, None if condition is None else condition.test or ""
        else:
            dtype = f"{self._prefix}{self.names.dtype}"
        if self.home is not None and not self.home.receivers and self._is_seen(place):
            return dtype, self._named_test(place)
        if condition is None:
            return self.names.dtype, None
        self._add(Insert(self.script.entry, self._outermost_loop(place), self._local_dtype(place, condition), "before"))
        return self.names.dtype, condition.test or ""

    def _named_test(self, place: ast.stmt) -> str | None:
        """The condition as the header names it."""
        assert self.home is not None  # noqa: S101 - told by the caller; for the type checker
        anchor = self.home.anchors[0]
        condition = self.conditions.at(anchor)
        if condition is None:
            return None
        _, test = self._use_amp(condition)
        return test or ""

    def _local_dtype(self, place: ast.stmt, condition: Condition) -> str:
        """The line that chooses the number format in a function that does not see the header."""
        scaler = self.scaler_at(place)
        if scaler is not None:
            wide, half = self.torch("torch.bfloat16", place), self.torch("torch.float16", place)
            return f"{self.names.dtype} = {half} if {scaler}.is_enabled() else {wide}"
        capability = f"{self.torch('torch.cuda.get_device_capability', place)}({condition.device})[0]"
        test = condition.operand if condition.test is not None else None
        return "\n".join(self._dtype(self.names.dtype, test, capability, place))

    def _outermost_loop(self, place: ast.stmt) -> ast.stmt:
        path = _path(self.script, place)
        return next((each for each in path if isinstance(each, (ast.For, ast.While))), place)

