"""Exported models predict the same numbers as the models, without gattn and PyTorch."""

import csv
import itertools
import os
import runpy
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from gattn.apps.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.export.folder import EXAMPLES, ExportError, export_model
from gattn.apps.molecules.export.predict import ExportedModel
from gattn.apps.tables.csv_table import open_table

pytest.importorskip("onnxruntime")

SMILES = [
    f"{'C' * n}{end}" for n, end in itertools.product(range(1, 9), ("O", "N", "c1ccccc1", "C(=O)O"))
]
ASKED = [*EXAMPLES, "N[C@@H](C)C(=O)O", "CCCCCCCCO", "[Na+].CC(=O)[O-]", "Oc1ccccn1", SMILES[3]]
SMALL = {"epochs": 2, "width": 16, "heads": 2, "layers": 2}


def numbers(count, targets=1):
    generator = np.random.default_rng(count)
    return np.arange(count)[:, None] % 7 + generator.normal(size=(count, targets))


def fitted(kind, rows, y, **settings):
    return kind(**(SMALL | settings)).fit(rows, y)


def check_equal(model, folder, texts, tolerance=1e-5):
    """Compare an export with its model, relative to the size of the numbers."""
    exported = ExportedModel(folder).predict(texts)
    (piece,) = model.predictions(texts)
    index, predicted = piece.row_index.numpy(), piece.result
    assert not any(exported["errors"][i] for i in index)
    expected = {"mean": predicted.mean, "std": predicted.std}
    expected["similarity"] = predicted.max_train_similarity
    if model.task == "regression":
        expected |= dict(zip(("lower", "upper"), model.intervals(predicted, 0.9)))
    for name, value in expected.items():
        np.testing.assert_allclose(
            exported[name][index], value.numpy(), rtol=tolerance, atol=tolerance, err_msg=name
        )
    if model.task != "regression":
        sets = model.sets_of(predicted.mean, 0.9)
        for target, got in enumerate(exported["sets"]):
            assert np.array_equal(got[index], sets[:, target, : got.shape[1]].numpy())
    return exported


