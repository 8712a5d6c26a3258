"""What keeps a whole script from mixed precision, whatever its training iterations do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.amp.reasons import LeftError
from codemods.facts.devices.cuda_use import capture, located, no_cuda
from codemods.facts.precision.presence import (
    AUTOCAST_SINCE,
    is_part_of_apex,
    mixed_precision_on_request,
    mixed_precision_present,
    other_precision,
    parts_of_apex_alone,
)
from codemods.facts.precision.script_hazards import custom_function
from codemods.facts.precision.scripted_choice import scripted_by_default
from codemods.facts.reason import HERE, at
from codemods.library.introduced import introduced

if TYPE_CHECKING:
    from codemods.facts.devices.conditions import Conditions
    from codemods.facts.script import Script


def check(script: Script, conditions: Conditions) -> None:
    """What keeps the whole script from mixed precision.

    Raises:
        LeftError: with the reason.
    """
    _check_present(script)
    if script.framework is not None:
        text = f"the training step runs inside {script.framework};"
        raise LeftError("framework", text, remedy="use its own switch for mixed precision")
    if not conditions.are_about_cuda:
        raise LeftError.of(conditions.why_not or no_cuda(script))
    if not script.target.allows(AUTOCAST_SINCE):
        raise LeftError.of(script.target.why_too_old(AUTOCAST_SINCE, "torch.autocast"))
    captured = capture(script)
    if captured is not None:
        raise LeftError.of(captured)
    other = other_precision(script)
    if other is not None:
        node, what = other
        raise LeftError("other-precision", f"{what} ({HERE})", located(script, node))
    custom = custom_function(script)
    if custom is not None:
        what = f"custom autograd.Function {custom.name} ({HERE}) would get mixed number formats;"
        is_new = script.target.allows(introduced("torch.amp.custom_fwd"))
        amp, device = ("torch.amp", "device_type='cuda'") if is_new else ("torch.cuda.amp", "")
        # Without `cast_inputs` nothing is cast.
        given = ", ".join(each for each in (device, "cast_inputs=torch.float32") if each)
        how = f"decorate its forward with {amp}.custom_fwd({given}) and its backward with {amp}.custom_bwd"
        how += f"({device})" if device else ""
        raise LeftError("custom-autograd", what, located(script, custom), remedy=how)
    compiled = scripted_by_default(script)
    if compiled is not None:
        raise LeftError.of(compiled)


def _check_present(script: Script) -> None:
    """What the script has of mixed precision itself."""
    asked = mixed_precision_on_request(script)
    of_apex = parts_of_apex_alone(script) or (asked if asked is not None and is_part_of_apex(script, *asked) else None)
    if of_apex is not None:
        raise LeftError("apex", f"what is imported from Apex has number formats of its own ({HERE})", at(*of_apex))
    if asked is not None:
        text = f"mixed precision is switched off by default ({HERE}):"
        raise LeftError("script-decides", text, at(*asked), remedy="switch it on")
    present = mixed_precision_present(script)
    if present is not None:
        text = f"{present[0].path} uses mixed precision already;"
        raise LeftError("done-already", text, remedy="use it here as there")
