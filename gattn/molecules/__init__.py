"""Molecules: from SMILES and measured values to predictions."""
