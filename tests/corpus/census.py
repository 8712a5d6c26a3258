"""Counts the places where a rule might apply by reading the text alone, so that what the tool passes over shows.

Nothing here uses what the tool understands: names are names, and a batch is what a loop hands out. A site is *settled*
where the text itself says that the rule has nothing to do there; ``README.md`` lists what counts as that, rule by rule.
A site that is neither settled nor *accounted for* by a finding is *silent*.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

SKIPPED = {"__pycache__", "node_modules", "site-packages"}
"""Folders of which nobody wrote anything by hand."""

FAILS = "fails-today"
"""So begins what the tool says, once a rule, of a script that does not run on current torch."""

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)

_IMPORTS_TORCH = re.compile(r"^[ \t]*(?:from\s+torch\b|import\s[^#\n]*\btorch\b)", re.MULTILINE)
_MODELISH = re.compile(
    r"(?:^|[._])(?:\w*(?:model|net|encoder|decoder|generator|discriminator|critic|actor|policy|classifier|backbone)\w*"
    r"|[GD]|net[GD]|criterion|loss_fn|criterion_\w+)$",
    re.IGNORECASE,
)
_USED_AS_MODEL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\.(?:parameters|named_parameters|eval|train|requires_grad_)\(")
_OPTIMIZES = re.compile(r"optim|adam|sgd|rmsprop|lbfgs|\bparam\w*\s*=", re.IGNORECASE)
_MIXED_PRECISION = re.compile(r"\bautocast\b|\bGradScaler\b|\bapex\b|\.half\(\)")
_COMPILES = re.compile(r"\btorch\.compile\b|\.compile\(")
_CONVOLUTION = re.compile(r"\bConv(?:Transpose)?[123]d\(")
_FUSIBLE = {"Adam", "AdamW", "SGD"}
_STEPS = ("fused", "foreach", "differentiable", "capturable")
_PRODUCT = re.compile(
    r"(?:^|\.)(?:(?:Lazy)?Linear|Bilinear|Transformer\w*|MultiheadAttention|matmul|b?mm|einsum|scaled_dot_product_attention)$"
)
_TF32 = re.compile(r"\b(?:allow_tf32|fp32_precision|set_float32_matmul_precision)\b|TF32")
_CUDNN = re.compile(r"\bcudnn\.(?:benchmark|flags)\b|[\"']benchmark[\"']")
_EVALUATES = re.compile(r"(?:^|_)(?:eval|test|valid|infer)", re.IGNORECASE)
_MAKES = re.compile(r"(?:^|\.)_*(?:build|create|gen|get|init|load|make)_\w*$")
_NO_GRADIENTS = re.compile(r"\bno_grad\b|\binference_mode\b|\bset_grad_enabled\b")
_TRAINS = re.compile(r"\.backward\(|\bautograd\.grad\b|\.step\(|requires_grad")
_HOOKS = {"validation_step", "test_step", "validation_epoch_end", "test_epoch_end"}
_UNIT_TEST = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*\.py$|[^/]*_test\.py$|conftest\.py$)")
_NO_BATCHES = re.compile(
    r"\b(?:range|trange|(?:named_)?(?:parameters|modules|children|buffers)|state|layers|param_groups)\b"
)
_NO_MODEL = re.compile(r"param|rref", re.IGNORECASE)
_NO_DEVICE = re.compile(
    r"dtype\b|^torch\.(?:b?float|half|double|long|short|u?int|bool|complex|channels)|^['\"]cpu|^torch\.device\(['\"]cpu"
)
_NUMPY_NUMBER = re.compile(
    r"^(?:np|numpy)\.(?:pi|e|inf|nan|float\d*|int\d*|sqrt|log|log2|exp|prod|ceil|floor|mean|sum|std|max|min|argmax)\b"
)
_ITEMS = {"__getitem__", "__getitems__", "__iter__", "__next__", "collate_fn", "collate"}
_IMAGE_SETS = {"MNIST", "FashionMNIST", "KMNIST", "EMNIST", "CIFAR10", "CIFAR100", "SVHN", "STL10", "USPS"}
_MAKERS = re.compile(r"(?:^|\.)(?:tensor|Tensor|FloatTensor)$")
_PAUSES = re.compile(r"^(?:torch\.(?:cuda|mps)\.(?:empty_cache|ipc_collect|synchronize)|gc\.collect)$")
_FILLS = re.compile(r"^torch\.(?:zeros|ones|full|empty|eye|arange|linspace|logspace|randn?|randint|randperm|normal)$")
_OLD_AMP = re.compile(r"^torch\.(?:cuda|cpu)\.amp(?:\.(?:autocast|GradScaler|custom_fwd|custom_bwd))?$")
_ANOMALY = re.compile(r"^torch\.autograd\.(?:set_)?detect_anomaly$")
_OTHERS_BACKWARD = re.compile(r"accelerator|fabric|engine|strategy|deepspeed", re.IGNORECASE)
_TIMED = re.compile(r"%%(?:time|timeit|capture|prun)\b")
_MAGIC = re.compile(r"^(\s*)(?:[%!?].*|[^#'\"]*\?\s*$)")
_ASSIGNED_MAGIC = re.compile(r"^(\s*[\w, ]+=\s*)[%!].*")
_OLD_TORCH = re.compile(r"\b(?:torch|pytorch)\s*(?:==?|~=|<=?)\s*[01]\b|\b(?:torch|pytorch)\b[^\n]*<\s*2\b")


@dataclass(frozen=True, slots=True)
class Site:
    """A place where a rule might apply."""

    rule: str
    path: str
    line: int
    """From 1; of its cell in a notebook."""
    cell: int | None
    """Of a notebook, the number of the cell, from 1, text cells counted."""
    settled: str
    """Why the rule has nothing to do there; empty where it has."""
    first: int
    last: int
    """The lines, from 1 and inclusive, of the whole program in which a finding of the rule accounts for the site."""
    name: str = ""
    """What is made there, where a finding may stand at another of its uses."""
    maker: str = ""
    """Where the function is imported from that makes it, ``nets.create_model``, in which a finding may stand, too."""


class Program:
    """One file: a module, or the code cells of a notebook read as one module."""

    def __init__(self, path: str, cells: Iterable[tuple[int | None, str]]) -> None:
        """Parse it.

        Args:
            path: Its name, relative to the repository, with slashes.
            cells: Number and text of each code cell; one without number for a module.

        Raises:
            SyntaxError: It is not Python that this interpreter reads.
            ValueError: Nor any text of a program, as it holds a null byte.
        """
        self.path = path
        self.lines: list[str] = []
        self._places: list[tuple[int | None, int]] = []
        for cell, text in cells:
            lines = text.split("\n")
            self.lines += lines if cell is None else _without_magics(lines)
            self._places += [(cell, number) for number in range(1, len(lines) + 1)]
        self.text = "\n".join(self.lines)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the author's escapes are not the question
            self.tree = ast.parse(self.text)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @classmethod
    def read(cls, file: Path, path: str) -> Program | None:
        """The program in a file; None where it cannot be read as one."""
        try:
            if file.suffix == ".ipynb":
                return cls(path, _code_cells(json.loads(file.read_bytes())))
            return cls(path, [(None, _decoded(file.read_bytes()))])
        except (SyntaxError, ValueError, RecursionError, OSError):
            return None

    def place(self, line: int) -> tuple[int | None, int]:
        """Cell and line in it of a line of the whole program."""
        return self._places[line - 1]

    def line(self, cell: int | None, line: int) -> int:
        """The line of the whole program; 0 where there is no such line."""
        return self._lines.get((cell, line), 0)

    @cached_property
    def _lines(self) -> dict[tuple[int | None, int], int]:
        return {place: number for number, place in enumerate(self._places, start=1)}

    @cached_property
    def code(self) -> str:
        """The program without comments."""
        return ast.unparse(self.tree)

    @cached_property
    def imports_torch(self) -> bool:
        """Whether torch is imported here by name."""
        return _IMPORTS_TORCH.search(self.text) is not None

    @cached_property
    def is_unit_test(self) -> bool:
        """Whether the path is that of a unit test, which need not be fast."""
        return _UNIT_TEST.search(self.path) is not None

    @cached_property
    def calls(self) -> list[ast.Call]:
        """All calls, in the order of their lines."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return sorted(found, key=lambda each: (each.lineno, each.col_offset))

    @cached_property
    def trains_on_a_device(self) -> bool:
        """Whether there is a backward, and a device that may be another one than the CPU."""
        on_cpu = re.search(r"device\(['\"]cpu|['\"]cpu['\"]", self.code)
        may_move = "cuda" in self.code or (not on_cpu and re.search(r"\bdevice\b", self.code) is not None)
        return may_move and any(not settled for _, settled in self.backwards)

    @cached_property
    def backwards(self) -> list[tuple[ast.Call, str]]:
        """The calls of ``.backward()``, each with why it is not torch's or trains nothing; mostly empty."""
        trains = re.search(r"\.step\(|\.parameters\(|\bnn\.", self.code)
        found = []
        for call in self.calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
                receiver = ast.unparse(call.func.value)
                is_other = _OTHERS_BACKWARD.search(receiver) or receiver.startswith(("super()", "ctx"))
                is_other = is_other or (receiver == "self" and self.defines(call, "backward"))
                other = "another library's or the script's own" if is_other else ""
                found.append((call, other or ("" if trains else "nothing is trained")))
        return found

    @cached_property
    def models(self) -> set[str]:
        """What is used like a model, as it is written: ``net``, ``self.encoder``."""
        return set(_USED_AS_MODEL.findall(self.code))

    @cached_property
    def imported(self) -> dict[str, str]:
        """Where imported names come from; torch's, where there is a choice."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                pairs = [
                    (each.asname or each.name.partition(".")[0], each.name if each.asname else each.name.split(".")[0])
                    for each in node.names
                ]
            elif isinstance(node, ast.ImportFrom):
                start = f"{'.' * node.level}{node.module or ''}"
                pairs = [(each.asname or each.name, f"{start}.{each.name}") for each in node.names]
            else:
                continue
            for name, origin in pairs:
                if not found.get(name, "").startswith("torch."):
                    found[name] = origin
        return found

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, inner ones first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def loops(self, node: ast.AST) -> list[ast.AST]:
        """The loops and comprehensions around a node in its own function, inner ones first."""
        found: list[ast.AST] = []
        below = node
        for each in self.above(node):
            if isinstance(each, _SCOPES):
                break
            is_header = isinstance(each, ast.For) and below is each.iter
            if isinstance(each, (*_LOOPS, *_COMPREHENSIONS)) and not is_header:
                found.append(each)
            below = each
        return found

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost function around a node."""
        return next((each for each in self.above(node) if isinstance(each, _FUNCTIONS)), None)

    def defines(self, node: ast.AST, method: str) -> bool:
        """Whether the class around a node has a method of that name."""
        class_ = next((each for each in self.above(node) if isinstance(each, ast.ClassDef)), None)
        return class_ is not None and any(isinstance(each, _FUNCTIONS) and each.name == method for each in class_.body)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement around a node, or the node itself."""
        return next(each for each in (node, *self.above(node)) if isinstance(each, ast.stmt))

    def source(self, node: ast.AST) -> str:
        """The lines of a node, with the decorators of a function."""
        first, last = extent(node)
        return "\n".join(self.lines[first - 1 : last])


def extent(node: ast.AST) -> tuple[int, int]:
    """First and last line of a node, with the decorators of a function."""
    first: int = node.lineno  # type: ignore[attr-defined]
    last: int = node.end_lineno  # type: ignore[attr-defined]
    return min([first, *(each.lineno for each in getattr(node, "decorator_list", ()))]), last


def head(statement: ast.stmt) -> tuple[int, int]:
    """First and last line of a statement, without the body of one that has a body."""
    first, last = extent(statement)
    body = getattr(statement, "body", None)
    return first, max(first, body[0].lineno - 1) if body else last


def files(root: Path) -> list[str]:
    """The Python files and notebooks below a folder, relative to it, in order."""
    return sorted(
        path
        for file in root.rglob("*")
        if file.suffix in {".py", ".ipynb"} and file.is_file()
        for path in [file.relative_to(root).as_posix()]
        if not any(part.startswith(".") or part in SKIPPED for part in path.split("/")[:-1])
    )


def sites(program: Program, *, old_torch: bool = False) -> list[Site]:
    """All sites of a program; none where it does not import torch.

    Args:
        program: The file.
        old_torch: Whether the project pins a torch before 2.
    """
    if not program.imports_torch:
        return []
    found = [site for census in _CENSUSES for site in census(program)]
    found += _zeroed(program, old_torch=old_torch)
    if program.is_unit_test:
        found = [replace(each, settled=each.settled or "a unit test") for each in found]
    return sorted(found, key=lambda each: (each.first, each.rule))


def pins_old_torch(root: Path, path: str) -> bool:
    """Whether requirements beside a file, or in a folder above it in its repository, pin a torch before 2."""
    return any(_pins(root / folder) for folder in PurePosixPath(path).parents)


@cache
def _pins(folder: Path) -> bool:
    names = ("requirements*.txt", "pyproject.toml", "setup.py", "environment*.y*ml")
    texts = (file.read_text(encoding="utf-8", errors="replace") for name in names for file in folder.glob(name))
    return any(_OLD_TORCH.search(text) for text in texts)


def accounts(program: Program, site: Site, finding: dict[str, Any], alone: bool) -> bool:  # noqa: FBT001 - see Args
    """Whether a finding of the site's rule in the site's file is about the site.

    Args:
        program: The file.
        site: The site.
        finding: As the tool prints it.
        alone: Whether it is the only finding of its rule in the file.
    """
    line = program.line(finding.get("cell"), finding["line"])
    end = program.line(finding.get("cell"), finding["end_line"]) or line
    # What stands against mixed precision in a whole script is said once, at its first backward.
    is_about_all = alone and finding["status"] == "left" and site.rule == "amp"
    named = site.name and re.search(
        rf"(?<![\w.]){re.escape(site.name)}\b", f"{finding['message']} {program.lines[line - 1]}"
    )
    return bool(is_about_all or named or (line <= site.last and site.first <= end))


def accounts_where_made(program: Program, site: Site, finding: dict[str, Any]) -> bool:
    """Whether a finding of the site's rule in another file stands in the function that makes what the site does.

    A package may hand the function on from one of its modules: it is sought in all files of the package.
    """
    package, name = site.maker.partition(".")[0], site.maker.rpartition(".")[2]
    if not site.maker or package not in {part.removesuffix(".py") for part in PurePosixPath(program.path).parts}:
        return False
    line = program.line(finding.get("cell"), finding["line"])
    functions = (each for each in ast.walk(program.tree) if isinstance(each, ast.FunctionDef) and each.name == name)
    return any(each.lineno <= line <= (each.end_lineno or 0) for each in functions)


def _site(program: Program, rule: str, node: ast.AST, settled: str, within: tuple[int, int], *, name: str = "") -> Site:
    cell, line = program.place(node.lineno)  # type: ignore[attr-defined]
    return Site(rule, program.path, line, cell, settled, *within, name=name)


def _at(program: Program, rule: str, node: ast.AST, settled: str) -> Site:
    """A site that is accounted for by a finding in its statement."""
    return _site(program, rule, node, settled, head(program.statement(node)))


# --- loaders --------------------------------------------------------------------------------------------------------


def _loaders(program: Program) -> Iterator[Site]:
    """``DataLoader(…)``, for three rules."""
    for call in program.calls:
        written = ast.unparse(call.func)
        if written.rpartition(".")[2] != "DataLoader":
            continue
        other = "" if _is_torchs(program, written) else "another library's or the script's own"
        workers = _argument(call, "num_workers", 5)
        yield _at(program, "loader-workers", call, other or _given(program, call, "num_workers", workers))
        yield _at(
            program, "loader-pin", call, other or _given(program, call, "pin_memory", _argument(call, "pin_memory", 7))
        )
        if workers is not None and not _is_zero(program, workers):
            settled = other or _given(program, call, "persistent_workers", _argument(call, "persistent_workers", 99))
            yield _at(program, "loader-persistent", call, settled or _read_once(program, call))


def _loaders_of_tensors(program: Program) -> Iterator[Site]:
    """``DataLoader(data)`` where the file makes ``data``, or the argument itself, a ``TensorDataset``."""
    for call in program.calls:
        data = _argument(call, "dataset", 0) if ast.unparse(call.func).rpartition(".")[2] == "DataLoader" else None
        made = f"{re.escape(ast.unparse(data))} = " if isinstance(data, ast.Name) else ""
        text = program.code if made else ast.unparse(data) if data is not None else ""
        if not re.search(rf"^\s*{made}[\w.]*\bTensorDataset\(", text, re.MULTILINE):
            continue
        cut = [name for name in ("sampler", "batch_sampler", "collate_fn") if _argument(call, name, 99) is not None]
        yield _at(program, "loader-batched-index", call, f"{cut[0]} is given" if cut else "")


def _image_sets(program: Program) -> Iterator[Site]:
    """``datasets.MNIST(…)`` and others whose images have one size, in files that make loaders."""
    for call in program.calls:
        package, _, name = ast.unparse(call.func).rpartition(".")
        origin = program.imported.get(package.partition(".")[0] or name, "")
        if name in _IMAGE_SETS and origin.startswith("torchvision") and "DataLoader(" in program.code:
            is_held = any(isinstance(each, ast.ClassDef) for each in program.above(call))
            yield _at(program, "dataset-materialize", call, "held by a class of the script" if is_held else "")


def _is_zero(program: Program, node: ast.expr) -> bool:
    """Whether it is 0, or a name that the file gives no other value."""
    if isinstance(node, ast.Name):
        stores = [each for each in ast.walk(program.tree) if getattr(each, "id", getattr(each, "arg", "")) == node.id]
        stores = [
            each for each in stores if isinstance(each, ast.arg) or isinstance(getattr(each, "ctx", 0), ast.Store)
        ]
        given = [getattr(program.parents[each], "value", None) for each in stores]
        return bool(given) and all(isinstance(each, ast.Constant) and each.value == 0 for each in given)
    return isinstance(node, ast.Constant) and not node.value


def _is_torchs(program: Program, written: str) -> bool:
    root, _, rest = written.partition(".")
    if root in program.imported:
        return f"{program.imported[root]}.{rest}".startswith("torch.")
    made_here = any(isinstance(each, ast.ClassDef) and each.name == root for each in ast.walk(program.tree))
    return not rest and not made_here  # by `from … import *`


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    named = next((each.value for each in call.keywords if each.arg == name), None)
    return named if named is not None or len(call.args) <= position else call.args[position]


def _given(program: Program, call: ast.Call, name: str, value: ast.expr | None) -> str:
    is_none = value is None or (name == "num_workers" and _is_zero(program, value))
    if not is_none:
        return f"{name} is given"
    spread = any(each.arg is None for each in call.keywords)
    if spread and re.search(rf"['\"]{name}['\"]|\b{name}\s*=", program.text):
        return f"{name} is among the ** arguments, as it seems"
    return ""


def _read_once(program: Program, call: ast.Call) -> str:
    """Why the loader is read in no more than one epoch, as it seems."""
    statement = program.statement(call)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return ""
    name = statement.targets[0].id
    readers = [
        node
        for node in ast.walk(program.tree)
        if isinstance(node, (ast.For, ast.comprehension)) and re.search(rf"\b{name}\b", ast.unparse(node.iter))
    ]
    outside = [not program.loops(each) and program.function(each) is None for each in readers]
    return "read once" if readers and all(outside) else ""


# --- the training iteration -----------------------------------------------------------------------------------------


def _backwards(program: Program) -> Iterator[Site]:
    """``.backward(…)``, for mixed precision; a finding anywhere in its function or its loop accounts for it."""
    present = "mixed precision is there" if _MIXED_PRECISION.search(program.code) else ""
    for call, settled in program.backwards:
        blocks = [each for each in program.above(call) if isinstance(each, (*_LOOPS, *_FUNCTIONS))]
        yield _site(program, "amp", call, present or settled, extent(blocks[-1] if blocks else program.statement(call)))


def _moves(program: Program) -> Iterator[Site]:
    """``.to(…)`` and ``.cuda(…)`` under a loop."""
    for call in program.calls:
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"to", "cuda"}:
            continue
        loops = program.loops(call)
        if loops:
            yield _at(program, "h2d-non-blocking", call, _why_no_copy(program, call, call.func.value, loops))


def _why_no_copy(program: Program, call: ast.Call, receiver: ast.expr, loops: list[ast.AST]) -> str:
    """Why a move copies no batch to a device, as it seems, or does not block."""
    target = ast.unparse(call.args[0]) if call.args else ", ".join(each.arg or "**" for each in call.keywords)
    blocking = next((each.value for each in call.keywords if each.arg == "non_blocking"), None)
    if blocking is not None and not (isinstance(blocking, ast.Constant) and not blocking.value):
        return "non_blocking is given"
    if call.func.attr == "to" and (_NO_DEVICE.search(target) or not target):  # type: ignore[attr-defined]
        return "not to a device"
    written = ast.unparse(receiver)
    if written in program.models or _MODELISH.search(written):
        return "a model"
    root = _root(receiver)
    if isinstance(root, ast.Call) and re.search(r"(?:^|\.)(?!Variable\b)[A-Z]\w*$", ast.unparse(root.func)):
        return "a new object"
    if isinstance(root, ast.Name) and program.imported.get(root.id, "").split(".")[0] in {"torch", "numpy"}:
        return "made there"
    batches = _batches(loops)
    return "" if any(each.id in batches for each in _names(root)) else "nothing that a loop hands out"


def _batches(loops: list[ast.AST]) -> set[str]:
    """The names of what loops hand out, and of its parts."""
    found: set[str] = set()
    for loop in loops:
        for node in loop.generators if isinstance(loop, _COMPREHENSIONS) else [loop]:
            if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) and not _NO_BATCHES.search(
                ast.unparse(node.iter)
            ):
                counts = isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func).endswith("enumerate")
                target = node.target.elts[1] if counts and isinstance(node.target, ast.Tuple) else node.target
                found.update(each.id for each in _names(target))
    assignments = [node for node in ast.walk(loops[-1]) if isinstance(node, ast.Assign)]
    before = -1
    while before != len(found):
        before = len(found)
        for each in assignments:
            found.update(_handed_on(each, found))
    return found


def _handed_on(assignment: ast.Assign, batches: set[str]) -> Iterator[str]:
    """The names that an assignment gives a batch or a part of one: ``x, y = batch``, ``x = x.view(…)``, ``next(…)``."""
    for target in assignment.targets:
        pairs = [(target, assignment.value)]
        if isinstance(target, ast.Tuple) and isinstance(assignment.value, ast.Tuple):
            pairs = list(zip(target.elts, assignment.value.elts, strict=False))
        for left, right in pairs:
            root = _root(right)
            is_next = isinstance(root, ast.Name) and root.id == "next"
            if isinstance(root, ast.Call) and ast.unparse(root.func).endswith("Variable") and root.args:
                root = _root(root.args[0])
            if is_next or (isinstance(root, ast.Name) and root.id in batches):
                yield from (each.id for each in _names(left))


def _root(node: ast.expr) -> ast.expr:
    """What methods, attributes and elements are taken of: ``x`` in ``x[0].view(2).data``; ``f(…)`` of a function."""
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next":
            return node.func
        else:
            return node


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Name))


def _zeroed(program: Program, *, old_torch: bool) -> Iterator[Site]:
    """``zero_grad(…)``, and ``.grad.zero_()`` by hand."""
    for call in program.calls:
        if not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr == "zero_grad":
            value = next((each.value for each in call.keywords if each.arg == "set_to_none"), None)
            value = call.args[0] if value is None and call.args else value
            drops = value is not None and not (isinstance(value, ast.Constant) and not value.value)
            settled = "set_to_none is given" if drops else ""
            if value is None and not old_torch:
                settled = "the default since torch 2"
            yield _at(program, "zero-grad-none", call, settled)
        elif call.func.attr == "zero_" and re.search(r"\.grad(?:\.data)?$", ast.unparse(call.func.value)):
            loops = [each for each in program.loops(call) if isinstance(each, ast.For)]
            within = extent(loops[0]) if loops else head(program.statement(call))
            yield _site(program, "zero-grad-none", call, "", within)


# --- models and evaluation ------------------------------------------------------------------------------------------


def _evaluations(program: Program) -> Iterator[Site]:
    """Functions that evaluate, by their names, call a model and compute no gradients."""
    for function in ast.walk(program.tree):
        if not isinstance(function, _FUNCTIONS) or not _EVALUATES.search(function.name):
            continue
        source = program.source(function)
        called = {ast.unparse(each.func) for each in ast.walk(function) if isinstance(each, ast.Call)}
        called = {each for each in called if not _MAKES.search(each)}
        if _TRAINS.search(source) or not any(each in program.models or _MODELISH.search(each) for each in called):
            continue
        settled = ""
        if function.name in _HOOKS:
            settled = "a framework calls it, without gradients"
        elif _NO_GRADIENTS.search(source) or _called_without_gradients(program, function.name):
            settled = "without gradients already"
        yield _site(program, "no-grad-eval", function, settled, extent(function))


def _called_without_gradients(program: Program, name: str) -> bool:
    """Whether all calls of a function stand under ``with torch.no_grad():`` or in functions decorated with it."""
    calls = [each for each in program.calls if ast.unparse(each.func).rpartition(".")[2] == name]
    return bool(calls) and all(
        any(
            _NO_GRADIENTS.search(ast.unparse(part))
            for around in program.above(call)
            for part in (*getattr(around, "items", ()), *getattr(around, "decorator_list", ()))
            if not isinstance(around, ast.Dict)
        )
        for call in calls
    )


def _models(program: Program) -> Iterator[Site]:
    """Models that are made in a file with a backward, where it speaks of a device."""
    if not program.trains_on_a_device:
        return
    settled = "compiled already" if _COMPILES.search(program.code) else ""
    trained = set(_trained(program))
    seen = set()
    for statement in ast.walk(program.tree):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        name = ast.unparse(statement.targets[0])
        key = name, program.function(statement)
        made_of = {
            ast.unparse(each) for each in ast.walk(statement.value) if isinstance(each, (ast.Name, ast.Attribute))
        }
        if name not in trained or key in seen or made_of & program.models:
            continue
        seen.add(key)
        site = _site(program, "compile", statement, settled, extent(statement), name=name)
        yield replace(site, maker=program.imported.get(ast.unparse(statement.value.func), ""))


def _trained(program: Program) -> Iterator[str]:
    """What an optimizer is given the parameters of, as it seems, or is given itself."""
    for call in program.calls:
        takes_parameters = isinstance(call.func, ast.Attribute) and call.func.attr in {"parameters", "named_parameters"}
        statement = program.statement(call)
        if takes_parameters and not hasattr(statement, "body") and _OPTIMIZES.search(ast.unparse(statement)):
            yield ast.unparse(call.func.value)  # type: ignore[attr-defined]
        elif re.search("optim", ast.unparse(call.func), re.IGNORECASE):
            given = {ast.unparse(each) for each in call.args if isinstance(each, (ast.Name, ast.Attribute))}
            modelish = {each for each in given if _MODELISH.search(each) and not _NO_MODEL.search(each)}
            yield from given & program.models | modelish


def _convolutions(program: Program) -> Iterator[Site]:
    """One site a file that has convolutions, a backward and a device."""
    if not program.trains_on_a_device:
        return
    convolutions = [each for each in program.calls if _CONVOLUTION.search(f"{ast.unparse(each.func)}(")]
    if convolutions:
        settled = "the flag is set" if _CUDNN.search(program.code) else ""
        if not _is_made(program, convolutions):
            settled = "no such model is made there"
        yield _site(program, "cudnn-benchmark", convolutions[0], settled, (1, len(program.lines)))


def _optimizers(program: Program) -> Iterator[Site]:
    """``Adam(…)``, ``AdamW(…)`` and ``SGD(…)`` of torch's, in files with a backward and a device."""
    for call in program.calls if program.trains_on_a_device else ():
        written = ast.unparse(call.func)
        if written.rpartition(".")[2] in _FUSIBLE and _is_torchs(program, written):
            given = [name for name in _STEPS if any(each.arg == name for each in call.keywords)]
            yield _at(program, "fused-optimizer", call, f"{given[0]} is given" if given else "")


