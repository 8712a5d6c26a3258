"""Does the script choose its number formats itself?"""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.presence import (
    is_part_of_apex,
    mixed_precision_by_default,
    mixed_precision_on_request,
    mixed_precision_present,
    other_precision,
    other_precision_by_default,
)

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 4)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("with torch.autocast('cuda'):\n    pass", True, id="autocast"),
        pytest.param("scaler = torch.cuda.amp.GradScaler()", True, id="a scaler"),
        pytest.param(
            "from torch.amp import autocast as cast\nwith cast('cuda'):\n    pass", True, id="by another name"
        ),
        pytest.param("from apex import amp\namp.initialize(model)", True, id="apex"),
        pytest.param(
            "from apex.optimizers import FusedAdam\nFusedAdam(model.parameters())", True, id="an optimizer of apex"
        ),
        pytest.param("from apex.normalization import *", True, id="all of a module of apex"),
        pytest.param("from apex import amp", False, id="an import that nothing uses"),
        pytest.param(
            "from apex import amp, parallel\nmodel = parallel.convert_syncbn_model(model)",
            True,
            id="batch norms of apex in any case",
        ),
        pytest.param(
            "import argparse\nimport apex\nparser = argparse.ArgumentParser()\n"
            "parser.add_argument('--sync', action='store_true')\nargs = parser.parse_args()\n"
            "if args.sync:\n    model = apex.parallel.convert_syncbn_model(model)",
            False,
            id="batch norms of apex on request",
        ),
        pytest.param(
            "import argparse\nimport apex\nparser = argparse.ArgumentParser()\n"
            "parser.add_argument('--sync', action='store_true')\nargs = parser.parse_args()\n"
            "if args.sync:\n    optimizer = apex.optimizers.FusedAdam(optimizer)",
            True,
            id="an optimizer of apex on request",
        ),
        pytest.param("with torch.autocast('cuda', enabled=False):\n    pass", False, id="what stays in 32 bits"),
        pytest.param("with torch.autocast('cuda', enabled=args.amp):\n    pass", True, id="by a switch"),
        pytest.param("model(x)", False, id="nothing"),
    ],
)
def test_what_uses_mixed_precision_already(text: str, *, expected: bool) -> None:
    assert (mixed_precision_present(script(HEAD + text)) is not None) is expected


