"""The command ``gattn nodes train`` and its stages, from reading the graph to the report."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import confusion_matrix
from torch import Tensor

from gattn.apps.fitting.calibration import (
    Reliability,
    coverage_reliability,
    probability_reliability,
)
from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.estimators import ESTIMATORS, NodeClassifier, NodeEstimator, NodeRegressor
from gattn.apps.nodes.features import EncodedGraph
from gattn.apps.nodes.labels import copy_notes, number_notes, read_labels
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.runs.measure import (
    baseline_predictions,
    class_scores,
    is_noise,
    measure_intervals,
)
from gattn.apps.nodes.runs.predict import prediction_rows
from gattn.apps.nodes.runs.splits import DRAWN, make_split, split_kind, splits_record
from gattn.apps.nodes.sampled.reading import SizeChoice, read_for_training
from gattn.apps.nodes.stack.predictor import StackedPredictor
from gattn.apps.nodes.values import as_numbers, is_missing
from gattn.apps.report.report import Figure, Section, Table
from gattn.apps.report.run_report import CLASSES, RunFacts, run_report
from gattn.apps.report.style import METRICS, number
from gattn.apps.run import train as pipeline
from gattn.apps.run.measure import PARTS
from gattn.apps.run.text import plural
from gattn.apps.run.train import Log, Parts, Product, Report, TrainedRun, no_log, report_facts
from gattn.apps.runtime.processes import in_order
from gattn.data import Split
from gattn.draw import draw_network

WITHOUT_NAME = {True: "classes", False: "numbers"}
ALL_FEATURES = {"x": "x", "columns": "all others", "structure": "place in the graph"}
COMPONENTS = {
    "constant": "share of each class, or the mean of the numbers",
    "columns": "linear model of a node's own columns",
    "neighbours": "like columns, but also of the columns' means over neighbours within two steps",
    "labels": "like neighbours, but also of the known labels around a node",
    "consistent": "networks that also learn from nodes without a label",
    "walks": "the walks of two steps to each training node",
    "propagation": "known labels that spread along the edges",
}
"""Descriptions of the components other than the attention network."""
TOP_LABELS = 10
"""Number of nodes whose names are written beside them in the picture of the network."""


def node_report(run: NodeRun) -> Report:
    """Return the content of the report page, and a dictionary of its plots (the keys are file
    names without extension). Raises ImportError without matplotlib or networkx.
    """
    weights = run.estimator.predictor_.attention(run.encoded.graph)
    figures = {"network": _picture(run, weights)}
    sections = [_trials_section(run)] if len(run.trials) > 1 else []
    if "components" in run.metrics:
        sections.append(_components(run))
    if isinstance(run.estimator, NodeClassifier):
        sections.append(_classes(run))
    sections.append(Section("The network", figures=(figures["network"],)))
    content, common = run_report(_facts(run), sections)
    return content, common | figures


def _facts(run: NodeRun) -> RunFacts:
    """Return the results of a run that the report page shows: metrics, settings and predictions."""
    estimator, settings, test = run.estimator, run.settings, run.split.test
    y, predicted, counts = run.y[test], run.predicted[test], run.metrics["nodes"]
    data = Path(settings.title).name
    if isinstance(estimator, NodeClassifier):
        targets = tuple(estimator.class_names)
        truth = torch.nn.functional.one_hot(y.long(), len(targets)).double()
        std = None
    else:
        targets, truth = (str(estimator.label),), y[:, None]
        std = torch.ones_like(predicted)
    times = plural(len(run.trials), "time") if len(run.trials) > 1 else "once"
    more = f" (the models except the network also on {counts['val']:,} validation nodes)"
    return report_facts(
        run,
        chosen={
            "label": estimator.label,
            "features": ", ".join(settings.features) or ALL_FEATURES[run.encoded.encoder.source],
            "task": estimator.task.name,
            "split": run.split.protocol,
            "directed": str(run.encoded.graph.directed),
        },
        title=f"{settings.label or WITHOUT_NAME[estimator.task.is_class]} of {data}",
        summary=(
            f"The model {settings.model.model}, trained {times} on {counts['train']:,} of "
            f"{counts['all']:,} nodes of {data}{more * estimator.predictor_.is_refit}; split: "
            f"{run.metrics['split']}."
        ),
        targets=targets,
        y=truth,
        mean=predicted,
        std=std,
        histories=[best_trial(run.trials).history],
        reliability=_reliability(run, y, predicted),
        rows=counts["all"],
        decided=run.encoded.notes,
        words=CLASSES,
    )


def _reliability(run: NodeRun, y: Tensor, predicted: Tensor) -> Reliability:
    """Compute how often predicted classes, or intervals, are correct for each predicted
    probability.
    """
    if isinstance(run.estimator, NodeRegressor):
        return coverage_reliability(y[:, None], partial(run.estimator.intervals, predicted))
    chance, guess = predicted.max(1)
    return probability_reliability((guess == y).double(), chance)


def _trials_section(run: NodeRun) -> Section:
    """Return the section on the mean and the variation of the metrics over the trials."""
    rows = tuple(
        (METRICS[name], *each.values()) for name, each in run.metrics["runs"]["test"].items()
    )
    columns = "metric", "mean", "standard deviation"
    text = (
        f"{len(run.trials)} trainings. The rest of this page describes the saved model, the one "
        "with the lowest validation loss.",
    )
    return Section("Runs", text, (Table(columns, rows, "On the test part"),))


def _components(run: NodeRun) -> Section:
    """Return the section of the report on the weights and metrics of the models in a stack. The
    model of the run must be a stack.
    """
    components = run.metrics["components"]
    metrics = list(run.metrics["test"])
    rows = [
        (
            name,
            COMPONENTS.get(name, "attention network"),
            each["weight"],
            *(each["test"][metric] for metric in metrics),
        )
        for name, each in components.items()
    ]
    stack = (run.metrics["test"][metric] for metric in metrics)
    rows.append(("stack", "the model: all components together", None, *stack))
    text = (
        "The prediction combines these models with weights that were fitted on the validation "
        "part. A component with the weight 0 does not improve the others there. For classes, the "
        "weights multiply the logarithms of the probabilities and need not sum to 1.",
    )
    factors = run.metrics.get("class_factors", {})
    if len(set(factors.values())) > 1:
        listed = ", ".join(f"{name} {number(factor)}" for name, factor in factors.items())
        text += (
            "The probabilities of the combination were multiplied by factors, because the classes "
            f"have other frequencies outside of the training part: {listed}.",
        )
    columns = "component", "description", "weight", *(METRICS[metric] for metric in metrics)
    return Section("Components", text, (Table(columns, tuple(rows), "On the test part"),))


def _classes(run: NodeRun) -> Section:
    """Return the section of the report with the scores of each class on the test part."""
    names = "nodes", "precision", "recall", "f1"
    rows = tuple(
        (kind, *(scores[name] for name in names)) for kind, scores in run.metrics["classes"].items()
    )
    table = Table(("class", *names[:3], "F1"), rows, "On the test part")
    return Section("Classes", tables=(table,))


def _picture(run: NodeRun, weights: list[tuple[Tensor, Tensor]]) -> Figure:
    """Return a figure of the network, or of a part of it, with predictions and attention weights of
    the last layer. ``weights`` is the result of :meth:`NodePredictor.attention` for the graph of
    the run. Raises ImportError without matplotlib or networkx.
    """
    edges, alpha = weights[-1]
    labels = [str(name) for name in run.encoded.graph.names]
    names, wrong, uncertain = [], None, None
    caption = (
        "Nodes coloured by their predictions. The width of an edge at a node is the attention of "
        "this node to the other node."
    )
    if isinstance(run.estimator, NodeClassifier):
        colour = run.predicted.argmax(1)
        names = run.estimator.class_names
        wrong = (colour != run.y) & ~run.y.isnan()
        wrong[run.split.train] = False
        uncertain = run.estimator.sets(run.predicted, run.settings.coverage).sum(1) > 1
        caption += " A ring marks a wrong prediction outside the training part."
        one = "Every" if uncertain.all() else "A hollow"
        if uncertain.any():
            caption += f" {one} node has several classes in its {run.settings.coverage:.0%} set."
    else:
        colour = run.predicted[:, 0]
    if (network := run.encoded.graph.network) is not None:
        labels, kinds = network.titles()
        if names:
            rest = len(names) - 1 + kinds[len(colour) :]
            names = [*names, *(f"type {kind}" for kind in network.others)]
        else:
            # Without classes, a node of another type has the mean of the predicted numbers.
            rest = colour.mean().expand(len(kinds) - len(colour))
        colour = torch.cat([colour, rest])
        if wrong is not None and uncertain is not None:
            wrong, uncertain = (
                torch.cat([mask, mask.new_zeros(len(labels) - len(mask))])
                for mask in (wrong, uncertain)
            )
        caption += " Nodes of other types have the colours of their types."
    caption += " The names are those of the nodes that receive most attention."
    picture = draw_network(
        edges, alpha, colour, names, labels=labels,
        top_labels=TOP_LABELS, wrong=wrong, uncertain=uncertain,
        wrong_text="wrong prediction (not in training)",
        uncertain_text=f"several classes in the {run.settings.coverage:.0%} set",
    )  # fmt: skip
    return Figure(picture, "The network, its nodes coloured by prediction", caption)


@dataclass(frozen=True, eq=False)
class Trial:
    """Trained model and its metrics.

    Attributes:
        estimator: the fitted estimator, without its graph.
        predicted: [n, outputs] predictions of all nodes.
        val: metrics of the validation part.
        test: metrics of the test part.
    """

    estimator: NodeEstimator
    predicted: Tensor
    val: dict[str, float]
    test: dict[str, float]

    @property
    def history(self) -> History:
        """Training history, with a record of each epoch."""
        return self.estimator.history_[0]

    @property
    def validation_loss(self) -> float:
        """Loss of the model on the validation part."""
        return self.estimator.predictor_.validation_loss


@dataclass(frozen=True, eq=False)
class Trainer:
    """Inputs that are common to all trials; each process receives them once.

    Attributes:
        estimator: the estimator before training; it has the classes of the labels.
        encoded: the graph with its features.
        y: [n] labels, NaN for nodes without a label.
        splits: the split of each trial, or one split for all trials.
    """

    estimator: NodeEstimator
    encoded: EncodedGraph
    y: Tensor
    splits: Sequence[Split]

    def train(
        self, number: int, on_epoch: Callable[[EpochRecord], None] = lambda record: None
    ) -> Trial:
        """Train the model of a trial, with the seed of the estimator plus the number of the trial,
        and return it with its metrics. Raises TrainingError if the loss is not finite.
        """
        estimator = copy.copy(self.estimator).set_params(seed=self.estimator.seed + number)
        split = self.splits[number % len(self.splits)]
        estimator.fit_parts(self.encoded, self.y, split, on_epoch=on_epoch)
        predictor, split = estimator.predictor_, estimator.split_
        predicted = predictor.predict(self.encoded.graph)
        # The final models of a stack may also be fitted to the validation part.
        val = estimator.task.measure(self.y[split.val], predictor.validation)
        test = estimator.task.measure(self.y[split.test], predicted[split.test])
        # The graph is not sent, because the process that receives the trial already has it.
        del estimator.graph_
        return Trial(estimator, predicted, val, test)


def run_trials(
    trainer: Trainer,
    runs: int,
    *,
    workers: int,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    on_run_end: Callable[[Trial], None],
) -> list[Trial]:
    """Run the trials in several processes that have one thread each.

    On a small graph a training step is too short to be shared among threads. A single trial, and
    the trials on a compact graph, run one after the other in this process.

    Args:
        trainer: the inputs that all trials share.
        runs: number of trials.
        workers: number of processes; 1 for this process alone.
        on_epoch: called after each epoch if this process runs all trials.
        on_run_end: called after each trial, in order.

    Returns:
        The trials in order.

    Raises:
        TrainingError: the loss of a trial is not finite.
        RuntimeError: a process was killed, for example because memory was exhausted.
    """
    # Trials on a large graph run one after another in this process, so that the graph is in memory
    # once.
    is_large = trainer.encoded.graph.compact
    if not is_large and workers > 1 and runs > 1:
        numbers = ((number, number) for number in range(runs))
        results = (trial for _, trial in in_order(trainer.train, numbers, workers, ahead=1))
    else:
        results = (trainer.train(number, on_epoch) for number in range(runs))
    trials = []
    for trial in results:
        trials.append(trial)
        on_run_end(trial)
    return trials


def best_trial(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the lowest validation loss; the test part has no influence."""
    return min(trials, key=lambda one: one.validation_loss)


