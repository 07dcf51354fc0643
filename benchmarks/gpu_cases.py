"""What the GPU benchmark runs: graphs made on the device, operators, and their peers.

A peer that cannot run a case (no package, a feature it lacks, a graph it is not made for) says so
by raising :class:`CannotRun`; the reason is recorded in place of a time.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor

import gattn
from gattn.kernels import facts

FEATURES = 16
"""Numbers of an edge's features."""


class CannotRun(Exception):
    """Why a peer has no time in a case."""


@dataclass(frozen=True)
class Case:
    """One graph with its edges, and the graph of each node where it is a batch."""

    name: str
    edge_index: Tensor
    num_nodes: int
    batch: Tensor | None = None
    fits: bool = True
    """Whether tensors of edges x heads x channels may fit on the card."""

    @property
    def num_edges(self) -> int:
        """e."""
        return self.edge_index.shape[1]


SIZES = {
    "arxiv": (169_343, 1_165_328),
    "products": (2_449_029, 60_640_000),
    "products/16": (153_064, 3_790_000),
    "reddit": (232_965, 57_307_946),
    "reddit/16": (232_965, 3_581_746),
}
"""Nodes and pairs of the graphs shaped after ogbn-arxiv, ogbn-products and Reddit, loops apart."""
BATCHES = {"molecules-1024": 1024, "molecules-8192": 8192}
EDGES = {
    **{name: 2 * pairs for name, (_, pairs) in SIZES.items()},
    **{name: 52 * count for name, count in BATCHES.items()},
    "sets": 64 * 256**2,
    "hub": 2_000_000,
}
"""About so many edges at scale 1."""
NAMES = tuple(EDGES)


def make(name: str, scale: float, device: torch.device) -> Case:
    """The graph of this name at a scale of its size; the same in every run."""
    generator = torch.Generator(device).manual_seed(0)
    if name in SIZES:
        nodes, pairs = (max(8, int(size * scale)) for size in SIZES[name])
        fits = pairs < 5e6
        return Case(name, power_law(nodes, pairs, generator), nodes, fits=fits)
    if name in BATCHES:
        return molecules(name, max(2, int(BATCHES[name] * scale)), generator)
    if name == "sets":  # complete graphs, as self-attention over sets has them
        size = max(4, int(256 * scale**0.5))
        place = torch.arange(64 * size, device=device)
        source = place.view(64, 1, size).expand(64, size, size).reshape(-1)
        return Case(
            name, torch.stack([source, place.repeat_interleave(size)]), 64 * size, place // size
        )
    nodes = max(8, int(1_000_000 * scale))  # all nodes to one and back
    others = torch.arange(1, nodes, device=device)
    both = torch.stack([torch.cat([others, others * 0]), torch.cat([others * 0, others])])
    return Case(name, both, nodes)


def power_law(nodes: int, pairs: int, generator: torch.Generator) -> Tensor:
    """Pairs of a uniform node and one drawn as rank^-0.75, both ways, and a loop on every node."""
    device = generator.device
    rank = torch.rand(pairs, generator=generator, device=device, dtype=torch.float64) ** 4
    shuffled = torch.randperm(nodes, generator=generator, device=device)
    popular = shuffled[(rank * nodes).long().clamp_(max=nodes - 1)]
    uniform = torch.randint(nodes, (pairs,), generator=generator, device=device)
    uniform = torch.where(uniform == popular, (uniform + 1) % nodes, uniform)
    loops = torch.arange(nodes, device=device)
    return torch.stack([
        torch.cat([uniform, popular, loops]), torch.cat([popular, uniform, loops])
    ])  # fmt: skip


def molecules(name: str, count: int, generator: torch.Generator) -> Case:
    """Trees of 6 to 60 nodes, 25 on average, that grow near their ends, with two rings each."""
    device = generator.device
    normal = torch.randn(count, generator=generator, device=device)
    sizes = (25 + 8 * normal).round().long().clamp(6, 60)
    ends = sizes.cumsum(0)
    nodes = int(ends[-1])
    batch = torch.repeat_interleave(torch.arange(count, device=device), sizes, output_size=nodes)
    place = torch.arange(nodes, device=device) - (ends - sizes)[batch]
    back = 1 + (3 * torch.rand(nodes, generator=generator, device=device) ** 3).long()
    child = place.nonzero().squeeze(1)
    parent = child - torch.minimum(back[child], place[child])
    opener = torch.cat([ends - sizes, ends - 6])
    source, target = torch.cat([child, opener]), torch.cat([parent, opener + 5])
    edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    return Case(name, torch.unique(edges, dim=1), nodes, batch)


