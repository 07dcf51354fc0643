"""Targets with more than two classes: labels, probabilities, metrics, commands and explanations."""

import csv
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import log_loss, matthews_corrcoef

from gattn.apps.fitting.metrics import class_agreement
from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules import MoleculeClassifier
from gattn.apps.molecules.runs.config import override
from gattn.apps.molecules.runs.evaluate import evaluate_table
from gattn.apps.molecules.runs.explain import explain_table
from gattn.apps.molecules.runs.labels import read_labels
from gattn.apps.molecules.runs.predict import predict_table
from gattn.apps.molecules.runs.stages import train_run

TINY: dict[str, Any] = {"epochs": 2, "width": 16, "heads": 2, "layers": 1, "trees": 10}
ENDS = {"O": "alcohol", "N": "amine", "Cl": "chloride"}
SMILES = [f"{'C' * n}{end}" for n in range(1, 21) for end in ENDS]
NAMES = list(ENDS.values()) * 20


def test_mcc_and_log_loss_equal_those_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 4, (60,), generator=generator)
    p = torch.randn(60, 4, generator=generator).double().softmax(1)
    result = class_agreement(y, p)
    assert result["mcc"] == pytest.approx(matthews_corrcoef(y, p.argmax(1)))
    assert result["log_loss"] == pytest.approx(log_loss(y, p))
    constant = class_agreement(torch.zeros(3).long(), torch.tensor([[0.5, 0.5]] * 3))
    assert constant["mcc"] == 0
    assert np.isnan(class_agreement(y[:0], p[:0])["mcc"])


def test_task_auto_is_multiclass_for_texts_of_several_classes():
    several = read_labels([[name] for name in NAMES], ["kind"])
    assert several.task.name == "multiclass"
    assert "3 different labels are read as classes: alcohol, amine, chloride" in several.notes[0]
    rare = [*NAMES, "ether"]
    with pytest.raises(ValueError, match="for classes use --task multiclass"):
        read_labels([[name] for name in rare], ["kind"])
    numbers = read_labels([[str(i % 3)] for i in range(60)], ["kind"])
    assert numbers.task.name == "regression"
    assert "--task multiclass reads them as classes" in numbers.notes[0]
    classes = read_labels([[str(i % 3)] for i in range(9)], ["kind"], "multiclass")
    assert classes.y[4, 0] == 1
    assert "3 different labels are read as classes: 0, 1, 2." in classes.notes[0]
    both = [[name, "yes" if len(name) > 5 else "no"] for name in NAMES]
    assert read_labels(both, ["kind", "long"]).task.name == "multiclass"


def test_number_of_classes_that_does_not_fit_the_task_raises_error():
    with pytest.raises(ValueError, match="needs a target with three classes"):
        read_labels([["a"], ["b"]], ["kind"], "multiclass")
    with pytest.raises(ValueError, match="--task multiclass reads more than two classes"):
        read_labels([["a"], ["b"], ["c"]], ["kind"], "classification")
    with pytest.raises(ValueError, match="must have 2 to 100 classes; it has 101"):
        read_labels([[f"c{i}"] for i in range(101)], ["kind"], "multiclass")
    texts = read_labels([["0"], ["1"], ["2"]] * 20 + [["??"]], ["kind"], "multiclass")
    assert texts.problems[-1] == "kind must be a class or empty; it is '??'"


@pytest.mark.parametrize("model", ["attention", "gp"])
def test_molecule_classifier_separates_three_classes(model, tmp_path):
    options = {**TINY, "epochs": 25, "batch_size": 8, "learning_rate": 2e-2, "model": model}
    estimator = MoleculeClassifier(**options).fit(SMILES, NAMES)
    assert estimator.classes_.tolist() == ["alcohol", "amine", "chloride"]
    chances = np.asarray(estimator.predict_proba(SMILES))
    assert chances.shape == (60, 3)
    assert np.allclose(chances.sum(1), 1)
    assert (estimator.predict(SMILES) == estimator.classes_[chances.argmax(1)]).all()
    assert estimator.score(SMILES, NAMES) > 0.9
    assert estimator.predict_set(SMILES, 0.5).shape == (60, 3)
    estimator.save(tmp_path / "model")
    loaded = MoleculeClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(SMILES), chances)
    assert loaded.predict(["CCCO"])[0] == estimator.predict(["CCCO"])[0]
    refitted = clone(estimator).fit(SMILES, np.array(NAMES) == "amine")
    assert refitted.task.name == "classification"
    assert np.shape(refitted.predict_proba(SMILES)) == (60, 2)


