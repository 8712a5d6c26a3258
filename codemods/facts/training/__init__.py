"""Training and evaluation: iterations, the code that computes a loss, and modes of models."""
