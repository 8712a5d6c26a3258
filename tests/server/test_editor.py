"""``torchfast server``, as an editor speaks with it over standard input and output."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from functools import partial
from textwrap import indent
from typing import TYPE_CHECKING, Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from autotune_rewrite.rewriting import batch
from autotune_rewrite.rewriting.config import Options
from autotune_rewrite.rewriting.fixes import applied
from tests.conftest import NAIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from tests.conftest import Answer

pytestmark = pytest.mark.xdist_group("editor")  # one server for all

SECONDS = 60
SMILING = NAIVE.replace('"data",', '"😀😀", ').replace(
    'device = torch.device("cuda")', 'device = torch.device("cuda")  # 😀'
)
"""The same script with characters that take two units of UTF-16."""
HELPER = """\
import torch
from torch.utils.data import DataLoader


def loader(data):
    return DataLoader(data, batch_size=64, num_workers=2)
"""
IMPORTING = NAIVE.replace("from torch.utils.data import DataLoader\n", "from helper import loader as make\n").replace(
    "DataLoader(data, batch_size=64, shuffle=True, num_workers=2)", "make(data)"
)


DECODING = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

train = datasets.MNIST("data", train=True, transform=transforms.ToTensor())
test = datasets.MNIST("data", train=False, transform=transforms.ToTensor())
loader = DataLoader(train, batch_size=64, shuffle=True)
validation = DataLoader(test, batch_size=64)
model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for images, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    for images, labels in validation:
        model(images)
"""
"""Two loaders of which something is found once their images are decoded before."""


class Editor:
    """A program that has files open, and hears what a server says of them."""

    def __init__(self, capabilities: types.ClientCapabilities) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.client = LanguageClient("tests", "1")
        self._said: queue.Queue[types.PublishDiagnosticsParams] = queue.Queue()
        self.messages: queue.Queue[str] = queue.Queue()
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(partial(self._said.put))
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: self.messages.put(params.message))
        self.ask(self._start(capabilities))
        self._versions: dict[str, int] = {}

    async def _start(self, capabilities: types.ClientCapabilities) -> None:
        await self.client.start_io(sys.executable, "-m", "autotune_rewrite", "server", "--stdio")
        self.began = await self.client.initialize_async(types.InitializeParams(capabilities=capabilities))
        self.client.initialized(types.InitializedParams())

    def ask(self, question: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result(SECONDS)

    def tell(self, method: Callable[[Any], None], params: object) -> None:
        self._loop.call_soon_threadsafe(method, params)

    def end(self) -> None:
        async def leave() -> int | None:
            await self.client.shutdown_async(None)
            self.client.exit(None)
            server = self.client._server
            assert isinstance(server, asyncio.subprocess.Process)
            code = await server.wait()
            await self.client.stop()  # type: ignore[no-untyped-call]
            return code

        assert self.ask(leave()) == 0
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # What is done in an editor.

    def open(self, path: Path, text: str) -> list[types.Diagnostic]:
        """Opens a file that holds another text than the disk, perhaps, and answers what is said of it."""
        self._versions[path.as_uri()] = 1
        item = types.TextDocumentItem(path.as_uri(), "python", 1, text)
        self.tell(self.client.text_document_did_open, types.DidOpenTextDocumentParams(item))
        return self.heard(path)

    def type(self, path: Path, text: str) -> None:
        version = self._versions[path.as_uri()] = self._versions[path.as_uri()] + 1
        document = types.VersionedTextDocumentIdentifier(version, path.as_uri())
        changes = [types.TextDocumentContentChangeWholeDocument(text)]
        self.tell(self.client.text_document_did_change, types.DidChangeTextDocumentParams(document, changes))

    def close(self, path: Path) -> None:
        document = types.TextDocumentIdentifier(path.as_uri())
        self.tell(self.client.text_document_did_close, types.DidCloseTextDocumentParams(document))
        assert self.heard(path, version=None) == []

    def saved(self, path: Path) -> None:
        document = types.TextDocumentIdentifier(path.as_uri())
        self.tell(self.client.text_document_did_save, types.DidSaveTextDocumentParams(document))

    def heard(self, path: Path, version: int | None = 0) -> list[types.Diagnostic]:
        """What is said next of a file, of its version by default."""
        version = self._versions[path.as_uri()] if version == 0 else version
        while True:
            said = self._said.get(timeout=SECONDS)
            if (said.uri, said.version) == (path.as_uri(), version):
                return [*said.diagnostics]

    def actions(
        self, path: Path, lines: range = range(10_000), only: list[str] | None = None
    ) -> list[types.CodeAction]:
        place = types.Range(types.Position(lines.start, 0), types.Position(lines.stop - 1, 0))
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(path.as_uri()), place, types.CodeActionContext([], only=only)
        )
        return [*self.ask(self.client.text_document_code_action_async(params))]

    def changes(self, action: types.CodeAction) -> dict[str, tuple[int | None, list[types.TextEdit]]]:
        """The edits of an action by the names of files, with the versions that they are for."""
        if action.edit is None:
            action = self.ask(self.client.code_action_resolve_async(action))
        assert action.edit is not None
        if action.edit.changes is not None:
            return {uri: (None, [*edits]) for uri, edits in action.edit.changes.items()}
        assert action.edit.document_changes is not None
        files = [each for each in action.edit.document_changes if isinstance(each, types.TextDocumentEdit)]
        assert len(files) == len(action.edit.document_changes)
        return {
            each.text_document.uri: (
                each.text_document.version,
                [edit for edit in each.edits if isinstance(edit, types.TextEdit)],
            )
            for each in files
        }

    def after(self, action: types.CodeAction, path: Path, text: str) -> str:
        """A text after an action that changes this file alone."""
        ((uri, (_, edits)),) = self.changes(action).items()
        assert uri == path.as_uri()
        return edited(text, edits)


