from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import files
from codemods.facts.reason import Said, Spot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Answer

    Run = Callable[..., Answer]

SETUP = """\
%matplotlib inline
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

data = datasets.CIFAR10("data", transform=transforms.ToTensor())
loader = DataLoader(data, batch_size=64, num_workers=2)
model = torch.nn.Linear(3072, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""

TRAINING = """\
%%time
for images, labels in loader:
    images, labels = images.cuda(), labels.cuda()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images.flatten(1)), labels)
    loss.backward()
    optimizer.step()"""

BITWISE = ("--level", "bitwise")


def notebook(*sources: str | list[str], **more: Any) -> dict[str, Any]:
    """A notebook of a cell of text and these cells of code."""
    output = {"name": "stdout", "output_type": "stream", "text": ["loss.backward()  # é\n"]}
    text = {"cell_type": "markdown", "metadata": {}, "source": ["# optimizer.zero_grad()"]}
    code = [
        {"cell_type": "code", "execution_count": 3, "metadata": {"tags": ["a"]}, "outputs": [output], "source": each}
        for each in sources
    ]
    return {"cells": [text, *code], "metadata": {}, "nbformat": 4, "nbformat_minor": 4, **more}


def lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def decoded(*sources: str, **more: Any) -> files.Source:
    """The notebook of these cells of code, the first of which mentions torch."""
    data = json.dumps(notebook("import torch", *sources, **more)).encode()
    return files.decode("nb.ipynb", data)


def refused(data: bytes) -> str:
    with pytest.raises(FileError) as refusal:
        files.decode("nb.ipynb", data)
    return str(refusal.value)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A notebook with a naive training, as Jupyter writes it."""
    path = tmp_path / "nb.ipynb"
    path.write_text(json.dumps(notebook(lines(SETUP), lines(TRAINING)), indent=1, ensure_ascii=False) + "\n")
    return path


# --- the program ----------------------------------------------------------------------------------------------------


def test_the_program_is_the_code_cells_under_a_line_for_each() -> None:
    assert decoded("x = 1", "", "y = 2\n").text == (
        "pass  # notebook cell 2\nimport torch\npass  # notebook cell 3\nx = 1\npass  # notebook cell 5\ny = 2\n\n"
    )


def test_a_cell_that_looks_like_ours_changes_our_lines() -> None:
    source = decoded("pass  # notebook cell 2\n!ls\n")

    assert source.text == (
        "pass  # notebook_ cell 2\nimport torch\n"
        "pass  # notebook_ cell 3\npass  # notebook cell 2\npass  # notebook_ magic 0\n\n"
    )
    assert source.encode(source.text) == source.data


@pytest.mark.parametrize(
    ("cell", "program"),
    [
        pytest.param("%matplotlib inline\nx = 1", "pass  # notebook magic 0\nx = 1", id="a magic"),
        pytest.param("!pip install 'x", "pass  # notebook magic 0", id="a command with an open quote"),
        pytest.param("if x:\n    !ls", "if x:\n    pass  # notebook magic 0", id="alone in a suite"),
        pytest.param("!ls \\\n  -l\nx = 1", "pass \\\n  # notebook magic 0\nx = 1", id="on a second line"),
        pytest.param("f = !ls *", "f = get_ipython()  # notebook magic 0", id="a command's output"),
        pytest.param("a.b = %sql x", "a.b = get_ipython()  # notebook magic 0", id="a magic's value"),
        pytest.param("len?", "pass  # notebook magic 0", id="help"),
        pytest.param("?len", "pass  # notebook magic 0", id="help asked first"),
        pytest.param("%time f(x)  ", "f(x)    # notebook magic 0", id="a statement that is timed"),
        pytest.param("%timeit -n 9 f(x)", "pass  # notebook magic 0", id="a statement behind options"),
        pytest.param('x = """\n!ls\n"""\n!ls', 'x = """\n!ls\n"""\npass  # notebook magic 0', id="text in a string"),
        pytest.param("x = (5\n%3)\n!ls", "x = (5\n%3)\npass  # notebook magic 0", id="a remainder in parentheses"),
        pytest.param("x = 5 \\\n%3\n!ls", "x = 5 \\\n%3\npass  # notebook magic 0", id="a continued remainder"),
        pytest.param("x = '(' # [\n!ls", "x = '(' # [\npass  # notebook magic 0", id="brackets that open nothing"),
        pytest.param("x = 1  # why?\n!ls", "x = 1  # why?\npass  # notebook magic 0", id="a question in a comment"),
        pytest.param("x = '''\n!ls\n'''", "x = '''\n!ls\n'''", id="no magic at all"),
    ],
)
def test_what_ipython_alone_understands_is_masked(cell: str, program: str) -> None:
    source = decoded(cell)

    assert source.text == f"pass  # notebook cell 2\nimport torch\npass  # notebook cell 3\n{program}\n"
    compile(source.text, "nb.ipynb", "exec")
    assert source.cells is not None
    assert source.cells.sources(source.text) == {2: "import torch", 3: cell}


