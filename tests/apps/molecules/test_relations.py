"""Columns of relations, hints on labels, and targets that cannot be learned."""

from dataclasses import replace

import numpy as np
import pytest

from gattn.apps.molecules.runs.config import RunSettings, override
from gattn.apps.molecules.runs.labels import read_labels
from gattn.apps.molecules.runs.source import read_source
from gattn.apps.molecules.runs.stages import MoleculeProduct
from gattn.apps.tables.numbers import NumberFormat

SIGNS = ["'='", ">", "<<", "~", ""]


@pytest.fixture
def table(tmp_path):
    """Table of 20 labels, of which a relation makes eight limits."""
    path = tmp_path / "t.csv"
    rows = [f"{'C' * (i + 1)};{SIGNS[i % 5]};{i + 1};a;{i}" for i in range(20)]
    path.write_text("Smiles;Standard Relation;Standard Value;constant;other\n" + "\n".join(rows))
    return str(path)


def read(table, targets=("Standard Value",), relation="", **options):
    settings = RunSettings(data=table, target=targets, relation_column=relation)
    return read_source(settings, **options)


def test_labels_with_a_relation_column_raise_error_without_option_censored(table):
    with pytest.raises(ValueError, match=r"column 'Standard Relation'.*bounded-mse.*--censored"):
        read(table)
    labels = read(table, style=NumberFormat(censored="limit")).labels
    assert labels.bounds is not None
    assert labels.bounds[:5, 0].tolist() == [[1, 1], [2, np.inf], [-np.inf, 3], [4, 4], [5, 5]]
    assert "'Standard Relation' is read as the relations" in labels.notes[0]
    dropped = read(table, style=NumberFormat(censored="drop"))
    assert np.isnan(dropped.labels.y[:, 0]).sum() == 8


def test_relation_column_of_several_targets_requires_option_relation_column(table):
    targets = ("Standard Value", "other")
    with pytest.raises(ValueError, match="with --relation-column"):
        read(table, targets)
    source = read(table, targets, relation="Standard Relation", style=NumberFormat(censored="drop"))
    assert np.isnan(source.labels.y).sum(0).tolist() == [8, 8]


def test_note_lists_the_units_if_a_unit_column_has_several(tmp_path):
    def notes(units):
        path = tmp_path / "units.csv"
        rows = [f"{'C' * (i + 1)},{i + 1},{unit}" for i, unit in enumerate(units)]
        path.write_text("smiles,y,Standard Units\n" + "\n".join(rows))
        return read(str(path), ("y",)).labels.notes

    assert [n for n in notes(["nM", "uM", "", "nM"]) if "contains 2 units (nM, uM)" in n]
    assert not any("units" in note for note in notes(["nM", "nM", ""]))


def test_target_with_fewer_than_two_different_labels_is_left_out(table):
    options = {"relation": "Standard Relation", "style": NumberFormat(censored="bound")}
    source = read(table, ("Standard Value", "constant", "other"), **options)
    assert source.targets == ("Standard Value", "other")
    assert any("1 target without two different labels left out" in x for x in source.labels.notes)
    with pytest.raises(ValueError, match="constant"):
        read(table, ("constant",), **options)


def test_classes_that_differ_only_in_case_give_a_note():
    labels = read_labels([[x] for x in ("Yes", "yes", "no", "No") * 3], ["y"])
    assert len([note for note in labels.notes if "differ only in case" in note]) == 2
    with pytest.raises(ValueError, match="'No' and 'no' differ only in case"):
        read_labels([[x] for x in ("Yes", "no", "No")], ["y"], "classification")


def test_training_on_labels_over_many_decades_suggests_target_transform_log10(tmp_path):
    path, lines = tmp_path / "t.csv", []
    path.write_text("smiles,y\n" + "".join(f"{'C' * i},{10.0**i}\n" for i in range(1, 13)))
    settings = override(None, {"data": str(path), "target": ("y",), "workers": 1})
    MoleculeProduct(settings, tmp_path / "run", lines.append).load()
    assert any("span 11 decades: train with --target-transform log10" in line for line in lines)
    del lines[:]
    model = replace(settings.model, target_transform="log10")
    MoleculeProduct(replace(settings, model=model), tmp_path / "run", lines.append).load()
    assert not any("span 11" in line for line in lines)
