"""Checks of a table of molecules before training: structures, labels, parts and columns."""
