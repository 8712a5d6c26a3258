"""Attention around a softmax: of what it is made, and why torch's fused function could not compute it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import unparsed, walk
from codemods.facts.models.applied import applied, layers, whole_number
from codemods.facts.models.attention_masks import WHOLE, is_lowest, triangle
from codemods.facts.models.attention_scores import (
    Operand,
    Scale,
    ScoreReader,
    Scores,
    Trail,
    factors_of,
    in_order,
    is_32_bits,
    is_widening,
    ordered,
    why_not_masked,
)
from codemods.facts.models.local_numbers import is_number, power
from codemods.facts.models.local_shapes import UNKNOWN, Shapes, is_settled
from codemods.facts.models.local_steps import later_reads, may_change
from codemods.facts.reason import HERE, Reason, at
from codemods.library.attention import CASTS, DROPOUT, IDENTITY, KEEPS_LAYOUT, PRODUCTS, TURNING, VIEWS, means_of

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_SEQUENCES = frozenset({"builtins.list", "builtins.tuple"})
_MATRIX = 2
_USUAL = Fraction(-1, 2)
"""The power of the depth by which the fused function multiplies scores if nothing is said."""


@dataclass(frozen=True, eq=False)
class Dropped:
    """A dropout of weights: a layer, or what a function is given."""

    layer: ast.expr | None
    """The layer that is called."""
    share: ast.expr | None = None
    """How many are dropped, where a function does it; None for the half."""
    training: ast.expr | None = None
    """Whether any are; None where it is always so."""


@dataclass(eq=False)
class Attention:
    """Attention that is computed by hand."""

    module: Module
    softmax: ast.Call
    output: ast.expr
    """The product of weights and values."""
    scores: Scores
    value: Operand
    behind: str
    """What puts the dimensions of the result in the order of the product's."""
    dropped: Dropped | None
    is_causal: bool
    scales: tuple[Scale, ...]
    """Empty where they make one divided by the root of the depth, as it is where nothing is said."""
    gone: tuple[ast.stmt, ...]
    """The statements of which nothing is left."""
    runs_layers: bool
    """Whether weights pass through layers, on which hooks may hang."""


