"""Cases for the CPU by name: comparisons of two sides, and cases that measure one thing."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Iterable, Sequence

import torch

from benchmarks.core.case import Case, Contender, Topology
from benchmarks.data import datasets, graphs
from benchmarks.sides import edge_products, families, layers, scores, transformers
from benchmarks.sides.inputs import CHANNELS, HEADS, WIDTH
from benchmarks.sides.layers import Maker
from benchmarks.suites.alone import HasOneSide
from benchmarks.suites.comparison import Comparison
from benchmarks.suites.cora import Epoch
from benchmarks.suites.growth import Growth
from benchmarks.suites.layout import LayoutBuilding


@functools.cache
def power_law(scale: float) -> Topology:
    """Create a graph with the size and skew of ogbn-arxiv, with 2,499,999 edges at full size."""
    return graphs.make("arxiv", scale)


@functools.cache
def molecules(count: int) -> Topology:
    """Create a batch of molecules of ESOL."""
    return datasets.esol(count)


def esol_64(scale: float) -> Topology:
    """Create a batch of 64 molecules, at any scale."""
    return molecules(64)


def esol_512(scale: float) -> Topology:
    """Create a batch of 512 molecules, at any scale."""
    return molecules(512)


def in_precision(side: str, topology: Topology, dtype: torch.dtype, *, make: Maker) -> Contender:
    """Create gattn's layer in a dtype ("gattn") or in fp32 ("gattn_fp32")."""
    return make("gattn", topology, torch.float32 if side == "gattn_fp32" else dtype)


def _layer(name: str, edges: bool = False) -> Maker:
    sizes = {"in_channels": WIDTH, "out_channels": CHANNELS, "heads": HEADS}
    return functools.partial(layers.layer, name=name, edges=edges, **sizes)


NAMES = ("GATConv", "GATv2Conv", "TransformerConv")
LAYERS = {name: _layer(name) for name in NAMES}
ALL_LAYERS = {**LAYERS, **{f"{name}+edges": _layer(name, edges=True) for name in NAMES}}
OTHER_LAYERS = {
    "AGNNConv": functools.partial(layers.layer, name="AGNNConv", requires_grad=True),
    "SuperGATConv": layers.supervised,
}
EXPHORMER = {"ExphormerConv": edge_products.exphormer}
# PyG's SGFormer treats the padding of a batch as nodes, so the results of both libraries agree only
# on a single graph.
TRANSFORMERS = {
    **{name: functools.partial(transformers.model, name=name) for name in transformers.OPTIONS},
    "GeneralConv": functools.partial(
        layers.layer,
        name="GeneralConv",
        in_channels=WIDTH,
        out_channels=CHANNELS,
        heads=HEADS,
        attention=True,
    ),
}
OPERATORS = {name: functools.partial(layers.operator, name=name) for name in families.OPERATORS}
READOUTS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "LearnedQueryReadout": (layers.learned_queries, ("gattn", "set_transformer")),
    "SetTransformerAggregation": (layers.set_transformer, ("gattn", "pyg")),
}


@functools.cache
def comparisons() -> dict[str, Comparison]:
    """Return the cases with two sides on one graph."""
    suite = []
    for name, make in {**ALL_LAYERS, **OTHER_LAYERS, **EXPHORMER, **TRANSFORMERS}.items():
        suite.append(Comparison(f"power-law/{name}", power_law, make, large=True))
    for name, make in OPERATORS.items():
        suite.append(Comparison(f"power-law/operator/{name}", power_law, make, large=True))
    for name in scores.SCORES:
        make = functools.partial(scores.attention, name=name)
        suite.append(Comparison(f"power-law/attention/{name}", power_law, make, large=True))
    fused = functools.partial(scores.attention, name="perceptron")
    suite.append(
        Comparison(
            "power-law/attention/fused", power_law, fused, ("gattn", "gattn_fused"), large=True
        )
    )
    for name, make in ALL_LAYERS.items():
        suite.append(
            Comparison(
                f"power-law/bf16/{name}",
                power_law,
                functools.partial(in_precision, make=make),
                sides=("gattn", "gattn_fp32"),
                dtype=torch.bfloat16,
                large=True,
            )
        )
    for group, topology in {"esol-64": esol_64, "esol-512": esol_512}.items():
        of_batches = {name: make for name, make in TRANSFORMERS.items() if name != "SGFormer"}
        for name, make in {**ALL_LAYERS, **EXPHORMER, **of_batches}.items():
            suite.append(Comparison(f"{group}/{name}", topology, make))
        for name, make in OPERATORS.items():
            suite.append(Comparison(f"{group}/operator/{name}", topology, make))
        for name, (make, sides) in READOUTS.items():
            suite.append(Comparison(f"{group}/{name}", topology, make, sides=sides))
    return {case.name: case for case in suite}


EPOCH = Epoch("cora/epoch", sparse=("gattn",))
EPOCH_OF_SPARSE = Epoch("cora/epoch+sparse", sparse=("gattn", "pyg"))
EPOCH_OF_DENSE = Epoch("cora/epoch+dense", sparse=())
LAYOUT = LayoutBuilding("power-law/layout", power_law)


def cases() -> dict[str, Case]:
    """Return all cases in the order of the report."""
    return {
        **comparisons(),
        **{case.name: case for case in (EPOCH, EPOCH_OF_SPARSE, EPOCH_OF_DENSE, LAYOUT)},
        "growth": Growth(),
    }


def with_one_side() -> dict[str, HasOneSide]:
    """Return the cases that can be measured without a peer, with each of gattn's computations
    once.
    """
    every = [*comparisons().values(), EPOCH, EPOCH_OF_DENSE, LAYOUT]
    return {case.name: case for case in every}


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that match one of the patterns; raise an error if no name matches."""
    selected = [name for name in names if any(fnmatch.fnmatch(name, p) for p in patterns)]
    if not selected:
        raise SystemExit(f"no case matches {' '.join(patterns)}; --list shows them")
    return selected
