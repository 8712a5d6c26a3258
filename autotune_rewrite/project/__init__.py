"""The files of a program: which there are, what is in them, and what lies beside them."""
