import networkx
import pytest
import torch

from gattn import Graph
from gattn.nn import RGATConv
from gattn.nn.conv import typed
from gattn.nn.conv.rgat_conv import MECHANISMS, MODES, MODS

OPTIONS = [
    {"mod": mod, **more}
    for mod, more in [
        (None, {"num_bases": 2}),
        (None, {"edge_dim": 3, "concat": False}),
        ("additive", {"num_blocks": 2}),
        ("scaled", {"edge_dim": 3}),
        ("f-additive", {"num_bases": 2, "bias": False}),
        ("f-scaled", {"concat": False}),
    ]
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rgat_conv_matches_pyg_for_every_mechanism_and_mode(beside_pyg, mechanism, mode, options):
    dtype = torch.float32 if options["mod"] is None else torch.float64
    options = {"attention_mechanism": mechanism, "attention_mode": mode, "heads": 2, **options}
    options["dim"] = 3 if mode.startswith("multiplicative") else 1
    pair = beside_pyg.pair("RGATConv", 6, 4, 3, dtype=dtype, **options)
    for case in beside_pyg.graphs()[2:10]:
        x, edges = beside_pyg.draw(case.size[0], 6, dtype=dtype), case.edge_index.shape[1]
        edge_attr = beside_pyg.draw(edges, 3, dtype=dtype) if "edge_dim" in options else None
        kinds = torch.arange(edges) % 3
        beside_pyg.check(
            *pair, x, case.edge_index, kinds, edge_attr, return_attention_weights=True,
            where=case.name,
        )  # fmt: skip


@pytest.mark.parametrize("padded", [0, 64], ids=["product per type", "product per group"])
@pytest.mark.parametrize("options", [{}, {"num_blocks": 2}, {"num_bases": 3}], ids=str)
def test_rgat_conv_projects_nodes_only_for_relations_of_their_edges(
    beside_pyg, monkeypatch, padded, options
):
    monkeypatch.setattr(typed, "MAX_PADDED", padded)
    nodes, edges, relations = 300, 100, 40
    pair = beside_pyg.pair("RGATConv", 6, 4, relations, heads=2, **options)
    x, edge_index = beside_pyg.draw(nodes, 6), torch.randint(nodes, (2, edges))
    beside_pyg.check(*pair, x, edge_index, torch.arange(edges) % (relations - 1))
    graph = Graph(edge_index, nodes)
    pairs = typed.typed_graph(graph, torch.arange(edges) % relations, relations)
    assert pairs.between_pairs.num_src < 2 * edges
    assert pairs.between_pairs.num_dst < 2 * edges


@pytest.mark.parametrize("options", [{}, {"num_blocks": 2}, {"num_bases": 3}], ids=str)
def test_rgat_conv_projects_a_node_once_per_relation_for_source_and_destination(
    beside_pyg, options
):
    nodes, edges, relations = 50, 60, 90
    pair = beside_pyg.pair("RGATConv", 6, 4, relations, heads=2, **options)
    x, edge_index = beside_pyg.draw(nodes, 6), torch.randint(nodes, (2, edges))
    beside_pyg.check(*pair, x, edge_index, torch.arange(edges) % (relations - 1))
    pairs = typed.typed_graph(Graph(edge_index, nodes), torch.arange(edges), relations)
    assert pairs.sources is pairs.destinations
    assert pairs.sources is not None


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_rgat_conv_reads_edge_types_from_the_values_of_a_sparse_adjacency(beside_pyg, layout):
    pairs = torch.tensor([[1, 3, 0, 1, 2, 0], [0, 0, 1, 1, 2, 4]])
    kinds = torch.tensor([0, 1, 2, 1, 0, 2])
    adj_t = torch.sparse_coo_tensor(pairs.flip(0), kinds, (5, 5), is_coalesced=True)
    adj_t = adj_t if layout == "coo" else adj_t.to_sparse_csr()
    theirs, ours = beside_pyg.pair("RGATConv", 6, 4, 3)
    x = beside_pyg.draw(5, 6)
    beside_pyg.check(theirs, ours, x, adj_t, kinds, return_attention_weights=True)
    torch.testing.assert_close(ours(x, adj_t), theirs(x, pairs, kinds))


def test_layout_by_edge_type_is_reused_until_the_tensor_of_edge_types_changes(monkeypatch):
    built = []
    lay_out = typed.lay_out
    monkeypatch.setattr(typed, "lay_out", lambda *args: built.append(1) or lay_out(*args))
    layer, x = RGATConv(3, 2, 2), torch.randn(3, 3)
    edge_index, kinds = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 1])
    first, count = layer(x, edge_index, kinds), len(built)
    layer(x, edge_index, kinds)
    assert len(built) == count
    kinds[0] = 1  # After an in-place change of the edge types, the cached layout must not be used.
    assert not torch.equal(layer(x, edge_index, kinds), first)
    assert len(built) == 2 * count
    layer(x, edge_index, kinds.clone())
    assert len(built) == 3 * count


