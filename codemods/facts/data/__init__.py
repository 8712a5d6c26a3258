"""Loaders, data sets and batches: how they are made, read, pinned and joined."""
