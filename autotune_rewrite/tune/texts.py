"""Where the texts of a rewrite lie while it is run: in files of their own, as the user's stay; and who runs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.rewriting.batch import Changes
    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import Run


class Verify(Protocol):
    """How plans are carried out: runs what there is to run and tells of it."""

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        """Carry out a plan.

        Args:
            plan: What to run.
            probe: Whether it is only run to find out which change fails, and is not the answer to the user.

        Returns:
            What can be said, and the runs as they ended.
        """


def written(changes: Changes, original: Path, directory: Path) -> tuple[Path, tuple[tuple[Path, Path], ...]]:
    """Writes the script, changed or not, and the modules that were changed.

    Args:
        changes: What became of the files of the script's project, its own among them.
        original: The script.
        directory: Is made for the texts.

    Returns:
        The file with the script's text, and the user's other files, each with the file that has its text.
    """
    directory.mkdir()
    script: Path | None = None
    modules: list[tuple[Path, Path]] = []
    for number, done in enumerate(changes.dones):
        own = Path(done.source.path)
        text = done.source.encode(done.rewrite.after)
        if own.resolve() == original.resolve():
            script = directory / own.name
            script.write_bytes(text)
        elif done in changes.changed:
            place = directory / f"module-{number}.py"
            place.write_bytes(text)
            modules.append((own, place))
    assert script is not None  # noqa: S101 - the script is one of the files
    return script, tuple(modules)
