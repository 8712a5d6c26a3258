"""The tests; a package, so that ``python -m tests.gpu`` finds its own and not another library's ``tests``."""
