"""Citation networks: sparse features and the public split, from files of the registered SHA-256."""

import shutil

import pytest
import torch

from gattn.data import load_citation


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "classes"), [("Cora", 2708, 10556, 7), ("CiteSeer", 3327, 9104, 6)]
)
def test_citation_data_has_sparse_features_and_public_split(real_data, name, nodes, edges, classes):
    if not any((real_data / "planetoid" / name).rglob("*.x")):
        pytest.skip(f"the files of {name} are absent")
    data = load_citation(name, real_data, download=False)
    assert (data.num_nodes, data.num_edges, data.num_classes) == (nodes, edges, classes)
    assert data.x.layout == torch.sparse_csr
    masks = (data.train_mask, data.val_mask, data.test_mask)
    assert [int(mask.sum()) for mask in masks] == [20 * classes, 500, 1000]
    # Fifteen papers of CiteSeer have neither features nor a label in the files.
    unused = (data.x.crow_indices().diff() == 0).nonzero().squeeze(1)
    assert len(unused) == (15 if name == "CiteSeer" else 0)
    assert not data.y[unused].any()
    assert not torch.stack(masks)[:, unused].any()


def test_rows_of_normalized_features_sum_to_one(real_data):
    plain = load_citation("cora", real_data, download=False).x.to_dense()
    x = load_citation("cora", real_data, download=False, normalize_features=True).x
    total = plain.sum(1, keepdim=True)
    torch.testing.assert_close(x.to_dense(), torch.where(total > 0, plain / total, plain))


def test_citation_file_with_another_checksum_raises_error(real_data, tmp_path):
    shutil.copytree(real_data / "planetoid" / "Cora", tmp_path / "Cora")
    tampered = tmp_path / "Cora" / "raw" / "ind.cora.ally"
    tampered.chmod(0o644)
    content = bytearray(tampered.read_bytes())
    content[1000] ^= 1
    tampered.write_bytes(content)
    with pytest.raises(ValueError, match=r"ind\.cora\.ally is not the registered file"):
        load_citation("cora", tmp_path, download=False)


def test_error_about_a_missing_citation_file_names_the_file_and_the_environment_variable(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ind\.cora\.x is missing.*GATTN_DATA"):
        load_citation("cora", tmp_path, download=False)
