"""Neural networks for molecules, with attention along bonds and a readout of the atoms."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import Parameter

from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data.molecules.features import ATOM_FEATURES, BOND_FEATURES
from gattn.functional import gat_attention
from gattn.graph import Graph, as_graph
from gattn.graph.cache import cached
from gattn.kernels import cpu
from gattn.kernels.precision import infinite_as_nan
from gattn.layout.layout import owners
from gattn.nn.attention.learned_query import learned_query_pool, learned_query_score
from gattn.ops import projection
from gattn.ops.edges import sum_incoming
from gattn.ops.nodes import node_scores
from gattn.ops.registration import path_trace
from gattn.ops.registration.backend import is_transformed

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs
    from gattn.data.molecules.arrays import MoleculeArrays

LANES = 8
"""Multiple to which the kernel pads the number of heads."""
MAX_EDGES = 1 << 30
"""Maximum number of atoms and of edges, which the kernel numbers with 32 bits."""


class NetworkSizes(NamedTuple):
    """Sizes of the network (layers, heads, learned queries), and the number of threads."""

    layers: int
    heads: int
    queries: int
    threads: int


class NetworkGraph(NamedTuple):
    """Batch of g molecules, with n atoms, e edges and f descriptors, as input for the network.

    Attributes:
        x: [n, features of an atom].
        edge_index: [2, e] int64, the bonds in both directions; self-loops are ignored.
        edge_attr: [e, features of a bond].
        ptr: [g + 1] int64, the index of each molecule's first atom.
        extra: [g, f], descriptors that are inputs of the head.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    ptr: Tensor
    extra: Tensor


def obstacle(graph: NetworkGraph, parameters: Sequence[Tensor]) -> str:
    """Return the reason why the C++ kernel cannot compute the network; "" if it can.

    The kernel computes fp32 and fp64 on a CPU, and no gradients of the batch.
    """
    x = graph.x
    numbers = (graph.x, graph.edge_attr, graph.extra)
    if not cpu.serves(x.device):
        return f"there are no C++ kernels for the device {x.device}"
    if x.dtype not in (torch.float32, torch.float64) or torch.is_autocast_enabled("cpu"):
        return "the kernel computes only in fp32 and fp64: leave out autocast and 16-bit inputs"
    if any(t.dtype != x.dtype for t in (*numbers, *parameters)):
        return "the inputs and the parameters must have the same dtype"
    if any(p.device != x.device for p in parameters):
        return "the inputs and the parameters must be on the same device"
    if any(t.requires_grad for t in numbers):
        return "the kernel computes no gradients of the atoms and bonds"
    if not graph.edge_index.dtype == graph.ptr.dtype == torch.int64:
        return "edge_index and ptr must be int64"
    if max(len(x), len(graph.edge_attr)) >= MAX_EDGES:
        return f"the batch must have less than {MAX_EDGES:,} atoms and edges"
    plain = all(type(t) is Tensor for t in numbers) or _is_dry_run()
    if not plain or torch.compiler.is_compiling() or is_transformed():
        return "torch.compile, function transforms and subclasses of tensors need the layers"
    return ""


def _is_dry_run() -> bool:
    return bool(path_trace.listeners) and path_trace.is_dry_run()


def molecule_network(
    graph: NetworkGraph, parameters: Sequence[Tensor], sizes: NetworkSizes
) -> Tensor:
    """Compute the network; see :class:`gattn.apps.molecules.network.MoleculeNetwork` for the
    equation.

    Args:
        graph: the batch of g molecules.
        parameters: weight and bias of the atoms; for each layer those of the norm, then ``lin``,
            ``att_src``, ``att_dst``, ``lin_edge``, ``att_edge`` and ``bias``; for the readout
            the queries, the weights of keys and values, weight and bias of its result; then weight
            and bias of the sum of the atoms and of the two layers of the head.
        sizes: sizes of the network, and the number of threads.

    Returns:
        [g, t]. Its gradients with respect to the parameters cannot be differentiated again.

    Raises:
        ValueError: an edge joins two molecules, ``ptr`` does not divide the atoms, or a shape is
            not that of the parameters.
    """
    _check(graph, parameters, sizes)
    if _is_dry_run():
        path_trace.report("molecule_network", "cpu", "fused")
        return graph.x.new_empty(len(graph.ptr) - 1, len(parameters[-1]))
    if torch.is_grad_enabled() and any(p.requires_grad for p in parameters):
        return _Network.apply(graph, sizes, *parameters)
    return _forward(graph, parameters, sizes, False)[0]


