"""The command ``gattn molecules export``, which writes a trained model that can be used without
gattn.
"""

from __future__ import annotations

import importlib
import json
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gattn import __version__
from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.estimators import MoleculeClassifier
from gattn.apps.molecules.export.predict import FORMAT, ExportedModel
from gattn.apps.molecules.fitting import CORRELATION, LEAST, OFFSET, RESIDUALS
from gattn.apps.molecules.kernel_function import FARTHEST, JITTER
from gattn.apps.molecules.layers import MoleculeBatch
from gattn.apps.molecules.loading import load_model, smiles_columns
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.network import MoleculeNetwork, batch_inputs
from gattn.apps.molecules.runs.columns import prediction_columns
from gattn.apps.run.model_io import coverage_of
from gattn.files import new_folder

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


EXPORTED_PARTS = ("attention", "gp", "forest")
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
READER = "gattn_reader"
"""Name of the package in the folder that reads molecules, and reads and writes tables."""
MODULES = (
    "building", "counts", "descriptors", "environments", "features", "graph_reader", "identity",
    "kinds", "packing", "pairs", "plain", "smiles", "smiles_text", "standardise", "stereo",
    "stereo_marks",
)  # fmt: skip
"""Modules of :mod:`gattn.data.molecules` that are copied to the folder. They need no torch."""


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


def export_model(run: str | Path, out: str | Path) -> Exported:
    """Write a trained model to a folder in which ``predict.py`` predicts without gattn.

    The folder contains ``network.onnx`` (the networks, if the model has any), ``arrays.npz``,
    ``model.json`` and ``predict.py``, a program that needs NumPy, RDKit and onnxruntime. Some
    molecules are predicted with the model and with the files, and the folder is written only if
    the predictions agree.

    Args:
        run: the folder of a trained model, or the name of a model of gattn.
        out: the folder to write, which must not exist.

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
    with new_folder(out) as folder:
        if predictor.networks:
            inputs = predictor.standardised(model.featurise(EXAMPLES).inputs)
            networks = cast("Sequence[MoleculeNetwork]", predictor.networks)
            write_onnx(networks, inputs, folder / "network.onnx")
        np.savez_compressed(folder / "arrays.npz", allow_pickle=False, **_arrays(model))
        facts = _facts(model, names) | {"coverage": coverage_of(card, None)}
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
    """Copy the program, and as a package the modules that read molecules and tables."""
    program = Path(__file__).with_name("predict.py")
    root = program.parents[3]
    (folder / READER).mkdir()
    modules = [root / "files.py", root / "apps" / "molecules" / "measured.py"]
    modules += (root / "apps" / "tables").glob("*.py")
    modules += [root / "data" / "molecules" / f"{name}.py" for name in MODULES]
    copies = {path: folder / READER / path.name for path in modules}
    for path, copy in (copies | {program: folder / program.name}).items():
        text = path.read_text("utf-8")
        for package in ("apps.tables.", "apps.molecules.", "data.molecules.", ""):
            text = text.replace(f"from gattn.{package}", f"from {READER}.")
        copy.write_text(text, "utf-8")


def _check(run: str | Path, model: MoleculeEstimator) -> None:
    """Raise an ExportError if a model cannot be exported."""
    predictor = model.predictor_
    others = [f"the part {name!r}" for name in predictor.weights if name not in EXPORTED_PARTS]
    others += ["reactions"] * model.reaction
    others += ["several molecules in a row"] * (model.molecules_per_row > 1)
    others += ["descriptor columns"] * (predictor.extra > 0)
    if others:
        raise ExportError(
            f"{run} cannot be exported, because its model has {others[0]}: models of one molecule "
            f"in a row with the parts {', '.join(EXPORTED_PARTS)} can be exported; use gattn "
            "molecules predict or gattn serve"
        )


def _arrays(model: MoleculeEstimator) -> dict[str, np.ndarray]:
    """Return the arrays of the model; those of the networks are left out."""
    predictor = model.predictor_
    tensors, _ = predictor.state()
    weights = tensors["weights"]
    outputs = tensors["mean"].shape[0]
    arrays = {
        "mean": tensors["mean"], "scale": tensors["scale"], "bits": tensors["bits"],
        "weights": weights[:, None].expand(-1, outputs) if weights.dim() == 1 else weights,
    }  # fmt: skip
    if model.task == "regression":
        arrays["spread"] = tensors["spread"]
        arrays["least_similarity"] = tensors[LEAST]
        arrays |= {name: tensors[name] for name in (RESIDUALS, CORRELATION) if name in tensors}
    else:
        arrays["offset"] = tensors.get(OFFSET, torch.zeros(outputs).double())
    if predictor.kernel is not None:
        weight, added = predictor.kernel.solution()
        some = ("counts", "descriptors", "theta", "mean", "scale", "center", "width")
        arrays |= {f"gp.{name}": tensors[f"gp.{name}"] for name in some}
        if predictor.kernel.has_pairs:
            arrays["gp.pairs"] = tensors["gp.pairs"]
        arrays |= {
            "gp.alpha": weight, "gp.added": added, "gp.clip": torch.tensor(FARTHEST).double(),
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


def _facts(model: MoleculeEstimator, names: Sequence[str]) -> dict[str, Any]:
    """Return the names of the model's columns, and the settings of the conversion from SMILES to
    features.
    """
    import rdkit

    predictor = model.predictor_
    classes: list[list[Any]] = []
    if isinstance(model, MoleculeClassifier):
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
        "smiles": list(names),
        "outputs": prediction_columns(model),
        "featuriser": {
            "max_atoms": model.max_atoms,
            "standardize": list(model.standardize),
            "ignore_stereo": model.ignore_stereo,
            "add_h": model.add_h,
            "pairs": predictor.kernel is not None and predictor.kernel.has_pairs,
        },
    }  # fmt: skip


def _difference(model: MoleculeEstimator, folder: Path) -> float:
    """Return the largest difference between the predictions of the model and of the export.

    Raises:
        RuntimeError: the difference is larger than :data:`TOLERANCE`.
    """
    exported = ExportedModel(folder).predict(EXAMPLES)
    (piece,) = model.predictions(EXAMPLES)
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
    difference = max(float(gap.max()) for gap in gaps)
    failed = sum(map(bool, exported["errors"])) != sum(map(bool, piece.errors))
    if failed or not difference <= TOLERANCE:
        raise RuntimeError(
            f"the exported model differs from predict by {difference:.2g} standard deviations, "
            f"which is more than {TOLERANCE:g}: the folder was not written"
        )
    return difference
