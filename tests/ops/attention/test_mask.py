"""A boolean attn_bias is a mask, as in torch's attention: True keeps the edge."""

import pytest
import torch

from gattn import functional as F


@pytest.mark.parametrize("name", ["gat, edges", "gatv2, edges", "dot_product, edges"])
def test_boolean_mask_equals_a_bias_of_zeros_and_minus_infinities(operators, name, random_graph):
    operator = operators[name]
    inputs = operator.inputs(random_graph, 2, 4)
    keep = torch.rand(random_graph.num_edges, 2) > 0.3
    assert 0 < keep.sum() < keep.numel()
    bias = torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -torch.inf)
    expected = operator(inputs | {"attn_bias": bias}, random_graph)
    assert torch.equal(operator(inputs | {"attn_bias": keep}, random_graph), expected)
    twin = getattr(F, f"{name.split(',')[0]}_attention_weights")
    rest = {key: x for key, x in inputs.items() if key not in ("value", "edge_weight")}
    weights = twin(**rest | {"attn_bias": keep}, graph=random_graph)
    assert torch.equal(weights, twin(**rest | {"attn_bias": bias}, graph=random_graph))
    assert not weights[~keep].any()
