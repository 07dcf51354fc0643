"""Molecules that occur in two parts, in several forms, and contradicting labels."""

import json

import numpy as np
import pytest
import torch

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.config import override
from gattn.apps.molecules.runs.evaluate import evaluate_table
from gattn.apps.molecules.runs.labels import Labels
from gattn.apps.molecules.runs.overlaps import duplicate_facts, duplicate_notes
from gattn.apps.molecules.runs.source import Source
from gattn.apps.molecules.runs.train import train_run
from gattn.apps.molecules.settings import Task
from gattn.data import Split, molecule_identities
from tests.pictures import leave_blank

PAIRS = ["train/val", "train/test", "val/test"]


def facts_of(train=(), val=(), test=(), task: Task = "regression", targets=("y",)):
    """Return the duplicate facts of three parts of (SMILES, label, ...), with lines from 2."""
    rows = [*train, *val, *test]
    smiles, labels = [row[0] for row in rows], [row[1:] for row in rows]
    y = np.array([[np.nan if v is None else v for v in row] for row in labels], float)
    raw = np.array(labels, object) if task == "classification" else y
    labelled = LabelledMolecules(
        featurise(smiles).inputs, torch.from_numpy(y), torch.arange(len(rows)),
        molecule_identities(smiles),
    )  # fmt: skip
    source = Source(
        "x.csv", "", smiles, targets, Labels(task, raw, [""] * len(rows)),
        range(2, len(rows) + 2), None, (),
    )  # fmt: skip
    cuts = [len(train), len(val), len(test)]
    first, second, third = torch.arange(len(rows)).split(cuts)
    return duplicate_facts(Split(first, second, third, "by hand"), labelled, source, task)


def counts(facts, name):
    return [facts[name][pair]["molecules"] for pair in PAIRS]


OTHERS = {
    "train": [("CCCCCCCC", 1.0), ("CCCCCCCN", 2.0)],
    "val": [("CCCCCCCO", 3.0)],
    "test": [("CCCCCCCF", 4.0)],
}


def with_others(**parts):
    train, val, test = ([*rows, *parts.get(part, [])] for part, rows in OTHERS.items())
    return facts_of(train, val, test)


def test_parts_of_different_molecules_say_nothing():
    facts = with_others()
    for name in ("overlaps", "salt_forms", "stereo_forms"):
        assert list(facts[name]) == PAIRS
        assert counts(facts, name) == [0, 0, 0]
        assert all(facts[name][pair]["example"] is None for pair in PAIRS)
    assert facts["conflicts"] == {}
    assert duplicate_notes(facts) == []


@pytest.mark.parametrize(
    "writing",
    [
        "OCC", "[CH3:1][CH2:2][OH:3]", "[H]OCC", "[CH3][CH2][OH]", "C(O)C", "CCO |$_R1$|",
        "CCO ethanol", " CCO ", "[H:9]OCC", "[H]C([H])([H])C([H])([H])O[H]",
    ],
)  # fmt: skip
@pytest.mark.parametrize("pair", PAIRS)
def test_an_overlap_is_counted_however_it_is_written(writing, pair):
    a, b = pair.split("/")
    facts = with_others(**{a: [("CCO", 1.0), ("CCO", 1.0)], b: [(writing, 1.0)]})
    assert counts(facts, "overlaps") == [int(other == pair) for other in PAIRS]
    entry = facts["overlaps"][pair]
    assert entry["rows"] == {a: 2, b: 1}
    assert entry["example"][a]["smiles"] == "CCO"
    assert entry["example"][b]["smiles"] == writing.strip()
    (note,) = duplicate_notes(facts)
    assert note.startswith("1 molecule of the ")
    assert f"(1 row and 2 rows; for example {writing.strip()} in line" in note
    assert json.loads(json.dumps(facts)) == facts


