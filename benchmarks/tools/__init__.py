"""Tools of the commands that measure no cases."""
