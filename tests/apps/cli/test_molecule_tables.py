"""Tests of ``gattn molecules`` on tables with number formats, bad cells and columns of parts."""

import json
import sys
from io import BytesIO, TextIOWrapper

import numpy as np
import pandas as pd
import pytest

from tests.apps.cli.commands import runner
from tests.apps.cli.molecule_table import ROWS, read_rows
from tests.pictures import leave_blank

SMILES = [f"{'C' * n}{end}" for n in range(1, 16) for end in ("O", "N", "Cl", "Br")]
GP = ["--model", "gp", "--workers", 1]
PARTS = ["train"] * 40 + ["val"] * 10 + ["test"] * 10


@pytest.fixture
def train(monkeypatch, capsys, tmp_path):
    """Train on a table given as text; return the exit code, the output and the run folder."""
    leave_blank(monkeypatch)
    run = runner(monkeypatch, capsys, "molecules")

    def go(text, *options, name="run"):
        data = tmp_path / "data.csv"
        data.write_bytes(text if isinstance(text, bytes) else text.encode())
        code, output = run("train", data, "--out", tmp_path / name, *GP, *options)
        return code, output, tmp_path / name

    go.run = run
    return go


def _metrics(folder):
    return json.loads((folder / "metrics.json").read_text())


def _table(header, *columns, separator=","):
    rows = [header.split(","), *zip(SMILES, *columns)]
    return "\n".join(separator.join(map(str, row)) for row in rows) + "\n"


def test_rows_with_a_wrong_number_of_cells_are_counted_in_the_error(train):
    text = _table("smiles,y", [f"{n},note" if n % 5 == 0 else n for n in range(60)])
    code, output, _ = train(text, "--target", "y")
    assert code == 2
    assert "12 of 60 rows have a wrong number of cells; the first is in line 2: 3 ce" in output
    code, output, folder = train(text, "--target", "y", "--skip-bad-labels")
    assert code == 0, output
    assert _metrics(folder)["molecules"]["left_out"] == 12


def test_text_in_a_target_column_leaves_out_only_its_label(train):
    b = ["see note" if n % 4 == 0 else -n for n in range(60)]
    text = _table("smiles,a,b", [n / 10 for n in range(60)], b)
    code, output, folder = train(text, "--target", "a", "--target", "b")
    assert code == 0, output
    assert "Column 'b': 15 labels left out, the first 'see note' in line 2, which is" in output
    metrics = _metrics(folder)
    assert metrics["molecules"]["left_out"] == 0
    assert metrics["labels"]["a"]["read"] == 60
    assert (metrics["labels"]["b"]["read"], metrics["labels"]["b"]["left_out"]) == (45, 15)
    rows = read_rows(folder / "left_out.csv")
    assert len(rows) == 15
    assert (rows[0]["row"], rows[0]["line"], rows[0]["text"]) == ("0", "2", "CO")
    assert rows[0]["reason"].startswith("only this label is left out: b must be a number")
    assert "15 labels left out" in (folder / "report.html").read_text()


def test_decimal_comma_is_read_with_the_option_that_the_error_suggests(train):
    text = _table("smiles,y", [f'"1.{n:03},5"' for n in range(60)])
    equal = "decimal and thousands must be different signs"
    for options, message in (([], "use --decimal ,"), (["--thousands", "."], equal)):
        code, error, folder = train(text, "--target", "y", *options)
        assert code == 2
        assert error.splitlines()[-1].startswith("gattn: ")
        assert message in error
        assert not folder.exists()
    code, output, folder = train(text, "--target", "y", "--decimal", ",", "--thousands", ".")
    assert code == 0, output
    table = pd.read_csv(folder / "predictions.csv")
    assert table.measured.tolist() == [1000.5 + row for row in table.row]
    assert 'decimal = ","' in (folder / "config.toml").read_text()
    # Without options, evaluate uses the number format of the training run.
    code, output = train.run("evaluate", folder, folder.parent / "data.csv")
    assert code == 0, output


