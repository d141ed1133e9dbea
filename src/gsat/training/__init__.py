"""Recipes, the training loop, selection, run directories and checkpoints."""
