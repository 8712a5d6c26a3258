"""What was measured of a script, bound to the code that it was measured of: ``torchfast.lock`` beside it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune_rewrite import __version__
from autotune_rewrite.errors import FileError
from autotune_rewrite.project import files, target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from autotune_rewrite.rewriting.results import Rewrite
    from autotune_rewrite.verify.judgement import Judgement
    from autotune_rewrite.verify.statistics.ratio import Ratio
    from codemods.facts.target import Target

NAME = "torchfast.lock"
VERSION = 1
"""Of the layout."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether what was measured of a script still stands."""

    script: str
    stale: tuple[str, ...] = ()
    """Why it does not, in a line each."""
    gain: str = ""
    """What was measured, where it stands."""

    @property
    def is_fresh(self) -> bool:
        """Whether it does."""
        return not self.stale

    @property
    def why(self) -> str:
        """Why it does not, in one line."""
        return f"stale: {'; '.join(self.stale)}"


def record(
    script: str,
    judgement: Judgement,
    rules: Mapping[str, tuple[str, Ratio | None]],
    paths: Iterable[str],
    arguments: Sequence[str] = (),
) -> Path:
    """Writes what was measured, once the result is in its files; what is known of other scripts there stays.

    Args:
        script: The script.
        judgement: Of the original beside the result.
        rules: That were tried, each with what became of it, and how many times as fast it makes the script, if known.
        paths: The files of its project, itself too.
        arguments: That the script was run with.

    Returns:
        The file.

    Raises:
        FileError: It cannot be written, or is none of torchfast's.
    """
    place = Path(script).absolute().parent / NAME
    scripts = _read(place) if place.exists() else {}
    scripts[Path(script).name] = {
        "code": dict(_digests(place.parent, paths)),
        "arguments": list(arguments),
        "requirements": _asked(target.find(place.parent)),
        "environment": judgement.environment,
        "speed": judgement.speed,
        "equality": judgement.equality,
        "promise": judgement.promise,
        "ratio": None if judgement.whole is None else asdict(judgement.whole),
        "rules": {
            rule: {"answer": answer, "ratio": None if ratio is None else asdict(ratio)}
            for rule, (answer, ratio) in rules.items()
        },
        "torchfast": __version__,
    }
    text = json.dumps({"version": VERSION, "scripts": dict(sorted(scripts.items()))}, indent=2)
    files.write(str(place), f"{text}\n".encode())
    return place


def with_measured(rewrite: Rewrite) -> Rewrite:
    """The same findings; what was measured of a rule, and still stands, is told in the place of the gain to expect.

    Raises:
        FileError: A record is damaged.
    """
    path = Path(rewrite.path).absolute()
    current = Path.cwd()
    around = [each for each in path.parents if each == path.parent or each.is_relative_to(current)]
    known = {rule: words for place in around for rule, words in _measured(place / NAME, path).items()}
    if not known:
        return rewrite
    sites = tuple(
        each._replace(gain=known[each.rule], is_measured=True) if each.rewrites and each.rule in known else each
        for each in rewrite.sites
    )
    return replace(rewrite, sites=sites)


def _measured(place: Path, path: Path) -> dict[str, str]:
    """What fresh evidence says of each rule in a file."""
    found: dict[str, str] = {}
    for known in _known(place).values():
        name = Path(os.path.relpath(path, place.parent)).as_posix()
        if name in known["code"] and not list(_changes(place.parent, known)):
            of_rules = {rule: each["ratio"] for rule, each in known["rules"].items() if each["ratio"] is not None}
            found |= {rule: f"{_times(ratio)} when it was measured ({NAME})" for rule, ratio in of_rules.items()}
    return found


@cache
def _known(place: Path) -> dict[str, Any]:
    return _read(place) if place.exists() else {}


def verdicts(paths: Iterable[str]) -> Iterator[Verdict]:
    """For each script that is named, and each that a directory has evidence of: does it still stand?

    The code is compared, and what the project asks for of torch: not the machine that this runs on, which need not
    have a GPU.

    Raises:
        FileError: A record is damaged, or a script is missing.
    """
    for path in map(Path, paths):
        if path.is_dir():
            places = sorted(path.rglob(NAME))
            found = [verdict for place in places for verdict in _of_place(place)]
            yield from found
            if not found:
                yield Verdict(str(path), (f"no {NAME} below it says anything: `torchfast tune SCRIPT --apply` does",))
        elif path.exists():
            yield from _of_place(path.absolute().parent / NAME, path)
        else:
            raise FileError(str(path), "no such file or directory")


def _of_place(place: Path, only: Path | None = None) -> Iterator[Verdict]:
    scripts = _read(place) if place.exists() else {}
    if only is not None and only.name not in scripts:
        yield Verdict(str(only), ("it was never measured: `torchfast tune SCRIPT --apply` measures it",))
    for name, known in scripts.items():
        if only is None or name == only.name:
            script = os.path.relpath(place.parent / name)
            yield Verdict(script, tuple(_changes(place.parent, known)), _gain(known))


def _changes(directory: Path, known: Mapping[str, Any]) -> Iterator[str]:
    """What is no longer as it was measured."""
    for name, digest in known["code"].items():
        path = directory / name
        if not path.exists():
            yield f"{name} is gone: verify again"
        elif _digest(path) != digest:
            yield f"{name} was changed: verify again"
    before, now = known["requirements"], _asked(target.find(directory))
    if before != now:
        yield f"torch {before or 'of any version'} → {now or 'of any version'}: verify again"


def _gain(known: Mapping[str, Any]) -> str:
    ratio, environment = known["ratio"], known["environment"]
    device = environment.get("gpu") or f"{environment.get('cpus', '?')} CPU cores"
    where = f"on {device} with torch {environment.get('torch', '?')}"
    if ratio is None:
        return f"measured {where}"
    return f"{_times(ratio)} {where}"


def _times(ratio: Mapping[str, Any]) -> str:
    from autotune_rewrite.verify.statistics.ratio import Ratio  # what most checks never need

    return str(Ratio(**ratio))


def _asked(known: Target) -> str:
    """What the project asks for of torch, but not the file that says so, which may be moved."""
    oldest, behind = known.known, known.below
    if oldest is not None and behind == (oldest[0], oldest[1] + 1):
        return f"{oldest[0]}.{oldest[1]}"
    bounds = ((">=", oldest), ("<", behind))
    return ",".join(f"{sign}{each[0]}.{each[1]}" for sign, each in bounds if each is not None)


def _digests(directory: Path, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    for path in sorted({os.path.relpath(Path(each).absolute(), directory) for each in paths}):
        yield Path(path).as_posix(), _digest(directory / path)


def _digest(path: Path) -> str:
    """Of the text; line ends may be another system's."""
    data = files.content(str(path)).replace(b"\r\n", b"\n")
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _read(place: Path) -> dict[str, Any]:
    """What is known of the scripts beside a file.

    Raises:
        FileError: It is damaged, or of a newer torchfast.
    """
    try:
        values = json.loads(files.content(str(place)))
        version, scripts = values["version"], values["scripts"]
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(str(place), "not a record of torchfast tune") from error
    if version != VERSION:
        raise FileError(str(place), f"of version {version}, and version {VERSION} is read here")
    if not isinstance(scripts, dict):
        raise FileError(str(place), "not a record of torchfast tune")
    return scripts
