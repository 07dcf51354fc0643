"""Predict properties of molecules with an exported model, without gattn and PyTorch.

    pip install numpy onnxruntime rdkit
    python predict.py IN.csv OUT.csv

``gattn molecules export`` writes this file to a folder together with

- ``model.json``: names of targets and classes, and the settings of the featuriser;
- ``arrays.npz``: the Gaussian process and the forest, the weights of the parts, the calibration;
- ``network.onnx``: the networks of the ensemble, if the model has any;
- ``gattn_reader``: the modules of gattn that read molecules, and read and write tables.

From Python:

    from predict import ExportedModel
    model = ExportedModel("FOLDER")
    prediction = model.predict(["CCO", "c1ccccc1"])
    prediction["mean"], prediction["lower"], prediction["upper"], prediction["errors"]

The numbers are those of ``gattn molecules predict`` up to rounding.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gattn.apps.molecules.measured import MeasuredTargets
from gattn.apps.tables.formats import open_molecules
from gattn.data.molecules.building import GraphArrays
from gattn.data.molecules.packing import read_packed
from gattn.data.molecules.pairs import count_pairs
from gattn.data.molecules.stereo_marks import without_stereo_marks
from gattn.files import check_table_ending, new_file

Array = Any
"""Type of a NumPy array, or of numbers that NumPy converts to one."""

FORMAT = 5
"""Version of the content of the folder."""
BATCH = 256
"""Number of rows that are computed at once, to limit the memory."""


class Inputs(NamedTuple):
    """Inputs of a model for k molecules: arrays for the network, and fingerprints and descriptors
    for the Gaussian process.
    """

    network: dict[str, Array]
    counts: Array
    pairs: Array
    descriptors: Array


def network_inputs(graphs: GraphArrays) -> dict[str, Array]:
    """Return the inputs of the network for the graphs of k molecules."""
    atoms, edges = np.diff(graphs.ptr), np.diff(graphs.edge_ptr)
    return {
        "atoms": graphs.x,
        "edges": graphs.edge_index + graphs.ptr[:-1].repeat(edges),
        "bonds": graphs.edge_attr,
        "molecule": np.arange(len(atoms)).repeat(atoms),
        "sizes": atoms,
    }


class GaussianProcess:
    """Gaussian process on fingerprints and descriptors.

    Args:
        arrays: training fingerprints, descriptors, hyperparameters and the solution of the kernel
            equation. A model without the array ``pairs`` compares no atom pairs.
        groups: the first and the last column of each group of descriptors.
        variance: whether variances are needed.
    """

    def __init__(self, arrays: dict[str, Array], groups: Array, variance: bool) -> None:
        self.arrays, self.groups, self.variance = arrays, groups, variance
        self.kinds = [arrays[name] for name in ("counts", "pairs") if name in arrays]
        self.by_column = [np.ascontiguousarray(counts.T) for counts in self.kinds]
        self.total = [counts.sum(1, dtype=np.float32) for counts in self.kinds]

    @cached_property
    def factors(self) -> list[tuple[Array, Array]]:
        """For each target, its labelled training molecules, and the inverse of the Cholesky
        factor of their kernel matrix.
        """
        parts = self._compare(self.kinds, self.arrays["descriptors"])
        factors = []
        for theta, added in zip(self.arrays["theta"], self.arrays["added"].T):
            rows = np.flatnonzero(np.isfinite(added))
            kernel = _kernel([part[np.ix_(rows, rows)] for part in parts], theta)
            kernel[np.diag_indices(len(rows))] += added[rows]
            factors.append((rows, np.linalg.inv(np.linalg.cholesky(kernel))))
        return factors

    def predict(self, inputs: Inputs) -> tuple[Array, Array]:
        """Return the means [k, t] and the variances [k, t], in the targets' units."""
        arrays, raw = self.arrays, inputs.descriptors
        counts = [inputs.counts, inputs.pairs][: len(self.kinds)]
        z = np.clip((raw - arrays["center"]) / arrays["width"], -arrays["clip"], arrays["clip"])
        parts = self._compare(counts, z)
        kernels = [_kernel(parts, theta) for theta in arrays["theta"]]
        means = np.stack([k @ a for k, a in zip(kernels, arrays["alpha"].T)], 1)
        variances = np.zeros_like(means)
        if self.variance:
            itself = [each.any(1).astype(float) for each in counts]
            for begin, end in self.groups:
                square = (z[:, begin:end] ** 2).sum(1) / max(end - begin, 1)
                itself += [np.zeros_like(square), square]
            for i, (theta, (rows, inverse)) in enumerate(zip(arrays["theta"], self.factors)):
                half = inverse @ kernels[i][:, rows].T
                noise = np.exp(theta[0]) + arrays["jitter"]
                variances[:, i] = _kernel(itself, theta) + noise - (half**2).sum(0)
        scale = arrays["scale"]
        return means * scale + arrays["mean"], np.maximum(variances, 0) * scale**2

    def _compare(self, counts: Sequence[Array], z: Array) -> list[Array]:
        """Compare molecules with the training molecules. The result is the Tanimoto
        similarities, and for each group of descriptors the squared distances and the dot
        products, [k, n] each.
        """
        parts = [_tanimoto(*each) for each in zip(counts, self.by_column, self.total)]
        for begin, end in self.groups:
            some, others = z[:, begin:end], self.arrays["descriptors"][:, begin:end]
            product, features = some @ others.T, max(end - begin, 1)
            squares = (some**2).sum(1)[:, None] + (others**2).sum(1) - 2 * product
            parts += [np.maximum(squares, 0) / features, product / features]
        return parts


