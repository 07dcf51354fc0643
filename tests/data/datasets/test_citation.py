"""Tests of citation networks: the result equals PyG's result for the same files, and broken files
are rejected.
"""

import shutil
import warnings

import numpy as np
import pytest
import torch
from torch_geometric.io import read_planetoid_data

from gattn.apps.nodes import NodeClassifier
from gattn.data import load_citation


def _pyg(folder, prefix):
    pytest.importorskip("scipy", reason="torch_geometric needs SciPy to read Planetoid's files")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_planetoid_data(str(folder), prefix)


def _same(ours, theirs):
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.x.to_dense(), theirs.x)
    for key in ("y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(ours[key], theirs[key]), key


@pytest.mark.parametrize(
    ("name", "folder", "nodes", "edges", "classes"),
    [("cora", "Cora", 2708, 10556, 7), ("citeseer", "CiteSeer", 3327, 9104, 6)],
)
def test_equals_pyg_on_the_real_files(real_data, name, folder, nodes, edges, classes):
    raw = real_data / "planetoid" / folder / "raw"
    if not raw.is_dir():
        pytest.skip(f"{raw} is absent")
    data = load_citation(name, real_data, download=False)
    assert (data.num_nodes, data.num_edges, data.num_classes) == (nodes, edges, classes)
    assert data.x.layout == torch.sparse_csr
    masks = (data.train_mask, data.val_mask, data.test_mask)
    assert [int(mask.sum()) for mask in masks] == [20 * classes, 500, 1000]
    _same(data, _pyg(raw, name))


def test_equals_pyg_with_isolated_test_papers(planetoid):
    data = load_citation("CiteSeer", planetoid, download=False, verify=False)
    _same(data, _pyg(planetoid / "CiteSeer" / "raw", "citeseer"))
    unused = [514, 516]
    assert not data.test_mask[unused].any()
    assert data.y[unused].tolist() == [0, 0]
    assert not data.x.to_dense()[unused].any()
    assert not torch.isin(data.edge_index, torch.tensor(unused)).any()
    assert (data.edge_index[0] != data.edge_index[1]).all()
    assert data.edge_index.unique(dim=1).shape == data.edge_index.shape


def test_rows_add_up_to_one(planetoid):
    plain = load_citation("citeseer", planetoid, download=False, verify=False)
    data = load_citation(
        "citeseer", planetoid, download=False, verify=False, normalize_features=True
    )
    x, total = plain.x.to_dense(), plain.x.to_dense().sum(1, keepdim=True)
    torch.testing.assert_close(data.x.to_dense(), torch.where(total > 0, x / total, x))
    assert torch.isfinite(data.x.values()).all()


def test_sparse_features_train(planetoid):
    data = load_citation("citeseer", planetoid, download=False, verify=False)
    weight = torch.randn(12, 4, requires_grad=True)
    (data.x @ weight).sum().backward()
    expected = data.x.to_dense().sum(0).unsqueeze(1).expand(12, 4)
    torch.testing.assert_close(weight.grad, expected)


def test_a_model_of_nodes_trains_beside_isolated_papers(planetoid):
    data = load_citation(
        "citeseer", planetoid, download=False, verify=False, normalize_features=True
    )
    model = NodeClassifier(epochs=3).fit(data)
    assert model.split_.protocol == "public"
    probabilities = model.predict_proba()
    assert probabilities.shape == (518, 3)
    assert np.allclose(probabilities.sum(1), 1)


def test_a_tampered_file_is_refused_by_its_checksum(real_data, tmp_path):
    shutil.copytree(real_data / "planetoid" / "Cora", tmp_path / "Cora")
    tampered = tmp_path / "Cora" / "raw" / "ind.cora.ally"
    tampered.chmod(0o644)
    content = bytearray(tampered.read_bytes())
    content[1000] ^= 1
    tampered.write_bytes(content)
    with pytest.raises(ValueError, match=r"ind\.cora\.ally is not the registered file"):
        load_citation("cora", tmp_path, download=False)


def test_a_tampered_pickle_is_refused_by_the_reader(planetoid):
    path = planetoid / "CiteSeer" / "raw" / "ind.citeseer.graph"
    path.write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(ValueError, match=r"ind\.citeseer\.graph: the name 'os system' is not"):
        load_citation("citeseer", planetoid, download=False, verify=False)


EYE = np.eye(3, dtype=np.int32)
BROKEN = {
    "graph is an array": ("graph", lambda p: p.array(EYE), "must contain a dict"),
    "labels are a graph": ("y", lambda p: p.graph({0: [1]}), "must contain a ndarray"),
    "features are an array": ("x", lambda p: p.array(EYE), "must contain a SparseMatrix"),
    "neighbour too large": ("graph", lambda p: p.graph({0: [518]}), r"in 0\.\.517"),
    "neighbour negative": ("graph", lambda p: p.graph({0: [-1]}), r"in 0\.\.517"),
    "neighbours no list": ("graph", lambda p: b"\x80\x02}K\x00K\x01s.", "list of papers"),
    "paper is text": ("graph", lambda p: b"\x80\x02}U\x01a]s.", "whole numbers"),
    "two classes at once": ("ty", lambda p: p.array(np.ones((6, 3), np.int32)), "exactly one"),
    "label 2": ("ty", lambda p: p.array(np.full((6, 3), 2)), "rows of 0 and 1"),
    "labels in one dimension": ("ty", lambda p: p.array(np.ones(6)), "rows of 0 and 1"),
    "too few labels": ("ty", lambda p: p.array(EYE), "equal numbers of rows"),
    "other classes": ("y", lambda p: p.array(np.eye(6)), "number of classes"),
    "other features": ("x", lambda p: p.dense_as_csr(np.ones((6, 11))), "number of columns"),
    "twice a feature": ("tx", lambda p: p.csr((6, 12), [0] + 6 * [2], [3, 3], [1, 1]), "twice"),
    "index is text": ("test.index", lambda p: b"one\n", "whole number"),
    "index is empty": ("test.index", lambda p: b"", "at least one"),
    "index repeats": ("test.index", lambda p: b"510 511 512 513 515 515", "different"),
    "index is negative": ("test.index", lambda p: b"-1 511 512 513 515 517", "negative"),
    "index in allx": ("test.index", lambda p: b"509 511 512 513 515 517", "after the 510"),
    "index far away": ("test.index", lambda p: b"510 511 512 513 515 999999", "after the 510"),
    "index beyond int64": ("test.index", lambda p: b"510 " + 30 * b"9", "whole number"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_give_one_clear_error(planetoid, pickles, case):
    part, content, says = BROKEN[case]
    (planetoid / "CiteSeer" / "raw" / f"ind.citeseer.{part}").write_bytes(content(pickles))
    with pytest.raises(ValueError, match=says):
        load_citation("citeseer", planetoid, download=False, verify=False)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ind\.cora\.x is missing.*GATTN_DATA"):
        load_citation("cora", tmp_path, download=False)


@pytest.mark.parametrize("name", ["corra", "", None])
def test_unknown_names_list_those_there_are(name):
    with pytest.raises(ValueError, match=r"no data set named .* cora, citeseer, pubmed"):
        load_citation(name)


def test_a_molecule_set_is_no_citation_network():
    with pytest.raises(ValueError, match="load_molecules"):
        load_citation("esol")
