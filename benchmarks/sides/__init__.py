"""Implementations that a case compares, with the same parameters and inputs."""
