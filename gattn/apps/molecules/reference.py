"""Drug-like molecules, among whose predictions the percentile of a prediction is computed.

The file ``reference.smi`` contains 500 molecules of PharmaBench (Niu et al., Scientific Data 11,
985, 2024; CC0 1.0), 28 kB: of the canonical SMILES in its sets of plasma protein binding,
cytochromes and clearance, those with the smallest SHA-256. Half of the molecules have a molecular
weight from 367 to 484.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.row_format import RowFormat
from gattn.data.molecules.smiles import MAX_ATOMS

REFERENCE = Path(__file__).with_name("reference.smi")
PERCENTS = np.arange(101) / 100


@cache
def reference_inputs(row_format: RowFormat) -> MoleculeInputs:
    """Return the inputs of the reference molecules, of which the largest has 83 atoms."""
    smiles = REFERENCE.read_text("utf-8").split()
    return featurise(smiles, max_atoms=MAX_ATOMS, workers=1, row_format=row_format).inputs


def percentiles_of(values: Tensor) -> Tensor:
    """Return the smallest values [t, 101] that 0, 1, ..., 100 % of the values [m, t] do not exceed.

    >>> percentiles_of(torch.arange(200.0)[:, None])[0, [0, 1, 50, 100]].tolist()
    [0.0, 1.0, 99.0, 199.0]
    """
    quantiles = np.quantile(values.numpy(), PERCENTS, axis=0, method="inverted_cdf")
    return torch.from_numpy(quantiles).T.contiguous()
