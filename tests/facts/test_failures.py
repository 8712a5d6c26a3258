"""Where does a module fail on current torch or Python."""

from __future__ import annotations

import pytest
import torch
from probe import script

from codemods.facts.failures import Failure, failure, why_unreadable
from codemods.facts.target import UNKNOWN, Target

HEAD = "import torch\nfrom torch import nn\nloss = nn.MSELoss()(x, y)\n"
BATCHES = "loader = torch.utils.data.DataLoader(torch.zeros(8, 2), 2)\nit = iter(loader)\n"


def fails(
    body: str, target: Target = UNKNOWN, unreadable: dict[str, str] | None = None, **others: str
) -> Failure | None:
    known = script(HEAD + body, **others)
    return failure(known.flow, known.module, known.entries, target, unreadable or {})


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("print(loss.item())", id="nothing fails"),
        pytest.param(
            f"{BATCHES}class Ahead(torch.utils.data.DataLoader):\n    def __iter__(self):\n"
            "        return queue(super().__iter__())\nahead = iter(Ahead(x))\nahead.next()",
            id="the iterator of a class of its own",
        ),
        pytest.param("it = iter(Frames())\nit.next()", id="the iterator of what is not known"),
        pytest.param("import numpy as np\nnp.float = float\nprint(np.float)", id="what is put back"),
        pytest.param(
            "import numpy as np\nfor name in ('float', 'int'):\n    setattr(np, name, float)\nprint(np.float)",
            id="what is put back, by a name that is not known",
        ),
        pytest.param("import numpy as np\nprint(np.bool)", id="a type that NumPy 2 has again"),
        pytest.param("import tensorflow.compat.v1 as tf\ntf.Session()", id="what TensorFlow has for old scripts"),
        pytest.param("nn.BatchNorm2d(size, 1 / 1000)", id="what may be a float"),
        pytest.param("range(size // 2, int(size / 2), *rest)", id="integers of Python 3"),
        pytest.param("table.iteritems()", id="the method of what is not known"),
        pytest.param("from six.moves import reduce\nreduce(max, [1])", id="a builtin of old that is imported"),
        pytest.param("from torch.utils.serialization import config", id="a module that has come back"),
        pytest.param(
            "class Net(nn.Module):\n    _backend = 'plain'\nprint(Net()._backend)", id="an attribute of an own class"
        ),
        pytest.param("layer = nn.Embedding(3, 2)\nlayer._backend = 1", id="an attribute that is given"),
        pytest.param("def look_up(table):\n    table._backend\nlook_up(flag)", id="an attribute of what is not known"),
        pytest.param("if flag:\n    print(loss[0])", id="only under a condition"),
        pytest.param("def f():\n    print(loss[0])", id="a function that nobody calls"),
        pytest.param(
            "def f():\n    print(loss[0])\nif flag:\n    f()\nelif other:\n    f()", id="not called on each way"
        ),
        pytest.param(
            "if flag:\n    print(loss[0])\n    if other:\n        print(loss)\nelse:\n    print(loss)", id="one way"
        ),
        pytest.param("if torch.distributed.get_rank() == 1:\n    print(loss[0])", id="in the second process"),
        pytest.param("def f():\n    return f()\nif f():\n    print(loss[0])", id="if a function says so"),
        pytest.param(
            "for i in range(9):\n    if verbose and i % 3 == 0:\n        print(loss[0])",
            id="an option has to be set, too",
        ),
        pytest.param(
            "for i in range(9):\n    now = i % 3 == 0\n    if flag:\n        now = other\n    if now:\n        print(loss[0])",
            id="a name that may be something else",
        ),
        pytest.param(
            "for i in range(9):\n    if writer is not None and i % 3 == 0:\n        print(loss[0])",
            id="if there is one",
        ),
        pytest.param(
            "for i in range(9):\n    if i % 3 == 0 and 'x' in batch:\n        print(loss[0])", id="if a batch has it"
        ),
        pytest.param("if '%s' % mode == 'train':\n    print(loss[0])", id="a text that is filled in"),
        pytest.param("try:\n    print(loss[0])\nexcept IndexError:\n    pass", id="the script goes on"),
        pytest.param(
            f"{BATCHES}try:\n    x = it.next()\nexcept Exception:\n    x = next(it)", id="what handles it works"
        ),
        pytest.param(
            f"{BATCHES}try:\n    x = it.next()\nexcept StopIteration:\n    x = it.next()\nexcept AttributeError:\n    pass",
            id="one of two handles it",
        ),
        pytest.param(f"{BATCHES}try:\n    x = next(it)\nexcept StopIteration:\n    x = it.next()", id="never handled"),
        pytest.param(
            f"{BATCHES}try:\n    x = it.next()\nexcept Exception:\n    if flag:\n        x = it.next()",
            id="what handles it fails under a condition",
        ),
        pytest.param("from torchvision import models", id="an import that there is"),
        pytest.param("import collections\nprint(collections.OrderedDict)", id="a name that is there yet"),
        pytest.param("import collections.abc\nprint(collections.abc.Iterable)", id="a name that has moved there"),
        pytest.param(
            "try:\n    from collections.abc import Mapping\nexcept ImportError:\n    from collections import Mapping",
            id="an import for an older Python",
        ),
        pytest.param("import collections\nprint(flag and collections.Iterable)", id="only if something holds"),
        pytest.param(
            "class Old:\n    def step(self):\n        print(loss[0])\nclass New:\n    def step(self):\n        print(loss)\n"
            "if flag:\n    stepper = Old()\nelse:\n    stepper = New()\nstepper.step()",
            id="a method of one of two classes, by choice",
        ),
        pytest.param(
            "class Old:\n    def step(self):\n        print(loss[0])\n"
            "stepper = torch.optim.SGD(model.parameters(), 0.1)\nif flag:\n    stepper = Old()\nstepper.step()",
            id="a method of its own class, or of the library's",
        ),
    ],
)
def test_nothing_surely_fails(body: str) -> None:
    assert fails(body) is None


