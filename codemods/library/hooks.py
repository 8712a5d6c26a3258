"""Methods and functions of PyTorch that hang hooks on tensors and modules, by what the hooks are given."""

from __future__ import annotations

_OF_MODULES = frozenset(
    f"register_{all_modules}{name}" for all_modules in ("", "module_") for name in ("forward_hook", "forward_pre_hook")
)
_OF_GRADIENTS = frozenset(
    f"register_{all_modules}{name}"
    for all_modules in ("", "module_")
    for name in ("backward_hook", "full_backward_hook", "full_backward_pre_hook")
)
_OF_TENSORS = frozenset({"register_hook", "register_post_accumulate_grad_hook", "register_multi_grad_hook"})


def is_given_outputs(name: str) -> bool:
    """Whether the method or function of that name hangs up a hook that is given what a module computes."""
    return name in _OF_MODULES


def is_given_inputs_alone(name: str) -> bool:
    """Whether what it hangs up is given the inputs of a module, and not yet what that computes of them."""
    return name in _OF_MODULES and name.endswith("_pre_hook")


def is_given_gradients(name: str) -> bool:
    """Whether it hangs up a hook that is given gradients."""
    return name in _OF_GRADIENTS or name in _OF_TENSORS


def is_of_modules(name: str) -> bool:
    """Whether it hangs up a hook on a module, or on all of them."""
    return name in _OF_MODULES or name in _OF_GRADIENTS


def hooks() -> frozenset[str]:
    """The names of all of them."""
    return _OF_MODULES | _OF_GRADIENTS | _OF_TENSORS
