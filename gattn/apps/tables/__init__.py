"""Reader of CSV tables: their rows, text encodings and numbers."""
