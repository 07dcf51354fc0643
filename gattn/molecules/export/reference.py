"""Networks of molecules, computed only with operators of PyTorch itself, which exporters can
translate.

The functions compute the same as :meth:`gattn.molecules.network.MoleculeNetwork.forward` and
:meth:`gattn.molecules.network.AttentiveFPNetwork.forward`, with gathers, scatters and products
instead of gattn's kernels.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gattn.molecules.layers import SLOPE, BondAttention, QueryReadout
from gattn.molecules.network import ATOMS, AttentiveFPNetwork, MoleculeNetwork

__all__ = ["PlainBatch", "network_outputs", "segment_softmax", "segment_sum"]

BOND_SLOPE = 0.01
"""Negative slope of the LeakyReLU that AttentiveFP applies to attention scores."""


class PlainBatch(NamedTuple):
    """Batch of molecules as inputs of an exported network.

    Attributes:
        atoms: [n, d] float32, features of the atoms.
        edges: [2, e] int64, the bonds in both directions.
        bonds: [e, b] float32, features of the edges.
        molecule: [n] int64, the molecule of each atom.
        sizes: [m] int64, the number of atoms of each molecule, above 0.
        columns: [g, f] float32, standardised descriptor columns; a row has m / g molecules.
    """

    atoms: Tensor
    edges: Tensor
    bonds: Tensor
    molecule: Tensor
    sizes: Tensor
    columns: Tensor


def network_outputs(network: MoleculeNetwork | AttentiveFPNetwork, batch: PlainBatch) -> Tensor:
    """Compute the outputs of a network, [g, t]: scaled targets, or logits of classes."""
    if isinstance(network, MoleculeNetwork):
        vectors = _molecule_vectors(network, batch)
    else:
        vectors = _attentive_vectors(network.model, batch)
    vectors = network.readouts(vectors)
    return network.head(torch.cat([vectors, batch.columns], 1) if network.extra else vectors)


def segment_sum(values: Tensor, segment: Tensor, count: int) -> Tensor:
    """Sum the rows of values [n, ...] within each segment: [count, ...].

    >>> segment_sum(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([1, 0, 1]), 2)
    tensor([[2.],
            [5.]])
    """
    index = segment.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return values.new_zeros(count, *values.shape[1:]).scatter_add(0, index, values)


def segment_softmax(score: Tensor, segment: Tensor, count: int) -> Tensor:
    """Compute the softmax of scores [n, h] within each segment: [n, h].

    >>> segment_softmax(torch.zeros(3, 1), torch.tensor([1, 0, 1]), 2).flatten()
    tensor([0.5000, 1.0000, 0.5000])
    """
    index = segment[:, None].expand_as(score)
    highest = score.new_full((count, score.shape[1]), -torch.inf)
    highest = highest.scatter_reduce(0, index, score, "amax")
    weights = (score - highest[segment]).exp()
    return weights / segment_sum(weights, segment, count)[segment]


def _molecule_vectors(network: MoleculeNetwork, batch: PlainBatch) -> Tensor:
    """Return the vector of each molecule, [m, 5 * width]."""
    atoms, molecules = batch.atoms.shape[0], batch.sizes.shape[0]
    x = network.atoms(batch.atoms).relu()
    source, destination = batch.edges.unbind(0)
    itself = torch.arange(atoms)
    bonds = segment_sum(batch.bonds, destination, atoms)
    degree = segment_sum(torch.ones_like(batch.bonds[:, :1]), destination, atoms)
    features = torch.cat([batch.bonds, bonds / degree.clamp(min=1)])
    source, destination = torch.cat([source, itself]), torch.cat([destination, itself])
    for norm, conv in zip(network.norms, network.convs):
        layer = cast(BondAttention, conv)
        x = x + F.elu(_bond_attention(layer, norm(x), source, destination, features))
    attended = _query_readout(network.attend, x, batch.molecule, molecules)
    total = segment_sum(x, batch.molecule, molecules)
    projected = F.linear(total, network.project.weight)
    projected = projected + batch.sizes[:, None].to(x.dtype) * network.project.bias
    return torch.cat([attended, projected / ATOMS], 1)


def _bond_attention(
    layer: BondAttention, x: Tensor, source: Tensor, destination: Tensor, features: Tensor
) -> Tensor:
    """Compute :class:`BondAttention` along edges that already contain the self-loops: [n, h *
    c].
    """
    heads, channels = layer.att_src.shape[1:]
    value = layer.lin(x).unflatten(1, (heads, channels))
    folded = (layer.att_edge * layer.lin_edge.weight.T.unflatten(1, (heads, channels))).sum(2)
    score = (value * layer.att_src).sum(2)[source] + (value * layer.att_dst).sum(2)[destination]
    score = F.leaky_relu(score + features @ folded, SLOPE)
    weights = segment_softmax(score, destination, x.shape[0])
    message = weights[..., None] * value[source]
    return segment_sum(message, destination, x.shape[0]).flatten(1) + layer.bias


def _query_readout(readout: QueryReadout, x: Tensor, molecule: Tensor, molecules: int) -> Tensor:
    """Compute :class:`QueryReadout`: [m, k * d]."""
    queries, heads = readout.queries, readout.heads
    key, value, query = (
        each.unflatten(1, (heads, -1))
        for each in (readout.lin_key(x), readout.lin_value(x), readout.query)
    )
    score = torch.einsum("nhc,khc->nkh", key, query) * query.shape[2] ** -0.5
    weights = segment_softmax(score.flatten(1), molecule, molecules)
    weights = weights.unflatten(1, (queries, heads))
    pooled = segment_sum(weights[..., None] * value[:, None], molecule, molecules)
    return readout.lin_out(pooled.flatten(2)).flatten(1)


def _attentive_vectors(model: Any, batch: PlainBatch) -> Tensor:
    """Compute :class:`gattn.models.AttentiveFP`: [m, width]."""
    atoms, molecules = batch.atoms.shape[0], batch.sizes.shape[0]
    source, destination = batch.edges.unbind(0)
    x = F.leaky_relu(model.lin1(batch.atoms))
    gate = model.gate_conv
    hidden = F.leaky_relu(gate.lin1(torch.cat([x[source], batch.bonds], 1)))
    score = F.linear(hidden, gate.att_l) + F.linear(x, gate.att_r)[destination]
    weights = segment_softmax(F.leaky_relu(score, BOND_SLOPE), destination, atoms)
    message = segment_sum(weights * gate.lin2(x)[source], destination, atoms)
    x = _refined(model.gru, message + gate.bias, x)
    for conv, gru in zip(model.atom_convs, model.atom_grus):
        x = _refined(gru, _graph_attention(conv, x, x, source, destination), x)
    out = segment_sum(x, batch.molecule, molecules).relu()
    for _ in range(model.num_timesteps):
        message = _graph_attention(model.mol_conv, x, out, torch.arange(atoms), batch.molecule)
        out = _refined(model.mol_gru, message, out)
    return model.lin2(out)


def _graph_attention(
    conv: Any, x: Tensor, queries: Tensor, source: Tensor, destination: Tensor
) -> Tensor:
    """Compute a :class:`gattn.nn.GATConv` with one head, from nodes x to queries: [k, c]."""
    value, count = conv.lin(x), queries.shape[0]
    from_source = F.linear(value, conv.att_src.flatten(1))[source]
    score = from_source + F.linear(conv.lin(queries), conv.att_dst.flatten(1))[destination]
    weights = segment_softmax(F.leaky_relu(score, conv.negative_slope), destination, count)
    return segment_sum(weights * value[source], destination, count) + conv.bias


def _refined(gru: nn.Module, message: Tensor, state: Tensor) -> Tensor:
    return gru(F.elu(message), state).relu()
