"""Node classification on one graph that several processes share.

    python examples/distributed_nodes.py                                # one process
    torchrun --nproc-per-node 2 examples/distributed_nodes.py           # two, with the same loss

The graph is made up: nodes on a ring, most edges short, most of them between nodes of one class.
The last line, of process 0, is JSON: the arguments, the loss of the last epoch, the accuracy on the
nodes that were not trained on, and what process 0 owns, reads of others, and sent.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from gattn.distributed import DistributedGraph, Partition, Processes, connect, sum_gradients
from gattn.nn import GATConv
from gattn.training.checkpoint import load_checkpoint, save_checkpoint

CLASSES, WIDTH = 4, 16


class GAT(nn.Module):
    """Two layers, as on one process."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = GATConv(WIDTH, 8, heads=4, dropout=0.2)
        self.out = GATConv(32, CLASSES, dropout=0.2)

    def forward(self, x: Tensor, graph: DistributedGraph) -> Tensor:
        """Score every class of every own node."""
        return self.out(F.elu(self.hidden(x, graph)), graph)


def ring(nodes: int, degree: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Edges, features that tell little of the class, and classes."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % CLASSES
    source = torch.arange(nodes).repeat(degree)
    step = CLASSES * torch.randint(-8, 9, source.shape, generator=draw)  # within the class
    step += (torch.rand(source.shape, generator=draw) < 0.2).long()  # or not
    x = torch.randn(nodes, WIDTH, generator=draw)
    x[torch.arange(nodes), y] += 0.5
    return torch.stack([source, (source + step) % nodes]), x, y


def part(args: argparse.Namespace, processes: Processes) -> tuple[DistributedGraph, Tensor, Tensor]:
    """The edges into the nodes of this process, their features and classes."""
    edge_index, x, y = ring(args.nodes, args.degree, args.seed)
    if args.partition == "metis":
        partition = Partition.metis(edge_index, args.nodes, processes.size)
    else:
        partition = Partition.contiguous(args.nodes, processes.size)
    graph = DistributedGraph.from_edges(edge_index.to(processes.device), partition)
    return graph, *(rows.to(processes.device)[graph.nodes] for rows in (x, y))


def train(args: argparse.Namespace, processes: Processes) -> dict[str, float]:
    """Train this process's replica of the model on its own nodes."""
    graph, x, y = part(args, processes)
    known, num_known = graph.nodes % 10 == 0, len(range(0, args.nodes, 10))
    torch.manual_seed(args.seed)  # the same parameters and dropout in every process
    model = GAT().to(processes.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    state = {"model": model, "optimizer": optimizer}
    first, loss = 0, x.new_zeros(())
    if args.checkpoint and args.checkpoint.exists():  # of however many processes
        saved = load_checkpoint(args.checkpoint)
        first = saved.pop("epochs")
        for name, values in saved.items():
            state[name].load_state_dict(values)
    for _ in range(first, args.epochs):
        optimizer.zero_grad()
        out = model(x, graph)
        loss = F.cross_entropy(out[known], y[known], reduction="sum") / num_known
        loss.backward()
        sum_gradients(model.parameters())
        optimizer.step()
    if args.checkpoint and processes.rank == 0:  # every process holds the same parameters
        values = {name: thing.state_dict() for name, thing in state.items()}
        save_checkpoint(args.checkpoint, {**values, "epochs": args.epochs})
    with torch.no_grad():
        hits = (model.eval()(x, graph).argmax(1) == y)[~known].sum()
    totals = torch.stack([loss.detach(), hits]).double()
    dist.all_reduce(totals)
    return {
        "loss": totals[0].item(),
        "accuracy": totals[1].item() / max(args.nodes - num_known, 1),
        "own_nodes": graph.num_dst,
        "halo_nodes": graph.halo.num_rows - graph.num_dst,
        "bytes_sent": graph.traffic.bytes_sent,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument("--nodes", type=int, default=4000, help="of the ring")
    parser.add_argument("--degree", type=int, default=8, help="edges out of a node")
    parser.add_argument("--epochs", type=int, default=50, help="with those of the checkpoint")
    parser.add_argument("--seed", type=int, default=0, help="of graph, model and dropout")
    kinds = ["contiguous", "metis"]
    parser.add_argument("--partition", choices=kinds, default=kinds[0], help="who owns what")
    parser.add_argument("--checkpoint", type=Path, help="a file to go on from, and to write")
    args = parser.parse_args()
    with connect() as processes:
        found = train(args, processes)
    if processes.rank == 0:
        told = {**vars(args), "checkpoint": str(args.checkpoint), "processes": processes.size}
        print(json.dumps({**told, **found}))


if __name__ == "__main__":
    main()
