"""Compare apply_edges with its definition, in chunks and with few edges."""

import threading

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import gattn
from gattn.functional import apply_edges
from gattn.kernels.gather import gather_rows
from gattn.ops.custom_score import chunks


def _product(q: Tensor, k: Tensor, e: Tensor | None) -> Tensor:
    return q * k


def _query_and_key(hub: gattn.Graph, width: int = 4) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    query, key = torch.randn(hub.num_dst, width), torch.randn(hub.num_src, width)
    return query.double(), key.double()


def _plain(query: Tensor, key: Tensor, hub: gattn.Graph) -> Tensor:
    source, destination = hub.edge_index
    return query[destination] * key[source]


def check_gradients(ends: list[Tensor], hub: gattn.Graph) -> None:
    """Compare the gradients of the sum of squared real parts with autograd's."""
    grads, expected_grads = (
        torch.autograd.grad(product.real.square().sum(), ends)
        for product in (apply_edges(_product, *ends, hub), _plain(*ends, hub))
    )
    for grad, expected_grad in zip(grads, expected_grads):
        torch.testing.assert_close(grad, expected_grad)


def test_expanded_edge_features_are_read_without_a_full_copy(hub, in_chunks, monkeypatch):
    query, key = _query_and_key(hub)
    features = torch.randn(hub.num_edges, 1, dtype=torch.float64).expand(-1, 4)
    read: list[Tensor] = []

    def gather(table: Tensor, *args: Tensor) -> Tensor:
        read.append(table)
        return gather_rows(table, *args)

    monkeypatch.setattr(chunks, "gather_rows", gather)
    out = apply_edges(lambda q, k, e: q * k * e, query, key, hub, edge_attr=features)
    torch.testing.assert_close(out, _plain(query, key, hub) * features)
    assert not chunks.can_gather(features)
    assert all(table.stride() == key.stride() for table in read)


@pytest.mark.parametrize("size", [7, 10_000])
def test_gradients_of_apply_edges_with_complex_features_pass_gradcheck(size, hub, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", size)
    check_gradients(
        [torch.complex(a, a.flip(0)).requires_grad_() for a in _query_and_key(hub)], hub
    )


@pytest.mark.parametrize("most", [1, 3])
def test_apply_edges_at_nodes_of_high_degree_passes_gradcheck(most, hub, in_chunks, monkeypatch):
    monkeypatch.setattr(chunks, "HUB_DEGREE", most)
    check_gradients([a.requires_grad_() for a in _query_and_key(hub)], hub)


@pytest.mark.parametrize("end", ["source", "destination"])
def test_gradient_sums_over_500000_edges_have_a_relative_error_below_2e_6(end):
    """A sequential fp32 sum of 500,000 numbers would have a relative error of 1e-5."""
    many, other = torch.arange(500_000), torch.zeros(500_000, dtype=torch.long)
    one, each = torch.ones(1, 1, requires_grad=True), torch.rand(500_000, 1)
    if end == "destination":
        ends, graph = (one, each), gattn.Graph(torch.stack([many, other]), (500_000, 1))
    else:
        ends, graph = (each, one), gattn.Graph(torch.stack([other, many]), (1, 500_000))
    apply_edges(_product, *ends, graph).sum().backward()
    assert one.grad is not None
    torch.testing.assert_close(one.grad.double(), each.double().sum(0)[None], rtol=2e-6, atol=0)


@pytest.mark.parametrize("size", [7, 10_000])
def test_apply_edges_passes_gradcheck_after_calls_in_inference_mode_and_make_fx(
    size, hub, monkeypatch
):
    """Chunks are cached with the graph, except those of inference mode and of a tracer."""
    monkeypatch.setattr(chunks, "CHUNK", size)
    query, key = _query_and_key(hub)
    with torch.inference_mode():
        apply_edges(_product, query, key, hub)
    make_fx(lambda q, k: apply_edges(_product, q, k, hub))(query, key)
    check_gradients([query.requires_grad_(), key.requires_grad_()], hub)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_16_bits_are_summed_in_fp32(dtype):
    """The gradients of 3,000 edges are summed. In 16 bits, the sum would not grow above 256 or
    2,048.
    """
    count = 3000
    edges = torch.stack([torch.zeros(count, dtype=torch.long), torch.arange(count)])
    query = torch.ones(count, 1, 1, dtype=dtype)
    key = torch.ones(1, 1, 1, dtype=dtype, requires_grad=True)
    out = apply_edges(lambda q, k, e: q * k, query, key, gattn.Graph(edges, (1, count)))
    out.sum().backward()
    assert key.grad is not None
    assert key.grad.item() == torch.tensor(count, dtype=dtype).item()


def test_function_that_modifies_its_argument_changes_each_row_once():
    """A function that modifies its argument must modify each row once. If another thread draws
    random numbers, the function is called again, on a copy of the rows.
    """
    graph, x = gattn.graphs.complete([3]), torch.ones(3, 1)

    def tripled(query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        other = threading.Thread(target=torch.rand, args=(1,))
        other.start()
        other.join()
        return edge_attr.mul_(3)

    out = apply_edges(tripled, x, x, graph, edge_attr=torch.full((graph.num_edges, 1), 2.0))
    assert (out == 6).all()


@pytest.mark.parametrize("how", ["itself", "a view"])
def test_arguments_that_a_function_stores_are_not_overwritten(how, hub, in_chunks):
    query, key = _query_and_key(hub)
    captured: list[Tensor] = []

    def capturing(q: Tensor, k: Tensor, e: Tensor | None) -> Tensor:
        captured.append(k if how == "itself" else k.detach())
        return q * k

    apply_edges(capturing, query, key, hub)
    assert len(captured) > 2
    assert torch.equal(torch.cat(captured), key[hub.layout.col.long()])
