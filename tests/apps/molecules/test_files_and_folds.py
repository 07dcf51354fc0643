"""Tests of several input files, of files that define a part, of splits, and of repeated runs."""

import csv
import json
from typing import Any

import numpy as np
import pytest
import torch

from gattn.apps.molecules.descriptor_columns import FileLine
from gattn.apps.molecules.runs.config import RunSettings, override
from gattn.apps.molecules.runs.repeats import fold_splits, train_repeats
from gattn.apps.molecules.runs.source import read_source
from gattn.apps.molecules.runs.splits import stratified_split
from gattn.apps.molecules.runs.stages import train_run
from gattn.apps.report.style import number
from gattn.apps.tables.numbers import read_times
from gattn.data import load_molecules

GP: dict[str, Any] = {"model": "gp", "workers": 1, "target": ("y",)}
ENDS = ("O", "N", "Cl", "c1ccccc1")
SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ENDS]


def write(path, smiles, header="smiles,y,day", bad=()):
    lines = [f"{text},{len(text)},{2000 + i // 4}" for i, text in enumerate(smiles)]
    path.write_text("\n".join([header, *lines, *bad]) + "\n")
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Return three files: two for training and a test file, which share one molecule."""
    first = write(tmp_path / "first.csv", SMILES[:24], bad=["CCBr,high,2000"])
    turned = tmp_path / "second.csv"
    turned.write_text("".join(["y,smiles\n", *(f"{len(s)},{s}\n" for s in SMILES[24:40])]))
    test = write(tmp_path / "test.csv", [*SMILES[40:], SMILES[0]])
    return first, str(turned), test


def test_rows_of_several_files_are_read_in_order(files):
    first, second, _ = files
    source = read_source(RunSettings(data=first, more_data=(second,), target=("y",)))
    assert source.smiles == [*SMILES[:24], "", *SMILES[24:40]]
    assert source.labels.y[30, 0] == len(SMILES[29])
    assert isinstance(source.lines[30], FileLine)
    assert str(source.lines[30]) == "7 of second.csv"
    assert source.bad[0].reason == "y must be a number or empty; it is 'high'"
    assert f"in line {source.bad[0].line}" == "in line 26 of first.csv"
    one = read_source(RunSettings(data=first, target=("y",)))
    assert source.sha256 != one.sha256
    with pytest.raises(ValueError, match="each file must be listed once"):
        read_source(RunSettings(data=first, more_data=(first,), target=("y",)))


def test_rows_of_the_test_file_are_the_test_set_and_overlaps_are_reported(files, tmp_path):
    first, second, test = files
    changes = {**GP, "data": first, "more_data": (second,), "test": test}
    notes: list[str] = []
    metrics = train_run(override(None, changes), tmp_path / "run", log=notes.append)
    assert metrics["molecules"] == {"train": 36, "val": 4, "test": 9, "left_out": 1}
    assert metrics["split"] == "random 8:1 by group (seed 0), with a file for the test part"
    leaks = [metrics["overlaps"][f"{part}/test"]["molecules"] for part in ("train", "val")]
    assert sum(leaks) == 1
    assert any("in both the" in note or "test part" in note for note in notes)
    splits = json.loads((tmp_path / "run" / "splits.json").read_text())
    assert splits["test"] == list(range(41, 50))


@pytest.mark.parametrize("rule", ["butina", "time"])
def test_butina_and_time_splits_have_training_validation_and_test_rows(rule, files, tmp_path):
    smiles = load_molecules("chembl2321810").smiles[:48] if rule == "butina" else SMILES
    table = write(tmp_path / "all.csv", smiles)
    changes = {**GP, "data": table, "split": rule, "time": "day" if rule == "time" else ""}
    metrics = train_run(override(None, changes), tmp_path / "run")
    counts = metrics["molecules"]
    assert counts["train"] + counts["val"] + counts["test"] == 48
    assert min(counts[part] for part in ("train", "val", "test")) > 0
    if rule == "time":
        splits = json.loads((tmp_path / "run" / "splits.json").read_text())
        assert max(splits["train"]) < min(splits["val"])
        assert max(splits["val"]) < min(splits["test"])


def test_dates_are_read_as_numbers_of_days():
    assert read_times(["2024-01-31", "2024-01-31T12:00", "2024-02"]).tolist() == [
        19753, 19753.5, 19754,
    ]  # fmt: skip
    assert np.isnan(read_times(["2019", "x", ""])).tolist() == [False, True, True]


@pytest.mark.parametrize("folds", [2, 5])
def test_each_row_is_in_one_test_fold_and_each_group_in_one_split(folds):
    groups = [str(i % 17) for i in range(60)]
    splits = fold_splits(groups, folds, seed=3, rule="random")
    tested = torch.cat([split.test for split in splits])
    assert sorted(tested.tolist()) == list(range(60))
    sizes = [len(split.test) for split in splits]
    assert max(sizes) - min(sizes) <= 4
    for split in splits:
        parts = [{groups[i] for i in p.tolist()} for p in (split.train, split.val, split.test)]
        assert all(parts)
        assert len(set.union(*parts)) == sum(map(len, parts))
    with pytest.raises(ValueError, match="5 folds need more than 5 groups"):
        fold_splits(["a", "b"], 5, seed=0, rule="scaffold")


def test_cross_validation_reports_mean_and_standard_error_of_its_folds(tmp_path, monkeypatch):
    monkeypatch.setattr("gattn.apps.molecules.runs.repeats.processor_count", lambda: 1)
    table, folder = write(tmp_path / "all.csv", SMILES), tmp_path / "folds"
    settings = override(None, {**GP, "data": table})
    summary = train_repeats(settings, folder, folds=3)
    assert list(summary["runs"]) == ["fold-1", "fold-2", "fold-3"]
    errors = [run["test"]["rmse"] for run in summary["runs"].values()]
    standard_error = np.std(errors, ddof=1) / np.sqrt(3)
    model = summary["summary"]["model"]["rmse"]
    assert model["mean"] == pytest.approx(np.mean(errors))
    assert model["standard_error"] == pytest.approx(standard_error)
    with (folder / "predictions.csv").open(newline="") as file:
        assert sorted(int(row["row"]) for row in csv.DictReader(file)) == list(range(48))
    page = (folder / "report.html").read_text("utf-8")
    for fold in summary["runs"]:
        assert f'<a href="{fold}/report.html">{fold}</a>' in page
        assert (folder / fold / "report.html").exists()
    assert f"{number(float(np.mean(errors)))} ± {number(float(standard_error))}" in page
    assert train_repeats(settings, folder, folds=3) == summary
    for change, message in (
        ({"test": "t"}, "creates the parts"),
        ({"split": "column:part"}, "got col"),
    ):
        with pytest.raises(ValueError, match=message):
            train_repeats(override(None, {**GP, "data": table, **change}), tmp_path / "x", folds=3)


def test_replicates_have_different_random_splits_and_a_fixed_split_gives_a_note(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("gattn.apps.molecules.runs.repeats.processor_count", lambda: 1)
    table = write(tmp_path / "all.csv", SMILES)
    summary = train_repeats(override(None, {**GP, "data": table}), tmp_path / "runs", replicates=2)
    splits = [run["split"] for run in summary["runs"].values()]
    assert splits == [f"random 8:1:1 by group (seed {seed})" for seed in (0, 1)]
    assert not any("All runs are equal" in note for note in summary["notes"])
    fixed = override(None, {**GP, "data": table, "split": "time", "time": "day"})
    notes = train_repeats(fixed, tmp_path / "equal", replicates=2)["notes"]
    assert "All runs are equal" in notes[-1]


def test_rows_with_an_empty_cell_in_the_split_column_are_not_used(tmp_path):
    parts = [("train", "train", "val", "test", "")[i % 5] for i in range(len(SMILES))]
    table = tmp_path / "parts.csv"
    rows = [f"{text},{len(text)},{part}\n" for text, part in zip(SMILES, parts)]
    table.write_text("smiles,y,part\n" + "".join(rows))
    notes: list[str] = []
    settings = override(None, {**GP, "data": str(table), "split": "column:part"})
    metrics = train_run(settings, tmp_path / "run", log=notes.append)
    counts = {part: parts.count(part) for part in ("train", "val", "test")}
    assert {part: metrics["molecules"][part] for part in counts} == counts
    assert "9 rows without a part in the column 'part' are not used." in notes
    rows[3] = "C,1,held\n"
    table.write_text("smiles,y,part\n" + "".join(rows))
    with pytest.raises(ValueError, match="1 row has another value; the first is row 3: 'held'"):
        train_run(settings, tmp_path / "other", log=notes.append)


@pytest.mark.parametrize("count", [2, 3, 4, 30])
def test_stratified_split_divides_two_or_more_rows_of_a_rare_class_between_the_sets(count):
    classes = [(0, float(i < count)) for i in range(400)]
    groups = [str(i) for i in range(400)]
    split = stratified_split(groups, classes, (0.8, 0.1, 0.1), seed=1)
    numbers = [sum(i < count for i in p.tolist()) for p in (split.train, split.val, split.test)]
    assert sum(numbers) == count
    assert numbers[0] >= max(numbers) / 2
    assert sum(map(bool, numbers)) == min(count, 3)
    assert [len(p) for p in (split.train, split.val, split.test)] == pytest.approx(
        [320, 40, 40], abs=2
    )


def test_folds_are_stratified_and_each_training_set_has_every_class():
    classes = [(0, float(i in (7, 8))) for i in range(60)]
    splits = fold_splits([str(i) for i in range(60)], 3, 0, "random", classes)
    assert sorted(sum(i in (7, 8) for i in s.test.tolist()) for s in splits) == [0, 1, 1]
    assert all({7, 8} & set(split.train.tolist()) for split in splits)


@pytest.fixture
def rare(tmp_path):
    """Table of 48 molecules with three active ones, and columns of two parts and of folds."""
    rows = [
        f"{text},{'active' if i in (3, 30, 41) else 'idle'},{'test' if i > 39 else 'train'},{i % 3}"
        for i, text in enumerate(SMILES)
    ]
    path = tmp_path / "rare.csv"
    path.write_text("\n".join(["smiles,y,part,fold", *rows]) + "\n")
    return str(path)


def test_random_split_has_a_rare_class_in_training_validation_and_test_set(rare, tmp_path):
    lines: list[str] = []
    metrics = train_run(override(None, {**GP, "data": rare}), tmp_path / "run", log=lines.append)
    assert "stratified by class" in metrics["split"]
    assert [metrics["labels"]["y"][part]["active"] for part in ("train", "val", "test")] == [1] * 3
    assert any("so the split is stratified" in line for line in lines)


def test_validation_rows_are_drawn_from_training_rows_if_the_split_column_has_none(rare, tmp_path):
    lines: list[str] = []
    changes = {**GP, "data": rare, "split": "column:part"}
    metrics = train_run(override(None, changes), tmp_path / "run", log=lines.append)
    assert metrics["molecules"] == {"train": 35, "val": 5, "test": 8, "left_out": 0}
    assert any("'part' has no validation part" in line for line in lines)


def test_fold_column_defines_the_folds_of_cross_validation(rare, tmp_path, monkeypatch):
    monkeypatch.setattr("gattn.apps.molecules.runs.repeats.processor_count", lambda: 1)
    settings = override(None, {**GP, "data": rare})
    summary = train_repeats(settings, tmp_path / "folds", folds="column:fold")
    assert summary["folds"] == 3
    note = "ROC-AUC is defined in 2 of 3 test parts; the means are those of these parts."
    assert note in summary["notes"]
    assert summary["runs"]["fold-2"]["split"] == "fold 1 of column fold (seed 0)"
    splits = json.loads((tmp_path / "folds" / "splits" / "fold-2.json").read_text())
    assert splits["test"] == [i for i in range(48) if i % 3 == 1]
    split = override(None, {**GP, "data": rare, "split": "scaffold"})
    with pytest.raises(ValueError, match="--folds column:part defines the parts"):
        train_repeats(split, tmp_path / "x", folds="column:part")
    with pytest.raises(ValueError, match=r"column:fold: .* use --folds column:fold"):
        train_run(override(None, {**GP, "data": rare, "split": "column:fold"}), tmp_path / "y")
