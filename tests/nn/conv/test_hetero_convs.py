"""HGTConv and HANConv on a heterogeneous graph."""

import pytest
import torch

from gattn import Graph
from gattn.nn import HANConv, HGTConv
from gattn.nn.conv import typed

NODES = {"author": 4, "paper": 6, "venue": 2, "topic": 3}
WIDTHS = {"author": 5, "paper": 8, "venue": 3, "topic": 2}
EDGES = [("author", "writes", "paper"), ("paper", "by", "author")]
EDGES += [("paper", "cites", "paper"), ("author", "sits_at", "venue")]
METADATA = list(NODES), EDGES


def _inputs(beside_pyg, dtype):
    x = {key: beside_pyg.draw(n, WIDTHS[key], dtype=dtype) for key, n in NODES.items()}
    generator = torch.Generator().manual_seed(0)

    def pairs(edge_type, count):
        ends = (edge_type[0], edge_type[-1])
        return torch.stack([torch.randint(NODES[e], (count,), generator=generator) for e in ends])

    return x, {key: pairs(key, 0 if key == EDGES[-1] else 9) for key in EDGES}


@pytest.mark.parametrize("name", ["HGTConv", "HANConv"])
@pytest.mark.parametrize("lazy", [False, True])
def test_hetero_convs_match_pyg_for_fixed_and_inferred_widths(beside_pyg, dtype, name, lazy):
    x, edges = _inputs(beside_pyg, dtype)
    widths, first = (-1, (x, edges)) if lazy else (WIDTHS, None)
    pair = beside_pyg.pair(name, widths, 8, METADATA, heads=2, dtype=dtype, first=first)
    options = {"return_semantic_attention_weights": True} if name == "HANConv" else {}
    for _ in range(2):
        beside_pyg.check(*pair, x, edges, **options)
    fewer = {key: edges[key] for key in EDGES[:2]}
    beside_pyg.check(*pair, x, fewer, where="without some edge types", **options)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", ["HGTConv", "HANConv"])
def test_hetero_convs_match_pyg_for_sparse_adjacencies(beside_pyg, name):
    x, _ = _inputs(beside_pyg, torch.float64)
    pairs = torch.tensor([[0, 1, 3, 0], [0, 1, 1, 5]])
    adj_t = torch.sparse_coo_tensor(pairs.flip(0), torch.ones(4), (6, 4), is_coalesced=True)
    pair = beside_pyg.pair(name, WIDTHS, 8, METADATA, heads=2)
    beside_pyg.check(*pair, x, {EDGES[0]: adj_t})
    out = pair[1](x, {EDGES[0]: Graph(pairs, (4, 6))})
    torch.testing.assert_close(out, pair[1](x, {EDGES[0]: pairs}))


def test_hetero_convs_accept_types_without_nodes_or_edges(beside_pyg):
    x, _ = _inputs(beside_pyg, torch.float64)
    hgt = HGTConv(WIDTHS, 8, METADATA, heads=2).double()
    out = hgt(x, {})
    assert {key: y.shape for key, y in out.items()} == {
        key: (NODES[key], 8) for key in ("author", "paper", "venue")
    }
    han = HANConv(WIDTHS, 8, METADATA, heads=2).double()
    assert han(x, {}) == dict.fromkeys(NODES)
    nobody = {key: y[:0] for key, y in x.items()}
    none = {key: torch.empty(2, 0, dtype=torch.int64) for key in EDGES}
    assert hgt(nobody, none)["paper"].shape == (0, 8)
    assert han(nobody, none)["paper"].shape == (0, 8)


def test_joined_graph_of_all_edge_types_is_reused_until_an_edge_changes(beside_pyg, monkeypatch):
    built = []
    lay_out = typed.lay_out
    monkeypatch.setattr(typed, "lay_out", lambda *args: built.append(1) or lay_out(*args))
    x, edges = _inputs(beside_pyg, torch.float64)
    layers = [HGTConv(WIDTHS, 8, METADATA).double() for _ in range(2)]
    for layer in layers * 2:
        layer(x, edges)
    assert len(built) == 1
    edges[EDGES[1]][0, 0] = 5  # an in-place change of the edges must not use the cached layout
    layers[0](x, edges)
    assert len(built) == 2


def test_han_conv_raises_the_same_exception_as_pyg_for_types_outside_its_metadata(beside_pyg):
    x, edges = beside_pyg.draw(3, 4), torch.tensor([[0, 1], [1, 2]])
    metadata = ["a"], [("a", "to", "a")]
    for layer in beside_pyg.pair("HANConv", 4, 4, metadata):
        for nodes, edge_type, error in [
            ("a", ("a", "of", "a"), AttributeError),
            ("a", ("a", "to", "b"), AttributeError),
            ("a", ("b", "to", "a"), AttributeError),
            ("ab", ("a", "to", "a"), KeyError),
        ]:
            with pytest.raises(error):
                layer(dict.fromkeys(nodes, x), {edge_type: edges})
