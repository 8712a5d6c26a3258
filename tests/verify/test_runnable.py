"""Notebooks as scripts that can be run: what is left out, what is refused, and where an error of a run is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.errors import FileError
from autotune_rewrite.project.runnable import Runnable, runnable
from autotune_rewrite.verify.plan import Plan, Turn, VerifyError
from autotune_rewrite.verify.run import run_script
from tests.test_notebooks import BITWISE, SETUP, TRAINING, notebook

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from autotune_rewrite.verify import Judgement
    from tests.conftest import Answer

    Run = Callable[..., Answer]


def of(*sources: str) -> Runnable:
    return runnable("nb.ipynb", json.dumps(notebook(*sources)).encode())


@pytest.mark.parametrize(
    ("source", "left_out"),
    [
        pytest.param("%matplotlib inline\nx = 1", "%matplotlib", id="plots"),
        pytest.param("%config InlineBackend.figure_format = 'retina'\nx = 1", "%config", id="how plots look"),
        pytest.param("%load_ext autoreload\n%autoreload 2\nx = 1", "%load_ext %autoreload", id="extensions"),
        pytest.param("!pip install -q 'torch>=2.0' | tail -1\nx = 1", "!pip", id="an installation"),
        pytest.param(
            "if True:\n    !python -m pip install einops \\\n        timm\nx = 1", "!python", id="over two lines"
        ),
        pytest.param("!CUDA=1 sudo apt-get install -y git && nvidia-smi\nx = 1", "!CUDA=1", id="several commands"),
        pytest.param("!# downloads\nx = 1", "!#", id="a comment of the shell"),
        pytest.param("!ls data 2>/dev/null\nx = 1", "!ls", id="output to nowhere"),
        pytest.param("%pip install einops\nx = 1", "%pip", id="an installation as a magic"),
        pytest.param("%%time\nx = 1", "%%time", id="a clock of a cell"),
        pytest.param("%%capture out\n%%time\nx = 1", "%%capture %%time", id="several above one cell"),
        pytest.param("%time x = 1", "%time", id="a clock of a line"),
        pytest.param("x = 1\nx?", "?", id="help"),
        pytest.param("?print\nx = 1", "?", id="help, asked before"),
    ],
)
def test_what_installs_shows_or_times_is_left_out(source: str, left_out: str) -> None:
    book = of(source)

    assert book.left_out == tuple(left_out.split())
    namespace: dict[str, object] = {}
    exec(book.text, namespace)  # noqa: S102 - the text of the test
    assert namespace["x"] == 1


@pytest.mark.parametrize(
    ("source", "left_out"),
    [
        pytest.param("pip install timm", "pip", id="a command without its percent sign"),
        pytest.param("%%html\n<b>loss</b>", "%%html", id="a page"),
        pytest.param("%%bash\npip install timm\nls", "%%bash", id="a shell that installs"),
    ],
)
def test_a_cell_of_another_language_is_left_out_where_nothing_depends_on_it(source: str, left_out: str) -> None:
    book = of("import torch", source, "x = 1")

    assert book.left_out == (left_out,)
    assert source.partition("\n")[2] not in book.text or "\n" not in source


@pytest.mark.parametrize(
    ("source", "place", "named"),
    [
        pytest.param("x = 1\n!wget -q data.zip", "cell 3:2", "!wget -q data.zip", id="a download"),
        pytest.param("!echo 1 > rows.csv", "cell 3:1", "!echo 1 > rows.csv", id="output to a file"),
        pytest.param("!ls && unzip data.zip", "cell 3:1", "!ls && unzip data.zip", id="one of several commands"),
        pytest.param("!uv run train.py", "cell 3:1", "!uv run train.py", id="an installer that runs a script"),
        pytest.param("%conda run train", "cell 3:1", "%conda run train", id="the same as a magic"),
        pytest.param("%time !wget data.zip", "cell 3:1", "%time !wget data.zip", id="a download that is timed"),
        pytest.param("files = !ls", "cell 3:1", "files = !ls", id="what a command says is used"),
        pytest.param("%%time\nx = 1\n%cd data", "cell 3:3", "%cd data", id="another directory"),
        pytest.param("%env RANK=0", "cell 3:1", "%env RANK=0", id="a variable of the environment"),
        pytest.param("%run other.ipynb", "cell 3:1", "%run other.ipynb", id="another notebook"),
        pytest.param("mkdir out", "cell 3:1", "mkdir out", id="a command without its percent sign"),
        pytest.param("%%bash\nls\nmkdir out", "cell 3:1", "%%bash", id="a cell of the shell"),
        pytest.param("%%writefile net.py\nx = 1", "cell 3:1", "%%writefile net.py", id="a cell that writes a module"),
        pytest.param("x = 1\n\nget_ipython().system('ls')", "cell 3:3", "get_ipython().system", id="IPython itself"),
        pytest.param(
            "%run train.py --epochs 10 --batch-size 64 --lr 0.1",
            "cell 3:1",
            "%run train.py --epochs 10 --batch-size 6…",
            id="a long line",
        ),
    ],
)
def test_what_a_later_cell_may_need_is_refused_with_its_place(source: str, place: str, named: str) -> None:
    with pytest.raises(FileError) as refused:
        of("import torch", source)
    assert (
        str(refused.value) == f"nb.ipynb:{place}: `{named}` is for IPython alone: do it beforehand, and comment it out"
    )


def test_what_awaits_outside_a_function_is_refused_with_its_place() -> None:
    with pytest.raises(FileError, match=r"^nb\.ipynb:cell 3:2: a notebook that awaits outside a function"):
        of("import torch", "x = 1\nawait x")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        pytest.param({"metadata": {"language_info": {"name": "R"}}}, "its language is not Python", id="another kernel"),
        pytest.param({"cells": []}, "has no cell of Python: nothing can be run", id="no cell"),
    ],
)
def test_a_notebook_without_python_cannot_be_run(more: dict[str, object], message: str) -> None:
    with pytest.raises(FileError, match=f"^nb.ipynb: {message}$"):
        runnable("nb.ipynb", json.dumps(notebook("import torch", **more)).encode())


def test_imports_from_the_future_are_where_a_script_may_have_them() -> None:
    book = of("x = 1", "from __future__ import print_function\nfrom __future__ import (\n    annotations,\n)\ny: z = 2")

    namespace: dict[str, object] = {}
    exec(compile(book.text, "nb.ipynb", "exec", dont_inherit=True), namespace)  # noqa: S102 - the text of the test
    assert namespace["y"] == 2
    assert book.cells.place(book.text[: book.text.index("y: z")].count("\n") + 1) == (3, 5)


def test_asking_whether_it_runs_in_ipython_is_no_fault() -> None:
    book = of("colab = 'google.colab' in str(get_ipython())\nname = get_ipython().__class__.__name__")

    namespace: dict[str, object] = {"get_ipython": lambda: None}
    exec(book.text, namespace)  # noqa: S102 - the text of the test
    assert namespace["colab"] is False


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a notebook below the directory that torchfast is started in."""
    monkeypatch.chdir(tmp_path)

    def write(*sources: str, name: str = "nb.ipynb") -> Path:
        path = tmp_path / "sub" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(notebook(*sources)))
        return path

    return write


