"""The options of ``check`` that choose among findings: what is new, and what a change touches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.cli.faults import as_fault
from autotune_rewrite.cli.findings import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from autotune_rewrite.checking.baseline import Baseline
    from autotune_rewrite.rewriting.results import Rewrite


class Narrowing:
    """Leaves out what is known, or what no change touches; says what was measured of the rest."""

    def __init__(self, baseline: str | None, diff_base: str | None) -> None:
        """What was asked for.

        Raises:
            Fault: when the baseline cannot be read.
        """
        self._path = baseline
        self._baseline = None if baseline is None else _read(baseline)
        self._revision = diff_base
        self._apart = ""

    def __call__(self, rewrite: Rewrite) -> Rewrite:
        """The same with fewer findings.

        Raises:
            Fault: when git cannot say what was changed, or what was measured cannot be read.
        """
        from autotune_rewrite.checking.evidence import with_measured

        with as_fault():
            rewrite = with_measured(rewrite)
        if self._revision is not None:
            from autotune_rewrite.checking.touched import only_touched
            from autotune_rewrite.project.git import why_apart

            with as_fault():
                rewrite = only_touched(rewrite, self._revision)
            if rewrite.sites:
                self._apart = self._apart or why_apart(rewrite.path, self._revision)
        return rewrite if self._baseline is None else self._baseline.without_known(rewrite)

    def end(self, *, quiet: bool) -> None:
        """Say what lines were compared with, what the baseline left out, and whether it is out of date."""
        if self._apart and not quiet:
            say(f"note: {self._apart}; lines count as changed that differ from those of {self._revision} itself")
        if self._baseline is not None and not quiet:
            self._say_what_is_known(self._baseline)

    def _say_what_is_known(self, baseline: Baseline) -> None:
        from autotune_rewrite.report.summary import counted

        left_out, gone = baseline.left_out, baseline.gone
        if left_out:
            say(f"note: {self._path} knows {counted(left_out, 'finding')}")
        if gone:
            say(f"note: {counted(gone, 'finding')} of {self._path} {'is' if gone == 1 else 'are'} not there any more")


def write_baseline(path: str, rewrites: Iterable[Rewrite]) -> None:
    """Write what was found, and say so.

    Raises:
        Fault: when the file cannot be written.
    """
    from autotune_rewrite.checking import baseline
    from autotune_rewrite.report.summary import counted

    with as_fault():
        number = baseline.write(Path(path), rewrites)
    say(f"{path}: {counted(number, 'finding')} written")


def _read(path: str) -> Baseline:
    from autotune_rewrite.checking.baseline import Baseline

    with as_fault():
        return Baseline(Path(path))
