"""Number formats under autocast: who is in 16 bits, where they escape, and what they break."""
