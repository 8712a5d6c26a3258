"""Where a module names mixed precision by deprecated names, and which of these places can only change together."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from codemods.dataflow.names import canonical
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import External, external
from codemods.facts.models.scripted_code import may_be_scripted
from codemods.facts.overwritten import why_overwritten
from codemods.facts.reason import HERE, Reason, at
from codemods.library.renamed import NAMES, OLD_PACKAGES, PACKAGE, RENAMED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script
    from codemods.library.renamed import Renamed

Start: TypeAlias = "ast.Import | ast.ImportFrom"

_SCALER = "GradScaler"
_AUTOCAST = "autocast"
_SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Module)
_CHECKS = frozenset({"builtins.isinstance", "builtins.issubclass"})


@dataclass(frozen=True, eq=False)
class Reference:
    """An expression that names something by its old name."""

    node: ast.Name | ast.Attribute
    renamed: Renamed
    start: Start | None
    """The import that binds the name, or the package in it, and has to change with it; None of ``torch.cuda.amp.…``."""
    is_certain: bool
    """Whether it can be nothing else."""


@dataclass(frozen=True, eq=False)
class Together:
    """References that change together, or not at all."""

    references: tuple[Reference, ...]

    @property
    def starts(self) -> tuple[Start, ...]:
        """The imports that change with them, in the order of the text."""
        found = {each.start for each in self.references if each.start is not None}
        return tuple(sorted(found, key=lambda each: each.lineno))

    @property
    def node(self) -> ast.expr | ast.stmt:
        """The first place that changes."""
        return self.starts[0] if self.starts else self.references[0].node


class _Binding(NamedTuple):
    """What an import binds: an old name, or a package of old names."""

    start: Start
    renamed: Renamed | None
    target: str


def old_names(script: Script) -> list[Together]:
    """The places of the module that name something by its old name, but those that a torch without the new one runs."""
    if "amp" not in script.module.text:
        return []
    references = [each for each in _references(script) if not _is_for_old_torch(script, each)]
    checked = any(_may_ask_for_class(script.module, each) for each in references)
    groups: list[tuple[list[Reference], set[object]]] = []
    for each in references:
        shared: set[object] = {each.start or each.node}
        shared |= {_SCALER} if checked and each.renamed.name == _SCALER else set()
        together = [each]
        for other in [group for group in groups if group[1] & shared]:
            groups.remove(other)
            together[:0] = other[0]
            shared |= other[1]
        groups.append((together, shared))
    return [Together(tuple(each)) for each, _ in groups]


def _may_ask_for_class(module: Module, reference: Reference) -> bool:
    """Whether the class of scalers is neither called nor an annotation: of the old class, the new ones are none."""
    node = reference.node
    return reference.renamed.name == _SCALER and not is_called(module, node) and not is_annotation(module, node)


def _references(script: Script) -> Iterator[Reference]:
    module = script.module
    bindings = _bindings(module)
    for node in module.nodes(ast.Name, ast.Attribute):
        if isinstance(node.ctx, ast.Load):
            found = (
                _attribute(script, node, bindings) if isinstance(node, ast.Attribute) else _name(script, node, bindings)
            )
            if found is not None:
                yield found


def _attribute(script: Script, node: ast.Attribute, bindings: Mapping[str, Sequence[_Binding]]) -> Reference | None:
    """``torch.cuda.amp.autocast``, ``amp.autocast``."""
    if node.attr not in NAMES:
        return None
    module = script.module
    packages = {each.name for each in script.flow.values(node.value)}
    if not packages and is_annotation(module, node):  # which nothing evaluates
        place, written = module.statement(node), ast.unparse(node.value)
        packages = {each for each in OLD_PACKAGES if script.spelled(module, each, place) == written}
    renamed = next((RENAMED[each, node.attr] for each in packages if (each, node.attr) in RENAMED), None)
    bound = bindings.get(node.value.id, []) if isinstance(node.value, ast.Name) else []
    if renamed is None:
        return None
    is_certain = len(packages) == 1 and len(bound) <= 1
    return Reference(node, renamed, bound[0].start if bound else None, is_certain)


def _name(script: Script, node: ast.Name, bindings: Mapping[str, Sequence[_Binding]]) -> Reference | None:
    """``autocast``, where an import binds it."""
    bound = bindings.get(node.id, [])
    if not bound or bound[0].renamed is None:
        return None
    values, wanted = script.flow.values(node), external(canonical(bound[0].target))
    if values and not values & wanted:
        return None
    is_known = values == wanted or (not values and is_annotation(script.module, node))
    return Reference(node, bound[0].renamed, bound[0].start, is_certain=is_known and len(bound) == 1)


def _bindings(module: Module) -> dict[str, list[_Binding]]:
    """What the imports of old names, and of their packages, bind, by the name that is bound."""
    found: defaultdict[str, list[_Binding]] = defaultdict(list)
    for start in module.nodes(ast.ImportFrom, ast.Import):
        if isinstance(start, ast.ImportFrom) and start.level:
            continue
        source = f"{start.module}." if isinstance(start, ast.ImportFrom) else ""
        for alias in start.names:
            target = f"{source}{alias.name}"
            renamed = RENAMED.get((source.rstrip("."), alias.name))
            if renamed is not None or (target in OLD_PACKAGES and (source or alias.asname)):
                found[alias.asname or alias.name].append(_Binding(start, renamed, target))
    return found


def _is_for_old_torch(script: Script, reference: Reference) -> bool:
    """Whether the script names the new one as well, and chooses by the version of torch which of the two it runs."""
    module, name = script.module, reference.renamed.name
    if reference.start is not None:
        bound = reference.node.id if isinstance(reference.node, ast.Name) else ast.unparse(_owner(reference.node))
        return any(
            (alias.asname or alias.name) == bound and f"{start.module}.{alias.name}" in {PACKAGE, f"{PACKAGE}.{name}"}
            for start in module.nodes(ast.ImportFrom)
            for alias in start.names
        )
    below: ast.AST = reference.node
    parent = module.parent(below)
    if isinstance(parent, ast.Tuple) and any(_names_new(script, each, name) for each in parent.elts):
        return True  # either of the two is asked for
    for above in module.ancestors(reference.node):
        if any(_names_new(script, part, name) for part in _alternatives(above, below)):
            return True
        if isinstance(above, (*FUNCTIONS, ast.Module)):
            return False
        below = above
    return False


def _owner(node: ast.Name | ast.Attribute) -> ast.expr:
    return node.value if isinstance(node, ast.Attribute) else node


def _alternatives(above: ast.AST, below: ast.AST) -> list[ast.AST]:
    """What runs instead of a part of a statement or expression: the other branch, or what an ``if`` before returns."""
    suite = next((each for _, each in ast.iter_fields(above) if isinstance(each, list) and below in each), [])
    before = suite[: suite.index(below)] if below in suite else []
    returning: list[ast.AST] = [
        each for each in before if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Return)
    ]
    match above:
        case ast.IfExp(_, body, orelse):
            return [*returning, *(each for each in (body, orelse) if each is not below)]
        case ast.If(_, body, orelse):
            return [*returning, *(body if below in orelse else orelse)]
        case ast.ExceptHandler():
            return []
        case ast.Try(body, handlers):
            return [*returning, *(handlers if below in body else body)]
    return returning


def _names_new(script: Script, part: ast.AST, name: str) -> bool:
    names = (each for each in walk(part) if isinstance(each, ast.Attribute) and each.attr == name)
    return any(external(PACKAGE) == script.flow.values(each.value) for each in names)


# What each of them is used for.


def is_called(module: Module, node: ast.expr) -> bool:
    """Whether the expression is what a call calls."""
    parent = module.parent(node)
    return isinstance(parent, ast.Call) and parent.func is node


def is_decorator(module: Module, node: ast.expr) -> bool:
    """Whether the expression, without arguments, decorates a function."""
    parent = module.parent(node)
    return isinstance(parent, ast.FunctionDef) and node in parent.decorator_list


def partial_of(script: Script, module: Module, node: ast.expr) -> ast.Call | None:
    """The ``functools.partial(autocast, enabled=amp)`` that is made of the class."""
    call = module.parent(node)
    if not isinstance(call, ast.Call) or call.args != [node] or any(each.arg is None for each in call.keywords):
        return None
    return call if script.flow.values(call.func) == external("functools.partial") else None


def is_kept_for_calls(script: Script, module: Module, node: ast.expr) -> bool:
    """Whether an assignment gives the class a name of its own that is called without arguments, and nothing else.

    ``amp_context = autocast if args.amp else nullcontext``, and ``with amp_context():`` further down, or in a function
    that is given ``amp_context``.
    """
    held: ast.expr = partial_of(script, module, node) or node
    statement = module.parent(held)
    if isinstance(statement, ast.IfExp) and held is not statement.test:
        held, statement = statement, module.parent(statement)
    match statement:
        case ast.Assign([ast.Name(name)], value) if value is held:
            pass
        case _:
            return False
    if isinstance(next(each for each in module.ancestors(statement) if isinstance(each, _SCOPES)), ast.ClassDef):
        return False  # a method, which would be given the object
    is_local = module.function(statement) is not None and not any(
        name in each.names for each in module.nodes(ast.Global, ast.Nonlocal)
    )
    return _is_only_called(script, module, module.tree, name, frozenset()) and (
        is_local or _taken_from(script, module, {name}, {module}) is None
    )


def _is_only_called(script: Script, module: Module, scope: ast.AST, name: str, seen: frozenset[ast.AST]) -> bool:
    """Whether all that a scope does with a name is to call it without arguments, or to hand it on for that."""
    names = (each for each in walk(scope) if isinstance(each, ast.Name) and each.id == name)
    reads = [each for each in names if isinstance(each.ctx, ast.Load)]
    return bool(reads) and all(
        _is_called_bare(module, each) or _is_given_to_call(script, module, each, seen | {scope}) for each in reads
    )


def _is_called_bare(module: Module, node: ast.expr) -> bool:
    call = module.parent(node)
    return isinstance(call, ast.Call) and call.func is node and not arguments_of(call)


def _is_given_to_call(script: Script, module: Module, node: ast.Name, seen: frozenset[ast.AST]) -> bool:
    """Whether it is an argument of a function of the project that only calls it."""
    given = module.parent(node)
    call = module.parent(given) if isinstance(given, ast.keyword) else given
    if not isinstance(call, ast.Call) or call.func is node:
        return False
    flow, called = script.flow, script.flow.called(call)
    if not called or len(called) != len(flow.values(call.func)):
        return False
    for function in called:
        binding, where = flow.bind(function, call), flow.module_of(function)
        names = [name for name, each in binding.given.items() if each is node]
        if not binding.is_whole or len(names) != 1 or function in seen:
            return False
        stores = where.stores.get(names[0], ())
        if any(where.function(each) is function for each in stores):
            return False
        if not _is_only_called(script, where, function, names[0], seen):
            return False
    return True


def checks_type(script: Script, module: Module, node: ast.expr) -> bool:
    """Whether an object is asked whether it is one of the class: ``isinstance(scaler, GradScaler)``."""
    parent = module.parent(node)
    asked = parent if isinstance(parent, ast.Tuple) else node
    call = module.parent(asked)
    if not isinstance(call, ast.Call) or asked not in call.args[1:2]:
        return False
    return any(each.name in _CHECKS for each in script.flow.values(call.func))


def is_annotation(module: Module, node: ast.expr) -> bool:
    """Whether the expression says what a name is to hold, and nothing asks when the script runs."""
    below: ast.AST = node
    for above in module.ancestors(node):
        if not isinstance(above, (ast.Subscript, ast.BinOp, ast.Tuple, ast.Attribute)):
            said = (getattr(above, "annotation", None), getattr(above, "returns", None))
            return any(below is each for each in said)
        below = above
    return False


# Why they are left.


def why_not(script: Script, together: Together) -> Reason | None:
    """Why the references keep their old names; None where all of them can change."""
    return next((reason for reason in _obstacles(script, together) if reason is not None), None)


def _obstacles(script: Script, together: Together) -> Iterator[Reason | None]:
    module = script.module
    for each in together.references:
        here, code = (at(module, each.node),), module.code(each.node)
        if not each.is_certain:
            text = f"'{code}' may stand for something else ({HERE}):"
            yield Reason("several-meanings", text, here, "import one thing by that name")
        yield _why_not_used_so(script, each)
    names = {f"torch.{each.renamed.device}.amp.{each.renamed.name}" for each in together.references}
    yield why_overwritten(script.flow, module, names)
    yield from (_why_needed(script, each, together) for each in together.starts)
    yield from (_why_compiled(script, each) for each in together.references)
    if any(each.renamed.name == _SCALER and is_called(module, each.node) for each in together.references):
        yield _why_checked_elsewhere(script)


def _why_compiled(script: Script, reference: Reference) -> Reason | None:
    """Why TorchScript may have to read the name: not what runs around, or beside, what it has compiled."""
    module, compiled = script.module, may_be_scripted(script)
    if not any(each in compiled for each in module.ancestors(reference.node)):
        return None
    text = f"TorchScript may compile this code ({HERE}), and knows {reference.renamed.name} by its names"
    return Reason("torchscript", text, (at(module, reference.node),))


def _why_not_used_so(script: Script, reference: Reference) -> Reason | None:
    module, node, renamed = script.module, reference.node, reference.renamed
    here, code, parent = (at(module, node),), module.code(node), module.parent(node)
    if isinstance(parent, ast.Call) and is_called(module, node):
        if any(isinstance(each, ast.Starred) for each in parent.args):
            return Reason("unknown-arguments", f"which arguments {code} is given is not known ({HERE})", here)
        named = {each.arg for each in parent.keywords}
        if len(parent.args) > len(renamed.parameters) or named - {*renamed.parameters, "cast_inputs", None}:
            return Reason("unknown-arguments", f"{code} is given other arguments than it takes ({HERE})", here)
        return None
    takes_function = not renamed.takes_device_first and is_decorator(module, node)
    if takes_function or is_annotation(module, node) or checks_type(script, module, node):
        return None
    if renamed.name == _AUTOCAST and is_kept_for_calls(script, module, node):
        return None
    if isinstance(parent, ast.ClassDef):
        text = f"{parent.name} derives from {code} ({HERE}), and its objects would have to be given the device:"
        return Reason("handed-on", text, here, f"derive it from {PACKAGE}.{renamed.name}, and hand that the device")
    text = f"{code} is not called where it is named ({HERE}):"
    return Reason("handed-on", text, here, f"name {PACKAGE}.{renamed.name} there, and give it the device in its calls")


def _why_needed(script: Script, start: Start, together: Together) -> Reason | None:
    """Why the import has to stay as it is: for what else the names are used, here or in other modules."""
    module = script.module
    known = {each.node for each in together.references} | {_owner(each.node) for each in together.references}
    names = {alias.asname or alias.name for alias in start.names}
    packages = {name for name, bound in _bindings(module).items() if any(each.renamed is None for each in bound)}
    for node in module.nodes(ast.Name):
        if node.id in names & packages and node not in known and isinstance(node.ctx, ast.Load):
            parent = module.parent(node)
            code = module.code(parent if isinstance(parent, ast.Attribute) else node)
            return Reason(
                "no-name", f"{code} is used as well, which {PACKAGE} may not have ({HERE})", (at(module, node),)
            )
    found = _taken_from(script, module, names, {module})
    if found is None:
        return None
    other, place = found
    text = f"{other.path} takes the name from here, and would have to change, too ({HERE})"
    return Reason("other-module", text, (at(other, place),))


def _taken_from(script: Script, module: Module, names: set[str], seen: set[Module]) -> tuple[Module, ast.AST] | None:
    """Where another module takes one of the names from a module, be it through others that import all it has."""
    for other in [each for each in script.flow.modules if each not in seen]:
        for start in other.nodes(ast.ImportFrom):
            if module not in script.flow.loaded(other, start):
                continue
            source = [alias.name for alias in start.names]
            if names.intersection(source):
                return other, start
            if "*" in source:
                if any(each.id in names for each in other.nodes(ast.Name)):
                    return other, start
                seen.add(other)
                found = _taken_from(script, other, names, seen)
                if found is not None:
                    return found
        for node in other.nodes(ast.Attribute):
            if node.attr in names and any(
                isinstance(each, External) and each.name == module.name for each in script.flow.values(node.value)
            ):
                return other, node
    return None


def _why_checked_elsewhere(script: Script) -> Reason | None:
    """Why the old class has to be made: another module asks for it, and the new one is none."""
    for other in script.modules:
        if other is script.module or _SCALER not in other.text:
            continue
        seen = script.seen_from(other)
        for each in _references(seen):
            if _may_ask_for_class(other, each):
                text = f"{other.path} may ask whether a scaler is one of the old class ({HERE}):"
                return Reason("other-module", text, (at(other, each.node),), "have it ask for the new one first")
    return None
