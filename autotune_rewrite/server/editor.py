"""``torchfast server``: a language server, which tells an editor what is found while the user types."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path, uri_scheme

from autotune_rewrite import __version__
from autotune_rewrite.errors import FileError, NotPythonError
from autotune_rewrite.server import actions
from autotune_rewrite.server.findings import SOURCE, Shown, described, diagnostic, diagnostics, is_shown
from autotune_rewrite.server.places import Places
from autotune_rewrite.server.programs import Programs

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from pygls.workspace import TextDocument

    from autotune_rewrite.rewriting.results import Site
    from autotune_rewrite.server.actions import Action, Changed
    from autotune_rewrite.server.programs import Found

PAUSE = 0.1
"""Seconds without a key after which a text is looked at,"""
_LONGEST_PAUSE = 0.5
"""or half as many as that took last time, but no more than these."""
_STACK = 64 * 1024 * 1024
"""Bytes: code that is nested deeply is understood in this thread as in the main one."""
OBJECTS = 500_000
"""New objects between two searches for cycles: facts are many, and go together."""
_WATCHED = ("**/*.py", "**/{torchfast,pyproject}.toml", "**/*requirements*.txt", "**/{environment,setup}.{yml,py,cfg}")

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was found last in an open file."""

    found: Found
    places: Places


