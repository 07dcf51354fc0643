"""The commands of ``gattn molecules``, in one module for each command."""
