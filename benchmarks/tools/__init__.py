"""Tools of the commands that do not measure cases."""
