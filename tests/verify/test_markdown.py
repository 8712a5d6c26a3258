"""The text for a pull request, exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotune_rewrite.report.markdown import as_markdown
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.statistics.measurement import Figures
from autotune_rewrite.verify.statistics.ratio import Ratio
from autotune_rewrite.verify.statistics.seeds import Summary

PASSED = Judgement(
    run="ok",
    speed="faster",
    equality="non-inferior",
    reason="Results differ no more than by luck.",
    promise="precision",
    iteration=Ratio(2.0, 1.9, 2.1),
    whole=Ratio(1.5, 1.25, 1.8),
    basis="whole",
    break_even=10.0,
    pairs=4,
    losses=96,
    environment={"torch": "2.9.0", "python": "3.12.1", "cpus": 2, "gpu": "NVIDIA <A100>"},
    not_measured=("loader-pin",),
    original=Figures(10.0, iteration_seconds=0.01),
    rewritten=Figures(5.0, iteration_seconds=0.005, exit_seconds=4.5),
    summary=Summary(0.0, 0.0, 0.001, 0.01, name="val_acc|top*5*", higher=True, original=0.97, rewritten=0.975),
    limits="Waiting for data takes 40 % of the time.",
)
CRASHED = Judgement(
    run="crashed",
    speed="not-checked",
    equality="not-checked",
    reason="The rewritten script ended with exit status 1.",
    promise="precision",
    side="rewritten",
    output=("Traceback (most recent call last):", "\x1b[31mValueError\x1b[0m: <b> | *no*"),
)


def test_a_pass_is_a_heading_figures_and_why() -> None:
    assert as_markdown(PASSED, Path("train_a.py"), "fast.py") == (
        """\
### The rewritten script is faster; it ends no worse than the original.

- whole run: 1.50 times as fast (1.25 to 1.80, 95 % interval)
- iteration: 2.00 times as fast (1.90 to 2.10, 95 % interval)
- the longer start is paid back after 10 iterations

|  | original: train\\_a.py | rewritten: fast.py |
| :-- | --: | --: |
| iteration | 10.0 ms | 5.00 ms |
| run (start) | 10.0 s | 5.00 s |
| end of the process | - | 4.50 s |
| val\\_acc\\|top\\*5\\* | 0.97 | 0.975 (margin 0.0100) |

Results differ no more than by luck.

Waiting for data takes 40 % of the time.

- Not measured here, because they cannot act on this device: loader-pin.

<sub>Seen: 4 pairs of runs with 96 losses each, promise precision, torch 2.9.0, Python 3.12.1, NVIDIA \\<A100\\>.</sub>"""
    )


def test_a_failure_folds_its_output_away() -> None:
    assert as_markdown(CRASHED, "a.py", "b.py") == (
        """\
### The rewritten script crashed: speed and results were **NOT CHECKED**.

original: a.py, rewritten: b.py

The rewritten script ended with exit status 1.

<details>
<summary>Its last lines</summary>

```text
Traceback (most recent call last):
ValueError: <b> | *no*
```

</details>

<sub>torch ?, Python ?, ? CPU cores</sub>"""
    )


def test_output_cannot_end_its_block() -> None:
    lines = as_markdown(replace(CRASHED, output=("```", "</details>", "`````` six")), "a.py", "b.py").splitlines()
    start = lines.index("```````text")
    assert lines[start + 1 : start + 5] == ["```", "</details>", "`````` six", "```````"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        pytest.param("a*b_c", r"a\*b\_c", id="emphasis"),
        pytest.param("`code` ~no~", r"\`code\` \~no\~", id="code and strikes"),
        pytest.param("[a](b) #1 $x$", r"\[a\](b) \#1 \$x\$", id="links, issues and formulas"),
        pytest.param("<script> &amp; |", r"\<script\> \&amp; \|", id="HTML and cells"),
        pytest.param("C:\\data", "C:\\\\data", id="the backslash itself"),
        pytest.param("two\nlines", "two lines", id="lines"),
    ],
)
def test_what_markdown_would_take_is_escaped(text: str, escaped: str) -> None:
    assert f"\n\n{escaped}\n\n" in as_markdown(replace(PASSED, reason=text), "a.py", "b.py")


def test_what_was_not_checked_is_said_loudly() -> None:
    heading = as_markdown(replace(PASSED, equality="not-checked"), "a.py", "b.py").splitlines()[0]
    assert heading == "### The rewritten script is faster; it was **NOT CHECKED** for equal results."
