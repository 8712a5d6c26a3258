"""Metrics, found by themselves in what a script prints and gives to TensorBoard, or by a regular expression."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autotune_rewrite.verify.records import Run


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


HIGHER = _set(
    "acc accuracy accuracies top auc auroc auprc f1 precision recall sensitivity specificity dice iou miou map mrr "
    "ndcg bleu rouge meteor cider chrf psnr ssim r2 score reward rewards return returns elbo hits correct pixacc mcc "
    "kappa likelihood spearman pearson em ap hit jaccard measure win wins success sharpe metric"
)
"""Words of names of which more is better; without the digits of ``top5`` or ``map50``."""
LOSS = _set("loss losses nll kl kld ce bce mse rmse mae mape bpc bpd ppl perplexity energy residual")
"""Less is better, and it may be what is trained on."""
LOWER = LOSS | _set("error errors err errs wer cer fid lpips eer misclassified")
EVALUATION = _set("val valid validation test testing eval evaluation dev holdout heldout")
TRAINING = _set("train training tr trn")
COUNTS = _set(
    "epoch epochs ep iter iters iteration iterations step steps batch batches it i idx index image images sample "
    "samples example examples token tokens sentence sentences episode episodes frame frames game games round fold "
    "trial seed rank worker workers size length count total num number n param params parameter parameters percent "
    "progress complete completed done version"
)
"""A number after one of these, or before it, says where the script is, or how much there is of something."""
COUNTERS = _set("epoch ep iter iteration step batch it i idx index")
OTHER = _set(
    "time times elapsed eta duration sec secs second seconds s ms us min mins minutes h hour hours speed throughput "
    "fps lr rate scale weight weights coef coefficient lambda alpha beta gamma momentum decay dropout threshold "
    "memory mem gpu cpu vram mb gb mib gib norm patience date code target smoothing temperature bits took wall clock "
    "runtime latency overhead timestamp pid port rss ram bytes flops tflops mfu utilization util qps ips tps"
)
"""A number with one of these in its name is no metric, whatever else the name says: a time, a rate, a setting."""
WRAPPERS = _set("tensor item float np numpy array device cuda grad_fn is was")
"""What stands between a name and its number without being part of the name."""
ARTICLES = _set("of on the a an at in for and after")
KNOWN = HIGHER | LOWER | EVALUATION | TRAINING | COUNTS | OTHER
BEST = re.compile(r"\b(?:best|new|improv\w*|record|sav\w*|reduc\w*|decreas\w*|increas\w*)\b", re.IGNORECASE)
"""Lines that are printed only if a value asks for it, or that repeat the best of what stands elsewhere."""
FLOOD = 200_000
"""Characters of output; of less, all was kept."""
LONGEST_LINE = 1000
"""Characters; what is longer is data, not a message."""

_DIGITS = r"(?:\d+(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NOT_FINITE = r"(?:nan|inf(?:inity)?)\b"
_NO_MESSAGE = re.compile(r"^Namespace\(|Warning: ")
"""Settings, and what Python itself prints."""
_VALUE = re.compile(rf"[-+]?(?:{_DIGITS}|\b{_NOT_FINITE})", re.IGNORECASE)
_TOKEN = re.compile(
    rf"""
    (?P<time>\d{{1,4}}[-/]\d{{1,2}}[-/]\d{{1,4}} | \d+:\d\d(?::\d\d)?(?:[.,]\d+)?)
    | (?P<fraction>(?<![\w.@])\d+\s*/\s*\d+(?![\w.]))
    | (?P<number>(?:(?<![\w.@)\]])[-+])?(?<![\w.@])(?:{_DIGITS}|{_NOT_FINITE}))
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""A number of its own: not the digits of ``top5``, ``acc@1`` or ``v2.0``; a hyphen after a word is no sign."""
_UNIT = re.compile(
    r"\s*(?:(?:ms|us|µs|ns|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|[kmg]i?b|k?j|joules?|k?wh?|[a-z]+/(?:s|sec|second|it|iter))"
    r"(?![\w]))",
    re.IGNORECASE,
)
_NOUNS = re.compile(
    r"\s+(?:[a-z]+\s+){0,2}(?:images|samples|examples|sentences|batches|tokens|steps|epochs|iterations|frames|episodes)\b",
    re.IGNORECASE,
)
"""A whole number before one of these says how many there are."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BAR = re.compile(r"\d+%\|[^|]*\|")
"""What tqdm draws."""
_PACE = re.compile(r"\[[\d:?]+<[\d:?]+,?\s*(?:[\d.?]+\s*\S+?/\S+?(?=[,\]]))?")
_COUNTER = re.compile(r"\b(epoch|ep|iter|iteration|step|batch)[_-]?(?=\d)", re.IGNORECASE)
_RANK = re.compile(r"\b(top)[- ](?=\d)", re.IGNORECASE)
_RANGE = re.compile(r"@\[[^]]*\]")
_SOURCE = re.compile(
    r"[\w./<>-]+\.py(?:\W{1,3}(?:line )?\d+)?|\bline \d+|\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR)\b\W{1,4}\w+:\d+"
)
"""A place in the source, with which messages of a log begin: a rewrite moves lines."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]")
_LABEL = re.compile(r"^.*\[[A-Za-z]+\]")
"""Such as the level of a message."""
_SEPARATOR = re.compile("[,;|\t]|\\s-\\s|->|\N{EM DASH}|\N{EN DASH}")


@dataclass(frozen=True, slots=True)
class Series:
    """The values that one name had in the course of a run."""

    name: str
    """The words before the number, or a tag of TensorBoard."""
    values: tuple[float, ...]
    higher: bool | None
    """Whether higher is better; None: the name does not say, and nothing is judged by it."""
    source: str = "output"
    """``output``; ``progress`` for a line that is overwritten as time allows; ``TensorBoard``; ``asked`` by a regex."""
    form: str = ""
    """The line up to the number, with ``#`` for the numbers in it."""
    conditional: bool = False
    """Whether it is of a line that is printed only now and then, such as for a new best."""
    whole: bool = False
    """Whether it is printed in whole numbers that are no percentages."""

    @property
    def final(self) -> float:
        """What the run ends with."""
        return self.values[-1]

    @property
    def counted(self) -> bool:
        """Whether the number of values is the script's choice, and not that of the clock or of luck."""
        return self.source in ("output", "TensorBoard") and not self.conditional

    @property
    def of_training_loss(self) -> bool:
        """Whether it is a loss that is not said to be of validation or test."""
        words = _words(self.name)
        return self.higher is False and bool(words & LOSS) and not words & EVALUATION

    @property
    def compared(self) -> bool:
        """Whether another value is another result: of every name but those of times, settings and the like."""
        return self.source != "progress" and (self.higher is not None or OTHER.isdisjoint(_words(self.name)))

    @property
    def matters(self) -> bool:
        """Whether a script that no longer has it does something else."""
        return self.higher is not None or self.source == "TensorBoard"

    @property
    def _preference(self) -> tuple[int, bool, bool, int, bool]:
        words = _words(self.name)
        stage = 0 if words & EVALUATION else 2 if words & TRAINING else 1
        # TensorBoard has all digits.
        return stage, bool(words & LOSS), self.conditional, -len(self.values), self.source != "TensorBoard"


