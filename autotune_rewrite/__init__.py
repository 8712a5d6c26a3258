"""Rewrites PyTorch training scripts so that they run faster, and runs both versions to prove it."""

__version__ = "0.1.0"