@pytest.mark.parametrize(
    ("body", "subject"),
    [
        pytest.param("print(loss[0])", "loss[0]", id="an item of a loss"),
        pytest.param("def f():\n    print(loss[0])\nf()", "loss[0]", id="in a function that is called"),
        pytest.param(
            "def f0():\n    print(loss[0])\n"
            + "".join(f"def f{at}():\n    f{at - 1}()\n" for at in range(1, 41))
            + "f40()",
            "loss[0]",
            id="forty functions below the one that is called",
        ),
        pytest.param(
            "for i in range(9):\n    if i > 0 and i % 3 == 0:\n        print(loss[0])", "loss[0]", id="now and then"
        ),
        pytest.param(
            "for i in range(9):\n    if i % 3 == 0 and epoch in [0, 5, last]:\n        print(loss[0])",
            "loss[0]",
            id="now and then, in some epochs",
        ),
        pytest.param(
            "def show():\n    print(loss[0])\nfor i in range(9):\n    early = i % 3 == 0 and i < 7\n    late = i % 5 == 0\n"
            "    if early or late:\n        show()",
            "loss[0]",
            id="now and then, as names say",
        ),
        pytest.param(
            "now = False\nfor i in range(9):\n    now = now or i % 3 == 0\n    if now:\n        print(loss[0])",
            "loss[0]",
            id="a name that is given itself",
        ),
        pytest.param("for i in range(3):\n    print(loss.data[0])", "loss.data[0]", id="in a loop"),
        pytest.param("from torchtext.data import Field", "Field", id="an import of what is gone"),
        pytest.param("from collections import Iterable, namedtuple", "Iterable", id="an import of what Python has not"),
        pytest.param(
            "import collections\nif isinstance(flag, collections.Iterable) and len(flag) == 2:\n    print(flag)",
            "collections.Iterable",
            id="an attribute of a module, first of what is asked",
        ),
        pytest.param("from torch.utils.serialization import load_lua", "load_lua", id="an import of what torch had"),
        pytest.param("from scipy.misc import imread, imsave", "scipy.misc.imread", id="imports of images"),
        pytest.param("from itertools import izip", "izip cannot be imported", id="an import of what Python 2 had"),
        pytest.param("import tensorflow.contrib as contrib", "tensorflow.contrib", id="an import of TensorFlow 1"),
        pytest.param("counts = {}\ncounts.has_key(1)", "dictionaries have in instead", id="a method of dictionaries"),
        pytest.param("for i in range(size / 2 + 1):\n    pass", "range() takes no float", id="a float in Python 3"),
        pytest.param("nn.Conv2d(size, size / 2, 1)", "write // in size / 2", id="channels that are a float"),
        pytest.param("print(reduce(max, [1]))", "Python 3 has no reduce", id="a builtin of Python 2"),
        pytest.param(f"{BATCHES}loader.__iter__().next()[0]", "loader.__iter__().next()", id="of an iterator in place"),
        pytest.param(f"{BATCHES}it = loader.__iter__()\nit.next()", "it.next()", id="of an iterator with a name"),
        pytest.param(f"{BATCHES}it = enumerate(loader)\nit.next()", "it.next()", id="of an iterator of Python"),
        pytest.param("it = iter([1, 2])\nit.next()", "it.next()", id="of the iterator of a list"),
        pytest.param("it = (x for x in [1, 2])\nit.next()", "it.next()", id="of a generator"),
        pytest.param(
            "def look_up(table):\n    return table._backend.Embedding\nlook_up(nn.Embedding(3, 2))",
            "table._backend fails",
            id="an attribute that layers had",
        ),
        pytest.param("from torchvision.models.resnet import model_urls", "model_urls", id="an import of addresses"),
        pytest.param("from skimage.measure import compare_ssim", "compare_ssim", id="an import of another library"),
        pytest.param("import time\nstart = time.clock()", "time.clock()", id="a function that Python had"),
        pytest.param("if flag:\n    print(loss[0])\nelse:\n    print(loss[0])", "loss[0]", id="on each way"),
        pytest.param(
            "def f():\n    print(loss[0])\nif flag:\n    f()\nelse:\n    f()", "loss[0]", id="called on each way"
        ),
        pytest.param(
            "def f():\n    print(loss[0])\nif flag:\n    f()\nelif other:\n    f()\nelse:\n    f()",
            "loss[0]",
            id="called on each of three ways",
        ),
        pytest.param(
            "def launch(run):\n    if flag:\n        torch.multiprocessing.spawn(work, (run,), nprocs=2)\n    else:\n"
            "        run()\ndef work(rank, run):\n    run()\ndef f():\n    print(loss[0])\nlaunch(f)",
            "loss[0]",
            id="called in several processes, or in this one",
        ),
        pytest.param(
            "class Old:\n    def step(self):\n        print(loss[0])\nclass New(Old):\n    rate = 1\n"
            "if flag:\n    stepper = Old()\nelse:\n    stepper = New()\nstepper.step()",
            "loss[0]",
            id="a method that both of two classes have",
        ),
        pytest.param(
            f"{BATCHES}try:\n    x = it.next()\nexcept:\n    it = iter(loader)\n    x = it.next()",
            "it.next() fails",
            id="what handles it fails in the same way",
        ),
        pytest.param(
            f"{BATCHES}try:\n    x = it.next()\nexcept StopIteration:\n    it = iter(loader)\n    x = next(it)",
            "it.next() fails",
            id="another error is handled",
        ),
        pytest.param(
            f"{BATCHES}try:\n    x = it.next()\nexcept (StopIteration, KeyboardInterrupt):\n    pass",
            "it.next() fails",
            id="two other errors are handled",
        ),
        pytest.param("if torch.distributed.get_rank() == 0:\n    print(loss[0])", "loss[0]", id="in the first process"),
        pytest.param(
            "def rank():\n    if not torch.distributed.is_initialized():\n        return 0\n"
            "    return torch.distributed.get_rank()\n"
            "def is_first():\n    return rank() == 0\nif is_first():\n    print(loss[0])",
            "loss[0]",
            id="in the first process, as a function says",
        ),
    ],
)
def test_what_surely_fails(body: str, subject: str) -> None:
    found = fails(body)

    assert found is not None
    assert subject in found.because


