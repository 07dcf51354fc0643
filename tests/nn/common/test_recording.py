"""Record the weights of every attention layer with record_attention."""

import sys

import pytest
import torch
import torch_geometric.nn as pyg

import gattn
from gattn.apps.nodes import NodeClassifier
from gattn.nn import record_attention
from tests.layers import LAYERS, NOT_OF_A_GRAPH, every

# Modules without attention weights to record.
ATTENDS = {layer.name: layer for layer in LAYERS if layer.kind not in NOT_OF_A_GRAPH}
# Layers whose attention weights are not a softmax over all edges into a node.
FREE = ("FAConv", "RGATConv", "ResGatedGraphConv")
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 5, 2], [1, 2, 0, 4, 5, 3, 2, 1, 5, 1]])


@every(ATTENDS)
def test_every_attention_layer_records_its_weights(layer):
    module = layer.called(6, 3).eval()
    args, options = layer.inputs()
    plain = module(*args, **options)
    with record_attention(module) as recorded:
        out = module(*args, **options)
    assert torch.equal(out, plain)  # recording does not change the output of the layer
    names = {name for name, _ in module.named_modules()}
    assert recorded
    for record in recorded:
        assert record.module in names
        edges, weights = record.edge_index, record.weights
        assert edges.shape == (2, len(weights))
        assert weights.dim() == 2
        assert (edges.amax(1) < torch.tensor(record.size)).all()
        if layer.kind not in FREE:
            sums = torch.zeros(record.size[1], weights.shape[1])
            sums.index_add_(0, edges[1], weights.detach())
            destinations = edges[1].unique()
            torch.testing.assert_close(
                sums[destinations], torch.ones(len(destinations), weights.shape[1])
            )


TYPED = {("a", "to", "b"): EDGES, ("b", "to", "b"): EDGES[:, :7]}
NODES = {"a": torch.randn(6, 6), "b": torch.randn(6, 6)}
METADATA = (["a", "b"], list(TYPED))


@pytest.mark.parametrize(
    ("name", "arguments", "inputs"),
    [
        ("AGNNConv", {}, (torch.randn(6, 6), EDGES)),
        ("SuperGATConv", {"in_channels": 6, "out_channels": 3, "heads": 2},
         (torch.randn(6, 6), EDGES)),
        ("HANConv", {"in_channels": 6, "out_channels": 4, "metadata": METADATA, "heads": 2},
         (NODES, TYPED)),
        ("HGTConv", {"in_channels": 6, "out_channels": 4, "metadata": METADATA, "heads": 2},
         (NODES, TYPED)),
    ],
)  # fmt: skip
def test_recorded_weights_equal_the_softmax_inside_pyg(name, arguments, inputs, monkeypatch):
    """These layers of PyG return no weights, so the test records the results of its softmax."""
    theirs, ours = getattr(pyg, name)(**arguments).eval(), getattr(gattn.nn, name)(**arguments)
    ours.eval().load_state_dict(theirs.state_dict())
    module, seen = sys.modules[type(theirs).__module__], []

    def listen(*args, softmax=module.softmax, **options):
        seen.append(softmax(*args, **options))
        return seen[-1]

    monkeypatch.setattr(module, "softmax", listen)
    theirs(*inputs)
    with record_attention(ours) as recorded:
        ours(*inputs)
    expected = torch.cat([alpha.reshape(len(alpha), -1) for alpha in seen])
    torch.testing.assert_close(torch.cat([record.weights for record in recorded]), expected)
    if isinstance(inputs[1], dict):
        assert [record.edge_type for record in recorded] == list(TYPED)
        for record in recorded:
            assert torch.equal(record.edge_index, TYPED[record.edge_type])


def test_no_weights_are_recorded_outside_of_the_context():
    layer, x = gattn.nn.GATConv(6, 3), torch.randn(6, 6)
    with record_attention(layer) as recorded:
        layer(x, EDGES)
        gattn.nn.GATConv(6, 3)(x, EDGES)  # this layer does not belong to the recorded model
    layer(x, EDGES)
    assert len(recorded) == 1
    assert not layer._forward_hooks


def test_record_attention_without_a_recorded_layer_raises_error_with_the_reason():
    nothing = pytest.raises(
        RuntimeError, match=r"of this Linear was recorded: it contains no layer of gattn\.nn"
    )
    with nothing, record_attention(torch.nn.Linear(2, 2)):
        pass
    silent = pytest.raises(RuntimeError, match="of this GATConv was recorded: it was not called")
    with silent, record_attention(gattn.nn.GATConv(2, 2)):
        pass
    with pytest.raises(KeyError, match="mine"), record_attention(gattn.nn.GATConv(2, 2)):
        raise KeyError("mine")


def test_record_attention_of_an_estimator_raises_error():
    wrong = pytest.raises(
        TypeError, match=r"torch module; got NodeClassifier .* attention for nodes"
    )
    with wrong, record_attention(NodeClassifier()):
        pass


def test_gat_conv_with_a_message_hook_records_weights_and_supergat_conv_raises_error():
    x = torch.randn(6, 6)
    both = gattn.nn.GATConv(6, 3, heads=2)
    with record_attention(both) as recorded:
        both(x, EDGES)
        both.register_message_forward_hook(lambda *_: None)
        both(x, EDGES)
    torch.testing.assert_close(recorded[0].weights, recorded[1].weights)
    silent = gattn.nn.SuperGATConv(6, 3)
    silent.register_message_forward_hook(lambda *_: None)
    error = pytest.raises(
        RuntimeError, match=r"cannot record its attention weights.*a hook on message"
    )
    with error, record_attention(silent):
        silent.eval()(x, EDGES)


def test_checkpointed_layer_records_its_weights_once():
    layer, x = gattn.nn.GATConv(6, 3, checkpoint=True), torch.randn(6, 6)
    with record_attention(layer) as recorded:
        out = layer(x, EDGES)
    out.sum().backward()
    assert len(recorded) == 1
    assert layer.att_src.grad is not None
