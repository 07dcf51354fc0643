"""Networks with several tables of nodes: reading, errors, and means over neighbours."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import HeteroData

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.edge_columns import EdgeColumns
from gattn.apps.nodes.features import FeatureEncoder, encode_graph
from gattn.apps.nodes.files import GraphReading
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.scratch import Scratch
from gattn.apps.nodes.stack.propagation import label_features
from gattn.apps.nodes.stack.training_nodes import TrainingNodes
from gattn.apps.nodes.typed.neighbours import TypedNeighbours, Walk
from gattn.apps.nodes.typed.relations import Relation, parse_relations, parse_types
from tests.apps.nodes.typed_networks import CITES, WRITES, typed_tables, write_tables


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


def test_means_over_relations_equal_a_dense_loop():
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


def test_a_walk_of_two_steps_leaves_out_the_way_back():
    last = sp.csr_matrix(np.array([[1.0, 0], [0.5, 0.5], [0, 1.0]]))
    first = sp.csr_matrix(np.array([[0.5, 0.5, 0], [0, 0, 1.0]]))
    walk = Walk(last, first)
    values = np.array([[1.0], [10.0], [100.0]])
    # The third node has no neighbour in common with another node.
    np.testing.assert_allclose(walk @ values, [[10.0], [(0.25 + 50) / 0.75], [0.0]], rtol=1e-6)
    np.testing.assert_allclose(walk @ sp.csr_matrix(values), walk @ values)


def test_label_features_of_a_training_node_do_not_depend_on_its_label():
    encoded = _encoded()
    neighbours = TypedNeighbours(encoded.graph.network)
    draw = np.random.default_rng(0)
    labels = np.eye(3, dtype=np.float32)[draw.integers(3, size=50)]
    train, guess = np.arange(50), np.full((90, 3), 1 / 3)
    before = np.hstack(label_features(neighbours, labels, train, guess, Scratch()))
    for node in range(0, 50, 7):
        changed = labels.copy()
        changed[node] = np.roll(labels[node], 1)
        after = np.hstack(label_features(neighbours, changed, train, guess, Scratch()))
        np.testing.assert_allclose(after[node], before[node], atol=1e-6)
        assert np.abs(after - before).max() > 1e-3


def test_the_columns_do_not_depend_on_the_numbers_of_edges():
    edges, nodes = typed_tables()
    reviews = edges[WRITES].assign(author=edges[WRITES]["author"].iloc[::-1].to_numpy())
    relations = edges | {("authors", "reviews", "papers"): reviews}
    many = _encoded(relations, nodes)
    fewer = relations | {WRITES: edges[WRITES].iloc[:40]}
    other = many.encoder.attach_edges(read_graph((fewer, nodes), label="topic"))
    first, second = TypedNeighbours(many.graph.network), TypedNeighbours(other.network)
    assert first.walks == second.walks
    assert len(first.walks) == 4
    assert [one.shape[1] for one in first.contexts] == [one.shape[1] for one in second.contexts]


def test_names_may_repeat_between_types_but_not_within_one():
    nodes = {
        "papers": pd.DataFrame({"id": ["1", "2"], "topic": ["x", "y"]}),
        "authors": pd.DataFrame({"id": ["1", "2"], "age": [3, 4]}),
    }
    edges = {WRITES: pd.DataFrame({"author": ["1"], "paper": ["2"]})}
    graph = read_graph((edges, nodes), label="topic")
    assert graph.network.edges[Relation(*WRITES)].pairs.tolist() == [[0], [1]]
    twice = nodes["authors"].assign(id=["1", "1"])
    with pytest.raises(GraphError, match=r"type 'authors': names of nodes.* must differ"):
        read_graph((edges, nodes | {"authors": twice}), label="topic")


def test_edges_to_unknown_nodes_are_left_out_with_their_type():
    writes = pd.DataFrame({"author": ["a", "z", "b"], "paper": ["p", "q", "nowhere"]})
    graph = read_graph(_small(writes=writes), label="topic")
    assert [row.reason for row in graph.left_out] == [
        "there is no node 'z' of type 'authors'",
        "there is no node 'nowhere' of type 'papers'",
    ]
    assert any("2 edges left out of 3" in note for note in graph.notes)
    assert any("Type papers: 2 nodes without an edge" in note for note in graph.notes)
    assert any("Type authors: 1 node without an edge" in note for note in graph.notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"writes": pd.DataFrame({"from": ["p", "q"], "to": ["a", "b"]})},
            "there is no node 'p' of type 'authors'",
        ),
        (
            {"writes": pd.DataFrame({"author": ["z"], "paper": ["p"]})},
            "no edge connects two nodes of the tables.*there is no node 'z' of type 'authors'",
        ),
        ({"writes": pd.DataFrame({"author": ["a"]})}, "relation authors-writes-papers: .*columns"),
        ({"writes": pd.DataFrame({"author": [], "paper": []})}, "has no edges"),
        ({"authors": pd.DataFrame({"id": [], "age": []})}, "type 'authors' has no nodes"),
        (
            {"authors": pd.DataFrame({"id": ["a", "b"], "topic": ["x", "y"]})},
            r"types 'papers', 'authors' have a column 'topic': name the type to predict",
        ),
        (
            {"papers": pd.DataFrame({"id": ["p", "q", "r"], "kind": ["x", "y", "x"]})},
            "no type has a column of labels 'topic'. Columns by type: 'papers' has 'kind'",
        ),
    ],
)
def test_bad_tables_are_errors_that_name_the_table(changes, message):
    with pytest.raises(GraphError, match=message):
        read_graph(_small(**changes), label="topic")


def test_the_label_type_chooses_between_two_types_with_the_label():
    edges, nodes = _small(authors=pd.DataFrame({"id": ["a", "b"], "topic": ["x", "y"]}))
    graph = read_graph((edges, nodes), label="topic", label_type="authors")
    assert graph.names == ["a", "b"]
    assert graph.network.types == ["authors", "papers"]
    with pytest.raises(GraphError, match="must be one of 'papers', 'authors'; got 'books'"):
        read_graph((edges, nodes), label="topic", label_type="books")
    with pytest.raises(GraphError, match="label_type 'papers' is for a network with several"):
        read_graph(edges[WRITES], label_type="papers")


def test_options_name_types_and_relations():
    types = parse_types(["papers=a.csv", "co-authors=b.csv"])
    (relation,) = parse_relations(["co-authors-is-first-papers=w.csv"], types)
    assert relation == ("co-authors", "is-first", "papers")
    for values, message in (
        (["writes.csv"], "must be written as SOURCE-RELATION-DESTINATION=FILE"),
        (["writes=w.csv"], "got 'writes', which is no such relation"),
        (["papers-in-venues=w.csv"], "got 'papers-in-venues', which is no such"),
        (["papers-a-papers=w.csv", "papers-a-papers=v.csv"], "papers-a-papers has two"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_relations(values, types)
    with pytest.raises(ValueError, match="'papers' has two"):
        parse_types(["papers=a.csv", "papers=b.csv"])
    with pytest.raises(ValueError, match="must be written as TYPE=FILE"):
        parse_types(["papers.csv", "authors=b.csv"])


def test_settings_of_several_tables_are_checked_together():
    nodes = ("papers=p.csv", "authors=a.csv")
    edges = ("authors-writes-papers=w.csv",)
    good = NodeRunSettings("", nodes=nodes, edges=edges)
    assert good.tables == ["p.csv", "a.csv", "w.csv"]
    assert good.title == "authors-writes-papers"
    for changes, message in (
        ({"data": "edges.csv", "nodes": nodes, "edges": edges}, "needs no graph"),
        ({"data": "", "nodes": nodes}, "need tables of edges"),
        ({"data": "", "edges": edges}, "tables of nodes"),
        ({"data": "", "nodes": nodes, "edges": edges, "time": "year"}, "time cannot be set"),
        ({"data": "", "nodes": nodes, "edges": edges, "edge_type": "kind"}, "edge_type cannot"),
        ({"data": "edges.csv", "label_type": "papers"}, "label_type is for several tables"),
    ):
        with pytest.raises(SettingsError, match=message):
            NodeRunSettings(**changes)


def test_columns_of_edges_are_read_for_each_relation():
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
    with pytest.raises(GraphError, match="no relation has a column 'money'"):
        _encoded(edges, nodes, weight="money")
    bad = edges | {WRITES: edges[WRITES].assign(share=-1.0)}
    with pytest.raises(GraphError, match=r"authors-writes-papers: .*negative"):
        _encoded(bad, nodes, weight="share")
    with pytest.raises(GraphError, match="edge_type"):
        _encoded(edges, nodes, type="first")


def test_features_of_other_types_are_selected_by_type_and_name():
    encoded = _encoded(features=["pages", "authors.age"])
    assert [column.name for column in encoded.encoder.columns] == ["pages"]
    assert [c.name for c in encoded.encoder.network.types["authors"].columns] == ["age"]
    with pytest.raises(GraphError, match="type 'authors': the nodes have no attribute 'size'"):
        _encoded(features=["authors.size"])


def test_an_encoder_reads_another_network_and_refuses_other_types():
    encoded = _encoded()
    restored = FeatureEncoder.from_state(encoded.encoder.state())
    edges, nodes = typed_tables(papers=50, authors=20, seed=1)
    graph = restored.attach_edges(read_graph((edges, nodes), label="topic"))
    assert graph.network.inputs.x["authors"].shape == (20, 4)
    nodes["authors"] = nodes["authors"].assign(country="nowhere")
    other = read_graph((edges, nodes), label="topic")
    assert any("'country' of authors has values" in note for note in restored.unknown(other))
    del nodes["authors"], edges[WRITES]
    with pytest.raises(GraphError, match="with the types authors in addition to papers"):
        restored.attach_edges(read_graph((edges, nodes), label="topic"))
    with pytest.raises(GraphError, match="trained on several tables of nodes"):
        restored.attach_edges(read_graph(edges[CITES]))
    with pytest.raises(RuntimeError, match="attach_edges"):
        restored.features(other)


def test_hetero_data_is_read_like_tables():
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


def test_files_are_read_like_data_frames(tmp_path):
    edges, nodes = typed_tables()
    options = write_tables(tmp_path, edges, nodes)
    values = dict.fromkeys(("--nodes", "--edges"), ())
    for name, value in zip(options[::2], options[1::2]):
        values[name] += (value,)
    reading = GraphReading(nodes=values["--nodes"], edges=values["--edges"])
    graph = reading.read("", label="topic")
    expected = read_graph((edges, nodes), label="topic")
    assert graph.names == expected.names
    assert torch.equal(graph.edge_index, expected.edge_index)
    for relation, table in graph.network.edges.items():
        assert torch.equal(table.pairs, expected.network.edges[relation].pairs)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        replace(reading, nodes=("papers=nowhere.csv", "authors=nowhere.csv")).read("")
    with pytest.raises(GraphError, match=r"needs no GRAPH; got edges\.csv"):
        reading.read("edges.csv")


def test_training_nodes_of_several_types_are_matched_in_any_order_and_after_a_change():
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
