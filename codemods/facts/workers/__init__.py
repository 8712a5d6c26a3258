"""The worker processes of loaders: which there can be, what they are sent, and what forbids them."""
