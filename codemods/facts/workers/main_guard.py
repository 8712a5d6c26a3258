"""Which part of a script has to stand under ``if __name__ == "__main__":`` before it may start worker processes."""

from __future__ import annotations

import ast
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import bound_names, words
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import FUNCTIONS, is_main_guard, walk
from codemods.facts.data.reads import Top, tops
from codemods.facts.reason import HERE, Place, Reason, at
from codemods.facts.workers.shared_state import changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.source import Module
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script
    from codemods.facts.workers.payload import WorkerCode

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_CONSTANT_PARTS = (
    *(
        ast.Constant,
        ast.Tuple,
        ast.List,
        ast.Set,
        ast.Dict,
        ast.BinOp,
        ast.UnaryOp,
        ast.Name,
        ast.Attribute,
        ast.Subscript,
    ),
    *(ast.operator, ast.unaryop, ast.expr_context),
)


# What each worker that imports the script had better not do again: use CUDA, write files, start programs.
_WEIGHTY_METHODS = frozenset({"cuda", "to", "extract", "extractall"})
_WEIGHTY = words(
    """
    os.remove os.rename os.system os.unlink shutil.copy shutil.copyfile shutil.copytree shutil.move shutil.rmtree
    shutil.unpack_archive subprocess.call subprocess.check_call subprocess.Popen subprocess.run
    urllib.request.urlretrieve gdown.download wandb.init torch.save torch.cuda.set_device
    torch.distributed.init_process_group torch.utils.tensorboard.SummaryWriter tensorboardX.SummaryWriter
    """
)
_MOST_GUARDS = 3
"""Beyond that, a reader is served better by definitions that stand above the code that runs."""


class Unguarded(NamedTuple):
    """What a script runs when it is imported, as each worker process that is not forked imports it."""

    where: Place
    """Where a loader is read, or the call that leads there."""
    parts: tuple[tuple[ast.stmt, ...], ...] = ()
    """What goes under guards, one for each part, as definitions stand between: none where that cannot be done right."""
    why_not: Reason | None = None
    """Why it cannot."""


def unguarded(script: Script, loader: Loader, codes: Sequence[WorkerCode]) -> Unguarded | None:
    """What has to go under guards for the loader's workers; None where importing its script reads no loader.

    Args:
        script: the script; only the module whose sites are sought is rewritten.
        loader: the loader that is to have workers.
        codes: what runs in the workers of each of its loaders: the names that it reads stay outside.
    """
    module = script.module
    running = _running(script, loader)
    # No worker imports a notebook, which is no file of Python.
    tops = {top: None for code in codes for top in _reading(script, code.loader) if not top.module.notebook}
    reading = [top for top in tops if not top.is_guarded and (top.module in running or not _is_run(script, top))]
    elsewhere = next((top for top in reading if not _is_run(script, top)), None)
    if elsewhere is not None:
        why_not = Reason("needs-main-guard", f"importing {elsewhere.module.path} reads a loader")
        return Unguarded(loader.at(elsewhere.statement), why_not=why_not)
    other = next((top for top in reading if top.module is not module), None)
    if other is not None:
        remedy = "put one there first"
        return Unguarded(loader.at(other.statement), why_not=Reason("needs-main-guard", remedy, remedy=remedy))
    return _unguarded(script, codes, [top.statement for top in reading]) if reading else None


def _is_run(script: Script, top: Top) -> bool:
    return top.module in script.entries


def _running(script: Script, loader: Loader) -> set[Module]:
    """The modules that are run, as ``__main__``, in processes that make and read the loader."""
    found = (*tops(script.flow, loader.module, loader.call), *_reading(script, loader))
    return {top.module for top in found} & set(script.entries)


def _reading(script: Script, loader: Loader) -> Iterator[Top]:
    """The statements that read the loader, not those that give another one to the same function."""
    for each in loader.passes:
        yield from tops(script.flow, each.module, each.node, given=loader.value)


