"""The kind of thing that a value is: a loader, a data set, a model, an optimizer, a device and so on."""

from __future__ import annotations

import enum
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import (
    NOTHING,
    Choice,
    External,
    Function,
    Instance,
    Made,
    Method,
    Partial,
    Tensor,
    Value,
    Values,
    class_of,
    instance,
    why_unknown,
    without_none,
)
from codemods.library.losses import is_loss_class, is_loss_function
from codemods.library.packages import is_scheduler

if TYPE_CHECKING:
    import ast

    from codemods.dataflow.flow import Flow


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

    # That of a member's name is computed in Python.
    __hash__ = object.__hash__


LOADER = "torch.utils.data.DataLoader"
RANKS = frozenset({"torch.distributed.get_rank", "horovod.torch.local_rank", "horovod.torch.rank"})
"""Functions that return the index of the process, and so of its CUDA device."""
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
    "transformers.Trainer": "the Hugging Face Trainer",
    "transformers.Seq2SeqTrainer": "the Hugging Face Trainer",
    "trl.SFTTrainer": "the Hugging Face Trainer",
}
"""The packages and classes that run the training loop themselves, and what they are called."""
_FRAMEWORK_FUNCTIONS = frozenset({"deepspeed.initialize"})
_MODULE_BASES = words("torch.nn.Module torch.jit.ScriptModule transformers.PreTrainedModel")
_TRANSFORMERS = ("transformers.", "pytorch_transformers.")
_TRANSFORMER = re.compile(r"(?!TF|Flax|DataCollator)[A-Z]\w*(Model|For[A-Z]\w*)")
"""What Hugging Face calls its models for PyTorch."""
_TRANSFORMER_BASE = re.compile(r"(?!TF|Flax)\w*PreTrainedModel")
"""What it calls those that have no layers of their own: classes of the project that derive from them make all."""
LOADS_WEIGHTS = words("from_pretrained from_config")
"""The methods of their classes that make one."""
_NO_LAYERS = words("Parameter ParameterList ParameterDict Buffer")
_DATASETS = frozenset(
    f"torch.utils.data.{name}"
    for name in words("Dataset IterableDataset TensorDataset Subset ConcatDataset ChainDataset StackDataset")
)
CONCATENATED = "torch.utils.data.ConcatDataset"
"""What has the items of several data sets, one after the other: also ``a + b`` of two."""
HUGGING_FACE = frozenset(f"datasets.{name}" for name in words("load_dataset load_from_disk concatenate_datasets")) | {
    f"datasets.Dataset.from_{what}" for what in words("dict list pandas generator csv json")
}
"""What makes a data set, or a dictionary of them, that Hugging Face's library keeps in Arrow files."""
_DATASET_PACKAGES = words("torchvision.datasets torchaudio.datasets torchtext.datasets")
_MODEL_MAKERS = words("timm.create_model torch.hub.load torch.nn.utils.spectral_norm torch.nn.utils.weight_norm")
WRAPPERS = words(
    """
    torch.nn.DataParallel torch.nn.parallel.DistributedDataParallel torch.compile torch.jit.script torch.jit.trace
    torch.optim.swa_utils.AveragedModel
    """
)
"""What wraps a model, given as its first argument."""
COPYING_WRAPPERS = words("torch.optim.swa_utils.AveragedModel")
"""Those that hold a copy of the model, which does not move with them."""
PROGRESS = words(
    """
    tqdm.tqdm tqdm.tqdm_notebook tqdm.auto.tqdm tqdm.notebook.tqdm tqdm.autonotebook.tqdm tqdm.std.tqdm
    tqdm.asyncio.tqdm tqdm.rich.tqdm rich.progress.track fastprogress.progress_bar progressbar.progressbar
    alive_progress.alive_it ultralytics.utils.TQDM
    """
)
"""Iterating over what one of these returns is iterating over its first argument."""
SELF_METHODS = words(
    """
    to cuda cpu xpu ipu mtia train eval apply half float double bfloat16 requires_grad_ to_empty type share_memory
    """
)
"""Methods of nn.Module that return the module itself."""
MODULE_METHODS = SELF_METHODS | words(
    """
    parameters named_parameters buffers named_buffers children named_children modules named_modules state_dict
    load_state_dict zero_grad register_buffer register_parameter register_module add_module register_forward_hook
    register_forward_pre_hook register_full_backward_hook register_backward_hook get_submodule get_parameter
    get_buffer compile extra_repr forward training set_extra_state get_extra_state set_submodule
    register_full_backward_pre_hook register_state_dict_pre_hook register_state_dict_post_hook
    register_load_state_dict_pre_hook register_load_state_dict_post_hook T_destination call_super_init dump_patches
    """
)
PARAMETER = "torch.nn.Parameter"
CHOSEN_BY_NAME = ".?"
"""Ends the name of what may be anything in a module: ``getattr(torchvision.models, name)``."""
_WEIGHTS = words("weight bias")
"""Attributes of torch's layers that are parameters."""
_DTYPES = words(
    """
    float float16 float32 float64 bfloat16 half double long int int8 int16 int32 int64 uint8 bool short complex64
    complex128 cfloat cdouble channels_last channels_last_3d contiguous_format preserve_format
    """
)
_INTEGERS = words("bool byte char int int8 int16 int32 int64 long short uint8 uint16 uint32 uint64")


