"""The options with which a script is started, as ``argparse`` declares them, and how their values are read."""

from __future__ import annotations

import ast
import operator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow import names, placement
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, is_name, unparsed, walk
from codemods.dataflow.values import NONE, Choice, Literal, Made, library_names
from codemods.facts.decided import agreed, holds
from codemods.facts.devices.devices import branches
from codemods.facts.loops import module_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.script import Script

_NAMESPACE = frozenset({Choice("args")})


class Option(NamedTuple):
    """An option that ``add_argument`` declares."""

    call: ast.Call
    flag: str
    """How the user writes it: ``--n_cpu``."""
    name: str
    """The attribute of the namespace that holds it: ``n_cpu``."""
    default: object
    """Its default where that is a constant, else None."""
    is_integer: bool


def options(script: Script) -> Iterator[Option]:
    """The options of the script, in the order of the text.

    Of several scripts that share the module, each may have options of its own: then only those of the module count.
    """
    modules = script.modules if len(script.entries) == 1 else (script.module,)
    for call in (call for module in modules for call in module.nodes(ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            owners = script.flow.values(call.func.value)
            if any(isinstance(each, Made) and each.name.startswith("argparse.") for each in owners):
                option = _option(call)
                if option is not None:
                    yield option


def click_options(script: Script) -> Iterator[Option]:
    """The options of the module that ``click`` declares, in the order of the text."""
    for call in script.module.nodes(ast.Call):
        if "click.option" in library_names(script.flow.values(call.func)):
            option = _option(call)
            if option is not None:
                yield option


def unread_by_click(script: Script) -> Iterator[Option]:
    """Those of them that the function below does not read."""
    for option in click_options(script):
        function = script.module.parent(option.call)
        if isinstance(function, FUNCTIONS) and not _is_named(function, option.name):
            yield option


def _is_named(function: Callee, name: str) -> bool:
    """Whether the function names its parameter anywhere, or takes any by ``**``."""
    inside = (each for each in walk(function) if isinstance(each, ast.Name))
    return signature(function).kwarg is not None or any(each.id in {name, "locals"} for each in inside)


def _option(call: ast.Call) -> Option | None:
    texts = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    flags = [each for each in texts if each.startswith("--")]
    if not flags:
        return None
    given = {each.arg: each.value for each in call.keywords}
    dest, default, type_ = (given.get(name) for name in ("dest", "default", "type"))
    name = dest.value if isinstance(dest, ast.Constant) else flags[0].removeprefix("--").replace("-", "_")
    value = default.value if isinstance(default, ast.Constant) else None
    is_integer = (isinstance(type_, ast.Name) and type_.id == "int") or (type_ is None and type(value) is int)
    return Option(call, flags[0], str(name), value, is_integer)


def by_default(script: Script, test: ast.expr, below: frozenset[str] = frozenset()) -> bool | None:
    """Whether a test holds where the user gives none of the options that it asks for; None where that is not known."""
    return holds(test, partial(_part_by_default, script, below))


def _part_by_default(script: Script, below: frozenset[str], test: ast.expr) -> bool | None:
    match test:
        case ast.Compare(left, [comparison], [other]) if _is_plain(other):
            defaults = values_by_default(script, left, below)
            return None if defaults is None else agreed(_holds(comparison, each, other) for each in defaults)
    defaults = values_by_default(script, test, below)
    return None if defaults is None else agreed(bool(each) for each in defaults)


_COMPARED: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.Is: operator.is_,
    ast.NotEq: operator.ne,
    ast.IsNot: operator.is_not,
}


_ORDERED: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


def _holds(comparison: ast.cmpop, value: object, other: ast.expr) -> bool | None:
    """Whether the comparison holds for a value; None where it is of another sort, or fails."""
    bound = ast.literal_eval(other)
    if type(comparison) in _ORDERED:
        are_numbers = isinstance(value, (int, float)) and isinstance(bound, (int, float))
        return _ORDERED[type(comparison)](value, bound) if are_numbers else None  # type: ignore[arg-type]
    return _COMPARED[type(comparison)](value, bound) if type(comparison) in _COMPARED else None


def values_by_default(script: Script, node: ast.expr, below: frozenset[str] = frozenset()) -> list[object] | None:
    """What an expression is where the user gives no options; None where that is not known.

    Args:
        script: The script.
        node: The expression.
        below: The names and attributes that are asked for already.
    """
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None  # what is computed from an option is a choice, too
    stored = _stored_by_default(script, node, below)
    if stored and isinstance(node, ast.Name):
        return stored
    is_filled = stored == [] and isinstance(node, ast.Attribute)
    given = _given(script, node)
    if given is not None and any(map(_is_negation, walk(given))):
        held = by_default(script, given)
        return None if held is None else [held]
    found: list[object] = []
    for value in script.flow.values(node):
        is_itself = given is not None or (isinstance(node, ast.Attribute) and value.name == f"args.{node.attr}")
        if isinstance(value, Choice) and not is_itself and _may_be_negated(script, value):
            return None
        declared = [each for each in options(script) if f"args.{each.name}" == value.name]
        if isinstance(value, Literal) and not is_filled:
            found.append(value.value)
        elif isinstance(value, Literal):
            continue  # it is stored where an option is given
        elif isinstance(value, Choice) and len(declared) == 1 and _has_plain_default(declared[0].call):
            found.append(_default(declared[0].call))
        else:
            return None
    return found or None


def _stored_by_default(script: Script, node: ast.Name | ast.Attribute, below: frozenset[str]) -> list[object] | None:
    """What statements give a local name, or an option, where the user gives no options; None where that is not known.

    ``use_amp = None``, ``if args.amp: use_amp = "native"``.
    """
    module, name = module_of(script.flow, node), unparsed(node)
    if name in below:
        return None
    stores: list[tuple[Module, ast.Name | ast.Attribute]]
    if isinstance(node, ast.Attribute):
        if script.flow.values(node.value) != _NAMESPACE:
            return None
        stores = [(where, each) for where in script.modules for each in where.attribute_stores.get(node.attr, ())]
    else:
        function = module.function(node)
        if not isinstance(function, FUNCTIONS) or node.id in signature(function).names:
            return None
        named = [each for each in module.stores.get(name, ()) if function in module.ancestors(each)]
        is_shared = node.id in names.scope_of(function).global_ or any(
            module.function(each) is not function for each in named
        )
        if is_shared:
            return None
        stores = [(module, each) for each in named]
    found: list[object] = []
    for where, store in stores:
        statement = where.statement(store)
        match statement:
            case ast.Assign([target], ast.Constant(value)) if target is store:
                if not _is_off(script, where, statement, below | {name}):
                    found.append(value)
            case _:
                return None
    return found if len(stores) > isinstance(node, ast.Name) else None


def _is_off(script: Script, module: Module, statement: ast.stmt, below: frozenset[str]) -> bool:
    """Whether a statement does not run where the user gives no options."""
    for branch in branches(module, statement):
        held = by_default(script, branch.test, below)
        if held is not None and held is not branch.holds:
            return True
    return False


def _given(script: Script, node: ast.expr) -> ast.expr | None:
    """What the one assignment of the module to a name gives it; None of a parameter, or where there are several."""
    if not isinstance(node, ast.Name):
        return None
    module = module_of(script.flow, node)
    above = (each for each in module.ancestors(node) if isinstance(each, FUNCTIONS))
    if any(node.id in signature(each).names for each in above):
        return None
    match [module.parent(each) for each in module.stores.get(node.id, ())]:
        case [ast.Assign([ast.Name()], value)] if not any(is_name(each, node.id) for each in walk(value)):
            return value
    return None


def _is_negation(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _may_be_negated(script: Script, option: Choice) -> bool:
    """Whether something is given the opposite of an option, which is the user's choice, too: ``f(not args.slow)``."""
    for module in script.modules:
        for node in module.nodes(ast.UnaryOp):
            if _is_negation(node) and option in script.flow.values(node.operand):
                whole: ast.AST = node
                while isinstance(above := module.parent(whole), (ast.BoolOp, ast.UnaryOp)):
                    whole = above
                if getattr(above, "test", None) is not whole:
                    return True
    return False


def is_filled_in(script: Script, node: ast.expr, module: Module, place: ast.stmt) -> bool:
    """Whether code gives the options that an expression may be something else right where they are parsed, if omitted.

    ``args = parser.parse_args()``, ``if args.device is None: args.device = "cuda"``.

    Args:
        script: The script.
        node: The expression.
        module: Where the place is.
        place: Where it is read.
    """
    chosen = [each for each in script.flow.values(node) if isinstance(each, Choice)]
    return all(any(True for _ in _fillings(script, each, module, place)) for each in chosen)


def _fillings(script: Script, option: Choice, module: Module, place: ast.stmt) -> Iterator[ast.If]:
    """What gives an option that is None something else, before the place where that stands in the same function."""
    for where in script.modules:
        for branch in where.nodes(ast.If):
            match branch:
                case ast.If(
                    ast.Compare(ast.Attribute(ast.Name(owner), name), [ast.Is()], [ast.Constant(None)]),
                    [ast.Assign([ast.Attribute(ast.Name(filled), attribute)], value)],
                ) if filled == owner and attribute == name and option.name == f"args.{name}":
                    suite = where.suite(branch)
                    is_parsed = any(_parses(each, owner) for each in suite[: suite.index(branch)])
                    is_elsewhere = where.function(branch) is not module.function(place)
                    is_before = is_elsewhere or (where is module and placement.dominates(module, branch, place))
                    if is_parsed and is_before and NONE not in script.flow.values(value):
                        yield branch


def _parses(statement: ast.stmt, name: str) -> bool:
    """``args = parser.parse_args()``."""
    match statement:
        case ast.Assign([ast.Name(target)], ast.Call(ast.Attribute(attr="parse_args"))):
            return target == name
    return False


def _is_plain(node: ast.expr) -> bool:
    """Whether it is a number, a text or another constant."""
    match node:
        case ast.Constant() | ast.UnaryOp(ast.USub(), ast.Constant(int() | float())):
            return True
    return False


def _has_plain_default(call: ast.Call) -> bool:
    """Whether the declaration says what holds without the option: a constant, nothing, or an action that implies it.

    There is no run without one that is required.
    """
    given = {each.arg: each.value for each in call.keywords}
    action = given.get("action")
    is_known = action is None or (isinstance(action, ast.Constant) and action.value in {"store", *_ACTIONS})
    required = given.get("required")
    is_free = required is None or (isinstance(required, ast.Constant) and not required.value)
    return is_known and is_free and None not in given and _is_plain(given.get("default", ast.Constant(None)))


def _default(call: ast.Call) -> object:
    """What holds without the option, where its declaration says so plainly."""
    given = {each.arg: each.value for each in call.keywords}
    action = given.get("action")
    if "default" in given:
        return ast.literal_eval(given["default"])
    return _ACTIONS.get(str(action.value)) if isinstance(action, ast.Constant) else None


_ACTIONS = {"store_true": False, "store_false": True}


def is_read(script: Script, option: Option) -> bool:
    """Whether the script reads the option's value for anything but a loader's number of workers."""
    return any(
        not (isinstance(parent, ast.keyword) and parent.arg == "num_workers") for parent in _reading(script, option)
    )


def is_given(script: Script, option: Option) -> bool:
    """Whether the script may read the option's value: by its name, or with all the others, as ``vars(args)``."""
    return any(True for _ in _reading(script, option)) or _are_all_read(script)


def _reading(script: Script, option: Option) -> Iterator[ast.AST | None]:
    """What stands around each place that reads the option's value."""
    for module in script.modules:
        for node in module.nodes(ast.Attribute, ast.Subscript):
            key = node.attr if isinstance(node, ast.Attribute) else getattr(node.slice, "value", None)
            if key == option.name and any(isinstance(each, Choice) for each in script.flow.values(node.value)):
                yield module.parent(node)


def _are_all_read(script: Script) -> bool:
    """Whether the namespace of all options is given to code that is not followed: ``vars(args)``, ``main(**args)``."""
    for module in script.modules:
        for call in module.nodes(ast.Call):
            given = arguments_of(call)
            is_followed = all(isinstance(each.site, FUNCTIONS) for each in script.flow.values(call.func))
            is_spread = any(each.arg is None for each in call.keywords)
            if (is_spread or not is_followed) and any(_NAMESPACE & script.flow.values(each) for each in given):
                is_printed = {each.name for each in script.flow.values(call.func)} <= {"builtins.print"}
                if is_spread or not is_printed:
                    return True
    return False


def namespace(script: Script, module: Module, place: ast.stmt) -> str | None:
    """The name that the parsed options have at a place; None where they have none, or may be something else."""
    local = sorted(name for name, values in script.flow.before(place).items() if values == _NAMESPACE)
    if local:
        return local[0]
    function = module.function(place)
    if function is None:
        return None
    for name in module.nodes(ast.Name):
        if (
            isinstance(name.ctx, ast.Store)
            and script.flow.read_module_name(module, name.id) == _NAMESPACE
            and _is_bound_before(module, name, function, place)
        ):
            return name.id
    return None


def _is_bound_before(module: Module, name: ast.Name, function: ast.AST, place: ast.stmt) -> bool:
    """Whether a module's name is bound, by this store, before a place in a function runs: there, if it is global."""
    if module.function(name) is function:
        return name.id in names.scope_of(function).global_ and placement.dominates(
            module, module.statement(name), place
        )
    return module.function(name) is None and placement.bound_for(module, name.id, function)
