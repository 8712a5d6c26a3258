"""What expressions may be: an abstract interpretation that can be read without knowing PyTorch."""
