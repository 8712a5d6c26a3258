"""What a model's forward keeps, in its attributes or by a hook, so that a graph outlives the call."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, declared_outer, words
from codemods.dataflow.recursion import closure
from codemods.dataflow.values import Container, Method, MovedTensor, SomeTensor, Unknown
from codemods.facts.attribute_access import Access, are_kin, owner_of_self, read_by_name, written_by_name
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.evaluation_region import Kept
from codemods.facts.training.iterations import own
from codemods.facts.training.kept_numbers import holds_numbers_alone
from codemods.facts.training.modes import is_models_method
from codemods.library.hooks import is_given_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.dataflow.values import Value, Values

_MAY_CARRY = (SomeTensor, MovedTensor, Unknown, Container)
_PUTTING = words("add append appendleft extend insert setdefault update")
_PRODUCTS = words("dot matmul mm mv vdot")
_CUTTING = words("argmax data detach item shape size tolist")
_MOVING = words("to type type_as")


class KeptStates:
    """Finds what the models of some modules keep from their calls."""

    def __init__(self, flow: Flow, modules: Sequence[Module], *, with_memory: bool = False) -> None:
        """Of what keeps graphs; with memory, of all tensors that are kept, as their memory may be written anew."""
        self._flow = flow
        self._modules = modules
        self._with_memory = with_memory

    @cached_property
    def inside(self) -> tuple[Kept, ...]:
        """Where tensors from inside a model's forward may be kept: by a hook, or by an attribute of the model."""
        return tuple(self._keeps_inside())

    def _keeps_inside(self) -> Iterator[Kept]:
        for module in self._modules:
            for call in module.nodes(ast.Call):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                if is_given_outputs(name):
                    text = f"a forward hook may keep tensors for later ({HERE})"
                    yield Kept(module, Reason("graph-escapes", text, (at(module, call),)), None)
            for target, attribute, values in self._kept_in_attributes(module):
                forward = self._forward_that_keeps(module, target, attribute, values)
                if forward is not None:
                    text = f"the model's forward keeps a tensor that is read elsewhere ({HERE})"
                    yield Kept(module, Reason("graph-escapes", text, (at(module, target),)), forward)
            for name in module.nodes(ast.Name):
                forward = self._forward_that_binds(module, name) if isinstance(name.ctx, ast.Store) else None
                if forward is not None:
                    text = f"the model's forward keeps a tensor that is read elsewhere ({HERE})"
                    yield Kept(module, Reason("graph-escapes", text, (at(module, name),)), forward)
            for node, container, given in _put_in(self._flow, module):
                forward = self._forward_that_collects(module, node, container, given)
                if forward is not None:
                    text = f"the model's forward puts a tensor where it is read elsewhere ({HERE})"
                    yield Kept(module, Reason("graph-escapes", text, (at(module, node),)), forward)

    def _forward_that_collects(
        self, module: Module, node: ast.AST, container: ast.expr, given: ast.expr
    ) -> FunctionNode | None:
        """The model's own ``forward``, where it puts a tensor with a graph into ``self.x`` or the like."""
        function = module.function(node)
        forwards = self._forwards_that_run(function) if isinstance(function, ast.FunctionDef) else ()
        if function is None or not forwards or _is_cut(given):
            return None
        containers = self._containers(container)
        if not containers or not self._may_carry(self._flow.values(given)):
            return None
        reads = self._reads_of_holders({function, *forwards}, containers)
        return self._read_elsewhere(forwards, reads) if reads else None

    def _containers(self, node: ast.expr) -> frozenset[Container]:
        """The lists and dictionaries that are changed: also those that hold one which is taken out, ``self.x["a"]``."""
        values = self._flow.values(node)
        found = {each for each in values if isinstance(each, Container)}
        found |= {each.of for each in values if isinstance(each, Method) and isinstance(each.of, Container)}
        match node:
            case ast.Subscript(holder) | ast.Call(ast.Attribute(holder, "get" | "setdefault")):
                found |= self._containers(holder)
        return frozenset(found)

    def _reads_of_holders(
        self, inside: set[Callee], containers: frozenset[Container]
    ) -> Sequence[tuple[Module, ast.expr]]:
        """Where attributes, or names of modules, are read that may hold one of the containers.

        One that is made inside the forward may be what it returns, which others keep: it has to be held there, too.
        """
        reads: dict[tuple[Module, ast.expr], None] = {}
        for container in containers:
            is_inner = module_of(self._flow, container.site).function(container.site) in inside
            for function, node in self._holders.get(container, ()):
                is_here = function in inside
                match node:
                    case ast.Attribute(_, name) if is_here or not is_inner:
                        reads |= dict.fromkeys(self._reads_of(name))
                    case ast.Name(name) if is_here:
                        reads |= dict.fromkeys(self._reads_of_name(name))
        return list(reads)

    @cached_property
    def _holders(self) -> dict[Value, list[tuple[Callee | None, ast.expr]]]:
        """Attributes, and names of modules read in functions, by the containers that they may hold, maybe in others."""
        found: dict[Value, list[tuple[Callee | None, ast.expr]]] = {}
        for module in self._modules:
            for node in module.nodes(ast.Attribute, ast.Name):
                function = module.function(node)
                is_own = isinstance(node, ast.Name) and (function is None or node.id in bound_names(function))
                held = [] if is_own else [each for each in self._flow.values(node) if isinstance(each, Container)]
                for each in closure(held, self._inner):
                    found.setdefault(each, []).append((function, node))
        return found

    def _inner(self, container: Container) -> Sequence[Container]:
        return [each for each in self._flow.items(container) if isinstance(each, Container)]

    def _reads_of(self, attribute: str | None) -> Sequence[tuple[Module, ast.expr]]:
        """Where attributes of that name are read, or may be; None: of any name."""
        found = self._reads
        if attribute is None:
            return [each for places in found.values() for each in places]
        return [*found.get(attribute, ()), *found.get(None, ())]

    @cached_property
    def _reads(self) -> dict[str | None, list[tuple[Module, ast.expr]]]:
        """Where attributes are read, by their names; under None where the name is computed."""
        found: dict[str | None, list[tuple[Module, ast.expr]]] = {}
        for module in self._modules:
            for each in module.nodes(ast.Attribute):
                above = module.parent(each)
                is_cut = isinstance(above, ast.Attribute) and above.attr in _CUTTING
                if isinstance(each.ctx, ast.Load) and (self._with_memory or not is_cut):
                    found.setdefault(each.attr, []).append((module, each))
            for read in read_by_name(self._flow, module):
                # A constructor runs before any forward: layers that are numbered are often looked up there.
                function = module.function(read.node)
                is_early = read.name is None and getattr(function, "name", "") == "__init__"
                if not is_early and not self._makes_model(function, set()):
                    found.setdefault(read.name, []).append((module, read.node))
        return found

    def _makes_model(self, function: Callee | None, seen: set[Callee]) -> bool:
        """Whether the function is the constructor of a model, or a method that only such constructors run."""
        if not isinstance(function, ast.FunctionDef) or not is_models_method(self._flow, function):
            return False
        if function in seen or function.name == "__init__":
            return True
        seen.add(function)
        callers = self._flow.callers(function)
        return (
            bool(callers)
            and not self._flow.escapes(function)
            and all(self._makes_model(module_of(self._flow, each).function(each), seen) for each in callers)
        )

    def _reads_of_name(self, name: str) -> Sequence[tuple[Module, ast.expr]]:
        loads = ((where, each) for where in self._modules for each in where.nodes(ast.Name) if each.id == name)
        return [(where, each) for where, each in loads if isinstance(each.ctx, ast.Load)]

    def _kept_in_attributes(self, module: Module) -> Iterator[tuple[ast.expr, str | None, Values]]:
        """Where attributes are given a value, with their names, None where any may be, and what it may be."""
        for target in module.nodes(ast.Attribute):
            if isinstance(target.ctx, ast.Store) and (self._with_memory or not _is_data_of_tensor(module, target)):
                yield target, target.attr, self._flow.values(target)
        for written in written_by_name(self._flow, module):
            given = written.given
            if given is None or not _is_cut(given):
                values = self._flow.values(given) if given is not None else frozenset()
                yield written.node, written.name, values or frozenset({Unknown("it is not followed")})

    def _forward_that_keeps(
        self, module: Module, target: ast.expr, attribute: str | None, values: Values
    ) -> FunctionNode | None:
        """The model's own ``forward``, where it is ``self.x = …`` in it, a tensor, and something else reads ``….x``."""
        function = module.function(target)
        forwards = self._forwards_that_run(function) if isinstance(function, ast.FunctionDef) else ()
        if not forwards or not self._may_carry(values):
            return None
        class_ = owner_of_self(self._flow, module, target)
        return self._read_elsewhere(forwards, self._may_read(class_, self._reads_of(attribute)))

    def _may_read(
        self, class_: ast.ClassDef | None, reads: Sequence[tuple[Module, ast.expr]]
    ) -> Sequence[tuple[Module, ast.expr]]:
        """Those of some places that read attributes which may be of an object of the class; None: of any."""
        if class_ is None:
            return reads
        owners = [owner_of_self(self._flow, *each) for each in reads]
        is_other = [owner is not None and not are_kin(self._flow, class_, owner) for owner in owners]
        return [each for each, skipped in zip(reads, is_other, strict=True) if not skipped]

    def _forward_that_binds(self, module: Module, name: ast.Name) -> FunctionNode | None:
        """The model's own ``forward``, where it binds a name that is not its own: ``global LAST``."""
        function = module.function(name)
        is_shared = isinstance(function, ast.FunctionDef) and name.id in declared_outer(function)
        forwards = self._forwards_that_run(function) if function is not None and is_shared else ()
        if not forwards or not self._may_carry(self._flow.values(name)):
            return None
        return self._read_elsewhere(forwards, self._reads_of_name(name.id))

    def _forwards_that_run(self, function: Callee) -> Sequence[ast.FunctionDef]:
        """The ``forward`` of a model that the function is, or those that call it, maybe through others."""
        found: list[ast.FunctionDef] = []
        todo, seen = [function], {function}
        while todo:
            each = todo.pop()
            if isinstance(each, ast.FunctionDef) and each.name == "forward" and is_models_method(self._flow, each):
                found.append(each)
                continue
            above = (module_of(self._flow, call).function(call) for call in self._flow.callers(each))
            more = {one for one in above if one is not None} - seen
            seen |= more
            todo += more
        return found

    def _read_elsewhere(
        self, forwards: Sequence[ast.FunctionDef], reads: Sequence[tuple[Module, ast.AST]]
    ) -> ast.FunctionDef | None:
        """The first forward beside which something else reads what it keeps."""
        for forward in forwards:
            if not all(self._runs_in(where.function(each), forward, set()) for where, each in reads):
                return forward
        return None

    def _may_carry(self, values: Values) -> bool:
        """Whether a tensor may be among the values, or in a list or dictionary among them: not in one of numbers."""
        seen: set[Value] = set()
        todo = [*values]
        while todo:
            value = todo.pop()
            items = self._flow.items(value) if isinstance(value, Container) and value not in seen else frozenset()
            if isinstance(value, _MAY_CARRY) and not items and value not in seen:
                return True
            seen.add(value)
            todo += items
        return False

    def _runs_in(self, reader: Callee | None, forward: FunctionNode, seen: set[Callee]) -> bool:
        """Whether the function is ``forward``, or is only called by it, or by what is only called by it."""
        if reader is None or reader is forward or reader in seen:
            return reader is not None
        seen.add(reader)
        callers = self._flow.callers(reader)
        return (
            bool(callers)
            and not self._flow.escapes(reader)
            and all(self._runs_in(module_of(self._flow, each).function(each), forward, seen) for each in callers)
        )

    def carried_on(self, forward: Callee) -> Access | None:
        """An attribute with a tensor that the forward reads before it writes it."""
        if isinstance(forward, ast.Lambda):
            return None
        module = module_of(self._flow, forward)
        by_name = {each.node: each for each in read_by_name(self._flow, module)}
        written_so = {each.node: each for each in written_by_name(self._flow, module)}
        read: set[str | None] = set()
        for statement in forward.body:
            inside = list(own(statement, ast.expr))
            mine = [each for each in inside if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"]
            read |= {each.attr for each in mine if isinstance(each.ctx, ast.Load)}
            read |= {by_name[each].name for each in inside if each in by_name}
            stored = [Access(each, each.attr) for each in mine if isinstance(each.ctx, ast.Store)]
            for each in (*stored, *(written_so[one] for one in inside if one in written_so)):
                given = each.given or _assigned(statement)
                is_tensor = self._may_carry(self._flow.values(each.given or each.node))
                is_cut = given is not None and _is_cut(given)
                if each.name in read and is_tensor and not is_cut and not self._holds_numbers_alone(each.name):
                    return each
        return None

    def _holds_numbers_alone(self, name: str | None) -> bool:
        return name is not None and holds_numbers_alone(self._flow, self._modules, name)


def _is_data_of_tensor(module: Module, target: ast.Attribute) -> bool:
    """``u.data = …``, which takes no graph, where a product of matrices or vectors is computed of ``u``, too."""
    function = module.function(target)
    if target.attr != "data" or not isinstance(target.value, ast.Name) or function is None:
        return False
    names = (each for each in own(function, ast.Name) if each.id == target.value.id)
    return any(_is_multiplied(module, each) for each in names)


def _is_multiplied(module: Module, name: ast.Name) -> bool:
    """``u.dot(v)``, ``a.mv(u)``."""
    match module.parent(name):
        case ast.Attribute(_, method):
            return method in _PRODUCTS
        case ast.Call(ast.Attribute(_, method), given):
            return method in _PRODUCTS and name in given
    return False


def _put_in(flow: Flow, module: Module) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    """Where something is put into a list or dictionary: ``x.append(y)``, ``x[key] = y``, ``x += [y]``; with both."""
    for call in module.nodes(ast.Call):
        yield from ((call, container, given) for container, given in _put_by(flow, call))
    for statement in module.nodes(ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Subscript):
                yield target, target.value, statement.value
    for added in module.nodes(ast.AugAssign):
        if isinstance(added.target, ast.Name):
            yield added, added.target, added.value


def _put_by(flow: Flow, call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a call puts something into, or the method of that, and what it puts there."""
    match call:
        case ast.Call(ast.Attribute(container, name), [*_, given], []) if name in _PUTTING:
            yield container, given
        case ast.Call(ast.Attribute(container, "update"), [], keywords):
            yield from ((container, each.value) for each in keywords)
        case ast.Call(ast.Attribute() | ast.Name() as method, [*_, given], []):
            if any(isinstance(each, Method) and each.name in _PUTTING for each in flow.values(method)):
                yield method, given


def _is_cut(node: ast.expr) -> bool:
    """Whether what is kept has no graph: ``x.detach().cpu()``, and not ``x + x.detach()``."""
    match node:
        case ast.Tuple(elements) | ast.List(elements):
            return all(map(_is_cut, elements))
        case ast.Call(ast.Attribute(value, name), given):
            is_alone = name in _MOVING or all(isinstance(each, ast.Constant) for each in given)
            return name in _CUTTING or (is_alone and _is_cut(value))
        case ast.Attribute(value, name):
            return name in _CUTTING or _is_cut(value)
        case ast.Subscript(value):
            return _is_cut(value)
    return isinstance(node, ast.Constant)


def _assigned(statement: ast.stmt) -> ast.expr | None:
    """``y`` of ``self.x = y``."""
    match statement:
        case ast.Assign([ast.Attribute()], value):
            return value
    return None
