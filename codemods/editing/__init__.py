"""Edits: what rules ask for, where it may stand, and how a text is changed by it."""