def check_pattern(regex: str) -> str | None:
    """Why a text is no regular expression, as a message; None where it is one."""
    try:
        re.compile(regex)
    except (re.error, RecursionError, OverflowError) as error:
        return f"the metric {regex!r} is no regular expression: {error}"
    return None


def direction(name: str) -> bool | None:
    """Whether more of what has this name is better; None where the name does not say.

    Args:
        name: Such as ``val_acc``, ``Test set: Average loss`` or ``Loss/train``.
    """
    words = _in_order(re.sub(r"(?i)(?<=err|ror|ess|win)[\s_]rate", "", name))  # of errors, of success: a metric
    if not OTHER.isdisjoint(words):
        return None
    for word in reversed(words):
        if word in LOWER or word.endswith("loss"):
            return False
        if word in HIGHER or word.endswith(("acc", "accuracy", "iou")):
            return True
    return None


def of_run(run: Run) -> tuple[Series, ...]:
    """All series of a run: of TensorBoard and of its output, in the order in which they begin."""
    return (*_of_scalars(tuple((scalar.tag, scalar.value) for scalar in run.scalars)), *_of_lines(run.lines))


def asked(run: Run, regex: str, higher: bool | None = None) -> Series | str:  # noqa: FBT001 - as Plan.higher has it
    """The series that a regular expression finds in a run's output.

    Args:
        run: Its lines are searched.
        regex: Its first group, or the first number after the match, is the value.
        higher: Whether higher is better; None: the match says so.

    Returns:
        The series, or in a sentence why there is none.
    """
    problem = check_pattern(regex)
    if problem is not None:
        return f"{problem[0].upper()}{problem[1:]}."
    pattern = re.compile(regex)
    values: list[float] = []
    name = problem = ""
    for line in _split(run.lines):
        match = pattern.search(line)
        if match is None:
            continue
        group = next((at for at in range(1, pattern.groups + 1) if match.group(at) is not None), 0)
        text = match.group(group) if group else line[match.end() :]
        value = _asked_number(text, alone=bool(group))
        if value is None:
            what = f"its group is {text!r}, which is no number" if group else "no number follows it"
            problem = f"The metric {regex!r} was found in {line.strip()!r}, but {what}."
            continue
        name = name or _cleaned(line[match.start() : match.start(group)] if group else match.group())
        values.append(value)
    if not values:
        return problem or f"The metric {regex!r} was not found in the output of the {run.side} script."
    if higher is None:
        higher = direction(name) if direction(name) is not None else direction(regex)
    if higher is None:
        return f"Whether a higher {name or regex!r} is better, its name does not say: --higher or --lower does."
    return Series(name or regex, tuple(values), higher, "asked", regex)


