"""PyG's resolvers find gattn's readouts and layers by name, and still find PyG's."""

import importlib
import pickle
import warnings
from types import SimpleNamespace

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.data import Data
from torch_geometric.nn import aggr
from torch_geometric.nn.resolver import aggregation_resolver

import gattn
from gattn.registration import LAYERS, READOUTS

X, EDGES = torch.randn(5, 16), torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 0, 4, 3, 2]])
OPTIONS = {"in_channels": 16, "out_channels": 16, "heads": 2}


@pytest.fixture
def _registered():
    for name in READOUTS:
        # An example that ran earlier in this process may have registered the readouts.
        vars(aggr).pop(f"gattn.{name}", None)
    before = set(vars(aggr))
    gattn.register_readouts()
    gattn.register_readouts()  # a second registration has no effect
    assert set(vars(aggr)) - before == {f"gattn.{name}" for name in READOUTS}
    yield
    for name in READOUTS:
        delattr(aggr, f"gattn.{name}")


@pytest.mark.usefixtures("_registered")
def test_a_name_makes_the_readout_itself():
    readout = aggregation_resolver("gattn.LearnedQueryReadout", **OPTIONS)
    assert type(readout) is gattn.nn.LearnedQueryReadout
    assert repr(pickle.loads(pickle.dumps(readout))) == repr(readout)
    assert type(aggregation_resolver("sum")) is pyg.SumAggregation
    assert type(aggregation_resolver("softmax")) is pyg.SoftmaxAggregation


@pytest.mark.usefixtures("_registered")
def test_a_layer_of_pyg_aggregates_by_it():
    torch.manual_seed(0)
    named = pyg.SAGEConv(16, 8, aggr="gattn.LearnedQueryReadout", aggr_kwargs=OPTIONS)
    expected = pyg.SAGEConv(16, 8, aggr=gattn.nn.LearnedQueryReadout(**OPTIONS))
    expected.load_state_dict(named.state_dict())
    torch.testing.assert_close(named(X, EDGES), expected(X, EDGES))
    named(X, EDGES).sum().backward()
    assert named.aggr_module.query.grad is not None


@pytest.mark.usefixtures("_registered")
def test_readouts_of_several_take_the_names():
    several = pyg.MultiAggregation(
        ["mean", "gattn.LearnedQueryReadout"], aggrs_kwargs=[{}, OPTIONS]
    )
    assert several(X, torch.tensor([0, 0, 0, 1, 1])).shape == (2, 32)


def test_graphgym_makes_every_layer():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GraphGym warns that the package yacs is missing
        register = importlib.import_module("torch_geometric.graphgym.register")
    gattn.register_graphgym()
    gattn.register_graphgym()
    config = SimpleNamespace(dim_in=16, dim_out=8, has_bias=True)
    for name in LAYERS:
        layer = register.layer_dict[f"gattn.{name}"](config)
        assert type(layer.model) is getattr(gattn.nn, name)
        assert layer(Data(x=X, edge_index=EDGES)).x.shape == (5, 8)
