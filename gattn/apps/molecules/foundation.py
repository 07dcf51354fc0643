"""Networks that start from the weights of a pretrained encoder or of another run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from gattn.apps.fitting.settings import from_table, to_table
from gattn.apps.molecules.pretrained import encoder_folder, encoder_names, resolve
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.run.model_io import RunError, read_model, remove_prefix, write_model
from gattn.data.molecules.features import FEATURISER

HEAD = "head."
"""Beginning of the names of the parameters that are not part of the encoder."""
KEY = "foundation"
"""Key of a pretrained encoder in its card."""
ARCHITECTURE = ("width", "layers", "heads", "reaction")
"""Settings that determine the shapes of the encoder's parameters."""
FINE_TUNING_STARTS = {"": 0.1, HEAD: 0.0}
"""Fractions of the steps in which parameters of a network that starts from an encoder do not
change, by the beginning of their names: in the first tenth of the steps, only the head is trained.
"""


@dataclass(frozen=True, eq=False)
class Foundation:
    """Weights of an encoder, from which networks start.

    Attributes:
        source: the name or the folder.
        settings: settings of its network.
        tensors: the parameters of the encoder by name, in float32.
    """

    source: str
    settings: MoleculeSettings
    tensors: dict[str, Tensor]

    def check(self, settings: MoleculeSettings) -> None:
        """Check that networks with these settings can start from the encoder.

        Raises:
            ValueError: the encoder has another architecture, or no readout of molecules.
        """
        if "attend.query" not in self.tensors:
            raise ValueError(
                f"from_foundation {self.source} is a run of atoms or bonds, whose network has no "
                "readout of molecules: use a run of molecules or an encoder"
            )
        mine, other = (_architecture(each) for each in (settings, self.settings))
        if mine != other:
            differ = [name for name in other if mine[name] != other[name]]
            has, got = (
                ", ".join(f"{name} {each[name]}" for name in differ) for each in (other, mine)
            )
            raise ValueError(
                f"from_foundation {self.source} has a network with {has}; got {got}: use the same "
                "settings, or leave out from_foundation"
            )

    @torch.no_grad()
    def load_into(self, network: nn.Module) -> None:
        """Copy the weights into the encoder of a network; its head does not change."""
        for name, parameter in network.named_parameters():
            if not name.startswith(HEAD):
                parameter.copy_(self.tensors[name])


def read_foundation(source: str | os.PathLike[str]) -> Foundation:
    """Read the encoder of a network.

    Args:
        source: the name of an encoder that gattn ships, the folder of a pretrained encoder, or the
            folder of a training run, whose first network is read.

    Raises:
        RunError: the folder contains no network, or one of another version of the features.
    """
    folder = Path(source)
    if str(folder) in encoder_names() and not folder.exists():
        folder = encoder_folder(str(folder))
    folder = resolve(folder)
    if not folder.is_dir():
        names = ", ".join(encoder_names())
        raise RunError(
            "from_foundation must be the folder of a run or of an encoder"
            f"{', or one of ' if names else ''}{names}; got {source}"
        )
    tensors, card = read_model(folder)
    state = card.get(KEY)
    if not isinstance(state, dict):
        state = card.get("predictor")
        tensors = remove_prefix("networks.0.", tensors)
    if not isinstance(state, dict) or not tensors or "settings" not in state:
        raise RunError(
            f"{source} contains no network of molecules, so no training can start from it"
        )
    check_feature_version(source, state)
    settings = from_table(MoleculeSettings, cast("Mapping[str, object]", state["settings"]))
    encoder = {name: each.float() for name, each in tensors.items() if not name.startswith(HEAD)}
    return Foundation(str(source), settings, encoder)


def read_foundation_of(settings: MoleculeSettings) -> Foundation | None:
    """Read and check the encoder from which networks with these settings start; None if they start
    from random weights.

    Raises:
        RunError: see :func:`read_foundation`.
        ValueError: the encoder has another architecture.
    """
    if not settings.from_foundation:
        return None
    foundation = read_foundation(settings.from_foundation)
    foundation.check(settings)
    return foundation


def write_foundation(
    folder: Path, network: nn.Module, settings: MoleculeSettings, facts: Mapping[str, Any]
) -> None:
    """Write the encoder of a network to a folder, in float16.

    Args:
        folder: the folder, which is created if it is missing.
        network: the network.
        settings: its settings.
        facts: other values of the card, which JSON can store.
    """
    tensors = {
        name: parameter.detach().half()
        for name, parameter in network.named_parameters()
        if not name.startswith(HEAD)
    }
    state = {"settings": to_table(settings), "featuriser": FEATURISER}
    write_model(folder, tensors, {**facts, KEY: cast(Any, state)})


def _architecture(settings: MoleculeSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in ARCHITECTURE}


FIRST = "1"
"""Version of a state without an entry, because the first version of gattn wrote no entry."""


def check_feature_version(source: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Check the version of the features in the stored state of a predictor or an encoder.

    Args:
        source: folder or name of the model, for the message.
        state: the state; its entry ``featuriser`` is the version.

    Raises:
        RunError: this gattn computes another version.
    """
    version = state.get("featuriser", FIRST)
    if version != FEATURISER:
        raise RunError(
            f"the model in {source} was trained on version {version} of the features of "
            f"molecules, and this version of gattn computes version {FEATURISER}: train the "
            "model again"
        )


def check_predictor_features(folder: str | os.PathLike[str], card: Mapping[str, Any]) -> None:
    """Check the version of the features of the predictor of a model.

    A card without the state of a predictor is no model, which another check reports.

    Args:
        folder: folder of the model, for the message.
        card: the card of the model.

    Raises:
        RunError: this gattn computes another version.
    """
    state = card.get("predictor")
    if isinstance(state, dict):
        check_feature_version(folder, state)
