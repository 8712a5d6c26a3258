"""Which names does a module of the project offer to those that import it."""

from __future__ import annotations

import pytest

from codemods.dataflow.namespaces import Namespaces
from codemods.dataflow.source import Module


def namespaces(**texts: str) -> Namespaces:
    """The modules with these texts; ``pkg__a`` is ``pkg.a``, and ``pkg`` a package then."""
    return Namespaces(
        Module(
            f"{name.replace('__', '/')}.py",
            text,
            name.replace("__", "."),
            is_package=any(each.startswith(f"{name}__") for each in texts),
        )
        for name, text in texts.items()
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = 1\ndef f():\n    y = 2\nclass A:\n    pass\n", {"x", "f", "A"}, id="what its code binds"),
        pytest.param("import os\nfrom re import sub as s\n", {"os", "s"}, id="imports"),
        pytest.param("_x = 1\ny = 2\n", {"y"}, id="not what begins with an underscore"),
        pytest.param("__all__ = ['_x']\n_x = y = 1\n", {"_x"}, id="what is listed"),
        pytest.param("__all__ = ['x']\n__all__ += ['y']\nx = y = 1\n", {"x", "y"}, id="a list that is not written out"),
        pytest.param("from other import *\nx = 1\n", {"x", "z"}, id="star imports"),
    ],
)
def test_what_a_star_import_binds(text: str, expected: set[str]) -> None:
    found = namespaces(a=text, other="z = 1\n")

    assert found.exported(found.modules["a"]) == expected


def test_star_imports_of_each_other_end() -> None:
    found = namespaces(a="from b import *\nx = 1\n", b="from a import *\ny = 1\n")

    assert found.bound(found.modules["a"]) == {"x", "y"}


def test_the_modules_from_which_a_name_comes() -> None:
    found = namespaces(a="from b import *\nfrom c import *\n", b="x = 1\n", c="x = y = 1\n")

    assert list(found.starred(found.modules["a"], "x")) == ["b", "c"]
    assert list(found.starred(found.modules["a"], "y")) == ["c"]
    assert list(found.starred(found.modules["a"], "z")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from .net import net\n", True),
        ("from .net import other as net\n", True),
        ("from .net import *\n", True),
        ("from .net import other\n", False),
        ("from . import net\n", False),
        ("", False),
    ],
)
def test_whether_a_name_hides_a_submodule(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    found = namespaces(pkg=text, pkg__net="def net():\n    pass\ndef other():\n    pass\n")

    assert found.hides_submodule("pkg", "net") is expected


def test_a_package_has_the_submodules_that_it_imports_from() -> None:
    found = namespaces(pkg="from .a import x\n", pkg__a="x = 1\n", pkg__b="y = 1\n")

    assert found.bound(found.modules["pkg"]) == {"x", "a"}
