"""What a training script is: loaders, workers, devices, models, iterations, gradients, number formats."""
