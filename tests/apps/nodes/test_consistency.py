"""Networks that are trained to agree on nodes without a label."""

import numpy as np
import scipy.sparse as sp
import torch

from gattn.apps.nodes.stack import consistency
from gattn.apps.nodes.stack.consistency import ConsistentNetworks, affordable_epochs
from gattn.apps.nodes.stack.propagation import Neighbours


def _network(nodes=240, classes=3, seed=0):
    """Return features, means over neighbours, and classes of a network with homophily."""
    draw = np.random.default_rng(seed)
    y = draw.integers(classes, size=nodes)
    x = sp.csr_matrix(0.5 * np.eye(classes)[y] + 0.5 * draw.normal(size=(nodes, classes)))
    members = [np.flatnonzero(y == kind) for kind in range(classes)]
    ends = [draw.choice(members[y[i]] if draw.random() < 0.8 else nodes, 4) for i in range(nodes)]
    edges = np.stack([np.repeat(np.arange(nodes), 4), np.concatenate(ends)])
    return x, Neighbours(torch.from_numpy(edges), nodes).means, y.astype(float)


def _fit(x, means, y, train, **options):
    val = np.arange(len(train), 2 * len(train))
    return ConsistentNetworks.fit(x, means, y, train, val, int(np.nanmax(y)) + 1, 0, **options)


def test_predictions_are_those_of_the_equation():
    x, means, y = _network(40)
    model = _fit(x, means, y, np.arange(20), most=3)
    scale = np.square(x.toarray()).sum(1).mean() ** 0.5 / consistency.NORM
    adjacent = (means.toarray() > 0) + np.eye(40)
    roots = adjacent.sum(1, keepdims=True) ** -0.5
    spread = roots * adjacent * roots.T
    value = total = x.toarray() / scale
    for _ in range(consistency.STEPS):
        value = spread @ value
        total = total + value
    total = total / (consistency.STEPS + 1)
    tables = model.table.detach().numpy().reshape(3, consistency.NETWORKS, consistency.WIDTH)
    expected = 0
    for place in range(consistency.NETWORKS):
        hidden = total @ tables[:, place] + model.hidden_bias[place].detach().numpy()
        logits = hidden.clip(0) @ model.weight[place].detach().numpy()
        logits = logits + model.bias[place].detach().numpy()
        odds = np.exp(logits - logits.max(1, keepdims=True))
        expected = expected + odds / odds.sum(1, keepdims=True) / consistency.NETWORKS
    np.testing.assert_allclose(model.predict(x, means), expected, atol=1e-5)


def test_gradients_of_the_propagation_are_those_of_autograd():
    draw = np.random.default_rng(0)
    # The matrix of means along directed edges with weights is not symmetric.
    means = sp.random(12, 12, 0.3, format="csr", random_state=0, dtype=np.float32)
    inputs = consistency.Inputs(sp.csr_matrix(np.eye(12, dtype=np.float32)), means)
    counts = means.getnnz(1)
    roots = np.diag((counts + 1.0) ** -0.5)
    matrix = roots @ (np.eye(12) + counts[:, None] * means.toarray()) @ roots
    matrix = torch.from_numpy(matrix.astype(np.float32))
    x, slope = (torch.from_numpy(draw.normal(size=(12, 5)).astype(np.float32)) for _ in range(2))
    gradients = []
    for spread in (
        lambda x: consistency._Propagation.apply(x, inputs),
        lambda x: sum(torch.linalg.matrix_power(matrix, k) @ x for k in range(9)) / 9,
    ):
        leaf = x.clone().requires_grad_()
        out = spread(leaf)
        out.backward(slope)
        gradients.append((out.detach(), leaf.grad))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_few_labels_are_enough_for_a_network_with_homophily():
    x, means, y = _network()
    model = _fit(x, means, y, np.arange(15))
    right = model.predict(x, means).argmax(1) == y
    assert right[30:].mean() > 0.8
    assert 0 < int(model.epochs) <= consistency.EPOCHS


def test_the_agreement_uses_nodes_without_a_label(monkeypatch):
    x, means, y = _network()
    spread = []
    for sharpness in (1.0, 4.0):
        monkeypatch.setattr(consistency, "SHARPNESS", sharpness)
        predicted = _fit(x, means, y, np.arange(15), epochs=40).predict(x, means)
        spread.append(predicted[30:].max(1).mean())
    assert spread[0] < spread[1]


def test_the_generator_of_torch_is_not_used_and_restored_networks_predict_the_same():
    x, means, y = _network(60)
    before = torch.get_rng_state()
    model = _fit(x, means, y, np.arange(20), most=5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    again = _fit(x, means, y, np.arange(20), most=5)
    restored = ConsistentNetworks.from_state(model.state_dict())
    for other in (again, restored):
        np.testing.assert_array_equal(other.predict(x, means), model.predict(x, means))
    assert int(restored.epochs) == int(model.epochs) == 5


def test_a_large_graph_has_fewer_epochs_or_none(monkeypatch):
    x, means, _ = _network(60)
    assert affordable_epochs(x, means) == consistency.EPOCHS
    size = consistency.NETWORKS * consistency.WIDTH * (x.nnz + consistency.STEPS * (means.nnz + 60))
    monkeypatch.setattr(consistency, "MAX_PRODUCTS", 50.5 * size)
    assert affordable_epochs(x, means) == 50
    monkeypatch.setattr(consistency, "MAX_PRODUCTS", 30.5 * size)
    assert affordable_epochs(x, means) == 0
