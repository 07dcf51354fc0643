"""The commands for lists of labels of atoms and bonds."""

import csv
import json

import pytest
from rdkit import Chem

from gattn.apps.cli.console import show_metrics
from gattn.apps.molecules.atoms.labels import read_list
from gattn.apps.molecules.runs.config import override
from gattn.apps.molecules.runs.stages import train_run
from tests.apps.cli.molecule_table import NETWORK, read_rows
from tests.pictures import leave_blank

SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl", "C(=O)O")]


def write_table(path, extra=(), smiles=SMILES):
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["smiles", "weight", "mass", "order", "polar"])
        for text in smiles:
            molecule = Chem.MolFromSmiles(text)
            atoms = list(molecule.GetAtoms())
            rows.writerow([
                text,
                sum(atom.GetMass() for atom in atoms),
                json.dumps([atom.GetMass() for atom in atoms]),
                [bond.GetBondTypeAsDouble() for bond in molecule.GetBonds()],
                json.dumps([int(atom.GetSymbol() != "C") for atom in atoms]),
            ])  # fmt: skip
        rows.writerows(extra)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder with a table, the run of a model of atoms and bonds, and its notes."""
    folder = tmp_path_factory.mktemp("atoms")
    bad = [["CCO", 1, "[1, 2]", "", ""], ["C1C", 1, "[1, 2]", "", ""], ["CCC", "", "", "", ""]]
    small = {"epochs": 2, "width": 16, "heads": 2, "layers": 1, "workers": 1}
    table = str(write_table(folder / "table.csv", bad))
    settings = override(None, {"data": table, "atom_target": ("mass",), **small})
    notes: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        train_run(settings, folder / "run", log=notes.append)
    return folder, "\n".join(notes)


def test_training_on_atom_labels_writes_metrics_predictions_and_report(trained, capsys):
    folder, notes = trained
    assert "2 rows left out" in notes
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    assert metrics["molecules"] == {"train": 38, "val": 5, "test": 5, "left_out": 2}
    assert set(metrics["targets"]) == {"mass"}
    assert set(metrics["baselines"]) == {"mean", "attention", "environments"}
    left_out = read_rows(folder / "run" / "left_out.csv")
    assert left_out[0]["reason"] == "its list has 2 values, and the molecule has 3 atoms"
    assert [int(row["line"]) for row in left_out] == [50, 51]
    rows = read_rows(folder / "run" / "predictions.csv")
    assert {row["part"] for row in rows} == {"val", "test"}
    for row in rows:
        count = Chem.MolFromSmiles(row["smiles"]).GetNumAtoms()
        names = ("measured", "prediction", "std", "lower", "upper", "radius")
        lists = [json.loads(row[name]) for name in names]
        assert all(len(each) == count for each in lists)
    few = "5 calibration molecules with a label of 'mass' are too few for this coverage"
    show_metrics(metrics, "molecules")
    assert few in " ".join(capsys.readouterr().out.split())
    page = (folder / "run" / "report.html").read_text("utf-8")
    assert "a random atom or bond of a new molecule" in page


def test_predict_with_an_atom_model_writes_a_list_or_an_error_in_each_row(trained, gattn, tmp_path):
    folder, _ = trained
    table = tmp_path / "new.csv"
    table.write_text("smiles,id\nCCCBr,1\nx,2\n[H]OC,3\n")
    out = tmp_path / "out.csv"
    code, text = gattn("predict", folder / "run", table, "--out", out)
    assert code == 0, text
    first, second, third = read_rows(out)
    assert len(read_list(first["prediction"])) == 4
    assert read_list(first["radius"])[3] == -1  # The training molecules contain no bromine.
    assert second["error"].startswith("not valid SMILES")
    assert second["prediction"] == ""
    assert read_list(third["prediction"])[0] is None
    assert read_list(third["prediction"])[1] > 13


def test_compare_exits_with_an_error_for_models_of_atom_targets(trained, gattn):
    run = trained[0] / "run"
    code, text = gattn("compare", run, run)
    assert code != 0
    assert "predicts atoms or bonds, which compare does not read" in " ".join(text.split())


def test_evaluate_reads_atom_labels_from_the_column_that_option_target_names(
    trained, gattn, tmp_path
):
    folder, _ = trained
    table = tmp_path / "new.csv"
    table.write_text('smiles,m\nCCCBr,"[12, 12, 12, 80]"\nCO,"[12, 16]"\n')
    out = tmp_path / "out"
    code, text = gattn("evaluate", folder / "run", table, "--target", "m", "--out", out)
    assert code == 0, text
    (row,) = read_rows(out / "predictions.csv")
    assert json.loads(row["measured"]) == [12, 12, 12, 80]
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["molecules"] == {"test": 1, "trained_on": 1, "left_out": 0}
    assert metrics["intervals"]["rows"] == 1


SELECTIVE = ("[inf, 0, 0]", "[0, 1e300, 0]", "[0, 0, 1e999]", "['<2', 1, 1]")
"""Lists with a value that cannot be learned; leaving it out would select labels by their value."""


def test_invalid_list_of_atom_labels_raises_error_with_its_line_unless_skipped(gattn, tmp_path):
    options = ["--atom-target", "mass", *NETWORK]
    for cell in SELECTIVE:
        table = write_table(tmp_path / "table.csv", [["CCO", 1, cell, "", ""]])
        code, text = gattn("train", table, *options, "--out", tmp_path / "run")
        assert code != 0
        assert "mass" in text
        assert "line 50" in " ".join(text.split())
    rows = [["CCO", 1, cell, "", ""] for cell in SELECTIVE]
    table = write_table(tmp_path / "table.csv", rows)
    code, text = gattn("train", table, *options, "--skip-bad-labels", "--out", tmp_path / "run")
    assert code == 0, text
    left_out = read_rows(tmp_path / "run" / "left_out.csv")
    assert [row["line"] for row in left_out] == ["50", "51", "52", "53"]
    assert all(row["reason"].startswith("only this label is left out: mass") for row in left_out)


def test_model_of_one_fold_predicts_classes_of_atoms(gattn, tmp_path, monkeypatch):
    monkeypatch.setattr("gattn.apps.molecules.runs.repeats.processor_count", lambda: 1)
    table, folder, out = write_table(tmp_path / "table.csv"), tmp_path / "folds", tmp_path / "o.csv"
    options = ["--atom-target", "polar", "--folds", 2, *NETWORK]
    code, text = gattn("train", table, *options, "--out", folder)
    assert code == 0, text
    assert (folder / "report.html").exists()
    code, text = gattn("predict", folder / "fold-1", table, "--out", out)
    assert code == 0, text
    row = read_rows(out)[8]
    assert read_list(row["prediction"]) == read_list(row["polar"])
    assert all(0 <= chance <= 1 for chance in read_list(row["probability"]))


FEW = ["[H][H]", "O", "NO", "NO", "OO", "[CH2:3]=[O+:1][H:2]", "CCCO", "CN=O", "C#C", "C1CO1"]
FEW += ["CF", "CS"]


@pytest.mark.parametrize(("kind", "level"), [("numbers", "bond"), ("several", "atom")])
def test_train_and_predict_accept_12_rows_of_atom_or_bond_labels(gattn, tmp_path, kind, level):
    """Train on twelve rows with labels of atoms or bonds; two of the rows contain the same
    molecule.
    """
    parameters = Chem.SmilesParserParams()
    parameters.removeHs = False
    options = ["--task", "multiclass"] if kind == "several" else []

    def label(number):
        return number / 4 if kind == "numbers" else number % 3

    table = tmp_path / "table.csv"
    with table.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["smiles", "of_atoms", "of_bonds", "weight"])
        for i, text in enumerate(FEW):
            molecule = Chem.MolFromSmiles(text, parameters)
            atoms = [label(atom.GetAtomicNum() + i % 2) for atom in molecule.GetAtoms()]
            bonds = [label(bond.GetIdx() + i) for bond in molecule.GetBonds()]
            rows.writerow([text, atoms, bonds, (i + 1) / 12])
    target = [f"--{level}-target", f"of_{level}s"]
    code, text = gattn("train", table, *target, "--out", tmp_path / "run", *options, *NETWORK)
    assert code == 0, text
    code, text = gattn("predict", tmp_path / "run", table, "--out", tmp_path / "out.csv")
    assert code == 0, text
    for row in read_rows(tmp_path / "out.csv"):
        molecule = Chem.MolFromSmiles(row["smiles"], parameters)
        count = molecule.GetNumAtoms() if level == "atom" else molecule.GetNumBonds()
        assert len(json.loads(row["prediction"])) == count


def test_training_on_atom_and_bond_targets_together_exits_with_an_error(gattn, tmp_path):
    table = write_table(tmp_path / "table.csv")
    options = ["--atom-target", "mass", "--bond-target", "order", "--out", tmp_path / "run"]
    code, text = gattn("train", table, *options)
    assert code != 0
    assert "train one run for the atoms, and another one for the bonds" in " ".join(text.split())
