"""What gattn.data offers, and what importing it does not load."""

import subprocess
import sys

import gattn.data

PUBLIC = """
ATOM_FEATURES BOND_FEATURES BadRow DESCRIPTORS DataFile Dataset MoleculeError Molecules Score Split
Table TableRow atom_features batch_molecules bond_features data_root dataset dataset_names
load_citation load_molecules mol_graph molecule_descriptors morgan_fingerprints open_table
random_split read_csv read_smiles scaffold_split split_by_names split_from_file tanimoto
tanimoto_neighbours tanimoto_ridge
"""


def test_the_public_names_are_pinned():
    assert sorted(gattn.data.__all__) == sorted(PUBLIC.split())
    for name in gattn.data.__all__:
        assert hasattr(gattn.data, name)


def test_importing_loads_no_heavy_optional_package():
    # PyG itself loads pandas where that is installed.
    code = """
import sys, torch_geometric.data
before = set(sys.modules)
import gattn.data
print({"rdkit", "lightning", "pandas", "pyarrow", "joblib"} & (set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