def chosen(run: Run) -> Series | None:
    """The one series to judge by, from the original's first run alone; None where no name says what is better.

    Of validation or test if there is one; a true metric before a loss; the longest. A loss of training is none: what is
    printed of it is one batch, or a mean that the recorded losses have, too.
    """
    known = [
        series
        for series in of_run(run)
        if series.higher is not None and not _may_be_a_setting(series) and not (run.losses and series.of_training_loss)
    ]
    return min(known, key=lambda series: series._preference, default=None)  # noqa: SLF001 - of this module


def same_in(run: Run, wanted: Series) -> Series | None:
    """The series of another run that is the same metric: by its line, else by its name."""
    if wanted.source == "asked":
        found = asked(run, wanted.form, wanted.higher)
        return None if isinstance(found, str) else found
    named = [each for each in of_run(run) if each.name == wanted.name and each.source == wanted.source]
    return next((each for each in named if each.form == wanted.form), max(named, key=_length, default=None))


def flooded(run: Run) -> bool:
    """Whether it printed so much that the middle was not kept: then nothing is known of how many lines there were."""
    return sum(len(line) + 1 for line in run.lines) > FLOOD


def differing(one: Run, other: Run) -> tuple[str, ...]:
    """The metrics of one run whose values are not the same in the other, whatever their names.

    Lines that are overwritten as time allows are left out, and of a flood of lines the last values count.
    """
    last = -1 if flooded(one) or flooded(other) else 0
    sides: list[dict[tuple[str, str], list[float]]] = [{}, {}]
    for side, run in zip(sides, (one, other), strict=True):
        for each in of_run(run):
            if each.compared:
                values = each.values[last:] if each.source == "output" else each.values
                side.setdefault((each.name, each.source), []).extend(values)
    # As text, in which not-a-number is itself.
    return tuple(dict.fromkeys(key[0] for key in sides[0] if repr(sides[0][key]) != repr(sides[1].get(key))))


def _length(series: Series) -> int:
    return len(series.values)


def _may_be_a_setting(series: Series) -> bool:
    """``precision 16`` is printed once, as a whole number."""
    return len(series.values) == 1 and series.source == "output" and series.whole


@lru_cache(maxsize=64)
def _of_scalars(scalars: tuple[tuple[str, float], ...]) -> tuple[Series, ...]:
    values: dict[str, list[float]] = {}
    for tag, value in scalars:
        values.setdefault(tag, []).append(value)
    return tuple(Series(tag, tuple(each), direction(tag), "TensorBoard", tag) for tag, each in values.items())


@lru_cache(maxsize=64)
def _of_lines(lines: tuple[str, ...]) -> tuple[Series, ...]:
    """Judging asks for the series of a run many times."""
    values: dict[tuple[str, str, str, bool], list[tuple[float, bool]]] = {}
    for line in _split(lines):
        source = "progress" if _BAR.search(line) else "output"
        conditional = BEST.search(line) is not None
        for name, form, value, whole in _numbers(line):
            values.setdefault((name, source, form, conditional), []).append((value, whole))
    return tuple(
        Series(
            name,
            tuple(value for value, _ in each),
            direction(name),
            source,
            form,
            conditional,
            whole=all(whole for _, whole in each),
        )
        for (name, source, form, conditional), each in values.items()
    )


def _split(lines: Sequence[str]) -> Iterator[str]:
    """Each state of a line that is overwritten, without colours."""
    warned = False
    for line in lines:
        # Python shows the line of source that it warns of, indented, below the warning.
        source_of_warning, warned = warned and line.startswith("  "), "Warning: " in line
        for part in re.split(r"[\r\n]", "" if source_of_warning else line):
            if part.strip() and len(part) <= LONGEST_LINE and not _NO_MESSAGE.search(part):
                yield _ANSI.sub("", part)