@pytest.mark.parametrize("magic", ["%%time", "\n%%timeit -n 1", "%%capture out\n%%time"])
def test_a_cell_magic_over_python_is_left_out_of_the_program(magic: str) -> None:
    source = decoded(f"{magic}\nx = 1")

    assert source.text.endswith("\npass  # notebook cell 3\nx = 1\n")
    assert source.cells is not None
    assert source.cells.sources(source.text)[3] == f"{magic}\nx = 1"
    assert source.cells.place(4) == (3, magic.count("\n") + 2)


@pytest.mark.parametrize(
    "cell", ["%%bash\nls", "%%writefile x.py\nimport x", "%%html\n<b>", "%%cython\nx", "pip install x"]
)
def test_a_cell_that_is_no_python_is_left_out_of_the_program(cell: str) -> None:
    assert decoded(cell, "x = 1").text.endswith("torch\npass  # notebook cell 4\nx = 1\n")


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"kernelspec": {"language": "R", "name": "ir"}}, id="by its kernel"),
        pytest.param({"language_info": {"name": "julia"}}, id="by its language"),
    ],
)
def test_a_notebook_in_another_language_is_nothing_for_us(metadata: dict[str, Any]) -> None:
    assert not decoded("x <- 1", metadata=metadata).mentions_torch


@pytest.mark.parametrize(
    "metadata", [{"kernelspec": None}, {"language_info": "R"}, {"language_info": {"name": "python"}}]
)
def test_a_notebook_is_python_where_it_says_nothing_else(metadata: dict[str, Any]) -> None:
    assert decoded("x = 1", metadata=metadata).mentions_torch


