"""Models of molecules: the search for the default, and Chemprop beside it."""
