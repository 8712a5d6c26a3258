"""Which calls and imports of a module lead to what stands elsewhere."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from probe import script

from codemods.facts.leads import frames, runs, sites_here

if TYPE_CHECKING:
    from codemods.facts.script import Script


def call(known: Script, name: str) -> ast.Call:
    """The call of that name, in whichever module."""
    calls = (each for module in known.modules for each in module.nodes(ast.Call))
    return next(each for each in calls if ast.unparse(each.func) == name)


def here(text: str, name: str, **others: str) -> list[str]:
    """What in the script leads to the call."""
    known = script(text, **others)
    return [ast.unparse(each) for each in sites_here(known, call(known, name))]


def test_a_site_of_the_module_leads_to_itself() -> None:
    assert here("def main():\n    build()\nmain()\n", "build") == ["build()"]


def test_calls_lead_to_a_function_of_another_module() -> None:
    other = "def make():\n    return build()\ndef both():\n    return make()\n"

    assert here("import nets\nnets.both()\nnets.make()\n", "build", nets=other) == ["nets.make()", "nets.both()"]


def test_an_import_leads_to_the_top_of_another_module() -> None:
    assert here("import os\nfrom nets import net\n", "build", nets="net = build()\n") == ["from nets import net"]


def test_an_import_leads_to_a_module_of_a_package() -> None:
    assert here("from zoo import nets\n", "build", zoo="", zoo__nets="net = build()\n") == ["from zoo import nets"]


def test_no_import_leads_to_what_runs_only_with_the_module_itself() -> None:
    assert here("import nets\n", "build", nets='if __name__ == "__main__":\n    build()\n') == []


def test_nothing_leads_to_a_function_that_nothing_calls() -> None:
    assert here("import nets\n", "build", nets="def make():\n    return build()\n") == []


def outwards(text: str) -> list[int]:
    """The lines of the statements from the call of ``build`` outwards."""
    known = script(text)
    return [each.lineno for each in frames(known, call(known, "build"))]


def test_statements_from_a_site_outwards() -> None:
    assert outwards("def inner():\n    build()\ndef main():\n    inner()\nmain()\n") == [2, 4, 5]


def test_outwards_ends_where_a_function_is_called_twice() -> None:
    assert outwards("def main():\n    build()\nmain()\nmain()\n") == [2]


def test_outwards_ends_in_a_function_that_calls_itself() -> None:
    assert outwards("def main():\n    build()\n    main()\n") == [2, 3]


def test_what_runs_with_the_script() -> None:
    known = script("def main():\n    build()\ndef unused():\n    other()\nmain()\n")

    assert runs(known, call(known, "build"))
    assert not runs(known, call(known, "other"))
