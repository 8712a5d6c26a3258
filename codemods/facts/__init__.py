"""What a training script is: names, values, loaders, models, iterations."""
