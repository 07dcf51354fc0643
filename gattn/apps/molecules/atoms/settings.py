"""Settings that models of atoms and bonds do not support."""

from __future__ import annotations

from dataclasses import fields

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules.settings import MoleculeSettings

__all__ = ["check_atom_settings"]

UNSUPPORTED = (
    "reaction",
    "standardize",
    "target_transform",
    "from_foundation",
)
"""Settings of molecule models that models of atoms and bonds do not support."""
MODELS = ("stacked", "attention")


def check_atom_settings(settings: MoleculeSettings) -> None:
    """Raise an error for settings that models of atoms and bonds do not support.

    Raises:
        SettingsError: such a setting was changed.
    """
    defaults = {field.name: field.default for field in fields(MoleculeSettings)}
    for name in UNSUPPORTED:
        if getattr(settings, name) != defaults[name]:
            raise SettingsError(f"{name} is not available for targets of atoms and bonds")
    if settings.bounded:
        raise SettingsError(
            f"loss_function {settings.loss_function} is not available for targets of atoms and "
            "bonds"
        )
    if settings.model not in MODELS:
        raise SettingsError(
            f"targets of atoms and bonds need the model {' or '.join(MODELS)}; got {settings.model}"
        )
