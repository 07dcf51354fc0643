"""Work of the test processes, in a module that new processes can import."""

import copy
import os
import signal
import sys
import time
import traceback

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from gattn.distributed import DistributedGraph, Partition, init_processes, sum_gradients, watch
from gattn.graph import Graph
from gattn.nn import GATConv, GATv2Conv, TransformerConv
from tests.distributed.emulation import random_edges, scattered

NODES, EDGES, CLASSES, STEPS = 50, 300, 3, 50
CONVS = {"GATConv": GATConv, "GATv2Conv": GATv2Conv, "TransformerConv": TransformerConv}
TIMEOUT, PATIENCE = 60.0, 4.0


class Network(torch.nn.Module):
    """Two layers with edge features."""

    def __init__(self, conv, dropout=0.0):
        super().__init__()
        self.first = CONVS[conv](5, 4, heads=2, edge_dim=3, dropout=dropout)
        self.second = CONVS[conv](8, CLASSES, heads=1, edge_dim=3, dropout=dropout)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x, graph, edge_attr):
        hidden = F.elu(self.norm(self.first(x, graph, edge_attr)))
        return self.second(hidden, graph, edge_attr)


class Task:
    """Network, and the nodes of one process. Without a partition, these are all nodes of a plain
    Graph.
    """

    def __init__(self, conv, dtype=torch.float64, partition=None, dropout=0.0, edges=EDGES):
        draw = torch.Generator().manual_seed(5)
        edge_index = random_edges(NODES, edges)
        x = torch.randn(NODES, 5, generator=draw).to(dtype)
        edge_attr = torch.randn(edges, 3, generator=draw).to(dtype)
        y = torch.randint(CLASSES, (NODES,), generator=draw)
        labelled = torch.rand(NODES, generator=draw) < 0.5
        self.num_labelled = int(labelled.sum())
        torch.manual_seed(0)
        self.network = Network(conv, dropout).to(dtype)
        self.graph = Graph(edge_index, NODES)
        self.nodes, self.edges = torch.arange(NODES), torch.arange(edges)
        if partition is not None:
            self.graph = DistributedGraph.from_edges(edge_index, partition)
            self.nodes, self.edges = self.graph.nodes, self.graph.edges
        self.x, self.y, self.labelled = x[self.nodes], y[self.nodes], labelled[self.nodes]
        self.edge_attr = edge_attr[self.edges]
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.01)

    def outputs(self, network=None):
        return (network or self.network)(self.x, self.graph, self.edge_attr)

    def loss(self, out):
        """Return this process's part of the mean loss over the labelled nodes of the graph."""
        mask = self.labelled
        return F.cross_entropy(out[mask], self.y[mask], reduction="sum") / self.num_labelled

    def step(self):
        """Take one training step and return the loss of the whole graph."""
        self.optimizer.zero_grad()
        loss = self.loss(self.outputs())
        loss.backward()
        if isinstance(self.graph, DistributedGraph):
            sum_gradients(self.network.parameters())
            loss = loss.detach()
            dist.all_reduce(loss)
        self.optimizer.step()
        return loss.item()

    def results(self, losses):
        """Return the values that the tests compare: losses, outputs, and gradients of the last
        step.

        Parameters are not compared, because Adam turns the rounding errors of a zero gradient, such
        as that of the bias of the keys, into full steps.
        """
        with torch.no_grad():
            out = self.outputs()
        grads = [p.grad for p in self.network.parameters()]
        return {"nodes": self.nodes, "losses": losses, "out": out, "grads": grads}


def train(processes, cases):
    """Train 50 steps of each case."""
    results = []
    for conv, dtype, partition in cases:
        task = Task(conv, dtype, partition)
        results.append(task.results([task.step() for _ in range(STEPS)]))
    return results


def drop(processes, convs):
    """Train one step with dropout of the attention weights."""
    results = []
    for conv in convs:
        task = Task(conv, partition=Partition.contiguous(NODES, processes.size), dropout=0.5)
        torch.manual_seed(9)
        results.append(task.results([task.step()]))
    return results


def average(processes):
    """Return DistributedDataParallel's gradients of the loss times the number of processes."""
    task = Task("GATv2Conv", partition=scattered(NODES, processes.size))
    wrapped = DistributedDataParallel(copy.deepcopy(task.network))
    (task.loss(task.outputs(wrapped)) * processes.size).backward()
    return [p.grad for p in wrapped.parameters()]


def lone_gradient(processes):
    """Sum three gradients: one that all processes have, one that a single process has, and one that
    no process has.
    """
    weights = [torch.ones(2, requires_grad=True) for _ in range(3)]
    weights[0].grad = torch.full((2,), 1.0 + processes.rank)
    if processes.rank == 1:
        weights[1].grad = torch.full((2,), 5.0)
    sum_gradients(weights)
    return [weight.grad for weight in weights]


def receive(processes):
    """Return outputs for edges that process 0 sends into the buffer of the edges before: those of
    the same edges in a new tensor and of the edges before, too.
    """
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    torch.manual_seed(0)
    layer, x = GATConv(5, 3), torch.randn(4, 5)
    before = layer(x, edges)
    if processes.rank == 0:
        edges.copy_(torch.tensor([[0, 0, 2, 3], [3, 2, 1, 0]]))
    version = edges._version
    dist.broadcast(edges, 0)
    assert edges._version == version
    return edges, layer(x, edges), layer(x, edges.clone()), before


def resume(processes, path, steps):
    """Continue training from the checkpoint if there is one, and write a new checkpoint."""
    from gattn.apps.fitting.loop import load_checkpoint, save_checkpoint

    losses = []
    task = Task("TransformerConv", partition=scattered(NODES, processes.size))
    if path.exists():
        saved = load_checkpoint(path)
        task.network.load_state_dict(saved["network"])
        task.optimizer.load_state_dict(saved["optimizer"])
        losses = saved["losses"]
    losses += [task.step() for _ in range(steps)]
    if processes.rank == 0:
        state = {"network": task.network.state_dict(), "optimizer": task.optimizer.state_dict()}
        save_checkpoint(path, {**state, "losses": losses})
    return task.results(losses)


def end_badly(processes, how):
    """Train until process 1 raises, dies or hangs."""
    task = Task("GATConv", partition=Partition.contiguous(NODES, processes.size))
    for step in range(1000):
        if processes.rank == 1 and step == 3:
            if how == "raise":
                raise ValueError("the disk is full")
            os.kill(os.getpid(), {"kill": signal.SIGKILL, "hang": signal.SIGSTOP}[how])
        task.step()
        time.sleep(0.01)


def enter(rank, size, port, folder, timeout, work, arguments):
    """Run a function in a new process together with the other processes, and write its result or
    traceback.
    """
    torch.set_num_threads(1)
    watch.PATIENCE = PATIENCE
    names = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": rank, "WORLD_SIZE": size}
    os.environ.update({name: str(value) for name, value in names.items()})
    try:
        with init_processes("gloo", timeout=timeout) as processes:
            torch.save(work(processes, *arguments), folder / f"{rank}.pt")
    except Exception:
        (folder / f"{rank}.txt").write_text(traceback.format_exc())
        sys.exit(1)
