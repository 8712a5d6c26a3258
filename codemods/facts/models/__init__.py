"""Models: their layers, which of them train, where they are, and whether they can be compiled."""