def _numbers(line: str) -> Iterator[tuple[str, str, float, bool]]:
    """The named numbers of a line: name, the line up to the number in general form, value, and whether it is whole.

    Counters, times and numbers without a name are passed over; where nothing but punctuation follows a counter, the
    words before it name the next number (``Accuracy on 10000 test images: 97 %``, ``loss at step 100: 0.3``).
    """
    for pattern, text in ((_BAR, " "), (_PACE, " "), (_RANGE, ""), (_SOURCE, " "), (_COUNTER, r"\1 "), (_RANK, r"\1")):
        line = pattern.sub(text, line)
    start = 0
    before = form = stage = ""
    for token in _TOKEN.finditer(line):
        text = line[start : token.start()]
        unit = _UNIT.match(line, token.end())
        start = unit.end() if unit else token.end()
        form = re.sub(r"\s+", " ", f"{form}{text.strip()}#")
        words = _in_order(text)
        stage = next((each for each in reversed(words) if each in EVALUATION | TRAINING), stage)
        whole = token.group().lstrip("+-").isdigit() and line[token.end() :].lstrip()[:1] != "%"
        if token.lastgroup == "time" or unit:
            before = ""  # what was named is a time
            continue
        if before and (not words or _NOUNS.match(text)):
            text = f"{before}{text}"  # it goes on with what was counted, if with anything
        elif (words and words[-1] in COUNTS and not _is_index(words)) or (whole and _NOUNS.match(line, token.end())):
            before = f"{text} " if _names_metric(words) else ""
            continue
        before = ""
        name = _name(text, stage) or _name_behind(line[token.end() :])
        value = _value(token)
        if name and value is not None:
            yield name, form, value, whole


def _names_metric(words: Sequence[str]) -> bool:
    """Whether a metric is named by any of the words, although a counter may come after it."""
    return any(word in HIGHER or word in LOWER or word.endswith(("loss", "acc")) for word in words)


def _is_index(words: Sequence[str]) -> bool:
    """Whether they end as ``Jaccard index`` does, which counts nothing."""
    return len(words) > 1 and words[-1] == "index" and words[-2] in HIGHER


@lru_cache(maxsize=4096)
def _name(text: str, stage: str) -> str:
    """The name that ends a text, with the stage that was named before on the line."""
    last = _SEPARATOR.split(text)[-1]
    name = _cleaned(_LABEL.sub("", last)) or _cleaned(last)
    return f"{stage} {name}" if name and stage and stage not in _in_order(name) else name


def _name_behind(text: str) -> str:
    """The metric that a number is followed by, as in ``71 correct``; empty where there is none."""
    word = re.match(r"\s+([A-Za-z]+)", text)
    return word.group(1) if word and direction(word.group(1)) is not None else ""


def _value(token: re.Match[str]) -> float | None:
    """Of a number, or of a fraction; None for one of nothing."""
    if token.lastgroup != "fraction":
        return _number(token.group())
    part, whole = (float(each) for each in token.group().split("/"))
    return part / whole if whole else None


def _cleaned(text: str) -> str:
    """The words of a name as the script writes them, without punctuation around them, counters and fillers."""
    words = re.findall(r"[^\s:=\[\]{}()'\",;|<>*#/]+(?:/[^\s:=\[\]{}()'\",;|<>*#/]+)*", text)
    kept = [word.strip("-.!~") for word in words]
    kept = [word for word in kept if re.search("[A-Za-z]", word) and word.lower() not in WRAPPERS]
    if any(word.lower() not in COUNTERS for word in kept):
        kept = [word for word in kept if word.lower() not in COUNTERS]
    while kept and kept[-1].lower() in ARTICLES:
        kept.pop()
    while kept and kept[0].lower() in ARTICLES:
        kept.pop(0)
    return " ".join(kept)


@lru_cache(maxsize=4096)
def _in_order(name: str) -> tuple[str, ...]:
    """The words of a name in lower case: ``valAcc``, ``val_acc`` and ``Val Acc@1`` are val and acc."""
    words: list[str] = []
    for chunk in re.findall(r"[A-Za-z]+\d*", name):
        plain = chunk.lower() if chunk.lower() in KNOWN else chunk.rstrip("0123456789")
        words.extend([plain.lower()] if plain.lower() in KNOWN else [part.lower() for part in _WORD.findall(plain)])
    return tuple(word for word in words if word not in WRAPPERS and word not in ARTICLES)


def _words(name: str) -> set[str]:
    return set(_in_order(name))


def _asked_number(text: str, *, alone: bool) -> float | None:
    """The first number of a text, or the one that is all of it; None where there is none."""
    found = _VALUE.fullmatch(text.strip().rstrip("%").rstrip()) if alone else _VALUE.search(text)
    return None if found is None else _number(found.group())


def _number(text: str) -> float:
    return float(text.replace(",", ""))
