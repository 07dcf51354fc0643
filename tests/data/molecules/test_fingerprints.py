"""Fingerprints, their Tanimoto similarity, and the kernel ridge built on it."""

import numpy as np
import pytest
import torch
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

from gattn.data import morgan_fingerprints, tanimoto, tanimoto_neighbours, tanimoto_ridge

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
    got = tanimoto_ridge(prints[:4], y[:4], prints[4:])
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10)


def test_tanimoto_neighbours_are_symmetric_pairs_of_the_most_similar_molecules():
    edges = tanimoto_neighbours(morgan_fingerprints(SMILES), 2)
    pairs = {tuple(edge) for edge in edges.t().tolist()}
    assert len(pairs) == edges.shape[1]
    assert all((j, i) in pairs and i != j for i, j in pairs)
    assert torch.bincount(edges[1], minlength=len(SMILES)).min() >= 2
    assert {(0, 1), (2, 3)} <= pairs
    order = edges[1] * len(SMILES) + edges[0]
    assert (order.diff() > 0).all()


@pytest.mark.parametrize(("count", "edges"), [(0, 0), (1, 0), (2, 2), (6, 30)])
def test_tanimoto_neighbours_contain_all_pairs_if_k_exceeds_the_number_of_molecules(count, edges):
    got = tanimoto_neighbours(morgan_fingerprints(SMILES[:count]), 10)
    assert got.shape == (2, edges)
    assert got.dtype == torch.int64


def test_invalid_smiles_shapes_ridge_or_k_of_fingerprints_raise_error():
    prints, y = morgan_fingerprints(SMILES), torch.zeros(6)
    with pytest.raises(ValueError, match="RDKit cannot read the SMILES 'C1'"):
        morgan_fingerprints(["C", "C1"])
    with pytest.raises(ValueError, match=r"got \(6, 2048\) and \(6, 3\)"):
        tanimoto(prints, prints[:, :3])
    with pytest.raises(ValueError, match="ridge must be above 0"):
        tanimoto_ridge(prints, y, prints, ridge=0.0)
    with pytest.raises(ValueError, match=r"y must be \(6,\)"):
        tanimoto_ridge(prints, y[:5], prints)
    with pytest.raises(ValueError, match="one or more"):
        tanimoto_ridge(prints[:0], y[:0], prints)
    with pytest.raises(ValueError, match="k must be at least 1"):
        tanimoto_neighbours(prints, 0)
    assert tanimoto_ridge(prints, y, prints[:0]).shape == (0,)
