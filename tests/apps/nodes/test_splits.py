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
from gattn.apps.nodes.splits import (
    column_split,
    has_drawn_validation,
    masked_split,
    per_class_split,
    random_node_split,
)
from gattn.apps.nodes.times import time_split
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


@pytest.mark.parametrize("kind", ["tensor", "numpy", "list", "column", "int", "words"])
@pytest.mark.parametrize(
    ("parts", "drawn_from", "test", "note"),
    [
        ("train val test", None, AS_GIVEN["test"], None),
        ("train test", AS_GIVEN["train"], AS_GIVEN["test"], "is drawn from train_mask, 6 of 30"),
        ("train val", None, AS_GIVEN["test"] + REST, "the 20 labelled nodes in no mask"),
        ("train", AS_GIVEN["train"], [*range(30, 60)], "is drawn from train_mask, 6 of 30"),
        ("val test", [*range(30), *REST], AS_GIVEN["test"], "the 35 labelled nodes in no mask"),
        (
            "test",
            [*range(40), *REST],
            AS_GIVEN["test"],
            "is drawn from the labelled nodes in no mask, 9 of 45",
        ),
    ],
)
def test_any_masks_are_parts_and_what_they_leave_open_is_said(kind, parts, drawn_from, test, note):
    masks = {f"{part}_mask": MASKS[f"{part}_mask"] for part in parts.split()}
    if kind == "numpy":
        masks = {name: mask.numpy() for name, mask in masks.items()}
    elif kind == "list":
        masks = {name: mask.tolist() for name, mask in masks.items()}
    elif kind == "int":
        masks = {name: mask.to(torch.uint8)[:, None] for name, mask in masks.items()}
    elif kind == "words":
        masks = {name: np.where(mask, "True", "False") for name, mask in masks.items()}
    graph = _table(**masks) if kind in ("column", "words") else _data(**masks)
    # The default model uses the parts for each of its components.
    settings = SMALL | {"model": "stacked"} if kind in ("tensor", "words") else SMALL
    model = NodeClassifier(label="y", **settings).fit(graph)
    train, val = model.split_.train.tolist(), model.split_.val.tolist()
    if "val" in parts.split():
        assert val == AS_GIVEN["val"]
    if drawn_from is not None:
        assert sorted(train + val) == drawn_from or parts == "val test"
    assert not {*train, *val} & {*test}
    assert not {*train} & {*val}
    assert model.split_.test.tolist() == test
    if note is not None:
        assert any(note in line for line in model.notes_), model.notes_


def test_validation_alone_leaves_the_others_for_training():
    model = NodeClassifier(**SMALL).fit(_data(val_mask=VAL))
    assert model.split_.train.tolist() == [*range(30), *range(40, 60)]
    assert model.split_.val.tolist() == AS_GIVEN["val"]
    assert not len(model.split_.test)


def test_other_names_of_the_validation_mask_are_read():
    for name in ("valid_mask", "validation_mask"):
        for graph in (
            _data(train_mask=TRAIN, test_mask=TEST, **{name: VAL}),
            _table(train_mask=TRAIN, test_mask=TEST, **{name: VAL}),
        ):
            model = NodeClassifier(label="y", **SMALL).fit(graph)
            assert model.split_.val.tolist() == AS_GIVEN["val"]
            assert [c.name for c in model.predictor_.encoder.columns] in ([], ["size"])


def test_drawn_validation_depends_on_the_seed_alone():
    parts = [
        NodeClassifier(seed=seed, **SMALL).fit(_data(train_mask=TRAIN)).split_.val.tolist()
        for seed in (0, 0, 1)
    ]
    assert parts[0] == parts[1] != parts[2]
    half = NodeClassifier(validation_fraction=0.5, **SMALL).fit(_data(train_mask=TRAIN))
    assert len(half.split_.val) == 15


