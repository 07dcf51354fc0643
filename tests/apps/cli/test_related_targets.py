"""``--also``: predictions of the targets of another table are descriptor columns if they help."""

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest
import torch

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.gaussian_process import GaussianProcess
from gattn.apps.molecules.related import fit_related, with_left_out, with_related
from gattn.data import load_molecules
from tests.apps.cli.molecule_table import GP

MINE, BOTH, OTHERS = slice(0, 70), slice(60, 70), slice(60, 500)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Folder of a small table, of tables that are related and unrelated to it, and of new rows."""
    folder = tmp_path_factory.mktemp("related")
    compounds = load_molecules("chembl2321810")
    order = np.random.default_rng(0).permutation(len(compounds.smiles))
    smiles, y = np.array(compounds.smiles)[order], compounds.y[:, 0].double().numpy()[order]
    noise = np.random.default_rng(1).normal(0, 1, len(y))
    frame = pd.DataFrame({"smiles": smiles, "y": y, "heat": noise, "screen": 10 * y + 3 * noise})
    frame[MINE].drop(columns="screen").to_csv(folder / "mine.csv", index=False)
    frame[OTHERS].to_csv(folder / "related.csv", index=False)
    frame[:500].to_csv(folder / "all.csv", index=False)
    frame[OTHERS].assign(screen=noise[OTHERS], z=1).to_csv(folder / "unrelated.csv", index=False)
    frame[500:700].to_csv(folder / "new.csv", index=False)
    pd.DataFrame({"smiles": ["C("] * 3, "z": [1.5, 2.5, 3.5]}).to_csv(folder / "bad.csv")
    return folder


def trained(gattn, tables, out, *options):
    """Train on the small table, and return the report and the predictions of the new rows."""
    code, text = gattn(
        "train", tables / "mine.csv", "--target", "y", "--descriptors-columns", "heat", *GP,
        "--out", out, *options,
    )  # fmt: skip
    assert code == 0, text
    table = out.with_suffix(".csv")
    code, error = gattn("predict", out, tables / "new.csv", "--workers", 1, "--out", table)
    assert code == 0, error
    with table.open() as file:
        predicted = [float(row["prediction"]) for row in csv.DictReader(file)]
    return text, np.array(predicted)


def test_related_table_lowers_the_error_and_an_unrelated_table_is_ignored(gattn, tables, tmp_path):
    y = pd.read_csv(tables / "new.csv")["y"]
    _, alone = trained(gattn, tables, tmp_path / "alone")
    also = ["--also-target", "screen", "--also", tmp_path / "screen.csv"]
    (tables / "related.csv").rename(tmp_path / "screen.csv")
    text, better = trained(gattn, tables, tmp_path / "better", *also)
    assert "so the model reads them" in text
    assert "so the model reads them" in (tmp_path / "better" / "report.html").read_text("utf-8")
    assert np.square(better - y).mean() < 0.9 * np.square(alone - y).mean()

    command = ("train", tables / "mine.csv", "--target", "y", "--descriptors-columns", "heat", *GP)
    code, text = gattn(*command, *also, "--out", tmp_path / "better")
    assert code == 0
    assert "nothing to do" in text
    pd.read_csv(tmp_path / "screen.csv").head(60).to_csv(tmp_path / "screen.csv", index=False)
    code, text = gattn(*command, *also, "--out", tmp_path / "better")
    assert code == 2
    assert "another content of" in text

    # The model contains what it needs of the other table.
    (tmp_path / "screen.csv").unlink()
    model = MoleculeRegressor.load(tmp_path / "better")
    assert model.descriptors_columns_ == ["heat"]
    again = model.predict(pd.read_csv(tables / "new.csv")[["smiles", "heat"]])
    np.testing.assert_allclose(again, better, rtol=1e-4)

    also[-1] = tables / "unrelated.csv"
    text, same = trained(gattn, tables, tmp_path / "same", *also)
    assert "so the model does not read them" in text
    assert np.array_equal(same, alone)
    weights = [
        json.loads((tmp_path / run / "metrics.json").read_text()) for run in ("alone", "same")
    ]
    assert weights[0]["test"] == weights[1]["test"]


def test_feature_from_a_related_table_does_not_depend_on_labels_of_the_molecule():
    compounds = load_molecules("chembl2321810")
    table = MoleculeRegressor().read(compounds.smiles[:60], compounds.y[:60, 0].tolist())
    mine, others = table[torch.arange(0, 30)], table[torch.arange(20, 60)]
    kernel = fit_related(others, 3000, 0)
    state = kernel.state()
    changed = state["y"].clone()
    changed[0] += 100
    moved = GaussianProcess(state | {"y": changed})
    moved.rows = kernel.rows
    inputs = [with_left_out([mine], each, others)[0].inputs for each in (kernel, moved)]
    before, after = (each.extra_descriptors[:, 0] for each in inputs)
    place = mine.canonical.index(others.canonical[0])
    assert before[place] == pytest.approx(float(after[place]), abs=1e-6)
    assert (before - after).abs()[21:30].max() > 0.1
    plain = with_related(mine.inputs, kernel).extra_descriptors[:, 0]
    assert torch.equal(plain[:20], before[:20])
    assert (plain - before)[20:30].abs().min() > 0


def test_labels_of_test_molecules_in_the_related_table_are_ignored(gattn, tables, tmp_path):
    runs = []
    for name, shift in ("known", 0), ("shifted", 1e4):
        table = pd.read_csv(tables / "all.csv")
        if runs:
            split = json.loads((runs[0] / "splits.json").read_text())
            table.loc[split["test"], "screen"] += shift
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        also = ["--also", tmp_path / f"{name}.csv", "--also-target", "screen"]
        runs.append(tmp_path / f"run_{name}")
        text, _ = trained(gattn, tables, runs[-1], *also)
        assert "so the model reads them" in text
    before, after = (json.loads((run / "metrics.json").read_text())["test"] for run in runs)
    assert before == after
    # An evaluation leaves out the molecules of the other table, too.
    code, error = gattn(
        "evaluate", runs[0], tmp_path / "known.csv", "--target", "y", "--out", tmp_path / "again"
    )
    assert code == 0, error
    again = json.loads((tmp_path / "again" / "metrics.json").read_text())
    assert again["molecules"]["test"] == len(split["test"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--also", "new.csv"), "--also names a file and --also-target its columns"),
        (("--also-target", "screen"), "so both are needed; got also '' and also_target 'screen'"),
        (("--also", "new.csv", "--also-target", "z"), "no column 'z'.*with --also-target"),
        (("--also", "none.csv", "--also-target", "z"), "none.csv"),
        (("--also", "bad.csv", "--also-target", "z"), "bad.csv: no row has a SMILES that can be"),
        (("--also", "unrelated.csv", "--also-target", "z"), "two different labels or more"),
    ],
)  # fmt: skip
def test_invalid_options_or_content_of_a_related_table_raise_error(
    gattn, tables, tmp_path, monkeypatch, options, message
):
    monkeypatch.chdir(tables)
    code, error = gattn("train", "mine.csv", "--target", "y", "--out", tmp_path / "run", *options)
    assert code == 2
    assert error.count("gattn: ") == 1
    assert re.search(message, error)
