"""Learning curves: measurement of one size, resumption, and the table."""

import json
from pathlib import Path

import pytest

pytest.importorskip("rdkit")

from benchmarks.core import record
from benchmarks.molecules import curves
from gattn.data import load_molecules


def line(draw: int, size: int, stacked: float, gp: float, forest: float) -> record.Record:
    scores = {"stacked": stacked, "attention": 3.0, "gp": gp, "forest": forest, "kernel_ridge": 2}
    return {"dataset": "esol", "draw": draw, "size": size, "scores": scores}


def test_the_table_compares_the_default_with_the_part_of_the_best_mean() -> None:
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


def test_a_higher_roc_auc_is_better() -> None:
    rows = [line(draw, 16, 0.9, 0.8, 0.6) | {"dataset": "bbbp"} for draw in (0, 1)]
    for row in rows:
        row["scores"]["attention"] = 0.5
    assert "| -12.5 ± 0.0 % |" in curves.table(rows)


@pytest.mark.usefixtures("own_threads")
def test_a_size_is_measured_once(monkeypatch, tmp_path: Path, capsys) -> None:
    molecules = load_molecules("chembl2321810")[:60]
    monkeypatch.setattr(curves, "load", lambda name: molecules)
    out = tmp_path / "curves.jsonl"
    options = ["--datasets", "chembl2321810", "--sizes", "16", "1000", "--draws", "1"]
    curves.main([*options, "--output", str(out)])
    rows = record.every(out)
    assert [(row["draw"], row["size"], row["test"]) for row in rows] == [(0, 16, 12), (0, 48, 12)]
    assert rows[0]["scores"].keys() == {*curves.SHOWN, "mean"}
    assert sum(rows[0]["weights"].values()) == pytest.approx(1)
    assert "| chembl2321810 | 48 |" in capsys.readouterr().out
    monkeypatch.setattr(curves, "measure", None)
    curves.main([*options, "--output", str(out)])
    assert record.every(out) == rows
    assert json.loads(out.read_text().splitlines()[0])["environment"]["command"].startswith(
        "python"
    )
