"""Node classification on one graph that is partitioned across several processes.

    python examples/distributed_nodes.py                                # one process
    torchrun --nproc-per-node 2 examples/distributed_nodes.py           # two, with the same loss

The graph is synthetic: a ring of nodes with short edges, most of them between nodes of one class.
The last line, from process 0, is JSON: the arguments, the loss of the last epoch, the accuracy on
the unlabelled nodes, and the number of local nodes, halo nodes and sent bytes of process 0.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from gattn.apps.fitting.loop import load_checkpoint, save_checkpoint
from gattn.distributed import DistributedGraph, Partition, Processes, init_processes, sum_gradients
from gattn.nn import GATConv

CLASSES, WIDTH = 4, 16


class GAT(nn.Module):
    """Model with two layers, which is the same as in one process."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = GATConv(WIDTH, 8, heads=4, dropout=0.2)
        self.out = GATConv(32, CLASSES, dropout=0.2)

    def forward(self, x: Tensor, graph: DistributedGraph) -> Tensor:
        """Return the score of every class for every local node."""
        return self.out(F.elu(self.hidden(x, graph)), graph)


def ring(nodes: int, degree: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return edges, weakly informative features, and classes."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % CLASSES
    source = torch.arange(nodes).repeat(degree)
    step = CLASSES * torch.randint(
        -8, 9, source.shape, generator=draw
    )  # most edges join two nodes of the same class
    # A fifth of the edges lead to another class.
    step += (torch.rand(source.shape, generator=draw) < 0.2).long()
    x = torch.randn(nodes, WIDTH, generator=draw)
    x[torch.arange(nodes), y] += 0.5
    return torch.stack([source, (source + step) % nodes]), x, y


def part(args: argparse.Namespace, processes: Processes) -> tuple[DistributedGraph, Tensor, Tensor]:
    """Return the edges into the nodes of this process, with the features and classes of these
    nodes.
    """
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
    labelled, num_labelled = graph.nodes % 10 == 0, len(range(0, args.nodes, 10))
    torch.manual_seed(args.seed)  # all processes start with the same parameters and dropout seed
    model = GAT().to(processes.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    state = {"model": model, "optimizer": optimizer}
    first, loss = 0, x.new_zeros(())
    if args.checkpoint and args.checkpoint.exists():
        # A run with another number of processes may have written the checkpoint.
        checkpoint = load_checkpoint(args.checkpoint)
        first = checkpoint.pop("epochs")
        for name, values in checkpoint.items():
            state[name].load_state_dict(values)
    for _ in range(first, args.epochs):
        optimizer.zero_grad()
        out = model(x, graph)
        loss = F.cross_entropy(out[labelled], y[labelled], reduction="sum") / num_labelled
        loss.backward()
        sum_gradients(model.parameters())
        optimizer.step()
    if args.checkpoint and processes.rank == 0:
        # All processes have the same parameters, so only the first one writes them.
        values = {name: thing.state_dict() for name, thing in state.items()}
        save_checkpoint(args.checkpoint, {**values, "epochs": args.epochs})
    with torch.no_grad():
        hits = (model.eval()(x, graph).argmax(1) == y)[~labelled].sum()
    totals = torch.stack([loss.detach(), hits]).double()
    dist.all_reduce(totals)
    return {
        "loss": totals[0].item(),
        "accuracy": totals[1].item() / max(args.nodes - num_labelled, 1),
        "own_nodes": graph.num_dst,
        "halo_nodes": graph.halo.num_rows - graph.num_dst,
        "bytes_sent": graph.comm_stats.bytes_sent,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument("--nodes", type=int, default=4000, help="number of nodes of the ring")
    parser.add_argument("--degree", type=int, default=8, help="number of edges from each node")
    parser.add_argument(
        "--epochs", type=int, default=50, help="number of epochs, with those of the checkpoint"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the graph, the initial weights and dropout"
    )
    kinds = ["contiguous", "metis"]
    parser.add_argument(
        "--partition",
        choices=kinds,
        default=kinds[0],
        help="method that partitions the nodes across processes",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="file of the checkpoint, which is read if it exists and written after training",
    )
    args = parser.parse_args()
    with init_processes() as processes:
        result = train(args, processes)
    if processes.rank == 0:
        settings = {**vars(args), "checkpoint": str(args.checkpoint), "processes": processes.size}
        print(json.dumps({**settings, **result}))


if __name__ == "__main__":
    main()