def test_drawn_validation_is_a_field_of_the_split():
    y, times, shares = Y.double(), np.arange(NODES, dtype=float), (0.6, 0.2, 0.2)
    drawn = [
        random_node_split(y, 0, shares, by_class=False),
        random_node_split(y, 0, shares, by_class=True),
        time_split(y, times, shares, "year")[0],
        masked_split(read_graph(_data(train_mask=TRAIN)), y, 0, by_class=True)[0],
    ]
    assert all(map(has_drawn_validation, drawn))
    assert [split.time for split in drawn] == ["", "", "year", ""]
    some = drawn[2].among(torch.arange(50))
    assert has_drawn_validation(some)
    assert some.time == "year"
    assert not has_drawn_validation(random_node_split(y, 0, (0.8, 0, 0.2), by_class=True))
    assert not has_drawn_validation(per_class_split(y, 0))
    assert not has_drawn_validation(
        masked_split(read_graph(_data(**MASKS)), y, 0, by_class=True)[0]
    )
    parts = TRAIN.nonzero().flatten(), VAL.nonzero().flatten(), TEST.nonzero().flatten()
    assert not has_drawn_validation(Split(*parts, "random parts of a publication"))


def test_masks_that_mark_no_node_are_absent_or_an_error():
    none = torch.zeros(NODES, dtype=torch.bool)
    model = NodeClassifier(**SMALL).fit(_data(train_mask=TRAIN, val_mask=none, test_mask=TEST))
    assert len(model.split_.val) == 6
    assert any(
        note.startswith("val_mask contains no node: the validation part is")
        for note in model.notes_
    )
    with pytest.raises(
        GraphError, match="train_mask contains no node: no node is left for training"
    ):
        NodeClassifier(**SMALL).fit(_data(train_mask=none, val_mask=VAL, test_mask=TEST))
    with pytest.raises(GraphError, match="train_mask contains no node"):
        NodeClassifier(**SMALL).fit(_data(**dict.fromkeys(MASKS, none)))


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (
            {"train_mask": ~VAL, "val_mask": VAL, "test_mask": TEST},
            "in one part; train_mask and test_mask share 15 nodes, for example node 40$",
        ),
        (
            {"train_mask": TRAIN | TEST, "val_mask": VAL | TEST, "test_mask": TEST},
            "train_mask and val_mask share 15 nodes, for example node 40; train_mask and test_mask "
            "share 15 nodes, for example node 40; val_mask and test_mask share 15 nodes",
        ),
        ({"test_mask": ~torch.zeros(NODES, dtype=torch.bool)}, "no node is left for training"),
        (
            {"train_mask": torch.ones(NODES, 10)},
            r"it is \(60, 10\): .* for example train_mask\[:, 0\]",
        ),
        ({"train_mask": torch.arange(20)}, r"it is \(20,\): convert indices to a mask"),
        ({"train_mask": torch.arange(NODES)}, "must contain true and false; it contains '2'"),
        (
            {"train_mask": TRAIN & (Y == 0) & (torch.arange(NODES) < 2)},
            "too few to draw a validation part",
        ),
    ],
)
def test_masks_that_contradict_are_errors(masks, message):
    with pytest.raises(GraphError, match=message):
        NodeClassifier(**SMALL).fit(_data(**masks))


