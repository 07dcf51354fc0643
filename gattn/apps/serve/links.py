"""Runs of ``gattn links train`` for the server: scores of pairs, and proposed links of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gattn.apps.fitting.settings import read_toml
from gattn.apps.links.estimator import LinkPredictor
from gattn.apps.links.pairs import Links
from gattn.apps.links.runs.config import LinkRunSettings
from gattn.apps.nodes.edges import merged_edges_note
from gattn.apps.nodes.files import GraphReading
from gattn.apps.run.model_io import check_files
from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.nodes import ServedNetwork, check_data
from gattn.apps.serve.paths import run_paths, without_paths
from gattn.apps.serve.schemas import LinkAnswer, LinksAnswer, ProposedLink

PROPOSED = 20
"""Number of links that are proposed for a node."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedLinks(ServedNetwork):
    """Run of ``gattn links train`` with its graph.

    Attributes:
        estimator: the model.
        links: the links of the graph.
    """

    kind = "links"
    estimator: LinkPredictor
    links: Links
    columns: Sequence[str] = ("score", "probability", "linked")

    def details(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the description; see :meth:`.ServedRun.details`."""
        return {"task": "classification", "targets": ["link"], "size": len(self.links)}

    def pair(self, source: str, target: str) -> LinkAnswer:
        """Return the score and the probability of a link, and whether it is in the graph.

        Raises:
            RequestError: there is no such node (404), both names are the same, or a link of the
                bipartite graph cannot join these nodes (422).
        """
        ends = [self.names.place(name) for name in (source, target)]
        sources, targets = (np.array([end], np.int64) for end in ends)
        if ends[0] == ends[1]:
            raise RequestError(422, "source and target must be different nodes")
        if not (sources[0] in self.links.sources and targets[0] in self.links.targets):
            raise RequestError(
                422, f"this graph is bipartite, and no link can lead from {source[:200]!r} to "
                f"{target[:200]!r}"
            )  # fmt: skip
        # The weights are those of the proposed links of a node.
        scores = self.estimator.predictor_.score(self.graph, sources, targets, "mrr")
        return LinkAnswer(
            model=self.name, source=source, target=target, score=float(scores[0]),
            probability=float(self.estimator.predictor_.probability(scores, "mrr")[0]),
            linked=bool(self.links.are_links(sources, targets)[0]),
        )  # fmt: skip

    def propose(self, name: str) -> LinksAnswer:
        """Return at most 20 links that are not in the graph and start from a node: those with the
        highest scores, in descending order.

        Raises:
            RequestError: there is no node of this name (404), or no link starts from it (422).
        """
        place = self.names.place(name)
        if place not in self.links.sources:
            raise RequestError(422, f"a link of this graph cannot start from {name[:200]!r}")
        model, source = self.estimator.predictor_, replace(self.links, sources=np.array([place]))
        pairs, scores, chances = model.propose(self.graph, source, PROPOSED, per_node=True)
        rows = zip(pairs[1].tolist(), scores.tolist(), chances.tolist())
        links = [
            ProposedLink(name=str(self.graph.names[target]), score=score, probability=chance)
            for target, score, chance in rows
        ]
        return LinksAnswer(model=self.name, name=name, links=links)


def open_links(name: str, folder: Path, threads: int) -> ServedLinks:
    """Load a run of links with its graph.

    Args:
        name: name of the run on this server.
        folder: the folder of the run.
        threads: number of threads inside one operator; 0 to choose it by the size.

    Raises:
        RunError: the folder holds no run, or its graph has changed since the model was trained.
        GraphError: the graph cannot be read.
        FileNotFoundError: a file of the graph is missing.
    """
    estimator = LinkPredictor.load(folder).set_params(threads=threads)
    check_files(folder, "config.toml")
    settings = read_toml(LinkRunSettings, folder / "config.toml")
    check_data(folder, settings.data, settings.nodes)
    graph = GraphReading.of(settings).read(settings.data, directed=False)
    attached, links = estimator.attach(graph)
    encoder = estimator.predictor_.encoder
    notes = (*graph.notes, *merged_edges_note(attached, encoder.edges), *encoder.unknown(graph))
    paths = run_paths(folder)
    return ServedLinks(
        name=name, folder=folder, notes=tuple(without_paths(note, paths) for note in notes),
        graph=attached, estimator=estimator, links=links,
    )  # fmt: skip