class Editor:
    """What is open in an editor, and what it is told of that."""

    def __init__(self, server: LanguageServer) -> None:
        """Nothing is open yet."""
        self._server = server
        self._programs = Programs()
        self._shown = Shown()
        self._seen: dict[str, tuple[int | None, _Seen | None]] = {}
        """By the name of each file: the version that was looked at, and what was found if it is Python."""
        self._published: dict[str, tuple[int | None, list[types.Diagnostic]]] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._pause = PAUSE
        self._told: set[str] = set()
        threading.stack_size(_STACK)
        # What is known is of one program at a time; and what would block the editor happens beside it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="torchfast")

    # What the editor says.

    def begin(self, params: types.InitializeParams) -> None:
        """The editor has started: messages name files as they are seen from the directory that it has opened."""
        folders = [each.uri for each in params.workspace_folders or ()] or [params.root_uri or ""]
        root = to_fs_path(folders[0]) if folders[0] else params.root_path
        if root and Path(root).is_dir():
            os.chdir(root)
        gc.set_threshold(OBJECTS)
        if isinstance(params.initialization_options, dict):
            self._set(params.initialization_options)

    def configure(self, params: types.DidChangeConfigurationParams) -> None:
        """The settings have changed."""
        if isinstance(params.settings, dict):
            own = params.settings.get(SOURCE, params.settings)
            self._set(own if isinstance(own, dict) else {})
            self.look_again()

    def _set(self, settings: dict[str, object]) -> None:
        try:
            self._shown = Shown.of(settings)
        except ValueError as error:
            self._say(f"the settings of torchfast: {error}")

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        """A file was opened."""
        self._schedule(params.text_document.uri, 0)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        """A file was changed: it is looked at as soon as the user pauses."""
        self._schedule(params.text_document.uri, self._pause)

    def look_again(self, _: object = None) -> None:
        """Something was changed on disk, or is to be shown otherwise: all that is open is looked at."""
        self._thread.submit(self._programs.look_again)
        self._told.clear()
        for uri in self._open():
            self._schedule(uri, 0, others=False)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """A file was closed: nothing is shown of it any more, and what is on disk counts for the others."""
        uri = params.text_document.uri
        task = self._waiting.pop(uri, None)
        if task is not None:
            task.cancel()
        self._seen.pop(uri, None)
        if uri in self._published:
            self._publish(uri, None, ())
            del self._published[uri]
        self.look_again()

    # Looking.

    def _schedule(self, uri: str, pause: float, *, others: bool = True) -> None:
        """Look at a file after a pause, and then at the other open ones, whose program may be the same."""
        before = self._waiting.pop(uri, None)
        if before is not None:
            before.cancel()
        if uri in self._open():
            task = asyncio.get_running_loop().create_task(self._later(uri, pause, others=others))
            task.add_done_callback(self._ended)
            self._waiting[uri] = task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A fault of torchfast is told in one line; what it was found in is looked at again after the next change."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._say(f"torchfast failed ({type(error).__name__}: {error}); please report this")

    async def _later(self, uri: str, pause: float, *, others: bool) -> None:
        await asyncio.sleep(pause)
        if await self._look(uri) and others:
            for other in self._open():
                if other != uri:
                    await self._look(other)

    async def _look(self, uri: str) -> bool:
        """Look at a file now, and tell what is found; whether it is Python now."""
        document = self._open().get(uri)
        if document is None:
            return False
        version, text, path = document.version, document.source, _path(uri)
        places = Places(text, document.position_codec)
        found, error = None, None
        start = time.monotonic()
        try:
            found = await self._ask(self._programs.check, path)
        except FileError as raised:
            error = raised
        self._pause = min(max((time.monotonic() - start) / 2, PAUSE), _LONGEST_PAUSE)
        if self._open().get(uri) is not document or document.version != version:
            return False  # what was changed meanwhile is looked at soon
        self._seen[uri] = version, None if found is None else _Seen(found, places)
        if isinstance(error, NotPythonError) and error.path == path:
            return False  # being typed: what was shown stays, and the editor moves it with the text
        if error is not None:
            self._publish(uri, version, [_fault(error, places)] if error.path == path else ())
            if error.path != path:
                self._say(str(error))
        else:
            self._publish(uri, version, () if found is None else diagnostics(found.own, places, self._shown))
        return True

    async def _current(self, uri: str) -> _Seen | None:
        """What is found in a file as it is now; None where that is not known, as of what is no Python."""
        document = self._open().get(uri)
        if document is None:
            return None
        if uri not in self._seen or self._seen[uri][0] != document.version:
            await self._look(uri)
        version, seen = self._seen.get(uri, (None, None))
        return seen if version == document.version else None

    async def _ask(self, question: Callable[..., _Answer], *arguments: Any) -> _Answer:  # noqa: ANN401 - any question
        """Ask about programs, in the thread that knows them."""
        opened = {_real(uri): each.source for uri, each in self._open().items()}
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(question, opened, *arguments))

    def _open(self) -> dict[str, TextDocument]:
        """The Python files that are open, by their names in the protocol."""
        return {
            each.uri: each
            for each in self._server.workspace.text_documents.values()
            if uri_scheme(each.uri) == "file" and (each.language_id == "python" or each.uri.endswith(".py"))
        }

    # Answering.

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        """The findings that the user points at, with the pages of their rules."""
        seen = await self._current(params.text_document.uri)
        if seen is None:
            return None
        shown = (site for site in seen.found.own.sites if is_shown(site, self._shown))
        there = [site for site in shown if _covers(seen.places.range_of(site), params.position)]
        if not there:
            return None
        hover = self._server.client_capabilities.text_document
        formats = hover.hover.content_format if hover is not None and hover.hover is not None else None
        plain = formats is not None and types.MarkupKind.Markdown not in formats
        kind = types.MarkupKind.PlainText if plain else types.MarkupKind.Markdown
        content = types.MarkupContent(kind, described(seen.found.own, there))
        return types.Hover(content, seen.places.range_of(there[0]))

    async def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """What can be done about the findings in some lines, and about all of the file."""
        uri, only = params.text_document.uri, params.context.only
        seen = await self._current(uri)
        if seen is None:
            return []
        offered: list[Action] = []
        lines = range(params.range.start.line, params.range.end.line + 1)
        if _is_in(actions.QUICK_FIX, only) and _rewritten_in(lines, seen.found):
            found = await self._ask(partial(self._programs.check, fixes=True), _path(uri))
            offered += () if found is None else actions.of_findings(found, _rewritten_in(lines, found))
        offered += (each for each in actions.of_file(seen.found) if _is_in(each.kind, only))
        made = [self._action(uri, each, seen) for each in offered]
        if self._resolves:
            return made
        for each in made:
            each.edit = await self._edit(each)
        return [each for each in made if each.edit is not None or each.disabled is not None]

    def _action(self, uri: str, action: Action, seen: _Seen) -> types.CodeAction:
        site = action.site
        return types.CodeAction(
            action.title,
            kind=action.kind,
            diagnostics=None if site is None else [diagnostic(seen.found.own, site, seen.places, self._shown)],
            is_preferred=True if action.what == "finding" and not action.disabled else None,
            disabled=types.CodeActionDisabled(action.disabled) if action.disabled else None,
            data={"uri": uri, **actions.key(action)},
        )

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """The action with its edit, which takes longer to find than the action."""
        action.edit = await self._edit(action) or types.WorkspaceEdit()
        if action.edit == types.WorkspaceEdit() and isinstance(action.data, dict):
            self._tell(f"'{action.title}' changes nothing: {actions.why_nothing(action.data)}")
        return action

    async def _edit(self, action: types.CodeAction) -> types.WorkspaceEdit | None:
        """What an action changes, in the texts as they are now; None where that is nothing."""
        wanted = action.data
        if action.disabled is not None or not isinstance(wanted, dict):
            return None
        try:
            changed = await self._ask(partial(actions.carried_out, self._programs), _path(wanted["uri"]), wanted)
        except FileError as error:
            self._say(str(error))
            return None
        changed = [(path, before, after) for path, before, after in changed if before != after]
        return self._workspace_edit(changed) if changed else None

    def _workspace_edit(self, changed: Sequence[Changed]) -> types.WorkspaceEdit:
        """All changes as one, of which the editor makes all or none."""
        names = {_real(uri): (uri, each) for uri, each in self._open().items()}
        codec = self._server.workspace.position_codec
        edits: dict[str, list[types.TextEdit]] = {}
        versions: dict[str, int | None] = {}
        for path, before, after in changed:
            absolute = os.path.abspath(path)  # noqa: PTH100 - a link stays what it is
            uri, document = names.get(os.path.realpath(path), (from_fs_path(absolute), None))
            mark = "\ufeff" if document is None else ""  # on disk alone: no editor shows it
            edits[uri] = [*Places(before.removeprefix(mark), codec).edits_to(after.removeprefix(mark))]
            versions[uri] = None if document is None else document.version
        workspace = self._server.client_capabilities.workspace
        can = workspace.workspace_edit if workspace is not None else None
        if can is None or not can.document_changes:
            return types.WorkspaceEdit(changes=edits)
        return types.WorkspaceEdit(
            document_changes=[
                types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, versions[uri]), [*each])
                for uri, each in edits.items()
            ]
        )

    @property
    def _resolves(self) -> bool:
        """Whether the editor asks for an edit when the user wants it."""
        document = self._server.client_capabilities.text_document
        can = document.code_action if document is not None else None
        return can is not None and can.resolve_support is not None and "edit" in can.resolve_support.properties

    # Telling.

    def _publish(self, uri: str, version: int | None, said: Iterable[types.Diagnostic]) -> None:
        published = version, [*said]
        if self._published.get(uri) != published:
            self._published[uri] = published
            self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, published[1], version))

    def _say(self, message: str) -> None:
        """Tell the user something, once until it is looked at all files again."""
        if message not in self._told:
            self._told.add(message)
            self._tell(message)

    def _tell(self, message: str) -> None:
        self._server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, message))

    async def watch(self, _: object) -> None:
        """Ask the editor to say what is changed on disk, if it can."""
        workspace = self._server.client_capabilities.workspace
        can = workspace.did_change_watched_files if workspace is not None else None
        if can is None or not can.dynamic_registration:
            return
        watchers = [types.FileSystemWatcher(each) for each in _WATCHED]
        registration = types.Registration(
            "torchfast",
            types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
            types.DidChangeWatchedFilesRegistrationOptions(watchers),
        )
        await self._server.client_register_capability_async(types.RegistrationParams([registration]))

    def end(self, _: object) -> None:
        """The editor has gone."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _rewritten_in(lines: Container[int], found: Found) -> list[Site]:
    """The findings that can be rewritten and begin in some lines, from 0, of their file."""
    return [each for each in found.own.sites if each.rewrites and each.line - 1 in lines]


def _path(uri: str) -> str:
    """The file, as it is seen from the current directory where it lies below."""
    path = Path(to_fs_path(uri) or "")
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _real(uri: str) -> str:
    """The file that a name of the protocol leads to, without symbolic links."""
    return os.path.realpath(to_fs_path(uri) or "")


def _fault(error: FileError, places: Places) -> types.Diagnostic:
    """What is wrong with a file, such as a comment that names no rule."""
    return types.Diagnostic(
        places.line(error.line or 1), error.message, severity=types.DiagnosticSeverity.Error, source=SOURCE
    )


def _covers(place: types.Range, position: types.Position) -> bool:
    return place.start <= position <= place.end


def _is_in(kind: str, only: Sequence[str] | None) -> bool:
    """Whether a kind is one of those asked for, or below one."""
    return only is None or any(kind == each or kind.startswith(f"{each}.") for each in only)


def language_server() -> LanguageServer:
    """The server, which starts when it is told how it speaks with the editor."""
    # Whole texts: the library splits lines at form feeds, too, and would put a part of a text elsewhere.
    server = LanguageServer("torchfast", f"v{__version__}", text_document_sync_kind=types.TextDocumentSyncKind.Full)
    editor = Editor(server)
    answers: dict[str, Callable[[Any], Any]] = {
        types.INITIALIZE: editor.begin,
        types.INITIALIZED: editor.watch,
        types.TEXT_DOCUMENT_DID_OPEN: editor.opened,
        types.TEXT_DOCUMENT_DID_CHANGE: editor.changed,
        types.TEXT_DOCUMENT_DID_SAVE: editor.look_again,
        types.TEXT_DOCUMENT_DID_CLOSE: editor.closed,
        types.WORKSPACE_DID_CHANGE_WATCHED_FILES: editor.look_again,
        types.WORKSPACE_DID_CHANGE_CONFIGURATION: editor.configure,
        types.TEXT_DOCUMENT_HOVER: editor.hover,
        types.CODE_ACTION_RESOLVE: editor.resolve,
        types.SHUTDOWN: editor.end,
    }
    for name, answer in answers.items():
        server.feature(name)(partial(answer))  # which, other than a method, can be marked
    can = types.CodeActionOptions(code_action_kinds=[*actions.KINDS], resolve_provider=True)
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, can)(partial(editor.code_actions))
    return server
