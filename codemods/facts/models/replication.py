"""Where a script does not let ``nn.DataParallel`` copy a model to several GPUs, though it may: beside an ``if``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.placement import dominates
from codemods.dataflow.source import LOOPS, walk
from codemods.dataflow.values import library_names
from codemods.facts.devices.devices import for_cuda
from codemods.facts.loops import module_of
from codemods.facts.models.layers import is_in_threads
from codemods.facts.models.preparation import can_be_asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.models.placement import Home
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script

_COUNTS = frozenset({"torch.cuda.device_count"})


def replicating(script: Script, trained: TrainedModel, home: Home) -> ast.If | None:
    """The ``if`` under which alone the model is wrapped, by the name that it has at its home.

    It can be prepared on the other side, in an ``else``: there is none, or it is a plain one. None where the script
    chooses in another way.
    """
    module, name = script.module, ast.unparse(home.name)
    found = [each for each in (*trained.wrappers, *trained.model.layers) if is_in_threads(script.flow, each)]
    sites = [each.site for each in found if isinstance(each.site, ast.Call) and module.holds(each.site)]
    if home.module is not module or not sites or len(sites) != len(found):
        return None
    statements = [module.statement(each) for each in sites]
    (above, *others) = {module.parent(each) for each in statements}
    if others or not isinstance(above, ast.If) or not all(each in above.body for each in statements):
        return None
    if not all(_wraps(statement, site, name) for statement, site in zip(statements, sites, strict=True)):
        return None
    if _is_on_any_gpu(script, above.test) or not _is_plain(module, above, name):
        return None
    return above if _can_be_prepared(script, home, above) else None


def is_only_on_several(flow: Flow, wrappers: Sequence[Value]) -> bool:
    """Whether all of what copies a model stands under ``torch.cuda.device_count() > 1``: one GPU copies nothing."""
    return all(isinstance(each.site, ast.Call) and _is_under_several(flow, each.site) for each in wrappers)


def _is_under_several(flow: Flow, site: ast.Call) -> bool:
    below: ast.AST = site
    for above in module_of(flow, site).ancestors(site):
        if isinstance(above, ast.If) and below in above.body and _asks_for_several(flow, above.test):
            return True
        below = above
    return False


def _asks_for_several(flow: Flow, test: ast.expr) -> bool:
    match test:
        case ast.BoolOp(ast.And(), parts):
            return any(_asks_for_several(flow, each) for each in parts)
        case ast.Compare(ast.Call(counted), [ast.Gt()], [ast.Constant(1)]) | ast.Compare(
            ast.Call(counted), [ast.GtE()], [ast.Constant(2)]
        ):
            return bool(library_names(flow.values(counted)) & _COUNTS)
    return False


def _is_on_any_gpu(script: Script, test: ast.expr) -> bool:
    """Whether it holds wherever there is CUDA, be it one GPU: ``device == "cuda"``; not ``device_count() > 1``.

    Then there is nothing to compile on the other side.
    """
    asks_how_many = isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))
    is_one_of_several = isinstance(test, ast.BoolOp)
    return for_cuda(script.flow, test) is True and not asks_how_many and not is_one_of_several


def _wraps(statement: ast.stmt, site: ast.Call, name: str) -> bool:
    """``model = nn.DataParallel(model)``."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    given = site.args[0] if site.args else None
    return [ast.unparse(each) for each in targets] == [name] and given is not None and ast.unparse(given) == name


def _is_plain(module: Module, statement: ast.If, name: str) -> bool:
    """Whether it runs once, is no part of a chain, and its ``else`` does no more to the name than move the model."""
    chained = [statement, *(each for each in statement.orelse[:1] if isinstance(each, ast.If))]
    if any(module.code(each).startswith("elif") for each in chained):
        return False
    if any(isinstance(each, LOOPS) for each in module.ancestors(statement)):
        return False
    stored = (each for part in statement.orelse for each in walk(part) if isinstance(each, (ast.Name, ast.Attribute)))
    writes = [each for each in stored if isinstance(each.ctx, ast.Store) and ast.unparse(each) == name]
    return all(_moves_itself(module.statement(each), name) for each in writes)


def _moves_itself(statement: ast.stmt, name: str) -> bool:
    """``model = model.to(device)``."""
    match statement:
        case ast.Assign([_], ast.Call(ast.Attribute(owner, "to" | "cuda"))):
            return ast.unparse(owner) == name
    return False


def _can_be_prepared(script: Script, home: Home, statement: ast.If) -> bool:
    """Whether the model is on its device in the ``else``, or goes there later on a condition that is known by then."""
    module = script.module
    if home.anchor in statement.orelse or dominates(module, home.anchor, statement):
        return True
    return dominates(module, statement, home.anchor) and can_be_asked(script, home, statement)
