"""The nearest training molecule, beside the similarity of every pair."""

import pytest
import torch

from gattn.molecules import nearest
from gattn.molecules.kernel import count_tanimoto
from gattn.molecules.nearest import NearestMolecules


@pytest.mark.parametrize("few", [10, 8192])
@pytest.mark.parametrize("density", [0.02, 0.5])  # some 40 bits, and more than a byte counts
def test_it_is_the_largest_of_all_similarities(
    density: float, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "FEW", few)
    generator = torch.Generator().manual_seed(0)
    train, asked = (torch.rand(count, 2048, generator=generator) < density for count in (70, 30))
    wanted = count_tanimoto(asked.to(torch.uint8), train.to(torch.uint8)).amax(1)
    assert torch.equal(NearestMolecules(train).similarity(3 * asked.to(torch.uint8)), wanted)


def test_nothing_is_near_where_there_is_nothing() -> None:
    bits, none = torch.ones(2, 8, dtype=torch.bool), torch.zeros(0, 8, dtype=torch.bool)
    counts = torch.zeros(3, 8, dtype=torch.uint8)
    assert NearestMolecules(none).similarity(counts).tolist() == [0, 0, 0]
    assert NearestMolecules(bits).similarity(counts).tolist() == [0, 0, 0]
    assert NearestMolecules(bits).similarity(counts[:0]).shape == (0,)
