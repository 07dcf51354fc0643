"""Search for good settings with Optuna. It uses only the training and validation parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.rows import LabelledMolecules
from gattn.molecules.runs.config import SEARCH
from gattn.molecules.runs.measure import measure_part, tuning_metric
from gattn.pipeline.product import Log, no_log
from gattn.training.model_io import RunError

if TYPE_CHECKING:
    from optuna import Study, Trial

__all__ = ["tune"]

JOURNAL = "tuning.log"


def tune(
    estimator: MoleculeEstimator,
    train: LabelledMolecules,
    val: LabelledMolecules,
    trials: int,
    out: Path,
    log: Log = no_log,
    *,
    groups: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Search for the settings that give the best metric on the validation part.

    The first trial has the settings of the estimator. Every trial is written to ``tuning.log``,
    from which an interrupted search continues; each trial has its own seed, so the result equals
    the result of an uninterrupted search.

    Args:
        estimator: the estimator to tune, not fitted.
        train: the molecules on which every trial is trained.
        val: the molecules on which every trial is evaluated, by RMSE, ROC-AUC, or the log loss of
            several classes.
        trials: number of trials, at least 1.
        out: the folder of the run.
        log: called with a line for each trial.
        groups: the group of each validation molecule; see :meth:`MoleculeEstimator.fit_labelled`.

    Returns:
        The best settings, by name.

    Raises:
        ValueError: a model without settings to search, several devices, or a validation part
            whose labels leave ROC-AUC undefined.
        ImportError: Optuna is not installed.
        RunError: ``tuning.log`` is damaged.
    """
    if estimator.model == "gp" or estimator.devices > 1:
        raise ValueError("--tune needs a model with a network, and a single device")
    study = _study(estimator, out)
    from optuna.samplers import TPESampler

    metric, reason = tuning_metric(estimator, val.y)
    if reason:
        raise ValueError(
            f"--tune compares settings by {metric} on the validation part, where the metric "
            f"is {reason}; choose another --split, or leave out --tune"
        )

    def objective(trial: Trial) -> float:
        model = estimator.replace(**_draw(trial))
        model.fit_labelled(train, val, groups=groups)
        return measure_part(model, val.y, model.predictor_.validation.mean)[metric]

    # If a search was interrupted, its unfinished trial is repeated.
    completed = sum(trial.state.name == "COMPLETE" for trial in study.trials)
    for number in range(completed, trials):
        if not number:
            study.enqueue_trial({name: getattr(estimator, name) for name in SEARCH})
        study.sampler = TPESampler(seed=estimator.seed + number)
        study.optimize(objective, n_trials=1)
        log(f"trial {number + 1} of {trials}: {metric} {study.trials[-1].value:.4g}")
    log(f"the best settings: {study.best_params} ({metric} {study.best_value:.4g} on validation)")
    return study.best_params


def _study(estimator: MoleculeEstimator, out: Path) -> Study:
    """Return the Optuna study in a folder; create a study if there is none."""
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise ImportError('tune needs Optuna: pip install "gattn[tune]"') from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(
            study_name="gattn",
            storage=JournalStorage(JournalFileBackend(str(out / JOURNAL))),
            direction="maximize" if estimator.task == "classification" else "minimize",
            load_if_exists=True,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{out / JOURNAL} is damaged ({error}): remove it to start the search again"
        ) from None


def _draw(trial: Trial) -> dict[str, Any]:
    """Draw the settings of a trial from the search ranges in SEARCH."""
    return {
        "width": trial.suggest_categorical("width", SEARCH["width"]),
        "layers": trial.suggest_int("layers", *map(int, SEARCH["layers"])),
        "dropout": trial.suggest_float("dropout", *SEARCH["dropout"]),
        "learning_rate": trial.suggest_float("learning_rate", *SEARCH["learning_rate"], log=True),
    }
