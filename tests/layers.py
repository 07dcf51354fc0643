"""Table of the layers that the generic tests use: constructor arguments, inputs and properties."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import gattn
import gattn.models
import gattn.nn
from gattn import graphs

WIDTH = "the width of x"
EDGE_WIDTH = "the width of edge_attr"
NODES = (["node"], [("node", "to", "node")])


class Call(torch.nn.Module):
    """Module whose forward method calls another function with the arguments of the generic
    tests.
    """

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *args, **options):
        return self.call(self.module, *args, **options)


class FA(gattn.nn.FAConv):
    """FAConv with the arguments of the other layers; its input x_0 is sin(x)."""

    def forward(self, x, edge_index, edge_attr=None):
        return super().forward(x, x.sin(), edge_index)


class RGAT(gattn.nn.RGATConv):
    """RGATConv with the arguments of the other layers; the source defines an edge's relation."""

    def forward(self, x, edge_index, edge_attr=None):
        pairs = edge_index.edge_index if isinstance(edge_index, gattn.Graph) else edge_index
        relation = pairs[0] % 2 if x.dim() == 3 else (x[:, 0] > 0).long()[pairs[0]]
        return super().forward(x, edge_index, relation, edge_attr)


class HEAT(gattn.nn.HEATConv):
    """HEATConv with the arguments of the other layers; the features define the types."""

    def forward(self, x, edge_index, edge_attr=None):
        if x.dim() == 3:
            return super().forward(x, edge_index, x, x, edge_attr)
        kind, edge_kind = (x[:, 0] > 0).long(), (edge_attr[:, 0] > 0).long()
        return super().forward(x, edge_index, kind, edge_kind, edge_attr)


class PointTransformer(gattn.nn.PointTransformerConv):
    """PointTransformerConv with the arguments of the other layers; positions are sin(x)."""

    def forward(self, x, edge_index, edge_attr=None):
        return super().forward(x, x[..., :3].sin(), edge_index)


