"""Tools that all measurements use and that do not depend on the cases."""
