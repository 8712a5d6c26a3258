"""What every fact uses: the record of what was seen, torch's answers that are exceptions, clocks, and sizes."""

from __future__ import annotations

import math
import statistics
import sys
import time
import traceback
import warnings
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIMULATED = "__torchfast_simulated__"
"""The name under which the simulated device is loaded, as the verifier's harness loads it."""
SIMULATION = Path(__file__).parents[3] / "autotune_rewrite" / "verify" / "child" / "simulated" / "__init__.py"
LONGEST = 480
"""Characters of an exception's text: torch appends stacks of C++ to some."""
UNEXPECTED = (
    *(RuntimeError, TypeError, ValueError, AttributeError, LookupError),
    *(AssertionError, ImportError, OSError, SyntaxError),
)
"""What torch raises where something does not work, and where an interface is not the one that was expected."""
Size = TypeVar("Size")


def simulate(capability: str) -> None:
    """Puts the simulated CUDA device into this process; before this, nothing may have changed what it patches.

    Args:
        capability: Of the device, as "9.0".
    """
    spec: Any = spec_from_file_location(SIMULATED, SIMULATION)
    module: Any = module_from_spec(spec)
    sys.modules[SIMULATED] = module
    spec.loader.exec_module(module)
    module.install(capability)
    import_module("torch").set_num_threads(1)  # of small tensors; more threads would only wait for each other


def is_simulated() -> bool:
    """Whether the CUDA device of this process is the simulated one."""
    return SIMULATED in sys.modules


def sized(on_cuda: Size, simulated: Size) -> Size:
    """A size, or a number of repetitions, by the device."""
    return simulated if is_simulated() else on_cuda


class Seen(dict[str, Any]):
    """What a fact has seen, by name; and beside it what could not be seen here, and what failed unexpectedly."""

    after_part: Callable[[Seen], object] | None = None
    """Is called after each part: a process that the driver ends would otherwise take all with it."""

    def __init__(self) -> None:
        super().__init__()
        self.not_here: dict[str, str] = {}
        self.failed: dict[str, Any] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part of the question. Where it fails, the other parts are still asked: a GPU is at hand only rarely.

        What fails is reported, and the process that asked ends with an error. An exception that is the answer itself
        does not come this far: ``answer`` has it.
        """
        try:
            yield
        except UNEXPECTED as error:
            traceback.print_exc()
            at = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
            self.failed[name] = {**raised(error), "at": at[-8:]}
        if Seen.after_part is not None:
            Seen.after_part(self)

    def on_cuda(self, name: str, reason: str) -> bool:
        """Whether the device is a real one; if not, what cannot be seen is written down with the reason."""
        if is_simulated():
            self.not_here[name] = reason
        return not is_simulated()

    def times_on_cuda(self, name: str) -> bool:
        """As ``on_cuda``, for what is measured."""
        return self.on_cuda(name, "times of the simulated device are those of the CPU")

    def report(self) -> dict[str, Any]:
        """All of it as plain values."""
        extra = {"not_here": self.not_here, "failed": self.failed}
        seen: dict[str, Any] = plain({**self, **{name: value for name, value in extra.items() if value}})
        return seen


def plain(value: object) -> Any:
    """The value as JSON can hold it. Of a tensor that is its type and shape, of what is unknown its text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in value]
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        shape = list(getattr(value, "shape", ()))
        return f"{type_name(dtype)} {shape}"
    return str(value).removeprefix("torch.")


def type_name(dtype: object) -> str:
    """The name of a tensor's type of numbers, as "bfloat16"."""
    return str(dtype).removeprefix("torch.")


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text on one line, without stacks of C++, and with its middle left out where it is long."""
    line = " ".join(text.partition("Exception raised from")[0].split())
    return line if len(line) <= longest else f"{line[: longest // 2]} … {line[-longest // 2 :]}"


def raised(error: BaseException) -> dict[str, str]:
    """An exception as plain values."""
    return {"raises": type(error).__name__, "text": shortened(str(error))}


def answer(call: Callable[[], object], *errors: type[Exception]) -> dict[str, Any]:
    """What a call returns, or the exception that it raises as its answer.

    Args:
        call: Asks torch.
        errors: The types of exception that are an answer; by default ``RuntimeError``.
    """
    expected = errors or (RuntimeError,)
    try:
        return {"returns": plain(call())}
    except expected as error:
        return raised(error)


def warned(call: Callable[[], object]) -> list[str]:
    """The texts of the warnings that a call gives, each once and in order."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return list(dict.fromkeys(shortened(str(one.message)) for one in caught))


@contextmanager
def deterministic() -> Iterator[None]:
    """Deterministic algorithms alone, until the end of the block."""
    use: Any = import_module("torch").use_deterministic_algorithms
    use(mode=True)
    try:
        yield
    finally:
        use(mode=False)


def backward(loss: Any) -> None:
    """``loss.backward()``, which torch gives no types."""
    loss.backward()


def cuda() -> Any:
    """``torch.cuda``, imported when it is first asked for: the list of facts does without torch."""
    return import_module("torch").cuda


def device_ms(call: Callable[[], object], *, warm_up: int = 3, repeats: int = 7, inner: int = 1) -> float:
    """Milliseconds of a call on the device, by CUDA events: the median of several, after others to warm up.

    Args:
        call: What is timed. Where the host is slower than the device, its time is what the device waits for.
        warm_up: Calls before.
        repeats: Of which the median is taken.
        inner: Calls in each.
    """
    device = cuda()
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(repeats):
        start, end = device.Event(enable_timing=True), device.Event(enable_timing=True)
        device.synchronize()
        start.record()
        for _ in range(inner):
            call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / inner)
    return rounded(statistics.median(times))


def host_ms(
    call: Callable[[], object], *, warm_up: int = 2, repeats: int = 5, inner: int = 1, wait: bool = True
) -> float:
    """Milliseconds of a call on the host's clock: the median of several, after others to warm up.

    Args:
        call: What is timed, from an idle device on.
        warm_up: Calls before.
        repeats: Of which the median is taken.
        inner: Calls in each.
        wait: Whether the device's work belongs to it; otherwise only the time until the call returns.
    """
    device = cuda()
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(repeats):
        device.synchronize()
        start = time.perf_counter()
        for _ in range(inner):
            call()
        if wait:
            device.synchronize()
        times.append(1000 * (time.perf_counter() - start) / inner)
    device.synchronize()
    return rounded(statistics.median(times))


def once_seconds(call: Callable[[], object]) -> float:
    """Seconds of one call and of the device's work for it."""
    device = cuda()
    device.synchronize()
    start = time.perf_counter()
    call()
    device.synchronize()
    return rounded(time.perf_counter() - start)


def rounded(value: float, digits: int = 4) -> float:
    """The value with so many significant digits."""
    return float(f"{value:.{digits}g}")
