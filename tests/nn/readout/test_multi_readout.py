import pytest
import torch
from torch_geometric.nn import aggr

from gattn.nn import LearnedQueryReadout, MultiReadout


def _batch():
    generator = torch.Generator().manual_seed(0)
    index = torch.tensor([0, 0, 0, 2, 2, 3])
    return torch.randn(6, 8, generator=generator, dtype=torch.float64), index


def test_multi_readout_concatenates_outputs():
    query = LearnedQueryReadout(8, 4, num_queries=2).double()
    stacked = LearnedQueryReadout(8, 4, num_queries=2, concat=False).double()
    readout = MultiReadout(["sum", "mean", query, "max", stacked])
    x, index = _batch()
    out = readout(x, index, dim_size=5)
    parts = [
        aggr.SumAggregation()(x, index, dim_size=5),
        aggr.MeanAggregation()(x, index, dim_size=5),
        query(x, index, dim_size=5),
        aggr.MaxAggregation()(x, index, dim_size=5),
        stacked(x, index, dim_size=5).flatten(1),
    ]
    torch.testing.assert_close(out, torch.cat(parts, dim=1))
    assert torch.equal(out[[1, 4]], torch.zeros_like(out[:2]))


def test_weights_of_every_member():
    query = LearnedQueryReadout(8, 4, num_queries=2).double()
    readout = MultiReadout(["add", "mean", query])
    x, index = _batch()
    ones, means, attention = readout.attention_weights(x, index, dim_size=4)
    assert torch.equal(ones, torch.ones(6, 1, dtype=torch.float64))
    torch.testing.assert_close(means.flatten(), x.new_tensor([1 / 3] * 3 + [0.5, 0.5, 1.0]))
    assert torch.equal(attention, query.attention_weights(x, index, dim_size=4))
    with pytest.raises(TypeError, match=r"MaxAggregation\(\) has no method attention_weights"):
        MultiReadout(["max"]).attention_weights(x, index)


def test_bad_input_gets_one_clear_error():
    with pytest.raises(ValueError, match="readouts must contain at least one"):
        MultiReadout([])
    with pytest.raises(ValueError, match="nothing_like_it"):
        MultiReadout(["nothing_like_it"])