@pytest.mark.usefixtures("forked")
def test_it_runs_in_its_own_directory_and_an_error_says_cell_and_line(
    book: Callable[..., Path], tmp_path: Path
) -> None:
    path = book(
        "%matplotlib inline\nimport helper, torch, warnings",
        "%%time\nweight = torch.ones(1, requires_grad=True)\nfor _ in range(3):\n    (2 * weight).sum().backward()",
        "display(open('rows.csv').read())\nprint(get_ipython(), helper.x)\nwarnings.warn('hm')",
        "def fail():\n    raise ValueError('no')\n\nfail()",
    )
    (path.parent / "rows.csv").write_text("1,2")
    (path.parent / "helper.py").write_text("x = 1\n")
    before = path.read_bytes()

    run = run_script(Plan(path, path, device="cpu"), Turn("original", 0))

    assert (run.outcome, len(run.times)) == ("crashed", 3)
    assert run.lines[:2] == ("'1,2'", "None 1")
    assert f"{path}:cell 4:3: UserWarning: hm" in run.lines
    places = [line.strip() for line in run.output if "File" in line]
    assert places == [f'File "{path}", cell 5, line 4, in <module>', f'File "{path}", cell 5, line 2, in fail']
    assert path.read_bytes() == before
    assert sorted(tmp_path.rglob("*.ipynb")) == [path]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"arguments": ("-x",)}, "a notebook has no arguments: -- is for scripts", id="arguments"),
        pytest.param({"module": True}, "-m runs modules, and this is a notebook", id="a module"),
        pytest.param(
            {"launcher": ("torchrun",)}, "a notebook runs in one process: --launcher is for scripts", id="a launcher"
        ),
    ],
)
def test_what_is_for_scripts_is_refused(book: Callable[..., Path], options: dict[str, object], message: str) -> None:
    path = book("import torch")
    with pytest.raises(VerifyError, match=f"{message}$"):
        Plan(path, path, **options).check()  # type: ignore[arg-type]


def test_what_python_could_not_start_has_its_place(book: Callable[..., Path]) -> None:
    path = book("import torch", "x = 1\nreturn x")
    with pytest.raises(VerifyError, match=r"nb\.ipynb:cell 3:2: 'return' outside function$"):
        Plan(path, path).check()


def test_what_is_left_out_is_said(torchfast: Run, book: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from autotune_rewrite import verify

    plans: list[Plan] = []

    def run(plan: Plan, *_: object, **__: object) -> Judgement:
        plans.append(plan)
        return verify.Judgement("ok", "faster", "equal", "It is.", plan.promise)

    monkeypatch.setattr(verify, "verify", run)
    path = book(SETUP, TRAINING)
    left_out = f"note: left out of {path}: %%time, %matplotlib\n"

    assert torchfast("verify", path, path).err == left_out
    verified = torchfast("rewrite", str(path), "--verify", *BITWISE)

    assert (verified.code, verified.err) == (0, left_out)
    assert plans[1].original == path
    assert plans[1].place(Turn("rewritten", 0)) == path


def test_what_cannot_be_run_is_one_line(torchfast: Run, book: Callable[..., Path]) -> None:
    path = book("import torch\n!wget data.zip")

    for command in (("verify", path, path), ("rewrite", path, "--verify")):
        answer = torchfast(*command)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.removeprefix("Error: ") == (
            f"{path}:cell 2:2: `!wget data.zip` is for IPython alone: do it beforehand, and comment it out\n"
        )
