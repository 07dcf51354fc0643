"""Draw the guide's pictures: the attention matrix of each kind of graph.

    python -m docs.tools.pictures

writes docs/guide/images/*.png. The files are the same in every run.
"""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

import gattn
from docs.tools.drawing import LIGHT, WEIGHTS, plt
from gattn import functional, graphs
from gattn.nn import GATConv, LearnedQueryReadout

FOLDER = Path(__file__).parents[1] / "guide" / "images"


def matrix(graph: gattn.Graph, weight: Tensor) -> np.ndarray:
    """Return weights [e, h] as a matrix [queries, keys], averaged over heads; NaN without edge."""
    dense = torch.full(graph.size[::-1], torch.nan)
    source, destination = graph.edge_index
    dense[destination, source] = weight.mean(1)
    return dense.numpy()


def draw(axes: plt.Axes, dense: np.ndarray, title: str, query: str, key: str) -> None:
    """Draw a matrix [queries, keys] with its scale: one square per pair, grey for NaN (no edge)."""
    image = axes.imshow(dense, cmap=WEIGHTS, vmin=0, interpolation="nearest")
    highest = float(np.nanmax(dense))
    bar = axes.figure.colorbar(image, ax=axes, orientation="horizontal", fraction=0.04, pad=0.02)
    bar.set_ticks([0, highest], labels=["0", f"{highest:.2g}"])
    bar.ax.tick_params(labelsize=8, length=0)
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(key)
    axes.set_ylabel(query)
    axes.set_xticks([])
    axes.set_yticks([])


def save(figure: plt.Figure, name: str) -> None:
    """Write docs/guide/images/{name}.png."""
    figure.savefig(FOLDER / f"{name}.png", dpi=110, bbox_inches="tight", metadata={"Software": ""})
    plt.close(figure)


def panels(count: int, width: float = 3.6) -> tuple[plt.Figure, list[plt.Axes]]:
    """Return a figure with adjacent axes."""
    figure, axes = plt.subplots(1, count, figsize=(width * count, 3.8), layout="constrained")
    return figure, list(np.atleast_1d(axes))


def positions(size: int, channels: int = 32) -> Tensor:
    """Return sinusoidal encodings [n, 1, c]: close tokens have similar encodings."""
    rate = 0.6 ** torch.arange(channels // 2)
    angle = torch.arange(size)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], dim=1).unsqueeze(1)


