"""May a project make sparse tensors?"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting
from codemods.dataflow.values import library_names

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow

_MAKES = re.compile(
    r"^(torch\.sparse_(coo|csr|csc|bsr|bsc|compressed)_tensor|torch\.(cuda\.)?sparse\.\w*Tensor|to_sparse\w*)$"
)


@lasting  # each product asks
def may_be_made(flow: Flow) -> bool:
    """Whether the project makes a sparse tensor anywhere: which of its tensors those are is not followed."""
    calls = (call for module in flow.modules for call in module.nodes(ast.Call))
    return any(_MAKES.match(name) for call in calls for name in _called_names(flow, call))


def _called_names(flow: Flow, call: ast.Call) -> frozenset[str]:
    """The qualified names of the library's functions that are called, or the name of the method."""
    names = library_names(flow.values(call.func))
    return names or frozenset({call.func.attr} if isinstance(call.func, ast.Attribute) else ())
