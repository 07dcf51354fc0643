"""Descriptors of a file of NumPy: reading, training, prediction, and files that do not fit."""

import csv
import json
import zipfile

import numpy as np
import pytest

pytest.importorskip("rdkit")

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules.descriptor_columns import read_array
from gattn.apps.molecules.runs.config import override
from gattn.apps.molecules.runs.evaluate import evaluate_table
from gattn.apps.molecules.runs.explain import explain_table
from gattn.apps.molecules.runs.predict import predict_table
from gattn.apps.molecules.runs.source import read_source
from gattn.apps.molecules.runs.train import train_run

SMILES = [f"{'C' * n}{end}" for n in range(1, 31) for end in ("O", "N")]
VALUES = np.random.default_rng(0).normal(size=(len(SMILES), 2))
LABELS = VALUES @ [3.0, -2.0] + 0.1 * np.array([len(text) for text in SMILES])


@pytest.fixture
def table(tmp_path):
    """Table whose labels depend on descriptors that are only in a file of NumPy."""
    path = tmp_path / "data.csv"
    lines = [f"{s},{y!r},{i % 7}" for i, (s, y) in enumerate(zip(SMILES, LABELS.tolist()))]
    path.write_text("\n".join(["smiles,y,T", *lines]) + "\n")
    np.savez(tmp_path / "data.npz", VALUES)
    return path


def train(table, out, **options):
    settings = {"data": str(table), "target": ("y",), "workers": 1, "model": "gp"}
    return train_run(override(None, settings | options), out)


def read_rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_model_reads_the_rows_of_the_file_in_order(table, tmp_path):
    plain = train(table, tmp_path / "plain")
    array = tmp_path / "data.npz"
    metrics = train(
        table, tmp_path / "run", descriptors_path=str(array), descriptors_columns=("T",)
    )
    assert metrics["test"]["rmse"] < 0.3 * plain["test"]["rmse"]
    card = json.loads((tmp_path / "run" / "model.json").read_text())
    assert card["descriptors_columns"] == ["T", "npz_1", "npz_2"]
    counts = predict_table(
        tmp_path / "run", table, tmp_path / "out.csv", workers=1, descriptors_path=str(array)
    )
    assert (counts.rows, counts.bad) == (len(SMILES), 0)
    rows = read_rows(tmp_path / "out.csv")
    assert list(rows[0])[:4] == ["smiles", "y", "T", "prediction"]
    error = np.array([float(row["prediction"]) for row in rows]) - LABELS
    assert np.sqrt(np.mean(error**2)) < 0.3 * LABELS.std()
    explained = tmp_path / "explained"
    explain_table(
        tmp_path / "run", table, explained, methods=("masking",), pictures=0,
        descriptors_path=str(array), workers=1,
    )  # fmt: skip
    assert any(explained.iterdir())
    # the same command finds the finished run
    options = {"descriptors_path": str(array), "descriptors_columns": ("T",)}
    assert train(table, tmp_path / "run", **options)["test"] == metrics["test"]


def test_evaluation_reads_the_file(table, tmp_path):
    array = tmp_path / "data.npz"
    train(table, tmp_path / "run", descriptors_path=str(array))
    new = tmp_path / "new.csv"
    new.write_text(
        "smiles,y\n" + "".join(f"{s}CO,{y!r}\n" for s, y in zip(SMILES, LABELS.tolist()))
    )
    metrics = evaluate_table(tmp_path / "run", new, workers=1, descriptors_path=str(array))
    assert metrics["test"]["r2"] > 0.8
    with pytest.raises(ValueError, match="name the file for this table with --descriptors-path"):
        evaluate_table(tmp_path / "run", new, workers=1)


def test_rows_of_the_table_that_cannot_be_read_keep_the_order(table, tmp_path):
    lines = table.read_text().splitlines()
    lines.insert(3, "bad(,1.0,1")
    lines.insert(6, "CCO,1.0,1,2,extra")
    table.write_text("\n".join(lines) + "\n")
    values = np.insert(VALUES, 2, 77, axis=0)
    values = np.insert(values, 5, 88, axis=0)
    np.save(tmp_path / "more.npy", values)
    source = read_source(
        str(table), "smiles", ["y"], "auto", descriptors_path=str(tmp_path / "more.npy"),
        skip_bad=True,
    )  # fmt: skip
    usable = [row for row, text in enumerate(source.smiles) if text and text != "bad("]
    assert source.descriptor_values is not None
    assert np.array_equal(source.descriptor_values[usable], VALUES)


