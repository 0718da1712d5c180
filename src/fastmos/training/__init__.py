"""Training: the loop, optimizers, the state of a run and its log."""
