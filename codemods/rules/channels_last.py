"""Rule ``channels-last``: convolutions in 16 bits find the channels of each pixel next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import Insert, Replace
from codemods.facts.cost.worth import worth
from codemods.facts.devices.cuda_use import no_cuda, unknown_device
from codemods.facts.models.channels_last import ChannelsLast as Layout
from codemods.facts.models.channels_last import is_chosen
from codemods.facts.models.compilability import draws
from codemods.facts.models.obstacles import in_framework
from codemods.facts.models.placement import Home
from codemods.facts.models.preparation import cuda_condition, last_preparation, under, why_too_early
from codemods.facts.models.uncalled import ON_CPU, run_by_forward
from codemods.facts.precision.presence import mixed_precision_present, other_precision, uses_apex
from codemods.facts.reason import Reason
from codemods.library.memory_format import VIEWS
from codemods.library.sources import measured

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script

_FORMAT = "torch.channels_last"
_MESSAGE = "cuDNN lays out the images anew for the tensor cores, at each convolution in 16 bits"
_DRAWING = "; dropout then draws other masks"
_INITIALIZING = "; weights that are drawn later are then others"


class ChannelsLast(Codemod):
    """Lets the channels of each pixel lie next to each other (``model.to(memory_format=torch.channels_last)``).

    Why it is faster:
        Tensor cores multiply channels by channels, and want those of one pixel next to each other. PyTorch's usual
        layout has an image for each channel, which cuDNN lays out anew before a convolution in 16 bits, and back after
        it. Where the weights have the other layout, so has what each convolution computes, and all that follows, until
        the images are flattened. The batches need no change: the first convolution lays them out, once.

    When it is left:
        The training computes in 32 bits: there the layout may cost more than it gains, on GPUs before Ampere much more.
        What is said of ``amp`` in the same rewrite decides. The model has convolutions with groups, which on an H100
        were slower so in 16 bits; layers that lay images out as before (``GroupNorm``, ``InstanceNorm2d``,
        ``PixelShuffle``, attention, reflected edges); weights of five dimensions; layers that are not known. All
        convolutions read images of one channel, of which both layouts are the same. ``view`` fails on images in this
        layout: in the code of the model it becomes ``reshape``, which computes the same; where it stands elsewhere, the
        model is left. Something is written to what ``reshape`` or ``flatten`` returns, which is a copy in this layout.
        ``nn.DataParallel`` lays the weights out anew, and is not under ``torch.cuda.device_count() > 1``. A checkpoint
        may be loaded into a fused optimizer, which would read moments of the usual layout in the wrong order. Apex is
        used. Nothing goes to CUDA.

    Results:
        cuDNN chooses other kernels, which round otherwise. ``nn.Dropout`` draws its masks in the order of
        memory, and so does ``nn.init`` the weights that a script draws after the change: the same distribution,
        other numbers. A checkpoint has the same numbers. Nothing changes without CUDA.

    References:
        "Channels Last Memory Format in PyTorch" (tutorial); pytorch/pytorch 44943 (slower in 32 bits on a V100), 34977
        (convolutions with groups).
    """

    promise = Promise.PRECISION
    gain = "1.02-1.07x in 16 bits (H100, convolutions of 128 channels), 1.08-1.35x (V100, tutorial)"
    gain_sources = (
        measured("convolution-times"),
        "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",
    )
    min_torch = (1, 10)
    needs_cuda = True
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words(
        """
        apex checkpoint-loaded data-parallel framework gradients-read left-with-another made-in-loop never-pays-back
        no-cuda no-name nothing-to-gain other-layout other-module other-precision own-method torchscript unknown-device
        unknown-model
        """
    )
    tolerance = 1e-3
    failures = (r"view size is not compatible with input tensor's size and stride", r"required rank 4 tensor")
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn
from torchvision.models import resnet50

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = resnet50().to(device)
for images in torch.randn(100, 64, 3, 224, 224):
    with torch.autocast(device.type, torch.bfloat16):
        loss = model(images.to(device)).square().mean()
    loss.backward()
""",
            after="""\
import torch
from torch import nn
from torchvision.models import resnet50

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = resnet50().to(device)
if device.type == "cuda":
    model.to(memory_format=torch.channels_last)
for images in torch.randn(100, 64, 3, 224, 224):
    with torch.autocast(device.type, torch.bfloat16):
        loss = model(images.to(device)).square().mean()
    loss.backward()
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 256, 3), nn.ReLU(), nn.Conv2d(256, 256, 3), nn.AvgPool2d(4))
        self.out = nn.Linear(12544, 10)

    def forward(self, x):
        x = self.features(x)
        return self.out(x.view(x.size(0), -1))

model = Net().cuda()
for images in torch.randn(100, 256, 3, 32, 32).cuda():
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(images).square().mean()
    loss.backward()
""",
            after="""\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 256, 3), nn.ReLU(), nn.Conv2d(256, 256, 3), nn.AvgPool2d(4))
        self.out = nn.Linear(12544, 10)

    def forward(self, x):
        x = self.features(x)
        return self.out(x.reshape(x.size(0), -1))

model = Net().cuda()
model.to(memory_format=torch.channels_last)
for images in torch.randn(100, 256, 3, 32, 32).cuda():
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(images).square().mean()
    loss.backward()
""",
        ),
        Leaves(
            code="""\
import torch
from torchvision.models import mobilenet_v2

model = mobilenet_v2().cuda()
for images in torch.randn(100, 64, 3, 224, 224).cuda():
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(images).square().mean()
    loss.backward()
""",
            because="whether torchvision.models.mobilenet_v2() keeps the layout, or has convolutions with groups,"
            " is not known (line 4)",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 128, 3), nn.GroupNorm(8, 128), nn.Conv2d(128, 128, 3), nn.Flatten()).cuda()
