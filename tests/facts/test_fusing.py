"""What stands against the fused step of an optimizer, wherever its parameters are."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.training.fusing import (
    fusible,
    may_be_scaled,
    why_form_unknown,
    why_never_stepped,
    why_not_fused,
)

MADE = (
    "import torch\nfrom torch import nn, optim\nmodel = nn.Linear(1, 2)\noptimizer = optim.Adam(model.parameters())\n"
)


def code_of(text: str, **others: str) -> str:
    """Why the optimizer is not fused; nothing where it may be."""
    known = script(MADE + text, **others)
    reason = why_not_fused(known, known.optimizers[0])
    return "" if reason is None else reason.code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("", "", id="nothing does"),
        pytest.param("optimizer.load_state_dict(torch.load('x'))\n", "checkpoint-loaded", id="it loads a checkpoint"),
        pytest.param("model.load_state_dict(torch.load('x'))\n", "", id="the model does"),
        pytest.param(
            "other = optim.Adam(model.parameters())\nother.load_state_dict({})\n", "", id="another optimizer does"
        ),
        pytest.param("import tools\ntools.restore(optimizer)\n", "checkpoint-loaded", id="a function may load one"),
        pytest.param("import tools\ntools.log(optimizer)\n", "", id="a function of another name"),
        pytest.param("optimizer.state.clear()\n", "optimizer-state-used", id="its state is used"),
        pytest.param("print(optimizer.state_dict())\n", "", id="its state is saved"),
        pytest.param("optimizer.register_step_post_hook(print)\n", "gradients-read", id="it has a hook"),
        pytest.param("nn.Embedding(3, 2, sparse=True)\n", "not-fusible", id="gradients are sparse"),
        pytest.param("nn.Embedding(3, 2, sparse=False)\n", "", id="they are said not to be"),
        pytest.param("given = {'sparse': True}\nnn.Embedding(3, 2, **given)\n", "not-fusible", id="among others"),
        pytest.param("given = {'padding_idx': 0}\nnn.Embedding(3, 2, **given)\n", "", id="others are given"),
        pytest.param("table = nn.Embedding(3, 2)\ntable.sparse = True\n", "not-fusible", id="a table is told later"),
        pytest.param("table = nn.Embedding(3, 2)\ntable.sparse = False\n", "", id="a table is told later not to"),
        pytest.param("class Set:\n    pass\nrows = Set()\nrows.sparse = True\n", "", id="something else is told"),
        pytest.param("torch.gather(w, 0, i, sparse_grad=True)\n", "not-fusible", id="what is gathered says so"),
        pytest.param(
            "nn.functional.embedding(i, w, None, None, 2.0, False, True)\n", "not-fusible", id="they are by position"
        ),
        pytest.param(
            "class Table(nn.Embedding):\n"
            "    def __init__(self, size):\n"
            "        super().__init__(size, 2, sparse=True)\n"
            "Table(3)\n",
            "not-fusible",
            id="a table of the project's asks for it",
        ),
        pytest.param(
            "class Table(nn.Embedding):\n    pass\nTable(3, 2, sparse=True)\n",
            "not-fusible",
            id="it is asked of a table of the project's",
        ),
        pytest.param(
            "class Table(nn.Module):\n"
            "    def __init__(self, sparse):\n"
            "        self.rows = nn.EmbeddingBag(3, 2, sparse=sparse)\n"
            "Table(sparse=True)\n",
            "not-fusible",
            id="it is handed on",
        ),
        pytest.param("nn.Embedding(**dict(sparse=True))\n", "not-fusible", id="it is asked of what is not known"),
        pytest.param(
            "class Flows:\n"
            "    def __init__(self, root, sparse=False):\n"
            "        self.sparse = sparse\n"
            "class Some(Flows):\n"
            "    def __init__(self, root):\n"
            "        super(Some, self).__init__(root, sparse=True)\n"
            "Some('x')\nFlows('y', sparse=True)\n",
            "",
            id="what a data set reads is sparse",
        ),
        pytest.param(
            "from sklearn.preprocessing import OneHotEncoder\nOneHotEncoder(sparse=True)\n", "", id="an array is sparse"
        ),
        pytest.param("torch.ones(2, dtype=torch.cfloat)\n", "not-fusible", id="numbers are complex"),
        pytest.param("from apex import amp\namp.initialize(model, optimizer)\n", "other-precision", id="apex has it"),
    ],
)
def test_what_stands_against_it(text: str, code: str) -> None:
    assert code_of(text) == code


def test_a_function_that_was_read_is_followed() -> None:
    tools = "def restore(optimizer):\n    print(optimizer)\n"
    loading = "def restore(optimizer):\n    optimizer.load_state_dict({})\n"

    assert code_of("from tools import restore\nrestore(optimizer)\n", tools=tools) == ""
    assert code_of("from tools import restore\nrestore(optimizer)\n", tools=loading) == "checkpoint-loaded"


OWN = "class Own(optim.Adam):\n    pass\n"


@pytest.mark.parametrize(
    ("made", "form", "code"),
    [
        pytest.param("optim.SGD(p)", "torch.optim.SGD", "", id="one that has a fused form"),
        pytest.param("optim.RMSprop(p)", None, "unknown-optimizer", id="one that has none"),
        pytest.param("Own(p)", "torch.optim.Adam", "unknown-optimizer", id="one of the project's"),
        pytest.param("getattr(optim, name)(p)", "torch.optim.?", "unknown-optimizer", id="whichever is asked for"),
        pytest.param("optim.Adam(*p)", "torch.optim.Adam", "unknown-arguments", id="arguments that are not seen"),
        pytest.param("optim.Adam(p, capturable=True)", "torch.optim.Adam", "script-decides", id="steps for a graph"),
    ],
)
def test_which_optimizer_it_is(made: str, form: str | None, code: str) -> None:
    known = script(f"from torch import nn, optim\n{OWN}p = nn.Linear(1, 2).parameters()\noptimizer = {made}\n")
    several = list(known.optimizers)
    found = list(fusible(known))
    names = found[0][2] if found else []
    reason = why_form_unknown(several, names)

    assert names == ([] if form is None else [form])
    assert ("" if reason is None else reason.code) == code


@pytest.mark.parametrize(
    ("text", "expected"), [("torch.amp.GradScaler('cuda')\n", True), ("torch.autocast('cuda')\n", False)]
)
def test_whether_a_scaler_is_there(text: str, *, expected: bool) -> None:
    assert may_be_scaled(script(MADE + text)) is expected


@pytest.mark.parametrize(
    ("text", "never"),
    [
        pytest.param("", True, id="it is only made"),
        pytest.param(
            "schedule = optim.lr_scheduler.StepLR(optimizer, 9)\nprint(optimizer)\n", True, id="a schedule has it"
        ),
        pytest.param(
            "schedule = optim.lr_scheduler.StepLR(optimizer, 9)\nschedule.step()\n", True, id="its schedule steps"
        ),
        pytest.param("other = optim.SGD(model.parameters())\nother.step()\n", True, id="another one steps"),
        pytest.param("def show(given):\n    print(given)\nshow(optimizer)\n", True, id="a function that steps nothing"),
        pytest.param("for x in data:\n    optimizer.step()\n", False, id="it steps"),
        pytest.param("step = optimizer.step\nstep()\n", False, id="its step has a name"),
        pytest.param("for each in [optimizer]:\n    each.step()\n", False, id="a list of it steps"),
        pytest.param("def run(given):\n    given.step()\nrun(optimizer)\n", False, id="a function steps it"),
        pytest.param("torch.amp.GradScaler('cuda').step(optimizer)\n", False, id="a gradient scaler steps it"),
        pytest.param("import engine\nengine.fit(model, optimizer)\n", False, id="a library may step it"),
        pytest.param("import engine\nengine.current().step()\n", False, id="what steps is not known"),
    ],
)
def test_what_nothing_steps(text: str, *, never: bool) -> None:
    known = script(MADE + text)

    assert (why_never_stepped(known, known.optimizers[0]) is not None) is never


def test_whoever_imports_the_module_may_step_it() -> None:
    known = script("import tools\n", tools=MADE)

    (made,) = known.optimizers
    assert why_never_stepped(known, made) is None
