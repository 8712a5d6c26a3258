"""The rules as LibCST commands.

``python -m libcst.tool codemod --no-format -x codemods.commands.LoaderPinCommand train.py`` runs one. A command changes
what its rule finds in one file, whatever the level and the suppression comments; ``torchfast`` heeds both.
"""

from __future__ import annotations

import inspect
from abc import ABC
from typing import TYPE_CHECKING, ClassVar

import libcst as cst
from libcst.codemod import CodemodCommand, SkipFile

from codemods.catalogue import RULES
from codemods.dataflow.source import Module
from codemods.editing import conflicts
from codemods.editing.apply import NotEditableError, apply
from codemods.facts.script import Script

if TYPE_CHECKING:
    from codemods.codemod import Codemod


class RuleCommand(CodemodCommand, ABC):  # a direct child of ABC is not listed by ``libcst.tool list``
    """Runs one rule over one file."""

    rule: ClassVar[type[Codemod]]

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """The file with the rule's findings rewritten.

        Raises:
            SkipFile: the file does not mention torch, or cannot be read.
        """
        if "torch" not in tree.code:
            msg = "it does not mention torch"
            raise SkipFile(msg)
        bom = "\ufeff" if tree.code.startswith("\ufeff") else ""
        try:
            module = Module(self.context.filename or "<stdin>", tree.code.removeprefix(bom))
            accepted = conflicts.Accepted()
            for finding in self.rule().sites(Script.of(module)):
                # What reaches into other files cannot be done half.
                if all(edit.module is module for edit in finding.edits):
                    accepted.add(finding.edits)
            text = apply(module, accepted.edits)
        except (SyntaxError, ValueError, RecursionError, MemoryError, NotEditableError) as error:
            raise SkipFile(str(error)) from error
        return cst.parse_module(bom + text).with_changes(encoding=tree.encoding)


def command(rule: type[Codemod]) -> type[RuleCommand]:
    """The LibCST command of a rule: ``LoaderPin`` → ``LoaderPinCommand``."""
    page = inspect.getdoc(rule) or ""
    members = {"__module__": __name__, "__doc__": page, "DESCRIPTION": page.partition("\n")[0], "rule": rule}
    return type(f"{rule.__name__}Command", (RuleCommand,), members)


globals().update({f"{rule.__name__}Command": command(rule) for rule in RULES.values()})
