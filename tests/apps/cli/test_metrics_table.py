"""Table of metrics that a command prints at the end."""

import pytest

from gattn.apps.cli import console
from gattn.apps.cli.console import show_metrics


@pytest.mark.parametrize(
    ("width", "methods", "count"), [(80, 1, 1), (80, 2, 5), (80, 4, 9), (80, 30, 5), (33, 9, 5)]
)
def test_metrics_table_shows_all_baselines_and_fits_the_terminal_width(
    width, methods, count, capsys, monkeypatch
):
    monkeypatch.setattr(console, "RESULTS", console.Console(width=width, soft_wrap=True))
    metrics = ["rmse", "mae", "r2", "roc_auc", "pr_auc", "mcc", "f1", "mrr", "hits@1"][:count]
    scores = {
        f"baseline number {i}": {
            metric: 1.0117 + i / 10 + j / 100 for j, metric in enumerate(metrics)
        }
        for i in range(methods)
    }
    model, *others = scores
    show_metrics({"task": "regression", "molecules": {"test": 55}, "test": scores[model],
                  "baselines": {name: scores[name] for name in others}}, "molecules")  # fmt: skip
    text = capsys.readouterr().out.partition("On the test part")[0]
    assert max(map(len, text.splitlines())) <= width
    for name, values in scores.items():
        assert name in text or name == model
        for metric, value in values.items():
            assert metric in text
            assert f"{value:.4g}" in text


def test_metrics_table_shows_errors_per_target_and_no_mean_of_errors(capsys):
    targets = {"y_max": {"rmse": 0.25, "r2": 0.5}, "mass": {"rmse": 125.0, "r2": 0.75}}
    mean = {"rmse": 62.62, "r2": 0.625}
    metrics = {"task": "regression", "molecules": {"test": 5}, "test": mean, "targets": targets,
               "baselines": {"mean": {"rmse": 99.99, "r2": 0.1}}}  # fmt: skip
    show_metrics(metrics, "molecules")
    output = capsys.readouterr().out
    assert all(text in output for text in ("mean over 2 targets", "y_max", "0.25", "125", "0.625"))
    assert "62.62" not in output
    assert "99.99" not in output


FACTORS = [("nodes", "classification", "log probabilities"), ("nodes", "regression", "predictions")]


@pytest.mark.parametrize(("item", "task", "factor"), [*FACTORS, ("links", "ranking", "scores")])
def test_metrics_table_shows_components_and_explains_their_weights(item, task, factor, capsys):
    component = {"weight": 2.0512, "val": {}, "test": {"mrr": 0.5}}
    small = {**component, "weight": 0.000314}
    metrics = {"task": task, "negatives": 1, "fewest_negatives": 1, item: {"test": 5, "ranked": 5},
               "test": {"mrr": 0.5}, "components": {"katz": component, "gat": small}}  # fmt: skip
    show_metrics(metrics, item)
    output = capsys.readouterr().out
    title = f"components on the test part; weights multiply {factor}"
    assert title in " ".join(output.split())
    cells = [line.split() for line in output.splitlines()]
    assert ["weight", "2.05", "0.000314"] in cells
    assert ["mrr", "0.5", "0.5"] in cells


def test_long_note_is_wrapped_between_words_in_a_narrow_terminal(capsys, monkeypatch):
    terminal = console.Console(width=40, soft_wrap=True, force_terminal=True, stderr=True)
    monkeypatch.setattr(console, "NOTES", terminal)
    note = "12 rows are left out: " + "a reason with words, " * 4 + "in a" + "_long" * 9 + ".csv"
    console.say(note)
    lines = capsys.readouterr().err.splitlines()
    assert " ".join(lines) == note
    assert max(map(len, lines[:-1])) <= 40
