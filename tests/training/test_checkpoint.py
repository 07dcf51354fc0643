"""A checkpoint holds what Lightning gives it, in one file that executes nothing."""

import collections
import math

import pytest
import torch
from safetensors.torch import save_file

from gattn.training.checkpoint import SafeCheckpointIO
from gattn.training.types import TrainingError

TREE = {
    "epoch": 3,
    "state": {0: {"step": torch.tensor(4.0), "exp_avg": torch.randn(2, 3)}, 1: {}},
    "betas": (0.9, 0.999),
    "names": ["a", None, True, 1.5, [], ()],
    "odd": {"inf": math.inf, "minus": -math.inf, "a/b": torch.arange(3), "a": {"b": 1}},
}


def test_what_is_saved_is_loaded(tmp_path) -> None:
    path, io = tmp_path / "c.safetensors", SafeCheckpointIO()
    io.save_checkpoint(TREE, path)
    found = io.load_checkpoint(path)
    assert list(found) == list(TREE)
    assert found["betas"] == TREE["betas"]
    assert found["names"] == TREE["names"]
    assert list(found["state"]) == [0, 1]
    assert torch.equal(found["state"][0]["exp_avg"], TREE["state"][0]["exp_avg"])
    assert found["state"][0]["step"].shape == ()
    assert found["odd"]["inf"] == math.inf
    assert found["odd"]["minus"] == -math.inf
    assert torch.equal(found["odd"]["a/b"], torch.arange(3))
    io.save_checkpoint({"nan": math.nan}, path)
    assert math.isnan(io.load_checkpoint(path)["nan"])
    io.remove_checkpoint(path)
    io.remove_checkpoint(path)
    assert list(tmp_path.iterdir()) == []


def test_names_that_meet_are_kept_apart(tmp_path) -> None:
    tree = {"a/b": torch.ones(1), "a": {"b": torch.zeros(1)}, 1: torch.ones(2), "1": torch.ones(3)}
    path, io = tmp_path / "c.safetensors", SafeCheckpointIO()
    io.save_checkpoint(tree, path)
    found = io.load_checkpoint(path)
    assert found["a/b"].item() == 1
    assert found["a"]["b"].item() == 0
    assert len(found[1]) == 2
    assert len(found["1"]) == 3


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": {"b": object()}}, "cannot hold object, found at /a/b"),
        ({"a": {1.5: 2}}, "whole numbers and texts; got 1.5 at /a"),
        ({"a": {"set"}}, "cannot hold set, found at /a"),
        ({"a": torch.float32}, "cannot hold dtype"),
    ],
)
def test_what_it_cannot_hold(tmp_path, tree, message) -> None:
    with pytest.raises(TypeError, match=message):
        SafeCheckpointIO().save_checkpoint(tree, tmp_path / "c.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_ordered_dicts_are_dicts(tmp_path) -> None:
    path = tmp_path / "c.safetensors"
    SafeCheckpointIO().save_checkpoint(collections.OrderedDict(a=1, b=2), path)
    assert SafeCheckpointIO().load_checkpoint(path) == {"a": 1, "b": 2}


def test_other_files_are_refused(tmp_path) -> None:
    path = tmp_path / "c.safetensors"
    save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(TrainingError, match=r"c\.safetensors is damaged .it holds tensors only"):
        SafeCheckpointIO().load_checkpoint(path)
    for text in (
        "[",
        '["dict", 5]',
        '["tensor", []]',
        '["tensor", "none"]',
        "3",
        '["kind"]',
        '["tensor"]',
        "[1, 2, 3]",
    ):
        save_file({"weight": torch.ones(2)}, path, {"checkpoint": text})
        with pytest.raises(TrainingError, match=r"is damaged .*: remove it"):
            SafeCheckpointIO().load_checkpoint(path)
    torch.save({"weight": torch.ones(2)}, path)  # a pickle is not looked into
    with pytest.raises(TrainingError, match=r"is damaged .*: remove it"):
        SafeCheckpointIO().load_checkpoint(path)