Inputs = dict[str, Tensor]
Function = Callable[..., Tensor]


def inputs(operator: str, case: Case, heads: int, channels: int, dtype: torch.dtype) -> Inputs:
    """Leaves of an operator by name; float64 holds the same numbers as ``dtype``."""
    n, e, device = case.num_nodes, case.num_edges, case.edge_index.device
    generator = torch.Generator(device).manual_seed(1)
    wide = (n, heads, channels)
    shapes = {
        "additive": {"query_score": (n, heads), "key_score": (n, heads), "value": wide},
        "mlp": {"query": wide, "key": wide, "weight": (heads, channels)},
        "dot_product": {"query": wide, "key": wide, "value": wide},
        "dot_product+edges": {
            "query": wide, "key": wide, "value": wide, "edge_attr": (e, FEATURES),
            "edge_proj": (heads, channels, FEATURES),
        },
    }[operator]  # fmt: skip
    return {
        name: torch.randn(shape, generator=generator, device=device).to(dtype).requires_grad_()
        for name, shape in shapes.items()
    }


def graph_of(case: Case, plain: bool = False) -> gattn.Graph:
    """The graph of a case; with all that is known of it, unless plain."""
    if case.batch is not None and not plain:
        ptr = F.pad(torch.bincount(case.batch).cumsum(0), (1, 0))
        return gattn.graphs.batched(case.edge_index, ptr)
    graph = gattn.Graph(case.edge_index, case.num_nodes)
    if plain:
        facts.put(graph.layout.facts, facts.BAND_AREA, 0)
    return graph


def ours(operator: str, graph: gattn.Graph, impl: str | None = None) -> Function:
    """gattn's operator on a graph, as a function of its leaves."""
    if operator == "mlp":
        return lambda query, key, weight: gattn.functional.mlp_attention(
            query, key, key, weight, graph, impl=impl
        )
    if operator == "additive":
        return lambda query_score, key_score, value: gattn.functional.additive_attention(
            query_score, key_score, value, graph, impl=impl
        )
    return lambda query, key, value, **edges: gattn.functional.dot_product_attention(
        query, key, value, graph, **edges, impl=impl
    )


PEERS = ("pyg", "pyg_compiled", "flex_attention", "padded_sdpa", "anemoi")


def peers(operator: str, case: Case) -> Iterator[tuple[str, Callable[[], Function]]]:
    """Names of the peers and what makes each of them; layouts and masks are made there."""
    yield "pyg", lambda: pyg_eager(operator, case)
    yield "pyg_compiled", lambda: compiled(pyg_eager(operator, case))
    if operator == "dot_product":
        yield "flex_attention", lambda: flex(case)
        yield "padded_sdpa", lambda: padded(case)
    if operator.startswith("dot_product"):
        yield "anemoi", lambda: anemoi(case)


def compiled(function: Function) -> Function:
    """Compile anew: the cases share their code, and dynamo runs it uncompiled after a few."""
    torch.compiler.reset()
    return torch.compile(function, dynamic=False)


