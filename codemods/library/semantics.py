"""What calls, attributes, items and iterations of PyTorch's and the standard library's things are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.names import words
from codemods.dataflow.values import (
    CONFIGURATION,
    NONE,
    NOTHING,
    NUMBER,
    PLAIN,
    TENSOR,
    UNKNOWN_KEY,
    Arguments,
    Batch,
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
    Plain,
    SomeTensor,
    Tensor,
    Value,
    Values,
    class_of,
    external,
    instance,
    joined,
    owner_of,
    path,
    text_starting,
    unknown,
)
from codemods.library import containers, tensors
from codemods.library.datasets import transform_position
from codemods.library.functions import (
    DICTIONARIES,
    FUNCTIONS,
    NAMED_TUPLE,
    collection,
    may_be_added,
    named_tuple,
    namespace,
    one_of,
    set_attribute,
)
from codemods.library.handles import opener
from codemods.library.kinds import (
    CONCATENATED,
    HUGGING_FACE,
    LOADER,
    LOADS_WEIGHTS,
    MODULE_METHODS,
    PROGRESS,
    RANKS,
    SELF_METHODS,
    WRAPPERS,
    Kind,
    argument,
    described,
    is_parameter,
    is_pretrained_class,
    kind,
)
from codemods.library.transforms import COMPOSERS

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow

_DEEPEST = 6
"""The longest names of libraries that are told apart, in dots; real code stays below."""

_OF_ANY_MODULE = words("cpu cuda eval to train")
"""Methods that only modules and tensors have, or what is made like them."""
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
_HANDING_ON = words("contextlib.nullcontext contextlib.closing contextlib.aclosing")
"""Contexts that are nothing but what they were given, once they are entered."""
_HANDED = words("enter_result thing")
_PARSERS = words("ArgumentParser ArgParser HfArgumentParser OptionParser ConfigArgParse Tap")
# Call the function that they are given, or decorate, with what the user chooses.
_ENTRY_POINTS = words("fire.Fire typer.run tyro.cli jsonargparse.CLI jsonargparse.auto_cli")
_ENTRY_DECORATORS = words(
    "hydra.main click.command click.option click.argument pyrallis.wrap draccus.wrap typer.Typer(…)"
)

# Methods that add a layer to a model → the position of the layer; those that name what they add.
_ADDS_LAYER = {"append": 0, "extend": 0, "insert": 1, "add_module": 1, "register_module": 1, "update": 0}
_REGISTERS = words("add_module register_module register_buffer register_parameter")
_OF_LOADERS = {"sampler": 3, "batch_sampler": 4, "collate_fn": 6}
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

# Methods of Hugging Face's data sets that return one of the same rows, or some of them.
_DATASET_TO_DATASET = words(
    """
    map filter select shuffle sort shard skip take train_test_split flatten with_format with_transform select_columns
    remove_columns rename_column rename_columns add_column cast cast_column class_encode_column
    """
)
_ANSWERS = words("is_available is_initialized device_count current_device strtobool")
"""What asks for a number, or for yes or no."""


class TorchSemantics:
    """What the libraries do: the part of the interpretation that knows PyTorch."""

    def call(self, flow: Flow, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        """What calling the value returns."""
        if isinstance(callee, External):
            return self._external(flow, callee.name, node, arguments)
        if isinstance(callee, Method) and callee.of is not None:
            return self._method(flow, callee.of, callee.name, node, arguments)
        flow.escape(arguments.all())
        if isinstance(callee, (Made, Instance)):
            return self._called_object(flow, callee, node, arguments)
        if isinstance(callee, Choice):
            owner, _, method = callee.name.rpartition(".")
            return frozenset({Choice(owner) if owner and method in _COPIES else callee})
        return PLAIN

    def attribute(self, flow: Flow, owner: Value, name: str) -> Values:
        """What the attribute of the value is."""
        if isinstance(owner, External) and owner.name not in _ENVIRONMENT:
            known = owner.name.endswith(".?") or owner.name.count(".") > _DEEPEST
            return frozenset({owner}) if known else external(names.canonical(f"{owner.name}.{name}"))
        if isinstance(owner, Choice):
            return frozenset({Choice(path(owner, name))})
        if isinstance(owner, External) and owner.name in _WITH_ATTRIBUTES:
            return frozenset({Choice(f"{owner.name.rpartition('.')[2]}.{name}")})
        if isinstance(owner, Tensor) or (is_parameter(flow, owner) and tensors.is_view_with_graph(name)):
            return tensors.attribute(self.operand(flow, owner), name)
        if isinstance(owner, Literal) and name == "format":
            return frozenset({Method(name, None, owner)})
        if isinstance(owner, (Plain, Literal, Function)):
            return NOTHING if owner == NONE or _lacks(owner, name) else PLAIN
        if isinstance(owner, Method):
            if (owner.name, name) == ("batch_sampler", "sampler") and owner.of is not None:
                return self._held(flow, owner.of, name) or frozenset({owner})  # the one that the loader was given
            # `optimizer.param_groups.copy`: of what is no method after all, only its owner is kept.
            return frozenset({Method(name, None, owner.of)}) if owner.site is None else PLAIN
        if (isinstance(owner, Made) and owner.name in _NAMESPACES) or (owner.name == "tuple" and name[:1] != "_"):
            is_read = name in {"items", "values"} and _holds_tensors(flow, owner)
            return frozenset({Method(name, None, owner)}) if is_read else NOTHING  # but what the project gives it
        held = self._held(flow, owner, name)
        return held if held is not None else frozenset({Method(name, None, owner)})

    def item(self, flow: Flow, owner: Value, node: ast.Subscript) -> Values:
        """What the item of the value is."""
        if isinstance(owner, Choice):
            return frozenset({owner})
        if isinstance(owner, Batch) and tensors.copies(flow, node.slice):
            return frozenset({HostTensor(site=node, of=owner.of)})
        if isinstance(owner, Tensor):
            return frozenset({owner})
        if isinstance(owner, External) and owner.name in _ENVIRONMENT:
            return frozenset({Choice(owner.name)})
        if isinstance(owner, External) and owner.name.endswith(".__dict__"):
            return one_of(flow, owner.name.removesuffix(".__dict__"))
        what = kind(flow, owner)
        if what is Kind.MODEL:
            return flow.items(owner) if owner.name == _DICTIONARY else self.iterate(flow, owner, node)
        if what in {Kind.LOADER, Kind.DATASET}:
            # `raw["train"]`; a column, `train["text"]`, is taken for a data set, too.
            named = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            return frozenset({owner}) if named and owner.name in HUGGING_FACE else TENSOR
        if owner.name == _COLLATE:
            return TENSOR
        if isinstance(owner, Made) and opener(owner.name) is not None and not _reads(node.slice):
            # `file["images"]` needs the file for as long as it is there.
            return _derived(owner, node)
        return unknown(f"an item of {described(owner)} is not known")

    def iterate(self, flow: Flow, owner: Value, node: ast.AST) -> Values:  # noqa: ARG002 - other semantics may note where
        """What iterating over the value yields."""
        if isinstance(owner, Tensor):
            return frozenset({owner})
        if owner.name.startswith("torch.nn.Module.") and owner.site is not None:
            parameter = frozenset({Made("torch.nn.Parameter", owner.site, owner_of(owner))})
            named = owner.name.rpartition(".")[2].startswith("named_")
            return flow.container("tuple", owner.site, {0: PLAIN, 1: parameter}) if named else parameter
        what = kind(flow, owner)
        if what is Kind.LOADER:
            return frozenset({Batch(of=owner)})
        if what is Kind.DATASET or owner.name == _COLLATE:
            return TENSOR
        if what is Kind.MODEL and isinstance(owner, Made):
            return PLAIN if owner.name == _DICTIONARY else flow.items(owner)
        if isinstance(owner, Method) and owner.name == "param_groups":
            return PLAIN
        if what in {Kind.OPTIMIZER, Kind.SCHEDULER} or _is_no_sequence(flow, owner, what):
            return NOTHING  # one function makes them and the loader alike: the loop is over the loader
        return unknown(f"what iterating over {described(owner)} yields is not known")

    def entered(self, flow: Flow, value: Value) -> Values:
        """What ``with value as name`` binds."""
        if isinstance(value, Made) and value.name in _HANDING_ON and isinstance(value.site, ast.Call):
            handed = [each for each in value.site.args if not isinstance(each, ast.Starred)]
            handed += [each.value for each in value.site.keywords if each.arg in _HANDED]
            return joined(*map(flow.values, handed)) if handed else PLAIN
        return frozenset({value})

    def operation(self, flow: Flow, node: ast.BinOp | ast.AugAssign, left: Values, right: Values) -> Values | None:
        """What ``+`` makes of two data sets, and the index of a GPU that ``rank % torch.cuda.device_count()`` is.

        The sum of data sets has the items of both, which are its own as a container's are.
        """
        if isinstance(node.op, ast.Mod) and _is_device_index(left, right):
            return NUMBER
        if not isinstance(node.op, ast.Add) or not all(may_be_added(flow, side) for side in (left, right)):
            return None
        flow.put(node, UNKNOWN_KEY, joined(left, right) - {NONE})
        return frozenset({Made(CONCATENATED, node)})

    def operand(self, flow: Flow, value: Value) -> Value:
        """What a value is to an operator: what that makes of a parameter is a tensor, and a parameter no more."""
        return SomeTensor() if is_parameter(flow, value) else value

    def fills_parameters(self, decorator: Value) -> bool:
        """Whether a decorator fills the function's parameters with what the user chooses."""
        return isinstance(decorator, (External, Made)) and decorator.name in _ENTRY_DECORATORS

    def may_be_called(self, value: Value) -> bool:
        """Whether the value may take the place of a method: ``args.cuda = torch.cuda.is_available()`` does not."""
        if isinstance(value, Made):
            return value.name.rpartition(".")[2] not in _ANSWERS
        return not isinstance(value, (Literal, Plain, Choice, Container, Tensor))

    def is_configuration(self, base: str) -> bool:
        """Whether objects of the library's class hold what the user chooses."""
        return base in _CONFIGURATIONS

    # Functions and classes of libraries.

    def _external(self, flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:
        first = arguments.get(0, "iterable")
        special = FUNCTIONS.get(name)
        if special is not None:
            return special(flow, node, arguments)
        if name in SAME_ELEMENTS:
            what = name.rpartition(".")[2]
            what = what if what in {"list", "tuple", "set"} else "iterator"
            return flow.container(what, node, {UNKNOWN_KEY: flow.elements(first, node)} if first else None)
        if name.startswith("builtins."):
            return PLAIN
        if name.startswith("collections.") and name != NAMED_TUPLE:
            return collection(flow, name, node, arguments)
        flow.escape(arguments.all())
        if name in _ENTRY_POINTS:
            flow.fill(first)
            if name == "fire.Fire" and not node.args:
                flow.fill_all(node)
        if name in _CHOOSERS:
            return frozenset({Choice(f"{name}()")})
        if name in _CONFIGURATIONS:
            return CONFIGURATION
        if name in _NAMESPACES:
            return namespace(flow, name, node, arguments)
        return self._torch(flow, name, node, arguments)

    def _torch(self, flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:
        computed = tensors.function(flow, name, node, arguments)
        if computed is not None:
            return computed
        if name in _LAYER_CONTAINERS:
            _hold_layers(flow, node, joined(arguments.rest, *arguments.positional))
        return frozenset({Made(name, node)})

    # Objects of libraries.

    def _called_object(self, flow: Flow, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        what = kind(flow, callee)
        if what in {Kind.MODEL, Kind.LOSS}:
            return tensors.computed(arguments.all())
        if callee.name == NAMED_TUPLE and isinstance(callee.site, ast.Call):
            return named_tuple(flow, callee.site, node, arguments)
        if isinstance(callee, Made) and what is None:
            return _derived(callee, node)
        return unknown(f"what {described(callee)} returns is not known")

    def _method(self, flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:
        if isinstance(owner, Literal):
            return text_starting(str(owner.value).partition("{")[0])
        if isinstance(owner, Container) or _holds_tensors(flow, owner):
            return containers.method(flow, owner, name, node, arguments)
        if isinstance(owner, Tensor) or (is_parameter(flow, owner) and tensors.leaves_torch(name)):
            return tensors.method(self.operand(flow, owner), name, node, arguments)
        flow.escape(arguments.all())
        if isinstance(owner, External):
            return frozenset({Choice(owner.name)})
        what = kind(flow, owner)
        if what in {Kind.MODEL, Kind.LOSS}:
            return self._model_method(flow, owner, name, node, arguments)
        if what in {Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER}:
            scaled = what is Kind.SCALER and name == "scale"
            return arguments.get(0, "outputs") if scaled else PLAIN
        handed_out = self._handed_out(flow, owner, name, node, arguments)
        if handed_out is not None:
            return flow.container("iterator", node, {UNKNOWN_KEY: handed_out})
        if isinstance(owner, Made) and owner.name.rpartition(".")[2] in _PARSERS:
            return self._parsed(flow, name, node)
        if isinstance(owner, Made) and what is None:
            return frozenset({owner}) if _is_kept(owner, name) else _derived(owner, node)
        return self._of_hugging_face(flow, owner, name, node)

    @staticmethod
    def _of_hugging_face(flow: Flow, owner: Value, name: str, node: ast.Call) -> Values:
        """What a method returns that one of their data sets has, or a class of the project that derives from theirs."""
        if owner.name in HUGGING_FACE and name in _DATASET_TO_DATASET:
            return frozenset({owner})
        if not isinstance(owner, Class) or not isinstance(owner.site, ast.ClassDef):
            return unknown(f"what {name}() of {described(owner)} returns is not known")
        class_ = owner.site
        if name not in LOADS_WEIGHTS or not is_pretrained_class(flow, class_):
            return unknown(f"what {class_.name}.{name}() returns is not known")
        flow.escape(frozenset({Method("__init__", flow.method(class_, "__init__"), instance(class_))}))
        return frozenset({instance(class_, node)})

    @staticmethod
    def _handed_out(flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values | None:
        """What the iterator yields that a method returns; None where it returns something else."""
        if name == "__iter__" and kind(flow, owner) is Kind.LOADER:
            return frozenset({Batch(of=owner)})
        if name == "track" and owner.name == "rich.progress.Progress":
            return flow.elements(arguments.get(0, "sequence"), node)
        return None

    def _parsed(self, flow: Flow, name: str, node: ast.Call) -> Values:
        """What a method of an argument parser returns: the user's choice."""
        choice = frozenset({Choice("args")})
        if name in {"parse_known_args", "parse_args_into_dataclasses"}:
            return flow.container("tuple", node, {UNKNOWN_KEY: choice})
        return choice if name.startswith("parse") else PLAIN

    def _model_method(self, flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:
        if name in SELF_METHODS:
            return frozenset({owner})
        if name in {"forward", "__call__"}:
            return tensors.computed(arguments.all())
        if isinstance(owner, Made) and owner.site is not None and name in _ADDS_LAYER:
            position = _ADDS_LAYER[name]
            added = arguments.get(position, "module")
            _hold_layers(flow, owner.site, flow.elements(added, node) if name == "extend" else added)
            return frozenset({owner})
        if name in _REGISTERS:
            set_attribute(flow, frozenset({owner}), arguments.get(0, "name"), arguments.get(1, "module"))
            return PLAIN
        if name in {"parameters", "named_parameters"}:
            return frozenset({Made(f"torch.nn.Module.{name}", node, owner)})
        if name in {"children", "modules", "named_children", "named_modules"}:
            return flow.container("iterator", node, {UNKNOWN_KEY: unknown("the layers of a model are not told apart")})
        if isinstance(owner, Made) and owner.name == _DICTIONARY and name in {"values", "items"}:
            each = flow.items(owner)
            pair = flow.container("tuple", node.func, {0: PLAIN, 1: each}) if name == "items" else each
            return flow.container("iterator", node, {UNKNOWN_KEY: pair})
        return PLAIN if name in MODULE_METHODS or name.startswith("__") else TENSOR

    def _held(self, flow: Flow, owner: Value, name: str) -> Values | None:
        """What an attribute of a library's object is that holds an argument it was made with."""
        if not isinstance(owner, Made) or not isinstance(owner.site, ast.Call):
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


def _hold_layers(flow: Flow, site: ast.AST, values: Values) -> None:
    """Notes the layers that an ``nn.Sequential`` or the like holds: given one by one, in a list or in a dictionary."""
    for each in values:
        flow.put(site, UNKNOWN_KEY, flow.items(each) if isinstance(each, Container) else frozenset({each}))


def _is_kept(owner: Made, name: str) -> bool:
    """Whether a method returns the object of an unknown class itself, or another of its kind: ``Net().to(device)``."""
    class_ = owner.name.rpartition(".")[2]
    return name in _OF_ANY_MODULE and owner.site is not None and class_[:1].isupper()


def _derived(value: Value, node: ast.expr) -> Values:
    """What comes out of an object of which nothing is known: only its root is kept, so that there are finitely many.

    Of what comes out of a file, the place is kept, too, which tells what needs the file from what was read.
    """
    return frozenset({Made(value.name.removesuffix("(…)") + "(…)", node if opener(value.name) else None)})


def _reads(key: ast.expr) -> bool:
    """Whether the item of something in a file is read there: a range, a row, all of it (``[()]``)."""
    is_number = isinstance(key, ast.Constant) and not isinstance(key.value, str)
    return is_number or isinstance(key, (ast.Slice, ast.Tuple, ast.UnaryOp))


def _holds_tensors(flow: Flow, owner: Value) -> bool:
    """Whether it is a dictionary with attributes that is made of tensors alone: ``Munch(image=x, label=y)``."""
    if not isinstance(owner, Made) or owner.name not in DICTIONARIES:
        return False
    held = flow.items(owner)
    return bool(held) and all(isinstance(each, Tensor) for each in held)


def _is_no_sequence(flow: Flow, module: Value, what: Kind | None) -> bool:
    """Whether it is a loss of torch, or a model of a class of the project, that cannot be iterated over."""
    if what is Kind.LOSS and isinstance(module, Made):
        return module.name.startswith("torch.nn.")
    class_ = class_of(module) if what is Kind.MODEL else None
    if class_ is None or any(flow.method(class_, name) is not None for name in ("__iter__", "__getitem__")):
        return False
    return {each for each in flow.bases(class_) if isinstance(each, str)} <= _NO_SEQUENCES


def _is_device_index(left: Values, right: Values) -> bool:
    """Whether ``left % right`` is the index of a GPU: ``rank % torch.cuda.device_count()``; of a tensor it is none."""
    counts = bool(right) and all(isinstance(each, Made) and each.name in _DEVICE_COUNTS for each in right)
    return counts and all(_may_be_rank(each) for each in left)


def _lacks(owner: Value, name: str) -> bool:
    """Whether it is a number, which has no such attribute: of ``loss = 0; loss += x`` tensors alone have a ``mean``."""
    number = owner.value if isinstance(owner, Literal) else None
    return isinstance(number, (bool, int, float)) and not hasattr(number, name)


def _may_be_rank(value: Value) -> bool:
    """Whether it is a number, or what the user chooses; ``"cuda:%d" % count`` is a text."""
    if isinstance(value, Literal):
        return type(value.value) is int
    return isinstance(value, (Plain, Choice)) or (isinstance(value, Made) and value.name in RANKS)


_DEVICE_COUNTS = frozenset({"torch.cuda.device_count"})
_NO_SEQUENCES = frozenset({"torch.nn.Module", "builtins.object", "abc.ABC"})
