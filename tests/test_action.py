"""The recipes for CI, as far as they go without the services: what they run is run, what they name is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.conftest import NAIVE, ROOT
from tests.test_formats import is_of
from tests.test_readme import PYPROJECT, rows

if TYPE_CHECKING:
    from pathlib import Path

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INPUTS = {name: str(each["default"]) for name, each in ACTION["inputs"].items()}
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
PAGE = (ROOT / "docs" / "guide" / "ci.md").read_text(encoding="utf-8")
RECIPES: list[dict[Any, Any]] = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
]

TORCHFAST = f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m autotune_rewrite "$@"\n'
PYTHON = """\
#!/bin/sh
# Instead of Python: `-m venv DIR` makes a directory with a pip that only says what it was asked to install.
mkdir -p "$3/{scripts}"
printf '#!/bin/sh\\nshift 2\\necho "$@" > "{asked}"\\n' > "$3/{scripts}/python"
cp "{torchfast}" "$3/{scripts}/torchfast"
chmod +x "$3/{scripts}/python" "$3/{scripts}/torchfast"
"""


@dataclass(slots=True)
class Job:
    """A job that calls the action, on a runner without GitHub."""

    folder: Path
    scripts: str = "bin"
    said: str = ""
    used: list[str] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def workspace(self) -> Path:
        return self.folder / "work space"

    def file(self, name: str) -> Path:
        """A file of the runner's, or one that the action writes to."""
        return self.folder / name

    def run(self, **given: str) -> int:
        """Run the steps as the runner does, up to the first one that fails."""
        inputs = {**INPUTS, "python": str(self.file("python")), **given}
        assert set(inputs) == set(INPUTS)
        for step in STEPS:
            if not self._wanted(step, inputs):
                continue
            if "uses" in step:
                self.used.append(step["uses"])
                assert self.file(self._filled(step["with"]["sarif_file"], inputs)).is_file()
                continue
            code = self._shell(step, inputs)
            if code:
                return code
        return 0

    def _wanted(self, step: dict[str, Any], inputs: dict[str, str]) -> bool:
        if "if" not in step:
            return True
        asked = re.fullmatch(r"inputs\.(\w+) == '(\w+)'", step["if"])
        assert asked is not None
        return inputs[asked[1]] == asked[2]

    def _filled(self, text: str, inputs: dict[str, str]) -> str:
        known = {
            "github.action_path": str(self.file("action")),
            **{f"inputs.{name}": value for name, value in inputs.items()},
            **{f"steps.check.outputs.{name}": value for name, value in self.outputs.items()},
        }
        return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: known[found[1]], text)

    def _shell(self, step: dict[str, Any], inputs: dict[str, str]) -> int:
        path = self.file("GITHUB_PATH")
        added = path.read_text().splitlines() if path.exists() else []
        environment = {
            "PATH": os.pathsep.join([*added, "/usr/bin", "/bin"]),
            "XDG_CACHE_HOME": str(self.file("cache")),
            "RUNNER_TEMP": str(self.folder),
            **{name: str(self.file(name)) for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")},
            **{name: self._filled(text, inputs) for name, text in step.get("env", {}).items()},
        }
        assert step["shell"] == "bash"
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.workspace,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.said += ended.stdout + ended.stderr
        if self.file("GITHUB_OUTPUT").exists():
            lines = self.file("GITHUB_OUTPUT").read_text().splitlines()
            self.outputs = dict(line.split("=", maxsplit=1) for line in lines)
        return ended.returncode


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job in a repository with one naive script."""
    made = Job(tmp_path)
    made.workspace.mkdir()
    (made.workspace / "train.py").write_text(NAIVE)
    (made.workspace / "clean.py").write_text("print('no torch')\n")
    runner(made, "bin")
    return made


def runner(job: Job, scripts: str) -> None:
    """Give the job a Python whose environments have their programs in a directory of this name."""
    job.file("torchfast-script").write_text(TORCHFAST)
    job.file("python").write_text(
        PYTHON.format(scripts=scripts, asked=job.file("asked"), torchfast=job.file("torchfast-script"))
    )
    job.file("python").chmod(0o755)


def test_findings_are_annotations_and_fail_the_job(job: Job) -> None:
    assert job.run() == 1

    assert "::error file=train.py,line=8,col=10," in job.said
    assert job.outputs == {"exit-code": "1"}
    assert job.used == []
    assert "| train.py:8:10 | `loader-pin` | bitwise |" in job.file("GITHUB_STEP_SUMMARY").read_text()


def test_the_action_s_own_version_is_installed(job: Job) -> None:
    job.run()

    assert job.file("asked").read_text().split() == [
        *("install", "--quiet", "--disable-pip-version-check"),
        str(job.file("action")),
    ]


def test_programs_of_an_environment_on_windows_are_found(job: Job) -> None:
    runner(job, "Scripts")

    assert job.run() == 1
    assert "::error file=train.py" in job.said


def test_a_report_for_code_scanning_is_uploaded_before_the_job_fails(job: Job) -> None:
    assert job.run(sarif="true", annotations="false", summary="false") == 1

    (upload,) = job.used
    assert upload.startswith("github/codeql-action/upload-sarif@")
    is_of("sarif-2.1.0.json", json.loads(job.file("torchfast.sarif").read_text()))
    assert job.outputs["sarif-file"] == str(job.file("torchfast.sarif"))
    assert "::error" not in job.said
    assert "train.py:8:10 loader-pin" in job.said
    assert not job.file("GITHUB_STEP_SUMMARY").exists()


@pytest.mark.parametrize(
    ("given", "code"),
    [
        pytest.param({"fail": "false"}, 0, id="findings need not fail"),
        pytest.param({"paths": "clean.py"}, 0, id="nothing is found"),
        pytest.param({"paths": "clean.py\n\ntrain.py\n"}, 1, id="one path a line"),
        pytest.param({"options": "--level bitwise --fail-on never"}, 0, id="options of check"),
        pytest.param({"options": "--levle bitwise", "fail": "false"}, 2, id="an option that there is not"),
        pytest.param({"paths": "gone.py", "fail": "false"}, 2, id="a file that there is not"),
        pytest.param({"paths": "--exit-zero"}, 2, id="a path is no option"),
    ],
)
def test_the_exit_code_of_the_job(job: Job, given: dict[str, str], code: int) -> None:
    assert job.run(**given) == code, job.said


@pytest.mark.parametrize("name", ["paths", "options"])
@pytest.mark.parametrize("text", ['"; touch owned; "', "$(touch owned)", "`touch owned`", "*"])
def test_an_input_is_never_run(job: Job, name: str, text: str) -> None:
    assert job.run(**{name: text}) == 2

    assert {path.name for path in job.workspace.iterdir()} == {"train.py", "clean.py"}


def test_a_path_with_blanks_is_one_path(job: Job) -> None:
    (job.workspace / "my scripts").mkdir()
    (job.workspace / "my scripts" / "train.py").write_text(NAIVE)

    assert job.run(paths="my scripts") == 1
    assert "::error file=my scripts/train.py,line=8" in job.said


# --- the page -------------------------------------------------------------------------------------------------------


def test_every_input_is_documented_with_its_default() -> None:
    table = rows(PAGE)
    documented = {name.strip("`"): cells[0].strip("`") for name, cells in table.items() if name.startswith("`")}

    assert documented == INPUTS
    assert all(f"`{name}`" in PAGE for name in ACTION["outputs"])


def test_every_workflow_as_written_calls_the_action() -> None:
    workflows = [each for each in RECIPES if "jobs" in each]
    assert len(workflows) == 3
    for workflow in workflows:
        *_, step = workflow["jobs"]["torchfast"]["steps"]
        assert step["uses"].startswith("OWNER/autotune-rewrite@")
        assert set(step.get("with", {})) <= set(INPUTS)
        writes = "security-events" in workflow["permissions"]
        assert writes is bool(step["with"].get("sarif"))


def test_the_hooks_as_written_are_those_of_this_project() -> None:
    ((repository,),) = (each["repos"] for each in RECIPES if "repos" in each)
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))

    assert [each["id"] for each in repository["hooks"]] == [each["id"] for each in hooks]
    assert repository["repo"] == PYPROJECT["project"]["urls"]["Repository"]


def test_the_job_of_gitlab_as_written_leaves_the_report_that_it_names(job: Job) -> None:
    (recipe,) = (each["torchfast"] for each in RECIPES if "torchfast" in each)
    install, check = recipe["script"]
    assert install.startswith(f"pip install git+{PYPROJECT['project']['urls']['Repository']}@")
    job.run(fail="false")

    ended = subprocess.run(
        ["bash", "-c", check],
        cwd=job.workspace,
        env={**os.environ, "PATH": f"{job.file('torchfast')}/bin:/usr/bin:/bin"},
        capture_output=True,
        check=False,
    )

    assert ended.returncode == recipe["allow_failure"]["exit_codes"]
    report = json.loads((job.workspace / recipe["artifacts"]["reports"]["codequality"]).read_text())
    is_of("gitlab-code-quality.json", report)
    assert {"loader-pin"} <= {each["check_name"] for each in report}
    assert {each["location"]["path"] for each in report} == {"train.py"}
