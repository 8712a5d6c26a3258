"""Why a data set cannot be read in workers: what is not known of it, cannot be sent, or would go wrong there."""

from __future__ import annotations

import ast
import enum
import sys
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, scope_of
from codemods.dataflow.source import FUNCTIONS, is_main_guard, is_name, walk
from codemods.dataflow.values import (
    Choice,
    Class,
    Container,
    External,
    Function,
    HostTensor,
    Instance,
    Literal,
    Made,
    Method,
    MovedTensor,
    SomeTensor,
    Unknown,
    class_of,
    library_names,
    owner_of,
    without_none,
)
from codemods.facts.data.pinning import formats
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason
from codemods.facts.workers.payload import OF_WORKERS, calls
from codemods.library.handles import OPENERS, WRAPPERS, is_fact, is_view, opener
from codemods.library.kinds import HUGGING_FACE, Kind, described, kind
from codemods.library.packages import Trait, has
from codemods.library.removed import BUILTINS_OF_PYTHON_2
from codemods.library.seeds import seeded_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.workers.payload import WorkerCode

_TORCHVISION = "torchvision.datasets."
_BASES = frozenset(
    {"torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "torch.utils.data.TensorDataset"}
    | {"builtins.object", "typing.Generic", "abc.ABC"}
)
# What calls the functions that it is made with.
_COMPOSERS = frozenset(
    {"torch.nn.Sequential"}
    | {
        f"torchvision.transforms.{name}"
        for name in ("Compose", "Sequential", "Lambda", "RandomApply", "RandomChoice", "RandomOrder")
    }
)
# What a method that is given as collate_fn drags along with its object.
_STAY_BEHIND = frozenset({Kind.LOADER, Kind.OPTIMIZER, Kind.SCHEDULER})
_NO_CODE = frozenset({"root", "train", "split", "download", "annFile"})
_CANNOT = "cannot be sent to a worker process"
_OPENS_DATABASE = frozenset({"torchvision.datasets.LSUN", "torchvision.datasets.LSUNClass"})
_GENERATORS = frozenset(
    {
        "numpy.random.RandomState",
        "numpy.random.default_rng",
        "numpy.random.Generator",
        "random.Random",
        "torch.Generator",
    }
)


# --- what is not known ----------------------------------------------------------------------------------------------


def why_unknown(code: WorkerCode) -> Reason | None:
    """Why it is not known what runs in the workers, or None where it is."""
    data = code.loader.dataset
    if data.why_unknown is not None:
        return data.why_unknown
    reasons = (
        *(_unknown_data(code.flow, each) for each in data.parts),
        *(_unknown_object(code, each) for each in code.objects if each not in code.idle),
        *(_unknown_call(code, call) for function in code.functions for call in calls(function)),
    )
    return next((each for each in reasons if each is not None), None)


def _unknown_data(flow: Flow, part: Value) -> Reason | None:
    if isinstance(part, Instance):
        for base in flow.bases(part.of.site):
            if not isinstance(base, ast.ClassDef) and base not in _BASES and not base.startswith(_TORCHVISION):
                return Reason("unknown-worker-code", f"what its data set inherits from {base} is not known")
        return None
    if part.name in HUGGING_FACE:
        return _unknown_rows(flow, part)
    if isinstance(part, Made) and not part.name.startswith((_TORCHVISION, "torch.utils.data.")):
        return Reason("unknown-worker-code", f"how {described(part)} reads its items is not known")
    known = (Made, Container, HostTensor, SomeTensor, MovedTensor)
    return None if isinstance(part, known) else Reason("unknown-dataset", "its data set is not known")


def _unknown_rows(flow: Flow, part: Value) -> Reason | None:
    """Why it is not known how workers read one of Hugging Face's data sets."""
    keywords = part.site.keywords if isinstance(part.site, ast.Call) else ()
    if any(each.arg == "streaming" and getattr(each.value, "value", True) for each in keywords):
        text = f"{described(part)} streams it: how its files are divided among workers is not known"
        return Reason("not-divided-among-workers", text)
    for call in formats(flow, part):
        if call.func.attr.endswith("transform"):  # type: ignore[attr-defined]
            text = f"what {ast.unparse(call.func)}() has it do in a worker process is not known"
            return Reason("unknown-worker-code", text)
    return None


def _unknown_object(code: WorkerCode, value: Value) -> Reason | None:
    flow = code.flow
    site = value.site
    if not isinstance(value, Made) or not isinstance(site, ast.Call):
        return None
    if _is_of_unknown_library(value):
        return Reason("unknown-worker-code", f"what {described(value)} does in a worker process is not known")
    is_data = value.name.startswith(_TORCHVISION)
    if not is_data and value.name not in _COMPOSERS:
        return None
    given = (*site.args[is_data:], *(each.value for each in site.keywords if each.arg not in _NO_CODE))
    for argument in given:
        for each in flow.values(argument):
            inner = flow.items(each) if isinstance(each, Container) else {each}
            if any(isinstance(item, Unknown) for item in inner):
                return _not_known(code, ast.unparse(argument), site)
    return None


def _unknown_call(code: WorkerCode, call: ast.Call) -> Reason | None:
    flow = code.flow
    values = flow.values(call.func)
    if not any(isinstance(each, External) and not _is_known(each.name) for each in values):
        if isinstance(call.func, ast.Attribute):
            # A method of the data that is read is harmless, whatever it is; a function that the data set holds is not.
            owners = flow.values(call.func.value)
            if not any(isinstance(each, (Instance, External)) for each in owners):
                return None
        is_none = bool(values) and not without_none(values)  # `if self.transform is not None: …`, which never runs
        if is_none or (without_none(values) and not any(isinstance(each, (Unknown, Choice)) for each in values)):
            return None
    if (
        isinstance(call.func, ast.Name)
        and call.func.id in BUILTINS_OF_PYTHON_2
        and all(isinstance(each, Unknown) for each in values)
    ):
        text = f"Python 3 has no {call.func.id}(), which reading an item may call ({HERE})"
        return Reason("unknown-worker-code", text, (code.at(call),))
    return _not_known(code, f"{ast.unparse(call.func)}()", call)


def _not_known(code: WorkerCode, what: str, node: ast.AST) -> Reason:
    text = f"what {what} does in a worker process is not known ({HERE})"
    return Reason("unknown-worker-code", text, (code.at(node),))


def _is_known(name: str) -> bool:
    is_standard = name.partition(".")[0] in sys.stdlib_module_names
    return is_standard or has(name, Trait.DATA) or name in HUGGING_FACE or name.startswith("timm.data.")


def why_on_device(code: WorkerCode) -> Reason | None:
    """Where workers would use CUDA with what the script has moved there: a model, a tensor."""
    flow = code.flow
    for (home, name), node in code.names_read.items():
        if any(isinstance(each, MovedTensor) for each in flow.read_module_name(home, name)):
            text = f"the data set reads '{name}' ({HERE}), a tensor on a device"
            return Reason("cuda-in-worker", text, (code.at(node),))
    models = {each for each in code.objects if kind(flow, each) is Kind.MODEL}
    for module in flow.modules:
        for call in module.nodes(ast.Call):
            is_move = isinstance(call.func, ast.Attribute) and call.func.attr in {"cuda", "to"}
            if is_move and models & flow.values(call.func.value):  # type: ignore[attr-defined]
                text = f"its data set or collate_fn holds or calls a model that is moved to a device ({HERE})"
                return Reason("cuda-in-worker", text, (code.at(call),))
    return None


# --- what cannot be sent --------------------------------------------------------------------------------------------


class Start(enum.Enum):
    """How worker processes are started, as far as it matters what is sent to them."""

    ANYHOW = "as the platform does"
    FORKED = "as forks of the script, and otherwise not at all"


def why_not_sent(code: WorkerCode, start: Start) -> Reason | None:
    """What cannot be pickled, and so not be sent to a worker that is not forked; None where nothing is known.

    Args:
        code: What runs in the workers.
        start: How they are started. Definitions need not be pickled for a fork; what is open or runs is still
            theirs and the script's at once.
    """
    if start is Start.FORKED:
        reason = next(filter(None, (_why_closed_over(code, each) for each in code.functions)), None)
        if reason is not None:
            return reason
    for value in code.objects:
        reason = None if start is Start.FORKED else _undefined_there(code, value) or _perhaps_not_pickled(code, value)
        reason = reason or _not_pickled(code, value)
        if reason is not None:
            return reason
    for class_ in code.classes:
        where = None if start is Start.FORKED else _hidden(code.flow, class_)
        if where is not None:
            return _not_importable(code, f"objects of class {class_.name}", where, class_)
        for statement in walk(class_):
            if isinstance(statement, ast.Assign) and _makes_generator(code, statement):
                return Reason("not-picklable", f"a generator {_CANNOT} ({HERE})", (code.at(statement),))
    return None


def _undefined_there(code: WorkerCode, value: Value) -> Reason | None:
    """A function that a worker does not find by its name."""
    flow = code.flow
    site = value.site
    if isinstance(site, ast.Lambda):
        home = "a module that is imported" if module_of(flow, site).notebook else "the module"
        text = f"a lambda {_CANNOT} ({HERE}):"
        return Reason("not-picklable", text, (code.at(site),), f"make it a function of {home}")
    if isinstance(value, Function) and isinstance(site, FUNCTIONS) and (where := _hidden(flow, site)) is not None:
        return _not_importable(code, f"{value.name}()", where, site)
    return None


def _perhaps_not_pickled(code: WorkerCode, value: Value) -> Reason | None:
    """An object of another library that no worker uses, and is sent along."""
    if value not in code.idle or not _is_of_unknown_library(value):
        return None
    text = f"whether {described(value)}, which its data set holds, can be sent to a worker process is not known"
    return Reason("unknown-worker-code", text)


def _is_of_unknown_library(value: Value) -> bool:
    return isinstance(value, Made) and isinstance(value.site, ast.Call) and not _is_known(value.name)


def _not_importable(code: WorkerCode, what: str, where: str, definition: ast.ClassDef | Callee) -> Reason:
    """Why a worker that is not forked has no definition, and what to do where that is in a notebook."""
    text = f"{what}, which is defined {where}, {_CANNOT} ({HERE})"
    if module_of(code.flow, definition).notebook:
        return Reason("not-picklable", f"{text}:", (code.at(definition),), "import it from a module")
    return Reason("not-picklable", text, (code.at(definition),), "define it at the top of the module")


_NEVER_CHANGE = (Literal, Choice, Function, Class, External)


def _why_closed_over(code: WorkerCode, function: Callee) -> Reason | None:
    """What a function in a function reads of it that is no constant: a forked worker has it as it was."""
    flow, module = code.flow, module_of(code.flow, function)
    own = [each for each in walk(function) if isinstance(each, FUNCTIONS)]
    inner = {name for each in own for name in (*bound_names(each), *scope_of(each).local)}
    around = [each for each in module.ancestors(function) if isinstance(each, FUNCTIONS) and each not in code.functions]
    for node in walk(function):
        if not isinstance(node, ast.Name) or node.id in inner:
            continue
        home = next((each for each in around if node.id in bound_names(each)), None)
        if home is None:
            continue
        stores = [each for each in walk(home) if is_name(each, node.id)]
        bound = sum(not isinstance(each.ctx, ast.Load) for each in stores)
        values = flow.read("name", home, node.id)
        if bound > 1 or not values or any(not isinstance(each, _NEVER_CHANGE) for each in values):
            text = f"a worker does not see what becomes of '{node.id}', which it reads ({HERE})"
            return Reason("unseen-by-workers", text, (code.at(node),))
    return None


def _not_pickled(code: WorkerCode, value: Value) -> Reason | None:
    flow = code.flow
    site = value.site
    if isinstance(site, ast.GeneratorExp):
        return Reason("not-picklable", f"a generator {_CANNOT} ({HERE})", (code.at(site),))
    if isinstance(value, Made) and value.name in _OPENS_DATABASE:
        return Reason("open-handle", f"{described(value)} opens its database before the workers start")
    if kind(flow, value) in _STAY_BEHIND or (isinstance(value, Made) and value.name.endswith("SummaryWriter")):
        text = f"{described(value)} would be sent to each worker process, as its data set or collate_fn holds it"
        return Reason("not-picklable", text)
    return None


def _makes_generator(code: WorkerCode, statement: ast.Assign) -> bool:
    """``self.numbers = self.count()``, where ``count`` yields."""
    if not isinstance(statement.value, ast.Call) or not any(
        isinstance(each, ast.Attribute) for each in statement.targets
    ):
        return False
    called = code.flow.called(statement.value)
    return any(isinstance(each, (ast.Yield, ast.YieldFrom)) for function in called for each in walk(function))


def _hidden(flow: Flow, definition: ast.AST) -> str | None:
    """Where the definition stands that a worker process cannot import, in words."""
    module = module_of(flow, definition)
    for above in module.ancestors(definition):
        if isinstance(above, FUNCTIONS):
            return "inside a function"
        if isinstance(above, ast.If) and is_main_guard(above):
            return "under the __main__ guard"
    return "in the notebook" if module.notebook else None


# --- what several copies would get wrong ----------------------------------------------------------------------------


def why_not_copied(code: WorkerCode) -> Reason | None:
    """What the data set holds or does that its copies in several processes would get wrong; None where nothing is."""
    flow = code.flow
    for (home, name), node in code.names_read.items():
        openers = {found for each in flow.read_module_name(home, name) if (found := _opener(each)) is not None}
        openers |= _opened_by(flow, home, name)
        if openers:
            text = f"the data set reads '{name}' ({HERE}), which {_short(openers)}() opens before the workers start"
            return Reason("open-handle", text, (code.at(node),), "open it in __getitem__")
    held = _held_open(code)
    if held is not None:
        return held
    for class_ in code.classes:
        for function in (each for each in class_.body if isinstance(each, FUNCTIONS)):
            reason = _opened(code, function) or _seeded(code, function)
            if reason is not None:
                return reason
    if any(isinstance(each, Made) and each.name in _GENERATORS for each in code.objects):
        text = "its data set owns a random number generator, which every worker would repeat"
        return Reason("seeded-when-made", text)
    return None


def why_not_in_memory(code: WorkerCode) -> Reason | None:
    """What an item is read from that is not in memory, where no function that workers call says so."""
    for function in code.functions:
        for node in walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                owners = filter(None, map(class_of, code.flow.values(node.value)))
                if any(_keeps_open(code, each, node.attr) for each in owners):
                    return why_not_copied(code)
        for call in calls(function):
            if any(_is_torchvisions(code.flow, each) for each in code.flow.values(call.func)):
                return _not_known(code, f"{ast.unparse(call.func)}()", call)
    return None


def _opened_by(flow: Flow, module: Module, name: str) -> frozenset[str]:
    """What the module opens under the name: ``log = open(path)``, whose value is nothing that is known."""
    stores = [each for each in module.stores.get(name, ()) if module.function(each) is None]
    given = [each.value for store in stores if isinstance(each := module.statement(store), ast.Assign)]
    return frozenset().union(*(opens(flow, module.tree, each) for each in given))


def _held_open(code: WorkerCode) -> Reason | None:
    """What the workers are sent that is open, or hangs on what is, since before they start."""
    for value in code.objects:
        found = _opener(value)
        site = _opened_at(value)
        if found is not None and site is not None:
            function = module_of(code.flow, site).function(site)
            if function is None or not _runs_only_there(code, function):
                return _kept_open(code, found, site)
    return None


def _opener(value: Value) -> str | None:
    """What opened the file, database or lock that the value is, or needs: an item, a cursor, a bound method."""
    if isinstance(value, Method) and value.site is None:
        return None if is_fact(value.name) else _opener(value.of)
    if not isinstance(value, Made):
        return None
    found = opener(value.name)
    is_itself = found == value.name
    called = value.site.func if isinstance(value.site, ast.Call) else None
    hands_out = isinstance(called, ast.Attribute) and is_view(called.attr)
    return found if is_itself or hands_out or isinstance(value.site, ast.Subscript) else None


def _opened_at(value: Value) -> ast.AST | None:
    owner = owner_of(value)
    return value.site if isinstance(value, Made) or owner is None else _opened_at(owner)


def _kept_open(code: WorkerCode, name: str, node: ast.AST) -> Reason:
    kept = f"its data set keeps what {_short((name,))}() opens before the workers start"
    remedy = "open it in __getitem__"
    return Reason("open-handle", f"{kept}: {remedy} ({HERE})", (code.at(node),), remedy)


def _opened(code: WorkerCode, function: Callee) -> Reason | None:
    """What is opened and kept before the workers start."""
    if _runs_only_there(code, function):
        return None
    for node in walk(function):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and any(
            isinstance(each, ast.Attribute) for each in _set(node)
        ):
            openers = opens(code.flow, function, node.value)
            if openers:
                return _kept_open(code, min(openers), node)
    return None


def _keeps_open(code: WorkerCode, class_: ast.ClassDef, attribute: str) -> bool:
    """Whether a method of the class opens what the attribute of its objects is."""
    return any(
        isinstance(node, (ast.Assign, ast.AnnAssign))
        and any(isinstance(each, ast.Attribute) and each.attr == attribute for each in _set(node))
        and opens(code.flow, function, node.value)
        for function in class_.body
        if isinstance(function, FUNCTIONS)
        for node in walk(function)
    )


def _is_torchvisions(flow: Flow, method: Value) -> bool:
    """``super().__getitem__`` in a class that inherits it from one of torchvision's data sets."""
    if not isinstance(method, Method) or method.site is not None or method.name != "__getitem__":
        return False
    class_ = class_of(method.of)
    bases = flow.bases(class_) if class_ is not None else ()
    return any(isinstance(each, str) and each.startswith(_TORCHVISION) for each in bases)


def _runs_only_there(code: WorkerCode, function: Callee) -> bool:
    """Whether only workers run the function, as far as is known: no other code calls it, or reads an item."""
    flow = code.flow
    if function not in code.functions:
        return False
    for module in flow.modules:
        items = [each for each in module.nodes(ast.Subscript) if isinstance(each.ctx, ast.Load)]
        read = [each for each in items if flow.values(each.value) & set(code.loader.dataset.parts)]
        calls_here = [each for each in flow.callers(function) if module.holds(each)]
        if any(module.function(each) not in code.functions for each in (*read, *calls_here)):
            return False
    return True


def _set(statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _short(openers: Iterable[str]) -> str:
    return min(openers).removeprefix("builtins.")


def opens(flow: Flow, function: ast.AST, value: ast.expr | None) -> frozenset[str]:
    """The functions that open what the expression holds: a file, a database, a lock; not ``open(path).read()``."""
    found = frozenset(filter(None, map(_opener, flow.values(value)))) if value is not None else frozenset()
    if found:
        return found
    if isinstance(value, ast.Call):
        names = library_names(flow.values(value.func))
        found = names & OPENERS
        if isinstance(value.func, ast.Attribute) and is_view(value.func.attr):
            return found | opens(flow, function, value.func.value)
        return found.union(*(opens(flow, function, each) for each in value.args if names & WRAPPERS))
    if isinstance(value, ast.Name) and isinstance(value.ctx, ast.Load):
        above = (each for each in walk(function) if isinstance(each, ast.Assign) and each.lineno < value.lineno)
        bound = (each.value for each in above if value.id in map(_target, each.targets))
        return frozenset().union(*(opens(flow, function, each) for each in bound))
    if isinstance(value, ast.Subscript):
        return frozenset() if isinstance(value.slice, (ast.Slice, ast.Tuple)) else opens(flow, function, value.value)
    return frozenset().union(*(opens(flow, function, each) for each in _held_in(value)))


def _held_in(value: ast.expr | None) -> Sequence[ast.expr]:
    """The expressions whose values the value of an expression holds, or may be."""
    match value:
        case ast.ListComp(elt=each) | ast.SetComp(elt=each) | ast.GeneratorExp(elt=each) | ast.DictComp(value=each):
            return (each,)
        case ast.List(elts=found) | ast.Tuple(elts=found) | ast.Set(elts=found):
            return found
        case ast.Dict(values=found) | ast.BoolOp(values=found):
            return found
        case ast.IfExp(body=one, orelse=other):
            return one, other
    return ()


def _target(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _seeded(code: WorkerCode, function: Callee) -> Reason | None:
    if getattr(function, "name", "") == "__init__":
        for call in calls(function):
            if any(seeded_by(each) & OF_WORKERS for each in library_names(code.flow.values(call.func))):
                text = f"its data set seeds random numbers when it is made, unseen by workers ({HERE})"
                return Reason("seeded-when-made", text, (code.at(call),))
    return None
