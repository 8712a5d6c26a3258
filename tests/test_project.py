"""Which files are understood together, and under which names they import each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.project import files
from autotune_rewrite.project.programs import Part, Project, projects

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Answer


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, in which the tests are run."""
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def write(tree: Path, **texts: str) -> None:
    """Write files: ``pkg__data`` is pkg/data.py."""
    for name, text in texts.items():
        path = tree.joinpath(*name.split("__")).with_suffix(".py")
        if name.endswith("__init"):
            path = path.with_name("__init__.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def together(found: list[Project]) -> list[set[str]]:
    return [{part.path for part in project.parts} for project in found]


def part(found: list[Project], path: str) -> Part:
    return next(part for project in found for part in project.parts if part.path == path)


_ADDED = {
    "a literal": "sys.path.append('lib')",
    "beside the script": "sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'lib'))",
    "beside another directory": "sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools', 'lib'))",
    "by names": "here = osp.dirname(__file__)\nlib = osp.join(here, 'lib')\nif lib not in sys.path:\n    sys.path.insert(0, lib)",
    "by a function": "def add(path):\n    sys.path.insert(0, path)\nhere = osp.dirname(__file__)\nadd(osp.join(here, 'lib'))",
    "a Path": "sys.path.append(str(Path(__file__).resolve().parent / 'lib'))",
    "parents of a Path": "sys.path.append(str(Path(__file__).parents[1] / 'tools' / 'lib'))",
    "a path that is joined by a method": "sys.path.append(Path(__file__).parent.joinpath('lib').as_posix())",
    "text": "sys.path.append(os.path.dirname(__file__) + '/lib')",
    "the current directory": "sys.path.append(os.getcwd() + '/lib')",
}


@pytest.mark.parametrize("code", _ADDED.values(), ids=_ADDED)
def test_directories_that_a_script_adds(tree: Path, code: str) -> None:
    start = "import sys, os, os.path as osp\nfrom pathlib import Path\n"
    write(tree, tools__train=f"{start}{code}\nfrom data import x\n", tools__lib__data="")

    assert together(projects(["tools/train.py"])) == [{"tools/train.py", "tools/lib/data.py"}]


def test_directories_that_an_imported_module_adds(tree: Path) -> None:
    paths = "import sys, os.path as osp\nsys.path.insert(0, osp.join(osp.dirname(__file__), '..', 'lib'))\n"
    write(tree, tools___init_paths=paths, tools__train="import _init_paths\nfrom models.net import x\n")
    write(tree, lib__models__net="from data import y\n", lib__data="", data="")
    found = projects(["tools/train.py"])

    assert together(found) == [{"tools/_init_paths.py", "tools/train.py", "lib/models/net.py", "lib/data.py"}]
    assert dict(part(found, "lib/models/net.py").local)["data"].endswith("lib.data")


@pytest.mark.parametrize(
    "code", ["sys.path.append(args.lib)", "sys.path.append('/usr/lib')", "sys.path.append(", "print('sys.path')"]
)
def test_directories_that_cannot_be_told(tree: Path, code: str) -> None:
    write(tree, train=f"import sys\n{code}\nfrom data import x\n", lib__data="")

    assert together(projects(["train.py"])) == [{"train.py"}]


@pytest.mark.parametrize(
    ("text", "module"),
    [
        pytest.param("import data", "data", id="a module beside the script"),
        pytest.param("import os, data as d", "data", id="among several"),
        pytest.param("from data import (\n    get_loaders,\n    Other,\n)", "data", id="over several lines"),
        pytest.param("from data import *", "data", id="everything of it"),
        pytest.param("if x: import data", "data", id="on the line of a condition"),
        pytest.param("x = 1; from data import y", "data", id="after a semicolon"),
        pytest.param("def main():\n\tfrom data import y", "data", id="in a function"),
        pytest.param("from pkg import data", "pkg__data", id="a module of a directory"),
        pytest.param("import pkg.data", "pkg__data", id="by its dotted name"),
        pytest.param("from pkg.data import x", "pkg__data", id="from its dotted name"),
        pytest.param("from .data import x", "data", id="relative"),
        pytest.param("from . import data", "data", id="relative, the module itself"),
        pytest.param("import importlib\nx = importlib.import_module('data')", "data", id="by a function"),
        pytest.param("from data import x", "src__data", id="from where packages are installed"),
    ],
)
def test_a_script_and_what_it_imports_are_one_project(tree: Path, text: str, module: str) -> None:
    write(tree, train=text, **{module: "x = 1"}, other="import torch")

    found = projects(["train.py"])

    assert together(found) == [{"train.py", f"{module.replace('__', '/')}.py"}]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import database", id="another name that starts alike"),
        pytest.param("# import data", id="a comment"),
        pytest.param("from torch.utils import data", id="a library's module of that name"),
        pytest.param("from .. import data", id="above the directory"),
    ],
)
def test_what_is_not_imported_is_no_part_of_it(tree: Path, text: str) -> None:
    write(tree, train=text, data="x = 1")

    assert together(projects(["train.py"])) == [{"train.py"}]


