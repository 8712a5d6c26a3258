"""What do environments of reinforcement learning hand out: arrays, of which each has an axis?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.source import is_name, lasting, walk
from codemods.dataflow.values import NOTHING, Instance, Literal, Made, Method, class_of, owner_of
from codemods.library.packages import (
    adapts_environments,
    keeps_observations,
    makes_environment,
    steps_arrays,
    wraps_environments,
)
from codemods.library.spaces import observes_an_array

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values

_SPACE = "observation_space"
_SIDES = frozenset({"low", "high"})
_OBSERVING = frozenset({"reset", "step"})


def is_vector_environment(flow: Flow, value: Value | None) -> bool:
    """Whether it is several environments that step together, perhaps wrapped: what they hand out has an axis."""
    return value is not None and all(
        isinstance(each, Made)
        and isinstance(each.site, ast.Call)
        and (steps_arrays(each.name) or (wraps_environments(each.name) and bool(_wrapped(flow, each))))
        for each in closure([value], lambda each: _wrapped(flow, each))
    )


def _wrapped(flow: Flow, value: Value) -> Values:
    """The environments that another one wraps."""
    if steps_arrays(value.name) or not isinstance(value.site, ast.Call) or not value.site.args:
        return NOTHING
    return flow.values(value.site.args[0])


def observes_arrays(flow: Flow, call: ast.Call, *, is_whole: bool) -> bool:
    """Whether an environment of gym returns an array with an axis, or has one first in the tuple that it returns.

    It does where the script asks for the sizes of what is observed, ``env.observation_space.shape[0]``: a state that is
    counted has none, nor has a dictionary. Of some environments it is known by their names: ``gym.make("Ant-v4")``.

    Args:
        flow: The values of the project.
        call: What is called: ``env.reset()``, ``env.step(action)``.
        is_whole: Whether all that it returns is asked for: gymnasium's ``reset`` returns a tuple.
    """
    callees = flow.values(call.func)
    methods = [each for each in callees if isinstance(each, Method)]
    owners = [each for each in map(owner_of, methods) if each is not None]
    if not owners or len(owners) < len(callees) or not {each.name for each in methods} <= _OBSERVING:
        return False
    known = list(closure(owners, lambda each: _observed(flow, each)))
    is_tuple = any(each.name == "step" for each in methods) or any(each.name.startswith("gymnasium.") for each in known)
    is_array = _asks_for_sizes(flow) or all(_is_named(flow, each) for each in known)
    return all(_observes(flow, each) for each in known) and not (is_whole and is_tuple) and is_array


def steps_one(flow: Flow, call: ast.Call) -> bool:
    """Whether it is the step of a single environment of gym, which rewards it with a number."""
    methods = [each for each in flow.values(call.func) if isinstance(each, Method) and each.name == "step"]
    owners = [each for each in map(owner_of, methods) if each is not None]
    return bool(owners) and all(_observes(flow, each) for each in closure(owners, lambda each: _observed(flow, each)))


def _observed(flow: Flow, made: Value) -> Values:
    """The environments whose observations another one hands on, which may adapt what is done or the rewards."""
    class_ = class_of(made) if isinstance(made, Instance) else None
    if class_ is not None:
        is_adapter = any(isinstance(each, str) and adapts_environments(each) for each in flow.bases(class_))
        is_plain = is_adapter and all(flow.method(class_, each) is None for each in ("__init__", *_OBSERVING))
        return _wrapped(flow, made) if is_plain else NOTHING
    return _wrapped(flow, made) if keeps_observations(made.name) else NOTHING


def _observes(flow: Flow, made: Value) -> bool:
    is_made = isinstance(made, Made) and isinstance(made.site, ast.Call) and makes_environment(made.name)
    return is_made or bool(_observed(flow, made))


def _is_named(flow: Flow, made: Value) -> bool:
    """Whether it is an environment whose name, which is written out, says that it observes arrays, or wraps such."""
    if _observed(flow, made):
        return True
    names = flow.values(made.site.args[0]) if isinstance(made.site, ast.Call) and made.site.args else NOTHING
    return bool(names) and all(isinstance(each, Literal) and observes_an_array(each.value) for each in names)


@lasting
def _asks_for_sizes(flow: Flow) -> bool:
    """Whether the script takes a size of what is observed, and asks nowhere how many states there are to count."""
    asked = [
        (module, each) for module in flow.modules for each in module.nodes(ast.Attribute) if _is_of_space(each.value)
    ]
    may_count = any(each.attr == "n" for _, each in asked) or any(map(_asks_for_kind, flow.modules))
    return not may_count and any(each.attr in _SIDES or _takes_size(module, each) for module, each in asked)


def _is_of_space(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == _SPACE


def _takes_size(module: Module, shape: ast.Attribute) -> bool:
    """``env.observation_space.shape[0]``, be it by a name."""
    if shape.attr != "shape":
        return False
    above = module.parent(shape)
    match above:
        case ast.Subscript(_, ast.Constant(int())):
            return True
        case ast.Assign([ast.Name(name)], value) if value is shape:
            taken = (each for each in module.nodes(ast.Subscript) if is_name(each.value, name))
            return any(isinstance(each.slice, ast.Constant) and type(each.slice.value) is int for each in taken)
    return False


def _asks_for_kind(module: Module) -> bool:
    """``isinstance(env.observation_space, Discrete)``, ``type(env.observation_space)``: it may be any."""
    return any(
        isinstance(each.func, ast.Name)
        and each.func.id in {"isinstance", "hasattr", "type"}
        and any(isinstance(part, ast.Attribute) and part.attr == _SPACE for part in walk(each))
        for each in module.nodes(ast.Call)
    )