OPTIONS = """\
import argparse
import contextlib
parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
parser.add_argument("--no_amp", action="store_true")
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("with torch.autocast('cuda'):\n    pass", True, id="always"),
        pytest.param("with torch.autocast('cuda', enabled=args.amp):\n    pass", False, id="by a switch that is off"),
        pytest.param("with torch.autocast('cuda', enabled=chosen()):\n    pass", True, id="by a switch, perhaps"),
        pytest.param(
            "cast = torch.autocast('cuda', enabled=args.amp)\nwith cast:\n    pass", False, id="kept under a name"
        ),
        pytest.param("if args.amp:\n    with torch.autocast('cuda'):\n        pass", False, id="under an option"),
        pytest.param("if not args.no_amp:\n    torch.autocast('cuda')", True, id="under an option that takes it away"),
        pytest.param("if not args.amp:\n    pass\nelse:\n    torch.autocast('cuda')", False, id="in the other branch"),
        pytest.param(
            "cast = torch.autocast('cuda') if args.amp else contextlib.nullcontext()", False, id="in an expression"
        ),
        pytest.param(
            "def train():\n    with torch.autocast('cuda'):\n        pass\nif args.amp:\n    train()",
            False,
            id="in a function that is called under it",
        ),
        pytest.param(
            "def train():\n    with torch.autocast('cuda'):\n        pass\nif args.amp:\n    train()\ntrain()",
            True,
            id="in one that is called without it, too",
        ),
        pytest.param("if args.amp:\n    torch.autocast('cuda')\ntorch.autocast('cuda')", True, id="in two places"),
        pytest.param("scaler = torch.amp.GradScaler()\nscaler.update()", False, id="a scaler alone"),
        pytest.param(
            "def step(scaler=None):\n    with torch.autocast('cuda', enabled=scaler is not None):\n        pass\n"
            "step(scaler=torch.amp.GradScaler() if args.amp else None)",
            False,
            id="where there is a scaler, which an option makes that is off",
        ),
        pytest.param(
            "scaler = None if args.no_amp else torch.amp.GradScaler()\n"
            "torch.autocast('cuda', enabled=scaler is not None)",
            True,
            id="where there is a scaler, which an option takes away",
        ),
        pytest.param(
            "from scalers import scaler\ntorch.autocast('cuda', enabled=scaler is not None)",
            True,
            id="where there is a scaler, perhaps",
        ),
        pytest.param(
            "class Config:\n    amp: bool = False\nconfig = Config()\ntorch.autocast('cuda', enabled=config.amp)",
            True,
            id="by a setting, which a file may fill",
        ),
        pytest.param(
            "use_amp = not args.no_amp\nif True:\n    torch.autocast('cuda', enabled=use_amp)",
            True,
            id="by the opposite of an option, which has a name",
        ),
        pytest.param(
            "def main():\n    used = None\n    if args.amp:\n        used = 'native'\n    cast = contextlib.suppress\n"
            "    if used == 'native':\n        cast = torch.autocast\n    with cast():\n        pass\nmain()",
            False,
            id="by a name that an option fills in",
        ),
        pytest.param(
            "def main():\n    cast = contextlib.suppress\n    if cuda():\n        cast = torch.autocast\n"
            "    with cast():\n        pass\nmain()",
            True,
            id="by a name that the machine fills in",
        ),
        pytest.param("from apex import amp\nif args.amp:\n    amp.initialize(model)", False, id="apex"),
        pytest.param("from apex.parallel.LARC import LARC\nLARC(1)", False, id="an optimizer of apex"),
    ],
)
def test_what_uses_mixed_precision_where_the_user_gives_no_options(text: str, *, expected: bool) -> None:
    assert (mixed_precision_by_default(script(OPTIONS + HEAD + text)) is not None) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("model.half()", "manual half precision", id="always"),
        pytest.param("if args.amp:\n    model.half()", None, id="under an option that is off"),
        pytest.param("if args.amp:\n    model.half()\nmodel.double()", "float64 model", id="another one always"),
        pytest.param("model.to(torch.half)", "manual half precision", id="by to()"),
        pytest.param("model.to(torch.half if args.amp else torch.float)", None, id="32 bits among others"),
    ],
)
def test_number_formats_where_the_user_gives_no_options(text: str, expected: str | None) -> None:
    found = other_precision_by_default(script(OPTIONS + HEAD + text))

    assert (None if found is None else found[1]) == expected


def test_mixed_precision_of_another_module_is_found_there() -> None:
    present = mixed_precision_present(
        script("import steps\n", steps="import torch\nwith torch.autocast('cuda'):\n    pass\n")
    )

    assert present is not None
    assert present[0].path == "steps.py"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("model.half()", "manual half precision", id="a model in 16 bits"),
        pytest.param("x.bfloat16()", "manual half precision", id="a tensor in 16 bits"),
        pytest.param("model.double()", "float64 model", id="a model in 64 bits"),
        pytest.param("x.double()", None, id="a tensor in 64 bits"),
        pytest.param("model.float()", None, id="a model in 32 bits"),
        pytest.param("torch.set_default_dtype(torch.float64)", "float64 model", id="all in 64 bits"),
        pytest.param(
            "torch.set_default_tensor_type('torch.DoubleTensor')", "float64 model", id="all in 64 bits of old"
        ),
        pytest.param("torch.set_default_dtype(torch.float32)", None, id="all in 32 bits"),
        pytest.param("model.to(torch.float16)", "manual half precision", id="a model that is moved to 16 bits"),
        pytest.param("model.to('cuda', torch.bfloat16)", "manual half precision", id="to a device and 16 bits"),
        pytest.param("model.to('cuda', dtype=torch.double)", "float64 model", id="to a device and 64 bits"),
        pytest.param("model.type(torch.cuda.DoubleTensor)", "float64 model", id="to the type of a tensor"),
        pytest.param("model.to(dtype=torch.float32 if small else torch.half)", "manual half precision", id="perhaps"),
        pytest.param(
            "model.to('cuda', dtype=read())", "a model in a number format that is not known", id="to what is not known"
        ),
        pytest.param("model.to(read())", None, id="to what may be a device"),
        pytest.param("model.to('cuda', dtype=torch.float32)", None, id="to a device in 32 bits"),
        pytest.param("model.to('cuda', dtype=None)", None, id="to no format"),
        pytest.param("x.to(torch.float64)", None, id="a tensor that is moved to 64 bits"),
        pytest.param("nn.Linear(3, 4, dtype=torch.float64)", "float64 model", id="a layer that is made in 64 bits"),
        pytest.param("torch.zeros(3, dtype=torch.float64)", None, id="a tensor that is made in 64 bits"),
    ],
)
def test_what_chooses_another_format(text: str, expected: str | None) -> None:
    other = other_precision(script(HEAD + text))

    assert (None if other is None else other[1]) == expected
    assert other is None or ast.unparse(other[0]) == text


@pytest.mark.parametrize(
    ("given", "is_other"),
    [
        pytest.param("", False, id="nothing is said"),
        pytest.param(", torch_dtype=torch.float32", False, id="in 32 bits"),
        pytest.param(", torch_dtype=None", False, id="in the format by default"),
        pytest.param(", torch_dtype=torch.float16", True, id="in 16 bits"),
        pytest.param(", dtype=torch.bfloat16", True, id="in 16 bits, by the newer name"),
        pytest.param(", torch_dtype='auto'", True, id="as the file has them"),
        pytest.param(", torch_dtype=torch.float16 if half else torch.float32", True, id="in 16 bits perhaps"),
        pytest.param(", load_in_8bit=True", True, id="quantized"),
        pytest.param(", load_in_4bit=False", False, id="not quantized"),
        pytest.param(", quantization_config=config", True, id="quantized as a configuration says"),
        pytest.param(", **{'cache_dir': 'x'}", False, id="a dictionary without a format"),
        pytest.param(", **{'dtype': torch.float16}", True, id="a dictionary with a format"),
        pytest.param(", **read('options.json')", True, id="a dictionary that is not known"),
    ],
)
@pytest.mark.parametrize("class_", ["Own", "transformers.BertModel"])
def test_the_format_in_which_weights_are_loaded(class_: str, given: str, *, is_other: bool) -> None:
    own = (
        "import transformers\n\n\nclass Own(transformers.BertPreTrainedModel):\n    def __init__(self, config):\n"
        "        super().__init__(config)\n\n\n"
    )
    loaded = f"{class_}.from_pretrained('bert'{given})"

    found = other_precision(script(HEAD + own + f"net = {loaded}\n"))

    assert (found is not None and found[1] == "weights loaded in another number format") is is_other


@pytest.mark.parametrize(("format_", "is_other"), [("torch.float64", True), ("torch.float32", False)])
def test_the_default_format_may_be_named(format_: str, *, is_other: bool) -> None:
    found = other_precision(script(HEAD + f"kind = {format_}\ntorch.set_default_dtype(kind)\n"))

    assert (found is not None) is is_other


def test_a_tokenizer_has_no_number_format() -> None:
    text = "import transformers\nwords = transformers.BertTokenizer.from_pretrained('bert', dtype=torch.float16)\n"

    assert other_precision(script(HEAD + text)) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("", None, id="not at all"),
        pytest.param("torch.autocast('cuda')", None, id="always"),
        pytest.param("if args.amp: torch.autocast('cuda')", 10, id="under an option"),
        pytest.param("torch.autocast('cuda', enabled=args.amp)", 10, id="switched on by one"),
        pytest.param("if args.amp: torch.autocast('cuda')\ntorch.amp.GradScaler()", None, id="a scaler always"),
        pytest.param("if not args.no_amp: torch.autocast('cuda')", None, id="unless there is an option"),
        pytest.param(
            "from apex.optimizers import FusedAdam\nif args.amp:\n    torch.autocast('cuda')\n    FusedAdam([])",
            13,
            id="a part of apex before torch's own",
        ),
        pytest.param(
            "from apex import amp\nfrom apex.parallel import DistributedDataParallel\nif args.amp:\n"
            "    DistributedDataParallel(model)\nif args.amp:\n    amp.initialize(model)",
            15,
            id="the mixed precision of apex before its other parts",
        ),
    ],
)
def test_where_it_is_used_only_on_request(text: str, line: int | None) -> None:
    found = mixed_precision_on_request(script(OPTIONS + HEAD + text))
    assert (None if found is None else found[1].lineno) == line  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("from apex.parallel.LARC import LARC\nLARC(1)", True, id="an optimizer"),
        pytest.param("import apex\napex.parallel.convert_syncbn_model(1)", True, id="layers by their full name"),
        pytest.param("from apex import amp\namp.initialize(model)", False, id="its mixed precision"),
        pytest.param("import apex\napex.amp.initialize(model)", False, id="all of it"),
        pytest.param("torch.autocast('cuda')", False, id="torch's"),
        pytest.param("from apex.optimizers import *", False, id="whatever a module has"),
    ],
)
def test_what_is_another_part_of_apex(text: str, *, expected: bool) -> None:
    known = script(HEAD + text)
    found = mixed_precision_present(known)
    assert found is not None
    assert is_part_of_apex(known, *found) is expected