def test_modules_are_found_above_the_script_too(tree: Path) -> None:
    write(tree, tools__train="from lib.data import x", lib__data="x = 1")

    assert together(projects(["tools/train.py"])) == [{"tools/train.py", "lib/data.py"}]


def test_what_lies_beside_the_script_comes_first(tree: Path) -> None:
    write(tree, tools__train="import data", tools__data="", data="")

    assert together(projects(["tools/train.py"])) == [{"tools/train.py", "tools/data.py"}]


def test_a_directory_beside_the_script_hides_a_package_farther_up(tree: Path) -> None:
    write(tree, old__train="import data.make", old__data__make="", data__make="", data__init="")

    assert together(projects(["old/train.py"])) == [{"old/train.py", "old/data/make.py"}]


@pytest.mark.parametrize("text", ["import data.read", "from data import read", "import data"])
def test_a_directory_that_lacks_what_is_asked_for_hides_no_package(tree: Path, text: str) -> None:
    write(tree, old__train=text, old__data__make="", data__read="", data__init="")

    assert "data/__init__.py" in together(projects(["old/train.py"]))[0]


def test_nothing_is_sought_above_the_top_of_the_project(tree: Path) -> None:
    write(tree.parent, data="")
    write(tree, train="import data")

    assert together(projects(["train.py"])) == [{"train.py"}]


def test_a_module_finds_others_from_where_the_script_lies(tree: Path) -> None:
    write(tree, train="from models.net import Net", models__net="import utils", utils="", models__utils="")

    assert together(projects(["train.py"])) == [{"train.py", "models/net.py", "utils.py"}]


def test_what_leads_elsewhere_from_each_script_leads_nowhere(tree: Path) -> None:
    write(tree, a__train="from lib import x", b__train="from lib import x", lib="import cfg", a__cfg="", b__cfg="")

    found = projects(["a/train.py", "b/train.py"])

    assert dict(part(found, "lib.py").local) == {}
    assert together(found) == [{"a/train.py", "a/cfg.py", "b/train.py", "b/cfg.py", "lib.py"}]


def test_scripts_that_share_nothing_are_understood_alone(tree: Path) -> None:
    write(tree, a="import torch", b="import torch")

    assert together(projects(["a.py", "b.py"])) == [{"a.py"}, {"b.py"}]


def test_each_file_is_in_one_project_however_many_import_it(tree: Path) -> None:
    write(tree, a="import utils", b="import utils", utils="")

    assert together(projects(["a.py", "utils.py", "b.py"])) == [{"a.py", "b.py", "utils.py"}]


def test_who_else_imports_a_module_is_read_and_not_asked(tree: Path) -> None:
    write(tree, a="import utils", b="import utils", utils="")

    found = projects(["a.py"])

    assert {each.path: each.asked for each in found[0].parts} == {"a.py": True, "utils.py": True, "b.py": False}


@pytest.mark.parametrize(
    ("script", "caller"),
    [
        pytest.param("train.py", "tests/test_step.py", id="from a directory below"),
        pytest.param("pkg/train.py", "main.py", id="from outside of its package"),
        pytest.param("pkg", "main.py", id="from outside of a package that is asked for"),
    ],
)
def test_who_imports_a_module_is_found_without_marks_of_a_project(tree: Path, script: str, caller: str) -> None:
    (tree / ".git").rmdir()
    write(tree, train="", pkg__init="", pkg__train="")
    (tree / "tests").mkdir()
    text = (
        "from pkg.train import x" if script.startswith("pkg") else "import sys; sys.path.insert(0, '..')\nimport train"
    )
    (tree / caller).write_text(text)
    named = [each for each in files.python_files([script]) if isinstance(each, str)]

    found = projects(named, [script] if script == "pkg" else [])

    assert {caller, "pkg/train.py" if script.startswith("pkg") else script} <= set().union(*together(found))


def test_unless_followed_only_what_is_named_is_asked(tree: Path) -> None:
    write(tree, a="import utils", utils="")

    found = projects(["a.py"], follow=False)

    assert {each.path: each.asked for each in found[0].parts} == {"a.py": True, "utils.py": False}


GUARDED = 'if __name__ == "__main__":\n    pass'


