"""Report page and plots of a training run for links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gattn.apps.fitting.calibration import probability_reliability
from gattn.apps.links.metrics import negatives_text
from gattn.apps.report.report import Section, Table
from gattn.apps.report.run_report import Words, run_report
from gattn.apps.run.report import report_facts
from gattn.apps.run.train import Report

if TYPE_CHECKING:
    from gattn.apps.links.runs.train import LinkRun

MODELS = {
    "stacked": "A stack of models",
    "gat": "GAT",
    "gatv2": "GATv2",
    "transformer": "Graph transformer",
}
WORDS = Words("links", "a link")


def link_report(run: LinkRun) -> Report:
    """Return the content of the report page, and a dictionary of its plots (the keys are file
    names without extension).
    """
    metrics, settings = run.metrics, run.settings
    counts, predictor = metrics["links"], run.estimator.predictor_
    data = Path(settings.data).name
    # The curves contain one random pair for each link, because the probability assumes that half of
    # all pairs are links.
    scores = run.scores["roc_auc"][:, :2]
    probability = torch.from_numpy(predictor.probability(scores).reshape(-1, 1))
    y = torch.zeros(scores.shape, dtype=torch.float64)
    y[:, 0] = 1
    y = y.reshape(-1, 1)
    chosen = {"directed": str(run.links.directed), "split": run.split.protocol}
    facts = report_facts(
        run,
        settings,
        chosen=chosen,
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
            f"{negatives_text(metrics)} random nodes that have no link with the source. Messages "
            "are sent along the edges of training links only. Heuristics read the same edges.",
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
    weights = (f"weight, {METRICS[metric]}" for metric in run.estimator.predictor_.weights)
    columns = "component", *weights, *(METRICS[metric] for metric in names)
    return Section("Components", text, (Table(columns, tuple(rows), "On the test part"),))