def moments(trials: Sequence[Trial], metric: str) -> dict[str, float]:
    """Return the mean and the standard deviation ``std`` of a metric of the test part over one or
    more trials; the standard deviation of one trial is NaN.
    """
    values: Any = pd.Series([trial.test[metric] for trial in trials], dtype=float)
    return {"mean": float(values.mean()), "std": float(values.std())}


MAX_CLASSES = 20
"""Numeric labels are read as classes if they have at most this number of different values."""


@dataclass(frozen=True, eq=False)
class NodeData:
    """Data of a training run.

    Attributes:
        graph: the graph.
        y: [n] labels, NaN for nodes without a label.
        estimator: the estimator before training; it has the classes of the labels.
        choice: choice between training on the whole graph and on samples; None if none was made.
    """

    graph: AttributedGraph
    y: Tensor
    estimator: NodeEstimator
    choice: SizeChoice | None


@dataclass(frozen=True, eq=False)
class NodeParts(Parts):
    """Splits and encoded features of a run.

    Attributes:
        splits: the split of each trial, or one split for all trials.
        encoded: the graph with its features.
    """

    splits: Sequence[Split]
    encoded: EncodedGraph


@dataclass(frozen=True, eq=False)
class NodeRun(TrainedRun):
    """Best trial of a run, and its evaluation.

    Attributes:
        estimator: the fitted model of the best trial.
        encoded: the graph with its features.
        y: [n] labels, NaN for nodes without a label.
        predicted: [n, outputs], predictions of the best trial.
        trials: all trials.
    """

    estimator: NodeEstimator
    encoded: EncodedGraph
    y: Tensor
    predicted: Tensor
    trials: Sequence[Trial]


