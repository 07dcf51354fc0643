"""Check of the version of the molecular features on which a stored model was trained."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gattn.apps.run.model_io import RunError
from gattn.data.molecules.features import FEATURISER

__all__ = ["check_feature_version", "check_predictor_features"]

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
