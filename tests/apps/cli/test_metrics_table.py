"""Table of metrics that a command prints at the end."""

import io

import pytest
from rich.console import Console

from gattn.apps.cli.console import show_metrics, show_repeats
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


@pytest.mark.parametrize("methods", [1, 2, 4, 9, 30])
@pytest.mark.parametrize("count", [1, 5, 9])
def test_a_table_of_any_number_of_baselines_is_complete_at_80_columns(methods, count):
    metrics = [*METRICS, "rmse", "spearman", "balanced_accuracy", "kendall"][:count]
    lines, scores = printed(80, methods, metrics)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    for name, values in scores.items():
        assert name in text
        for metric, value in values.items():
            assert metric in text
            assert text.count(value) == 1


def test_the_methods_are_columns_if_they_fit_and_otherwise_rows():
    lines, _ = printed(80, 2, METRICS)
    assert lines[2].split("┃")[1:-1] == ["         ", " model   ", " heuristic number 0 "]
    lines, _ = printed(80, 9, METRICS)
    assert [cell.strip() for cell in lines[2].split("┃")[2:-1]] == METRICS
    assert [line.split("│")[1].strip() for line in lines[4:6]] == ["model", "heuristic number 0"]
    assert len(lines) == 14


def test_a_narrow_terminal_has_complete_cells_in_several_tables():
    lines, scores = printed(20, 9, METRICS)
    text = "\n".join(lines)
    assert text.count("heuristic number 7") == len(METRICS)
    assert all(text.count(value) == 1 for one in scores.values() for value in one.values())


def test_the_metrics_of_links_are_those_of_a_ranking(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    values = dict.fromkeys(METRICS, 0.01149)
    metrics = {"task": "ranking", "negatives": 500, "fewest_negatives": 500,
               "links": {"test": 70, "ranked": 55},
               "test": values, "baselines": {"random order": values}}  # fmt: skip
    show_metrics(metrics, "links")
    output = capsys.readouterr().out
    assert "ranking, 55 test links, each among 500 negatives" in " ".join(output.split())
    assert output.count("0.01149") == 10
    assert "…" not in output


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


def test_the_means_of_several_runs_are_complete(capsys):
    cell = {"mean": 0.12345, "standard_error": 0.045678}
    names = ["model", "mean", "nearest_neighbour", "random_forest", "gaussian_process"]
    metrics = {"task": "regression", "runs": [1, 2], "notes": [],
               "summary": {name: {"rmse": cell, "r2": cell} for name in names}}  # fmt: skip
    show_repeats(metrics)
    output = capsys.readouterr().out
    assert output.count("0.1235 ± 0.04568") == 10
    assert "…" not in output


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


def test_many_components_are_rows(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    component = {"weight": 0.775, "test": dict.fromkeys(METRICS, 0.98765)}
    names = ["columns", "neighbours", "consistent", "closed_form", "propagation", "smoothed"]
    metrics = {"task": "classification", "nodes": {"test": 5}, "test": {"accuracy": 0.5},
               "components": dict.fromkeys(names, component)}  # fmt: skip
    show_metrics(metrics, "nodes")
    lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines[-7:-1]]
    assert rows == [[name.replace("_", " "), "0.775", *["0.9877"] * 5] for name in names]
    assert max(map(len, lines)) <= 80
