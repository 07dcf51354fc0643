"""Tests of splits that masks and columns define, completely or partly, and of missing labels."""

import networkx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.files import read_graph_file
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.splits import column_split, masked_split, missing_classes, split_column_notes
from gattn.data import Split

SMALL = {"model": "gat", "width": 4, "heads": 2, "epochs": 2}
NODES = 60
TRAIN, VAL, TEST = (torch.zeros(NODES, dtype=torch.bool) for _ in range(3))
TRAIN[:30], VAL[30:40], TEST[40:55] = True, True, True
MASKS = {"train_mask": TRAIN, "val_mask": VAL, "test_mask": TEST}
Y = torch.arange(NODES) % 3


def _data(y=Y, **masks):
    ring = torch.arange(NODES)
    pairs = torch.stack([ring, (ring + 3) % NODES])
    return Data(x=torch.nn.functional.one_hot(Y, 3).float(), edge_index=pairs, y=y, **masks)


def _table(**columns):
    names = [str(node) for node in range(NODES)]
    edges = pd.DataFrame({"source": names, "target": names[3:] + names[:3]})
    return edges, pd.DataFrame({"id": names, "y": Y.numpy(), "size": range(NODES), **columns})


def _positions(mask):
    return mask.nonzero().flatten().tolist()


REST = [*range(55, 60)]
AS_GIVEN = {"train": _positions(TRAIN), "val": _positions(VAL), "test": _positions(TEST)}


def _masked(graph, y=Y, seed=0, **options):
    """Return the split by masks, without training a model."""
    return masked_split(read_graph(graph), y.double().reshape(-1), seed, by_class=True, **options)


def test_split_without_its_mask_is_drawn_from_labelled_nodes_with_a_note():
    for parts, drawn_from, test, note in (
        ("train val test", None, AS_GIVEN["test"], None),
        ("train test", AS_GIVEN["train"], AS_GIVEN["test"], "is drawn from train_mask, 6 of 30"),
        ("train val", None, AS_GIVEN["test"] + REST, "the 20 labelled nodes in no mask"),
        ("train", AS_GIVEN["train"], [*range(30, 60)], "is drawn from train_mask, 6 of 30"),
        ("val test", None, AS_GIVEN["test"], "the 35 labelled nodes in no mask"),
        ("val", None, [], "the 50 labelled nodes in no mask"),
        ("test", [*range(40), *REST], AS_GIVEN["test"], "is drawn from the labelled nodes in no "),
    ):
        masks = {f"{part}_mask": MASKS[f"{part}_mask"] for part in parts.split()}
        types = (
            _data(**masks),
            _data(**{name: mask.tolist() for name, mask in masks.items()}),
            _data(**{name: mask.to(torch.uint8)[:, None].numpy() for name, mask in masks.items()}),
            _table(**masks),
            _table(**{name: np.where(mask, "True", "False") for name, mask in masks.items()}),
        )
        for graph in types:
            split, notes = _masked(graph)
            train, val = split.train.tolist(), split.val.tolist()
            if "val" in parts.split():
                assert val == AS_GIVEN["val"]
            if drawn_from is not None:
                assert sorted(train + val) == drawn_from
            assert len({*train, *val, *test}) == len(train) + len(val) + len(test)
            assert split.test.tolist() == test
            assert note is None or any(note in line for line in notes), notes


def test_empty_validation_mask_gives_a_drawn_validation_part_and_an_empty_training_mask_an_error():
    none = torch.zeros(NODES, dtype=torch.bool)
    split, notes = _masked(_data(train_mask=TRAIN, val_mask=none, test_mask=TEST))
    assert len(split.val) == 6
    assert notes[-1].startswith("val_mask contains no node: the validation part is")
    for masks in ({"val_mask": VAL, "test_mask": TEST}, {"val_mask": none, "test_mask": none}):
        with pytest.raises(GraphError, match="train_mask contains no node: no node is left"):
            _masked(_data(train_mask=none, **masks))


def test_overlapping_or_invalid_masks_raise_error():
    for masks, message in (
        ({"train_mask": ~VAL, "val_mask": VAL, "test_mask": TEST}, "in one part; train_mask and"),
        (
            {"train_mask": TRAIN | TEST, "val_mask": VAL | TEST, "test_mask": TEST},
            "train_mask and val_mask share 15 nodes, for example node 40; train_mask and test_mask "
            "share 15 nodes, for example node 40; val_mask and test_mask share 15 nodes",
        ),
        ({"train_mask": torch.ones(NODES, 10)}, r"it is \(60, 10\): .* for example"),
        ({"train_mask": torch.arange(NODES)}, "must contain true and false; it contains '2'"),
        ({"train_mask": TRAIN & (Y == 0) & (torch.arange(NODES) < 2)}, "too few to draw a val"),
    ):
        with pytest.raises(GraphError, match=message):
            _masked(_data(**masks))


