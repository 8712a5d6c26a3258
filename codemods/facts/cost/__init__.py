"""How long a training is, how large its models are, and which changes cannot pay for that."""
