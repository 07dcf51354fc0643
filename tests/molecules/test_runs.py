"""The pieces of a run: labels from cells, settings from files, parts, a search for settings."""

import json

import numpy as np
import pytest
import torch

from gattn.molecules import MoleculeRegressor
from gattn.molecules.runs.config import RunSettings, override
from gattn.molecules.runs.labels import read_labels
from gattn.molecules.runs.tuning import tune
from gattn.training.settings import read_toml, write_toml

SMILES = [f"{'C' * n}{end}" for n in range(1, 16) for end in "ON"]


@pytest.mark.parametrize(
    ("cells", "task", "y"),
    [
        (["0", "1", ""], "classification", [0, 1, None]),
        (["1.0", "0.0", "NA"], "classification", [1, 0, None]),
        (["yes", "no", "yes"], "classification", ["yes", "no", "yes"]),
        (["0", "1", "2"], "regression", [0.0, 1.0, 2.0]),
        (["-1e-3", " 2 ", "nan"], "regression", [-0.001, 2.0, None]),
        (["5", "6", "n/a"], "regression", [5.0, 6.0, None]),
    ],
)
def test_the_task_is_read_from_the_labels(cells, task, y):
    found = read_labels([[cell] for cell in cells], ["y"])
    assert found.task == task
    told = [None if value is None or value != value else value for value in found.y[:, 0]]
    assert told == y
    assert found.problems == [""] * 3


def test_whole_numbers_are_classes_where_that_is_asked():
    found = read_labels([["1"], ["2"], ["1"]], ["y"], "classification")
    assert found.y[:, 0].tolist() == [1, 2, 1]


def test_infinity_and_numbers_of_python_alone_are_names_of_classes():
    for cells in (["inf", "1"], ["1_0", "2_0"]):
        found = read_labels([[cell] for cell in cells], ["y"], "classification")
        assert found.y[:, 0].tolist() == cells


def test_a_cell_that_is_no_number_is_a_problem_of_its_row():
    found = read_labels([["1", "2"], [">5", "x"], ["2", "3"]], ["a", "b"])
    assert found.problems == [
        "", "a must be a number or empty; it is '>5'; b must be a number or empty; it is 'x'", "",
    ]  # fmt: skip
    assert np.isnan(found.y[1]).all()


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["", "NA"], "'y' has no label at all"),
        (["1", "1"], "two classes; it has 1: 1"),
        (["3", "3"], "constant: every label is 3"),
        (["1", "inf"], "must be finite; it is 'inf' in line 2"),
        (["2", "-1e999"], "must be finite; it is '-1e999' in line 2"),
        (["2", "1e200"], "must be finite; it is '1e200' in line 2, beyond float32"),
        (["a", "b", "c"], r"no numbers \(decimals have a point\) and 3 kinds of text.*: 'a', 'b'"),
    ],
)
def test_labels_that_cannot_be_learnt(cells, told):
    with pytest.raises(ValueError, match=told):
        read_labels([[cell] for cell in cells], ["y"])


def test_two_kinds_of_text_are_no_numbers_but_classes():
    with pytest.raises(ValueError, match="no numbers: 'a', 'b'; classes are --task classification"):
        read_labels([["a"], ["b"], ["a"]], ["y"], "regression")


def test_labels_to_be_judged_by_may_be_alike():
    assert read_labels([["3"], ["3"]], ["y"], "regression", learnable=False).y.tolist() == [
        [3],
        [3],
    ]
    assert read_labels([["1"]], ["y"], "classification", learnable=False).y.tolist() == [[1]]


def test_targets_of_two_tasks():
    with pytest.raises(ValueError, match="they are a: regression, b: classification"):
        read_labels([["0.5", "0"], ["1.5", "1"]], ["a", "b"])


def test_settings_come_back_from_their_file(tmp_path):
    asked = override(None, {"data": "a.csv", "target": ("y", "z"), "epochs": 7, "split": "scaffold",
                            "model": "attention", "encoding": "latin-1"})  # fmt: skip
    write_toml(tmp_path / "config.toml", asked)
    assert read_toml(RunSettings, tmp_path / "config.toml") == asked
    again = override(tmp_path / "config.toml", {"epochs": 8, "coverage": 0.8})
    assert (again.model.epochs, again.model.model) == (8, "attention")
    assert (again.coverage, again.split, again.target) == (0.8, "scaffold", ("y", "z"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"epoch": 3}, "no setting epoch"),
        ({"split": "magic"}, "split must be"),
        ({"coverage": 1.0}, "coverage"),
        ({"tune": -1}, "tune"),
        ({"workers": 0}, "workers"),
        ({"seed": 2**70}, "seed must be a whole number from 0 to 2147483647"),
        ({"target": ("y",)}, "no DATA"),
        ({"data": "a.csv", "target": ("y", "y")}, "named once"),
        ({"heads": 7}, "must divide width"),
    ],
)
def test_settings_that_cannot_be(given, told):
    with pytest.raises(ValueError, match=told):
        override(None, given)


def test_a_search_goes_on_where_it_was_left(tmp_path):
    pytest.importorskip("optuna")
    small = {"epochs": 1, "width": 64, "layers": 2, "heads": 8}
    estimator = MoleculeRegressor(**small, model="attention")
    known = estimator.read(SMILES, np.arange(30.0))
    train, val = known[torch.arange(24)], known[torch.arange(24, 30)]
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    whole.mkdir()
    parted.mkdir()
    said = []
    found = tune(estimator, train, val, 3, whole, said.append)
    assert set(found) == {"width", "layers", "dropout", "learning_rate"}
    assert [line.split(":")[0] for line in said[:3]] == [f"trial {n} of 3" for n in (1, 2, 3)]
    tune(estimator, train, val, 1, parted)
    again = []
    assert tune(estimator, train, val, 3, parted, again.append) == found
    assert again == said[1:]
    first = json.loads((whole / "tuning.log").read_text().splitlines()[0])
    assert first["study_name"] == "gattn"  # plain JSON, a line a step
