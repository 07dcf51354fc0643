"""Similarity to the nearest training molecule, compared with all pairwise similarities."""

import pytest
import torch

from gattn.apps.molecules import nearest
from gattn.apps.molecules.kernels.features import CountTable
from gattn.apps.molecules.nearest import NearestMolecules, pack_bits


@pytest.mark.parametrize("few", [16, 8192])
# A fingerprint has about 41 or 1,024 set bits; 1,024 exceeds the range of a byte.
@pytest.mark.parametrize("density", [0.02, 0.5])
def test_nearest_similarity_is_the_maximum_over_all_training_molecules(
    density: float, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "BLOCK", few)
    generator = torch.Generator().manual_seed(0)
    bits = (torch.rand(count, 2048, generator=generator) < density for count in (70, 30))
    train, queries = (some.to(torch.uint8) for some in bits)
    expected = CountTable.of(train).tanimoto(queries).amax(1)
    # 21 is no multiple of 8, so the last byte of each batch is padded.
    packed = pack_bits(train.split(21))
    assert packed.shape == (2048, 3 + 3 + 3 + 1)
    assert torch.equal(NearestMolecules(packed).similarity(3 * queries), expected)


def test_similarity_is_zero_without_training_molecules_or_fingerprint_bits() -> None:
    bits, none = torch.full((8, 2), 255, dtype=torch.uint8), torch.zeros(8, 0, dtype=torch.uint8)
    counts = torch.zeros(3, 8, dtype=torch.uint8)
    assert NearestMolecules(none).similarity(counts).tolist() == [0, 0, 0]
    assert NearestMolecules(bits).similarity(counts).tolist() == [0, 0, 0]
    assert NearestMolecules(bits).similarity(counts[:0]).shape == (0,)


def test_nearest_neighbour_of_a_training_molecule_is_itself() -> None:
    from gattn.apps.molecules import MoleculeRegressor

    smiles = ["C" * n + "O" for n in range(24, 0, -1)]
    model = MoleculeRegressor(model="gp")
    model.fit(smiles, list(range(24)), validation=(["CCN", "CCCN"], [0, 1]))
    index, similarity = model.predictor_.nearest(model.featurise(["CCCCCCCCCO"]).inputs, 2)
    assert index[0, 0] == smiles.index("CCCCCCCCCO")
    assert similarity[0].tolist() == [1, 1]
