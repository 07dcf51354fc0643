"""Molecules from lists and from registered data sets."""

import math

import numpy as np
import pytest
import torch

from gattn.data import ATOM_FEATURES, MoleculeError, batch_molecules, load_molecules, read_smiles


def test_one_error_lists_all_invalid_smiles():
    with pytest.raises(MoleculeError) as caught:
        read_smiles(["CCO", "C1CC", "", "CC", None])
    assert [bad.row for bad in caught.value.bad] == [1, 2, 4]
    assert "3 bad row(s)" in str(caught.value)
    assert "row 1: 'C1CC': not valid SMILES" in str(caught.value)
    with pytest.raises(MoleculeError, match="and 15 more") as caught:
        read_smiles(["("] * 25)
    assert len(caught.value.bad) == 25


def test_targets_match_their_molecules_if_invalid_smiles_are_skipped():
    molecules = read_smiles(["C", "C1", "CC", "N"], [1, 2, None, 4], on_error="skip")
    assert molecules.smiles == ["C", "CC", "N"]
    assert molecules.rows == (0, 2, 3)
    assert molecules.y[:, 0].tolist()[::2] == [1, 4]
    assert math.isnan(molecules.y[1, 0])
    assert molecules.labelled().smiles == ["C", "N"]
    assert [bad.row for bad in molecules.bad] == [1]


def test_read_smiles_raises_error_for_a_bare_string_wrong_target_count_or_unknown_on_error():
    with pytest.raises(ValueError, match='"raise" or "skip"; got'):
        read_smiles(["C"], on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="y must have 2 rows"):
        read_smiles(["C", "N"], [1.0])
    with pytest.raises(ValueError, match="list of strings"):
        read_smiles("CCO")


def test_texts_of_numbers_are_targets_and_other_texts_raise_error():
    molecules = read_smiles(["C", "CC", "CCC"], ["1.5", "-2", "nan"])  # type: ignore[list-item]
    assert molecules.y[:2, 0].tolist() == [1.5, -2]
    for text in ("1,008", ">10", "high"):
        with pytest.raises(ValueError, match=f"None or NaN; row 1 is {text!r}"):
            read_smiles(["C", "CC"], ["1", text])  # type: ignore[list-item]


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_target_columns_have_the_names_of_the_argument_or_default_names(kind):
    rows = kind([[1.5, math.nan], [-2000.0, 0.0], [3.0, 4.0]])
    molecules = read_smiles(["C", "C1", "CC"], rows, targets=["a", "b"], on_error="skip")
    assert molecules.targets == ("a", "b")
    expected = torch.tensor([[1.5, math.nan], [3.0, 4.0]])
    torch.testing.assert_close(molecules.y, expected, equal_nan=True)
    assert read_smiles(["C"], [[1.0, 2.0]]).targets == ("y0", "y1")


def test_target_rows_of_unequal_lengths_or_a_bare_string_of_names_raise_error():
    with pytest.raises(ValueError, match="2 numbers in each row; row 1 has 1"):
        read_smiles(["C", "CC"], [[1.0, 2.0], [1.0]])
    with pytest.raises(ValueError, match="1 numbers in each row; row 0 has 2"):
        read_smiles(["C"], [[1.0, 2.0]], targets=["a"])
    with pytest.raises(ValueError, match="list of names"):
        read_smiles(["C"], [1.0], targets="a")


def test_empty_list_of_smiles_gives_an_empty_data_set():
    molecules = read_smiles([])
    assert len(molecules) == 0
    assert molecules.y.shape == (0, 0)
    batch = batch_molecules(molecules.graphs)
    assert batch.x.shape == (0, len(ATOM_FEATURES))
    assert batch.edge_index.shape == (2, 0)
    assert batch.ptr.tolist() == [0]


def test_chembl2321810_has_1017_molecules_with_finite_labels():
    molecules = load_molecules("CHEMBL2321810")
    assert len(molecules) == 1017
    assert molecules.y.shape == (1017, 1)
    assert molecules.y.isfinite().all()
    assert molecules.y.mean().item() == pytest.approx(7.03, abs=2)
    # Both files of the data set begin with the compound 1520012: one has its SMILES, the other its
    # activity.
    assert molecules.smiles[0] == "O=S(=O)(Nc1cccs1)c2ccc(Oc3ccccc3c4ccccc4)c(c2)C#N"
    assert molecules.y[0, 0].item() == pytest.approx(5.48)


@pytest.mark.parametrize(
    ("name", "count", "bad", "tasks"), [("esol", 1128, 0, 1), ("freesolv", 642, 0, 1)]
)
def test_esol_and_freesolv_have_the_published_molecule_counts(real_data, name, count, bad, tasks):
    molecules = load_molecules(name, real_data, download=False)
    assert (len(molecules), len(molecules.bad), molecules.y.shape[1]) == (count, bad, tasks)
    assert molecules.y.isfinite().all()
    if name == "esol":
        assert [g.smiles for g in molecules.graphs if g.edge_index.shape == (2, 0)] == ["C"]


@pytest.mark.slow
def test_empty_cell_of_tox21_is_a_missing_target(real_data):
    molecules = load_molecules("tox21", real_data, download=False, on_error="skip")
    assert molecules.y.shape[1] == 12
    assert 0 < molecules.mask.float().mean() < 1


@pytest.mark.slow
def test_bbbp_has_eleven_smiles_that_rdkit_cannot_read(real_data):
    with pytest.raises(MoleculeError, match="11 bad"):
        load_molecules("bbbp", real_data, download=False)
    molecules = load_molecules("bbbp", real_data, download=False, on_error="skip")
    assert (len(molecules), len(molecules.bad)) == (2039, 11)


def test_load_molecules_of_a_citation_network_raises_error():
    with pytest.raises(ValueError, match="load_citation"):
        load_molecules("cora")
