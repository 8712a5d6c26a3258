"""Which number format do the batches of a loader have, and does a cast on the host make new tensors of them?

``x.float()`` returns ``x`` itself where that is float32 already. Else it makes a new tensor in pageable memory, even
of a batch that is pinned.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from codemods.dataflow.placement import dominates
from codemods.dataflow.recursion import closure
from codemods.dataflow.source import is_name, lasting, walk
from codemods.dataflow.values import (
    NONE,
    NOTHING,
    HostTensor,
    Instance,
    Made,
    class_of,
    in_order,
    library_names,
    without_none,
)
from codemods.facts.data.array_sources import format_of, given_format, is_image
from codemods.facts.data.arrays import Arrays
from codemods.facts.data.datasets import Dataset, given_label_transform
from codemods.facts.data.parts import place_in_batch
from codemods.facts.devices.transfers import Transfer
from codemods.facts.loops import module_of
from codemods.facts.reaching import reaching
from codemods.facts.reason import HERE, Reason, at
from codemods.library.datasets import has_8_bit_images, has_class_numbers
from codemods.library.tensors import CASTS, LEGACY_FORMATS, MADE, keeps_format
from codemods.library.transforms import COMPOSERS, is_torchvisions, may_set_format

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.dataflow.values import Value
    from codemods.facts.data.loaders import Loader

_OF_DATA = frozenset({"from_numpy", "tensor", "as_tensor"})
_COLLATED = {bool: "bool", int: "int64", float: "float64"}
"""The format of the tensors that the default ``collate_fn`` makes of Python's numbers."""
_COMPUTED = {"builtins.int": "int64", "builtins.len": "int64", "builtins.float": "float64", "builtins.bool": "bool"}
"""The same of the numbers that Python's own functions compute."""
_CHANGING = frozenset({"update", "pop", "popitem", "setdefault", "clear", "append", "insert", "remove", "reverse"})
_TENSORS = "torch.utils.data.TensorDataset"
_DEFAULT_SETTERS = ("torch.set_default_dtype", "torch.set_default_tensor_type")
_MOVE_FIRST = "move the batch first, and convert it on the device"
_IN_DATA_SET = "convert it in the data set"


@lasting
def why_cast(loader: Loader, move: Transfer) -> Reason | None:
    """Why a cast of the loader's batch makes a new tensor on the host before the move; None where surely none does."""
    for cast in _casts(loader, move):
        part = Transfer(loader.flow, module_of(loader.flow, cast), cast)
        known = _format_of_part(loader, place_in_batch(loader.flow, part))
        wanted = CASTS[part.method]
        if known == wanted:
            continue
        text = f"'{ast.unparse(cast)}' ({HERE}) makes a new tensor on the host, which is not in pinned memory"
        if known is None:
            text = f"{text}, unless the batch is {wanted} already, which is not known"
        # MPS has no tensors of 64-bit floats, as which the batch would arrive there.
        remedy = _IN_DATA_SET if move.may_reach_mps and known in {None, "float64"} else _MOVE_FIRST
        return Reason("converted-on-host", f"{text}:", (at(part.module, cast),), remedy)
    return None


@lasting
def why_converted(loader: Loader) -> Reason | None:
    """Why each batch of the loader is converted on the host before it is moved; None where some is moved as it came."""
    reasons = [why_cast(loader, each) for each in loader.moves]
    return reasons[0] if reasons and all(reasons) else None


def _casts(loader: Loader, move: Transfer) -> Iterator[ast.Call]:
    """The casts that surely run before the move, of a batch that may have the format already."""
    if move.cast is not None:
        return  # it can follow the copy
    for value in sorted(without_none(loader.flow.values(move.receiver)), key=_place):
        cast = value.site
        if not isinstance(value, HostTensor) or value.of != loader.value or not _may_change_nothing(cast):
            continue
        where = module_of(loader.flow, cast)
        before, after = where.statement(cast), move.module.statement(move.call)
        is_elsewhere = before is after or where.function(cast) is not move.module.function(move.call)
        if is_elsewhere or dominates(where, before, after):
            yield cast


def _may_change_nothing(node: ast.AST | None) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"float", "long"}


def _place(value: Value) -> tuple[int, int]:
    return getattr(value.site, "lineno", 0), getattr(value.site, "col_offset", 0)


# The formats of batches.


@lasting
def _format_of_part(loader: Loader, place: int | str | None) -> str | None:
    """The number format of a part of each batch; None where that is not known."""
    collate = loader.arguments.get("collate_fn")
    is_default = collate is None or collate.values == {NONE}
    if place is None or not is_default or loader.unknown_arguments is not None:
        return None
    found = {_format_in(loader, part, place) for part in loader.dataset.parts}
    return found.pop() if len(found) == 1 else None