def test_error_about_overlapping_masks_names_the_node_and_its_line(tmp_path):
    edges, nodes = _table(train_mask=TRAIN.numpy(), test_mask=(TEST | VAL).numpy())
    nodes.loc[3, "test_mask"] = True
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    with pytest.raises(GraphError, match=r"and test_mask share 1 node, for example node '3'$"):
        NodeClassifier(**SMALL).fit((edges, nodes))
    graph = read_graph_file(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    with pytest.raises(GraphError, match=r"share 1 node, for example node '3' \(line 5\)$"):
        masked_split(graph, Y.double(), 0, by_class=True)


@pytest.mark.parametrize("kind", [_data, _table])
def test_training_split_with_one_class_raises_error(kind):
    masks = {"train_mask": (Y == 0).numpy(), "test_mask": (Y > 0).numpy()}
    message = (
        r"training part must have at least two classes; its \d+ labelled nodes are of class "
        r"0 only, and the data have the classes 0 \(20\), 1 \(20\), 2 \(20\)"
    )
    with pytest.raises(GraphError, match=message):
        NodeClassifier(label="y", **SMALL).fit(kind(**masks))
    regressor = NodeRegressor(label="y", features=["size"] if kind is _table else None, **SMALL)
    with pytest.raises(GraphError, match=r"at least two different labels; its \d+ labelled nodes"):
        regressor.fit(kind(**masks))


def test_note_names_classes_that_are_missing_in_a_split_with_their_counts():
    parts = TRAIN & (Y != 2), VAL & (Y == 0), TEST & (Y != 1)
    split = Split(*(part.nonzero().flatten() for part in parts), "public")
    number = "The number in brackets is the number of labelled nodes of the class in the data."
    assert missing_classes(Y.double(), split, [0, 1, 2]) == [
        f"The training part has no node of the classes 2 (20). {number}",
        f"The validation part has no node of the classes 1 (20), 2 (20). {number}",
        f"The test part has no node of the classes 1 (20). {number}",
    ]
    assert not missing_classes(Y.double(), _masked(_data(**MASKS))[0], [0, 1, 2])


def test_split_column_without_validation_rows_gives_a_note():
    names = ["train"] * 30 + ["NA", "none", "", None] + ["TEST"] * 26
    graph = read_graph(_table(part=names))
    split, notes = column_split(graph, "part", Y.double(), 0, by_class=True)
    assert sorted([*split.train.tolist(), *split.val.tolist()]) == [*range(30)]
    assert split.test.tolist() == [*range(34, 60)]
    assert notes == [
        "part 'val' of column 'part' contains no node: the validation part is drawn from "
        "part 'train' of column 'part', 6 of 30 nodes (seed 0)."
    ]
    assert split.protocol == "column:part, validation drawn from the training part (seed 0)"
    with pytest.raises(GraphError, match="node '2' has 'dev'"):
        column_split(
            read_graph(_table(part=["train", "", "dev"] + ["test"] * 57)), "part", Y.double(), 0,
            by_class=True,
        )  # fmt: skip


def test_classes_and_missing_labels_of_pyg_data_are_read_from_its_y():
    for y, classes, missing, note in (
        (torch.where(Y == 2, -1, Y), [0, 1], 20, "y is -1 for 20 of 60 nodes: they have no label."),
        (torch.where(Y == 2, -1.0, Y.double()), [0, 1], 20, "y is -1 for 20 of 60 nodes"),
        (torch.where(Y == 2, torch.nan, Y.double()), [0, 1], 20, "missing for 20 of 60 nodes"),
        (Y > 0, [False, True], 0, None),
        (Y.float(), [0, 1, 2], 0, None),
        (["a" if one else "b" for one in Y], ["a", "b"], 0, None),
    ):
        model = NodeClassifier(**SMALL).fit(_data(y))
        assert model.classes_.tolist() == classes
        assert int(model.y_.isnan().sum()) == missing
        assert note is None or any(note in line for line in model.notes_)


def test_label_minus_one_is_missing_in_a_tensor_and_a_class_in_a_list():
    y = torch.where(Y == 2, -1, Y)
    model = NodeClassifier(**SMALL).fit(_data(), y)
    assert model.classes_.tolist() == [0, 1]
    assert np.isfinite(model.score(_data(), y))
    # In a list, -1 is a class, because None marks a missing label.
    listed = NodeClassifier(**SMALL).fit(_data(), y.tolist())
    assert listed.classes_.tolist() == [-1, 0, 1]
    column = NodeClassifier(label="y", **SMALL).fit(_table(y=y.numpy()))
    assert column.classes_.tolist() == [-1, 0, 1]


def test_labels_of_pyg_data_that_are_no_classes_raise_error():
    for y, message in (
        (torch.where(Y == 2, -2, Y), "numbered from 0, and -1 for a node without a label; node 2"),
        (torch.ones(NODES, 121), r"it is \(60, 121\): choose one of its columns, for example"),
        (torch.tensor([1]), r"one value for each of 60 nodes; it is \(1,\)"),
    ):
        with pytest.raises(GraphError, match=message):
            NodeClassifier(**SMALL).fit(_data(y))
        with pytest.raises(GraphError, match=message):
            NodeClassifier(**SMALL).fit(_data(), y)


@pytest.mark.parametrize("bad", ["years", "nested", "mixed"])
def test_invalid_attribute_raises_error_only_as_a_feature_or_a_label(bad):
    graph = networkx.karate_club_graph()
    for node, attributes in graph.nodes(data=True):
        attributes["score"] = float(node)
        attributes["at"] = [float(node), 1.0 / (node + 1)]
        attributes[bad] = {"years": [0] * (node % 3 + 1), "nested": [[1], ["a"]], "mixed": 3}[bad]
    if bad == "mixed":
        graph.nodes[3][bad] = [1, 2]
    model = NodeClassifier(label="club", features=["score", "at"], **SMALL).fit(graph)
    assert [c.name for c in model.predictor_.encoder.columns] == ["score", "at.0", "at.1"]
    assert model.predict(graph).shape == (34,)
    with pytest.raises(GraphError, match=rf"attribute '{bad}' must have .* in features \(--fea"):
        NodeClassifier(label="club", **SMALL).fit(graph)
    with pytest.raises(GraphError, match=f"attribute '{bad}' must have"):
        NodeClassifier(label="club", features=[bad], **SMALL).fit(graph)
    with pytest.raises(GraphError, match=f"attribute '{bad}' must have"):
        NodeClassifier(label=bad, features=["score"], **SMALL).fit(graph)


WORDS = ["train"] * 40 + ["val"] * 10 + ["test"] * 10


def _features(graph, **options):
    model = NodeClassifier(label="y", **options, **SMALL).fit(graph)
    return [column.name for column in model.predictor_.encoder.columns], model.notes_


def test_column_that_may_be_a_split_or_a_mask_gives_a_note_that_suggests_its_use():
    for name, cells, message in (
        ("split", WORDS, "use --split column:split"),
        ("fold", ["train"] * 50 + [None] * 10, "use --split column:fold"),
        ("train", [1, 0] * 30, "rename it to 'train_mask', and use --split public"),
        ("test", [True, False] * 30, "rename it to 'test_mask'"),
        ("is_train", [1.0, None] * 30, "rename it to 'train_mask'"),
        ("test", range(60), None),
        ("train", ["bus", "tram"] * 30, None),
        ("place", ["train", "bus"] * 30, None),
    ):
        notes = split_column_notes(read_graph(_table(**{name: cells})))
        assert list(notes) == ([name] if message else [])
        assert all(message in note and f"--features {name}" in note for note in notes.values())


@pytest.mark.parametrize(("name", "offset"), [("index", 0), ("level_0", 100)])
def test_column_of_shuffled_row_numbers_is_no_feature(name, offset):
    moved = [offset + node * 7 % NODES for node in range(NODES)]
    columns, notes = _features(_table(**{name: moved}))
    assert columns == ["size"]
    (note,) = (note for note in notes if f"Column {name!r}" in note)
    assert "contains row numbers" in note
    assert _features(_table(**{name: [1, 2, 3] * 20}))[0] == ["size", name]


def test_shuffled_row_numbers_are_no_node_names_if_a_name_column_exists():
    edges, nodes = _table()
    people = nodes.rename(columns={"id": "person"}).sample(frac=1, random_state=0)
    graph = read_graph((edges, people.reset_index()))
    assert graph.names == people["person"].tolist()
    assert graph.column("y").tolist() == people["y"].tolist()
