"""The commands of molecules, one module each. Nothing is imported here."""
