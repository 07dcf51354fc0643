from gattn.data.datasets.citation import load_citation
from gattn.data.datasets.download import data_root
from gattn.data.datasets.registry import (
    DataFile,
    DatasetRecord,
    ReportedScore,
    dataset_names,
    get_dataset,
)
from gattn.data.loaders.neighbor_loader import NeighborLoader
from gattn.data.molecules.dataset import (
    BadRow,
    MoleculeError,
    Molecules,
    batch_molecules,
)
from gattn.data.molecules.descriptors import DESCRIPTORS, molecule_descriptors
from gattn.data.molecules.features import ATOM_FEATURES, BOND_FEATURES, atom_features, bond_features
from gattn.data.molecules.fingerprints import (
    morgan_fingerprints,
    tanimoto,
    tanimoto_neighbours,
    tanimoto_ridge,
)
from gattn.data.molecules.identity import molecule_identities
from gattn.data.molecules.reading import load_molecules, read_smiles
from gattn.data.molecules.scaffolds import scaffold_split
from gattn.data.molecules.smiles import smiles_to_data
from gattn.data.splits import (
    Split,
    random_split,
    split_by_names,
)

__all__ = [
    "ATOM_FEATURES",
    "BOND_FEATURES",
    "DESCRIPTORS",
    "BadRow",
    "DataFile",
    "DatasetRecord",
    "MoleculeError",
    "Molecules",
    "NeighborLoader",
    "ReportedScore",
    "Split",
    "atom_features",
    "batch_molecules",
    "bond_features",
    "data_root",
    "dataset_names",
    "get_dataset",
    "load_citation",
    "load_molecules",
    "molecule_descriptors",
    "molecule_identities",
    "morgan_fingerprints",
    "random_split",
    "read_smiles",
    "scaffold_split",
    "smiles_to_data",
    "split_by_names",
    "tanimoto",
    "tanimoto_neighbours",
    "tanimoto_ridge",
]
