"""Threads inside an operator: the number is chosen by the size, is restored afterwards, and is one
while other work runs.
"""

import numpy as np
import pytest
import torch

from gattn.apps.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.runtime.threads import (
    ELEMENTS,
    Background,
    available_threads,
    choose_threads,
    limited_threads,
    one_thread,
)

SMILES = ["C", "CC", "CCO", "CCN", "CCC", "CCCC", "c1ccccc1", "CO", "CN", "CCCl", "CCBr", "OCCO"]
VALIDATION = ["CCCO", "CCCN", "CCCCC", "OCO"]
EDGES = np.array([[0, 1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7, 0]])


@pytest.fixture(autouse=True)
def three_threads(own_threads: None) -> None:
    """Set torch's number of threads to 3, which is not the result of any choice in these tests."""
    torch.set_num_threads(3)


def test_number_of_threads_follows_the_setting_or_the_number_of_elements() -> None:
    for elements, setting, expected in (
        (0, 0, 1), (64 * 25 * 128, 0, 1), (2 * ELEMENTS - 1, 0, 1), (2 * ELEMENTS, 0, 2),
        (100 * ELEMENTS, 0, 3), (0, 2, 2), (100 * ELEMENTS, 1, 1), (0, 5, 5),
    ):  # fmt: skip
        assert choose_threads(elements, setting) == expected
    for arguments in ((-1, 0), (1, -1)):
        with pytest.raises(ValueError, match="must be at least 0; got -1"):
            choose_threads(*arguments)


def test_limited_threads_restores_the_thread_count_also_after_an_error() -> None:
    def fail() -> None:
        with limited_threads(0, 2) as number:
            assert number == torch.get_num_threads() == 2
            raise KeyError

    with limited_threads(0) as number:
        assert number == torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3
    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == 3


def test_choose_threads_returns_one_in_the_context_one_thread() -> None:
    with one_thread():
        assert choose_threads(100 * ELEMENTS, 2) == torch.get_num_threads() == 1
        assert available_threads() == 1
    assert choose_threads(100 * ELEMENTS, 2) == 2
    assert torch.get_num_threads() == 3


def test_background_computation_has_one_thread_and_does_not_change_threads_of_the_caller() -> None:
    def work(check):
        check()
        return choose_threads(100 * ELEMENTS, 2), torch.get_num_threads()

    with Background(work) as background:
        assert background.result() == (1, 1)
        assert choose_threads(0, 2) == 2
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(("kind", "setting"), [(MoleculeRegressor, 0), (MoleculeClassifier, 2)])
def test_molecule_estimators_restore_the_number_of_threads(kind: type, setting: int) -> None:
    numbers: list[int] = []
    y = np.arange(len(SMILES)) % 2 if kind is MoleculeClassifier else np.arange(len(SMILES)) / 10
    model = kind(model="attention", epochs=1, width=8, heads=2, layers=1, threads=setting)
    fitted = model.fit(SMILES, y, validation=(VALIDATION, y[:4]))
    assert torch.get_num_threads() == 3
    network = fitted.predictor_.networks[0]
    network.register_forward_hook(lambda *_: numbers.append(torch.get_num_threads()))
    fitted.predict(SMILES)
    fitted.embed(SMILES[:2])
    fitted.explain(SMILES[:1])
    assert set(numbers) == {setting or 1}
    assert torch.get_num_threads() == 3
    fitted.set_params(threads=4).predict(SMILES)
    assert numbers[-1] == 4


@pytest.mark.parametrize(("kind", "setting"), [(NodeClassifier, 0), (NodeRegressor, 2)])
def test_node_estimators_restore_the_number_of_threads(kind: type, setting: int) -> None:
    import pandas as pd

    numbers: list[int] = []
    y = np.arange(8) % 2 if kind is NodeClassifier else np.arange(8) / 8.0
    nodes = pd.DataFrame({"id": range(8), "size": np.arange(8.0)})
    graph = (pd.DataFrame(EDGES.T, columns=["source", "target"]), nodes)
    settings = {"model": "gat", "threads": setting, "validation_fraction": 0.5}
    model = kind(epochs=2, width=8, heads=2, **settings)
    fitted = model.fit(graph, y, on_epoch=lambda record: numbers.append(torch.get_num_threads()))
    assert torch.get_num_threads() == 3
    hook = lambda *_: numbers.append(torch.get_num_threads())  # noqa: E731
    fitted.predictor_.network.register_forward_hook(hook)
    fitted.predict()
    assert set(numbers) == {setting or 1}
    fitted.embed()
    fitted.attention()
    assert torch.get_num_threads() == 3


def test_number_of_threads_does_not_change_a_stacked_model() -> None:
    y = np.arange(len(SMILES)) / 10
    states = []
    for number in (1, 3):
        torch.set_num_threads(number)
        model = MoleculeRegressor(epochs=2, width=8, heads=2, layers=1)
        tensors, _ = model.fit(SMILES, y, validation=(VALIDATION, y[:4])).predictor_.state()
        states.append(tensors)
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name
