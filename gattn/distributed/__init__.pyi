from gattn.distributed.gradients import sum_gradients
from gattn.distributed.graph import DistributedGraph
from gattn.distributed.halo import CommStats
from gattn.distributed.partition import Partition
from gattn.distributed.processes import Processes, ProcessFailure, init_processes

__all__ = [
    "CommStats",
    "DistributedGraph",
    "Partition",
    "ProcessFailure",
    "Processes",
    "init_processes",
    "sum_gradients",
]