def _check(graph: NetworkGraph, parameters: Sequence[Tensor], sizes: NetworkSizes) -> None:
    """Check the shapes of the batch, because the kernel reads it without checks. Raises ValueError
    for the first wrong shape. The parameters are in the order of :func:`molecule_network`.
    """
    atoms, edges, molecules = len(graph.x), graph.edge_index.shape[-1], len(graph.ptr) - 1
    width, features = parameters[0].shape
    edge_features = parameters[7].shape[1]
    extra = parameters[-4].shape[1] - (sizes.queries + 1) * width
    expected = {
        "x": (atoms, features), "edge_index": (2, edges), "edge_attr": (edges, edge_features),
        "extra": (molecules, extra),
    }  # fmt: skip
    for name, shape in expected.items():
        if (got := tuple(getattr(graph, name).shape)) != shape:
            raise ValueError(f"{name} must be {shape}; got {got}")


class _Network(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graph: NetworkGraph, sizes: NetworkSizes, *parameters: Tensor) -> Tensor:
        """Return the predictions [g, t], computed by one kernel, and save what its backward pass
        reads.
        """
        out, states = _forward(graph, parameters, sizes, True)
        ctx.graph, ctx.sizes, ctx.states = graph, sizes, states
        ctx.save_for_backward(*parameters)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Return the gradients of the parameters, computed by one kernel; the batch gets none."""
        parameters = ctx.saved_tensors
        lengths = [p.numel() for p in parameters]
        gradients = grad.new_empty(sum(lengths))
        _run("molecule_network_backward", ctx.graph, parameters, ctx.sizes, ctx.states, {
            "grad": grad.contiguous(), "gradients": gradients,
        })  # fmt: skip
        pairs = zip(gradients.split(lengths), parameters)
        return None, None, *(gradient.view(p.shape) for gradient, p in pairs)


def _forward(
    graph: NetworkGraph, parameters: Sequence[Tensor], sizes: NetworkSizes, is_saved: bool
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the output [g, t] and the tensors that the kernel writes; with ``is_saved``, also
    those that backward needs. The parameters are in the order of :func:`molecule_network`.
    """
    x, molecules, width = graph.x, len(graph.ptr) - 1, len(parameters[0])
    atoms, edges = len(x), graph.edge_index.shape[1]
    layers, heads, queries, _ = sizes
    lanes, head_input = -(-heads // LANES) * LANES, parameters[-4].shape[1]
    states = {
        "edges": torch.empty(atoms + 1 + 2 * edges, dtype=torch.int32, device=x.device),
        "pooled": x.new_empty(molecules, queries**2 + 1, width),
        "values": x.new_empty(molecules, queries, width),
        "head_input": x.new_empty(molecules, head_input),
        "hidden": x.new_empty(molecules, width),
    }
    if is_saved:
        states["rows"] = cpu.empty(x, 2 + 3 * layers, atoms, width)
        states["inverse_std"] = x.new_empty(layers, atoms)
        states["edge_weights"] = x.new_empty(layers, edges + atoms, lanes)
        states["query_weights"] = x.new_empty(atoms, queries**2)
    out = x.new_empty(molecules, len(parameters[-1]))
    _run("molecule_network", graph, parameters, sizes, states, {"out": out})
    return out, states


def _run(
    kernel: str, graph: NetworkGraph, parameters: Sequence[Tensor], sizes: NetworkSizes,
    states: dict[str, Tensor], more: dict[str, Tensor],
) -> None:  # fmt: skip
    """Call a kernel of the network with its tensors and sizes; it writes to ``states`` and
    ``more``.
    """
    source, destination = graph.edge_index.contiguous()
    # The tensors must exist until the kernel ends, because the table of arguments contains their
    # addresses.
    weights = [p.contiguous() for p in parameters]
    values: dict[str, Any] = {
        "x": graph.x, "edge_attr": graph.edge_attr, "ptr": graph.ptr,
        "extra_descriptors": graph.extra, "source": source, "destination": destination,
        "parameters": torch.tensor([p.data_ptr() for p in weights]),
        "num_atoms": len(graph.x), "num_edges": len(source), "num_molecules": len(graph.ptr) - 1,
        "atom_features": graph.x.shape[1], "edge_features": graph.edge_attr.shape[1],
        "width": len(weights[0]), "extra": graph.extra.shape[1], "targets": len(weights[-1]),
        **sizes._asdict(), **states, **more,
    }  # fmt: skip
    _launcher(kernel, tuple(values))(list(values.values()))


@functools.cache
def _launcher(kernel: str, names: tuple[str, ...]) -> cpu.Launcher:
    """Return the launcher of a kernel whose fields have these names in this order."""
    optional = {
        "rows", "inverse_std", "edge_weights", "query_weights", "out", "grad", "gradients"
    }  # fmt: skip
    return cpu.Launcher(kernel, {name: i for i, name in enumerate(names)}, optional)


SLOPE = 0.2
"""Negative slope of the LeakyReLU that is applied to the attention scores."""


@dataclass(frozen=True, eq=False)
class MoleculeBatch:
    """Batch of g molecules: their graphs, joined into one graph without edges between molecules,
    and their descriptors.

    Attributes:
        x: [n, len(ATOM_FEATURES)] float32, features of the atoms.
        edge_index: [2, e] int64, the bonds in both directions.
        edge_attr: [e, len(BOND_FEATURES)] float32, features of the bonds.
        batch: [n] int64, the molecule of each atom.
        ptr: [g + 1] int64, the index of each molecule's first atom.
        descriptors: [g, len(DESCRIPTORS)] float32.
        extra_descriptors: [g, f] float32, standardised descriptor columns of the user.
        counts: [g, c] uint8, counts of environments and of pairs of atoms; c is 0 if no network
            reads them.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    batch: Tensor
    ptr: Tensor
    descriptors: Tensor
    extra_descriptors: Tensor
    counts: Tensor

    def to(self, device: Any) -> MoleculeBatch:
        """Return a batch with all tensors on a device."""
        return MoleculeBatch(*(getattr(self, field.name).to(device) for field in fields(self)))


class BondAttention(nn.Module):
    r"""Graph attention along bonds, with the same results as :class:`gattn.nn.GATConv`.

    .. math::
        x'_i = \Big\Vert_h \sum_{j \in N(i)} \alpha_{ij} W x_j + b, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}
        (a_t \cdot W x_i + a_s \cdot W x_j + a_e \cdot W_e e_{ij})

    The graph is the result of :func:`with_atom_loops`, so that an atom attends to itself, too. The
    initial weights are drawn by torch's global generator.

    Args:
        in_channels: features of an atom, d.
        out_channels: channels per head, c.
        heads: number of heads, h.
        edge_dim: features of a bond.

    Shapes:
        - **input:** x [n, d]; a graph of n nodes and e edges; edge_attr [e, edge_dim]
        - **output:** [n, h * c]

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018).
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int, edge_dim: int) -> None:
        super().__init__()
        width = heads * out_channels
        self.lin = _GlorotLinear(in_channels, width, bias=False)
        self.att_src = Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = _GlorotLinear(edge_dim, width, bias=False)
        self.att_edge = Parameter(torch.empty(1, heads, out_channels))
        self.bias = Parameter(torch.zeros(width))
        # GATConv initialises its weights twice. This layer does the same, so that a seed gives the
        # same parameters in both.
        parameters = self.lin.weight, self.lin_edge.weight, self.att_src, self.att_dst
        for parameter in (*parameters, self.att_edge):
            _draw_glorot(parameter)

    def forward(self, x: Tensor, graph: Graph, edge_attr: Tensor) -> Tensor:
        """Return new features of the atoms, computed by attention along the bonds.

        Args:
            x: features of the atoms, see Shapes.
            graph: the bonds and self-loops.
            edge_attr: features of the edges, see Shapes.

        Returns:
            The new features of the atoms.

        Raises:
            TypeError: the dtypes differ.
            ValueError: a shape is wrong.
        """
        projected = projection.linear(x, self.lin.weight)
        heads, channels = self.att_src.shape[1:]
        value = projected.unflatten(1, (heads, channels))
        vectors = torch.cat([self.att_dst, self.att_src]).to(projected.dtype)
        scores = node_scores(value, vectors)
        query, key = infinite_as_nan(scores).unbind(0)
        weight = self.lin_edge.weight.view(heads, channels, -1)
        folded = (self.att_edge.transpose(0, 1) @ weight).squeeze(1)
        edge = infinite_as_nan(F.linear(edge_attr, folded))
        out = gat_attention(query, key, value, graph, edge_score=edge, negative_slope=SLOPE)
        out = out.flatten(1)
        return out + self.bias.to(out.dtype)


