"""Every example runs at a tiny size, and its last line of output is one JSON object."""

import json
import os
import runpy
import sys
from pathlib import Path

import pytest

import gattn.data

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run an example as from the command line; give its result and what it wrote to stderr."""

    def run(name, *arguments):
        script = EXAMPLES / f"{name}.py"
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        runpy.run_path(str(script), run_name="__main__")
        out, err = capsys.readouterr()
        return json.loads(out.splitlines()[-1]), out, err

    return run


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_stays_short(path):
    assert len(path.read_text("utf-8").splitlines()) < 120


def test_node_classification_at_its_defaults(run):
    result, out, err = run("node_classification", "--epochs", 3, "--seed", 1)
    assert "measured labels on constructed edges" in out
    assert result["seed"] == 1
    assert result["epochs"] == 3
    assert 0 <= result["test_accuracy"] <= 1
    assert result["fingerprint_ridge_accuracy"] > 0.8
    assert "3/3" in err


def test_node_classification_learns(run):
    result, _, _ = run("node_classification", "--epochs", 40)
    assert result["test_accuracy"] > 0.7


def test_node_classification_on_cora(run, monkeypatch):
    root = Path(os.environ.get("GATTN_DATA", EXAMPLES.parents[1] / "shared" / "data"))
    if not (root / "planetoid" / "Cora").is_dir():
        pytest.skip(f"needs Cora's raw files: set GATTN_DATA ({root} lacks them)")
    monkeypatch.setenv("GATTN_DATA", str(root))
    arguments = ("--dataset", "cora", "--epochs", 30, "--runs", 2)
    results = [run("node_classification", *arguments)[0] for _ in range(2)]
    assert results[0]["test_accuracy"] > 0.5
    assert results[0]["test_accuracy"] == results[1]["test_accuracy"]


@pytest.fixture
def table(tmp_path):
    """Thirty alkanes and alcohols, with two rows that cannot be read and one unlabelled."""
    rows = [f"{'C' * n}{end},{n}.5" for n in range(1, 16) for end in ("", "O")]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["structure,value", *rows, "C1CC,1", "CC,high", "CCC,"]) + "\n")
    return path


def test_molecule_property_on_one_s_own_table(run, table):
    arguments = ("--csv", table, "--smiles", "structure", "--target", "value", "--epochs", 2)
    result, out, err = run("molecule_property", *arguments)
    assert {"test_rmse", "kernel_ridge_rmse", "mean_rmse"} <= set(result)
    assert all(result[key] > 0 for key in ("test_rmse", "kernel_ridge_rmse", "mean_rmse"))
    assert "random 8:1:1 (seed 0)" in out
    assert "left out: row 30 (line 32): 'C1CC'" in err
    assert "left out: row 31 (line 33): 'CC': value must be a finite number" in err
    assert "2/2" in err


def test_molecule_property_on_the_sample(run):
    sample = EXAMPLES.parent / "datasets" / "boiling_points.csv"
    result, _, err = run("molecule_property", "--csv", sample, "--target", "celsius", "--epochs", 2)
    assert result["mean_rmse"] > 0
    assert "left out" not in err


def test_molecule_property_at_its_defaults(run, monkeypatch):
    """The 1,017 compounds, thinned out so that an epoch is short."""
    load = gattn.data.load_molecules
    monkeypatch.setattr(gattn.data, "load_molecules", lambda name: load(name).select(range(120)))
    results = [run("molecule_property", "--epochs", 4, "--seed", 2)[0] for _ in range(2)]
    assert results[0]["test_rmse"] == results[1]["test_rmse"]
    assert 0 < results[0]["test_rmse"] < 5


def test_molecule_property_needs_some_molecules(run, tmp_path, capsys):
    path = tmp_path / "few.csv"
    path.write_text("smiles,target\nC,1\n")
    with pytest.raises(SystemExit):
        run("molecule_property", "--csv", path)
    assert "needs 10 molecules and 1 epoch; got 1 and 60" in capsys.readouterr().err


def test_node_classification_needs_an_epoch(run, capsys):
    with pytest.raises(SystemExit):
        run("node_classification", "--epochs", 0)
    assert "must be at least 1" in capsys.readouterr().err