def train_run(
    settings: NodeRunSettings,
    out: str | Path,
    *,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    on_run_end: Callable[[Trial], None] = lambda trial: None,
    log: Log = no_log,
) -> dict[str, Any]:
    """Train models and write all results to a folder; this is the command ``gattn nodes train``.

    The folder contains ``config.toml``, ``splits.json``, ``weights.safetensors`` and ``model.json``
    (which :meth:`gattn.apps.nodes.NodeClassifier.load` reads), ``metrics.json``,
    ``predictions.csv`` of all nodes, ``runs.csv`` of all trials, ``left_out.csv``, ``plots`` and
    ``report.html``. The stored model is the model of the trial with the lowest validation loss. If
    the folder contains the finished run, nothing is done.

    Args:
        settings: settings of the run.
        out: folder of the run, created if it is missing.
        on_epoch: called after each epoch of the trials in this process.
        on_run_end: called after each trial.
        log: called with each line that the user should read.

    Returns:
        The content of ``metrics.json``.

    Raises:
        RunError: the folder contains another run, or other files.
        GraphError: a model cannot be trained on the graph or its labels.
        ValueError: settings contradict each other or the data.
        TrainingError: a loss is not finite.
        OSError: a file cannot be read or written.
        RuntimeError: a process was killed, for example because memory was exhausted.
        ImportError: a package that reads the data or draws the report is missing.
    """
    product = NodeProduct(settings, out, log, on_epoch=on_epoch, on_run_end=on_run_end)
    return pipeline.train_run(product)


