"""Molecules from SMILES: parsing, features, fingerprints, descriptors and splits."""