@lasting
def _number_formats(flow: Flow) -> NumberFormats:
    return NumberFormats(flow)


def _format_in(loader: Loader, part: Value, place: int | str) -> str | None:
    """The format that the default ``collate_fn`` makes of that part of the data set's items."""
    flow, site = loader.flow, part.site
    if isinstance(part, Made) and isinstance(site, ast.Call):
        if part.name == _TENSORS:
            given = site.args[place] if isinstance(place, int) and place < len(site.args) else None
            is_plain = given is not None and not any(isinstance(each, ast.Starred) for each in site.args)
            return _number_formats(flow).of(module_of(flow, site), given) if given is not None and is_plain else None
        if place == 0 and has_8_bit_images(part.name):
            return _format_of_images(loader)
        if place == 1 and has_class_numbers(part.name):
            return "int64" if given_label_transform(part.name, site) is None else None
        return None
    class_ = class_of(part)
    item = flow.method(class_, "__getitem__") if class_ is not None else None
    return _format_of_item(flow, item, place) if isinstance(item, ast.FunctionDef) else None


def _format_of_images(loader: Loader) -> str | None:
    return _format_after(loader.flow, loader.dataset.transforms or ())


def _format_after(flow: Flow, steps: Sequence[Value]) -> str | None:
    """float32 where ``ToTensor`` makes tensors of images of 8 bits, and nothing after it changes their format."""
    names = [each.name for each in steps]
    made = next((number for number, name in enumerate(names) if name.endswith(".ToTensor")), None)
    if made is None or _default_is_set(flow):
        return None
    is_known = all(is_torchvisions(each) and not may_set_format(each) for each in (*names[:made], *names[made + 1 :]))
    return "float32" if is_known else None


def _format_of_item(flow: Flow, function: FunctionNode, place: int | str) -> str | None:
    formats = _number_formats(flow)
    found = {formats.of_part(each, place) for each in _returned(flow, function)}
    return found.pop() if len(found) == 1 else None


def _returned(flow: Flow, function: Callee) -> list[_Place]:
    module = module_of(flow, function)
    if isinstance(function, ast.Lambda):
        return [_Place(module, function.body)]
    statements = (each for each in walk(function) if isinstance(each, ast.Return))
    return [_Place(module, each.value) for each in statements if module.function(each) is function]


def _part_of(item: ast.expr | None, place: int | str) -> ast.expr | None:
    match item:
        case ast.Tuple(parts) if isinstance(place, int) and place < len(parts):
            return parts[place] if not any(isinstance(each, ast.Starred) for each in parts) else None
        case ast.Dict(keys, values):
            named = [value for key, value in zip(keys, values, strict=True) if _is(key, place)]
            return named[0] if len(named) == 1 and None not in keys else None
    return None


def _is(key: ast.expr | None, place: int | str) -> bool:
    return isinstance(key, ast.Constant) and key.value == place


@lasting
def _default_is_set(flow: Flow) -> bool:
    return any(flow.calls_of(module, _DEFAULT_SETTERS) for module in flow.modules)


class _Place(NamedTuple):
    """An expression, and where it stands; None for what is no expression."""

    module: Module
    node: ast.expr | None