class NodeProduct(Product[NodeData, NodeParts, "list[Trial]", NodeRun]):
    """Implementation of the stages of ``gattn nodes train``."""

    settings: NodeRunSettings

    def __init__(
        self,
        settings: NodeRunSettings,
        out: str | Path,
        log: Log = no_log,
        *,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
        on_run_end: Callable[[Trial], None] = lambda trial: None,
    ) -> None:
        super().__init__(settings, out, log)
        self.inputs = {"sha256": [name for name in (settings.data, *settings.tables) if name]}
        self.on_epoch, self.on_run_end = on_epoch, on_run_end

    def load(self) -> NodeData:
        """Read the graph, with its nodes in the order of their names, and its labels; create the
        estimator from the settings. Raises GraphError if the graph or its labels cannot be read,
        and FileNotFoundError if a file does not exist.
        """
        graph, choice = read_for_training(self.settings)
        if choice is not None:
            self.log(choice.text)
        graph = graph.in_name_order()[0]
        settings = self.settings
        values, notes = read_labels(
            graph, settings.label or None, classes=settings.task != "regression"
        )
        options: dict[str, Any] = {
            **asdict(settings.model), "label": values.name,
            "label_type": None if graph.network is None else graph.network.target,
            **settings.columns, "directed": settings.directed, "threads": settings.threads,
            "names": settings.names, "time": settings.time or None,
        }  # fmt: skip
        task = settings.task if settings.task != "auto" else _task(values)
        estimator = ESTIMATORS[task](**options)
        y = estimator.learn_labels(values, graph.where)
        if estimator.task.is_class:
            others = {values.name, settings.split_rule.column}
            columns = [name for name in graph.table if name not in others]
            if settings.features:
                columns = [name for name in columns if name in settings.features]
            notes += copy_notes(values, graph, columns)
            notes += number_notes(values) if settings.task == "auto" else []
        return NodeData(graph.with_notes(*notes), y, estimator, choice)

    def split(self, data: NodeData) -> NodeParts:
        """Split the labelled nodes, and encode the features; notes are logged. Raises GraphError if
        the parts cannot be drawn from the labels, if the labels of the training part are all equal,
        or if a column cannot be read, and FileNotFoundError if a file of the graph is missing.
        """
        settings, graph, y, estimator = self.settings, data.graph, data.y, data.estimator
        drawn = [
            make_split(settings, graph, y, number, is_class=estimator.task.is_class)
            for number in range(settings.runs if split_kind(settings, graph) in DRAWN else 1)
        ]
        splits = [split for split, _ in drawn]
        missing = (note for split in splits for note in estimator.check_split(y, split))
        graph = graph.with_notes(*drawn[0][1], *dict.fromkeys(missing))
        column = settings.split_rule.column
        leave = [column] if column else []
        encoded = estimator.encode(graph, estimator.label, leave=leave, split=splits[0])
        for line in (_summary(settings, estimator, encoded, y), *encoded.notes):
            self.log(line)
        record = splits_record(settings, graph, splits)
        return NodeParts(record, [("line", "edge", "reason"), *graph.left_out], splits, encoded)

    def fit(self, data: NodeData, parts: NodeParts) -> list[Trial]:
        """Run all trials and return them in order. The errors are those of :func:`run_trials`."""
        trainer = Trainer(data.estimator, parts.encoded, data.y, parts.splits)
        return run_trials(
            trainer, self.settings.runs, workers=self.settings.workers,
            on_epoch=self.on_epoch, on_run_end=self.on_run_end,
        )  # fmt: skip

    def evaluate(self, data: NodeData, parts: NodeParts, model: list[Trial]) -> NodeRun:
        """Return the trial with the lowest validation loss, with its metrics and those of the
        baselines. scikit-learn issues a ConvergenceWarning if the logistic regression among them
        stops after 1,000 steps.
        """
        trials, settings, encoded, y = model, self.settings, parts.encoded, data.y
        best = best_trial(trials)
        estimator, predicted, split = best.estimator, best.predicted, best.estimator.split_
        task, test = estimator.task, split.test
        predictor = estimator.predictor_
        is_stack = isinstance(predictor, StackedPredictor)
        parts_of = predictor.component_predictions(encoded.graph) if is_stack else {}
        baselines = baseline_predictions(encoded, y, split.train, task, estimator.outputs, parts_of)
        label, kinds = [estimator.label], [estimator.class_names]
        rows = {"test": test, "val": split.val}
        reasons = {part: task.undefined(y[i, None], label, kinds) for part, i in rows.items()}
        spread = {name: moments(trials, name) for name in best.test}
        metrics: dict[str, Any] = {
            "task": task.name,
            "test": best.test,
            "val": best.val,
            "baselines": {name: task.measure(y[test], p[test]) for name, p in baselines.items()},
            "runs": {"count": len(trials), "kept": trials.index(best), "test": spread},
            "intervals": measure_intervals(estimator, y[test], predicted[test], settings.coverage),
            "split": split.protocol,
            "nodes": {
                **{part: len(getattr(split, part)) for part in PARTS},
                "labelled": int(y.isfinite().sum()), "all": len(encoded.graph),
            },
        }  # fmt: skip
        if data.choice is not None:
            metrics["size"] = data.choice.record(settings.memory)
        if isinstance(predictor, StackedPredictor):
            metrics["components"] = {
                name: {
                    "weight": weight,
                    "val": task.measure(y[split.val], predictor.validation_parts[name]),
                    "test": task.measure(y[test], parts_of[name][test].double()),
                }
                for name, weight in predictor.weights.items()
            }
        constant = baselines["majority" if task.is_class else "mean"]
        metrics["noise"] = is_noise(task, best.test, y[test], predicted[test], constant[test])
        if isinstance(estimator, NodeClassifier):
            truth, guess = y[test].long(), predicted[test].argmax(1)
            names = estimator.class_names
            metrics["classes"] = dict(zip(names, class_scores(truth, guess, len(names))))
            matrix = confusion_matrix(truth, guess, labels=range(len(names)))
            metrics["confusion"] = matrix.tolist()
            if isinstance(predictor, StackedPredictor):
                metrics["class_factors"] = dict(zip(names, predictor.combination.factors))
        metrics["undefined"] = {part: reason for part, reason in reasons.items() if reason}
        return NodeRun(estimator, split, metrics, settings, encoded, y, predicted, trials)

    def report(self, run: NodeRun) -> Report:
        """Return the report page, with sections on the trials, the classes and the network."""
        return node_report(run)

    def card(self, run: NodeRun) -> Mapping[str, Any]:
        """Return the entries of the model card on the data and the coverage."""
        return {"data": self.settings.title, "coverage": self.settings.coverage}

    def tables(self, run: NodeRun) -> Mapping[str, Iterator[Sequence[object]]]:
        """Return the tables to write: predictions for all nodes, and metrics of all trials."""
        parts, labels = _parts(run)
        predictions = prediction_rows(
            run.estimator, run.encoded.graph.names, run.predicted, run.settings.coverage,
            {"part": parts, "label": labels},
        )  # fmt: skip
        return {"predictions.csv": predictions, "runs.csv": _trials(run)}


