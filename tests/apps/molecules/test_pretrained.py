"""The models that are part of gattn: their files, cards and predictions."""

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks.molecules.bbb import card as card_of
from benchmarks.molecules.pretrain import card as encoder_card
from gattn.apps.molecules import MoleculeClassifier
from gattn.apps.molecules.loading import load_model
from gattn.apps.molecules.members import read_foundation
from gattn.apps.molecules.pretrained import encoder_folder, encoder_names, folder_of, names, resolve
from gattn.apps.molecules.settings import MoleculeSettings
from tests.apps.cli.commands import run_command
from tests.apps.cli.molecule_table import read_rows

ROOT = Path(__file__).parents[3]
FIGURES = json.loads((folder_of("bbb") / "figures.json").read_text())


def test_name_of_the_bundled_model_is_resolved_if_no_folder_has_the_name(tmp_path, monkeypatch):
    assert names() == ["bbb"]
    assert resolve(Path("bbb")) == folder_of("bbb")
    assert resolve(Path("runs/bbb")) == Path("runs/bbb")
    assert resolve(Path("other")) == Path("other")
    monkeypatch.chdir(tmp_path)
    Path("bbb").mkdir()
    assert resolve(Path("bbb")) == Path("bbb")


def test_model_card_of_bbb_contains_the_recorded_figures():
    card = (folder_of("bbb") / "card.md").read_text("utf-8")
    assert card == (ROOT / "docs/guide/bbb.md").read_text("utf-8") == card_of(FIGURES)
    test, external = FIGURES["test"], FIGURES["external"]
    assert f"{test['roc_auc']:.3f} ± {test['standard_error']:.3f}" in card
    assert f"{external['roc_auc']:.2f} ± {external['standard_error']:.2f}" in card
    assert test["roc_auc"] >= 0.8  # no molecule has the scaffold of a training molecule
    assert external["roc_auc"] >= 0.9
    assert all(0.86 <= part["coverage"] <= 0.94 for part in (test, external))
    assert "## Unsuitable uses" in card


def test_encoder_is_smaller_than_500_kilobytes_and_its_card_equals_the_generated_card():
    assert encoder_names() == ["encoder-128"]
    folder = encoder_folder("encoder-128")
    assert sum(file.stat().st_size for file in folder.iterdir()) < 5e5
    card = (folder / "card.md").read_text("utf-8")
    assert card == (ROOT / "docs/guide/encoder.md").read_text("utf-8") == encoder_card(folder)
    foundation = read_foundation("encoder-128")
    foundation.check(MoleculeSettings())
    assert all(value.isfinite().all() for value in foundation.tensors.values())


def test_predict_reads_the_bundled_model_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text("smiles\nCC(C)Cc1ccccc1\nOCC1OC(O)C(O)C(O)C1O\nbad(\n")
    arguments = ("molecules", "predict", "bbb", "new.csv", "--out", "out.csv")
    assert run_command(monkeypatch, *arguments) == 0
    hydrocarbon, sugar, bad = read_rows(Path("out.csv"))
    assert (hydrocarbon["prediction"], sugar["prediction"]) == ("BBB+", "BBB-")
    assert float(hydrocarbon["probability_BBB-"]) < 0.3 < float(sugar["probability_BBB-"])
    assert bad["error"]


def test_bundled_model_gives_its_recorded_predictions():
    model, _ = load_model("bbb")
    texts = [
        "CC(C)Cc1ccc(cc1)C(C)C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "OCC1OC(O)C(O)C(O)C1O",
        "C[C@H](N)Cc1ccccc1",
    ]  # fmt: skip
    (piece,) = model.predictions(texts)
    stored = [0.080837, 0.036207, 0.809133, 0.024271]
    assert piece.result.mean[:, 0].tolist() == pytest.approx(stored, abs=1e-5)
    stored = [0.065496, 0.058592, 0.038989, 0.005996]
    assert piece.result.std[:, 0].tolist() == pytest.approx(stored, abs=1e-5)


@pytest.mark.skipif(importlib.util.find_spec("B3DB") is None, reason="qc-b3db is not installed")
def test_evaluation_on_b3db_reproduces_the_recorded_figures(tmp_path):
    from benchmarks.molecules.bbb import write_tables
    from gattn.apps.molecules.runs.evaluate import evaluate_table

    _, external, left_out = write_tables(tmp_path)
    measured = evaluate_table("bbb", external)
    assert left_out == FIGURES["train"]["left_out"]
    assert measured["molecules"]["test"] == FIGURES["external"]["molecules"]
    assert measured["test"]["roc_auc"] == pytest.approx(FIGURES["external"]["roc_auc"], abs=1e-3)
    assert measured["intervals"]["held"] == pytest.approx(FIGURES["external"]["coverage"])


def test_load_of_an_estimator_accepts_the_name_of_the_bundled_model():
    model = MoleculeClassifier.load("bbb")
    assert model.predict(["CCCCCC"]).tolist() == ["BBB+"]