class WholePolynormer(gattn.models.Polynormer):
    """Polynormer with its global attention switched on."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._global = True


def _network(*widths):
    """Return a network with two linear layers, which acts on each row."""
    return torch.nn.Sequential(
        torch.nn.Linear(*widths), torch.nn.Tanh(), torch.nn.Linear(widths[1], widths[1])
    )


@dataclass(frozen=True)
class Layer:
    """Layer of gattn with its constructor arguments.

    The tests call ``layer(x, edge_index)``, with ``edge_attr=`` and ``batch=`` if the layer has
    these arguments, and a readout with ``readout(x, index, dim_size=...)``.
    """

    name: str
    """Name of the class, and after a comma the variant."""
    arguments: dict[str, Any]
    """Constructor arguments; WIDTH and EDGE_WIDTH are placeholders, a function gets the width."""
    call: Callable[..., Any] | None = None
    """Function (module, *args) that replaces forward in the generic tests; None for forward
    itself.
    """
    made_by: type[torch.nn.Module] | None = None
    """Subclass that has the arguments of the other layers."""
    edge_attr: bool = False
    batch: bool = False
    """True if the layer also attends to nodes without an edge and has the argument batch."""
    bipartite: bool = False
    """True if x is a pair: source features of width 3, and features of other destination nodes."""
    readout: bool = False
    conv: bool = False
    """True if the layer is a PyG convolution with a fused path and an edge-by-edge path."""
    one_set: bool = False
    """True if x must be [n, d], and [b, n, d] is an error."""
    of_nodes: bool = True
    """True if the output has one row per node on every graph, as tests/test_theorem.py requires."""

    @property
    def kind(self) -> str:
        """Name of the class."""
        return self.name.split(",")[0]

    @property
    def settings(self) -> set[str]:
        """Names of the constructor's arguments."""
        build = getattr(gattn.nn, self.kind, None) or getattr(gattn.models, self.kind)
        return set(inspect.signature(build).parameters)

    def make(self, width=4, edge_width=2, package=gattn.nn, **options):
        """Return the module, of gattn or of PyG, with parameters from one seed."""
        torch.manual_seed(0)
        sizes = {WIDTH: width, EDGE_WIDTH: edge_width, (3, WIDTH): (3, width)}
        arguments = {
            key: value(width) if callable(value) else _sized(value, sizes)
            for key, value in self.arguments.items()
        }
        build = self.made_by or getattr(package, self.kind, None)
        return (build or getattr(gattn.models, self.kind))(**arguments | options)

    def called(self, *sizes, **options):
        """Return the module with the arguments of the generic tests."""
        module = self.make(*sizes, **options)
        return module if self.call is None else Call(module, self.call)

    def inputs(self, nodes=12, edges=40):
        """Return random arguments for a layer made with the widths 6 and 3: positional and named.

        The last node has no edge. The second of three graphs has no nodes.
        """
        generator = torch.Generator().manual_seed(nodes + edges)
        sizes = (nodes, 6), (nodes + 3, 3), (edges, 3)
        x, sources, edge_attr = (torch.randn(size, generator=generator) for size in sizes)
        graph = 2 * (torch.arange(nodes) >= nodes // 2)
        if self.readout:
            return (x, graph), {"dim_size": 3}
        pairs = torch.randint(max(nodes - 1, 1), (2, edges), generator=generator)
        options = {"edge_attr": edge_attr} if self.edge_attr else {}
        options |= {"batch": graph} if self.batch else {}
        return ((sources, x) if self.bipartite else x, pairs), options


def _sized(value, sizes):
    return next((size for placeholder, size in sizes.items() if value == placeholder), value)


def _arguments(**arguments):
    """Return the arguments of a constructor."""
    return arguments


def _heads(**options):
    return {"in_channels": WIDTH, "out_channels": 4, "heads": 2, **options}


def _graph_attention(**options):
    return {"query_channels": WIDTH, "out_channels": 6, "heads": 2, **options}


def _on_graph(module, x, edge_index, **options):
    """Compute self-attention on a graph."""
    return module(x, x, x, gattn.Graph(edge_index, x.shape[0]), **options)


def _bipartite(edge_index, x):
    return gattn.Graph(edge_index, (x[0].shape[0], x[1].shape[0]))


def _attend_to_narrow(module, x, edge_index):
    """Compute attention between two sets whose rows must have the same width."""
    sources = F.pad(x[0], (0, x[1].shape[1] - x[0].shape[1]))
    return module(x[1], sources, _bipartite(edge_index, x))


def _one_type(module, x, edge_index):
    """Call a layer for heterogeneous graphs on nodes and edges of one type."""
    return module({"node": x}, {NODES[1][0]: edge_index})["node"]


def _two_types(module, x, edge_index):
    out = module({"a": x, "b": 2 * x}, dict.fromkeys(TWO_TYPES[1], edge_index))
    return torch.cat(list(out.values()))


TWO_TYPES = (["a", "b"], [("a", "to", "b"), ("b", "to", "a")])


def _segments(index, dim_size=None):
    """Return the graph with one edge from each node to its graph."""
    return graphs.pooling_graph(index, 1, dim_size)


def _hyperedges(module, x, edge_index):
    """Return a hypergraph with a hyperedge for each node, which contains the nodes whose edges
    lead to it.
    """
    return module(x, edge_index, hyperedge_attr=x.sin(), num_edges=x.shape[0])


def cosine_of_ends(q, k, edge):
    return torch.cosine_similarity(q, k, dim=-1)


def _gat(width):
    return gattn.nn.GATConv(width, width // 2, heads=2)


LAYERS = (
    # Convolutions.
    Layer("GATConv", _heads(residual=True), conv=True),
    Layer("GATConv, plain", _arguments(in_channels=WIDTH, out_channels=3, add_self_loops=False),
          conv=True),
    Layer("GATConv, edges", _heads(edge_dim=EDGE_WIDTH), edge_attr=True, conv=True),
    Layer("GATConv, edges and averaged heads", _heads(edge_dim=EDGE_WIDTH, concat=False),
          edge_attr=True, conv=True),
    Layer("GATConv, bipartite", _heads(in_channels=(3, WIDTH), add_self_loops=False),
          bipartite=True),
    Layer("GATv2Conv", _heads(), conv=True),
    Layer("GATv2Conv, shared", _heads(share_weights=True), conv=True),
    Layer("GATv2Conv, edges", _heads(edge_dim=EDGE_WIDTH), edge_attr=True, conv=True),
    Layer("GATv2Conv, bipartite", _heads(in_channels=(3, WIDTH), add_self_loops=False),
          bipartite=True),
    Layer("TransformerConv", _heads(beta=True), conv=True),
    Layer("TransformerConv, edges", _heads(edge_dim=EDGE_WIDTH), edge_attr=True, conv=True),
    Layer("TransformerConv, edges and beta", _heads(edge_dim=EDGE_WIDTH, beta=True),
          edge_attr=True, conv=True),
    Layer("TransformerConv, bipartite", _heads(in_channels=(3, WIDTH)), bipartite=True),
    Layer("AGNNConv", {}, conv=True),
    Layer("SuperGATConv", _heads(), conv=True),
    Layer("SuperGATConv, SD", _heads(attention_type="SD"), conv=True),
    Layer("FAConv", _arguments(channels=WIDTH), made_by=FA, conv=True),
    Layer("GATEConv", _arguments(in_channels=WIDTH, out_channels=WIDTH, edge_dim=EDGE_WIDTH),
          edge_attr=True, conv=True, one_set=True),
    Layer("RGATConv", _heads(num_relations=2), made_by=RGAT, conv=True, one_set=True),
    Layer("RGATConv, edges", _heads(num_relations=2, edge_dim=EDGE_WIDTH), made_by=RGAT,
          edge_attr=True, conv=True, one_set=True),
    Layer("ResGatedGraphConv", _arguments(in_channels=WIDTH, out_channels=3), conv=True),
    Layer("ResGatedGraphConv, edges",
          _arguments(in_channels=WIDTH, out_channels=3, edge_dim=EDGE_WIDTH), edge_attr=True,
          conv=True),
    Layer("ResGatedGraphConv, bipartite", _arguments(in_channels=(3, WIDTH), out_channels=3),
          bipartite=True),
    Layer("GeneralConv", _heads(attention=True), conv=True, one_set=True),
    Layer("GeneralConv, edges",
          _heads(out_channels=2, in_edge_channels=EDGE_WIDTH, attention=True,
                 attention_type="dot_product", directed_msg=False),
          edge_attr=True, conv=True, one_set=True),
    Layer("GeneralConv, bipartite", _heads(in_channels=(3, WIDTH), attention=True),
          bipartite=True),
    Layer("PointTransformerConv", _arguments(in_channels=WIDTH, out_channels=3),
          made_by=PointTransformer, conv=True, one_set=True),
    Layer("PointTransformerConv, networks",
          _arguments(in_channels=WIDTH, out_channels=3, pos_nn=lambda _: _network(3, 3),
                attn_nn=lambda _: _network(3, 3)),
          made_by=PointTransformer, conv=True, one_set=True),
    Layer("HEATConv",
          _heads(num_node_types=2, num_edge_types=2, edge_type_emb_dim=2, edge_dim=EDGE_WIDTH,
                 edge_attr_emb_dim=2),
          made_by=HEAT, edge_attr=True, conv=True, one_set=True),
    Layer("HypergraphConv", _heads(use_attention=True), call=_hyperedges),
    Layer("ExphormerConv", _arguments(in_dim=WIDTH, out_dim=6, num_heads=2, edge_dim=EDGE_WIDTH),
          edge_attr=True, one_set=True),
    # Layers for heterogeneous graphs.
    Layer("HGTConv", _heads(out_channels=6, metadata=NODES), call=_one_type),
    Layer("HGTConv, two types", _heads(out_channels=6, metadata=TWO_TYPES), call=_two_types,
          of_nodes=False),
    Layer("HANConv", _heads(out_channels=6, metadata=NODES), call=_one_type),
    Layer("HANConv, two types", _heads(out_channels=6, metadata=TWO_TYPES), call=_two_types,
          of_nodes=False),
    # Attention modules that PyG does not have.
    *(
        Layer(f"GraphAttention{note}", _graph_attention(**options), call=_on_graph)
        for note, options in {
            "": {},
            ", embedded Gaussian": {"score": "embedded_gaussian"},
            ", additive": {"score": "additive"},
            ", cosine": {"score": "cosine"},
        }.items()
    ),
    Layer("GraphAttention, a callable", _graph_attention(score=lambda _: cosine_of_ends),
          call=_on_graph),
    Layer("GraphAttention, edges", _graph_attention(edge_dim=EDGE_WIDTH),
          call=_on_graph, edge_attr=True),
    Layer("GraphAttention, additive with edges",
          _graph_attention(edge_dim=EDGE_WIDTH, score="additive"),
          call=_on_graph, edge_attr=True),
    Layer("GraphAttention, bipartite", _graph_attention(key_channels=3), bipartite=True,
          call=lambda m, x, edge_index: m(x[1], x[0], x[0], _bipartite(edge_index, x))),
    Layer("TransformerBlock", _arguments(channels=WIDTH, heads=2)),
    Layer("TransformerBlock, post", _arguments(channels=WIDTH, norm="post")),
    Layer("TransformerBlock, edges", _arguments(channels=WIDTH, edge_dim=EDGE_WIDTH),
          edge_attr=True),
    Layer("SetAttentionBlock", _arguments(channels=WIDTH, heads=2),
          call=lambda m, x, edge_index: m(x, gattn.Graph(edge_index, x.shape[0]))),
    Layer("MultiheadAttentionBlock", _arguments(channels=WIDTH, heads=2), bipartite=True,
          call=_attend_to_narrow),
    # Layers that read more than the edges of a graph.
    Layer("GPSConv", _arguments(channels=WIDTH, conv=_gat, heads=2), batch=True),
    Layer("GPSConv, layer norm", _arguments(channels=WIDTH, conv=_gat, heads=2, norm="layer_norm"),
          batch=True, of_nodes=False),  # PyG's LayerNorm does not accept an empty batch
    Layer("LinearAttention", _arguments(channels=WIDTH, heads=2), batch=True,
          call=lambda m, x, edge_index, batch, **sizes: m(x, batch, **sizes)),
    Layer("SGFormerAttention", _arguments(channels=WIDTH, heads=2, head_channels=3), batch=True,
          call=lambda m, x, edge_index, batch, **sizes: m(x, index=batch, **sizes)),
    Layer("PolynormerAttention", _arguments(channels=WIDTH, heads=2, head_channels=3), batch=True,
          call=lambda m, x, edge_index, batch, **sizes: m(x, index=batch, **sizes)),
    Layer("InducedSetAttentionBlock", _arguments(channels=WIDTH, num_induced_points=3, heads=2),
          batch=True,
          call=lambda m, x, edge_index, batch, **sizes: m(x, _segments(batch, **sizes))),
    # Readouts.
    Layer("LearnedQueryReadout", _heads(out_channels=6, num_queries=3), readout=True),
    Layer("LearnedQueryReadout, normalised",
          _arguments(in_channels=WIDTH, out_channels=6, ff_channels=8, layer_norm=True,
                     concat=False), readout=True),
    Layer("AttentionalAggregation",
          _arguments(gate_nn=lambda d: torch.nn.Linear(d, 1), nn=lambda d: torch.nn.Linear(d, 3)),
          readout=True),
    Layer("SetTransformerAggregation",
          _arguments(channels=WIDTH, num_seed_points=2, num_encoder_blocks=2, num_decoder_blocks=1,
               heads=2, layer_norm=True),
          readout=True),
    Layer("SetTransformerAggregation, induced",
          _arguments(channels=WIDTH, heads=2, num_induced_points=3), readout=True),
    Layer("GraphMultisetTransformer", _arguments(channels=WIDTH, k=2, heads=2), readout=True),
    Layer("Set2Set", _arguments(in_channels=WIDTH, processing_steps=2), readout=True),
    Layer("SoftmaxAggregation", _arguments(t=0.5, learn=True), readout=True),
    Layer("PoolingByMultiheadAttention",
          _arguments(channels=WIDTH, num_seed_points=2, heads=2), readout=True,
          call=lambda m, x, index, dim_size: m(x, graphs.pooling_graph(index, 1, dim_size))),
    # Models.
    Layer("AttentiveFP",
          _arguments(in_channels=WIDTH, hidden_channels=8, out_channels=2, edge_dim=EDGE_WIDTH,
               num_layers=2, num_timesteps=2),
          edge_attr=True, batch=True, of_nodes=False),
    Layer("SGFormer",
          _arguments(in_channels=WIDTH, hidden_channels=6, out_channels=3, trans_num_layers=1,
                gnn_num_layers=1, trans_dropout=0.0, gnn_dropout=0.0),
          batch=True),
    Layer("Polynormer",
          _arguments(in_channels=WIDTH, hidden_channels=6, out_channels=3, local_layers=1,
                global_layers=1, in_dropout=0.0, dropout=0.0, global_dropout=0.0, local_attn=True),
          made_by=WholePolynormer, batch=True),
)  # fmt: skip

BY_NAME = {layer.name: layer for layer in LAYERS}

NOT_OF_A_GRAPH = {"RelativeBias": "of pairs"}
NOT_OF_A_GRAPH |= {"SparseDropout": "of a sparse matrix"}
"""Modules of gattn.nn that are not functions of the nodes of a graph."""


def layers(**properties):
    """Return the layers with these properties, by name; of_nodes is True by default."""
    properties = {"of_nodes": True, **properties}
    return {
        layer.name: layer
        for layer in LAYERS
        if all(getattr(layer, key) == value for key, value in properties.items())
    }


def every(table):
    """Parametrize a test over the layers of a table, by name."""
    return pytest.mark.parametrize("layer", table.values(), ids=list(table))