def _task(values: pd.Series) -> str:
    """Return "regression" for fractions or many different numbers, otherwise "classification"."""
    numbers = as_numbers(values)[~is_missing(values)]
    many = len(np.unique(numbers)) > MAX_CLASSES or bool((numbers % 1 != 0).any())
    is_number = len(numbers) > 0 and not np.isnan(numbers).any()
    return "regression" if is_number and many else "classification"


def _summary(
    settings: NodeRunSettings, estimator: NodeEstimator, encoded: EncodedGraph, y: Tensor
) -> str:
    """Return a line with the numbers of nodes, labels, edges and features."""
    graph = encoded.graph
    count = graph.edge_index.shape[1]
    directed = graph.directed or estimator.time  # Messages from later nodes are left out.
    edges = plural(count, "directed edge") if directed else plural(count // 2, "edge")
    features, classes = plural(encoded.x.shape[1], "feature"), estimator.class_names
    labels = f"one of {len(classes)} classes" if classes else estimator.task.label
    title = settings.title
    counts = f"{edges}, {features}"
    if graph.network is not None:
        title = graph.network.target
        counts = f"{features}; {encoded.encoder.describe_others(graph.network)}"
    return (
        f"{title}: {plural(len(graph), 'node')}, {int(y.isfinite().sum()):,} of them with "
        f"a label ({labels}), {counts}"
    )


def _parts(run: NodeRun) -> tuple[list[str], list[Any]]:
    """Return the part of each node, and its label: a class or a number, "" for a node without one.

    The part is ``train``, ``val`` or ``test``; ``val_refit`` for validation nodes to which a model
    of the stack was fitted; ``none`` for other nodes with a label, and otherwise ``unlabelled``.
    """
    estimator = run.estimator
    parts = ["none" if has_label else "unlabelled" for has_label in run.y.isfinite().tolist()]
    refit = estimator.predictor_.is_refit
    for part in PARTS:
        for node in getattr(run.split, part).tolist():
            parts[node] = "val_refit" if part == "val" and refit else part
    kinds = estimator.classes_.tolist() if isinstance(estimator, NodeClassifier) else None
    labels = [
        "" if label != label else label if kinds is None else kinds[int(label)]
        for label in run.y.tolist()
    ]
    return parts, labels


def _trials(run: NodeRun) -> Iterator[Sequence[object]]:
    """Yield the rows of the trials table: a header, then one row per trial."""
    metrics = list(run.metrics["test"])
    yield ["seed", "epochs", *metrics]
    for trial in run.trials:
        tested = (trial.test[name] for name in metrics)
        yield [trial.estimator.seed, len(trial.history.records), *tested]
