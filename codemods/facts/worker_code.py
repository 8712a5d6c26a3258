"""What a loader's worker processes are sent and what they run: its data set, transforms and functions."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from codemods.facts.flow import is_main_guard
from codemods.facts.kinds import described
from codemods.facts.names import bound_names
from codemods.facts.passes import FUNCTIONS
from codemods.facts.values import Sort, Value, without_none

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.data import Loader
    from codemods.facts.flow import Callee, Flow
    from codemods.facts.source import Module
    from codemods.facts.values import Values

Called: TypeAlias = "tuple[ast.Call, frozenset[str]]"

# The methods of a data set, transform or function object that a worker calls.
_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward", "__len__")
_SENT = ("dataset", "collate_fn", "worker_init_fn")
_DATASET_BASES = frozenset({"torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "builtins.object", "typing.Generic", "abc.ABC"})
_TORCHVISION = "torchvision.datasets."
_TRANSFORMS = ("torchvision.transforms.", "albumentations.", "imgaug.", "kornia.augmentation.", "monai.transforms.")
# Libraries that data sets are written with: nothing in them uses CUDA unless it is told to.
_LIBRARIES = sys.stdlib_module_names | {
    *("torch", "torchvision", "torchaudio", "numpy", "PIL", "cv2", "scipy", "skimage", "sklearn", "pandas", "h5py", "lmdb"),
    *("zarr", "nibabel", "pydicom", "SimpleITK", "librosa", "soundfile", "imageio", "tifffile", "rasterio", "albumentations"),
    *("imgaug", "kornia", "monai", "transformers", "tokenizers", "nltk", "spacy", "jieba", "einops", "decord", "av", "matplotlib"),
    *("yaml", "lxml", "msgpack", "pyarrow", "tqdm", "pycocotools", "scipy.io", "mat73", "OpenEXR", "trimesh", "plyfile", "builtins"),
}
# Cheap functions on what is in memory already, by package or name; everything else in a library counts as work.
_CHEAP_PACKAGES = frozenset(
    {"numpy", "torch", "builtins", "math", "random", "collections", "itertools", "functools", "copy", "time", "os", "warnings", "typing"}
    | {"operator", "abc", "logging", "sys", "pathlib", "string", "tqdm", "einops", "enum", "dataclasses", "pandas"}
)
_WORK = frozenset(
    {"builtins.open", "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile", "numpy.memmap", "torch.load", "os.listdir"}
)
_READING_METHODS = frozenset({"read_bytes", "read_text"})
_COMPOSERS = frozenset(
    f"torchvision.transforms.{name}" for name in ("Compose", "Sequential", "Lambda", "RandomApply", "RandomChoice", "RandomOrder")
) | {"torch.nn.Sequential"}
_RANDOM_TRANSFORMS = frozenset(
    {"ColorJitter", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix", "GaussianBlur", "GaussianNoise", "MixUp", "CutMix", "ElasticTransform", "ScaleJitter"}
)
_TORCH_DRAWS = frozenset({"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson", "rand_like", "randn_like", "randint_like"})
_DRAWING_METHODS = frozenset({"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_", "log_normal_", "geometric_"})
_SEEDS = frozenset({"random.seed", "numpy.random.seed", "torch.manual_seed", "torch.random.manual_seed", "torch.seed"})
_GENERATORS = frozenset({"numpy.random.RandomState", "numpy.random.default_rng", "numpy.random.Generator", "random.Random", "torch.Generator"})
_HANDLES = frozenset(
    {"builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open", "tarfile.open", "zipfile.ZipFile", "h5py.File", "lmdb.open", "lmdb.Environment"}
    | {"sqlite3.connect", "netCDF4.Dataset", "tables.open_file", "cv2.VideoCapture", "decord.VideoReader", "av.open", "shelve.open", "dbm.open"}
    | {"mmap.mmap", "socket.socket", "threading.Lock", "threading.RLock", "multiprocessing.Lock", "redis.Redis", "pymongo.MongoClient"}
)
_OPENS_DATABASE = frozenset({"torchvision.datasets.LSUN", "torchvision.datasets.LSUNClass"})
_CHANGING = frozenset(
    {"append", "extend", "insert", "pop", "popitem", "remove", "clear", "update", "add", "discard", "setdefault", "sort", "reverse", "appendleft"}
)
_SHUFFLES = frozenset({"random.shuffle", "numpy.random.shuffle", "builtins.setattr"})
_HOLDS_NO_ARGUMENTS = frozenset({"numpy", "pandas", "PIL", "cv2", "scipy", "h5py", "json", "pickle", "csv", "os", "glob", "pathlib", "builtins", "yaml"})


@dataclass(frozen=True, eq=False)
class WorkerCode:
    """The objects that are sent to a loader's worker processes, and the project's functions that run there."""

    flow: Flow
    loader: Loader

    @cached_property
    def _walked(self) -> tuple[dict[Value, None], dict[Callee, None]]:
        objects: dict[Value, None] = {}
        functions: dict[Callee, None] = {}
        todo = [value for name in _SENT if name in self.loader.arguments for value in without_none(self.loader.arguments[name].values)]
        todo.extend(self.loader.dataset.parts)
        while todo:
            value = todo.pop()
            if value in objects:
                continue
            objects[value] = None
            todo.extend(self._sent_with(value))
            for function in self._run(value):
                todo.extend(self._called(function, functions))
        return objects, functions

    @property
    def objects(self) -> tuple[Value, ...]:
        """What is sent to the workers, as far as it is known."""
        return tuple(self._walked[0])

    @property
    def functions(self) -> tuple[Callee, ...]:
        """The project's functions that run in the workers."""
        return tuple(self._walked[1])

    def _sent_with(self, value: Value) -> Iterator[Value]:
        """What goes along with an object: its attributes, items or arguments."""
        if value.sort is Sort.CONTAINER:
            yield from without_none(self.flow.items(value))
        elif value.sort is Sort.INSTANCE and value.of is not None and isinstance(value.of.site, ast.ClassDef):
            for values in self.flow.attributes(value.of.site).values():
                yield from (each for each in without_none(values) if each.sort is not Sort.FUNCTION or self.flow.owner(each.site) is None)  # type: ignore[arg-type]
        elif value.sort is Sort.METHOD and value.of is not None and value.site is not None:
            yield value.of
        elif value.sort is Sort.MADE and isinstance(value.site, ast.Call) and value.name.partition(".")[0] not in _HOLDS_NO_ARGUMENTS:
            for argument in (*value.site.args, *(each.value for each in value.site.keywords)):
                yield from without_none(self.flow.values(argument))

    def _run(self, value: Value) -> Iterator[Callee]:
        """The project's functions through which workers use an object."""
        if value.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(value.site, FUNCTIONS):
            yield value.site
        elif value.sort is Sort.INSTANCE and value.of is not None and isinstance(value.of.site, ast.ClassDef):
            for name in _ENTRIES:
                method = self.flow.method(value.of.site, name)
                if method is not None:
                    yield method

    def _called(self, function: Callee, functions: dict[Callee, None]) -> Iterator[Value]:
        """Notes the function and those of the project that it calls; yields the objects that they call."""
        if function in functions:
            return
        functions[function] = None
        for call in _calls(function):
            for callee in self.flow.values(call.func):
                if callee.sort in {Sort.INSTANCE, Sort.MADE}:
                    yield callee
                elif callee.sort is Sort.CLASS and isinstance(callee.site, ast.ClassDef):
                    made = self.flow.method(callee.site, "__init__")
                    if made is not None:
                        yield from self._called(made, functions)
                elif callee.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(callee.site, FUNCTIONS):
                    yield from self._called(callee.site, functions)

    @cached_property
    def classes(self) -> tuple[ast.ClassDef, ...]:
        """The project's classes whose objects are sent, with their bases in the project."""
        found: dict[ast.ClassDef, None] = {}
        for value in self.objects:
            if value.sort is Sort.INSTANCE and value.of is not None and isinstance(value.of.site, ast.ClassDef):
                found[value.of.site] = None
                found.update({base: None for base in self.flow.bases(value.of.site) if isinstance(base, ast.ClassDef)})
        return tuple(found)

    @cached_property
    def library_calls(self) -> tuple[Called, ...]:
        """The calls of libraries' functions, objects and methods, each with the names of the functions."""
        found: list[Called] = []
        for function in self.functions:
            for call in _calls(function):
                values = self.flow.values(call.func)
                names = frozenset(each.name for each in values if each.sort is Sort.EXTERNAL)
                if names or any(_made(values)):
                    found.append((call, names))
        return tuple(found)

    # What it does.

    @cached_property
    def why_unknown(self) -> str | None:
        """Why it is not known what runs in the workers, or None where it is."""
        return self.loader.dataset.why_unknown or self._unknown_part or self._unknown_object or self._unknown_call

    @property
    def _unknown_part(self) -> str | None:
        for part in self.loader.dataset.parts:
            if part.sort is Sort.INSTANCE and part.of is not None and isinstance(part.of.site, ast.ClassDef):
                for base in self.flow.bases(part.of.site):
                    known = isinstance(base, ast.ClassDef) or base in _DATASET_BASES or base.startswith(_TORCHVISION) or base == "torch.utils.data.TensorDataset"
                    if not known:
                        return f"what its data set inherits from {base} is not known"
            elif part.sort is Sort.MADE and not part.name.startswith((_TORCHVISION, "torch.utils.data.")):
                return f"how {described(part)} reads its items is not known"
            elif part.sort not in {Sort.MADE, Sort.CONTAINER, Sort.HOST, Sort.TENSOR, Sort.MOVED}:
                return "its data set is not known"
        return None

    @property
    def _unknown_object(self) -> str | None:
        for value in self.objects:
            site = value.site
            if value.sort is not Sort.MADE or not isinstance(site, ast.Call):
                continue
            if value.name.partition(".")[0] not in _LIBRARIES:
                return f"what {described(value)} does in a worker process is not known"
            if value.name in _COMPOSERS or value.name.startswith(_TORCHVISION):
                code = [*site.args[1 if value.name.startswith(_TORCHVISION) else 0 :], *(each.value for each in site.keywords if each.arg not in {"root", "train", "split", "download", "annFile"})]
                for argument in code:
                    for each in self.flow.values(argument):
                        inner = self.flow.items(each) if each.sort is Sort.CONTAINER else {each}
                        if any(item.sort is Sort.UNKNOWN for item in inner):
                            return f"what {ast.unparse(argument)} does in a worker process is not known (line {site.lineno})"
        return None

    @property
    def _unknown_call(self) -> str | None:
        for function in self.functions:
            for call in _calls(function):
                if self._is_unknown(call):
                    return f"what {ast.unparse(call.func)}() does in a worker process is not known (line {call.lineno})"
        return None

    def _is_unknown(self, call: ast.Call) -> bool:
        values = self.flow.values(call.func)
        if any(each.sort is Sort.EXTERNAL and each.name.partition(".")[0] not in _LIBRARIES for each in values):
            return True
        if isinstance(call.func, ast.Attribute):
            # A method of the data that is read is harmless, whatever it is; a function that the data set holds is not.
            owners = self.flow.values(call.func.value)
            if not any(each.sort in {Sort.INSTANCE, Sort.EXTERNAL} for each in owners):
                return False
        return not without_none(values) or any(each.sort in {Sort.UNKNOWN, Sort.CHOICE} for each in values)

    @cached_property
    def does_work(self) -> bool:
        """Whether reading an item decodes, transforms or reads something, rather than indexing what is in memory."""
        if any(each.sort is Sort.MADE and each.name.startswith(_TRANSFORMS) for each in self.objects):
            return True
        for call, names in self.library_calls:
            if any(name in _WORK or name.startswith("pandas.read_") for name in names):
                return True
            packages = {name.partition(".")[0] for name in (*names, *_made(self.flow.values(call.func)))}
            if not packages <= _CHEAP_PACKAGES:
                return True
        return any(
            isinstance(call.func, ast.Attribute) and call.func.attr in _READING_METHODS
            for function in self.functions
            for call in _calls(function)
        )

    @cached_property
    def draws(self) -> bool:
        """Whether reading an item draws random numbers, or may."""
        for value in self.objects:
            if value.sort is Sort.MADE and _may_draw(value.name):
                return True
        for call, names in self.library_calls:
            if any(map(_draws, (*names, *_made(self.flow.values(call.func))))):
                return True
        return any(
            isinstance(call.func, ast.Attribute) and call.func.attr in _DRAWING_METHODS for each in self.functions for call in _calls(each)
        )

    # What it must not do.

    @cached_property
    def why_not_sent(self) -> str | None:
        """What cannot be pickled, and so not be sent to a worker that is not forked; None where nothing is known."""
        for value in self.objects:
            site = value.site
            if isinstance(site, ast.Lambda):
                return f"a lambda cannot be sent to a worker process (line {site.lineno}): make it a function of the module"
            if value.sort is Sort.FUNCTION and isinstance(site, FUNCTIONS) and (where := self._hidden(site)) is not None:
                return f"{value.name}(), which is defined {where}, cannot be sent to a worker process (line {site.lineno})"
            if isinstance(site, ast.GeneratorExp):
                return f"a generator cannot be sent to a worker process (line {site.lineno})"
            if value.sort is Sort.MADE and value.name in _OPENS_DATABASE:
                return f"{described(value)} opens its database before the workers start"
        for class_ in self.classes:
            where = self._hidden(class_)
            if where is not None:
                return f"objects of class {class_.name}, which is defined {where}, cannot be sent to a worker process (line {class_.lineno})"
        return None

    def _hidden(self, definition: ast.AST) -> str | None:
        """Where in the module the definition stands that a worker process cannot import, in words."""
        module = next(module for module in self.flow.modules if module.holds(definition))
        for above in module.ancestors(definition):
            if isinstance(above, FUNCTIONS):
                return "inside a function"
            if isinstance(above, ast.If) and is_main_guard(above):
                return "under the __main__ guard"
        return None

    @cached_property
    def why_not_shared(self) -> str | None:
        """What the data set holds or does that copies of it in several processes would get wrong; None where nothing is known."""
        for class_ in self.classes:
            for function in (each for each in class_.body if isinstance(each, FUNCTIONS)):
                found = self._opened(function) or self._owns_generator(function)
                if found is not None:
                    return found
        for value in self.objects:
            if value.sort is Sort.MADE and value.name in _GENERATORS:
                return "its data set owns a random number generator, which every worker would repeat"
        return self.changes

    def _opened(self, function: Callee) -> str | None:
        """What is opened and kept before the workers start."""
        if function in self.functions:
            return None
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and any(isinstance(each, ast.Attribute) for each in node.targets):
                names = {each.name for each in self.flow.values(node.value.func) if each.sort is Sort.EXTERNAL} & _HANDLES
                if names:
                    return f"its data set keeps what {min(names).removeprefix('builtins.')}() opens before the workers start: open it in __getitem__ (line {node.lineno})"
        return None

    def _owns_generator(self, function: Callee) -> str | None:
        if getattr(function, "name", "") != "__init__":
            return None
        for call in _calls(function):
            names = {each.name for each in self.flow.values(call.func) if each.sort is Sort.EXTERNAL}
            if names & _SEEDS:
                return f"its data set seeds random numbers when it is made, which workers would not see (line {call.lineno})"
        return None

    @cached_property
    def changes(self) -> str | None:
        """Where reading an item changes the data set or the module, in words: a worker changes its own copy."""
        for function in self.functions:
            if self.flow.owner(function) in self.classes and getattr(function, "name", "") == "__init__":
                continue
            node = self._change(function)
            if node is not None:
                return f"reading an item changes the data set or the script, and a worker changes only its own copy (line {node.lineno})"
        return None

    def _change(self, function: Callee) -> ast.expr | ast.stmt | None:
        roots = self._outer_roots(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                return node
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                stored = [each for each in targets if isinstance(each, (ast.Attribute, ast.Subscript)) and _root(each) in roots]
                if stored and not self._opens(node.value):
                    return node
            if isinstance(node, ast.Call):
                method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                names = {each.name for each in self.flow.values(node.func) if each.sort is Sort.EXTERNAL}
                if method in _CHANGING and not names and isinstance(node.func, ast.Attribute) and _root(node.func.value) in roots:
                    return node
                if names & _SHUFFLES and node.args and _root(node.args[0]) in roots:
                    return node
        return None

    def _outer_roots(self, function: Callee) -> frozenset[str]:
        """The names in the function that stand for what it does not make itself: its object, and names of the module."""
        module = self.flow.module_of(function)
        outside = bound_names(module.tree) - bound_names(function)
        owner = self.flow.owner(function)
        arguments = [*function.args.posonlyargs, *function.args.args]
        if owner is not None and owner in self.classes and arguments and getattr(function, "name", "") != "__init__":
            outside |= {arguments[0].arg}
        return outside

    def _opens(self, value: ast.expr | None) -> bool:
        """``self.file = h5py.File(path)`` on the first use: each worker opens its own."""
        return isinstance(value, ast.Call) and any(each.name in _HANDLES for each in self.flow.values(value.func))

    @property
    def is_sharded(self) -> bool:
        """Whether an iterable data set asks which worker it runs in."""
        return any("torch.utils.data.get_worker_info" in names for _, names in self.library_calls)

    @cached_property
    def module_names(self) -> dict[str, int]:
        """The names of the entry module that the functions read, with the line where each is read."""
        found: dict[str, int] = {}
        for function in self.functions:
            module = self.flow.module_of(function)
            if module is self.flow.modules[0]:
                local = bound_names(function).union(*[bound_names(each) for each in module.ancestors(function) if isinstance(each, FUNCTIONS)])
                for node in ast.walk(function):
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
                        found.setdefault(node.id, node.lineno)
        return found


def _calls(function: Callee) -> Iterator[ast.Call]:
    return (each for each in ast.walk(function) if isinstance(each, ast.Call))


def _root(node: ast.expr) -> str:
    """The name that an attribute, item or call is reached from: ``self.cache[i].data`` → ``self``."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _made(callees: Values) -> Iterator[str]:
    """The names of the libraries' objects that are called, themselves or by a method."""
    for callee in callees:
        made = callee.of if callee.sort is Sort.METHOD else callee
        if made is not None and made.sort is Sort.MADE:
            yield made.name


def _may_draw(name: str) -> bool:
    """Whether an object of the library's class may draw random numbers when it is called."""
    last = name.rpartition(".")[2]
    if name.startswith("torchvision.transforms."):
        return last.startswith("Random") or last in _RANDOM_TRANSFORMS
    return name.startswith(_TRANSFORMS)


def _draws(name: str) -> bool:
    """Whether a call of the library's function draws random numbers, or may."""
    package, _, last = name.rpartition(".")
    if name.startswith("torch."):
        return package == "torch" and last in _TORCH_DRAWS
    if name.startswith("torchvision."):
        return "Random" in name or last == "get_params" or _may_draw(name)
    return name.startswith(("random.", "numpy.random.", *_TRANSFORMS)) and name not in _SEEDS
