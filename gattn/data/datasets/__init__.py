"""Data sets: the registry, downloads, citation networks and large files of edges."""