class NumberFormats:
    """The number formats of tensors and arrays that the script makes; every answer is certain, or there is none."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._arrays = Arrays(flow)

    @lasting
    def of(self, module: Module, node: ast.expr) -> str | None:
        """The format of the tensor or array that the expression is, or of what is collated of its numbers."""
        places = closure([_Place(module, node)], self._same)
        found = {self._made(each) for each in places if not self._same(each)}
        return found.pop() if len(found) == 1 else None

    def of_part(self, whole: _Place, key: int | str) -> str | None:
        """The format of what a tuple or dictionary, or the item that a transform makes of one, has in that place."""
        wholes = closure([whole], self._same_whole)
        parts = [_Place(each.module, _part_of(each.node, key)) for each in wholes if not self._same_whole(each)]
        found = {self.of(each.module, each.node) if each.node is not None else None for each in parts}
        return found.pop() if len(found) == 1 else None

    @lasting
    def _same_whole(self, place: _Place) -> list[_Place]:
        """The expressions one of which is that item: what a name is given, what functions of the project return."""
        module, node = place
        match node:
            case ast.Name():
                return [] if _is_changed(module, node) else self._given(module, node) or []
            case ast.Call():
                callees = without_none(self._flow.values(node.func))
                functions = [self._flow.run_by(last) for each in callees for last in self._last_steps(each)]
                known = [each for each in functions if each is not None and not getattr(each, "decorator_list", ())]
                is_known = bool(known) and len(known) == len(functions)
                return [place for each in known for place in _returned(self._flow, each)] if is_known else []
        return []

    def _last_steps(self, value: Value) -> list[Value]:
        """What may be the last transform of a library's ``Compose``; else the value itself."""
        if value.name not in COMPOSERS or not isinstance(value.site, ast.Call) or not value.site.args:
            return [value]
        given = value.site.args[0]
        is_list = value.name.endswith(".Compose") and isinstance(given, ast.List) and bool(given.elts)
        last = self._flow.values(given.elts[-1]) if is_list and isinstance(given, ast.List) else NOTHING
        return in_order(last) or [value]

    def _given(self, module: Module, name: ast.Name) -> list[_Place] | None:
        """What the name was given last before it is read there; None where that is not known."""
        scope = module.function(name)
        if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) or not isinstance(name.ctx, ast.Load):
            return None
        given = reaching(scope).given(name)
        if not given:
            return None
        later = [each for each in self._sure_branches(module, name) if dominates(module, each, module.statement(name))]
        replaced = [each for each in given if any(_is_before(module, each, branch) for branch in later)]
        return [_Place(module, each) for each in given if each not in replaced] if len(replaced) < len(given) else None

    def _sure_branches(self, module: Module, name: ast.Name) -> Iterator[ast.If]:
        """``if self.transform is not None: x = …`` where the script always gives a transform."""
        for branch in walk(module.function(name) or module.tree):
            if isinstance(branch, ast.If) and self._is_sure(module, branch.test):
                assigned = [each for each in branch.body if isinstance(each, ast.Assign)]
                if any(is_name(each, name.id) for statement in assigned for each in statement.targets):
                    yield branch

    def _is_sure(self, module: Module, test: ast.expr) -> bool:
        is_compared = isinstance(test, ast.Compare) and ast.unparse(test).endswith(" is not None")
        asked = test.left if isinstance(test, ast.Compare) and is_compared else test
        leaves = [each.node for each in closure([_Place(module, asked)], self._bound) if not self._bound(each)]
        given = [self._flow.values(each) if each is not None else NOTHING for each in leaves]
        # An object may be false, as an empty list is; torchvision's are not.
        is_given = (lambda each: isinstance(each, (Instance, Made))) if is_compared else _is_transform
        return bool(given) and all(values and all(map(is_given, values)) for values in given)

    def _bound(self, place: _Place) -> list[_Place]:
        """What a name or attribute is given, wherever that is written."""
        module, node = place
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return []
        return [_Place(*each) for each in self._arrays.bound.assignments(module, node)]

    @lasting
    def _same(self, place: _Place) -> list[_Place]:
        """The expressions one of which has the format of this one: what a name is given, that of which it is a view."""
        module, node = place
        match node:
            case ast.Name() if given := self._given(module, node):
                # Images are not collated at all: where an item is, something else was made of it.
                return [each for each in given if each.node is None or not is_image(self._flow, each.node)] or given
            case ast.Name() | ast.Attribute():
                return [_Place(*each) for each in self._arrays.bound.assignments(module, node)]
            case ast.Subscript(owner):
                return [_Place(module, owner)]
            case ast.Call(ast.Attribute(owner, method) as function):
                is_method = not library_names(self._flow.values(function))
                return [_Place(module, owner)] if is_method and keeps_format(method) else []
        return []

    @lasting
    def _made(self, place: _Place) -> str | None:
        module, node = place
        match node:
            case ast.Constant(value):
                return _COLLATED.get(type(value))
            case ast.Call() if transforms := [each for each in self._flow.values(node.func) if _is_transform(each)]:
                found = self._transformed(module, node, transforms)
            case ast.Call(ast.Attribute(_, method) as function) if not library_names(self._flow.values(function)):
                found = self._cast(node, method)
            case ast.Call():
                found = self._called(module, node)
            case _:
                found = None
        array = self._arrays.array(module, node) if found is None and node is not None else None
        return array.format if array is not None else found

    def _cast(self, call: ast.Call, method: str) -> str | None:
        if method in CASTS and not call.args:
            return CASTS[method]
        is_named = method in {"to", "type", "astype"} and len(call.args) == 1 and not call.keywords
        return format_of(self._flow, call.args[0]) if is_named else None

    def _called(self, module: Module, call: ast.Call) -> str | None:
        """The format of what a function of torch makes."""
        names = library_names(self._flow.values(call.func))
        (name,) = names if len(names) == 1 else ("",)
        if name in _COMPUTED:
            return _COMPUTED[name]
        package, _, last = name.rpartition(".")
        if package != "torch" or any(each.arg is None for each in call.keywords):
            return None
        if last in _OF_DATA and call.args and not any(each.arg == "dtype" for each in call.keywords):
            return self._of_data(module, call.args[0])
        default: str | None = MADE.get(last)
        if default == "float32" and last not in LEGACY_FORMATS.keys() - {"Tensor"} and _default_is_set(self._flow):
            default = None
        return given_format(self._flow, call, None, default) if last in MADE else None

    def _transformed(self, module: Module, call: ast.Call, transforms: Sequence[Value]) -> str | None:
        """What transforms of torchvision make of an image of Pillow's: ``Normalize`` refuses all but floats."""
        if len(call.args) != 1 or len(transforms) != len(without_none(self._flow.values(call.func))):
            return None
        found: set[str | None] = set()
        for each in transforms:
            steps = Dataset(self._flow, frozenset({each})).steps(each) or ()
            is_normalized = any(step.name.endswith(".Normalize") for step in steps)
            is_of_8_bits = self._is_of_8_bits(module, call.args[0], as_floats=is_normalized)
            found.add(_format_after(self._flow, steps) if is_of_8_bits else None)
        return found.pop() if len(found) == 1 else None

    def _is_of_8_bits(self, module: Module, image: ast.expr, *, as_floats: bool) -> bool:
        """Whether it is an image with as many bits: of a file that is not known in ``"RGB"``, or where others fail."""
        leaves = [each for each in closure([_Place(module, image)], self._same) if not self._same(each)]
        nodes = [each.node for each in leaves]
        return bool(nodes) and all(
            each is not None and is_image(self._flow, each) and (as_floats or _is_converted(each)) for each in nodes
        )

    def _of_data(self, module: Module, data: ast.expr) -> str | None:
        """The format of a tensor of an array, or of Python's numbers, whose floats become those of torch."""
        array = self._arrays.array(module, data)
        if array is not None:
            return array.format
        found = {_COLLATED.get(type(each)) for each in _numbers(data)} or self._of_computed(module, data)
        if "float64" in found and None not in found:
            return None if _default_is_set(self._flow) else "float32"
        return found.pop() if len(found) == 1 else None

    def _of_computed(self, module: Module, data: ast.expr) -> set[str | None]:
        """What would be collated of a number that Python's own functions compute; nothing for all else."""
        leaves = [each for each in closure([_Place(module, data)], self._same) if not self._same(each)]
        functions = [
            self._flow.values(each.node.func) if isinstance(each.node, ast.Call) else NOTHING for each in leaves
        ]
        is_number = all(each and {value.name for value in each} <= _COMPUTED.keys() for each in functions)
        return {_COMPUTED[value.name] for each in functions for value in each} if is_number else set()


