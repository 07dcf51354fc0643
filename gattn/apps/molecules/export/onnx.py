"""Export of the networks of a model to ONNX, for any numbers of atoms, bonds and molecules."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gattn.apps.molecules.layers import MoleculeBatch
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.network import MoleculeNetwork, batch_inputs

__all__ = ["EnsembleOutputs", "PlainBatch", "plain_batch", "write_onnx"]

OPSET = 18
"""Version of ONNX's operators. It is the first version with an operator for the maximum of the
rows of a segment.
"""
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
"""Packages that the extra ``export`` installs."""


class PlainBatch(NamedTuple):
    """Batch of molecules as inputs of an exported network.

    Attributes:
        atoms: [n, d] float32, features of the atoms.
        edges: [2, e] int64, the bonds in both directions.
        bonds: [e, b] float32, features of the edges.
        molecule: [n] int64, the molecule of each atom.
        sizes: [m] int64, the number of atoms of each molecule, above 0.
    """

    atoms: Tensor
    edges: Tensor
    bonds: Tensor
    molecule: Tensor
    sizes: Tensor


class EnsembleOutputs(nn.Module):
    """Module that contains the networks of an ensemble.

    Args:
        networks: K trained networks.

    Shapes:
        - **input:** the tensors of a :class:`PlainBatch`
        - **output:** [K, m, t] float32: scaled targets, or logits for classes
    """

    def __init__(self, networks: Sequence[MoleculeNetwork]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(
        self, atoms: Tensor, edges: Tensor, bonds: Tensor, molecule: Tensor, sizes: Tensor
    ) -> Tensor:
        """Compute the outputs of each network; see Shapes."""
        none = atoms.new_zeros(sizes.shape[0], 0)
        ptr = F.pad(sizes.cumsum(0), (1, 0))
        batch = MoleculeBatch(atoms, edges, bonds, molecule, ptr, none, none)
        networks = cast("Iterable[MoleculeNetwork]", self.networks)
        return torch.stack([network.by_layers(batch) for network in networks])


def plain_batch(inputs: MoleculeInputs) -> PlainBatch:
    """Return the inputs of m molecules as tensors for :class:`EnsembleOutputs`."""
    batch = batch_inputs(inputs)
    return PlainBatch(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.ptr.diff())


def write_onnx(networks: Sequence[MoleculeNetwork], example: MoleculeInputs, path: Path) -> None:
    """Write the networks of an ensemble to an ONNX file. Its inputs have the names of
    :class:`PlainBatch`, and its output is called ``outputs``.

    Args:
        networks: K trained networks.
        example: at least two molecules with bonds, with which the networks are traced. The file
            can compute any number of molecules.
        path: the file.
    """
    # If a package is missing, an error is raised before the networks are traced, which takes
    # seconds.
    for package in PACKAGES:
        importlib.import_module(package)
    size = torch.export.Dim.DYNAMIC
    batch = plain_batch(example)
    shapes = {name: {1 if name == "edges" else 0: size} for name in PlainBatch._fields}
    module = EnsembleOutputs(networks).eval()
    with warnings.catch_warnings(), _quiet(), torch.no_grad():
        # The exporter warns of deprecated calls in its own code, which a user cannot change.
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module, tuple(batch), dynamo=True, opset_version=OPSET, verbose=False,
            dynamic_shapes=shapes, input_names=list(PlainBatch._fields), output_names=["outputs"],
        )  # fmt: skip
    assert program is not None
    program.save(str(path), external_data=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the messages of the exporter about torchvision and about empty attributes.

    torchvision is not needed, and the type that the exporter chooses for an empty list is right.
    """
    names = ("torch.onnx._internal.exporter._registration", "onnx_ir._convenience")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