def edited(text: str, edits: list[types.TextEdit]) -> str:
    """A text after edits, as an editor makes them: places are counted in UTF-16."""
    starts = [0]
    for line in text.split("\n")[:-1]:
        starts.append(starts[-1] + len(line.encode("utf-16-le")) + 2)
    data = text.encode("utf-16-le")
    for edit in sorted(edits, key=lambda each: each.range.start, reverse=True):
        first, last = (
            starts[each.line] + 2 * each.character if each.line < len(starts) else len(data)
            for each in (edit.range.start, edit.range.end)
        )
        data = data[:first] + edit.new_text.encode("utf-16-le") + data[last:]
    return data.decode("utf-16-le")


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    """One that asks for edits when they are wanted, and whose edits have versions."""
    resolves = types.CodeActionClientCapabilities(resolve_support=types.ClientCodeActionResolveOptions(["edit"]))
    capabilities = types.ClientCapabilities(
        text_document=types.TextDocumentClientCapabilities(code_action=resolves),
        workspace=types.WorkspaceClientCapabilities(
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True)
        ),
    )
    started = Editor(capabilities)
    yield started
    started.end()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory that is a project of its own."""
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


@pytest.fixture
def rewritten(folder: Path, torchfast: Callable[..., Answer]) -> Callable[..., dict[str, str]]:
    """What ``torchfast rewrite --apply`` makes of files."""

    def run(script: str, **texts: str) -> dict[str, str]:
        place = folder / "rewritten"
        place.mkdir()
        (place / "pyproject.toml").touch()
        for name, text in texts.items():
            (place / f"{name}.py").write_text(text, encoding="utf-8", newline="")
        answer = torchfast("rewrite", str(place / f"{script}.py"), "--apply")
        assert answer.code == 0, answer.err
        return {name: (place / f"{name}.py").read_bytes().decode() for name in texts}

    return run


def rules(diagnostics: list[types.Diagnostic]) -> list[object]:
    return [each.code for each in diagnostics]


def test_the_text_in_the_editor_counts(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    path.write_text("import torch\n")

    said = editor.open(path, NAIVE)

    assert {"loader-pin", "h2d-non-blocking", "zero-grad-none"} <= {*rules(said)}
    pin = next(each for each in said if each.code == "loader-pin")
    assert pin.message.startswith("batches are copied from pageable memory [bitwise]")
    assert (pin.source, pin.severity) == ("torchfast", types.DiagnosticSeverity.Information)
    line = NAIVE.splitlines()[7]
    assert pin.range == types.Range(types.Position(7, line.index("DataLoader(")), types.Position(7, len(line)))

    editor.type(path, "import torch\n")
    assert editor.heard(path) == []
    editor.close(path)


def test_what_is_being_typed_keeps_what_was_said(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    said = editor.open(path, NAIVE)

    editor.type(path, NAIVE + "for x in (\n")
    assert editor.actions(path) == []
    editor.type(path, NAIVE + "\n")

    assert editor.heard(path) == said  # of the last version: of the one before nothing was said
    editor.close(path)
    assert editor.messages.empty()


def test_the_text_of_other_open_files_counts(editor: Editor, folder: Path) -> None:
    helper, script = folder / "helper.py", folder / "train.py"
    helper.write_text("def loader(data):\n    return [data]\n")
    script.write_text(IMPORTING)

    assert "h2d-non-blocking" not in rules(editor.open(script, IMPORTING))
    assert "loader-pin" in rules(editor.open(helper, HELPER))
    assert "h2d-non-blocking" in rules(editor.heard(script))

    editor.close(helper)
    assert "h2d-non-blocking" not in rules(editor.heard(script))
    editor.close(script)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        pytest.param("pyproject.toml", '[tool.torchfast]\nignore = ["loader-pin"]\n', id="rules that are ignored"),
        pytest.param("torchfast.toml", 'select = ["zero-grad-none"]\n', id="rules that are selected"),
        pytest.param("torchfast.toml", '[per-file-ignores]\n"tr*.py" = ["loader-pin"]\n', id="rules of some files"),
        pytest.param("torchfast.toml", 'exclude = ["train.py"]\n', id="a file that is left out"),
    ],
)
def test_the_configuration_counts_as_soon_as_it_is_saved(editor: Editor, folder: Path, name: str, written: str) -> None:
    path = folder / "train.py"
    assert "loader-pin" in rules(editor.open(path, NAIVE))

    (folder / name).write_text(written)
    editor.saved(path)

    assert "loader-pin" not in rules(editor.heard(path))
    editor.close(path)


def test_a_configuration_that_cannot_be_followed_is_told_once(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    (folder / "torchfast.toml").write_text('level = "far"\n')

    assert editor.open(path, NAIVE) == []

    assert "torchfast.toml: unknown level" in editor.messages.get(timeout=SECONDS)
    editor.type(path, NAIVE + "\n")
    assert editor.heard(path) == []
    assert editor.messages.empty()
    editor.close(path)


def test_comments_are_heeded_and_told_where_they_are_wrong(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    line = "loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)"
    ignoring = NAIVE.replace(line, f"{line}  # torchfast: ignore[loader-pin]")

    assert "loader-pin" not in rules(editor.open(path, ignoring))
    editor.type(path, ignoring.replace("loader-pin", "loader-pim"))
    (said,) = editor.heard(path)

    assert (said.severity, said.range.start.line) == (types.DiagnosticSeverity.Error, 7)
    assert said.message == "unknown rule 'loader-pim'; did you mean 'loader-pin'?"
    editor.close(path)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NAIVE, id="plain"),
        pytest.param(SMILING, id="characters of two units"),
        pytest.param(NAIVE.replace("\n", "\r\n"), id="Windows' line ends"),
        pytest.param(NAIVE.replace("device = ", "\f\ndevice = ", 1), id="a form feed, which ends no line"),
        pytest.param(NAIVE.rstrip("\n"), id="no line end at the end"),
    ],
)
def test_all_changes_are_those_of_a_rewrite(
    editor: Editor, folder: Path, rewritten: Callable[..., dict[str, str]], text: str
) -> None:
    path = folder / "train.py"
    editor.open(path, text)

    (action,) = editor.actions(path, only=["source.fixAll"])
    assert action.kind == "source.fixAll.torchfast"
    after = editor.after(action, path, text)

    assert after != text
    assert after == rewritten("train", train=text)["train"]
    editor.type(path, after)
    assert editor.heard(path) == []
    assert editor.actions(path, only=["source"]) == []
    editor.close(path)


def test_places_are_counted_in_units_of_utf_16(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    assert editor.began.capabilities.position_encoding == types.PositionEncodingKind.Utf16
    text = NAIVE.replace("loader = Data", 'name = "😀"; loader = Data')

    pin = next(each for each in editor.open(path, text) if each.code == "loader-pin")

    line = text.splitlines()[7]
    assert pin.range.start.character == line.index("DataLoader(") + 1
    assert pin.range.end.character == len(line) + 1
    editor.close(path)


def test_each_finding_has_its_own_change(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    path.write_text(SMILING, encoding="utf-8")
    editor.open(path, SMILING)
    (done,) = batch.run([str(path)], Options(), check=True, fixes=True)
    assert isinstance(done, batch.Done)
    sites = [site for site in done.rewrite.sites if site.rewrites]

    own = [
        each
        for each in editor.actions(path, only=["quickfix"])
        if each.title.startswith("torchfast: apply ") and " all " not in each.title
    ]

    assert [each.title for each in own] == [f"torchfast: apply {site.rule} [{site.promise}]" for site in sites]
    assert [each.disabled.reason if each.disabled is not None else "" for each in own] == [
        site.no_fix for site in sites
    ]
    for action, site in zip(own, sites, strict=True):
        if not site.no_fix:
            assert action.diagnostics is not None
            assert [each.code for each in action.diagnostics] == [site.rule]
            assert editor.after(action, path, SMILING) == applied(SMILING, site.fix)
    editor.close(path)


def test_all_changes_of_one_rule(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    text = (
        NAIVE
        + NAIVE[NAIVE.index("data = ") : NAIVE.index("model = ")].replace("loader =", "other =")
        + "for images, labels in other:\n    model(images.to(device))\n"
    )
    editor.open(path, text)
    line = text.splitlines().index("loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)")

    offered = {each.title: each for each in editor.actions(path, range(line, line + 1))}
    action = offered["torchfast: apply all 2 of loader-pin in this file"]

    after = editor.after(action, path, text)
    assert after == text.replace("num_workers=2)", "num_workers=2, pin_memory=True)")
    editor.close(path)


def test_all_changes_of_a_rule_that_needs_another(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    loaders = (
        "    loader = DataLoader(data, batch_size=64, shuffle=True)",
        "    other = DataLoader(data, batch_size=32, shuffle=True)",
    )
    imports, _, body = NAIVE.partition("\n\n")
    body += body[body.index("    for images") :].replace("in loader", "in other")
    text = f"{imports}\n\n\ndef main():\n{indent(body, '    ')}\n\nif __name__ == '__main__':\n    main()\n".replace(
        "    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)", "\n".join(loaders)
    )
    editor.open(path, text)
    line = text.splitlines().index(loaders[0])

    (action,) = (each for each in editor.actions(path, range(line, line + 1)) if "of loader-persistent" in each.title)

    assert action.title == "torchfast: apply all 2 of loader-persistent in this file"
    after = text
    for each in loaders:
        after = after.replace(each, each.replace(")", ", num_workers=4, persistent_workers=True)"))
    assert editor.after(action, path, text) == after
    editor.close(path)


def test_what_is_found_only_after_other_changes_is_not_offered_alone(
    editor: Editor, folder: Path, rewritten: Callable[..., dict[str, str]]
) -> None:
    path = folder / "train.py"
    editor.open(path, DECODING)
    first = DECODING.splitlines().index("loader = DataLoader(train, batch_size=64, shuffle=True)")

    of_rule = [each for each in editor.actions(path, range(first, first + 2)) if "loader-batched-index" in each.title]
    (program,) = editor.actions(path, only=["source"])

    assert [each.title for each in of_rule if "leave" not in each.title] == [
        "torchfast: apply loader-batched-index [bitwise]"
    ] * 2
    reasons = [each.disabled.reason for each in of_rule if each.disabled is not None]
    assert reasons == ["it is found like this only after other changes (dataset-materialize)"] * 2
    assert editor.after(program, path, DECODING) == rewritten("train", train=DECODING)["train"]
    editor.close(path)


def test_a_finding_is_left_alone_by_a_comment(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    editor.open(path, NAIVE)

    action = next(each for each in editor.actions(path, range(7, 8)) if "leave loader-pin alone" in each.title)
    after = editor.after(action, path, NAIVE)

    assert after == NAIVE.replace("num_workers=2)", "num_workers=2)  # torchfast: ignore[loader-pin]")
    editor.type(path, after)
    assert "loader-pin" not in rules(editor.heard(path))
    editor.close(path)


def test_changes_of_several_files_are_one(
    editor: Editor, folder: Path, rewritten: Callable[..., dict[str, str]]
) -> None:
    helper, script = folder / "helper.py", folder / "train.py"
    helper.write_text("\ufeff" + HELPER, encoding="utf-8")
    editor.open(script, IMPORTING)

    in_file, program = editor.actions(script, only=["source"])
    assert program.title.endswith("of this program, in 2 files")
    assert {*editor.changes(in_file)} == {script.as_uri()}
    changed = editor.changes(program)

    assert {uri: version for uri, (version, _) in changed.items()} == {script.as_uri(): 1, helper.as_uri(): None}
    expected = rewritten("train", train=IMPORTING, helper=HELPER)
    assert edited(IMPORTING, changed[script.as_uri()][1]) == expected["train"]
    assert edited(HELPER, changed[helper.as_uri()][1]) == expected["helper"]
    editor.close(script)


def test_what_needs_a_change_in_another_file_is_not_made_without_it(editor: Editor, folder: Path) -> None:
    """Images are laid out for mixed precision, which the helper's loop gets."""
    script = folder / "train.py"
    (folder / "torchfast.toml").write_text('select = ["amp", "channels-last"]\n')
    start, _, loop = NAIVE.partition("optimizer = ")
    (folder / "helper.py").write_text(
        f"import torch\nfrom torch import nn\n\n\ndef train(model, loader, device):\n{indent(f'optimizer = {loop}', '    ')}"
    )
    text = start.replace("nn.Sequential(nn.Flatten(), nn.Linear(784, 10))", "models.resnet50()").replace(
        "import datasets,", "import datasets, models,"
    )
    text = f"from helper import train\n{text}train(model, loader, device)\n"
    assert rules(editor.open(script, text)) == ["channels-last"]

    in_file, program = editor.actions(script, only=["source"])

    resolved = editor.ask(editor.client.code_action_resolve_async(in_file))
    assert resolved.edit == types.WorkspaceEdit()
    assert editor.messages.get(timeout=SECONDS) == (
        "'torchfast: apply all changes in this file' changes nothing: "
        "what is found here needs changes in other files, too"
    )
    assert {*editor.changes(program)} == {script.as_uri(), (folder / "helper.py").as_uri()}
    editor.close(script)


