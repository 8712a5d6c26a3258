"""Functions of libraries that call the function that they are given, and are done with it when they return."""

from __future__ import annotations

_PACKAGES = ("scipy.integrate.", "scipy.optimize.", "torchdiffeq.")
_FUNCTIONS = frozenset(f"builtins.{name}" for name in ("max", "min", "sorted"))


def calls_at_once(name: str) -> bool:
    """Whether the function of that qualified name is such a one: ``scipy.integrate.solve_ivp``, and no class."""
    return name in _FUNCTIONS or (name.startswith(_PACKAGES) and name.rpartition(".")[2][:1].islower())
