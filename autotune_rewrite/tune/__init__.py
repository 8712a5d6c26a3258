"""Which of a rewrite's changes hold up: those that do not are taken back, and the rest is verified again."""
