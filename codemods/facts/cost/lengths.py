"""How long a script runs as it stands: items of data sets, batches of loaders, and how often code runs, at the most."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import FUNCTIONS, LOOPS, walk
from codemods.dataflow.values import (
    NONE,
    NOTHING,
    Container,
    Literal,
    Made,
    Value,
    Values,
    class_of,
    library_names,
    without_none,
)
from codemods.facts.data.datasets import Dataset
from codemods.facts.data.decoded import decoded
from codemods.facts.loops import may_give, module_of, places_that_run, repeats
from codemods.library.datasets import largest, selecting, sizes, train_position
from codemods.library.kinds import CONCATENATED, LOADER, PROGRESS, Kind, argument, kind
from codemods.library.transforms import Size, transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.cost.constants import Constants
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import TrainingIteration

_MAKERS = frozenset(f"torch.{name}" for name in ("randn", "rand", "zeros", "ones", "empty", "randint", "arange"))
_AT_MOST_ALL = frozenset(
    f"torch.utils.data.{name}"
    for name in ("SubsetRandomSampler", "SequentialSampler", "DistributedSampler", "distributed.DistributedSampler")
)
"""Samplers that yield no more than the items there are."""
_PASSING_ON = PROGRESS | {"builtins.enumerate", "builtins.iter", "builtins.reversed"}


class Lengths:
    """How often what runs in a script. All numbers are upper bounds: a loop may be left early."""

    def __init__(self, script: Script, constants: Constants) -> None:
        self._script = script
        self._flow = script.flow
        self._constants = constants
        self._calls_of: dict[tuple[Callee, tuple[ast.AST, Value] | None], int | None] = {}

    # Data.

    def items(self, values: Values, within: frozenset[Value] = frozenset()) -> int | None:
        """The items of a data set, of the largest that it may be; None where that is not known.

        Args:
            values: What the data set may be.
            within: The data sets that it is a part of: one that is made of itself has a length that is not known.
        """
        found = [None if each in within else self._items(each, within | {each}) for each in without_none(values)]
        return max((each for each in found if each is not None), default=None) if None not in found else None

    def _items(self, value: Value, within: frozenset[Value]) -> int | None:
        call = value.site if isinstance(value.site, ast.Call) else None
        class_ = class_of(value)
        if class_ is not None:
            return self._own_length(class_)
        if isinstance(value, Container):
            is_whole = isinstance(value.site, ast.expr) and None not in self._flow.keys(value)
            found = self._constants.of(value.site) if is_whole and isinstance(value.site, ast.expr) else None
            return len(found) if isinstance(found, (list, tuple)) else None
        if value.name == CONCATENATED and isinstance(value.site, ast.BinOp):
            sides = [self.items(self._flow.values(each), within) for each in (value.site.left, value.site.right)]
            return sum(each for each in sides if each is not None) if None not in sides else None
        is_sum = value.name == CONCATENATED and bool(self._flow.items(value))
        if not isinstance(value, Made) or call is None or is_sum:
            return None
        first = call.args[0] if call.args else None
        if value.name == "torch.utils.data.TensorDataset":
            read = decoded(self._flow, value)
            return self._rows(first) if read is None else self.items(read, within)
        if value.name in {"torch.utils.data.Subset", "torch.utils.data.random_split"} and first is not None:
            return self.items(self._flow.values(first), within)
        if value.name == CONCATENATED and first is not None:
            parts = [self.items(frozenset({part}), within) for each in self._flow.values(first)
                     for part in self._flow.items(each)]  # fmt: skip
            return sum(each for each in parts if each is not None) if parts and None not in parts else None
        return self._of_torchvision(value.name, call)

    def _of_torchvision(self, name: str, call: ast.Call) -> int | None:
        if name == "torchvision.datasets.FakeData":
            given = _argument(call, 0, "size")
            return 1000 if given is None else self._constants.number(given)
        part = self._part_of(name, call)
        known = sizes(name, part) if isinstance(part, str) else None
        if known is None:
            return None
        train = _argument(call, train_position(name), "train")
        which = self._constants.of(train) if train is not None else None
        if which is False or part in {"test", "val"}:
            return known.test
        is_training = which is True or part or train is None
        return known.training if is_training else max(known.training, known.test)

    def _part_of(self, name: str, call: ast.Call) -> Any:  # noqa: ANN401 - whatever selects it
        """What selects a part of the data set of that qualified name: a text, empty where nothing is given."""
        selects = selecting(name)
        given = _argument(call, selects[1], selects[0]) if selects is not None else None
        part = self._constants.of(given) if given is not None else None
        return "" if part is None else part

    def _own_length(self, class_: ast.ClassDef) -> int | None:
        """What ``__len__`` of a class of the project returns."""
        method = self._flow.method(class_, "__len__")
        returned = [each.value for each in walk(method) if isinstance(each, ast.Return)] if method is not None else []
        return self._constants.number(returned[0]) if len(returned) == 1 else None

    def _rows(self, tensor: ast.expr | None) -> int | None:
        """The first side of a tensor that is made with sizes that are written out."""
        made = self._constants.definition(tensor) if tensor is not None else None
        if not isinstance(made, ast.Call) or not made.args:
            return None
        names = {each.name for each in self._flow.values(made.func)}
        if not names or not names <= _MAKERS:
            return None
        sides = made.args
        if names == {"torch.randint"}:
            sides = [each for each in made.args if isinstance(each, (ast.Tuple, ast.List))]
        found = self._constants.of(sides[0]) if sides else None
        found = found[0] if isinstance(found, (list, tuple)) and found else found
        return found if isinstance(found, int) else None

    def batch_size(self, loader: Loader) -> int | None:
        """The samples of a batch."""
        if loader.unknown_arguments is not None or "batch_sampler" in loader.arguments:
            return None
        given = loader.arguments.get("batch_size")
        if given is None:
            return 1
        if given.node is not None:
            size = _argument(each, 1, "batch_size") if (each := self._sampler_of_batches(loader)) else given.node
            return self._constants.number(size)
        literals = [each.value for each in given.values if isinstance(each, Literal)]
        (only,) = literals if len(literals) == len(given.values) == 1 else (None,)
        return only if isinstance(only, int) else None

    def _sampler_of_batches(self, loader: Loader) -> ast.Call | None:
        """``BatchSampler(…)``, where it is the loader's sampler and makes its batches."""
        size, sampler = loader.arguments.get("batch_size"), loader.arguments.get("sampler")
        if size is None or sampler is None or size.values != {NONE}:
            return None
        made = [each for each in sampler.values if each.name == "torch.utils.data.BatchSampler"]
        call = made[0].site if len(made) == len(sampler.values) == 1 else None
        return call if isinstance(call, ast.Call) else None

    def batches(self, loader: Loader) -> int | None:
        """The batches of one pass through a loader."""
        size, items = self.batch_size(loader), self.items(loader.dataset.values)
        of_batches = self._sampler_of_batches(loader)
        if of_batches is not None:
            samplers, dropped = (
                argument(self._flow, of_batches, 0, "sampler"),
                argument(self._flow, of_batches, 2, "drop_last"),
            )
        else:
            given = [loader.arguments.get(name) for name in ("sampler", "drop_last")]
            samplers, dropped = (each.values if each is not None else NOTHING for each in given)
        is_known = all(_yields_at_most_all(each) for each in without_none(samplers))
        if not size or items is None or loader.own_iteration is not None or not is_known:
            return None
        return items // size if {each.name for each in dropped} == {"True"} else -(-items // size)

    def image(self, data: Dataset) -> tuple[int, int, int] | None:
        """Channels, height and width of the images of a data set, the largest that they may be."""
        found = [self._image(data, each) for each in data.parts]
        known = [each for each in found if each is not None]
        return max(known, key=lambda each: each[0] * each[1] * each[2]) if known and None not in found else None

    def _image(self, data: Dataset, part: Value) -> tuple[int, int, int] | None:
        read = decoded(self._flow, part)
        if read is not None:
            return self.image(Dataset(self._flow, read))
        known = largest(part.name)
        is_folder = part.name in {"torchvision.datasets.ImageFolder", "torchvision.datasets.Food101"}
        steps = data.transforms
        if steps is None or (known is None and not is_folder):
            return None
        channels, side = (known.channels, known.side) if known is not None else (3, None)
        sides = (side, side) if side is not None else None
        for step in steps:
            name = step.name.rpartition(".")[2]
            row = transform(name)
            if row is None or row.size is Size.OTHER or not isinstance(step.site, ast.Call):
                return None
            if row.size in {Size.FIXED, Size.GIVEN}:
                sides = self._sides(name, step.site, sides)
            elif name == "Grayscale":
                output = _argument(step.site, 0, "num_output_channels")
                channels = 1 if output is None else self._constants.number(output) or channels
            elif name == "Pad":
                border = self._constants.number(_argument(step.site, 0, "padding"))
                sides = None if border is None or sides is None else (sides[0] + 2 * border, sides[1] + 2 * border)
        return (channels, *sides) if sides is not None else None

    def _sides(self, name: str, call: ast.Call, before: tuple[int, int] | None) -> tuple[int, int] | None:
        given = _argument(call, 0, "size")
        size = self._constants.of(given) if given is not None else None
        if isinstance(size, (list, tuple)) and len(size) == 2 and all(isinstance(each, int) for each in size):  # noqa: PLR2004
            return size[0], size[1]
        is_square = name not in {"Resize", "Scale"} or (before is not None and before[0] == before[1])
        return (size, size) if isinstance(size, int) and is_square else None

    # Code.

    def of_iteration(self, iteration: TrainingIteration) -> int | None:
        """How many of them there are in a run."""
        owner = iteration.owner
        around = self.times(iteration.module, owner)
        inside = self.rounds(owner) if isinstance(owner, (ast.For, ast.AsyncFor, ast.While)) else 1
        return around * inside if around is not None and inside is not None else None

    def times(self, module: Module, node: ast.AST, given: Value | None = None) -> int | None:
        """How often a node runs, through all calls of its function.

        Args:
            module: Where the node stands.
            node: What runs.
            given: What it has to run with: a call of its function that gives it something else does not count.
        """
        if isinstance(node, FUNCTIONS):
            return self._calls(node, node, given)
        count, below = 1, node
        for above in module.ancestors(node):
            if isinstance(above, FUNCTIONS):
                calls = self._calls(above, node, given)
                return None if calls is None else count * calls
            if isinstance(above, LOOPS) and repeats(above, below):
                rounds = self.rounds(above)
                if rounds is None:
                    return None
                count *= rounds
            elif isinstance(above, (ast.comprehension, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)):
                return None
            below = above
        return count

    def _calls(self, function: Callee, node: ast.AST, given: Value | None) -> int | None:
        """How often a function runs, with what its node has to run with; None for one that calls itself."""
        key = (function, None if given is None else (node, given))
        if key in self._calls_of:
            return self._calls_of[key]
        self._calls_of[key] = None
        if not isinstance(function, ast.Lambda) and not self._flow.escapes(function):
            places = [
                each
                for each in places_that_run(self._flow, function)
                if given is None or may_give(self._flow, function, node, each, given)
            ]
            found = [self.times(module_of(self._flow, each), each, given) for each in places]
            if found and None not in found:
                self._calls_of[key] = sum(each for each in found if each is not None)
        return self._calls_of[key]

    def rounds(self, loop: ast.For | ast.AsyncFor | ast.While) -> int | None:
        """How often the body of a loop runs each time that the loop is reached."""
        return None if isinstance(loop, ast.While) else self._length(loop.iter)

    def loaders(self, module: Module, owner: ast.AST) -> Sequence[Loader]:
        """The loaders that a loop reads batch by batch, or the next loop around it that reads one."""
        for loop in (owner, *module.ancestors(owner)):
            found = [each for each in self._script.loaders if any(loop is one.node for one in each.passes)]
            if found or isinstance(loop, FUNCTIONS):
                return found
        return []

    def _length(self, node: ast.expr) -> int | None:
        if isinstance(node, ast.Call):
            names = library_names(self._flow.values(node.func))
            if node.args and names and names <= _PASSING_ON:
                return self._length(node.args[0])
            if node.args and names == {"builtins.zip"}:
                found = [each for each in map(self._length, node.args) if each is not None]
                return min(found, default=None)
            if names & {"tqdm.trange", "tqdm.auto.trange", "tqdm.notebook.trange"} and len(node.args) == 1:
                return self._constants.number(node.args[0])
        values = without_none(self._flow.values(node))
        if values and all(kind(self._flow, each) is Kind.LOADER or each.name == LOADER for each in values):
            loaders = [self._script.loader(each) for each in values]
            batches = [self.batches(each) if each is not None else None for each in loaders]
            return max((each for each in batches if each is not None), default=None) if None not in batches else None
        found_items = self._constants.of(node)
        return len(found_items) if isinstance(found_items, (range, list, tuple, dict)) else None


def _yields_at_most_all(sampler: Value) -> bool:
    """Whether the sampler yields no more indices than there are items."""
    call = sampler.site
    of_all = sampler.name == "torch.utils.data.RandomSampler" and isinstance(call, ast.Call) and len(call.args) == 1
    draws_more = of_all and any(each.arg != "generator" for each in getattr(call, "keywords", ()))
    return sampler.name in _AT_MOST_ALL or (of_all and not draws_more)


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """The argument of a call at that position, from 0, or by that name."""
    named = argument_of(call, name)
    if named is not None or any(isinstance(each, ast.Starred) for each in call.args):
        return named
    return call.args[position] if position < len(call.args) else None
