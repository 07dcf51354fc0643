"""Each family is declared, has an entry in the tests, and equals the formula of its docstring."""

import pytest
import torch

from gattn.kernels import philox
from gattn.ops.registration import checks
from gattn.ops.registration.operator import OPERATORS
from tests.families import FAMILIES, distinct_settings


def test_every_score_family_has_a_formula():
    names = {name.removesuffix("_forward") for name in OPERATORS if "_forward" in name}
    assert names == FAMILIES.keys()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_attention_equals_its_formula_with_distinct_settings(attention, backend, random_graph):
    """The result is compared with the formula for distinct values of all settings, so that
    exchanged settings cause an error.
    """
    graph, heads, dropout = random_graph, 3, 0.4
    inputs = attention.inputs(graph, heads, 4, grad=False, u=1, b=1)
    source, destination = graph.edge_index
    ends = {"n": destination, "m": source}
    of_edges = {
        name: t[ends[letters[0]]] if (letters := attention.shapes[name])[0] in ends else t
        for name, t in inputs.items()
    }
    value = of_edges.pop("value", of_edges.get("key")).expand(-1, heads, -1)
    bias = of_edges.pop("attn_bias", torch.zeros(graph.num_edges, 1))
    weight = of_edges.pop("edge_weight", torch.ones(graph.num_edges))
    family = FAMILIES[attention.family]
    if family.edges_in_value and "edge_attr" in inputs:
        value = value + torch.einsum("ed,hcd->ehc", inputs["edge_attr"], inputs["edge_proj"])
    for settings in distinct_settings(attention.family):
        score = family.score(**of_edges, **settings) + bias
        torch.manual_seed(7)
        seed = checks.new_seed(dropout, graph.device)
        keep = torch.empty(graph.num_edges, heads, dtype=torch.bool)
        keep[graph.layout.perm.long()] = philox.keep(seed, graph.num_edges, heads, dropout)
        expected = torch.zeros(graph.num_dst, heads, value.shape[2], dtype=torch.float64)
        for node in range(graph.num_dst):
            into = destination == node
            alpha = score[into].softmax(0) * keep[into] / (1 - dropout) * weight[into, None]
            expected[node] = (alpha.unsqueeze(-1) * value[into]).sum(0)
        torch.manual_seed(7)
        out = attention(inputs, graph, **settings, dropout=dropout, backend=backend)
        torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
