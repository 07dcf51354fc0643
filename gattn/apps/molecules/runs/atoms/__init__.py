"""Stages of the commands, for models of atoms and bonds."""