def test_a_notebook_whose_outputs_alone_mention_torch_is_nothing_for_us() -> None:
    source = files.decode("nb.ipynb", json.dumps(notebook("print 1", "%%bash\npip install torch")).encode())

    assert not source.mentions_torch


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b'{"torch"', "nb.ipynb:1: not a notebook: Expecting ':' delimiter", id="no JSON"),
        pytest.param(b"torch \xff", "nb.ipynb:1: not UTF-8: invalid start byte", id="no UTF-8"),
        pytest.param(b'["torch"]', "nb.ipynb: not a notebook: it is no object of JSON", id="a list"),
        pytest.param(
            b'{"torch": 1, "nbformat": 4}', "nb.ipynb: not a notebook: it has no list of cells", id="no cells"
        ),
        pytest.param(
            b'{"nbformat": 4, "metadata": {}, "cells": {"torch": 1}}',
            "nb.ipynb: not a notebook: it has no list of cells",
            id="cells that are no list",
        ),
        pytest.param(
            b'{"nbformat": 4, "cells": [], "torch": 1}',
            "nb.ipynb: not a notebook: its metadata is no object of JSON",
            id="no metadata",
        ),
        pytest.param(
            b'{"nbformat": 4, "metadata": [], "cells": [], "torch": 1}',
            "nb.ipynb: not a notebook: its metadata is no object of JSON",
            id="metadata that are a list",
        ),
        pytest.param(
            b'{"nbformat": 4, "metadata": {}, "cells": ["torch"]}',
            "nb.ipynb: not a notebook: a cell is no object of JSON",
            id="a cell that is a text",
        ),
        pytest.param(
            b'{"nbformat": 4, "metadata": {}, "cells": [{"metadata": {}, "source": "torch"}]}',
            "nb.ipynb: not a notebook: a cell's type is no text",
            id="a cell without a type",
        ),
        pytest.param(
            b'{"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "code", "metadata": {"torch": 1}}]}',
            "nb.ipynb: not a notebook: a cell's source is no text",
            id="a cell without a source",
        ),
        pytest.param(
            b'{"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "code", "source": ["torch", 1]}]}',
            "nb.ipynb: not a notebook: a cell's source is no text",
            id="a line that is no text",
        ),
        pytest.param(b'"torch' + b"[" * 9, "nb.ipynb:1: not a notebook: Unterminated string starting at", id="half"),
        pytest.param(
            b'{"worksheets": [], "torch": 1, "nbformat": 3}',
            "nb.ipynb: notebook format 3: convert it with `jupyter nbconvert --to notebook`",
            id="an old format",
        ),
        pytest.param(
            b'{"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "code", "metadata": {}, "source": {"torch": 1}}]}',
            "nb.ipynb: not a notebook: a cell's source is no text",
            id="a source that is no text",
        ),
        pytest.param(b"[" * 100_000 + b"torch", "nb.ipynb: nested too deeply to be understood", id="deep"),
    ],
)
def test_what_is_no_notebook_is_refused_in_one_line(data: bytes, message: str) -> None:
    assert refused(data) == message


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        pytest.param("x = 1\nprint 1", "nb.ipynb:cell 3:2: not Python 3: ", id="no Python 3"),
        pytest.param("%%time\n!ls \\\n  -l\nx = (", "nb.ipynb:cell 3:4: not Python 3: ", id="below magics"),
        pytest.param("def f():", "nb.ipynb:cell 3:1: not Python 3: ", id="half of a function"),
        pytest.param("x = '\ud800'", "nb.ipynb:cell 3:1: not Python: ", id="no character"),
        pytest.param(
            "\nawait f()", "nb.ipynb:cell 3:2: a notebook that awaits outside a function is not understood", id="await"
        ),
        pytest.param(
            "async with f:\n    pass",
            "nb.ipynb:cell 3:1: a notebook that awaits outside a function is not understood",
            id="async with",
        ),
    ],
)
def test_a_cell_that_is_not_understood_is_named_in_one_line(cell: str, message: str) -> None:
    said = refused(json.dumps(notebook("import torch", cell, "    pass")).encode())

    assert said.startswith(message)
    assert "\n" not in said


def test_await_in_a_function_is_understood() -> None:
    assert "await g()" in decoded("async def f():\n    await g()").text


# --- what is written ------------------------------------------------------------------------------------------------


def test_only_the_sources_of_changed_cells_change(torchfast: Run, book: Path) -> None:
    before = book.read_text()

    answer = torchfast("rewrite", "nb.ipynb", "--apply", *BITWISE)

    assert answer.code == 0
    assert book.read_text() == (
        before.replace("num_workers=2)", "num_workers=2, pin_memory=True)")
        .replace("images.cuda(), labels.cuda()", "images.cuda(non_blocking=True), labels.cuda(non_blocking=True)")
        .replace('"    optimizer.zero_grad()', '"    optimizer.zero_grad(set_to_none=True)')
    )
    after = book.read_text()
    assert torchfast("rewrite", "nb.ipynb", "--apply", *BITWISE).code == 0
    assert book.read_text() == after


