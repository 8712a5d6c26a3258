"""Loops that change parameters one by one: what becomes of each form, what is left, and the numbers of both."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.rules.foreach_manual_update import ForeachManualUpdate

HEAD = """\
import copy
import math

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(4, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.fc(x).relu())


torch.manual_seed(0)
net = Net()
target = copy.deepcopy(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
tau = 0.05
for x in torch.randn(5, 8, 4):
    optimizer.zero_grad()
    loss = net(x).mean()
    loss.backward()
    optimizer.step()
"""
LINE = len(HEAD.splitlines()) + 1
"""Where the body begins."""
ZIP = "for p, q in zip(net.parameters(), target.parameters()):\n"
LISTS = "net_params = [p.data for p in net.parameters()]\ntarget_params = [q.data for q in target.parameters()]\n"


def script(body: str) -> str:
    return HEAD + "".join(f"    {each}\n" if each else "\n" for each in body.splitlines())


def foreach(*calls: str) -> str:
    return "".join(f"torch._foreach_{each}\n" for each in calls)


FORMS = {
    "a copy of a sum": (
        ZIP + "    q.data.copy_(tau * p.data + (1.0 - tau) * q.data)",
        LISTS
        + "scaled = torch._foreach_mul(net_params, tau)\n"
        + foreach("mul_(target_params, 1.0 - tau)", "add_(target_params, scaled)"),
    ),
    "a copy of the sum the other way round": (
        ZIP + "    q.data.copy_(q.data * (1 - tau) + p.data * tau)",
        LISTS
        + "scaled = torch._foreach_mul(net_params, tau)\n"
        + foreach("mul_(target_params, 1 - tau)", "add_(target_params, scaled)"),
    ),
    "a copy of a step towards it": (
        ZIP + "    q.data.copy_(q.data + tau * (p.data - q.data))",
        LISTS
        + "torch._foreach_add_(\n"
        + "    target_params, torch._foreach_mul(torch._foreach_sub(net_params, target_params), tau)\n)",
    ),
    "methods one after the other": (
        ZIP + "    q.data.mul_(1 - tau).add_(tau * p.detach().data)",
        LISTS.replace("p.data for", "p.detach().data for")
        + foreach("mul_(target_params, 1 - tau)", "add_(target_params, torch._foreach_mul(net_params, tau))"),
    ),
    "with a factor of what is added": (
        ZIP + "    q.data.mul_(1 - tau)\n    q.data.add_(p.data, alpha=tau)",
        LISTS + foreach("mul_(target_params, 1 - tau)", "add_(target_params, net_params, alpha=tau)"),
    ),
    "a copy as it is": (
        ZIP + "    q.data.copy_(p.data)",
        LISTS + foreach("copy_(target_params, net_params)"),
    ),
    "lerp": (
        ZIP + "    q.data.lerp_(p.data, tau)",
        LISTS + foreach("lerp_(target_params, net_params, tau)"),
    ),
    "operators of Python": (
        ZIP + "    q.data *= 1 - tau\n    q.data += p.data * tau",
        LISTS + foreach("mul_(target_params, 1 - tau)", "add_(target_params, torch._foreach_mul(net_params, tau))"),
    ),
    "parameters with their names": (
        "for (_, p), (name, q) in zip(net.named_parameters(), target.named_parameters()):\n    q.data.sub_(p.data)",
        LISTS + foreach("sub_(target_params, net_params)"),
    ),
    "without gradients, and no data": (
        "with torch.no_grad():\n    for p, q in zip(net.parameters(), target.parameters()):\n        q.mul_(0.9).add_(0.1 * p)",
        "with torch.no_grad():\n    net_params = list(net.parameters())\n    target_params = list(target.parameters())\n"
        "    torch._foreach_mul_(target_params, 0.9)\n"
        "    torch._foreach_add_(target_params, torch._foreach_mul(net_params, 0.1))",
    ),
    "without gradients, where list is something else": (
        "list = 2\nwith torch.no_grad():\n    for p, q in zip(net.parameters(), target.parameters()):\n        q.sub_(p)",
        "list = 2\nwith torch.no_grad():\n    net_params = [*net.parameters()]\n"
        "    target_params = [*target.parameters()]\n    torch._foreach_sub_(target_params, net_params)",
    ),
    "weights that are clamped": (
        "for p in net.parameters():\n    p.data.clamp_(-0.01, 0.01)",
        "params = [p.data for p in net.parameters()]\n"
        + foreach("clamp_min_(params, -0.01)", "clamp_max_(params, 0.01)"),
    ),
    "gradients that are clamped on one side": (
        "for p in list(net.parameters()):\n    p.grad.data.clamp_(max=1)",
        foreach("clamp_max_([p.grad.data for p in net.parameters()], 1)"),
    ),
    "gradients that are divided": (
        "for p in net.parameters():\n    p.grad /= math.sqrt(4)",
        foreach("div_([p.grad for p in net.parameters()], math.sqrt(4))"),
    ),
    "a product of tensors": (
        "for p in net.parameters():\n    p.grad.mul_(2)\n    p.data.mul_(0.5).add_(p.grad * p.data)",
        "grads = [p.grad for p in net.parameters()]\nparams = [p.data for p in net.parameters()]\n"
        + foreach("mul_(grads, 2)", "mul_(params, 0.5)", "add_(params, torch._foreach_mul(grads, params))"),
    ),
    "descent by hand, then zeros": (
        "for p in net.parameters():\n    p.data -= 0.1 * p.grad.data\n    p.grad.data.zero_()",
        "params = [p.data for p in net.parameters()]\ngrads = [p.grad.data for p in net.parameters()]\n"
        + foreach("sub_(params, torch._foreach_mul(grads, 0.1))", "zero_(grads)"),
    ),
    "comments": (
        "# above\nfor p in net.parameters():  # each\n    # one\n    p.data.mul_(0.9)  # decay\n# below\nprint(x)",
        "# above\n# each\n# one\n# decay\nparams = [p.data for p in net.parameters()]\n"
        + foreach("mul_(params, 0.9)")
        + "# below\nprint(x)",
    ),
}
EXACT = sorted(set(FORMS) - {"with a factor of what is added", "lerp", "gradients that are divided"})


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
def test_each_form_becomes_operations_on_lists(before: str, after: str) -> None:
    check_rewrites(ForeachManualUpdate, script(before), script(after))


@pytest.mark.parametrize("form", FORMS)
def test_the_numbers_are_the_same(form: str) -> None:
    found = run(ForeachManualUpdate, script(FORMS[form][0]))
    (site,) = found.sites
    states = []
    for text in (found.before, found.after):
        state = dict[str, Any]()
        exec(text, state)  # noqa: S102 - the script is written above
        states.append([*state["net"].parameters(), *state["target"].parameters(), state["loss"]])

    assert all((one == other).all() for one, other in zip(*states, strict=True))
    # On the CPU all forms round alike. What may not do so on CUDA does not promise it.
    assert str(site.promise) == ("bitwise" if form in EXACT else "precision")


LEFT = {
    "some parameters are passed over": (
        "for p in net.parameters():\n    if p.grad is not None:\n        p.data -= 0.1 * p.grad",
        f"the loop does more than to change each parameter (line {LINE + 1})",
    ),
    "the memory is another one afterwards": (
        "for p in net.parameters():\n    p.data.mul_(0.5)\n    p.grad.data = 0.5 * p.grad.data",
        f"p.grad.data is given other memory, which no function for lists does (line {LINE + 2}): "
        "copy_() keeps the memory",
    ),
    "averages in a dictionary": (
        "for name, p in net.named_parameters():\n    average[name] = 0.9 * average[name] + 0.1 * p.data",
        f"the loop uses the names of the parameters (line {LINE + 1})",
    ),
    "averages in a list": (
        "for p in net.parameters():\n    average[0] = 0.9 * average[0] + 0.1 * p.data",
        f"average[0] is made anew each time (line {LINE + 1}), which no function for lists does: "
        "keep the tensors in a list, and change them in place",
    ),
    "noise is drawn for each": (
        "for p in net.parameters():\n    p.data.add_(torch.randn_like(p))",
        f"torch has no function for lists of tensors that does the same as 'torch.randn_like(p)' (line {LINE + 1})",
    ),
    "the factor is a tensor": (
        "for p in net.parameters():\n    p.data.mul_(loss.detach())",
        f"loss.detach() is not known to be a number of Python's (line {LINE + 1})",
    ),
    "buffers as well": (
        "for q in target.state_dict().values():\n    q.mul_(0.5)",
        f"buffers are changed as well (line {LINE}), and some of them hold integers",
    ),
    "parameters that are counted": (
        "for i, p in enumerate(net.parameters()):\n    p.data.mul_(0.5)",
        f"what the loop goes through is not seen to be the parameters of models alone (line {LINE})",
    ),
    "of what is no model": (
        "for p in unknown.parameters():\n    p.data.mul_(0.5)",
        f"what the loop goes through is not seen to be the parameters of models alone (line {LINE})",
    ),
    "of models that a call makes": (
        "for p, q in zip(net.parameters(), Net(8).parameters()):\n    q.data.mul_(0.5)",
        f"what the loop goes through is not seen to be the parameters of models alone (line {LINE})",
    ),
    "a graph that may be kept": (
        ZIP + "    q.data.add_(p * 0.1)",
        f"'p' may take part in a graph (line {LINE}): put the loop under torch.no_grad(), or write p.detach()",
    ),
    "the last parameter is read later": (
        "for p in net.parameters():\n    p.data.mul_(0.5)\nprint(p)",
        f"'p' is read outside of the loop (line {LINE + 2})",
    ),
    "an error is caught": (
        "try:\n    for p in net.parameters():\n        p.data -= p.grad.data\nexcept AttributeError:\n    pass",
        f"an error ends the loop half-way, and the script may go on (line {LINE})",
    ),
    "an else": (
        "for p in net.parameters():\n    p.data.mul_(0.5)\nelse:\n    print(x)",
        f"the loop has an else (line {LINE + 3})",
    ),
}


@pytest.mark.parametrize(("body", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left_for_the_reason_that_decides(body: str, because: str) -> None:
    check_leaves(ForeachManualUpdate, script(body), because)


NARROW = {
    "fp16": "net = Net().half()",
    "bf16": "net = Net().bfloat16()",
    "by their format": "net = Net().to(torch.bfloat16)",
    "by that of all": "torch.set_default_dtype(torch.float16); net = Net()",
}


@pytest.mark.parametrize("made", NARROW.values(), ids=NARROW)
def test_weights_in_16_bits_are_left(made: str) -> None:
    code = script("for p in net.parameters():\n    p.data.mul_(0.5)").replace("net = Net()", made)

    line = HEAD[: HEAD.index("net = Net()")].count("\n") + 1
    check_leaves(
        ForeachManualUpdate,
        code,
        f"weights may be in 16 bits (line {line}), where the CPU rounds what a list is multiplied by",
    )


PAIRS = {
    "of the same arguments": ("net, target = Net(8), Net(8)", True),
    "one given the weights of the other": (
        "net, target = Net(4), Net(2 + 2)\ntarget.load_state_dict(net.state_dict())",
        True,
    ),
    "given only some weights": (
        "net, target = Net(4), Net(8)\ntarget.load_state_dict(net.state_dict(), strict=False)",
        False,
    ),
    "of other arguments": ("net, target = Net(4), Net(8)", False),
    "of arguments that changed": ("n = 4\nnet = Net(n)\nn = 8\ntarget = Net(n)", False),
    "that gets another layer": (
        "net = Net()\ntarget = copy.deepcopy(net)\ntarget.last = nn.Linear(1, 1)",
        False,
    ),
    "that gets a number": ("net = Net()\ntarget = copy.deepcopy(net)\ntarget.steps = 0", True),
    "of other classes": ("net, target = Net(), nn.Linear(4, 4)", False),
    "of torch's layers": ("net, target = nn.Linear(4, 1), nn.Linear(4, 1)", True),
}


@pytest.mark.parametrize(("models", "is_rewritten"), PAIRS.values(), ids=PAIRS)
def test_two_models_have_to_be_of_one_make(models: str, is_rewritten: bool) -> None:  # noqa: FBT001 - a parameter
    code = script(ZIP + "    q.data.mul_(0.9).add_(0.1 * p.data)")
    code = code.replace("net = Net()\ntarget = copy.deepcopy(net)", models)
    (site,) = run(ForeachManualUpdate, code).sites

    assert site.rewrites == is_rewritten
    assert is_rewritten or site.code == "unpaired-parameters"


FUNCTION = """\
def soft_update(source, to, tau=0.1):
    for p, q in zip(source.parameters(), to.parameters()):
        q.data.mul_(1 - tau).add_(tau * p.data)


"""


@pytest.mark.parametrize(
    ("calls", "is_rewritten"),
    [
        pytest.param("soft_update(net, target)\nsoft_update(net.fc, target.fc)", True, id="each with its copy"),
        pytest.param("soft_update(net, target)\nsoft_update(net.out, net.fc)", False, id="one with another layer"),
    ],
)
def test_of_a_function_each_call_is_asked(calls: str, is_rewritten: bool) -> None:  # noqa: FBT001 - a parameter
    code = script(calls).replace("torch.manual_seed", FUNCTION + "torch.manual_seed")
    (site,) = run(ForeachManualUpdate, code).sites

    assert site.rewrites == is_rewritten


def test_layers_that_two_models_share_come_out_alike() -> None:
    shared = HEAD.replace("self.fc = nn.Linear(4, width)", "self.fc = LAYER").replace(
        "class Net", "LAYER = nn.Linear(4, 4)\n\n\nclass Net"
    )
    shared = shared.replace("copy.deepcopy(net)", "Net()")
    before = script(ZIP + "    q.data.copy_(tau * p.data + (1 - tau) * q.data)").replace(HEAD, shared)
    after = run(ForeachManualUpdate, before).after
    states = []
    for text in (before, after):
        torch.manual_seed(0)
        state = dict[str, Any]()
        exec(text, state)  # noqa: S102 - the script is written above
        states.append([*state["net"].parameters(), *state["target"].parameters()])

    assert before != after
    assert all((one == other).all() for one, other in zip(*states, strict=True))


SILENT = {
    "it runs once": HEAD + "for p in net.parameters():\n    p.data.mul_(0.5)\n",
    "it only looks": script("for p in net.parameters():\n    print(p.grad.norm())"),
    "it only zeroes gradients": script("for p in net.parameters():\n    p.grad.zero_()"),
    "it freezes": script("for p in net.parameters():\n    p.requires_grad = False"),
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_what_is_no_site(code: str) -> None:
    check_silent(ForeachManualUpdate, code)


def test_names_that_are_taken_are_not_used() -> None:
    before = script("params = 1\nfor p in net.parameters():\n    p.data.mul_(0.5)\nprint(params)")
    found = run(ForeachManualUpdate, before)

    assert "net_params = [p.data for p in net.parameters()]" in found.after
    assert "torch._foreach_mul_(net_params, 0.5)" in found.after


def test_an_older_torch_has_no_such_functions() -> None:
    code = script("for p in net.parameters():\n    p.data.mul_(0.5)")
    (site,) = run(ForeachManualUpdate, code, target=(1, 13)).sites

    assert (site.rewrites, site.code) == (False, "older-torch")


HANDED_ON = """\
import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.width = shape[0]


class Deep(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.fc = nn.Linear(shape[0], 4)


class Net(nn.Module):
    def __init__(self, shape, maker):
        super().__init__()
        self.encoder = maker(shape)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.encoder(x))


makers = {"plain": Plain, "deep": Deep}
net, target = (Net((4,), makers[name]), Net((4,), makers[name]))
for x in batches:
    net(x).mean().backward()
    for p, q in zip(net.encoder.parameters(), target.encoder.parameters()):
        q.data.copy_(p.data)
"""


def test_a_part_that_may_have_no_parameters_is_left() -> None:
    what = "net.encoder may be an object of class Plain, which has no parameters to change (line 31)"
    check_leaves(ForeachManualUpdate, HANDED_ON, f"{what}, and an empty list raises an error")


def test_the_same_parts_of_models_of_one_make_have_as_many_parameters() -> None:
    result = run(ForeachManualUpdate, HANDED_ON.replace('"plain": Plain, ', ""))

    assert "torch._foreach_copy_(qs, encoder_params)" in result.after
