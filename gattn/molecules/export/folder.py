"""The command ``gattn molecules export``, which writes a trained model that can be used without
gattn.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from gattn import __version__
from gattn.data.molecules.descriptors import PROPERTIES
from gattn.data.molecules.features import (
    CHARGES,
    DEGREES,
    ELEMENTS,
    HYBRIDISATIONS,
    HYDROGENS,
    ORDERS,
)
from gattn.data.molecules.fingerprints import CENTRE_CODES, COUNTS, PLANE_CODES, RADIUS
from gattn.data.molecules.pairs import ELEMENT_CODES, PAIR_DISTANCE
from gattn.data.molecules.stereo import CHIRALITIES, STEREOS
from gattn.files import new_folder
from gattn.molecules.export.onnx import write_onnx
from gattn.molecules.export.predict import FORMAT, ExportedModel
from gattn.molecules.fitted import ClassificationModel, MoleculeModel
from gattn.molecules.fitting import OFFSET
from gattn.molecules.inputs import DescribedInputs, MoleculeInputs
from gattn.molecules.kernel_function import FARTHEST, JITTER
from gattn.molecules.loading import coverage_of, load_model, smiles_columns
from gattn.molecules.row_format import join_smiles
from gattn.molecules.runs.predict import output_columns

__all__ = ["EXPORTED_PARTS", "ExportError", "Exported", "export_model"]

EXPORTED_PARTS = ("attention", "attentive_fp", "gp", "forest")
"""Names of the parts of a model that can be exported."""
TOLERANCE = 1e-5
"""Maximum difference between the predictions of the export and those of ``predict``, in standard
deviations of a target.
"""
EXAMPLES = (
    "CCO", "C", "c1ccccc1C(=O)O", "C[C@H](N)C(=O)[O-]", "F/C=C/Cl", "CC(=O)Oc1ccccc1C(=O)O",
    "O=S(=O)(c1ccccc1)N1CCNCC1", "[NH3+]CCc1ccc(O)cc1", "CC#N",
)  # fmt: skip
"""Molecules on which the predictions of the model and of its export are compared."""
REACTIONS = (
    "[CH3:1][CH2:2][Br:3].[OH-:4]>>[CH3:1][CH2:2][OH:4].[Br-:3]",
    "[CH2:1]=[CH:2][CH:3]=[CH2:4].[CH2:5]=[CH2:6]>>[CH2:1]1[CH:2]=[CH:3][CH2:4][CH2:6][CH2:5]1",
    "[CH3:1][C:2](=[O:3])[OH:4].[CH3:5][OH:6]>[H+]>[CH3:1][C:2](=[O:3])[O:6][CH3:5].[OH2:4]",
    "F/[CH:1]=[CH:2]/Cl>>F/[CH:1]=[CH:2]\\Cl",
    "[CH3:1][C@H:2]([OH:3])C#N>>[CH3:1][CH:2]=[O:3].C#N",
    "[cH:1]1[cH:2]ccc[cH:3]1>>[CH2:1]1[CH2:2]CCC[CH2:3]1",
    "[CH4:1]>>[CH3:1]Cl",
    "[H:1][O:2]C>>[H:1][Cl:3].[O-:2]C",
    "[CH3:1][NH2:2]>>[CH3:1][NH3+:2]",
)
"""Reactions on which a model of reactions and its export are compared."""

READER = "table_reader"
"""Name of the package in the folder that reads and writes tables."""


class ExportError(ValueError):
    """Raised if a model cannot be exported; the message contains the reason."""


class Exported(NamedTuple):
    """Result of an export.

    Attributes:
        files: the names of the files, and their sizes in bytes.
        difference: the largest difference between the export and ``predict`` for some molecules,
            in standard deviations of a target, or as a probability.
    """

    files: dict[str, int]
    difference: float


def export_model(run: str | Path, out: str | Path, *, threads: int = 0) -> Exported:
    """Write a trained model to a folder in which ``predict.py`` predicts without gattn.

    The folder contains ``network.onnx`` (the networks, if the model has any), ``arrays.npz``,
    ``model.json`` and ``predict.py``, a program that needs NumPy, RDKit and onnxruntime. Some
    molecules are predicted with the model and with the files, and the folder is written only if
    the predictions agree.

    Args:
        run: the folder of a trained model, or the name of a model of gattn.
        out: the folder to write, which must not exist.
        threads: number of threads inside one operator of the comparison with the files; 0 to
            choose it from the size of a batch.

    Returns:
        The files, and the largest difference of the predictions.

    Raises:
        ExportError: the model has a part that cannot be exported.
        RunError: the folder does not contain a readable model.
        FileExistsError: ``out`` exists.
        ModuleNotFoundError: the extra ``export`` is not installed.
        RuntimeError: the predictions do not agree.
    """
    model, card = load_model(run)
    _check(run, model)
    names = smiles_columns(card, None, model.molecules_per_row)
    predictor = model.predictor_
    predictor.threads = threads
    with new_folder(out) as folder:
        if predictor.networks:
            rows, columns = _examples(model)
            write_onnx(predictor.networks, _inputs(model, rows, columns), folder / "network.onnx")
        np.savez_compressed(folder / "arrays.npz", allow_pickle=False, **_arrays(model))
        numbers = cast("dict[str, str]", card.get("numbers", {}))
        facts = _facts(model, names) | {
            "coverage": coverage_of(card, None),
            "numbers": {
                name: numbers[name] for name in ("decimal", "thousands") if name in numbers
            },
        }
        facts = json.dumps(facts, indent=1, ensure_ascii=False)
        (folder / "model.json").write_text(facts + "\n", "utf-8")
        _copy_program(folder)
        difference = _difference(model, folder)
        files = {
            path.relative_to(folder).as_posix(): path.stat().st_size
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
    return Exported(files, difference)


def _copy_program(folder: Path) -> None:
    """Copy the program and the modules that read and write tables, as a package of their own."""
    program = Path(__file__).with_name("predict.py")
    root = program.parents[2]
    (folder / READER).mkdir()
    copies = {program: folder / program.name}
    for path in (root / "files.py", *(root / "data" / "tables").glob("*.py")):
        copies[path] = folder / READER / path.name
    for path, copy in copies.items():
        text = path.read_text("utf-8")
        for package in ("gattn.data.tables.", "gattn."):
            text = text.replace(f"from {package}", f"from {READER}.")
        copy.write_text(text, "utf-8")


def _check(run: str | Path, model: MoleculeModel) -> None:
    """Raise an ExportError if a model cannot be exported."""
    parts = model.predictor_.weights
    if others := [name for name in parts if name not in EXPORTED_PARTS]:
        raise ExportError(
            f"{run} cannot be exported, because its model has the part {others[0]!r}: the parts "
            f"that can be exported are {', '.join(EXPORTED_PARTS)}"
        )


def _arrays(model: MoleculeModel) -> dict[str, np.ndarray]:
    """Return the arrays of the model; those of the networks are left out."""
    predictor = model.predictor_
    tensors, _ = predictor.state()
    weights = tensors["weights"]
    outputs = tensors["mean"].shape[0]
    arrays = {
        "mean": tensors["mean"], "scale": tensors["scale"], "bits": tensors["bits"],
        "weights": weights[:, None].expand(-1, outputs) if weights.dim() == 1 else weights,
        "clip": torch.tensor(FARTHEST).double(),
    }  # fmt: skip
    if model.task == "regression":
        arrays["spread"] = tensors["spread"]
    else:
        arrays["offset"] = tensors.get(OFFSET, torch.zeros(outputs).double())
    if model.descriptors_columns_:
        missing = torch.full((predictor.extra,), torch.nan).double()
        arrays |= {
            f"columns.{name}": tensors.get(f"extra_{name}", missing)
            for name in ("mean", "scale", "low", "high")
        }
    if predictor.kernel is not None:
        weight, added = predictor.kernel.solution()
        some = ("counts", "descriptors", "theta", "mean", "scale", "center", "width")
        arrays |= {f"gp.{name}": tensors[f"gp.{name}"] for name in some}
        if predictor.kernel.has_pairs:
            arrays["gp.pairs"] = tensors["gp.pairs"]
        arrays |= {
            "gp.alpha": weight, "gp.added": added, "gp.clip": arrays["clip"],
            "gp.jitter": torch.tensor(JITTER).double(),
            "groups": torch.tensor(predictor.kernel.groups),
        }  # fmt: skip
    arrays |= {name: tensor for name, tensor in tensors.items() if name.startswith("forest.")}
    return {name: tensor.numpy() for name, tensor in arrays.items()} | _scores(model)


def _scores(model: Any) -> dict[str, np.ndarray]:
    """Return the calibration scores of each target, or of each class of each target."""
    scores: dict[str, np.ndarray] = {}
    for target, one in enumerate(model.calibrator_.scores):
        if model.task == "regression":
            scores[f"scores.{target}"] = np.array(one, np.float64)
        else:
            pairs = enumerate(one)
            scores |= {f"scores.{target}.{c}": np.array(each, np.float64) for c, each in pairs}
    return scores


def _facts(model: MoleculeModel, names: Sequence[str]) -> dict[str, Any]:
    """Return the names of the model's columns, and the settings of the conversion from SMILES to
    features.
    """
    import rdkit

    predictor = model.predictor_
    classes: list[list[Any]] = []
    if isinstance(model, ClassificationModel):
        classes = [each.tolist() for each in model.classes_by_target]
    return {
        "format": FORMAT,
        "versions": {"gattn": __version__, "rdkit": rdkit.__version__},
        "task": model.task,
        "targets": list(map(str, model.targets_)),
        "classes": classes,
        "transforms": list(predictor.transform.names),
        "parts": list(predictor.weights),
        "networks": len(predictor.networks),
        "levels": list(predictor.levels),
        "molecules": model.molecules_per_row,
        "reaction": model.reaction,
        "order_free": model.order_free,
        "smiles": list(names),
        "columns": list(model.descriptors_columns_),
        "outputs": output_columns(model),
        "featuriser": {
            "max_atoms": model.max_atoms,
            "standardize": list(model.standardize),
            "ignore_stereo": model.ignore_stereo,
            "add_h": model.add_h,
            "atoms": {
                "element": ELEMENTS, "degree": DEGREES, "charge": CHARGES,
                "chirality": CHIRALITIES, "hydrogens": HYDROGENS, "hybridisation": HYBRIDISATIONS,
            },
            "bonds": {"order": ORDERS, "stereo": STEREOS},
            "radius": RADIUS,
            "pairs": predictor.kernel is not None and predictor.kernel.has_pairs,
            "pair_distance": PAIR_DISTANCE,
            "element_codes": ELEMENT_CODES,
            "columns": COUNTS,
            "centre_codes": CENTRE_CODES,
            "plane_codes": PLANE_CODES,
            "properties": PROPERTIES,
        },
    }  # fmt: skip


def _examples(model: MoleculeModel) -> tuple[list[list[str]], Tensor]:
    """Return the SMILES of the example rows, and the values of their descriptor columns."""
    texts = REACTIONS if model.reaction else EXAMPLES
    count = len(texts)
    rows = [
        [texts[(row + i) % count] for i in range(model.molecules_per_row)] for row in range(count)
    ]
    predictor = model.predictor_
    if not predictor.extra:
        return rows, torch.empty(count, 0).double()
    tensors, _ = predictor.state()
    steps = torch.linspace(-2, 2, count)[:, None].double()
    columns = tensors["extra_mean"] + steps * tensors["extra_scale"]
    columns[0] = torch.nan
    return rows, columns


def _inputs(model: MoleculeModel, rows: Sequence[Sequence[str]], columns: Tensor) -> MoleculeInputs:
    """Return the inputs of the model for rows of SMILES, as :meth:`MoleculePredictor.predict`
    reads them.
    """
    inputs = model.featurise([join_smiles(row) for row in rows]).inputs
    if columns.shape[1]:
        inputs = DescribedInputs(inputs, columns)
    return model.predictor_.standardised(inputs)


def _difference(model: MoleculeModel, folder: Path) -> float:
    """Return the largest difference between the predictions of the model and of the export.

    Raises:
        RuntimeError: the difference is larger than :data:`TOLERANCE`.
    """
    rows, columns = _examples(model)
    exported = ExportedModel(folder).predict(rows, columns.numpy())
    items = list(zip(map(join_smiles, rows), columns.tolist()))
    descriptors = (lambda item: item[1]) if model.descriptors_columns_ else None
    (piece,) = model.predictions(items, smiles=lambda item: item[0], descriptors=descriptors)
    transform = model.predictor_.transform
    scale = model.predictor_.state()[0]["scale"]
    index, predicted = piece.row_index, piece.result
    means = [
        transform(mean) for mean in (torch.from_numpy(exported["mean"])[index], predicted.mean)
    ]
    gaps = [
        ((means[0] - means[1]) / scale).abs(),
        (torch.from_numpy(exported["std"])[index] / predicted.std.clamp(min=1e-9) - 1).abs()
        if model.task == "regression"
        else (torch.from_numpy(exported["std"])[index] - predicted.std).abs(),
    ]
    if predicted.quantiles is not None:
        quantiles = torch.from_numpy(exported["quantiles"])[index]
        for pair in zip(quantiles.unbind(2), predicted.quantiles.unbind(2)):
            got, expected = map(transform, pair)
            gaps.append(((got - expected) / scale).abs())
    difference = max(float(gap.max()) for gap in gaps)
    failed = sum(map(bool, exported["errors"])) != sum(map(bool, piece.errors))
    if failed or not difference <= TOLERANCE:
        raise RuntimeError(
            f"the exported model differs from predict by {difference:.2g} standard deviations, "
            f"which is more than {TOLERANCE:g}: the folder was not written"
        )
    return difference
