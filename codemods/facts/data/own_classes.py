"""Which classes of the project make items of a library's data set, which they hold or derive from?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.dataflow.values import Made, class_of
from codemods.facts.loops import place
from codemods.facts.reason import HERE, Reason

if TYPE_CHECKING:
    import ast

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script


def holder(script: Script, value: Value) -> ast.ClassDef | None:
    """The class of the project that makes items of the data set, and of which a loader reads an object."""
    classes = (class_of(part) for loader in script.loaders for part in loader.dataset.parts)
    held = (each for each in classes if each is not None)
    return next((each for each in held if any(value in found for found in script.flow.attributes(each).values())), None)


def why_own(flow: Flow, values: tuple[Value, ...], name: str) -> Reason | None:
    """Why items are not known: a class of the project makes them of the library's data set of that qualified name."""
    for value in values:
        class_ = class_of(value)
        if class_ is not None and (name in flow.bases(class_) or _holds(flow, class_, name)):
            return why_other_items(flow, class_, name)
    return None


def why_other_items(flow: Flow, class_: ast.ClassDef, name: str) -> Reason:
    """That a class of the project may make other items than the library's data set does."""
    short = name.rpartition(".")[2]
    text = f"class {class_.name} is the script's own ({HERE}), and may make other items than the {short}:"
    return Reason("own-dataset-class", text, (place(flow, class_),), f"give the loader the {short} where it does not")


def _holds(flow: Flow, class_: ast.ClassDef, name: str) -> bool:
    held = (each for found in flow.attributes(class_).values() for each in found)
    return any(isinstance(each, Made) and each.name == name for each in held)
