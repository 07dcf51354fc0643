"""Molecules that are larger than their panel are turned, so that they are scaled down least."""

import re

import numpy as np
import pytest

from gattn.apps.molecules.row_format import name_after, name_column
from gattn.draw import draw_molecule

LIPID = "CCCCCCCCC=CCCCCCCCC(=O)OCC(COP(=O)([O-])OCC[N+](C)(C)C)OC(=O)CCCCCCCC=CCCCCCCCC"
SIZE = 320, 240


def bond_lengths(smiles):
    """Return the lengths of the lines of a picture, in pixels."""
    picture = draw_molecule(smiles, size=SIZE).decode()
    lines = re.findall(r"d='M ([\d.]+),([\d.]+) L ([\d.]+),([\d.]+)'", picture)
    ends = np.array(lines, dtype=float)
    assert (ends[:, ::2] <= SIZE[0]).all()
    assert (ends[:, 1::2] <= SIZE[1]).all()
    return np.hypot(ends[:, 2] - ends[:, 0], ends[:, 3] - ends[:, 1])


def test_long_chain_is_drawn_along_the_diagonal():
    chain = "C" * 40
    steps = bond_lengths(chain)
    # The expected length is that of 39 bonds in a zigzag with angles of 120 degrees along a
    # diagonal of 400 pixels.
    assert np.median(steps) * 39 * np.sin(np.pi / 3) > 320


@pytest.mark.parametrize("smiles", [LIPID, "COCC" * 12, "NCC(=O)" * 9 + "O"])
def test_large_molecules_are_drawn_within_the_picture(smiles):
    assert len(bond_lengths(smiles)) > 20


def test_molecule_names_are_read_from_a_column_or_after_the_smiles():
    assert name_column(["smiles", "y"]) == ""
    assert name_column(["id", "smiles", "Name"]) == "Name"
    assert name_after(" CCO  ethanol (dry) ") == "ethanol (dry)"