def _tanimoto(counts: Array, by_column: Array, total: Array) -> Array:
    """Return the Tanimoto similarities [k, n] of counts [k, d], given the counts [d, n] of the
    training molecules and their sums [n].
    """
    alike = np.empty((len(counts), len(total)), np.float32)
    for row, query in zip(alike, counts):
        columns = np.flatnonzero(query)
        least = np.minimum(by_column[columns], query[columns, None])
        row[:] = least.sum(0, dtype=np.float32)
    sums = counts.sum(1, dtype=np.float32)[:, None] + total
    return (alike / np.maximum(sums - alike, 1)).astype(float)


def _kernel(parts: Sequence[Array], theta: Array) -> Array:
    # For c kinds of counts and g groups of descriptors, there are c + 2 g matrices and 1 + c + 3 g
    # hyperparameters.
    kinds = len(parts) - 2 * (len(theta) - len(parts) - 1)
    scales = np.exp(theta)
    kernel = sum(weight * alike for weight, alike in zip(scales[1:], parts[:kinds]))
    groups = scales[1 + kinds :].reshape(-1, 3)
    for squares, product, group in zip(parts[kinds::2], parts[kinds + 1 :: 2], groups):
        matern, inverse, linear = group
        far = np.sqrt(3 * inverse * squares + 1e-12)
        kernel = kernel + matern * (1 + far) * np.exp(-far) + linear * product
    return kernel


class Forest:
    """Forest of regression trees on descriptors and fingerprints. Its prediction is the mean over
    the trees.

    Args:
        arrays: for each block of targets the nodes of its trees; the left child of a node is the
            next node.
    """

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays

    def predict(self, inputs: Inputs) -> Array:
        """Return the means [k, t] in the targets' units."""
        arrays = self.arrays
        x = np.concatenate([inputs.descriptors, inputs.counts[:, arrays["columns"]]], 1)
        x = x.astype(np.float32)
        result = np.zeros((len(x), len(arrays["mean"])))
        for block in range(int(arrays["block"].max()) + 1):
            values = arrays[f"{block}.value"][self._leaves(x, block)]
            result[:, arrays["block"] == block] = values.astype(float).mean(1)
        return result * arrays["scale"] + arrays["mean"]

    def _leaves(self, x: Array, block: int) -> Array:
        """Return the leaf of each row of x in each of T trees, [k, T]."""
        names = ("feature", "threshold", "right", "roots")
        feature, threshold, right, roots = (self.arrays[f"{block}.{name}"] for name in names)
        node = np.tile(roots, (len(x), 1))
        rows = np.arange(len(x))[:, None]
        while (inner := feature[node] >= 0).any():
            seen = x[rows, np.maximum(feature[node], 0)]
            child = np.where(seen <= threshold[node], node + 1, right[node])
            node = np.where(inner, child, node)
        return node