def _products(program: Program) -> Iterator[Site]:
    """One site a file that multiplies matrices, and has a backward and a device."""
    if not program.trains_on_a_device:
        return
    products = [each for each in program.calls if _PRODUCT.search(ast.unparse(each.func))]
    if products:
        settled = "the precision is set" if _TF32.search(program.code) else ""
        if not _is_made(program, products):
            settled = "no such model is made there"
        yield _site(program, "tf32-matmul", products[0], settled, (1, len(program.lines)))


def _is_made(program: Program, calls: list[ast.Call]) -> bool:
    """Whether anything makes what holds the layers that these calls make: not only a class that nobody makes one of."""
    classes: set[str] = set()
    while True:
        around = [[each.name for each in program.above(call) if isinstance(each, ast.ClassDef)] for call in calls]
        found = {name for names in around for name in names}
        if not all(around):
            return True
        if found <= classes:
            return False
        classes |= found
        calls = [
            each
            for each in program.calls
            if isinstance(each.func, ast.Name)
            and each.func.id in found
            and each.func.id not in {part.name for part in program.above(each) if isinstance(part, ast.ClassDef)}
        ]


# --- tensors of arrays ----------------------------------------------------------------------------------------------


def _tensors(program: Program) -> Iterator[Site]:
    """``torch.tensor(…)``, ``torch.Tensor(…)`` and ``FloatTensor(…)`` of what NumPy made."""
    for call in program.calls:
        written = ast.unparse(call.func)
        if not _MAKERS.search(written) or len(call.args) != 1 or written.startswith(("np.", "tf.")):
            continue
        function = program.function(call)
        arrays = _arrays(function or program.tree)
        if any(each.id in {"np", "numpy"} or each.id in arrays for each in _names(call.args[0])):
            yield _at(program, "as-tensor", call, _why_no_gain(program, call, function))


