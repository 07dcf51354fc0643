"""Networks with several tables of nodes: reading, errors, and means over neighbours."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import HeteroData

from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.edges import EdgeColumns
from gattn.apps.nodes.features import encode_graph
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.stack.training_nodes import TrainingNodes
from gattn.apps.nodes.typed.neighbours import TypedNeighbours
from gattn.apps.nodes.typed.relations import Relation, parse_relations, parse_types
from tests.apps.nodes.typed_networks import CITES, WRITES, typed_tables


def _encoded(edges=None, nodes=None, **options):
    if edges is None:
        edges, nodes = typed_tables()
    directed, features = options.pop("directed", None), options.pop("features", None)
    graph = read_graph((edges, nodes), label="topic", directed=directed)
    columns = EdgeColumns(**options)
    return encode_graph(graph, features, ["topic"], edges=columns)


def _small(**changes):
    """Return tables of three papers and two authors, with changed tables by name."""
    tables = {
        "papers": pd.DataFrame({"id": ["p", "q", "r"], "topic": ["x", "y", "x"]}),
        "authors": pd.DataFrame({"id": ["a", "b"], "age": [1.0, 5.0]}),
        "writes": pd.DataFrame({"author": ["a", "b", "b"], "paper": ["p", "p", "q"]}),
    } | changes
    writes = tables.pop("writes")
    return {WRITES: writes}, tables


def _dense(encoded, relation):
    """Return the means over the messages of a relation as a dense matrix, by a loop."""
    network = encoded.graph.network
    size = network.size(relation.destination), network.size(relation.source)
    matrix = np.zeros(size)
    for source, destination in network.inputs.messages[relation].pairs.T.tolist():
        matrix[destination, source] = 1
    count = matrix.sum(1, keepdims=True)
    return matrix / np.where(count > 0, count, 1)


def test_neighbour_means_over_relations_equal_those_of_dense_matrices():
    encoded = _encoded()
    neighbours = TypedNeighbours(encoded.graph.network)
    writes, cites = Relation(*WRITES), Relation(*CITES)
    inputs = encoded.graph.network.inputs
    authors = np.hstack([inputs.x["authors"].to_dense(), inputs.degrees["authors"]])
    np.testing.assert_allclose(
        neighbours.contexts[0], _dense(encoded, writes) @ authors, rtol=1e-5, atol=1e-6
    )
    for one, relation in zip(neighbours.typed, (cites, cites.reverse())):
        np.testing.assert_allclose(one.toarray(), _dense(encoded, relation), rtol=1e-5)
    x = np.random.default_rng(0).normal(size=(90, 3))
    both = _dense(encoded, writes) @ _dense(encoded, writes.reverse())
    expected = np.zeros_like(x)
    for node in range(90):
        others = both[node].copy()
        others[node] = 0
        if others.sum():
            expected[node] = others @ x / others.sum()
    np.testing.assert_allclose(neighbours.typed[2] @ x, expected, rtol=1e-5, atol=1e-6)
    means = neighbours.means.toarray()
    assert not means.diagonal().any()
    # A row without neighbours is zero.
    assert np.isin(means.sum(1).round(5), (0, 1)).all()


def test_joined_features_have_separate_columns_for_each_node_type_and_relation():
    writes = pd.DataFrame({"author": ["a", "b", "b"], "paper": ["p", "p", "q"], "w": [1.0, 2, 3]})
    encoded = _encoded(*_small(writes=writes), weight="w")
    inputs = encoded.graph.network.inputs
    ages = inputs.x["authors"]
    one, two = np.log1p([1, 2])
    # Columns of papers: constant, authors, one; of authors: age, papers, one.
    expected = [[1, two, 1, 0, 0, 0], [1, one, 1, 0, 0, 0], [1, 0, 1, 0, 0, 0]]
    expected += [[0, 0, 0, ages[0, 0], one, 1], [0, 0, 0, ages[1, 0], two, 1]]
    x = inputs.joined(encoded.x)
    torch.testing.assert_close(x, torch.tensor(expected, dtype=torch.float32))
    assert torch.equal(inputs.joined(encoded.x.to_sparse_csr()).to_dense(), x)
    assert inputs.edge_index.tolist() == [[3, 4, 4, 0, 0, 1], [0, 0, 1, 3, 4, 4]]
    assert inputs.terms["edge_attr"][:, ::2].tolist() == [[1, 0]] * 3 + [[0, 1]] * 3
    features = inputs.messages[Relation(*WRITES)].features
    assert torch.equal(inputs.terms["edge_attr"][:3, 1:2], features)
    assert torch.equal(inputs.terms["edge_attr"][3:, 3:], features)
    weights = torch.tensor([0.5, 1.0, 1.5])
    torch.testing.assert_close(inputs.terms["attn_bias"], weights.log().repeat(2))


def test_edges_to_unknown_nodes_of_a_type_are_left_out_with_a_reason():
    writes = pd.DataFrame({"author": ["a", "z", "b"], "paper": ["p", "q", "nowhere"]})
    graph = read_graph(_small(writes=writes), label="topic")
    author, paper = (row.reason for row in graph.left_out)
    assert author == "there is no node 'z' of type 'authors'"
    assert paper == "there is no node 'nowhere' of type 'papers'"
    assert any("2 edges left out of 3" in note for note in graph.notes)
    assert any("Type papers: 2 nodes without an edge" in note for note in graph.notes)
    assert any("Type authors: 1 node without an edge" in note for note in graph.notes)


def test_invalid_table_of_a_hetero_graph_raises_error_with_its_reason():
    for name, columns, message in (
        ("writes", {"from": ["p"], "to": ["a"]}, "there is no node 'p' of type 'authors'"),
        ("writes", {"author": ["z"], "paper": ["p"]}, "no edge connects two"),
        ("writes", {"author": [], "paper": []}, "has no edges"),
        ("authors", {"id": ["a", "b"], "topic": ["x", "y"]}, "have a column 'topic': name the ty"),
        ("papers", {"id": ["p", "q"], "kind": ["x", "y"]}, "no type has a column of labels"),
    ):
        with pytest.raises(GraphError, match=message):
            read_graph(_small(**{name: pd.DataFrame(columns)}), label="topic")


def test_options_of_node_and_edge_types_are_parsed_and_invalid_edge_types_raise_error():
    types = parse_types(["papers=a.csv", "co-authors=b.csv"])
    (relation,) = parse_relations(["co-authors-is-first-papers=w.csv"], types)
    assert relation == ("co-authors", "is-first", "papers")
    for values, message in (
        (["writes.csv"], "must be written as SOURCE-RELATION-DESTINATION=FILE"),
        (["writes=w.csv"], "got 'writes', which is no such relation"),
        (["papers-a-papers=w.csv", "papers-a-papers=v.csv"], "papers-a-papers has two"),
        (["papers-reverse of a-papers=w.csv"], "must not begin with 'reverse of '"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_relations(values, types)


def test_edge_columns_of_each_relation_are_read_separately():
    edges, nodes = typed_tables()
    draw = np.random.default_rng(0)
    edges[WRITES] = edges[WRITES].assign(
        share=draw.uniform(size=len(edges[WRITES])), first=draw.integers(2, size=len(edges[WRITES]))
    )
    encoded = _encoded(edges, nodes, weight="share")
    reader = encoded.encoder.network.relations[Relation(*WRITES)]
    assert (reader.weight, [column.name for column in reader.columns]) == ("share", ["first"])
    assert encoded.encoder.network.relations[Relation(*CITES)] is None
    messages = encoded.graph.network.inputs.messages
    one = messages[Relation(*WRITES)]
    assert one.weights.mean().item() == pytest.approx(1, abs=1e-5)
    assert torch.equal(messages[Relation(*WRITES).reverse()].features, one.features)
    bad = edges | {WRITES: edges[WRITES].assign(share=-1.0)}
    with pytest.raises(GraphError, match=r"authors-writes-papers: .*negative"):
        _encoded(bad, nodes, weight="share")


def test_hetero_data_of_pyg_gives_the_same_edges_and_features_as_tables():
    edges, nodes = typed_tables()
    encoded = _encoded(edges, nodes)
    network = encoded.graph.network
    data = HeteroData()
    data["authors"].x = network.inputs.x["authors"].to_dense()
    data["papers"].x = encoded.x
    data["papers"].y = torch.arange(90) % 3
    data["authors"].train_mask = torch.ones(40, dtype=torch.bool)
    for relation, table in network.edges.items():
        data[tuple(relation)].edge_index = table.pairs
    graph = read_graph(data)
    read = encode_graph(graph, None, ["y"])
    assert graph.network.target == "papers"
    for relation, one in network.inputs.messages.items():
        same = read.graph.network.inputs.messages[relation].pairs
        assert set(map(tuple, same.T.tolist())) == set(map(tuple, one.pairs.T.tolist()))
    assert torch.equal(read.x, encoded.x)
    data["authors", "writes", "papers"].edge_index = torch.tensor([[99], [0]])
    with pytest.raises(GraphError, match="must connect nodes 0 to 39 of type 'authors'"):
        read_graph(data)


def test_training_nodes_of_several_types_are_matched_in_any_order():
    edges, nodes = typed_tables()
    first = read_graph((edges, nodes), label="topic")
    training = TrainingNodes.fit(first, np.arange(0, len(first), 2))
    shuffled = {name: table.sample(frac=1, random_state=0) for name, table in nodes.items()}
    mixed = {name: table.sample(frac=1, random_state=1) for name, table in edges.items()}
    for other in (mixed, mixed | {WRITES: mixed[WRITES].iloc[1:]}):
        second = read_graph((other, shuffled), label="topic")
        places = training.places(second)
        assert places is not None
        assert [second.names[place] for place in places] == list(first.names)[::2]
    assert training.places(read_graph(typed_tables(seed=1), label="topic")) is None
