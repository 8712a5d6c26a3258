"""Tensors that are filled with what every device computes alike, bit for bit, and what may become of them."""

from __future__ import annotations

from codemods.dataflow.names import words

_FILLS = frozenset(f"torch.{name}" for name in words("zeros ones full empty eye"))
_COUNTS = frozenset(f"torch.{name}" for name in words("arange range"))
_SPACES = frozenset(f"torch.{name}" for name in words("linspace logspace"))
_LEGACY = words("Tensor FloatTensor DoubleTensor HalfTensor LongTensor IntTensor ShortTensor ByteTensor BoolTensor")
_TRIANGLES = words("torch.tril torch.triu")
_METHODS = words(
    """
    view reshape unsqueeze squeeze repeat t transpose permute flatten contiguous clone
    long int short byte bool float double tril triu tril_ triu_ zero_ fill_ detach logical_not neg
    """
)
"""Methods that every device computes alike of such tensors."""
SHARING = words("expand expand_as broadcast_to")
"""Methods that keep one element for several, of which a copy has several: what is written to one shows in all."""
FILLING = words("fill_ zero_")
"""Methods that give all elements a value."""
COMPUTING = words("mul add sub eq ne lt le gt ge")
"""Methods that every device computes alike with a number; of a division it may make a multiplication."""
PLAIN_ARGUMENTS = words("dtype layout names requires_grad fill_value end start step m n size")
"""Arguments that mean the same on each device."""
EXACT_IN_EACH_FORMAT = frozenset(f"torch.{name}" for name in words("zeros ones empty eye"))
"""What comes out alike whether it is made in a number format or cast to it."""


_SMOOTH = words("exp exp2 log sin cos tanh sigmoid")
_WHOLE = words(
    """
    long int short byte char bool round round_ floor floor_ ceil ceil_ trunc trunc_ to type type_as
    eq ne lt le gt ge logical_not
    """
)
_OF_NUMBERS = words("torch.tensor torch.scalar_tensor")
_OF_ARRAYS = {"numpy.zeros": "torch.zeros", "numpy.ones": "torch.ones"}
_ARRAYS = words("zeros ones full eye identity arange linspace array")
_SINGLE = words("torch.float32 torch.float numpy.float32 numpy.single")
_SINGLE_TYPES = words("torch.Tensor torch.FloatTensor")


def is_constant(name: str) -> bool:
    """Whether the function makes a tensor of the numbers and sizes that it is told, the same of the same each time."""
    return (name in _FILLS | _COUNTS | _SPACES | _OF_NUMBERS or name in _TRIANGLES) and name != "torch.empty"


def copies(name: str) -> bool:
    """Whether the function copies the elements of the array or tensor that it is given, or makes one of numbers."""
    return name in _OF_NUMBERS or name in _TRIANGLES


def is_of_numbers(name: str) -> bool:
    """Whether the function makes a tensor of the numbers that it is told."""
    return name in _OF_NUMBERS


def fills(name: str) -> bool:
    """Whether the function fills a tensor with what it is told, or with nothing."""
    return name in _FILLS


def is_sized(name: str) -> bool:
    """Whether the function makes a tensor of a size that it is told, and gives all elements one value, or none."""
    return name in _FILLS and name != "torch.eye"


def counts(name: str) -> bool:
    """Whether the function counts: of integers every device makes the same."""
    return name in _COUNTS


def spaces(name: str) -> bool:
    """Whether the function computes each element by a multiplication that devices may round otherwise."""
    return name in _SPACES


def is_legacy(name: str) -> bool:
    """Whether it is a constructor that takes sizes, or numbers, and no device."""
    package, _, last = name.rpartition(".")
    return package == "torch" and last in _LEGACY


def is_tensor_type(name: str) -> bool:
    """Whether it is such a constructor, for tensors on the host or on CUDA."""
    package, _, last = name.rpartition(".")
    return package in {"torch", "torch.cuda"} and last in _LEGACY


def keeps_triangle(name: str) -> bool:
    """Whether the function returns its first argument with zeros beside a triangle."""
    return name in _TRIANGLES


def is_alike(method: str) -> bool:
    """Whether every device computes the method of such a tensor alike."""
    return method in _METHODS | COMPUTING


def fills_array(name: str) -> str:
    """The function of torch that fills a tensor as that of NumPy fills an array; nothing where none does."""
    return _OF_ARRAYS.get(name, "")


def makes_array(name: str) -> bool:
    """Whether the function makes an array of the numbers that it is told, the same of the same each time."""
    package, _, last = name.rpartition(".")
    return package == "numpy" and last in _ARRAYS


def is_single(name: str) -> bool:
    """Whether it is the number format of 32 bits that tensors have where nothing else is said."""
    return name in _SINGLE


def is_float_type(name: str) -> bool:
    """Whether it is the type of tensors on the host that have that number format."""
    return name in _SINGLE_TYPES


def is_smooth(name: str) -> bool:
    """Whether the function, or the method, computes what devices round otherwise in the last bit alone."""
    package, _, last = name.rpartition(".")
    return package in {"", "torch"} and last in _SMOOTH


def may_make_whole(method: str) -> bool:
    """Whether the method may make whole numbers of others, which shows a last bit that was rounded otherwise."""
    return method in _WHOLE
