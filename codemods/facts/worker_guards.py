"""Why a data set cannot be read in workers: what is not known of it, cannot be sent, or would go wrong there."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from codemods.facts.kinds import described
from codemods.facts.names import bound_names
from codemods.facts.passes import FUNCTIONS
from codemods.facts.source import is_main_guard
from codemods.facts.values import Sort, without_none
from codemods.facts.worker_code import SEEDS, calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.flow import Flow
    from codemods.facts.source import Callee
    from codemods.facts.values import Value
    from codemods.facts.worker_code import WorkerCode

_TORCHVISION = "torchvision.datasets."
_BASES = frozenset(
    {"torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "torch.utils.data.TensorDataset"}
    | {"builtins.object", "typing.Generic", "abc.ABC"}
)
# Libraries that data sets are written with: nothing in them uses CUDA unless it is told to.
_LIBRARIES = sys.stdlib_module_names | {
    *(
        "PIL",
        "SimpleITK",
        "albumentations",
        "av",
        "cv2",
        "decord",
        "einops",
        "h5py",
        "imageio",
        "imgaug",
        "jieba",
        "kornia",
    ),
    *(
        "librosa",
        "lmdb",
        "lxml",
        "mat73",
        "matplotlib",
        "monai",
        "msgpack",
        "nibabel",
        "nltk",
        "numpy",
        "pandas",
        "plyfile",
    ),
    *("pyarrow", "pycocotools", "pydicom", "rasterio", "scipy", "skimage", "sklearn", "soundfile", "spacy", "tifffile"),
    *("tokenizers", "torch", "torchaudio", "torchvision", "tqdm", "transformers", "trimesh", "yaml", "zarr"),
}
# What calls the functions that it is made with.
_COMPOSERS = frozenset(
    {"torch.nn.Sequential"}
    | {
        f"torchvision.transforms.{name}"
        for name in ("Compose", "Sequential", "Lambda", "RandomApply", "RandomChoice", "RandomOrder")
    }
)
_NO_CODE = frozenset({"root", "train", "split", "download", "annFile"})
_HANDLES = frozenset(
    {"builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open", "tarfile.open", "zipfile.ZipFile", "h5py.File"}
    | {
        "lmdb.open",
        "lmdb.Environment",
        "sqlite3.connect",
        "netCDF4.Dataset",
        "tables.open_file",
        "shelve.open",
        "dbm.open",
    }
    | {
        "cv2.VideoCapture",
        "decord.VideoReader",
        "av.open",
        "mmap.mmap",
        "socket.socket",
        "redis.Redis",
        "pymongo.MongoClient",
    }
    | {"threading.Lock", "threading.RLock", "multiprocessing.Lock"}
)
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
_CHANGING_METHODS = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "reverse"}
    | {"setdefault", "sort", "update"}
)
_CHANGING_FUNCTIONS = frozenset({"random.shuffle", "numpy.random.shuffle", "builtins.setattr"})


# --- what is not known ----------------------------------------------------------------------------------------------


def why_unknown(code: WorkerCode) -> str | None:
    """Why it is not known what runs in the workers, or None where it is."""
    data = code.loader.dataset
    if data.why_unknown is not None:
        return data.why_unknown
    reasons = (
        *(_unknown_data(code.flow, each) for each in data.parts),
        *(_unknown_object(code.flow, each) for each in code.objects),
        *(_unknown_call(code.flow, call) for function in code.functions for call in calls(function)),
    )
    return next((each for each in reasons if each is not None), None)


def _unknown_data(flow: Flow, part: Value) -> str | None:
    if part.sort is Sort.INSTANCE and part.of is not None and isinstance(part.of.site, ast.ClassDef):
        for base in flow.bases(part.of.site):
            if not isinstance(base, ast.ClassDef) and base not in _BASES and not base.startswith(_TORCHVISION):
                return f"what its data set inherits from {base} is not known"
        return None
    if part.sort is Sort.MADE and not part.name.startswith((_TORCHVISION, "torch.utils.data.")):
        return f"how {described(part)} reads its items is not known"
    known = {Sort.MADE, Sort.CONTAINER, Sort.HOST, Sort.TENSOR, Sort.MOVED}
    return None if part.sort in known else "its data set is not known"


def _unknown_object(flow: Flow, value: Value) -> str | None:
    site = value.site
    if value.sort is not Sort.MADE or not isinstance(site, ast.Call):
        return None
    if not _is_known(value.name):
        return f"what {described(value)} does in a worker process is not known"
    is_data = value.name.startswith(_TORCHVISION)
    if not is_data and value.name not in _COMPOSERS:
        return None
    given = (*site.args[is_data:], *(each.value for each in site.keywords if each.arg not in _NO_CODE))
    for argument in given:
        for each in flow.values(argument):
            inner = flow.items(each) if each.sort is Sort.CONTAINER else {each}
            if any(item.sort is Sort.UNKNOWN for item in inner):
                return f"what {ast.unparse(argument)} does in a worker process is not known (line {site.lineno})"
    return None


def _unknown_call(flow: Flow, call: ast.Call) -> str | None:
    values = flow.values(call.func)
    reason = f"what {ast.unparse(call.func)}() does in a worker process is not known (line {call.lineno})"
    if any(each.sort is Sort.EXTERNAL and not _is_known(each.name) for each in values):
        return reason
    if isinstance(call.func, ast.Attribute):
        # A method of the data that is read is harmless, whatever it is; a function that the data set holds is not.
        owners = flow.values(call.func.value)
        if not any(each.sort in {Sort.INSTANCE, Sort.EXTERNAL} for each in owners):
            return None
    unknown = any(each.sort in {Sort.UNKNOWN, Sort.CHOICE} for each in values)
    return reason if unknown or not without_none(values) else None


def _is_known(name: str) -> bool:
    return name.partition(".")[0] in _LIBRARIES


# --- what cannot be sent --------------------------------------------------------------------------------------------


def why_not_sent(code: WorkerCode) -> str | None:
    """What cannot be pickled, and so not be sent to a worker that is not forked; None where nothing is known."""
    cannot = "cannot be sent to a worker process"
    for value in code.objects:
        site = value.site
        if isinstance(site, ast.Lambda):
            return f"a lambda {cannot} (line {site.lineno}): make it a function of the module"
        if isinstance(site, ast.GeneratorExp):
            return f"a generator {cannot} (line {site.lineno})"
        if (
            value.sort is Sort.FUNCTION
            and isinstance(site, FUNCTIONS)
            and (where := _hidden(code.flow, site)) is not None
        ):
            return f"{value.name}(), which is defined {where}, {cannot} (line {site.lineno})"
        if value.sort is Sort.MADE and value.name in _OPENS_DATABASE:
            return f"{described(value)} opens its database before the workers start"
    for class_ in code.classes:
        where = _hidden(code.flow, class_)
        if where is not None:
            return f"objects of class {class_.name}, which is defined {where}, {cannot} (line {class_.lineno})"
    return None


def _hidden(flow: Flow, definition: ast.AST) -> str | None:
    """Where the definition stands that a worker process cannot import, in words."""
    module = next(module for module in flow.modules if module.holds(definition))
    for above in module.ancestors(definition):
        if isinstance(above, FUNCTIONS):
            return "inside a function"
        if isinstance(above, ast.If) and is_main_guard(above):
            return "under the __main__ guard"
    return None


# --- what several copies would get wrong ----------------------------------------------------------------------------


def why_not_copied(code: WorkerCode) -> str | None:
    """What the data set holds or does that its copies in several processes would get wrong; None where nothing is."""
    for class_ in code.classes:
        for function in (each for each in class_.body if isinstance(each, FUNCTIONS)):
            reason = _opened(code, function) or _seeded(code.flow, function)
            if reason is not None:
                return reason
    if any(each.sort is Sort.MADE and each.name in _GENERATORS for each in code.objects):
        return "its data set owns a random number generator, which every worker would repeat"
    return why_changed(code)


def _opened(code: WorkerCode, function: Callee) -> str | None:
    """What is opened and kept before the workers start."""
    if function in code.functions:
        return None
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(isinstance(each, ast.Attribute) for each in node.targets):
            opener = _opener(code.flow, node.value)
            if opener is not None:
                return (
                    f"its data set keeps what {opener}() opens before the workers start: open it in __getitem__"
                    f" (line {node.lineno})"
                )
    return None


def _opener(flow: Flow, value: ast.expr | None) -> str | None:
    """The function that opens what the expression is: a file, a database, a lock."""
    names = _names(flow, value) & _HANDLES if isinstance(value, ast.Call) else None
    return min(names).removeprefix("builtins.") if names else None


def _seeded(flow: Flow, function: Callee) -> str | None:
    if getattr(function, "name", "") == "__init__":
        for call in calls(function):
            if _names(flow, call) & SEEDS:
                return f"its data set seeds random numbers when it is made, unseen by workers (line {call.lineno})"
    return None


def why_changed(code: WorkerCode) -> str | None:
    """Where reading an item changes the data set or the script, in words: a worker changes its own copy."""
    for function in code.functions:
        node = _change(code, function)
        if node is not None:
            return (
                "reading an item changes the data set or the script, and a worker changes only its own copy"
                f" (line {node.lineno})"
            )
    return None


def _change(code: WorkerCode, function: Callee) -> ast.expr | ast.stmt | None:
    roots = _outer_names(code, function)
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            return node
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            # `self.file = h5py.File(path)` on the first use: each worker opens its own.
            if any(_root(each) in roots for each in _stored(node)) and _opener(code.flow, node.value) is None:
                return node
        elif isinstance(node, ast.Call) and _changes(code.flow, node, roots):
            return node
    return None


def _stored(statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> Iterator[ast.expr]:
    """The attributes and items that the statement writes."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return (each for target in targets for each in ast.walk(target) if isinstance(each, (ast.Attribute, ast.Subscript)))


def _changes(flow: Flow, call: ast.Call, roots: frozenset[str]) -> bool:
    names = _names(flow, call)
    if names & _CHANGING_FUNCTIONS:
        return bool(call.args) and _root(call.args[0]) in roots
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in _CHANGING_METHODS and not names
    return is_method and _root(call.func) in roots


def _outer_names(code: WorkerCode, function: Callee) -> frozenset[str]:
    """The names in the function that stand for what it does not make itself: its object, and names of the module."""
    outside = bound_names(code.flow.module_of(function).tree) - bound_names(function)
    arguments = (*function.args.posonlyargs, *function.args.args)
    if code.flow.owner(function) in code.classes and arguments and getattr(function, "name", "") != "__init__":
        outside |= {arguments[0].arg}
    return outside


def _names(flow: Flow, call: ast.Call) -> frozenset[str]:
    return frozenset(each.name for each in flow.values(call.func) if each.sort is Sort.EXTERNAL)


def _root(node: ast.expr) -> str:
    """The name that an attribute or item is reached from: ``self.cache[i].data`` → ``self``."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
