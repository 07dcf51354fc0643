"""The commands of nodes, one module each. Nothing is imported here."""