def test_missing_and_infinite_values(table, tmp_path):
    values = VALUES.copy()
    values[0, 0], values[1, 1] = np.nan, np.inf
    np.savez(tmp_path / "data.npz", values)
    source = read_source(
        str(table), "smiles", ["y"], "auto", descriptors_path=str(tmp_path / "data.npz")
    )
    assert [row.row for row in source.bad] == [1]
    assert "npz_2 of" in source.bad[0].reason
    assert "must be a finite number; it is inf" in source.bad[0].reason
    assert source.descriptor_values is not None
    assert np.isnan(source.descriptor_values[0, 0])
    assert source.smiles[0] == SMILES[0]


def test_columns_with_the_names_of_the_file_replace_it(table, tmp_path):
    array = str(tmp_path / "data.npz")
    train(table, tmp_path / "run", descriptors_path=array)
    new = tmp_path / "columns.csv"
    lines = [f"{s},{a!r},{b!r}" for s, (a, b) in zip(SMILES, VALUES.tolist())]
    new.write_text("\n".join(["smiles,npz_1,npz_2", *lines]) + "\n")
    predict_table(tmp_path / "run", new, tmp_path / "columns-out.csv", workers=1)
    predict_table(tmp_path / "run", table, tmp_path / "out.csv", workers=1, descriptors_path=array)
    both = [read_rows(tmp_path / name) for name in ("columns-out.csv", "out.csv")]
    one, two = ([row["prediction"] for row in rows] for rows in both)
    assert one == two
    with pytest.raises(ValueError, match="a column can be used only once"):
        read_source(str(new), "smiles", [], "auto", descriptors=["npz_1"], descriptors_path=array)


@pytest.mark.parametrize("rows", [len(SMILES) - 1, len(SMILES) + 2])
def test_another_number_of_rows(table, tmp_path, rows):
    np.savez(tmp_path / "data.npz", np.zeros((rows, 2)))
    message = f"a row for each row of the table, {len(SMILES)}; it has {rows}"
    with pytest.raises(ValueError, match=message):
        train(table, tmp_path / "run", descriptors_path=str(tmp_path / "data.npz"))


def test_files_that_do_not_fit(table, tmp_path):
    array = tmp_path / "data.npz"
    train(table, tmp_path / "run", descriptors_path=str(array))
    out = tmp_path / "out.csv"
    with pytest.raises(ValueError, match="trained with 2 descriptors of a file; name the file"):
        predict_table(tmp_path / "run", table, out, workers=1)
    np.savez(array, VALUES[:, :1])
    with pytest.raises(ValueError, match=r"with 2 descriptors of a file; .* has 1"):
        predict_table(tmp_path / "run", table, out, workers=1, descriptors_path=str(array))
    np.savez(array, VALUES[1:])
    with pytest.raises(ValueError, match="a row for each row of the table, 60; it has 59"):
        predict_table(tmp_path / "run", table, out, workers=1, descriptors_path=str(array))
    assert not out.exists()
    with pytest.raises(SettingsError, match="--descriptors-path was set without DATA"):
        override(None, {"descriptors_path": str(array)})


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.zeros((2, 1)), "b": np.zeros((2, 1))}, "must contain one array; it contains 2"),
        ({}, "it contains 0"),
        ({"a": np.zeros((2, 1, 1))}, r"an array \[n, f\] of numbers; .* shape \[2, 1, 1\]"),
        ({"a": np.zeros((2, 0))}, "an array"),
        ({"a": np.array(["x", "y"])}, "of numbers; it contains an array of shape"),
        ({"a": np.array([None, 1.0], dtype=object)}, "without objects"),
    ],
)
def test_arrays_that_are_no_descriptors(tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_array(tmp_path / "x.npz")


def test_other_files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3))
    assert read_array(tmp_path / "x.npy").values.tolist() == [[0], [1], [2]]
    for content in ("", "no array"):
        (tmp_path / "text.npz").write_text(content)
        with pytest.raises(
            ValueError, match=r"text.npz must be a file of numbers that numpy.savez"
        ):
            read_array(tmp_path / "text.npz")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as file:
        file.writestr("a.txt", "no array")
    with pytest.raises(ValueError, match="must contain arrays of NumPy; it contains other files"):
        read_array(tmp_path / "zip.npz")
    with pytest.raises(FileNotFoundError):
        read_array(tmp_path / "absent.npz")
