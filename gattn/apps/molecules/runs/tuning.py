"""Search for good settings with Optuna. It uses only the training and validation parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.config import SEARCH
from gattn.apps.molecules.runs.measure import measure_part, tuning_metric
from gattn.apps.run.model_io import Json, read_sealed, write_sealed
from gattn.apps.run.product import Log, no_log

__all__ = ["tune"]

TRIALS = "tuning.json"


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

    The first trial has the settings of the estimator. Every trial is written to ``tuning.json``,
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
        RunError: ``tuning.json`` was changed.
    """
    if estimator.model == "gp" or estimator.devices > 1:
        raise ValueError("--tune needs a model with a network, and a single device")
    try:
        import optuna
        from optuna.samplers import TPESampler
    except ImportError:
        raise ImportError('tune needs Optuna: pip install "gattn[tune]"') from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    metric, reason = tuning_metric(estimator, val.y)
    if reason:
        raise ValueError(
            f"--tune compares settings by {metric} on the validation part, where the metric "
            f"is {reason}; choose another --split, or leave out --tune"
        )
    path, ranges = out / TRIALS, _ranges()
    done: list[Json] = []
    if path.exists():
        done = read_sealed(path, "remove it to start the search again")["trials"]
    study = optuna.create_study(
        direction="maximize" if estimator.task == "classification" else "minimize"
    )
    study.add_trials(
        [optuna.create_trial(**cast(dict[str, Any], one), distributions=ranges) for one in done]
    )
    for number in range(len(done), trials):
        if not number:
            study.enqueue_trial({name: getattr(estimator, name) for name in SEARCH})
        study.sampler = TPESampler(seed=estimator.seed + number)
        trial = study.ask(ranges)
        model = estimator.replace(**trial.params)
        model.fit_labelled(train, val, groups=groups)
        value = measure_part(model, val.y, model.predictor_.validation.mean)[metric]
        study.tell(trial, value)
        done.append({"params": trial.params, "value": value})
        write_sealed(path, {"trials": done})
        log(f"trial {number + 1} of {trials}: {metric} {value:.4g}")
    log(f"the best settings: {study.best_params} ({metric} {study.best_value:.4g} on validation)")
    return study.best_params


def _ranges() -> dict[str, Any]:
    """Return the distributions from which the settings of a trial are drawn."""
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    low = {name: values[0] for name, values in SEARCH.items()}
    high = {name: values[-1] for name, values in SEARCH.items()}
    return {
        "width": CategoricalDistribution(SEARCH["width"]),
        "layers": IntDistribution(int(low["layers"]), int(high["layers"])),
        "dropout": FloatDistribution(low["dropout"], high["dropout"]),
        "learning_rate": FloatDistribution(low["learning_rate"], high["learning_rate"], log=True),
    }
