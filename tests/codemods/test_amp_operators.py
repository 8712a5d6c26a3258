"""What leaves a block under autocast: floats in 16 bits are turned into 32 bits, and nothing else is."""

from __future__ import annotations

import pytest
from kit import run

from codemods.rules.amp import Amp

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
pool = nn.MaxPool1d(2, return_indices=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hits = torch.zeros(64, 4, device=device)
kept = []
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    out = model(x)
    {inside}
    loss = F.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    {after}
"""


KEPT = "kept.append(best.detach().cpu().numpy())"


def widened(inside: str, after: str, before: str = "") -> list[str] | str:
    """The lines that turn something into 32 bits, or why the loop is left."""
    text = SCRIPT.replace("device = ", f"{before}device = ", 1)
    text = text.replace("{inside}", inside.replace("; ", "\n    ")).replace("{after}", after.replace("; ", "\n    "))
    result = run(Amp, text, (2, 5))  # which has all kernels
    if result.after == text:
        return " ".join(site.message for site in result.sites)
    compile(result.after, "train.py", "exec")
    return [line.strip() for line in result.after.splitlines() if line.endswith(".float()")]


PAIRS = ["sort(1)", "topk(2)", "kthvalue(2)", "mode(1)", "cummax(1)", "cummin(1)", "max(1)", "min(1)", "median(1)"]


@pytest.mark.parametrize("operator", [*PAIRS, "nanmedian(1)", "max(dim=1)", "min(1, keepdim=True)", "frexp()"])
@pytest.mark.parametrize(
    "inside",
    [
        pytest.param("best, index = out.OPERATOR", id="unpacked"),
        pytest.param("best, index = torch.OPERATOR", id="unpacked, as a function"),
        pytest.param("index = out.OPERATOR[1]", id="the second"),
        pytest.param("index = out.OPERATOR[-1]", id="the last"),
        pytest.param("index = out.OPERATOR.indices", id="by its name"),
        pytest.param("both = out.OPERATOR; best, index = both", id="unpacked later"),
        pytest.param("both = out.OPERATOR; index = both[1]", id="the second, later"),
    ],
)
def test_indices_stay_integers(operator: str, inside: str) -> None:
    name, _, arguments = operator.partition("(")
    of_torch = f"{name}(out{', ' if arguments != ')' else ''}{arguments}"
    inside = inside.replace("torch.OPERATOR", f"torch.{of_torch}").replace("OPERATOR", operator)

    assert widened(inside, "hits[index[0]] += 1") == []


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param("_, index = F.max_pool1d(out, 2, return_indices=True)", id="pooling that is asked for indices"),
        pytest.param("index = F.adaptive_max_pool1d_with_indices(out, 2)[1]", id="pooling with indices"),
        pytest.param("_, index = pool(out)", id="a layer that is asked for indices"),
        pytest.param("_, index = out.unique(return_inverse=True)", id="inverse"),
        pytest.param("_, _, index = torch.unique(out, True, True, True)", id="inverse and counts, by position"),
        pytest.param("index = torch.isin(out, x)", id="membership"),
        pytest.param("index = out.isreal()", id="a question of each number"),
        pytest.param("index = out.round().to(int)", id="a type of Python"),
        pytest.param("index = out.to(y)", id="the type of a batch"),
        pytest.param("index = y.view_as(out[:, 0])", id="the form of another"),
        pytest.param("index = out.char()", id="bytes with a sign"),
        pytest.param("index = torch.argwhere(out > 0)[:, 0]", id="places"),
    ],
)
def test_what_is_no_float_stays_as_it_is(inside: str) -> None:
    assert widened(inside, "hits[index[0]] += 1") == []


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param("best, _ = out.cummax(1)", id="the first of a pair"),
        pytest.param("best = out.topk(2)[0]", id="the first by its number"),
        pytest.param("best = out.sort(1).values", id="the first by its name"),
        pytest.param("_, best = torch.var_mean(out)", id="the second of two alike"),
        pytest.param("best = torch.max(out, x[:, :4])", id="the larger of two tensors"),
        pytest.param("best = torch.mm(F.normalize(out), hits.T)", id="a product of 32 bits is computed in 16"),
        pytest.param("best = F.normalize(out) @ hits.T", id="the same as an operator of Python"),
        pytest.param("best = y.type_as(out)", id="the type of another"),
        pytest.param("best = y.to(out.dtype)", id="the type of another, asked for"),
        pytest.param(
            "best = nn.parallel.data_parallel(model, out.new_zeros(2, 8), [0, 1])", id="a model on several GPUs"
        ),
        pytest.param("best = F.interpolate(out[None], 3)", id="what only new versions widen"),
        pytest.param("best = F.rms_norm(out, (4,))", id="what only very new versions widen"),
    ],
)
def test_floats_in_16_bits_are_widened(inside: str) -> None:
    assert widened(inside, KEPT) == ["best = best.float()"]


@pytest.mark.parametrize(
    "inside", ["best = F.kl_div(out, x[:, :4])", "best = torch.cdist(out, out)", "best = out.exp()"]
)
def test_what_autocast_widens_is_left_alone(inside: str) -> None:
    assert widened(inside, KEPT) == []


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param("best = out.cfloat()", id="complex numbers"),
        pytest.param("both = out.max(1)", id="a pair as a whole"),
        pytest.param("best = out.frobnicate()", id="an operator that is not known"),
    ],
)
def test_what_is_not_known_is_no_float(inside: str) -> None:
    reason = widened(inside, f"kept.append({inside.partition(' ')[0]})")

    assert "leaves the block in 16 bits (line" in reason
    assert "what it holds is not known" in reason


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        pytest.param("_, index = out.max(1); kept.append(index.numpy())", [], id="indices alone"),
        pytest.param("kept.append(out.max(1).indices.numpy())", [], id="indices by their name"),
        pytest.param("kept.append(torch.topk(out, 2)[1].numpy())", [], id="indices by their number"),
        pytest.param("best, index = out.max(1); print(best.item())", [], id="values that are printed"),
        pytest.param("kept.append(out.greater(0).numpy())", [], id="truth values"),
        pytest.param("print(out.max().item())", [], id="the largest of all is printed"),
        pytest.param("hit = torch.round(out.sigmoid()) == y[:, None]; print(hit.sum())", [], id="rounded, compared"),
        pytest.param("near = torch.round(torch.sigmoid(out)); print((near == y[:, None]).sum())", [], id="by a name"),
        pytest.param(
            "chance = out.softmax(1); kept.append(chance.numpy())", ["out = out.float()"], id="by a name, an array"
        ),
        pytest.param("total = out.sum(); kept.append(total)", ["out = out.float()"], id="by a name, kept"),
        pytest.param("best, index = out.max(1); kept.append(best.numpy())", ["out = out.float()"], id="values"),
        pytest.param(
            "kept.append(out.detach().sort(1)[0].numpy())", ["out = out.float()"], id="values by their number"
        ),
        pytest.param(
            "kept.append(torch.sort(out, 1).values.numpy())", ["out = out.float()"], id="values by their name"
        ),
        pytest.param("kept.append(out.min().numpy())", ["out = out.float()"], id="the smallest of all"),
        pytest.param(
            "hits += (out.argmax(1) == y).to(out.dtype).mean()",
            ["out = out.float()"],
            id="a sum is taken in its format",
        ),
        pytest.param("print((out.argmax(1) == y).to(out.dtype).mean().item())", [], id="one mean in its format"),
    ],
)
def test_values_and_indices_of_what_leaves_the_block(after: str, lines: list[str]) -> None:
    """NumPy knows no bfloat16, so values that become arrays have to be widened; indices need nothing."""
    assert widened("pass", after) == lines


HEADS = """\
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        out = self.layer(x)
        return {"logits": out, "extra": library(out)}


heads = Heads()
"""


def test_what_has_a_number_format_is_a_tensor() -> None:
    """What the model returns is not known: only a tensor can be asked for the format of another."""
    inside = "extra = heads(x)['extra']"

    assert widened(inside, "kept.append(extra)", HEADS).endswith("what it holds is not known")  # type: ignore[union-attr]
    assert widened(inside, "hits += (y > 1).to(dtype=extra.dtype).mean()", HEADS) == ["extra = extra.float()"]


KEEPERS = """\
def first(*several):
    return several[0]


class Arrays:
    @staticmethod
    def of(tensor):
        return tensor

    def last(self, several, tensor):
        return tensor

    def __call__(self, several, tensor):
        return tensor


"""


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        pytest.param("Arrays().last(x, out)", ["best = best.float()"], id="a method of an object"),
        pytest.param("Arrays().last(out, x)", [], id="another parameter of it"),
        pytest.param("Arrays.last(Arrays(), x, out)", ["best = best.float()"], id="an object that is given as well"),
        pytest.param("Arrays.of(out)", ["best = best.float()"], id="a method without an object"),
        pytest.param("Arrays()(x, out)", ["best = best.float()"], id="an object that is called"),
        pytest.param("Arrays()(out, x)", [], id="another parameter of that"),
        pytest.param("first(out)", ["best = best.float()"], id="one of any number of arguments"),
    ],
)
def test_each_parameter_is_what_the_call_gives_it(call: str, lines: list[str]) -> None:
    assert widened(f"best = {call}", KEPT, KEEPERS) == lines


def test_what_is_given_behind_a_star_is_not_known() -> None:
    assert "what it holds is not known" in widened("best = first(*[out, x])", KEPT, KEEPERS)
