"""Emulation of processes by threads, which exchange rows through a list."""

import threading

import torch

from gattn.distributed import DistributedGraph, Partition
from gattn.distributed.peers import Peers

PATIENCE = 60


class Exchange:
    """List and barrier through which the threads exchange rows."""

    def __init__(self, size):
        self.barrier = threading.Barrier(size, timeout=PATIENCE)
        self.rows = [None] * size


class ThreadPeers(Peers):
    """Peers whose processes are threads."""

    def __init__(self, rank, size, exchange):
        self.rank, self.size, self.exchange = rank, size, exchange

    def all_to_all(self, rows, send_counts, recv_counts):
        """Store the rows of all threads, then return those that are for this one."""
        exchange = self.exchange
        exchange.rows[self.rank] = rows.detach().split(list(send_counts))
        exchange.barrier.wait()
        received = torch.cat([parts[self.rank] for parts in exchange.rows])
        exchange.barrier.wait()
        assert received.shape == (sum(recv_counts), rows.shape[1])
        return lambda: received


def on_every_rank(size, work):
    """Return the results of ``work(peers)`` in each thread; raise the first error of any thread."""
    exchange, results, errors = Exchange(size), [None] * size, []

    def run(rank):
        try:
            results[rank] = work(ThreadPeers(rank, size, exchange))
        except Exception as error:
            errors.append(error)
            exchange.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def random_edges(num_nodes, num_edges, seed=0):
    """Return random edges with hubs, loops, repeated edges and isolated nodes."""
    draw = torch.Generator().manual_seed(seed)
    skewed = torch.rand(2, num_edges, generator=draw) ** 2
    return (skewed * num_nodes).long()


def scattered(num_nodes, size, seed=0):
    """Return a random partition, whose last process may have no nodes."""
    draw = torch.Generator().manual_seed(seed)
    parts = max(size - 1, 1) if size > 2 else size
    return Partition.from_parts(torch.randint(parts, (num_nodes,), generator=draw), size)


PARTITIONS = {"contiguous": Partition.contiguous, "scattered": scattered}


def parts_of(edge_index, partition, work):
    """Return the results of ``work(graph)`` for the part of each process."""
    return on_every_rank(
        partition.num_parts,
        lambda peers: work(DistributedGraph.from_edges(edge_index, partition, group=peers)),
    )
