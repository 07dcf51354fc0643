"""Networks of molecules, computed only with operators of PyTorch itself, which exporters can
translate.

The functions compute the same as :meth:`gattn.apps.molecules.network.MoleculeNetwork.forward`, with
gathers, scatters and products instead of gattn's kernels.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.apps.molecules.layers import SLOPE, BondAttention, QueryReadout
from gattn.apps.molecules.network import ATOMS, MoleculeNetwork

__all__ = ["PlainBatch", "network_outputs", "segment_softmax", "segment_sum"]


class PlainBatch(NamedTuple):
    """Batch of molecules as inputs of an exported network.

    Attributes:
        atoms: [n, d] float32, features of the atoms.
        edges: [2, e] int64, the bonds in both directions.
        bonds: [e, b] float32, features of the edges.
        molecule: [n] int64, the molecule of each atom.
        sizes: [m] int64, the number of atoms of each molecule, above 0.
    """

    atoms: Tensor
    edges: Tensor
    bonds: Tensor
    molecule: Tensor
    sizes: Tensor


def network_outputs(network: MoleculeNetwork, batch: PlainBatch) -> Tensor:
    """Compute the outputs of a network, [m, t]: scaled targets, or logits of classes."""
    return network.head(network.readouts(_molecule_vectors(network, batch)))


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
