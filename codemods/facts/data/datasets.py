"""Data sets: what they are made of, whether they are in memory, whether they draw, and the sizes of their images."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of, signature
from codemods.dataflow.source import walk
from codemods.dataflow.values import (
    NOTHING,
    Choice,
    Container,
    Function,
    HostTensor,
    Instance,
    Made,
    MovedTensor,
    SomeTensor,
    Unknown,
    Value,
    Values,
    class_of,
    in_order,
    library_names,
    without_none,
)
from codemods.facts.loops import module_of
from codemods.facts.overwritten import names_of, why_overwritten
from codemods.facts.reason import Reason
from codemods.library.datasets import has_one_size, transform_position
from codemods.library.kinds import CONCATENATED, Kind, argument, described, kind
from codemods.library.transforms import Size, transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode

_COMPOSE = "torchvision.transforms.Compose"
# Methods of tensors and of PIL's images whose results are as large as those of another image of the same size.
_OF_FORM = frozenset(
    {"mul", "mul_", "div", "div_", "add", "add_", "sub", "sub_", "pow", "neg", "abs", "sqrt", "exp", "log", "clamp"}
    | {"clamp_", "round", "floor", "ceil", "sigmoid", "tanh", "float", "double", "half", "long", "int", "byte", "bool"}
    | {"repeat", "expand", "view", "reshape", "flatten", "permute", "transpose", "unsqueeze", "squeeze", "contiguous"}
    | {"type", "clone", "convert", "copy"}
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """The data set that a loader reads: all that it may be."""

    flow: Flow
    values: Values

    @cached_property
    def parts(self) -> tuple[Value, ...]:
        """The data sets behind ``Subset``, ``random_split``, ``ConcatDataset`` and the like."""
        found: dict[Value, None] = {}
        # Of `self.data = Subset(self.data, …)` in two arms of an `if` each may be in the other.
        seen: set[Value] = set()
        todo = list(without_none(self.values))
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            inner = self._inner(value)
            if inner is None:
                found[value] = None
            else:
                todo.extend(without_none(inner))
        return tuple(found)

    def _inner(self, value: Value) -> Values | None:
        if value.name == CONCATENATED and self.flow.items(value):
            return self.flow.items(value)  # of ``a + b`` and ``sum([b], a)``
        if not isinstance(value, Made) or not isinstance(value.site, ast.Call):
            return None
        if value.name == "torch.utils.data.Subset":
            return argument(self.flow, value.site, 0, "dataset") or None
        first = argument(self.flow, value.site, 0, "datasets")
        if value.name in {CONCATENATED, "torch.utils.data.ChainDataset"}:
            return NOTHING.union(*[self.flow.items(each) for each in first]) or None
        return None

    @cached_property
    def why_unknown(self) -> Reason | None:
        """Why it is not known what the data set is, or None where it is.

        One of another file is taken to yield host tensors: the script moves them to the device itself.
        """
        if not self.parts:
            return Reason("unknown-dataset", "its data set is never given a value")
        for part in self.parts:
            if isinstance(part, Unknown):
                return Reason("unknown-dataset", f"its data set is not known: {part.name}")
            if isinstance(part, Choice):
                return Reason("unknown-dataset", f"its data set is chosen when the script is started ({part.name})")
        return self.why_replaced

    @cached_property
    def why_replaced(self) -> Reason | None:
        """Why it may not do what it is known for: the script replaces a part of a library's data sets or transforms."""
        for value in in_order({*self.parts, *without_none(self.values)}):
            if value.site is not None and isinstance(value, (Made, Instance)):
                steps = Dataset(self.flow, frozenset({value})).transforms or ()
                names = {_COMPOSE, *(each.name for each in steps if isinstance(each, Made))} if steps else set()
                names |= names_of(self.flow, value)
                reason = why_overwritten(self.flow, module_of(self.flow, value.site), names)
                if reason is not None:
                    return reason
        return None

    @cached_property
    def is_iterable(self) -> bool:
        """Whether it is an ``IterableDataset``."""
        return any(
            "torch.utils.data.IterableDataset" in self.flow.bases(each.of.site)
            for each in self.parts
            if isinstance(each, Instance)
        )

    @cached_property
    def is_in_memory(self) -> bool:
        """Whether all of it is tensors, arrays or lists that are in memory already."""
        tensors = (HostTensor, SomeTensor, MovedTensor, Container)
        return bool(self.parts) and all(
            isinstance(each, tensors) or (isinstance(each, Made) and each.name == "torch.utils.data.TensorDataset")
            for each in self.parts
        )

    @cached_property
    def is_decoded_once(self) -> bool:
        """Whether it keeps the items of another data set: ``TensorDataset(*default_collate(list(other)))``."""
        return self.is_in_memory and all(self._keeps_items(each.site) for each in self.parts)

    def _keeps_items(self, made: object) -> bool:
        match made:
            case ast.Call(args=[ast.Starred(ast.Call(args=[ast.Call(args=[_]) as listed]) as collated)]):
                names = library_names(self.flow.values(collated.func))
                return any(name.endswith(".default_collate") for name in names) and any(
                    each.name == "builtins.list" for each in self.flow.values(listed.func)
                )
        return False

    @cached_property
    def transforms(self) -> tuple[Value, ...] | None:
        """The transforms of its images in order, those inside ``Compose`` one by one; None where they are not known."""
        found: list[Value] = []
        for part in self.parts:
            if (
                not isinstance(part, Made)
                or not isinstance(part.site, ast.Call)
                or not part.name.startswith("torchvision.datasets.")
            ):
                return None
            values = self._transform(part.name, part.site)
            if values is None:
                return None
            for value in without_none(values):
                steps = self.steps(value)
                if steps is None:
                    return None
                found.extend(steps)
        return tuple(found)

    def _transform(self, name: str, call: ast.Call) -> Values | None:
        """What the ``transform`` argument of a data set may be; None where it may be hidden in ``*`` or ``**``."""
        if any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args):
            return None
        if transform_position(name) is None and len(call.args) > 1:
            return None
        given = given_transform(name, call)
        return self.flow.values(given) if given is not None else NOTHING

    def steps(self, value: Value, around: tuple[Value, ...] = ()) -> list[Value] | None:
        """A transform as the steps that it is composed of, one by one; None where they are not known."""
        if isinstance(value, Function):
            return [value]
        if not isinstance(value, Made) or not isinstance(value.site, ast.Call) or value in around:
            return None
        if value.name not in {
            "torchvision.transforms.Compose",
            "torchvision.transforms.v2.Compose",
            "torchvision.transforms.Sequential",
            "torch.nn.Sequential",
        }:
            return [value]
        steps: list[Value] = []
        for given in value.site.args[:1]:
            for each in self.flow.values(given):
                for item in self._in_order(each):
                    inner = self.steps(item, (*around, value))
                    if inner is None:
                        return None
                    steps.extend(inner)
        return steps

    def _in_order(self, container: Value) -> list[Value]:
        """The items of a list, those of known positions first; at one position in the order of the text."""
        known = self.flow.keys(container)
        keys = [*sorted(key for key in known if isinstance(key, int)), *(key for key in known if key is None)]
        found = dict.fromkeys(each for key in keys for each in sorted(self.flow.items(container, key), key=_line))
        return list(found)

    @cached_property
    def why_size_varies(self) -> Reason | None:
        """Why the images it yields may differ in height and width, or None where they are all of one size."""
        if self.why_unknown is not None:
            return self.why_unknown
        if self.is_in_memory and not any(isinstance(each, Container) for each in self.parts):
            return None
        for part in self.parts:
            reason = self._why_part_varies(part)
            if reason is not None:
                return reason
        return None

    def _why_part_varies(self, part: Value) -> Reason | None:
        if part.name == "torch.utils.data.TensorDataset":
            return None
        class_ = class_of(part)
        if class_ is not None:
            return self._why_own_varies(part, class_)
        if not isinstance(part, Made) or not part.name.startswith("torchvision.datasets."):
            return Reason("size-not-fixed", f"the size of the images of {described(part)} is not known")
        steps = Dataset(self.flow, frozenset({part})).transforms
        if steps is None:
            return Reason("size-not-fixed", f"the transforms of {described(part)} are not known")
        return self._why_steps_vary(part, steps, fixed=has_one_size(part.name))

    def _why_own_varies(self, part: Value, class_: ast.ClassDef) -> Reason | None:
        """The same of a class of the project: each of the transforms that it calls has to end in one size."""
        item = self.flow.method(class_, "__getitem__")
        inner = self._handed_on(item)
        if inner:
            return Dataset(self.flow, inner).why_size_varies
        calls = [each for each in walk(item) if isinstance(each, ast.Call)] if item is not None else []
        called = (value for call in calls for value in without_none(self.flow.values(call.func)))
        transforms = [
            each for each in called if isinstance(each, Made) and each.name.startswith("torchvision.transforms.")
        ]
        for value in transforms:
            steps = self.steps(value)
            reason = None if steps is None else self._why_steps_vary(part, steps, fixed=False)
            if steps is None or reason is not None:
                return reason or Reason("size-not-fixed", f"the transforms of {described(part)} are not known")
        if transforms:
            return None
        return Reason("size-not-fixed", f"the size of the images of {described(part)} is not known")

    def _handed_on(self, item: FunctionNode | None) -> Values:
        """The data sets whose items a data set hands on as they are: ``return self.data[index % len(self.data)]``."""
        statements = [each for each in walk(item) if isinstance(each, ast.Return)] if item is not None else []
        returned = [each.value for each in statements]
        if not returned or not all(isinstance(each, ast.Subscript) for each in returned):
            return NOTHING
        held = [self.flow.values(each.value) for each in returned if isinstance(each, ast.Subscript)]
        values = without_none(NOTHING.union(*held))
        is_data = all(kind(self.flow, each) is Kind.DATASET for each in values)
        own = {class_of(each) for each in values} & {class_of(each) for each in self.parts}
        return values if is_data and own <= {None} else NOTHING

    def _why_steps_vary(self, part: Value, steps: Sequence[Value], *, fixed: bool) -> Reason | None:
        """Why images differ in size after transforms; what is not known is mended by one that makes them alike."""
        unknown: Value | None = None
        for step in steps:
            name = step.name.rpartition(".")[2]
            row = transform(name)
            size = row.size if row is not None else Size.OTHER
            if size is Size.FIXED or (size is Size.GIVEN and self._names_both_sides(step)):
                fixed, unknown = True, None
            elif name == "Lambda" and _lambda_keeps_form(self.flow, step):
                continue
            elif name == "RandomRotation":
                fixed = fixed and not any(each.arg == "expand" for each in getattr(step.site, "keywords", ()))
            # Resize(256) makes the shorter side 256 long and keeps the aspect ratio.
            elif size is not Size.KEPT and not (fixed and size is Size.GIVEN):
                unknown = None if size is Size.GIVEN else step
        if unknown is not None:
            return Reason("size-not-fixed", f"what {described(unknown)} does to the size of an image is not known")
        if fixed:
            return None
        return Reason("size-not-fixed", f"the images of {described(part)} are not cropped to one size")

    def _names_both_sides(self, step: Value) -> bool:
        call = step.site
        if not isinstance(call, ast.Call):
            return False
        size = argument_of(call, "size", 0)
        values = self.flow.values(size) if size is not None else NOTHING
        return bool(values) and all(isinstance(each, Container) and self.flow.keys(each) == {0, 1} for each in values)


