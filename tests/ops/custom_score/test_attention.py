"""Attention with a score of one's own: in chunks it is what all edges at once give."""

import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import Linear, Module, Parameter
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

import gattn
from gattn.functional import aggregate, apply_edges, attention, edge_softmax
from gattn.kernels import cpu
from gattn.kernels.gather import gather_rows
from gattn.ops.custom_score import chunks, edge_function

NODES, HEADS, WIDTH = 12, 2, 3
NORMALIZE = ("softmax", "sum", "mean", "none", "sigmoid")


class Perceptron(Module):
    """GATv2's score with a term of the edges, and a message that is gated by them."""

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


@pytest.fixture
def hub() -> gattn.Graph:
    """A hub, a node without edges, edges that repeat."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, NODES - 1, (2, 40), generator=generator)
    edges[1, :20] = 3
    return gattn.Graph(torch.cat([edges, edges[:, :3]], 1), NODES)


@pytest.fixture
def given(hub: gattn.Graph) -> dict[str, Tensor]:
    torch.manual_seed(1)
    rows = {"query": NODES, "key": NODES, "value": NODES}
    made = {n: torch.randn(r, HEADS, WIDTH, dtype=torch.float64) for n, r in rows.items()}
    made["edge_attr"] = torch.randn(hub.num_edges, 2, dtype=torch.float64)
    return {name: tensor.requires_grad_() for name, tensor in made.items()}


def plain(score, query, key, value, graph, edge_attr, message, normalize) -> Tensor:
    """The definition, edge by edge."""
    source, destination = graph.edge_index
    scores = score(query[destination], key[source], edge_attr)
    f = {"softmax": scores.exp, "sigmoid": scores.sigmoid}.get(normalize, lambda: scores)()
    zeros = f.new_zeros(graph.num_dst, HEADS)
    counts = {"softmax": f, "sum": f, "mean": torch.ones_like(f)}
    if normalize in counts:
        f = f / zeros.index_add(0, destination, counts[normalize])[destination]
    values = value[source] if message is None else message(value[source], edge_attr)
    made = f.unsqueeze(-1) * values
    return made.new_zeros(graph.num_dst, *made.shape[1:]).index_add(0, destination, made)


def check_definition(hub, given, score, message, normalize) -> None:
    """Compare the outputs and the gradients of inputs and parameters with the definition's."""
    options = {"edge_attr": given["edge_attr"], "message": message, "normalize": normalize}
    ends = given["query"], given["key"], given["value"]
    wanted = plain(score, *ends, hub, **options)
    found = attention(score, *ends, hub, **options)
    torch.testing.assert_close(found, wanted)
    inputs = [*given.values(), *score.parameters()]
    grad = torch.randn_like(wanted)
    expected = torch.autograd.grad(wanted, inputs, grad)
    torch.testing.assert_close(torch.autograd.grad(found, inputs, grad), expected)


