"""What the libraries do, and the kind of thing that a value is: loader, dataset, model, optimizer, device …"""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING

from codemods.facts import names
from codemods.facts.flow import UNKNOWN_KEY, Arguments, Flow
from codemods.facts.values import (
    NONE,
    NOTHING,
    NUMBER,
    PLAIN,
    TENSOR,
    Sort,
    Value,
    Values,
    external,
    text_starting,
    unknown,
    why_unknown,
    without_none,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Kind(enum.Enum):
    """What a value is to a training script."""

    LOADER = "loader"
    DATASET = "dataset"
    MODEL = "model"
    LOSS = "loss function"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    SCALER = "gradient scaler"
    DEVICE = "device"
    FRAMEWORK = "training framework"


_DEEPEST = 8
"""The longest names that are told apart, in dots; real code stays below."""

LOADER = "torch.utils.data.DataLoader"
TENSOR_SORTS = frozenset({Sort.BATCH, Sort.HOST, Sort.MOVED, Sort.TENSOR})

# Iterating over one of these is iterating over its first argument.
PROGRESS = frozenset(
    {"tqdm.tqdm", "tqdm.tqdm_notebook", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.autonotebook.tqdm", "tqdm.std.tqdm"}
    | {"tqdm.asyncio.tqdm", "rich.progress.track", "fastprogress.progress_bar", "progressbar.progressbar", "alive_progress.alive_it"}
)
_SAME_ELEMENTS = PROGRESS | {
    *("builtins.iter", "builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed", "builtins.set"),
    *("itertools.cycle", "itertools.islice", "builtins.frozenset", "copy.copy", "copy.deepcopy"),
}
FRAMEWORKS = {
    "pytorch_lightning": "Lightning",
    "lightning": "Lightning",
    "lightning_fabric": "Lightning Fabric",
    "ignite": "Ignite",
    "accelerate": "Accelerate",
    "deepspeed": "DeepSpeed",
    "fastai": "fastai",
    "catalyst": "Catalyst",
    "composer": "Composer",
}
_FRAMEWORK_CLASSES = {
    "transformers.Trainer": "the Hugging Face Trainer",
    "transformers.Seq2SeqTrainer": "the Hugging Face Trainer",
    "trl.SFTTrainer": "the Hugging Face Trainer",
}
_MODULE_BASES = frozenset({"torch.nn.Module", "torch.jit.ScriptModule", "transformers.PreTrainedModel"})
_DATASET_BASES = frozenset(
    {"torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "torch.utils.data.TensorDataset"}
    | {"torch.utils.data.Subset", "torch.utils.data.ConcatDataset", "torch.utils.data.ChainDataset", "torch.utils.data.StackDataset"}
)
_NO_LAYERS = frozenset({"Parameter", "ParameterList", "ParameterDict", "Buffer", "Module"})
# Methods of nn.Module that return the module itself.
SELF_METHODS = frozenset(
    {"to", "cuda", "cpu", "xpu", "train", "eval", "apply", "half", "float", "double", "bfloat16", "requires_grad_", "to_empty"}
    | {"type", "share_memory"}
)
MODULE_METHODS = SELF_METHODS | {
    *("parameters", "named_parameters", "buffers", "named_buffers", "children", "named_children", "modules", "named_modules"),
    *("state_dict", "load_state_dict", "zero_grad", "register_buffer", "register_parameter", "register_module", "add_module"),
    *("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_backward_hook"),
    *("get_submodule", "get_parameter", "get_buffer", "compile", "extra_repr", "forward", "training", "set_extra_state"),
}
# Of a tensor: the same memory, or (reshape, contiguous, flatten) the same memory wherever it can be.
_VIEWS = frozenset(
    {"view", "view_as", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "t", "expand", "expand_as", "flatten", "detach"}
    | {"narrow", "select", "chunk", "split", "unbind", "contiguous", "requires_grad_", "squeeze_", "unsqueeze_", "swapaxes"}
    | {"movedim", "unflatten", "pin_memory", "values", "items", "get", "pop"}
)
_CASTS = frozenset({"float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "clone"})
_TO_PYTHON = frozenset(
    {"item", "tolist", "numpy", "size", "dim", "numel", "nelement", "is_contiguous", "stride", "data_ptr", "backward", "keys"}
    | {"element_size", "get_device", "type_as_string", "ndimension", "is_floating_point", "register_hook", "retain_grad"}
)
_VIEW_ATTRIBUTES = frozenset({"data", "T", "mT", "H", "mH"})
_PLAIN_ATTRIBUTES = frozenset(
    {"shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "is_leaf", "layout", "itemsize", "nbytes", "names"}
)
_LEGACY = ("Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor", "LongTensor", "IntTensor")
LEGACY_TENSORS = frozenset({*_LEGACY, "ShortTensor", "ByteTensor", "CharTensor", "BoolTensor"})
_FACTORIES = frozenset(
    {"tensor", "as_tensor", "from_numpy", "asarray", "zeros", "ones", "full", "empty", "eye", "arange", "range", "linspace", "logspace"}
    | {"rand", "randn", "randint", "randperm", "normal", "frombuffer", "scalar_tensor", "sparse_coo_tensor"}
)
_JOINS = frozenset({"torch.cat", "torch.concat", "torch.stack", "torch.hstack", "torch.vstack", "torch.nn.utils.rnn.pad_sequence"})
_NO_TENSOR = frozenset(
    {"save", "manual_seed", "seed", "set_num_threads", "set_default_dtype", "set_default_tensor_type", "set_default_device"}
    | {"set_printoptions", "is_tensor", "numel", "finfo", "iinfo", "set_float32_matmul_precision", "use_deterministic_algorithms"}
    | {"no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "autocast", "Generator", "Size", "load", "compile"}
)
_CHOOSERS = frozenset(
    {"yaml.load", "yaml.safe_load", "yaml.full_load", "json.load", "json.loads", "toml.load", "tomllib.load", "os.environ.get"}
    | {"os.getenv", "omegaconf.OmegaConf.load", "omegaconf.OmegaConf.from_cli", "tyro.cli", "simple_parsing.parse", "builtins.input"}
    | {"hydra.compose", "docopt.docopt", "jsonargparse.CLI"}
)
_PARSERS = ("ArgumentParser", "ArgParser", "HfArgumentParser", "OptionParser", "ConfigArgParse")


class TorchSemantics:
    """What calls, attributes, items and iterations of PyTorch's and the standard library's things are."""

    def call(self, flow: Flow, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        """What calling the value returns."""
        if callee.sort is Sort.EXTERNAL:
            return self._external(flow, callee.name, node, arguments)
        if callee.sort is Sort.METHOD and callee.of is not None:
            return self._method(flow, callee.of, callee.name, node, arguments)
        if callee.sort in {Sort.MADE, Sort.INSTANCE}:
            flow.escape(arguments.all())
            return self._called_object(flow, callee, node, arguments)
        if callee.sort is Sort.CHOICE:
            flow.escape(arguments.all())
            return frozenset({callee})
        return PLAIN

    def attribute(self, flow: Flow, owner: Value, node: ast.Attribute) -> Values:
        """What the attribute of the value is."""
        name = node.attr
        if owner.sort is Sort.EXTERNAL:
            if owner.name in {"os.environ", "sys.argv"}:
                return frozenset({Value(Sort.METHOD, name, None, owner)})
            if owner.name.endswith(".?") or owner.name.count(".") > _DEEPEST:
                return frozenset({owner})
            return external(names.canonical(f"{owner.name}.{name}"))
        if owner.sort is Sort.CHOICE:
            deep = owner.name.count(".") > 2  # noqa: PLR2004 - `cfg.train.loader.workers` names the choice well enough
            return frozenset({owner if deep else Value(Sort.CHOICE, f"{owner.name}.{name}")})
        if owner.sort in TENSOR_SORTS:
            return self._tensor_attribute(owner, name)
        if owner.sort is Sort.LITERAL and name == "format":
            return frozenset({Value(Sort.METHOD, name, None, owner)})
        if owner.sort in {Sort.PLAIN, Sort.LITERAL, Sort.UNBOUND}:
            return NOTHING if owner == NONE else PLAIN
        if owner.sort is Sort.METHOD and owner.name == "super" and owner.of is not None and owner.of.of is not None:
            class_ = owner.of.of.site
            bases = [each for each in flow.bases(class_) if isinstance(each, ast.ClassDef)] if isinstance(class_, ast.ClassDef) else []
            methods = [method for method in (flow.defines(each, name) for each in bases) if method is not None]
            if methods:
                return frozenset({Value(Sort.METHOD, name, methods[0], owner.of)})
        if owner.sort is Sort.METHOD:
            return frozenset({Value(Sort.METHOD, name, None, owner.of)}) if owner.site is None else PLAIN
        if owner.sort is Sort.FUNCTION:
            return PLAIN
        if owner.sort is Sort.MADE:
            known = self._made_attribute(flow, owner, name)
            if known is not None:
                return known
        return frozenset({Value(Sort.METHOD, name, None, owner)})

    def item(self, flow: Flow, owner: Value, node: ast.AST) -> Values:
        """What the item of the value is."""
        if owner.sort is Sort.CHOICE:
            return frozenset({owner})
        if owner.sort is Sort.BATCH and isinstance(node, ast.Subscript) and _copies(flow, node.slice):
            return frozenset({Value(Sort.HOST, site=node, of=owner.of)})
        if owner.sort in TENSOR_SORTS:
            return frozenset({owner})
        if owner.sort is Sort.EXTERNAL and owner.name in {"os.environ", "sys.argv"}:
            return frozenset({Value(Sort.CHOICE, owner.name)})
        if owner.sort is Sort.METHOD and owner.name == "__dict__" and owner.of is not None and owner.of.sort is Sort.EXTERNAL:
            return external(f"{owner.of.name}.?")
        if owner.sort is Sort.EXTERNAL and owner.name.endswith(".__dict__"):
            return external(owner.name.removesuffix("__dict__") + "?")
        if kind(flow, owner) is Kind.MODEL:
            return self.iterate(flow, owner, node)
        if kind(flow, owner) in {Kind.LOADER, Kind.DATASET}:
            return TENSOR
        return unknown(f"an item of {described(owner)} is not known")

    def iterate(self, flow: Flow, owner: Value, node: ast.AST) -> Values:
        """What iterating over the value yields."""
        if owner.sort in TENSOR_SORTS:
            return frozenset({owner})
        if owner.sort is Sort.MADE and owner.name == "torch.nn.Module.parameters":
            return frozenset({Value(Sort.MADE, "torch.nn.Parameter", owner.site, owner.of)})
        if owner.sort is Sort.MADE and owner.name == "torch.nn.Module.named_parameters" and owner.site is not None:
            parameter = frozenset({Value(Sort.MADE, "torch.nn.Parameter", owner.site, owner.of)})
            return flow.container("tuple", owner.site, {0: PLAIN, 1: parameter})
        what = kind(flow, owner)
        if what is Kind.LOADER:
            return frozenset({Value(Sort.BATCH, of=owner)})
        if what is Kind.DATASET:
            return TENSOR
        if what is Kind.MODEL and owner.sort is Sort.MADE and isinstance(owner.site, ast.Call):
            return NOTHING.union(*[_children(flow, flow.values(each)) for each in owner.site.args])
        if owner.sort is Sort.METHOD and owner.name == "param_groups":
            return PLAIN
        return unknown(f"what iterating over {described(owner)} yields is not known")

    # Calls.

    def _external(self, flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:  # noqa: C901, PLR0911, PLR0912 - a table of cases, one line each
        if name.startswith("builtins."):
            return self._builtin(flow, name.removeprefix("builtins."), node, arguments)
        first = arguments.get(0, "iterable")
        if name in {"copy.copy", "copy.deepcopy", "torch.autograd.Variable"}:
            return arguments.get(0, "data")
        if name in _SAME_ELEMENTS:
            return flow.container("iterator", node, {UNKNOWN_KEY: flow.elements(first, node)})
        if name == "itertools.chain":
            return flow.container("iterator", node, {UNKNOWN_KEY: flow.elements(arguments.all(), node)})
        if name in {"tqdm.trange", "tqdm.auto.trange", "tqdm.notebook.trange"}:
            return flow.container("iterator", node, {UNKNOWN_KEY: PLAIN})
        if name == "functools.partial":
            return frozenset(
                each if each.sort is not Sort.EXTERNAL else Value(Sort.UNKNOWN, f"{each.name} is called through functools.partial")
                for each in arguments.get(0, "func")
            )
        if name == "torch.utils.data.random_split":
            return flow.container("list", node, {UNKNOWN_KEY: frozenset({Value(Sort.MADE, "torch.utils.data.Subset", node)})})
        if name == "torch.multiprocessing.spawn":
            return self._spawn(flow, node, arguments)
        if name in _CHOOSERS:
            return frozenset({Value(Sort.CHOICE, f"{name}()")})
        if name.startswith("collections."):
            return flow.container("dict" if name.endswith("dict") else "list", node, {UNKNOWN_KEY: NOTHING})
        flow.escape(arguments.all())
        if name.startswith("torch.") or name.startswith("torchvision.transforms.functional."):
            return self._torch(flow, name, node, arguments)
        return frozenset({Value(Sort.MADE, name, node)})

    def _builtin(self, flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:  # noqa: PLR0911 - a table of cases
        first = arguments.get(0, "")
        if name == "enumerate":
            pair = flow.container("tuple", node.func, {0: PLAIN, 1: flow.elements(first, node)})
            return flow.container("iterator", node, {UNKNOWN_KEY: pair})
        if name == "zip":
            items: Mapping[object, Values] = {i: flow.elements(each, node) for i, each in enumerate(arguments.positional)}
            return flow.container("iterator", node, {UNKNOWN_KEY: flow.container("tuple", node.func, items)})
        if name == "next":
            return flow.elements(first, node) | arguments.get(1, "default")
        if f"builtins.{name}" in _SAME_ELEMENTS:
            kind_ = name if name in {"list", "tuple", "set"} else "iterator"
            return flow.container(kind_, node, {UNKNOWN_KEY: flow.elements(first, node)} if first else None)
        if name == "dict":
            for key, values in arguments.keywords.items():
                flow.put(node, key, values)
            return flow.container("dict", node)
        if name == "getattr":
            return self._getattr(flow, node, arguments)
        if name == "super":
            instance = flow.current_self()
            return frozenset({Value(Sort.METHOD, "super", None, instance)}) if instance is not None else PLAIN
        if name == "map":
            elements = [flow.elements(each, node) for each in arguments.positional[1:]]
            return flow.container("iterator", node, {UNKNOWN_KEY: flow.apply(first, node, Arguments(tuple(elements), {}, spread=False))})
        if name == "filter":
            return flow.container("iterator", node, {UNKNOWN_KEY: flow.elements(arguments.get(1, ""), node)})
        if name == "int":
            return NUMBER
        if name in {"vars", "eval", "exec", "__import__", "globals", "locals"}:
            return unknown(f"{name}() is not followed")
        if name in {"sum", "max", "min", "abs", "round", "pow"}:
            return TENSOR if any(each.sort in TENSOR_SORTS or each.sort is Sort.CONTAINER for each in arguments.all()) else PLAIN
        return PLAIN

    def _getattr(self, flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
        """``getattr(torch.optim, name)``: one of the classes there, whichever it is."""
        found = arguments.get(2, "default")
        for owner in arguments.get(0, ""):
            for attribute in arguments.get(1, ""):
                if attribute.sort is Sort.LITERAL and isinstance(attribute.literal, str) and attribute.literal.isidentifier():
                    made_up = ast.copy_location(ast.Attribute(node.args[0], attribute.literal, ast.Load()), node)
                    found |= self.attribute(flow, owner, made_up)
                elif owner.sort is Sort.EXTERNAL:
                    found |= external(owner.name if owner.name.endswith(".?") else f"{owner.name}.?")
                else:
                    found |= frozenset({owner}) if owner.sort is Sort.CHOICE else unknown("getattr() is not followed")
        return found

    def _spawn(self, flow: Flow, node: ast.Call, arguments: Arguments) -> Values:
        """``mp.spawn(worker, args=(a, b))`` calls ``worker(rank, a, b)``."""
        rest: tuple[Values, ...] = ()
        for given in arguments.get(1, "args"):
            count = sum(isinstance(key, int) for key in flow.keys(given))
            rest = tuple(flow.take(given, index) for index in range(count))
        return flow.apply(arguments.get(0, "fn"), node, Arguments((NUMBER, *rest), {}, spread=False))

    def _torch(self, flow: Flow, name: str, node: ast.Call, arguments: Arguments) -> Values:  # noqa: PLR0911 - a table of cases
        last = name.rpartition(".")[2]
        on_cuda = name.startswith("torch.cuda.")
        if last in LEGACY_TENSORS and name.count(".") == (2 if on_cuda else 1):
            return frozenset({Value(Sort.MOVED if on_cuda else Sort.HOST, site=node)})
        if name.count(".") == 1:
            if last in _FACTORIES:
                device = without_none(arguments.keywords.get("device", NOTHING))
                on_host = not device or device == {Value(Sort.LITERAL, "'cpu'")}
                return frozenset({Value(Sort.HOST if on_host else Sort.MOVED, site=node)})
            if last.endswith("_like"):
                return _computed(arguments.get(0, "input"))
            if last in _NO_TENSOR or last == "device":
                return frozenset({Value(Sort.MADE, name, node)})
        if name in _JOINS:
            parts = NOTHING.union(*[flow.take(each) if each.sort is Sort.CONTAINER else {each} for each in arguments.all()])
            return _computed_by_torch(parts, node)
        is_function = last[:1].islower() and (name.count(".") == 1 or name.startswith(("torch.nn.functional.", "torch.linalg.", "torch.fft.")))
        if is_function:
            return _computed_by_torch(arguments.all(), node)
        return frozenset({Value(Sort.MADE, name, node)})

    def _called_object(self, flow: Flow, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        what = kind(flow, callee)
        if what in {Kind.MODEL, Kind.LOSS}:
            return _computed(arguments.all())
        if callee.sort is Sort.MADE and what is None:
            return _derived(callee)
        return unknown(f"what {described(callee)} returns is not known")

    def _method(self, flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:  # noqa: C901, PLR0911 - a table of cases
        if owner.sort is Sort.LITERAL:
            return text_starting(str(owner.literal).partition("{")[0])
        if owner.sort is Sort.CONTAINER:
            return self._container_method(flow, owner, name, node, arguments)
        if owner.sort in TENSOR_SORTS:
            return self._tensor_method(flow, owner, name, node, arguments)
        flow.escape(arguments.all())
        if owner.sort is Sort.EXTERNAL and owner.name in {"os.environ", "sys.argv"}:
            return frozenset({Value(Sort.CHOICE, owner.name)})
        what = kind(flow, owner)
        if what in {Kind.MODEL, Kind.LOSS}:
            if name in SELF_METHODS:
                return frozenset({owner})
            if name in {"parameters", "named_parameters"}:
                return frozenset({Value(Sort.MADE, f"torch.nn.Module.{name}", node, owner)})
            if name in {"children", "modules", "named_children", "named_modules"}:
                return flow.container("iterator", node, {UNKNOWN_KEY: unknown("the layers of a model are not told apart")})
            return PLAIN if name in MODULE_METHODS or name.startswith("__") else TENSOR
        if what in {Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER}:
            scaled = what is Kind.SCALER and name == "scale"
            return arguments.get(0, "outputs") if scaled else PLAIN
        if owner.sort is Sort.MADE and owner.name.rpartition(".")[2] in _PARSERS:
            if name in {"parse_known_args", "parse_args_into_dataclasses"}:
                return flow.container("tuple", node, {UNKNOWN_KEY: frozenset({Value(Sort.CHOICE, "args")})})
            return frozenset({Value(Sort.CHOICE, "args")}) if name.startswith("parse") else PLAIN
        if owner.sort is Sort.MADE and what is None:
            return _derived(owner)
        return unknown(f"what {name}() of {described(owner)} returns is not known")

    def _container_method(self, flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:  # noqa: C901, PLR0911, PLR0912 - a table of cases
        site = owner.site
        if site is None:
            return PLAIN
        everything = flow.take(owner)
        if name in {"append", "add", "appendleft", "put"}:
            flow.put(site, UNKNOWN_KEY, arguments.get(0, ""))
        elif name == "insert":
            flow.put(site, UNKNOWN_KEY, arguments.get(1, ""))
        elif name == "extend":
            flow.put(site, UNKNOWN_KEY, flow.elements(arguments.get(0, ""), node))
        elif name == "update":
            for key, values in arguments.keywords.items():
                flow.put(site, key, values)
            for other in arguments.get(0, "") if arguments.positional else ():
                for key in flow.keys(other):
                    flow.put(site, key, flow.take(other, key))
        elif name == "items":
            pair = flow.container("tuple", node.func, {0: PLAIN, 1: everything})
            return flow.container("iterator", node, {UNKNOWN_KEY: pair})
        elif name == "values":
            return flow.container("iterator", node, {UNKNOWN_KEY: everything})
        elif name in {"get", "pop", "setdefault", "popleft", "popitem"}:
            keys = arguments.get(0, "")
            literal = next(iter(keys)).literal if len(keys) == 1 and next(iter(keys)).sort is Sort.LITERAL else None
            found = flow.take(owner, literal) if isinstance(literal, (str, int)) else everything
            return found | arguments.get(1, "default")
        elif name in {"copy", "keys"}:
            return frozenset({owner})
        elif name in {"__next__", "__iter__"}:
            return everything
        return PLAIN

    def _tensor_method(self, flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:  # noqa: PLR0911 - a table of cases
        if name in {"to", "cuda", "type", "cpu"}:
            return frozenset({self._moved(flow, owner, name, node, arguments)})
        if name in _TO_PYTHON:
            return PLAIN
        if name in _VIEWS:
            return frozenset({owner})
        if name.endswith("_") and not name.endswith("__"):
            return frozenset({owner})
        if owner.sort is Sort.BATCH:
            return frozenset({Value(Sort.HOST, site=node, of=owner.of)})
        if owner.sort is Sort.MOVED:
            return frozenset({Value(Sort.MOVED)})
        return frozenset({owner}) if owner.sort is Sort.HOST else _computed(arguments.all())

    def _moved(self, flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Value:
        """What ``x.to(…)``, ``x.cuda(…)``, ``x.type(…)`` and ``x.cpu()`` are."""
        here = Value(Sort.HOST, site=node, of=owner.of)
        there = Value(Sort.MOVED, site=node, of=owner.of)
        if name == "cpu":
            return here
        if name == "cuda":
            return there
        target = without_none(arguments.get(0, "dtype" if name == "type" else "device"))
        if name == "type":
            cuda = any(each.name.startswith("torch.cuda.") or "cuda" in str(each.name) for each in target)
            return there if cuda else here if owner.sort is Sort.BATCH else owner
        if not target or all(is_dtype(each) for each in target):
            return here if owner.sort is Sort.BATCH else owner
        if all(each.sort is Sort.LITERAL and each.literal == "cpu" for each in target):
            return here
        return there

    # Attributes.

    def _tensor_attribute(self, owner: Value, name: str) -> Values:
        if name in _VIEW_ATTRIBUTES:
            return frozenset({owner})
        if name in _PLAIN_ATTRIBUTES:
            return PLAIN
        if name == "grad":
            return TENSOR
        is_method = name in _VIEWS | _CASTS | _TO_PYTHON or name in {"to", "cuda", "cpu", "type"} or name in _OTHER_METHODS
        if owner.sort is Sort.BATCH and not is_method:
            # A field of the batch: `batch.text`.
            return frozenset({owner})
        return frozenset({Value(Sort.METHOD, name, None, owner)})

    def _made_attribute(self, flow: Flow, owner: Value, name: str) -> Values | None:
        if not isinstance(owner.site, ast.Call):
            return None
        if owner.name == LOADER and name == "dataset":
            return _argument_values(flow, owner.site, 0, "dataset")
        if owner.name in WRAPPERS and name in {"module", "_orig_mod"}:
            return _argument_values(flow, owner.site, 0, "module")
        if owner.name == "torch.utils.data.Subset" and name == "dataset":
            return _argument_values(flow, owner.site, 0, "dataset")
        return None


WRAPPERS = frozenset(
    {"torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel", "torch.compile", "torch.jit.script", "torch.jit.trace"}
    | {"torch.optim.swa_utils.AveragedModel", "torch.nn.SyncBatchNorm.convert_sync_batchnorm"}
)
_OTHER_METHODS = frozenset(
    {"add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "sum", "mean", "std", "var", "max", "min", "argmax", "argmin"}
    | {"eq", "ne", "gt", "lt", "ge", "le", "topk", "sort", "repeat", "norm", "pow", "sqrt", "exp", "log", "abs", "clamp", "clamp_"}
    | {"copy_", "zero_", "fill_", "normal_", "uniform_", "random_", "bernoulli_", "resize_", "resize_as_", "masked_fill", "gather"}
    | {"scatter_", "index_select", "softmax", "sigmoid", "tanh", "relu", "type_as", "new", "new_zeros", "new_ones", "new_tensor"}
    | {"matmul", "mm", "bmm", "all", "any", "round", "floor", "ceil", "unique", "nonzero", "masked_select", "fill", "neg"}
)


def kind(flow: Flow, value: Value) -> Kind | None:  # noqa: PLR0911 - a table of cases
    """The kind of thing that the value is, or None where it is none of them or not known."""
    if value.sort is Sort.INSTANCE and value.of is not None and isinstance(value.of.site, ast.ClassDef):
        return _kind_of_class(flow, value.of.site)
    if value.sort is not Sort.MADE:
        return None
    name = value.name
    package, _, last = name.rpartition(".")
    if name == LOADER:
        return Kind.LOADER
    if name == "torch.device" or name == "torch.accelerator.current_accelerator":
        return Kind.DEVICE
    if package == "torch.optim" and last[:1].isupper() or name == "torch.optim.?":
        return Kind.OPTIMIZER
    if package == "torch.optim.lr_scheduler":
        return Kind.SCHEDULER
    if last == "GradScaler" and name.startswith("torch."):
        return Kind.SCALER
    if _is_dataset(name, package, last):
        return Kind.DATASET
    if name in _FRAMEWORK_CLASSES or (name.partition(".")[0] in FRAMEWORKS and last[:1].isupper()):
        return Kind.FRAMEWORK
    if package == "torch.nn":
        return Kind.LOSS if last.endswith("Loss") else Kind.MODEL if last[:1].isupper() and last not in _NO_LAYERS else None
    if name in WRAPPERS or _is_model_maker(name, package, last):
        return Kind.MODEL
    return None


def _is_dataset(name: str, package: str, last: str) -> bool:
    return (
        package == "torchvision.datasets"
        or name in _DATASET_BASES
        or package in {"torchaudio.datasets", "torchtext.datasets"}
        or (name.startswith("datasets.load_") or last == "load_dataset")
    )


def _is_model_maker(name: str, package: str, last: str) -> bool:
    return (
        package.startswith("torchvision.models")
        or name in {"timm.create_model", "torch.hub.load", "torch.nn.utils.spectral_norm", "torch.nn.utils.weight_norm"}
        or (last in {"from_pretrained", "from_config"} and package.startswith("transformers.") and "Model" in package + "Model" * ("For" in package))
        or package.startswith("segmentation_models_pytorch")
        or package == "torch.nn.utils.parametrizations"
    )


def _kind_of_class(flow: Flow, class_: ast.ClassDef) -> Kind | None:
    bases = [base for base in flow.bases(class_) if isinstance(base, str)]
    for base in bases:
        package, _, last = base.rpartition(".")
        if package == "torch.nn" and last.endswith("Loss"):
            return Kind.LOSS
        if base in _MODULE_BASES or (package == "torch.nn" and last[:1].isupper()) or package.startswith("torchvision.models"):
            return Kind.MODEL
        if base in _DATASET_BASES or package == "torchvision.datasets":
            return Kind.DATASET
        if base == LOADER:
            return Kind.LOADER
        if package == "torch.optim" and last[:1].isupper():
            return Kind.OPTIMIZER
        if package == "torch.optim.lr_scheduler":
            return Kind.SCHEDULER
        if base.partition(".")[0] in FRAMEWORKS:
            return Kind.FRAMEWORK
    return None


def always(flow: Flow, values: Values, wanted: Kind) -> bool:
    """Whether the values, of which there is at least one, are all of that kind (``None`` aside)."""
    known = without_none(values)
    return bool(known) and all(kind(flow, each) is wanted for each in known)


def may(flow: Flow, values: Values, wanted: Kind) -> bool:
    """Whether one of the values is of that kind."""
    return any(kind(flow, each) is wanted for each in values)


def framework(flow: Flow, value: Value) -> str | None:
    """The name of the training framework that the value comes from."""
    roots: Iterable[str] = ()
    if value.sort in {Sort.MADE, Sort.EXTERNAL}:
        roots = (value.name,)
    elif value.sort is Sort.INSTANCE and value.of is not None and isinstance(value.of.site, ast.ClassDef):
        roots = [base for base in flow.bases(value.of.site) if isinstance(base, str)]
    for name in roots:
        if name in _FRAMEWORK_CLASSES:
            return _FRAMEWORK_CLASSES[name]
        package = name.partition(".")[0]
        if package in FRAMEWORKS:
            return FRAMEWORKS[package]
    return None


def is_dtype(value: Value) -> bool:
    """Whether the value is a number format such as ``torch.float32``."""
    return value.sort is Sort.EXTERNAL and value.name.rpartition(".")[2] in _DTYPES


_DTYPES = frozenset(
    {"float", "float16", "float32", "float64", "bfloat16", "half", "double", "long", "int", "int8", "int16", "int32", "int64"}
    | {"uint8", "bool", "short", "complex64", "complex128", "cfloat", "cdouble", "channels_last", "channels_last_3d"}
    | {"contiguous_format", "preserve_format"}
)


def described(value: Value) -> str:
    """The value in words, for a reason."""
    if value.sort is Sort.MADE:
        return f"{value.name.removesuffix('(…)')}()"
    if value.sort is Sort.METHOD and value.of is not None:
        return f"'.{value.name}' of {described(value.of)}"
    if value.sort is Sort.INSTANCE and value.of is not None:
        return f"an object of class {value.of.name}"
    if value.sort is Sort.FUNCTION and value.name:
        return f"the function {value.name}()"
    return {Sort.EXTERNAL: value.name, Sort.CHOICE: value.name}.get(value.sort) or "a value"


def _with_article(wanted: Kind) -> str:
    return f"{'an' if wanted.value[0] in 'aeiou' else 'a'} {wanted.value}"


def why(flow: Flow, values: Values, wanted: Kind) -> str:
    """Why the values are not always of the kind, in the user's words."""
    known = without_none(values)
    reason = why_unknown(known)
    if reason is not None:
        return reason
    others = sorted(described(each) for each in known if kind(flow, each) is not wanted)
    return f"it comes from {others[0]}, which is not known to be {_with_article(wanted)}" if others else "it is never given a value"


def _computed(operands: Iterable[Value]) -> Values:
    """What a function of these tensors yields: on a device where one of them is."""
    return frozenset({Value(Sort.MOVED)}) if any(each.sort is Sort.MOVED for each in operands) else TENSOR


def _computed_by_torch(operands: Iterable[Value], node: ast.Call) -> Values:
    """What a function without parameters of its own yields: on the host where it is given a batch that is there."""
    operands = tuple(operands)
    if any(each.sort is Sort.MOVED for each in operands):
        return _computed(operands)
    on_host = {Value(Sort.HOST, site=node, of=each.of) for each in operands if each.sort in {Sort.BATCH, Sort.HOST} and each.of is not None}
    return frozenset(on_host) or _computed(operands)


def _argument_values(flow: Flow, call: ast.Call, position: int, name: str) -> Values:
    for keyword in call.keywords:
        if keyword.arg == name:
            return flow.values(keyword.value)
    return flow.values(call.args[position]) if position < len(call.args) else NOTHING


def _children(flow: Flow, values: Values) -> Values:
    """The layers that an argument of ``nn.Sequential`` or ``nn.ModuleList`` holds."""
    return NOTHING.union(*[flow.items(each) if each.sort is Sort.CONTAINER else frozenset({each}) for each in values])


def _copies(flow: Flow, index: ast.expr) -> bool:
    """Whether indexing with it makes a new tensor: with a tensor or a list it does, with numbers and slices it does not."""
    if isinstance(index, ast.Tuple):
        return any(_copies(flow, each) for each in index.elts)
    return any(each.sort in TENSOR_SORTS or each.sort is Sort.CONTAINER for each in flow.values(index))


def _derived(value: Value) -> Values:
    """What comes out of an object of which nothing is known: only its root is kept, so that there are finitely many."""
    return frozenset({Value(Sort.MADE, value.name.removesuffix("(…)") + "(…)")})
