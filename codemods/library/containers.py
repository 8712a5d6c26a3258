"""Python's containers: what their methods put into them and take out of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.dataflow.values import ANY, PLAIN, UNKNOWN_KEY, joined, keys_of

if TYPE_CHECKING:
    import ast

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Arguments, Value, Values


def method(flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:
    """What a method of a list, a dictionary and the like returns; what it is given is put into it."""
    if name in {"append", "add", "appendleft", "put"}:
        flow.put(owner.site, UNKNOWN_KEY, arguments.get(0, ""))
    elif name == "insert":
        flow.put(owner.site, UNKNOWN_KEY, arguments.get(1, ""))
    elif name == "extend":
        flow.put(owner.site, UNKNOWN_KEY, flow.elements(arguments.get(0, ""), node))
    elif name == "update" and owner.site is not None:
        for key, values in arguments.keywords.items():
            flow.put(owner.site, key, values)
        flow.merge(owner.site, arguments.get(0, ""))
    else:
        return _read(flow, owner, name, node, arguments)
    return PLAIN


def _read(flow: Flow, owner: Value, name: str, node: ast.Call, arguments: Arguments) -> Values:
    everything = flow.items(owner)
    if name == "items":
        return flow.container(
            "iterator", node, {UNKNOWN_KEY: flow.container("tuple", node.func, {0: PLAIN, 1: everything})}
        )
    if name == "values":
        return flow.container("iterator", node, {UNKNOWN_KEY: everything})
    if name in {"get", "pop", "setdefault", "popleft", "popitem"}:
        if name == "setdefault":
            for key in keys_of(arguments.get(0, "")):
                flow.put(owner.site, key, arguments.get(1, "default"))
        found = [flow.items(owner, ANY if key is UNKNOWN_KEY else key) for key in keys_of(arguments.get(0, ""))]
        return joined(arguments.get(1, "default"), *(found or [everything]))
    if name in {"copy", "keys"}:
        return frozenset({owner})
    return everything if name in {"__next__", "__iter__", "next"} else PLAIN
