"""Which calls and imports of a module lead to what stands elsewhere, in its functions and in other modules?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.source import is_main_guard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script


def sites_here(script: Script, site: ast.AST) -> Sequence[ast.AST]:
    """The site itself where it stands in the module, or else the calls and the imports there that lead to it."""
    found: dict[ast.AST, None] = {}
    todo = [site]
    seen: set[ast.AST] = set()
    while todo:
        here = todo.pop(0)
        module = next((each for each in script.modules if each.holds(here)), None)
        if module is None or here in seen:
            continue
        seen.add(here)
        function = module.function(here)
        if module is script.module:
            found[here] = None
        elif function is not None:
            todo += script.flow.callers(function)
        elif not any(is_main_guard(each) for each in module.ancestors(here)):  # which no import runs
            imports = script.module.nodes(ast.Import, ast.ImportFrom)
            found.update(dict.fromkeys(each for each in imports if module.name in _modules_read(script.module, each)))
    return list(found)


def _modules_read(module: Module, node: ast.Import | ast.ImportFrom) -> frozenset[str]:
    """The dotted names, in the project, of what an import may read: ``a.b`` and ``a`` of ``from a import b``."""
    targets = [module.resolved(target) for _, target in names.imported(node, module.package)]
    return frozenset([*targets, *(each.rpartition(".")[0] for each in targets)])


def frames(script: Script, site: ast.AST) -> Iterator[ast.stmt]:
    """The statement of the site, the one that calls its function, and so on outwards, while there is one such call."""
    module = script.module
    seen: set[ast.AST] = set()
    node: ast.AST | None = site
    while node is not None:
        statement = module.statement(node)
        yield statement
        function = module.function(statement)
        calls = script.flow.callers(function) if function is not None and function not in seen else ()
        seen.add(function or module.tree)
        node = calls[0] if len(calls) == 1 and module.holds(calls[0]) else None


def runs(script: Script, site: ast.AST) -> bool:
    """Whether the site runs when the script does, and is not in a function that nothing, or too much, calls."""
    return script.module.function(list(frames(script, site))[-1]) is None