def test_train_predict_evaluate_and_explain_accept_three_classes(tmp_path):
    table = tmp_path / "kinds.csv"
    table.write_text("smiles,kind\n" + "".join(f"{s},{n}\n" for s, n in zip(SMILES, NAMES)))
    changes = {"model": "gp", "data": str(table), "target": ("kind",), "workers": 1}
    out = tmp_path / "run"
    metrics = train_run(override(None, changes), out)
    assert metrics["task"] == "multiclass"
    assert {"accuracy", "roc_auc", "mcc", "log_loss"} <= metrics["test"].keys()
    predict_table(out, table, tmp_path / "predicted.csv")
    with (tmp_path / "predicted.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    chances = [float(row[f"probability_{name}"]) for name in ENDS.values()]
    assert sum(chances) == pytest.approx(1, abs=1e-4)
    assert row["prediction"] == list(ENDS.values())[int(np.argmax(chances))]
    part = tmp_path / "part.csv"
    part.write_text("smiles,kind\nOCCOC,alcohol\nNCCNC,amine\n")
    measured = evaluate_table(out, part)
    assert 0 <= measured["test"]["accuracy"] <= 1
    assert explain_table(out, part, tmp_path / "explained", label="amine").rows == 2


def test_class_that_is_missing_in_the_training_set_gives_a_note(tmp_path):
    parts = [("train", "train", "test", "val")[i // 3 % 4] for i in range(60)]
    rows = [
        f"{text},{name},{'test' if name == 'amine' else part}\n"
        for text, name, part in zip(SMILES, NAMES, parts)
    ]
    table = tmp_path / "kinds.csv"
    table.write_text("smiles,kind,part\n" + "".join(rows))
    changes = {**TINY, "data": str(table), "target": ("kind",), "split": "column:part"}
    notes: list[str] = []
    settings = override(None, {**changes, "model": "stacked", "workers": 1})
    metrics = train_run(settings, tmp_path / "run", log=notes.append)
    note = "The training part has no label of class 'amine' of 'kind': the model cannot predict it."
    assert note in notes
    weights = ", ".join(f"{name} {weight:.2f}" for name, weight in metrics["weights"].items())
    assert f"weights of the components: {weights}" in notes


@pytest.mark.parametrize("setting", [{"target_transform": "log10"}, {"loss_function": "mae"}])
def test_settings_for_numeric_labels_raise_error_if_labels_are_classes(setting):
    with pytest.raises(SettingsError, match="is for numbers, and the labels are classes"):
        MoleculeClassifier(**setting).fit(SMILES, NAMES)


@pytest.mark.parametrize("kinds", [2, 3])
def test_label_sets_contain_the_prediction_and_probabilities_are_inside_0_and_1(kinds) -> None:
    # The labels are random, so a Gaussian process without calibration is overconfident.
    y = np.random.default_rng(0).integers(0, kinds, len(SMILES))
    model = MoleculeClassifier(model="gp").fit(SMILES, y)
    chances = np.asarray(model.predict_proba(SMILES))
    assert 0 < chances.min() < chances.max() < 1
    np.testing.assert_allclose(chances.sum(1), 1, atol=1e-6)
    sets = np.asarray(model.predict_set(SMILES, 0.5)).reshape(len(SMILES), -1)
    assert sets[np.arange(len(SMILES)), chances.argmax(1)].all()