def test_an_overlap_of_validation_and_test_is_as_harmful():
    facts = with_others(val=[("CCO", 1.0), ("CCN", 2.0)], test=[("OCC", 1.0), ("NCC", 2.0)])
    (note,) = duplicate_notes(facts)
    assert "2 molecules of the test part are also in the validation part" in note
    assert "the model also learns the validation part" in note


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("CC(=O)O", "CC(=O)[O-].[Na+]", "salt_forms"),
        ("CC(=O)O[Na]", "CC(=O)[O-].[K+]", "salt_forms"),
        ("CC(=O)O", "CC(=O)[O-]", "salt_forms"),
        ("CCN", "CCN.Cl", "salt_forms"),
        ("CC[NH3+].[Cl-]", "CCN.Br", "salt_forms"),
        ("CCN", "CCN.O", "salt_forms"),
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "stereo_forms"),
        ("C[C@H](N)C(=O)O", "CC(N)C(=O)O", "stereo_forms"),
        ("C/C=C/C", "C/C=C\\C", "stereo_forms"),
    ],
)
def test_forms_of_one_molecule_in_two_parts(first, second, name):
    facts = with_others(train=[(first, 1.0)], test=[(second, 1.0)])
    assert counts(facts, "overlaps") == [0, 0, 0]
    assert counts(facts, name) == [0, 1, 0]
    assert facts[name]["train/test"]["rows"] == {"train": 1, "test": 1}
    (note,) = duplicate_notes(facts)
    assert f"(1 in train/test; for example {second} in line 7 and {first} in line 4)" in note


def test_an_overlap_is_no_second_form():
    facts = with_others(train=[("CCN.Cl", 1.0)], test=[("Cl.NCC", 1.0)])
    assert counts(facts, "overlaps") == [0, 1, 0]
    assert counts(facts, "salt_forms") == [0, 0, 0]


def test_numbers_of_one_molecule_that_differ_are_conflicts():
    # The labels 1, 2, 3, 4, 0, 5, 2 and 2.1 have a standard deviation of 1.5284.
    facts = with_others(train=[("CCO", 0.0), ("OCC", 5.0), ("CCN", 2.0), ("NCC", 2.1)])
    spread = float(np.std([1, 2, 3, 4, 0, 5, 2, 2.1]))
    (entry,) = facts["conflicts"].values()
    assert entry == {
        "molecules": 1,
        "rows": 2,
        "example": {"smiles": "CCO", "labels": [0.0, 5.0], "lines": [4, 5]},
        "tolerance": pytest.approx(0.5 * spread),
        "largest": 5.0,
    }
    (note,) = duplicate_notes(facts)
    assert "1 molecule has several labels of y that differ by more than 0.5 standard" in note
    assert "for example CCO: 0 in line 4 and 5 in line 5" in note


def test_classes_of_one_molecule_that_differ_are_conflicts_of_their_target():
    rows = [("CCO", 0, 1), ("OCC", 1, 1), ("[H]OCC", 1, None), ("CCN", 0, 0), ("C", 1, 0)]
    facts = facts_of(train=rows, task="classification", targets=("toxic", "active"))
    assert facts["conflicts"] == {
        "toxic": {
            "molecules": 1,
            "rows": 3,
            "example": {"smiles": "CCO", "labels": [0, 1], "lines": [2, 3]},
        }
    }
    (note,) = duplicate_notes(facts)
    assert note == (
        "1 molecule has different classes of toxic, in 3 rows, for example CCO: 0 in line 2 and "
        "1 in line 3. All rows are used."
    )


def test_many_targets_are_described_in_few_sentences():
    targets = tuple("abcdef")
    rows = [("CCO", *[0] * 6), ("OCC", *[1] * 6)]
    facts = facts_of(train=rows, task="classification", targets=targets)
    assert list(facts["conflicts"]) == list(targets)
    notes = duplicate_notes(facts)
    assert len(notes) == 4
    assert notes[-1].startswith("3 more targets have such labels")