class QueryReadout(nn.Module):
    r"""Readout by attention of learned queries, with the same results as
    :class:`gattn.nn.LearnedQueryReadout`.

    .. math::
        o_{gq} = W_o \Big\Vert_h \sum_{j \in g} \alpha_{jqh} W_v^{(h)} x_j + b, \qquad
        \alpha_{jqh} = \mathrm{softmax}_{j \in g}
        \frac{q_{qh} \cdot W_k^{(h)} x_j}{\sqrt{c}}

    The initial weights are drawn by torch's global generator.

    Args:
        channels: features of an atom and of the result of a query, d.
        queries: number of learned queries, k.
        heads: heads of each query, h.

    Shapes:
        - **input:** x [n, d]; ptr [g + 1] int64, the first atom of each molecule
        - **output:** [g, k * d]; zeros for a molecule without atoms

    Reference:
        Lee et al., "Set Transformer" (ICML 2019), pooling by attention.
    """

    def __init__(self, channels: int, queries: int, heads: int) -> None:
        super().__init__()
        self.queries, self.heads = queries, heads
        self.query = Parameter(torch.empty(queries, channels))
        self.lin_key = nn.Linear(channels, channels, bias=False)
        self.lin_value = nn.Linear(channels, channels, bias=False)
        self.lin_out = nn.Linear(channels, channels)
        for parameter in (self.query, self.lin_key.weight, self.lin_value.weight):
            nn.init.xavier_uniform_(parameter)
        # LearnedQueryReadout initialises its weights twice. This layer does the same, so that a
        # seed gives the same parameters in both.
        self.lin_out.reset_parameters()

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        """Compute a weighted sum of the atoms of each molecule for each query.

        Args:
            x: features of the atoms, see Shapes.
            ptr: the index of each molecule's first atom, see Shapes.

        Returns:
            One row for each molecule.
        """
        # len() would make the sizes constants of an exported model.
        segments = _segments(ptr, x.shape[0])
        weight = self.lin_value.weight.unflatten(0, (self.heads, -1))
        out = self.lin_out(learned_query_pool(self._score(x), x, weight, segments, 0.0))
        empty = segments.layout.rowptr.diff() == 0
        return out.masked_fill(empty.view(-1, 1, 1), 0.0).flatten(1)

    def _score(self, x: Tensor) -> Tensor:
        weight = self.lin_key.weight.unflatten(0, (self.heads, -1))
        return learned_query_score(self.query, weight, x)