def test_edge_types_created_in_inference_mode_are_cached_by_content(monkeypatch):
    built = []
    lay_out = typed.lay_out
    monkeypatch.setattr(typed, "lay_out", lambda *args: built.append(1) or lay_out(*args))
    layer, x, edge_index = RGATConv(3, 2, 2), torch.randn(3, 3), torch.tensor([[0, 1], [1, 2]])
    with torch.inference_mode():
        kinds = torch.tensor([0, 1])
        expected, count = layer(x, edge_index, torch.tensor([1, 1])), len(built)
        layer(x, edge_index, kinds)
        kinds[0] = 1  # in inference mode, torch does not count in-place changes
        assert torch.equal(layer(x, edge_index, kinds), expected)
    layer(x, edge_index, kinds).sum().backward()
    assert (
        len(built) == 3 * count
    )  # the last call uses the layout that the previous call has cached


def test_rgat_conv_applies_types_of_an_undirected_networkx_edge_to_both_directions():
    torch.manual_seed(0)
    layer, x, kinds = RGATConv(4, 2, 2), torch.randn(4, 4), torch.tensor([1, 0])
    network, pairs = networkx.Graph([(0, 1), (2, 3)]), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    expected = layer(x, pairs, kinds.repeat_interleave(2))
    torch.testing.assert_close(layer(x, network, kinds), expected)


def test_rgat_conv_with_a_message_hook_raises_error_for_an_edge_type_out_of_range():
    layer = RGATConv(4, 2, 2)
    layer.register_message_forward_hook(lambda layer, inputs, out: None)
    with pytest.raises(ValueError, match=r"edge_type must be in \[0, 2\); got -1 to 0"):
        layer(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, -1]))


def test_invalid_options_edge_types_or_features_of_rgat_conv_raise_error():
    x, edge_index, kinds = torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 1])
    layer = RGATConv(4, 2, 2)
    for call, message in [
        (lambda: layer(x, edge_index), "edge_type is required"),
        (lambda: layer(x, edge_index, kinds + 1), r"edge_type must be in \[0, 2\); got 1 to 2"),
        (lambda: layer(x, edge_index, kinds[:1]), r"edge_type must have shape \(2,\)"),
        (lambda: layer(x, edge_index, kinds, torch.ones(2, 3)), "takes no edge_attr"),
        (lambda: layer(x[None], edge_index, kinds), r"x must have shape \(n, 4\)"),
        (lambda: RGATConv(4, 2, 2, attention_mode="dot"), "attention_mode must be one of"),
        (lambda: RGATConv(4, 2, 2, attention_mechanism="all"), "attention_mechanism must be"),
        (lambda: RGATConv(4, 2, 2, dim=2), "dim must be 1"),
        (lambda: RGATConv(4, 2, 2, dropout=0.1, mod=MODS[0]), "dropout must be 0"),
        (lambda: RGATConv(4, 2, 2, mod="double"), "mod must be None or one of"),
        (lambda: RGATConv(4, 2, 2, num_bases=2, num_blocks=2), "must not both be set"),
        (lambda: RGATConv(4, 2, 2, num_blocks=3), "num_blocks must divide"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="edge_type must be a tensor; got list"):
        layer(x, edge_index, [0, 1])
    with pytest.raises(TypeError, match="edge_type must contain integers; got torch"):
        layer(x, edge_index, kinds.float())
