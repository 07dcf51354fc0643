"""CSV tables: rows with line numbers, text encodings and the numbers in cells."""
