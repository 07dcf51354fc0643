"""Model of links: a weighted sum of the scores of an attention network, of heuristics, and of a
perceptron.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from gattn.apps.fitting.full_batch import FullBatch, FullBatchSettings, fit_full_batch
from gattn.apps.fitting.losses import class_loss
from gattn.apps.fitting.settings import from_table, to_table
from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.links.metrics import fit_weights, link_metrics, noise
from gattn.apps.links.pairs import ROUNDS, Links, Ranking, make_folds, make_ranking, restrict
from gattn.apps.links.proximity import COMPARED, HEURISTICS, WIDTH, Proximity
from gattn.apps.links.settings import LinkSettings
from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.fields import FieldInput, edge_terms, stored_values, whole_graph
from gattn.apps.nodes.network import AttentionNetwork
from gattn.apps.nodes.stack.blocks import Reduction, as_matrix
from gattn.apps.run.model_io import remove_prefix
from gattn.apps.runtime.threads import limited_threads
from gattn.data import Split

HIDDEN = 64
STEPS = 400
PATIENCE = 60
BATCH = 512
"""Number of links in a training step."""
RATE, DECAY = 5e-3, 1e-3


class PairPerceptron(nn.Module):
    """Perceptron with two hidden layers that reads the standardised features of a pair. Its initial
    weights are drawn by torch's global generator.

    Args:
        mean: [f] means of the features.
        std: [f] standard deviations of the features, above 0.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.layers = nn.Sequential(
            nn.Linear(len(mean), HIDDEN), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores [...] of pairs, given their features [..., f]; minus infinity for a
        candidate whose features are NaN.
        """
        scores = self.layers(((x - self.mean) / self.std).nan_to_num())[..., 0]
        return scores.masked_fill(x[..., 0].isnan(), -math.inf)

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor]) -> PairPerceptron:
        """Restore a perceptron from its ``state_dict``.

        Raises:
            KeyError: a tensor is missing.
            RuntimeError: a tensor has another shape.
        """
        model = cls(tensors["mean"], tensors["std"])
        model.load_state_dict(dict(tensors))
        return model.eval()


def fit_perceptron(train: Tensor, val: Tensor, seed: int) -> PairPerceptron:
    """Train a perceptron so that the first candidate in each row gets the highest score.

    Args:
        train: [m, c, f] features of the candidates of training links, the true target first; NaN
            for a missing candidate.
        val: [k, c', f] features of the candidates of validation links, by which the step is chosen.
        seed: seed of the initial weights, dropout and batches.

    Returns:
        The perceptron with the lowest validation loss, in evaluation mode. The state of torch's
        random generator is restored.
    """
    flat = train[~train[..., 0].isnan()]
    std = flat.std(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PairPerceptron(flat.mean(0), torch.where(std > 1e-6, std, torch.ones(())))
        optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY)
        best, lowest, waited = copy.deepcopy(model.state_dict()), float("inf"), 0
        target = torch.zeros(max(len(val), min(BATCH, len(train))), 1)
        for step in range(STEPS):
            rows = torch.randint(len(train), (min(BATCH, len(train)),))
            model.train()
            loss = class_loss(model(train[rows]), target[: len(rows)]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10:
                continue
            model.eval()
            with torch.no_grad():
                value = float(class_loss(model(val), target[: len(val)]).mean())
            waited += 10
            if value < lowest:
                best, lowest, waited = copy.deepcopy(model.state_dict()), value, 0
            if waited >= PATIENCE:
                break
    model.load_state_dict(best)
    return model.eval()


FACTOR = 10.0
"""Initial value of the factor by which cosines are multiplied."""
NEGATIVES = 20
"""Number of unlinked targets for each training link in a step."""
LINKS = 8192
"""Maximum number of training links in a step."""
FEWEST_EPOCHS = 30
MAX_PRODUCTS = 4e10
"""Maximum number of multiplications in the training. On a large graph, it limits the number of
epochs.
"""


@dataclass(frozen=True, eq=False)
class RankedBatch:
    """Batch of links whose targets are ranked, with the graph from which they are predicted.

    Attributes:
        inputs: features of all nodes, and the edges that send messages.
        sources: [m] int64 sources.
        candidates: [m, 1 + k] int64 targets, the true one first; -1 for no target.
    """

    inputs: FieldInput
    sources: Tensor
    candidates: Tensor

    def next(self) -> RankedBatch:
        """Return this batch, which is the same in every step."""
        return self


class DrawnBatches:
    """Training batches from the links of one fold. In each step, new links and new random negatives
    are drawn.

    Args:
        folds: for each fold the graph of its messages and the positions of its links.
        links: all links.
        seed: seed of the draws.

    Attributes:
        size: number of links of a batch.
    """

    def __init__(
        self, folds: Sequence[tuple[FieldInput, NDArray]], links: Links, seed: int
    ) -> None:
        self._folds, self._links = folds, links
        self._draw = np.random.default_rng(seed)
        self._step = -1
        self.size = min(LINKS, *(len(rows) for _, rows in folds))

    def next(self) -> RankedBatch:
        """Draw the batch of the next step. The folds take turns; links whose source has no negative
        are replaced by repetitions of others. Raises GraphError if no link of the fold has a
        negative in :data:`gattn.apps.links.pairs.ROUNDS` draws.
        """
        self._step += 1
        inputs, rows = self._folds[self._step % len(self._folds)]
        # If the graph is nearly complete, the sources of all drawn links may lack a negative.
        for _ in range(ROUNDS):
            ranking = make_ranking(self._links, rows, NEGATIVES, self._draw, self.size)
            if len(ranking):
                break
        else:
            raise GraphError(NO_NEGATIVES)
        # Links whose source has no negative are replaced by repetitions of other links.
        order = np.resize(np.arange(len(ranking)), self.size)
        return RankedBatch(
            inputs,
            torch.from_numpy(ranking.sources[order]),
            torch.from_numpy(ranking.candidates[order]),
        )


class LinkNetwork(nn.Module):
    r"""Attention network whose embeddings score pairs of nodes.

    .. math:: s_{uv} = \tau \cos(z_u, z'_v)

    :math:`z = z'` if the links have no direction; otherwise they are the two halves of the output.
    The factor :math:`\tau` is learned. The initial weights are drawn by torch's global generator.

    Args:
        settings: settings; the layer type and the sizes are read.
        features: number of features of a node.
        two_sided: True if a node has different embeddings as a source and as a target.
        edge_dim: number of features of an edge; None if there are none.

    Reference:
        Kipf and Welling, "Variational graph auto-encoders" (2016).
    """

    def __init__(
        self, settings: LinkSettings, features: int, two_sided: bool, edge_dim: int | None
    ) -> None:
        super().__init__()
        self.width, self.two_sided = settings.width, two_sided
        outputs = settings.width * (1 + two_sided)
        self.encoder = AttentionNetwork(settings, features, outputs, edge_dim)
        self.log_factor = nn.Parameter(torch.tensor(math.log(FACTOR)))

    def embed(self, inputs: FieldInput) -> tuple[Tensor, Tensor]:
        """Return the embeddings [n, d] of all nodes as sources and as targets.

        Their dot products are the scores.
        """
        z = self.encoder(inputs)
        left, right = (z[:, : self.width], z[:, self.width :]) if self.two_sided else (z, z)
        return F.normalize(left) * self.log_factor.exp(), F.normalize(right)

    def forward(self, batches: DrawnBatches | RankedBatch) -> Tensor:
        """Return the scores [m, 1 + k] of the candidates in the next batch, which
        :class:`DrawnBatches` draws, so that each call scores others.
        """
        batch = batches.next()
        left, right = self.embed(batch.inputs)
        return pair_scores(left, right, batch.sources, batch.candidates)


def pair_scores(left: Tensor, right: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
    """Return the dot products [m, c] of the rows of ``left`` at the sources and of ``right`` at the
    targets; minus infinity for a target of -1. The sources are [m], or [m, c] if those of a row
    differ. The targets are processed in chunks.
    """
    chunk = 32
    parts = []
    for i in range(0, targets.shape[1], chunk):
        start = left[sources[:, None] if sources.dim() == 1 else sources[:, i : i + chunk]]
        parts.append(torch.einsum("mcd,mcd->mc", start, right[targets[:, i : i + chunk]]))
    return torch.cat(parts, 1).masked_fill(targets < 0, -math.inf)


def _reciprocal_rank(output: Tensor, target: Tensor) -> Tensor:
    return 1 / (1 + (output[:, 1:] >= output[:, :1]).sum(1, keepdim=True).float())


def fit_network(
    network: LinkNetwork,
    folds: Sequence[tuple[FieldInput, NDArray]],
    links: Links,
    validation: tuple[FieldInput, Ranking],
    settings: LinkSettings,
    on_epoch: Callable[[EpochRecord], None],
) -> History:
    """Train a network to rank the true targets of links first.

    Args:
        network: the network with initial weights. It is trained in place, and has the weights of
            the best epoch at the end.
        folds: for each fold the graph of its messages and the positions of its links.
        links: all links.
        validation: the graph of the training links, and the ranking of validation links.
        settings: settings of the training.
        on_epoch: called after every epoch.

    Returns:
        The history of the training.

    Raises:
        TrainingError: a loss is not finite.
        GraphError: no negative can be drawn for the links.
    """
    inputs, ranking = validation
    batches = DrawnBatches(folds, links, settings.seed)
    fixed = RankedBatch(
        inputs, torch.from_numpy(ranking.sources), torch.from_numpy(ranking.candidates)
    )
    train: FullBatch[DrawnBatches | RankedBatch] = FullBatch(batches, torch.zeros(batches.size, 1))
    val: FullBatch[DrawnBatches | RankedBatch] = FullBatch(fixed, torch.zeros(len(ranking), 1))
    epochs = _epochs(settings, inputs)
    options = FullBatchSettings(
        epochs, settings.patience, settings.learning_rate, settings.weight_decay, settings.seed
    )
    return fit_full_batch(
        network, class_loss, train, val, options, score=_reciprocal_rank, on_epoch=on_epoch
    )


def _epochs(settings: LinkSettings, inputs: FieldInput) -> int:
    """Return the number of epochs of the settings or, on a large graph, the smaller number that
    :data:`MAX_PRODUCTS` allows, but not less than :data:`FEWEST_EPOCHS`.
    """
    graph, _ = inputs.field.layers[0]
    size = settings.width * (stored_values(inputs.x) + settings.layers * graph.num_edges)
    return min(settings.epochs, max(FEWEST_EPOCHS, int(MAX_PRODUCTS / max(size, 1))))


NO_NEGATIVES = (
    "links cannot be ranked: every source of the links of a part is linked to every possible target"
)
STACK = "stack"
"""Name under which the metrics of the weighted sum of all components are stored."""
METRICS: tuple[str, ...] = ("mrr", "roc_auc")
"""Metrics for which the components have weights of their own."""
RANKED_LINKS, RANDOM_PAIRS = 4000, 10
"""Maximum number of test links, and number of random pairs for each of them."""
WEIGHT_FIT = 2000, 200, 20
"""Maximum number of validation links, of their negatives and of their random pairs."""
PERCEPTRON_LINKS, PAIR_NEGATIVES = 6000, 10
"""Maximum number of links on which the perceptron is trained, and number of unlinked targets and of
random pairs for each of them.
"""
EPOCH_CHOICE = 1000, 101
"""Maximum number of validation links that are used to choose an epoch, and number of candidates
for each of them.
"""
CHUNK = 1 << 18
"""Maximum number of pairs whose features are computed at once."""
SHORTLIST = 30
"""Number of candidate targets that each of several scores selects for each node."""


@dataclass(frozen=True, eq=False)
class LinkProblem:
    """Graph and parts of its links on which a model is trained.

    Attributes:
        graph: the graph with the edges of the training links only, and the inputs of its edges.
        encoder: encoder of the features, fitted to this graph.
        links: all links of the graph; links outside the training part are only used to exclude them
            from the negatives.
        split: positions of the links of each part.
        times: [m] times of the links; None if there are no times.
        negatives: number of unlinked targets with which the target of a validation link is
            compared.
    """

    graph: AttributedGraph
    encoder: FeatureEncoder
    links: Links
    split: Split
    times: NDArray[np.float64] | None
    negatives: int


@dataclass(frozen=True, eq=False)
class View:
    """Graph along whose edges messages are sent, in the form that a model's components read.

    Attributes:
        inputs: features of all nodes and the edges of each layer.
        proximity: scores of pairs by the edges.
    """

    inputs: FieldInput
    proximity: Proximity


class LinkModel:
    """Trained model of links, created by :meth:`fit` or :meth:`from_state`.

    Attributes:
        settings: settings of the model and of its training.
        encoder: encoder of the features.
        reduction: projection of the features to fewer dimensions; without axes if nodes have no
            attributes.
        network: the attention network.
        perceptron: the perceptron of pairs; None for a single attention network.
        weights: for each of :data:`METRICS`, the weight of each component of the score by name.
        calibration: for each metric, factor and constant of the score in the logit of a
            probability.
        noise: the metrics by which the model is not better than a random order: of the test links
            of a run, the validation links without a test part.
        directed: True if links have a direction.
        bipartite: True if sources and targets are disjoint.
        history: records of the training of the network; empty after :meth:`from_state`.
        threads: number of threads inside an operator; 0 to choose it by the size of the graph.
    """

    threads = 0

    def __init__(
        self, settings: LinkSettings, encoder: FeatureEncoder, reduction: Reduction, *,
        directed: bool, bipartite: bool,
    ) -> None:  # fmt: skip
        """Create an untrained model with initial weights."""
        self.settings, self.encoder, self.reduction = settings, encoder, reduction
        self.directed, self.bipartite = directed, bipartite
        width = encoder.width + 2 * WIDTH * self._is_structural
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.network = LinkNetwork(
                settings, width, directed or bipartite, encoder.edge_dim
            ).eval()
        self.perceptron: PairPerceptron | None = None
        self.weights = {metric: {self._network_name: 1.0} for metric in METRICS}
        self.calibration = dict.fromkeys(METRICS, (1.0, 0.0))
        self.noise: tuple[str, ...] = ()
        self.history: list[History] = []
        self._last: tuple[AttributedGraph, View] | None = None

    @property
    def _network_name(self) -> str:
        return "gat" if self.settings.model == "stacked" else self.settings.model

    @property
    def _is_structural(self) -> bool:
        """True if the nodes have no attributes. In this case, random vectors are propagated
        along the edges instead.
        """
        return self.encoder.source == "structure"

    @classmethod
    def fit(
        cls,
        problem: LinkProblem,
        settings: LinkSettings,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
        threads: int = 0,
    ) -> tuple[LinkModel, dict[str, Any]]:
        """Train a model on the training links, and fit its weights to the validation links.

        A training link is predicted from a graph without its edge: the training links are divided
        into groups, and the links of a group are predicted from the edges of the others.

        Args:
            problem: the graph and its parts.
            settings: settings of the model, with the seed of all random draws.
            on_epoch: called after every epoch of the network.
            threads: number of threads inside an operator; 0 to choose it by the size of the graph.

        Returns:
            The model, and the result of :meth:`measure` for the validation links.

        Raises:
            GraphError: the validation links or a group of training links cannot be ranked, because
                each of their sources is linked to every possible target.
            TrainingError: a loss of the network is not finite.
        """
        graph, links, seed = problem.graph, problem.links, settings.seed
        draw = np.random.default_rng(seed)
        train, val = problem.split.train.numpy(), problem.split.val.numpy()
        rows, count, pairs = WEIGHT_FIT
        count = min(problem.negatives, count)
        ranking = make_ranking(links, val, count, draw, rows, pairs)
        x = problem.encoder.features(graph)
        matrix = None if problem.encoder.source == "structure" else as_matrix(x)
        empty = Reduction(np.zeros((0, 0), np.float32))
        reduction = empty if matrix is None else Reduction.fit(matrix, seed)
        model = cls(
            settings, problem.encoder, reduction, directed=links.directed,
            bipartite=links.bipartite,
        )  # fmt: skip
        model.threads = threads
        folds = make_folds(train, seed, problem.times)
        most = PERCEPTRON_LINKS // len(folds)
        supervised = [
            make_ranking(links, fold.links, PAIR_NEGATIVES, draw, most, PAIR_NEGATIVES)
            for fold in folds
        ]
        if not len(ranking) or not all(map(len, supervised)):
            raise GraphError(NO_NEGATIVES)
        z = None if matrix is None else reduction.apply(matrix)
        with limited_threads(len(graph) * settings.width, threads):
            view = model._make_view(graph, x, z)
            views, examples = [], []
            for fold, some in zip(folds, supervised):
                messages = restrict(graph, links, fold.messages)
                own_x = model.encoder.features(messages) if matrix is None else x
                one = model._make_view(messages, own_x, z)
                views.append((one.inputs, fold.links))
                if settings.model == "stacked":
                    examples.append(_features(one, some))
                del one
            stopped = view.inputs, ranking.first(*EPOCH_CHOICE)
            features = _features(view, ranking)
            model.history = [fit_network(model.network, views, links, stopped, settings, on_epoch)]
            if settings.model == "stacked":
                model.perceptron = fit_perceptron(
                    torch.from_numpy(np.concatenate(examples)),
                    torch.from_numpy(features[: EPOCH_CHOICE[0]]), seed,
                )  # fmt: skip
        model._last = graph, view
        ranked = ranking.candidates.shape[1]
        columns = {"mrr": np.arange(ranked), "roc_auc": np.r_[0, ranked : features.shape[1]]}
        parts = {
            metric: model._parts(view, *ranking.ends(metric), features[:, columns[metric]])
            for metric in METRICS
        }
        for metric in METRICS:
            model._weigh(metric, parts[metric if settings.metric == "auto" else settings.metric])
        measured = model._measured(parts)
        model.noise = noise(*measured["scores"].values())
        return model, measured

    def _weigh(self, metric: str, parts: Mapping[str, NDArray]) -> None:
        """Fit and store the weights of the components and the calibration for a metric.

        A single network keeps the weight 1.

        Args:
            metric: name of the metric.
            parts: by name of the component, its scores [m, 1 + k] of the validation links, whose
                true target is the first.
        """
        from sklearn.linear_model import LogisticRegression

        if self.settings.model == "stacked":
            names = [name for name in parts if name not in COMPARED]
            weights = fit_weights([parts[name] for name in names])
            self.weights[metric] = dict(zip(names, weights.tolist()))
        scores = self._combine(parts, metric)
        is_link = np.zeros(scores.shape, int)
        is_link[:, 0] = 1
        valid = np.isfinite(scores)
        model = LogisticRegression(class_weight="balanced", C=1e4)
        spread = float(scores[valid].std()) or 1.0
        model.fit(scores[valid].reshape(-1, 1) / spread, is_link[valid])
        slope: Any = model.coef_
        constant: Any = model.intercept_
        # A falling probability, which only chance can fit, would contradict the order of the
        # scores: every pair then has the probability 1/2.
        line = float(slope[0, 0]) / spread, float(constant[0])
        self.calibration[metric] = line if line[0] > 0 else (0.0, 0.0)

    def _combine(self, parts: Mapping[str, NDArray], metric: str) -> NDArray[np.float64]:
        """Return the sum of the components' scores [m, c], given by name, with the fitted weights
        for a metric; minus infinity for a missing candidate.
        """
        total = np.where(np.isinf(next(iter(parts.values()))), -np.inf, 0.0)
        for name, weight in self.weights[metric].items():
            if weight:
                total = total + weight * parts[name]
        return total

    def _parts(
        self, view: View, sources: NDArray, targets: NDArray, features: NDArray | None = None
    ) -> dict[str, NDArray]:
        """Return the scores [m, c] of each component, by name; minus infinity for a target of -1.

        Args:
            view: the graph.
            sources: [m, c] indices of the sources.
            targets: [m, c] indices of the targets.
            features: [m, c, f] features of the pairs; None to compute them.
        """
        with torch.no_grad(), limited_threads(view.inputs.x.shape[0], self.threads):
            embedded = self.network.embed(view.inputs)
            # Links of the same source are in one chunk, because they share most of the work.
            order = np.argsort(sources[:, 0], kind="stable")
            chunks = np.array_split(order, 1 + targets.size // CHUNK)
            parts = [
                self._scores(
                    view.proximity.measure(sources[rows], targets[rows])
                    if features is None else features[rows],
                    embedded, sources[rows], targets[rows],
                )
                for rows in chunks
            ]  # fmt: skip
        back = np.argsort(order)
        return {name: np.concatenate([each[name] for each in parts])[back] for name in parts[0]}

    def _scores(
        self, features: NDArray, embedded: tuple[Tensor, Tensor], sources: NDArray, targets: NDArray
    ) -> dict[str, NDArray]:
        """Return the scores [m, c] of each component, by name, from the features of the pairs
        [m, c, f] and the embeddings of all nodes as sources and targets. The pairs are the sources
        ([m], or [m, c]) and their candidates ``targets`` [m, c], -1 for a missing one. If nodes
        have no attributes, the score ``propagated_features`` is left out.
        """
        scores = {
            name: np.where(targets < 0, -np.inf, features[..., place])
            for place, name in enumerate(HEURISTICS)
        }
        if self._is_structural:
            del scores["propagated_features"]
        ends = torch.from_numpy(sources), torch.from_numpy(targets)
        scores[self._network_name] = pair_scores(*embedded, *ends).numpy()
        if self.perceptron is not None:
            scores["pairs"] = self.perceptron(torch.from_numpy(features)).numpy()
        return scores

    def with_hard_negatives(
        self, graph: AttributedGraph, links: Links, ranking: Ranking
    ) -> Ranking:
        """Return a ranking in which the other targets of each source are those that heuristics
        score highest, an equal number by each heuristic, instead of random ones.

        Args:
            graph: the graph whose edges the heuristics read.
            links: all links, of every part, which are no negatives.
            ranking: the links, with random targets; at least one link.

        Returns:
            The ranking with the same links and random pairs, but other candidates. A target that
            several heuristics select occurs once, so rows have different lengths, and end with -1.

        Reference:
            Li et al., "Evaluating graph neural networks for link prediction" (NeurIPS 2023).
        """
        proximity, parts = self.view(graph).proximity, []
        for part in proximity.chunks(len(ranking)):
            lists = proximity.rows(ranking.sources[part]).shortlists()
            length = max(1, (ranking.candidates.shape[1] - 1) // len(lists))
            place, target = _shortlist(lists, links, ranking.sources[part], length)
            parts.append((part.start + place, target))
        row, target = map(np.concatenate, zip(*parts))
        column = 1 + np.arange(len(row)) - np.searchsorted(row, row)
        candidates = np.full((len(ranking), 1 + column.max()), -1)
        candidates[:, 0] = ranking.candidates[:, 0]
        candidates[row, column] = target
        return replace(ranking, candidates=candidates)

    def measure(self, graph: AttributedGraph, ranking: Ranking) -> dict[str, Any]:
        """Score links, the other targets of their sources and random pairs, using a graph that does
        not contain these links.

        Args:
            graph: the graph whose edges send messages.
            ranking: the links and their candidates.

        Returns:
            ``scores`` of the model for each of :data:`METRICS`, and ``metrics`` of each component
            by name, and of the model under ``stack``.
        """
        view = self.view(graph)
        parts = {metric: self._parts(view, *ranking.ends(metric)) for metric in METRICS}
        return self._measured(parts)

    def _measured(self, parts: Mapping[str, Mapping[str, NDArray]]) -> dict[str, Any]:
        """Return the dictionary that :meth:`measure` returns, given the scores of the pairs by
        metric and component.
        """
        scores = {metric: self._combine(parts[metric], metric) for metric in METRICS}
        metrics = {
            name: link_metrics(*(parts[metric][name] for metric in METRICS))
            for name in parts["mrr"]
        }
        return {"scores": scores, "metrics": metrics | {STACK: link_metrics(*scores.values())}}

    def score(
        self, graph: AttributedGraph, sources: NDArray, targets: NDArray, metric: str = "roc_auc"
    ) -> NDArray[np.float64]:
        """Return the scores [m] of pairs of nodes, given by the indices of their sources [m] and
        targets [m], computed from the edges of a graph with the weights for a metric.

        If an edge joins a pair, the score reads this edge. With the weights for ``roc_auc``, a
        pair without a direction has the higher score of its two orders, as in :meth:`propose`.
        """
        ends = sources[:, None], targets[:, None]
        if metric == "roc_auc" and not self.directed and not self.bipartite:
            ends = np.stack([sources, targets], 1), np.stack([targets, sources], 1)
        return self._combine(self._parts(self.view(graph), *ends), metric).max(1)

    def probability(self, scores: NDArray, metric: str = "roc_auc") -> NDArray[np.float64]:
        """Return the probability that each pair is a link, under the assumption that half of all
        pairs are links.
        """
        return 1 / (1 + np.exp(-np.clip(self.log_odds(scores, metric), -500, 500)))

    def log_odds(self, scores: NDArray, metric: str = "roc_auc") -> NDArray[np.float64]:
        """Return the logarithms of the odds of :meth:`probability`."""
        slope, constant = self.calibration[metric]
        return slope * scores + constant

    def propose(
        self, graph: AttributedGraph, links: Links, top: int, *, per_node: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the pairs without an edge that have the highest scores, with the weights for
        ``mrr`` if they are the best of each source, and otherwise with those for ``roc_auc``.

        For each source, several scores of the heuristics and of the network select candidate
        targets, which the model then scores.

        Args:
            graph: the graph whose edges send messages.
            links: all links of the graph, which are not proposed.
            top: number of pairs, overall or for each source.
            per_node: True for the best pairs of each source.

        Returns:
            [2, k] sources and targets, [k] scores and [k] probabilities, sorted by decreasing score
            or, with ``per_node``, by source and decreasing score; k is 0 if no pair without an edge
            is left.
        """
        view, metric = self.view(graph), "mrr" if per_node else "roc_auc"
        with torch.no_grad():
            left, right = embedded = self.network.embed(view.inputs)
        best: list[tuple[NDArray, NDArray]] = []
        length = max(SHORTLIST, 2 * top) if per_node else max(SHORTLIST, min(top, 100))
        for part in view.proximity.chunks(len(links.sources)):
            sources = links.sources[part]
            rows = view.proximity.rows(sources)
            lists = [*rows.shortlists(), (right @ left[sources].T).numpy()]
            place, target = _shortlist(lists, links, sources, length)
            if not len(place):
                continue
            features = rows.measure(place, target)[:, None]
            with torch.no_grad():
                parts = self._scores(features, embedded, sources[place][:, None], target[:, None])
            scores = self._combine(parts, metric)[:, 0]
            chosen = _best(place, scores, top) if per_node else np.argsort(-scores)[: 2 * top]
            best.append((np.stack([sources[place], target])[:, chosen], scores[chosen]))
        if not best:
            return np.zeros((2, 0), np.int64), np.zeros(0), np.zeros(0)
        pairs, scores = (np.concatenate(each, -1) for each in zip(*best))
        if not per_node:
            if not links.directed and not links.bipartite:
                # Both directions of a pair are scored, and the higher score is used.
                order = np.argsort(-scores, kind="stable")
                pairs, scores = np.sort(pairs[:, order], 0), scores[order]
                _, first = np.unique(pairs[0] * links.nodes + pairs[1], return_index=True)
                pairs, scores = pairs[:, first], scores[first]
            order = np.argsort(-scores, kind="stable")[:top]
            pairs, scores = pairs[:, order], scores[order]
        return pairs, scores, self.probability(scores, metric)

    def view(self, graph: AttributedGraph) -> View:
        """Convert a graph to the form that the components of the model read. The view of the last
        graph is stored in the model, because encoding texts is slow.
        """
        # The last view is cached, because encoding texts is slow.
        if self._last is None or self._last[0] is not graph:
            x = self.encoder.features(graph)
            z = None if self._is_structural else self.reduction.apply(as_matrix(x))
            self._last = graph, self._make_view(graph, x, z)
        return self._last[1]

    def _make_view(self, graph: AttributedGraph, x: Tensor, z: NDArray | None) -> View:
        """Return the view of a graph, given features x [n, d] and reduced features z of its nodes.
        If nodes have no attributes, z is None, and random features are appended to x.
        """
        arcs, nodes = graph.arcs.numpy(), len(graph)
        edges = Proximity(arcs, nodes, z, directed=self.directed, bipartite=self.bipartite)
        if self._is_structural:
            vectors = torch.from_numpy(edges.random_features(self.settings.seed))
            x = torch.cat([x.to_dense() if x.layout != torch.strided else x, vectors], 1)
        field = whole_graph(graph.edge_index, nodes, self.settings.layers)
        return View(FieldInput(x, field, edge_terms(graph.edge_terms, field)), edges)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling without the last graph."""
        return {**self.__dict__, "_last": None}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`from_state` restores the model."""
        tensors = {f"network.{name}": each for name, each in self.network.state_dict().items()}
        if self.perceptron is not None:
            state = self.perceptron.state_dict()
            tensors |= {f"pairs.{name}": each for name, each in state.items()}
        tensors["axes"] = torch.from_numpy(np.ascontiguousarray(self.reduction.axes))
        return tensors, {
            "settings": to_table(self.settings), "encoder": self.encoder.state(),
            "directed": self.directed, "bipartite": self.bipartite, "weights": self.weights,
            "calibration": self.calibration, "noise": self.noise,
        }  # fmt: skip

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], state: Mapping[str, Any]) -> LinkModel:
        """Restore a model from the result of :meth:`state`.

        Raises:
            KeyError: an entry of the state is missing.
            RuntimeError: a tensor is missing or has another shape.
            SettingsError: a setting is unknown or out of range.
        """
        settings = from_table(LinkSettings, state["settings"])
        encoder = FeatureEncoder.from_state(state["encoder"])
        reduction = Reduction(tensors["axes"].numpy())
        model = cls(
            settings, encoder, reduction, directed=state["directed"], bipartite=state["bipartite"]
        )
        model.network.load_state_dict(remove_prefix("network.", tensors))
        if settings.model == "stacked":
            model.perceptron = PairPerceptron.from_state(remove_prefix("pairs.", tensors))
        model.weights = {metric: dict(state["weights"][metric]) for metric in METRICS}
        model.calibration = {metric: tuple(state["calibration"][metric]) for metric in METRICS}
        model.noise = tuple(state["noise"])
        return model


def _features(view: View, ranking: Ranking) -> NDArray[np.float32]:
    """Return the features [m, 1 + k + j, f] of each link, its other targets and random pairs."""
    ends = zip(ranking.ends("mrr"), ranking.ends("roc_auc"))
    sources, targets = (np.hstack([ranked, paired[:, 1:]]) for ranked, paired in ends)
    return view.proximity.measure(sources, targets)


def _shortlist(
    lists: Sequence[NDArray], links: Links, sources: NDArray, length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each source and each score, the unlinked targets with the highest scores.

    Args:
        lists: arrays [n, b] of scores. Minus infinity is written to the entries of linked targets
            and of the sources themselves.
        links: all links.
        sources: [b] indices of the sources among the nodes; b is at least 1.
        length: maximum number of targets from each score.

    Returns:
        [k] positions among the b sources, and [k] indices of the targets, sorted by both. A target
        that several scores select occurs once for its source.
    """
    pool, row = links.targets, np.arange(len(sources))
    # Linked targets are removed before the selection, so that it does not depend on the other
    # sources.
    start, end = (np.searchsorted(links.keys, (sources + i) * links.nodes) for i in (0, 1))
    linked = np.concatenate([links.keys[a:b] % links.nodes for a, b in zip(start, end)])
    exclusions = np.append(linked, sources), np.append(np.repeat(row, end - start), row)
    size = min(len(pool), length)
    keys = []
    for scores in lists:
        scores[exclusions] = -np.inf
        some = scores[pool] if len(pool) < len(scores) else scores
        top = np.argpartition(-some, size - 1, axis=0)[:size]
        keys.append((row * links.nodes + pool[top]).ravel())
    key = np.unique(np.concatenate(keys))
    place, target = key // links.nodes, key % links.nodes
    free = ~links.are_links(sources[place], target)
    return place[free], target[free]


def _best(place: NDArray, scores: NDArray, top: int) -> NDArray[np.int64]:
    """Return the positions of the ``top`` highest of the scores [k] of each source, ordered by
    source and then by decreasing score. ``place`` [k] contains the sources of the scores.
    """
    order = np.lexsort((-scores, place))
    start = np.searchsorted(place[order], place[order])
    return order[np.arange(len(order)) - start < top]
