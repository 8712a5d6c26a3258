"""Where the host wants numbers that a device may still have to compute."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.readings import reading, waits

HEAD = """\
import torch
model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
fused = torch.optim.SGD(model.parameters(), 0.1, fused=True)
scaler = torch.amp.GradScaler("cuda")
switched = torch.amp.GradScaler("cuda", enabled=bool(optimizer))
numbers = {"a": 1.0}
def accuracy(out):
    return out.mean().item()
def shown(out):
    print(out)
def careful(out):
    if out is None:
        return out.mean().item()
def asks(out):
    if torch.is_tensor(out):
        out = out.cpu()
def asks_otherwise(out):
    if not isinstance(out, float) and isinstance(out, torch.Tensor):
        return out.cpu()
    if isinstance(out, torch.Tensor):
        return out.item()
    else:
        return out.sum().item()
for x in torch.randn(3, 4):
    loss = model(x.cuda()).mean()
"""


LINE = HEAD.count("\n") + 1


def found(line: str) -> list[str]:
    """What a line of the loop reads."""
    known = script(f"{HEAD}    {line}\n")
    calls = (reading(known.flow, known.module, each) for each in known.module.nodes(ast.Call) if each.lineno == LINE)
    return [ast.unparse(each.tensor) + (" cut" if each.cuts else "") for each in calls if each is not None]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("loss.item()", ["loss"], id="by its method"),
        pytest.param("float(loss)", ["loss"], id="by float()"),
        pytest.param("int(loss)", ["loss cut"], id="by int()"),
        pytest.param("loss.detach().cpu().item()", ["loss.detach()"], id="by way of the host"),
        pytest.param("loss.to('cpu').item()", ["loss"], id="by way of the host, by its name"),
        pytest.param("float(loss.item())", ["loss", "loss"], id="twice"),
        pytest.param(
            "float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1))",
            ["torch.nn.utils.clip_grad_norm_(model.parameters(), 1)"],
            id="the norm of the gradients",
        ),
        pytest.param(
            "(loss if len(x) else numbers['a'] * 2).item()",
            ["loss if len(x) else numbers['a'] * 2"],
            id="what may be a tensor",
        ),
        pytest.param("(numbers['a'] * 2).item()", [], id="no tensor"),
        pytest.param("x.sum().item()", [], id="of a tensor on the host"),
        pytest.param("(loss > 0).cpu().sum().item()", ["(loss > 0).cpu().sum()"], id="a count by way of the host"),
        pytest.param("float((loss > 0).cpu().sum())", ["(loss > 0).cpu().sum()"], id="as a float"),
        pytest.param("hits = (loss > 0).cpu().sum(); print(hits.item())", ["hits"], id="by a name"),
        pytest.param("hits = (loss > 0).sum().cpu(); print(hits.item())", ["hits"], id="copied when it is a sum"),
        pytest.param("loss.cpu().sum().item()", [], id="floats have another sum on the host"),
        pytest.param("x.long().cpu().sum().item()", [], id="a sum of what was on the host"),
        pytest.param("(loss > 0).cpu().float().sum().item()", [], id="floats of a count"),
        pytest.param("(loss > 0).cpu().sum(0).item()", [], id="a part of a sum"),
        pytest.param("hits = (loss > 0).cpu().sum(); print(hits.item(), hits)", [], id="a name of another use"),
        pytest.param("hits = loss.cpu(); print(hits.item())", [], id="the name of what is no sum"),
        pytest.param("hits = more = (loss > 0).cpu().sum(); print(hits.item())", [], id="two names"),
        pytest.param("float(3)", [], id="of a number"),
        pytest.param("int(loss is None)", [], id="of whether it is one"),
        pytest.param("int(loss > 0)", ["loss > 0 cut"], id="of what is compared"),
        pytest.param("round(loss)", [], id="by another function"),
        pytest.param(
            "found = (loss, 3) if optimizer else loss; (found[0] if isinstance(found, tuple) else found).item()",
            ["found[0] if isinstance(found, tuple) else found"],
            id="of a tensor, alone or in a tuple",
        ),
        pytest.param("found = (loss, 3); found.item()", [], id="of a tuple"),
        pytest.param("numbers.item()", [], id="of something else"),
    ],
)
def test_what_is_read(line: str, expected: list[str]) -> None:
    assert found(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("loss.item()", ["loss.item()"], id="a number"),
        pytest.param("print(loss)", ["print(loss)"], id="a text"),
        pytest.param("f'{loss:.3f}'", ["{loss:.3f}"], id="a formatted text"),
        pytest.param(
            "y = '{}: {:.3f}'.format(3, loss)", ["'{}: {:.3f}'.format(3, loss)"], id="a text with it filled in"
        ),
        pytest.param("y = '{value:.2f}'.format(value=loss)", ["'{value:.2f}'.format(value=loss)"], id="by its name"),
        pytest.param("y = 'loss: %.3f' % loss", ["'loss: %.3f' % loss"], id="a text with it filled in by %"),
        pytest.param("y = '%d: %s' % (3, loss)", ["'%d: %s' % (3, loss)"], id="a text with several filled in by %"),
        pytest.param("y = '{}'.format(loss.shape)", [], id="a text with its shape filled in"),
        pytest.param("y = '%d' % len(loss)", [], id="a text with its length filled in by %"),
        pytest.param("y = loss % loss", [], id="a remainder"),
        pytest.param("y = numbers.format(loss)", [], id="another method of that name"),
        pytest.param("y = loss.cpu()", ["loss.cpu()"], id="a copy"),
        pytest.param("y = loss.to('cpu')", ["loss.to('cpu')"], id="a copy by its name"),
        pytest.param("loss.nonzero()", ["loss.nonzero()"], id="how many there are"),
        pytest.param("torch.cuda.synchronize()", ["torch.cuda.synchronize()"], id="by order"),
        pytest.param("y = 1 if loss > 2 else 0", ["loss > 2"], id="a condition"),
        pytest.param("assert not loss.isnan()", ["not loss.isnan()"], id="a negated condition"),
        pytest.param("accuracy(loss)", ["out.mean().item()"], id="in a function"),
        pytest.param(
            "(accuracy if x is None else shown)(loss)",
            ["out.mean().item()", "print(out)"],
            id="in each of two functions",
        ),
        pytest.param("(accuracy if x is None else careful)(loss)", [], id="in one of two functions"),
        pytest.param("(accuracy if x is None else torch.nn.MSELoss())(loss, x)", [], id="in a function, or in no loss"),
        pytest.param("careful(loss)", [], id="in a branch of a function"),
        pytest.param("asks(loss)", ["out.cpu()"], id="where it is a tensor, which it is"),
        pytest.param("asks(loss if x is None else numbers)", [], id="where it is a tensor, which it may be"),
        pytest.param("asks_otherwise(loss)", ["out.item()"], id="where it is an object of the class"),
        pytest.param("y = 1 if x is None else loss.item()", [], id="in a branch of an expression"),
        pytest.param("y = numbers and loss.item()", [], id="in the second part of a condition"),
        pytest.param("y = lambda: loss.item()", [], id="in a function that is only defined"),
        pytest.param("y = x.cuda()", [], id="a copy to the device"),
        pytest.param("y = 1 if loss is None else 0", [], id="whether there is one"),
        pytest.param("scaler.step(optimizer)", ["scaler.step(optimizer)"], id="a scaler's step"),
        pytest.param("scaler.step(fused)", [], id="a scaler's step of a fused optimizer"),
        pytest.param("switched.step(optimizer)", [], id="the step of a scaler that may be off"),
    ],
)
def test_what_waits(line: str, expected: list[str]) -> None:
    known = script(f"{HEAD}    {line}\n")
    (loop,) = known.module.nodes(ast.For)
    nodes = [each for _, each in waits(known.flow, known.module, loop.body)]

    assert sorted(ast.unparse(each) for each in nodes) == expected


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        pytest.param("args.rank == 0", True, id="the first process"),
        pytest.param("dist.get_rank() == 0", True, id="asked for"),
        pytest.param("args.local_rank in (-1, 0)", True, id="or one that runs alone"),
        pytest.param("is_main_process()", True, id="a function says so"),
        pytest.param("accelerator.is_main_process", True, id="an attribute says so"),
        pytest.param("args.rank == 1", False, id="another process"),
        pytest.param("args.rank in (1, 2)", False, id="others"),
        pytest.param("args.verbose", False, id="where the user wants it"),
        pytest.param("args.verbose == 0", False, id="of another number"),
    ],
)
def test_what_the_first_process_does(test: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(f"{HEAD}    if {test}:\n        print(loss.item())\n")
    (loop,) = known.module.nodes(ast.For)

    assert bool([*waits(known.flow, known.module, loop.body)]) is expected


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("    hits = (loss > 0).cpu().sum()\nprint(hits.item())", id="it is read after the loop"),
        pytest.param(
            "    hits = (loss > 0).cpu().sum()\n    for _ in range(2):\n        print(hits.item())",
            id="it is read twice",
        ),
        pytest.param(
            "    hits = (loss > 0).cpu().sum()\n    print(hits.item())\ndef show():\n    return hits",
            id="a function reads it, too",
        ),
    ],
)
def test_a_name_may_have_another_use_of_a_copy(lines: str) -> None:
    known = script(f"{HEAD}{lines}\n")
    items = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "hits.item"]

    assert [reading(known.flow, known.module, each) for each in items] == [None]


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        pytest.param("if cuda:\n        y = y.cuda()", ["y.cpu()"], id="a batch that is moved where there is a device"),
        pytest.param("y = y.cuda()", ["y.cpu()"], id="in any case"),
        pytest.param("pass", [], id="one that stays"),
    ],
)
def test_a_copy_back_to_the_host_waits(moved: str, expected: list[str]) -> None:
    code = (
        "import torch\nfrom torch.utils.data import DataLoader\ncuda = torch.cuda.is_available()\n"
        f"for x, y in DataLoader(data):\n    {moved}\n    y.cpu()\n"
    )
    known = script(code)
    (loop,) = known.module.nodes(ast.For)

    assert [ast.unparse(node) for _, node in waits(known.flow, known.module, loop.body)] == expected
