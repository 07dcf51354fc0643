"""The command ``gattn links train`` and its stages, from reading the graph to the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gattn.apps.fitting.calibration import probability_reliability
from gattn.apps.fitting.types import EpochRecord
from gattn.apps.links.estimator import LinkPredictor
from gattn.apps.links.metrics import (
    candidate_counts,
    chance_metrics,
    mrr_error,
    negatives_text,
    noise,
    ranks,
)
from gattn.apps.links.model import METRICS, RANDOM_PAIRS, RANKED_LINKS, STACK
from gattn.apps.links.pairs import Links, Ranking, make_ranking, read_links
from gattn.apps.links.proximity import HEURISTICS
from gattn.apps.links.runs.config import LinkRunSettings
from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.features import EncodedGraph
from gattn.apps.nodes.files import GraphReading
from gattn.apps.nodes.runs.splits import data_hash
from gattn.apps.report import style
from gattn.apps.report.report import Section, Table
from gattn.apps.report.run_report import Words, run_report
from gattn.apps.report.style import with_digits
from gattn.apps.run import train as pipeline
from gattn.apps.run.measure import PARTS
from gattn.apps.run.text import plural
from gattn.apps.run.train import Log, Parts, Product, Report, TrainedRun, no_log, report_facts
from gattn.data import Split

MODELS = {
    "stacked": "A stack of models",
    "gat": "GAT",
    "gatv2": "GATv2",
    "transformer": "Graph transformer",
}
WORDS = Words("links", "a link")


def link_report(run: LinkRun) -> Report:
    """Return the content of the report page, and a dictionary of its plots (the keys are file
    names without extension). Raises ImportError without matplotlib.
    """
    metrics, settings = run.metrics, run.settings
    counts, predictor = metrics["links"], run.estimator.predictor_
    data = Path(settings.data).name
    scores = run.scores["roc_auc"][:, :2]
    probability = torch.from_numpy(predictor.probability(scores).reshape(-1, 1))
    y = torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(len(scores)).reshape(-1, 1)
    kind = "heuristically chosen" if settings.hard_negatives else "random"
    facts = report_facts(
        run,
        chosen={"directed": str(run.links.directed), "split": run.split.protocol},
        title=f"Links of {data}",
        summary=(
            f"{MODELS[settings.model.model]} trained on {counts['train']:,} of {counts['all']:,} "
            f"links of {data}; split: {metrics['split']}."
        ),
        targets=("a link",),
        y=y,
        mean=probability,
        std=None,
        histories=predictor.history,
        reliability=probability_reliability(y, probability),
        rows=counts["all"],
        decided=run.encoded.notes,
        words=WORDS,
        notes=(
            f"For each of {counts['ranked']:,} test links, the true target is ranked among "
            f"{negatives_text(metrics)} {kind} nodes that have no link with the source. Messages "
            "are sent along the edges of training links only. Heuristics read the same edges. The "
            "plots contain one random pair for each link, because probabilities assume that half "
            "of the pairs are links; their ROC-AUC may be another.",
        ),
    )
    return run_report(facts, [_components(run)])


def _components(run: LinkRun) -> Section:
    """Return the report section on the weights and the metrics of the components."""
    names = list(run.metrics["test"])
    rows = [
        (
            name.replace("_", " "),
            *each["weights"].values(),
            *(each["test"][metric] for metric in names),
        )
        for name, each in run.metrics["components"].items()
    ]
    rows.append(("model", None, None, *run.metrics["test"].values()))
    text = (
        "The score of a pair is the sum of these scores with weights that were fitted on the "
        "validation part. The weights depend on the units of the scores.",
    )
    weights = (f"weight, {style.METRICS[metric]}" for metric in run.estimator.predictor_.weights)
    columns = "component", *weights, *(style.METRICS[metric] for metric in names)
    return Section("Components", text, (Table(columns, tuple(rows), "On the test part"),))


CHANCE = "random order"
"""Name of the baseline that scores the targets at random."""


@dataclass(frozen=True, eq=False)
class LinkData:
    """Data of a training run.

    Attributes:
        graph: the graph with all edges.
        links: its links.
        estimator: the estimator before training.
    """

    graph: AttributedGraph
    links: Links
    estimator: LinkPredictor


@dataclass(frozen=True, eq=False)
class LinkParts(Parts):
    """Parts of a run's links, and the features of the graph of training links.

    Attributes:
        split: positions of the links of each part.
        times: [m] times of the links; None if there are no times.
        encoded: the graph of the training links, with its features.
    """

    split: Split
    times: NDArray[np.float64] | None
    encoded: EncodedGraph


@dataclass(frozen=True, eq=False)
class LinkRun(TrainedRun):
    """Trained model of a run, and its evaluation.

    Attributes:
        estimator: the fitted model.
        encoded: the graph of the training links, with its features.
        links: all links.
        ranking: the ranked links of the test part.
        scores: scores of the candidates for each metric, [m, 1 + k] and [m, 1 + j].
    """

    estimator: LinkPredictor
    encoded: EncodedGraph
    links: Links
    ranking: Ranking
    scores: Mapping[str, NDArray[np.float64]]


def train_run(
    settings: LinkRunSettings,
    out: str | Path,
    *,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    log: Log = no_log,
) -> dict[str, Any]:
    """Train a model of links and write all results to a folder; this is the command ``gattn links
    train``.

    The folder contains ``config.toml``, ``splits.json`` with the names of the nodes of each link,
    ``weights.safetensors`` and ``model.json`` (which :meth:`gattn.apps.links.LinkPredictor.load`
    reads), ``metrics.json``, ``test_links.csv`` with the rank of each test link, ``left_out.csv``,
    ``plots`` and ``report.html``. If the folder contains the finished run, nothing is done.

    Args:
        settings: settings of the run.
        out: folder of the run, created if it is missing.
        on_epoch: called after each epoch.
        log: called with each line that the user should read.

    Returns:
        The content of ``metrics.json``.

    Raises:
        RunError: the folder contains another run, or other files.
        GraphError: a model cannot be trained on the graph.
        ValueError: settings contradict each other or the data.
        TrainingError: a loss is not finite.
        OSError: a file cannot be read or written.
        ImportError: a package that reads the data or draws the report is missing.
    """
    return pipeline.train_run(LinkProduct(settings, out, log, on_epoch=on_epoch))


class LinkProduct(Product[LinkData, LinkParts, LinkPredictor, LinkRun]):
    """Implementation of the stages of ``gattn links train``."""

    settings: LinkRunSettings

    def __init__(
        self,
        settings: LinkRunSettings,
        out: str | Path,
        log: Log = no_log,
        *,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    ) -> None:
        super().__init__(settings, out, log)
        self.inputs = {"sha256": [name for name in (settings.data, settings.nodes) if name]}
        self.on_epoch = on_epoch

    def load(self) -> LinkData:
        """Read the graph and its links, and create the estimator from the settings. Raises
        GraphError if the graph cannot be read or has no edges, and FileNotFoundError if a file does
        not exist.
        """
        settings = self.settings
        graph = GraphReading.of(settings).read(settings.data, directed=False)
        links, notes = read_links(graph, settings.directed)
        estimator = LinkPredictor(
            **asdict(settings.model), **settings.columns,
            names=settings.names, directed=settings.directed, time=settings.time or None,
            validation_fraction=settings.validation_fraction, negatives=settings.negatives,
            threads=settings.threads,
        )  # fmt: skip
        return LinkData(graph.with_notes(*notes), links, estimator)

    def split(self, data: LinkData) -> LinkParts:
        """Divide the links into parts, and encode the features of the graph of training links. If
        the split is random, the estimator's parameter ``time`` is set to None. Raises GraphError if
        there are too few links or times, or a column is missing or cannot be read.
        """
        settings, links, graph = self.settings, data.links, data.graph
        if settings.split == "random":
            data.estimator.set_params(time=None)
        split, times = data.estimator.parts(
            graph, links, settings.validation_fraction, settings.test_fraction
        )
        encoded = data.estimator.encode(graph, links, split)
        kind = "bipartite " if links.bipartite else "directed " if links.directed else ""
        self.log(
            f"{settings.data}: {plural(len(graph), 'node')}, {len(links):,} {kind}links, "
            f"{plural(encoded.x.shape[1], 'feature')}"
        )
        for note in encoded.notes:
            self.log(note)
        pairs = links.in_data(graph)
        record: dict[str, Any] = {
            "data": settings.data,
            "sha256": data_hash(settings.data, settings.nodes),
            "protocol": split.protocol,
            **{
                part: [
                    [graph.names[end] for end in pair]
                    for pair in pairs[getattr(split, part).numpy()]
                ]
                for part in PARTS
            },
        }
        left_out = [("line", "edge", "reason"), *graph.left_out]
        return LinkParts(record, left_out, split, times, encoded)

    def fit(self, data: LinkData, parts: LinkParts) -> LinkPredictor:
        """Train the estimator of ``data`` on the training and validation links, and return it.
        Raises GraphError if a part has no negatives, and TrainingError if a loss is not finite.
        """
        return data.estimator.fit_parts(
            parts.encoded, data.links, parts.split, parts.times, on_epoch=self.on_epoch
        )

    def evaluate(self, data: LinkData, parts: LinkParts, model: LinkPredictor) -> LinkRun:
        """Return the evaluated run: the targets of the test links ranked by the model and by each
        heuristic. The attribute ``noise`` of the predictor then names metrics of the test links.
        Raises GraphError if no source of a test link has a target that it is not linked to.
        """
        settings, links, split = self.settings, data.links, parts.split
        draw = np.random.default_rng(settings.model.seed + 1)
        ranking = make_ranking(
            links, split.test.numpy(), settings.negatives, draw, RANKED_LINKS, RANDOM_PAIRS
        )
        if not len(ranking):
            raise GraphError(
                "the test links cannot be ranked: every source is linked to every possible target"
            )
        predictor = model.predictor_
        if settings.hard_negatives:
            ranking = predictor.with_hard_negatives(parts.encoded.graph, links, ranking)
        measured = predictor.measure(parts.encoded.graph, ranking)
        scores, components = measured["scores"], measured["metrics"]
        counts = candidate_counts(scores["mrr"])
        predictor.noise = noise(*scores.values())
        metrics: dict[str, Any] = {
            "task": "ranking",
            "test": components[STACK],
            "val": model.validation_[STACK],
            "baselines": {
                **{name: components[name] for name in HEURISTICS if name in components},
                CHANCE: chance_metrics(counts),
            },
            "components": {
                name: {
                    "weights": {metric: predictor.weights[metric][name] for metric in METRICS},
                    "val": model.validation_[name],
                    "test": components[name],
                }
                for name in predictor.weights["mrr"]
            },
            "error": {"mrr": mrr_error(scores["mrr"])},
            "noise": predictor.noise,
            "negatives": int(counts.max()) - 1,
            "fewest_negatives": int(counts.min()) - 1,
            "split": split.protocol,
            "undefined": {},
            "links": {
                **{part: len(getattr(split, part)) for part in PARTS},
                "ranked": len(ranking), "all": len(links),
                "directed": links.directed, "bipartite": links.bipartite,
            },
        }  # fmt: skip
        return LinkRun(model, split, metrics, settings, parts.encoded, links, ranking, scores)

    def report(self, run: LinkRun) -> Report:
        """Return the report page, with sections on the components and the ranked links."""
        return link_report(run)

    def card(self, run: LinkRun) -> Mapping[str, Any]:
        """Return the entry of the model card that contains the file or data set of the graph."""
        return {"data": self.settings.data}

    def tables(self, run: LinkRun) -> Mapping[str, Iterator[Sequence[object]]]:
        """Return the table of the ranks of the test links."""
        return {"test_links.csv": _test_links(run)}


def _test_links(run: LinkRun) -> Iterator[Sequence[object]]:
    """Yield a header, and then a row for each ranked test link: the names of its nodes, the rank of
    its target among the candidates, and its score and probability.
    """
    names, scores = run.encoded.graph.names, run.scores["roc_auc"][:, 0]
    probability = run.estimator.predictor_.probability(scores)
    yield ["source", "target", "rank", "score", "probability"]
    ends = zip(run.ranking.sources.tolist(), run.ranking.candidates[:, 0].tolist())
    cells = zip(ranks(run.scores["mrr"]).tolist(), scores.tolist(), probability.tolist())
    for (source, target), (rank, score, share) in zip(ends, cells):
        yield [names[source], names[target], f"{rank:g}", f"{score:.6g}", with_digits(share, 6)]
