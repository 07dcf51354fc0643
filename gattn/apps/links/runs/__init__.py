"""The commands of ``gattn links``, in one module for each command."""
