"""What makes TorchScript of models, what belongs to it alone, and what exports it."""

from __future__ import annotations

SCRIPTS = "torch.jit.script"
"""What makes TorchScript of the code of a model."""
COMPILING = frozenset({SCRIPTS, "torch.jit.script_if_tracing"})
"""What compiles the source of what it is given, or decorates."""
SCRIPT_MODULE = "torch.jit.ScriptModule"
"""The class from which models derive whose methods are compiled."""
TRACES = frozenset({"torch.jit.trace", "torch.jit.trace_module"})
"""What makes it of one pass through that code."""
CLASSES = frozenset({SCRIPT_MODULE, "torch.jit.RecursiveScriptModule", "torch.jit.ScriptFunction"})
"""The classes of what is made, by which it can be told."""
MARKS = frozenset(
    f"torch.jit.{name}"
    for name in ("export", "ignore", "unused", "script_method", "is_scripting", "annotate", "Attribute", "interface")
)
"""What code says that is written for TorchScript."""
OF_SCRIPTS = frozenset(
    {"save", "save_to_buffer", "graph", "graph_for", "inlined_graph", "code", "code_with_constants", "original_name"}
    | {"define", "get_debug_state"}
)
"""What scripted models have that others do not."""