@pytest.mark.parametrize(
    ("utils", "named", "is_entry"),
    [
        pytest.param("", ["a.py", "utils.py"], False, id="a module"),
        pytest.param(GUARDED, ["a.py"], False, id="a module with a self-test"),
        pytest.param(GUARDED, ["a.py", "utils.py"], True, id="a module that may be run, and is asked for"),
    ],
)
def test_what_is_run(tree: Path, utils: str, named: list[str], *, is_entry: bool) -> None:
    write(tree, a="import utils", utils=utils)

    found = projects(named)

    assert part(found, "a.py").is_entry
    assert part(found, "utils.py").is_entry is is_entry


def test_in_a_circle_each_may_be_run(tree: Path) -> None:
    write(tree, a="import b", b="import a")

    assert all(each.is_entry for each in projects(["a.py"])[0].parts)


def test_names_tell_files_of_one_name_apart(tree: Path) -> None:
    write(tree, train="import utils, pkg.utils", utils="", pkg__init="from . import utils", pkg__utils="")

    found = projects(["train.py"])

    names = {each.path: each.name for each in found[0].parts}
    assert len(set(names.values())) == 4
    assert names["pkg/utils.py"] == f"{names['pkg/__init__.py']}.utils"
    assert dict(part(found, "train.py").local) == {"utils": names["utils.py"], "pkg": names["pkg/__init__.py"]}
    assert part(found, "pkg/__init__.py").is_package


def test_a_library_that_lies_beside_the_script_is_not_followed(tree: Path) -> None:
    write(tree, train="import big\nimport transformers", big__init="", transformers__init="")
    write(tree, **{f"big__module{number}": "" for number in range(250)})

    found = projects(["train.py"])

    assert together(found) == [{"train.py"}]
    assert part(found, "train.py").unread == (("big", 251),)


def test_a_library_that_is_not_followed_is_named(torchfast: Callable[..., Answer], tree: Path) -> None:
    write(tree, train="import torch\nfrom big import module1", big__init="")
    write(tree, **{f"big__module{number}": "import torch" for number in range(250)})

    done = torchfast("check", "train.py")

    assert (done.code, done.out) == (0, "")
    assert (
        done.err
        == "note: big is not followed from what imports it, as it has 251 files: name it to have them checked\n"
    )


def test_what_git_ignores_and_environments_import_is_nobody_s_business(tree: Path) -> None:
    write(tree, train="import utils", utils="", node_modules__x="import utils", venv__x="import utils")
    (tree / "venv" / "pyvenv.cfg").touch()

    assert together(projects(["train.py"])) == [{"train.py", "utils.py"}]


def test_directories_that_hold_data_are_not_searched(tree: Path) -> None:
    write(tree, train="import utils", utils="", data__x="import utils")
    for number in range(1001):
        (tree / "data" / f"{number}.txt").touch()

    assert together(projects(["train.py"])) == [{"train.py", "utils.py"}]


def test_a_file_that_cannot_be_read_is_a_project_of_its_own(tree: Path) -> None:
    write(tree, train="import torch")

    found = projects(["train.py", "missing.py"])

    assert together(found) == [{"train.py"}, {"missing.py"}]


def test_a_link_to_itself_beside_the_script_is_passed_over(tree: Path) -> None:
    write(tree, train="import torch")
    (tree / "loop.py").symlink_to(tree / "loop.py")
    assert together(projects(["train.py"])) == [{"train.py"}]


def test_torch_may_be_mentioned_anywhere_in_a_project(tree: Path) -> None:
    write(tree, a="import utils", utils="import torch", b="import os")

    assert [each.has_torch for each in projects(["a.py", "b.py"])] == [True, False]


def test_paths_are_shown_as_they_were_given(tree: Path) -> None:
    write(tree, train="import utils", utils="")

    absolute = projects([str(tree / "train.py")])
    relative = projects(["./train.py"])

    assert together(absolute) == [{str(tree / "train.py"), str(tree / "utils.py")}]
    assert together(relative) == [{"./train.py", "utils.py"}]


def test_a_directory_s_files_are_each_in_one_project(tree: Path) -> None:
    write(tree, a="from pkg import x", pkg__init="from .y import x", pkg__y="x = 1", b="import torch")
    named = [each for each in files.python_files(["."]) if isinstance(each, str)]

    found = projects(named, ["."])

    assert sorted(path for each in together(found) for path in each) == sorted(named)