def test_an_old_torch_may_have_it() -> None:
    assert fails("from collections import Mapping", Target((1, 10))) is None
    assert fails("from collections import Mapping", Target((1, 11))) is not None
    assert fails("print(loss[0])", Target(below=(0, 4))) is None
    assert fails("print(loss[0])", Target((1, 0))) is not None


def test_types_of_old_numpys_fail_where_torch_is_new() -> None:
    text = "import numpy as np\nprint(np.zeros(3, dtype=np.float), np.int(3))"

    assert fails(text) is None
    found = fails(text, Target((2, 13)))
    assert found is not None
    assert "numpy.float, numpy.int() fail: they are gone since NumPy 1.24" in found.because


TRAINS = "def train():\n    loss.backward()\n    print(loss[0])\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("if flag:\n    train()\nelse:\n    print(loss)\n", True, id="it trains or evaluates"),
        pytest.param("if flag:\n    train()\nelse:\n    loss.backward()\n", False, id="it trains in another way"),
        pytest.param("if flag:\n    train()\ndef again():\n    train()\nagain()\n", True, id="it does so in any case"),
    ],
)
def test_what_fails_wherever_it_trains(body: str, *, expected: bool) -> None:
    assert (fails(TRAINS + body) is not None) is expected


def test_a_name_that_is_bound_nowhere() -> None:
    text = "def main():\n    Tester(loss).test()\nif __name__ == '__main__':\n    x = y = main()\n"
    found = fails(text)

    assert found is not None
    assert found.because == "the name Tester is bound nowhere"
    assert fails(text.replace("    Tester", "    if loss > 1: Tester")) is None


