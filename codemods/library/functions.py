"""Functions whose result is more than a name: of Python, such as enumerate() and getattr(), and of libraries."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.imports import is_test_file
from codemods.dataflow.names import words
from codemods.dataflow.values import (
    ANY,
    NO_ARGUMENTS,
    NONE,
    NOTHING,
    NUMBER,
    PLAIN,
    TENSOR,
    UNKNOWN_KEY,
    Arguments,
    Choice,
    Container,
    External,
    Literal,
    Made,
    Plain,
    Tensor,
    Unknown,
    Value,
    Values,
    class_of,
    external,
    is_configuration,
    joined,
    keys_of,
    leading_text,
    unknown,
)
from codemods.library.kinds import CONCATENATED, Kind, is_parameter, may
from codemods.library.processes import threads_and_processes
from codemods.library.tensors import starting_graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from codemods.dataflow.flow import Flow


NAMED_TUPLE = "collections.namedtuple"
_SPLIT = 4
"""The position of ``split`` among the parameters of ``datasets.load_dataset``."""


def _first(_: Flow, __: ast.Call, arguments: Arguments) -> Values:
    return arguments.get(0, "data")


def _with_synchronized_layers(_: Flow, __: ast.Call, arguments: Arguments) -> Values:
    """The module itself, in which layers are replaced; only of a single layer of that kind it is another one."""
    return arguments.get(0, "module")


def _variable(_: Flow, __: ast.Call, arguments: Arguments) -> Values:
    data, asked = arguments.get(0, "data"), arguments.get(1, "requires_grad")
    return starting_graph(data, asked) if asked else data


def _chain(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    return flow.container("iterator", node, {UNKNOWN_KEY: flow.elements(arguments.all(), node)})


def _chain_all(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    each = flow.elements(arguments.get(0, "iterable"), node)
    return flow.container("iterator", node, {UNKNOWN_KEY: flow.elements(each, node)})


def _repeat(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    return flow.container("iterator", node, {UNKNOWN_KEY: arguments.get(0, "object")})


def _numbers(flow: Flow, node: ast.Call, _: Arguments) -> Values:
    return flow.container("iterator", node, {UNKNOWN_KEY: PLAIN})


def _partial(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    given = Arguments(arguments.positional[1:], arguments.keywords, arguments.rest, arguments.unknown_keywords)
    flow.escape(given.all())
    given_functions = arguments.get(0, "func")
    opaque = frozenset(each for each in given_functions if isinstance(each, External) and not _is_layer(each.name))
    functions = given_functions - opaque
    libraries = sorted(each.name for each in opaque)
    found = flow.partial(functions, node, given) if functions else NOTHING
    # A call of a library's class has its arguments in two places then, of which the rules read only one.
    return joined(found, unknown(f"{libraries[0]} is called through functools.partial") if libraries else NOTHING)


def _is_layer(name: str) -> bool:
    """Whether it is a class such as ``torch.nn.LayerNorm``, of which nothing asks for more than the name."""
    package, _, last = name.rpartition(".")
    return package == "torch.nn" and last[:1].isupper() and not last.startswith("Embedding")


def _initialize(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    """``model, optimizer = apex.amp.initialize(model, optimizer)`` returns the same objects."""
    models, optimizers = arguments.get(0, "models"), arguments.get(1, "optimizers")
    return flow.container("tuple", node, {0: models, 1: optimizers}) if optimizers else models


def _load_dataset(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    """``load_dataset("imdb", split=["train", "test"])`` returns a list of data sets, one for each split."""
    flow.escape(arguments.all())
    made = frozenset({Made("datasets.load_dataset", node)})
    several = [each for each in arguments.get(_SPLIT, "split") if isinstance(each, Container)]
    return flow.container("list", node, {UNKNOWN_KEY: made}) if several else made


def _random_split(flow: Flow, node: ast.Call, _: Arguments) -> Values:
    return flow.container("list", node, {UNKNOWN_KEY: frozenset({Made("torch.utils.data.Subset", node)})})


def _spawn(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    """``mp.spawn(worker, args=(a, b))`` calls ``worker(rank, a, b)``."""
    return flow.apply(arguments.get(0, "fn"), node, _packed(flow, arguments.get(1, "args")).after([NUMBER], {}))


def _start(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    """``Process(target=worker, args=(a, b))`` calls ``worker(a, b)``."""
    flow.apply(arguments.get(1, "target"), node, _packed(flow, arguments.get(3, "args")))
    return PLAIN


def _packed(flow: Flow, given: Values) -> Arguments:
    """The arguments that a tuple of them stands for."""
    containers = [each for each in given if isinstance(each, Container)]
    count = max((len(flow.keys(each)) for each in containers), default=0)
    return Arguments(tuple(joined(*[flow.items(each, index) for each in containers]) for index in range(count)))


def _enumerate(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    pair = flow.container("tuple", node.func, {0: PLAIN, 1: flow.elements(arguments.get(0, "iterable"), node)})
    return flow.container("iterator", node, {UNKNOWN_KEY: pair})


def _zip(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    items: dict[object, Values] = {i: flow.elements(each, node) for i, each in enumerate(arguments.positional)}
    if arguments.rest:
        items[UNKNOWN_KEY] = flow.elements(arguments.rest, node)
    return flow.container("iterator", node, {UNKNOWN_KEY: flow.container("tuple", node.func, items)})


def _next(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    return joined(flow.elements(arguments.get(0, ""), node), arguments.get(1, "default"))


def _dict(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    for keyword, values in arguments.keywords.items():
        flow.put(node, keyword, values)
    for each in arguments.get(0, ""):
        if isinstance(each, Container) and each.name == "dict":
            flow.merge(node, frozenset({each}))
            continue
        for pair in flow.items(each) if isinstance(each, Container) else unknown("dict() is not followed"):
            is_pair = isinstance(pair, Container)
            for key in keys_of(flow.items(pair, 0)) if is_pair else {UNKNOWN_KEY}:
                flow.put(node, key, flow.items(pair, 1) if is_pair else frozenset({pair}))
    return flow.container("dict", node)


def collection(flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:
    """``OrderedDict(…)``, ``deque(…)``; ``defaultdict(list)``, whose items are lists of its own."""
    if name == "collections.OrderedDict":
        return _dict(flow, node, arguments)
    if name != "collections.defaultdict":
        return flow.container("dict" if name.endswith("ict") else "list", node)
    factories = {each.name.rpartition(".")[2] for each in arguments.get(0, "") if each.name.startswith("builtins.")}
    items = joined(*[flow.container(each, node.func) for each in factories & {"list", "dict"}])
    return flow.container("dict", node, {UNKNOWN_KEY: items})


DICTIONARIES = words("easydict.EasyDict addict.Dict munch.Munch munch.munchify box.Box")
"""Namespaces that are dictionaries as well."""


def namespace(flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:
    """``SimpleNamespace(train=loader)``, ``EasyDict({"train": loader})``; the user's choices stay what they are."""
    chosen = frozenset(each for each in arguments.get(0, "") if isinstance(each, (Choice, Unknown)))
    given = [(key, flow.items(each, key)) for each in arguments.get(0, "") for key in flow.keys(each)]
    pairs = [*given, *arguments.keywords.items()]
    for key, values in pairs:
        flow.write_attribute(node, key if isinstance(key, str) else ANY, values)
        if name in DICTIONARIES and any(isinstance(each, Tensor) for _, held in pairs for each in held):
            flow.put(node, key, values)  # a configuration is changed by its attributes later, and is not kept so
    return chosen or frozenset({Made(name, node)})


