"""Writes the scripts under test, and all that the tool makes of them, into one folder that needs no libcst to be run."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autotune_rewrite import __version__
from autotune_rewrite.rewriting import batch
from autotune_rewrite.rewriting.config import Options
from codemods.catalogue import RULES
from codemods.codemod import Promise
from codemods.rules.loader_persistent import LoaderPersistent
from tests.gpu.calls import commit
from tests.gpu.scripts import DISSECTED, SCRIPTS, WORKERS
from tests.scripts import FIXTURES, SMALL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

ROOT = FIXTURES.parent
LARGEST = 60 * 2**20
"""Bytes of the folder: it is carried to the machine with the GPU."""
SHARED = ("data", "requirements.txt")
"""Beside the folders of the fixtures, and read by them."""


class PrepareError(Exception):
    """The scripts cannot be prepared; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A rewritten script, as its runs have to know it; the names of the fields are those in the manifest."""

    rules: tuple[str, ...]
    """That changed it."""
    promise: str
    """The farthest that was applied."""
    redraws: bool
    """Whether it draws other random numbers than the original, at some time."""
    redraws_at_once: bool
    """Whether it does so in the first epoch: workers that stay shuffle from the second one on in another order."""
    tolerance: float
    """How far first losses may be apart, relative to their size."""


FORMS: dict[str, Options] = {
    "default": Options(),
    "bf16": Options(select=tuple(RULES), amp="bf16"),
    "fp16": Options(select=tuple(RULES), amp="fp16"),
    "bitwise": Options(level="bitwise"),
}
"""What every script is tried in, by the name of the file that is written.

Rules that are asked for by name act whether or not they pay: small scripts, too, show whether they run.
"""


def prepare(folder: Path, only: Collection[str] = ()) -> dict[str, Any]:
    """Writes the folder anew.

    Args:
        folder: What is in it is removed.
        only: The names of the scripts to write; none: all.

    Returns:
        The manifest, which is written, too: the version, the commit, and each script's variants.

    Raises:
        PrepareError: A golden file is not what the tool makes today, or the folder becomes too large to be carried.
    """
    shutil.rmtree(folder, ignore_errors=True)
    scripts = folder / "scripts"
    scripts.mkdir(parents=True)
    for name in SHARED:
        source = FIXTURES / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, scripts / name)
    names = [each.name for each in (*SCRIPTS, *SMALL) if not only or each.name in only]
    with ProcessPoolExecutor() as pool:
        variants = list(pool.map(_prepared, names, [scripts / name for name in names]))
    manifest = {
        "version": __version__,
        "commit": commit(),
        "scripts": {
            name: {each: asdict(one) for each, one in written.items()}
            for name, written in zip(names, variants, strict=True)
        },
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2), encoding="utf-8")
    size = size_of(folder)
    if size > LARGEST:
        raise PrepareError(f"{folder} takes {size / 2**20:.0f} MiB, and at most {LARGEST / 2**20:.0f} can be carried")
    return manifest


def _prepared(name: str, target: Path) -> dict[str, Variant]:
    """Copies a script's folder and writes its variants beside it."""
    source = FIXTURES / name
    target.mkdir()
    for path in source.glob("*.py"):
        shutil.copy2(path, target / path.name)
    parts = batch.read_project(str(source / "naive.py"), follow=False)
    written = {each: _written(parts, options, target / f"{each}.py") for each, options in FORMS.items()}
    if (target / "default.py").read_bytes() != (source / "fast.py").read_bytes():
        raise PrepareError(f"{source / 'fast.py'}: not what the tool makes of naive.py; regenerate the fixtures first")
    for each, options in _dissected(name, written["default"].rules, compiles="compile" in written["bf16"].rules):
        written[each] = _written(parts, options, target / f"{each}.py")
    return written


def _dissected(name: str, rules: Iterable[str], *, compiles: bool) -> Iterable[tuple[str, Options]]:
    """What the parts of a rewrite are told from: rules alone and left out, and other numbers of workers."""
    if compiles:
        yield "only-compile", Options(select=("compile",))
    if name not in DISSECTED:
        return
    for rule in rules:
        yield f"only-{rule}", Options(select=(rule,))
        yield f"without-{rule}", Options(ignore=(rule,))
    if "loader-workers" in rules:
        yield "workers-0", Options(ignore=("loader-workers", "loader-persistent"))
        for count in WORKERS:
            yield f"workers-{count}", Options(workers=count)


def _written(parts: batch.Read, options: Options, path: Path) -> Variant:
    """Writes what becomes of the script with these options."""
    changes = batch.changes(parts, options)
    (done,) = changes.dones
    text = done.source.encode(done.rewrite.after)
    compile(text, str(path), "exec", dont_inherit=True)
    path.write_bytes(text)
    rules = tuple(sorted(changes.rules))
    tolerance = max((RULES[rule].tolerance for rule in rules), default=0.0)
    at_once = any(
        site.redraws or (site.promise == Promise.RANDOM and site.rule != LoaderPersistent.name())
        for site in changes.sites
        if site.rewrites
    )
    return Variant(rules, str(changes.promise or Promise.BITWISE), changes.redraws, at_once, tolerance)


def size_of(folder: Path) -> int:
    """Bytes of the files below the folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
