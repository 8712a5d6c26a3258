"""What looks into a script's run."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.training.debugging import blocking, diagnostics
from codemods.library.diagnostics import Diagnosis

HEAD = "import os\nimport torch\n"
KINDS = {
    "anomaly detection": ("torch.autograd.set_detect_anomaly(True)", Diagnosis.ANOMALY),
    "a block of it": ("with torch.autograd.detect_anomaly():\n    pass", Diagnosis.ANOMALY),
    "a profiler": ("with torch.profiler.profile():\n    pass", Diagnosis.PROFILE),
    "marks": ("with torch.autograd.profiler.emit_nvtx():\n    pass", Diagnosis.MARKS),
    "the history of memory": ("torch.cuda.memory._record_memory_history()", Diagnosis.HISTORY),
    "a comparison in a loop": ("while True:\n    torch.autograd.gradcheck(print, ())", Diagnosis.COMPARISON),
}


@pytest.mark.parametrize(("code", "kind"), KINDS.values(), ids=KINDS)
def test_what_there_is(code: str, kind: Diagnosis) -> None:
    assert [each.kind for each in diagnostics(script(HEAD + code + "\n"))] == [kind]


def test_a_block_of_several_is_not_that_of_one() -> None:
    code = "with torch.autograd.detect_anomaly(), open('log'):\n    pass\nwith torch.autograd.detect_anomaly():\n    pass\n"

    assert [each.block is None for each in diagnostics(script(HEAD + code))] == [True, False]


def test_a_profiler_that_another_file_imports_is_used() -> None:
    text = HEAD + "import other\nwith torch.profiler.profile() as prof:\n    pass\n"

    assert len(list(diagnostics(script(text, other="import train\n")))) == 1
    assert list(diagnostics(script(text, other="import train\nprint(train.prof)\n"))) == []


def test_the_variable_is_set_by_an_option_that_is_off() -> None:
    option = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--debug', action='store_true')\n"
        "args = parser.parse_args()\n"
    )
    setting = "os.environ['CUDA_LAUNCH_BLOCKING'] = '1'\n"

    assert [each.why_needed for each in blocking(script(HEAD + setting))] == [None]
    assert not list(blocking(script(f"{HEAD}{option}if args.debug:\n    {setting}")))
