"""Attention is a graph: the same model on digits and on sequences, with different graphs.

    python examples/attention_is_a_graph.py                  # needs scikit-learn for the digits

Digits: pixels attend to their neighbours. Sequences: every token predicts the symbol of a marked
token, if the graph has a path to it. In "none" a token attends to itself. The last line is JSON.
"""

import argparse
import functools
import json
import time

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch_geometric.nn import Aggregation, PositionalEncoding, SumAggregation
from tqdm import trange

from gattn import Graph, graphs
from gattn.nn import LearnedQueryReadout, TransformerBlock

WIDTH, LAYERS, CLASSES, SYMBOLS = 32, 2, 10, 8
BAND, NONE = (functools.partial(graphs.band, width=width) for width in (4, 0))
GRAPHS = {"complete": graphs.complete, "causal": graphs.causal, "band": BAND, "none": NONE}


class Model(nn.Module):
    """Two attention blocks on any graph, with an output per node or, with a readout, per graph."""

    def __init__(self, in_channels: int, position: nn.Module, readout: Aggregation | None) -> None:
        super().__init__()
        self.embed, self.position = nn.Linear(in_channels, WIDTH), position
        self.blocks = nn.ModuleList(TransformerBlock(WIDTH, heads=4) for _ in range(LAYERS))
        self.readout, self.head = readout, nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, place: Tensor, graph: Graph, batch: int = 1) -> Tensor:
        """Return class scores of every node or, with a readout, of every graph of the batch."""
        h, index = self.embed(x) + self.position(place), torch.arange(len(x), device=x.device)
        for block in self.blocks:
            h = block(h, graph)
        if self.readout is not None:
            h = self.readout(h, index // (len(x) // batch), dim_size=batch)
        return self.head(h)


def digits(radius: int, epochs: int, seed: int, device: str) -> float:
    """Return the test accuracy on 8 x 8 digits if each pixel attends to the pixels in a box of the
    given radius.
    """
    torch.manual_seed(seed)
    x, y = (torch.from_numpy(part).to(device) for part in load_digits(return_X_y=True))
    x, (train, test) = x.float()[..., None] / 16, torch.randperm(len(x), device=device).split(1437)
    readout = LearnedQueryReadout(WIDTH, WIDTH // 2, 2, heads=4) if radius else SumAggregation()
    model = Model(1, nn.Embedding(64, WIDTH), readout).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, epochs * len(train.split(32)))
    grid = functools.cache(functools.partial(graphs.grid, (8, 8), radius, device=device))

    def predict(part: Tensor) -> Tensor:
        place, graph = torch.arange(64 * len(part), device=device) % 64, grid(batch=len(part))
        return model(x[part].flatten(0, 1), place, graph, len(part))

    for _ in trange(epochs, desc=f"digits, radius {radius}", leave=False):
        for part in train[torch.randperm(len(train), device=device)].split(32):
            model.zero_grad()
            F.cross_entropy(predict(part), y[part]).backward()
            optimizer.step()
            schedule.step()
    return (predict(test).argmax(1) == y[test]).double().mean().item()


def sequences(kind: str, steps: int, seed: int, device: str) -> tuple[float, float]:
    """Return the accuracy of the marked symbol, and the best accuracy that the graph allows."""
    torch.manual_seed(seed)
    model = Model(SYMBOLS + 1, PositionalEncoding(WIDTH), None).to(device)
    optimizer, batches = torch.optim.AdamW(model.parameters(), 1e-2), []
    for step in trange(steps + 20, desc=f"sequences, {kind}", leave=False):
        sizes = torch.randint(10, 60, (32,))
        graph = GRAPHS[kind](sizes.tolist(), device=device)
        symbol, start = torch.randint(SYMBOLS, (graph.num_dst,)), sizes.cumsum(0) - sizes
        marked = start + (torch.rand(len(sizes)) * sizes).long()
        mark = torch.zeros(graph.num_dst, 1).index_fill(0, marked, 1.0).to(device)
        x = torch.cat([F.one_hot(symbol, SYMBOLS).to(device), mark], dim=1)
        place = (torch.arange(graph.num_dst) - start.repeat_interleave(sizes)).to(device)
        score, y = model(x, place, graph), symbol[marked].repeat_interleave(sizes).to(device)
        if step < steps:
            model.zero_grad()
            F.cross_entropy(score, y).backward()
            optimizer.step()
            continue
        for _ in range(LAYERS):
            # Count the paths from the marked node to each node; a node without a path can only
            # guess.
            mark = mark.index_add(0, graph.edge_index[1], mark[graph.edge_index[0]])
        batches.append(
            torch.stack([score.argmax(1).eq(y).float(), mark[:, 0].clamp(1 / SYMBOLS, 1)])
        )
    return tuple(torch.cat(batches, dim=1).mean(1).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    devices = ["cpu", "cuda"][: 1 + torch.cuda.is_available()]
    for name, n, text in (
        ("epochs", 12, "number of epochs on the images of digits"),
        ("steps", 150, "number of training steps on the sequences"),
        ("seed", 0, "seed of the data and of the initial weights"),
    ):
        parser.add_argument(f"--{name}", type=int, default=n, help=text)
    parser.add_argument(
        "--device", choices=devices, default="cpu", help="device on which the models are trained"
    )
    args = parser.parse_args()
    if min(args.epochs, args.steps) < 1 or not 0 <= args.seed < 2**63:
        parser.error("--epochs and --steps must be at least 1, --seed at least 0 and in 64 bits")
    start, results = time.perf_counter(), {}
    for kind, radius in (("grid", 2), ("none", 0)):
        results[f"digits_{kind}"] = accuracy = digits(radius, args.epochs, args.seed, args.device)
        print(f"digits, {kind}: accuracy {accuracy:.3f}")
    for kind in GRAPHS:
        accuracy, best = sequences(kind, args.steps, args.seed, args.device)
        results |= {f"sequences_{kind}": accuracy, f"sequences_{kind}_possible": best}
        print(f"sequences, {kind}: accuracy {accuracy:.3f}, best possible {best:.3f}")
    print(json.dumps(dict(**vars(args), **results, seconds=time.perf_counter() - start)))


if __name__ == "__main__":
    main()
