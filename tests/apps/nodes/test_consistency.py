"""Networks that are trained to agree on nodes without a label."""

import numpy as np
import scipy.sparse as sp
import torch

from gattn.apps.nodes.stack import consistency
from gattn.apps.nodes.stack.consistency import ConsistentNetworks
from gattn.apps.nodes.stack.linear import Targets
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
    to = Targets(y, train, val, int(np.nanmax(y)) + 1, True)
    return ConsistentNetworks.fit(x, means, to, **options)


def test_consistency_regularization_learns_from_fifteen_labels_of_a_homophilous_graph():
    x, means, y = _network()
    model = _fit(x, means, y, np.arange(15))
    right = model.predict(x, means).argmax(1) == y
    assert right[30:].mean() > 0.8
    assert 0 < int(model.epochs) <= consistency.EPOCHS


def test_predictions_with_consistency_regularization_are_equal_after_refit_and_after_loading():
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