def sum_atoms(x: Tensor, batch: Tensor, molecules: int) -> Tensor:
    """Sum the features x [n, d] over the atoms of each molecule: [g, d]."""
    return x.new_zeros(molecules, x.shape[1]).scatter_add_(0, batch[:, None].expand_as(x), x)


class _GlorotLinear(nn.Linear):
    """Linear layer whose weight is initialised by the method of Glorot and Bengio (AISTATS
    2010).
    """

    def reset_parameters(self) -> None:
        _draw_glorot(self.weight)


def _draw_glorot(parameter: Tensor) -> None:
    bound = math.sqrt(6.0 / (parameter.shape[-2] + parameter.shape[-1]))
    nn.init.uniform_(parameter, -bound, bound)


def with_atom_loops(edge_index: Tensor, edge_attr: Tensor, atoms: int) -> tuple[Graph, Tensor]:
    """Add a self-loop at each atom, in place of those in ``edge_index``. Its edge features are the
    mean of the features of the atom's bonds.

    Args:
        edge_index: [2, e] int64, the bonds in both directions.
        edge_attr: [e, d] features of the bonds.
        atoms: number of atoms n.

    Returns:
        The graph of e + n edges, and their features [e + n, d]; zeros for an atom without bonds.

    Raises:
        ValueError: an index is out of range.
    """
    graph = as_graph(edge_index, (atoms, atoms), self_loops=True)
    rows = edge_attr if graph.kept_edges is None else edge_attr[graph.kept_edges]
    total = sum_incoming(F.pad(rows, (0, 0, 0, graph.num_dst)), graph)
    degree = graph.in_degree()[:, None] - 1
    return graph, torch.cat([rows, total / degree.clamp(min=1).to(total.dtype)])


