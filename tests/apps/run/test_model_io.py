"""A model's folder: loading restores what was saved; bad folders give one-line errors."""

import json
import math
import resource

import pytest
import torch
from safetensors.torch import load_file

from gattn.apps.run.model_io import RunError, read_model, write_json, write_model

TENSORS = {
    "weight": torch.randn(3, 4),
    "half": torch.randn(5).half(),
    "counts": torch.arange(6, dtype=torch.uint8).reshape(2, 3),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
    "empty": torch.empty(0, 7),
}
CARD = {"task": "regression", "targets": ["logS"], "metrics": {"test": {"rmse": 0.5}}, "µ": "ü"}


@pytest.fixture
def folder(tmp_path):
    write_model(tmp_path / "run", TENSORS, CARD)
    return tmp_path / "run"


def test_tensors_and_card_of_a_model_are_equal_after_writing_and_reading(folder) -> None:
    tensors, card = read_model(folder)
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)
    assert {key: card[key] for key in CARD} == CARD
    assert card["versions"]["torch"] == torch.__version__
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "weights.safetensors"]
    # Safetensors can read the file without gattn.
    assert set(load_file(folder / "weights.safetensors")) == set(TENSORS)


def test_tensors_that_share_memory_are_equal_after_writing_and_reading(tmp_path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    views = {"whole": whole, "column": whole[:, 1], "turned": whole.T}
    write_model(tmp_path, views, {})
    tensors, _ = read_model(tmp_path)
    assert tensors.keys() == views.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, views[name])


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors"])
def test_model_file_with_one_changed_byte_raises_error(folder, name) -> None:
    path = folder / name
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(RunError):
            read_model(folder)
    path.write_bytes(content)
    read_model(folder)


def test_file_without_tensors_raises_error_even_if_its_hash_matches(folder) -> None:
    import hashlib

    weights = b"\x80\x04no tensors"
    (folder / "weights.safetensors").write_bytes(weights)
    card = json.loads((folder / "model.json").read_text())
    card["sha256"]["weights"] = hashlib.sha256(weights).hexdigest()
    (folder / "model.json").write_text(json.dumps(card))
    with pytest.raises(RunError, match=r"weights\.safetensors is damaged"):
        read_model(folder)


def test_reading_a_model_from_a_folder_of_run_folders_raises_error_that_names_one(
    folder, tmp_path
) -> None:
    (tmp_path / "several").mkdir()
    folder.rename(tmp_path / "several" / "fold-1")
    with pytest.raises(RunError, match=r"name one of them, such as .*fold-1"):
        read_model(tmp_path / "several")


def test_reading_a_folder_without_a_model_or_writing_an_invalid_card_raises_error(tmp_path) -> None:
    with pytest.raises(RunError, match="nowhere does not exist; expected the folder of a trained"):
        read_model(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"does not contain a trained model: it has no model\.json"):
        read_model(tmp_path)
    with pytest.raises(ValueError, match="format must not be in the card"):
        write_model(tmp_path, {}, {"format": 2})
    with pytest.raises(ValueError, match="the value cannot be written as JSON"):
        write_model(tmp_path, {}, {"tensor": torch.ones(1)})
    assert list(tmp_path.iterdir()) == []


def test_failed_write_of_a_model_leaves_the_earlier_model_unchanged(folder) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            write_model(folder, {"weight": torch.ones(10_000)}, CARD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_write_json_replaces_nan_and_infinity_by_null(tmp_path) -> None:
    path = tmp_path / "metrics.json"
    write_json(path, {"a": [math.nan, 1.5, {"b": math.inf}], "c": (1, "ü", None, True)})
    content = json.loads(path.read_text("utf-8"), parse_constant=pytest.fail)
    assert content == {"a": [None, 1.5, {"b": None}], "c": [1, "ü", None, True]}
