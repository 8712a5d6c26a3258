"""What calls, attributes, items and iterations of PyTorch's and the standard library's things are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.flow import class_of
from codemods.dataflow.names import words
from codemods.dataflow.values import (
    ANY,
    CONFIGURATION,
    NO_ARGUMENTS,
    NONE,
    NOTHING,
    NUMBER,
    PLAIN,
    TENSOR,
    TENSOR_SORTS,
    UNKNOWN_KEY,
    Arguments,
    Sort,
    Value,
    Values,
    external,
    is_configuration,
    joined,
    keys_of,
    leading_text,
    path,
    text_starting,
    unknown,
    without_none,
)
from codemods.library.datasets import transform_position
from codemods.library.handles import opener
from codemods.library.kinds import (
    HUGGING_FACE,
    LOADER,
    MODULE_METHODS,
    PROGRESS,
    SELF_METHODS,
    WRAPPERS,
    Kind,
    argument,
    described,
    is_dtype,
    kind,
)
from codemods.library.operators import Memory, attribute, joins
from codemods.library.processes import threads_and_processes
from codemods.library.transforms import COMPOSERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codemods.dataflow.flow import Flow

_DEEPEST = 6
"""The longest names of libraries that are told apart, in dots; real code stays below."""

SAME_ELEMENTS = PROGRESS | words(
    """
    builtins.iter builtins.list builtins.tuple builtins.sorted builtins.reversed builtins.set builtins.frozenset
    itertools.cycle itertools.islice
    """
)
# Results of functions that ask the user, a file that the user wrote, or the environment.
_CHOOSERS = words(
    """
    yaml.load yaml.safe_load yaml.full_load yaml.unsafe_load json.load json.loads toml.load toml.loads tomllib.load
    tomllib.loads configparser.ConfigParser configparser.RawConfigParser os.environ.get os.getenv builtins.input
    tyro.cli simple_parsing.parse pyrallis.parse draccus.parse docopt.docopt jsonargparse.CLI hydra.compose
    """
)
# What makes objects that files and the command line fill after they were given defaults.
_CONFIGURATIONS = words(
    """
    yacs.config.CfgNode fvcore.common.config.CfgNode detectron2.config.CfgNode detectron2.config.get_cfg
    ml_collections.ConfigDict ml_collections.FrozenConfigDict ml_collections.config_dict.ConfigDict
    ml_collections.config_dict.FrozenConfigDict ml_collections.config_dict.create mmcv.Config mmcv.Config.fromfile
    mmengine.Config mmengine.Config.fromfile mmengine.config.Config mmengine.config.Config.fromfile
    """
) | {f"omegaconf.OmegaConf.{name}" for name in words("load create structured merge from_cli from_dotlist to_container")}
_ENVIRONMENT = words("os.environ sys.argv absl.flags.FLAGS wandb.config")
_COPIES = words("clone copy copy_and_resolve_references")
_WITH_ATTRIBUTES = words("absl.flags.FLAGS wandb.config")
_PARSERS = words("ArgumentParser ArgParser HfArgumentParser OptionParser ConfigArgParse Tap")
# Call the function that they are given, or decorate, with what the user chooses.
_ENTRY_POINTS = words("fire.Fire typer.run tyro.cli jsonargparse.CLI jsonargparse.auto_cli")
_ENTRY_DECORATORS = words(
    "hydra.main click.command click.option click.argument pyrallis.wrap draccus.wrap typer.Typer(…)"
)

# Methods that add a layer to a model → the position of the layer; those that name what they add.
_ADDS_LAYER = {"append": 0, "extend": 0, "insert": 1, "add_module": 1, "register_module": 1, "update": 0}
_REGISTERS = words("add_module register_module register_buffer register_parameter")
_OF_LOADERS = {"sampler": 3, "batch_sampler": 4}
"""The attributes of a loader that hold what it was given, and where it takes that."""
_COLLATE = "torch.utils.data.default_collate"
_DICTIONARY = "torch.nn.ModuleDict"
_LAYER_CONTAINERS = words("torch.nn.Sequential torch.nn.ModuleList torch.nn.ModuleDict")
# Objects that are nothing but the attributes they are given.
_NAMESPACES = words(
    """
    types.SimpleNamespace argparse.Namespace easydict.EasyDict addict.Dict munch.Munch munch.munchify box.Box
    """
)
_NAMED_TUPLE = "collections.namedtuple"

# Methods of Hugging Face's data sets that return one of the same rows, or some of them.
_DATASET_TO_DATASET = words(
    """
    map filter select shuffle sort shard skip take train_test_split flatten with_format with_transform select_columns
    remove_columns rename_column rename_columns add_column cast cast_column class_encode_column
    """
)

_SPLIT = 4
"""The position of ``split`` among the parameters of ``datasets.load_dataset``."""

# Methods of tensors. Views have the same memory, or (reshape, contiguous, flatten) the same memory wherever it can be.
_VIEWS = words(
    """
    view view_as reshape squeeze unsqueeze permute transpose t expand expand_as flatten detach narrow select chunk
    split unbind contiguous requires_grad_ squeeze_ unsqueeze_ swapaxes movedim unflatten pin_memory values items
    get pop
    """
)
_CASTS = words("float double half bfloat16 long int short char byte bool clone")
# To the formats of what is collated: of Python's integers, and of images.
_COLLATED = words("float long")
_TO_PYTHON = words(
    """
    item tolist numpy size dim numel nelement is_contiguous stride data_ptr backward keys element_size get_device
    type_as_string ndimension is_floating_point register_hook retain_grad
    """
)
_MOVES = words("to cuda cpu type")
_OTHER_METHODS = words(
    """
    add add_ sub sub_ mul mul_ div div_ sum mean std var max min argmax argmin eq ne gt lt ge le topk sort repeat
    norm pow sqrt exp log abs clamp clamp_ copy_ zero_ fill_ normal_ uniform_ random_ bernoulli_ resize_ resize_as_
    masked_fill gather scatter_ index_select softmax sigmoid tanh relu type_as new new_zeros new_ones new_tensor
    matmul mm bmm all any round floor ceil unique nonzero masked_select fill neg
    """
)
_TENSOR_METHODS = _VIEWS | _CASTS | _TO_PYTHON | _MOVES | _OTHER_METHODS

# Functions directly in torch.
LEGACY_TENSORS = words(
    """
    Tensor FloatTensor DoubleTensor HalfTensor BFloat16Tensor LongTensor IntTensor ShortTensor ByteTensor CharTensor
    BoolTensor
    """
)
_FACTORIES = words(
    """
    tensor as_tensor from_numpy asarray zeros ones full empty eye arange range linspace logspace rand randn randint
    randperm normal frombuffer scalar_tensor sparse_coo_tensor
    """
)
_NO_TENSOR = words(
    """
    save manual_seed seed set_num_threads set_default_dtype set_default_tensor_type set_default_device
    set_printoptions is_tensor numel finfo iinfo set_float32_matmul_precision use_deterministic_algorithms no_grad
    enable_grad set_grad_enabled inference_mode autocast Generator Size load compile device
    """
)
_ANSWERS = words("is_available is_initialized device_count current_device strtobool")
"""What asks for a number, or for yes or no."""
_FUNCTION_PACKAGES = ("torch.nn.functional.", "torch.linalg.", "torch.fft.", "torchvision.transforms.functional.")


class TorchSemantics:
    """What the libraries do: the part of the interpretation that knows PyTorch."""

    def call(self, flow: Flow, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        """What calling the value returns."""
        if callee.sort is Sort.EXTERNAL:
            return self._external(flow, callee.name, node, arguments)
        if callee.sort is Sort.METHOD and callee.of is not None:
            return self._method(flow, callee.of, callee.name, node, arguments)
        flow.escape(arguments.all())
        if callee.sort in {Sort.MADE, Sort.INSTANCE}:
            return self._called_object(flow, callee, node, arguments)
        if callee.sort is Sort.CHOICE:
            owner, _, method = callee.name.rpartition(".")
            return frozenset({Value(Sort.CHOICE, owner) if owner and method in _COPIES else callee})
        return PLAIN

    def attribute(self, flow: Flow, owner: Value, name: str) -> Values:
        """What the attribute of the value is."""
        if owner.sort is Sort.EXTERNAL and owner.name not in _ENVIRONMENT:
            known = owner.name.endswith(".?") or owner.name.count(".") > _DEEPEST
            return frozenset({owner}) if known else external(names.canonical(f"{owner.name}.{name}"))
        if owner.sort is Sort.CHOICE:
            return frozenset({Value(Sort.CHOICE, path(owner, name))})
        if owner.sort is Sort.EXTERNAL and owner.name in _WITH_ATTRIBUTES:
            return frozenset({Value(Sort.CHOICE, f"{owner.name.rpartition('.')[2]}.{name}")})
        if owner.sort in TENSOR_SORTS:
            return self._tensor_attribute(owner, name)
        if owner.sort is Sort.LITERAL and name == "format":
            return frozenset({Value(Sort.METHOD, name, None, owner)})
        if owner.sort in {Sort.PLAIN, Sort.LITERAL, Sort.FUNCTION}:
            return NOTHING if owner == NONE else PLAIN
        if owner.sort is Sort.METHOD:
            if (owner.name, name) == ("batch_sampler", "sampler") and owner.of is not None:
                return self._held(flow, owner.of, name) or frozenset({owner})  # the one that the loader was given
            # `optimizer.param_groups.copy`: of what is no method after all, only its owner is kept.
            return frozenset({Value(Sort.METHOD, name, None, owner.of)}) if owner.site is None else PLAIN
        if (owner.sort is Sort.MADE and owner.name in _NAMESPACES) or (owner.name == "tuple" and name[:1] != "_"):
            return NOTHING  # but what the project gives it
        held = self._held(flow, owner, name)
        return held if held is not None else frozenset({Value(Sort.METHOD, name, None, owner)})

    def item(self, flow: Flow, owner: Value, node: ast.Subscript) -> Values:
        """What the item of the value is."""
        if owner.sort is Sort.CHOICE:
            return frozenset({owner})
        if owner.sort is Sort.BATCH and _copies(flow, node.slice):
            return frozenset({Value(Sort.HOST, site=node, of=owner.of)})
        if owner.sort in TENSOR_SORTS:
            return frozenset({owner})
        if owner.sort is Sort.EXTERNAL and owner.name in _ENVIRONMENT:
            return frozenset({Value(Sort.CHOICE, owner.name)})
        if owner.sort is Sort.EXTERNAL and owner.name.endswith(".__dict__"):
            return _one_of(flow, owner.name.removesuffix(".__dict__"))
        what = kind(flow, owner)
        if what is Kind.MODEL:
            return flow.items(owner) if owner.name == _DICTIONARY else self.iterate(flow, owner, node)
        if what in {Kind.LOADER, Kind.DATASET}:
            # `raw["train"]`; a column, `train["text"]`, is taken for a data set, too.
            named = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            return frozenset({owner}) if named and owner.name in HUGGING_FACE else TENSOR
        if owner.name == _COLLATE:
            return TENSOR
        if owner.sort is Sort.MADE and opener(owner.name) is not None and not _reads(node.slice):
            # `file["images"]` needs the file for as long as it is there.
            return _derived(owner, node)
        return unknown(f"an item of {described(owner)} is not known")

    def iterate(self, flow: Flow, owner: Value, node: ast.AST) -> Values:  # noqa: ARG002 - other semantics may note where
        """What iterating over the value yields."""
        if owner.sort in TENSOR_SORTS:
            return frozenset({owner})
        if owner.name.startswith("torch.nn.Module.") and owner.site is not None:
            parameter = frozenset({Value(Sort.MADE, "torch.nn.Parameter", owner.site, owner.of)})
            named = owner.name.rpartition(".")[2].startswith("named_")
            return flow.container("tuple", owner.site, {0: PLAIN, 1: parameter}) if named else parameter
        what = kind(flow, owner)
        if what is Kind.LOADER:
            return frozenset({Value(Sort.BATCH, of=owner)})
        if what is Kind.DATASET or owner.name == _COLLATE:
            return TENSOR
        if what is Kind.MODEL and owner.sort is Sort.MADE:
            return PLAIN if owner.name == _DICTIONARY else flow.items(owner)
        if owner.sort is Sort.METHOD and owner.name == "param_groups":
            return PLAIN
        if what in {Kind.OPTIMIZER, Kind.SCHEDULER} or (what is Kind.MODEL and _is_no_sequence(flow, owner)):
            return NOTHING  # one function makes them and the loader alike: the loop is over the loader
        return unknown(f"what iterating over {described(owner)} yields is not known")

    def fills_parameters(self, decorator: Value) -> bool:
        """Whether a decorator fills the function's parameters with what the user chooses."""
        return decorator.sort in {Sort.EXTERNAL, Sort.MADE} and decorator.name in _ENTRY_DECORATORS

    def may_be_called(self, value: Value) -> bool:
        """Whether the value may take the place of a method: ``args.cuda = torch.cuda.is_available()`` does not."""
        if value.sort is Sort.MADE:
            return value.name.rpartition(".")[2] not in _ANSWERS
        return value.sort not in {Sort.LITERAL, Sort.PLAIN, Sort.CHOICE, Sort.CONTAINER, *TENSOR_SORTS}

    def is_configuration(self, base: str) -> bool:
        """Whether objects of the library's class hold what the user chooses."""
        return base in _CONFIGURATIONS

    # Functions and classes of libraries.

    def _external(self, flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:
        first = arguments.get(0, "iterable")
        special = _SPECIAL.get(name)
        if special is not None:
            return special(flow, node, arguments)
        if name in SAME_ELEMENTS:
            what = name.rpartition(".")[2]
            what = what if what in {"list", "tuple", "set"} else "iterator"
            return flow.container(what, node, {UNKNOWN_KEY: flow.elements(first, node)} if first else None)
        if name.startswith("builtins."):
            return PLAIN
        if name.startswith("collections.") and name != _NAMED_TUPLE:
            return _collection(flow, name, node, arguments)
        flow.escape(arguments.all())
        if name in _ENTRY_POINTS:
            flow.fill(first)
            if name == "fire.Fire" and not node.args:
                flow.fill_all(node)
        if name in _CHOOSERS:
            return frozenset({Value(Sort.CHOICE, f"{name}()")})
        if name in _CONFIGURATIONS:
            return CONFIGURATION
        if name in _NAMESPACES:
            return _namespace(flow, name, node, arguments)
        return self._torch(flow, name, node, arguments)

    def _torch(self, flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:
        package, _, last = name.rpartition(".")
        if last in LEGACY_TENSORS and package in {"torch", "torch.cuda"}:
            return frozenset({Value(Sort.MOVED if package == "torch.cuda" else Sort.HOST, site=node)})
        if package == "torch" and last in _FACTORIES:
            device = without_none(arguments.keywords.get("device", NOTHING))
            on_host = not device or device == {Value(Sort.LITERAL, "'cpu'")}
            return frozenset({Value(Sort.HOST if on_host else Sort.MOVED, site=node)})
        if package == "torch" and last.endswith("_like"):
            return _computed(arguments.get(0, "input"))
        if joins(name):
            operands = [
                flow.items(each) if each.sort is Sort.CONTAINER else frozenset({each}) for each in arguments.all()
            ]
            return _computed_by_torch(joined(*operands), node)
        if (
            last[:1].islower()
            and last not in _NO_TENSOR
            and (package == "torch" or name.startswith(_FUNCTION_PACKAGES))
        ):
            return _computed_by_torch(arguments.all(), node)
        if name in _LAYER_CONTAINERS:
            _hold_layers(flow, node, joined(arguments.rest, *arguments.positional))
        return frozenset({Value(Sort.MADE, name, node)})

    # Objects of libraries.

    def _called_object(self, flow: Flow, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        what = kind(flow, callee)
        if what in {Kind.MODEL, Kind.LOSS}:
            return _computed(arguments.all())
        if callee.name == _NAMED_TUPLE and isinstance(callee.site, ast.Call):
            return _named_tuple(flow, callee.site, node, arguments)
        if callee.sort is Sort.MADE and what is None:
            return _derived(callee, node)
        return unknown(f"what {described(callee)} returns is not known")

    def _method(self, flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:
        if owner.sort is Sort.LITERAL:
            return text_starting(str(owner.literal).partition("{")[0])
        if owner.sort is Sort.CONTAINER:
            return self._container_method(flow, owner, name, node, arguments)
        if owner.sort in TENSOR_SORTS:
            return self._tensor_method(owner, name, node, arguments)
        flow.escape(arguments.all())
        if owner.sort is Sort.EXTERNAL:
            return frozenset({Value(Sort.CHOICE, owner.name)})
        what = kind(flow, owner)
        if what in {Kind.MODEL, Kind.LOSS}:
            return self._model_method(flow, owner, name, node, arguments)
        if what in {Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER}:
            scaled = what is Kind.SCALER and name == "scale"
            return arguments.get(0, "outputs") if scaled else PLAIN
        handed_out = self._handed_out(flow, owner, name, node, arguments)
        if handed_out is not None:
            return flow.container("iterator", node, {UNKNOWN_KEY: handed_out})
        if owner.sort is Sort.MADE and owner.name.rpartition(".")[2] in _PARSERS:
            return self._parsed(flow, name, node)
        if owner.sort is Sort.MADE and what is None:
            return _derived(owner, node)
        same = owner.name in HUGGING_FACE and name in _DATASET_TO_DATASET
        return frozenset({owner}) if same else unknown(f"what {name}() of {described(owner)} returns is not known")

    @staticmethod
    def _handed_out(flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values | None:
        """What the iterator yields that a method returns; None where it returns something else."""
        if name == "__iter__" and kind(flow, owner) is Kind.LOADER:
            return frozenset({Value(Sort.BATCH, of=owner)})
        if name == "track" and owner.name == "rich.progress.Progress":
            return flow.elements(arguments.get(0, "sequence"), node)
        return None

    def _parsed(self, flow: Flow, name: str, node: ast.Call) -> Values:
        """What a method of an argument parser returns: the user's choice."""
        choice = frozenset({Value(Sort.CHOICE, "args")})
        if name in {"parse_known_args", "parse_args_into_dataclasses"}:
            return flow.container("tuple", node, {UNKNOWN_KEY: choice})
        return choice if name.startswith("parse") else PLAIN

    def _model_method(self, flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:
        if name in SELF_METHODS:
            return frozenset({owner})
        if owner.sort is Sort.MADE and owner.site is not None and name in _ADDS_LAYER:
            position = _ADDS_LAYER[name]
            added = arguments.get(position, "module")
            _hold_layers(flow, owner.site, flow.elements(added, node) if name == "extend" else added)
            return frozenset({owner})
        if name in _REGISTERS:
            _set_attribute(flow, frozenset({owner}), arguments.get(0, "name"), arguments.get(1, "module"))
            return PLAIN
        if name in {"parameters", "named_parameters"}:
            return frozenset({Value(Sort.MADE, f"torch.nn.Module.{name}", node, owner)})
        if name in {"children", "modules", "named_children", "named_modules"}:
            return flow.container("iterator", node, {UNKNOWN_KEY: unknown("the layers of a model are not told apart")})
        if owner.sort is Sort.MADE and owner.name == _DICTIONARY and name in {"values", "items"}:
            each = flow.items(owner)
            pair = flow.container("tuple", node.func, {0: PLAIN, 1: each}) if name == "items" else each
            return flow.container("iterator", node, {UNKNOWN_KEY: pair})
        return PLAIN if name in MODULE_METHODS or name.startswith("__") else TENSOR

    def _container_method(self, flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:
        if name in {"append", "add", "appendleft", "put"}:
            flow.put(owner.site, UNKNOWN_KEY, arguments.get(0, ""))
        elif name == "insert":
            flow.put(owner.site, UNKNOWN_KEY, arguments.get(1, ""))
        elif name == "extend":
            flow.put(owner.site, UNKNOWN_KEY, flow.elements(arguments.get(0, ""), node))
        elif name == "update" and owner.site is not None:
            for key, values in arguments.keywords.items():
                flow.put(owner.site, key, values)
            flow.merge(owner.site, arguments.get(0, ""))
        else:
            return self._read_container(flow, owner, name, node, arguments)
        return PLAIN

    def _read_container(self, flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:
        everything = flow.items(owner)
        if name == "items":
            return flow.container(
                "iterator", node, {UNKNOWN_KEY: flow.container("tuple", node.func, {0: PLAIN, 1: everything})}
            )
        if name == "values":
            return flow.container("iterator", node, {UNKNOWN_KEY: everything})
        if name in {"get", "pop", "setdefault", "popleft", "popitem"}:
            if name == "setdefault":
                for key in keys_of(arguments.get(0, "")):
                    flow.put(owner.site, key, arguments.get(1, "default"))
            found = [flow.items(owner, ANY if key is UNKNOWN_KEY else key) for key in keys_of(arguments.get(0, ""))]
            return joined(arguments.get(1, "default"), *(found or [everything]))
        if name in {"copy", "keys"}:
            return frozenset({owner})
        return everything if name in {"__next__", "__iter__", "next"} else PLAIN

    # Tensors.

    def _tensor_method(self, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:
        if name in _MOVES:
            return frozenset({self._moved(owner, name, node, arguments)})
        if name in _TO_PYTHON:
            return PLAIN
        in_place = name.endswith("_") and not name.endswith("__")
        if name in _VIEWS or in_place or owner.sort is Sort.HOST:
            return frozenset({owner})
        if owner.sort is Sort.BATCH:
            new = Value(Sort.HOST, site=node, of=owner.of)
            # Of what is of that format already, they return the same tensor.
            return frozenset({owner, new}) if name in _COLLATED else frozenset({new})
        return frozenset({Value(Sort.MOVED)}) if owner.sort is Sort.MOVED else _computed(arguments.all())

    def _moved(self, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Value:
        """What ``x.to(…)``, ``x.cuda(…)``, ``x.type(…)`` and ``x.cpu()`` are."""
        here = Value(Sort.HOST, site=node, of=owner.of)
        there = Value(Sort.MOVED, site=node, of=owner.of)
        cast = here if owner.sort is Sort.BATCH else owner
        if name in {"cpu", "cuda"}:
            return here if name == "cpu" else there
        target = without_none(arguments.get(0, "dtype" if name == "type" else "device"))
        if name == "type":
            return there if any("cuda" in each.name for each in target) else cast
        if not target or all(is_dtype(each) for each in target):
            return cast
        return here if target == {Value(Sort.LITERAL, "'cpu'")} else there

    def _tensor_attribute(self, owner: Value, name: str) -> Values:
        row = attribute(name)
        if row is not None and row.memory is Memory.VIEW:
            return frozenset({owner})
        if row is not None:
            return PLAIN if row.has_no_floats else TENSOR
        if owner.sort is Sort.BATCH and name not in _TENSOR_METHODS:
            # A field of the batch: `batch.text`.
            return frozenset({owner})
        return frozenset({Value(Sort.METHOD, name, None, owner)})

    def _held(self, flow: Flow, owner: Value, name: str) -> Values | None:
        """What an attribute of a library's object is that holds an argument it was made with."""
        if owner.sort is not Sort.MADE or not isinstance(owner.site, ast.Call):
            return None
        if owner.name in {LOADER, "torch.utils.data.Subset"} and name == "dataset":
            return argument(flow, owner.site, 0, "dataset")
        if owner.name == LOADER and name in _OF_LOADERS:
            return argument(flow, owner.site, _OF_LOADERS[name], name) or None
        if owner.name == "torch.utils.data.BatchSampler" and name == "sampler":
            return argument(flow, owner.site, 0, name)
        if owner.name in WRAPPERS and name in {"module", "_orig_mod"}:
            return argument(flow, owner.site, 0, "module")
        if owner.name in COMPOSERS and name == "transforms":
            return argument(flow, owner.site, 0, name)
        position = transform_position(owner.name) if name == "transform" else None
        if position is not None:
            return argument(flow, owner.site, position, name)
        return None


# Functions that are more than what they return, by their names.


def _first(_: Flow, __: ast.Call, arguments: Arguments) -> Values:
    return arguments.get(0, "data")


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
    opaque = frozenset(each for each in given_functions if each.sort is Sort.EXTERNAL and not _is_layer(each.name))
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
    made = frozenset({Value(Sort.MADE, "datasets.load_dataset", node)})
    several = [each for each in arguments.get(_SPLIT, "split") if each.sort is Sort.CONTAINER]
    return flow.container("list", node, {UNKNOWN_KEY: made}) if several else made


def _random_split(flow: Flow, node: ast.Call, _: Arguments) -> Values:
    return flow.container("list", node, {UNKNOWN_KEY: frozenset({Value(Sort.MADE, "torch.utils.data.Subset", node)})})


def _spawn(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    """``mp.spawn(worker, args=(a, b))`` calls ``worker(rank, a, b)``."""
    return flow.apply(arguments.get(0, "fn"), node, _packed(flow, arguments.get(1, "args")).after([NUMBER], {}))


def _start(flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
    """``Process(target=worker, args=(a, b))`` calls ``worker(a, b)``."""
    flow.apply(arguments.get(1, "target"), node, _packed(flow, arguments.get(3, "args")))
    return PLAIN


def _packed(flow: Flow, given: Values) -> Arguments:
    """The arguments that a tuple of them stands for."""
    containers = [each for each in given if each.sort is Sort.CONTAINER]
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
        if each.sort is Sort.CONTAINER and each.name == "dict":
            flow.merge(node, frozenset({each}))
            continue
        for pair in flow.items(each) if each.sort is Sort.CONTAINER else unknown("dict() is not followed"):
            is_pair = pair.sort is Sort.CONTAINER
            for key in keys_of(flow.items(pair, 0)) if is_pair else {UNKNOWN_KEY}:
                flow.put(node, key, flow.items(pair, 1) if is_pair else frozenset({pair}))
    return flow.container("dict", node)


def _collection(flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:
    """``OrderedDict(…)``, ``deque(…)``; ``defaultdict(list)``, whose items are lists of its own."""
    if name == "collections.OrderedDict":
        return _dict(flow, node, arguments)
    if name != "collections.defaultdict":
        return flow.container("dict" if name.endswith("ict") else "list", node)
    factories = {each.name.rpartition(".")[2] for each in arguments.get(0, "") if each.name.startswith("builtins.")}
    items = joined(*[flow.container(each, node.func) for each in factories & {"list", "dict"}])
    return flow.container("dict", node, {UNKNOWN_KEY: items})


def _namespace(flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:
    """``SimpleNamespace(train=loader)``, ``EasyDict({"train": loader})``; the user's choices stay what they are."""
    chosen = frozenset(each for each in arguments.get(0, "") if each.sort in {Sort.CHOICE, Sort.UNKNOWN})
    given = [(key, flow.items(each, key)) for each in arguments.get(0, "") for key in flow.keys(each)]
    for key, values in (*given, *arguments.keywords.items()):
        flow.write_attribute(node, key if isinstance(key, str) else ANY, values)
    return chosen or frozenset({Value(Sort.MADE, name, node)})


def _named_tuple(flow: Flow, definition: ast.Call, node: ast.Call, arguments: Arguments) -> Values:
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
    return frozenset({Value(Sort.MADE, _NAMED_TUPLE, node)})


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
            elif owner.sort is Sort.EXTERNAL:
                found.append(external(owner.name) if owner.name.endswith(".?") else _one_of(flow, owner.name))
            elif owner.sort is Sort.CHOICE:
                found.append(frozenset({owner}))
            else:
                found.append(flow.any_attribute(owner) or unknown("getattr() is not followed"))
    return joined(*found)


def _one_of(flow: Flow, module: str) -> Values:
    """What the user chooses by its name from a module: ``getattr(models, args.arch)``, ``models.__dict__[arch]``."""
    own = flow.defined_in(module)
    return external(f"{module}.?") if own is None else own


def _setattr(flow: Flow, _: ast.Call, arguments: Arguments) -> Values:
    _set_attribute(flow, arguments.get(0, ""), arguments.get(1, ""), arguments.get(2, ""))
    return PLAIN


def _set_attribute(flow: Flow, owners: Values, names_: Values, values: Values) -> None:
    for owner in owners:
        for key in keys_of(names_):
            flow.set_attribute(owner, key if isinstance(key, str) else ANY, values)


def _import_module(flow: Flow, _: ast.Call, arguments: Arguments) -> Values:
    return joined(*[_module_named(flow, each) for each in arguments.get(0, "name")])


def _module_named(flow: Flow, name: Value) -> Values:
    """The module of that name, or those that it may name: below ``f"models.{name}"``, or for an option to choose."""
    start = leading_text(frozenset({name}))
    if name.sort is Sort.LITERAL and start is not None:
        return flow.import_module(start)
    if start is not None and start.endswith("."):
        return flow.modules_below(start) or unknown("its module is computed")
    if name.sort is Sort.CHOICE and not is_configuration(name):
        texts, is_any = _texts_to_choose(flow, name.name.rpartition(".")[2])
        rest = unknown("its module is chosen when the script is started") if is_any else NOTHING
        return joined(rest, *[flow.import_module(each) for each in texts])
    return unknown("its module is computed")


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
    choices = frozenset(each for each in arguments.get(0, "") if each.sort is Sort.CHOICE)
    modules = (each.name for each in arguments.get(0, "") if flow.defined_in(each.name) is not None)
    return joined(choices, *[external(f"{each}.__dict__") for each in modules]) or unknown("vars() is not followed")


def _aggregate(_: Flow, __: ast.Call, arguments: Arguments) -> Values:
    """``sum``, ``max`` and the like: a tensor where they are given tensors, or what may hold some."""
    may_hold = TENSOR_SORTS | {Sort.CONTAINER}
    return TENSOR if any(each.sort in may_hold for each in arguments.all()) else PLAIN


def _int(_: Flow, __: ast.Call, arguments: Arguments) -> Values:
    given = arguments.get(0, "")
    are_integers = all(each.sort is Sort.LITERAL and type(each.literal) is int for each in given)
    return given if given and are_integers else NUMBER


def _not_followed(_: Flow, node: ast.Call, __: Arguments) -> Values:
    return unknown(f"{ast.unparse(node.func)}() is not followed")


_SPECIAL: dict[str, Callable[[Flow, ast.Call, Arguments], Values]] = {
    **dict.fromkeys(words("copy.copy copy.deepcopy torch.autograd.Variable"), _first),
    "itertools.chain": _chain,
    "itertools.chain.from_iterable": _chain_all,
    "itertools.repeat": _repeat,
    _NAMED_TUPLE: _named_tuple_type,
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
    **dict.fromkeys((f"builtins.{name}" for name in words("sum max min abs round pow")), _aggregate),
    **dict.fromkeys((f"builtins.{name}" for name in words("eval exec globals locals")), _not_followed),
}


def _hold_layers(flow: Flow, site: ast.AST, values: Values) -> None:
    """Notes the layers that an ``nn.Sequential`` or the like holds: given one by one, in a list or in a dictionary."""
    for each in values:
        flow.put(site, UNKNOWN_KEY, flow.items(each) if each.sort is Sort.CONTAINER else frozenset({each}))


def _computed(operands: Iterable[Value]) -> Values:
    """What a function of these tensors yields: on a device where one of them is."""
    return frozenset({Value(Sort.MOVED)}) if any(each.sort is Sort.MOVED for each in operands) else TENSOR


def _computed_by_torch(operands: Values, node: ast.Call) -> Values:
    """What a function without parameters of its own yields: on the host where it is given a batch that is there."""
    if any(each.sort is Sort.MOVED for each in operands):
        return frozenset({Value(Sort.MOVED)})
    tensors = [each for each in operands if each.sort in TENSOR_SORTS]
    on_host = [each for each in tensors if each.sort in {Sort.BATCH, Sort.HOST}]
    of_batches = frozenset(Value(Sort.HOST, site=node, of=each.of) for each in on_host if each.of is not None)
    return of_batches or (frozenset({Value(Sort.HOST, site=node)}) if on_host and on_host == tensors else TENSOR)


def _copies(flow: Flow, index: ast.expr) -> bool:
    """Whether indexing with it makes a new tensor: with a tensor or a list it does, not with numbers and slices."""
    if isinstance(index, ast.Tuple):
        return any(_copies(flow, each) for each in index.elts)
    return any(each.sort in TENSOR_SORTS or each.sort is Sort.CONTAINER for each in flow.values(index))


def _derived(value: Value, node: ast.expr) -> Values:
    """What comes out of an object of which nothing is known: only its root is kept, so that there are finitely many.

    Of what comes out of a file, the place is kept, too, which tells what needs the file from what was read.
    """
    return frozenset({Value(Sort.MADE, value.name.removesuffix("(…)") + "(…)", node if opener(value.name) else None)})


def _reads(key: ast.expr) -> bool:
    """Whether the item of something in a file is read there: a range, a row, all of it (``[()]``)."""
    is_number = isinstance(key, ast.Constant) and not isinstance(key.value, str)
    return is_number or isinstance(key, (ast.Slice, ast.Tuple, ast.UnaryOp))


def _is_no_sequence(flow: Flow, model: Value) -> bool:
    """Whether the model is of a class of the project whose objects cannot be iterated over."""
    class_ = class_of(model)
    if class_ is None or any(flow.method(class_, name) is not None for name in ("__iter__", "__getitem__")):
        return False
    return {each for each in flow.bases(class_) if isinstance(each, str)} <= _NO_SEQUENCES


_NO_SEQUENCES = frozenset({"torch.nn.Module", "builtins.object", "abc.ABC"})