def test_overlaps_of_masks_in_a_file_name_the_node_and_its_line(tmp_path):
    edges, nodes = _table(train_mask=TRAIN.numpy(), test_mask=(TEST | VAL).numpy())
    nodes.loc[3, "test_mask"] = True
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    with pytest.raises(GraphError, match=r"and test_mask share 1 node, for example node '3'$"):
        NodeClassifier(**SMALL).fit((edges, nodes))
    graph = read_graph_file(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    with pytest.raises(GraphError, match=r"share 1 node, for example node '3' \(line 5\)$"):
        masked_split(graph, Y.double(), 0, by_class=True)


def test_a_second_mask_of_validation_is_not_read_and_a_note_says_so():
    model = NodeClassifier(**SMALL).fit(_data(**MASKS, valid_mask=TEST))
    assert model.split_.val.tolist() == AS_GIVEN["val"]
    assert "valid_mask is not used: val_mask marks the validation part." in model.notes_


@pytest.mark.parametrize("kind", [_data, _table])
def test_a_training_part_of_one_class_is_an_error(kind):
    masks = {"train_mask": (Y == 0).numpy(), "test_mask": (Y > 0).numpy()}
    message = (
        r"training part must have at least two classes; its \d+ labelled nodes are of class "
        r"0 only, and the data have the 3 classes 0 \(20\), 1 \(20\), 2 \(20\)"
    )
    with pytest.raises(GraphError, match=message):
        NodeClassifier(label="y", **SMALL).fit(kind(**masks))
    regressor = NodeRegressor(label="y", features=["size"] if kind is _table else None, **SMALL)
    with pytest.raises(GraphError, match=r"at least two different labels; its \d+ labelled nodes"):
        regressor.fit(kind(**masks))


def test_numbers_that_are_equal_in_the_training_part_are_an_error():
    y = torch.where(TRAIN, 2.5, Y.double())
    message = (
        r"must have at least two different labels; its 30 labelled nodes all have 2\.5 "
        r"\(split"
    )
    with pytest.raises(GraphError, match=message):
        NodeRegressor(**SMALL).fit(_data(y, **MASKS))
    y[0] = 1.0
    assert len(NodeRegressor(**SMALL).fit(_data(y, **MASKS)).split_.train) == 30


def test_classes_that_parts_lack_are_named_with_their_counts():
    model = NodeClassifier(**SMALL).fit(
        _data(train_mask=TRAIN & (Y != 2), val_mask=VAL & (Y == 0), test_mask=TEST & (Y != 1))
    )
    assert [note for note in model.notes_ if "part has no node" in note] == [
        "The training part has no node of class 2 (20 labelled nodes in the data): the model "
        "does not learn to predict it.",
        "The validation part has no node of the 2 classes 1 (20), 2 (20) (labelled nodes in "
        "the data): the choice of the epoch does not depend on them.",
        "The test part has no node of class 1 (20 labelled nodes in the data): the scores on "
        "the test part do not include it.",
    ]
    whole = NodeClassifier(**SMALL).fit(_data(**MASKS))
    assert not [note for note in whole.notes_ if "part has no node" in note]


def test_masks_over_nodes_without_a_label_are_counted():
    y = Y.clone()
    y[25:32] = -1
    model = NodeClassifier(**SMALL).fit(_data(y, **MASKS))
    assert model.split_.train.tolist() == [*range(25)]
    assert model.split_.val.tolist() == [*range(32, 40)]
    notes = " ".join(model.notes_)
    assert "5 of the 30 nodes of train_mask have no label" in notes
    assert "2 of the 10 nodes of val_mask have no label" in notes
    y[30:40] = -1
    with pytest.raises(GraphError, match="val_mask marks 10 nodes, but none of them has a label"):
        NodeClassifier(**SMALL).fit(_data(y, **MASKS))


def test_a_column_may_name_some_parts():
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


def test_a_graph_without_masks_has_no_public_split():
    with pytest.raises(GraphError, match="needs masks: the nodes have no attribute 'train_mask'"):
        masked_split(read_graph(_table()), Y.double(), 0, by_class=True)


@pytest.mark.parametrize(
    ("y", "classes", "missing", "note"),
    [
        (torch.where(Y == 2, -1, Y), [0, 1], 20, "y is -1 for 20 of 60 nodes: they have no label."),
        (torch.where(Y == 2, -1, Y)[:, None], [0, 1], 20, "y is -1 for 20 of 60 nodes"),
        (torch.where(Y == 2, -1.0, Y.double()), [0, 1], 20, "y is -1 for 20 of 60 nodes"),
        (torch.where(Y == 2, torch.nan, Y.double()), [0, 1], 20, "missing for 20 of 60 nodes"),
        (Y > 0, [False, True], 0, None),
        (Y.float(), [0, 1, 2], 0, None),
        (Y.double() / 2, [0.0, 0.5, 1.0], 0, None),
        (Y.numpy(), [0, 1, 2], 0, None),
        (["a" if one else "b" for one in Y], ["a", "b"], 0, None),
    ],
)
def test_labels_of_data(y, classes, missing, note):
    model = NodeClassifier(**SMALL).fit(_data(y))
    assert model.classes_.tolist() == classes
    assert int(model.y_.isnan().sum()) == missing
    assert note is None or any(note in line for line in model.notes_)


def test_minus_one_in_a_tensor_beside_the_graph_is_no_class():
    y = torch.where(Y == 2, -1, Y)
    model = NodeClassifier(**SMALL).fit(_data(), y)
    assert model.classes_.tolist() == [0, 1]
    assert np.isfinite(model.score(_data(), y))
    # In a list, -1 is a class, because None marks a missing label.
    listed = NodeClassifier(**SMALL).fit(_data(), y.tolist())
    assert listed.classes_.tolist() == [-1, 0, 1]
    column = NodeClassifier(label="y", **SMALL).fit(_table(y=y.numpy()))
    assert column.classes_.tolist() == [-1, 0, 1]


def test_minus_one_is_a_number_to_a_regressor():
    y = torch.where(Y == 2, -1, Y)
    model = NodeRegressor(**SMALL).fit(_data(y))
    assert not model.y_.isnan().any()
    assert model.y_.min() == -1


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            torch.where(Y == 2, -2, Y),
            "numbered from 0, and -1 for a node without a label; node 2 has -2",
        ),
        (torch.where(Y == 2, -100, Y), "node 2 has -100. For numbers use NodeRegressor"),
        (torch.where(Y == 2, -1, 1), "at least two classes; there is one: 1"),
        (
            torch.ones(NODES, 121),
            r"it is \(60, 121\): choose one of its columns, for example y\[:, 0\]",
        ),
        (torch.tensor([1]), r"one value for each of 60 nodes; it is \(1,\)"),
    ],
)
def test_labels_of_data_that_cannot_be_classes(y, message):
    with pytest.raises(GraphError, match=message):
        NodeClassifier(**SMALL).fit(_data(y))
    with pytest.raises(GraphError, match=message):
        NodeClassifier(**SMALL).fit(_data(), y)