def named_tuple(flow: Flow, definition: ast.Call, node: ast.Call, arguments: Arguments) -> Values:
    """``Data(train, test)`` of ``Data = namedtuple("Data", ["train", "test"])``."""
    given = definition.args[1] if len(definition.args) > 1 else definition
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        fields = given.value.replace(",", " ").split()
    else:
        fields = [str(each.value) for each in getattr(given, "elts", ()) if isinstance(each, ast.Constant)]
    items: dict[object, Values] = {}
    for index, name in enumerate(fields):
        items[index] = arguments.get(index, name)
        flow.write_attribute(node, name, items[index])
    return flow.container("tuple", node, items)


def _named_tuple_type(_: Flow, node: ast.Call, __: Arguments) -> Values:
    return frozenset({Made(NAMED_TUPLE, node)})


def _field(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    """``x: nn.Module = field(default_factory=make)``."""
    return joined(arguments.get(0, "default"), flow.apply(arguments.get(0, "default_factory"), node, NO_ARGUMENTS))


def _getattr(flow: Flow, _: ast.Call, arguments: Arguments) -> Values:
    """``getattr(model, "layer")``; ``getattr(torch.optim, name)`` is one of the classes there, whichever."""
    found = [arguments.get(2, "default")]
    for owner in arguments.get(0, ""):
        for key in keys_of(arguments.get(1, "")):
            if isinstance(key, str):
                found.append(flow.attribute(owner, key))
            elif isinstance(owner, External):
                found.append(external(owner.name) if owner.name.endswith(".?") else one_of(flow, owner.name))
            elif isinstance(owner, Choice):
                found.append(frozenset({owner}))
            else:
                found.append(flow.any_attribute(owner) or unknown("getattr() is not followed"))
    return joined(*found)


def one_of(flow: Flow, module: str) -> Values:
    """What the user chooses by its name from a module: ``getattr(models, args.arch)``, ``models.__dict__[arch]``."""
    own = flow.defined_in(module)
    return external(f"{module}.?") if own is None else own


def _setattr(flow: Flow, _: ast.Call, arguments: Arguments) -> Values:
    set_attribute(flow, arguments.get(0, ""), arguments.get(1, ""), arguments.get(2, ""))
    return PLAIN


def set_attribute(flow: Flow, owners: Values, names_: Values, values: Values) -> None:
    """Notes what ``setattr()`` and the like write."""
    for owner in owners:
        for key in keys_of(names_):
            flow.set_attribute(owner, key if isinstance(key, str) else ANY, values)


_COMPUTED = "its module is computed"
_CHOSEN = "its module is chosen when the script is started"
OF_OTHER_MODULES = frozenset({_COMPUTED, _CHOSEN})
"""Why what a module defines is unknown: it may be any module, of the project too."""


def _import_module(flow: Flow, _: ast.Call, arguments: Arguments) -> Values:
    return joined(*[_module_named(flow, each) for each in arguments.get(0, "name")])


def _module_named(flow: Flow, name: Value) -> Values:
    """The module of that name, or those that it may name: below ``f"models.{name}"``, or for an option to choose."""
    start = leading_text(frozenset({name}))
    if isinstance(name, Literal) and start is not None:
        return flow.import_module(start)
    if start is not None and start.endswith("."):
        return flow.modules_below(start) or unknown(_COMPUTED)
    if isinstance(name, Choice) and not is_configuration(name):
        texts, is_any = _texts_to_choose(flow, name.name.rpartition(".")[2])
        rest = unknown(_CHOSEN) if is_any else NOTHING
        return joined(rest, *[flow.import_module(each) for each in texts])
    return unknown(_COMPUTED)


def _texts_to_choose(flow: Flow, option: str) -> tuple[list[str], bool]:
    """The texts that an option of ``argparse`` may be, by default or by ``choices``, and whether it may be others."""
    texts: dict[str, None] = {}
    calls = [
        call
        for module in flow.modules
        for call in module.nodes(ast.Call)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "add_argument"
        and option in {_option_name(each) for each in call.args}
    ]
    is_any = not calls or any(
        each.attr == "set_defaults" for module in flow.modules for each in module.nodes(ast.Attribute)
    )
    for call in calls:
        given = {each.arg: each.value for each in call.keywords}
        choices = given.get("choices")
        is_any = is_any or not isinstance(choices, (ast.List, ast.Tuple)) or None in given
        for each in (given.get("default"), *(choices.elts if isinstance(choices, (ast.List, ast.Tuple)) else ())):
            match each:
                case ast.Constant(str(text)):
                    texts[text] = None
                case ast.AST():
                    is_any = True
    return list(texts), is_any


def _option_name(flag: ast.expr) -> str | None:
    """The attribute that holds the option with a flag."""
    match flag:
        case ast.Constant(str(text)):
            return text.lstrip("-").replace("-", "_")
    return None


def _super(flow: Flow, _: ast.Call, __: Arguments) -> Values:
    return flow.super_()


def _map(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    elements = [flow.elements(each, node) for each in arguments.positional[1:]]
    return flow.container(
        "iterator", node, {UNKNOWN_KEY: flow.apply(arguments.get(0, ""), node, Arguments(tuple(elements)))}
    )


def _filter(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    elements = flow.elements(arguments.get(1, ""), node)
    flow.apply(arguments.get(0, ""), node, Arguments((elements,)))
    return flow.container("iterator", node, {UNKNOWN_KEY: elements})


def _vars(flow: Flow, _: ast.Call, arguments: Arguments) -> Values:
    """``vars(args)``, ``vars(models)``."""
    choices = frozenset(each for each in arguments.get(0, "") if isinstance(each, Choice))
    modules = (each.name for each in arguments.get(0, "") if flow.defined_in(each.name) is not None)
    return joined(choices, *[external(f"{each}.__dict__") for each in modules]) or unknown("vars() is not followed")


def _aggregate(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    """``sum``, ``max`` and the like: a tensor where they are given tensors, or what may hold some."""
    return TENSOR if any(_may_hold_tensor(flow, node, each) for each in arguments.all()) else PLAIN


def _may_hold_tensor(flow: Flow, node: ast.Call, value: Value) -> bool:
    if isinstance(value, Container):
        items = flow.elements(frozenset({value}), node)
        return not items or any(not isinstance(each, (Literal, Plain)) for each in items)
    return isinstance(value, Tensor) or is_parameter(flow, value)


def _sum(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    """Of data sets with a first one, ``sum([second], first)``: one that has the items of all, as ``+`` makes it."""
    start = arguments.get(1, "start")
    added = joined(flow.elements(arguments.get(0, "iterable"), node), start) - {NONE}
    if start and all(may_be_added(flow, each) for each in (start, added)):
        flow.put(node, UNKNOWN_KEY, added)
        return frozenset({Made(CONCATENATED, node)})
    return _aggregate(flow, node, arguments)


def may_be_added(flow: Flow, values: Values) -> bool:
    """Whether one of them is a data set, and none has a ``+`` of its own."""
    classes = [class_of(each) for each in values]
    is_own = any(each is not None and flow.method(each, "__add__") is not None for each in classes)
    return not is_own and may(flow, values, Kind.DATASET)


def _int(_: Flow, __: ast.Call, arguments: Arguments) -> Values:
    given = arguments.get(0, "")
    are_integers = all(isinstance(each, Literal) and type(each.value) is int for each in given)
    return given if given and are_integers else NUMBER


def _not_followed(_: Flow, node: ast.Call, __: Arguments) -> Values:
    return unknown(f"{ast.unparse(node.func)}() is not followed")


def _mock(flow: Flow, node: ast.Call, _: Arguments) -> Values:
    """Of a unit test's mock nothing is known, and nothing said: it stands for what others pass."""
    is_test = any(module.holds(node) and is_test_file(module) for module in flow.modules)
    return NOTHING if is_test else unknown(f"{ast.unparse(node.func)}() is a mock")


SYNCHRONIZES = words("torch.nn.SyncBatchNorm.convert_sync_batchnorm apex.parallel.convert_syncbn_model")
"""What puts batch norms into a model that gather from all processes; their numbers have the formats of the others."""

FUNCTIONS: dict[str, Callable[[Flow, ast.Call, Arguments], Values]] = {
    **dict.fromkeys(words("copy.copy copy.deepcopy"), _first),
    **dict.fromkeys(SYNCHRONIZES, _with_synchronized_layers),
    "torch.autograd.Variable": _variable,
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _chain_all,
    "itertools.repeat": _repeat,
    NAMED_TUPLE: _named_tuple_type,
    "dataclasses.field": _field,
    **dict.fromkeys(words("builtins.range tqdm.trange tqdm.auto.trange tqdm.notebook.trange"), _numbers),
    "functools.partial": _partial,
    "apex.amp.initialize": _initialize,
    "torch.utils.data.random_split": _random_split,
    "datasets.load_dataset": _load_dataset,
    "torch.multiprocessing.spawn": _spawn,
    **dict.fromkeys(threads_and_processes(), _start),
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.next": _next,
    "builtins.dict": _dict,
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.super": _super,
    "builtins.staticmethod": _first,
    "importlib.import_module": _import_module,
    "builtins.__import__": _import_module,
    "builtins.map": _map,
    "builtins.filter": _filter,
    "builtins.vars": _vars,
    "builtins.int": _int,
    **dict.fromkeys((f"builtins.{name}" for name in words("max min abs round pow")), _aggregate),
    "builtins.sum": _sum,
    **dict.fromkeys((f"unittest.mock.{name}" for name in words("AsyncMock MagicMock Mock NonCallableMock")), _mock),
    **dict.fromkeys((f"builtins.{name}" for name in words("eval exec globals locals")), _not_followed),
}
"""What each returns, by its name, of the values that it is given."""
