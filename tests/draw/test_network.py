"""Pictures of networks: the nodes that are drawn, and errors for arguments that do not fit."""

import io

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("networkx")

from matplotlib.collections import PolyCollection
from PIL import Image

from gattn.draw import draw_network, figure, network, sample_network
from gattn.draw.theme import DARK, LIGHT
from tests.draw.panels import drawn_axes

RING = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])


@pytest.fixture(autouse=True)
def _coarse(monkeypatch):
    """Lower the resolution, which makes drawing faster."""
    monkeypatch.setattr(figure, "DOTS", 50)


@pytest.fixture
def axes(monkeypatch):
    return drawn_axes(monkeypatch, network)


def _lines(axes):
    """Return the ends and the widths at both ends, [2], of each drawn edge."""
    (shapes,) = [each for each in axes[0].collections if isinstance(each, PolyCollection)]
    lines = []
    for path in shapes.get_paths():
        left, right = np.split(path.vertices[:-1], 2)
        right = right[::-1]
        width = np.linalg.norm(left - right, axis=1)
        lines.append((((left + right) / 2)[[0, -1]], width[[0, -1]]))
    return lines


def test_width_of_an_edge_at_its_source_grows_with_its_weight(axes):
    draw_network([[0, 1, 2], [1, 0, 1]], [0.2, 0.9, 0.5])
    (_, (at_0, at_1)), (_, (from_1, at_2)) = _lines(axes)
    assert at_0 > at_1 > at_2
    assert from_1 > at_2
    assert (at_0 - at_2) / (at_1 - at_2) == pytest.approx(0.9 / 0.2)
    assert (from_1 - at_2) / (at_1 - at_2) == pytest.approx(0.5 / 0.2)


def test_network_above_the_limit_of_nodes_is_drawn_as_a_sample_of_that_size(axes):
    star = np.stack([np.zeros(40, int), np.arange(1, 41)])
    draw_network(star, colour=np.arange(41), most=11)
    dots = axes[0].collections[-1].get_offsets()
    assert len(dots) == 11
    assert len(_lines(axes)) == 10


def test_picture_has_a_legend_of_classes_and_labels_of_nodes(axes):
    draw_network(RING, colour=[0, 0, 0, 1, 1, 1], names=["left", "$x$"], labels=list("abcdef"))
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == ["left", r"\$x\$"]
    assert [text.get_text() for text in axes[0].texts] == list("abcdef")


def test_classes_of_equal_colour_have_different_marker_shapes(axes):
    draw_network(RING, colour=[0, 8, 16, 1, 9, 17], names=[f"class {i}" for i in range(18)])
    dots = [
        collection
        for collection in axes[0].collections
        if not isinstance(collection, PolyCollection)
    ]
    looks = {(tuple(d.get_facecolor()[0]), len(d.get_paths()[0].vertices)) for d in dots}
    assert len(looks) == len(dots) == 6
    labels = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert labels == [f"class {i}" for i in (0, 1, 8, 9, 16, 17)]


def test_edges_of_largest_weight_are_drawn_if_edges_exceed_the_limit(axes):
    """The picture contains the strongest edge into each node, and then the strongest of all other
    edges.
    """
    edges = np.array([(i, j) for i in range(30) for j in range(30) if i != j]).T
    weights = np.random.default_rng(0).random(edges.shape[1])
    draw_network(edges, weights, max_edges=100)
    widths = np.sort(np.concatenate([width for _, width in _lines(axes)]))
    strongest = [weights[edges[1] == node].max() for node in range(30)]
    others = np.sort(weights[~np.isin(weights, strongest)])[-70:]
    drawn = np.sort([*strongest, *others])
    slope, thin = np.polyfit(drawn, widths[-100:], 1)
    assert np.allclose(widths[-100:], thin + slope * drawn)
    assert np.allclose(widths[:-100], thin)


def test_nodes_with_wrong_predictions_have_rings_and_uncertain_nodes_are_hollow(axes):
    wrong = np.arange(6) == 2
    draw_network(RING, wrong=torch.from_numpy(wrong), uncertain=np.arange(6) > 3)
    dots, hollow, rings = (c.get_offsets() for c in axes[0].collections[-3:])
    assert np.array_equal(hollow, dots[4:])
    assert np.array_equal(rings, dots[2:3])


def _legends(panel):
    """Return the legend of the classes and the legend of the marks, if there are any."""
    legend = panel.get_legend()
    return [*([] if legend is None else [legend]), *panel.figure.legends]


@pytest.mark.parametrize("classes", [0, 2])
def test_legend_explains_rings_and_hollow_nodes(axes, classes):
    """The entries are in a second legend; a mark that no node has is not explained."""
    wrong, hollow = np.arange(6) == 2, np.arange(6) > 3
    colour = {"colour": [0, 1] * 3, "names": ["left", "right"]} if classes else {}
    texts = {"wrong_text": "wrong prediction", "uncertain_text": "several classes"}
    draw_network(RING, wrong=wrong, uncertain=hollow, **texts, **colour)
    draw_network(RING, wrong=wrong & False, uncertain=hollow, **texts, **colour)
    draw_network(RING, wrong=wrong & False, uncertain=hollow & False, **texts)
    draw_network(RING, wrong=wrong, uncertain=hollow)
    legends = [
        [[text.get_text() for text in legend.get_texts()] for legend in _legends(panel)]
        for panel in axes
    ]
    first = [["left", "right"]] if classes else []
    several = ["several classes"]
    assert legends == [[*first, ["wrong prediction", *several]], [*first, several], [], []]


