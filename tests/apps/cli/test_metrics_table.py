"""Table of metrics that a command prints at the end."""

import io

import pytest
from rich.console import Console

from gattn.apps.cli.console import show_metrics
from gattn.apps.cli.metrics_table import metrics_tables

METRICS = ["mrr", "hits@1", "hits@10", "hits@50", "roc_auc"]


def printed(width, methods, metrics):
    """Return the lines of the printed tables, and the value of each metric of each method."""
    names = ["model", *(f"heuristic number {i}" for i in range(methods - 1))]
    scores = {
        name: {metric: f"0.0{i}{j}17" for j, metric in enumerate(metrics)}
        for i, name in enumerate(names)
    }
    file = io.StringIO()
    console = Console(file=file, width=width, soft_wrap=True)
    for table in metrics_tables("ranking, 55 test links", scores, console):
        console.print(table)
    return file.getvalue().splitlines(), scores


@pytest.mark.parametrize(
    ("width", "methods", "count"), [(80, 1, 1), (80, 2, 5), (80, 4, 9), (80, 30, 5), (33, 9, 5)]
)
def test_a_table_of_any_number_of_baselines_is_complete(width, methods, count):
    metrics = [*METRICS, "rmse", "spearman", "balanced_accuracy", "kendall"][:count]
    lines, scores = printed(width, methods, metrics)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    assert "…" not in text
    for name, values in scores.items():
        assert name in text
        for metric, value in values.items():
            assert metric in text
            assert text.count(value) == 1


def test_errors_of_several_targets_are_printed_for_each_target_without_their_mean(capsys):
    targets = {"y_max": {"rmse": 0.25, "r2": 0.5}, "mass": {"rmse": 125.0, "r2": 0.75}}
    mean = {"rmse": 62.62, "r2": 0.625}
    metrics = {"task": "regression", "molecules": {"test": 5}, "test": mean, "targets": targets,
               "baselines": {"mean": {"rmse": 99.99, "r2": 0.1}}}  # fmt: skip
    show_metrics(metrics, "molecules")
    output = capsys.readouterr().out
    assert all(text in output for text in ("mean over 2 targets", "y_max", "0.25", "125", "0.625"))
    assert "62.62" not in output
    assert "99.99" not in output


@pytest.mark.parametrize(
    ("item", "task", "factor"),
    [
        ("nodes", "classification", "log probabilities"),
        ("nodes", "regression", "predictions"),
        ("links", "ranking", "scores"),
    ],
)
def test_the_output_says_what_a_weight_multiplies(item, task, factor, capsys):
    component = {"weight": 2.0512, "val": {}, "test": {"mrr": 0.5}}
    small = {**component, "weight": 0.000314}
    metrics = {"task": task, "negatives": 1, "fewest_negatives": 1, item: {"test": 5, "ranked": 5},
               "test": {"mrr": 0.5}, "components": {"katz": component, "gat": small}}  # fmt: skip
    show_metrics(metrics, item)
    output = capsys.readouterr().out
    title = f"components on the test part; weights multiply {factor}"
    assert title in " ".join(output.split())
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines()]
    assert ["weight", "2.05", "0.000314"] in cells
    assert cells[-2] == ["mrr", "0.5", "0.5"]