def pyg_eager(operator: str, case: Case) -> Function:
    """The message passing of PyG's layer of this operator, given projected inputs."""
    if not case.fits:
        raise CannotRun("edges x heads x channels do not fit")
    edge_index = case.edge_index

    if operator == "additive":
        gat = pyg.GATConv(1, 1, bias=False)

        def additive(query_score: Tensor, key_score: Tensor, value: Tensor) -> Tensor:
            alpha = gat.edge_updater(
                edge_index, alpha=(key_score, query_score), edge_attr=None, size=None
            )
            return gat.propagate(edge_index, x=(value, value), alpha=alpha, size=None)

        return additive
    if operator == "mlp":
        gatv2 = pyg.GATv2Conv(1, 1, bias=False)

        def mlp(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
            gatv2._parameters["att"] = weight.unsqueeze(0)
            alpha = gatv2.edge_updater(edge_index, x=(key, query), edge_attr=None)
            return gatv2.propagate(edge_index, x=(key, query), alpha=alpha)

        return mlp

    layers: dict[tuple[int, int, bool], pyg.TransformerConv] = {}

    def dot_product(query: Tensor, key: Tensor, value: Tensor, **edges: Tensor) -> Tensor:
        heads, channels = query.shape[1:]
        made = heads, channels, bool(edges)
        if made not in layers:  # making one takes longer than a small case
            edge_dim = FEATURES if edges else None
            layers[made] = pyg.TransformerConv(1, channels, heads, bias=False, edge_dim=edge_dim)
        layer, attr = layers[made], None
        if edges:
            layer.lin_edge._parameters["weight"] = edges["edge_proj"].flatten(0, 1)
            attr = edges["edge_attr"]
        return layer.propagate(edge_index, query=query, key=key, value=value, edge_attr=attr)

    return dot_product


def dense_mask(case: Case) -> Tensor:
    """Which node attends to which, [n, n] bool; for graphs that have no repeated edge."""
    n = case.num_nodes
    if n > 50_000:
        raise CannotRun("a dense mask of the graph does not fit")
    mask = torch.zeros(n, n, dtype=torch.bool, device=case.edge_index.device)
    mask[case.edge_index[1], case.edge_index[0]] = True
    if int(mask.sum()) != case.num_edges:
        raise CannotRun("the graph repeats edges")
    return mask


def flex(case: Case) -> Function:
    """FlexAttention with the graph as its block mask; nodes are padded to whole blocks."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    n, device = case.num_nodes, case.edge_index.device
    padded_n = 128 * math.ceil(n / 128)
    mask = F.pad(dense_mask(case), (0, padded_n - n, 0, padded_n - n))
    blocks = create_block_mask(
        lambda b, h, i, j: mask[i, j], None, None, padded_n, padded_n, device=device.type
    )
    attend = compiled(flex_attention) if device.type == "cuda" else flex_attention

    def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q, k, v = (
            F.pad(x, (0, 0, 0, 0, 0, padded_n - n)).transpose(0, 1).unsqueeze(0)
            for x in (query, key, value)
        )
        return attend(q, k, v, block_mask=blocks).squeeze(0).transpose(0, 1)[:n]

    return run


def padded(case: Case) -> Function:
    """A batch padded to its largest graph, with a mask, through scaled_dot_product_attention."""
    if case.batch is None:
        raise CannotRun("not a batch of small graphs")
    batch, device = case.batch, case.edge_index.device
    sizes = torch.bincount(batch)
    count, longest = sizes.numel(), int(sizes.max())
    place = torch.arange(batch.numel(), device=device) - (sizes.cumsum(0) - sizes)[batch]
    at = batch * longest + place
    source, target = case.edge_index
    mask = torch.eye(longest, dtype=torch.bool, device=device).repeat(count, 1, 1)
    real = torch.zeros(count * longest, dtype=torch.bool, device=device)
    real[at] = True
    mask &= ~real.view(count, longest, 1)  # padded rows see themselves, so that none is empty
    mask[batch[target], place[target], place[source]] = True
    mask = mask.unsqueeze(1)

    def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        def pad(x: Tensor) -> Tensor:
            rows = x.new_zeros(count * longest, *x.shape[1:]).index_copy(0, at, x)
            return rows.view(count, longest, *x.shape[1:]).transpose(1, 2)

        out = F.scaled_dot_product_attention(pad(query), pad(key), pad(value), attn_mask=mask)
        return out.transpose(1, 2).flatten(0, 1)[at]

    return run


def anemoi(case: Case) -> Function:
    """The Triton graph transformer of anemoi-models; it is given W a_ij, [e, h, c], as it asks."""
    if not case.fits:
        raise CannotRun("edges x heads x channels do not fit")
    try:
        attend = importlib.import_module("anemoi.models.triton.gt").GraphTransformerFunction.apply
    except (ImportError, ValueError) as problem:
        raise CannotRun(f"anemoi-models cannot be imported ({problem})") from problem
    layout = gattn.Graph(case.edge_index, case.num_nodes).layout
    destination = torch.empty_like(layout.row).index_copy_(0, layout.csr2csc.long(), layout.row)
    csc = layout.col, layout.rowptr
    reverse = layout.colptr, layout.csr2csc, destination

    def run(query: Tensor, key: Tensor, value: Tensor, **edges: Tensor) -> Tensor:
        if edges:
            attr = edges["edge_attr"][layout.perm.long()]
            e = torch.einsum("ed,hcd->ehc", attr, edges["edge_proj"])
        else:
            e = query.new_zeros(case.num_edges, *query.shape[1:])
        return attend(query, key, value, e, csc, reverse)

    return run
