"""Training of a sampled network in test processes, in a module that new processes can import."""

import os
import sys

import torch

from gattn.apps.cli import main
from gattn.apps.nodes.edge_columns import EdgeColumns
from gattn.apps.nodes.edges import read_edge_columns
from gattn.apps.nodes.sampled import training
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.stack import residual
from tests.apps.nodes.networks import repeating_network

STEP_NODES = 16


def train_sampled(processes=training.ONE, epochs=3):
    """Train on all neighbours without dropout; return the losses and the network's state."""
    # The last of the steps has a single node, so that a second process has none.
    training.BATCH, training.FANOUT, training.LATER_FANOUT = STEP_NODES, -1, -1
    residual.ATTENTION_DROPOUT = 0.0
    graph, encoder, y = compact_graph()
    x = torch.randn(len(graph), 4, generator=torch.Generator().manual_seed(0))
    settings = NodeSettings(width=8, heads=2, epochs=epochs, seed=3, dropout=0.0, model="gat")
    torch.manual_seed(3)
    network = residual.ResidualNetwork(settings, 4, 3, encoder.width)
    history = training.fit_sampled(
        network, training.SampledInputs.of(graph, x), y, torch.arange(49), torch.arange(49, 90),
        settings, is_class=True, processes=processes,
    )  # fmt: skip
    losses = [(one.train_loss, one.validation_loss) for one in history.records]
    return {"losses": losses, "state": network.state_dict()}


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
    from gattn.apps.nodes.reading import read_graph

    edges, nodes = repeating_network()
    chosen = EdgeColumns(("words",), "strength", "kind")
    graph, encoder, _ = read_edge_columns(read_graph((edges, nodes)).compacted(), chosen)
    return graph, encoder, torch.tensor([float(name[-1]) for name in nodes["label"]]).double()