def test_output_names_targets_without_labels_in_a_split(train):
    b = ["" if part == "test" else n for n, part in enumerate(PARTS)]
    c = [n if part == "train" or n in (41, 42, 55, 56) else "" for n, part in enumerate(PARTS)]
    text = _table("smiles,a,b,c,split", range(60), b, c, PARTS)
    targets = ["--target", "a", "--target", "b", "--target", "c", "--split", "column:split"]
    code, output, folder = train(text, *targets)
    assert code == 0, output
    assert "undefined for 'b' (there is no label)" in _metrics(folder)["undefined"]["test"]["rmse"]
    assert "2 calibration molecules with a label of 'c' are too few for this coverage" in output
    assert "--coverage of up to 0.66, they are finite" in output
    assert "of 'a' are too few" not in output
    labels = _metrics(folder)["labels"]
    assert [labels["b"][part] for part in ("train", "val", "test")] == [40, 10, 0]
    assert [labels["c"][part] for part in ("train", "val", "test")] == [40, 2, 2]


def test_class_missing_in_test_set_leaves_roc_auc_undefined_and_in_training_set_raises_error(train):
    kind = ["idle" if part == "test" or n % 2 else "active" for n, part in enumerate(PARTS)]
    code, output, folder = train(
        _table("smiles,kind,split", kind, PARTS), "--target", "kind", "--split", "column:split"
    )
    assert code == 0, output
    assert _metrics(folder)["undefined"]["test"]["roc_auc"].startswith("undefined")
    assert _metrics(folder)["labels"]["kind"]["test"] == {"active": 0, "idle": 10}
    kind = ["idle" if part == "train" or n % 2 else "active" for n, part in enumerate(PARTS)]
    code, output, _ = train(
        _table("smiles,kind,split", kind, PARTS), "--target", "kind", "--split", "column:split",
        name="other",
    )  # fmt: skip
    assert code == 2
    assert "only class 'idle' and no label of class 'active' of 'kind': choose another" in output


def test_target_with_one_class_in_the_training_set_is_left_out(train):
    a = ["idle" if n % 2 else "active" for n in range(60)]
    b = ["idle" if part == "train" or n % 2 else "active" for n, part in enumerate(PARTS)]
    code, output, folder = train(
        _table("smiles,b,a,split", b, a, PARTS), "--target", "b", "--target", "a",
        "--split", "column:split",
    )  # fmt: skip
    assert code == 0, output
    assert "1 target left out" in output
    assert "only class 'idle' and no label of class 'active' of 'b'" in output
    assert list(_metrics(folder)["labels"]) == ["a"]


def test_train_and_predict_read_parquet_smi_and_standard_input_and_detect_the_smiles_column(
    tmp_path, gattn, monkeypatch
):
    table = pd.DataFrame(ROWS, columns=["Canonical_SMILES", "y", "kind"])
    table.to_parquet(tmp_path / "t.parquet")
    options = ["--target", "y", "--coverage", 0.5, *GP]
    code, output = gattn("train", tmp_path / "t.parquet", "--out", tmp_path / "run", *options)
    assert (code, "SMILES are read from the column 'Canonical_SMILES'" in output) == (0, True)
    (tmp_path / "t.smi").write_text("CCO a\nCCN b\n")
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"Drug\nCCO\nCCN\n")))
    tables = []
    smi, half = tmp_path / "t.smi", ["--coverage", 0.5]
    for source, name, more in ((smi, "a.parquet", ()), ("-", "b.csv.gz", ()), (smi, "c.tsv", half)):
        path = tmp_path / name
        code, output = gattn("predict", tmp_path / "run", source, "--out", path, *more)
        assert code == 0, output
        is_parquet, sep = name.endswith("parquet"), "\t" if "tsv" in name else ","
        tables.append(pd.read_parquet(path) if is_parquet else pd.read_csv(path, sep=sep))
    for column in ("prediction", "lower", "upper"):
        assert [table[column].tolist() for table in tables[1:]] == [tables[0][column].tolist()] * 2
    # By default, the coverage of the intervals is that of the training.
    assert np.isfinite(tables[0].upper).all()
    missing = "has no column 'Canonical_SMILES'"
    for content, message in ((b"", "is empty"), (b"name,y\nCCO,1\n", missing)):
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(content)))
        code, output = gattn("predict", tmp_path / "run", "-", "--out", tmp_path / "d.csv")
        assert code == 2
        assert output.startswith(f"gattn: the standard input {message}")


def test_errors_about_percent_signs_and_case_of_column_names_suggest_a_remedy(train):
    percents = [f"{n}%" for n in range(60)]
    code, error, _ = train(_table("smiles,y", percents), "--target", "y")
    assert code == 2
    assert "Write plain numbers" in error
    assert "Use the option" not in error
    code, error, _ = train(_table("smiles,y", range(60)), "--target", "Y")
    assert code == 2
    assert "did you mean 'y'?" in error
