"""What runs say together: figures, no words yet."""
