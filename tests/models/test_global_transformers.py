"""SGFormer and Polynormer compared with PyG's models, whose attention sums in torch's default
dtype.
"""

import copy

import pytest
import torch

import gattn
from gattn import models

OPTIONS = {
    "SGFormer": {"trans_dropout": 0.0, "gnn_dropout": 0.0},
    "SGFormer, cat": {
        "trans_num_heads": 2, "gnn_num_layers": 1, "aggregate": "cat", "trans_dropout": 0.0,
        "gnn_dropout": 0.0,
    },
    "Polynormer": {"local_layers": 2},
    "Polynormer, local attention": {
        "local_layers": 3, "local_attn": True, "qk_shared": True, "pre_ln": True, "post_bn": False,
    },
}  # fmt: skip
NO_DROPOUT = {"in_dropout": 0.0, "dropout": 0.0, "global_dropout": 0.0}
EDGES = torch.tensor([[0, 1, 2, 3, 2, 5, 4], [1, 0, 2, 1, 3, 4, 5]])
BATCH = torch.tensor([0, 0, 0, 0, 1, 1])


pytestmark = pytest.mark.usefixtures("in_double")


def _pair(beside_pyg, case):
    name, options = case.split(",")[0], OPTIONS[case]
    if name == "Polynormer":
        options = {**NO_DROPOUT, **options}
    return beside_pyg.pair(name, 6, 8, 3, ours=getattr(models, name), **options)


@pytest.fixture(params=[*OPTIONS, "Polynormer, global", "Polynormer, local attention, global"])
def pair(request, beside_pyg):
    pair = _pair(beside_pyg, request.param.removesuffix(", global"))
    for model in pair:
        if request.param.endswith("global"):
            model._global = True
    return pair


def test_global_transformers_match_pyg_on_unusual_graphs(beside_pyg, pair):
    """Compare the models in training mode, in which batch normalisation uses the statistics of the
    batch.
    """
    for case in beside_pyg.graphs():
        if case.size[0] < 2:
            continue  # Batch normalisation needs at least two rows in training.
        x, one = beside_pyg.draw(case.size[0], 6), torch.zeros(case.size[0], dtype=torch.int64)
        beside_pyg.check(*pair, x, case.edge_index, one, where=case.name)
    for theirs, ours in zip(*(model.state_dict().values() for model in pair), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_converted_global_transformer_has_the_same_output_parameters_and_hooks_as_pyg(
    beside_pyg, pair
):
    theirs = copy.deepcopy(pair[0]).eval()
    x, one = beside_pyg.draw(6, 6), torch.zeros(6, dtype=torch.int64)
    expected, calls = theirs(x, EDGES, one), []
    theirs.register_forward_hook(lambda *_: calls.append(1))
    converted = gattn.convert(theirs)
    assert type(converted) is type(pair[1])
    assert vars(converted).keys() == vars(pair[1]).keys()
    torch.testing.assert_close(converted(x, EDGES, one), expected)
    assert calls == [1]
    torch.testing.assert_close(converted.state_dict(), pair[1].state_dict())
    values = {id(parameter) for parameter in converted.parameters()}
    assert {
        id(p) for name in ("params1", "params2") for p in getattr(converted, name, [])
    } <= values


def test_sgformer_gives_the_same_output_if_its_convolution_has_a_message_hook(beside_pyg):
    model = _pair(beside_pyg, "SGFormer")[1].eval()
    x, seen = beside_pyg.draw(6, 6), []
    expected = model(x, EDGES)
    handles = [
        model.graph_conv.convs[0].register_message_forward_hook(lambda *_: seen.append(1)),
        model.graph_conv.convs[1].register_forward_hook(lambda *_: seen.append(2)),
    ]
    torch.testing.assert_close(model(x, EDGES), expected)
    assert seen == [1, 2]
    for handle in handles:
        handle.remove()
    model.graph_conv.convs[0].normalize = False
    assert not torch.allclose(model(x, EDGES), expected)


def test_invalid_dropout_or_shapes_of_sgformer_raise_error():
    with pytest.raises(ValueError, match="dropout must be a probability"):
        models.SGFormer(6, 8, 3, trans_dropout=2.0)
    with pytest.raises(ValueError, match="x must have 6 features"):
        models.SGFormer(6, 8, 3)(torch.randn(6, 5), EDGES)
    with pytest.raises(ValueError, match=r"index must have shape \(6,\)"):
        models.SGFormer(6, 8, 3)(torch.randn(6, 6), EDGES, BATCH[:3])