STYLES = [
    pytest.param('"import torch  # é\\nx = 1"', '"import torch  # é\\nx = 1\\ny = 2"', id="one text"),
    pytest.param('"import torch  # \\u00e9\\nx = 1"', '"import torch  # \\u00e9\\nx = 1\\ny = 2"', id="in ASCII"),
    pytest.param('["import torch\\n","x = 1"]', '["import torch\\n","x = 1\\n","y = 2"]', id="a list without blanks"),
    pytest.param('["import torch\\nx = 1"]', '["import torch\\n", "x = 1\\n", "y = 2"]', id="a list of one text"),
    pytest.param('[\n\t"import torch"\n]', '[\n\t"import torch\\n",\n\t"y = 2"\n]', id="a list of one line"),
    pytest.param(
        '[\r\n  "import torch  # \\u00e9, \\/\\n",\r\n  "x = \'é\'"\r\n ]',
        '[\r\n  "import torch  # \\u00e9, \\/\\n",\r\n  "x = \'é\'\\n",\r\n  "y = 2"\r\n ]',
        id="lines that stay keep their spelling",
    ),
]


@pytest.mark.parametrize(("before", "after"), STYLES)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_source_keeps_its_style(before: str, after: str, mark: str) -> None:
    around = mark + (
        '{ "nbformat":4,"cells" : [{"source": ["source"], "cell_type": "raw", "metadata": {}} ,\n'
        '{"metadata":{"source": "]}"}, "outputs": [], "source" :SOURCE, "cell_type":"code"}], "metadata": {"n": 1e2}} \n'
    )
    source = files.decode("nb.ipynb", around.replace("SOURCE", before).encode())

    assert source.encode(source.text + "y = 2\n") == around.replace("SOURCE", after).encode()
    assert source.encode(source.text) == source.data


def test_an_edited_statement_keeps_its_magic() -> None:
    source = decoded("if x:\n    %time f(x)\n    !ls")

    changed = source.encode(source.text.replace("f(x)", "f(x, y=1)"))

    assert json.loads(changed)["cells"][2]["source"] == "if x:\n    %time f(x, y=1)\n    !ls"
    source = decoded("%timeit e")
    changed = source.encode(source.text.replace("e  # notebook magic", "f  # notebook magic"))
    assert json.loads(changed)["cells"][2]["source"] == "%timeit f"


def test_a_magic_moves_with_its_block() -> None:
    source = decoded("f()\n!ls \\\n -l")

    changed = source.encode(source.text.replace("f()\npass", "with x:\n    f()\n    pass"))

    assert json.loads(changed)["cells"][2]["source"] == "with x:\n    f()\n    !ls \\\n -l"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("get_ipython()", "g()"), id="an edited command"),
        pytest.param(("y = 1\n", "y = 1\nf(\n"), id="no Python"),
    ],
)
def test_what_cannot_be_put_back_is_not_written(change: tuple[str, str]) -> None:
    source = decoded("x = !ls", "y = 1")

    with pytest.raises(FileError, match=r"^nb\.ipynb"):
        source.encode(source.text.replace(*change))


def test_a_lone_carriage_return_ends_a_line() -> None:
    cells = decoded("x = 1\ry = 2", "z = 3").cells

    assert cells is not None
    assert cells.place(7) == (4, 1)


def test_carriage_returns_stay() -> None:
    source = decoded("x = 1\r\n!ls\r\ny = 2\r\n")

    assert source.encode(source.text) == source.data
    changed = source.encode(source.text.replace("y = 2", "y = 3"))
    assert json.loads(changed)["cells"][2]["source"] == "x = 1\r\n!ls\r\ny = 3\r\n"


# --- what is said ---------------------------------------------------------------------------------------------------


