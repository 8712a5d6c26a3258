"""The edits by which torch's fused function computes attention that was written by hand."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import FUNCTIONS, lasting, walk
from codemods.editing.naming import written
from codemods.editing.positions import leading
from codemods.editing.splitting import width
from codemods.editing.values import Remove, Replace
from codemods.facts.models.attention_dimensions import WITHOUT_HEADS, dimensions, mask_dimensions
from codemods.facts.models.attention_masks import LOOSE, tight
from codemods.facts.models.attention_obstacles import moved
from codemods.facts.models.innermost import needs_copy
from codemods.facts.models.local_numbers import is_float
from codemods.facts.precision.script_hazards import scripted
from codemods.facts.reason import HERE, Reason, at
from codemods.library.attention import DROPOUT, FUSED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.models.attention import Attention, Dropped
    from codemods.facts.models.attention_scores import Mask, Operand, Scale
    from codemods.facts.script import Script

_NAME = DROPOUT.rpartition(".")[2]
_SWITCHES = frozenset({"train", "eval", "training"})
"""Attributes and methods by which a layer is put into training or evaluation."""
_HEADS = 1
"""The dimension of heads in what fused kernels take."""
_MAKES = words("sqrt bool byte to type size view unsqueeze triu tril ones zeros ones_like eq ne expand")
"""Methods and functions that make a tensor or a number, and do nothing else."""
_HALF = "0.5"
"""The share that a dropout drops where nothing is said."""


def fused(script: Script, attention: Attention) -> list[Edit] | Reason:
    """What puts the fused function in the place of the products; why it cannot be done."""
    module = attention.module
    named = written(script, module, FUSED, attention.output)
    if named is None:
        return Reason("no-name", "torch.nn.functional cannot be named where attention is computed")
    name, imports = named
    scores = attention.scores
    needs_heads = dimensions(script.flow, attention) == WITHOUT_HEADS
    with_heads = f".unsqueeze({_HEADS})" if needs_heads else ""
    arguments = [
        _operand(script.flow, module, each, with_heads) for each in (scores.query, scores.key, attention.value)
    ]
    for mask in scores.masks if not attention.is_causal else ():
        is_for_each = needs_heads and mask_dimensions(script.flow, attention) == WITHOUT_HEADS
        text = _mask(script, attention, mask, with_heads if is_for_each else "")
        if isinstance(text, Reason):
            return text
        arguments.append(f"attn_mask={text}")
    if attention.dropped is not None:
        share = _share(script, attention, attention.dropped)
        arguments += [f"dropout_p={share}"] if share is not None else []
    if attention.is_causal:
        arguments.append("is_causal=True")
    if attention.scales:
        arguments.append(f"scale={_scale(script, module, attention.scales)}")
    behind = f".squeeze({_HEADS}){attention.behind}" if needs_heads else attention.behind
    call = _laid_out(attention, name, arguments, behind)
    return [
        *imports,
        *(Remove(module, each, with_heading=True) for each in (*_idle(attention), *attention.gone)),
        Replace(module, attention.output, call.replace("{", "{{").replace("}", "}}")),
    ]


def _idle(attention: Attention) -> Iterator[ast.stmt]:
    """The statements that only make a triangle or a scale, of which nothing is read any more.

    ``is_causal`` says the one, and nothing has to be said of a scale that is the usual one.
    """
    module = attention.module
    gone = {each for one in (*attention.gone, attention.output) for each in walk(one)}
    gone -= {each for one in _kept(attention) for each in walk(one)}
    unsaid = [each.node for each in attention.scores.masks] if attention.is_causal else []
    unsaid += [each.node for each in attention.scores.scales] if not attention.scales else []
    idle = {each.id: each for each in unsaid if isinstance(each, ast.Name)}
    for name in idle.values():
        function = module.function(name)
        if function is None:
            continue
        named = [each for each in module.nodes(ast.Name) if each.id == name.id and module.function(each) is function]
        reads = [each for each in named if isinstance(each.ctx, ast.Load)]
        stores = [module.statement(each) for each in named if each not in reads]
        is_read_inside = any(
            each.id == name.id and function in module.ancestors(each) and each not in named
            for each in module.nodes(ast.Name)
        )
        match stores:
            case [ast.Assign([ast.Name()], value) as statement] if all(each in gone for each in reads):
                is_beside = statement in module.suite(module.statement(attention.output))
                if is_beside and not is_read_inside and _only_makes(value):
                    yield statement


def _kept(attention: Attention) -> Iterator[ast.expr]:
    """The expressions that the fused function is given."""
    unsaid = [each.node for each in attention.scores.masks] if attention.is_causal else []
    unsaid += [each.node for each in attention.scores.scales]
    yield attention.value.node
    yield from (each for each in moved(attention) if each not in unsaid)
    yield from (each.node for each in attention.scales)


def _only_makes(node: ast.expr) -> bool:
    """Whether an expression does nothing but make a tensor or a number: by slices, comparisons and known functions."""
    for each in walk(node):
        if isinstance(each, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)):
            return False
        if isinstance(each, ast.Call) and not (isinstance(each.func, ast.Attribute) and each.func.attr in _MAKES):
            return False
    return True


def _operand(flow: Flow, module: Module, operand: Operand, with_heads: str) -> str:
    code = module.code(operand.node)
    copied = ".contiguous()" if needs_copy(flow, module, operand) else ""
    behind = f"{operand.suffix}{copied}{with_heads}"
    if behind:
        return f"{tight(module, operand.node)}{behind}"
    return f"({code})" if isinstance(operand.node, (ast.Tuple, ast.GeneratorExp)) and code[:1] != "(" else code


def _mask(script: Script, attention: Attention, mask: Mask, with_heads: str) -> str | Reason:
    """The mask, or None where the script has none at times."""
    module = attention.module
    is_loose = with_heads and isinstance(ast.parse(mask.text, mode="eval").body, LOOSE)
    kept = f"({mask.text}){with_heads}" if is_loose else mask.text + with_heads
    if mask.condition is None:
        return kept
    tested = _tested(script, mask.condition)
    if tested is None:
        text = f"whether scores are masked depends on a condition ({HERE})"
        return Reason("other-attention", text, (at(module, mask.condition),))
    name = module.code(tested)
    return name if kept == name else f"None if {name} is None else {kept}"


def _tested(script: Script, condition: ast.expr) -> ast.expr | None:
    """``mask`` of ``mask is not None``, and of ``exists(mask)`` where that function of the project asks so."""
    match condition:
        case ast.Compare(ast.Name() | ast.Attribute() as tested, [ast.IsNot()], [ast.Constant(None)]):
            return tested
        case ast.Call(_, [ast.Name() | ast.Attribute() as tested]) if not condition.keywords:
            for function in script.flow.called(condition):
                match function:
                    case ast.FunctionDef(
                        args=ast.arguments(args=[ast.arg(name)]),
                        body=[ast.Return(ast.Compare(ast.Name(read), [ast.IsNot()], [ast.Constant(None)]))],
                    ) if name == read:
                        continue
                return None
            return tested if script.flow.called(condition) else None
    return None


def _share(script: Script, attention: Attention, dropped: Dropped) -> str | None:
    """How many weights are dropped: none in evaluation, which the fused function cannot know."""
    module = attention.module
    if dropped.layer is not None:
        layer = module.code(dropped.layer)
        return f"{layer}.p if {_mode(script, attention, dropped.layer)} else 0.0"
    share = module.code(dropped.share) if dropped.share is not None else _HALF
    if dropped.training is None:
        return share
    if isinstance(dropped.training, ast.Constant):
        return None
    return f"{share} if {module.code(dropped.training)} else 0.0"


def _mode(script: Script, attention: Attention, layer: ast.expr) -> str:
    """What says whether a dropout is in training: as a rule, the module that holds it."""
    module = attention.module
    function = module.function(layer)
    is_method = isinstance(function, FUNCTIONS) and script.flow.owner(function) is not None
    match layer:
        case ast.Attribute(ast.Name(holder)) if is_method and not _switches_dropouts(script):
            return f"{holder}.training"
    return f"{module.code(layer)}.training"


@lasting
def _switches_dropouts(script: Script) -> bool:
    """Whether some code asks for dropouts, as that does which switches them alone: to drop while it evaluates."""
    for module in script.modules:
        for node in module.nodes(ast.Name, ast.Attribute):
            above = module.parent(node)
            made = [each for each in script.flow.values(node) if each.name == DROPOUT]
            is_made = isinstance(above, ast.Call) and above.func is node
            is_switched = isinstance(above, ast.Attribute) and above.attr in _SWITCHES and not _is_read(above)
            if any(is_switched if each.site is not None else not is_made for each in made):
                return True
        # `if type(part).__name__.startswith("Dropout"):`
        if any(each.value == _NAME for each in module.nodes(ast.Constant)):
            return True
    return False


def _is_read(node: ast.Attribute) -> bool:
    """Whether only the mode is asked for: ``self.drop.training``."""
    return node.attr == "training" and isinstance(node.ctx, ast.Load)


def _scale(script: Script, module: Module, scales: tuple[Scale, ...]) -> str:
    """The scale, of floating point where TorchScript compiles code: it takes no whole number for it."""
    number = _written_scale(module, scales)
    is_known = any(each.divides or is_float(script.flow, module, each.node) for each in scales)
    return number if is_known or scripted(script) is None else f"float({number})"


def _written_scale(module: Module, scales: tuple[Scale, ...]) -> str:
    first, *others = scales
    if isinstance(first.node, ast.Constant) and not hasattr(first.node, "lineno"):
        return repr(first.node.value)
    if not others:
        return f"1 / {_factor(module, first)}" if first.divides else module.code(first.node)
    if len({(ast.dump(each.node), each.divides) for each in scales}) == 1:
        return f"{tight(module, first.node)} ** {'-' if first.divides else ''}{len(scales)}"
    factors = [_factor(module, each) for each in scales if not each.divides]
    return " / ".join([" * ".join(factors) or "1", *(_factor(module, each) for each in scales if each.divides)])


def _factor(module: Module, scale: Scale) -> str:
    is_power = isinstance(scale.node, ast.BinOp) and isinstance(scale.node.op, ast.Pow)
    return module.code(scale.node) if is_power else tight(module, scale.node)


def _laid_out(attention: Attention, name: str, arguments: list[str], behind: str) -> str:
    """The call, on several lines where one would be wider than the file's."""
    module, output = attention.module, attention.output
    line = module.lines[output.lineno - 1]
    start = module.column(output) - 1
    rest = line[module.end_column(output) :] if output.end_lineno == output.lineno else ""
    call = f"{name}({', '.join(arguments)}){behind}"
    if start + len(call) + len(rest.split("#")[0].rstrip()) <= width(module):
        return call
    outer = leading(module, module.statement(output))
    unit = "\t" if outer.endswith("\t") else "    "
    in_one = len(outer + unit) + len(", ".join(arguments)) <= width(module)
    between, end = (", ", "") if in_one else (f",\n{unit}", ",")
    # LibCST puts the indentation of the statement before each of these lines.
    return f"{name}(\n{unit}{between.join(arguments)}{end}\n){behind}"
