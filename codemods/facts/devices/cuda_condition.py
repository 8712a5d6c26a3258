"""Under which condition does one move go to CUDA, and how can a place say so?

It is the script's own expression, wherever the place can say it: the flag that the script asks before it moves
something, or the device that it moves it to.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.placement import bound_inside, dominates, means_the_same
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import NONE, Choice, External, Literal, Made, Method
from codemods.facts.devices.devices import DeviceKind, always_asks_for_cuda, branches, is_on_cuda
from codemods.facts.reach import Reach, written
from codemods.facts.workers.arguments import is_filled_in, values_by_default

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Values
    from codemods.facts.data.loaders import Loader
    from codemods.facts.devices.devices import Branch
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script

IS_AVAILABLE = "torch.cuda.is_available"


class Asked(NamedTuple):
    """What a flag, a comparison or a device asks."""

    form: tuple[object, ...]
    """The expression, with the values of a name or attribute in its place."""
    is_known: bool
    """Whether the values tell each name from others: two texts of the same form ask the same."""
    of_module: str = ""
    """The dotted name, where it is one that the module binds: functions read what it is when they run."""
    parameter: tuple[ast.AST, str] | None = None
    """The function and its parameter that it is, or that an attribute of ``self`` is given once and for all."""

    @classmethod
    def of(cls, flow: Flow, module: Module, node: ast.expr) -> Asked:
        """What the expression asks."""
        is_known = all(_tells(flow.values(each)) for each in _read(node))
        is_of_module = isinstance(node, ast.Name) and not _is_bound_around(module, node)
        dotted = f"{module.name}.{module.code(node)}" if is_of_module else ""
        return cls(_form(flow, node), is_known, dotted, _parameter(module, node))

    def is_same(self, other: Asked, *, text: bool) -> bool:
        """Whether the other one is known to have the same answer; ``text`` says whether the two are written alike."""
        if self.of_module and self.of_module == other.of_module:
            return True
        if self.parameter is not None and self.parameter == other.parameter:
            return True
        return self.form == other.form and (text or self.is_known)


def _parameter(module: Module, node: ast.expr) -> tuple[ast.AST, str] | None:
    """The parameter that the name is, or the one of a method that alone gives ``self.use_cuda`` its value."""
    function = module.function(node)
    if isinstance(node, ast.Name):
        is_own = isinstance(function, FUNCTIONS) and node.id in signature(function).names
        stores = [each for each in module.stores.get(node.id, ()) if module.function(each) is function]
        return (function, node.id) if is_own and function is not None and not stores else None
    if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "self" or function is None:
        return None
    stored = module.attribute_stores.get(node.attr, ())
    if len(stored) != 1 or ast.unparse(stored[0].value) != "self":
        return None
    statement, maker = module.statement(stored[0]), module.function(stored[0])
    is_of_class = maker is not None and module.parent(maker) is module.parent(function)
    if not is_of_class or not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Name):
        return None
    return _parameter(module, statement.value)


def _is_bound_around(module: Module, name: ast.Name) -> bool:
    """Whether a function around the name binds it."""
    function = module.function(name)
    while function is not None:
        if name.id in bound_names(function):
            return True
        function = module.function(function)
    return False


_TELLING = (Choice, Made, Method, External)


def _tells(values: Values) -> bool:
    """Whether what has these values has the same one as all else that has them; not of ``"cuda"`` or ``"cpu"``."""
    is_constant = len(values) == 1 and all(isinstance(each, Literal) for each in values)
    return is_constant or (bool(values) and all(isinstance(each, _TELLING) for each in values))


def _form(flow: Flow, node: ast.AST) -> tuple[object, ...]:
    if isinstance(node, (ast.Name, ast.Attribute)):
        return (flow.values(node),)
    if isinstance(node, ast.Constant):
        return (node.value,)
    return (type(node), *(_form(flow, each) for each in ast.iter_child_nodes(node)))


def _read(node: ast.AST) -> Iterator[ast.expr]:
    """The names and attributes that the expression reads, each as a whole."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield node
        return
    for each in ast.iter_child_nodes(node):
        yield from _read(each)


