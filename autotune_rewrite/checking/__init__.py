"""What `check` says, and remembers."""