def kind(flow: Flow, value: Value) -> Kind | None:
    """The kind of thing that the value is, or None where it is none of them or not known."""
    if isinstance(value, Made):
        return _kind_of_call(value.name.removesuffix("(…)") if is_parameter(flow, value) else value.name)
    class_ = class_of(value) if isinstance(value, Instance) else None
    for base in flow.bases(class_) if class_ is not None else ():
        found = _kind_of_base(base) if isinstance(base, str) else None
        if found is not None:
            return found
    return None


def is_parameter(flow: Flow, value: Value) -> bool:
    """Whether it is a parameter that the script makes, what a method of one returns, or the weight of a layer."""
    if isinstance(value, Made):
        return value.name.removesuffix("(…)") == PARAMETER
    is_weight = value.site is None and value.name in _WEIGHTS
    return isinstance(value, Method) and is_weight and kind(flow, value.of) is Kind.MODEL


def computes_loss(flow: Flow, call: ast.Call) -> bool:
    """Whether the call computes a loss of PyTorch's: by an object, ``criterion(x, y)``, or a function."""
    return any(is_loss(flow, each) for each in flow.values(call.func))


def is_loss(flow: Flow, value: Value) -> bool:
    """Whether a call of the value computes a loss of PyTorch's."""
    return kind(flow, value) is Kind.LOSS or (isinstance(value, External) and is_loss_function(value.name))


@lru_cache(maxsize=4096)
def _kind_of_call(name: str) -> Kind | None:
    """The kind of what a call of the library's ``name`` returns."""
    package, _, last = name.rpartition(".")
    if name in {"torch.device", "torch.accelerator.current_accelerator"}:
        return Kind.DEVICE
    if last == "GradScaler" and name.startswith("torch."):
        return Kind.SCALER
    if name in WRAPPERS or _is_model_maker(name, package, last):
        return Kind.MODEL
    if framework_named(name) is not None and (last[:1].isupper() or name in _FRAMEWORK_FUNCTIONS):
        return Kind.FRAMEWORK
    return None if name == "torch.nn.Module" else _kind_of_class(name, package, last)


@lru_cache(maxsize=4096)
def _kind_of_base(name: str) -> Kind | None:
    """The kind of an object of a class that derives from the library's ``name``."""
    package, _, last = name.rpartition(".")
    is_transformer = name.startswith(_TRANSFORMERS) and _TRANSFORMER_BASE.fullmatch(last) is not None
    if name in _MODULE_BASES or is_transformer or package.startswith("torchvision.models"):
        return Kind.MODEL
    return Kind.FRAMEWORK if framework_named(name) is not None else _kind_of_class(name, package, last)


def _kind_of_class(name: str, package: str, last: str) -> Kind | None:
    """The kind of an object of the library's class."""
    is_class = last[:1].isupper()
    if package == "torch.nn" and is_class and last not in _NO_LAYERS:
        return Kind.LOSS if is_loss_class(name) else Kind.MODEL
    if name == LOADER:
        return Kind.LOADER
    if name in _DATASETS or name in HUGGING_FACE or (is_class and package in _DATASET_PACKAGES):
        return Kind.DATASET
    if is_scheduler(name):
        return Kind.SCHEDULER
    return Kind.OPTIMIZER if package == "torch.optim" and (is_class or last == "?") else None