@dataclass(frozen=True, slots=True)
class CudaCondition:
    """When the script uses CUDA, as it can be said at some place."""

    test: str | None
    """The expression; None where it always does."""
    device: str = ""
    """The device's name there, if it has one."""
    asks: Asked | None = field(default=None, compare=False)
    """What the expression asks, by which it is told from another one of the same text."""
    is_any: bool = field(default=False, compare=False)
    """Whether it asks for CUDA itself, and so holds wherever anything runs there."""

    follows: bool = field(default=False, compare=False)
    """Whether it asks for a device that is CUDA wherever there is CUDA, and so holds where something runs there for
    certain."""

    def covers(self, other: CudaCondition) -> bool:
        """Whether it is known to hold wherever the other one does."""
        if self.test is None or self.is_any or (self.follows and other.test is None):
            return True
        if self.asks is None or other.asks is None or bool(self.device) is not bool(other.device):
            return False
        return self.asks.is_same(other.asks, text=self.test == other.test)

    @property
    def text(self) -> str:
        """The expression, ``True`` where it always does."""
        return "True" if self.test is None else self.test

    @property
    def is_name(self) -> bool:
        """Whether it is a flag of the script's own."""
        return self.test is not None and self.test.replace(".", "").isidentifier()

    @property
    def operand(self) -> str:
        """The expression, to stand beside ``and``; empty where there is none."""
        test = self.test or ""
        if not test:
            return ""
        return f"({test})" if isinstance(ast.parse(test, mode="eval").body, (ast.IfExp, ast.BoolOp)) else test


def of_move(script: Script, move: Transfer, module: Module, place: ast.stmt) -> CudaCondition | None:
    """When the move goes to CUDA, as the place can say it; None where it cannot."""
    flags = (of_flag(script, each, module, place) for each in reversed(move.cuda_branches))
    found = next((each for each in flags if each is not None), None) if move.module is module else None
    return found or of_device(script, move, module, place)


def of_flag(script: Script, branch: Branch, module: Module, place: ast.stmt) -> CudaCondition | None:
    """The test of a branch that is taken only with CUDA, where it is one that holds then and that the place can say."""
    test = asked_by(branch)
    if test is None or not can_be_said(script.flow, module, test, place):
        return None
    is_any = always_asks_for_cuda(script.flow.values(test))
    return CudaCondition(module.code(test), asks=Asked.of(script.flow, module, test), is_any=is_any)


def asked_by(branch: Branch) -> ast.expr | None:
    """What holds in the branch: of ``if not args.cpu: …`` the test, of the ``else`` of ``if not gpu`` its operand."""
    if branch.holds:
        return branch.test
    is_not = isinstance(branch.test, ast.UnaryOp) and isinstance(branch.test.op, ast.Not)
    return branch.test.operand if is_not else None  # type: ignore[attr-defined]


def of_device(script: Script, move: Transfer, module: Module, place: ast.stmt) -> CudaCondition | None:
    """Whether the device that the move goes to is CUDA, as the place can say it."""
    node = move.device.node
    if move.module is not module or move.device.kind is not DeviceKind.CONDITIONAL or move.method == "type":
        return None
    return of_argument(script, node, module, place) if node is not None else None


def of_argument(script: Script, node: ast.expr, module: Module, place: ast.stmt) -> CudaCondition | None:
    """Whether the device that a call in the module gives a function is CUDA, as the place can say it."""
    said = said_as(script.flow, module, node, place) if module.holds(node) else None
    return None if said is None else of_named(script, module, said, place)


def said_as(flow: Flow, module: Module, node: ast.expr, place: ast.stmt) -> ast.expr | None:
    """How the place can say the device that an expression elsewhere names; None where it cannot."""
    return next(_ways_to_say(flow, module, node, place), None)


def _ways_to_say(flow: Flow, module: Module, node: ast.expr, place: ast.stmt) -> Iterator[ast.expr]:
    """The expression if the place can say it, else others of the same device: ``args.device`` for ``self.device``."""
    if can_be_said(flow, module, node, place):
        yield node
        return
    values = flow.values(node)
    if not values or not all(isinstance(each, (Choice, Made)) for each in values):
        return  # another text may be "cuda" where this one is "cpu"
    for other in module.nodes(ast.Name, ast.Attribute):
        is_read = isinstance(other.ctx, ast.Load)
        if is_read and flow.values(other) == values and can_be_said(flow, module, other, place):
            yield other