class ExportedModel:
    """Model in a folder that ``gattn molecules export`` has written.

    Args:
        folder: the folder.
        threads: number of threads of the network; 0 lets onnxruntime choose it.
    """

    def __init__(self, folder: str | Path, threads: int = 0) -> None:
        folder = Path(folder)
        self.facts = json.loads((folder / "model.json").read_text("utf-8"))
        if self.facts["format"] != FORMAT:
            raise ValueError(
                f"{folder} has the format {self.facts['format']}; this program reads {FORMAT}"
            )
        with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
            self.arrays = dict(stored)
        self.session = self.kernel = None
        if self.facts["networks"]:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            self.session = onnxruntime.InferenceSession(
                str(folder / "network.onnx"), options, providers=["CPUExecutionProvider"]
            )
            self.names = [each.name for each in self.session.get_inputs()]
        if "gp" in self.facts["parts"]:
            is_regression = self.facts["task"] == "regression"
            self.kernel = GaussianProcess(self._of("gp."), self.arrays["groups"], is_regression)
        self.forest = Forest(self._of("forest.")) if "forest" in self.facts["parts"] else None
        self.measured = None
        if "residuals" in self.arrays:
            names = ("gp.counts", "residuals", "correlation")
            self.measured = MeasuredTargets(*(self.arrays[name] for name in names))
        self.bits = np.unpackbits(self.arrays["bits"], axis=1).astype(np.float32)

    def predict(self, smiles: Sequence[str], coverage: float = 0.9) -> dict[str, Any]:
        """Predict n molecules.

        Args:
            smiles: n SMILES.
            coverage: coverage of the intervals or of the sets of classes.

        Returns:
            ``mean`` and ``std`` [n, t]; for a regression ``lower`` and ``upper`` [n, t]; for
            classes ``sets``, [n, c] bool for each target; ``similarity`` [n]; ``errors``, a text
            for each row. Rows with an error are NaN. For several classes t is the number of
            classes of all targets.
        """
        wide = self.arrays["weights"].shape[1]
        results = {
            "mean": np.full((len(smiles), wide), np.nan),
            "std": np.full((len(smiles), wide), np.nan),
            "similarity": np.full(len(smiles), np.nan),
        }
        errors: list[str] = []
        for start in range(0, len(smiles), BATCH):
            inputs, rows, problems = self._read(smiles[start : start + BATCH])
            errors += problems
            if rows:
                some = start + np.array(rows)
                results["mean"][some], results["std"][some] = self._predict(inputs)
                results["similarity"][some] = self._similarity(inputs.counts)
        mean, std = results["mean"], results["std"]
        if self.facts["task"] == "regression":
            results["lower"], results["upper"] = self._interval(mean, std, coverage)
        else:
            results["sets"] = self._sets(mean, coverage)
        return results | {"errors": errors}

    def _of(self, prefix: str) -> dict[str, Array]:
        """Return the arrays of one part of the model."""
        names = [name for name in self.arrays if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.arrays[name] for name in names}

    def probabilities(self, mean: Array) -> list[Array]:
        """Return the probabilities [n, c] of the classes of each target."""
        counts = [len(names) for names in self.facts["classes"]]
        if self.facts["task"] == "multiclass":
            return np.split(mean, np.cumsum(counts)[:-1], axis=1)
        return [np.stack([1 - column, column], 1) for column in mean.T]

    def _read(self, smiles: Sequence[str]) -> tuple[Inputs, list[int], list[str]]:
        """Return the inputs of the molecules that can be read, their rows, and the error of each
        row.
        """
        settings = self.facts["featuriser"]
        if settings["ignore_stereo"]:
            smiles = [without_stereo_marks(text) for text in smiles]
        packed = read_packed(
            smiles, canonical=False,
            **{name: settings[name] for name in ("max_atoms", "standardize", "add_h")},
        )  # fmt: skip
        graphs = packed.molecules.graphs()
        counts = packed.counts.unpack()
        pairs = count_pairs(graphs) if settings["pairs"] else np.zeros_like(counts)
        inputs = Inputs(network_inputs(graphs), counts, pairs, packed.descriptors.astype(float))
        return inputs, packed.molecules.rows, packed.errors

    def _predict(self, inputs: Inputs) -> tuple[Array, Array]:
        """Return the mean and the standard deviation [k, t], in the targets' units."""
        arrays, count = self.arrays, len(inputs.counts)
        weights = arrays["weights"][:, None]
        members = np.empty((0, count, weights.shape[2]))
        variance = np.zeros(members.shape[1:])
        if self.session is not None:
            feed = {name: inputs.network[name] for name in self.names}
            members = self._in_units(np.asarray(self.session.run(None, feed)[0], dtype=float))
        parts = []
        for name in self.facts["parts"]:
            if name == "gp" and self.kernel is not None:
                mean, variance = self.kernel.predict(inputs)
                parts.append(self._scores(mean))
            elif name == "forest" and self.forest is not None:
                parts.append(self._scores(self.forest.predict(inputs)))
            else:
                parts.append(members.mean(0))
        parts = np.stack(parts)
        mean = (parts * weights).sum(0)
        if self.facts["task"] != "regression":
            mean = mean + arrays["offset"]
            voices = np.concatenate([parts, members])
            return mean, np.sqrt(((voices - voices.mean(0)) ** 2).mean(0))
        sources = [np.broadcast_to(arrays["scale"] ** 2, mean.shape)]
        if self.kernel is not None:
            sources.append(variance)
        sources += [(one - other) ** 2 for one, other in pairwise(parts)]
        if len(members) > 1:
            sources.append(members.var(0, ddof=1))
        least = arrays["least_similarity"]
        beyond = np.maximum(1 - self._similarity(inputs.counts) / max(least, 1e-12), 0) * (
            least > 0
        )
        variance = (np.stack(sources) * arrays["spread"][:, None]).sum(0)
        std = np.sqrt(variance + (beyond[:, None] * arrays["scale"]) ** 2)
        if self.measured is not None:
            shift, factor = self.measured.corrections(inputs.counts)
            mean, std = mean + std * shift, std * factor
        mean = self._inverse(mean)
        return mean, std / self._slope(mean)

    def _in_units(self, raw: Array) -> Array:
        """Convert the outputs of networks [K, k, t] to means or probabilities, [K, k, t]."""
        if self.facts["task"] == "classification":
            return 1 / (1 + np.exp(-raw))
        if self.facts["task"] == "regression":
            return raw * self.arrays["scale"] + self.arrays["mean"]
        parts = self._split(raw)
        scores = [np.exp(part - part.max(-1, keepdims=True)) for part in parts]
        return np.concatenate([each / each.sum(-1, keepdims=True) for each in scores], -1)

    def _scores(self, mean: Array) -> Array:
        """Convert means of the Gaussian process to probabilities if the labels are classes."""
        if self.facts["task"] == "regression":
            return mean
        mean = np.clip(mean, 0, 1)
        if self.facts["task"] == "classification":
            return mean
        columns = []
        for part in self._split(mean):
            total = part.sum(-1, keepdims=True)
            equal = np.full_like(part, 1 / part.shape[-1])
            columns.append(np.where(total > 0, part / np.maximum(total, 1e-12), equal))
        return np.concatenate(columns, -1)

    def _split(self, outputs: Array) -> list[Array]:
        counts = [len(names) for names in self.facts["classes"]]
        return np.split(outputs, np.cumsum(counts)[:-1], axis=-1)

    def _each(self, values: Array, **functions: Any) -> Array:
        """Apply the function of each target's transform to the column of this target."""
        columns = [
            functions[name](column) if name in functions else column
            for name, column in zip(self.facts["transforms"], values.T)
        ]
        return np.stack(columns, 1)

    def _inverse(self, z: Array) -> Array:
        return self._each(z, log10=lambda v: 10 ** np.clip(v, -300, 300), logit=_sigmoid)

    def _slope(self, y: Array) -> Array:
        """Return the derivative of each target's transform at predictions [k, t]."""
        return self._each(
            y, none=np.ones_like, log10=lambda v: 1 / (v * math.log(10)),
            logit=lambda v: 1 / (v * (1 - v)),
        )  # fmt: skip

    def _interval(self, mean: Array, std: Array, coverage: float) -> tuple[Array, Array]:
        z = self._each(mean, log10=np.log10, logit=lambda y: np.log(y / (1 - y)))
        factor = [_quantile(self.arrays[f"scores.{i}"], coverage) for i in range(mean.shape[1])]
        distance = np.array(factor) * std * self._slope(mean)
        with np.errstate(over="ignore"):  # an infinite end stays infinite
            return tuple(
                self._each(end, log10=lambda v: 10**v, logit=lambda v: 1 / (1 + np.exp(-v)))
                for end in (z - distance, z + distance)
            )  # pyright: ignore[reportReturnType]

    def _sets(self, mean: Array, coverage: float) -> list[Array]:
        sets = []
        for i, chances in enumerate(self.probabilities(mean)):
            bounds = [
                _quantile(self.arrays[f"scores.{i}.{c}"], coverage) for c in range(chances.shape[1])
            ]
            # gattn stores the bounds with the precision of float32.
            inside = 1 - chances <= np.array(bounds, np.float32).astype(float)
            inside[np.arange(len(inside)), chances.argmax(1)] = True
            sets.append(inside)
        return sets

    def _similarity(self, counts: Array) -> Array:
        """Return the highest Tanimoto similarity of each of k molecules to a training molecule,
        [k].
        """
        bits = (counts > 0).astype(np.float32)
        shared = bits @ self.bits
        union = np.maximum(bits.sum(1)[:, None] + self.bits.sum(0) - shared, 1)
        return (shared / union).max(1)


