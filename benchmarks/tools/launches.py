"""Host time of a GPU call of each operator, measured without a GPU.

A call runs the same code as for a CUDA tensor, from the checks to the arguments of the kernel.
There are two differences: tensors are allocated by torch's CPU allocator, and a prepared launch is
counted but not executed. The times therefore do not include the driver, and the results are not
computed. The host time is most important for batches of small molecules.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import triton

import gattn
from benchmarks.core import tables, timing
from benchmarks.core.case import Contender
from benchmarks.core.record import Record
from benchmarks.data import graphs
from benchmarks.sides import internals, ours
from benchmarks.sides.families import FAMILIES
from benchmarks.sides.inputs import Shape, operator_inputs
from benchmarks.tools import aot

PATHS = ("whole graphs", "rows and splits")
MOLECULES = 64
HEADS, CHANNELS = 8, 16


class IdleCard(aot.NoCard):
    """Replacement for a GPU that accepts every launch without running it."""

    launches = 0
    utils = SimpleNamespace(
        load_binary=lambda *binary: ("module", "function", 0, 0, 1024),
        get_device_properties=lambda device: {"max_shared_mem": 227 * 1024},
    )

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        """Launcher of a compiled kernel."""

        def launch(*arguments: Any) -> None:
            self.launches += 1

        return launch


def run(seconds: float) -> Iterator[Record]:
    """Measure every operator on every kernel path."""
    card = IdleCard()
    triton.runtime.driver.set_active(card)
    with internals.triton_on_cpu():
        for operator in FAMILIES:
            for path in PATHS:
                yield measure(card, operator, path, seconds)


def measure(card: IdleCard, operator: str, path: str, seconds: float) -> Record:
    """Measure the times of one operator on a batch of molecules, and count the kernels that it
    launches.
    """
    topology = graphs.molecules(MOLECULES)
    graph = ours.graph_of(topology)
    if path != PATHS[0]:
        graph = gattn.Graph(topology.edge_index, topology.num_nodes)
        internals.as_any_graph(graph)
    internals.as_on_card(graph)
    inputs = operator_inputs(topology, Shape(operator, HEADS, CHANNELS))
    contender = Contender.of(ours.operator(operator, graph, "triton"), inputs)
    functions = {
        "forward": timing.forward(contender), "forward+backward": timing.training(contender)
    }  # fmt: skip

    def count(call: timing.Run) -> int:
        before = card.launches
        call()
        return card.launches - before

    return {
        "case": f"{operator}/{path}",
        **topology.sizes(), "heads": HEADS, "channels": CHANNELS,
        "launches": {name: count(call) for name, call in functions.items()},
        "seconds": timing.alternate(functions, seconds),
    }  # fmt: skip


def table(records: list[Record]) -> str:
    """Return a Markdown table of the host time and the launches of every operator."""
    environment = records[0]["environment"]
    caption = (
        f"The times were measured on {environment['cpu']} with torch "
        f"{environment['versions']['torch']} and Triton {environment['triton']}, for a batch of "
        f"{MOLECULES} molecules and {HEADS} heads of {CHANNELS} channels in fp32."
    )
    head = ["operator", "path", "forward", "launches", "forward + backward", "launches"]
    rows = []
    for entry in records:
        operator, path = entry["case"].split("/")
        cells = [f"`{operator}`", path]
        for name, spread in entry["seconds"].items():
            cells += [f"{spread['median'] * 1e6:.0f} us", str(entry["launches"][name])]
        rows.append(cells)
    return f"{caption}\n\n{tables.markdown(head, rows, text=len(head))}"
