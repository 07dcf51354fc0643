"""Table of molecules and options of small runs for the tests of gattn molecules."""

import csv

ROWS = [
    (f"{'C' * n}{end}", 0.5 * n + i, "active" if n % 2 else "idle")
    for n in range(1, 41)
    for i, end in enumerate("ON")
]
TABLE = "smiles,y,kind,constant\n" + "".join(f"{s},{y},{k},3\n" for s, y, k in ROWS)
NETWORK = ["--epochs", 2, "--width", 16, "--layers", 1, "--workers", 1]
GP = ["--model", "gp", "--workers", 1]


def read_rows(path, encoding="utf-8"):
    with path.open(newline="", encoding=encoding) as file:
        return list(csv.DictReader(file))
