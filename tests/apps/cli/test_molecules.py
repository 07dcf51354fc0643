"""``gattn molecules``: files and messages of the commands, and their errors of one line."""

import json
import shutil

import pandas as pd
import pytest

from gattn.apps.fitting.settings import read_toml
from gattn.apps.molecules.runs.config import RunSettings
from tests.apps.cli.molecule_table import GP, ROWS, TABLE, read_rows


def test_train_writes_model_files_plots_and_left_out_rows(folder):
    names = {path.name for path in (folder / "numbers").iterdir()}
    assert names == {
        "config.toml", "splits.json", "weights.safetensors", "model.json", "metrics.json",
        "predictions.csv", "left_out.csv", "plots", "report.html",
    }  # fmt: skip
    plots = {path.stem for path in (folder / "numbers" / "plots").iterdir()}
    assert plots == {"parity", "calibration", "learning-curve"}
    classes = {path.stem for path in (folder / "classes" / "plots").iterdir()}
    # No learning curve, because the Gaussian process is not trained in epochs.
    assert classes == {"roc", "calibration"}
    page = (folder / "classes" / "report.html").read_text("utf-8")
    assert "on which the epoch of the network was chosen" not in page
    assert "Every set contains active, idle, because this coverage needs at least 9" in page
    stacked = (folder / "numbers" / "report.html").read_text("utf-8")
    assert "on which the epoch of the network was chosen" in stacked
    left_out = read_rows(folder / "numbers" / "left_out.csv")
    assert [(row["row"], row["line"]) for row in left_out] == [("80", "82"), ("82", "84")]
    assert left_out[1]["reason"] == "y must be a number or empty; it is 'high'"


def test_options_of_train_override_the_settings_of_its_config_file(folder, tmp_path, gattn):
    config = folder / "numbers" / "config.toml"
    settings = read_toml(RunSettings, config)
    assert settings.target == ("y",)
    assert settings.model.epochs == 2
    code, output = gattn("train", "--config", config, *GP, "--seed", 5, "--out", tmp_path / "run")
    assert code == 0, output
    again = read_toml(RunSettings, tmp_path / "run" / "config.toml")
    assert (again.model.model, again.model.seed, again.model.epochs) == ("gp", 5, 2)
    assert again.data == settings.data


def test_train_neither_repeats_a_finished_training_nor_overwrites_its_model(folder, gattn):
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


@pytest.mark.parametrize("name", ["weights.safetensors", "model.json", "metrics.json"])
def test_damaged_file_in_a_run_folder_gives_one_line_of_error_with_a_remedy(
    folder, tmp_path, gattn, name
):
    (tmp_path / "in.csv").write_text("smiles\nC\n")
    content = (folder / "classes" / name).read_bytes()
    run = shutil.copytree(folder / "classes", tmp_path / "run")
    if name == "metrics.json":
        command = "train", folder / "data.csv", "--target", "kind", "--out", run, *GP
    else:
        command = "predict", run, tmp_path / "in.csv", "--out", tmp_path / "out.csv"
    for spoilt in (b"", content[: len(content) // 2], content[:-2], b"smiles,y\n", b"[]", b"{}"):
        (run / name).write_bytes(spoilt)
        code, output = gattn(*command)
        assert (code, output.count("\n")) == (2, 1)
        assert str(run / name) in output
        assert ("remove it" if name == "metrics.json" else "copy the run again") in output


def test_train_exits_with_an_error_if_its_folder_contains_a_model_of_other_data(tmp_path, gattn):
    data = tmp_path / "data.csv"
    data.write_text(TABLE)
    run = ["train", data, "--target", "y", "--out", tmp_path / "run", *GP]
    assert gattn(*run)[0] == 0
    data.write_text(TABLE + "CCOCC,1.0,idle,3\n")
    code, output = gattn(*run)
    assert code == 2
    assert "with another content of" in output


def test_split_column_gives_the_same_split_as_its_splits_file(folder, tmp_path, gattn):
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


def _with(**changes):
    """Return the table as text with some columns replaced."""
    table = pd.DataFrame(ROWS, columns=["smiles", "y", "kind"]).assign(constant=3, **changes)
    return table.to_csv(index=False)


REFUSED = {
    "no target": (TABLE, None, "has the columns 'smiles', 'y', 'kind', 'constant'"),
    "a doubled column": (TABLE.replace("constant", "y", 1), [], "2 columns 'y'"),
    "no label at all": (_with(y=""), [], "column 'y' has no label at all"),
    "one class only": (_with(y=1), ["--task", "classification"], "two classes; it has 1: 1"),
    "inf": (TABLE.replace("2.5", "inf", 1), [], "must be finite; it is 'inf' in line"),
    "too few rows": ("\n".join(TABLE.splitlines()[:8]), [], "at least 10 labelled molecules"),
    "nothing": ("", [], "is empty"),
    "an open quote": (TABLE + '"CC,1', [], "is not a CSV file: line 82"),
    "texts for numbers": (TABLE, ["--target", "kind", "--task", "regression"], "has no numbers"),
    "a split without a part": (TABLE, ["--split", "scaffold"], "no molecule in the train part"),
    "a coverage": (TABLE, ["--coverage", 1.5], "coverage must be a number above 0 and below 1"),
    "one molecule in all rows": (_with(smiles="CCO"), [], "10 different molecules; the 80 rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_training_table_exits_with_one_line_of_error(case, tmp_path, gattn):
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


def test_unusable_output_path_gives_an_error_and_no_file_is_changed(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles\nC\n")
    (tmp_path / "there").write_text("mine")
    for arguments in (
        ["train", folder / "data.csv", "--target", "y", "--out", tmp_path / "there"],
        ["train", folder / "data.csv", "--target", "y", "--out", tmp_path],
        ["train", folder / "data.csv", "--target", "y", "--out", tmp_path / "in.csv" / "run"],
        ["predict", folder / "numbers", tmp_path / "in.csv", "--out", tmp_path / "there"],
        ["predict", folder / "numbers", tmp_path / "in.csv", "--out", tmp_path / "no" / "out.csv"],
        ["evaluate", folder / "numbers", folder / "data.csv", "--out", tmp_path / "there"],
    ):
        code, error = gattn(*arguments)
        assert code == 2
        assert error.splitlines()[-1].startswith("gattn: ")
    assert (tmp_path / "there").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", "there"}