VERBOSE = "torch.optim.lr_scheduler.StepLR(optimizer, 3, verbose=True)\n"


def test_arguments_that_are_gone() -> None:
    found = fails("from torchvision.utils import save_image\nsave_image(x, 'x.png', range=(-1, 1))")

    assert found is not None
    assert found.because == "save_image() takes no range: it is called value_range now"


def test_what_the_torch_that_is_assumed_has_fails_on_a_newer_one_alone() -> None:
    assert fails(VERBOSE) is None
    assert fails(VERBOSE, Target((2, 6))) is None
    found = fails(VERBOSE, Target((2, 7)))
    assert found is not None
    assert found.because == "StepLR() takes no verbose since torch 2.7: get_last_lr() says what it printed"


def test_it_is_told_beside_what_fails_on_the_assumed_one() -> None:
    found = fails(VERBOSE + "print(loss[0])\n")

    assert found is not None
    assert "takes no verbose" in found.because
    assert len(found.places[0].nodes) == 2


def test_a_module_that_it_imports_cannot_be_imported() -> None:
    found = fails("import steps\n", steps="from torchtext.data import Field\n")

    assert found is not None
    assert "steps.py" in found.because


def test_a_module_that_is_not_python() -> None:
    found = fails("import steps\n", unreadable={"steps": "steps.py cannot be imported: not Python 3"})

    assert found is None or "steps.py" in found.because