def test_sites_are_named_by_cell_and_line(torchfast: Run, book: Path) -> None:
    answer = torchfast("check", book.name, *BITWISE)

    assert answer.code == 1
    assert [each.split("  ")[0] for each in answer.out.splitlines()[:-1] if "  left: " not in each] == [
        "nb.ipynb:cell 2:7:10 loader-pin",
        "nb.ipynb:cell 3:3:22 h2d-non-blocking",
        "nb.ipynb:cell 3:4:5 zero-grad-none",
    ]


def test_lines_in_messages_are_those_of_cells(torchfast: Run, book: Path) -> None:
    book.write_text(
        json.dumps(notebook(SETUP.replace("transforms.ToTensor()", "transforms.Lambda(lambda image: 1)"), TRAINING))
    )

    answer = torchfast("check", book.name, "--select", "loader-workers")

    assert answer.out == ""  # it has workers
    book.write_text(book.read_text().replace(", num_workers=2", ""))
    answer = torchfast("check", book.name, "--select", "loader-workers")
    because = "a lambda cannot be sent to a worker process (cell 2:6): make it a function of a module that is imported"
    assert answer.out.startswith("nb.ipynb:cell 2:7:10 loader-workers  ")
    assert f"workers only where they are forked: {because}  " in answer.out


@pytest.mark.parametrize(
    ("before", "spots", "said"),
    [
        pytest.param("why (line 5)", [Spot(5, 11, (5,))], "why (cell 3:2)", id="one"),
        pytest.param("why (lines 2 and 5)", [Spot(5, 18, (2, 5), " and ")], "why (cells 2:1 and 3:2)", id="together"),
        pytest.param("line 2 and line 5", [Spot(0, 6, (2,)), Spot(11, 17, (5,))], "cell 2:1 and cell 3:2", id="apart"),
        pytest.param("above line 6", [Spot(6, 12, (6,))], "above cell 3:3", id="below the last line"),
        pytest.param("a lambda (data.py, line 4)", [], "a lambda (data.py, line 4)", id="of another file"),
    ],
)
def test_places_are_those_of_cells(before: str, spots: list[Spot], said: str) -> None:
    cells = decoded("x = 1\ny = 2").cells

    assert cells is not None
    assert cells.words(Said(before, tuple(spots))) == said


def test_each_changed_cell_has_a_diff(torchfast: Run, book: Path) -> None:
    answer = torchfast("rewrite", book.name, "--select", "zero-grad-none", "--diff")

    assert answer.out.startswith(
        "--- nb.ipynb:cell 3\t\n+++ nb.ipynb:cell 3\t\n@@ -1,7 +1,7 @@\n %%time\n for images, labels in loader:\n"
        "     images, labels = images.cuda(), labels.cuda()\n"
        "-    optimizer.zero_grad()\n+    optimizer.zero_grad(set_to_none=True)\n"
    )
    assert answer.out.count("\n---") == 0


def test_json_names_cells(torchfast: Run, book: Path) -> None:
    answer = torchfast("rewrite", book.name, "--select", "zero-grad-none", "--format", "json")

    said = json.loads(answer.out)
    (finding,) = said["findings"]
    assert {key: finding[key] for key in ("path", "cell", "line", "end_line", "column")} == {
        "path": "nb.ipynb",
        "cell": 3,
        "line": 4,
        "end_line": 4,
        "column": 5,
    }
    assert finding["edits"] == [{"path": "nb.ipynb", "cell": 3, "line": 4, "end_line": 4}]
    (diff,) = said["diffs"]
    assert (diff["path"], diff["cell"]) == ("nb.ipynb", 3)
    assert diff["diff"].startswith("--- nb.ipynb:cell 3")