def _why_no_gain(program: Program, call: ast.Call, function: ast.AST | None) -> str:
    if _NUMPY_NUMBER.search(ast.unparse(call.args[0])):
        return "a number"
    name = getattr(function, "name", "")
    called = [each for each in program.calls if ast.unparse(each.func).rpartition(".")[2] == name]
    is_repeated = program.loops(call) or name in _ITEMS or any(program.loops(each) for each in called)
    return "" if is_repeated else "made once"


def _arrays(scope: ast.AST) -> set[str]:
    """The names that are given what a function of NumPy returns."""
    return {
        each.id
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for root in [_root(node.value)]
        if isinstance(root, ast.Name)
        and root.id in {"np", "numpy"}
        and not _NUMPY_NUMBER.search(ast.unparse(node.value))
        for target in node.targets
        for each in _names(target)
    }


# --- what pauses, is made elsewhere, has another name now, or looks for faults -----------------------------------------


def _in_full(program: Program, node: ast.expr) -> str:
    """The name as it is written, with the origin of what is imported: ``torch.cuda.amp.autocast`` of ``autocast``."""
    root, dot, rest = ast.unparse(node).partition(".")
    return f"{program.imported.get(root, root)}{dot}{rest}"


def _pauses(program: Program) -> Iterator[Site]:
    """``torch.cuda.empty_cache()`` and its like as statements of a loop with a backward of its own."""
    training = [loops[0] for call, _ in program.backwards for loops in [program.loops(call)] if loops]
    for call in program.calls:
        loops = program.loops(call)
        is_statement = isinstance(program.parents[call], ast.Expr)
        if is_statement and _PAUSES.search(_in_full(program, call.func)) and loops and loops[0] in training:
            after = any(isinstance(each, ast.ExceptHandler) for each in program.above(call))
            yield _at(program, "sync-off", call, "after an error" if after else "")


