"""Training of a sampled network in test processes, in a module that new processes can import."""

import os
import sys
from dataclasses import replace

import torch

from gattn.apps.cli import main
from gattn.apps.nodes.edge_columns import EdgeColumns
from gattn.apps.nodes.edges import read_edge_columns
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.size import network
from gattn.apps.nodes.size.blocks import SampledBlocks
from gattn.apps.nodes.size.network import ONE, fit_sampled, plan_samples
from tests.apps.nodes.test_size_edges import repeating_network

STEP_NODES = 16


def train_sampled(processes=ONE, epochs=3):
    """Train on all neighbours without dropout; return the losses and the network's state."""
    # The last of the steps has a single node, so that a second process has none.
    network.BATCH = STEP_NODES
    read = compact_graph()
    graph, encoder, y = read
    x = torch.randn(len(graph), 4, generator=torch.Generator().manual_seed(0))
    blocks = SampledBlocks(graph, x, None, 0, with_direction=None)
    settings = NodeSettings(width=8, heads=2, epochs=epochs, seed=3)
    plan = replace(plan_samples(settings, 49), fanout=(-1, -1), epochs=epochs)
    plan = replace(plan, settings=replace(plan.settings, dropout=0.0))
    fitted, history = fit_sampled(
        x, blocks.graph, y, torch.arange(49), torch.arange(49, 90), 3, plan, is_class=True,
        edge_attr=blocks.attributes, edges=encoder, processes=processes,
    )  # fmt: skip
    losses = [(one.train_loss, one.validation_loss) for one in history.records]
    return {"losses": losses, "state": fitted.state_dict()}


def enter_command(rank, size, port, folder, arguments):
    """Run a command of gattn in a new process, with the variables that torchrun sets; write its
    stderr to a file.
    """
    names = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": rank, "LOCAL_RANK": rank}
    os.environ.update({name: str(value) for name, value in names.items()}, WORLD_SIZE=str(size))
    torch.set_num_threads(1)
    with (folder / f"{rank}.err").open("wb") as file:
        os.dup2(file.fileno(), 2)
    sys.argv = ["gattn", *map(str, arguments)]
    main()


def compact_graph():
    """Return a compact graph with weights of edges, their encoder, and the labels."""
    from gattn.apps.nodes.attributed import compacted
    from gattn.apps.nodes.reading import read_graph

    edges, nodes = repeating_network()
    chosen = EdgeColumns(("words",), "strength", "kind")
    graph, encoder, _ = read_edge_columns(compacted(read_graph((edges, nodes))), chosen)
    return graph, encoder, torch.tensor([float(name[-1]) for name in nodes["label"]]).double()