def test_the_places_are_those_of_all_modules() -> None:
    found = fails("import steps\nsteps.show(loss)\nprint(loss[0])\n", steps="def show(loss):\n    print(loss[0])\n")

    assert found is not None
    assert {each.module.path for each in found.places} == {"train.py", "steps.py"}


def test_a_module_that_only_scripts_import_that_fail() -> None:
    text = HEAD + "import steps\nsteps.step()\n"
    known = script(text + "print(loss[0])\n", steps="def step():\n    pass\n", other=text, aside="import torch\n")
    train, steps, other, aside = (
        next(each for each in known.modules if each.path == f"{name}.py")
        for name in ("train", "steps", "other", "aside")
    )

    found = failure(known.flow, steps, (train,), UNKNOWN)
    assert found is not None
    assert found.node is None
    assert [each.module for each in found.places] == [train]
    assert failure(known.flow, steps, (train, aside), UNKNOWN) is not None
    assert failure(known.flow, steps, (train, other), UNKNOWN) is None
    assert failure(known.flow, steps, (aside,), UNKNOWN) is None
    assert failure(known.flow, other, (train, other), UNKNOWN) is None


def test_what_one_of_two_scripts_runs_in_a_module() -> None:
    tools = "def show(loss):\n    for i in xrange(3):\n        print(i)\ndef count():\n    return 3\n"
    known = script(
        "import tools\ntools.count()\n",
        tools=tools,
        plot="import tools\ntools.show(1)\n",
        again="import tools\ntools.show(2)\n",
    )
    train, tool, plot, again = (
        next(each for each in known.modules if each.path == f"{name}.py")
        for name in ("train", "tools", "plot", "again")
    )

    assert failure(known.flow, tool, (train,), UNKNOWN) is None
    assert failure(known.flow, tool, (train, plot), UNKNOWN) is None
    assert failure(known.flow, plot, (train, plot), UNKNOWN) is not None
    assert failure(known.flow, train, (train, plot), UNKNOWN) is None
    assert failure(known.flow, tool, (plot, again), UNKNOWN) is not None