CHAINS = [f"{'C' * n}{end}" for n in range(1, 13) for end in "ON"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Output lines and metrics of a run whose parts, which a column defines, have molecules in
    common.
    """
    folder = tmp_path_factory.mktemp("overlaps")
    rows = [(text, 0.3 * i, "train") for i, text in enumerate(CHAINS)]
    rows += [("OCCCC", 99.0, "val"), ("CC(=O)O", 1.0, "val"), ("C1CCCCC1", 2.0, "val")]
    rows += [("[CH3:1][NH2:2]", 0.3, "test"), ("C1CCCCC1 cyclohexane", 2.0, "test")]
    rows += [("CC(=O)[O-].[Na+]", 1.0, "test"), ("c1ccccc1", 1.5, "test")]
    table = folder / "data.csv"
    table.write_text("smiles,y,part\n" + "".join(f"{s},{y},{part}\n" for s, y, part in rows))
    lines: list[str] = []
    settings = override(
        None,
        {"data": str(table), "target": ("y",), "split": "column:part", "model": "gp",
         "workers": 1},
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        metrics = train_run(settings, folder / "run", log=lines.append)
    return folder, lines, metrics


def test_overlaps_are_in_the_output_the_report_and_the_metrics(run):
    folder, lines, metrics = run
    assert counts(metrics, "overlaps") == [1, 1, 1]
    assert counts(metrics, "salt_forms") == [0, 0, 1]
    assert metrics["conflicts"]["y"]["molecules"] == 1
    assert (
        json.loads((folder / "run" / "metrics.json").read_text())["overlaps"]
        == (metrics["overlaps"])
    )
    report = (folder / "run" / "report.html").read_text()
    for phrase in (
        "1 molecule of the validation part is also in the training part",
        "1 molecule of the test part is also in the training part",
        "1 molecule of the test part is also in the validation part",
        "different salts or charges (1 in val/test",
        "1 molecule has several labels of y",
    ):
        assert sum(phrase in line for line in lines) == 1
        assert phrase in report


@pytest.mark.parametrize("split", ["random", "scaffold"])
def test_drawn_splits_have_no_overlap_of_writings(tmp_path, split):
    rings = [f"C1{'C' * n}C1{end}" for n in range(1, 13) for end in ("", "O", "N")]
    writings = [f"{text} name" if i % 2 else f"[H]{text}" for i, text in enumerate(rings)]
    texts = [*rings, *writings]
    table = tmp_path / "data.csv"
    rows = "".join(f"{text},{0.1 * i}\n" for i, text in enumerate(texts))
    table.write_text("smiles,y\n" + rows)
    settings = override(
        None,
        {"data": str(table), "target": ("y",), "split": split, "model": "gp", "workers": 1},
    )
    metrics = train_run(settings, tmp_path / "run")
    assert counts(metrics, "overlaps") == [0, 0, 0]


def test_evaluate_leaves_out_what_was_learned_however_it_is_written(run, tmp_path):
    folder, _, _ = run
    table = tmp_path / "new.csv"
    table.write_text(
        "smiles,y\n[CH3:1][OH:2],1.0\n[H]OC,1.0\nC1CCCCC1 name,2.0\nc1ccncc1,1.0\nCC(C)C,2.0\n"
        "CC(C)C,9.0\n"
    )
    lines: list[str] = []
    metrics = evaluate_table(folder / "run", table, workers=1, log=lines.append)
    assert metrics["molecules"] == {"test": 3, "trained_on": 3, "left_out": 0}
    assert metrics["overlaps"]["learned/test"] == {
        "molecules": 2,
        "rows": 3,
        "example": {"smiles": "[CH3:1][OH:2]", "line": 2},
    }
    assert "3 rows (2 molecules) left out, because the model was trained or validated" in lines[0]
    assert metrics["conflicts"]["y"]["largest"] == 7.0
    assert "1 molecule has several labels of y" in lines[1]


def test_fit_warns_of_a_validation_part_that_overlaps():
    model, y = MoleculeRegressor(model="gp"), [float(i) for i in range(len(CHAINS))]
    with pytest.warns(UserWarning, match="1 molecule in both the training and the validation"):
        model.fit(CHAINS, y, validation=(["[H]OC", "CCF"], [0.0, 1.0]))
    groups = MoleculeRegressor(model="gp").fit([*CHAINS, "[H]OC", "[CH3:1]O"], [*y, 0.0, 0.0])
    assert len(groups.seen_) == len(CHAINS)