def _unguarded(script: Script, codes: Sequence[WorkerCode], reading: Sequence[ast.stmt]) -> Unguarded:
    body = script.module.tree.body
    first = min(map(body.index, reading))
    where = at(script.module, body[first])
    guard = next((each for each in body if is_main_guard(each)), None)
    if guard is not None:
        text = f"only a part of the script has a __main__ guard ({HERE})"
        return Unguarded(where, why_not=Reason("needs-main-guard", text, (at(script.module, guard),)))
    why_not: Reason | None = None
    for start in _starts(script, codes, first):
        parts = _parts(script, body[start:], codes, reading)
        why_not = _why_not(script, body[start:], parts, codes)
        if why_not is None:
            return Unguarded(where, parts)
    return Unguarded(where, why_not=why_not)


def _starts(script: Script, codes: Sequence[WorkerCode], first: int) -> tuple[int, ...]:
    """Where the first guard may begin, the best place first: what is above is done again by each worker.

    Best is before data sets and loaders are made and CUDA is used; else after what stands above the first reading.
    """
    module = script.module
    body = module.tree.body
    sites = [(code, site) for code in codes for site in (code.loader.call, *_sites(code))]
    found = [top for code, site in sites for top in tops(script.flow, code.loader.module, site)]
    made = (body.index(top.statement) for top in found if top.module is module and not top.is_guarded)
    weighty = (index for index in range(first) if _is_weighty(script, body[index]))
    fixed = [index for index in range(first) if _stays(script, body[index], codes) or isinstance(body[index], _IMPORTS)]

    def with_what_is_above(start: int) -> int:
        while start > 0 and start - 1 not in fixed and not _is_idle(body[start - 1]):
            start -= 1
        return start

    after_definitions = max(fixed, default=-1) + 1
    return with_what_is_above(min([first, *made, *weighty])), with_what_is_above(after_definitions)


def _sites(code: WorkerCode) -> Iterator[ast.AST]:
    """Where the data sets of a loader are made, in its module."""
    sites = (each.site for each in code.loader.dataset.parts)
    return (each for each in sites if each is not None and code.loader.module.holds(each))