def _sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(z, -20, 20)))


def _quantile(ascending: Array, coverage: float) -> float:
    """Return the k-th smallest of n scores, where k = ceil((n + 1) coverage); return infinity if
    k exceeds n.
    """
    rank = math.ceil((len(ascending) + 1) * coverage - 1e-9)
    return float(ascending[rank - 1]) if rank <= len(ascending) else math.inf


def output_rows(model: ExportedModel, predicted: dict[str, Any]) -> Iterator[list]:
    """Yield for each row the cells of the columns ``outputs`` of ``model.json``, and the error."""
    facts, chances = model.facts, []
    if facts["task"] != "regression":
        chances = model.probabilities(predicted["mean"])
    spreads = model._split(predicted["std"]) if facts["task"] == "multiclass" else None
    for i, error in enumerate(predicted["errors"]):
        if error:
            yield [*[""] * len(facts["outputs"]), error]
            continue
        cells: list[Any] = []
        for target in range(len(facts["targets"])):
            if not chances:
                names = ("mean", "std", "lower", "upper")
                cells += [f"{predicted[name][i, target]:.8g}" for name in names]
                continue
            classes, chance = facts["classes"][target], chances[target][i]
            best = int(chance.argmax())
            spread = predicted["std"][i, target] if spreads is None else spreads[target][i, best]
            shown = chance[1:] if facts["task"] == "classification" else chance
            chosen = [name for name, is_in in zip(classes, predicted["sets"][target][i]) if is_in]
            cells += [classes[best], *(f"{p:.8g}" for p in shown), f"{spread:.8g}"]
            cells.append("|".join(map(str, chosen)))
        cells.append(f"{predicted['similarity'][i]:.8g}")
        yield [*cells, ""]


