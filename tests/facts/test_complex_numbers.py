"""May a project compute complex numbers?"""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.complex_numbers import may_be_computed


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("x = 2j", id="a number"),
        pytest.param("x = complex(1, 2)", id="Python's own"),
        pytest.param("x = y.to(torch.complex64)", id="a number format"),
        pytest.param("x = numpy.array([1], dtype='complex128')", id="a number format that is named"),
        pytest.param("x = y.cfloat()", id="a method"),
        pytest.param("x = torch.polar(y, y)", id="a function"),
        pytest.param("x = torch.fft.rfft(y)", id="a Fourier transform"),
        pytest.param("from numpy.fft import fft\nx = fft(y)", id="NumPy's, imported by its name"),
        pytest.param("from scipy.signal import hilbert", id="an import"),
        pytest.param("x = load(y, return_complex=True)", id="an argument"),
    ],
)
def test_complex_numbers_are_named(line: str) -> None:
    text = f"import numpy\nimport torch\ny = torch.rand(4)\n{line}\n"
    assert may_be_computed(script(text).flow)
    assert may_be_computed(script("import steps\n", steps=text).flow)


def test_none_are_named() -> None:
    text = "import torch\nfft = torch.rand(4)\nreal, imag = fft.chunk(2)\nprint('fft', real @ imag, polar=True)\n"
    assert not may_be_computed(script(text).flow)
