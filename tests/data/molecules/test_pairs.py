"""Tests of the counts of atom pairs, which are compared with those of RDKit."""

import time

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.row_format import RowFormat
from gattn.data import load_molecules
from gattn.data.molecules import pairs
from gattn.data.molecules.pairs import PAIR_DISTANCE, atom_pairs, count_pairs
from gattn.data.molecules.plain import plain

ODD = [
    "[Na+].[Cl-]", "CC(=O)[O-].[K+]", "C[C@H](N)C(=O)O.Cl", "F/C=C/Cl", "F/C=C\\Cl", "[13CH3]O",
    "FS(F)(F)(F)(F)F", "[2H]OC", "C12C3C4C1C5C2C3C45", "N#[N+][O-]", "C=C=C", "O=S(=O)=O", "*CC",
    "[Pt](Cl)(Cl)(N)N", "N->[Pt]", "OP(=O)(O)O", "C", "II", "CC#C[Si](C)(C)Br", "[Fe+2]", "B1OB1",
    "C[Se]C", "CC(C)(C)[S@@](=O)N", "c1ccc2c(c1)[nH]c1ccccc12", "C1CC2CCC1CC2", "C" * 60,
    "C1CCCCCCCCCCCCC1", "O=C1NN(c2ccc(I)cc2)C(=O)C1",
]  # fmt: skip


def graphs_of(smiles, **row_format):
    parsed = featurise(smiles, row_format=RowFormat(**row_format))
    assert parsed.row_index.tolist() == list(range(len(smiles)))
    return parsed.inputs.molecules.arrays


def test_atom_pair_fingerprint_counts_equal_those_of_rdkit():
    smiles = [*ODD, *load_molecules("chembl2321810").smiles[::5]]
    generator = rdFingerprintGenerator.GetAtomPairGenerator(
        maxDistance=PAIR_DISTANCE, fpSize=2048, countSimulation=False
    )
    for row, text in zip(count_pairs(graphs_of(smiles)), smiles, strict=True):
        expected = generator.GetCountFingerprintAsNumPy(plain(Chem.MolFromSmiles(text), text))
        assert row.tolist() == expected.clip(max=255).tolist(), text


def test_atom_pairs_equal_those_of_the_distance_matrix():
    smiles = [*ODD[:30], "C1" + "CC(O)" * 50 + "C1"]
    graphs = graphs_of(smiles)
    counted = atom_pairs(graphs)
    assert (counted.first < counted.second).all()
    expected = set()
    for first, text in zip(graphs.ptr.tolist(), smiles):
        distances = Chem.GetDistanceMatrix(plain(Chem.MolFromSmiles(text), text))
        near = np.argwhere(np.triu((distances >= 1) & (distances <= PAIR_DISTANCE)))
        expected |= {(first + int(one), first + int(other)) for one, other in near}
    both = list(zip(counted.first.tolist(), counted.second.tolist(), strict=True))
    assert len(both) == len(set(both))
    assert set(both) == expected


def test_chain_of_nine_atoms_has_33_atom_pairs():
    # A chain of 9 atoms has 8 + 7 + 6 + 5 + 4 + 3 pairs with 1 to 6 bonds between them.
    counts = count_pairs(graphs_of(["CCCCCCCCC", "C"]))
    assert counts.sum(1, dtype=np.int64).tolist() == [33, 0]


def test_explicit_hydrogens_do_not_change_atom_pair_counts():
    smiles = ["CCO", "C[C@H](N)C(=O)O.Cl", "c1cc[nH]c1", "F/C=C/Cl"]
    assert np.array_equal(
        count_pairs(graphs_of(smiles, add_h=True)), count_pairs(graphs_of(smiles))
    )
    assert not count_pairs(graphs_of(["[H][H]"])).any()


@pytest.mark.parametrize("rows", [1, 100, 1000])
def test_chunk_size_does_not_change_atom_pair_counts(monkeypatch, rows):
    graphs = graphs_of(ODD)
    expected = count_pairs(graphs)
    monkeypatch.setattr(pairs, "ROWS", rows)
    assert np.array_equal(count_pairs(graphs), expected)


def test_atom_pairs_of_a_long_polymer_take_less_than_two_seconds():
    graphs = graphs_of(["CC(c1ccccc1)" * 125])
    begin = time.process_time()
    counts = count_pairs(graphs)
    assert time.process_time() - begin < 2
    assert counts.max() == 255
    assert not len(count_pairs(graphs_of([])))
    assert not len(atom_pairs(graphs_of([])).columns)
