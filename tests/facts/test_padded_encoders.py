"""Which transformers return zeros for padding without gradients."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from probe import script

from codemods.facts.models.padded_encoders import why_padding_filled
from codemods.facts.reach import Reach

CODE = """\
import torch
from torch import nn
torch.manual_seed(0)
padding = torch.arange(6)[None] >= torch.tensor([[6], [3]])
x = torch.randn(2, 6, 8)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = {made}

    def forward(self, x):
        return self.body({given})


net = Net().eval()
y = net(x)
"""
LAYER = "nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)"
PADDED = "x, src_key_padding_mask=padding"


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("made", "given", "fills"),
    [
        pytest.param(f"nn.TransformerEncoder({LAYER}, 2)", PADDED, True, id="an encoder"),
        pytest.param(f"nn.TransformerEncoder({LAYER}, 2)", "x, None, padding", True, id="by position"),
        pytest.param(f"nn.TransformerEncoder(num_layers=2, encoder_layer={LAYER})", PADDED, True, id="made by name"),
        pytest.param(f"nn.TransformerEncoder({LAYER}, 2)", "x", False, id="no padding"),
        pytest.param(f"nn.TransformerEncoder({LAYER}, 2)", "x, src_key_padding_mask=None", False, id="none"),
        pytest.param(
            f"nn.TransformerEncoder({LAYER}, 2, enable_nested_tensor=False)", PADDED, False, id="switched off"
        ),
        pytest.param(f"nn.TransformerEncoder({LAYER}, 2, None, False)", PADDED, False, id="off by position"),
        pytest.param(
            "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True), 2)",
            PADDED,
            False,
            id="norms come first",
        ),
        pytest.param(
            "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)",
            "x.transpose(0, 1), src_key_padding_mask=padding",
            False,
            id="batches do not come first",
        ),
        pytest.param(LAYER, PADDED, False, id="one layer"),
        pytest.param("nn.Linear(8, 8)", "x", False, id="another model"),
    ],
)
def test_what_pytorch_does_with_padding_is_known(made: str, given: str, fills: bool) -> None:  # noqa: FBT001
    text = CODE.format(made=made, given=given)
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102 - it is written above
    with torch.no_grad():
        without = names["net"](names["x"])
    assert torch.allclose(names["y"], without, atol=1e-5) is not fills

    known = script(text)
    call = next(each for each in known.module.nodes(ast.Call) if ast.unparse(each) == "net(x)")
    reason = why_padding_filled(Reach(known.flow), known.module, [call])

    assert (reason is not None) is fills
    if reason is not None:
        assert reason.remedy == "make it with enable_nested_tensor=False"


@pytest.mark.parametrize(
    ("made", "given"),
    [
        pytest.param("nn.Transformer(8, 2, 2, 2, 16, batch_first=True)", f"x, {PADDED}", id="encoder and decoder"),
        pytest.param("nn.TransformerEncoder(layer(), 2)", PADDED, id="a layer that is not known"),
        pytest.param("nn.TransformerEncoder(nn.TransformerEncoderLayer(**options), 2)", PADDED, id="options not known"),
        pytest.param(f"nn.TransformerEncoder({LAYER}, 2)", "x, **options", id="arguments not known"),
        pytest.param(f"nn.TransformerEncoder({LAYER}, 2)", "x, *others", id="arguments not known by position"),
    ],
)
def test_what_may_return_zeros(made: str, given: str) -> None:
    known = script(CODE.format(made=made, given=given))
    call = next(each for each in known.module.nodes(ast.Call) if ast.unparse(each) == "net(x)")

    assert why_padding_filled(Reach(known.flow), known.module, [call]) is not None