def test_the_page_of_a_rule_is_shown_over_its_finding(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    editor.open(path, NAIVE)

    def hover(line: int, character: int) -> types.Hover | None:
        place = types.TextDocumentIdentifier(path.as_uri()), types.Position(line, character)
        found = editor.ask(editor.client.text_document_hover_async(types.HoverParams(*place)))
        assert found is None or isinstance(found, types.Hover)
        return found

    found = hover(7, 12)
    assert found is not None
    assert isinstance(found.contents, types.MarkupContent)
    assert found.contents.kind == types.MarkupKind.Markdown
    assert found.contents.value.startswith("**loader-pin** [bitwise]: batches are copied from pageable memory")
    assert "\n# loader-pin\n" in found.contents.value
    assert hover(0, 0) is None
    editor.close(path)


def test_a_script_that_fails_before_any_change_is_warned_of_once(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"

    said = editor.open(path, NAIVE + "    print(loss.data[0])\n")

    (warning,) = (each for each in said if each.severity == types.DiagnosticSeverity.Warning)
    assert warning.message.startswith("the script fails before any change")
    assert len(said) == 1
    editor.close(path)


def test_settings_say_what_is_shown(editor: Editor, folder: Path) -> None:
    path = folder / "train.py"
    before = editor.open(path, NAIVE)

    def configure(**settings: object) -> None:
        params = types.DidChangeConfigurationParams({"torchfast": settings})
        editor.tell(editor.client.workspace_did_change_configuration, params)

    configure(showLeft=True, severity="warning")
    said = editor.heard(path)
    assert rules(said)[: len(before)] == rules(before)
    assert {each.severity for each in said[: len(before)]} == {types.DiagnosticSeverity.Warning}
    assert said[len(before) :] != []
    assert {each.severity for each in said[len(before) :]} == {types.DiagnosticSeverity.Hint}
    assert all(each.message.startswith("left: ") for each in said[len(before) :])

    configure(showRight=True)
    assert "unknown setting 'showRight'" in editor.messages.get(timeout=SECONDS)
    configure()
    while editor.heard(path) != before:
        pass
    editor.close(path)


def test_what_is_installed_is_left_alone(editor: Editor, folder: Path) -> None:
    (folder / "pyvenv.cfg").touch()
    assert editor.open(folder / "train.py", NAIVE) == []
    editor.close(folder / "train.py")


def test_an_editor_that_asks_for_no_edits_and_counts_bytes(folder: Path) -> None:
    path = folder / "train.py"
    counts = types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf8])
    simple = Editor(types.ClientCapabilities(general=counts))
    text = NAIVE.replace("loader = Data", 'name = "😀"; loader = Data')

    pin = next(each for each in simple.open(path, text) if each.code == "loader-pin")
    offered = simple.actions(path)

    assert pin.range.start.character == len('name = "😀"; loader = '.encode())

    assert offered != []
    assert all((each.edit is None) == (each.disabled is not None) for each in offered)
    assert all(each.edit.changes is not None for each in offered if each.edit is not None)
    simple.end()


def test_without_pygls_one_line_says_what_is_missing(
    torchfast: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    monkeypatch.delitem(sys.modules, "autotune_rewrite.server.editor", raising=False)

    answer = torchfast("server")

    assert answer.code == 2
    assert answer.err == "Error: the server needs pygls: pip install 'autotune-rewrite[server]'\n"