@dataclass(eq=False)
class AttentionReader:
    """Reads the attention around one softmax."""

    flow: Flow
    module: Module
    softmax: ast.Call
    trail: Trail = field(default_factory=Trail)
    dropped: Dropped | None = None
    narrowed: list[ast.Name] = field(default_factory=list)
    """The tensors to whose number format the weights are converted."""
    turned: int | None = None
    """How many dimensions the weights have to have for it that they are turned round, with keys in front of queries."""
    is_turned_twice: bool = False
    runs_layers: bool = False

    def read(self, softmaxed: ast.expr) -> Attention | Reason:
        """The attention whose scores the softmax is given; why it is left."""
        statement = self.module.statement(self.softmax)
        block = self.module.suite(statement)
        output = self._output(statement, block)
        if isinstance(output, Reason):
            return output
        product, value, behind = output
        scores = ScoreReader(self.flow, self.module, block, self.trail).read(softmaxed, statement)
        if isinstance(scores, Reason):
            return scores
        if self.is_turned_twice or (self.turned is not None and scores.dimensions != self.turned):
            return self._other(product)
        last = self.module.statement(product)
        reason = self._why_dimension(scores) or self._why_format(scores, softmaxed) or self._why_used(scores, last)
        if reason is not None:
            return reason
        attention = Attention(
            self.module,
            self.softmax,
            product,
            scores,
            value,
            behind,
            self.dropped,
            is_causal=False,
            scales=(),
            gone=tuple(dict.fromkeys(each for each in reversed(self.trail.statements) if each is not last)),
            runs_layers=self.runs_layers or applied(self.flow, self.softmax) is None,
        )
        reason = self._why_factors(attention) or why_not_masked(self.flow, self.module, scores)
        reason = reason or self._masked(attention)
        attention.scales = self._scales(scores)
        return reason or attention

    # From the softmax to the product with the values.

    def _output(self, statement: ast.stmt, block: list[ast.stmt]) -> tuple[ast.expr, Operand, str] | Reason:
        node: ast.expr = self.softmax
        while True:
            above = self.module.parent(node)
            if isinstance(above, ast.Assign) and [type(each) for each in above.targets] == [ast.Name]:
                read = self._read_next(above, block)
                if read is None:
                    return self._why_conditional(above, block) or self._used(self._last_read(above, block))
                node = read
                continue
            if isinstance(above, (ast.Attribute, ast.List, ast.Tuple)):
                above = self.module.parent(above)
            if isinstance(above, (ast.Assign, ast.NamedExpr, ast.Return, ast.Dict)):
                return self._used(above)
            if not isinstance(above, ast.expr):
                return self._other(above if above is not None else statement)
            found = self._multiplied(above, node)
            if found is not None:
                return found
            turned = self._turned(above, node)
            if turned is not None:
                self.turned = turned if self.turned is None else None
                self.is_turned_twice |= self.turned is None
            elif not self._drops(above, node) and not self._narrows(above, node):
                return self._other(above)
            node = above

    def _read_next(self, statement: ast.Assign, block: list[ast.stmt]) -> ast.Name | None:
        """Where the block reads next what the statement gives a name; None where that is not in one place."""
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or not any(each is statement for each in block):
            return None
        self.trail.statements.append(statement)
        self.trail.names.setdefault(target.id, statement)
        index = next(number for number, each in enumerate(block) if each is statement)
        for later in block[index + 1 :]:
            if self._checked(later, target.id) is not None:
                continue  # `_why_used` looks whether it is of any use
            names = [each for each in walk(later) if isinstance(each, ast.Name) and each.id == target.id]
            read = [each for each in names if isinstance(each.ctx, ast.Load)]
            if read and self.module.statement(read[0]) is later:
                self.trail.reads.append(read[0])
                return read[0] if len(read) == 1 else None
            if names:
                return None
        return None

    def _last_read(self, statement: ast.Assign, block: list[ast.stmt]) -> ast.AST:
        """Where the block reads last what the statement gives a name, rather beside the product than in it."""
        name = unparsed(statement.targets[0])
        later = block[block.index(statement) + 1 :] if statement in block else []
        reads = [each for one in later for each in _names(one).get(name, ()) if isinstance(each.ctx, ast.Load)]
        above = {each: self.module.parent(each) for each in reads}
        beside = [each for each in reads if not self._is_product(above[each], each)]
        return max(beside or reads, key=lambda each: (each.lineno, each.col_offset), default=statement)

    def _is_product(self, node: ast.AST | None, weights: ast.expr) -> bool:
        return isinstance(node, ast.expr) and self._multiplied(node, weights) is not None

    def _why_conditional(self, statement: ast.Assign, block: list[ast.stmt]) -> Reason | None:
        """Why the weights that a statement gives a name are not known, where one branch changes them: drops some."""
        name = unparsed(statement.targets[0])
        later = block[block.index(statement) + 1 :] if statement in block else []
        branch = next((each for each in later if name in _names(each)), None)
        if not isinstance(branch, ast.If) or not may_change(branch, name):
            return None
        read = [each for one in later[later.index(branch) + 1 :] for each in _names(one).get(name, ())]
        if len(read) != 1:
            return None
        text = f"what is done to the weights depends on a condition ({HERE})"
        return Reason("other-attention", text, (at(self.module, branch),))

    def _multiplied(self, node: ast.expr, weights: ast.expr) -> tuple[ast.expr, Operand, str] | None:
        """The product of the weights and the values that an expression is."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return self._of_factors(node, node.left, node.right, weights)
        call = applied(self.flow, node)
        if call is None or call.named:
            return None
        if call.name in PRODUCTS and len(call.others) == 1:
            return self._of_factors(node, call.tensor, call.others[0], weights)
        if self.turned is not None or call.name != "einsum" or not isinstance(call.tensor, ast.Constant):
            return None
        factors = factors_of(call.others)
        place = next((number for number, each in enumerate(factors) if each is weights), None)
        if place is None or len(factors) != 2 or not isinstance(call.tensor.value, str):  # noqa: PLR2004
            return None
        found = means_of(call.tensor.value, place)
        if found is None:
            return None
        return node, ordered(factors[found.value.position], found.value.order), in_order(found.order)

    def _of_factors(
        self, node: ast.expr, left: ast.expr, right: ast.expr, weights: ast.expr
    ) -> tuple[ast.expr, Operand, str] | None:
        """The product of weights and values, or of values and weights that are turned round: that is turned itself."""
        if self.turned is None:
            return (node, Operand(right), "") if left is weights else None
        swap = ".transpose(-2, -1)"
        return (node, Operand(left, swap, depth=-2), swap) if right is weights else None

    def _turned(self, node: ast.expr, weights: ast.expr) -> int | None:
        """How many dimensions the weights have if an expression turns them round: ``weights.permute(0, 2, 1)``."""
        call = applied(self.flow, node)
        if call is None or call.tensor is not weights or call.named:
            return None
        numbers = [whole_number(each) for each in call.others]
        for count in (3, 4):
            last = [count - 2, count - 1]
            is_swap = call.name in TURNING and len(numbers) == _MATRIX and sorted(filter(None, numbers)) == last
            if is_swap or (call.name == "permute" and numbers == [*range(count - 2), *reversed(last)]):
                return count
        return None

    def _drops(self, node: ast.expr, weights: ast.expr) -> bool:
        """Whether an expression is the weights, of which some are dropped, for the first time."""
        made = layers(self.flow, node)
        if isinstance(node, ast.Call) and made and node.args == [weights]:
            self.runs_layers = True
            if all(each.name == IDENTITY for each in made):
                return True
            if self.dropped is None and all(each.name == DROPOUT for each in made):
                self.dropped = Dropped(node.func)
                return True
            return False
        call = applied(self.flow, node)
        if call is None or call.name != "dropout" or call.tensor is not weights or self.dropped is not None:
            return False
        share, training = call.argument(0, "p"), call.argument(1, "training", "train")
        if share is not None and not is_number(self.flow, self.module, share):
            return False
        if isinstance(training, ast.Constant) and training.value is True:
            training = None
        self.dropped = Dropped(None, share, training)
        return True

    def _narrows(self, node: ast.expr, weights: ast.expr) -> bool:
        """Whether an expression is the weights in the number format of another tensor: ``weights.type(q.dtype)``."""
        call = applied(self.flow, node)
        if call is None or call.tensor is not weights:
            return False
        match call.name, [*call.others, *call.named.values()]:
            case "type_as", [ast.Name() as like]:
                self.narrowed.append(like)
            case name, [ast.Attribute(ast.Name() as like, "dtype")] if name in CASTS and set(call.named) <= {"dtype"}:
                self.narrowed.append(like)
            case _:
                return False
        return True

    # What keeps the fused function from computing it.

    def _other(self, node: ast.AST) -> Reason:
        call = applied(self.flow, node) if isinstance(node, ast.expr) else None
        text = f"between the softmax and the values stands more than a dropout ({HERE})"
        if isinstance(node, ast.BinOp) or (call is not None and call.name in {*PRODUCTS, "einsum"}):
            text = f"weights and values are multiplied in another way than the fused function does ({HERE})"
        return Reason("other-attention", text, (at(self.module, node),))

    def _used(self, *nodes: ast.AST) -> Reason:
        text = f"the weights are used elsewhere, and the fused function does not return them ({HERE})"
        return Reason("weights-used", text, (at(self.module, *nodes),))

    def _why_dimension(self, scores: Scores) -> Reason | None:
        call = applied(self.flow, self.softmax)
        over: ast.expr | None = None
        if call is not None:
            told = call.argument(1, "dtype")
            if told is not None and is_32_bits(self.flow, told):
                scores.widened.append(self.softmax)
            elif told is not None:
                text = f"the softmax is told a number format ({HERE})"
                return Reason("other-attention", text, (at(self.module, self.softmax),))
            over = call.argument(0, "dim", "axis")
        else:
            made = [each.site for each in layers(self.flow, self.softmax) if isinstance(each.site, ast.Call)]
            given = [arguments_of(each) for each in made]
            numbers = {whole_number(each[0]) if each else None for each in given}
            over = given[0][0] if len(numbers) == 1 and given[0] else None
        number = whole_number(over)
        if number == -1 or (number is not None and scores.dimensions is not None and number == scores.dimensions - 1):
            return None
        text = f"the softmax is not known to be over the last dimension, that of the keys ({HERE}):"
        return Reason("other-attention", text, (at(self.module, self.softmax),), remedy="write dim=-1 if it is")

    def _why_format(self, scores: Scores, softmaxed: ast.expr) -> Reason | None:
        """Why queries, keys and values may have several number formats, where the softmax has one of its own.

        The fused function takes one alone, and computes the softmax in 32 bits or more.
        """
        added = next((each for each in scores.masks if each.filled_with is None), None)
        if scores.widened and (not self.narrowed or added is not None):
            text = f"the softmax is computed in 32 bits ({HERE}), and its result is not seen to get the queries' format"
            return Reason("other-attention", text, (at(self.module, self.softmax),))
        for like in self.narrowed:
            if self._is_scores(scores, softmaxed, like):
                self.trail.reads.append(like)
            elif not any(self._has_format_of(like, each.node) for each in (scores.query, scores.key)):
                text = f"weights are converted to a number format that is not seen to be the queries' ({HERE})"
                return Reason("other-attention", text, (at(self.module, like),))
        return None

    def _is_scores(self, scores: Scores, softmaxed: ast.expr, name: ast.Name) -> bool:
        """Whether a name holds the scores as the product left them: ``softmax(s.float(), -1).type(s.dtype)``."""
        while (call := applied(self.flow, softmaxed)) is not None and is_widening(self.flow, call):
            softmaxed = call.tensor
        inside = list(walk(self.softmax))
        is_narrow = all(each in inside for each in scores.widened)
        is_there = self.module.statement(name) is self.module.statement(self.softmax)
        return is_narrow and is_there and isinstance(softmaxed, ast.Name) and softmaxed.id == name.id

    def _has_format_of(self, name: ast.Name, operand: ast.expr) -> bool:
        """Whether a name holds the tensor that an operand is, or is laid out from."""
        while not isinstance(operand, ast.Name):
            call = applied(self.flow, operand)
            if call is None or call.name not in KEEPS_LAYOUT | VIEWS | {"reshape", "contiguous"}:
                return False
            operand = call.tensor
        return operand.id == name.id and self._is_same(operand, name)

    def _why_used(self, scores: Scores, last: ast.stmt) -> Reason | None:
        """Where scores or weights are read besides, but for checks of the sizes that they surely have."""
        for name, first in list(self.trail.names.items()):
            start, end = self.module.span(first), self.module.span(last)
            between = [each for each in self.module.suite(last) if start < self.module.span(each) < end]
            checks = {each: self._checked(each, name) for each in between}
            idle = [each for each, sizes in checks.items() if sizes is not None and sizes == self._sizes(scores)]
            self.trail.statements += idle
            passed = {*self.trail.reads, *(part for each in idle for part in walk(each))}
            for each in later_reads(self.module, first, last, name):
                is_before = each in walk(first) and not _is_update(first)
                if each not in passed and not is_before and not _reads_format(self.flow, self.module, each):
                    return self._used(each)
        return None

    def _checked(self, statement: ast.stmt, name: str) -> list[str] | None:
        """The sizes that a statement makes sure a tensor has, where it does nothing else."""
        match statement:
            case ast.Assert(ast.Compare(asked, [ast.Eq()], [ast.Tuple(told) | ast.List(told)])):
                pass
            case ast.If(ast.Compare(asked, [ast.NotEq()], [ast.Tuple(told) | ast.List(told)]), [ast.Raise()], []):
                pass
            case _:
                return None
        match asked:
            case ast.Call(function, [inner], []) if {each.name for each in self.flow.values(function)} <= _SEQUENCES:
                asked = inner
        match asked:
            case ast.Attribute(ast.Name(tensor), "shape") | ast.Call(ast.Attribute(ast.Name(tensor), "size"), [], []):
                return [unparsed(each) for each in told] if tensor == name else None
        return None

    def _sizes(self, scores: Scores) -> list[str] | None:
        """The sizes of scores and weights; None where they are not all known."""
        shapes = Shapes(self.flow)
        query, key = (shapes.of(self.module, each.node) for each in (scores.query, scores.key))
        if query is None or key is None or scores.query.suffix or len(query) != len(key) != 1:
            return None
        is_alike = scores.are_told or query[:-2] == key[:-2]
        found = [*query[:-1], key[-2 if scores.key.depth == -1 else -1]]
        is_known = is_alike and UNKNOWN not in found and (not scores.key.suffix or scores.key.depth == -_MATRIX)
        return found if is_known else None

    def _why_factors(self, attention: Attention) -> Reason | None:
        scores = attention.scores
        if scores.dimensions is not None and scores.dimensions < 3:  # noqa: PLR2004 - a batch of matrices
            text = "queries have no dimension for batches, and torch has no faster way for such"
            return Reason("nothing-to-gain", text)
        if not scores.is_turned and scores.dimensions is None:
            text = f"the keys are not seen to be transposed, nor how many dimensions they have ({HERE})"
            return Reason("other-attention", text, (at(self.module, scores.key.node),))
        return None

    def _masked(self, attention: Attention) -> Reason | None:
        """Notes whether the mask is that of causal attention; why masks are not those of the fused function."""
        for mask in attention.scores.masks:
            shape = Shapes(self.flow).of(self.module, mask.node)
            if shape is not None and len(shape) == 1:
                text = f"the mask has one dimension ({HERE}), and the fused function takes two or more:"
                return Reason("unknown-mask", text, (at(self.module, mask.node),), remedy="write mask[None]")
            found = triangle(self.flow, self.module, mask.node)
            halves = None if found is None else found[0]
            hidden = (False, True) if mask.is_filled_where_true else (True, False)
            is_triangle = halves == ((0.0, float("-inf")) if mask.filled_with is None else tuple(map(float, hidden)))
            lengths = self._lengths(attention.scores)
            is_square = lengths is not None and found is not None and found[1] in {WHOLE, lengths}
            attention.is_causal = is_triangle and is_square and mask.condition is None
            if mask.filled_with is None:
                continue
            lowest, infinite = is_lowest(self.flow, mask.filled_with)
            if not lowest:
                text = f"masked scores are not known to count for nothing ({HERE}):"
                where = (at(self.module, mask.filled_with),)
                return Reason("unknown-mask", text, where, remedy='fill them with float("-inf")')
            if not infinite and not (is_triangle and is_square):
                text = (
                    f"where all keys of a query are masked, scores of one finite number give the mean of all values"
                    f" ({HERE}), and the fused function zeros:"
                )
                where = (at(self.module, mask.filled_with),)
                return Reason("masked-rows", text, where, remedy='fill with float("-inf") if no query is masked so')
        return None

    def _lengths(self, scores: Scores) -> str | None:
        """The one number of queries and of keys; None where it is not known to be one."""
        shapes = Shapes(self.flow)
        query, key = (shapes.of(self.module, each.node) for each in (scores.query, scores.key))
        if query is None or key is None or scores.query.suffix or scores.key.suffix:
            return None
        known = len(query) == len(key) > 1 and query[-2] == key[-2] != UNKNOWN
        return query[-2] if known else None

    def _scales(self, scores: Scores) -> tuple[Scale, ...]:
        """The scales where they are not what the fused function takes by itself."""
        if not scores.scales:
            return (Scale(ast.Constant(1.0), divides=False),)
        return () if self._are_usual(scores) else tuple(scores.scales)

    def _are_usual(self, scores: Scores) -> bool:
        """Whether they make one divided by the root of the depth of queries and keys."""
        powers = [power(self.flow, self._defined(each.node)) for each in scores.scales]
        exponents = (-each if scale.divides else each for scale, (_, each) in zip(scores.scales, powers, strict=True))
        bases = {ast.dump(each): each for each, _ in powers}
        (base, *others) = bases.values()
        is_one = len(powers) == 1 or is_settled(self.module, base)
        if others or not is_one or sum(exponents) != _USUAL:
            return False
        depth = self._defined(base)
        tensor, index = _depth_of(depth)
        for operand in (scores.query, scores.key):
            if tensor is not None and ast.dump(tensor) == ast.dump(operand.node):
                is_depth = index == operand.depth or index == operand.depth + (scores.dimensions or 0)
                return is_depth and isinstance(tensor, ast.Name) and self._is_same(tensor, operand.node)
            shape = Shapes(self.flow).of(self.module, operand.node)
            size = shape[operand.depth] if shape is not None and len(shape) >= -operand.depth else UNKNOWN
            if size != UNKNOWN and size in {ast.unparse(base), ast.unparse(depth)}:
                return True
        return False

    def _defined(self, node: ast.expr) -> ast.expr:
        """What the one statement of the function gives a local name that a number has."""
        if not isinstance(node, ast.Name):
            return node
        function = self.module.function(node)
        stores = [each for each in self.module.stores.get(node.id, ()) if self.module.function(each) is function]
        statement = self.module.statement(stores[0]) if len(stores) == 1 else None
        is_plain = isinstance(statement, ast.Assign) and statement.targets == [stores[0]]
        return statement.value if is_plain and isinstance(statement, ast.Assign) else node

    def _is_same(self, one: ast.expr, other: ast.expr) -> bool:
        """Whether nothing binds a name between two places that read it."""
        if not isinstance(one, ast.Name):
            return False
        low, high = sorted((self.module.span(one)[0], self.module.span(other)[0]))
        function = self.module.function(one)
        stores = self.module.stores.get(one.id, ())
        return not any(
            low < self.module.span(each)[0] < high for each in stores if self.module.function(each) is function
        )


def _names(statement: ast.stmt) -> dict[str, list[ast.Name]]:
    found: dict[str, list[ast.Name]] = {}
    for each in walk(statement):
        if isinstance(each, ast.Name):
            found.setdefault(each.id, []).append(each)
    return found


def _depth_of(node: ast.expr) -> tuple[ast.expr | None, int | None]:
    """The tensor of ``q.size(-1)`` and ``q.shape[-1]``, and which dimension is asked for."""
    match node:
        case ast.Call(ast.Attribute(tensor, "size"), [index]) | ast.Subscript(ast.Attribute(tensor, "shape"), index):
            return tensor, whole_number(index)
    return None, None


def _is_update(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.AugAssign, ast.Expr, ast.If))


def _reads_format(flow: Flow, module: Module, name: ast.Name) -> bool:
    """Whether only the format of the scores is asked for, to fill with: ``torch.finfo(scores.dtype).min``."""
    above = module.parent(name)
    call = module.parent(above) if isinstance(above, ast.Attribute) and above.attr == "dtype" else None
    return isinstance(call, ast.Call) and {each.name for each in flow.values(call.func)} == {"torch.finfo"}
