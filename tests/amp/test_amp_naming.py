"""What ``scaler``, ``amp_dtype`` and ``use_amp`` are called at each place, and which lines set them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from iteration import HEAD, looped, script

from codemods.amp.naming import NEW_SCALER, OLD_SCALER, Names, Wording, min_of_scaler
from codemods.amp.reasons import LeftError
from codemods.amp.scaler_scope import Homes
from codemods.dataflow.source import Module
from codemods.editing.values import AddArgument, AddParameter, Insert
from codemods.facts.devices.conditions import Conditions
from codemods.facts.reach import Reach
from codemods.facts.script import Script
from codemods.facts.target import Target

if TYPE_CHECKING:
    from codemods.codemod import AmpForm

TRAINING = looped("loss = model(x).mean()", "loss.backward()", "optimizer.step()")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", Names("scaler", "use_amp", "amp_dtype"), id="all are free"),
        pytest.param("scaler = 1\n", Names("grad_scaler", "use_amp", "amp_dtype"), id="a variable"),
        pytest.param("import a as use_amp\n", Names("scaler", "amp_enabled", "amp_dtype"), id="an import"),
        pytest.param("def f(amp_dtype):\n    pass\n", Names("scaler", "use_amp", "autocast_dtype"), id="a parameter"),
        pytest.param("def scaler():\n    pass\n", Names("grad_scaler", "use_amp", "amp_dtype"), id="a function"),
        pytest.param("class scaler:\n    pass\n", Names("grad_scaler", "use_amp", "amp_dtype"), id="a class"),
        pytest.param("f(scaler=1)\n", Names("grad_scaler", "use_amp", "amp_dtype"), id="an argument"),
        pytest.param("f.scaler\n", Names("grad_scaler", "use_amp", "amp_dtype"), id="an attribute"),
    ],
)
def test_names_that_nothing_has(text: str, expected: Names) -> None:
    assert Names.free(script(text)) == expected


def test_no_name_is_left() -> None:
    with pytest.raises(LeftError) as left:
        Names.free(script("scaler = grad_scaler = 1\n"))

    assert (left.value.reason.code, left.value.reason.text) == ("no-name", "the name scaler is taken")


@pytest.mark.parametrize(("known", "expected"), [((2, 2), OLD_SCALER), ((2, 3), NEW_SCALER), (None, NEW_SCALER)])
def test_the_scaler_s_name_depends_on_torch(known: tuple[int, int] | None, expected: tuple[int, int]) -> None:
    assert min_of_scaler(Script.of(Module("train.py", "import torch\n"), target=Target(known))) == expected


def written(
    text: str, form: AmpForm = "auto", *, has_scaler: bool = True, only_wide: bool = False, head: str = HEAD
) -> tuple[list[str], str]:
    """The lines that are inserted for the first loss of the script, and the header of its block."""
    known = script(text, head)
    reach = Reach(known.flow)
    steps = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func).endswith(".step")]
    optimizers = [each.func.value for each in steps if isinstance(each.func, ast.Attribute)]
    uses = [known.module.statement(each) for each in steps]
    home = Homes(known, reach).find(optimizers, uses) if has_scaler else None
    (place,) = [each for each in known.module.nodes(ast.Assign) if ast.unparse(each).startswith("loss =")]
    wording = Wording(
        known, form, Names.free(known), Conditions.of_script(known), home, [place], [], reach, only_wide=only_wide
    )
    wording.write()
    header = wording.block(place)
    lines: list[str] = []
    for edit in wording.edits:
        match edit:
            case Insert(code=code):
                lines += code.split("\n")
            case AddArgument(name=name, value=value):
                lines.append(f"…, {name}={value})")
            case AddParameter(name=name):
                lines.append(f"def …, {name}):")
    return lines, header


BFLOAT = "torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16"


def test_the_gpu_chooses_the_format() -> None:
    lines, header = written(TRAINING)

    assert lines == [
        f"amp_dtype = {BFLOAT}",
        'scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype is torch.float16)',
    ]
    assert header == 'with torch.autocast("cuda", dtype=amp_dtype):'


def test_fp16_has_a_scaler_that_is_always_there() -> None:
    lines, header = written(TRAINING, "fp16")

    assert lines == ['scaler = torch.amp.GradScaler("cuda")']
    assert header == 'with torch.autocast("cuda", dtype=torch.float16):'


def test_bf16_needs_no_line() -> None:
    assert written(TRAINING, "bf16", has_scaler=False) == ([], 'with torch.autocast("cuda", dtype=torch.bfloat16):')


def test_bf16_alone_asks_for_a_gpu_that_has_it() -> None:
    lines, header = written(TRAINING, "bf16", has_scaler=False, only_wide=True)

    assert lines == ["use_amp = torch.cuda.get_device_capability()[0] >= 8"]
    assert header == 'with torch.autocast("cuda", dtype=torch.bfloat16, enabled=use_amp):'


def test_where_cuda_is_a_condition_all_ask_for_it() -> None:
    head = HEAD.replace(".cuda()", ".to(device)").replace(
        "\nmodel", '\ndevice = "cuda" if torch.cuda.is_available() else "cpu"\nmodel'
    )
    lines, header = written(TRAINING.replace(".cuda()", ".to(device)"), head=head)

    assert lines == [
        'use_amp = device == "cuda"',
        "amp_dtype = torch.bfloat16 if use_amp and torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16",
        'scaler = torch.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)',
    ]
    assert header == 'with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):'


def test_a_function_that_is_given_the_optimizer_takes_the_scaler_too() -> None:
    text = (
        "def train(opt):\n    for x in torch.randn(6, 16, 8).cuda():\n        loss = model(x).mean()\n"
        "        loss.backward()\n        opt.step()\n\n\ntrain(optimizer)\n"
    )
    lines, header = written(text)

    assert lines[-2:] == ["def …, scaler):", "…, scaler=scaler)"]
    assert header == 'with torch.autocast("cuda", dtype=amp_dtype):'


def test_a_method_writes_attributes() -> None:
    text = """\
class Trainer:
    def __init__(self):
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(self):
        for x in torch.randn(6, 16, 8).cuda():
            loss = model(x).mean()
            loss.backward()
            self.optimizer.step()


Trainer().train()
"""
    lines, header = written(text)

    assert lines == [
        f"self.amp_dtype = {BFLOAT}",
        'self.scaler = torch.amp.GradScaler("cuda", enabled=self.amp_dtype is torch.float16)',
    ]
    assert header == 'with torch.autocast("cuda", dtype=self.amp_dtype):'


def test_before_torch_2_3_the_scaler_has_its_old_name() -> None:
    module = script(TRAINING).module
    known = Script.of(module, target=Target((2, 2)))
    reach = Reach(known.flow)
    (step,) = [each for each in known.module.nodes(ast.Call) if ast.unparse(each) == "optimizer.step()"]
    assert isinstance(step.func, ast.Attribute)
    home = Homes(known, reach).find([step.func.value], [known.module.statement(step)])
    wording = Wording(known, "fp16", Names.free(known), Conditions.of_script(known), home, [], [], reach)
    wording.write()

    assert [each.code for each in wording.edits if isinstance(each, Insert)] == ["scaler = torch.cuda.amp.GradScaler()"]