def test_legends_of_classes_and_of_marks_do_not_overlap(axes):
    names = [f"a class with a long name {i}" for i in range(10)]
    draw_network(
        RING, colour=list(range(6)), names=names, wrong=np.ones(6, bool), wrong_text="wrong"
    )
    upper, lower = (legend.get_window_extent() for legend in _legends(axes[0]))
    assert lower.y1 <= upper.y0 + 1
    assert lower.y0 >= -1


@pytest.mark.parametrize(("dark", "paper"), [(False, LIGHT.paper), (True, DARK.paper)])
def test_network_drawn_twice_gives_equal_pictures_with_the_background_of_the_theme(dark, paper):
    picture = draw_network(RING, dark=dark)
    assert picture == draw_network(RING, dark=dark)
    ground = Image.open(io.BytesIO(picture)).convert("RGB").getpixel((1, 1))
    assert ground == tuple(bytes.fromhex(paper[1:]))


def test_network_without_edges_and_nodes_is_drawn_as_png():
    for edges in (torch.empty(2, 0, dtype=torch.long), np.empty((2, 0))):
        assert draw_network(edges)[1:4] == b"PNG"


def test_sample_of_a_path_graph_is_connected():
    path = np.stack([np.arange(99), np.arange(1, 100)])
    chosen = sample_network(path, 100, most=20)
    assert len(chosen) == 20
    assert np.ptp(chosen) == 19


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edge_index": RING.t()}, r"shape \(2, e\); got \(6, 2\)"),
        ({"edge_index": RING.float()}, "integers of at least 0"),
        ({"edge_index": RING - 1}, "integers of at least 0"),
        ({"weights": [1.0]}, r"shape \(6,\) or \(6, h\); got \(1,\)"),
        ({"weights": [np.nan] * 6}, "finite"),
        ({"colour": [0, 1]}, r"with n of at least 6; got \(2,\)"),
        ({"colour": [0] * 5 + [2], "names": ["a", "b"]}, "classes from 0 to 1"),
        ({"colour": [0] * 6, "labels": ["a"]}, "have 6 entries, one per node; got 1"),
        ({"wrong": [0] * 6}, r"wrong must be \[6\] booleans; got int64 \(6,\)"),
        ({"colour": [0.0] * 5 + [np.nan]}, "colour must be finite; got nan for node 5"),
        ({"top_labels": -1}, "top_labels must be a whole number of at least 0; got -1"),
        ({"max_edges": -5}, "max_edges must be a whole number of at least 0; got -5"),
        ({"max_edges": 1.5}, r"max_edges must be a whole number of at least 0; got 1\.5"),
        ({"most": 2.0}, r"most must be a whole number of at least 0; got 2\.0"),
        ({"uncertain": [True]}, r"uncertain must be \[6\] booleans; got bool \(1,\)"),
    ],
)
def test_draw_network_raises_error_for_invalid_edges_weights_node_values_or_limits(
    options, message
):
    with pytest.raises(ValueError, match=message):
        draw_network(**{"edge_index": RING, **options})


def test_legend_names_the_ten_most_frequent_classes_and_counts_the_others(axes):
    classes = np.r_[np.repeat(np.arange(32, 42), 2), np.arange(32)]
    edges = np.stack([np.arange(51), np.arange(1, 52)])
    draw_network(edges, colour=classes, names=[f"class {i}" for i in range(42)])
    texts = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert texts == [*(f"class {i}" for i in range(32, 42)), "32 other classes"]


def test_sample_has_nodes_of_every_class_and_few_neighbours_of_a_hub():
    star = np.stack([np.zeros(300, int), np.arange(1, 301)])
    path = np.stack([np.arange(301, 399), np.arange(302, 400)])
    lonely = 400  # the only node of its class
    classes = np.r_[np.zeros(301, int), np.ones(99, int), 2]
    chosen = sample_network(np.concatenate([star, path], 1), 401, most=40, classes=classes)
    assert lonely in chosen
    assert set(np.bincount(classes[chosen])[:2]) == {11, 9}


def test_title_states_the_numbers_of_drawn_nodes_and_edges_only_if_some_are_omitted(axes):
    edges = np.array([(i, j) for i in range(30) for j in range(30) if i != j]).T
    for options in ({}, {"max_edges": 100}, {"most": 20}):
        draw_network(edges, **{"max_edges": 1000, **options})
    note = "edges, those of largest weight"
    all_lines, some, among = (len(panel.collections[0].get_paths()) for panel in axes)
    assert (all_lines, among) == (30 * 29 / 2, 20 * 19 / 2)
    titles = ["", f"drawn: {some} of 435 {note}", f"drawn: 20 of 30 nodes and\n190 of 435 {note}"]
    assert [panel.get_title(loc="left") for panel in axes] == titles


def test_no_node_is_hollow_if_all_nodes_are_uncertain(axes):
    draw_network(RING, uncertain=np.ones(6, bool), uncertain_text="several classes")
    assert not axes[0].figure.legends
