"""gattn's layers compute the same without a private name of PyG."""

import copy
import functools

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn import MessagePassing

from gattn import nn
from gattn.compat import pyg as pyg_internals

X, EDGES = torch.randn(4, 8), torch.tensor([[0, 1, 2], [1, 2, 2]])


def _without(monkeypatch, name):
    """Remove the name from new layers, as in another version of PyG."""
    arguments = MessagePassing.__init__

    @functools.wraps(arguments)
    def init(self, *args, **options):
        arguments(self, *args, **options)
        del self.__dict__[name]

    monkeypatch.setattr(MessagePassing, "__init__", init)


@pytest.mark.parametrize("name", pyg_internals.EDGE_HOOKS)
def test_layer_states_why_it_uses_no_fused_operator_if_pyg_lacks_a_hook_attribute(
    monkeypatch, name
):
    theirs, ours = pyg.GATConv(8, 4), nn.GATConv(8, 4)
    assert ours.slow_path_reason == ""
    ours.load_state_dict(theirs.state_dict())
    with monkeypatch.context() as patch:
        _without(patch, name)
        late = nn.GATConv(8, 4)
    assert (
        late.slow_path_reason
        == f"this version of torch_geometric has no {name}: hooks cannot be seen"
    )
    late.load_state_dict(theirs.state_dict())
    setattr(late, name, {})  # PyG's own method propagate reads this attribute
    assert late.slow_path_reason == ""
    torch.testing.assert_close(late(X, EDGES), theirs(X, EDGES))


def test_every_kind_of_pyg_hook_is_detected_in_a_layer_and_its_copy():
    """PyG lets users register a hook on each of these methods. A copy of a layer has the hooks of
    the copied layer.
    """
    registers = [name for name in dir(MessagePassing) if name.startswith("register_")]
    hook_registers = [name for name in registers if name not in dir(torch.nn.Module)]
    assert len(hook_registers) == len(pyg_internals.EDGE_HOOKS)
    for register in hook_registers:
        layer = nn.GATConv(8, 4)
        handle = getattr(layer, register)(lambda *args: None)
        equation = register.removeprefix("register_").split("_forward_")[0]
        for one in (layer, copy.deepcopy(layer)):
            assert one.slow_path_reason == f"a hook on {equation} needs its edges"
        handle.remove()
        assert layer.slow_path_reason == ""


@pytest.mark.parametrize("name", pyg_internals.BOUND)
@pytest.mark.parametrize("how", ["jinja", "orig"])
def test_layer_gives_an_output_and_reports_an_override_if_a_jinja_method_of_pyg_is_missing(
    monkeypatch, name, how
):
    layer = nn.GATConv(8, 4)
    assert layer.slow_path_reason == ""
    monkeypatch.delattr(nn.GATConv, f"_{how}_{name}")
    if how == "jinja":
        assert pyg_internals.overridden(nn.GATConv) == f"GATConv overrides {name}"
    else:  # PyG itself has replaced none of the methods that a user may override.
        assert pyg_internals.overridden(nn.GATConv) == ""
    layer(X, EDGES)