def of_named(script: Script, module: Module, node: ast.expr, place: ast.stmt) -> CudaCondition | None:
    """Whether the device of that name is CUDA, as the place can say it."""
    return compared(script, module, node) or _made_device(script, module, node, place)


def compared(script: Script, module: Module, node: ast.expr) -> CudaCondition | None:
    """Whether the device is CUDA, where it can be compared as the script writes it: ``device.type == "cuda"``."""
    text = module.code(node)
    test = is_on_cuda(script.flow, node, text, script.quote(module))
    if test is None:
        return None
    return CudaCondition(test, text, asks=Asked.of(script.flow, module, node), follows=_follows(script.flow, node))


def _follows(flow: Flow, node: ast.expr) -> bool:
    """Whether the device is ``torch.device("cuda" if torch.cuda.is_available() else "cpu")``, and no other one."""
    values = flow.values(node)
    return bool(values) and all(isinstance(each, Made) and _is_cuda_if_there(flow, each.site) for each in values)


def _is_cuda_if_there(flow: Flow, site: ast.AST | None) -> bool:
    match site:
        case ast.Call(_, [ast.IfExp(test, ast.Constant(str(cuda)), ast.Constant("cpu"))], []):
            return cuda.startswith("cuda") and always_asks_for_cuda(flow.values(test))
    return False


def of_loader(script: Script, loader: Loader, node: ast.AST) -> str | None:
    """The expression, valid at ``node``, that says whether the loader's batches go to CUDA; ``True`` if they must.

    The script's own where the place can say it, ``torch.cuda.is_available()`` else; None where torch cannot be named
    there.
    """
    module = loader.module
    place = module.statement(node)
    if any(each.device.kind is DeviceKind.CUDA and each.is_certain for each in loader.moves):
        return "True"
    otherwise = bound_inside(module, node)
    for move in loader.moves:
        said = of_move(script, move, module, place)
        if said is not None and otherwise.isdisjoint(names_in(said.text)):
            return said.text
    torch = script.spelled(module, IS_AVAILABLE, place)
    return f"{torch}()" if torch is not None else None


def names_in(test: str) -> set[str]:
    """The names that an expression reads."""
    return {each.id for each in ast.walk(ast.parse(test)) if isinstance(each, ast.Name)}


