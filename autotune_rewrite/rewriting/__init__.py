"""What the rules make of programs, and how many are worked through."""
