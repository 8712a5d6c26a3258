"""The places that many units of code share, and which of those are to be interpreted again.

A place only grows: what is written into it is joined to what stood there, and whoever read it has to look again.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from codemods.dataflow.values import (
    ANY,
    NONE,
    NOTHING,
    UNKNOWN_KEY,
    Container,
    Literal,
    Plain,
    Value,
    Values,
    joined,
    keys_of,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codemods.dataflow.source import Module
    from codemods.dataflow.units import Unit

Location = tuple[str, ast.AST, object]
"""What kind of place, whose, and its name or key there."""


class _Seen(dict[ast.AST, Values]):
    """What expressions may be."""

    def __missing__(self, node: ast.AST) -> Values:
        return NOTHING


class Heap:
    """What stands at the places, and what expressions may be."""

    values: Callable[[ast.AST], Values]
    """What an expression may be; nothing where it is never evaluated.

    While the interpretation runs, reading it here is a reason to run again; after it, this is but a look-up: a million
    are asked for.
    """

    def __init__(self, modules: Sequence[Module]) -> None:
        self.modules = tuple(modules)
        self._heap: dict[Location, Values] = {}
        self._readers: defaultdict[Location, set[Unit]] = defaultdict(set)
        self._attributes: defaultdict[ast.AST, dict[str, None]] = defaultdict(dict)
        self._seen = _Seen()
        self._watchers: defaultdict[ast.AST, set[Unit]] = defaultdict(set)
        self._dirty: set[Unit] = set()
        self._unit: Unit | None = None
        """The unit that is being interpreted: whatever is read then is a reason to interpret it again."""
        self._is_settled = False
        """Whether the values no longer grow: what follows from them is worked out only once then."""
        self.values = self._watched

    def _close(self) -> None:
        """Notes that the values no longer grow."""
        self._is_settled = True
        self.values = self._seen.__getitem__
        self._readers.clear()
        self._watchers.clear()

    def _watched(self, node: ast.AST) -> Values:
        if self._unit is not None:
            self._watchers[node].add(self._unit)
        return self._seen[node]

    def read(self, kind: str, node: ast.AST, key: object = "") -> Values:
        """What stands at a place that many units share."""
        location = (kind, node, key)
        if self._unit is not None:
            self._readers[location].add(self._unit)
        return self._heap.get(location, NOTHING)

    def write(self, kind: str, node: ast.AST, key: object, values: Values) -> None:
        """Joins values into a place that many units share."""
        location = (kind, node, key)
        old = self._heap.get(location, NOTHING)
        if not values <= old:
            new = joined(old, values)
            if new != old:
                self._heap[location] = new
                self._dirty.update(self._readers.get(location, ()))

    def write_attribute(self, thing: ast.AST, name: str, values: Values) -> None:
        """Joins values into an attribute of a class's objects, or of the object that a call made."""
        self._attributes[thing][name] = None
        self.write("attribute", thing, name, values)
        self.write("attribute", thing, ANY, values)
        if name == ANY:
            self.write("attribute", thing, UNKNOWN_KEY, values)

    def see(self, node: ast.AST, values: Values) -> None:
        """Notes what an expression is."""
        old = self._seen.get(node)
        if old is not values and old != values:
            watchers = self._watchers.get(node)
            if watchers is None:
                self._seen[node] = values
            elif not values <= (old or NOTHING):
                # What others were told can only grow, or there might be no end to it.
                self._seen[node] = joined(old or NOTHING, values)
                self._dirty.update(watchers)

    # Containers.

    def items(self, container: Value, key: object = ANY) -> Values:
        """The items of a container, or a library's model's layers, under a key (an index, a text), or all of them."""
        if container.site is None:
            return NOTHING
        if key == ANY:
            return self.read("item", container.site, ANY)
        return joined(self.read("item", container.site, key), self.read("item", container.site, UNKNOWN_KEY))

    def keys(self, container: Value) -> frozenset[object]:
        """The known keys of a container; ``UNKNOWN_KEY`` among them where there may be others."""
        return keys_of(self._key_values(container))

    def _key_values(self, container: Value) -> Values:
        return self.read("keys", container.site) if container.site is not None else NOTHING

    def container(self, kind: str, site: ast.AST, items: Mapping[object, Values] | None = None) -> Values:
        """A container made at ``site``, with these items."""
        if items:
            self.put_all(site, items)
        return frozenset({Container(kind, site)})

    def put(self, site: ast.AST | None, key: object, values: Values) -> None:
        """Joins values into an item of the container made at ``site``."""
        if site is not None:
            self.put_all(site, {key: values})

    def put_all(self, site: ast.AST, items: Mapping[object, Values]) -> None:
        """Joins values into the items of the container made at ``site``."""
        for key, values in items.items():
            self.write("item", site, key, values)
        self.write("item", site, ANY, joined(*items.values()))
        keys = frozenset([_key(key) for key in items])
        old = self._heap.get(("keys", site, ""), NOTHING)
        if not keys <= old:
            self._heap["keys", site, ""] = old | keys
            self._dirty.update(self._readers.get(("keys", site, ""), ()))

    def merge(self, site: ast.AST, dictionaries: Values) -> None:
        """Joins the items of dictionaries into the dictionary made at ``site``."""
        for each in dictionaries - {NONE}:
            if isinstance(each, Container):
                for key in self.keys(each):
                    self.put(site, key, self.items(each, key))
            else:
                self.put(site, UNKNOWN_KEY, unknown("an item comes from a dictionary that is not known"))


_UNKNOWN = Plain()
"""Of a container: a key that is not known."""


@lru_cache(maxsize=4096, typed=True)
def _key(key: object) -> Value:
    """The value that a key of a container is."""
    return _UNKNOWN if key is UNKNOWN_KEY else Literal(repr(key))
