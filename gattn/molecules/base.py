"""What the regressor and the classifier of molecules share: reading, fitting, saving, loading."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import torch
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gattn.data import MoleculeError, random_split
from gattn.data.molecules.features import FEATURISER
from gattn.molecules.arrays import as_table, as_texts, column_names
from gattn.molecules.inputs import MoleculeInputs, ParsedSmiles, Piece, featurise, make_pieces
from gattn.molecules.predictor import MoleculePredictor, Prediction
from gattn.molecules.rows import (
    LabelledMolecules,
    bad_rows,
    scatter_rows,
    smiles_hashes,
    warn_of,
    warn_of_overlap,
)
from gattn.molecules.settings import ClassWeight, ModelName, MoleculeSettings
from gattn.training.checks import check_share
from gattn.training.estimator import KeptEstimator
from gattn.training.model_io import RunError
from gattn.training.settings import settings_of

if TYPE_CHECKING:
    from gattn.molecules.explain import Explanation

__all__ = ["MoleculeEstimator"]

DEFAULT = MoleculeSettings()
T = TypeVar("T")
Item = TypeVar("Item")
Self = TypeVar("Self", bound="MoleculeEstimator")


class MoleculeEstimator(KeptEstimator):
    """The settings of an estimator of molecules; the subclasses say what they mean."""

    item: ClassVar[str] = "molecules"
    predictor_: MoleculePredictor
    _predictor_kind = MoleculePredictor

    def __init__(
        self,
        *,
        model: ModelName = DEFAULT.model,
        ensemble: int = DEFAULT.ensemble,
        epochs: int = DEFAULT.epochs,
        batch_size: int = DEFAULT.batch_size,
        learning_rate: float = DEFAULT.learning_rate,
        weight_decay: float = DEFAULT.weight_decay,
        width: int = DEFAULT.width,
        layers: int = DEFAULT.layers,
        heads: int = DEFAULT.heads,
        dropout: float = DEFAULT.dropout,
        class_weight: ClassWeight = DEFAULT.class_weight,
        kernel_rows: int = DEFAULT.kernel_rows,
        seed: int = DEFAULT.seed,
        max_atoms: int = DEFAULT.max_atoms,
        accelerator: str = DEFAULT.accelerator,
        devices: int = DEFAULT.devices,
        precision: str = DEFAULT.precision,
        validation_fraction: float = 0.1,
        on_error: Literal["raise", "skip"] = "raise",
        workers: int = 1,
    ) -> None:
        self.model = model
        self.ensemble = ensemble
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.width = width
        self.layers = layers
        self.heads = heads
        self.dropout = dropout
        self.class_weight = class_weight
        self.kernel_rows = kernel_rows
        self.seed = seed
        self.max_atoms = max_atoms
        self.accelerator = accelerator
        self.devices = devices
        self.precision = precision
        self.validation_fraction = validation_fraction
        self.on_error = on_error
        self.workers = workers

    def fit(
        self: Self,
        smiles: Iterable[str],
        y: Any,
        *,
        validation: tuple[Iterable[str], Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> Self:
        """Train on molecules and their labels.

        Args:
            smiles: n texts: a list, a tuple, an array or a Series.
            y: [n] or [n, t] labels, NaN or None where nothing was measured.
            validation: molecules and labels by which the epoch is chosen and the intervals are
                calibrated; otherwise ``validation_fraction`` of the molecules, drawn by ``seed``,
                all rows of one molecule on one side.
            folder: where to keep checkpoints; a fit that was interrupted goes on from there.
            progress: draw a bar with the time left.

        Returns:
            The estimator itself.

        Raises:
            MoleculeError: SMILES that cannot be read under ``on_error="raise"``.
            ValueError: a setting out of its range, labels that are too few or all the same.
        """
        self.settings()  # a wrong setting is told before anything is read
        known = self.read(smiles, y)
        if validation is None:
            train, val = self._split_off(known)
        else:
            train, val = known, self.labelled(*validation)
            warn_of_overlap(train, val)
        return self.fit_labelled(train, val, folder=folder, progress=progress)

    def read(
        self, smiles: Iterable[str], y: Any, *, cache: str | os.PathLike[str] | None = None
    ) -> LabelledMolecules:
        """Read molecules and learn the names and classes of their labels, as :meth:`fit` does.

        ``cache`` is a file that keeps what was read; see
        :func:`gattn.molecules.inputs.featurise`.
        """
        if self.on_error not in ("raise", "skip"):
            raise ValueError(f'on_error must be "raise" or "skip"; got {self.on_error!r}')
        texts = as_texts(smiles)
        table = as_table(y, len(texts))
        self.targets_, self.single_target_ = column_names(y), np.ndim(y) == 1
        self._learn_labels(table)
        known = self.labelled(texts, table, cache=cache)
        self.bad_ = known.bad
        return known

    def fit_labelled(
        self: Self,
        train: LabelledMolecules,
        val: LabelledMolecules,
        *,
        groups: Sequence[str] | None = None,
        folder: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> Self:
        """Train on molecules that :meth:`read` gave, one part for training, one for validation.

        ``groups`` names the group of each validation molecule, as its scaffold, if whole groups
        were held out; by default each molecule is a group. See :meth:`MoleculePredictor.fit`.
        """
        for name, part, least in (("training", train, 2), ("validation", val, 1)):
            if len(part) < least:
                raise ValueError(
                    f"the {name} part needs at least {least} molecule{'s' * (least > 1)} with a "
                    f"label; it has {len(part)}"
                )
        self.predictor_ = MoleculePredictor.fit(
            train.inputs, train.y, val.inputs, val.y, self.task, self.settings(),
            groups=val.canonical if groups is None else groups,
            folder=None if folder is None else Path(folder), progress=progress,
        )  # fmt: skip
        self._calibrate(val.y, self.predictor_.validation)
        self.seen_ = smiles_hashes([*train.canonical, *val.canonical]).unique()
        return self

    @classmethod
    def from_state(
        cls: type[Self],
        folder: str | os.PathLike[str],
        tensors: dict[str, Tensor],
        card: Mapping[str, Any],
    ) -> Self:
        """Make the estimator of what :meth:`state` gave and a folder holds.

        Raises:
            RunError: the card is of another estimator, something in it is missing, or the model was
                trained on other features of molecules than this version of gattn computes.
        """
        predictor = card.get("predictor")
        version = predictor.get("featuriser", "1") if isinstance(predictor, dict) else FEATURISER
        if version != FEATURISER:
            raise RunError(
                f"the model in {folder} was trained on version {version} of the features of "
                f"molecules, and this gattn computes version {FEATURISER}: train the model again"
            )
        return super().from_state(folder, tensors, card)

    def settings(self) -> MoleculeSettings:
        """The settings of the model."""
        return settings_of(MoleculeSettings, self)

    def predictions(
        self, items: Iterable[Item], *, smiles: Callable[[Item], str] | None = None
    ) -> Iterator[Piece[Item, Prediction]]:
        """Predict piece by piece, in order and in bounded memory.

        Args:
            items: SMILES, or anything that has one, as the rows of a table; a generator is read as
                it is needed.
            smiles: gives the SMILES of an item; by default the items are SMILES.

        Yields:
            Consecutive items with the predictions of those that are readable molecules.
        """
        check_is_fitted(self)
        return self._pieces(self.predictor_.predict, items, smiles)

    def embeddings(
        self, items: Iterable[Item], *, smiles: Callable[[Item], str] | None = None
    ) -> Iterator[Piece[Item, Tensor]]:
        """Embed piece by piece, as :meth:`predictions` predicts: [k, K d] of readable molecules."""
        check_is_fitted(self)
        return self._pieces(self.predictor_.embed, items, smiles)

    @property
    def embedding_size(self) -> int:
        """How many numbers :meth:`embed` gives of a molecule."""
        return self.predictor_.embed(featurise(["C"]).inputs).shape[1]

    def embed(self, smiles: Iterable[str]) -> np.ndarray:
        """Describe molecules by the vectors that the networks predict from.

        Args:
            smiles: n texts.

        Returns:
            [n, K d] float32, the d numbers of each of the ensemble's K networks side by side; NaN
            in the rows of SMILES that cannot be read, with one warning.

        Raises:
            ValueError: the model has no network.
            NotFittedError: the estimator was not fitted.
        """
        texts = as_texts(smiles)
        pieces = ((piece, (piece.result,)) for piece in self.embeddings(texts))
        (vectors,) = _joined(texts, pieces)
        return vectors.float().numpy()

    def explain(
        self, smiles: Iterable[str], *, method: str | None = None, target: int | str = 0
    ) -> list[Explanation | None]:
        """Weigh every atom of some molecules, and say how faithful the weights are.

        Args:
            smiles: n texts.
            method: one of :data:`gattn.molecules.attributions.METHODS`; the default one is that
                which agrees best with exact attributions of logP and TPSA.
            target: the position of the target, or its name.

        Returns:
            One explanation a molecule, None for a SMILES that cannot be read, with one warning.

        Raises:
            ValueError: no such method or target.
            NotFittedError: the estimator was not fitted.
        """
        check_is_fitted(self)
        from gattn.molecules.attributions import DEFAULT_METHOD
        from gattn.molecules.explain import explain

        place = self.place_of(target) if isinstance(target, str) else target
        texts = as_texts(smiles)
        found = featurise(texts, max_atoms=self.max_atoms, workers=self.workers)
        warn_of(bad_rows(texts, found))
        method = DEFAULT_METHOD if method is None else method
        made = iter(explain(self.predictor_, found.inputs, method, target=place))
        return [None if error else next(made) for error in found.errors]

    def place_of(self, target: str | None) -> int:
        """The position of a target of this name; None names the only one."""
        names = self.targets_
        if target is None and len(names) == 1:
            return 0
        if target is None or target not in names:
            raise ValueError(f"target must be one of {', '.join(names)}; got {target}")
        return names.index(target)

    def labelled(
        self, smiles: Iterable[str], y: Any, *, cache: str | os.PathLike[str] | None = None
    ) -> LabelledMolecules:
        """The readable molecules of which a label is known, labels as :meth:`read` learnt them."""
        texts = as_texts(smiles)
        labels = torch.from_numpy(self._encode(as_table(y, len(texts))))
        found = featurise(texts, max_atoms=self.max_atoms, workers=self.workers, cache=cache)
        bad = tuple(bad_rows(texts, found))
        if bad and self.on_error == "raise":
            raise MoleculeError(bad, "smiles")
        labels = labels[found.row_index]
        known = labels.isfinite().any(1).nonzero().flatten()
        everything = LabelledMolecules(found.inputs, labels, found.row_index, found.canonical, bad)
        return everything if len(known) == len(labels) else everything[known]

    def _split_off(self, known: LabelledMolecules) -> tuple[LabelledMolecules, LabelledMolecules]:
        """A training and a validation part, all rows of one molecule in one of them."""
        share = float(self.validation_fraction)
        check_share("validation_fraction", share)
        split = random_split(
            len(known), seed=self.seed, fractions=(1 - share, share, 0.0), groups=known.canonical
        )
        return known[split.train], known[torch.cat([split.val, split.test])]

    def _predict(self, smiles: Iterable[str]) -> tuple[Tensor, Tensor]:
        """Means and standard deviations [n, t], NaN where a text cannot be read."""
        texts = as_texts(smiles)
        pieces = self.predictions(texts)
        mean, std = _joined(texts, ((one, (one.result.mean, one.result.std)) for one in pieces))
        return mean, std

    def _score(
        self,
        metric: Callable[..., float],
        smiles: Iterable[str],
        y: Any,
        sample_weight: np.ndarray | None,
    ) -> float:
        """The mean over targets of a metric of the rows that are readable and have a label."""
        check_is_fitted(self)
        texts = as_texts(smiles)
        truth, guess = self._encode(as_table(y, len(texts))), self._decide(self._predict(texts)[0])
        weight = np.ones(len(texts)) if sample_weight is None else np.asarray(sample_weight)
        scores = [
            metric(a[known], b[known], sample_weight=weight[known])
            for a, b in zip(truth.T, guess.T)
            if (known := np.isfinite(a) & np.isfinite(b)).sum() > 1
        ]
        return float(np.mean(scores)) if scores else float("nan")

    def _shaped(self, made: np.ndarray) -> np.ndarray:
        """Without the dimension of targets [n, t, ...] where y had none."""
        return made[:, 0] if self.single_target_ else made

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.target_tags.multi_output = True
        return tags

    @abstractmethod
    def _learn_labels(self, table: np.ndarray) -> None:
        """Check labels [n, t] and remember their classes."""

    @abstractmethod
    def _encode(self, table: np.ndarray) -> np.ndarray:
        """Labels [n, t] as float64, NaN where nothing was measured."""

    @abstractmethod
    def _decide(self, mean: Tensor) -> np.ndarray:
        """What is predicted [n, t], in the numbers that :meth:`_encode` gives."""

    @abstractmethod
    def _calibrate(self, y: Tensor, made: Prediction) -> None:
        """Learn from the validation part how wide intervals have to be."""

    def _own_tensors(self) -> dict[str, Tensor]:
        return {"seen": self.seen_}

    def _own_state(self) -> dict[str, Any]:
        return {"targets": list(self.targets_), "single_target": self.single_target_}

    def _take_own(self, tensors: dict[str, Tensor], card: Mapping[str, Any]) -> None:
        self.targets_, self.single_target_ = list(card["targets"]), card["single_target"]
        self.seen_ = tensors["seen"]

    def _pieces(
        self,
        make: Callable[[MoleculeInputs], T],
        items: Iterable[Item],
        smiles: Callable[[Item], str] | None,
    ) -> Iterator[Piece[Item, T]]:
        return make_pieces(
            make, items, smiles=smiles, max_atoms=self.max_atoms, workers=self.workers
        )


def _joined(
    texts: Sequence[object], pieces: Iterable[tuple[ParsedSmiles, tuple[Tensor, ...]]]
) -> list[Tensor]:
    """Join what was made of pieces, tensors [k, ...], to tensors over the n rows of all texts."""
    columns, bad, start = [], [], 0
    for found, made in pieces:
        columns.append([scatter_rows(each, found) for each in made])
        bad += bad_rows(texts, found, start)
        start += len(found.errors)
    warn_of(bad)
    return [torch.cat(column) for column in zip(*columns)]