def _fillings(program: Program) -> Iterator[Site]:
    """``torch.zeros(…).to(device)``, ``torch.ones(…).view(…).cuda()`` under a loop of the same function."""
    for call in program.calls:
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"to", "cuda"} or not program.loops(call):
            continue
        made: ast.expr = call.func.value
        while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
            if _FILLS.search(_in_full(program, made.func)):
                break
            made = made.func.value
        if isinstance(made, ast.Call) and _FILLS.search(_in_full(program, made.func)):
            target = ast.unparse(call.args[0]) if call.args else ""
            is_there = any(each.arg == "device" for each in made.keywords)
            settled = "made there" if is_there else "a format or the CPU" if _NO_DEVICE.search(target) else ""
            yield _at(program, "device-ctor", call, settled)


def _old_amp(program: Program) -> Iterator[Site]:
    """Imports of the old names of mixed precision, and the names in full."""
    chosen = "the new name is there, too" if re.search(r"\btorch\.amp\b", program.code) else ""
    read = {each.id for each in _names(program.tree) if isinstance(each.ctx, ast.Load)}
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch."):
            if _OLD_AMP.search(ast.unparse(node)) and node.attr != "amp":
                yield _at(program, "amp-migrate", node, chosen)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            old = {each.asname or each.name for each in node.names if _OLD_AMP.search(f"{node.module}.{each.name}")}
            if old:
                yield _at(program, "amp-migrate", node, chosen or ("" if old & read else "never used"))


