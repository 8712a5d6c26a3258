"""Editors and assistants are served: what a program asks for over a protocol, in the place of a command line."""
