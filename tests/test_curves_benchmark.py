"""Table of the benchmark of learning curves."""

import pytest

pytest.importorskip("rdkit")

from benchmarks.core import record
from benchmarks.molecules import curves


def line(draw: int, size: int, stacked: float, gp: float, forest: float) -> record.Record:
    scores = {"stacked": stacked, "attention": 3.0, "gp": gp, "forest": forest, "kernel_ridge": 2}
    return {"dataset": "esol", "draw": draw, "size": size, "scores": scores}


def test_table_compares_the_default_with_the_component_of_lowest_mean_error() -> None:
    rows = [
        line(0, 16, 9.0, 9.0, 9.0),
        line(0, 16, 1.1, 1.0, 1.2),  # a later line of the same size replaces an earlier one
        line(1, 16, 1.0, 1.0, 0.9),
        line(0, 32, 0.5, 1.0, 1.0),
    ]
    head, _, first, second = curves.table(rows).splitlines()
    assert "default and best part" in head
    assert first == "| esol | 16 | 1.050 | 3.000 | 1.000 | 1.050 | 2.000 | +5.0 ± 5.0 % |"
    assert "| -50.0 ± nan % |" in second


def test_table_compares_with_the_component_of_highest_roc_auc() -> None:
    rows = [line(draw, 16, 0.9, 0.8, 0.6) | {"dataset": "bbbp"} for draw in (0, 1)]
    for row in rows:
        row["scores"]["attention"] = 0.5
    assert "| -12.5 ± 0.0 % |" in curves.table(rows)
