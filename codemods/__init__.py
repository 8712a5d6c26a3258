"""What torchfast knows about PyTorch: facts about a training script, and small codemods over them."""