def graph_itself() -> None:
    """Draw Zachary's karate club with the attention of a trained GATConv, ordered by faction, and
    write graphs.png. torch's generator draws the parameters of the layers.
    """
    club = networkx.karate_club_graph()
    label = torch.tensor([int(club.nodes[i]["club"] == "Officer") for i in club])
    graph = gattn.Graph(club).with_self_loops()
    x = torch.eye(34)
    first = GATConv(34, 8, heads=4, add_self_loops=False)
    last = GATConv(32, 2, add_self_loops=False)
    optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()], lr=0.01)
    for _ in range(100):
        hidden = torch.relu(first(x, graph))
        loss = torch.nn.functional.cross_entropy(last(hidden, graph), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    value = first.lin(x).view(-1, 4, 8)
    weight = functional.gat_attention_weights(
        (value * first.att_dst).sum(-1), (value * first.att_src).sum(-1), graph
    )
    order = label.argsort(stable=True).numpy()
    border = float((label == 0).sum()) - 0.5
    figure, axes = panels(2, 4.2)
    place = networkx.spring_layout(club, seed=3)
    colour = [LIGHT.first if one else LIGHT.positive for one in label]
    networkx.draw_networkx(
        club, place, ax=axes[0], node_color=colour, node_size=90, with_labels=False,
        edge_color=LIGHT.muted,
    )  # fmt: skip
    axes[0].set_title("the graph", fontsize=11)
    axes[0].axis("off")
    dense = matrix(graph, weight)[np.ix_(order, order)]
    draw(axes[1], dense, "attention of a trained GATConv", "member", "neighbour")
    axes[1].axhline(border, color=LIGHT.second, lw=1)
    axes[1].axvline(border, color=LIGHT.second, lw=1)
    save(figure, "graphs")


def sets() -> None:
    """Draw three sets with members of three kinds: a member attends to its own kind, drawn by
    torch's generator; write sets.png.
    """
    sizes = [9, 4, 14]
    kind = torch.randint(0, 3, (sum(sizes),))
    x = (torch.eye(3)[kind] * 2.5 + 0.3 * torch.randn(sum(sizes), 3)).unsqueeze(1)
    graph = graphs.complete(sizes)
    weight = functional.dot_product_attention_weights(x, x, graph)
    figure, axes = panels(1, 4.2)
    draw(axes[0], matrix(graph, weight), "three sets", "query", "key")
    save(figure, "sets")


def sequences() -> None:
    """Draw two sequences of tokens with sinusoidal positions, and write sequences.png."""
    sizes = [20, 12]
    x = torch.cat([positions(size) for size in sizes])
    figure, axes = panels(3)
    for axis, (title, graph) in zip(
        axes,
        {
            "causal": graphs.causal(sizes),
            "band of three tokens on each side": graphs.band(sizes, 3),
            "band of three earlier tokens": graphs.band(sizes, 3, one_sided=True),
        }.items(),
    ):
        weight = functional.dot_product_attention_weights(x, x, graph, scale=0.6)
        draw(axis, matrix(graph, weight), title, "token", "attends to")
    save(figure, "sequences")


def grids() -> None:
    """Draw a digit: pixels attend to neighbours of similar brightness; write grids.png."""
    image = torch.from_numpy(load_digits().images[0]).float() / 16
    angle = image.flatten() * torch.pi / 2
    x = torch.stack([angle.cos(), angle.sin()], dim=1).unsqueeze(1) * 2
    graph = graphs.grid((8, 8), 2)
    dense = matrix(graph, functional.dot_product_attention_weights(x, x, graph))
    figure, axes = panels(3)
    axes[0].imshow(image.numpy(), cmap="gray_r")
    axes[0].set_title("the image and one pixel", fontsize=11)
    axes[0].add_patch(plt.Rectangle((2.5, 0.5), 1, 1, fill=False, edgecolor=LIGHT.second, lw=2.5))
    axes[0].set_xticks([])
    axes[0].set_yticks([])
    draw(axes[1], dense[1 * 8 + 3].reshape(8, 8), "where that pixel looks", "", "")
    draw(axes[2], dense, "all pixels", "pixel", "attends to")
    save(figure, "grids")


def cross() -> None:
    """Draw two pairs of sequences, and write cross.png: queries attend to the memory in reverse."""
    query_sizes, key_sizes = [12, 7], [16, 9]
    memory = torch.cat([positions(size) for size in key_sizes])
    query = torch.cat(
        [
            positions(keys)[torch.linspace(keys - 1, 0, queries).round().long()]
            for queries, keys in zip(query_sizes, key_sizes)
        ]
    )
    graph = graphs.bipartite(query_sizes, key_sizes)
    weight = functional.dot_product_attention_weights(query, memory, graph)
    figure, axes = panels(1, 4.8)
    draw(axes[0], matrix(graph, weight), "queries and their memory", "query", "memory")
    save(figure, "cross")


def readouts() -> None:
    """Draw three graphs with two queries each; the second graph is empty; write readouts.png.
    torch's generator draws the features and the queries.
    """
    index = torch.tensor([0] * 14 + [2] * 9)
    readout = LearnedQueryReadout(8, 16, num_queries=2, heads=1)
    with torch.no_grad():
        readout.query.mul_(6)
    graph = graphs.pooling_graph(index, 2, 3)
    weight = readout.attention_weights(torch.randn(23, 8), index, dim_size=3)
    figure, axes = panels(1, 7.0)
    dense = matrix(graph, weight.flatten(0, 1))
    draw(axes[0], dense, "three graphs, of which the second has no nodes", "query", "node")
    save(figure, "readouts")


def main() -> None:
    """Draw all pictures, each after torch's generator was seeded with 0, and write them to
    ``FOLDER``.
    """
    FOLDER.mkdir(exist_ok=True)
    for picture in (graph_itself, sets, sequences, grids, cross, readouts):
        torch.manual_seed(0)
        picture()


if __name__ == "__main__":
    main()
