"""Fingerprints, their Tanimoto similarity, and the kernel ridge built on it."""

import numpy as np
import pytest
import torch
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

from gattn.data import morgan_fingerprints, tanimoto, tanimoto_ridge

SMILES = ["CCO", "CCCO", "c1ccccc1", "Cc1ccccc1", "CC(=O)Nc1ccc(O)cc1", "[Na+]"]


def test_tanimoto_similarity_equals_that_of_rdkit():
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = [generator.GetFingerprint(Chem.MolFromSmiles(s)) for s in SMILES]
    expected = [[DataStructs.TanimotoSimilarity(a, b) for b in bits] for a in bits]
    prints = morgan_fingerprints(SMILES)
    torch.testing.assert_close(tanimoto(prints, prints), torch.tensor(expected))


def test_tanimoto_similarity_of_fingerprints_without_bits_is_zero():
    none = torch.zeros(1, 4)
    assert tanimoto(none, none).item() == 0


def test_tanimoto_ridge_equals_kernel_ridge_of_scikit_learn():
    kernel_ridge = pytest.importorskip("sklearn.kernel_ridge", reason="compares with scikit-learn")
    prints, y = morgan_fingerprints(SMILES), torch.tensor([1.0, 2.0, 4.0, 5.0, 3.0, 0.0])
    model = kernel_ridge.KernelRidge(alpha=0.1, kernel="precomputed")
    kernel = tanimoto(prints.double(), prints.double()).numpy()
    model.fit(kernel[:4, :4], (y[:4] - y[:4].mean()).numpy())
    expected = model.predict(kernel[4:, :4]) + y[:4].mean().item()
    (got,) = tanimoto_ridge(prints[:4], y[:4], [prints[4:]])
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10)


def test_invalid_smiles_shapes_or_ridge_of_fingerprints_raise_error():
    prints, y = morgan_fingerprints(SMILES), torch.zeros(6)
    with pytest.raises(ValueError, match="RDKit cannot read the SMILES 'C1'"):
        morgan_fingerprints(["C", "C1"])
    with pytest.raises(ValueError, match=r"got \(6, 2048\) and \(6, 3\)"):
        tanimoto(prints, prints[:, :3])
    with pytest.raises(ValueError, match="ridge must be above 0"):
        list(tanimoto_ridge(prints, y, [prints], ridge=0.0))
    with pytest.raises(ValueError, match=r"y must be \(6,\)"):
        list(tanimoto_ridge(prints, y[:5], [prints]))
    with pytest.raises(ValueError, match="one or more"):
        list(tanimoto_ridge(prints[:0], y[:0], [prints]))
    (none,) = tanimoto_ridge(prints, y, [prints[:0]])
    assert none.shape == (0,)
