"""May a parameter lie in memory in another order than its gradient?"""

from __future__ import annotations

import pytest
import torch
from probe import script
from torch import nn

from codemods.facts.models.memory_order import why_other_order

CODE = "import torch\nfrom torch import nn\nmodel = nn.Linear(2, 2)\n"


@pytest.mark.parametrize(
    ("text", "because"),
    [
        pytest.param("", "", id="nothing is done"),
        pytest.param("model.to(memory_format=torch.channels_last)", "the script chooses a memory format", id="format"),
        pytest.param("model.weight.grad = torch.ones(2, 2)", "a gradient is put in by hand", id="a gradient"),
        pytest.param("for p in ps:\n    p._grad = q.grad", "a gradient is put in by hand", id="a shared gradient"),
        pytest.param("model.weight.grad.data = g", "a gradient is put in by hand", id="the data of a gradient"),
        pytest.param("model.weight.grad = None", "", id="it is dropped"),
        pytest.param("model.weight.grad = torch.zeros_like(model.weight)", "", id="it is zeroed"),
        pytest.param("model.weight.grad *= 2", "", id="it is scaled in place"),
        pytest.param("model.weight.data = w", "a parameter may be given other memory", id="the data of a parameter"),
        pytest.param("x = torch.ones(2)\nx.data = x.clamp(0, 1)", "", id="the data of another tensor"),
        pytest.param("model.weight.data.zero_()", "", id="it is written in place"),
        pytest.param(
            "class Set:\n    def __init__(self):\n        self.data = []\nSet()",
            "",
            id="an attribute of another object",
        ),
        pytest.param("other = nn.Linear(2, 2)\nother.weight.data = w", "", id="the data of another model"),
        pytest.param(
            "for p in model.parameters():\n    p.data = p.data.t()", "a parameter may", id="of each parameter"
        ),
        pytest.param("unknown().weight.data = w", "a parameter may", id="of what is not known"),
        pytest.param("model.load_state_dict(s, assign=True)", "parameters are replaced", id="assigned"),
        pytest.param("model.load_state_dict(s)", "", id="copied"),
        pytest.param("w = nn.Parameter(table[:, :3])", "a parameter may be a part", id="a slice"),
        pytest.param("w = nn.Parameter(table.expand(3, -1))", "a parameter may be a part", id="expanded"),
        pytest.param("w = nn.Parameter(table[0])", "", id="a row"),
        pytest.param("w = nn.Parameter(torch.randn(3, 2).t())", "", id="transposed, without gaps"),
        pytest.param("e = nn.Embedding.from_pretrained(table[:, :3])", "a parameter may be a part", id="a table"),
        pytest.param("e = nn.Embedding.from_pretrained(table)", "", id="a whole table"),
    ],
)
def test_other_order(text: str, because: str) -> None:
    known = script(f"{CODE}{text}\n")
    reason = why_other_order(known, [each.value for each in known.models if getattr(each.value.site, "lineno", 0) == 3])

    assert (reason.text if reason else "").startswith(because)
    assert (reason is not None) is bool(because)


def losses(*, fused: bool, moved_at: int) -> list[float]:
    """Of a convolution that goes to ``channels_last`` before a step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2, fused=fused)
    found = []
    for step in range(16):
        if step == moved_at:
            model.to(memory_format=torch.channels_last)
        loss = model(torch.randn(2, 3, 8, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize(("moved_at", "is_right"), [(0, True), (99, True), (8, False)], ids=["first", "never", "later"])
def test_torch_goes_by_the_order_in_memory(moved_at: int, *, is_right: bool) -> None:
    one, other = (losses(fused=fused, moved_at=moved_at) for fused in (False, True))

    assert (one == pytest.approx(other, rel=1e-4)) is is_right


def test_autograd_lays_out_a_gradient_as_its_parameter() -> None:
    for weight in (torch.randn(4, 3, 3, 3).to(memory_format=torch.channels_last), torch.randn(3, 2).t()):
        parameter = nn.Parameter(weight)
        torch.autograd.backward((parameter * torch.randn(weight.shape)).sum())

        assert parameter.grad is not None
        assert parameter.grad.stride() == parameter.stride()


@pytest.mark.parametrize("has_gaps", [False, True])
def test_a_fused_step_takes_a_part_of_another_tensor_for_a_whole(*, has_gaps: bool) -> None:
    found = []
    for fused in (False, True):
        table = torch.zeros(4, 6)
        parameter = nn.Parameter(table[:, :3] if has_gaps else table)
        parameter.grad = torch.arange(parameter.numel(), dtype=torch.float32).reshape(parameter.shape)
        torch.optim.SGD([parameter], 1.0, fused=fused).step()
        found.append(table.clone())

    assert torch.equal(*found) is not has_gaps