def can_be_said(flow: Flow, module: Module, node: ast.expr, place: ast.stmt) -> bool:
    """Whether the expression, which stands elsewhere in the module, has the same value at the place."""
    if isinstance(node, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        return all(isinstance(each, ast.Constant) or can_be_said(flow, module, each, place) for each in parts)
    return (
        means_the_same(flow, module, node, place)
        or _is_set_once(flow, module, node, place)
        or _is_read_above(module, node, place)
        or _is_read_here(flow, module, node, place)
        or _is_kept_meanwhile(flow, module, node, place)
    )


def _made_device(script: Script, module: Module, node: ast.expr, place: ast.stmt) -> CudaCondition | None:
    """The same of a text that the user may choose: ``torch.device(args.device).type == "cuda"``.

    Of nothing no device can be made, though ``model.to(None)`` runs: what the option is by default has to be known.
    """
    made = script.spelled(module, "torch.device", place)
    known = values_by_default(script, node)
    if made is None or known is None:
        return None
    given = [each for each in known if each is not None or not is_filled_in(script, node, module, place)]
    if not given or not all(isinstance(each, str) for each in given):
        return None
    text, quote = module.code(node), script.quote(module)
    test = f"{made}({text}).type == {quote}cuda{quote}"
    return CudaCondition(test, text, asks=Asked.of(script.flow, module, node))


def _is_set_once(flow: Flow, module: Module, node: ast.expr, place: ast.stmt) -> bool:
    """Whether it is an attribute that only ``__init__`` sets, and the place is in a method that runs after that."""
    here, there = module.function(place), module.function(node)
    if not isinstance(node, ast.Attribute) or not isinstance(here, FUNCTIONS) or not isinstance(there, FUNCTIONS):
        return False
    owner, is_own = module.parent(here), ast.unparse(node.value) == "self"
    if not is_own or not isinstance(owner, ast.ClassDef) or module.parent(there) is not owner:
        return False
    writes = _writes(module, node)
    makers = {module.function(each) for each in writes}
    (maker,) = makers if len(makers) == 1 else (None,)
    if not isinstance(maker, ast.FunctionDef) or maker.name != "__init__" or maker is here:
        return False
    last = max(each.lineno for each in writes)
    before = [each for each in maker.body if each.lineno <= last]
    return here not in Reach(flow).functions(before)


def _is_read_above(module: Module, node: ast.expr, place: ast.stmt) -> bool:
    """Whether the function of the place, or the module, reads the attribute before that, and has written it by then."""
    function, statement = module.function(place), module.statement(node)
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return False
    is_above = statement is place or dominates(module, statement, place)
    if not is_above or (function is not None and node.value.id in written(function)):
        return False
    owners = module.stores.get(node.value.id, ()) if function is None else ()
    writes = [*_writes(module, node), *owners]
    return all(module.function(each) is function and each.lineno < statement.lineno for each in writes)


def _writes(module: Module, attribute: ast.Attribute) -> list[ast.Attribute]:
    """Where the module writes the attribute, by this name."""
    text = ast.unparse(attribute)
    every = (each for each in module.nodes(ast.Attribute) if isinstance(each.ctx, ast.Store))
    return [each for each in every if ast.unparse(each) == text]


def _is_read_here(flow: Flow, module: Module, node: ast.expr, place: ast.stmt) -> bool:
    """Whether the function of the place reads the module's name itself, which no function binds.

    Perhaps it is bound below, or several times: none of that happens while the function runs.
    """
    function = module.function(place)
    if not isinstance(node, ast.Name) or function is None or module.function(node) is not function:
        return False
    bindings = [each for each in module.nodes(ast.Name) if each.id == node.id and isinstance(each.ctx, ast.Store)]
    is_global = {module.function(each) for each in bindings} == {None} and node.id not in bound_names(function)
    if not is_global or NONE in flow.read_module_name(module, node.id):
        return False
    is_always_bound = any(module.parent(module.statement(each)) is module.tree for each in bindings)
    return is_always_bound or not branches(module, node)


def _is_kept_meanwhile(flow: Flow, module: Module, node: ast.expr, place: ast.stmt) -> bool:
    """Whether the function of the place reads the attribute itself, ``args.cuda``, and nothing that it runs writes it.

    What is written before the function is called, by the module or by a function that calls it, stays as it is.
    """
    function = module.function(place)
    is_read = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    if not is_read or function is None or module.function(node) is not function or branches(module, node):
        return False
    owner = node.value.id  # type: ignore[attr-defined]
    if any(isinstance(each, (ast.Yield, ast.YieldFrom, ast.Await)) for each in walk(function)):
        return False
    meanwhile = [function, *Reach(flow).functions([function])]
    calls = (each for part in meanwhile for each in walk(part) if isinstance(each, ast.Call))
    if any(_is_handed_on(flow, each, owner) for each in calls):
        return False
    return not any(
        _may_write(each, node.attr, owner, of_function=each is function)  # type: ignore[attr-defined]
        for each in meanwhile
    )


def _is_handed_on(flow: Flow, call: ast.Call, owner: str) -> bool:
    """Whether what has the attribute is given to code that is not read, which may write it: ``setup(args)``."""
    if not any(isinstance(each, ast.Name) and each.id == owner for each in arguments_of(call)):
        return False
    callees = flow.values(call.func)
    is_read = all(each.site is not None or each.name.startswith(("builtins.", "torch.")) for each in callees)
    return not callees or not is_read


def _may_write(function: Callee, attribute: str, owner: str, *, of_function: bool) -> bool:
    """Whether a function may write an attribute of that name, or bind its owner anew.

    Args:
        function: The function.
        attribute: The name of the attribute.
        owner: The name of what has it.
        of_function: Whether the owner's name is that of this function; in others it is one of the module's.
    """
    is_owner = of_function or owner in declared_outer(function)
    for each in walk(function):
        match each:
            case ast.Attribute(_, name, ast.Store() | ast.Del()) if name == attribute:
                return True
            case ast.Name(name, ast.Store() | ast.Del()) if name == owner and is_owner:
                return True
            case ast.Call(ast.Name("setattr" | "vars" | "exec")) | ast.Attribute(attr="__dict__"):
                return True
    return False
