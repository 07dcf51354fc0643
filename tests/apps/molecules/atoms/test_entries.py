"""Order of the values of lists: hydrogens and bonds."""

import pytest
from rdkit import Chem

from gattn.apps.molecules.atoms.labels import find_entries, place_values
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.row_format import RowFormat


def entries(smiles, *, add_h=False):
    arrays = featurise([smiles], row_format=RowFormat(add_h=add_h)).inputs.molecules.arrays
    return find_entries(smiles, arrays, 0, add_h=add_h), arrays


def rdkit_molecule(smiles):
    parameters = Chem.SmilesParserParams()
    parameters.removeHs = False
    return Chem.MolFromSmiles(smiles, parameters)


@pytest.mark.parametrize(
    "smiles", ["[H]OC", "C([2H])([2H])N", "[H]c1ccc([H])cc1", "[H]N=C(C)[H]", "[H][H]", "O([H])[H]"]
)
@pytest.mark.parametrize("add_h", [False, True])
def test_explicit_hydrogens_of_the_smiles_have_a_list_entry(smiles, add_h):
    """The node of each list entry is an atom of the same element with the same neighbours."""
    molecule = rdkit_molecule(smiles)
    order, arrays = entries(smiles, add_h=add_h)
    elements = [atom.GetAtomicNum() for atom in molecule.GetAtoms()]
    assert len(order.atoms) == len(elements)
    hydrogens = [i for i, element in enumerate(elements) if element == 1]
    remaining = smiles == "[H][H]" or add_h
    assert all((order.atoms[i] >= 0) == remaining for i in hydrogens)
    nodes = order.atoms[order.atoms >= 0]
    assert len(set(nodes.tolist())) == len(nodes)
    edges = {frozenset(pair) for pair in arrays.edge_index.t().tolist()}
    for bond, place in zip(molecule.GetBonds(), order.bonds):
        ends = {int(order.atoms[i]) for i in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())}
        assert (place >= 0) == (min(ends) >= 0)
        if place >= 0:
            assert ends in edges
            assert set(arrays.edge_index[:, 2 * place].tolist()) == ends


def test_lists_with_or_without_hydrogens_match_heavy_atoms_and_bonds():
    order, _ = entries("[H]OC")
    cases = (3, "atom", [1, 2], [0, 1]), (2, "atom", [0, 1], [0, 1]), (2, "bond", [1], [0])
    for count, level, positions, places in cases:
        used, nodes = place_values(count, level, order)
        assert (used.tolist(), nodes.tolist()) == (positions, places)
    with pytest.raises(ValueError, match="4 values, and the molecule has 3 atoms, or 2 without"):
        place_values(4, "atom", order)


def test_list_entries_follow_the_atom_order_of_a_smiles_with_atom_map_numbers():
    order, _ = entries("[H:1][O:02]C")
    assert order.atoms.tolist() == [-1, 0, 1]
