"""Deprecated names of mixed precision, in all forms in which they are imported and called; and what is wrong with it."""

from __future__ import annotations

import textwrap
import warnings
from typing import Any

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.results import Rewrite
from autotune_rewrite.rewriting.rewrite import Text, rewrite, rewrite_project
from codemods.codemod import Promise
from codemods.dataflow.source import Module
from codemods.facts.script import Script
from codemods.facts.target import UNKNOWN
from codemods.rules.amp_migrate import AmpMigrate

# How it is imported and called.

HANDED = """\
import functools
import torch
from contextlib import nullcontext
from threading import Thread

epochs = []


def main(amp):
    context = nullcontext
    if amp:
        context = {0}
    run(context)


def run(context=nullcontext):
    for _ in range(3):
        {1}


def epoch(one, context):
    with one(), context():
        pass
"""
HANDED_ON = (
    "torch.cuda.amp.autocast is not called where it is named (line 12): name torch.amp.autocast there, and give it the "
    "device in its calls"
)
FORMS = {
    "by the whole name": (
        "import torch\nwith torch.cuda.amp.autocast():\n    pass\n",
        'import torch\nwith torch.amp.autocast("cuda"):\n    pass\n',
    ),
    "under another name of torch": (
        "import torch as th\nscaler = th.cuda.amp.GradScaler(enabled=True)\n",
        'import torch as th\nscaler = th.amp.GradScaler("cuda", enabled=True)\n',
    ),
    "a name that is imported": (
        "from torch.cuda.amp import autocast\nwith autocast():\n    pass\n",
        'from torch.amp import autocast\nwith autocast("cuda"):\n    pass\n',
    ),
    "by another name": (
        "from torch.cuda.amp import GradScaler as Scaler, autocast as cast\nscaler = Scaler()\nwith cast():\n    pass\n",
        "from torch.amp import GradScaler as Scaler, autocast as cast\n"
        'scaler = Scaler("cuda")\nwith cast("cuda"):\n    pass\n',
    ),
    "an import of several lines": (
        "from torch.cuda.amp import (  # mixed precision\n    GradScaler,\n    autocast,\n)\n\n"
        "scaler = GradScaler()\nwith autocast():\n    pass\n",
        "from torch.amp import (  # mixed precision\n    GradScaler,\n    autocast,\n)\n\n"
        'scaler = GradScaler("cuda")\nwith autocast("cuda"):\n    pass\n',
    ),
    "the package by its name": (
        "from torch.cuda import amp\nscaler = amp.GradScaler()\nwith amp.autocast():\n    pass\n",
        'from torch import amp\nscaler = amp.GradScaler("cuda")\nwith amp.autocast("cuda"):\n    pass\n',
    ),
    "the package by another name": (
        "import torch.cuda.amp as amp\nscaler = amp.GradScaler()\n",
        'import torch.amp as amp\nscaler = amp.GradScaler("cuda")\n',
    ),
    "the package beside another thing": (
        "from torch.cuda import amp, nvtx\nscaler = amp.GradScaler()\n",
        'from torch.cuda import nvtx\nfrom torch import amp\nscaler = amp.GradScaler("cuda")\n',
    ),
    "an import within a function": (
        "def train():\n    from torch.cuda.amp import autocast  # late\n    with autocast():\n        pass\n\ntrain()\n",
        'def train():\n    from torch.amp import autocast  # late\n    with autocast("cuda"):\n        pass\n\ntrain()\n',
    ),
    "a module of the package": (
        "from torch.cuda.amp.grad_scaler import GradScaler\nscaler = GradScaler()\n",
        'from torch.amp import GradScaler\nscaler = GradScaler("cuda")\n',
    ),
    "the CPU": (
        "import torch\nwith torch.cpu.amp.autocast(dtype=torch.bfloat16):\n    pass\n",
        'import torch\nwith torch.amp.autocast("cpu", dtype=torch.bfloat16):\n    pass\n',
    ),
    "single quotes": (
        "import torch\nprint('a', 'b')\nscaler = torch.cuda.amp.GradScaler()\n",
        "import torch\nprint('a', 'b')\nscaler = torch.amp.GradScaler('cuda')\n",
    ),
    "what is enabled by position": (
        "import torch\nwith torch.cuda.amp.autocast(torch.cuda.is_available(), torch.bfloat16, False):\n    pass\n",
        'import torch\nwith torch.amp.autocast("cuda", enabled=torch.cuda.is_available(), dtype=torch.bfloat16, '
        "cache_enabled=False):\n    pass\n",
    ),
    "a scale by position": (
        "import torch\nscaler = torch.cuda.amp.GradScaler(2.0**10, 2.0, enabled=False)\n",
        'import torch\nscaler = torch.amp.GradScaler("cuda", 2.0**10, 2.0, enabled=False)\n',
    ),
    "arguments in a dictionary": (
        "import torch\noptions = {'enabled': True}\nwith torch.cuda.amp.autocast(**options):\n    pass\n",
        "import torch\noptions = {'enabled': True}\nwith torch.amp.autocast('cuda', **options):\n    pass\n",
    ),
    "an argument on each line": (
        "import torch\nscaler = torch.cuda.amp.GradScaler(\n    init_scale=2.0**10,  # small\n    enabled=True,\n)\n",
        "import torch\nscaler = torch.amp.GradScaler(\n"
        '    "cuda",\n    init_scale=2.0**10,  # small\n    enabled=True,\n)\n',
    ),
    "a decorator": (
        "import torch\n\n@torch.cuda.amp.autocast()\ndef forward(x):\n    return x\n\nforward(1)\n",
        'import torch\n\n@torch.amp.autocast("cuda")\ndef forward(x):\n    return x\n\nforward(1)\n',
    ),
    "a function that nothing calls": (
        "from torch.cuda.amp import autocast\n\ndef forward(x):\n    with autocast():\n        return x\n",
        'from torch.amp import autocast\n\ndef forward(x):\n    with autocast("cuda"):\n        return x\n',
    ),
    "a method": (
        "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        "        with torch.cuda.amp.autocast(enabled=False):\n            return x\n\nNet()(torch.ones(1))\n",
        "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        '        with torch.amp.autocast("cuda", enabled=False):\n            return x\n\nNet()(torch.ones(1))\n',
    ),
    "an annotation and a check": (
        "import torch\n\ndef train(scaler: 'str | None', other: torch.cuda.amp.GradScaler | None = None):\n"
        "    return isinstance(other, (int, torch.cuda.amp.GradScaler))\n\ntrain('', torch.cuda.amp.GradScaler())\n",
        "import torch\n\ndef train(scaler: 'str | None', other: torch.amp.GradScaler | None = None):\n"
        "    return isinstance(other, (int, torch.amp.GradScaler))\n\ntrain('', torch.amp.GradScaler('cuda'))\n",
    ),
    "decorators of an autograd function": (
        "from torch.cuda.amp import custom_bwd, custom_fwd\nimport torch\n\n"
        "class F(torch.autograd.Function):\n    @staticmethod\n    @custom_fwd\n    def forward(ctx, x):\n"
        "        return x\n\n    @staticmethod\n    @custom_bwd\n    def backward(ctx, g):\n        return g\n",
        "from torch.amp import custom_bwd, custom_fwd\nimport torch\n\n"
        'class F(torch.autograd.Function):\n    @staticmethod\n    @custom_fwd(device_type="cuda")\n'
        "    def forward(ctx, x):\n        return x\n\n    @staticmethod\n"
        '    @custom_bwd(device_type="cuda")\n    def backward(ctx, g):\n        return g\n',
    ),
    "a format that is set elsewhere is written out": (
        'import torch\nwith torch.autocast("cuda", dtype=torch.bfloat16):\n    pass\n'
        "with torch.cuda.amp.autocast():\n    pass\n",
        'import torch\nwith torch.autocast("cuda", dtype=torch.bfloat16):\n    pass\n'
        'with torch.amp.autocast("cuda", dtype=torch.float16):\n    pass\n',
    ),
    "a format for the CPU is no format for CUDA": (
        'import torch\nwith torch.autocast("cpu", dtype=torch.float16):\n    pass\n'
        "with torch.cuda.amp.autocast():\n    pass\n",
        'import torch\nwith torch.autocast("cpu", dtype=torch.float16):\n    pass\n'
        'with torch.amp.autocast("cuda"):\n    pass\n',
    ),
    "a name that a fallback does not bind": (
        "try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    raise SystemExit('torch is too old')\n"
        "with autocast():\n    pass\n",
        "try:\n    from torch.amp import autocast\nexcept ImportError:\n    raise SystemExit('torch is too old')\n"
        "with autocast('cuda'):\n    pass\n",
    ),
    "a class that gets another name": (
        "from torch.cuda.amp import GradScaler, autocast\n\ncontext = autocast\nscaler = GradScaler()\n"
        "with context():\n    pass\n",
        'from torch.amp import GradScaler, autocast\n\ncontext = lambda: autocast("cuda")\n'
        'scaler = GradScaler("cuda")\nwith context():\n    pass\n',
    ),
    "a class that gets another name where there is a device": (
        "import torch\nfrom contextlib import nullcontext\n\n\ndef train(amp):\n"
        "    context = torch.cuda.amp.autocast if amp else nullcontext\n    with context():\n        pass\n",
        "import torch\nfrom contextlib import nullcontext\n\n\ndef train(amp):\n"
        '    context = (lambda: torch.amp.autocast("cuda")) if amp else nullcontext\n    with context():\n        pass\n',
    ),
    "or where there is none": (
        "import torch\nfrom contextlib import nullcontext\n\n\ndef train(fast):\n"
        "    context = nullcontext if not fast else torch.cuda.amp.autocast\n    with context():\n        pass\n",
        "import torch\nfrom contextlib import nullcontext\n\n\ndef train(fast):\n"
        '    context = nullcontext if not fast else (lambda: torch.amp.autocast("cuda"))\n    with context():\n        pass\n',
    ),
    "a class that functions are given to call": (
        HANDED.format("torch.cuda.amp.autocast", "with context():\n            pass"),
        HANDED.format('lambda: torch.amp.autocast("cuda")', "with context():\n            pass"),
    ),
    "or to hand on": (
        HANDED.format("torch.cuda.amp.autocast", "epoch(context, context=context)"),
        HANDED.format('lambda: torch.amp.autocast("cuda")', "epoch(context, context=context)"),
    ),
    "functools.partial that is called": (
        "import functools\nimport torch\ncast = functools.partial(torch.cuda.amp.autocast, enabled=True)\n"
        "with cast():\n    pass\n",
        'import functools\nimport torch\ncast = functools.partial(torch.amp.autocast, enabled=True, device_type="cuda")\n'
        "with cast():\n    pass\n",
    ),
    "functools.partial where there is a device, of an imported name": (
        "from functools import partial\nfrom contextlib import nullcontext\nfrom torch.cuda.amp import autocast\n\n"
        "def train(amp):\n    cast = partial(autocast) if amp else nullcontext\n    with cast():\n        pass\n",
        "from functools import partial\nfrom contextlib import nullcontext\nfrom torch.amp import autocast\n\n"
        'def train(amp):\n    cast = partial(autocast, device_type="cuda") if amp else nullcontext\n'
        "    with cast():\n        pass\n",
    ),
    "functools.partial that is told a number format, which is set elsewhere": (
        "import functools\nimport torch\ntorch.set_autocast_dtype('cuda', torch.bfloat16)\n"
        "cast = functools.partial(torch.cuda.amp.autocast, dtype=torch.float16)\nwith cast():\n    pass\n",
        "import functools\nimport torch\ntorch.set_autocast_dtype('cuda', torch.bfloat16)\n"
        "cast = functools.partial(torch.amp.autocast, dtype=torch.float16, device_type='cuda')\nwith cast():\n    pass\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), FORMS.values(), ids=FORMS)
def test_each_form_becomes_its_like(before: str, after: str) -> None:
    check_rewrites(AmpMigrate, before, after)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_newlines_stay_as_they_are(ending: str) -> None:
    before, after = FORMS["an argument on each line"]

    check_rewrites(AmpMigrate, before.replace("\n", ending), after.replace("\n", ending))


# Where it is left, and why.

STORED = (
    "torch.cuda.amp.autocast is not called where it is named (line 3): name torch.amp.autocast there, and give it the "
    "device in its calls"
)
LEFT = {
    "a fallback of another meaning": (
        "try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    from contextlib import nullcontext as "
        "autocast\nwith autocast():\n    pass\n",
        "'autocast' may stand for something else (line 5): import one thing by that name",
    ),
    "a class that is stored, and called with arguments": (
        "import torch\nfrom contextlib import nullcontext\n"
        "context = torch.cuda.amp.autocast if torch.cuda.is_available() else nullcontext\nwith context(True):\n    pass\n",
        STORED,
    ),
    "a class that is stored and handed on": (
        "import torch\nfrom train import run\ncontext = torch.cuda.amp.autocast\nwith context():\n    run(context)\n",
        STORED,
    ),
    "a class that a class has": (
        "import torch\nclass Run:\n    context = torch.cuda.amp.autocast\n\n"
        "def train(context):\n    with context(), Run().context():\n        pass\n",
        STORED,
    ),
    "a class that is stored in an attribute": (
        "import torch\nfrom train import run\nrun.context = torch.cuda.amp.autocast\nwith run.context():\n    run()\n",
        STORED,
    ),
    "a class that is stored where the number format is set": (
        "import torch\ntorch.set_autocast_dtype('cuda', torch.bfloat16)\n"
        "context = torch.cuda.amp.autocast\nwith context():\n    pass\n",
        "the number format that it takes now depends on where it is called (line 3): name torch.amp.autocast there, "
        "and give it the device in its calls",
    ),
    "a class that others are made of": (
        "from torch.cuda.amp import GradScaler\n\nclass Scaler(GradScaler):\n    pass\n\nscaler = Scaler()\n",
        "Scaler derives from GradScaler (line 3), and its objects would have to be given the device: "
        "derive it from torch.amp.GradScaler, and hand that the device",
    ),
    **{
        f"a class that a function is given {given}": (HANDED.format("torch.cuda.amp.autocast", inside), HANDED_ON)
        for given, inside in {
            "to call with arguments": "with context(enabled=True):\n            pass",
            "to keep": "epochs.append(context)",
            "to compare": "print(context is nullcontext)",
            "and gives another name": "other = context\n        with other():\n            pass",
            "and binds again": "context = context()\n        with context:\n            pass",
            "and does not call": "pass",
            "and hands on to others": "Thread(context)",
            "and calls in a circle": "run(context)",
        }.items()
    },
    "a class that a function is given with *": (
        HANDED.format("torch.cuda.amp.autocast", "with context():\n            pass").replace(
            "run(context)", "run(*[context])"
        ),
        HANDED_ON,
    ),
    "a class that one of two functions keeps": (
        HANDED.format("torch.cuda.amp.autocast", "with context():\n            pass").replace(
            "    run(context)", "    (run if amp else epochs.append)(context)"
        ),
        HANDED_ON,
    ),
    "functools.partial of a function that is given it": (
        HANDED.format("torch.cuda.amp.autocast", "with context():\n            pass").replace(
            "run(context)", "functools.partial(run, context)()"
        ),
        HANDED_ON,
    ),
    "functools.partial by position": (
        "import functools\nimport torch\ncast = functools.partial(torch.cuda.amp.autocast, True)\nwith cast():\n    pass\n",
        STORED,
    ),
    "functools.partial that is called with more": (
        "import functools\nimport torch\ncast = functools.partial(torch.cuda.amp.autocast, cache_enabled=False)\n"
        "with cast(True):\n    pass\n",
        STORED,
    ),
    "functools.partial with options that are not known": (
        "import functools\nimport torch\ncast = functools.partial(torch.cuda.amp.autocast, **{})\nwith cast():\n    pass\n",
        STORED,
    ),
    "functools.partial where the number format is set": (
        "import functools\nimport torch\ntorch.set_autocast_dtype('cuda', torch.bfloat16)\n"
        "cast = functools.partial(torch.cuda.amp.autocast, enabled=True)\nwith cast():\n    pass\n",
        "the number format that it takes now depends on where it is called (line 4): name torch.amp.autocast there, "
        "and give it the device in its calls",
    ),
    "functools.partial": (
        "import functools\nimport torch\ncast = functools.partial(torch.cuda.amp.autocast, enabled=True)\n",
        "torch.cuda.amp.autocast is not called where it is named (line 3): name torch.amp.autocast there, "
        "and give it the device in its calls",
    ),
    "arguments that are not known": (
        "import sys\nimport torch\nscaler = torch.cuda.amp.GradScaler(*sys.argv)\n",
        "which arguments torch.cuda.amp.GradScaler is given is not known (line 3)",
    ),
    "another thing of the package": (
        "from torch.cuda import amp\nprint(amp.common)\nscaler = amp.GradScaler()\n",
        "amp.common is used as well, which torch.amp may not have (line 2)",
    ),
    "other arguments than it takes": (
        "import torch\nscaler = torch.cuda.amp.GradScaler(device='cuda')\n",
        "torch.cuda.amp.GradScaler is given other arguments than it takes (line 2)",
    ),
    "a class that is compared": (
        "import torch\nscaler = torch.cuda.amp.GradScaler()\nprint(type(scaler) is torch.cuda.amp.GradScaler)\n",
        "torch.cuda.amp.GradScaler is not called where it is named (line 3): name torch.amp.GradScaler there, and give "
        "it the device in its calls",
    ),
    "all names of the package": (
        "from torch.cuda.amp import *\n",
        "what * brings is not followed (line 1): import names one by one",
    ),
    "TorchScript": (
        "import torch\n\n@torch.jit.script\ndef f(x):\n    with torch.cuda.amp.autocast():\n        return x\n",
        "TorchScript may compile this code (line 5), and knows autocast by its names",
    ),
    "TorchScript of what calls it": (
        "import torch\nfrom torch.cuda.amp import autocast\n\ndef wide(x):\n    with autocast(enabled=False):\n"
        "        return x\n\n@torch.jit.script\ndef f(x):\n    return wide(x)\n",
        "TorchScript may compile this code (line 5), and knows autocast by its names",
    ),
    "TorchScript of a model": (
        "import torch\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
        "        with torch.cuda.amp.autocast():\n            return x\n\nnet = torch.jit.script(Net())\n",
        "TorchScript may compile this code (line 5), and knows autocast by its names",
    ),
    "a format that may be in a dictionary": (
        'import torch\noptions = {}\nwith torch.autocast("cuda", dtype=torch.bfloat16):\n    pass\n'
        "with torch.cuda.amp.autocast(**options):\n    pass\n",
        "whether torch.amp.autocast is given a number format is not known (line 5)",
    ),
    "Apex": (
        "from apex import amp\nfrom torch import nn\nmodel = amp.initialize(nn.Linear(1, 1))\n",
        "Apex computes in 16 bits its own way here (line 3), and it patches PyTorch's functions: torch.autocast and "
        "torch.amp.GradScaler, put in by hand, take its place",
    ),
    "Apex with weights in fp16": (
        "from apex import amp\nfrom torch import nn\nmodel = amp.initialize(nn.Linear(1, 1), opt_level='O2')\n",
        "Apex computes in 16 bits its own way here (line 3), and opt_level='O2' may keep weights in 16 bits: "
        "torch.autocast and torch.amp.GradScaler, put in by hand, take its place",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT)
def test_it_is_left_for_the_reason_that_decides(code: str, because: str) -> None:
    check_leaves(AmpMigrate, code, because)


def test_apex_is_not_replaced_by_what_the_torch_has_not() -> None:
    [site] = run(AmpMigrate, LEFT["Apex"][0], (1, 0)).sites
    assert site.message == (
        "torch.autocast, in place of Apex, needs torch 1.10, and the script may run on an older one"
    )


@pytest.mark.parametrize(
    ("name", "older", "needed"),
    [
        pytest.param("GradScaler()", (2, 2), "2.3", id="GradScaler is there since 2.3"),
        pytest.param("custom_bwd(print)", (2, 3), "2.4", id="custom_bwd is there since 2.4"),
        pytest.param("autocast()", (1, 11), "1.12", id="autocast is there since 1.12"),
    ],
)
def test_an_older_torch_keeps_the_old_name(name: str, older: tuple[int, int], needed: str) -> None:
    code = f"import torch\nthing = torch.cuda.amp.{name}\n"
    major, minor = map(int, needed.split("."))

    check_leaves(
        AmpMigrate,
        code,
        f"needs torch {needed}, and the script may run on an older one: torch.cuda.amp.{name.partition('(')[0]} is "
        "deprecated since torch 2.4",
        older,
    )
    assert run(AmpMigrate, code, (major, minor)).after != code


def test_an_import_waits_for_all_of_its_names() -> None:
    code = "from torch.cuda.amp import GradScaler, autocast\nwith autocast():\n    pass\n"

    assert run(AmpMigrate, code, (2, 2)).after == code
    assert run(AmpMigrate, code, (2, 3)).after != code


SILENT = {
    "the new names": 'import torch\nscaler = torch.amp.GradScaler("cuda")\nwith torch.autocast("cuda"):\n    pass\n',
    "an import that nothing uses": "from torch.cuda.amp import autocast\n",
    "the version chooses": (
        "import torch\nnew = torch.__version__ >= '2.4'\n"
        'scaler = torch.amp.GradScaler("cuda") if new else torch.cuda.amp.GradScaler()\n'
    ),
    "the version chooses by a branch": (
        "import torch\nif torch.__version__ >= '2.4':\n    scaler = torch.amp.GradScaler('cuda')\n"
        "else:\n    scaler = torch.cuda.amp.GradScaler()\n"
    ),
    "the version chooses by a return": (
        "import torch\n\ndef cast(enabled):\n    if torch.__version__ >= '2.4':\n"
        "        return torch.amp.autocast('cuda', enabled=enabled)\n    return torch.cuda.amp.autocast(enabled)\n\n"
        "cast(True)\n"
    ),
    "what fails on an older torch": (
        "import torch\ntry:\n    scaler = torch.amp.GradScaler(device='cuda')\n"
        "except (AttributeError, TypeError):\n    scaler = torch.cuda.amp.GradScaler()\n"
    ),
    "either class is asked for": (
        "import torch\n\ndef is_scaler(it):\n"
        "    return isinstance(it, (torch.amp.GradScaler, torch.cuda.amp.GradScaler))\n\nis_scaler(1)\n"
    ),
    "the import chooses": (
        "try:\n    from torch.amp import GradScaler\nexcept ImportError:\n    from torch.cuda.amp import GradScaler\n"
        "scaler = GradScaler()\n"
    ),
    "a name of the script": "import torch\n\ndef autocast():\n    return None\n\nautocast()\n",
    "a local name of a function": (
        "from torch.cuda.amp import autocast\n\ndef f(autocast):\n    return autocast(1)\n\nf(abs)\n"
    ),
    "another class of the name": "from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler\n"
    "scaler = ShardedGradScaler()\n",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_what_is_right_is_silent(code: str) -> None:
    check_silent(AmpMigrate, code)


def test_what_torchscript_compiles_beside_it_does_not_matter() -> None:
    before = """\
import torch
from torch.cuda.amp import autocast

@torch.jit.script
def gate(x):
    return torch.tanh(x) * torch.sigmoid(x)

def train(net, x):
    with autocast(enabled=True):
        return gate(net(x))

train(torch.jit.script(torch.nn.Linear(2, 2)), torch.ones(2))
"""
    after = before.replace("cuda.amp", "amp").replace("autocast(enabled", 'autocast("cuda", enabled')
    check_rewrites(AmpMigrate, before, after)


# Scripts of several files.


def together(**files: str) -> dict[str, Rewrite]:
    settings = Settings(frozenset({"amp-migrate"}), Promise.TRAINING)
    texts = [
        Text(f"{name}.py", text, settings, "__main__" if name == "train" else name, is_entry=name == "train")
        for name, text in files.items()
    ]
    results = rewrite_project(texts, rounds=((AmpMigrate,),))
    return {each.path: each for each in results if isinstance(each, Rewrite)}


def test_a_name_that_another_file_takes_from_here_stays() -> None:
    found = together(
        train="from steps import autocast\nwith autocast():\n    pass\n",
        steps="from torch.cuda.amp import autocast\nwith autocast():\n    pass\n",
    )

    assert found["steps.py"].after == found["steps.py"].before
    assert [site.message for site in found["steps.py"].sites] == [
        "train.py takes the name from here, and would have to change, too (train.py, line 1)"
    ]


@pytest.mark.parametrize(
    "replaced",
    [
        pytest.param("torch.cuda.amp.autocast = nullcontext\n", id="by assignment"),
        pytest.param("setattr(torch.cuda.amp, 'autocast', nullcontext)\n", id="by setattr"),
    ],
)
def test_what_the_script_replaces_stays(replaced: str) -> None:
    found = together(
        train="import torch\nimport patches\nwith torch.cuda.amp.autocast():\n    pass\nscaler = torch.cuda.amp.GradScaler()\n",
        patches=f"from contextlib import nullcontext\nimport torch\n{replaced}",
    )

    assert [(site.code, site.message) for site in found["train.py"].sites if site.code] == [
        (
            "library-changed",
            "the script replaces torch.cuda.amp.autocast (patches.py, line 3), and what autocast does then is not known",
        )
    ]
    assert 'scaler = torch.amp.GradScaler("cuda")' in found["train.py"].after


@pytest.mark.parametrize(
    ("train", "is_taken"),
    [
        pytest.param("from middle import *\nwith autocast():\n    pass\n", True, id="through another file"),
        pytest.param("from middle import *\nstep()\n", False, id="not by a file that takes all and does not use it"),
        pytest.param("import steps\nwith steps.autocast():\n    pass\n", True, id="as an attribute of the module"),
    ],
)
def test_a_name_is_taken_by_who_uses_it(train: str, *, is_taken: bool) -> None:
    found = together(
        train=train,
        middle="from steps import *\n",
        steps="from torch.cuda.amp import autocast\n\ndef step():\n    with autocast():\n        pass\n",
    )

    assert (found["steps.py"].after == found["steps.py"].before) is is_taken


def test_a_class_that_another_file_asks_for_is_made_on() -> None:
    checks = "import torch\n\ndef is_scaler(it):\n    return isinstance(it, torch.cuda.amp.GradScaler)\n"
    found = together(
        train="import torch\nimport checks\nchecks.is_scaler(torch.cuda.amp.GradScaler())\n", checks=checks
    )

    assert found["train.py"].after == found["train.py"].before
    assert [site.code for site in found["train.py"].sites] == ["other-module"]
    assert found["checks.py"].after == checks.replace("cuda.amp", "amp")


# What is wrong with mixed precision.

HEAD = """\
import torch
from torch import nn

model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
batches = torch.randn(4, 16, 8).cuda()
"""
STEP = """\
for x in batches:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(x).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
WIDE = """\
with torch.autocast("cuda"):
    for x in batches:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        {}
"""


def without(*lines: str) -> str:
    return "".join(each for each in STEP.splitlines(keepends=True) if each.strip() not in lines)


UNSCALED = without("scaler.unscale_(optimizer)")
FAULTS = {
    "a scaler that scales nothing": (
        without("scaler.unscale_(optimizer)", "scaler.update()")
        .replace("scaler.scale(loss).backward()", "loss.backward()")
        .replace("scaler.step(optimizer)", "optimizer.step()"),
        "idle-scaler",
        6,
    ),
    "a plain step": (
        without("scaler.unscale_(optimizer)").replace("scaler.step(optimizer)", "optimizer.step()"),
        "scaled-step",
        14,
    ),
    "no update": (without("scaler.update()"), "scale-not-updated", 15),
    "clipped while scaled": (UNSCALED, "clipped-scaled", 13),
    "a backward within the block": (
        STEP.replace("    scaler.scale(loss).backward()", "        scaler.scale(loss).backward()"),
        "backward-in-autocast",
        10,
    ),
    "steps within the block": (
        WIDE.format("scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()"),
        "autocast-over-steps",
        8,
    ),
    "steps within a function under the block": (
        "def train():\n" + textwrap.indent(STEP, "    ") + "\nwith torch.autocast('cuda'):\n    train()\n",
        "autocast-over-steps",
        19,
    ),
    "steps within a function that is decorated": (
        "@torch.autocast('cuda')\ndef train():\n" + textwrap.indent(STEP, "    ") + "\ntrain()\n",
        "autocast-over-steps",
        9,
    ),
}


@pytest.mark.parametrize(("code", "cause", "line"), FAULTS.values(), ids=FAULTS)
def test_what_trains_otherwise_than_it_says_is_named(code: str, cause: str, line: int) -> None:
    result = run(AmpMigrate, HEAD + code)

    assert result.after == HEAD + code
    assert [(site.code, site.line) for site in result.sites] == [(cause, line)]


RIGHT = {
    "all in order": STEP,
    "a scaler that is switched off": HEAD.replace('GradScaler("cuda")', 'GradScaler("cuda", enabled=False)')
    + without("scaler.unscale_(optimizer)").replace("scaler.step(optimizer)", "optimizer.step()"),
    "a branch for each": (
        "use_amp = torch.cuda.is_available()\n"
        "for x in batches:\n    loss = model(x).square().mean()\n    if use_amp:\n"
        "        scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()\n"
        "    else:\n        loss.backward()\n        optimizer.step()\n"
    ),
    "copies that are not kept": WIDE.format(
        "scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()"
    ).replace('"cuda")', '"cuda", cache_enabled=False)'),
    "a scaler that is handed on": (
        "import helpers\nhelpers.train(scaler)\nfor x in batches:\n    model(x).sum().backward()\n    optimizer.step()\n"
    ),
    "an evaluation within the block": (
        STEP + 'with torch.no_grad(), torch.autocast("cuda"):\n    for x in batches:\n        print(model(x))\n'
    ),
}


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT)
def test_what_is_in_order_is_silent(code: str) -> None:
    result = run(AmpMigrate, code if code.startswith("import torch\n") else HEAD + code)

    assert {site.code for site in result.sites} <= {"backward-in-autocast"}


# Beside amp.


def test_amp_writes_what_is_not_to_be_migrated_and_takes_up_what_was() -> None:
    code = HEAD.replace('scaler = torch.amp.GradScaler("cuda")\n', "").replace(
        "nn.Linear(8, 1)", "nn.Sequential(nn.Linear(8, 4096), nn.Linear(4096, 1))"
    ) + (
        "with torch.cuda.amp.autocast(False):\n    print(model(batches[0]))\n"
        "for x in batches:\n    optimizer.zero_grad()\n    loss = model(x).square().mean()\n"
        "    loss.backward()\n    optimizer.step()\n"
    )
    settings = Settings(frozenset({"amp", "amp-migrate"}), Promise.TRAINING)
    once = rewrite("train.py", code, settings)
    again = rewrite("train.py", once.after, settings)

    assert 'with torch.amp.autocast("cuda", enabled=False):' in once.after
    assert 'scaler = torch.amp.GradScaler("cuda"' in once.after
    assert again.after == once.after


# It computes the same, without a warning.

TRAINING = """\
import torch
from torch import nn
from torch.cpu.amp import autocast

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cpu.amp.GradScaler(2.0**4, enabled=True)
losses = []
for x in torch.randn(8, 4, 16):
    optimizer.zero_grad()
    with autocast(True, torch.bfloat16):
        loss = model(x).square().mean()
    with torch.autocast("cpu", dtype=torch.float16), autocast():
        losses.append(model(x).dtype)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
"""


def test_the_losses_are_the_same_bit_for_bit_and_nothing_warns() -> None:
    after = run(AmpMigrate, TRAINING).after
    before_state, after_state = dict[str, Any](), dict[str, Any]()
    with pytest.warns(FutureWarning, match=r"torch\.cpu\.amp"):
        exec(TRAINING, before_state)  # noqa: S102 - the script is written above
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(after, after_state)  # noqa: S102 - as above

    assert after_state["losses"] == before_state["losses"]


def test_a_name_that_another_module_takes_stays_what_it_is() -> None:
    train = Module(
        "train.py", "from torch.cuda.amp import autocast\ncontext = autocast\nwith context():\n    pass\n", "train"
    )
    other = Module("show.py", "from train import context\nprint(context(True))\n", "show")
    (found,) = AmpMigrate().sites(Script.of(train, UNKNOWN, [other]))

    assert not found.rewrites
