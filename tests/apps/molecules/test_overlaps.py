"""Molecules that occur in two parts."""

import numpy as np
import pytest
import torch

from gattn.apps.fitting.tasks import REGRESSION
from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.config import override
from gattn.apps.molecules.runs.evaluate import evaluate_table
from gattn.apps.molecules.runs.labels import Labels
from gattn.apps.molecules.runs.source import Source
from gattn.apps.molecules.runs.splits import overlap_notes, overlaps
from gattn.apps.molecules.runs.stages import train_run
from gattn.data import Split, molecule_identities
from tests.pictures import leave_blank

PAIRS = ["train/val", "train/test", "val/test"]


def facts_of(train, val, test):
    """Return the overlaps of three parts of (SMILES, label), with lines from 2."""
    rows = [*train, *val, *test]
    smiles, y = [row[0] for row in rows], np.array([row[1:] for row in rows])
    labelled = LabelledMolecules(
        featurise(smiles).inputs, torch.from_numpy(y), torch.ones(len(rows)),
        rows=torch.arange(len(rows)), canonical=molecule_identities(smiles),
    )  # fmt: skip
    source = Source(
        "x.csv", "", smiles, ("y",), Labels(REGRESSION, y, [""] * len(rows)),
        range(2, len(rows) + 2), None, (),
    )  # fmt: skip
    cuts = [len(train), len(val), len(test)]
    first, second, third = torch.arange(len(rows)).split(cuts)
    return overlaps(Split(first, second, third, "by hand"), labelled, source)


def counts(facts):
    return [facts[pair]["molecules"] for pair in PAIRS]


OTHERS = {"train": [("CCCCCCCC", 1.0), ("CCCCCCCN", 2.0)]}
OTHERS |= {"val": [("CCCCCCCO", 3.0)], "test": [("CCCCCCCF", 4.0)]}


def with_others(**parts):
    train, val, test = ([*rows, *parts.get(part, [])] for part, rows in OTHERS.items())
    return facts_of(train, val, test)


def test_splits_of_different_molecules_give_no_note_on_overlaps():
    facts = with_others()
    assert counts(facts) == [0, 0, 0]
    assert overlap_notes(facts) == []


@pytest.mark.parametrize(
    "writing",
    [
        "OCC", "[CH3:1][CH2:2][OH:3]", "[H]OCC", "[CH3][CH2][OH]", "CCO |$_R1$|", "CCO ethanol",
        " CCO ", "[H:9]OCC", "[H]C([H])([H])C([H])([H])O[H]",
    ],
)  # fmt: skip
def test_molecule_in_two_splits_is_counted_for_each_equivalent_smiles(writing):
    for pair in PAIRS:
        a, b = pair.split("/")
        facts = with_others(**{a: [("CCO", 1.0), ("CCO", 1.0)], b: [(writing, 1.0)]})
        assert counts(facts) == [int(other == pair) for other in PAIRS]
        assert facts[pair]["rows"] == {a: 2, b: 1}
        (note,) = overlap_notes(facts)
        assert f"(1 row and 2 rows; for example {writing.strip()} in line" in note


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


def test_overlaps_of_splits_are_in_output_report_and_metrics(run):
    folder, lines, metrics = run
    assert counts(metrics["overlaps"]) == [1, 1, 1]
    report = (folder / "run" / "report.html").read_text()
    for phrase in (
        "1 molecule of the validation part is also in the training part",
        "1 molecule of the test part is also in the training part",
        "1 molecule of the test part is also in the validation part",
    ):
        assert sum(phrase in line for line in lines) == 1
        assert phrase in report


@pytest.mark.parametrize("split", ["random", "scaffold"])
def test_different_smiles_of_one_molecule_are_in_one_split(tmp_path, split):
    rings = [f"C1{'C' * n}C1{end}" for n in range(1, 13) for end in ("", "O", "N")]
    writings = [f"{text} name" if i % 2 else f"[H]{text}" for i, text in enumerate(rings)]
    texts = [*rings, *writings]
    table = tmp_path / "data.csv"
    rows = "".join(f"{text},{0.1 * i}\n" for i, text in enumerate(texts))
    table.write_text("smiles,y\n" + rows)
    data = {"data": str(table), "target": ("y",), "split": split}
    settings = override(None, {**data, "model": "gp", "workers": 1})
    metrics = train_run(settings, tmp_path / "run")
    assert counts(metrics["overlaps"]) == [0, 0, 0]


def test_evaluate_leaves_out_training_molecules_with_another_smiles(run, tmp_path):
    folder, _, _ = run
    table = tmp_path / "new.csv"
    table.write_text(
        "smiles,y\n[CH3:1][OH:2],1.0\n[H]OC,1.0\nC1CCCCC1 name,2.0\nc1ccncc1,1.0\nCC(C)C,2.0\n"
        "CC(C)C,9.0\n"
    )
    lines: list[str] = []
    metrics = evaluate_table(folder / "run", table, log=lines.append)
    assert metrics["molecules"] == {"test": 3, "trained_on": 3, "left_out": 0}
    example = {"smiles": "[CH3:1][OH:2]", "line": 2}
    assert metrics["overlaps"]["learned/test"] == {"molecules": 2, "rows": 3, "example": example}
    assert "3 rows (2 molecules) left out, because the model was trained or validated" in lines[0]


def test_fit_warns_if_a_validation_molecule_is_in_the_training_set():
    model, y = MoleculeRegressor(model="gp"), [float(i) for i in range(len(CHAINS))]
    with pytest.warns(UserWarning, match="1 molecule in both the training and the validation"):
        model.fit(CHAINS, y, validation=(["[H]OC", "CCF"], [0.0, 1.0]))
    groups = MoleculeRegressor(model="gp").fit([*CHAINS, "[H]OC", "[CH3:1]O"], [*y, 0.0, 0.0])
    assert len(groups.seen_) == len(CHAINS)
