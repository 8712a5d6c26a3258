"""What a codemod declares about itself, and the findings it yields."""

from __future__ import annotations

import enum
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from codemods.editing import problems
from codemods.facts.reason import HERE, Reason, Words
from codemods.facts.target import OLDER

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.reason import Said
    from codemods.facts.script import Script
    from codemods.facts.target import Target, Version


class Promise(enum.IntEnum):
    """How far the results of the rewritten script may be from the original's, from close to far."""

    BITWISE = 0
    """The same losses and parameters, bit for bit."""
    RANDOM = 1
    """The same distribution, other random draws or another order."""
    PRECISION = 2
    """Another rounding or number format."""
    TRAINING = 3
    """Another training trajectory."""

    def __str__(self) -> str:
        return self.name.lower()


class Default(enum.Enum):
    """When a codemod runs without being named."""

    ON = "on"
    OPT_IN = "opt-in"
    ADVICE = "advice"
    """It runs, and changes nothing: it only tells users what they may want to change themselves."""

    def __str__(self) -> str:
        return self.value


class Phase(enum.Enum):
    """A part of a training iteration; ``EVALUATION`` alone lies between iterations."""

    DATA = "waiting for data"
    """In ``DataLoader``: workers start, items are read, transformed and collated."""
    COPIES = "copies to the device"
    FORWARD = "forward and loss"
    BACKWARD = "backward"
    ACCUMULATION = "adding to gradients"
    """The part of ``BACKWARD`` that adds to gradients, which are there already."""
    ZEROING = "zeroing gradients"
    OPTIMIZER = "optimizer"
    WAITING = "waiting for the device"
    """The host wants a value: ``.item()``, ``.cpu()``, ``print``."""
    OTHER = "other code"
    EVALUATION = "evaluation"
    """Passes through loaders without a backward."""

    def __str__(self) -> str:
        return self.value


AmpForm = Literal["auto", "bf16", "fp16"]
"""A form of mixed precision: ``auto`` lets the GPU decide when the script runs; the other two are plainer."""

CompileMode = Literal["default", "reduce-overhead"]
"""A mode of ``torch.compile``: the other one launches what is compiled as CUDA graphs."""


UNMEASURED = "unmeasured"
"""The gain of a rule of which no figure has a source."""

_WHATEVER_TORCH = frozenset(
    {
        OLDER,
        "done-already",
        "framework",
        "never-pays-back",
        "no-cuda",
        "nothing-to-gain",
        "other-accelerator",
        "read-once",
    }
)
"""The codes of reasons that no other torch takes away; ``OLDER`` names what it needs itself."""

Need = Literal["", "cuda", "bf16"]
"""What a change needs to act: nothing but to be there, a CUDA device, or one that has bf16 (capability 8.0)."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What users choose about how rules rewrite."""

    workers: int = 4
    """The worker processes that a loader is given where the script has no option for them."""
    prefetch: int = 2
    """The batches that each worker has ahead; 2 is PyTorch's own number, which is not written."""
    workers_are_given: bool = True
    """Whether ``loader-workers`` runs: else no loader is given workers, whatever is done for those that have some."""
    batches_are_pinned: bool = True
    """Whether ``loader-pin`` runs: else only the loaders pin their batches that do so already."""
    models_are_compiled: bool = True
    """Whether ``compile`` runs: else nothing makes room for it."""
    main_guard: bool = True
    """Whether code may go under ``if __name__ == "__main__":``; loaders that need it have forked workers else."""
    amp: AmpForm = "auto"
    compile_mode: CompileMode = "default"
    weighed: frozenset[str] = frozenset()
    """The rules that act only where the sum says that they may pay: those that nobody selected by name."""


class Rewrites(NamedTuple):
    """An example that the codemod changes, exactly so."""

    before: str
    after: str
    target: Version | None = None
    """The torch version the script is known to run on, if any."""


class Leaves(NamedTuple):
    """An example that the codemod leaves, and the reason it reports."""

    code: str
    because: str
    target: Version | None = None


