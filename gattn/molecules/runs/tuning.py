"""A search for settings by Optuna, on the training and validation parts only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sklearn.base import clone

from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.rows import Labelled
from gattn.molecules.runs.config import SEARCH
from gattn.molecules.runs.measure import measure
from gattn.training.metrics import undefined_metrics
from gattn.training.runs import RunError

if TYPE_CHECKING:
    from optuna import Study, Trial

__all__ = ["tune"]

JOURNAL = "tuning.log"


def tune(
    estimator: MoleculeEstimator,
    train: Labelled,
    val: Labelled,
    trials: int,
    out: Path,
    say: Callable[[str], None] = lambda line: None,
    *,
    groups: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Try settings, and give those with which the validation part is predicted best.

    The settings that were asked for are the first that are tried. Every trial is written to
    ``tuning.log``, from which an interrupted search goes on: as every trial draws from a seed of
    its own, it ends as it would have.

    Args:
        estimator: what is tuned, not fitted.
        train: the molecules that every trial is trained on.
        val: the molecules that it is judged by: RMSE, or ROC-AUC.
        trials: how many settings to try, at least 1.
        out: the folder of the run.
        say: told of every trial in a line.
        groups: the group of each validation molecule; see :meth:`MoleculeEstimator.fit_labelled`.

    Returns:
        The settings found, by name.

    Raises:
        ValueError: a model without settings to search, several devices, or a validation part
            whose labels leave ROC-AUC undefined.
        ImportError: Optuna is not installed.
        RunError: ``tuning.log`` is damaged.
    """
    if estimator.model == "gp" or estimator.devices > 1:
        raise ValueError("tune needs a model with a network, and one device")
    study = _study(estimator, out)
    metric = "rmse" if estimator.task == "regression" else "roc_auc"
    reason = undefined_metrics(val.y, estimator.task, list(map(str, estimator.targets_)))
    if reason.get(metric, "").startswith("undefined"):
        raise ValueError(
            f"tune compares settings by {metric} on the validation part, where it is "
            f"{reason[metric]}; choose another --split, or leave out --tune"
        )

    def objective(trial: Trial) -> float:
        made = cast(MoleculeEstimator, clone(estimator)).set_params(**_draw(trial))
        made.targets_, made.single_target_ = estimator.targets_, estimator.single_target_
        made.fit_labelled(train, val, groups=groups)
        return measure(made.task, val.y, made.predictor_.validation.mean)[metric]

    for number in range(_done(study), trials):
        if not number:
            study.enqueue_trial({name: getattr(estimator, name) for name in SEARCH})
        _reseed(study, estimator.seed + number)
        study.optimize(objective, n_trials=1)
        say(f"trial {number + 1} of {trials}: {metric} {study.trials[-1].value:.4g}")
    say(f"the best settings: {study.best_params} ({metric} {study.best_value:.4g} on validation)")
    return study.best_params


def _study(estimator: MoleculeEstimator, out: Path) -> Study:
    """The search that lies in a folder, or a new one."""
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
            direction="minimize" if estimator.task == "regression" else "maximize",
            load_if_exists=True,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{out / JOURNAL} is damaged ({error}): remove it, and the search begins anew"
        ) from None


def _done(study: Study) -> int:
    """How many trials are whole; one that was killed counts for nothing."""
    from optuna.trial import TrialState

    return len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))


def _reseed(study: Study, seed: int) -> None:
    from optuna.samplers import TPESampler

    study.sampler = TPESampler(seed=seed)


def _draw(trial: Trial) -> dict[str, Any]:
    """Settings to try; the widths are multiples of the usual numbers of heads."""
    return {
        "width": trial.suggest_categorical("width", SEARCH["width"]),
        "layers": trial.suggest_int("layers", *map(int, SEARCH["layers"])),
        "dropout": trial.suggest_float("dropout", *SEARCH["dropout"]),
        "learning_rate": trial.suggest_float("learning_rate", *SEARCH["learning_rate"], log=True),
    }
