"""Molecules from SMILES: parsing, atom and bond features, fingerprints, descriptors and splits."""
