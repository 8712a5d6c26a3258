"""Findings as test cases in JUnit's XML: a file is a suite, and a finding that fails the check a failure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from autotune_rewrite.report.entries import entries, shown_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from autotune_rewrite.errors import FileError
    from autotune_rewrite.report.entries import Entry
    from autotune_rewrite.rewriting.results import Rewrite

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML has no way to write."""


def as_junit(rewrites: Sequence[Rewrite], errors: Sequence[FileError]) -> str:
    """The suites of all files that were checked; one without a finding has a case that passes."""
    root = ET.Element("testsuites", name="torchfast")
    found = list(entries(rewrites))
    for path in dict.fromkeys(shown_path(each.path) for each in rewrites):
        _suite(root, path, [each for each in found if each.path == path])
    for error in errors:
        suite = ET.SubElement(root, "testsuite", name=_text(shown_path(error.path)))
        case = ET.SubElement(suite, "testcase", name="read", classname=_text(shown_path(error.path)))
        ET.SubElement(case, "error", message=_text(error.message)).text = _text(str(error))
        _count(suite)
    _count(root)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}'


def _suite(root: ET.Element, path: str, found: Iterable[Entry]) -> None:
    suite = ET.SubElement(root, "testsuite", name=_text(path))
    for each in found:
        name = f"{each.site.rule} ({each.title})"
        case = ET.SubElement(suite, "testcase", name=_text(name), classname=_text(path), line=str(each.line))
        if each.site.fails:
            ET.SubElement(case, "failure", message=_text(each.message)).text = _text(f"{each.title}: {each.message}")
        else:
            ET.SubElement(case, "system-out").text = _text(f"{each.title}: {each.message}")
    if not len(suite):
        ET.SubElement(suite, "testcase", name="torchfast", classname=_text(path))
    _count(suite)


def _count(element: ET.Element) -> None:
    """The attributes that say how many cases there are, and how they ended."""
    element.set("tests", str(len(list(element.iter("testcase")))))
    element.set("failures", str(len(list(element.iter("failure")))))
    element.set("errors", str(len(list(element.iter("error")))))


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