def _segments(ptr: Tensor, atoms: int) -> Graph:
    """Return the graph that connects each atom to its molecule. The graph is cached for ``ptr``."""

    def build() -> Graph:
        """Return the graph with one edge from each atom to its molecule."""
        molecule = owners(ptr, atoms)
        atom = torch.arange(atoms, dtype=molecule.dtype, device=molecule.device)
        return Graph(torch.stack([atom, molecule]), (atoms, ptr.shape[0] - 1))

    return cached(ptr, ("molecules", atoms), build)


QUERIES = 4
"""Number of learned queries in a readout, and number of heads of each query."""
ATOMS = 10.0
"""Sums over atoms are divided by this number, which is about the number of atoms in a small
molecule.
"""


def network_counts(inputs: MoleculeInputs) -> Tensor:
    """Return the counts of environments and of pairs of atoms that a network reads: [k, c]
    uint8.
    """
    return torch.cat([inputs.counts, inputs.pairs], 1)


def batch_inputs(inputs: MoleculeInputs, *, counts: bool = False) -> MoleculeBatch:
    """Combine molecules into one batch for a network.

    Args:
        inputs: g molecules.
        counts: whether the batch contains the counts that a network with columns reads.

    Returns:
        The batch: the graphs, joined as by :func:`gattn.data.batch_molecules`, and the descriptors.
        If a row has c molecules, ``batch`` and ``ptr`` are those of the g c molecules.
    """
    arrays = inputs.molecules.arrays.copy()
    extra, sizes = inputs.extra_descriptors.float(), inputs.molecule_sizes
    some = network_counts(inputs) if counts else torch.empty(len(inputs), 0, dtype=torch.uint8)
    return join_graphs(arrays, inputs.descriptors, extra, some, sizes)


