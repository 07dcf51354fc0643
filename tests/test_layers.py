"""The registry lists every layer, with its right properties."""

import inspect

import torch
import torch_geometric.nn as pyg

import gattn.models
import gattn.nn
from gattn.nn.conv.base import AttentionConv
from tests.layers import LAYERS, NOT_OF_A_GRAPH, every

ALL = {layer.name: layer for layer in LAYERS}
SHARED = {
    name: layer
    for name, layer in ALL.items()
    # The induced points are an argument that PyG's class does not have.
    if hasattr(pyg, layer.kind) and "num_induced_points" not in layer.arguments
}


def test_every_exported_layer_is_in_the_test_registry():
    exported = {
        name
        for name in gattn.nn.__all__
        if inspect.isclass(kind := getattr(gattn.nn, name)) and issubclass(kind, torch.nn.Module)
    }
    registered = {layer.kind for layer in LAYERS}
    assert exported == (registered - set(gattn.models.__all__)) | set(NOT_OF_A_GRAPH)
    assert not registered & set(NOT_OF_A_GRAPH)


@every(ALL)
def test_each_layer_has_the_properties_of_its_registry_entry(layer):
    module = layer.make(6, 3)
    assert layer.kind in {base.__name__ for base in type(module).__mro__}
    assert isinstance(module, AttentionConv) or not layer.conv
    if isinstance(module, AttentionConv):
        assert layer.conv or layer.bipartite or layer.call is not None
    assert set(layer.arguments) <= layer.settings
    args, options = layer.inputs(7, 15)
    run = layer.called(6, 3).eval()
    out = run(*args, **options)
    assert out.shape[0] == (3 if layer.readout else 7) or not layer.of_nodes
    if layer.edge_attr:  # If the layer accepts edge features, its output must depend on them.
        other = run(*args, **options | {"edge_attr": torch.randn(15, 3)})
        assert not torch.equal(out, other)


@every(SHARED)
def test_each_layer_has_the_same_repr_and_state_dict_keys_as_its_pyg_layer(layer):
    if layer.made_by is None and layer.kind != "GPSConv":
        # Gattn's GPSConv contains a local layer of gattn, so its repr differs.
        theirs, ours = layer.make(6, 3, package=pyg), layer.make(6, 3)
        assert repr(theirs) == repr(ours)
        assert list(theirs.state_dict()) == list(ours.state_dict())