@pytest.mark.parametrize(
    ("first", "is_run"),
    [
        pytest.param("#!/usr/bin/env python3", True, id="by env"),
        pytest.param("#!/usr/bin/python3.12 -u", True, id="with an option"),
        pytest.param("#!/bin/bash", False, id="a shell"),
        pytest.param("#!/usr/bin/env pythonic", False, id="another word"),
        pytest.param("import python", False, id="no such line"),
    ],
)
def test_a_command_without_suffix(tree: Path, first: str, *, is_run: bool) -> None:
    write(tree, lib="", bin__train="from other import y\n", other="")
    command = tree / "bin" / "train"
    command.write_text(f"{first}\nfrom lib import x\n")

    found = [each for each in files.python_files(["."]) if isinstance(each, str)]
    assert ("bin/train" in found) is is_run
    assert ({"bin/train", "lib.py"} in together(projects(["lib.py"]))) is is_run
    assert together(projects(["bin/train"])) == [{"bin/train", "lib.py"}]
    assert part(projects(["bin/train"]), "bin/train").is_entry


def test_a_command_beside_a_module_of_its_name(tree: Path) -> None:
    write(tree, train="", other="import train\n")
    (tree / "train").write_text("#!/usr/bin/env python\nimport train\n")
    found = projects(["train"])

    assert together(found) == [{"train", "train.py", "other.py"}]
    assert part(found, "train").name != part(found, "train.py").name
    assert dict(part(found, "train").local)["train"] == part(found, "train.py").name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param('f"pkg.models.{kind}.{name}"', id="in one text"),
        pytest.param("'pkg.models'\n    f'.{kind}.{name}'", id="in two texts"),
        pytest.param("'pkg.'\n    f'models.{kind}.{name}'", id="in two texts, parted elsewhere"),
        pytest.param('f"pkg.models.{name}"', id="a name with dots"),
    ],
)
def test_modules_whose_names_are_computed(tree: Path, name: str) -> None:
    write(tree, train=f"import importlib\nimportlib.import_module({name})\n")
    write(tree, pkg__models__resnet__small="", pkg__models__vgg__deep="", pkg__other="")

    assert together(projects(["train.py"])) == [{"train.py", "pkg/models/resnet/small.py", "pkg/models/vgg/deep.py"}]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import_module('models.' + name)", id="two texts are added"),
        pytest.param(
            "import_module('models.net_' + name + '_model')", id="what begins alike, which is not held against"
        ),
        pytest.param("import_module('models.%s' % name)", id="a text is filled by %"),
        pytest.param("import_module('models.{}'.format(name))", id="by format()"),
        pytest.param("__import__(f'models.{name}')", id="by the builtin function"),
        pytest.param("path = f'models.{name}'\nimport_module(path)", id="the name is put together before"),
        pytest.param("path = 'models.' + name\nimport_module(path)", id="before, by adding"),
        pytest.param(
            "folder = 'models'\nfound = {each[:-3]: f'{folder}.{each[:-3]}' for each in os.listdir(folder)}\n"
            "path = found[name]\nimport_module(path)",
            id="it is a file of a folder",
        ),
        pytest.param(
            "for each in os.scandir('./models/'):\n    import_module(each.stem)", id="of a folder by its path"
        ),
        pytest.param("for each in iter_modules(['models']):\n    import_module(each.name)", id="that pkgutil lists"),
    ],
)
def test_modules_of_a_folder_that_are_imported_by_name(tree: Path, code: str) -> None:
    write(tree, train=f"import os\nfrom importlib import import_module\n{code}\n")
    write(tree, models__small="", models__large="", other="")

    assert together(projects(["train.py"])) == [{"train.py", "models/small.py", "models/large.py"}]


@pytest.mark.parametrize(
    "code",
    [
        "for each in os.listdir(os.path.dirname(__file__)):\n    import_module(f'.{each[:-3]}', __name__)",
        "for each in glob(dirname(__file__) + '/*.py'):\n    import_module(f'{__name__}.{stem(each)}')",
        "for each in pkgutil.iter_modules(__path__):\n    import_module(__name__ + '.' + each.name)\n    import_module(each)",
    ],
)
def test_a_package_that_imports_all_its_modules(tree: Path, code: str) -> None:
    write(tree, train="import models\n", models__init=f"{code}\n", models__small="", other="")

    assert together(projects(["train.py"])) == [{"train.py", "models/__init__.py", "models/small.py"}]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("os.listdir('models')", id="a folder is only listed"),
        pytest.param("import_module(name)\nos.listdir('data')", id="another folder"),
        pytest.param("import_module(name)\npath = 'models.' + other", id="another name"),
    ],
)
def test_a_folder_of_which_nothing_is_imported(tree: Path, code: str) -> None:
    write(tree, train=f"import os\nfrom importlib import import_module\n{code}\n", models__small="")

    assert together(projects(["train.py"])) == [{"train.py"}]


def test_a_module_of_which_nothing_is_known_leads_nowhere(tree: Path) -> None:
    write(
        tree, train='import importlib\nimportlib.import_module(f"{name}")\nimportlib.import_module(f"a{name}")\n', a=""
    )

    assert together(projects(["train.py"])) == [{"train.py"}]