def _is_transform(value: Value) -> bool:
    return isinstance(value, Made) and isinstance(value.site, ast.Call) and is_torchvisions(value.name)


def _is_converted(image: ast.expr) -> bool:
    """``Image.open(path).convert("RGB")``."""
    match image:
        case ast.Call(ast.Attribute(_, "convert"), [ast.Constant("RGB" | "L" | "RGBA" | "CMYK" | "YCbCr" | "HSV")]):
            return True
    return False


def _is_before(module: Module, given: ast.expr, branch: ast.If) -> bool:
    """Whether the expression is computed before the branch is asked for."""
    return module.statement(given).lineno < branch.lineno


def _is_changed(module: Module, name: ast.Name) -> bool:
    """Whether something is put into what the name holds, or taken out of it: ``item["x"] = …``, ``item.pop("x")``."""
    for each in walk(module.function(name) or module.tree):
        match each:
            case ast.Subscript(ast.Name(changed)) if not isinstance(each.ctx, ast.Load):
                is_about = True
            case ast.Attribute(ast.Name(changed), method):
                is_about = method in _CHANGING
            case _:
                continue
        if is_about and changed == name.id:
            return True
    return False


def _numbers(data: ast.expr) -> list[object]:
    """The constants of lists of numbers; nothing where one of them is something else."""
    if isinstance(data, (ast.List, ast.Tuple)):
        inner = [_numbers(each) for each in data.elts]
        return [number for each in inner for number in each] if all(inner) else []
    return [data.value] if isinstance(data, ast.Constant) else []