def test_labels_that_are_not_needed_do_not_refuse_the_graph():
    many = torch.ones(NODES, 121)
    model = NodeClassifier(**SMALL).fit(_data(many), Y)
    assert model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(GraphError, match="one class for each node; got \\[0\\], which has several"):
        NodeClassifier(**SMALL).fit(_data(), [[int(one)] for one in Y])
    frame = pd.DataFrame({"y": Y.numpy()})
    assert NodeClassifier(**SMALL).fit(_data(), frame).classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("bad", ["years", "nested", "mixed"])
def test_only_named_attributes_are_read(bad):
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


@pytest.mark.parametrize(
    ("name", "cells", "message"),
    [
        ("split", WORDS, "names the parts train, val, test: it is not used as a feature."),
        ("stage", [word.title() for word in WORDS], "use --split column:stage"),
        (
            "fold",
            ["train"] * 50 + [None] * 10,
            "names the part train: it is not used as a feature.",
        ),
        ("set", ["train"] * 50 + ["holdout"] * 10, "the part train beside 'holdout'"),
        ("train", [1, 0] * 30, "Rename it to 'train_mask' to use it as the mask (--split public)"),
        ("val", ["true", "false"] * 30, "Rename it to 'val_mask' to use it as the mask"),
        ("test", [True, False] * 30, "Rename it to 'test_mask' to use it as the mask"),
        ("is_train", [1.0, None] * 30, "Rename it to 'train_mask' to use it as the mask"),
        ("Dev_Mask", ["0", "1"] * 30, "Rename it to 'val_mask' to use it as the mask"),
    ],
)
def test_columns_of_parts_are_no_features_and_that_is_said(name, cells, message):
    graph = _table(**{name: cells})
    columns, notes = _features(graph)
    assert columns == ["size"]
    (note,) = (note for note in notes if f"Column {name!r}" in note)
    assert message in note
    assert f"--features {name}" in note
    # A column with a single value is not a feature.
    several = len({cell for cell in cells if cell is not None}) > 1
    expected = ["size", name] if several else ["size"]
    assert _features(graph, features=["size", name])[0] == expected


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("test", range(60)),
        ("train", ["bus", "tram"] * 30),
        ("set", ["red", "blue"] * 30),
        ("place", ["train", "bus"] * 30),
    ],
)
def test_columns_that_only_sound_like_parts_are_features(name, cells):
    assert _features(_table(**{name: cells}))[0] == ["size", name]


@pytest.mark.parametrize("offset", [0, 1, 100])
@pytest.mark.parametrize("name", ["index", "level_0"])
def test_row_numbers_in_another_order_are_no_feature(name, offset):
    moved = [offset + node * 7 % NODES for node in range(NODES)]
    columns, notes = _features(_table(**{name: moved}))
    assert columns == ["size"]
    (note,) = (note for note in notes if f"Column {name!r}" in note)
    assert "contains row numbers" in note
    assert _features(_table(**{name: [1, 2, 3] * 20}))[0] == ["size", name]


def test_row_numbers_in_another_order_name_no_nodes_beside_their_names():
    edges, nodes = _table()
    people = nodes.rename(columns={"id": "person"}).sample(frac=1, random_state=0)
    graph = read_graph((edges, people.reset_index()))
    assert graph.names == people["person"].tolist()
    assert graph.column("y").tolist() == people["y"].tolist()
