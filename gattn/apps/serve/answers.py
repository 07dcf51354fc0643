"""Answers of the API that describe a run or explain a prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gattn.apps.molecules.runs.columns import SIMILARITY
from gattn.apps.molecules.runs.predict import OUTSIDE
from gattn.apps.run.model_io import CARD, coverage_of, read_card
from gattn.apps.run.notes import baseline_note
from gattn.apps.serve.links import ServedLinks
from gattn.apps.serve.molecules import (
    METHODS,
    ExplainedMolecule,
    ServedMolecules,
    as_values,
    similarity_of,
)
from gattn.apps.serve.nodes import ServedNodes
from gattn.apps.serve.paths import run_paths, without_paths
from gattn.apps.serve.schemas import (
    Atom,
    Domain,
    ExplainAnswer,
    Faithfulness,
    ModelDescription,
    Neighbour,
    Pictures,
)
from gattn.apps.serve.values import json_value

__all__ = [
    "FILES",
    "PLAIN_FILES",
    "AnyRun",
    "describe_run",
    "explain_answer",
    "files_of",
    "report_of",
    "visible",
]

AnyRun = ServedMolecules | ServedNodes | ServedLinks
REPORT, NETWORK = PLAIN_FILES = ("report.html", "plots/network.png")
FILES = {
    "report": (REPORT, "text/html; charset=utf-8"),
    "card": (CARD, "text/html; charset=utf-8"),
    "network": (NETWORK, "image/png"),
}
"""Files of a run that the server sends, with their name in the URL, their path in the folder,
and their media type. The card is created from its file.
"""


def visible(cell: str) -> str:
    """Replace bytes that are invalid in the file's encoding, because JSON cannot contain them."""
    return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def files_of(run: AnyRun) -> list[str]:
    """Return the names of those :data:`FILES` that exist in the folder of a run."""
    return [name for name, (path, _) in FILES.items() if (run.folder / path).is_file()]


def metrics_of(run: AnyRun) -> dict[str, Any]:
    """Return the metrics that the training stored in the model card; they are empty for a model
    that a program saved.
    """
    return read_card(run.folder).get("metrics") or {}


def report_of(run: AnyRun) -> str:
    """Return the report of a run, with the names of files instead of the paths of this machine."""
    page = (run.folder / REPORT).read_text("utf-8")
    return without_paths(page, run_paths(run.folder))


def _warnings(metrics: Mapping[str, Any]) -> list[str]:
    """Return a sentence if the model is not better than a constant or a random order on the test
    part. Numbers and classes of molecules are compared by their first metric.
    """
    if metrics.get("noise"):
        guess = "a random order" if metrics.get("task") == "ranking" else "a constant"
        return [f"On the test part, the model is not significantly better than {guess}."]
    test, mean = metrics.get("test", {}), metrics.get("baselines", {}).get("mean", {})
    first = next(iter(test), "")
    return baseline_note({first: test[first]}, {"mean": mean}) if first in mean else []


def describe_run(run: AnyRun) -> ModelDescription:
    """Return the entry for a run in the answer to GET /models."""
    metrics = metrics_of(run)
    common = {
        "name": run.name, "files": files_of(run), "columns": list(run.columns),
        "notes": list(run.notes), "warnings": _warnings(metrics),
        "test": {name: json_value(value) for name, value in metrics.get("test", {}).items()},
    }  # fmt: skip
    if isinstance(run, ServedNodes):
        label = str(run.estimator.label or "label")
        return ModelDescription(
            kind="nodes", task=run.estimator.task, targets=[label], units=[""],
            smiles_columns=[], reaction=False, descriptors=[], methods=[], size=len(run.graph),
            domain_threshold=None, coverage=run.coverage, **common,
        )  # fmt: skip
    if isinstance(run, ServedLinks):
        return ModelDescription(
            kind="links", task="classification", targets=["link"], units=[""], smiles_columns=[],
            reaction=False, descriptors=[], methods=[], size=len(run.links), domain_threshold=None,
            coverage=None, **common,
        )  # fmt: skip
    return ModelDescription(
        kind="molecules", task=run.model.task, targets=run.model.targets_,
        units=[run.unit] * len(run.model.targets_), coverage=coverage_of(run.card),
        smiles_columns=list(run.smiles_columns), reaction=run.model.reaction,
        descriptors=run.model.descriptors_columns_,
        methods=[] if run.model.reaction else list(METHODS),
        size=metrics.get("molecules", {}).get("train", 0),
        domain_threshold=run.applicability.threshold if run.applicability else None, **common,
    )  # fmt: skip


def explain_answer(
    run: ServedMolecules, text: str, explained: ExplainedMolecule, target: int
) -> ExplainAnswer:
    """Return the answer of the API to a request for an explanation.

    Args:
        run: the run that predicted the row.
        text: the SMILES of the row.
        explained: the prediction and the weights of the atoms.
        target: index of the explained target.
    """
    explanation, answer = explained.explanation, as_values(run.model, explained.cells)
    values = list(answer.values())
    by_name = {name: values[i] for name, i in run.target_columns(target).items()}
    if run.model.descriptors_columns_:
        by_name[OUTSIDE] = answer[OUTSIDE]
    similarity = similarity_of(run.model, explained.cells)
    domain = percentile = None
    if run.applicability is not None:
        domain = Domain(
            similarity=similarity, threshold=run.applicability.threshold,
            inside=run.applicability.is_inside(similarity),
        )  # fmt: skip
    predicted = by_name["prediction"]
    if run.training is not None and isinstance(predicted, float):
        percentile = run.training.percentile(target, predicted)
    name = run.model.targets_[target]
    atoms: list[Atom] = []
    faithfulness, contributions = None, {}
    if explanation is not None:
        rows = zip(
            explanation.molecules or (0,) * len(explanation.atoms), explanation.atoms,
            explanation.symbols, explanation.weights.tolist(), explanation.spread.tolist(),
        )  # fmt: skip
        atoms = [
            Atom(molecule=m, atom=a, symbol=s, weight=w, spread=json_value(d))
            for m, a, s, w, d in rows
        ]
        drops = explanation.faithfulness
        faithfulness = Faithfulness(top=drops.top, random=drops.random, random_std=drops.random_std)
        names = run.model.descriptors_columns_
        contributions = dict(zip(names, explanation.descriptors.tolist()))
    return ExplainAnswer(
        model=run.name, target=name, unit=run.unit,
        smiles=text, method="" if explanation is None else explanation.method,
        explained=explanation.explained if explanation else run.model.scale_of(target),
        values={**by_name, SIMILARITY: similarity}, percentile=percentile, domain=domain,
        nearest=[Neighbour(**each) for each in run.neighbours(explained.nearest, target)],
        atoms=atoms, contributions=contributions, faithfulness=faithfulness,
        pictures=Pictures(light=explained.light, dark=explained.dark) if explained.light else None,
    )  # fmt: skip
