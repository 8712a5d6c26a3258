"""``python -m autotune_rewrite``: the ``torchfast`` command where it is not on the path."""

from autotune_rewrite.cli import main

main()