for images in torch.randn(100, 64, 3, 224, 224).cuda():
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(images).square().mean()
    loss.backward()
""",
            because="torch.nn.GroupNorm() lays images out as before (line 4)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every model that training iterations call and that convolves images."""
        if not script.backwards or is_chosen(script):
            return
        places: dict[tuple[ast.stmt, str], list[tuple[TrainedModel, Layout]]] = {}
        said: set[tuple[ast.AST, str]] = set()
        for trained in (*script.trained_models, *run_by_forward(script)):
            layout = Layout(script, trained)
            if not trained.is_of(script.module) or not layout.convolves_images:
                continue
            home = trained.home
            reason = self._why_not(script, layout, home)
            if reason is None and isinstance(home, Home):
                place = last_preparation(script, home), script.module.code(home.name)
                places.setdefault(place, []).append((trained, layout))
                continue
            assert reason is not None  # noqa: S101 - without a home there is one
            site = trained.site(script.module)
            if (site, reason.text) not in said:
                said.add((site, reason.text))
                yield self.left(script.module, site, reason)
        for (anchor, name), models in places.items():
            yield self._site(script, anchor, name, models)

    def _why_not(self, script: Script, layout: Layout, home: Home | Reason | None) -> Reason | None:
        if home is None and not script.may_use_cuda:
            return unknown_device(script, script.transfers) or no_cuda(script)
        if script.framework is not None:
            return in_framework(script.framework)
        wrapped = layout.why_wrapped()
        if wrapped is not None:
            return wrapped
        if not isinstance(home, Home):
            return home or ON_CPU
        chosen = other_precision(script)
        if chosen is not None:
            return Reason("other-precision", f"the script chooses its number formats itself ({chosen[1]})")
        class_ = layout.model.class_
        if class_ is not None and script.flow.method(class_, "to") is not None:
            return Reason("own-method", "its class has a method to() of its own")
        if uses_apex(script):
            return Reason("apex", "Apex may keep copies of weights, and step them, in the usual layout")
        in_vain = worth(script).why_channels_last_in_vain(layout.model.value) if self.is_weighed else None
        return in_vain or layout.why_not(home) or why_too_early(script, home)

    def _site(
        self, script: Script, anchor: ast.stmt, name: str, models: Sequence[tuple[TrainedModel, Layout]]
    ) -> Finding:
        """``model.to(memory_format=torch.channels_last)`` below the move, and ``reshape`` in its code."""
        module, trained = script.module, models[0][0]
        home = trained.home
        assert isinstance(home, Home)  # noqa: S101 - as they have a place
        site = trained.site(module)
        named = {each for each in script.flow.values(home.name) if each.site is not None}
        if not named <= {value for each, _ in models for value in (each.model.value, *each.wrappers)}:
            text = f"{name} may also be a model that is left"
            return self.left(module, site, Reason("left-with-another", text))
        spelled = script.spelled(module, _FORMAT, anchor)
        if spelled is None:
            return self.left(module, site, Reason("no-name", f"{_FORMAT} cannot be named where the model is moved"))
        code = under(cuda_condition(script, home, anchor) or "", [f"{name}.to(memory_format={spelled})"])
        views = dict.fromkeys(view for _, layout in models for view in layout.views)
        draws_masks = any(draws(each.model) for each, _ in models)
        draws_weights = any(layout.draws_weights_after(module, anchor) for _, layout in models)
        return self.rewrites(
            module,
            site,
            _MESSAGE + _DRAWING * draws_masks + _INITIALIZING * draws_weights,
            Insert(module, anchor, code, "after"),
            *(
                Replace(module, view.func, f"{{it}}.{VIEWS[view.func.attr]}", (("it", view.func.value),))  # type: ignore[attr-defined]
                for view in views
            ),
            redraws=draws_masks or draws_weights,
            only_with="" if mixed_precision_present(script) else "amp",
        )
