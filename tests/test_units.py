"""Which changes of a rewrite can be left out alone."""

from __future__ import annotations

from itertools import chain, combinations
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.rewriting import batch
from autotune_rewrite.rewriting.config import Options
from autotune_rewrite.rewriting.fixes import applied
from autotune_rewrite.rewriting.units import Finding
from tests.conftest import NAIVE, ROOT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from autotune_rewrite.rewriting.results import Rewrite, Site

PROBABILITIES = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1), nn.Sigmoid()).cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters())
for images in torch.randn(4, 256, 1024).cuda():
    optimizer.zero_grad(set_to_none=False)
    loss = criterion(model(images), torch.ones(256, 1).cuda())
    loss.backward()
    optimizer.step()
"""
"""Mixed precision is right only with ``bce-logits`` before it."""
LINES = NAIVE.replace(
    "        images, labels = images.to(device), labels.to(device)\n",
    "        images = images.to(device)\n        labels = labels.to(device)\n",
)


def everything(*_: object) -> bool:
    return True


def rewrites(path: Path, options: Options | None = None) -> list[Rewrite]:
    found = batch.run_in_units([str(path)], options or Options(), everything)
    return [each.rewrite for each in found if isinstance(each, batch.Done)]


def truth(path: Path, wanted: Collection[Finding]) -> dict[str, str]:
    """What becomes of each file where the user wants some changes alone, as he would be asked for them."""

    def ask(path: str, site: Site, *_: object) -> bool:
        return Finding(path, site) in wanted

    (project,) = batch.found([str(path)], Options())[1]
    done = batch.process_read(batch.read(project), Options(), check=False, ask=ask)
    return {each.rewrite.path: each.rewrite.after for each in done if isinstance(each, batch.Done)}


def closed(rewrites: list[Rewrite], off: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
    """The units that go where some do, as they need these."""
    gone = set(off)
    while True:
        sites = set(findings(rewrites, gone))
        more = {(each.path, at) for each, at, needs in all_units(rewrites) if not sites.isdisjoint(needs)} - gone
        if not more:
            return gone
        gone |= more


def all_units(rewrites: list[Rewrite]) -> Iterator[tuple[Rewrite, int, tuple[Finding, ...]]]:
    for each in rewrites:
        assert each.units is not None
        for at, unit in enumerate(each.units.units):
            yield each, at, unit.needs


def findings(rewrites: list[Rewrite], units: Collection[tuple[str, int]]) -> Iterator[Finding]:
    for each, at, _ in all_units(rewrites):
        assert each.units is not None
        if (each.path, at) in units:
            yield from (Finding.of(each.path, site) for site in each.units.units[at].sites)


def text(rewrite: Rewrite, off: Collection[tuple[str, int]]) -> str:
    assert rewrite.units is not None
    on = [at for at in range(len(rewrite.units.units)) if (rewrite.path, at) not in off]
    return applied(rewrite.before, rewrite.units.wanted(on))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("digits_trainer", id="what one round makes of another's"),
        pytest.param("text_lstm", id="a main guard around most of it", marks=pytest.mark.slow),
        pytest.param("unet_segmentation", id="adjacent lines", marks=pytest.mark.slow),
    ],
)
def test_what_is_left_out_is_as_if_nobody_wanted_it(name: str) -> None:
    script = ROOT / "fixtures" / name / "naive.py"
    found = rewrites(script)
    units = [(each.path, at) for each, at, _ in all_units(found)]

    assert len(units) >= 3
    assert [text(each, ()) for each in found] == [each.after for each in found]
    assert [text(each, units) for each in found] == [each.before for each in found]
    for off in (set(units[::2]), set(units[1::2])):
        gone = closed(found, off)
        wanted = set(findings(found, set(units) - gone))
        assert {each.path: text(each, gone) for each in found} == truth(script, wanted)


def every_subset(units: list[tuple[str, int]]) -> Iterator[tuple[tuple[str, int], ...]]:
    return chain.from_iterable(combinations(units, number) for number in range(len(units) + 1))


@pytest.mark.parametrize(
    ("script", "number"),
    [
        pytest.param(NAIVE, 3, id="two findings of one line"),
        pytest.param(PROBABILITIES, 1, id="one needs another"),
        pytest.param(
            "\ufeff" + LINES.removesuffix("\n").replace("\n", "\r\n"),
            4,
            id="lines beside each other, returns before newlines, none at the end, and a byte order mark",
        ),
    ],
)
def test_every_subset_is_a_program(tmp_path: Path, script: str, number: int) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(script.encode())
    found = rewrites(path)
    units = [(each.path, at) for each, at, _ in all_units(found)]

    assert len(units) >= number
    for off in every_subset(units):
        gone = closed(found, off)
        told = text(found[0], gone)
        compile(told.removeprefix("\ufeff"), "train.py", "exec")
        assert told == truth(path, set(findings(found, set(units) - gone)))[str(path)]


def test_what_is_made_only_after_another_change_needs_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROBABILITIES)

    (found,) = rewrites(tmp_path / "train.py", Options(select=("bce-logits", "amp", "zero-grad-none")))

    assert found.units is not None
    (grad,) = (unit for unit in found.units.units if "zero-grad-none" in {each.rule for each in unit.sites})
    (amp,) = (unit for unit in found.units.units if "amp" in {each.rule for each in unit.sites})
    assert "bce-logits" in {each.rule for each in amp.sites} | {each.site.rule for each in amp.needs}
    assert ([each.rule for each in grad.sites], grad.needs) == (["zero-grad-none"], ())


def test_what_is_needed_may_be_in_another_file(tmp_path: Path) -> None:
    lines = PROBABILITIES.splitlines(keepends=True)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "net.py").write_text("".join([*lines[:3], lines[3].replace(".cuda()", "")]))
    (tmp_path / "train.py").write_text("".join(["import net\n", *lines[:3], "model = net.model.cuda()\n", *lines[4:]]))

    found = rewrites(tmp_path / "train.py", Options(select=("bce-logits", "amp")))

    units = [(each.path, at) for each, at, _ in all_units(found)]
    for off in every_subset(units):
        gone = closed(found, off)
        assert {each.path: text(each, gone) for each in found} == truth(
            tmp_path / "train.py", set(findings(found, set(units) - gone))
        )
