"""Tests of the commands ``gattn molecules predict``, ``evaluate`` and ``explain``."""

import json

import numpy as np
import pandas as pd
import pytest

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.run.notes import coverage_note
from tests.apps.cli.molecule_table import GP, read_rows

HARD = '''id,smiles,note
1,CCO,"a, ""b"""
2,bad(,x
3,c1ccccc1

4,,y
5,CCN,z,extra
6,C,"line
break"
7,CCCO,\xe9
8,[Na+].[Cl-],
9,*CC*,
10,[2H]C,
'''


def test_predict_writes_one_output_row_for_each_input_row(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text(HARD, encoding="latin-1")
    code, output = gattn("predict", folder / "numbers", tmp_path / "in.csv", "--coverage", 0.5,
                       "--out", tmp_path / "out.csv", "--workers", 1)  # fmt: skip
    assert code == 0, output
    assert "10 rows, 4 of them with an error" in output
    rows = read_rows(tmp_path / "out.csv", encoding="latin-1")
    assert [row["id"] for row in rows] == [str(n) for n in range(1, 11)]
    assert [bool(row["error"]) for row in rows] == [n in (2, 3, 4, 5) for n in range(1, 11)]
    assert rows[0]["note"] == 'a, "b"'
    assert rows[5]["note"] == "line\nbreak"
    assert rows[6]["note"] == "\xe9"
    model = MoleculeRegressor.load(folder / "numbers")
    for row in rows:
        names = ("prediction", "std", "lower", "upper", "similarity", "percentile")
        numbers = [row[name] for name in names]
        if row["error"]:
            assert numbers == [""] * 6
            continue
        lower, upper = model.predict_interval([row["smiles"]], coverage=0.5)
        expected = [*np.ravel(model.predict([row["smiles"]], return_std=True)), *lower, *upper]
        assert np.allclose([float(n) for n in numbers[:4]], expected, rtol=1e-4)
        assert 0 <= float(numbers[4]) <= 1
        assert float(numbers[5]) == model.predict_percentile([row["smiles"]])


def test_predict_for_a_table_without_rows_writes_no_rows_and_prints_a_note(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles\n")
    out = tmp_path / "out.csv"
    code, output = gattn("predict", folder / "numbers", tmp_path / "in.csv", "--out", out)
    assert code == 0
    assert f"{tmp_path / 'in.csv'} has a header but no rows, so {out} has no rows" in output
    assert read_rows(out) == []


def test_evaluate_leaves_out_molecules_of_the_training_and_validation_sets(folder, tmp_path, gattn):
    out = tmp_path / "evaluation"
    code, output = gattn("evaluate", folder / "numbers", folder / "data.csv", "--out", out)
    assert code == 0, output
    assert "72 rows (72 molecules) left out, because the model was trained or validated" in output
    metrics = json.loads((out / "metrics.json").read_text())
    run = json.loads((folder / "numbers" / "metrics.json").read_text())
    assert metrics["molecules"] == {"test": 8, "trained_on": 72, "left_out": 2}
    for name, value in run["test"].items():
        assert metrics["test"][name] == pytest.approx(value, rel=1e-5)
    assert (out / "plots" / "parity.png").exists()
    (tmp_path / "seen.csv").write_text("smiles,y\n" + "CO,1.0\n")
    code, output = gattn("evaluate", folder / "numbers", tmp_path / "seen.csv")
    seen = json.loads((folder / "numbers" / "splits.json").read_text())
    if 0 not in seen["test"]:
        assert code == 2
        assert "no labelled molecules other than those that the model was trained on" in output
    (tmp_path / "seen.csv").write_text("smiles,measured\n" + "CO,1.0\n")
    code, output = gattn("evaluate", folder / "numbers", tmp_path / "seen.csv")
    assert code == 2
    assert "no column 'y'" in output
    assert "name the column of labels with --target" in output


def test_explain_writes_tables_and_pictures_of_molecules(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles,Name\nCCCO,propanol\nbad(,\nCN,\n")
    table, out = ["explain", folder / "numbers", tmp_path / "in.csv", "--out"], tmp_path / "why"
    code, output = gattn(*table, out)
    assert code == 0, output
    assert "3 rows, 1 of them with an error" in output
    pictures = {f"row{n}.{e}" for n in (0, 2) for e in ("svg", "png")}
    tables = {"atoms.csv", "molecules.csv", "errors.csv"}
    assert {path.name for path in out.iterdir()} == tables | pictures
    assert ">row 0: propanol<" in (out / "row0.svg").read_text("utf-8")
    assert ">row 2: CN<" in (out / "row2.svg").read_text("utf-8")
    atoms = pd.read_csv(out / "atoms.csv")
    assert atoms.row.tolist() == [0] * 4 + [2] * 2
    assert "".join(atoms.symbol) == "CCCOCN"
    assert [row["row"] for row in read_rows(out / "errors.csv")] == ["1"]
    explained = MoleculeRegressor.load(folder / "numbers").explain(["CCCO"])
    assert np.allclose(atoms.weight[:4], explained[0].weights, atol=1e-6)
    code, output = gattn(*table, out)
    assert (code, "exists already" in output) == (2, True)


def test_explanation_of_a_log10_model_states_the_logarithmic_scale(tmp_path, gattn):
    data, new, out = tmp_path / "data.csv", tmp_path / "new.csv", tmp_path / "why"
    rows = [
        (f"{'C' * n}{e}", 10 ** (0.1 * n + i)) for n in range(1, 31) for i, e in enumerate("ON")
    ]
    data.write_text("smiles,IC50,w\n" + "".join(f"{s},{y},{len(s)}\n" for s, y in rows))
    new.write_text("smiles,w\nCCCO,4\nCCCCCN,6\n")
    options = ("--target", "IC50", "--target-transform", "log10", "--descriptors-columns", "w", *GP)
    for command in (
        ("train", data, "--out", tmp_path / "run", *options),
        ("predict", tmp_path / "run", new, "--out", tmp_path / "out.csv"),
        ("explain", tmp_path / "run", new, "--out", out),
    ):
        code, output = gattn(*command)
        assert code == 0, output
    predicted, explained = read_rows(tmp_path / "out.csv"), read_rows(out / "molecules.csv")
    for one, other in zip(predicted, explained, strict=True):
        assert float(other["prediction"]) == pytest.approx(float(one["prediction"]), rel=1e-4)
        assert float(other["std"]) == pytest.approx(float(one["std"]), rel=1e-3)
        assert other["explained"] == "log10(IC50)"
        exponent = np.log10(float(one["prediction"]))
        assert float(other["explained_value"]) == pytest.approx(exponent, abs=1e-4)
    assert {row["explained"] for row in read_rows(out / "atoms.csv")} == {"log10(IC50)"}
    page = (out / "row0.svg").read_text("utf-8")
    assert "weights and changes are in log10(IC50), which is" in page
    assert "contribution to log10(IC50)" in page


def test_low_coverage_on_test_molecules_gives_a_note_in_output_and_report(tmp_path, gattn):
    data = tmp_path / "data.csv"
    parts = ["train", "val", "train", "train"]
    rows = [f"{'C' * n}{e},{0.1 * n},{parts[n % 4]}" for n in range(1, 41) for e in "ON"]
    rows += [f"{'N' + 'C' * n}S,{50 + n},test" for n in range(1, 41)]
    data.write_text("smiles,y,part\n" + "\n".join(rows) + "\n")
    run = tmp_path / "run"
    options = ("--target", "y", "--split", "column:part", *GP)
    code, output = gattn("train", data, "--out", run, *options)
    assert code == 0, output
    page = (run / "report.html").read_text("utf-8")
    metrics = json.loads((run / "metrics.json").read_text())
    (missed,) = coverage_note(metrics, "molecules")
    assert metrics["intervals"]["held"] == 0
    assert metrics["intervals"]["rows"] == 40
    assert missed in page
    assert missed in output
    code, output = gattn("evaluate", run, data)
    assert missed in output


def test_option_neighbors_raises_error_for_a_model_without_training_molecules(tmp_path, gattn):
    data = tmp_path / "new.csv"
    data.write_text("smiles\nCCO\n")
    code, output = gattn("predict", "bbb", data, "--out", tmp_path / "out.csv", "--neighbors", 1)
    assert code == 2
    assert "bbb is distributed without its training molecules" in output
    assert not (tmp_path / "out.csv").exists()
