"""Scores, and the definition of attention, that the tests of this folder share."""

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter

from gattn.functional import attention

NODES, HEADS, WIDTH = 12, 2, 3
NORMALIZE = ("softmax", "sum", "mean", "none", "sigmoid")


class Perceptron(Module):
    """GATv2's score with a term of the edges, and a message with a gate computed from the edges."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(torch.randn(HEADS, WIDTH))
        self.edge = Linear(2, HEADS)

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        return (self.weight * torch.tanh(query + key)).sum(-1) + self.edge(edge_attr)

    def gated(self, value: Tensor, edge_attr: Tensor) -> Tensor:
        return value * self.edge(edge_attr).sigmoid().unsqueeze(-1)


def gaussian(query: Tensor, key: Tensor, edge_attr: Tensor | None) -> Tensor:
    return -(query - key).square().sum(-1)


def plain(score, query, key, value, graph, edge_attr, message, normalize) -> Tensor:
    """Compute the definition with one row per edge."""
    source, destination = graph.edge_index
    scores = score(query[destination], key[source], edge_attr)
    f = {"softmax": scores.exp, "sigmoid": scores.sigmoid}.get(normalize, lambda: scores)()
    no_counts = f.new_zeros(graph.num_dst, HEADS)
    counts = {"softmax": f, "sum": f, "mean": torch.ones_like(f)}
    if normalize in counts:
        f = f / no_counts.index_add(0, destination, counts[normalize])[destination]
    values = value[source] if message is None else message(value[source], edge_attr)
    messages = f.unsqueeze(-1) * values
    return messages.new_zeros(graph.num_dst, *messages.shape[1:]).index_add(
        0, destination, messages
    )


def check_definition(hub, tensors, score, message, normalize) -> None:
    """Compare the output and the gradients of inputs and parameters with the definition."""
    options = {"edge_attr": tensors["edge_attr"], "message": message, "normalize": normalize}
    ends = tensors["query"], tensors["key"], tensors["value"]
    expected = plain(score, *ends, hub, **options)
    out = attention(score, *ends, hub, **options)
    torch.testing.assert_close(out, expected)
    inputs = [*tensors.values(), *score.parameters()]
    grad = torch.randn_like(expected)
    expected_grads = torch.autograd.grad(expected, inputs, grad)
    torch.testing.assert_close(torch.autograd.grad(out, inputs, grad), expected_grads)
