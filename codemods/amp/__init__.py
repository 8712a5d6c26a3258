"""What the rule ``amp`` is made of: the blocks under autocast, and the gradient scaler."""
