"""The commands of ``gattn nodes``, in one module for each command."""