def test_errors_name_cells(torchfast: Run, book: Path) -> None:
    book.write_text(json.dumps(notebook("import torch", "\nx = 1  # torchfast: ignore[loader-pim]")))

    answer = torchfast("check", book.name, "--format", "json")

    assert answer.code == 2
    assert answer.err == "nb.ipynb:cell 3:2: unknown rule 'loader-pim'; did you mean 'loader-pin'?\n"
    assert json.loads(answer.out)["errors"] == [
        {
            "path": "nb.ipynb",
            "cell": 3,
            "line": 2,
            "message": "unknown rule 'loader-pim'; did you mean 'loader-pin'?",
        }
    ]


def test_comments_leave_sites_of_notebooks_alone(torchfast: Run, book: Path) -> None:
    ignored = TRAINING.replace("zero_grad()", "zero_grad()  # torchfast: ignore[zero-grad-none] as in the paper")
    book.write_text(json.dumps(notebook(SETUP, ignored)))

    answer = torchfast("check", book.name, "--select", "zero-grad-none")

    assert answer.out.startswith("nb.ipynb:cell 3:4:5 zero-grad-none  left: ignored here: as in the paper\n")


def test_facts_name_cells(torchfast: Run, book: Path) -> None:
    answer = torchfast("facts", book.name)

    assert answer.code == 0
    assert all(line.startswith("cell ") for line in answer.out.splitlines())
    assert any(line.startswith("cell 2:7: ") for line in answer.out.splitlines())


def test_directories_are_searched_for_notebooks(torchfast: Run, book: Path) -> None:
    checkpoints = book.parent / ".ipynb_checkpoints"
    checkpoints.mkdir()
    (checkpoints / "nb-checkpoint.ipynb").write_text(book.read_text())

    assert list(files.python_files([str(book.parent)])) == [str(book)]
    assert torchfast("check", ".", *BITWISE).code == 1


# --- what is rewritten ----------------------------------------------------------------------------------------------


def rewritten(torchfast: Run, book: Path, *options: str) -> list[str]:
    """The sources of the cells of code after a rewrite."""
    answer = torchfast("rewrite", book.name, "--apply", *options)
    assert answer.code == 0, answer.err
    return ["".join(each["source"]) for each in json.loads(book.read_text())["cells"][1:]]


def test_workers_in_a_notebook_need_no_guard(torchfast: Run, book: Path) -> None:
    book.write_text(json.dumps(notebook(SETUP.replace(", num_workers=2", ""), TRAINING)))

    setup, training = rewritten(torchfast, book, "--select", "loader-workers")

    assert "loader = DataLoader(data, batch_size=64, num_workers=4)" in setup
    assert training == TRAINING


PHOTOS = """\
from PIL import Image

class Photos(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return transforms.functional.to_tensor(Image.open(self.paths[index])), index
"""


@pytest.mark.parametrize(
    ("definition", "change", "because"),
    [
        pytest.param(
            PHOTOS,
            ('datasets.CIFAR10("data", transform=transforms.ToTensor())', 'Photos(["a.png"])'),
            "objects of class Photos, which is defined in the notebook, cannot be sent to a worker process (cell 3:3): "
            "import it from a module",
            id="a data set of the notebook",
        ),
        pytest.param(
            "def collate(items):\n    return torch.utils.data.default_collate(items)\n",
            ("batch_size=64", "batch_size=64, collate_fn=collate"),
            "collate(), which is defined in the notebook, cannot be sent to a worker process (cell 3:1): "
            "import it from a module",
            id="a collate function of the notebook",
        ),
    ],
)
def test_workers_that_are_not_forked_are_sent_nothing_that_a_notebook_defines(
    torchfast: Run, book: Path, definition: str, change: tuple[str, str], because: str
) -> None:
    imports, making = SETUP.replace(", num_workers=2", "").split("\n\n")
    book.write_text(json.dumps(notebook(imports, definition, making.replace(*change), TRAINING)))

    answer = torchfast("check", book.name, "--select", "loader-workers")
    *_, making, _ = rewritten(torchfast, book, "--select", "loader-workers")

    assert f"workers only where they are forked: {because}" in answer.out
    assert 'num_workers=4 if torch.multiprocessing.get_start_method() == "fork" else 0)' in making