@pytest.mark.parametrize(
    ("line", "expected"),
    [("x.cuda(async=True)", True), ("x.cuda(async == 1)", False), ("async def f(): pass", False)],
)
def test_why_a_line_cannot_be_read(line: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert (why_unreadable(line) is not None) is expected


CHAIN = "".join(f"def f{at}():\n    f{at - 1}()\n" for at in range(1, 9))


def test_what_fails_in_a_function_that_many_others_lead_to() -> None:
    found = fails(f"def f0():\n    print(loss[0])\n{CHAIN}f8()\n")

    assert found is not None
    assert fails(f"def f0():\n    print(loss[0])\n{CHAIN}if flag:\n    f8()\n") is None


def test_what_fails_in_functions_that_only_call_each_other() -> None:
    assert fails("def f():\n    print(loss[0])\n    g()\ndef g():\n    f()\n") is None
    assert fails("def f():\n    print(loss[0])\n    g()\ndef g():\n    f()\ng()\n") is not None


SPECTRUM = "torch.stft() fails: return_complex has to be given since torch 2.0 (False returns what it did before)"
SIGNAL = "signal = torch.from_numpy(read()).float()\n"


@pytest.mark.parametrize(
    ("body", "because"),
    [
        pytest.param("torch.stft(signal, 64)", SPECTRUM, id="by position"),
        pytest.param("torch.stft(signal, n_fft=64, window=torch.hann_window(64))", SPECTRUM, id="by name"),
        pytest.param(
            "def spectrum(y):\n    return torch.stft(y, 64)\nspectrum(signal)",
            SPECTRUM,
            id="in a function, of what it is given",
        ),
        pytest.param("signal.stft(64)", SPECTRUM.replace("torch.stft", "signal.stft"), id="the method of a tensor"),
        pytest.param(
            "window = torch.ones(64)\nsignal.stft(64, 16, 64, window, True, 'reflect', False, True)",
            SPECTRUM.replace("torch.stft", "signal.stft"),
            id="a method that is given all before",
        ),
        pytest.param(
            "(signal @ signal).symeig(eigenvectors=True)",
            "(signal @ signal).symeig() fails: torch.linalg.eigh has taken its place",
            id="the method of a product",
        ),
        pytest.param(
            "nn.Parameter(signal).rfft(1)",
            "nn.Parameter(signal).rfft() fails: the functions of torch.fft have taken its place",
            id="the method of a parameter",
        ),
    ],
)
def test_calls_of_torch_1(body: str, because: str) -> None:
    found = fails(SIGNAL + body)

    assert found is not None
    assert found.because == because
    assert fails(SIGNAL + body, Target((1, 7), (1, 8))) is None
    assert fails(SIGNAL + body, Target((2, 1))) is not None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("torch.stft(signal, 64, return_complex=False)", id="what is demanded is given"),
        pytest.param("torch.stft(signal, 64, 16, 64, w, True, 'reflect', False, True, False)", id="by position"),
        pytest.param("signal.stft(64, 16, 64, w, True, 'reflect', False, True, False)", id="to a method, by position"),
        pytest.param("torch.stft(signal, 64, **options)", id="it may be among others"),
        pytest.param("torch.stft(signal, *sizes)", id="it may be among others by position"),
        pytest.param("torch.stft(signal + 0j, 64)", id="a complex signal"),
        pytest.param("torch.stft(torch.fft.ifft(signal), 64)", id="a signal that is computed in complex numbers"),
        pytest.param("torch.stft(signal, 64, window=w.to(torch.cfloat))", id="a complex window"),
        pytest.param("import steps\nsteps.show(signal, torch.complex64)", id="a complex signal, as another file says"),
        pytest.param("if torch.__version__ < '1.7':\n    torch.stft(signal, 64)", id="for old versions"),
        pytest.param("solver.solve(signal)", id="the method of another object"),
        pytest.param("for batch in nn.utils.data.DataLoader(data):\n    batch.solve()", id="a batch of any kind"),
    ],
)
def test_calls_that_torch_2_takes(body: str) -> None:
    steps = "import torch\ndef show(x, as_):\n    torch.stft(x.to(as_), 64)\n"
    assert fails(SIGNAL + body, steps=steps) is None


RANKS = """import torch
def hits(scores, labels, ranks):
    best = scores.topk(max(ranks), 1)[1].t()
    right = best.eq(labels.view(1, -1).expand_as(best))
    return [right[:rank].view(-1).float().sum() for rank in ranks]
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("for x in xs:\n    hits(x, y, (1, 5))\n", True, id="in each iteration"),
        pytest.param("for x in xs:\n    hits(x, y, (1,))\n", False, id="of one rank"),
        pytest.param("if flag:\n    hits(x, y, (1, 5))\n", False, id="under a condition"),
        pytest.param("def test():\n    hits(x, y, (1, 5))\n", False, id="in a function that nobody calls"),
        pytest.param("try:\n    hits(x, y, (1, 5))\nexcept RuntimeError:\n    pass\n", False, id="the script goes on"),
    ],
)
def test_a_view_of_several_rows_of_a_comparison(body: str, *, expected: bool) -> None:
    found = fails(f"from ranking import hits\n{body}", ranking=RANKS)

    assert (found is not None) is expected
    assert found is None or found.because == (
        "right[:rank].view(-1) in ranking.py, line 5, fails: a comparison keeps what t() transposed since torch 1.7, "
        "write reshape instead of view"
    )
    assert fails(f"from ranking import hits\n{body}", Target(below=(1, 7)), ranking=RANKS) is None


ROWS = """\
import collections
import pandas as pd
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self, path):
        self.table = pd.read_csv(path, sep="|", header=None)
    def __len__(self):
        return len(self.table)
    def __getitem__(self, index):
        return self.row(index)
    def row(self, index):
        return self.table.iloc[index, 0]
