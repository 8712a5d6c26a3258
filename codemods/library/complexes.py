"""What is named where complex numbers are computed or asked for."""

from __future__ import annotations

from codemods.dataflow.names import words

NAMES = words(
    """
    complex csingle cfloat cdouble chalf complex32 complex64 complex128 complex256
    view_as_complex return_complex hilbert
    """
)
"""Functions, methods, number formats and arguments that are called so in every library."""
FUNCTIONS = words("torch.polar librosa.stft librosa.core.stft librosa.cqt")
PACKAGES = ("torch.fft.", "numpy.fft.", "scipy.fft.", "scipy.fftpack.")
"""Most of what they hold returns complex numbers."""