def join_graphs(
    arrays: MoleculeArrays,
    descriptors: Tensor,
    extra_descriptors: Tensor,
    counts: Tensor,
    sizes: Tensor | None = None,
) -> MoleculeBatch:
    """Combine molecules into one batch, whose features of atoms and bonds share the memory of
    ``arrays``.

    Args:
        arrays: graphs of g molecules.
        descriptors: [g, len(DESCRIPTORS)] float32.
        extra_descriptors: [g, f] float32, descriptor columns of the user.
        counts: [g, c] uint8; see :class:`MoleculeBatch`.
        sizes: [g, c] int64, the number of atoms of each molecule of a row; None if every row has
            one graph.
    """
    bonds = arrays.edge_ptr.diff()
    atoms = arrays.ptr.diff() if sizes is None else sizes.flatten()
    ptr = arrays.ptr if sizes is None else F.pad(atoms.cumsum(0), (1, 0))
    return MoleculeBatch(
        x=arrays.x,
        edge_index=arrays.edge_index + arrays.ptr[:-1].repeat_interleave(bonds),
        edge_attr=arrays.edge_attr,
        batch=torch.arange(len(atoms)).repeat_interleave(atoms),
        ptr=ptr,
        descriptors=descriptors,
        extra_descriptors=extra_descriptors,
        counts=counts,
    )


def feature_sizes(settings: MoleculeSettings) -> tuple[int, int]:
    """Return the number of features of an atom and of a bond. In a reaction, both sides have their
    own features.

    >>> feature_sizes(MoleculeSettings()), feature_sizes(MoleculeSettings(reaction=True))
    ((49, 14), (98, 28))
    """
    sides = 2 if settings.reaction else 1
    return sides * len(ATOM_FEATURES), sides * len(BOND_FEATURES)


