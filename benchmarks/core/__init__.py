"""Tools that all measurements use, independent of sides and cases."""
