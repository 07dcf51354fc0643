"""Pictures of networks: colours show the classes of nodes, and line widths show edge weights.

The two directions of an edge have different weights: the width of a line at a node shows the weight
of the edge into this node. In a picture with many edges, only those of largest weight are drawn,
and edges between two communities are curved towards the communities' centres.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gattn.draw._layout import Layout, lay_out
from gattn.draw.edges import Numbers, array, read_edges, read_weights, strongest_edges
from gattn.draw.figure import heading, line, render
from gattn.draw.theme import PALETTE, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NODES = 700
"""Maximum number of nodes in a picture in which single edges can be distinguished."""
FEW_EDGES = 300
"""A picture with at most this number of edges is readable for any number of nodes."""
FAN = 10
"""Maximum number of neighbours from which the choice of the drawn nodes goes on."""
EDGES_PER_NODE = 1.5
"""Maximum number of edges per node for which a larger picture is readable."""
CURVE = np.linspace(0, 1, 13)
"""Parameters t from 0 to 1 at which the points of a curved edge are computed."""
MARKERS = "os^"
"""Marker shapes of nodes. After eight classes, the colours are used again with the next shape."""
LOOKS = len(PALETTE) * len(MARKERS)
"""Number of combinations of colour and marker shape."""
FREQUENT = 10
"""Number of classes that have a colour if there are more classes than ``LOOKS``."""
THIN, THICK = 0.0012, 0.011
"""Width of a line at the end with weight 0, and how much wider it is with weight 1, as fractions of
the picture.
"""
LABEL = 20
"""Maximum number of characters in a text beside a node."""
CHARACTER = 0.02, 0.04
"""Width and height of a character in such a text, as fractions of the picture."""
RING, HOLLOW = "ring", "hollow"
"""Marks of nodes that the legend explains."""
HEIGHT, ROW = 4.2, 0.21
"""Height of a picture without a legend, and of a row of the legend, in inches."""
BESIDE = 16
"""The legend has two columns if no class name has more characters than this."""


def sample_network(
    edges: Numbers, nodes: int, *, most: int = NODES, classes: Numbers | None = None
) -> NDArray[np.int64]:
    """Choose a part of a large network to draw.

    Args:
        edges: [2, e] pairs of nodes.
        nodes: number of nodes.
        most: maximum number of nodes to choose.
        classes: [n] class of each node, from 0; each class has about the same share of the chosen
            nodes as of all nodes, and at least one node if ``most`` permits. None for one class.

    Returns:
        The chosen nodes in ascending order. The search runs breadth first from the node of highest
        degree, and goes on from at most ten neighbours of a node, so that a hub does not fill the
        picture. Then it starts from the next node that was not visited. If the network has no more
        than ``most`` nodes, all are returned.

    Raises:
        ValueError: the shape of ``edges`` is not (2, e), or a number is negative or not an integer.

    Example:
        >>> sample_network([[0, 1, 3], [1, 2, 4]], 5, most=3).tolist()
        [0, 1, 2]
    """
    pairs = read_edges(edges)
    if nodes <= most:
        return np.arange(nodes)
    group = np.zeros(nodes, np.int64) if classes is None else array(classes).astype(np.int64)
    quota = _quotas(np.bincount(group), most)
    pairs = _lines(pairs)
    both = np.concatenate([pairs, pairs[::-1]], 1)
    both = both[:, np.argsort(both[0], kind="stable")]
    first = np.searchsorted(both[0], np.arange(nodes + 1))
    degrees = np.diff(first)
    chosen: list[int] = []
    seen = np.zeros(nodes, bool)
    for start in np.argsort(-degrees, kind="stable").tolist():
        queue = [] if seen[start] else [start]
        seen[start] = True
        while queue and len(chosen) < most:
            node = queue.pop(0)
            if not quota[group[node]]:
                continue
            quota[group[node]] -= 1
            chosen.append(node)
            neighbours = both[1, first[node] : first[node + 1]]
            neighbours = neighbours[~seen[neighbours]]
            queue += neighbours[:FAN].tolist()
            # The remaining neighbours of a hub can be chosen as neighbours of other nodes only.
            seen[neighbours[:FAN]] = seen[neighbours[degrees[neighbours] == 1]] = True
        if len(chosen) == most:
            break
    return np.sort(np.array(chosen, np.int64))


def _lines(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the different lines [2, l] of edges [2, e]: both directions of an edge are one line,
    and self-loops are not drawn.
    """
    return np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)