def _anomalies(program: Program) -> Iterator[Site]:
    """``set_detect_anomaly(True)``, ``detect_anomaly()``."""
    for call in program.calls:
        if not _ANOMALY.search(_in_full(program, call.func)):
            continue
        mode = _argument(call, "mode", 0)
        is_off = isinstance(mode, ast.Constant) and not mode.value
        asked = any(
            isinstance(each, ast.If) and "__name__" not in ast.unparse(each.test) for each in program.above(call)
        )
        yield _at(program, "debug-off", call, "it is off" if is_off else "an option or condition" if asked else "")


_CENSUSES: tuple[Callable[[Program], Iterator[Site]], ...] = (
    _loaders,
    _loaders_of_tensors,
    _image_sets,
    _backwards,
    _moves,
    _evaluations,
    _models,
    _convolutions,
    _optimizers,
    _products,
    _tensors,
    _pauses,
    _fillings,
    _old_amp,
    _anomalies,
)


# --- files ----------------------------------------------------------------------------------------------------------


def _decoded(data: bytes) -> str:
    """The text of a module; the lines are what Python counts as lines."""
    import io
    import tokenize

    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def _code_cells(notebook: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Number and text of the code cells of a notebook, in the present format or an earlier one."""
    cells = notebook.get("cells") or [cell for sheet in notebook.get("worksheets", ()) for cell in sheet["cells"]]
    for number, cell in enumerate(cells, start=1):
        if cell.get("cell_type") == "code":
            source = cell.get("source", cell.get("input", ""))
            yield number, source if isinstance(source, str) else "".join(source)


def _without_magics(lines: list[str]) -> list[str]:
    """The lines of a cell, with ``pass`` for what only IPython reads; bodies of cell magics that time are Python."""
    if lines[0].startswith("%%") and not _TIMED.match(lines[0]):
        return [""] * len(lines)
    return [_ASSIGNED_MAGIC.sub(r"\1None", _MAGIC.sub(r"\1pass", line)) for line in lines]
