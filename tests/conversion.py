"""Models of PyG whose conversion is tested."""

import torch
import torch_geometric.nn as pyg
from torch_geometric.nn import attention
from torch_geometric.nn.models import attentive_fp, sgformer

EDGES = torch.tensor([[0, 1, 2, 5, 6, 7, 3], [1, 0, 0, 6, 5, 8, 3]])
BATCH = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1])
ONE_GRAPH = torch.zeros(9, dtype=torch.int64)
METADATA = ["a", "b"], [("a", "to", "b"), ("b", "to", "a")]


class GraphTransformer(torch.nn.Module):
    """GPS layers with attention along the edges inside, and a Set Transformer on top."""

    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            pyg.GPSConv(8, pyg.TransformerConv(8, 4, 2, edge_dim=3), heads=2) for _ in range(2)
        )
        self.pool = pyg.SetTransformerAggregation(8, num_seed_points=2, heads=2, layer_norm=True)

    def forward(self, x, edge_index, edge_attr, batch):
        for conv in self.convs:
            x = conv(x, edge_index, batch, edge_attr=edge_attr)
        return self.pool(x, batch)


def make_inputs(dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(9, 8, dtype=dtype), EDGES, torch.randn(7, 3, dtype=dtype), BATCH


MODELS = {
    "GAT": (lambda: pyg.GAT(8, 16, 3, heads=4, v2=False, dropout=0.3), 2),
    "GATv2": (lambda: pyg.GAT(8, 16, 3, heads=4, v2=True, edge_dim=3, jk="cat"), 3),
    "GraphTransformer": (GraphTransformer, 4),
    "AttentiveFP": (lambda: pyg.AttentiveFP(8, 16, 2, 3, 2, 2), 4),
}


def run(model, inputs, takes):
    if takes == 3:
        return model(inputs[0], inputs[1], edge_attr=inputs[2])
    return model(*inputs[:takes])


def every_layer():
    x = torch.randn(9, 8)
    kinds = torch.arange(7) % 2
    x_dict = {"a": torch.randn(9, 8), "b": torch.randn(9, 8)}
    edges = dict.fromkeys(METADATA[1], EDGES)
    return [
        (pyg.AGNNConv(), (x, EDGES)),
        (pyg.FAConv(8), (x, x, EDGES)),
        (pyg.GATConv(8, 4, 2, edge_dim=3, residual=True), (x, EDGES, torch.randn(7, 3))),
        (pyg.GATv2Conv((8, 8), 4, share_weights=True), ((x, x), EDGES)),
        (pyg.GPSConv(8, pyg.GINConv(torch.nn.Linear(8, 8)), heads=2), (x, EDGES, BATCH)),
        (pyg.GeneralConv(8, 4, 3, heads=2, attention=True), (x, EDGES, torch.randn(7, 3))),
        (pyg.HANConv(8, 8, METADATA, heads=2), (x_dict, edges)),
        (pyg.HGTConv(8, 8, METADATA, heads=2), (x_dict, edges)),
        (pyg.HEATConv(8, 4, 2, 2, 3, 3, 2), (x, EDGES, BATCH, kinds, torch.randn(7, 3))),
        (pyg.HypergraphConv(8, 4, True, heads=2), (x, EDGES, None, x)),
        (pyg.PointTransformerConv(8, 4), (x, torch.randn(9, 3), EDGES)),
        (pyg.RGATConv(8, 4, 2, heads=2), (x, EDGES, kinds)),
        (pyg.ResGatedGraphConv(8, 4, edge_dim=3), (x, EDGES, torch.randn(7, 3))),
        (pyg.GraphMultisetTransformer(8, 2, heads=2), (x, BATCH)),
        (pyg.Set2Set(8, 2), (x, BATCH)),
        (pyg.SoftmaxAggregation(0.5, learn=True), (x, BATCH)),
        (pyg.SuperGATConv(8, 4, 2), (x, EDGES)),
        (pyg.TransformerConv(8, 4, 2, beta=True), (x, EDGES)),
        (attentive_fp.GATEConv(8, 8, 3), (x, EDGES, torch.randn(7, 3))),
        (pyg.AttentiveFP(8, 8, 2, 3, 2, 2), (x, EDGES, torch.randn(7, 3), BATCH)),
        (attention.PolynormerAttention(8, 2), (x[None],)),
        (attention.SGFormerAttention(8, 2), (x[None],)),
        (pyg.Polynormer(8, 8, 3, 2, local_attn=True), (x, EDGES, ONE_GRAPH)),
        (pyg.SGFormer(8, 8, 3), (x, EDGES, ONE_GRAPH)),
        (sgformer.GraphModule(8, 8), (x, EDGES)),
        (sgformer.SGModule(8, 8), (x, ONE_GRAPH)),
        (pyg.AttentionalAggregation(pyg.MLP([8, 4, 1]), torch.nn.Linear(8, 4)), (x, BATCH)),
        (pyg.AttentionalAggregation(torch.nn.Linear(8, 1)), (x, BATCH)),
        (pyg.SetTransformerAggregation(8, 2, 2, 1, 2, False, True), (x, BATCH)),
    ]


class MyGATConv(pyg.GATConv):
    def message(self, x_j, alpha):
        return 2 * alpha.unsqueeze(-1) * x_j