def _quotas(counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return the number of nodes [c] to draw of each class, given the number of its nodes [c].

    The sum of the result is ``most``. Each class with nodes has at least one, unless ``most`` is
    smaller than the number of these classes.
    """
    exact = counts * most / counts.sum()
    quota = np.maximum(exact.astype(np.int64), counts > 0)
    # Remaining nodes go to the largest remainders; surplus ones are taken from the largest quotas.
    while (rest := most - quota.sum()) > 0:
        quota[np.argsort(quota - exact, kind="stable")[:rest]] += 1
    while (rest := quota.sum() - most) > 0:
        quota[np.argsort(-quota, kind="stable")[:rest]] -= 1
    return quota


def draw_network(
    edge_index: Numbers, weights: Numbers | None = None, colour: Numbers | None = None,
    names: Sequence[str] = (), *, labels: Sequence[str] = (), top_labels: int | None = None,
    wrong: Numbers | None = None, uncertain: Numbers | None = None, wrong_text: str = "",
    uncertain_text: str = "", most: int = NODES, max_edges: int | None = None, title: str = "",
    dark: bool = False,
) -> bytes:  # fmt: skip
    """Draw a network with separated communities; the line width of an edge shows its weight.

    Each connected component has a separate rectangle, whose area is proportional to its number of
    nodes. In a component of more than 50 nodes, the nodes of each community lie in a separate disc.
    The width of a line at the destination shows the weight of the edge. The width at the other end
    shows the weight of the opposite edge, and is thin if there is none. Lines are transparent, and
    those between communities more so.

    Args:
        edge_index: [2, e] pairs of nodes; self-loops are not drawn.
        weights: [e] from 0 to 1, or [e, h], whose mean over heads is drawn; None for 1.
        colour: [n] class of each node, as a text or an index into names, or a number; None to give
            all nodes one colour.
        names: names of the classes; empty if the colours are texts or numbers. Of more than 24
            classes, the ten most frequent ones have colours, and the others are grey.
        labels: [n] texts beside the nodes; empty for no texts.
        top_labels: number of nodes with a text, those with the largest sum of weights of outgoing
            edges (the nodes to which the others attend most), except where a text would cover
            that of a node with a larger sum; None for the texts of all nodes.
        wrong: [n] booleans, True for nodes with a ring, for example wrong predictions.
        uncertain: [n] booleans, True for nodes that are drawn hollow, for example predictions with
            several possible classes; without effect if all drawn nodes are uncertain.
        wrong_text: meaning of the rings in the legend; empty for no entry. The entry is left out if
            no drawn node has a ring.
        uncertain_text: meaning of the hollow nodes in the legend, in the same way.
        most: maximum number of nodes to draw, which :func:`sample_network` chooses. If not all
            nodes or edges are drawn, a text above the picture says so; it counts both directions
            of an edge as one.
        max_edges: maximum number of edges to draw, those of largest weight, and at least the one of
            largest weight into each node; None for 1.5 per node, and at least 300.
        title: line above the picture.
        dark: use colours for a dark page.

    Returns:
        The bytes of a PNG file.

    Raises:
        ValueError: shapes do not match, a node has no colour, a class has no name, a colour is not
            finite, a number of nodes, texts or edges is not a whole number of at least 0, or both
            ``names`` and texts as colours are passed.
        ImportError: matplotlib or networkx is not installed.

    Example:
        >>> draw_network([[0, 1], [1, 2]], [1.0, 0.5], [0, 0, 1], ["left", "right"])[1:4]
        b'PNG'
    """
    for name, number in (("top_labels", top_labels), ("most", most), ("max_edges", max_edges)):
        _check_count(name, number)
    pairs = read_edges(edge_index)
    strength, count = read_weights(weights, pairs.shape[1]), int(pairs.max(initial=-1)) + 1
    nodes = max(count, len(labels)) if colour is None else len(array(colour))
    value, names = (np.zeros(nodes), names) if colour is None else _coloured(colour, names)
    _check(count, value, names, labels)
    ringed, hollow = _mask("wrong", wrong, nodes), _mask("uncertain", uncertain, nodes)
    rare = len(names) > LOOKS
    if rare:
        value, names = _frequent(value, names)
    chosen = sample_network(pairs, nodes, most=most, classes=value if len(names) else None)
    all_edges = _lines(pairs).shape[1]
    pairs, strength = _among(pairs, strength, chosen, nodes)
    value, ringed, hollow = value[chosen], ringed[chosen], hollow[chosen]
    hollow &= not hollow.all()
    limit = max(FEW_EDGES, int(EDGES_PER_NODE * len(chosen))) if max_edges is None else max_edges
    mask = strongest_edges(pairs, strength, limit)
    part = _part_drawn(len(chosen), nodes, _lines(pairs[:, mask]).shape[1], all_edges)
    layout = lay_out(pairs[:, mask], np.clip(strength[mask], 1e-6, None), len(chosen))
    texts = [_label(str(labels[node])) for node in chosen.tolist()] if len(labels) else []
    if top_labels is not None:
        attention = np.bincount(pairs[0], strength, len(chosen)).astype(np.float64)
        texts = _top_texts(texts, attention, layout.positions, top_labels)
    columns = 2 if max(map(len, names), default=0) <= BESIDE else 1
    rows = -(-len(np.unique(value)) // columns) if len(names) else 0
    marks = {
        RING: wrong_text if ringed.any() else "", HOLLOW: uncertain_text if hollow.any() else "",
    }  # fmt: skip
    marks = {look: text for look, text in marks.items() if text}

    def draw(panels: list[Axes], theme: Theme) -> None:
        """Draw the edges, the nodes with their colours, rings and texts, and the legends on one
        panel.
        """
        from matplotlib.patheffects import withStroke

        (axes,) = panels
        _draw_edges(axes, pairs[:, mask], strength[mask], layout, theme)
        size = float(np.clip(2500 / max(len(value), 1), 8, 60))
        positions = layout.positions
        if len(names):
            shades = [*PALETTE] * len(MARKERS)
            if rare:
                shades[len(names) - 1] = theme.muted
            _draw_classes(axes, positions, value, names, shades, size, columns)
        elif colour is None:
            axes.scatter(*positions.T, s=size, color=theme.first, zorder=2)
        else:
            dots = axes.scatter(*positions.T, c=value, s=size, cmap="viridis", zorder=2)
            axes.figure.colorbar(dots, ax=axes, shrink=0.7)
        if hollow.any():
            axes.scatter(*positions[hollow].T, s=size / 5, color=theme.paper, zorder=3)
        if ringed.any():
            axes.scatter(
                *positions[ringed].T, s=3 * size + 12, facecolors="none", edgecolors=theme.ink,
                linewidths=0.9, zorder=3,
            )  # fmt: skip
        halo = [withStroke(linewidth=2, foreground=theme.paper)]
        for text, position in zip(texts, positions):
            axes.annotate(
                text, position, (4, 4), textcoords="offset points", fontsize=8,
                path_effects=halo, zorder=4,
            )  # fmt: skip
        if marks:
            _explain_marks(axes, marks, size, theme)
        axes.set_axis_off()
        axes.set_title("\n".join(filter(None, [heading(title), part])))

    return render(draw, dark=dark, height=HEIGHT + ROW * (rows + len(marks)))


def _label(text: str) -> str:
    """Shorten a name in its middle, because the names of modules and files differ at their ends."""
    short = f"{text[: LABEL // 3]}…{text[-(LABEL - LABEL // 3) :]}"
    return line(short if len(text) > len(short) else text)


def _frequent(
    value: NDArray[np.float64], names: Sequence[str]
) -> tuple[NDArray[np.float64], list[str]]:
    """Return the classes [n] and their names, renumbered so that all but the ten most frequent
    classes are one, the last. There must be more than ten names.
    """
    counts = np.bincount(value.astype(np.int64), minlength=len(names))
    frequent = np.sort(np.argsort(-counts, kind="stable")[:FREQUENT])
    place = np.full(len(names), FREQUENT)
    place[frequent] = np.arange(FREQUENT)
    others = f"{len(names) - FREQUENT:,} other classes"
    return place[value.astype(np.int64)].astype(np.float64), [
        *(str(names[i]) for i in frequent.tolist()),
        others,
    ]


def _part_drawn(nodes: int, all_nodes: int, edges: int, all_edges: int) -> str:
    """Return a text about the part of a network that is drawn; empty if it is all of it."""
    parts = [f"{nodes:,} of {all_nodes:,} nodes"] * (nodes < all_nodes)
    if edges < all_edges:
        parts.append(f"{edges:,} of {all_edges:,} edges, those of largest weight")
    return "drawn: " + " and\n".join(parts) if parts else ""


def _check_count(name: str, number: int | None) -> None:
    """Raise ValueError unless a number is None or an integer of at least 0."""
    is_whole = isinstance(number, Integral) and not isinstance(number, bool)
    if number is not None and not (is_whole and number >= 0):
        raise ValueError(f"{name} must be a whole number of at least 0; got {number!r}")


def _mask(name: str, values: Numbers | None, nodes: int) -> NDArray[np.bool_]:
    """Return a mask [n] of the given nodes; if the argument is None, no node is selected. Raises
    ValueError for anything but one boolean per node.
    """
    if values is None:
        return np.zeros(nodes, bool)
    mask = array(values)
    if mask.shape != (nodes,) or mask.dtype != bool:
        raise ValueError(f"{name} must be [{nodes}] booleans; got {mask.dtype} {mask.shape}")
    return mask


def _top_texts(
    texts: Sequence[str], attention: NDArray[np.float64], positions: NDArray[np.float64], top: int
) -> list[str]:
    """Return the texts of the ``top`` nodes with the most attention [n], and empty texts for all
    others, given their positions [n, 2].

    A text that would cover the text of a node with more attention is empty, too.
    """
    shown = [""] * len(texts)
    extent = np.maximum(np.ptp(positions, axis=0), 1e-9) if len(texts) else np.ones(2)
    boxes: list[NDArray[np.float64]] = []
    for node in np.argsort(-attention, kind="stable")[: top if len(texts) else 0]:
        low = positions[node]
        size = np.array([CHARACTER[0] * len(texts[node]), CHARACTER[1]]) * extent
        if all((low >= box + size_).any() or (low + size <= box).any() for box, size_ in boxes):
            boxes.append(np.stack([low, size]))
            shown[node] = texts[node]
    return shown


def _coloured(colour: Numbers, names: Sequence[str]) -> tuple[NDArray[np.float64], Sequence[str]]:
    """Return the index of the class of each node, or its number, [n] float64, and the names of the
    classes.

    If the colours are texts, the classes are the different texts in sorted order. Raises ValueError
    if texts and names are passed together.
    """
    values = array(colour)
    if values.dtype.kind not in "UO":
        return values.astype(np.float64), names
    if len(names):
        raise ValueError(
            "colour must be indices into names, or texts without names; got texts and names"
        )
    texts, value = np.unique(values.astype(str), return_inverse=True)
    return value.astype(np.float64), texts.tolist()


def _check(
    count: int, value: NDArray[np.float64], names: Sequence[str], labels: Sequence[str]
) -> None:
    """Raise a ValueError if colours or labels do not fit ``count`` nodes and the class names;
    ``value`` [n] has the class or number of each.
    """
    if value.ndim != 1 or len(value) < count:
        raise ValueError(f"colour must be [n] with n of at least {count}; got {value.shape}")
    if len(labels) not in (0, len(value)):
        raise ValueError(f"labels must have {len(value)} entries, one per node; got {len(labels)}")
    if not np.isfinite(value).all():
        node = int((~np.isfinite(value)).argmax())
        raise ValueError(f"colour must be finite; got {value[node]} for node {node}")
    if len(names) and len(value) and not (value.min() >= 0 and value.max() < len(names)):
        raise ValueError(f"colour must be classes from 0 to {len(names) - 1}, one for each name")


def _among(
    pairs: NDArray[np.int64], strength: NDArray[np.float64], chosen: NDArray[np.int64], nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return those of the edges [2, e] and their weights [e] that are between the chosen nodes [k],
    with new node indices and without self-loops.
    """
    index = np.full(nodes, -1)
    index[chosen] = np.arange(len(chosen))
    renumbered = index[pairs]
    mask = (renumbered >= 0).all(0) & (pairs[0] != pairs[1])
    return renumbered[:, mask], strength[mask]


def _draw_edges(
    axes: Axes, pairs: NDArray[np.int64], strength: NDArray[np.float64], layout: Layout,
    theme: Theme,
) -> None:  # fmt: skip
    """Add edges [2, e] to a plot: strength [e] sets the width; edges between communities are
    fainter.
    """
    from matplotlib.collections import PolyCollection

    if not pairs.size:
        return
    # Both directions of an edge are one line with a width at each end.
    lines, index = np.unique(np.sort(pairs, axis=0), axis=1, return_inverse=True)
    ends = np.zeros(lines.shape)
    np.maximum.at(ends, (1 * (pairs[0] < pairs[1]), index.reshape(-1)), strength.clip(0, 1))
    inside = layout.community[lines[0]] == layout.community[lines[1]]
    extent = float(np.ptp(layout.positions, axis=0).max()) or 1.0
    widths = extent * (THIN + THICK * ((1 - CURVE) * ends[0][:, None] + CURVE * ends[1][:, None]))
    shapes = PolyCollection(_strips(_curves(lines, layout), widths), linewidths=0)
    shapes.set_facecolor(theme.muted)
    shapes.set_alpha(np.where(inside, 0.65, 0.35).tolist())
    axes.add_collection(shapes)


def _strips(curves: NDArray[np.float64], widths: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return polygons around curves [e, p, 2] with the given width [e, p] at each point."""
    along = np.gradient(curves, axis=1)
    length = np.maximum(np.linalg.norm(along, axis=-1), 1e-12)
    across = np.stack([-along[..., 1], along[..., 0]], -1) * (widths / length / 2)[..., None]
    return list(np.concatenate([curves + across, (curves - across)[:, ::-1]], axis=1))


def _curves(pairs: NDArray[np.int64], layout: Layout) -> NDArray[np.float64]:
    """Return the p points of the curve of each edge, [e, p, 2].

    An edge inside a community is straight. An edge between communities is a quadratic Bezier curve,
    whose control point is pulled to the mean of the communities' centres, so that the edges between
    the same two communities form a bundle.
    """
    start, end = layout.positions[pairs]
    middle = (start + end) / 2
    first, second = layout.community[pairs]
    centre = (layout.centres[first] + layout.centres[second]) / 2
    control = np.where((first == second)[:, None], middle, 0.3 * middle + 0.7 * centre)
    t = CURVE[:, None]
    start, control, end = start[:, None], control[:, None], end[:, None]
    return (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end


def _draw_classes(
    axes: Axes, positions: NDArray[np.float64], value: NDArray[np.float64], names: Sequence[str],
    shades: Sequence[str], size: float, columns: int,
) -> None:  # fmt: skip
    """Add the nodes of each class to a plot, in its colour and marker, and a legend; ``positions``
    is [n, 2], and ``value`` [n] has the index of the class of each node.
    """
    for i, name in enumerate(names):
        if (rows := value == i).any():
            axes.scatter(
                *positions[rows].T, s=size, color=shades[i], marker=MARKERS[i // len(PALETTE)],
                label=line(name), zorder=2,
            )  # fmt: skip
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=columns)


def _explain_marks(axes: Axes, marks: Mapping[str, str], size: float, theme: Theme) -> None:
    """Add a legend for rings and hollow nodes to the figure, below the legend of the classes."""
    from matplotlib.lines import Line2D

    # Area, fill, line colour and line width of each mark, as in the picture.
    looks = {
        RING: (3 * size, "none", theme.ink, 0.9),
        HOLLOW: (size, theme.paper, theme.muted, 0.25 * size**0.5),
    }
    handles = []
    for mark, text in marks.items():
        area, fill, ink, width = looks[mark]
        handles.append(
            Line2D(
                [], [], linestyle="none", marker="o", markersize=area**0.5, markerfacecolor=fill,
                markeredgecolor=ink, markeredgewidth=width, label=line(text),
            )
        )  # fmt: skip
    # The layout of the figure leaves room for a legend that is outside.
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=1)