TWO = [["yes" if i % 3 else "no"] for i in range(len(SMILES))]
SEVERAL = [[f"class {i % 3}", "ab"[i % 2]] for i in range(len(SMILES))]
KINDS = {
    "regression": (MoleculeRegressor, numbers(len(SMILES))[:, 0], {}),
    "two targets, one missing label": (
        MoleculeRegressor,
        np.where(np.arange(len(SMILES))[:, None] == [[3, 99]], np.nan, numbers(len(SMILES), 2)),
        {},
    ),
    "log10": (MoleculeRegressor, 10 ** numbers(len(SMILES)), {"target_transform": "log10"}),
    "logit": (
        MoleculeRegressor,
        1 / (1 + np.exp(-numbers(len(SMILES)))),
        {"target_transform": "logit"},
    ),
    "classification": (MoleculeClassifier, np.array(TWO)[:, 0], {}),
    "several classes": (MoleculeClassifier, np.array(SEVERAL), {}),
    "flat": (MoleculeRegressor, numbers(len(SMILES))[:, 0], {"ignore_stereo": True}),
    "standardised": (
        MoleculeRegressor,
        numbers(len(SMILES))[:, 0],
        {"standardize": ("largest-fragment", "neutral", "tautomer")},
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_exported_gaussian_process_predicts_the_same(name, tmp_path):
    kind, y, settings = KINDS[name]
    model = fitted(kind, SMILES, y, model="gp", **settings)
    model.save(tmp_path / "run")
    exported = export_model(tmp_path / "run", tmp_path / "out")
    assert exported.difference <= 1e-5
    names = [name for name in exported.files if not name.startswith("gattn_reader/")]
    assert names == ["arrays.npz", "model.json", "predict.py"]
    check_equal(model, tmp_path / "out", ASKED)


def test_exported_model_reads_the_cells_that_predict_reads(tmp_path):
    model = fitted(MoleculeRegressor, SMILES, numbers(len(SMILES))[:, 0], model="gp")
    model.save(tmp_path / "run")
    export_model(tmp_path / "run", tmp_path / "out")
    valid = ["CCO ethanol", "[CH3:01]C", "\u200bCC\u3000", "CC \xe9", "C[C@H](N)O |&1:1|"]
    check_equal(model, tmp_path / "out", valid)
    wrong = ["", "C1CC", "CCO CCN", "CC(=O O)", "C\nC", "CC\0", "[#6]", "C~C", "C>>C"]
    (piece,) = model.predictions(wrong)
    assert all(piece.errors)
    assert ExportedModel(tmp_path / "out").predict(wrong)["errors"] == piece.errors


def test_exported_program_reports_files_and_rows_that_it_cannot_read(tmp_path, capsys, monkeypatch):
    fitted(MoleculeRegressor, SMILES, range(len(SMILES)), model="gp").save(tmp_path / "run")
    export_model(tmp_path / "run", tmp_path / "out")
    monkeypatch.syspath_prepend(tmp_path / "out")
    program = runpy.run_path(str(tmp_path / "out" / "predict.py"))["main"]
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"

    def error(content):
        table.write_bytes(content)
        with pytest.raises(SystemExit, match="2"):
            program([str(table), str(out)])
        return capsys.readouterr().err

    assert "is empty" in error(b"")
    assert "2 columns 'smiles'" in error(b"smiles,smiles,name\nCCCCCCCCCC,O,decane\n")
    table.write_text("smiles,x\nCCO,1\nCCO\n\nCCO,1,2\n")
    program([str(table), str(out)])
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    problems = ["", "1 cell but the header has 2", "3 cells but the header has 2"]
    assert [row["error"] for row in rows] == problems
    assert [bool(row["prediction"]) for row in rows] == [True, False, False]
    assert "out.csv exists already" in error(b"smiles\nCC\n")
    for content, cells in (
        (b"smiles,y,y\nCCO,1,9\n", ["CCO", "1", "9"]),
        (b"id; smiles\n1;CCO\n", ["1", "CCO"]),
        ("smiles\nCCO\n".encode("utf-16"), ["CCO"]),
    ):
        out.unlink()
        table.write_bytes(content)
        program([str(table), str(out)])
        row = next(open_table(out).rows()).cells
        assert row[: len(cells)] == cells
        assert (bool(row[len(cells)]), row[-1]) == (True, "")
    table.unlink()
    out.unlink()
    with pytest.raises(SystemExit, match="2"):
        program([str(table), str(out)])
    assert "No such file" in capsys.readouterr().err


@pytest.mark.slow
def test_exported_program_predicts_a_table_without_gattn_and_torch(tmp_path):
    y = numbers(len(SMILES))[:, 0]
    model = fitted(MoleculeRegressor, SMILES, y, ensemble=2)
    model.save(tmp_path / "run")
    exported = export_model(tmp_path / "run", tmp_path / "out")
    assert "network.onnx" in exported.files
    got = check_equal(model, tmp_path / "out", ASKED)
    check_equal(model, tmp_path / "out", ["C"])
    check_equal(model, tmp_path / "out", ["CC"] * 700)
    table = [["id", "smiles"], *([str(i), text] for i, text in enumerate([*ASKED, "C1CC"]))]
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows(table)
    # The program is started as a user starts it, with the modules of gattn and torch blocked.
    block = "import sys; sys.modules['gattn'] = sys.modules['torch'] = None; import runpy; "
    run = "runpy.run_path(sys.argv[0], run_name='__main__')"
    program = tmp_path / "out" / "predict.py"
    code = f"{block}sys.argv = sys.argv[1:]; {run}"
    subprocess.run(
        [sys.executable, "-c", code, program, tmp_path / "in.csv", tmp_path / "out.csv"],
        check=True, env={**os.environ, "PYTHONPATH": str(tmp_path / "out")},
    )  # fmt: skip
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [row[0] for row in table[1:]]
    for i, row in enumerate(rows[:-1]):
        for name, column in (("prediction", "mean"), ("lower", "lower"), ("upper", "upper")):
            np.testing.assert_allclose(float(row[name]), got[column][i, 0], rtol=1e-6)
    assert rows[-1]["prediction"] == ""
    assert rows[-1]["error"].startswith("not valid SMILES")


@pytest.mark.slow
def test_exported_networks_of_several_targets_and_hydrogens_predict_the_same(tmp_path):
    kind, y, _ = KINDS["several classes"]
    model = fitted(kind, SMILES, y, ensemble=2, add_h=True)
    model.save(tmp_path / "run")
    assert export_model(tmp_path / "run", tmp_path / "out").difference <= 1e-5
    check_equal(model, tmp_path / "out", ASKED)


PAIRS = [[a, b] for a, b in zip(SMILES, reversed(SMILES))]
REFUSED = {
    "several molecules in a row": (PAIRS, {"molecules_per_row": 2}),
    "reactions": ([f"[CH3:1]{text}>>[CH3:1]" for text in SMILES], {"reaction": True}),
    "descriptor columns": (pd.DataFrame({"smiles": SMILES, "pH": range(len(SMILES))}), {}),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_model_that_cannot_be_exported_is_one_clear_error(reason, tmp_path):
    rows, settings = REFUSED[reason]
    model = fitted(
        MoleculeRegressor, rows, numbers(len(SMILES))[:, 0], **{"model": "gp"} | settings
    )
    model.save(tmp_path / "other")
    with pytest.raises(ExportError, match=f"its model has {reason}: models of one molecule"):
        export_model(tmp_path / "other", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_export_that_differs_is_not_written(tmp_path, monkeypatch):
    model = fitted(MoleculeRegressor, SMILES, numbers(len(SMILES))[:, 0], model="gp")
    model.save(tmp_path / "run")
    monkeypatch.setattr("gattn.apps.molecules.export.folder.TOLERANCE", -1.0)
    with pytest.raises(RuntimeError, match="the folder was not written"):
        export_model(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()
