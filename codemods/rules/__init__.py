"""The rules, one file each: a rule asks facts, and knows no other rule."""
