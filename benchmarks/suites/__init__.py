"""Cases of the benchmark."""