@pytest.mark.parametrize("size", [7, 8192])
@pytest.mark.parametrize("has_message", [False, True])
@pytest.mark.parametrize("normalize", NORMALIZE)
def test_it_is_the_definition_with_its_gradients(
    normalize, has_message, size, hub, given, monkeypatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    score = Perceptron().double()
    message = score.gated if has_message else None
    check_definition(hub, given, score, message, normalize)


def test_ends_may_have_any_strides(hub, given, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 7)
    for name in ("query", "key", "value"):
        turned = given[name].detach().transpose(0, 1).contiguous().transpose(0, 1)
        given[name] = turned.requires_grad_()
    check_definition(hub, given, Perceptron().double(), None, "softmax")


@pytest.mark.parametrize("has_message", [False, True])
def test_without_a_kernel_what_belongs_to_sources_has_a_pass_of_its_own(
    has_message, hub, given, monkeypatch
) -> None:
    monkeypatch.setenv("GATTN_BACKEND", "reference")
    monkeypatch.setattr(chunks, "CHUNK", 7)
    score = Perceptron().double()
    check_definition(hub, given, score, score.gated if has_message else None, "softmax")


@pytest.mark.parametrize("normalize", NORMALIZE)
def test_first_and_second_derivatives(normalize, hub, given) -> None:
    score = Perceptron().double()
    weight = score.weight.detach().clone().requires_grad_()

    def function(query, key, value, edge_attr, weight):
        score.__dict__["_parameters"]["weight"] = weight
        return attention(
            score, query, key, value, hub,
            edge_attr=edge_attr, message=score.gated, normalize=normalize,
        )  # fmt: skip

    del score.weight
    score.register_parameter("weight", None)
    inputs = (*given.values(), weight)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def test_two_runs_give_the_same_bits(hub, given, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 7)
    ends = [given[name] for name in ("query", "key", "value")]
    runs = []
    for _ in range(2):
        out = attention(gaussian, *ends, hub)
        runs.append([out, *torch.autograd.grad(out.sum(), ends)])
    assert all(torch.equal(a, b) for a, b in zip(*runs))


@pytest.mark.parametrize("size", [7, 8192])
def test_backward_runs_twice_and_under_checkpointing(size, hub, given, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    score, inputs = Perceptron().double(), tuple(given.values())

    def model(query, key, value, edge_attr):
        return attention(score, query, key, value, hub, edge_attr=edge_attr).tanh()

    out = model(*inputs).square().sum()
    wanted = torch.autograd.grad(out, inputs, retain_graph=True)
    again = torch.autograd.grad(out, inputs)
    out = checkpoint(model, *inputs, use_reentrant=False).square().sum()
    for found in (again, torch.autograd.grad(out, inputs)):
        assert all(torch.equal(a, b) for a, b in zip(found, wanted))


def test_it_is_equivariant(given) -> None:
    from gattn.testing import assert_edge_order_independent, assert_permutation_equivariant

    def attend(x: Tensor, edge_index: Tensor) -> Tensor:
        x = x.unflatten(1, (HEADS, WIDTH))
        return attention(gaussian, x, x, x, gattn.Graph(edge_index, len(x))).flatten(1)

    assert_permutation_equivariant(attend, HEADS * WIDTH)
    assert_edge_order_independent(attend, HEADS * WIDTH, tolerance=0.0)


def test_ends_may_be_several_tensors_of_any_shape(hub, given) -> None:
    query, value = given["query"].detach(), given["value"].detach()
    position = torch.randn(NODES, 3, dtype=torch.float64, requires_grad=True)

    def score(query, key, edge_attr):
        (q, x_i), (k, x_j) = query, (key["key"], key["position"])
        return (q * k).sum(-1) - (x_i - x_j).square().sum(-1, keepdim=True) * edge_attr["width"]

    width = {"width": torch.rand(hub.num_edges, 1, dtype=torch.float64)}
    key = {"key": given["key"].detach(), "position": position}
    found = attention(score, (query, position), key, value, hub, edge_attr=width)
    source, destination = hub.edge_index
    scores = score(
        (query[destination], position[destination]),
        {name: tensor[source] for name, tensor in key.items()},
        width,
    )
    wanted = aggregate(edge_softmax(scores, hub), value, hub)
    torch.testing.assert_close(found, wanted)
    gradients = [torch.autograd.grad(out.square().sum(), position)[0] for out in (found, wanted)]
    torch.testing.assert_close(*gradients)


def test_dropout_keeps_the_mean_and_drops_weights() -> None:
    torch.manual_seed(0)
    graph = gattn.graphs.complete([200])
    x = torch.ones(200, 1, 1)
    out = attention(gaussian, x, x, x, graph, dropout=0.5)
    assert 0.05 < out.std() < 0.15  # of 200 weights, each 0 or 2 / 200: 1 / sqrt(200) = 0.07
    torch.testing.assert_close(out.mean(), torch.tensor(1.0), atol=0.02, rtol=0)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("normalize", NORMALIZE)
def test_a_part_of_a_graph_draws_the_masks_of_the_whole(
    normalize, backend, monkeypatch, random_graph
) -> None:
    monkeypatch.setenv("GATTN_BACKEND", backend)
    graph, x = random_graph, torch.rand(random_graph.num_src, HEADS, WIDTH)
    rows = x[: graph.num_dst]
    half = graph.num_dst // 2
    torch.manual_seed(0)
    whole = attention(gaussian, rows, x, x, graph, normalize=normalize, dropout=0.5)
    source, destination = graph.edge_index
    for first, last in ((0, half), (half, graph.num_dst)):
        own = (destination >= first) & (destination < last)
        pairs = torch.stack([source[own], destination[own] - first])
        layout = gattn.Graph(pairs, (graph.num_src, last - first)).layout
        part = gattn.Graph.from_layout(layout, edge_offset=int(graph.layout.rowptr[first]))
        torch.manual_seed(0)
        found = attention(gaussian, rows[first:last], x, x, part, normalize=normalize, dropout=0.5)
        torch.testing.assert_close(found, whole[first:last])


def test_a_score_that_is_a_view_is_read_before_it_is_written_to() -> None:
    """Of few edges nothing copies what the function gave, which may be a view of what it holds."""
    graph, x = gattn.graphs.complete([4]), torch.randn(4, HEADS, WIDTH, requires_grad=True)
    held = torch.randn(1, HEADS)
    before = held.clone()
    found = attention(lambda q, k, e: held.expand(len(q), -1), x, x, x, graph, normalize="none")
    held.zero_()
    (grad,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(grad, 4 * before.unsqueeze(-1).expand_as(grad))


@pytest.mark.parametrize("size", [7, 8192])
@pytest.mark.parametrize("shape", [(0,), (HEADS, 0)])
def test_ends_without_channels_have_gradients_without_channels(size, shape, hub, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", size)
    ends = [torch.randn(NODES, *shape, requires_grad=True) for _ in range(2)]
    value = torch.randn(NODES, HEADS, WIDTH, requires_grad=True)

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        return (query.flatten(1) * key.flatten(1)).sum(1, keepdim=True).expand(-1, HEADS)

    found = attention(score, *ends, value, hub)
    grads = torch.autograd.grad(found.sum(), [*ends, value])
    assert [grad.shape for grad in grads] == [end.shape for end in (*ends, value)]
    weight = torch.ones(hub.num_edges, HEADS) / hub.in_degree()[hub.edge_index[1]].unsqueeze(1)
    torch.testing.assert_close(found, aggregate(weight, value, hub))


def test_autocast_reaches_the_score() -> None:
    graph, x = gattn.graphs.complete([4]), torch.randn(4, 1, 8, requires_grad=True)
    seen = []

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        made = torch.nn.functional.linear(query, torch.eye(8))
        seen.append(made.dtype)
        return (made * key).sum(-1)

    with torch.autocast("cpu", torch.bfloat16):
        out = attention(score, x, x, x, graph)
    out.float().sum().backward()
    assert set(seen) == {torch.bfloat16}
    assert len(seen) == 1  # of few edges backward uses what was recorded
    assert x.grad is not None


def test_without_edges_there_are_zeros(given) -> None:
    empty = gattn.Graph(torch.empty(2, 0, dtype=torch.long), NODES)
    ends = [given[name] for name in ("query", "key", "value")]
    for normalize in NORMALIZE:
        out = attention(gaussian, *ends, empty, normalize=normalize)
        assert torch.equal(out, torch.zeros(NODES, HEADS, WIDTH, dtype=torch.float64))
        out.sum().backward()


HELD = torch.ones(WIDTH, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("score", "options", "error", "message"),
    [
        (lambda q, k, e: (HELD * q).sum(-1), {}, ValueError, "must not capture a tensor that req"),
        (lambda q, k, e: torch.rand(q.shape[:2]), {}, ValueError, "must not draw random numbers"),
        (lambda q, k, e: q, {}, ValueError, r"score must give \[b, h\] for b edges; got 3 dim"),
        (lambda q, k, e: q.sum(), {}, ValueError, r"a row for each of 43 edges; got \(\)"),
        (lambda q, k, e: 1.0, {}, ValueError, "a row for each of 43 edges; got float"),
        (gaussian, {"normalize": "max"}, ValueError, "normalize must be one of .*; got 'max'"),
        (gaussian, {"dropout": 2.0}, ValueError, "dropout must be a probability"),
        (gaussian, {"query": torch.ones(5, 2)}, ValueError, "query must have 12 rows, one for"),
        (gaussian, {"edge_attr": torch.ones(5)}, ValueError, "edge_attr must have 43 rows"),
        (gaussian, {"key": [1.0]}, TypeError, "key must be a tensor; got float"),
        (gaussian, {"value": ()}, TypeError, "value must be a tensor if there is no message"),
        (gaussian, {"graph": "edges"}, TypeError, "graph must be a gattn.Graph"),
        (
            gaussian, {"message": lambda v, e: v[:, 0]}, ValueError,
            r"message must give \(b, 2, c\), a row for each of b edges and head; "
            r"for 43 edges it gave \(43, 3\)",
        ),
        (
            lambda q, k, e: (q * k).sum(-1)[:, :1] - torch.ones(len(q)), {}, ValueError,
            r"score must give \[b, 2\] for b edges, .* for 43 edges it gave \(43, 43\)",
        ),
        (gaussian, {"value": torch.ones(12, 2)}, ValueError, r"value must have shape \(12, h, c\)"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_clear_error(score, options, error, message, hub, given) -> None:
    given = {**given, "graph": hub, **options}
    ends = [given.pop(name) for name in ("query", "key", "value", "graph")]
    if "edge_attr" not in options:
        del given["edge_attr"]
    with pytest.raises(error, match=message):
        attention(score, *ends, **given)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Please use the new API settings:UserWarning")
def test_compiled_chunks_give_the_same(hub, given, monkeypatch) -> None:
    """Of five chunks four are whole, and are scored and differentiated by compiled code."""
    monkeypatch.setattr(chunks, "CHUNK", 10)
    monkeypatch.setattr(chunks, "MIN_COMPILED_CHUNKS", 4)
    score = Perceptron().double()
    check_definition(hub, given, score, score.gated, "softmax")


@pytest.mark.slow
def test_a_model_that_uses_it_compiles_as_one_graph(hub, given) -> None:
    score = Perceptron().double()

    def model(query, key, value, edge_attr):
        return attention(score, query, key, value, hub, edge_attr=edge_attr).tanh()

    inputs = tuple(given.values())
    found = torch.compile(model, fullgraph=True)(*inputs)
    wanted = model(*inputs)
    torch.testing.assert_close(found, wanted)
    gradients = [torch.autograd.grad(out.sum(), inputs) for out in (found, wanted)]
    torch.testing.assert_close(*gradients)


class Scaled(Module):
    """The feature of the edge, times a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = Parameter(torch.ones(1))

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        return edge_attr * self.scale


def test_rows_that_grow_with_the_number_of_edges_are_refused(hub, given, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 20)
    ends = [given[name] for name in ("query", "key", "value")]
    with pytest.raises(ValueError, match=r"rows of one shape.*gave \(3, 3\) after rows of \(20,\)"):
        attention(lambda q, k, e: q[:, :1, 0] - k[:, 0, 0], *ends, hub)


@pytest.mark.parametrize("size", [7, 10_000])
def test_what_is_not_used_has_no_gradient(size, hub, given, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    score = Perceptron().double()
    score.unused = Parameter(torch.ones(3, dtype=torch.float64))
    ends = [given[name] for name in ("query", "key", "value", "edge_attr")]

    def of_keys(query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        return key.sum(-1)

    attention(score, *ends[:3], hub, edge_attr=ends[3]).sum().backward()
    assert score.unused.grad is None
    assert all(p.grad is not None for p in (score.weight, *score.edge.parameters(), *ends))
    inputs = ends[0], ends[1], ends[3]
    out = attention(of_keys, *ends[:3], hub, edge_attr=ends[3]).sum()
    found = torch.autograd.grad(out, inputs, allow_unused=True)
    assert [grad is None for grad in found] == [True, False, True]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bits_are_summed_in_thirty_two(dtype, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 4)
    edges = 6000  # in steps of 4 a sum in bfloat16 stays at 1024, one in float16 at 4096
    graph = gattn.Graph(torch.stack([torch.arange(edges), torch.zeros(edges).long()]), (edges, 1))
    one = torch.ones(1, 1, 1, dtype=dtype)
    score, query = Scaled().to(dtype), one.clone().requires_grad_()
    given = one.expand(edges, 1, 1), one.expand(edges, 1, 1)
    features = torch.ones(edges, 1, dtype=dtype)
    options = {"edge_attr": features, "normalize": "none"}
    out = attention(score, one, *given, graph, **options)
    out.sum().backward()
    torch.testing.assert_close(score.scale.grad.float(), torch.tensor([6000.0]), rtol=4e-3, atol=0)
    product = lambda query, key, edge_attr: (query * key).sum(-1)  # noqa: E731
    attention(product, query, *given, graph, normalize="none").sum().backward()
    assert query.grad.item() == pytest.approx(6000, rel=4e-3)
    out = attention(score, one, *given, graph, message=lambda v, e: v, **options)
    assert out.item() == pytest.approx(6000, rel=4e-3)


@pytest.mark.parametrize("normalize", ["mean", "sum"])
def test_a_mean_of_many_in_sixteen_bits_is_finite(normalize):
    edges = 700
    graph = gattn.Graph(torch.stack([torch.arange(edges), torch.zeros(edges).long()]), (edges, 1))
    ends = torch.ones(1, 1, 1).half(), torch.ones(edges, 1, 1).half()
    value = torch.full((edges, 1, 1), 200.0).half()
    product = lambda query, key, edge_attr: (query * key).sum(-1)  # noqa: E731
    out = attention(product, *ends, value, graph, normalize=normalize)
    assert out.item() == pytest.approx(200, rel=1e-2)


def test_scores_that_sum_to_zero():
    graph = gattn.Graph(torch.tensor([[0, 1, 0, 1], [2, 2, 3, 3]]), 4)
    features = torch.tensor([[1.0], [-1.0], [0.0], [0.0]])
    ends = torch.randn(3, 4, 1, 2)
    out = attention(lambda q, k, e: e, *ends, graph, edge_attr=features, normalize="sum")
    assert not out[2].isfinite().any()
    assert (out[[0, 1, 3]] == 0).all()


def test_what_a_function_holds_is_no_error_where_nobody_wants_a_gradient(hub, given):
    held = Linear(WIDTH, 1).double()
    ends = (given["query"].detach(), given["key"].detach(), given["value"].detach(), hub)

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        return held(query * key).squeeze(-1)

    with torch.no_grad():
        assert attention(score, *ends).shape == (NODES, HEADS, WIDTH)
    with pytest.raises(ValueError, match="must not capture a tensor that requires a gradient"):
        attention(score, *ends)


def test_a_function_that_writes_leaves_the_callers_features_alone(hub, given):
    features = torch.ones(hub.num_edges, 2).double()
    ends = [given[name] for name in ("query", "key", "value")]

    def score(query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        return (query * key).sum(-1) * edge_attr.mul_(2).sum(-1, keepdim=True)

    with torch.no_grad():
        attention(score, *ends, hub, edge_attr=features)
    assert (features == 1).all()


def test_scores_are_floats(hub, given):
    ends = [given[name] for name in ("query", "key", "value")]
    for one in (given["query"].new_ones(1).long(), given["query"].new_ones(1) * 1j):
        with pytest.raises(TypeError, match="score must give floats; got"):
            attention(lambda q, k, e, one=one: one.expand(len(q), 1), *ends, hub, normalize="mean")


class Tied(Module):
    """A part under two names, and a weight of another part's."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Linear(WIDTH, WIDTH)
        self.again = self.first
        self.second = Linear(WIDTH, WIDTH)
        self.second.weight = self.first.weight
        self.edge = Linear(2, HEADS)

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        return (self.again(query) * self.second(self.first(key))).sum(-1) + self.edge(edge_attr)

    def gated(self, value: Tensor, edge_attr: Tensor) -> Tensor:
        return self.again(value)


@pytest.mark.parametrize("size", [7, 10_000])
def test_a_function_keeps_what_it_saw_at_its_call(size, hub, given, monkeypatch) -> None:
    """As in a loop over temperatures, whose variable has moved on by the time of backward."""
    monkeypatch.setattr(chunks, "CHUNK", size)
    ends = [given[name] for name in ("query", "key", "value")]
    found, wanted = torch.zeros(2, NODES, HEADS, WIDTH, dtype=torch.float64)
    for scale in (1.0, 2.0, 8.0):

        def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
            return (query * key).sum(-1) / scale  # noqa: B023

        found = found + attention(score, *ends, hub)
        wanted = wanted + plain(score, *ends, hub, None, None, "softmax")
    grad = torch.randn_like(found)
    expected = torch.autograd.grad(wanted, ends, grad)
    torch.testing.assert_close(torch.autograd.grad(found, ends, grad), expected)


def test_a_buffer_that_was_written_to_is_an_error_in_backward(hub, given, in_chunks) -> None:
    class Annealed(Perceptron):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones((), dtype=torch.float64))

        def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
            return self.scale * super().forward(query, key, edge_attr)

    ends = [given[name] for name in ("query", "key", "value")]
    score = Annealed().double()
    out = attention(score, *ends, hub, edge_attr=given["edge_attr"])
    torch.autograd.grad(out.sum(), ends, retain_graph=True)
    score.scale.mul_(0.5)
    with pytest.raises(RuntimeError, match=r"a buffer of the module .* was written to after"):
        out.sum().backward()


def test_what_was_recorded_goes_with_what_autograd_saved(hub, given) -> None:
    made: list[weakref.ref[Tensor]] = []

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        product = query * key
        made.append(weakref.ref(product))
        return product.square().sum(-1)  # which saves the product

    out = attention(score, *(given[name] for name in ("query", "key", "value")), hub).sum()
    out.backward(retain_graph=True)
    assert made[0]() is not None
    out.backward()
    assert made[0]() is None
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()


@pytest.mark.parametrize("size", [7, 10_000])
def test_a_generator_of_ones_own_is_refused_where_backward_calls_again(
    size, hub, given, monkeypatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", size)
    generator = torch.Generator().manual_seed(0)
    ends = [given[name] for name in ("query", "key", "value")]

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        return (query * key).sum(-1) * torch.rand(len(query), HEADS, generator=generator)

    out = attention(score, *ends, hub).sum()
    if size > hub.num_edges:  # what was recorded is differentiated
        first, second = (torch.autograd.grad(out, ends, retain_graph=True) for _ in range(2))
        assert all(map(torch.equal, first, second))
        return
    with pytest.raises(ValueError, match="must not draw random numbers"):
        out.backward()


@pytest.mark.parametrize("made", [None, [], torch.ones(3, HEADS)])
def test_without_edges_a_function_is_checked_too(made, given) -> None:
    empty = gattn.Graph(torch.empty(2, 0, dtype=torch.long), NODES)
    ends = [given[name] for name in ("query", "key", "value")]
    with pytest.raises(ValueError, match="must give a row for each of 0 edges"):
        attention(lambda q, k, e: made, *ends, empty)


def test_what_torch_cannot_compile_runs_and_is_told_once(hub, given, monkeypatch) -> None:
    tried: list[object] = []

    def broken(*arguments: object) -> Tensor:
        tried.append(arguments)
        raise AssertionError("guard failed\nand more")

    monkeypatch.setattr(chunks, "CHUNK", 10)
    monkeypatch.setattr(edge_function, "_compiled", lambda *key: broken)
    monkeypatch.setattr(edge_function, "_uncompilable", {})
    score = Perceptron().double()
    with pytest.warns(
        UserWarning, match=r"Perceptron.*uncompiled.*\(AssertionError: guard failed\)"
    ):
        check_definition(hub, given, score, None, "softmax")
    check_definition(hub, given, score, None, "softmax")
    assert len(tried) == 1
    message = "scores of nothing"

    def wrong(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        raise LookupError(message)

    with pytest.raises(LookupError, match=message):  # its own error
        attention(wrong, given["query"], given["key"], given["value"], hub)


def test_a_score_that_loses_a_dimension_of_one_edge_learns(hub, given, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 10)  # of which none is left with one edge
    ends = [given[name] for name in ("query", "key", "value")]

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        product = (query * key).sum(-1, keepdim=True).squeeze()
        return product[:, :HEADS]

    grads = torch.autograd.grad(attention(score, *ends, hub).sum(), ends)
    wanted = plain(score, *ends, hub, None, None, "softmax")
    torch.testing.assert_close(grads, torch.autograd.grad(wanted.sum(), ends))


def test_a_compiled_score_is_compiled_with_what_surrounds_it(hub, given) -> None:
    score = Perceptron().double()
    for compiled in (torch.compile(score), torch.compile(score.forward)):
        call = edge_function.EdgeFunction.of(compiled, [given["query"]], has_weight=False)
        assert call.code is Perceptron.forward.__code__
        assert call.parameters() == list(score.parameters())
        assert "_orig_mod" not in dict(call.slots)


@pytest.mark.parametrize("chunk", [10, 1000])
def test_parts_that_share_parameters_learn_and_stay_as_they_are(chunk, hub, given, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    score = Tied().double()
    own = list(score.parameters())
    check_definition(hub, given, score, score.gated, "softmax")
    assert all(now is before for now, before in zip(score.parameters(), own, strict=True))


def test_threads_that_share_a_module_leave_it_as_it_is(hub, given):
    score = Perceptron().double()
    own, ends = list(score.parameters()), [given[name] for name in ("query", "key", "value")]

    def run(_: int) -> Tensor:
        return attention(score, *ends, hub, edge_attr=given["edge_attr"])

    wanted, pause = run(0), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(run, range(100)))
    finally:
        sys.setswitchinterval(pause)
    assert all(torch.equal(one, wanted) for one in found)
    assert all(now is before for now, before in zip(score.parameters(), own, strict=True))


def test_numbers_that_another_thread_draws_are_not_the_functions(hub, given):
    ends, stop = [given[name] for name in ("query", "key", "value")], threading.Event()

    def draw() -> None:
        while not stop.is_set():
            torch.rand(1)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(draw)
        try:
            for _ in range(200):
                attention(gaussian, *ends, hub)
            with pytest.raises(ValueError, match="must not draw random numbers"):
                attention(lambda q, k, e: (q * k * torch.rand_like(q)).sum(-1), *ends, hub)
        finally:
            stop.set()


def _product(q: Tensor, k: Tensor, e: Tensor | None) -> Tensor:
    return q * k


@pytest.fixture
def in_chunks(monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 7)


def _ends(hub: gattn.Graph, width: int = 4) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    query, key = torch.randn(hub.num_dst, width), torch.randn(hub.num_src, width)
    return query.double(), key.double()


def _plain(query: Tensor, key: Tensor, hub: gattn.Graph) -> Tensor:
    source, destination = hub.edge_index
    return query[destination] * key[source]


def check_gradients(ends: list[Tensor], hub: gattn.Graph) -> None:
    """Those of the products' squared real parts, beside autograd's own."""
    found, wanted = (
        torch.autograd.grad(product.real.square().sum(), ends)
        for product in (apply_edges(_product, *ends, hub), _plain(*ends, hub))
    )
    for own, other in zip(found, wanted):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("how", ["itself", "a view"])
def test_what_a_function_keeps_of_its_arguments_stays(how, hub, in_chunks):
    query, key = _ends(hub)
    kept: list[Tensor] = []

    def keeping(q: Tensor, k: Tensor, e: Tensor | None) -> Tensor:
        kept.append(k if how == "itself" else k.detach())
        return q * k

    apply_edges(keeping, query, key, hub)
    assert len(kept) > 2
    assert torch.equal(torch.cat(kept), key[hub.layout.col.long()])


def test_ends_without_rows_in_one_piece_are_not_copied_whole(hub, in_chunks, monkeypatch):
    query, key = _ends(hub)
    features = torch.randn(hub.num_edges, 1, dtype=torch.float64).expand(-1, 4)
    read: list[Tensor] = []

    def gather(table: Tensor, *given: Tensor) -> Tensor:
        read.append(table)
        return gather_rows(table, *given)

    monkeypatch.setattr(chunks, "gather_rows", gather)
    found = apply_edges(lambda q, k, e: q * k * e, query, key, hub, edge_attr=features)
    torch.testing.assert_close(found, _plain(query, key, hub) * features)
    assert not chunks.can_gather(features)
    assert all(table.stride() == key.stride() for table in read)


def test_tensors_that_wrap_others_are_read(hub, in_chunks):
    query, key = _ends(hub)
    found = apply_edges(_product, query, TwoTensor(key, 2 * key), hub)
    torch.testing.assert_close(found.a, _plain(query, key, hub))
    torch.testing.assert_close(found.b, _plain(query, 2 * key, hub))


def test_what_is_traced_computes_the_same(hub, in_chunks):
    query, key = _ends(hub)
    traced = make_fx(lambda q, k: apply_edges(_product, q, k, hub))(query, key)
    torch.testing.assert_close(traced(2 * query, key), 2 * apply_edges(_product, query, key, hub))


@pytest.mark.parametrize("size", [7, 10_000])
def test_complex_features_have_complex_gradients(size, hub, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", size)
    check_gradients([torch.complex(a, a.flip(0)).requires_grad_() for a in _ends(hub)], hub)


@pytest.mark.parametrize("most", [1, 3])
def test_gradients_at_hubs(most, hub, in_chunks, monkeypatch):
    monkeypatch.setattr(chunks, "HUB_DEGREE", most)
    check_gradients([a.requires_grad_() for a in _ends(hub)], hub)


@pytest.mark.parametrize("end", ["source", "destination"])
def test_long_sums_keep_what_comes_last(end):
    """Half a million numbers, one after another in fp32, would lose some 1e-5 of their sum."""
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
def test_what_was_first_asked_for_aside_serves_later(size, hub, monkeypatch):
    """Chunks are kept with the graph: none that inference mode or a tracer made."""
    monkeypatch.setattr(chunks, "CHUNK", size)
    query, key = _ends(hub)
    with torch.inference_mode():
        apply_edges(_product, query, key, hub)
    make_fx(lambda q, k: apply_edges(_product, q, k, hub))(query, key)
    check_gradients([query.requires_grad_(), key.requires_grad_()], hub)


@pytest.mark.parametrize(
    ("channels", "edges"),
    [(1, 16_384), (16, 16_384), (17, 8192), (32, 8192), (64, 4096), (99, 4096)],
)
def test_chunks_of_wide_rows_have_fewer_edges_where_gradients_are_added(channels, edges):
    assert chunks.edges_at_once([torch.ones(3, 1), torch.ones(3, 2, channels)]) == edges


@pytest.mark.skipif(bool(cpu.unavailable_reason()), reason="the C++ kernels are not built")
def test_gradients_in_smaller_chunks_than_forward_and_at_hubs(monkeypatch):
    """Chunks of 16 edges forward, of 8 backward, of a graph with hubs at both ends."""
    monkeypatch.setattr(chunks, "CHUNK", 16)
    monkeypatch.setattr(chunks, "MIN_CHUNK", 4)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 8 * 64)
    monkeypatch.setattr(chunks, "HUB_DEGREE", 10)
    torch.manual_seed(0)
    edges = torch.randint(0, 30, (2, 300))
    edges[0, :60], edges[1, 40:100] = 3, 7
    graph = gattn.Graph(edges, 30)
    ends = [torch.randn(30, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    seen: list[int] = []

    def score(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        seen.append(len(query))
        return (query * key).sum(-1)

    grads = torch.autograd.grad(attention(score, *ends, graph).square().sum(), ends)
    wanted = plain(score, *ends, graph, None, None, "softmax").square().sum()
    torch.testing.assert_close(grads, torch.autograd.grad(wanted, ends))
    assert {8, 16} <= set(seen)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_few_edges_are_summed_in_thirty_two_bits(dtype):
    """Of 3,000 edges out of one node: a sum in sixteen bits would stand still at 256 or 2,048."""
    count = 3000
    edges = torch.stack([torch.zeros(count, dtype=torch.long), torch.arange(count)])
    query = torch.ones(count, 1, 1, dtype=dtype)
    key = torch.ones(1, 1, 1, dtype=dtype, requires_grad=True)
    out = apply_edges(lambda q, k, e: q * k, query, key, gattn.Graph(edges, (1, count)))
    out.sum().backward()
    assert key.grad is not None
    assert key.grad.item() == torch.tensor(count, dtype=dtype).item()


def test_layers_before_and_after_few_edges_learn(hub, given):
    """What is given and what is made are parts of a larger graph of autograd."""
    ends = [given[name] for name in ("query", "key", "value")]
    features = torch.randn(hub.num_edges, WIDTH).double().requires_grad_()

    def score(query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        return (query * key * edge_attr.unsqueeze(1)).sum(-1)

    def run(attend) -> tuple[Tensor, ...]:
        q, k, v = (end.tanh() for end in ends)
        edge = features.exp()
        out = attend(score, q, k, v, edge).tanh()
        return torch.autograd.grad(out.square().sum() + edge.sum(), [*ends, features])

    found = run(lambda f, q, k, v, e: attention(f, q, k, v, hub, edge_attr=e))
    wanted = run(lambda f, q, k, v, e: plain(f, q, k, v, hub, e, None, "softmax"))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("size", [7, 8192])
def test_a_graph_goes_when_nobody_holds_it(size, given, monkeypatch):
    """What is kept with a graph holds itself nowhere: else it waits for the collector of cycles."""
    monkeypatch.setattr(chunks, "CHUNK", size)
    graph = gattn.Graph(torch.randint(0, NODES, (2, 40)), NODES)
    ends = [given[name] for name in ("query", "key", "value")]
    attention(lambda q, k, e: (q * k).sum(-1), *ends, graph).sum().backward()
    layout = weakref.ref(graph.layout.col)
    gc.collect()
    gc.disable()
    try:
        del graph
        assert layout() is None
    finally:
        gc.enable()


def test_functions_that_write_to_few_rows_are_called_once_on_each():
    """Where another thread draws meanwhile, too: it is called again, on rows of their own."""
    graph, x = gattn.graphs.complete([3]), torch.ones(3, 1)

    def tripled(query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        other = threading.Thread(target=torch.rand, args=(1,))
        other.start()
        other.join()
        return edge_attr.mul_(3)

    found = apply_edges(tripled, x, x, graph, edge_attr=torch.full((graph.num_edges, 1), 2.0))
    assert (found == 6).all()


def test_what_few_rows_hold_is_told_from_what_is_written_to_them():
    graph, held = gattn.graphs.complete([3]), torch.ones(1, requires_grad=True)
    x = torch.randn(3, 2, requires_grad=True)

    def cleared(query: Tensor, key: Tensor, edge_attr: None) -> Tensor:
        before = query + 0
        query.zero_()
        return before * key

    wanted = apply_edges(lambda q, k, e: q * k, x, x, graph)
    torch.testing.assert_close(apply_edges(cleared, x, x, graph), wanted)
    with pytest.raises(ValueError, match="must not capture a tensor that requires a gradient"):
        apply_edges(lambda q, k, e: q.add_(held) * k, x, x, graph)
