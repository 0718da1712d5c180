"""Training: config, loop, optimisers, checkpoints, and the run folder they leave."""