class Advises(NamedTuple):
    """An example of which the codemod says something, and changes nothing."""

    code: str
    says: str
    target: Version | None = None


class Clash(NamedTuple):
    """Where another rule rewrites a site of the script, a finding would be wrong, and is left."""

    rule: str
    because: Reason
    harmless: Need = ""
    """What those changes of that rule need that do no harm."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One site of one rule: it is rewritten by ``edits``, or left because of ``because``, or users are given advice."""

    rule: str
    module: Module
    node: ast.AST
    why: Words
    """Why the site is slow, or what users may do about that; unused where it is left."""
    promise: Promise
    gain: str = ""
    edits: tuple[Edit, ...] = ()
    fails: bool = True
    """Whether ``torchfast check`` exits with 1 because of it; always false where there are no edits."""
    after: str = ""
    """The rule that this finding builds on: where it leaves the same node, this one leaves it, too."""
    unless: str = ""
    """The rule beside which this finding brings nothing: where it leaves no site of the script, this one is left."""
    only_with: str = ""
    """The rule without which this finding brings nothing: where it rewrites no site of the script, this one is left."""
    clash: Clash | None = None
    """The changes of another rule beside which this finding would be wrong."""
    redraws: bool = False
    """Whether the rewritten code draws other random numbers, which a farther promise does not say."""
    because: Reason | None = None
    """Why the site is left."""
    since: Version = (0, 0)
    """The first torch that runs the rewritten code."""
    until: Version | None = None
    """The first torch on which there is nothing to say of the site, as far as the script's target does not tell."""
    needs: Need = ""
    """Where there is none of it, the rewritten code does what the original does, and nothing is to be measured."""

    @property
    def waits(self) -> bool:
        """Whether it depends on what another rule does to the script, wherever that is."""
        return bool(self.unless or self.only_with or self.clash)

    @property
    def words(self) -> Words:
        """Why the site is slow, or why it is left."""
        return self.why if self.because is None else self.because.words

    @property
    def said(self) -> Said:
        """The same for who reads the module."""
        return self.words.said(self.module)

    @property
    def message(self) -> str:
        """The text of that."""
        return self.said.text

    @property
    def rewrites(self) -> bool:
        """Whether the site is rewritten."""
        return bool(self.edits)

    @property
    def advises(self) -> bool:
        """Whether users are told what they may do themselves."""
        return not self.edits and self.because is None


