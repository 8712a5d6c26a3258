"""Where scripts make tensors of what they have as arrays: by which constructor, how often, and of how much."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import FUNCTIONS, lasting
from codemods.dataflow.values import External, instance
from codemods.facts.data.number_likes import makes_items
from codemods.facts.loops import around, module_of, repeats
from codemods.library.kinds import Kind, kind
from codemods.library.tensors import LEGACY_FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.data.arrays import Arrays
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script


class Form(enum.Enum):
    """What a constructor of tensors does with an array."""

    COPYING = enum.auto()
    SHARING = enum.auto()
    """It copies no array, but reads lists of arrays element by element, too."""
    LEGACY = enum.auto()
    """It makes numbers of one format of what is no size."""


_FORMS = {
    "torch.tensor": Form.COPYING,
    "torch.as_tensor": Form.SHARING,
}
_LEGACY_FORMATS = {f"torch.{name}": made for name, made in LEGACY_FORMATS.items()}
_FILLS = frozenset({"random_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "copy_"})
"""Methods that write all elements of a tensor, which had none of its own."""


_ACTING = words("act select_action choose_action get_action take_action sample_action")


@dataclass(frozen=True, eq=False)
class Conversion:
    """A call that makes a tensor of one thing, which may be an array, a list of arrays or anything else."""

    script: Script
    arrays: Arrays
    call: ast.Call
    form: Form
    format: str | None = None
    """The number format that a legacy constructor makes of anything."""
    is_repeated: bool = True
    """Whether it is made again and again, and not once of what is large."""

    @property
    def module(self) -> Module:
        """Where the call is."""
        return self.script.module

    @property
    def data(self) -> ast.expr:
        """What the tensor is made of."""
        return self.call.args[0]

    @property
    def arguments(self) -> dict[str | None, ast.expr]:
        """The arguments beside the data, by their names."""
        return {each.arg: each.value for each in self.call.keywords}

    @property
    def torch(self) -> str | None:
        """How the call names PyTorch: ``torch`` in ``torch.tensor(…)``."""
        return ast.unparse(self.call.func.value) if isinstance(self.call.func, ast.Attribute) else None


def conversions(script: Script, arrays: Arrays) -> Iterator[Conversion]:
    """The conversions of the script's module that cost something: what runs again and again, or is large."""
    for call in script.module.nodes(ast.Call):
        form, made = _form(script.flow, call)
        if form is Form.LEGACY and _is_filled(script.module, call):
            continue
        if form is None:
            continue
        is_repeated = _is_repeated(script.flow, script.loaders, script.module, call)
        if is_repeated or _is_large(arrays, script.module, call.args[0], form):
            yield Conversion(script, arrays, call, form, made, is_repeated)


def _form(flow: Flow, call: ast.Call) -> tuple[Form | None, str | None]:
    """The form of the constructor that the call is of, where it is one that can be replaced, given one thing.

    With it, the number format of what a legacy one makes.
    """
    names = {each.name if isinstance(each, External) else "" for each in flow.values(call.func)}
    (name,) = names if len(names) == 1 else ("",)
    if len(call.args) != 1:
        return None, None
    made = _LEGACY_FORMATS.get(name)
    return _FORMS.get(name) if made is None else Form.LEGACY, made


def _is_filled(module: Module, call: ast.Call) -> bool:
    """Whether it is ``torch.LongTensor(n).random_(8)``, which is given a size."""
    method = module.parent(call)
    return isinstance(method, ast.Attribute) and method.attr in _FILLS


def _is_repeated(flow: Flow, loaders: Iterable[Loader], module: Module, call: ast.Call) -> bool:
    """Whether the call runs again and again: in a loop, in a data set, or for each batch that is put together."""
    if _is_looped(flow, module, call):
        return True
    collating = [each.arguments["collate_fn"] for each in loaders if "collate_fn" in each.arguments]
    collates = {value.site for each in collating for value in each.values}
    functions = [above for above, _ in around(flow, module, call) if isinstance(above, FUNCTIONS)]
    return any(each in collates or makes_items(flow, each) or _acts(flow, each) for each in functions)


def _acts(flow: Flow, function: Callee) -> bool:
    """Whether it is a method that chooses an action, which is done in each step, where nothing is seen to call it."""
    is_named = isinstance(function, ast.FunctionDef) and function.name in _ACTING
    return is_named and flow.owner(function) is not None and not flow.callers(function)


def _is_looped(flow: Flow, module: Module, call: ast.Call) -> bool:
    """Whether a loop runs the call; one that makes layers or data sets runs what they keep a few times at most.

    One over the layers of a model has few passes, where the model is made.
    """
    loops = (above for above, below in around(flow, module, call, set(_constructors(flow))) if repeats(above, below))
    return any(not _only_makes_models(flow, module_of(flow, each).function(each)) for each in loops)


def _only_makes_models(flow: Flow, function: Callee | None, seen: frozenset[Callee] = frozenset()) -> bool:
    """Whether the function only runs while models of the project are made: ``self.create_mlp(sizes)``."""
    if function is None or function in seen:
        return False
    if _constructors(flow).get(function) is Kind.MODEL:
        return True
    makers = {module_of(flow, each).function(each) for each in flow.callers(function)}
    is_seen = bool(makers) and not flow.escapes(function)
    return is_seen and all(_only_makes_models(flow, each, seen | {function}) for each in makers)


@lasting
def _constructors(flow: Flow) -> Mapping[Callee, Kind]:
    """The functions that make the project's models and data sets, and which of these they make."""
    found: dict[Callee, Kind] = {}
    for class_ in (each for module in flow.modules for each in module.nodes(ast.ClassDef)):
        made, sort = flow.defines(class_, "__init__"), kind(flow, instance(class_))
        if made is not None and sort in {Kind.MODEL, Kind.DATASET}:
            found[made] = sort
    return found


def _is_large(arrays: Arrays, module: Module, data: ast.expr, form: Form) -> bool:
    """Whether what is copied once may be large: what was read from a file, or many arrays element by element."""
    array = arrays.array(module, data)
    if array is not None:
        return array.is_read and form is Form.COPYING
    items = arrays.list_of(module, data)
    return items is not None and (items.is_read or isinstance(data, (ast.Name, ast.ListComp)))