def main(arguments: Sequence[str] | None = None) -> None:
    """Predict the rows of a CSV file."""
    parser = argparse.ArgumentParser(description="Predict the molecules of a CSV file.")
    parser.add_argument(
        "table", help="CSV file with a header and the column of SMILES of the training"
    )
    parser.add_argument("out", help="file to write: .csv, .tsv or .csv.gz")
    parser.add_argument("--coverage", type=float, help="coverage of the intervals")
    options = parser.parse_args(arguments)
    model = ExportedModel(Path(__file__).parent)
    coverage = model.facts["coverage"] if options.coverage is None else options.coverage
    if not 0 < coverage < 1:
        parser.error(f"--coverage must be above 0 and below 1; got {coverage:g}")
    added = [*model.facts["outputs"], "error"]
    try:
        check_table_ending(options.out)
        table = open_molecules(options.table, model.facts["smiles"], on_bad_bytes="surrogateescape")
        rows = list(table.rows())
        place = table.place(table.smiles[0])
        predicted = model.predict([row.cells[place] * (not row.problem) for row in rows], coverage)
        problems = zip(rows, predicted["errors"])
        predicted["errors"] = [row.problem or error for row, error in problems]
        with new_file(options.out) as file, table.writer(file, added) as writer:
            for row, more in zip(rows, output_rows(model, predicted)):
                writer.writerow([*row.cells, *more])
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
