"""What ``vocab-pad`` says, and where advice is told: not in a rewrite, and never as a failure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.report.entries import entries
from autotune_rewrite.report.jsons import as_json
from autotune_rewrite.report.statistics import counts, lines
from autotune_rewrite.report.summary import summary
from autotune_rewrite.report.text import findings
from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Advises, Default, Promise
from codemods.rules.vocab_pad import VocabPad

if TYPE_CHECKING:
    from autotune_rewrite.rewriting.results import Rewrite

(EXAMPLE,) = VocabPad.examples
assert isinstance(EXAMPLE, Advises)
CODE, SAYS = EXAMPLE.code, EXAMPLE.says
IN_32_BITS = """\
for tokens in torch.randint(50257, (100, 16, 128)).cuda():
    logits = model(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    loss.backward()
"""


def run(text: str, *rules: str, check: bool = True, level: Promise = Promise.PRECISION) -> Rewrite:
    return rewrite("train.py", text, Settings(frozenset(rules or ("vocab-pad",)), level), check=check)


def in_32_bits(text: str = CODE) -> str:
    head, loop, _ = text.partition("for tokens")
    assert loop
    return f"{head}optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n" + IN_32_BITS.replace(
        "    loss.backward()\n", "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    )


def test_what_is_said() -> None:
    (site,) = run(CODE).sites

    assert (site.message, site.line, site.advises, site.mark) == (SAYS, 9, True, "advice")
    assert (site.rewrites, site.fails, site.code) == (False, False, "")


SILENT = {
    "a multiple of 64": CODE.replace("50257", "50304"),
    "a multiple of 8": CODE.replace("50257", "50264"),
    "few words": CODE.replace("50257", "101"),
    "no CUDA": CODE.replace(".cuda()", "").replace('"cuda"', '"cpu"'),
    "no words that are embedded": CODE.replace("nn.Embedding(50257", "nn.Embedding(512"),
    "a size that is not known": CODE.replace("(50257, 768)", "(len(open('w').read()), 768)"),
    "no training": CODE.replace("    loss.backward()\n", ""),
    "double precision": CODE.replace("import nn\n", "import nn\n\ntorch.set_default_dtype(torch.float64)\n"),
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_nothing_is_said_of(code: str) -> None:
    assert run(code).sites == ()


def test_in_32_bits_it_is_said_where_amp_writes_16() -> None:
    both = run(in_32_bits(), "amp", "vocab-pad")

    assert {site.rule: site.mark for site in both.sites} == {"vocab-pad": "advice", "amp": "precision"}
    assert run(in_32_bits()).sites == ()
    assert [site.rule for site in run(in_32_bits(), "amp", "vocab-pad", level=Promise.BITWISE).sites] == ["amp"]


def test_a_rewrite_is_silent_and_changes_nothing() -> None:
    result = run(CODE, check=False)

    assert (result.sites, result.after, result.rules, result.promise) == ((), CODE, frozenset(), None)


def test_a_comment_leaves_it_alone() -> None:
    ignored = CODE.replace("bias=False)", "bias=False)  # torchfast: ignore[vocab-pad] checkpoints")

    for check in (True, False):
        result = run(ignored, check=check)
        assert [site.code for site in result.sites] == ["ignored"]
        assert result.unused == ()


def test_it_is_told_apart_and_fails_no_check() -> None:
    result = run(CODE)

    assert not result.fails
    assert [line.text for line in findings(result, check=True, quiet=False)] == [
        f"train.py:9:21 vocab-pad  advice: {SAYS}  {VocabPad.gain}"
    ]
    assert list(findings(result, check=True, quiet=True)) == []
    assert summary([result], check=True) == "no changes; 1 advised"
    assert counts([result]) == [{"rule": "vocab-pad", "rewrites": 0, "left": 0, "advice": 1}]
    assert list(lines([result]))[1] == "      0     0  vocab-pad (1 advised)"


def test_programs_are_told_its_status() -> None:
    result = run(CODE)
    (found,) = as_json([result], [], diffs=False, fixes=True)["findings"]
    (entry,) = entries([result])

    assert json.loads(json.dumps(found)).items() >= {"status": "advice", "fails": False, "fix": [], "code": ""}.items()
    assert entry.message == f"{SAYS} [advice]"


def test_it_is_on_and_changes_what_is_trained() -> None:
    assert (VocabPad.default, VocabPad.promise) == (Default.ADVICE, Promise.TRAINING)