class Codemod(ABC):
    """One rule. The docstring is its page: a first line, then the headings of ``HEADINGS``."""

    HEADINGS: ClassVar[tuple[str, ...]] = ("Why it is faster", "When it is left", "Results", "References")

    promise: ClassVar[Promise]
    """The farthest promise of any of its findings."""
    default: ClassVar[Default] = Default.ON
    gain: ClassVar[str]
    """What it typically brings, with the device it was seen on; ``UNMEASURED`` where nobody has looked."""
    gain_sources: ClassVar[tuple[str, ...]] = ()
    """Where the figures of ``gain`` stand: addresses of public documents, or ``FILE#PART`` of this repository."""
    min_torch: ClassVar[Version] = (0, 4)
    """The first torch that runs the rewritten code in its plainest form; a finding in another form names its own."""
    oldest_torch: ClassVar[Version | None] = None
    """The first torch of which it has something to say; ``min_torch``, unless other forms are for older ones."""
    examples: ClassVar[tuple[Rewrites | Leaves | Advises, ...]]
    needs_cuda: ClassVar[bool]
    """Whether its changes act only where there is a CUDA device, unless a finding says what it needs itself."""
    phases: ClassVar[frozenset[Phase]]
    """Where its changes save time: at most as much as these parts of an iteration take in all; none of them where they
    save memory alone."""
    causes: ClassVar[frozenset[str]]
    """The codes of the reasons for which it leaves sites, but for those of ``causes.OF_ALL``."""
    failures: ClassVar[tuple[str, ...]] = ()
    """Regular expressions over a crashed script's stderr that point to this rule."""
    tolerance: ClassVar[float] = 1e-5
    """How far its changes may move the first loss, relative to its size: by another order of sums, unless said."""

    def __init__(self, choices: Choices | None = None) -> None:
        """A rule that follows the user's choices, or the choices of one who made none."""
        self.choices = Choices() if choices is None else choices

    @classmethod
    @cache
    def name(cls) -> str:
        """The rule's name: ``LoaderPin`` → ``loader-pin``, ``H2dNonBlocking`` → ``h2d-non-blocking``."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    @property
    def is_weighed(self) -> bool:
        """Whether sites are left where the change cannot pay, by the sum: not if the user selected the rule by name."""
        return self.name() in self.choices.weighed

    @abstractmethod
    def find(self, script: Script) -> Iterator[Finding]:
        """Every site of the rule in the script, rewritten or left."""

    def sites(self, script: Script) -> Iterator[Finding]:
        """What ``find`` finds in code that runs; of a script that fails before any change one site, which says so."""
        failure = script.fails_today
        found = (each for each in self.find(script) if script.runs(each.module, each.node))
        if failure is None:
            yield from (self._with_torch(script.target, each) for each in found)
        elif (site := next(found, None)) is not None:
            node = failure.node or site.node
            remedy = f"fix first: {failure.because}"
            is_there = [(each.module, each.nodes) for each in failure.places] == [(script.module, (node,))]
            where = "" if is_there else f" ({' and '.join([HERE] * len(failure.places))})"
            what = "the script" if failure.node is not None else "each script that imports it"
            text = f"{what} fails before any change{where};"
            because = Reason("fails-today", text, () if is_there else failure.places, remedy=remedy)
            yield self.left(script.module, node, because)

    def _with_torch(self, target: Target, finding: Finding) -> Finding:
        """The finding, for the reason that torch is too old where that alone decides, whatever else is in the way."""
        oldest = self.min_torch if self.oldest_torch is None else self.oldest_torch
        if finding.because is None or target.allows(oldest) or finding.because.code in _WHATEVER_TORCH:
            return finding
        return self.left(finding.module, finding.node, target.why_too_old(oldest))

    def rewrites(  # noqa: PLR0913 - a finding has these parts; a builder object would only rename them
        self,
        module: Module,
        node: ast.AST,
        message: str | Words,
        *edits: Edit,
        promise: Promise | None = None,
        gain: str | None = None,
        fails: bool = True,
        after: str = "",
        unless: str = "",
        only_with: str = "",
        clash: Clash | None = None,
        redraws: bool = False,
        since: Version | None = None,
        needs: Need | None = None,
    ) -> Finding:
        """A finding that rewrites the site, or leaves it where an edit cannot be carried out there."""
        for edit in edits:
            problem = problems.problem(edit)
            if problem is not None:
                return self.left(module, node, problem)
        promise = self.promise if promise is None else promise
        gain = self.gain if gain is None else gain
        why = Words(message) if isinstance(message, str) else message
        since = self.min_torch if since is None else since
        if needs is None:
            needs = "cuda" if self.needs_cuda else ""
        name = self.name()
        return Finding(
            *(name, module, node, why, promise, gain, edits, fails),
            after=after,
            unless=unless,
            only_with=only_with,
            clash=clash,
            redraws=redraws,
            since=since,
            needs=needs,
        )

    def advice(self, module: Module, node: ast.AST, message: str | Words, *, only_with: str = "") -> Finding:
        """A finding that changes nothing, and says what users may do themselves.

        Args:
            module: Where it is.
            node: The site.
            message: Why the site is slow, and what helps.
            only_with: The rule without which that would bring nothing: where it rewrites no site, nothing is said.
        """
        why = Words(message) if isinstance(message, str) else message
        name = self.name()
        return Finding(name, module, node, why, self.promise, self.gain, fails=False, only_with=only_with)

    def left(self, module: Module, node: ast.AST, because: Reason) -> Finding:
        """A finding that leaves the site, with the reason."""
        return Finding(self.name(), module, node, Words(""), self.promise, fails=False, because=because)