def join(items):
    return items
"""
READ = "def train():\n    loader = DataLoader(Rows('rows.csv'), collate_fn=join)\n    for x in loader:\n        pass\ntrain()\n"
OLD_JOIN = ROWS.replace("return items", "return isinstance(items[0], collections.Mapping)")
OLD_ROW = ROWS.replace(".iloc[", ".ix[")


@pytest.mark.parametrize(
    ("rows", "because"),
    [
        pytest.param(
            OLD_JOIN,
            "collections.Mapping fails: it is in collections.abc alone since Python 3.10",
            id="where items are joined",
        ),
        pytest.param(
            OLD_ROW,
            "self.table.ix fails: loc takes names and iloc places since pandas 1.0",
            id="below what makes an item",
        ),
    ],
)
def test_what_fails_where_a_loader_is_read(rows: str, because: str) -> None:
    head = "from rows import DataLoader, Rows, join\n"
    found = fails(head + READ, rows=rows)

    assert found is not None
    assert found.because == because
    assert [each.module.path for each in found.places] == ["rows.py"]
    assert fails(head + READ, rows=ROWS) is None
    assert fails(head + READ.replace("for x in loader", "for x in load(loader)"), rows=rows) is None
    assert fails(head + READ.replace("\ntrain()", "\nif flag:\n    train()"), rows=rows) is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("pd.read_csv('rows.csv').ix[0]", id="a row, or of a column that is called ix"),
        pytest.param("pd.read_csv('rows.csv').iloc[0, 1]", id="what there is yet"),
        pytest.param("frame.ix[0, 1]", id="a table that is not known"),
    ],
)
def test_tables_that_may_work(body: str) -> None:
    assert fails(f"import pandas as pd\n{body}\n") is None


def test_a_binary_cross_entropy_of_integers() -> None:
    body = "y = torch.full((4,), 1)\nnn.BCELoss()(x, y)\n"
    found = fails(body)

    assert found is not None
    assert found.because == (
        "nn.BCELoss()() fails: torch.full((4,), 1) makes integers since torch 1.7, fill it with a float"
    )
    assert fails(body, Target((1, 5), (1, 6))) is None
    assert fails(body.replace("1)", "1.0)", 1)) is None


GATES = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList()
        for _ in range(3):
            self.gates.append(nn.Conv1d(4, 4, kernel_size=(1, 2)))
    def forward(self, x):
        for i in range(3):
            x = self.gates[i](x)
        return x
"""


def test_a_convolution_of_one_axis_with_a_kernel_of_two() -> None:
    found = fails(f"{GATES}Net()(x)\n")

    assert found is not None
    assert found.because == "self.gates[i]() fails: a Conv1d with a kernel of two sizes has to be a Conv2d"
    assert fails(f"{GATES}Net()(x)\n", Target((1, 9), (1, 10))) is None


@pytest.mark.parametrize("shape", [(4, 9), (2, 4, 9), (2, 4, 3, 9)])
def test_it_takes_no_input(shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError):
        torch.nn.Conv1d(4, 4, (1, 2))(torch.zeros(shape))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f"{GATES}Net()\n", id="never called"),
        pytest.param(f"{GATES.replace('(1, 2)', '(2,)')}Net()(x)\n", id="one size"),
        pytest.param(f"{GATES.replace('(1, 2)', 'size')}Net()(x)\n", id="a size that is not known"),
        pytest.param(f"{GATES.replace('Conv1d', 'Conv2d')}Net()(x)\n", id="two axes"),
        pytest.param(
            "gate = nn.Conv2d(4, 4, (1, 2))\nif flag:\n    gate = nn.Conv1d(4, 4, (1, 2))\ngate(x)", id="one of two"
        ),
    ],
)
def test_convolutions_that_may_work(body: str) -> None:
    assert fails(body) is None