def _is_model_maker(name: str, package: str, last: str) -> bool:
    is_transformer = package.startswith("transformers.") and ("Model" in package or "For" in package)
    return (
        name in _MODEL_MAKERS
        or package.startswith(("torchvision.models", "segmentation_models_pytorch", "torch.nn.utils.parametrizations"))
        or (is_transformer and last in LOADS_WEIGHTS)
        or (name.startswith(_TRANSFORMERS) and _TRANSFORMER.fullmatch(last) is not None)
    )


def is_pretrained_class(flow: Flow, class_: ast.ClassDef) -> bool:
    """Whether it is a class of the project that derives from one of Hugging Face's, which can make one of weights."""
    return any(isinstance(base, str) and base.startswith(_TRANSFORMERS) for base in flow.bases(class_)) and (
        kind(flow, instance(class_)) is Kind.MODEL
    )


def framework_named(name: str) -> str | None:
    """The framework that a qualified name belongs to."""
    return FRAMEWORKS.get(name) or FRAMEWORKS.get(name.partition(".")[0])


def framework(flow: Flow, value: Value) -> str | None:
    """The name of the training framework that the value comes from."""
    class_ = class_of(value)
    if class_ is not None:
        found = (framework_named(base) for base in flow.bases(class_) if isinstance(base, str))
        return next((each for each in found if each is not None), None)
    return framework_named(value.name) if isinstance(value, (Made, External)) else None


def always(flow: Flow, values: Values, wanted: Kind) -> bool:
    """Whether the values, of which there is at least one, are all of that kind (``None`` aside)."""
    known = without_none(values)
    return bool(known) and all(kind(flow, each) is wanted for each in known)


def may(flow: Flow, values: Values, wanted: Kind) -> bool:
    """Whether one of the values is of that kind."""
    return any(kind(flow, each) is wanted for each in values)


def is_dtype(value: Value) -> bool:
    """Whether the value is a number format such as ``torch.float32``."""
    return isinstance(value, External) and value.name.rpartition(".")[2] in _DTYPES


def has_integers(value: Value) -> bool:
    """Whether it is a number format of integers, or a type of tensors of that: ``torch.long``, ``torch.LongTensor``."""
    package, _, name = value.name.rpartition(".")
    known = isinstance(value, External) and package in {"builtins", "torch", "torch.cuda"}
    return known and (name in _INTEGERS or name.removesuffix("Tensor").lower() in _INTEGERS)


def described(value: Value) -> str:
    """The value in words, for a reason."""
    if isinstance(value, (Made, External)) and value.name.endswith(CHOSEN_BY_NAME):
        return f"what is chosen by its name from {value.name.removesuffix(CHOSEN_BY_NAME)}"
    if isinstance(value, Made):
        return f"{_as_imported(value.name).removesuffix('(…)')}()"
    if isinstance(value, Method) and value.of is not None:
        return f"'.{value.name}' of {described(value.of)}"
    if isinstance(value, Instance) and value.of is not None:
        return f"an object of class {value.of.name}"
    if isinstance(value, Function) and value.name:
        return value.name if value.name.startswith("a ") else f"the function {value.name}()"
    if isinstance(value, Tensor):
        return "a tensor"
    return _as_imported(value.name) if isinstance(value, (External, Choice, Partial)) else "a value"


def _as_imported(name: str) -> str:
    """A name without the project's directory, which comes first for modules of its own: ``/project.models.Net``."""
    return name.partition(".")[2] if name.startswith("/") and "." in name else name


def why(flow: Flow, values: Values, wanted: Kind) -> str:
    """Why the values are not always of the kind, in the user's words."""
    known = without_none(values)
    reason = why_unknown(known)
    if reason is not None:
        return reason
    others = sorted(described(each) for each in known if kind(flow, each) is not wanted)
    if not others:
        return "it is never given a value"
    article = "an" if wanted.value[0] in "aeiou" else "a"
    return f"it comes from {others[0]}, which is not known to be {article} {wanted.value}"


def argument(flow: Flow, call: ast.Call, position: int, name: str) -> Values:
    """What a call gives for a parameter, by position or by name; nothing where it gives nothing."""
    given = argument_of(call, name, position)
    return flow.values(given) if given is not None else NOTHING
