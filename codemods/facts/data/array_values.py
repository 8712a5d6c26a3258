"""A NumPy array as a value: what is known of it, and of what is made of several."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from codemods.library.ndarrays import LAID_OUT

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Sequence


class Array(NamedTuple):
    """A NumPy array."""

    format: str | None = None
    """Its number format, where that is known: ``float32``."""
    is_new: bool = False
    """Whether its memory was made for it by the very expression, so that nothing else holds it."""
    owner: ast.AST | None = None
    """The attribute or name whose memory it shares."""
    has_axes: bool = False
    """Whether it has one dimension or more for certain, and is no single number."""
    is_dense: bool = False
    """Whether its elements lie without gaps, as those of a copy do: those of a slice may not."""
    is_read: bool = False
    """Whether its numbers come from a file, of which there may be gigabytes."""
    is_locked: bool = False
    """Whether it may be read-only, as the array of an image, or of a table of pandas: tensors of its memory warn."""
    is_float: bool = False
    """Whether its numbers are floats, of whichever format."""
    has_several_axes: bool = False
    """Whether it has two dimensions or more for certain, so that each of its items has one."""


def computed(format_: str | None, parts: Sequence[Array | None]) -> Array:
    """The array that is computed from some others."""
    is_read = any(each is not None and each.is_read for each in parts)
    return Array(format_, is_new=True, has_axes=any_axes(parts), is_dense=True, is_read=is_read)


def same_float(arrays: list[Array | None]) -> str | None:
    """The floating-point format that all of the arrays have."""
    formats = {each.format if each is not None else None for each in arrays}
    (only,) = formats if len(formats) == 1 else (None,)
    return only if only is not None and only.startswith("float") else None


def any_of(arrays: Sequence[Array], owner: ast.AST) -> Array:
    """What is one of some arrays, whichever it is."""
    formats = {each.format for each in arrays}
    return Array(
        formats.pop() if len(formats) == 1 else None,
        owner=owner,
        has_axes=all(each.has_axes for each in arrays),
        is_dense=all_dense(arrays),
        is_read=any(each.is_read for each in arrays),
        is_locked=any(each.is_locked for each in arrays),
        is_float=all(each.is_float for each in arrays),
        has_several_axes=all(each.has_several_axes for each in arrays),
    )


def is_laid_out(name: str, array: Array) -> bool:
    """Whether what the function or method makes of the array has no gaps."""
    return name in LAID_OUT or array.is_dense


def all_dense(arrays: Iterable[Array | None]) -> bool:
    """Whether the elements of all lie without gaps."""
    return all(each is not None and each.is_dense for each in arrays)


def any_axes(arrays: Iterable[Array | None]) -> bool:
    """Whether one of them has one dimension or more for certain."""
    return any(each is not None and each.has_axes for each in arrays)


def any_floats(arrays: Iterable[Array | None]) -> bool:
    """Whether one of them has floats for certain."""
    return any(each is not None and (each.is_float or (each.format or "").startswith("float")) for each in arrays)