def is_concatenated(flow: Flow, node: ast.AST | None) -> bool:
    """Whether it is ``a + b`` or ``a += b`` of data sets."""
    made = node.target if isinstance(node, ast.AugAssign) else node
    return isinstance(made, ast.expr) and any(
        each.site is node and each.name == CONCATENATED for each in flow.values(made)
    )


def given_transform(name: str, call: ast.Call) -> ast.expr | None:
    """The ``transform`` that a data set of that qualified name is given, as far as that is written in the call."""
    position = transform_position(name)
    return argument_of(call, "transform", position)


def given_label_transform(name: str, call: ast.Call) -> ast.expr | None:
    """The ``target_transform``, likewise, which each data set takes behind ``transform``."""
    position = transform_position(name)
    return argument_of(call, "target_transform", position + 1 if position is not None else None)


def _lambda_keeps_form(flow: Flow, step: Value) -> bool:
    """Whether ``Lambda(lambda x: x * 255)`` makes images of one size of images of one size."""
    given = [*getattr(step.site, "args", ()), *(each.value for each in getattr(step.site, "keywords", ()))]
    functions = [each.site for argument in given for each in flow.values(argument)]
    return bool(functions) and all(
        isinstance(each, ast.Lambda)
        and len(signature(each).positional) == 1
        and _keeps_form(flow, each.body, *signature(each).positional_names)
        for each in functions
    )


def _keeps_form(flow: Flow, node: ast.expr, name: str) -> bool:
    """Whether an expression's form follows from that of the image of this name: arithmetic, and methods of such."""
    inner: list[ast.expr] = []
    match node:
        case ast.Constant() | ast.Name():
            return isinstance(node, ast.Constant) or node.id == name
        case ast.UnaryOp(_, operand):
            inner = [operand]
        case ast.BinOp(left, _, right):
            inner = [left, right]
        case ast.List(elements) | ast.Tuple(elements):
            inner = elements
        case ast.Call(ast.Attribute(owner, method) as function, arguments, _):
            joins = {each.name for each in flow.values(function)} & {"torch.cat", "torch.stack"}
            inner = arguments if joins else [owner, *arguments] if method in _OF_FORM else []
    return bool(inner) and all(_keeps_form(flow, each, name) for each in inner)


def _line(value: Value) -> tuple[int, int]:
    """Where the value is made, to order what may stand at one place."""
    return (getattr(value.site, "lineno", 0), getattr(value.site, "col_offset", 0))
