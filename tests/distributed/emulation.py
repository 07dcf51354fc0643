"""The plain reference: processes as threads of one, whose rows change hands in a list."""

import threading

import torch

from gattn.distributed import DistributedGraph, Partition
from gattn.distributed.peers import Peers

PATIENCE = 60


class Meeting:
    """Where the threads leave rows for each other."""

    def __init__(self, size):
        self.barrier = threading.Barrier(size, timeout=PATIENCE)
        self.left = [None] * size


class ThreadPeers(Peers):
    """Threads in the place of processes."""

    def __init__(self, rank, size, meeting):
        self.rank, self.size, self.meeting = rank, size, meeting

    def send(self, rows, counts, expected):
        """All threads leave their rows, then each takes what is for it."""
        meeting = self.meeting
        meeting.left[self.rank] = rows.detach().split(list(counts))
        meeting.barrier.wait()
        come = torch.cat([parts[self.rank] for parts in meeting.left])
        meeting.barrier.wait()
        assert come.shape == (sum(expected), rows.shape[1])
        return lambda: come


def on_every_rank(size, work):
    """What ``work(peers)`` returns in each of the threads; the first error of any is raised."""
    meeting, found, errors = Meeting(size), [None] * size, []

    def run(rank):
        try:
            found[rank] = work(ThreadPeers(rank, size, meeting))
        except Exception as error:
            errors.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


def random_edges(num_nodes, num_edges, seed=0):
    """Edges of all kinds: hubs, loops, repeated ones, nodes without any."""
    draw = torch.Generator().manual_seed(seed)
    skewed = torch.rand(2, num_edges, generator=draw) ** 2
    return (skewed * num_nodes).long()


def scattered(num_nodes, size, seed=0):
    """A partition without any order, whose last process may own nothing."""
    draw = torch.Generator().manual_seed(seed)
    parts = max(size - 1, 1) if size > 2 else size
    return Partition.from_parts(torch.randint(parts, (num_nodes,), generator=draw), size)


PARTITIONS = {"contiguous": Partition.contiguous, "scattered": scattered}


def parts_of(edge_index, partition, work):
    """What ``work(graph)`` returns for the part of each process."""
    return on_every_rank(
        partition.num_parts,
        lambda peers: work(DistributedGraph.from_edges(edge_index, partition, group=peers)),
    )
