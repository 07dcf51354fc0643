"""Features of columns compared with scikit-learn; receptive fields with the whole graph."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.columns import learn_columns, write_features
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.fields import FieldInput, read_features, receptive_field, whole_graph
from gattn.apps.nodes.network import AttentionNetwork
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.settings import NodeSettings

WORDS = [f"attention paper {i % 7} on graph{i % 3} and method{i % 5}" for i in range(60)]


def _dense(values):
    table = pd.DataFrame({"c": values})
    (column,), notes = learn_columns(table, ["c"])
    return column, write_features([column], table).to_dense().numpy(), notes


def test_numeric_column_is_standardised_and_missing_cells_have_a_feature():
    column, matrix, _ = _dense(["1", "3", None, "5"])
    assert column.kind == "number"
    scaled = (np.array([1, 3, 3, 5]) - 3) / np.std([1, 3, 5])
    assert np.allclose(matrix, np.stack([scaled, [0, 0, 1, 0]], 1))


def test_category_column_is_one_hot_and_zero_for_unknown_categories():
    column, matrix, _ = _dense(["b", "a", None, "b"])
    assert matrix.tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]
    assert column.features(pd.Series(["c", "a"])).toarray().tolist() == [[0, 0], [1, 0]]


def test_features_of_a_text_column_equal_tf_idf_of_scikit_learn():
    texts = [f"{text} {i}00 alone{i}" for i, text in enumerate(WORDS)]
    column, matrix, _ = _dense(texts)
    assert column.kind == "text"
    theirs = TfidfVectorizer(min_df=2).fit_transform(texts).toarray()
    assert matrix.shape == theirs.shape  # no two words have the same hash in these texts
    assert np.allclose(np.sort(matrix, 1), np.sort(theirs, 1), atol=1e-6)
    assert np.allclose(matrix @ matrix.T, theirs @ theirs.T, atol=1e-6)


def test_mixed_column_is_a_category_and_constant_and_empty_columns_are_unused():
    table = pd.DataFrame({"mixed": ["1", "2", "old", "2"], "same": [7] * 4, "none": [None] * 4})
    columns, notes = learn_columns(table, list(table))
    assert [(c.name, c.kind, c.categories) for c in columns] == [
        ("mixed", "category", ("1", "2", "old"))
    ]
    assert "has 3 numbers and 1 texts, for example 'old'" in notes[0]
    assert "constant" in notes[1]
    assert "empty" in notes[2]


def test_features_of_nodes_without_attributes_are_degrees_and_return_probabilities():
    star = read_graph(pd.DataFrame({"source": ["a"] * 3, "target": ["b", "c", "d"]}))
    encoder, notes = FeatureEncoder.fit(star, None, [])
    x = encoder.features(star)
    assert x.shape == (4, encoder.width) == (4, 7)
    assert torch.allclose(x[:, 0].expm1(), torch.tensor([3.0, 1.0, 1.0, 1.0]))
    # The probability that a random walk returns after two steps.
    assert torch.allclose(x[:, 4], torch.tensor([1.0, 1 / 3, 1 / 3, 1 / 3]))
    assert "no features" in notes[-1]


@pytest.mark.parametrize("model", ["gat", "gatv2", "transformer"])
@pytest.mark.parametrize("sparse", [False, True])
def test_outputs_on_a_receptive_field_equal_those_on_the_whole_graph(model, sparse):
    torch.manual_seed(0)
    edges = torch.randint(40, (2, 70))
    edges = edges[:, edges[0] != edges[1]]
    x = torch.rand(40, 6).round()
    x = x.to_sparse_csr() if sparse else x
    network = AttentionNetwork(NodeSettings(model=model, layers=3, width=8, heads=2), 6, 3).eval()
    seeds = torch.tensor([5, 39, 0])
    field = receptive_field(edges, 40, seeds, layers=3)
    some = network(FieldInput(read_features(x, field.nodes), field))
    whole = network(FieldInput(x, whole_graph(edges, 40, 3)))
    assert torch.allclose(some, whole[seeds], atol=1e-6)
    assert field.layers[-1][0].num_edges < len(edges.T)


COMPLEX = np.array([1 + 2j, 3 - 1j] * 10)


def test_complex_numbers_raise_error_only_if_their_attribute_is_used():
    for cells, message in (
        (COMPLEX, "attribute 'signal' must have real numbers; got complex numbers"),
        (COMPLEX.astype(object), "attribute 'signal' must have real numbers; got complex numbers"),
        ([[1 + 2j, 0]] * 20, "attribute 'signal' must have real numbers"),
        ([np.array([1 + 2j, 0])] * 20, "attribute 'signal' must have real numbers"),
    ):
        edges = pd.DataFrame({"source": range(20), "target": [*range(1, 20), 0]})
        nodes = pd.DataFrame({"id": range(20), "signal": cells, "size": range(20)})
        graph = read_graph((edges, nodes))
        with pytest.raises(GraphError, match=message):
            FeatureEncoder.fit(graph, None, [])
        with pytest.raises(GraphError, match=message):
            FeatureEncoder.fit(graph, ["signal"], [])
        encoder, _ = FeatureEncoder.fit(graph, ["size"], [])
        assert [column.name for column in encoder.columns] == ["size"]


DAYS = pd.date_range("2020-01-01", periods=40).to_series()


def test_dates_and_durations_of_a_data_frame_are_read_as_texts_with_a_note():
    for cells, example in (
        (DAYS, "40 cells in an unsupported number format, for example '2020-01-01'"),
        (DAYS.astype(object), "for example '2020-01-01'"),
        (DAYS.dt.to_period("D"), "for example '2020-01-01'"),
        ((DAYS - DAYS.iloc[0]).astype(object), "for example '0 days"),
    ):
        table = pd.DataFrame({"at": list(cells)} if cells.dtype == object else {"at": cells.array})
        columns, notes = learn_columns(table, ["at"])
        assert all(column.kind != "number" for column in columns)
        assert example in notes[0]
