"""Loaders of mini-batches of sampled neighbourhoods."""