def _is_weighty(script: Script, statement: ast.stmt) -> bool:
    """Whether the statement, run by each worker that imports the script, uses CUDA, or writes files."""
    if isinstance(statement, _DEFINITIONS):
        return False
    for call in (each for each in walk(statement) if isinstance(each, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _WEIGHTY_METHODS:
            return True
        names = {each.name for each in script.flow.values(call.func)}
        if names & _WEIGHTY or ("builtins.open" in names and _writes(call)):
            return True
    return False


def _writes(call: ast.Call) -> bool:
    """Whether a call of ``open`` opens a file to write."""
    mode = argument_of(call, "mode", 1)
    text = mode.value if isinstance(mode, ast.Constant) else None
    return isinstance(text, str) and not set("wax").isdisjoint(text)


def _parts(
    script: Script, statements: Sequence[ast.stmt], codes: Sequence[WorkerCode], reading: Sequence[ast.stmt]
) -> tuple[tuple[ast.stmt, ...], ...]:
    """The runs of statements between definitions, less the imports, settings and texts at their ends."""
    found: list[tuple[ast.stmt, ...]] = []
    guarded: frozenset[str] = frozenset()
    for stays, group in groupby(statements, lambda each: each not in reading and _stays(script, each, codes)):
        part = [] if stays else list(group)
        is_last = part[-1:] == [statements[-1]]
        while part and _is_idle(part[0]) and not _read_in(part[0]) & guarded:
            del part[0]
        while part and not is_last and _is_idle(part[-1]) and not _read_in(part[-1]) & (guarded | _bound(part)):
            del part[-1]
        if part:
            found.append(tuple(part))
            guarded |= _bound(part)
    return tuple(found)


def _why_not(
    script: Script, statements: Sequence[ast.stmt], parts: tuple[tuple[ast.stmt, ...], ...], codes: Sequence[WorkerCode]
) -> Reason | None:
    """Why these parts cannot go under guards."""
    module = script.module
    inside = [each for part in parts for each in part]
    guarded = _bound(inside)
    for code in codes:
        definition = next((each for top in inside for each in _definitions(top) if code.runs(each)), None)
        if definition is not None:
            text = f"{definition.name} is defined after code that runs ({HERE})"
            remedy = f"put {definition.name} above the code that runs"
            return Reason("needs-main-guard", text, (at(module, definition),), remedy)
        set_inside = (*sorted(guarded), *(text for each in inside for text, _ in changes(each)))
        name = next((each for each in set_inside if code.reads(module, each)), None)
        if name is not None:
            node = code.names_read.get((module, name.partition(".")[0]))
            hole, places = ("", ()) if node is None else (f" ({HERE})", (code.at(node),))
            text = f"the data set reads '{name}'{hole}, which has to stay outside the guard"
            return Reason("needs-main-guard", text, places)
    outside = [each for each in statements if each not in inside]
    definitions = {each.name: each for each in outside if isinstance(each, _DEFINITIONS)}
    if len(parts) > _MOST_GUARDS:
        first = min((each for each in outside if any(_definitions(each))), key=lambda each: each.lineno)
        text = f"definitions stand between code that runs ({HERE}):"
        return Reason("needs-main-guard", text, (at(module, first),), "put them above it")
    for statement in outside:
        needed = sorted(_needed_at_import(statement, definitions) & guarded)
        if needed:
            what = getattr(statement, "name", "what the data set reads")
            text = f"{what} needs '{needed[0]}' when the script is imported ({HERE})"
            return Reason("needs-main-guard", text, (at(module, statement),))
    return None


def _needed_at_import(statement: ast.stmt, definitions: Mapping[str, ast.stmt]) -> frozenset[str]:
    """The names that a statement reads when it runs, and what those of the definitions may read that it calls."""
    found: set[str] = set()
    seen: set[str] = set()
    todo = [list(_run_at_import(statement))]
    while todo:
        nodes = todo.pop()
        found.update(each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
        called = {each.func.id for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)}
        decorated = (each for each in nodes if isinstance(each, _DEFINITIONS))
        called |= {each.id for one in decorated for each in one.decorator_list if isinstance(each, ast.Name)}
        todo.extend(list(walk(definitions[each])) for each in called - seen if each in definitions)
        seen |= called
    return frozenset(found)


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The node, and what runs when it does: of a function its decorators and defaults, not its body."""
    yield node
    for name, value in ast.iter_fields(node):
        if name != "body" or not isinstance(node, FUNCTIONS):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    yield from _run_at_import(each)


def _stays(script: Script, statement: ast.stmt, codes: Sequence[WorkerCode]) -> bool:
    """Whether the statement belongs at module level: it holds definitions, or workers read what it binds or changes."""
    is_star = isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"
    set_here = (*_bound([statement]), *(text for text, _ in changes(statement)))
    is_read = any(code.reads(script.module, text) for code in codes for text in set_here)
    return is_star or is_read or any(_definitions(statement))


def _is_idle(statement: ast.stmt) -> bool:
    """Whether the statement does no harm wherever it stands: an import, a setting, a text."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, _IMPORTS) or _is_constant(statement)


def _definitions(statement: ast.stmt) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The definitions in the statement, however deep."""
    return (each for each in walk(statement) if isinstance(each, _DEFINITIONS))


def _read_in(statement: ast.stmt) -> frozenset[str]:
    """The names that are read anywhere in the statement."""
    names = (each for each in walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
    return frozenset(each.id for each in names)


def _is_constant(statement: ast.stmt) -> bool:
    """``batch_size = 64``, ``epochs = args.epochs``: a setting, which readers look for at the top."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return False
    return all(isinstance(each, _CONSTANT_PARTS) for each in ast.walk(statement.value))


def _bound(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """The names of the module that the statements bind."""
    return bound_names(ast.Module(list(statements), []))