def test_what_is_inserted_lands_in_the_cells_it_belongs_to(torchfast: Run, book: Path) -> None:
    setup = SETUP.replace("import torch\n", "from torch import nn, optim\n").replace(
        "import datasets", "import models, datasets"
    )
    imports, making = setup.replace("torch.optim", "optim").split("\n\n")
    making = making.replace("torch.nn.Linear(3072, 10)", "models.resnet18(num_classes=10)")
    training = TRAINING.replace("torch.nn.", "nn.").replace("images.flatten(1)", "images")
    book.write_text(json.dumps(notebook(imports, "!ls", making, "# Now train it.\n!ls", f"\n{training}")))

    sources = rewritten(torchfast, book, "--select", "amp,compile")

    assert sources == [
        """\
%matplotlib inline
from torch import nn, optim
from torch.utils.data import DataLoader
import torch
from torchvision import models, datasets, transforms""",
        "!ls",
        """\
data = datasets.CIFAR10("data", transform=transforms.ToTensor())
loader = DataLoader(data, batch_size=64, num_workers=2)
model = models.resnet18(num_classes=10).cuda()
model.compile()
optimizer = optim.SGD(model.parameters(), lr=0.1)
amp_dtype = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype is torch.float16)""",
        "# Now train it.\n!ls",
        """\

%%time
for images, labels in loader:
    images, labels = images.cuda(), labels.cuda()
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype):
        loss = nn.functional.cross_entropy(model(images), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()""",
    ]


def test_an_import_without_others_beside_it_lands_below_our_first_line() -> None:
    from codemods.dataflow.source import Module
    from codemods.editing.apply import apply
    from codemods.editing.values import Import

    source = decoded("!ls")
    module = Module(source.path, source.text.replace("import torch", "torch = 1"))

    assert apply(module, [Import(module, "import torch")]) == (
        "pass  # notebook cell 2\nimport torch\ntorch = 1\npass  # notebook cell 3\npass  # notebook magic 0\n"
    )


def test_nothing_is_put_above_our_first_line() -> None:
    from codemods.dataflow.source import Module
    from codemods.editing import problems
    from codemods.editing.values import Insert

    module = Module("nb.ipynb", decoded("x = 1").text)
    mark, first = module.tree.body[:2]

    refused = problems.problem(Insert(module, mark, "x = 1", "before"))
    assert refused is not None
    assert refused.text == "nothing can stand above a notebook's first cell"
    assert problems.problem(Insert(module, mark, "x = 1", "after")) is None
    assert problems.problem(Insert(module, first, "x = 1", "before")) is None


def test_what_stands_in_several_cells_is_not_put_under_one_block(torchfast: Run, book: Path) -> None:
    cells = (
        SETUP,
        "images, labels = next(iter(loader))\nimages, labels = images.cuda(), labels.cuda()\noutput = model(images)",
        "loss = torch.nn.functional.cross_entropy(output, labels)",
        "optimizer.zero_grad()\nloss.backward()\noptimizer.step()",
    )
    book.write_text(json.dumps(notebook(*cells)))

    answer = torchfast("check", book.name, "--select", "amp")

    assert answer.out.startswith("nb.ipynb:cell 5:2:1 amp  left: its code stands in several cells of the notebook\n")


def test_a_notebook_on_standard_input_is_refused(torchfast: Run, book: Path) -> None:
    answer = torchfast("rewrite", "-", stdin=book.read_bytes())

    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "<stdin>: a notebook: give the name of its file instead\n"


def test_a_notebook_is_not_written_under_another_suffix(torchfast: Run, book: Path) -> None:
    answer = torchfast("rewrite", book.name, "--output", "fast.py")

    assert answer.code == 2
    assert "what is rewritten is a notebook, whose name ends in .ipynb" in answer.err
    assert not (book.parent / "fast.py").exists()
