"""``gattn molecules``: files and messages of the commands, and their errors of one line."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from gattn.apps.fitting.settings import read_toml
from gattn.apps.molecules.runs.config import RunSettings
from tests.apps.cli.molecule_table import GP, ROWS, TABLE, read_rows


def test_a_run_holds_what_it_should(folder):
    names = {path.name for path in (folder / "numbers").iterdir()}
    assert names == {
        "config.toml", "splits.json", "weights.safetensors", "model.json", "metrics.json",
        "predictions.csv", "left_out.csv", "plots", "report.html", "report.json",
    }  # fmt: skip
    plots = {path.stem for path in (folder / "numbers" / "plots").iterdir()}
    assert plots == {"parity", "calibration", "learning-curve"}
    classes = {path.stem for path in (folder / "classes" / "plots").iterdir()}
    # No learning curve, because the Gaussian process is not trained in epochs.
    assert classes == {"roc", "calibration"}
    page = (folder / "classes" / "report.html").read_text("utf-8")
    assert "on which the epoch was chosen" not in page
    assert "2 classes have fewer than the 9 validation molecules" in page
    stacked = (folder / "numbers" / "report.html").read_text("utf-8")
    assert "on which the epoch was chosen" in stacked
    left_out = read_rows(folder / "numbers" / "left_out.csv")
    assert [(row["row"], row["line"]) for row in left_out] == [("80", "82"), ("82", "84")]
    assert left_out[1]["reason"] == "y must be a number or empty; it is 'high'"


def test_metrics_in_their_form(folder):
    metrics = json.loads((folder / "numbers" / "metrics.json").read_text())
    assert set(metrics["test"]) == set(metrics["val"]) == {"rmse", "mae", "r2"}
    assert set(metrics["baselines"]) == {"kernel_ridge", "mean"}
    assert metrics["molecules"] == {"train": 64, "val": 8, "test": 8, "left_out": 2}
    assert metrics["intervals"]["coverage"] == 0.9
    classes = json.loads((folder / "classes" / "metrics.json").read_text())
    assert set(classes["test"]) == {"roc_auc", "pr_auc", "accuracy"}
    assert set(classes["baselines"]["kernel_ridge"]) == {"roc_auc", "pr_auc", "accuracy"}


def test_the_table_of_predictions_gives_the_metrics(folder):
    table = pd.read_csv(folder / "numbers" / "predictions.csv")
    splits = json.loads((folder / "numbers" / "splits.json").read_text())
    for part in ("val", "test"):
        assert table.row[table.part == part].tolist() == splits[part]
    test = table[table.part == "test"]
    rmse = np.sqrt(((test.measured - test.prediction) ** 2).mean())
    metrics = json.loads((folder / "numbers" / "metrics.json").read_text())
    # The cells of the table have six digits.
    assert rmse == pytest.approx(metrics["test"]["rmse"], rel=1e-4, abs=1e-5)
    assert [ROWS[row][1] for row in test.row] == test.measured.tolist()


def test_copies_of_a_molecule_are_in_one_part(tmp_path, gattn):
    data = tmp_path / "copies.csv"
    pairs = [(f"{'C' * n}O", f"O{'C' * n}") for n in range(1, 31)]
    rows = "".join(f"{a},{n}\n{b},{n}\n" for n, (a, b) in enumerate(pairs))
    data.write_text("smiles,y\n" + rows)
    code, output = gattn("train", data, "--target", "y", "--out", tmp_path / "run", *GP)
    assert code == 0, output
    assert "Gaussian process: 100%" in output
    assert "and writing the report" in output
    splits = json.loads((tmp_path / "run" / "splits.json").read_text())
    for part in ("train", "val", "test"):
        molecules = {row // 2 for row in splits[part]}
        assert sorted(splits[part]) == sorted(2 * m + i for m in molecules for i in (0, 1))


def test_the_config_comes_back_and_the_command_line_wins(folder, tmp_path, gattn):
    config = folder / "numbers" / "config.toml"
    settings = read_toml(RunSettings, config)
    assert settings.target == ("y",)
    assert settings.model.epochs == 2
    code, output = gattn("train", "--config", config, *GP, "--seed", 5, "--out", tmp_path / "run")
    assert code == 0, output
    again = read_toml(RunSettings, tmp_path / "run" / "config.toml")
    assert (again.model.model, again.model.seed, again.model.epochs) == ("gp", 5, 2)
    assert again.data == settings.data


def test_the_same_command_again(folder, gattn):
    before = (folder / "classes" / "model.json").read_bytes()
    same = ["train", folder / "data.csv", "--target", "kind", "--out", folder / "classes", *GP]
    code, output = gattn(*same)
    assert code == 0
    assert "nothing to do" in output
    assert (folder / "classes" / "model.json").read_bytes() == before
    code, output = gattn(*same, "--seed", 1)
    assert (code, output.count("\n")) == (2, 1)
    assert "contains another run (seed is 0 in the folder and 1 in this command)" in output
    assert (folder / "classes" / "model.json").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content"),
    [("metrics.json", "{"), ("metrics.json", "[]"), ("metrics.json", "{}"), ("splits.json", "{}")],
)
def test_a_broken_record_is_told_by_its_name(folder, tmp_path, gattn, name, content):
    run = shutil.copytree(folder / "classes", tmp_path / "run")
    (run / name).write_text(content)
    code, output = gattn("train", folder / "data.csv", "--target", "kind", "--out", run, *GP)
    assert (code, output.count("\n")) == (2, 1)
    assert f"{name} is damaged" in output
    assert "remove" in output


@pytest.mark.parametrize("name", ["weights.safetensors", "model.json", "metrics.json"])
def test_a_truncated_file_of_a_run_says_what_to_do(folder, tmp_path, gattn, name):
    (tmp_path / "in.csv").write_text("smiles\nC\n")
    content = (folder / "classes" / name).read_bytes()
    run = shutil.copytree(folder / "classes", tmp_path / "run")
    if name == "metrics.json":
        command = "train", folder / "data.csv", "--target", "kind", "--out", run, *GP
    else:
        command = "predict", run, tmp_path / "in.csv", "--out", tmp_path / "out.csv"
    for spoilt in (b"", content[:7], content[: len(content) // 2], content[:-2], b"smiles,y\n"):
        (run / name).write_bytes(spoilt)
        code, output = gattn(*command)
        assert (code, output.count("\n")) == (2, 1)
        assert str(run / name) in output
        assert ("remove it" if name == "metrics.json" else "copy the run again") in output


def test_a_run_of_which_nothing_is_done_gives_way(tmp_path, gattn):
    data = tmp_path / "data.csv"
    data.write_text(TABLE)
    run = ["train", data, "--target", "y", "--out", tmp_path / "run", *GP]
    code, output = gattn(*run, "--from-foundation", "encoder-128")
    assert code == 2
    assert "from_foundation needs a model with a network" in output
    code, output = gattn(*run)
    assert code == 0, output


def test_other_data_under_the_same_name(tmp_path, gattn):
    data = tmp_path / "data.csv"
    data.write_text(TABLE)
    run = ["train", data, "--target", "y", "--out", tmp_path / "run", *GP]
    assert gattn(*run)[0] == 0
    data.write_text(TABLE + "CCOCC,1.0,idle,3\n")
    code, output = gattn(*run)
    assert code == 2
    assert "with another content of" in output


def test_splits_by_a_column_and_by_a_file(folder, tmp_path, gattn):
    parts = ["train"] * 64 + ["Valid"] * 8 + ["TEST"] * 8
    lines = TABLE.splitlines()
    named = "\n".join(f"{line},{part}" for line, part in zip(lines, ["part", *parts]))
    (tmp_path / "named.csv").write_text(named)
    code, output = gattn("train", tmp_path / "named.csv", "--target", "y", "--split", "column:part",
                       "--out", tmp_path / "a", *GP)  # fmt: skip
    assert code == 0, output
    splits = json.loads((tmp_path / "a" / "splits.json").read_text())
    assert splits["train"] == list(range(64))
    assert splits["test"] == list(range(72, 80))
    code, output = gattn("train", folder / "data.csv", "--target", "y", "--out", tmp_path / "b",
                       "--split", tmp_path / "a" / "splits.json", *GP)  # fmt: skip
    assert code == 0, output
    assert json.loads((tmp_path / "b" / "splits.json").read_text())["val"] == splits["val"]
    assert "contains row numbers of other data" in output


def test_small_labels_have_the_metrics_of_their_predictions(tmp_path, gattn):
    """Concentrations in mol/L have the same R² in the terminal, metrics.json and report.json."""
    draw = np.random.default_rng(0)
    rows = [f"{smiles},{10 ** draw.uniform(-9, -6)!r}" for smiles, *_ in ROWS]
    (tmp_path / "in.csv").write_text("smiles,Kd\n" + "\n".join(rows) + "\n")
    code, output = gattn(
        "train", tmp_path / "in.csv", "--target", "Kd", *GP, "--out", tmp_path / "run"
    )
    assert code == 0, output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    test = pd.read_csv(tmp_path / "run" / "predictions.csv").query("part == 'test'")
    r2 = r2_score(test.measured, test.prediction)
    assert r2 < 0.5  # the labels are random, so no model can predict them well
    assert metrics["test"]["r2"] == pytest.approx(r2, rel=1e-4)
    assert -2 < metrics["baselines"]["mean"]["r2"] <= 0
    assert f"{metrics['test']['r2']:.4g}" in output
    assert metrics["undefined"].keys() <= {"intervals"}
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    shown = dict(row[:2] for row in report["sections"][0]["tables"][0]["rows"])
    assert shown["R²"] == metrics["test"]["r2"]
    assert shown["RMSE"] == metrics["test"]["rmse"] < 1e-6


@pytest.mark.parametrize(
    ("labels", "metric", "name", "reason"),
    [
        (
            lambda n: 7e-9 if n >= 35 else n * 1e-9,
            "r2",
            "R²",
            "undefined: all 12 labels are 7e-09",
        ),
        (
            lambda n: int(n >= 35 or n % 2),
            "roc_auc",
            "ROC-AUC",
            "undefined: all 12 labels are of class 1",
        ),
    ],
    ids=["numbers", "classes"],
)
def test_an_undefined_metric_says_why(tmp_path, gattn, labels, metric, name, reason):
    rows = [
        f"{'C' * n}{end},{labels(n)},{'test' if n >= 35 else ('train', 'val')[n % 3 == 0]}"
        for n in range(1, 41)
        for end in "ON"
    ]
    (tmp_path / "in.csv").write_text("smiles,y,part\n" + "\n".join(rows) + "\n")
    code, output = gattn(
        "train", tmp_path / "in.csv", "--target", "y", "--split", "column:part", *GP,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, output
    assert f"{name} of the test part: {reason}" in output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test"][metric] is None
    assert metrics["undefined"]["test"][metric] == reason
    assert "val" not in metrics["undefined"]
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    sentence = f"{name} of the test part: {reason}."
    assert sentence in report["sections"][0]["text"]
    assert sentence in (tmp_path / "run" / "report.html").read_text("utf-8")
    (tmp_path / "new.csv").write_text(f"smiles,y\nCCOC,{labels(35)}\nCCCOC,{labels(35)}\n")
    code, output = gattn(
        "evaluate", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "evaluation"
    )
    assert code == 0, output
    assert f"{name} of the test part: {reason.replace('12', '2')}" in output
    evaluated = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert evaluated["undefined"]["test"][metric] == reason.replace("12", "2")


def _with(**changes):
    """Return the table as text with some columns replaced."""
    table = pd.DataFrame(ROWS, columns=["smiles", "y", "kind"]).assign(constant=3, **changes)
    return table.to_csv(index=False)


REFUSED = {
    "no target": (TABLE, None, "has the columns 'smiles', 'y', 'kind', 'constant'"),
    "a column that is missing": (TABLE, ["--target", "z"], "no column 'z'; its columns are"),
    "a doubled column": (TABLE.replace("constant", "y", 1), [], "2 columns 'y'"),
    "no label at all": (_with(y=""), [], "column 'y' has no label at all"),
    "one class only": (_with(y=1), ["--task", "classification"], "two classes; it has 1: 1"),
    "a constant target": (TABLE, ["--target", "constant"], "'constant' is constant"),
    "inf": (TABLE.replace("2.5", "inf", 1), [], "must be finite; it is 'inf' in line"),
    "too few rows": ("\n".join(TABLE.splitlines()[:8]), [], "at least 10 labelled molecules"),
    "an encoding": (TABLE.replace("idle", "\xe9").encode("latin-1"), [], "byte 0xe9 in line"),
    "nothing": ("", [], "is empty"),
    "a header alone": ("smiles,y\n", [], "no rows"),
    "an open quote": (TABLE + '"CC,1', [], "is not a CSV file: line 82"),
    "texts for numbers": (TABLE, ["--target", "kind", "--task", "regression"], "has no numbers"),
    "a split of no name": (TABLE, ["--split", "magic"], "split must be random, scaffold"),
    "a split without a part": (TABLE, ["--split", "scaffold"], "no molecule in the train part"),
    "a coverage": (
        TABLE,
        ["--coverage", 1.5],
        "coverage must be a number above 0 and below 1; got 1.5",
    ),
    "one molecule in all rows": (
        _with(smiles="CCO"),
        [],
        "10 different molecules; the 80 rows have 1",
    ),
    "no epoch": (TABLE, ["--epochs", 0], "epochs must be a whole number, at least 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_on(case, tmp_path, gattn):
    content, options, message = REFUSED[case]
    data = tmp_path / "data.csv"
    data.write_bytes(content if isinstance(content, bytes) else content.encode())
    if options is not None and "--target" not in options:
        options = ["--target", "y", *options]
    code, error = gattn("train", data, *(options or ()), "--out", tmp_path / "run", *GP)
    assert code == 2
    last = error.splitlines()[-1]
    assert last.startswith("gattn: ")
    assert message in last
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_told_by_its_name(folder, tmp_path, gattn):
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "run"
    code, error = gattn("train", folder / "data.csv", "--target", "y", "--out", place, *GP)
    assert (code, error) == (2, f"gattn: {place}: Not a directory\n")


def test_paths_that_exist(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles\nC\n")
    (tmp_path / "there").write_text("mine")
    for arguments in (
        ["train", folder / "data.csv", "--target", "y", "--out", tmp_path / "there"],
        ["train", folder / "data.csv", "--target", "y", "--out", tmp_path],
        ["predict", folder / "numbers", tmp_path / "in.csv", "--out", tmp_path / "there"],
        ["predict", folder / "numbers", tmp_path / "in.csv", "--out", tmp_path / "no" / "out.csv"],
        ["evaluate", folder / "numbers", folder / "data.csv", "--out", tmp_path / "there"],
    ):
        code, error = gattn(*arguments)
        assert code == 2
        assert error.splitlines()[-1].startswith("gattn: ")
    assert (tmp_path / "there").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", "there"}