class AtomLayers(nn.Module):
    r"""Attention layers that compute features of the atoms in molecules.

    .. math:: x \leftarrow x + \mathrm{ELU}(\mathrm{GATConv}(\mathrm{LayerNorm}(x)))
        \text{ for every layer}

    The initial weights are drawn by torch's global generator.

    Args:
        settings: ``width``, ``layers``, ``heads`` and ``dropout`` are read.

    Attributes:
        reads_counts: whether the network reads the counts of a batch.

    Reference:
        Veličković et al., "Graph Attention Networks" (ICLR 2018).
    """

    reads_counts = False

    def __init__(self, settings: MoleculeSettings) -> None:
        super().__init__()
        width, heads = settings.width, settings.heads
        self.heads = heads
        atom_features, bond_features = feature_sizes(settings)
        self.dropout = nn.Dropout(settings.dropout)
        self.atoms = nn.Linear(atom_features, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(settings.layers))
        self.convs = nn.ModuleList(
            BondAttention(width, width // heads, heads, bond_features)
            for _ in range(settings.layers)
        )

    def atom_states(self, batch: MoleculeBatch) -> Tensor:
        """Return the features of the n atoms in a batch after the last layer: [n, width]."""
        x = self.atoms(batch.x).relu()
        # The self-loops are added once for all layers, because the number of operator calls limits
        # the speed of small batches.
        graph, bonds = with_atom_loops(batch.edge_index, batch.edge_attr, x.shape[0])
        for norm, conv in zip(self.norms, self.convs):
            x = x + self.dropout(F.elu(conv(norm(x), graph, bonds)))
        return x


LEAST = 3
"""An environment is read only if at least this number of training molecules have it."""
LEAST_SCALE = 0.3
"""Lowest number by which a column is divided, so that rare environments have no large values."""
FARTHEST = 6.0
"""Columns are clipped at this number of standard deviations."""


class MoleculeColumns(nn.Module):
    r"""Standardised descriptors and counts of molecules, as inputs of the head of a network.

    .. math:: z = \frac{(d \,\Vert\, \log(1 + c)) - m}{s}

    d are the descriptors, c some counts of environments and of pairs of atoms, m the means of the
    training part and s its standard deviations.

    Args:
        columns: [c] int64, the counts that are read.
        mean: [d + c] float32, the means m.
        scale: [d + c] float32, the standard deviations s.

    Attributes:
        missing: probability that a column is replaced by its mean in a step of the training.
            Without this, the network memorises the training molecules by their environments.
    """

    columns: Tensor
    mean: Tensor
    scale: Tensor
    missing = 0.5

    def __init__(self, columns: Tensor, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("columns", columns)
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    @classmethod
    def fit(cls, batches: Iterable[MoleculeBatch]) -> MoleculeColumns:
        """Choose and scale the columns by the molecules of the training part. All descriptors are
        read, and each count that at least :data:`LEAST` molecules have. ``batches`` are those of
        the training part with their counts, at least one.
        """
        sums, count, first = torch.zeros(3, 1, dtype=torch.float64), 0, 0
        for some in batches:
            values = _columns(some.descriptors.double(), some.counts, slice(None))
            parts = values != 0, values, values.square()
            sums = sums + torch.stack([part.sum(0) for part in parts])
            count, first = count + len(values), some.descriptors.shape[1]
        columns = (sums[0, first:] >= LEAST).nonzero()[:, 0]
        places = torch.cat([torch.arange(first), first + columns])
        mean, square = sums[1:, places] / count
        scale = (square - mean.square()).clamp(min=LEAST_SCALE**2).sqrt()
        return cls(columns, mean.float(), scale.float())

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Return the standardised columns of the g molecules in a batch: [g, d + c]. In training,
        each number is set to 0 with the probability ``missing``, and the others are enlarged.
        """
        values = _columns(batch.descriptors, batch.counts, self.columns)
        scaled = ((values - self.mean) / self.scale).clamp(-FARTHEST, FARTHEST)
        return F.dropout(scaled, self.missing, self.training)


def _columns(descriptors: Tensor, counts: Tensor, columns: Tensor | slice) -> Tensor:
    return torch.cat([descriptors, counts[:, columns].to(descriptors.dtype).log1p()], 1)


class MoleculeNetwork(AtomLayers):
    r"""Graph attention network that predicts the targets of molecules from their atoms and bonds.

    .. math::
        x \leftarrow x + \mathrm{ELU}(\mathrm{GATConv}(\mathrm{LayerNorm}(x)))
        \text{ for every layer}, \qquad
        y = \mathrm{MLP}\Bigl(\mathrm{attend}(x) \,\Vert\, \tfrac{1}{10} \sum_j W x_j
        \,\Vert\, d \,\Vert\, z\Bigr)

    The learned queries of ``attend`` compute weighted means of the atoms. The sum of the atoms is
    added because means do not depend on the number of atoms. d are the f descriptor columns of the
    user, and z the columns of :class:`MoleculeColumns`. The initial weights are drawn by torch's
    global generator.

    Args:
        settings: ``width``, ``layers``, ``heads`` and ``dropout`` are read.
        targets: number t of targets.
        extra: number f of descriptor columns.
        molecules: number c of molecules in a row. The attention layers process each of the
            molecules with the same weights, and the MLP reads the vectors of all of them.
        columns: columns that the MLP reads; None for the graph alone.

    Attributes:
        threads: maximum number of threads that compute a batch on a CPU. It does not change the
            bits of the result.

    Shapes:
        - **input:** a batch of g molecules from :func:`batch_inputs` or
          :func:`gattn.data.batch_molecules`
        - **output:** [g, t], in the unit of the training; for classes logits

    Reference:
        Veličković et al., "Graph Attention Networks" (ICLR 2018); Lee et al., "Set Transformer"
        (ICML 2019), for the readout.

    Example:
        >>> from gattn.data import batch_molecules, smiles_to_data
        >>> network = MoleculeNetwork(MoleculeSettings(width=16), targets=2)
        >>> network(batch_molecules([smiles_to_data("CCO"), smiles_to_data("C")])).shape
        torch.Size([2, 2])
    """

    threads: int = 1

    def __init__(
        self, settings: MoleculeSettings, targets: int, extra: int = 0, molecules: int = 1,
        columns: MoleculeColumns | None = None,
    ) -> None:  # fmt: skip
        super().__init__(settings)
        self.extra, self.columns = extra, columns
        width = settings.width
        self.attend = QueryReadout(width, QUERIES, QUERIES)
        self.project = nn.Linear(width, width)
        self.molecules = molecules
        inputs = molecules * (QUERIES + 1) * width + extra
        if columns is not None:
            inputs, self.reads_counts = inputs + len(columns.mean), True
        self.head = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, targets))

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Predict the targets of every molecule in a batch.

        A CPU computes the whole network in one kernel, unless a row has several molecules, or
        dropout or a gradient of the batch is needed; see :func:`obstacle`.

        Args:
            batch: see Shapes.

        Returns:
            [g, t], one row for each molecule.

        Raises:
            ValueError: the batch has shapes that do not fit to the parameters, or a bond joins two
                molecules.
        """
        if self.molecules > 1:
            reason = "the kernel computes rows of one molecule"
        elif self.training and self.dropout.p:
            reason = "the kernel computes no dropout: call eval() or set dropout to 0"
        else:
            extra = self._of_molecules(batch)
            graph = NetworkGraph(batch.x, batch.edge_index, batch.edge_attr, batch.ptr, extra)
            parameters = self._kernel_parameters()
            reason = obstacle(graph, parameters)
            if not reason:
                sizes = NetworkSizes(len(self.convs), self.heads, QUERIES, self.threads)
                return molecule_network(graph, parameters, sizes)
        if path_trace.listeners:
            path_trace.report("", "", "layer by layer", f"not one kernel: {reason}")
        return self.by_layers(batch)

    def by_layers(self, batch: MoleculeBatch) -> Tensor:
        """Compute the result of :meth:`forward`, with one operator call for each step of the
        network.
        """
        vector = self.dropout(self.embed(batch))
        return self.head(torch.cat([vector, self._of_molecules(batch)], 1))

    def _of_molecules(self, batch: MoleculeBatch) -> Tensor:
        """Return the inputs of the head that do not depend on the graph."""
        rows = (batch.ptr.shape[0] - 1) // self.molecules
        parts = [batch.extra_descriptors if self.extra else batch.x.new_empty(rows, 0)]
        if self.columns is not None:
            parts.append(self.columns(batch))
        return torch.cat(parts, 1)

    def embed(self, batch: MoleculeBatch) -> Tensor:
        """Compute the hidden vector of each row. The targets are predicted from it, the
        descriptors d and the columns z.

        Args:
            batch: see Shapes.

        Returns:
            [g, 5 * width] for one molecule in a row; for several, their vectors are joined.
        """
        x = self.atom_states(batch)
        attended = self.attend(x, batch.ptr)
        # The sum of a molecule's atoms is projected, because this takes one product per molecule
        # instead of one per atom.
        total, count = sum_atoms(x, batch.batch, batch.ptr.shape[0] - 1), batch.ptr.diff()[:, None]
        projected = F.linear(total, self.project.weight) + count * self.project.bias
        vectors = torch.cat([attended, projected / ATOMS], 1)
        return vectors.unflatten(0, (-1, self.molecules)).flatten(1)

    def _kernel_parameters(self) -> list[Tensor]:
        """Return the parameters in the order of :func:`molecule_network`."""
        layers: list[Tensor] = []
        for norm, layer in zip(self.norms, self.convs):
            norm, conv = cast(nn.LayerNorm, norm), cast(BondAttention, layer)
            layers += [
                norm.weight, norm.bias, conv.lin.weight, conv.att_src, conv.att_dst,
                conv.lin_edge.weight, conv.att_edge, conv.bias,
            ]  # fmt: skip
        readout = self.attend
        hidden, last = (cast(nn.Linear, self.head[i]) for i in (0, 2))
        return [
            self.atoms.weight, self.atoms.bias, *layers,
            readout.query, readout.lin_key.weight, readout.lin_value.weight,
            readout.lin_out.weight, readout.lin_out.bias, self.project.weight, self.project.bias,
            hidden.weight, hidden.bias, last.weight, last.bias,
        ]  # fmt: skip
