"""A checkpoint is one file, and loading it executes no code from it."""

import collections
import hashlib
import io
import math
import pickle

import pytest
import torch
from torch import nn

from gattn.apps.fitting.loop import load_checkpoint, save_checkpoint
from gattn.apps.fitting.types import TrainingError


def test_loaded_checkpoint_equals_the_saved_checkpoint(tmp_path) -> None:
    tree = {
        "state": {0: {"step": torch.tensor(4.0), "exp_avg": torch.randn(2, 3)}, 1: {}},
        "betas": (0.9, 0.999),
        "values": ["a", None, True, 1.5, [], (), math.inf, -math.inf],
        "nan": math.nan,
        "weights": collections.OrderedDict(
            a=torch.arange(3), b=torch.ones(1, dtype=torch.bfloat16)
        ),
    }
    path = tmp_path / "c.pt"
    save_checkpoint(path, {"old": 1})
    save_checkpoint(path, tree)
    loaded = load_checkpoint(path)
    assert list(loaded) == list(tree)
    assert loaded["betas"] == tree["betas"]
    assert loaded["values"] == tree["values"]
    assert math.isnan(loaded["nan"])
    assert list(loaded["state"]) == [0, 1]
    assert torch.equal(loaded["state"][0]["exp_avg"], tree["state"][0]["exp_avg"])
    assert loaded["state"][0]["step"].shape == ()
    assert torch.equal(loaded["weights"]["a"], torch.arange(3))
    assert loaded["weights"]["b"].dtype == torch.bfloat16
    assert [file.name for file in tmp_path.iterdir()] == ["c.pt"]


@pytest.mark.parametrize(
    "value",
    [nn.Linear(1, 1), collections.namedtuple, test_loaded_checkpoint_equals_the_saved_checkpoint],
)
def test_checkpoint_with_an_unsupported_object_raises_error(tmp_path, value) -> None:
    with pytest.raises(TypeError, match="a checkpoint cannot contain "):
        save_checkpoint(tmp_path / "c.pt", {"a": {"b": value}})
    assert list(tmp_path.iterdir()) == []


class Payload:
    """Object whose pickle creates a file when it is loaded."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def write_sealed(path, value) -> None:
    """Write an archive after its right checksum."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    path.write_bytes(hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())


def test_damaged_or_pickled_checkpoint_raises_error_and_executes_no_code(tmp_path) -> None:
    path, created = tmp_path / "c.pt", tmp_path / "created"
    pickled = pickle.dumps({"a": Payload(created)})
    for content in (b"", b"[", b"PK\x03\x04", b"\x80\x02}q\x00.", pickled, bytes(200), b"names\n"):
        path.write_bytes(content)
        with pytest.raises(TrainingError, match=r"c\.pt is damaged .*: remove it"):
            load_checkpoint(path)
    write_sealed(path, {"a": Payload(created)})
    with pytest.raises(TrainingError, match=r"c\.pt is damaged .*: remove it"):
        load_checkpoint(path)
    assert not created.exists()
    write_sealed(path, [1, 2])
    with pytest.raises(TrainingError, match="it contains a list, not a dict"):
        load_checkpoint(path)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "absent.pt")


def test_checkpoint_with_one_changed_bit_raises_error(tmp_path) -> None:
    path = tmp_path / "c.pt"
    save_checkpoint(path, {"weights": torch.zeros(1000), "epoch": 2})
    content = path.read_bytes()
    for place in range(0, len(content), len(content) // 50):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(TrainingError, match=r"c\.pt is damaged .*checksum"):
            load_checkpoint(path)
