"""Threads and processes of a command."""
