"""``rewrite --interactive``: each change is asked for, as ``git add --patch`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from autotune_rewrite.cli.findings import print_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune_rewrite.rewriting.results import Site

_HELP = """\
y: make this change
n: leave it
a: make it and all others
q: leave it and all others; what was wanted before is made
"""


class Asking:
    """Asks until the user answers for all that is left."""

    def __init__(self) -> None:
        """Nothing was answered yet."""
        self._for_all: bool | None = None

    def __call__(self, path: str, site: Site, texts: Callable[[], tuple[str, str]]) -> bool:
        """Whether a change is wanted.

        Args:
            path: The file.
            site: What is changed.
            texts: Finds the text of the program now, and with this change alone.

        Raises:
            click.Abort: when there is no answer any more.
        """
        from autotune_rewrite.report import text
        from autotune_rewrite.rewriting.results import Rewrite

        if self._for_all is not None:
            return self._for_all
        print_lines(text.diff(Rewrite(path, *texts()), whole=False))
        click.echo(f"{site.rule}  {site.message}  [{site.promise}]")
        answer = ""
        while answer not in {"y", "n", "a", "q"}:
            answer = click.prompt("Make this change? [y,n,a,q,?]", prompt_suffix=" ").strip().lower()
            if answer == "?":
                click.echo(_HELP, nl=False)
        if answer in {"a", "q"}:
            self._for_all = answer == "a"
        return answer in {"y", "a"}
