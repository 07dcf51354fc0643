"""One graph in several processes: each owns a range of nodes, and the layers stay as they are."""

from gattn.distributed.gradients import sum_gradients
from gattn.distributed.graph import DistributedGraph
from gattn.distributed.halo import Traffic
from gattn.distributed.partition import Partition
from gattn.distributed.processes import Processes, ProcessFailure, connect

__all__ = [
    "DistributedGraph",
    "Partition",
    "ProcessFailure",
    "Processes",
    "Traffic",
    "connect",
    "sum_gradients",
]
