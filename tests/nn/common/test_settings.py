"""Constructors raise errors for settings that cannot run, and accept those of PyG."""

import re
from dataclasses import replace

import pytest
import torch
import torch_geometric.nn as pyg

from gattn import nn
from tests.layers import BY_NAME, every, layers

TYPES = (["a"], [("a", "to", "a")])
MADE = {
    name: replace(layer, made_by=None)
    for name, layer in layers().items()
    if name in ("GATConv", "RGATConv", "SuperGATConv", "LearnedQueryReadout")
}

READOUTS = {name: layer for name, layer in layers(readout=True).items() if layer.call is None}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"heads": 0}, "heads must be an int >= 1; got 0"),
        ({"heads": -2}, "heads must be an int >= 1; got -2"),
        ({"heads": 2.0}, r"heads must be an int >= 1; got 2\.0"),
        ({"out_channels": -4}, "out_channels must be an int >= [01]; got -4"),
        ({"dropout": 2.0}, r"dropout must be a probability in \[0, 1\]; got 2\.0"),
        ({"dropout": -0.5}, r"dropout must be a probability in \[0, 1\]; got -0\.5"),
    ],
)
def test_invalid_heads_channels_or_dropout_of_layers_raise_error(name, setting, message):
    with pytest.raises(ValueError, match=message):
        MADE[name].make(**setting)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.GATEConv(8, 8, 3, dropout=2.0), "dropout must be a probability"),
        (lambda: nn.FAConv(8, dropout=2.0), "dropout must be a probability"),
        (lambda: nn.GPSConv(8, None, dropout=2.0), "dropout must be a probability"),
        (lambda: nn.GPSConv(8, None, heads=0), "heads must be an int >= 1; got 0"),
        (lambda: nn.GPSConv(8, None, heads=3), r"heads must divide channels \(8\); got heads=3"),
        (lambda: nn.HANConv(8, 9, TYPES, 2), r"heads must divide out_channels \(9\); got heads=2"),
        (lambda: nn.HGTConv(8, 8, TYPES, 0), "heads must be an int >= 1; got 0"),
        (lambda: nn.HGTConv(8, -8, TYPES, 2), "out_channels must be an int >= 1; got -8"),
        (lambda: nn.RGATConv(8, 4, -1), "num_relations must be an int >= 0; got -1"),
        (lambda: nn.RGATConv(8, 4, 2, num_bases=0), "num_bases must be an int >= 1; got 0"),
        (lambda: nn.RGATConv(8, 4, 2, num_blocks=0), "num_blocks must be an int >= 1; got 0"),
        (lambda: nn.GraphAttention(8, channels=-1), "channels must be an int >= 0; got -1"),
        (lambda: nn.GraphAttention(8, heads=0, channels=4), "heads must be an int >= 1; got 0"),
        (lambda: nn.LearnedQueryReadout(8, 4, 0), "num_queries must be an int >= 1; got 0"),
        (lambda: nn.LearnedQueryReadout(8, 4, ff_channels=-1), "ff_channels must be an int >= 0"),
        (lambda: nn.LinearAttention(8, 0, 4), "heads must be an int >= 1; got 0"),
        (lambda: nn.LinearAttention(8, 2, -4), "head_channels must be an int >= 0; got -4"),
        (lambda: nn.MultiheadAttentionBlock(8, dropout=1.5), "dropout must be a probability"),
        (lambda: nn.SetAttentionBlock(8, 0), "heads must be an int >= 1; got 0"),
        (lambda: nn.PoolingByMultiheadAttention(8, 0), "num_seed_points must be an int >= 1"),
        (lambda: nn.InducedSetAttentionBlock(8, 0), "num_induced_points must be an int >= 1"),
        (lambda: nn.SetTransformerAggregation(8, 0), "num_seed_points must be an int >= 1; got 0"),
        (lambda: nn.SetTransformerAggregation(8, 1, -1), "num_encoder_blocks must be an int >= 0"),
        (lambda: nn.TransformerBlock(8, ff_channels=-1), "ff_channels must be an int >= 0"),
        (lambda: nn.TransformerBlock(8, heads=0), "heads must be an int >= 1; got 0"),
        (lambda: nn.RelativeBias(-1), "num_kinds must be an int >= 0; got -1"),
    ],
)
def test_invalid_settings_of_single_layers_raise_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("option", [{"heads": True}, {"dropout": 1}, {"dropout": True}], ids=str)
def test_gat_conv_accepts_boolean_heads_and_integer_or_boolean_dropout_as_pyg_does(option):
    theirs, ours = pyg.GATConv(8, 4, **option).eval(), nn.GATConv(8, 4, **option).eval()
    ours.load_state_dict(theirs.state_dict())
    x, edge_index = torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])
    torch.testing.assert_close(ours(x, edge_index), theirs(x, edge_index))


@every({**READOUTS, "LinearAttention": BY_NAME["LinearAttention"]})
def test_readout_inputs_other_than_tensors_raise_error(layer):
    readout, x = layer.make(4), torch.randn(2, 4)
    for args, message in [
        (([[1.0] * 4],), "x must be a tensor; got list"),
        ((x.numpy(),), "x must be a tensor; got ndarray"),
        ((x, [0, 0]), "index must be a tensor; got list"),
        ((x, None, [0, 2]), "ptr must be a tensor; got list"),
    ]:
        with pytest.raises(TypeError, match=message):
            readout(*args)


@pytest.mark.parametrize("name", [n for n, layer in MADE.items() if "kwargs" in layer.settings])
def test_unknown_argument_raises_error_that_lists_the_arguments_of_the_layer(name):
    with pytest.raises(
        TypeError, match=f"{name} has no argument 'num_heads'; it has in_channels, "
    ):
        MADE[name].make(num_heads=2)
    assert MADE[name].make(flow="source_to_target").flow == "source_to_target"


@pytest.mark.parametrize("kind", [nn.GATConv, nn.GATv2Conv, nn.TransformerConv, nn.SuperGATConv])
def test_layer_with_zero_out_channels_raises_error(kind):
    with pytest.raises(ValueError, match="out_channels must be an int >= 1; got 0"):
        kind(8, 0)


def _constructed(entry, width, edge_width):
    """Return the layer, or the error of its constructor."""
    try:
        return entry.called(width, edge_width).eval()
    except ValueError as error:
        return error


UNKNOWN = {
    name: entry
    for name, entry in BY_NAME.items()
    if not any(callable(value) for value in entry.arguments.values())
}


@every(UNKNOWN)
@pytest.mark.parametrize("widths", [(-1, 3), (6, -1), (-1, -1)])
def test_layer_with_a_width_of_minus_one_infers_the_width_or_raises_error(layer, widths):
    module = _constructed(layer, *widths)
    if isinstance(module, ValueError):
        assert re.search(r"\b(\w*channels|\w*dim) must be an int >= [01]; got -1", str(module))
        return
    args, options = layer.inputs()
    first, second = (module(*args, **options) for _ in range(2))
    assert first.isfinite().all()
    assert torch.equal(first, second)
    shapes = {name: tensor.shape for name, tensor in module.state_dict().items()}
    expected = {name: tensor.shape for name, tensor in layer.called(6, 3).state_dict().items()}
    assert shapes == expected
