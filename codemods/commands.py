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

from codemods.dataflow.source import Module
from codemods.editing import conflicts
from codemods.editing.apply import NotEditableError, apply
from codemods.facts.script import Script
from codemods.rules.amp import Amp
from codemods.rules.as_tensor import AsTensor
from codemods.rules.compile import Compile
from codemods.rules.cudnn_benchmark import CudnnBenchmark
from codemods.rules.fused_optimizer import FusedOptimizer
from codemods.rules.h2d_non_blocking import H2dNonBlocking
from codemods.rules.loader_persistent import LoaderPersistent
from codemods.rules.loader_pin import LoaderPin
from codemods.rules.loader_workers import LoaderWorkers
from codemods.rules.no_grad_eval import NoGradEval
from codemods.rules.tf32_matmul import Tf32Matmul
from codemods.rules.zero_grad_none import ZeroGradNone

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


AmpCommand = command(Amp)
AsTensorCommand = command(AsTensor)
CompileCommand = command(Compile)
CudnnBenchmarkCommand = command(CudnnBenchmark)
FusedOptimizerCommand = command(FusedOptimizer)
H2dNonBlockingCommand = command(H2dNonBlocking)
LoaderPersistentCommand = command(LoaderPersistent)
LoaderPinCommand = command(LoaderPin)
LoaderWorkersCommand = command(LoaderWorkers)
NoGradEvalCommand = command(NoGradEval)
Tf32MatmulCommand = command(Tf32Matmul)
ZeroGradNoneCommand = command(ZeroGradNone)
