"""Runs that were trained in other folders, and runs that cannot be served beside others."""

import os
import shutil

import pytest

from gattn.apps.serve import served
from gattn.apps.serve.server import open_runs
from gattn.apps.serve.settings import ServeSettings
from tests.apps.cli.commands import run_command
from tests.apps.cli.molecule_table import GP, TABLE
from tests.pictures import leave_blank

EDGES = "a,b\n" + "".join(f"n{i},n{(i * j) % 31}\n" for i in range(1, 31) for j in (2, 3, 5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with the runs a/run of molecules and b/run of links, trained with relative paths."""
    folder = tmp_path_factory.mktemp("relative")
    commands = {
        "a": ("data.csv", TABLE, ["molecules", "train", "data.csv", "--target", "kind", *GP]),
        "b": ("edges.csv", EDGES, [
            "links", "train", "edges.csv", "--undirected", "--epochs", 2, "--width", 8,
        ]),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        for name, (file, content, command) in commands.items():
            (folder / name).mkdir()
            patch.chdir(folder / name)
            (folder / name / file).write_text(content)
            assert run_command(patch, *command, "--out", "run") == 0
    return folder


def test_open_runs_reads_data_by_paths_relative_to_the_training_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    lines = []
    runs = open_runs(
        [folder / "a/run", (folder / "b/run").relative_to(folder)], ServeSettings(), lines.append
    )
    assert [run.name for run in runs] == ["run", "run-2"]
    assert runs[0].training is not None
    assert (lines, runs[0].notes, os.getcwd()) == ([], (), str(folder))


def test_predict_reads_training_data_by_a_path_relative_to_the_training_folder(
    folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("smiles\nCCCCO\n")
    options = ["new.csv", "--out", "out.csv", "--neighbors", 1]
    assert run_command(monkeypatch, "molecules", "predict", folder / "a/run", *options) == 0
    assert "neighbor1_smiles" in (tmp_path / "out.csv").read_text()


def test_open_runs_skips_a_run_folder_whose_training_data_are_missing(
    folder, tmp_path, monkeypatch
):
    shutil.copytree(folder, tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    (tmp_path / "moved/b/edges.csv").unlink()
    lines = []
    (run,) = open_runs(
        [tmp_path / "moved/b/run", tmp_path / "moved/a/run"], ServeSettings(), lines.append
    )
    assert (run.name, run.training is not None) == ("run", True)
    assert lines[0].startswith("A run is not served: ")
    assert f"{tmp_path}/moved/b/edges.csv, which does not exist" in lines[0]
    with pytest.raises(FileNotFoundError, match=r"edges\.csv, which does not exist"):
        open_runs([tmp_path / "moved/b/run", tmp_path / "none"], ServeSettings(), lines.append)
    assert ["none does not exist" in line for line in lines] == [False, True]


def test_model_that_is_no_better_than_a_baseline_has_a_warning(folder, monkeypatch):
    monkeypatch.chdir(folder)
    run, links = open_runs([folder / "a/run", folder / "b/run"], ServeSettings())
    metrics = {
        "task": "regression", "test": {"rmse": 2.0}, "baselines": {"mean": {"rmse": 1.0}},
    }  # fmt: skip
    monkeypatch.setattr(served, "read_card", lambda folder: {"metrics": metrics})
    (warning,) = run.describe().warnings
    assert "mean" in warning
    metrics |= {"task": "ranking", "noise": True}
    assert links.describe().warnings == [
        "On the test part, the model is not significantly better than a random order."
    ]
    metrics |= {"noise": False, "test": {"rmse": 0.5}}
    assert links.describe().warnings == []


def test_model_whose_label_sets_always_contain_a_class_has_a_warning(folder, monkeypatch):
    monkeypatch.chdir(folder)
    run, _ = open_runs([folder / "a/run", folder / "b/run"], ServeSettings())
    metrics = {
        "task": "classification", "molecules": {"val": 5, "test": 10},
        "intervals": {"coverage": 0.9, "held": 1.0, "rows": 10, "classes_in_every_set": ["a"]},
    }  # fmt: skip
    monkeypatch.setattr(served, "read_card", lambda folder: {"metrics": metrics})
    (warning,) = run.describe().warnings
    assert "Every set contains a," in warning
